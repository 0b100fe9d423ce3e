//! Discord's Markdown.
//!
//! Everything that could be markup is behind a backslash, wherever it stands: the service reads a backslash before any sign as that sign
//! alone. So no text becomes a mention, an emoji, a timestamp, a heading or a link. What a backslash cannot help is taken out before by
//! [`adapted`]: code that holds the fence that would end it, and addresses that could run into what stands beside them.

use super::{Block, Container, Dialect, Document, Kind, Link, Place, Span, Style};
use std::sync::Arc;

/// Longest address that is left for the service to make a link of, in bytes. It is cut nowhere, because it fits into every part.
const ADDRESS_BYTES_MAX: usize = 400;
/// Signs that are markup in text, or become it together with others. Periods and colons are among them: `1.` begins a list, `https:` a
/// link and `:tada:` is a picture.
const SIGNS: &str = "\\`*_~|>#-+[](){}<:@.!";
/// What has a meaning of its own within an address, and means the same when it is written so.
const IN_TARGETS: [(char, &str); 6] =
    [('(', "%28"), (')', "%29"), ('*', "%2A"), ('_', "%5F"), ('~', "%7E"), ('|', "%7C")];
/// What ends and begins code.
const FENCE: &str = "```";

/// Discord's Markdown, of documents that are [`adapted`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Discord;

impl Dialect for Discord {
    fn text(&self, text: &str, place: Place, out: &mut String) {
        if place != Place::Text {
            out.push_str(text);
            return;
        }
        for c in text.chars() {
            if SIGNS.contains(c) {
                out.push('\\');
            }
            out.push(c);
        }
    }

    fn line_end(&self, _: Place, out: &mut String) {
        out.push('\n');
    }

    fn open(&self, style: Style, out: &mut String) {
        out.push_str(mark(style));
    }

    fn close(&self, style: Style, out: &mut String) {
        out.push_str(mark(style));
    }

    fn open_link(&self, link: &Link, out: &mut String) {
        if !link.bare {
            out.push('[');
        }
    }

    fn close_link(&self, link: &Link, out: &mut String) {
        if link.bare {
            return;
        }
        out.push_str("](<");
        for c in link.target.chars() {
            match IN_TARGETS.iter().find(|(sign, _)| *sign == c) {
                Some((_, written)) => out.push_str(written),
                None => out.push(c),
            }
        }
        out.push_str(">)");
    }

    fn enter(&self, _: &[Container], _: usize, _: &mut String) {}

    fn leave(&self, _: &Container, _: &mut String) {}

    fn prefix(&self, path: &[Container], fresh: usize, out: &mut String) {
        super::Plain.prefix(path, fresh, out);
    }

    fn start(&self, kind: &Kind, line: &str, out: &mut String) {
        match kind {
            Kind::Code { language, .. } => {
                let known = |c: char| c.is_ascii_alphanumeric() || "_+-.#".contains(c);
                let language = if language.chars().all(known) { language.as_str() } else { "" };
                out.extend([FENCE, language, "\n", line]);
            }
            // There are three levels.
            Kind::Heading(level) => out.extend([&"###"[..usize::from(*level).clamp(1, 3)], " "]),
            Kind::Rule => out.push_str("\\-\\-\\-"),
            Kind::Paragraph => {}
        }
    }

    fn end(&self, kind: &Kind, line: &str, out: &mut String) {
        if matches!(kind, Kind::Code { .. }) {
            out.extend(["\n", line, FENCE]);
        }
    }

    fn between(&self, shared: &[Container], tight: bool, out: &mut String) {
        out.push('\n');
        if !tight {
            // With its space: without it a line does not belong to the quotation.
            self.prefix(shared, shared.len(), out);
            out.push('\n');
        }
    }
}

/// Looks that stand within each other need signs that differ.
fn mark(style: Style) -> &'static str {
    match style {
        Style::STRONG => "**",
        Style::EMPHASIS => "_",
        Style::STRIKE => "~~",
        _ => "`",
    }
}

