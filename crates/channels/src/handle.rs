//! Handles of channels that give their recipients names of their own choosing: one form, and nothing in it that cannot be seen. And ids of
//! messages, as services give them.

/// Longest handle, in characters.
pub const HANDLE_CHARS_MAX: usize = 255;

/// A handle without the space around it; refused when nothing is left, when it is too long, or when it holds what cannot be seen. Case is
/// kept: whether two spellings are one recipient is for whoever receives to know, and two that are one need two consents.
pub fn normalise(to: &str) -> Result<String, String> {
    let handle = to.trim();
    if handle.is_empty() {
        return Err("must not be empty: give the recipient's name".into());
    }
    if handle.chars().count() > HANDLE_CHARS_MAX {
        return Err(format!("must have at most {HANDLE_CHARS_MAX} characters"));
    }
    if let Some(hidden) = handle.chars().find(|&c| is_hidden(c)) {
        return Err(format!("must not hold the invisible character U+{:04X}: leave it out", hidden as u32));
    }
    Ok(handle.to_owned())
}

/// Longest id of a message that is taken from a service, in characters.
pub const MESSAGE_ID_CHARS_MAX: usize = 255;

/// Whether a service's id for a message is one: not empty, not endless, without spaces and hidden characters.
#[must_use]
pub fn is_id(id: &str) -> bool {
    !id.is_empty()
        && id.chars().count() <= MESSAGE_ID_CHARS_MAX
        && !id.chars().any(|c| is_hidden(c) || c.is_whitespace())
}

/// Whether a character is a control, changes direction, joins, fills or marks: two handles that look alike could differ by it.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_have_one_form_and_nothing_hidden() {
        assert_eq!(normalise(" Ada Lovelace\u{a0}"), Ok("Ada Lovelace".to_owned()));
        for junk in ["", " \t", "a\nb", "a\u{200b}b", "\u{202e}ada", "ada\u{feff}", "a\u{e0041}b", "a\0b"] {
            assert!(normalise(junk).is_err(), "{junk:?}");
        }
        assert!(normalise(&"é".repeat(HANDLE_CHARS_MAX)).is_ok());
        assert!(normalise(&"é".repeat(HANDLE_CHARS_MAX + 1)).is_err());
    }
}
