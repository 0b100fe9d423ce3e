//! Slack's mrkdwn (<https://docs.slack.dev/messaging/formatting-message-text>). It escapes `&`, `<` and `>` and nothing else, so that
//! neither a mention nor a link can arise from text; but `*`, `_`, `~`, backticks, a `>` that begins a line and `:names:` have no escape.
//! [`tame`] keeps them from being markup where they could be: it puts an invisible [`BREAK`] between them and what they would mark.
//!
//! A look is written with a [`GLUE`] on its outside, for Slack sees marks at the ends of words alone. Neither character occurs in a
//! document ([`super::clean`] drops both), so that a reader can tell a mark that is meant from one that is text.

use super::{Block, Container, Dialect, Document, Kind, Link, Place, Span, Style};

/// Stands outside of a look's mark: zero-width space.
pub const GLUE: char = '\u{200B}';
/// Stands beside a mark that is text: word joiner.
pub const BREAK: char = '\u{2060}';

/// mrkdwn, of a document that [`tame`] has seen.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mrkdwn;

/// `text` with the three characters escaped that Slack reads as control characters.
pub(crate) fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            c => out.push(c),
        }
    }
}

fn mark(style: Style) -> char {
    match style {
        Style::STRONG => '*',
        Style::EMPHASIS => '_',
        Style::STRIKE => '~',
        _ => '`',
    }
}

impl Dialect for Mrkdwn {
    fn text(&self, text: &str, _: Place, out: &mut String) {
        escape(text, out);
    }

    fn line_end(&self, _: Place, out: &mut String) {
        out.push('\n');
    }

    fn open(&self, style: Style, out: &mut String) {
        out.extend([GLUE, mark(style)]);
    }

    fn close(&self, style: Style, out: &mut String) {
        out.extend([mark(style), GLUE]);
    }

    fn open_link(&self, link: &Link, out: &mut String) {
        out.push('<');
        escape(&link.target.replace('|', "%7C"), out);
        out.push('|');
    }

    fn close_link(&self, _: &Link, out: &mut String) {
        out.push('>');
    }

    fn enter(&self, _: &[Container], _: usize, _: &mut String) {}

    fn leave(&self, _: &Container, _: &mut String) {}

    /// Slack shows the first `>` of a line as a quotation and knows no lists: the rest are characters that look like them.
    fn prefix(&self, path: &[Container], fresh: usize, out: &mut String) {
        for (at, container) in path.iter().enumerate() {
            match container {
                Container::Quote { .. } => out.push_str("> "),
                Container::List { .. } => {}
                Container::Item { number, .. } => {
                    let marker = number.map_or_else(|| "• ".to_owned(), |number| format!("{number}. "));
                    let shown = at >= fresh;
                    out.push_str(&if shown { marker } else { " ".repeat(marker.chars().count()) });
                }
            }
        }
    }

    /// A language would be the first line of the code.
    fn start(&self, kind: &Kind, line: &str, out: &mut String) {
        match kind {
            Kind::Code { .. } => out.extend(["```\n", line]),
            Kind::Rule => out.push_str("──────────"),
            Kind::Paragraph | Kind::Heading(_) => {}
        }
    }

    fn end(&self, kind: &Kind, line: &str, out: &mut String) {
        if let Kind::Code { .. } = kind {
            out.extend(["\n", line, "```"]);
        }
    }

    fn between(&self, shared: &[Container], tight: bool, out: &mut String) {
        out.push('\n');
        if !tight {
            let mut line = String::new();
            self.prefix(shared, shared.len(), &mut line);
            out.push_str(line.trim_end());
            out.push('\n');
        }
    }
}

/// The document as mrkdwn can show it: looks and links end with their line, a heading is bold, a link has no looks, and characters that
/// Slack would take for markup have a [`BREAK`] beside them.
#[must_use]
pub fn tame(document: &Document) -> Document {
    Document { blocks: document.blocks.iter().map(tame_block).collect() }
}

fn tame_block(block: &Block) -> Block {
    let mut tamed = block.clone();
    match &block.kind {
        Kind::Code { .. } => tamed.spans.iter_mut().for_each(|span| span.text = tame_code(&span.text)),
        kind => {
            let heading = matches!(kind, Kind::Heading(_));
            tamed.spans = block.spans.iter().flat_map(|span| lines(span, heading)).collect();
        }
    }
    tamed
}

/// Three backticks would end the code.
fn tame_code(text: &str) -> String {
    text.replace("```", &format!("``{BREAK}`{BREAK}"))
}

