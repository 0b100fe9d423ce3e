//! A draft as the parts of a message.

use super::KIND;
use crate::document::discord::adapted;
use crate::document::{Discord, Document, Limit, Span, Style, clean_line, render, split};
use jiff::Timestamp;
use std::sync::Arc;
use switchboard_core::port::channel::{Button, Draft, LengthUnit, MessageKind, Part};
use unicode_segmentation::UnicodeSegmentation as _;

/// Longest message that Discord takes, in its characters. The documentation does not say what one is; in UTF-16 units no text is shorter.
pub(super) const MESSAGE_UNITS_MAX: usize = 2000;
/// Longest part: what is left belongs to the outcome that may be put under it later.
pub(super) const PART_UNITS_MAX: usize = 1800;
/// Most parts of a message.
pub(super) const PARTS_MAX: usize = 50;
/// Most buttons: two rows of five.
pub(super) const BUTTONS_MAX: usize = 10;
/// Longest label of a button, in UTF-16 units.
const LABEL_UNITS_MAX: usize = 80;
/// Graphemes of an agent's name that are shown.
const NAME_GRAPHEMES_MAX: usize = 60;
/// What a short code is written with, so that it is found in an answer.
const CODE_PREFIX: &str = "SB-";

/// The parts; buttons are under the last.
pub(super) fn prepare(draft: &Draft<'_>) -> Result<Vec<Part>, String> {
    if draft.buttons.len() > BUTTONS_MAX {
        return Err(format!(
            "has {} buttons, and {KIND} shows at most {BUTTONS_MAX}: offer fewer choices",
            draft.buttons.len()
        ));
    }
    let mut document = Document::default();
    document.push(vec![Span { style: Style::STRONG, ..Span::plain(&head(draft)) }]);
    document.blocks.extend(Document::parse(draft.body).blocks);
    add_foot(&mut document, draft);
    let limit = Limit::new(PART_UNITS_MAX, LengthUnit::Utf16);
    let parts = split(&adapted(document), &Discord, limit, true);
    if parts.len() > PARTS_MAX {
        return Err(format!(
            "becomes {} messages on {KIND}, and at most {PARTS_MAX} are sent: shorten it or send a link",
            parts.len()
        ));
    }
    let text = |part: &Document| Part { text: render(part, &Discord), ..Part::default() };
    let mut parts: Vec<Part> = parts.iter().map(text).collect();
    if let Some(last) = parts.last_mut() {
        last.buttons = draft.buttons.iter().map(button).collect();
    }
    Ok(parts)
}

/// `text` as one message of plain text, shortened to fit behind `before` and its empty line.
pub(super) fn under(before: &str, text: &str) -> String {
    let mut kept = clean_line(text);
    loop {
        let mut document = Document::default();
        document.push(vec![Span::plain(&kept)]);
        let line = render(&adapted(document), &Discord);
        let joined = if before.is_empty() { line } else { format!("{before}\n\n{line}") };
        if units(&joined) <= MESSAGE_UNITS_MAX || kept.is_empty() {
            return joined;
        }
        // Escaped it has at most twice as many signs: every round takes away enough for few of them.
        let keep = kept.graphemes(true).count() * 3 / 4;
        let shorter = shortened(&kept, keep.saturating_sub(1));
        kept = if shorter.len() < kept.len() { shorter } else { String::new() };
    }
}

fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

fn head(draft: &Draft<'_>) -> String {
    let from = shortened(&clean_line(draft.from), NAME_GRAPHEMES_MAX);
    match draft.kind {
        MessageKind::Question => format!("Question from {from}"),
        MessageKind::Notice => from,
        MessageKind::Approval => format!("Approval wanted by {from}"),
    }
}

/// One paragraph, which stays in one part.
fn add_foot(document: &mut Document, draft: &Draft<'_>) {
    let mut lines: Vec<Vec<Span>> = Vec::new();
    if draft.kind != MessageKind::Notice {
        let deadline = draft.deadline_ms.and_then(|ms| Timestamp::from_millisecond(ms).ok());
        let until =
            deadline.map(|at| format!(" An answer counts until {} UTC.", at.strftime("%Y-%m-%d %H:%M")));
        let how = if draft.buttons.is_empty() {
            "Reply to this message"
        } else {
            "Press a button or reply to this message"
        };
        lines.push(vec![Span::plain(&format!("{how} to answer.{}", until.unwrap_or_default()))]);
    }
    if let Some(link) = draft.link.and_then(|link| Span::link(link).link) {
        let shown = crate::document::Link { target: link.target.clone(), bare: false };
        lines.push(vec![Span { link: Some(Arc::new(shown)), ..Span::plain("Answer in a browser") }]);
    }
    if let Some(code) = draft.code {
        lines.push(vec![Span::plain(&format!("[{}]", tagged(code)))]);
    }
    if !lines.is_empty() {
        document.push(lines.join(&Span::plain("\n")));
    }
}

