//! Rules for names and texts, and the error that says which rule was broken.

use std::borrow::Cow;
use std::fmt;

use crate::limits::ID_BYTES_MAX;

/// A value that breaks a rule of the wire: which field, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// Wire name of the field, as the sender wrote it (`to_instance`, `text`).
    pub field: String,
    /// One sentence that names the rule, so that following it fixes the request. Never repeats the refused value.
    pub message: String,
}

impl Invalid {
    /// An error about `field`; `message` is a full clause naming the rule.
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }

    /// `<field> <rule>`, the usual form.
    pub(crate) fn rule(field: &str, rule: impl fmt::Display) -> Self {
        Self::new(field, format!("{field} {rule}"))
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Invalid {}

/// Inclusive ranges of characters that hide text or change the direction it reads in (contract section 1), ascending.
///
/// Soft hyphen, grapheme joiner, Arabic letter mark, Hangul fillers, Khmer inherent vowels, Mongolian vowel separator,
/// zero-width space, direction marks, line and paragraph separators, embeddings and overrides, the block U+2060 to U+206F
/// (word joiner, invisible operators, isolates, deprecated controls), byte-order mark, interlinear annotation, format
/// controls of hieroglyphs, shorthand and music, tag characters, the variation selector supplement. The joiners U+200C and
/// U+200D and the selectors U+FE00 to U+FE0F are left out because emoji and Persian need them.
const INVISIBLE: [(char, char); 20] = [
    ('\u{00AD}', '\u{00AD}'),
    ('\u{034F}', '\u{034F}'),
    ('\u{061C}', '\u{061C}'),
    ('\u{115F}', '\u{1160}'),
    ('\u{17B4}', '\u{17B5}'),
    ('\u{180E}', '\u{180E}'),
    ('\u{200B}', '\u{200B}'),
    ('\u{200E}', '\u{200F}'),
    ('\u{2028}', '\u{2029}'),
    ('\u{202A}', '\u{202E}'),
    ('\u{2060}', '\u{206F}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{FEFF}', '\u{FEFF}'),
    ('\u{FFA0}', '\u{FFA0}'),
    ('\u{FFF9}', '\u{FFFB}'),
    ('\u{13430}', '\u{1343F}'),
    ('\u{1BCA0}', '\u{1BCA3}'),
    ('\u{1D173}', '\u{1D17A}'),
    ('\u{E0000}', '\u{E007F}'),
    ('\u{E0100}', '\u{E01EF}'),
];

/// Whether a character hides text or changes its direction; such characters are refused in every text field and stripped
/// from foreign content before a model sees it.
pub fn invisible(c: char) -> bool {
    c >= '\u{AD}' && INVISIBLE.iter().any(|&(first, last)| (first..=last).contains(&c))
}

/// `value` without its [`invisible`] characters; borrowed when there are none.
pub fn strip_invisible(value: &str) -> Cow<'_, str> {
    if value.is_ascii() || !value.contains(invisible) {
        return Cow::Borrowed(value);
    }
    Cow::Owned(value.chars().filter(|&c| !invisible(c)).collect())
}

/// Check a text: 1 to `max_chars` characters, not only whitespace, no control characters (`multiline` allows `\n`, `\t` and
/// `\r`), nothing [`invisible`].
pub fn validate_text(value: &str, max_chars: usize, field: &str, multiline: bool) -> Result<(), Invalid> {
    let ascii = value.is_ascii();
    let too_long = value.len() > max_chars && (ascii || value.chars().count() > max_chars);
    if too_long || value.trim_start().is_empty() {
        return Err(Invalid::rule(field, format_args!("must be text of 1 to {max_chars} characters")));
    }
    if has_refused_control(value, ascii, multiline) {
        let allowed = if multiline { " other than newline, tab and carriage return" } else { "" };
        return Err(Invalid::rule(field, format_args!("must not contain control characters{allowed}")));
    }
    if !ascii && value.contains(invisible) {
        return Err(Invalid::rule(field, "must not contain invisible or direction characters"));
    }
    Ok(())
}

fn has_refused_control(value: &str, ascii: bool, multiline: bool) -> bool {
    // Most texts have no control at all; counting has no early exit, so that the compiler makes it wide.
    if ascii && value.bytes().filter(u8::is_ascii_control).count() == 0 {
        return false;
    }
    value.contains(|c: char| c.is_control() && !(multiline && matches!(c, '\n' | '\t' | '\r')))
}

/// Check an opaque id: 1 to 128 of `[A-Za-z0-9._:-]`, starting alphanumeric.
pub fn validate_id(value: &str, field: &str) -> Result<(), Invalid> {
    if id_ok(value) {
        return Ok(());
    }
    Err(Invalid::rule(
        field,
        "must be 1 to 128 of the characters A-Z a-z 0-9 . _ : - and start with a letter or digit",
    ))
}

fn id_ok(value: &str) -> bool {
    let bytes = value.as_bytes();
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b':' | b'-');
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.len() <= ID_BYTES_MAX
        && bytes.iter().all(inner)
}

