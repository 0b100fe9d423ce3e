//! A draft as parts in Telegram's HTML.

use super::{PART_UNITS_MAX, PARTS_MAX};
use crate::document::{Document, Limit, Span, Style, Telegram, clean_line, render, split};
use jiff::Timestamp;
use switchboard_core::port::channel::{Button, Draft, LengthUnit, MessageKind, Part};
use unicode_segmentation::UnicodeSegmentation as _;

/// Graphemes of an agent's name that are shown.
const NAME_GRAPHEMES_MAX: usize = 64;
/// What a short code is written with, so that it is found in an answer.
const CODE_PREFIX: &str = "SB-";

/// The parts; buttons are under the last.
pub(super) fn prepare(draft: &Draft<'_>) -> Result<Vec<Part>, String> {
    let mut document = head(draft);
    document.blocks.extend(Document::parse(draft.body).blocks);
    add_foot(&mut document, draft);
    let limit = Limit::new(PART_UNITS_MAX, LengthUnit::Utf16);
    // What is far too long is not cut first.
    if limit.measure(&document.visible()) > PARTS_MAX * PART_UNITS_MAX {
        return Err(too_long());
    }
    let documents = split(&document, &Telegram, limit, true);
    if documents.len() > PARTS_MAX {
        return Err(too_long());
    }
    let text = |document| Part { text: render(document, &Telegram), ..Part::default() };
    let mut parts: Vec<Part> = documents.iter().map(text).collect();
    if let Some(last) = parts.last_mut() {
        last.buttons = draft.buttons.iter().map(labelled).collect();
    }
    Ok(parts)
}

fn too_long() -> String {
    format!("the body takes more than {PARTS_MAX} messages of Telegram; shorten it or send a link")
}

/// Who writes, and what is wanted.
fn head(draft: &Draft<'_>) -> Document {
    let from = shortened(&clean_line(draft.from), NAME_GRAPHEMES_MAX);
    let lead = match draft.kind {
        MessageKind::Question => "Question from ",
        MessageKind::Notice => "From ",
        MessageKind::Approval => "Approval wanted by ",
    };
    let mut document = Document::default();
    document.push(vec![Span { style: Style::STRONG, ..Span::plain(&format!("{lead}{from}")) }]);
    document
}

/// How, where and until when it can be answered.
fn add_foot(document: &mut Document, draft: &Draft<'_>) {
    if draft.kind == MessageKind::Approval && draft.buttons.is_empty() {
        document.push_text("Reply with: approve / deny");
    }
    if let Some(link) = draft.link {
        document.push(vec![Span::plain("Or answer in a browser: "), Span::link(link)]);
    }
    if let Some(deadline) = draft.deadline_ms.and_then(|ms| Timestamp::from_millisecond(ms).ok()) {
        document.push_text(&format!("An answer counts until {} UTC.", deadline.strftime("%Y-%m-%d %H:%M")));
    }
    if let Some(code) = draft.code {
        let code = clean_line(code);
        let code = code.strip_prefix(CODE_PREFIX).unwrap_or(&code);
        document.push_text(&format!("[{CODE_PREFIX}{code}]"));
    }
}

/// Telegram refuses buttons on which nothing stands.
fn labelled(button: &Button) -> Button {
    let label = shortened(&clean_line(&button.label), NAME_GRAPHEMES_MAX);
    Button { label: if label.is_empty() { "?".to_owned() } else { label }, value: button.value.clone() }
}

/// At most `max` graphemes of a line.
pub(super) fn shortened(text: &str, max: usize) -> String {
    match text.grapheme_indices(true).nth(max) {
        Some((at, _)) => format!("{}…", text[..at].trim_end()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::TELEGRAM_JOINER as JOINER;

    const DRAFT: Draft<'static> = Draft {
        body: "**Deploy** to production?\n\nSee the [plan](https://x.test/plan), @ada.",
        kind: MessageKind::Question,
        from: "build <agent>",
        code: Some("K7QD"),
        deadline_ms: Some(1_767_225_600_000),
        buttons: &[],
        link: Some("https://hub.test/q/1"),
    };

    #[test]
    fn a_question_says_who_what_how_and_until_when() {
        let button = Button { label: " Yes\n".into(), value: "v1".into() };
        let parts = prepare(&Draft { buttons: &[button], ..DRAFT }).unwrap();
        assert_eq!(parts.len(), 1);
        assert_eq!(
            parts[0].text.replace(JOINER, ""),
            "<b>Question from build &lt;agent&gt;</b>\n\n<b>Deploy</b> to production?\n\n\
             See the <a href=\"https://x.test/plan\">plan</a>, @ada.\n\n\
             Or answer in a browser: <a href=\"https://hub.test/q/1\">https://hub.test/q/1</a>\n\n\
             An answer counts until 2026-01-01 00:00 UTC.\n\n[SB-K7QD]"
        );
        assert_eq!(parts[0].buttons, [Button { label: "Yes".into(), value: "v1".into() }]);
    }

    #[test]
    fn long_texts_are_numbered_parts_with_the_buttons_under_the_last() {
        let body = "Some words & more. ".repeat(3500);
        let buttons = [Button { label: "\u{202e}".into(), value: "v1".into() }];
        let parts = prepare(&Draft { body: &body, buttons: &buttons, ..DRAFT }).unwrap();
        assert!(parts.len() > 16, "{}", parts.len());
        for (at, part) in parts.iter().enumerate() {
            assert!(part.text.encode_utf16().count() <= PART_UNITS_MAX);
            assert!(part.text.ends_with(&format!("({}/{})", at + 1, parts.len())), "{}", part.text);
            assert_eq!(part.buttons.len(), usize::from(at + 1 == parts.len()));
        }
        assert_eq!(parts.last().unwrap().buttons[0].label, "?");
        let huge = "word ".repeat(40_000);
        assert!(prepare(&Draft { body: &huge, ..DRAFT }).unwrap_err().contains("shorten it"));
    }
}
