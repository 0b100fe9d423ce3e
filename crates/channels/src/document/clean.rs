//! Makes the invisible characters of foreign text harmless, before anything is rendered.
//!
//! The rule: a reader sees what is there, in the order in which it is there.
//! - Dropped: control characters, every bidirectional control (a block's direction comes from its own letters), zero-width and format
//!   characters, fillers that look like nothing, variation selectors other than the two for emoji.
//! - Kept where they do what they are for: the joiner and the non-joiner between two characters that are neither ASCII nor spaces (emoji
//!   families, Persian, Indic scripts), the text and emoji selectors behind a visible character, the tags of a flag behind the black flag.
//! - Every Unicode line end becomes `\n`.

use std::borrow::Cow;

const JOINERS: [char; 2] = ['\u{200C}', '\u{200D}'];
const BLACK_FLAG: char = '\u{1F3F4}';
/// Longest run of tags behind a black flag, its end included: two letters, up to three more, and the end.
const FLAG_TAGS_MAX: usize = 7;

/// Characters that are never kept.
const DROPPED: [(char, char); 20] = [
    ('\0', '\u{8}'),
    ('\u{E}', '\u{1F}'),
    ('\u{7F}', '\u{9F}'),
    ('\u{AD}', '\u{AD}'),
    ('\u{34F}', '\u{34F}'),
    ('\u{61C}', '\u{61C}'),
    ('\u{115F}', '\u{1160}'),
    ('\u{17B4}', '\u{17B5}'),
    ('\u{180B}', '\u{180F}'),
    ('\u{200B}', '\u{200B}'),
    ('\u{200E}', '\u{200F}'),
    ('\u{202A}', '\u{202E}'),
    ('\u{2060}', '\u{206F}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{FE00}', '\u{FE0D}'),
    ('\u{FEFF}', '\u{FEFF}'),
    ('\u{FFA0}', '\u{FFA0}'),
    ('\u{FFF9}', '\u{FFFB}'),
    ('\u{1BCA0}', '\u{1BCA3}'),
    ('\u{E0000}', '\u{E0FFF}'),
];

/// `text` by the rule of this module; borrowed when there is nothing to do.
#[must_use]
pub fn clean(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| byte == b'\n' || (b' '..0x7F).contains(&byte)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let next = rest.peek().copied();
        if c == '\r' && next == Some('\n') {
            continue;
        }
        match line_end_or(c) {
            BLACK_FLAG => {
                out.push(c);
                take_flag(&mut rest, &mut out);
            }
            c if keeps(c, out.chars().next_back(), next) => out.push(c),
            _ => {}
        }
    }
    Cow::Owned(out)
}

/// The same on one line: line ends and tabs become spaces.
#[must_use]
pub fn clean_line(text: &str) -> String {
    let cleaned = clean(text);
    cleaned.split(['\n', '\t']).collect::<Vec<_>>().join(" ").trim().to_owned()
}

fn line_end_or(c: char) -> char {
    if matches!(c, '\r' | '\u{B}' | '\u{C}' | '\u{85}' | '\u{2028}' | '\u{2029}') { '\n' } else { c }
}

fn keeps(c: char, before: Option<char>, next: Option<char>) -> bool {
    let joins = |side: Option<char>| side.is_some_and(|c| !c.is_ascii() && !c.is_whitespace() && !dropped(c));
    if JOINERS.contains(&c) {
        return joins(before) && joins(next) && !before.is_some_and(|c| JOINERS.contains(&c));
    }
    if matches!(c, '\u{FE0E}' | '\u{FE0F}') {
        return before.is_some_and(|c| !c.is_whitespace() && !matches!(c, '\u{FE0E}' | '\u{FE0F}'));
    }
    !dropped(c)
}

fn dropped(c: char) -> bool {
    DROPPED.iter().any(|&(first, last)| (first..=last).contains(&c))
}

/// Takes the tags behind a black flag if they are those of a flag: letters or digits and the end.
fn take_flag(rest: &mut std::iter::Peekable<std::str::Chars<'_>>, out: &mut String) {
    let ahead: Vec<char> = rest.clone().take(FLAG_TAGS_MAX).collect();
    let tags = ahead.iter().take_while(|c| ('\u{E0030}'..='\u{E007A}').contains(*c)).count();
    if tags > 0 && ahead.get(tags) == Some(&'\u{E007F}') {
        out.extend(rest.take(tags + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_left_alone() {
        assert!(matches!(clean("two\nlines"), Cow::Borrowed(_)));
        assert_eq!(clean("Grüße, 東京\tEnde"), "Grüße, 東京\tEnde");
    }

    #[test]
    fn what_turns_or_hides_text_is_dropped() {
        assert_eq!(clean("user\u{202E}txt.exe"), "usertxt.exe");
        assert_eq!(clean("a\u{2066}b\u{2069}\u{200B}c\u{FEFF}\u{AD}\u{0}\u{1B}[31m"), "abc[31m");
        assert_eq!(clean("pay\u{200D}pal \u{200D}x"), "paypal x");
        assert_eq!(clean("x\u{E0041}\u{E0042}\u{E0100}\u{FE00}"), "x");
    }

    #[test]
    fn emoji_and_scripts_that_need_joiners_survive() {
        for text in [
            "👩‍👩‍👧‍👦",
            "🏳️‍🌈",
            "1️⃣",
            "❤️",
            "🏴\u{E0067}\u{E0062}\u{E0073}\u{E0063}\u{E0074}\u{E007F}",
            "می‌خواهم",
            "क्‍ष",
        ] {
            assert_eq!(clean(text), text);
        }
        assert_eq!(clean("🏴\u{E0067}\u{E0062}"), "🏴", "tags without an end are no flag");
    }

    #[test]
    fn every_line_end_is_one() {
        assert_eq!(clean("a\r\nb\rc\u{2028}d\u{85}e"), "a\nb\nc\nd\ne");
        assert_eq!(clean_line(" a\r\nBcc: b\tc "), "a Bcc: b c");
    }
}
