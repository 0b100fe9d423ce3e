//! A draft as messages of Slack. The text of a part is mrkdwn and fits into one section; who wrote it is the part's subject, which is
//! shown above as plain text.

use crate::document::slack::{Mrkdwn, tame};
use crate::document::{Document, Limit, Span, clean_line, render, split};
use jiff::Timestamp;
use switchboard_core::port::channel::{Button, Draft, LengthUnit, MessageKind, Part};
use unicode_segmentation::UnicodeSegmentation as _;

/// Longest text of a section. Slack counts characters and does not say which: UTF-16 units are never fewer than others.
pub(super) const PART_MAX: usize = 3000;
/// Most parts of one message.
pub(super) const PARTS_MAX: usize = 40;
/// Most buttons under one message. Slack takes 25, and draws five in a row.
pub(super) const BUTTONS_MAX: usize = 5;
/// Longest label of a button, in UTF-16 units.
const LABEL_MAX: usize = 75;
/// Longest label in the text, in graphemes.
const WHOLE_LABEL_GRAPHEMES_MAX: usize = 300;
/// Graphemes of an agent's name that are shown.
const NAME_GRAPHEMES_MAX: usize = 80;
/// Begins what the channel adds below the text.
pub const FOOTER: &str = "↩ ";
/// What a short code is written with.
const CODE_PREFIX: &str = "SB-";

/// The parts. `answers` says whether what people write and press comes back.
pub(super) fn prepare(draft: &Draft<'_>, answers: bool) -> Result<Vec<Part>, String> {
    // Far too much is not even read.
    if length(draft.body) > PART_MAX * PARTS_MAX {
        return Err(too_long(length(draft.body).div_ceil(PART_MAX)));
    }
    let mut document = Document::parse(draft.body);
    if render(&document, &Mrkdwn).trim().is_empty() {
        return Err("has no text that could be seen".into());
    }
    let buttons = if answers { buttons(&mut document, draft.buttons) } else { Vec::new() };
    add_footer(&mut document, draft, answers, !buttons.is_empty());
    let limit = Limit::new(PART_MAX, LengthUnit::Utf16);
    let documents = split(&tame(&document), &Mrkdwn, limit, false);
    let texts = documents.iter().map(|part| render(part, &Mrkdwn));
    let mut parts: Vec<Part> =
        texts.filter(|text| !text.trim().is_empty()).map(|text| Part { text, ..Part::default() }).collect();
    if parts.len() > PARTS_MAX {
        return Err(too_long(parts.len()));
    }
    if let Some(first) = parts.first_mut() {
        first.subject = Some(subject(draft));
    }
    if let Some(last) = parts.last_mut() {
        last.buttons = buttons;
    }
    Ok(parts)
}

fn too_long(parts: usize) -> String {
    format!(
        "takes {parts} messages of {PART_MAX} characters and must take at most {PARTS_MAX}: shorten it or send a link"
    )
}

fn subject(draft: &Draft<'_>) -> String {
    let from = shortened(&clean_line(draft.from), NAME_GRAPHEMES_MAX);
    match draft.kind {
        MessageKind::Question => format!("Question from {from}"),
        MessageKind::Notice => format!("From {from}"),
        MessageKind::Approval => format!("Approval wanted by {from}"),
    }
}

fn shortened(text: &str, max: usize) -> String {
    match text.grapheme_indices(true).nth(max) {
        Some((at, _)) => format!("{}…", text[..at].trim_end()),
        None => text.to_owned(),
    }
}

/// The buttons with labels that fit. What does not fit on them stands in the text, with its number.
fn buttons(document: &mut Document, choices: &[Button]) -> Vec<Button> {
    let labels: Vec<String> = choices.iter().map(|choice| clean_line(&choice.label)).collect();
    if choices.len() > BUTTONS_MAX {
        document.push_text(&format!("Reply with: {}", labels.join(" / ")));
        return Vec::new();
    }
    let fits = |label: &String| !label.is_empty() && length(label) <= LABEL_MAX;
    if labels.iter().all(fits) {
        let kept = choices.iter().zip(labels);
        return kept.map(|(choice, label)| Button { label, value: choice.value.clone() }).collect();
    }
    let lines = labels.iter().enumerate();
    let lines =
        lines.map(|(at, label)| format!("{}. {}", at + 1, shortened(label, WHOLE_LABEL_GRAPHEMES_MAX)));
    document.push_text(&lines.collect::<Vec<_>>().join("\n"));
    let cut = labels.iter().enumerate().map(|(at, label)| cut_label(&format!("{}. {label}", at + 1)));
    choices.iter().zip(cut).map(|(choice, label)| Button { label, value: choice.value.clone() }).collect()
}

fn length(text: &str) -> usize {
    text.encode_utf16().count()
}

/// As many graphemes as fit, and an ellipsis if that is not all.
fn cut_label(label: &str) -> String {
    if length(label) <= LABEL_MAX {
        return label.to_owned();
    }
    let mut out = String::new();
    for grapheme in label.graphemes(true) {
        if length(&out) + length(grapheme) + 1 > LABEL_MAX {
            break;
        }
        out.push_str(grapheme);
    }
    format!("{}…", out.trim_end())
}