/// The document without what this dialect cannot say: code with its own fence within becomes text, and so do links that it does not have
/// (`mailto`) or that would come out as others.
#[must_use]
pub fn adapted(mut document: Document) -> Document {
    for block in &mut document.blocks {
        let fits = block.is_code() && !block.text().contains(FENCE) && !block.text().trim().is_empty();
        if block.is_code() && !fits {
            block.kind = Kind::Paragraph;
        }
        if !block.is_code() {
            adapt_spans(block);
        }
    }
    document
}

fn adapt_spans(block: &mut Block) {
    let old = std::mem::take(&mut block.spans);
    for (at, span) in old.iter().enumerate() {
        let mut span = span.clone();
        if span.text.contains('`') {
            span.style = span.style.without(Style::CODE);
        }
        let Some(link) = span.link.clone() else {
            block.spans.push(span);
            continue;
        };
        if is_sayable(&old, at, &link) {
            block.spans.push(span);
            continue;
        }
        span.link = None;
        block.spans.push(span);
        let goes_on = old.get(at + 1).is_some_and(|next| next.link.as_ref() == Some(&link));
        if !link.bare && !goes_on {
            block.spans.push(Span::plain(&format!(" ({})", link.target)));
        }
    }
}

/// Whether the link of the span `at` comes out as that link.
fn is_sayable(spans: &[Span], at: usize, link: &Arc<Link>) -> bool {
    let is_web = link.target.starts_with("https://") || link.target.starts_with("http://");
    if !is_web {
        return false;
    }
    let linked = |span: &&Span| span.link.as_ref() == Some(link);
    if !link.bare {
        let mut label = spans.iter().filter(linked);
        return label.all(|span| !span.text.contains(['[', ']']));
    }
    let is_space = |c: Option<char>| c.is_none_or(char::is_whitespace);
    let before = at.checked_sub(1).and_then(|before| spans[before].text.chars().next_back());
    let after = spans.get(at + 1).and_then(|after| after.text.chars().next());
    let span = &spans[at];
    span.text == link.target
        && span.text.is_ascii()
        && span.text.len() <= ADDRESS_BYTES_MAX
        && span.style == Style::default()
        && is_space(before)
        && is_space(after)
}

/// What a reader reads, for tests: the text without its markup; or what in it is markup that this dialect does not write.
#[cfg(any(test, feature = "conformance"))]
pub fn seen(markdown: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut fence: Option<String> = None;
    for line in markdown.split('\n') {
        if let Some(prefix) = &fence {
            let code = line.strip_prefix(prefix.as_str()).ok_or_else(|| format!("code ends at {line:?}"))?;
            if code == FENCE {
                fence = None;
            } else {
                out.extend([code, "\n"]);
            }
            continue;
        }
        let text = without_prefix(line);
        if text.starts_with(FENCE) {
            let prefix = &line[..line.len() - text.len()];
            let again = |c: char| if c == '>' { '>' } else { ' ' };
            fence = Some(prefix.chars().map(again).collect());
            continue;
        }
        seen_line(text, &mut out)?;
        out.push('\n');
    }
    fence.map_or(Ok(out.trim_end().to_owned()), |_| Err("code has no end".to_owned()))
}

#[cfg(any(test, feature = "conformance"))]
fn without_prefix(line: &str) -> &str {
    let mut text = line;
    loop {
        let spaces = text.trim_start_matches(' ');
        let digits = spaces.trim_start_matches(|c: char| c.is_ascii_digit());
        let number = (digits.len() < spaces.len()).then_some(digits).and_then(|rest| rest.strip_prefix(". "));
        let marks = ["> ", "- ", "# ", "## ", "### "];
        let mark = marks.iter().find_map(|mark| spaces.strip_prefix(mark));
        match mark.or(number) {
            Some(rest) => text = rest,
            None => return if text.trim().is_empty() { "" } else { spaces },
        }
    }
}

