//! The person's own words in a mail: without what they quote, without their signature.
//!
//! Nothing is guessed about what a sentence means. A line is left out when it is quoted (`>`), introduces a quotation, or stands behind what
//! mail programs put above a whole quoted mail; HTML loses its quotation elements first.

use mail_parser::decoders::html::html_to_text;
use mail_parser::{Message, MimeHeaders as _, PartType};

/// Longest text that is handed on, in bytes; the rest is cut.
pub(super) const TEXT_BYTES_MAX: usize = 64 * 1024;
/// Longest line that can introduce a quotation, in bytes.
const INTRODUCTION_BYTES_MAX: usize = 300;

/// What introduces a quotation at its line's beginning and end, in the languages that mail programs speak.
const INTRODUCTIONS: [(&str, &str); 16] = [
    ("on ", "wrote:"),
    ("am ", "schrieb:"),
    ("am ", ":"),
    ("le ", "écrit :"),
    ("le ", "écrit :"),
    ("el ", "escribió:"),
    ("il ", "scritto:"),
    ("il giorno ", ":"),
    ("em ", "escreveu:"),
    ("op ", "schreef:"),
    ("den ", "skrev:"),
    ("w dniu ", ":"),
    ("dnia ", ":"),
    ("пн, ", ":"),
    ("于", "写道："),
    ("", "のメッセージ:"),
];

/// First names of the header lines that stand above a mail quoted as a whole.
const FROM_LINES: [&str; 9] = ["from:", "von:", "de :", "de:", "da:", "van:", "från:", "od:", "от:"];
/// And of the one that follows within a few lines.
const SENT_LINES: [&str; 12] = [
    "sent:",
    "date:",
    "gesendet:",
    "datum:",
    "envoyé :",
    "envoyé:",
    "enviado:",
    "inviato:",
    "verzonden:",
    "skickat:",
    "wysłano:",
    "отправлено:",
];

/// The text of `mail`.
pub(super) fn of(mail: &Message<'_>) -> String {
    let Some(part) =
        mail.text_bodies().find(|part| matches!(part.body, PartType::Text(_) | PartType::Html(_)))
    else {
        return String::new();
    };
    let text = match &part.body {
        PartType::Html(html) => html_to_text(&without_quotes(html)),
        _ if is_flowed(part) => unflowed(part.text_contents().unwrap_or_default()),
        _ => part.text_contents().unwrap_or_default().to_owned(),
    };
    let text = crate::document::clean(&text).into_owned();
    cut(own(&text), TEXT_BYTES_MAX)
}

fn is_flowed(part: &mail_parser::MessagePart<'_>) -> bool {
    let format = part.content_type().and_then(|kind| kind.attribute("format"));
    format.is_some_and(|format| format.eq_ignore_ascii_case("flowed"))
}

fn cut(mut text: String, max: usize) -> String {
    text.truncate(text.floor_char_boundary(max));
    text
}

/// Lines that a mail program has wrapped, in one again (RFC 3676).
fn unflowed(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let quoted = line.starts_with('>');
        let line = if quoted { line } else { line.strip_prefix(' ').unwrap_or(line) };
        out.push_str(line);
        if quoted || !line.ends_with(' ') || line == "-- " {
            out.push('\n');
        }
    }
    out
}

fn own(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let mut kept: Vec<&str> = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        if ends_here(&lines, at) {
            break;
        }
        match introduction(&lines, at) {
            Some(length) => at += length,
            None if lines[at].trim_start().starts_with('>') => at += 1,
            None => {
                kept.push(lines[at]);
                at += 1;
            }
        }
    }
    let mut own = String::new();
    for line in kept {
        // Where a quotation was, one empty line is left.
        if !(line.is_empty() && (own.is_empty() || own.ends_with("\n\n"))) {
            own.push_str(line);
            own.push('\n');
        }
    }
    own.trim().to_owned()
}

/// Whether nothing behind line `at` is the person's own.
fn ends_here(lines: &[&str], at: usize) -> bool {
    let line = lines[at].trim();
    let ruled =
        |mark: char| line.len() >= 5 && line.starts_with(&mark.to_string().repeat(5)) && line.ends_with(mark);
    if line == "--" || ruled('-') && line.contains(' ') {
        return true;
    }
    let below = if ruled('_') { at + 1 } else { at };
    headers_at(lines, below)
}

/// Whether the lines at `at` are the headers of a mail quoted as a whole.
fn headers_at(lines: &[&str], at: usize) -> bool {
    let begins = |line: &str, with: &[&str]| {
        let line = line.trim().trim_start_matches('*').to_lowercase();
        with.iter().any(|start| line.starts_with(start))
    };
    let mut near = lines[at.min(lines.len())..].iter().filter(|line| !line.trim().is_empty());
    near.next().is_some_and(|line| begins(line, &FROM_LINES))
        && near.take(3).any(|line| begins(line, &SENT_LINES))
}

