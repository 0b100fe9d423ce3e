//! Names of channels: what agents put in `channel`. Which channels there are is the hub's to know.

/// Longest name of a channel, in characters.
pub const NAME_CHARS_MAX: usize = 32;

/// Refuses a name that is not made of a small letter or digit and up to 31 small letters, digits, `_` and `-`.
pub fn check(name: &str) -> Result<(), String> {
    let is_good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let starts = name.bytes().next().is_some_and(is_good);
    let is_sound =
        starts && name.len() <= NAME_CHARS_MAX && name.bytes().all(|b| is_good(b) || b == b'_' || b == b'-');
    if is_sound {
        return Ok(());
    }
    Err(format!(
        "a channel's name begins with a small letter or a digit and has up to {NAME_CHARS_MAX} small letters, digits, `_` and `-`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        for good in ["a", "0", "team-chat_2", &"x".repeat(NAME_CHARS_MAX)] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in ["", "-a", "_a", "A", "a b", "é", "a.b", "a\n", &"x".repeat(NAME_CHARS_MAX + 1)] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }
}
