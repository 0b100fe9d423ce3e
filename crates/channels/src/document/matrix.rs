//! The HTML of Matrix: of the tags that the specification lets clients show (client-server API, `m.room.message` formats) only those that
//! documents need, without any attribute but a link's target, a list's start and a fence's language.
//!
//! A message has a plain body beside its HTML, and clients make mentions and pills of both. [`without_mentions`] takes away what they look
//! for, by a character that nobody sees.

use super::split::unlink;
use super::{Block, Container, Dialect, Document, Html, Kind, Link, Place, Plain, Style};

/// What is put into text that would otherwise become a mention. No text of a document holds one by itself: cleaning drops it.
pub const WORD_JOINER: char = '\u{2060}';

/// The host of links that clients show as the person or the room that they name.
const PERMALINK_HOST: &str = "matrix.to";
/// What pings everybody in a room, where old servers still look for it.
const EVERYBODY: &str = "room";

/// HTML of Matrix.
#[derive(Debug, Clone, Copy, Default)]
pub struct Matrix;

impl Dialect for Matrix {
    fn text(&self, text: &str, place: Place, out: &mut String) {
        Html.text(text, place, out);
    }

    fn line_end(&self, place: Place, out: &mut String) {
        Html.line_end(place, out);
    }

    fn open(&self, style: Style, out: &mut String) {
        match style {
            Style::STRIKE => out.push_str("<del>"),
            style => Html.open(style, out),
        }
    }

    fn close(&self, style: Style, out: &mut String) {
        match style {
            Style::STRIKE => out.push_str("</del>"),
            style => Html.close(style, out),
        }
    }

    fn open_link(&self, link: &Link, out: &mut String) {
        Html.open_link(link, out);
    }

    fn close_link(&self, link: &Link, out: &mut String) {
        Html.close_link(link, out);
    }

    fn enter(&self, path: &[Container], at: usize, out: &mut String) {
        Html.enter(path, at, out);
    }

    fn leave(&self, container: &Container, out: &mut String) {
        Html.leave(container, out);
    }

    fn prefix(&self, _: &[Container], _: usize, _: &mut String) {}

    fn start(&self, kind: &Kind, line: &str, out: &mut String) {
        match kind {
            Kind::Paragraph => out.push_str("<p>"),
            Kind::Heading(level) => out.extend(["<h", &level.to_string(), ">"]),
            Kind::Code { language, .. } if is_language(language) => {
                out.extend(["<pre><code class=\"language-", language, "\">"]);
            }
            kind => Html.start(kind, line, out),
        }
    }

    fn end(&self, kind: &Kind, line: &str, out: &mut String) {
        Html.end(kind, line, out);
    }

    fn between(&self, shared: &[Container], tight: bool, out: &mut String) {
        Html.between(shared, tight, out);
    }
}

/// Whether a fence's language can stand in a class.
fn is_language(language: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"+#_.-".contains(&byte);
    !language.is_empty() && language.bytes().all(plain)
}

/// What a document takes in an event, to cut it by: its HTML and its plain text, with a character more for each that JSON escapes.
#[derive(Debug, Clone, Copy, Default)]
pub struct MatrixEvent;

/// Lets both dialects write, and adds what JSON will.
fn both(out: &mut String, write: impl Fn(&dyn Dialect, &mut String)) {
    let began = out.len();
    write(&Matrix, out);
    write(&Plain, out);
    let escaped = out[began..].bytes().filter(|byte| matches!(byte, b'"' | b'\\' | b'\n' | b'\t')).count();
    out.extend(std::iter::repeat_n('\\', escaped));
}

impl Dialect for MatrixEvent {
    fn text(&self, text: &str, place: Place, out: &mut String) {
        both(out, |dialect, out| dialect.text(text, place, out));
    }

    fn line_end(&self, place: Place, out: &mut String) {
        both(out, |dialect, out| dialect.line_end(place, out));
    }

    fn open(&self, style: Style, out: &mut String) {
        both(out, |dialect, out| dialect.open(style, out));
    }

    fn close(&self, style: Style, out: &mut String) {
        both(out, |dialect, out| dialect.close(style, out));
    }

    fn open_link(&self, link: &Link, out: &mut String) {
        both(out, |dialect, out| dialect.open_link(link, out));
    }

    fn close_link(&self, link: &Link, out: &mut String) {
        both(out, |dialect, out| dialect.close_link(link, out));
    }

    fn enter(&self, path: &[Container], at: usize, out: &mut String) {
        both(out, |dialect, out| dialect.enter(path, at, out));
    }

    fn leave(&self, container: &Container, out: &mut String) {
        both(out, |dialect, out| dialect.leave(container, out));
    }

    fn prefix(&self, path: &[Container], fresh: usize, out: &mut String) {
        both(out, |dialect, out| dialect.prefix(path, fresh, out));
    }

    fn start(&self, kind: &Kind, line: &str, out: &mut String) {
        both(out, |dialect, out| dialect.start(kind, line, out));
    }

    fn end(&self, kind: &Kind, line: &str, out: &mut String) {
        both(out, |dialect, out| dialect.end(kind, line, out));
    }

    fn between(&self, shared: &[Container], tight: bool, out: &mut String) {
        both(out, |dialect, out| dialect.between(shared, tight, out));
    }
}