/// The span's lines, with their ends between them.
fn lines(span: &Span, heading: bool) -> Vec<Span> {
    let mut style = if heading { span.style.with(Style::STRONG) } else { span.style };
    if span.text.contains('`') {
        style = style.without(Style::CODE);
    }
    if span.link.is_some() {
        style = Style::default();
    }
    let mut out = Vec::new();
    for (number, line) in span.text.split('\n').enumerate() {
        if number > 0 {
            out.push(Span::plain("\n"));
        }
        if !line.is_empty() {
            let text = if style.has(Style::CODE) { line.to_owned() } else { tame_line(line) };
            out.push(Span { text, style, link: span.link.clone() });
        }
    }
    out
}

fn tame_line(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut before = None;
    for (at, c) in line.char_indices() {
        let rest = &line[at + c.len_utf8()..];
        if c == '>' && out.trim().is_empty() {
            out.push(BREAK);
        }
        out.push(c);
        if is_markup(before, c, rest) {
            out.push(BREAK);
        }
        before = Some(c);
    }
    out
}

/// Whether Slack could take `c` for markup: not within a word, as in `snake_case`, and not by itself, as in `2 * 3`.
fn is_markup(before: Option<char>, c: char, rest: &str) -> bool {
    let after = rest.chars().next();
    let both = |test: fn(char) -> bool| before.is_some_and(test) && after.is_some_and(test);
    match c {
        '*' | '_' | '~' | '`' => !both(char::is_alphanumeric) && !both(char::is_whitespace),
        ':' => is_emoji_name(before, rest),
        _ => false,
    }
}

/// Whether what follows a colon is a name and another colon; digits between digits are a time of day.
fn is_emoji_name(before: Option<char>, rest: &str) -> bool {
    let good = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '+' | '\'');
    let name = rest.split(':').next().unwrap_or_default();
    let digits = name.chars().all(|c| c.is_ascii_digit());
    let is_time = digits && before.is_some_and(|c| c.is_ascii_digit());
    name.len() < rest.len() && !name.is_empty() && name.chars().all(good) && !is_time
}

#[cfg(test)]
mod tests {
    use super::super::{Limit, Plain, render, split};
    use super::*;
    use switchboard_core::port::channel::LengthUnit;

    fn shown(source: &str) -> String {
        render(&tame(&Document::parse(source)), &Mrkdwn).replace(GLUE, "").replace(BREAK, "·")
    }

    #[test]
    fn it_writes_what_slack_reads() {
        for (source, expected) in [
            ("# Plan *x*\n\n**bold** _it_ ~~gone~~ `co*de`", "*Plan _x_*\n\n*bold* _it_ ~gone~ `co*de`"),
            ("[the page](https://x.test/?a=1&b=2|3)", "<https://x.test/?a=1&amp;b=2%7C3|the page>"),
            (
                "<https://x.test> and <ada@x.test>",
                "<https://x.test|https://x.test> and <mailto:ada@x.test|ada@x.test>",
            ),
            ("1. one\n2. two\n   - deep\n\n> said\n> twice", "1. one\n2. two\n   • deep\n\n> said\n> twice"),
            ("```rust\nlet a = b && c;\n```", "```\nlet a = b &amp;&amp; c;\n```"),
            ("| a | b |\n|---|---|\n| 1 | 2 |\n\n---", "a | b\n1 | 2\n\n──────────"),
            (
                "**two\nlines** [and *a*\nlink](https://x.test)",
                "*two*\n*lines* <https://x.test|and a>\n<https://x.test|link>",
            ),
        ] {
            assert_eq!(shown(source), expected, "{source}");
        }
    }

    #[test]
    fn nothing_of_the_text_becomes_markup() {
        for (source, expected) in [
            (
                "<!channel> <@U024BE7LH> <#C1|x> @here",
                "&lt;!channel&gt; &lt;@U024BE7LH&gt; &lt;#C1|x&gt; @here",
            ),
            ("\\*not bold\\* snake_case 2 * 3 ~/bin", "*·not bold*· snake_case 2 * 3 ~·/bin"),
            ("a :smile: at 12:30:15 in std::vec::Vec", "a :·smile: at 12:30:15 in std::·vec::Vec"),
            ("\\> no quote", "·&gt; no quote"),
            ("`` a`b ``", "a`b"),
            ("~~~\n```\n~~~", "```\n``·`·\n```"),
        ] {
            assert_eq!(shown(source), expected, "{source}");
        }
    }

    #[test]
    fn a_long_fence_is_closed_and_opened_in_each_part() {
        let source = format!("```rust\n{}```", "let x = a & b;\n".repeat(600));
        let limit = Limit::new(3000, LengthUnit::Utf16);
        let parts = split(&tame(&Document::parse(&source)), &Mrkdwn, limit, false);
        assert!(parts.len() > 3);
        for part in &parts {
            let text = render(part, &Mrkdwn);
            assert!(text.starts_with("```\nlet") && text.ends_with(";\n```") && text.len() <= 3000, "{text}");
        }
        let code: usize = parts.iter().map(|part| render(part, &Plain).matches("let x").count()).sum();
        assert_eq!(code, 600);
    }
}
