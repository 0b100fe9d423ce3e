//! Times as people type and read them.

use crate::failure::Failure;
use std::time::Duration;

/// Longest time that is taken, so that no sum overflows.
const SECONDS_MAX: u64 = 366 * 24 * 3600;

/// A time such as `90s`, `30m`, `2h` or `1d`; `option` is what it was typed for.
pub fn duration(option: &str, text: &str) -> Result<Duration, Failure> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let seconds = match &text[digits.len()..] {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 24 * 3600,
        _ => 0,
    };
    let total = digits.parse::<u64>().ok().and_then(|count| count.checked_mul(seconds));
    match total {
        Some(total @ 1..=SECONDS_MAX) => Ok(Duration::from_secs(total)),
        _ => Err(Failure::usage(format!("{option}: write a time such as 90s, 30m, 2h or 1d, not {text:?}."))),
    }
}

/// A time as `2d 3h`, `5m 10s`: the two largest units.
pub fn human(seconds: u64) -> String {
    let units = [(86_400, "d"), (3600, "h"), (60, "m"), (1, "s")];
    let mut rest = seconds;
    let mut parts = Vec::new();
    for (size, unit) in units {
        if rest >= size || (size == 1 && parts.is_empty()) {
            parts.push(format!("{}{unit}", rest / size));
            rest %= size;
        }
    }
    parts.truncate(2);
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_typed_with_a_unit() {
        assert_eq!(duration("--timeout", "90s").unwrap(), Duration::from_secs(90));
        assert_eq!(duration("--timeout", "2h").unwrap(), Duration::from_hours(2));
        for wrong in ["", "5", "h", "0s", "-1s", "1.5h", "2 h", "1w", "99999999999999999999d", "400d", "1é"]
        {
            assert!(duration("--timeout", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_are_read_in_two_units() {
        assert_eq!((human(0), human(61), human(90_061)), ("0s".into(), "1m 1s".into(), "1d 1h".into()));
    }
}
