//! A draft as parts: each one event of plain text and HTML.

use crate::document::Limit;
use crate::document::{
    Document, Matrix, MatrixEvent, Plain, Span, Style, clean_line, render, split, without_mentions,
};
use jiff::Timestamp;
use switchboard_core::port::channel::{Draft, LengthUnit, MessageKind, Part};
use unicode_segmentation::UnicodeSegmentation as _;

/// Longest part: bytes of its plain text and its HTML together, as JSON writes them. An event may have 65 536 bytes with all that servers
/// add to it (ids, hashes, signatures of every hop, the events before it) and with what we do: choices, a relation, an outcome.
pub const PART_BYTES_MAX: usize = 40_000;
/// Most parts of a message.
pub const PARTS_MAX: usize = 20;
/// Most choices: there are keycap emoji for so many.
pub const CHOICES_MAX: usize = 9;
/// Graphemes of an agent's name or a choice that are shown.
const NAME_GRAPHEMES_MAX: usize = 80;
/// What a short code is written with, so that it is found in an answer.
const CODE_PREFIX: &str = "SB-";

/// What stands above the choices.
const CHOICES_LEAD: &str = "React with a number, or send what stands behind it:";

/// The parts; the last has the buttons.
pub(super) fn prepare(draft: &Draft<'_>) -> Result<Vec<Part>, String> {
    let mut document = Document::default();
    document.push(head(draft));
    document.blocks.extend(Document::parse(draft.body).blocks);
    let buttons = &draft.buttons[..draft.buttons.len().min(CHOICES_MAX)];
    if !buttons.is_empty() {
        document.push(choices(draft));
    }
    add_foot(&mut document, draft);
    without_mentions(&mut document);
    let documents = split(&document, &MatrixEvent, Limit::new(PART_BYTES_MAX, LengthUnit::Bytes), true);
    if documents.len() > PARTS_MAX {
        let count = documents.len();
        return Err(format!("has {count} parts on Matrix and must have at most {PARTS_MAX}: shorten it"));
    }
    let mut parts: Vec<Part> = documents.iter().map(part).collect();
    if let Some(last) = parts.last_mut() {
        last.buttons = buttons.to_vec();
    }
    Ok(parts)
}

fn part(document: &Document) -> Part {
    Part { text: render(document, &Plain), html: Some(render(document, &Matrix)), ..Part::default() }
}

/// One line of plain text in both forms, for what is put under a message.
pub(super) fn line(text: &str) -> Part {
    let mut document = Document::default();
    document.push_text(&clean_line(text));
    without_mentions(&mut document);
    part(&document)
}

/// A part without its choices, for when they are none any more.
pub(super) fn without_choices(part: &Part) -> Part {
    if part.buttons.is_empty() {
        return part.clone();
    }
    let html =
        part.html.as_deref().map(|html| without_last(html, &format!("\n<p>{CHOICES_LEAD}"), "</p>", 4));
    let text = without_last(&part.text, &format!("\n\n{CHOICES_LEAD}"), "\n\n", 0);
    Part { text, html, buttons: Vec::new(), ..part.clone() }
}

/// `text` without what begins with the last `start`, up to `kept` bytes behind the start of the next `end`. The last, for what an agent wrote
/// stands before it.
fn without_last(text: &str, start: &str, end: &str, kept: usize) -> String {
    let Some(from) = text.rfind(start) else { return text.to_owned() };
    let rest = &text[from + start.len()..];
    let rest = rest.find(end).map_or("", |at| &rest[at + kept..]);
    format!("{}{rest}", &text[..from])
}

fn head(draft: &Draft<'_>) -> Vec<Span> {
    let lead = match draft.kind {
        MessageKind::Question => "Question from ",
        MessageKind::Approval => "Approval wanted by ",
        MessageKind::Notice => "From ",
    };
    let strong = |text: &str| Span { style: Style::STRONG, ..Span::plain(text) };
    vec![Span::plain(lead), strong(&shortened(draft.from))]
}

/// A line for each choice: its keycap, its label, and what can be sent instead of pressing it.
fn choices(draft: &Draft<'_>) -> Vec<Span> {
    let mut spans = vec![Span::plain(CHOICES_LEAD)];
    for (number, button) in (1..=CHOICES_MAX).zip(draft.buttons) {
        spans.push(Span::plain(&format!("\n{number}\u{fe0f}\u{20e3} {} ", shortened(&button.label))));
        spans.push(Span { style: Style::CODE, ..Span::plain(&clean_line(&button.value)) });
    }
    spans
}