#[cfg(any(test, feature = "conformance"))]
fn seen_line(line: &str, out: &mut String) -> Result<(), String> {
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let wrong = || format!("{c:?} is markup in {line:?}");
        let after = &rest[c.len_utf8()..];
        let taken = match c {
            '\\' => {
                let escaped = after.chars().next().ok_or_else(wrong)?;
                out.push(escaped);
                1 + escaped.len_utf8()
            }
            '`' => {
                let end = after.find('`').ok_or_else(wrong)?;
                out.push_str(&after[..end]);
                end + 2
            }
            ']' => after.strip_prefix("(<").and_then(|link| link.find(">)")).ok_or_else(wrong)? + 5,
            'h' if rest.starts_with("http://") || rest.starts_with("https://") => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                out.push_str(&rest[..end]);
                end
            }
            '*' | '_' | '~' | '[' => 1,
            c if SIGNS.contains(c) => return Err(wrong()),
            c => {
                out.push(c);
                c.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::render;

    fn markdown(source: &str) -> String {
        render(&adapted(Document::parse(source)), &Discord)
    }

    #[test]
    fn what_people_write_is_said_in_its_markdown() {
        let source = "# Plan\n\nDo **this** and *that*, see [the page](https://x.test/a_(b)).\n\n1. one\n2. two\n   - deep\n\n> said\n> twice\n\n\
            ```rust\nfn main() {}\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n##### Deep\n\n<https://x.test/_p_?a=1#b>\n";
        assert_eq!(
            markdown(source),
            "# Plan\n\nDo **this** and _that_, see [the page](<https://x.test/a%5F%28b%29>)\\.\n\n1. one\n2. two\n   - deep\n\n\
             > said\n> twice\n\n```rust\nfn main\\(\\) \\{\\}\n```\n\na \\| b\n1 \\| 2\n\n### Deep\n\nhttps://x.test/_p_?a=1#b"
                .replace("main\\(\\) \\{\\}", "main() {}")
        );
    }

    #[test]
    fn nothing_becomes_a_mention_a_picture_or_a_link() {
        for (source, expected) in [
            ("@everyone @here", "\\@everyone \\@here"),
            ("<@123456789012345678>", "\\<\\@123456789012345678\\>"),
            ("&lt;#1> &lt;t:0:R> :tada: &lt;/x:1>", "\\<\\#1\\> \\<t\\:0\\:R\\> \\:tada\\: \\</x\\:1\\>"),
            ("https://evil.test ||x||", "https\\://evil\\.test \\|\\|x\\|\\|"),
            ("\\# a\n\\- b\n1\\. c", "\\# a\n\\- b\n1\\. c"),
            ("[x](mailto:ada@x.test)", "x \\(mailto\\:ada\\@x\\.test\\)"),
            ("a<https://x.test>", "ahttps\\://x\\.test"),
            ("<https://x.test>.", "https\\://x\\.test\\."),
            ("[a [b] c](https://x.test)", "a \\[b\\] c \\(https\\://x\\.test\\)"),
        ] {
            assert_eq!(markdown(source), expected, "{source}");
        }
    }

    #[test]
    fn code_that_would_end_itself_is_text() {
        assert_eq!(markdown("`` a`b ``"), "a\\`b");
        assert_eq!(markdown("~~~\na\n```\n@everyone\n~~~"), "a\n\\`\\`\\`\n\\@everyone");
        assert_eq!(markdown("~~~c++\nx `y`\n~~~"), "```c++\nx `y`\n```");
        assert_eq!(markdown("~~~a,b\nx\n~~~"), "```\nx\n```");
    }

    #[test]
    fn a_quotation_keeps_its_empty_lines() {
        assert_eq!(markdown("> a\n>\n> b"), "> a\n> \n> b");
        assert_eq!(markdown("- a\n\n  b\n- c"), "- a\n  \n  b\n- c");
    }

    #[test]
    fn a_reader_sees_through_it() {
        assert_eq!(
            seen("> **a** _b_ \\*c\\* `d*` [e](<https://x.test>)\n1. f"),
            Ok("a b *c* d* e\nf".into())
        );
        assert_eq!(seen("- ```rust\n  - x\n  ```\nend"), Ok("- x\nend".into()));
        for wrong in ["<@1>", "@everyone", "a: b", "```\nx", "a | b", "`x"] {
            assert!(seen(wrong).is_err(), "{wrong}");
        }
    }
}
