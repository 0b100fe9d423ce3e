//! The HTML that Telegram's Bot API reads (`parse_mode` `HTML`): `b`, `i`, `s`, `code`, `pre`, `a` and `blockquote`, which does not nest.
//! Line ends are line ends; lists are text with markers; a heading is bold; a link to a mail address is text.
//!
//! Telegram finds mentions (`@ada`), commands (`/stop`), tags (`#x`, `$USD`) and addresses (`evil.example`, `t.me/ada`) in text without
//! being told to, and makes them clickable. An invisible [`JOINER`] behind the character that begins one keeps it text: readers see
//! what was written, and find the joiner only when they copy it. Nothing is put into code, where Telegram looks for nothing, nor into
//! addresses that are written out with `http://` or `https://` (those of Telegram itself excepted), which lead where they say.

use super::{Container, Dialect, Kind, Link, Place, Style};

/// Telegram's HTML.
#[derive(Debug, Clone, Copy, Default)]
pub struct Telegram;

/// What keeps text from being more than text (U+2060, WORD JOINER). Foreign text never holds one: it is cleaned before it is rendered.
pub const JOINER: char = '\u{2060}';

/// Hosts at which an address is a person, a group or a bot.
const TELEGRAM_HOSTS: [&str; 3] = ["t.me", "telegram.me", "telegram.dog"];
const RULE: &str = "———";

fn escape(c: char, out: &mut String) {
    match c {
        '&' => out.push_str("&amp;"),
        '<' => out.push_str("&lt;"),
        '>' => out.push_str("&gt;"),
        c => out.push(c),
    }
}

/// Whether what stands between `before` and `next` could begin something clickable. What is not known counts as if it could.
fn begins(before: Option<char>, c: char, next: Option<char>) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    match c {
        '@' | '#' | '$' | '＠' | '＃' => next.is_none_or(is_word),
        '/' => !before.is_some_and(is_word) && next.is_none_or(is_word),
        '.' | '。' => before.is_none_or(is_word) && next.is_none_or(char::is_alphabetic),
        _ => false,
    }
}

/// How many bytes from the start of `text` are an address that is written out and leads away from Telegram; 0 when there is none.
fn written_out(text: &str) -> usize {
    let starts =
        |scheme: &str| text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    let Some(scheme) = ["http://", "https://"].into_iter().find(|scheme| starts(scheme)) else { return 0 };
    let ends = |c: char| c.is_whitespace() || matches!(c, '<' | '>' | '"' | '|');
    let end = text.find(ends).unwrap_or(text.len());
    let rest = &text[scheme.len()..end];
    let authority = &rest[..rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len())];
    let host = authority.split(':').next().unwrap_or_default().trim_end_matches('.').to_ascii_lowercase();
    let is_telegrams = TELEGRAM_HOSTS
        .iter()
        .any(|known| host.strip_suffix(known).is_some_and(|sub| sub.is_empty() || sub.ends_with('.')));
    let is_plain = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'));
    if host.is_empty() || is_telegrams || !is_plain { 0 } else { end }
}

/// Running text of one look.
fn running(text: &str, out: &mut String) {
    let (mut before, mut at) = (None, 0);
    let mut kept_to = 0;
    while let Some(c) = text[at..].chars().next() {
        if matches!(c, 'h' | 'H') && !before.is_some_and(char::is_alphanumeric) {
            kept_to = kept_to.max(at + written_out(&text[at..]));
        }
        let next = text[at + c.len_utf8()..].chars().next();
        escape(c, out);
        // Within an address that is kept, a mention could still begin where Telegram does not take it for one.
        if (at >= kept_to || c == '@') && begins(before, c, next) {
            out.push(JOINER);
        }
        before = Some(c);
        at += c.len_utf8();
    }
}

fn tag(style: Style) -> &'static str {
    match style {
        Style::STRONG => "b",
        Style::EMPHASIS => "i",
        Style::STRIKE => "s",
        _ => "code",
    }
}

fn is_quote(container: &Container) -> bool {
    matches!(container, Container::Quote { .. })
}

/// Telegram takes links to `http` and `https`.
fn leads(link: &Link) -> bool {
    !link.target.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("mailto:"))
}

impl Dialect for Telegram {
    fn text(&self, text: &str, place: Place, out: &mut String) {
        match place {
            Place::Text | Place::Address => running(text, out),
            Place::Code | Place::Fence => text.chars().for_each(|c| escape(c, out)),
        }
    }

    fn line_end(&self, _: Place, out: &mut String) {
        out.push('\n');
    }

    fn open(&self, style: Style, out: &mut String) {
        out.extend(["<", tag(style), ">"]);
    }

    fn close(&self, style: Style, out: &mut String) {
        out.extend(["</", tag(style), ">"]);
    }

    fn open_link(&self, link: &Link, out: &mut String) {
        if leads(link) {
            out.push_str("<a href=\"");
            super::html::escape(&link.target, out);
            out.push_str("\">");
        }
    }

    fn close_link(&self, link: &Link, out: &mut String) {
        if leads(link) {
            out.push_str("</a>");
        } else if !link.bare {
            out.push_str(" (");
            running(&link.target, out);
            out.push(')');
        }
    }