fn add_foot(document: &mut Document, draft: &Draft<'_>) {
    if let Some(link) = draft.link {
        document.push(vec![Span::plain("Answer in a browser: "), Span::link(link)]);
    }
    let deadline = draft.deadline_ms.and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let until = deadline.map(|at| format!("An answer counts until {} UTC.", at.strftime("%Y-%m-%d %H:%M")));
    let code = draft.code.map(|code| format!("[{}]", tagged(code)));
    let foot: Vec<String> = until.into_iter().chain(code).collect();
    if !foot.is_empty() {
        document.push_text(&foot.join(" "));
    }
}

fn tagged(code: &str) -> String {
    let code = clean_line(code);
    if code.starts_with(CODE_PREFIX) { code } else { format!("{CODE_PREFIX}{code}") }
}

fn shortened(text: &str) -> String {
    let text = clean_line(text);
    match text.grapheme_indices(true).nth(NAME_GRAPHEMES_MAX) {
        Some((at, _)) => format!("{}…", text[..at].trim_end()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use switchboard_core::port::channel::Button;

    fn button(label: &str, value: &str) -> Button {
        Button { label: label.into(), value: value.into() }
    }

    const DRAFT: Draft<'static> = Draft {
        body: "**Deploy** to production?\n\n- now\n- later",
        kind: MessageKind::Question,
        from: "build-agent",
        code: Some("K7QD3M"),
        deadline_ms: Some(1_767_225_600_000),
        buttons: &[],
        link: Some("https://hub.test/q/1"),
    };

    #[test]
    fn a_question_says_who_asks_how_to_answer_and_until_when() {
        let buttons = [button("Yes", "SB-K7QD3M.1"), button("No @room", "SB-K7QD3M.2")];
        let parts = prepare(&Draft { buttons: &buttons, ..DRAFT }).unwrap();
        assert_eq!(parts.len(), 1);
        assert_eq!(parts[0].buttons, buttons);
        assert_eq!(
            parts[0].text,
            "Question from build-agent\n\nDeploy to production?\n\n- now\n- later\n\n\
             React with a number, or send what stands behind it:\n1️⃣ Yes SB-K7QD3M.1\n2️⃣ No @\u{2060}room SB-K7QD3M.2\n\n\
             Answer in a browser: https://hub.test/q/1\n\nAn answer counts until 2026-01-01 00:00 UTC. [SB-K7QD3M]"
        );
        let html = parts[0].html.as_deref().unwrap();
        assert!(
            html.starts_with(
                "<p>Question from <strong>build-agent</strong></p>\n<p><strong>Deploy</strong> to"
            ),
            "{html}"
        );
        assert!(html.contains("1️⃣ Yes <code>SB-K7QD3M.1</code><br />\n2️⃣ No"), "{html}");
    }

    #[test]
    fn long_texts_become_numbered_parts_and_too_long_ones_are_refused() {
        let body = "A sentence with \"quotes\" & <brackets>. ".repeat(2000);
        let parts = prepare(&Draft { body: &body, ..DRAFT }).unwrap();
        assert!(parts.len() > 2, "{}", parts.len());
        for (at, part) in parts.iter().enumerate() {
            let size = |text: &str| serde_json::to_string(text).unwrap().len() - 2;
            assert!(size(&part.text) + size(part.html.as_deref().unwrap()) <= PART_BYTES_MAX);
            assert!(part.text.ends_with(&format!("({}/{})", at + 1, parts.len())));
        }
        let why = prepare(&Draft { body: &"word ".repeat(200_000), ..DRAFT }).unwrap_err();
        assert!(why.contains("shorten it"), "{why}");
    }

    #[test]
    fn foreign_names_stay_short_and_on_their_line() {
        let from = format!("eve\r\n\u{202e}{}", "x".repeat(500));
        let part = prepare(&Draft { from: &from, kind: MessageKind::Approval, ..DRAFT }).unwrap().remove(0);
        let first = part.text.lines().next().unwrap();
        assert!(
            first.starts_with("Approval wanted by eve x") && first.ends_with('…') && first.len() < 120,
            "{first}"
        );
    }
}