/// Check a vault id: 32 lowercase hexadecimal characters.
pub fn validate_vault_id(value: &str) -> Result<(), Invalid> {
    validate_hex(value, 32..=32, "vault_id")
}

/// Check lowercase hexadecimal of a length within `chars`.
pub(crate) fn validate_hex(
    value: &str,
    chars: std::ops::RangeInclusive<usize>,
    field: &str,
) -> Result<(), Invalid> {
    let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if chars.contains(&value.len()) && value.bytes().all(hex) {
        return Ok(());
    }
    let (low, high) = (chars.start(), chars.end());
    let count = if low == high { low.to_string() } else { format!("{low} to {high}") };
    Err(Invalid::rule(field, format_args!("must be {count} lowercase hexadecimal characters")))
}

/// Check standard padded base64 that decodes to exactly `bytes` bytes.
pub(crate) fn validate_base64_exact(value: &str, bytes: usize, field: &str) -> Result<(), Invalid> {
    let padding = (3 - bytes % 3) % 3;
    if value.len() == bytes.div_ceil(3) * 4 && base64_padding(value) == Some(padding) {
        return Ok(());
    }
    Err(Invalid::rule(field, format_args!("must be padded base64 of exactly {bytes} bytes")))
}

/// Check non-empty standard padded base64 of at most `max_chars` encoded characters.
pub(crate) fn validate_base64_bounded(value: &str, max_chars: usize, field: &str) -> Result<(), Invalid> {
    let length_ok = !value.is_empty() && value.len() <= max_chars && value.len().is_multiple_of(4);
    if length_ok && base64_padding(value).is_some() {
        return Ok(());
    }
    Err(Invalid::rule(
        field,
        format_args!("must be non-empty padded base64 of at most {max_chars} characters"),
    ))
}

/// Number of `=` at the end (at most two), or `None` when another character is outside the standard alphabet.
fn base64_padding(value: &str) -> Option<usize> {
    let body = value.trim_end_matches('=');
    let padding = value.len() - body.len();
    let alphabet = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    (padding <= 2 && body.bytes().all(alphabet)).then_some(padding)
}

/// Check that `schema` is the one expected.
pub(crate) fn validate_schema(actual: &str, expected: &str) -> Result<(), Invalid> {
    if actual == expected { Ok(()) } else { Err(Invalid::rule("schema", format_args!("must be {expected}"))) }
}

/// The name of an organization channel, `org:<org>/vault:<vault_id>/<name>`, borrowed from its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Channel<'a> {
    /// Organization id.
    pub org: &'a str,
    /// Vault id: 32 lowercase hexadecimal characters.
    pub vault: &'a str,
    /// Name of the channel inside the vault, an id.
    pub name: &'a str,
}

const CHANNEL_RULE: &str = "must be org:<org>/vault:<vault_id>/<name>";

impl<'a> Channel<'a> {
    /// Read the written form; the error's field is `channel`.
    pub fn parse(text: &'a str) -> Result<Self, Invalid> {
        Self::split(text).ok_or_else(|| Invalid::rule("channel", CHANNEL_RULE))
    }

    fn split(text: &'a str) -> Option<Self> {
        let (org, rest) = text.strip_prefix("org:")?.split_once('/')?;
        let (vault, name) = rest.strip_prefix("vault:")?.split_once('/')?;
        let ok = id_ok(org) && validate_vault_id(vault).is_ok() && id_ok(name);
        ok.then_some(Self { org, vault, name })
    }

    /// The written form of three parts, unchecked.
    pub fn format(org: &str, vault: &str, name: &str) -> String {
        format!("org:{org}/vault:{vault}/{name}")
    }
}

impl fmt::Display for Channel<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "org:{}/vault:{}/{}", self.org, self.vault, self.name)
    }
}