/// How many lines at `at` introduce a quotation. It must follow, or the line is the person's own.
fn introduction(lines: &[&str], at: usize) -> Option<usize> {
    if lines[at].trim().is_empty() {
        return None;
    }
    let mut joined = String::new();
    for length in 1..=3 {
        let line = lines.get(at + length - 1)?.trim();
        joined =
            if joined.is_empty() { line.to_lowercase() } else { format!("{joined} {}", line.to_lowercase()) };
        if joined.len() > INTRODUCTION_BYTES_MAX {
            return None;
        }
        let mut after = lines[at + length..].iter().filter(|line| !line.trim().is_empty());
        let next = after.next();
        let quoted = next.is_some_and(|line| line.trim_start().starts_with('>'));
        // At the end of a text stand the introductions whose quotation was an element of HTML.
        let introduces = |(start, end): &(&str, &str)| {
            joined.starts_with(start) && joined.ends_with(end) && (quoted || next.is_none() && *end != ":")
        };
        if INTRODUCTIONS.iter().any(introduces) && joined.contains(|c: char| c.is_ascii_digit()) {
            return Some(length);
        }
    }
    None
}

/// HTML without its quotations: `blockquote`, and what Gmail, Outlook, Yahoo and Proton put around a quoted mail.
fn without_quotes(html: &str) -> String {
    let mut out = String::with_capacity(html.len());
    let mut depth = 0_usize;
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        let tag_end = rest[at..].find('>').map_or(rest.len(), |end| at + end + 1);
        let tag = rest[at..tag_end].to_ascii_lowercase();
        if depth == 0 {
            out.push_str(&rest[..at]);
            if ends_own_html(&tag) {
                return out;
            }
        }
        if tag.starts_with("<blockquote") {
            depth += 1;
        }
        if depth == 0 {
            out.push_str(&rest[at..tag_end]);
        }
        if tag.starts_with("</blockquote") {
            depth = depth.saturating_sub(1);
        }
        rest = &rest[tag_end..];
    }
    if depth == 0 {
        out.push_str(rest);
    }
    out
}

fn ends_own_html(tag: &str) -> bool {
    let quotes = [
        "divrplyfwdmsg",
        "appendonsend",
        "mail-editor-reference-message-container",
        "gmail_quote",
        "yahoo_quoted",
        "protonmail_quote",
    ];
    (tag.starts_with("<div") || tag.starts_with("<hr")) && quotes.iter().any(|name| tag.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotations_and_signatures_are_left_out() {
        for (text, expected) in [
            ("Yes.\n\nOn Mon, Nov 30, 2026 at 9:48 PM Switchboard <sb@x.test> wrote:\n> Deploy?\n", "Yes."),
            (
                "Yes.\n\nOn Mon, Nov 30, 2026 at 9:48 PM Switchboard <a-very-long@x.test>\nwrote:\n\n> Deploy?\n",
                "Yes.",
            ),
            ("Ja.\n\nAm 30.11.26 um 21:48 schrieb Switchboard:\n> Deploy?", "Ja."),
            ("Oui.\n\nLe lun. 30 nov. 2026 à 21:48, SB <sb@x.test> a écrit :\n> Q", "Oui."),
            ("Ok\n-- \nAda\nPhone 1", "Ok"),
            ("Ok\n\n-----Original Message-----\nFrom: x", "Ok"),
            ("Ok\n\n________________________________\nVon: SB\nGesendet: Montag\nAn: Ada\n\nQ", "Ok"),
            ("> Q1?\nyes\n\n> Q2?\nno", "yes\n\nno"),
            ("On Monday I wrote:\nthis myself", "On Monday I wrote:\nthis myself"),
            ("From: nobody said that\nand I go on", "From: nobody said that\nand I go on"),
            ("> only a quotation", ""),
        ] {
            assert_eq!(own(text), expected, "{text:?}");
        }
    }

    #[test]
    fn html_loses_its_quotations() {
        for (html, expected) in [
            (
                "<p>Yes</p><blockquote>old <blockquote>older</blockquote> old</blockquote><p>and no</p>",
                "Yes and no",
            ),
            (
                "<div>Yes</div><div class=\"gmail_quote gmail_quote_container\">On … wrote:<br><blockquote>Q</blockquote></div>",
                "Yes",
            ),
            ("<div>Yes</div><div id=\"divRplyFwdMsg\">From: x</div><div>Q</div>", "Yes"),
            ("<p>1 &lt; 2</p>", "1 < 2"),
            ("<blockquote>never closed", ""),
        ] {
            let text = html_to_text(&without_quotes(html));
            assert_eq!(text.split_whitespace().collect::<Vec<_>>().join(" "), expected, "{html}");
        }
    }

    #[test]
    fn wrapped_lines_are_one_again_and_length_has_its_end() {
        assert_eq!(unflowed("one \ntwo\n-- \nme\n> q \n> r\n"), "one two\n-- \nme\n> q \n> r\n");
        assert_eq!(cut("äää".to_owned(), 3), "ä");
    }
}
