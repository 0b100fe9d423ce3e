//! Plain text, for people: lists with their markers, quotations with `> `, code between fences, links with their targets.

use super::{Container, Dialect, Kind, Link, Place, Style};

/// Plain text.
#[derive(Debug, Clone, Copy, Default)]
pub struct Plain;

impl Dialect for Plain {
    fn text(&self, text: &str, _: Place, out: &mut String) {
        out.push_str(text);
    }

    fn line_end(&self, _: Place, out: &mut String) {
        out.push('\n');
    }

    fn open(&self, _: Style, _: &mut String) {}

    fn close(&self, _: Style, _: &mut String) {}

    fn open_link(&self, _: &Link, _: &mut String) {}

    fn close_link(&self, link: &Link, out: &mut String) {
        if !link.bare {
            out.push_str(" (");
            out.push_str(&link.target);
            out.push(')');
        }
    }

    fn enter(&self, _: &[Container], _: usize, _: &mut String) {}

    fn leave(&self, _: &Container, _: &mut String) {}

    fn prefix(&self, path: &[Container], fresh: usize, out: &mut String) {
        for (at, container) in path.iter().enumerate() {
            match container {
                Container::Quote { .. } => out.push_str("> "),
                Container::List { .. } => {}
                Container::Item { number, .. } => {
                    let marker = number.map_or_else(|| "- ".to_owned(), |number| format!("{number}. "));
                    let shown = at >= fresh;
                    out.push_str(&if shown { marker } else { " ".repeat(marker.len()) });
                }
            }
        }
    }

    fn start(&self, kind: &Kind, line: &str, out: &mut String) {
        match kind {
            Kind::Code { language, fence } => {
                out.push_str(fence);
                out.push_str(language);
                out.push('\n');
                out.push_str(line);
            }
            Kind::Rule => out.push_str("---"),
            Kind::Paragraph | Kind::Heading(_) => {}
        }
    }

    fn end(&self, kind: &Kind, line: &str, out: &mut String) {
        if let Kind::Code { fence, .. } = kind {
            out.push('\n');
            out.push_str(line);
            out.push_str(fence);
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
