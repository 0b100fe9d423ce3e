//! Text that somebody else chose, and times.

use askama::filters::HtmlSafe;
use std::fmt::{self, Display, Formatter, Write as _};

/// Text of a person, an agent or a service. It is written as text: what HTML would take for markup is escaped, and characters that
/// nobody sees (or that turn the rest of the line around) appear as their number, so that a name cannot pretend to be another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Foreign(pub String);

impl From<&str> for Foreign {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<String> for Foreign {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl HtmlSafe for Foreign {}

impl Display for Foreign {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let mut before = '\0';
        for c in self.0.chars() {
            match c {
                '&' => out.write_str("&amp;")?,
                '<' => out.write_str("&lt;")?,
                '>' => out.write_str("&gt;")?,
                '"' => out.write_str("&quot;")?,
                '\'' => out.write_str("&#39;")?,
                '\n' | '\t' => out.write_char(c)?,
                // Parts of one emoji are joined by it.
                '\u{200d}' | '\u{fe0f}' if is_pictorial(before) => out.write_char(c)?,
                _ if is_unseen(c) => {
                    write!(out, r#"<span class="unseen">U+{:04X}</span>"#, u32::from(c))?;
                }
                _ => out.write_char(c)?,
            }
            before = c;
        }
        Ok(())
    }
}

fn is_pictorial(c: char) -> bool {
    matches!(c, '\u{200d}' | '\u{fe0f}' | '\u{2190}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}' | '0'..='9' | '#' | '*')
}

/// Controls, format characters, fillers and tags: everything that takes no place of its own on the screen, or gives it to others.
fn is_unseen(c: char) -> bool {
    matches!(c,
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}'
        | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// A moment, as `2026-10-20T12:00:00Z`; a page shows it in the reader's own time when its script runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct When(pub String);

impl HtmlSafe for When {}

impl Display for When {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let iso = Foreign(self.0.clone());
        let plain = Foreign(self.0.replace('T', " ").replace('Z', " UTC"));
        write!(out, r#"<time datetime="{iso}">{plain}</time>"#)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_text() {
        let text = r#"<img src=x onerror="alert('1')">&"#;
        let shown = Foreign::from(text).to_string();
        assert_eq!(shown, "&lt;img src=x onerror=&quot;alert(&#39;1&#39;)&quot;&gt;&amp;");
    }

    #[test]
    fn what_cannot_be_seen_is_shown() {
        let shown = |text: &str| Foreign::from(text).to_string();
        let unseen = |code: &str| format!(r#"<span class="unseen">U+{code}</span>"#);
        assert_eq!(shown("ab\u{202e}c"), format!("ab{}c", unseen("202E")));
        assert_eq!(shown("pay\u{200b}ments"), format!("pay{}ments", unseen("200B")));
        assert_eq!(shown("a\u{e0041}"), format!("a{}", unseen("E0041")));
        assert_eq!(shown("\u{1b}[31m"), format!("{}[31m", unseen("001B")));
        assert_eq!(shown("one\n\ttwo"), "one\n\ttwo");
        assert_eq!(shown("👩\u{200d}💻 ❤\u{fe0f}"), "👩\u{200d}💻 ❤\u{fe0f}", "an emoji is what it is");
        assert_eq!(shown("a\u{200d}b"), format!("a{}b", unseen("200D")));
    }

    #[test]
    fn a_time_names_its_zone() {
        let when = When("2026-10-20T12:00:00Z".into()).to_string();
        assert_eq!(when, r#"<time datetime="2026-10-20T12:00:00Z">2026-10-20 12:00:00 UTC</time>"#);
    }
}