fn tagged(code: &str) -> String {
    let code = clean_line(code);
    if code.starts_with(CODE_PREFIX) { code } else { format!("{CODE_PREFIX}{code}") }
}

fn shortened(text: &str, max: usize) -> String {
    match text.grapheme_indices(true).nth(max) {
        Some((at, _)) => format!("{}…", text[..at].trim_end()),
        None => text.to_owned(),
    }
}

/// A button as it is shown. Its label is text alone: nothing in it is markup.
fn button(button: &Button) -> Button {
    let mut label = clean_line(&button.label);
    if units(&label) > LABEL_UNITS_MAX {
        let mut used = 1;
        let fits = |grapheme: &&str| {
            used += units(grapheme);
            used <= LABEL_UNITS_MAX
        };
        label = label.graphemes(true).take_while(fits).collect::<String>() + "…";
    }
    if label.is_empty() {
        // Discord refuses one without a label.
        label.clone_from(&button.value);
    }
    Button { label, value: button.value.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAFT: Draft<'static> = Draft {
        body: "**Deploy** to @everyone?",
        kind: MessageKind::Question,
        from: "build_agent",
        code: Some("K7QD"),
        deadline_ms: Some(1_767_225_600_000),
        buttons: &[],
        link: Some("https://hub.test/q/1"),
    };

    #[test]
    fn a_question_says_who_how_and_until_when() {
        assert_eq!(
            prepare(&DRAFT).unwrap()[0].text,
            "**Question from build\\_agent**\n\n**Deploy** to \\@everyone?\n\n\
             Reply to this message to answer\\. An answer counts until 2026\\-01\\-01 00\\:00 UTC\\.\n\
             [Answer in a browser](<https://hub.test/q/1>)\n\\[SB\\-K7QD\\]"
        );
        let notice = Draft { kind: MessageKind::Notice, code: None, deadline_ms: None, link: None, ..DRAFT };
        assert_eq!(prepare(&notice).unwrap()[0].text, "**build\\_agent**\n\n**Deploy** to \\@everyone?");
    }

    #[test]
    fn a_long_text_is_several_messages_and_the_last_has_the_buttons() {
        let buttons = [
            Button { label: "é".repeat(100), value: "v1".into() },
            Button { label: " ".into(), value: "v2".into() },
        ];
        let body = "words and more of them. ".repeat(400);
        let parts = prepare(&Draft { body: &body, buttons: &buttons, ..DRAFT }).unwrap();
        assert!(parts.len() > 5 && parts.iter().all(|part| units(&part.text) <= PART_UNITS_MAX));
        assert!(parts[0].text.ends_with(&format!("\\(1/{}\\)", parts.len())), "{}", parts[0].text);
        assert!(parts[..parts.len() - 1].iter().all(|part| part.buttons.is_empty()));
        let last = &parts[parts.len() - 1].buttons;
        assert_eq!((last[0].label.clone(), last[1].label.as_str()), ("é".repeat(79) + "…", "v2"));
        let endless = "x".repeat(PART_UNITS_MAX * PARTS_MAX + 1);
        assert!(prepare(&Draft { body: &endless, ..DRAFT }).unwrap_err().contains("shorten it"));
        let many = vec![buttons[0].clone(); BUTTONS_MAX + 1];
        assert!(prepare(&Draft { buttons: &many, ..DRAFT }).unwrap_err().contains("offer fewer"));
    }

    #[test]
    fn an_outcome_fits_under_every_part() {
        assert_eq!(under("text", "Ada: yes & *no*"), "text\n\nAda\\: yes & \\*no\\*");
        let long = under(&"x".repeat(PART_UNITS_MAX), &"*".repeat(5000));
        assert!(
            units(&long) <= MESSAGE_UNITS_MAX && long.ends_with('…') && long.contains("\\*\\*"),
            "{long}"
        );
        assert_eq!(under("", "one\ntwo"), "one two");
        assert!(units(&under("", &"👩‍👩‍👧‍👦".repeat(3000))) <= MESSAGE_UNITS_MAX);
    }
}