fn add_footer(document: &mut Document, draft: &Draft<'_>, answers: bool, pressed: bool) {
    let asks = draft.kind != MessageKind::Notice;
    let mut sentences = Vec::new();
    if asks && answers {
        let how = if pressed {
            "Press a button, or reply in this thread."
        } else {
            "Reply in this thread to answer."
        };
        sentences.push(Span::plain(how));
    }
    if let Some(link) = draft.link {
        sentences.extend([Span::plain("In a browser:"), Span::link(link)]);
    }
    let deadline = draft.deadline_ms.and_then(|ms| Timestamp::from_millisecond(ms).ok());
    if let Some(deadline) = deadline {
        let until = deadline.strftime("%Y-%m-%d %H:%M");
        sentences.push(Span::plain(&format!("An answer counts until {until} UTC.")));
    }
    if let Some(code) = draft.code.filter(|_| answers) {
        sentences.push(Span::plain(&format!("[{}]", tagged(code))));
    }
    if sentences.is_empty() {
        return;
    }
    let mut spans = vec![Span::plain(FOOTER.trim_end())];
    for sentence in sentences {
        spans.extend([Span::plain(" "), sentence]);
    }
    document.push(spans);
}

fn tagged(code: &str) -> String {
    let code = clean_line(code);
    if code.starts_with(CODE_PREFIX) { code } else { format!("{CODE_PREFIX}{code}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAFT: Draft<'static> = Draft {
        body: "**Deploy** to <production>?\n\nSee the [plan](https://x.test/plan).",
        kind: MessageKind::Question,
        from: "build-agent",
        code: Some("K7QD"),
        deadline_ms: Some(1_767_225_600_000),
        buttons: &[],
        link: Some("https://hub.test/q/1"),
    };

    fn button(label: &str) -> Button {
        Button { label: label.into(), value: "v".into() }
    }

    fn only(draft: &Draft<'_>, answers: bool) -> Part {
        prepare(draft, answers).unwrap().remove(0)
    }

    #[test]
    fn a_question_says_what_how_and_until_when() {
        let part = only(&DRAFT, true);
        assert_eq!(part.subject.as_deref(), Some("Question from build-agent"));
        assert_eq!(
            part.text.replace('\u{200B}', ""),
            "*Deploy* to &lt;production&gt;?\n\nSee the <https://x.test/plan|plan>.\n\n↩ Reply in this thread to answer. In a browser: \
             <https://hub.test/q/1|https://hub.test/q/1> An answer counts until 2026-01-01 00:00 UTC. [SB-K7QD]"
        );
        let pressed = only(&Draft { buttons: &[button("Yes")], ..DRAFT }, true);
        assert!(pressed.text.contains("↩ Press a button, or reply in this thread."));
        assert_eq!(pressed.buttons, [button("Yes")]);
    }

    #[test]
    fn nothing_is_promised_that_nobody_reads() {
        let part = only(&Draft { buttons: &[button("Yes")], ..DRAFT }, false);
        assert!(
            part.buttons.is_empty() && !part.text.contains("eply") && !part.text.contains("SB-"),
            "{}",
            part.text
        );
        assert!(part.text.contains("↩ In a browser: <https://hub.test/q/1|"));
        let notice = Draft { kind: MessageKind::Notice, code: None, deadline_ms: None, link: None, ..DRAFT };
        assert!(!only(&notice, true).text.contains(FOOTER.trim_end()));
    }

    #[test]
    fn labels_that_do_not_fit_stand_whole_in_the_text() {
        let long = format!("Yes, {}", "👩‍👩‍👧‍👦".repeat(20));
        let part = only(&Draft { buttons: &[button(&long), button("")], ..DRAFT }, true);
        assert!(part.text.contains(&format!("1. {long}\n2. ")));
        assert!(part.buttons[0].label.ends_with("👩‍👩‍👧‍👦…") && length(&part.buttons[0].label) <= LABEL_MAX);
        assert_eq!(part.buttons[1].label, "2. ");
        let many: Vec<Button> = (0..6).map(|at| button(&format!("<{at}>"))).collect();
        let part = only(&Draft { buttons: &many, ..DRAFT }, true);
        assert!(part.buttons.is_empty() && part.text.contains("Reply with: &lt;0&gt; / "));
    }

    #[test]
    fn long_and_empty_bodies_are_refused_and_64_kb_are_not() {
        let parts = prepare(&Draft { body: &"word ".repeat(13_000), ..DRAFT }, true).unwrap();
        assert!((22..=PARTS_MAX).contains(&parts.len()), "{}", parts.len());
        assert!(parts.iter().all(|part| length(&part.text) <= PART_MAX));
        assert!(parts.last().unwrap().text.ends_with("[SB-K7QD]"));
        assert_eq!(parts.iter().filter(|part| part.subject.is_some()).count(), 1);
        assert!(
            prepare(&Draft { body: &"&".repeat(60_000), ..DRAFT }, true).unwrap_err().contains("shorten")
        );
        for empty in ["", " \n", "\u{200b}"] {
            assert!(prepare(&Draft { body: empty, ..DRAFT }, true).is_err(), "{empty:?}");
        }
    }
}