/// What a cursor belongs to: an organization channel, or a swarm written `swarm:<id>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CursorKey<'a> {
    /// An organization channel.
    Channel(Channel<'a>),
    /// A swarm, by id.
    Swarm(&'a str),
}

impl<'a> CursorKey<'a> {
    /// Read the written form; the error's field is `channel`.
    pub fn parse(text: &'a str) -> Result<Self, Invalid> {
        if let Some(id) = text.strip_prefix("swarm:") {
            let rule = || Invalid::rule("channel", "must be a channel name or swarm:<swarm_id>");
            return if id_ok(id) { Ok(Self::Swarm(id)) } else { Err(rule()) };
        }
        Channel::parse(text).map(Self::Channel)
    }
}

impl fmt::Display for CursorKey<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Channel(channel) => channel.fmt(formatter),
            Self::Swarm(id) => write!(formatter, "swarm:{id}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const VAULT: &str = "3f6c1e9a0b7d4c2e8f5a1b6c9d0e7f42";

    #[test]
    fn every_listed_character_is_refused_and_stripped() {
        for (first, last) in INVISIBLE {
            for c in [first, last] {
                let text = format!("a{c}b");
                assert!(invisible(c) && validate_text(&text, 9, "t", true).is_err(), "{c:?}");
                assert_eq!(strip_invisible(&text), "ab");
            }
        }
    }

    #[test]
    fn joiners_and_selectors_stay() {
        for c in ['\u{200C}', '\u{200D}', '\u{FE0F}', '\u{0600}', '\u{06DD}', '\u{070F}', 'a', ' ', 'ü'] {
            assert!(!invisible(c), "{c:?}");
        }
        assert!(validate_text("dev \u{1F469}\u{200D}\u{1F4BB} \u{2764}\u{FE0F}", 100, "t", false).is_ok());
        assert!(matches!(strip_invisible("plain ü"), Cow::Borrowed(_)));
    }

    #[test]
    fn texts_are_bounded_in_characters_and_never_blank() {
        assert!(validate_text("üüü", 3, "t", false).is_ok());
        for bad in ["", "   ", "\n\t", "üüüü"] {
            assert_eq!(validate_text(bad, 3, "t", true).unwrap_err().field, "t", "{bad:?}");
        }
    }

    #[test]
    fn controls_are_refused_except_line_breaks_in_bodies() {
        assert!(validate_text("a\n\t\rb", 9, "t", true).is_ok());
        for bad in ["a\nb", "a\u{0}b", "a\u{7f}b", "a\u{85}b", "a\u{1b}[1mb"] {
            assert!(validate_text(bad, 9, "t", false).is_err(), "{bad:?}");
        }
        assert!(validate_text("a\u{1b}b", 9, "t", true).is_err());
    }

    #[test]
    fn ids_start_alphanumeric_and_end_at_128() {
        for good in ["a", "0", "inst_01.x:y-z", &"a".repeat(128)] {
            assert!(validate_id(good, "id").is_ok(), "{good}");
        }
        for bad in ["", "_a", ".a", "a/b", "a b", "ü", "a\n", &"a".repeat(129)] {
            assert!(validate_id(bad, "id").is_err(), "{bad:?}");
        }
    }

    #[test]
    fn channels_have_three_checked_parts() {
        let text = format!("org:o1/vault:{VAULT}/general");
        let channel = Channel::parse(&text).unwrap();
        assert_eq!((channel.org, channel.vault, channel.name), ("o1", VAULT, "general"));
        assert_eq!((channel.to_string(), Channel::format("o1", VAULT, "general")), (text.clone(), text));
        let upper = VAULT.to_uppercase();
        for bad in [
            String::new(),
            format!("vault:{VAULT}/org:o1/general"),
            format!("org:o1/vault:{VAULT}"),
            format!("org:o1/vault:{VAULT}/"),
            format!("org:o1/vault:{VAULT}/a/b"),
            format!("org:/vault:{VAULT}/a"),
            format!("org:o1/vault:{upper}/a"),
            format!("org:o1/vault:{VAULT}0/a"),
            format!(" org:o1/vault:{VAULT}/a"),
        ] {
            assert_eq!(Channel::parse(&bad).unwrap_err().field, "channel", "{bad}");
        }
    }

    #[test]
    fn cursor_keys_are_channels_or_swarms() {
        assert_eq!(CursorKey::parse("swarm:sw-1").unwrap(), CursorKey::Swarm("sw-1"));
        assert!(CursorKey::parse("swarm:").is_err() && CursorKey::parse("swarm:a/b").is_err());
        assert!(CursorKey::parse("other:x").is_err());
    }

    #[test]
    fn base64_is_checked_for_length_alphabet_and_padding() {
        assert!(validate_base64_exact(&format!("{}=", "A".repeat(43)), 32, "k").is_ok());
        assert!(validate_base64_exact(&format!("{}==", "A".repeat(86)), 64, "k").is_ok());
        assert!(validate_base64_exact(&"A".repeat(32), 24, "k").is_ok());
        for bad in ["A".repeat(44), format!("{}=", "-".repeat(43)), format!("{}==", "A".repeat(42))] {
            assert!(validate_base64_exact(&bad, 32, "k").is_err(), "{bad}");
        }
        assert!(validate_base64_bounded("AAAA", 8, "c").is_ok());
        for bad in ["", "AAA", "A===", "AA=A", "AAAAAAAAAAAA"] {
            assert!(validate_base64_bounded(bad, 8, "c").is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_channel_that_parses_prints_as_it_was(text in "(org:)?[a-z0-9:/._]{0,12}(vault:)?[0-9a-f]{0,34}/?[a-z/]{0,5}") {
            if let Ok(channel) = Channel::parse(&text) {
                prop_assert_eq!(channel.to_string(), text);
            }
        }

        #[test]
        fn formatted_channels_parse(org in "[A-Za-z0-9][A-Za-z0-9._:-]{0,20}", vault in "[0-9a-f]{32}", name in "[a-z0-9][a-z0-9._:-]{0,20}") {
            let text = Channel::format(&org, &vault, &name);
            prop_assert_eq!(Channel::parse(&text).unwrap(), Channel { org: &org, vault: &vault, name: &name });
        }

        #[test]
        fn stripped_text_has_nothing_invisible(text in "\\PC*") {
            prop_assert!(!strip_invisible(&text).contains(invisible));
        }
    }
}