/// Makes text of every link that would show as a person or a room, and breaks what clients would make a mention of: `@room`, user ids, room
/// aliases and addresses of `matrix.to`. In a block of code only the first and the last are: clients leave ids there alone, and people copy
/// code.
pub fn without_mentions(document: &mut Document) {
    for block in &mut document.blocks {
        unlink_permalinks(block);
        let text = block.text();
        for at in breaks(&text, block.is_code()).into_iter().rev() {
            insert(block, at);
        }
    }
}

fn unlink_permalinks(block: &mut Block) {
    for at in (0..block.spans.len()).rev() {
        let Some(link) = block.spans[at].link.clone() else { continue };
        let goes_on = block.spans.get(at + 1).is_some_and(|next| next.link.as_ref() == Some(&link));
        if !goes_on && !breaks(&link.target, true).is_empty() {
            unlink(block, at, &link.target);
        }
    }
}

/// Where in `text` a character that nobody sees has to stand.
fn breaks(text: &str, code: bool) -> Vec<usize> {
    let mut found = Vec::new();
    for (at, c) in text.char_indices() {
        let rest = &text[at..];
        match c {
            '@' if begins(&rest[1..], EVERYBODY) || (!code && is_id(&rest[1..])) => found.push(at + 1),
            '#' if !code && is_id(&rest[1..]) => found.push(at + 1),
            'm' | 'M' if begins(rest, PERMALINK_HOST) => found.push(at + "matrix".len()),
            _ => {}
        }
    }
    found
}

fn begins(text: &str, with: &str) -> bool {
    text.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with))
}

/// Whether `text` begins like what stands behind the sigil of an id: `ada:example.org`.
fn is_id(text: &str) -> bool {
    let end = text.find(|c: char| c == ':' || c.is_whitespace() || matches!(c, '@' | '#' | '<' | '>'));
    let Some((local, rest)) = end.map(|end| text.split_at(end)) else { return false };
    let mut rest = rest.chars();
    !local.is_empty()
        && rest.next() == Some(':')
        && rest.next().is_some_and(|c| c.is_alphanumeric() || c == '[')
}

/// Puts the joiner at byte `at` of a leaf's text.
fn insert(block: &mut Block, mut at: usize) {
    for span in &mut block.spans {
        if at <= span.text.len() {
            span.text.insert(at, WORD_JOINER);
            return;
        }
        at -= span.text.len();
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Limit, render, split};
    use super::*;
    use proptest::prelude::*;
    use switchboard_core::port::channel::LengthUnit;

    fn harmless(source: &str) -> Document {
        let mut document = Document::parse(source);
        without_mentions(&mut document);
        document
    }

    #[test]
    fn only_allowed_tags_are_written() {
        let html = render(
            &Document::parse("# A\n\n~~b~~ **c**\n\n3. d\n\n```rust\ne<f>\n```\n```\"x\ng\n```"),
            &Matrix,
        );
        assert_eq!(
            html,
            "<h1>A</h1>\n<p><del>b</del> <strong>c</strong></p>\n<ol start=\"3\"><li><p>d</p></li></ol>\n\
             <pre><code class=\"language-rust\">e&lt;f&gt;</code></pre>\n<pre><code>g</code></pre>"
        );
    }

    #[test]
    fn no_text_becomes_a_mention() {
        let broken = [
            ("@room", "@\u{2060}room"),
            ("@**Room** hi", "@\u{2060}Room hi"),
            ("`@room`", "@\u{2060}room"),
            ("ask @ada:example.org now", "ask @\u{2060}ada:example.org now"),
            ("see #ops:example.org", "see #\u{2060}ops:example.org"),
            ("https://matrix.to/#/@ada:x.test", "https://matrix\u{2060}.to/#/@\u{2060}ada:x.test"),
            (
                "[Ada](https://matrix.to/#/@ada:x.test)",
                "Ada (https://matrix\u{2060}.to/#/@\u{2060}ada:x.test)",
            ),
            (
                "[Ada](https://MATRIX.TO/#/%40ada:x.test)",
                "Ada (https://MATRIX\u{2060}.TO/#\u{2060}/%40ada:x.test)",
            ),
        ];
        for (source, expected) in broken {
            let document = harmless(source);
            assert_eq!(render(&document, &Plain), expected, "{source}");
            assert!(!render(&document, &Matrix).contains("<a "), "{source}");
        }
        for whole in [
            "ada@example.org",
            "a @property here",
            "# not an id",
            "10:30 @ noon",
            "```\n@ada:x.test #a:b\n```",
        ] {
            assert!(!render(&harmless(whole), &Plain).contains(WORD_JOINER), "{whole}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

        #[test]
        fn an_events_size_is_that_of_both_bodies_in_json(source in "(\\PC{0,40}|[>*_`~\\[\\]()!|#@\n\"\\\\ -]{0,40}){0,8}") {
            let document = harmless(&source);
            for part in split(&document, &MatrixEvent, Limit::new(600, LengthUnit::Bytes), false) {
                let size = |dialect: &dyn Dialect| serde_json::to_string(&render(&part, dialect)).map_or(0, |json| json.len() - 2);
                let measured = render(&part, &MatrixEvent).len();
                prop_assert_eq!(size(&Matrix) + size(&Plain), measured);
                prop_assert!(measured <= 600);
            }
        }

        #[test]
        fn nothing_is_left_to_mention(source in "(@|room|ROOM|matrix|\\.to|[a-z]{1,3}|:|#|\\*| |\n|`){0,24}") {
            let text = render(&harmless(&source), &Plain).to_lowercase();
            prop_assert!(!text.contains("@room") && !text.contains("matrix.to"), "{}", text);
        }
    }
}
