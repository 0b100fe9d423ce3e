//! What reaches a person's terminal: nothing that others wrote may move the cursor, hide text or pose as something else.

use std::borrow::Cow;
use std::io::Write as _;
use switchboard_protocol::text::strip_invisible;

/// Starts every line of a body, so that no body can pose as what stands around it.
const FENCE: &str = "  | ";

/// `text` on one line, without control, invisible or direction characters.
pub fn line(text: &str) -> String {
    strip_invisible(text).chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A foreign body: each of its lines behind a fence that it cannot forge.
pub fn fenced(body: &str) -> String {
    let body = strip_invisible(body).replace("\r\n", "\n").replace('\r', "\n");
    let lines = body.split('\n').map(|text| {
        let text: String =
            text.chars().map(|c| if c == '\t' { ' ' } else { c }).filter(|c| !c.is_control()).collect();
        format!("{FENCE}{text}\n")
    });
    lines.collect()
}

/// Rows with aligned columns under a heading. Cells are made one plain line each.
pub fn table(heading: &[&str], rows: &[Vec<String>]) -> String {
    let clean: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| line(cell)).collect()).collect();
    let heading: Vec<String> = heading.iter().map(|cell| (*cell).to_owned()).collect();
    let mut widths: Vec<usize> = heading.iter().map(|cell| cell.chars().count()).collect();
    for row in &clean {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let render = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    std::iter::once(&heading).chain(&clean).map(render).collect()
}

/// Names and values, aligned.
pub fn facts(facts: &[(&str, String)]) -> String {
    let width = facts.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let render = |(name, value): &(&str, String)| format!("{name:<width$}  {}\n", line(value));
    facts.iter().map(render).collect()
}

/// Bytes as people read them.
#[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
pub fn bytes(count: u64) -> String {
    let mut value = Cow::Borrowed("B");
    let mut scaled = count as f64;
    for unit in ["KiB", "MiB", "GiB", "TiB"] {
        if scaled < 1024.0 {
            break;
        }
        scaled /= 1024.0;
        value = Cow::Borrowed(unit);
    }
    if value == "B" { format!("{count} B") } else { format!("{scaled:.1} {value}") }
}

/// Prints to stdout; whether anybody still reads. A reader that has left (`| head`) is no error, but a reason to end.
pub fn print(text: &str) -> bool {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).is_ok()
}

/// Prints one JSON document on a line of its own, as [`print`].
pub fn print_json(value: &impl serde::Serialize) -> bool {
    // Our own types have string keys only: serializing them cannot fail.
    let text = serde_json::to_string(value).unwrap_or_default();
    print(&format!("{text}\n"))
}

/// Says something beside the result, on stderr.
pub fn note(text: &str) {
    // With stderr gone there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// How a command shows its result.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    /// As one JSON document.
    pub json: bool,
}

impl Output {
    /// Prints `value`: as JSON, or as `text` says it.
    pub fn show<T: serde::Serialize>(self, value: &T, text: impl FnOnce(&T) -> String) {
        let _ = if self.json { print_json(value) } else { print(&text(value)) };
    }

    /// Something was done: `text` for people, `{"ok":true}` for scripts.
    pub fn done(self, text: &str) {
        self.show(&serde_json::json!({ "ok": true }), |_| format!("{}\n", line(text)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_stays_behind_its_fence() {
        assert_eq!(fenced("a\nb\r\u{1b}[2Jc\u{202e}\td"), "  | a\n  | b\n  | [2Jc d\n");
        assert_eq!(fenced(""), "  | \n");
    }

    #[test]
    fn lines_are_single_and_plain() {
        assert_eq!(line("a\nb\u{7}\u{200b}c"), "a b c");
    }

    #[test]
    fn columns_align() {
        let rows = vec![vec!["a".into(), "long\ncell".into()], vec!["bbb".into(), "x".into()]];
        assert_eq!(table(&["ID", "NAME"], &rows), "ID   NAME\na    long cell\nbbb  x\n");
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(
            (bytes(512), bytes(1536), bytes(3 << 30)),
            ("512 B".into(), "1.5 KiB".into(), "3.0 GiB".into())
        );
    }
}