    fn enter(&self, path: &[Container], at: usize, out: &mut String) {
        if is_quote(&path[at]) && !path[..at].iter().any(is_quote) {
            out.push_str("<blockquote>");
        }
    }

    fn leave(&self, _: &Container, _: &mut String) {}

    fn leave_within(&self, path: &[Container], out: &mut String) {
        let Some((innermost, above)) = path.split_last() else { return };
        if is_quote(innermost) && !above.iter().any(is_quote) {
            out.push_str("</blockquote>");
        }
    }

    fn prefix(&self, path: &[Container], fresh: usize, out: &mut String) {
        let outermost = path.iter().position(is_quote);
        for (at, container) in path.iter().enumerate() {
            match container {
                Container::Quote { .. } if outermost == Some(at) => {}
                Container::Quote { .. } => out.push_str("&gt; "),
                Container::List { .. } => {}
                Container::Item { number, .. } => {
                    let marker = number.map_or_else(|| "• ".to_owned(), |number| format!("{number}. "));
                    let width = marker.chars().count();
                    out.push_str(&if at >= fresh { marker } else { " ".repeat(width) });
                }
            }
        }
    }

    fn start(&self, kind: &Kind, line: &str, out: &mut String) {
        match kind {
            Kind::Paragraph => {}
            Kind::Heading(_) => out.push_str("<b>"),
            Kind::Code { language, .. } if language.is_empty() => out.extend(["<pre>", line]),
            Kind::Code { language, .. } => {
                out.push_str("<pre><code class=\"language-");
                super::html::escape(language, out);
                out.extend(["\">", line]);
            }
            Kind::Rule => out.push_str(RULE),
        }
    }

    fn end(&self, kind: &Kind, _: &str, out: &mut String) {
        match kind {
            Kind::Heading(_) => out.push_str("</b>"),
            Kind::Code { language, .. } if language.is_empty() => out.push_str("</pre>"),
            Kind::Code { .. } => out.push_str("</code></pre>"),
            Kind::Paragraph | Kind::Rule => {}
        }
    }

    fn between(&self, _: &[Container], tight: bool, out: &mut String) {
        out.push_str(if tight { "\n" } else { "\n\n" });
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Document, render};
    use super::*;

    fn of(source: &str) -> String {
        render(&Document::parse(source), &Telegram).replace(JOINER, "¦")
    }

    #[test]
    fn documents_look_like_themselves() {
        let source = "# Plan\n\nDo **this** and *that* ~~not~~.\n\n1. one\n2. two\n   - deep\n\n> said\n> > twice\n\n\
            ```rust\nif a < b && c {}\n```\n\n    plain\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n---\n`co<de`\n";
        assert_eq!(
            of(source),
            "<b>Plan</b>\n\nDo <b>this</b> and <i>that</i> <s>not</s>.¦\n\n1. one\n2. two\n   • deep\n\n\
             <blockquote>said\n\n&gt; twice</blockquote>\n\n\
             <pre><code class=\"language-rust\">if a &lt; b &amp;&amp; c {}</code></pre>\n\n<pre>plain</pre>\n\n\
             a | b\n1 | 2\n\n———\n\n<code>co&lt;de</code>"
        );
        assert_eq!(
            of("[p](https://x.test/?a=1&b=2) <ada@x.test>"),
            "<a href=\"https://x.test/?a=1&amp;b=2\">p</a> ada@¦x.¦test"
        );
        assert_eq!(of("> a\n\n> b"), "<blockquote>a</blockquote>\n\n<blockquote>b</blockquote>");
    }

    #[test]
    fn nothing_becomes_clickable_that_was_text() {
        for (source, expected) in [
            ("@ada hi @", "@¦ada hi @¦"),
            ("/stop and/or a / b", "/¦stop and/or a / b"),
            ("#tag $USD 5$ C#", "#¦tag $¦USD 5$ C#¦"),
            ("see evil.example, v1.2 e.g. end.", "see evil.¦example, v1.2 e.¦g. end.¦"),
            ("t.me/ada", "t.¦me/ada"),
            ("tg://resolve?domain=ada", "tg://¦resolve?domain=ada"),
            ("https://t.me/ada", "https://¦t.¦me/ada"),
            ("https://ada.t.me", "https://¦ada.¦t.¦me"),
            ("HTTPS://T.ME./ada", "HTTPS://¦T.¦ME./¦ada"),
            ("https://evil.example/a.b/c?d=/e", "https://evil.example/a.b/c?d=/e"),
            ("https://u@t.me/x", "https://¦u@¦t.¦me/x"),
            ("https://x.test/@ada", "https://x.test/@¦ada"),
            ("xhttps://x.test", "xhttps://¦x.¦test"),
            ("`@ada /stop a.b`", "<code>@ada /stop a.b</code>"),
            ("@**ada**", "@¦<b>ada</b>"),
            ("evil.**example**", "evil.¦<b>example</b>"),
        ] {
            assert_eq!(of(source), expected, "{source}");
        }
    }
}
