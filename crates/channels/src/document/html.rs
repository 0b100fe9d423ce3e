//! The safe subset of HTML that mail readers show: no raw HTML, no scripts, no styles, nothing that is loaded from elsewhere. It is
//! well-formed XML as well.

use super::{Container, Dialect, Kind, Link, Place, Style};

/// HTML.
#[derive(Debug, Clone, Copy, Default)]
pub struct Html;

/// `text` with everything escaped that is markup in HTML, in text and in an attribute.
pub(super) fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
}

fn tag(style: Style) -> &'static str {
    match style {
        Style::STRONG => "strong",
        Style::EMPHASIS => "em",
        Style::STRIKE => "s",
        _ => "code",
    }
}

impl Dialect for Html {
    fn text(&self, text: &str, _: Place, out: &mut String) {
        escape(text, out);
    }

    fn line_end(&self, place: Place, out: &mut String) {
        out.push_str(if place == Place::Fence { "\n" } else { "<br />\n" });
    }

    fn open(&self, style: Style, out: &mut String) {
        out.extend(["<", tag(style), ">"]);
    }

    fn close(&self, style: Style, out: &mut String) {
        out.extend(["</", tag(style), ">"]);
    }

    fn open_link(&self, link: &Link, out: &mut String) {
        out.push_str("<a href=\"");
        escape(&link.target, out);
        out.push_str("\">");
    }

    fn close_link(&self, _: &Link, out: &mut String) {
        out.push_str("</a>");
    }

    fn enter(&self, path: &[Container], at: usize, out: &mut String) {
        match (&path[at], path.get(at + 1)) {
            (Container::Quote { .. }, _) => out.push_str("<blockquote>"),
            (Container::List { ordered: true, .. }, Some(Container::Item { number: Some(number), .. })) => {
                out.extend(["<ol start=\"", &number.to_string(), "\">"]);
            }
            (Container::List { ordered: true, .. }, _) => out.push_str("<ol>"),
            (Container::List { .. }, _) => out.push_str("<ul>"),
            (Container::Item { .. }, _) => out.push_str("<li>"),
        }
    }

    fn leave(&self, container: &Container, out: &mut String) {
        out.push_str(match container {
            Container::Quote { .. } => "</blockquote>",
            Container::List { ordered: true, .. } => "</ol>",
            Container::List { .. } => "</ul>",
            Container::Item { .. } => "</li>",
        });
    }

    fn prefix(&self, _: &[Container], _: usize, _: &mut String) {}

    fn start(&self, kind: &Kind, _: &str, out: &mut String) {
        match kind {
            Kind::Paragraph => out.push_str("<p dir=\"auto\">"),
            Kind::Heading(level) => out.extend(["<h", &level.to_string(), " dir=\"auto\">"]),
            Kind::Code { .. } => out.push_str("<pre><code>"),
            Kind::Rule => out.push_str("<hr />"),
        }
    }

    fn end(&self, kind: &Kind, _: &str, out: &mut String) {
        match kind {
            Kind::Paragraph => out.push_str("</p>"),
            Kind::Heading(level) => out.extend(["</h", &level.to_string(), ">"]),
            Kind::Code { .. } => out.push_str("</code></pre>"),
            Kind::Rule => {}
        }
    }

    fn between(&self, _: &[Container], _: bool, out: &mut String) {
        out.push('\n');
    }
}
