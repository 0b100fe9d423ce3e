//! A draft as the one part of a mail.

use crate::document::{Document, Html, Plain, Span, clean_line, render};
use jiff::Timestamp;
use switchboard_core::port::channel::{Draft, MessageKind, Part};
use unicode_segmentation::UnicodeSegmentation as _;

/// Longest text or HTML of a mail, in bytes.
pub(super) const PART_BYTES_MAX: usize = 2 << 20;
/// Graphemes of a body's first line that stand in the subject.
const SUMMARY_GRAPHEMES_MAX: usize = 70;
/// Graphemes of an agent's name that stand in the subject.
const NAME_GRAPHEMES_MAX: usize = 40;
/// What a short code is written with in a subject, so that it is found there again.
const CODE_PREFIX: &str = "SB-";

/// The part. `answers` says whether mails that come back are read.
pub(super) fn prepare(draft: &Draft<'_>, answers: bool) -> Result<Part, String> {
    let mut document = Document::parse(draft.body);
    let subject = subject(draft, &document.visible());
    add_choices(&mut document, draft, answers);
    add_footer(&mut document, draft, answers);
    let (text, html) = (render(&document, &Plain), render(&document, &Html));
    if text.len().max(html.len()) > PART_BYTES_MAX {
        return Err("the body is longer than the 2 MiB of a mail; shorten it or send a link".to_owned());
    }
    let html = format!(
        "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\" /></head><body>\n{html}\n</body></html>\n"
    );
    Ok(Part { text: text + "\n", html: Some(html), subject: Some(subject), ..Part::default() })
}

fn subject(draft: &Draft<'_>, visible: &str) -> String {
    let first = visible.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let from = shortened(&clean_line(draft.from), NAME_GRAPHEMES_MAX);
    let summary = shortened(&clean_line(first), SUMMARY_GRAPHEMES_MAX);
    let code = draft.code.map(|code| format!("[{}] ", tagged(code))).unwrap_or_default();
    match draft.kind {
        MessageKind::Question => format!("{code}Question from {from}: {summary}"),
        MessageKind::Notice => format!("{code}{from}: {summary}"),
        MessageKind::Approval => format!("{code}Approval wanted by {from}: {summary}"),
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

fn add_choices(document: &mut Document, draft: &Draft<'_>, answers: bool) {
    let labels: Vec<String> = draft.buttons.iter().map(|button| clean_line(&button.label)).collect();
    let choices = match (labels.is_empty(), draft.kind) {
        (false, _) => labels.join(" / "),
        (true, MessageKind::Approval) => "approve / deny".to_owned(),
        (true, _) => String::new(),
    };
    if answers && !choices.is_empty() {
        document.push_text(&format!("Reply with: {choices}"));
    }
    if let Some(link) = draft.link {
        let is_approval = draft.kind == MessageKind::Approval;
        let lead = match (answers, is_approval) {
            (true, false) => "Or answer in a browser: ",
            (false, false) => "Answer in a browser: ",
            (true, true) => "Or decide in a browser: ",
            (false, true) => "Decide in a browser: ",
        };
        document.push(vec![Span::plain(lead), Span::link(link)]);
        if is_approval {
            document.push_text("Whoever has this link decides in your name: do not pass this mail on.");
        }
    }
    if let Some(deadline) = draft.deadline_ms.and_then(|ms| Timestamp::from_millisecond(ms).ok()) {
        document.push_text(&format!("An answer counts until {} UTC.", deadline.strftime("%Y-%m-%d %H:%M")));
    }
}

fn add_footer(document: &mut Document, draft: &Draft<'_>, answers: bool) {
    document.push_rule();
    let mut footer = format!("The agent {} wrote this through Switchboard.", clean_line(draft.from));
    if answers && draft.kind != MessageKind::Notice {
        footer += " Reply to this mail to answer it.";
    }
    if answers {
        footer += " Reply STOP to get no more.";
    }
    if let Some(code) = draft.code {
        footer.extend([" Its code is ", &clean_line(code), "."]);
    }
    document.push_text(&footer);
}

#[cfg(test)]
mod tests {
    use super::*;
    use switchboard_core::port::channel::Button;

    const DRAFT: Draft<'static> = Draft {
        body: "**Deploy** to production?\n\nSee the [plan](https://x.test/plan).",
        kind: MessageKind::Question,
        from: "build-agent",
        code: Some("K7QD"),
        deadline_ms: Some(1_767_225_600_000),
        buttons: &[],
        link: Some("https://hub.test/q/1"),
    };

    #[test]
    fn a_question_says_what_how_and_until_when() {
        let part = prepare(&DRAFT, true).unwrap();
        assert_eq!(
            part.subject.as_deref(),
            Some("[SB-K7QD] Question from build-agent: Deploy to production?")
        );
        assert_eq!(
            part.text,
            "Deploy to production?\n\nSee the plan (https://x.test/plan).\n\nOr answer in a browser: https://hub.test/q/1\n\n\
             An answer counts until 2026-01-01 00:00 UTC.\n\n---\n\nThe agent build-agent wrote this through Switchboard. \
             Reply to this mail to answer it. Reply STOP to get no more. Its code is K7QD.\n"
        );
        assert!(part.html.unwrap().contains("<strong>Deploy</strong>"));
    }

    #[test]
    fn choices_stand_in_the_text_and_nothing_is_promised_that_nobody_reads() {
        let buttons = [
            Button { label: "Yes".into(), value: "v1".into() },
            Button { label: "No".into(), value: "v2".into() },
        ];
        let text = |draft: &Draft<'_>, answers| prepare(draft, answers).unwrap().text;
        assert!(text(&Draft { buttons: &buttons, ..DRAFT }, true).contains("\n\nReply with: Yes / No\n\n"));
        let approval = Draft { kind: MessageKind::Approval, ..DRAFT };
        assert!(text(&approval, true).contains("\n\nReply with: approve / deny\n\n"));
        assert!(!text(&approval, false).contains("Reply"));
        let decide = "\n\nDecide in a browser: https://hub.test/q/1\n\nWhoever has this link decides";
        assert!(text(&approval, false).contains(decide));
        assert!(text(&approval, true).contains("\n\nOr decide in a browser: https://hub.test/q/1\n\n"));
    }

    #[test]
    fn foreign_text_stays_on_its_line_and_has_its_end() {
        let from = "eve\r\nBcc: all@example.org\u{202E}";
        let body = format!("{}\nsecond", "long ".repeat(100));
        let subject =
            prepare(&Draft { from, body: &body, code: None, ..DRAFT }, true).unwrap().subject.unwrap();
        assert!(
            !subject.contains(['\r', '\n', '\u{202E}'])
                && subject.starts_with("Question from eve Bcc: all@example.org: long")
        );
        assert!(subject.ends_with('…') && subject.len() < 150, "{subject}");
        let huge = "&".repeat(PART_BYTES_MAX / 2);
        assert!(prepare(&Draft { body: &huge, ..DRAFT }, true).unwrap_err().contains("2 MiB"));
    }
}
