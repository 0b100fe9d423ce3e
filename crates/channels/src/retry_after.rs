//! What services say about waiting, in every form they use: `Retry-After` in whole or broken seconds or as a date (RFC 9110 section
//! 10.2.3), and members of a JSON body. A hint never breaks the main path: what cannot be read is no hint, and the sender backs off by its
//! own rule. A wait is never shorter than what was asked for, and never longer than [`WAIT_MS_MAX`].

use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use std::time::{Duration, SystemTime};
use switchboard_core::time::WallMs;

/// Longest wait that is believed, in milliseconds: one day. A service that asks for more is asked again after a day.
pub const WAIT_MS_MAX: u64 = 24 * 60 * 60 * 1000;
/// Longest number that is read, in characters.
const NUMBER_CHARS_MAX: usize = 64;
/// Longest header value that is read, in bytes.
const HEADER_BYTES_MAX: usize = 256;

/// The wait that an answer asks for, in milliseconds, rounded up: the longest of those its headers and its body name. `now_ms` is ours; an
/// answer with a `Date` is measured by its own clock.
#[must_use]
pub fn of_answer(headers: &HeaderMap, body: &[u8], now_ms: WallMs) -> Option<u64> {
    let date = headers.get(DATE).and_then(|value| value.to_str().ok());
    let values = headers.get_all(RETRY_AFTER).iter().filter_map(|value| value.to_str().ok());
    of_headers(values, date, now_ms).max(of_body(body))
}

/// The longest wait that `Retry-After` headers name, in milliseconds. `date` is the answer's `Date`: a date to wait for is measured from
/// it, so that clocks that differ do not shorten the wait.
pub fn of_headers<'a>(
    values: impl IntoIterator<Item = &'a str>,
    date: Option<&str>,
    now_ms: WallMs,
) -> Option<u64> {
    let now_ms = date.and_then(date_ms).unwrap_or(now_ms);
    values.into_iter().filter_map(|value| of_header(value, now_ms)).max()
}

/// The wait that a JSON body names, in milliseconds: `retry_after` and `rate_limit_reset_after` in seconds, `retry_after_ms` in
/// milliseconds, at the top or in `parameters`; the longest when there are several, be they of one name.
#[must_use]
pub fn of_body(body: &[u8]) -> Option<u64> {
    serde_json::from_slice::<Hint>(body).ok()?.0
}

/// One header's value. Proxies join repeated headers with commas, and dates have commas of their own.
fn of_header(value: &str, now_ms: WallMs) -> Option<u64> {
    let value = value.trim();
    if value.len() > HEADER_BYTES_MAX {
        return None;
    }
    let whole = number_ms(value, SECOND).or_else(|| until_ms(value, now_ms));
    whole.or_else(|| value.split(',').filter_map(|part| number_ms(part.trim(), SECOND)).max())
}

/// Milliseconds until a date; 0 for one that has passed.
fn until_ms(value: &str, now_ms: WallMs) -> Option<u64> {
    let wait = date_ms(value)?.saturating_sub(now_ms);
    Some(u64::try_from(wait).unwrap_or(0).min(WAIT_MS_MAX))
}

/// A date in one of the three forms of HTTP, or in that of mail, which knows other zones.
fn date_ms(value: &str) -> Option<WallMs> {
    let value = value.trim();
    let http = httpdate::parse_http_date(value).ok().map(|date| {
        let since = date.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    });
    let mail = || jiff::fmt::rfc2822::parse(value).ok().map(|date| date.timestamp().as_millisecond());
    http.or_else(mail)
}

/// By how many places the decimal point moves when a unit becomes milliseconds.
type Scale = usize;
const SECOND: Scale = 3;
const MILLISECOND: Scale = 0;

/// A decimal number of a unit, in milliseconds, rounded up. Exact: it is read digit by digit, because 0.1 has no binary form. Negative
/// numbers, infinities and words are none.
fn number_ms(text: &str, scale: Scale) -> Option<u64> {
    if text.len() > NUMBER_CHARS_MAX {
        return text.bytes().all(|byte| byte.is_ascii_digit()).then_some(WAIT_MS_MAX);
    }
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let mantissa = mantissa.strip_prefix('+').unwrap_or(mantissa);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = || whole.bytes().chain(fraction.bytes());
    if digits().next().is_none() || !digits().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let point = i64::try_from(whole.len() + scale).ok()? + i64::from(exponent);
    Some(rounded_up(digits(), point))
}

/// The number whose digits are these, with the point behind the first `point` of them.
fn rounded_up(digits: impl Iterator<Item = u8>, point: i64) -> u64 {
    let (mut value, mut place, mut rest) = (0_u64, 0_i64, false);
    for digit in digits.map(|byte| u64::from(byte - b'0')) {
        if place < point {
            value = value.saturating_mul(10).saturating_add(digit);
        } else {
            rest |= digit != 0;
        }
        place += 1;
    }
    while place < point && value != 0 && value < WAIT_MS_MAX {
        value = value.saturating_mul(10);
        place += 1;
    }
    value.saturating_add(u64::from(rest)).min(WAIT_MS_MAX)
}

/// What an object says about waiting.
struct Hint(Option<u64>);

impl<'de> Deserialize<'de> for Hint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HintVisitor { nested: true })
    }
}

/// Reads members one by one, so that of several of one name none is lost.
struct HintVisitor {
    nested: bool,
}

impl<'de> Visitor<'de> for HintVisitor {
    type Value = Hint;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Hint, A::Error> {
        let mut longest = None;
        while let Some(name) = members.next_key::<String>()? {
            let wait = match name.as_str() {
                "retry_after" | "rate_limit_reset_after" => json_ms(&members.next_value()?, SECOND),
                "retry_after_ms" => json_ms(&members.next_value()?, MILLISECOND),
                "parameters" if self.nested => {
                    let inner: serde_json::Value = members.next_value()?;
                    nested(&inner)
                }
                _ => members.next_value::<IgnoredAny>().map(|_| None)?,
            };
            longest = longest.max(wait);
        }
        Ok(Hint(longest))
    }
}

fn nested(value: &serde_json::Value) -> Option<u64> {
    value.deserialize_map(HintVisitor { nested: false }).ok()?.0
}

/// A JSON number, or a string that holds one.
fn json_ms(value: &serde_json::Value, scale: Scale) -> Option<u64> {
    match value {
        serde_json::Value::Number(number) => number_ms(&number.to_string(), scale),
        serde_json::Value::String(text) => number_ms(text.trim(), scale),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wed, 21 Oct 2015 07:28:00 GMT.
    const NOW_MS: WallMs = 1_445_412_480_000;

    #[test]
    fn every_header_form_is_read_rounded_up_and_capped() {
        let cases: [(&str, Option<u64>); 28] = [
            ("7", Some(7_000)),
            (" 7 ", Some(7_000)),
            ("0", Some(0)),
            ("0.503", Some(503)),
            ("0.5031", Some(504)),
            ("59.8", Some(59_800)),
            (".5", Some(500)),
            ("1.", Some(1_000)),
            ("1e9", Some(WAIT_MS_MAX)),
            ("1e-4", Some(1)),
            ("99999999999999999999999999", Some(WAIT_MS_MAX)),
            (&"9".repeat(200), Some(WAIT_MS_MAX)),
            ("86401", Some(WAIT_MS_MAX)),
            ("-5", None),
            ("-0.5", None),
            ("", None),
            ("soon", None),
            ("NaN", None),
            ("inf", None),
            ("1e", None),
            (".", None),
            ("7, 9", Some(9_000)),
            ("Wed, 21 Oct 2015 07:29:00 GMT", Some(60_000)),
            ("Wed, 21 Oct 2015 07:27:00 GMT", Some(0)),
            ("Wednesday, 21-Oct-15 07:29:00 GMT", Some(60_000)),
            ("Wed Oct 21 07:29:00 2015", Some(60_000)),
            ("Wed, 21 Oct 2015 09:29:00 +0200", Some(60_000)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(WAIT_MS_MAX)),
        ];
        for (value, expected) in cases {
            assert_eq!(of_headers([value], None, NOW_MS), expected, "{value:?}");
        }
        assert_eq!(of_headers([], None, NOW_MS), None);
        assert_eq!(of_headers(["soon", "3", "2"], None, NOW_MS), Some(3_000), "the longest of several");
        assert_eq!(of_headers([" \u{7f}1".repeat(200).as_str()], None, NOW_MS), None);
    }

    #[test]
    fn a_date_is_measured_by_the_clock_that_gave_it() {
        let (date, later) = ("Wed, 21 Oct 2015 07:27:58 GMT", "Wed, 21 Oct 2015 07:28:58 GMT");
        assert_eq!(of_headers([later], None, NOW_MS), Some(58_000));
        assert_eq!(of_headers([later], Some(date), NOW_MS), Some(60_000), "their clock is 2 s behind ours");
        assert_eq!(of_headers([later], Some("yesterday"), NOW_MS), Some(58_000));
    }

    #[test]
    fn every_body_form_is_read() {
        let cases: [(&str, Option<u64>); 17] = [
            (r#"{"retry_after": 1.29}"#, Some(1_290)),
            (r#"{"retry_after": 1.2901, "global": false}"#, Some(1_291)),
            (r#"{"ok":false,"parameters":{"retry_after":7}}"#, Some(7_000)),
            (r#"{"retry_after_ms": 1500}"#, Some(1_500)),
            (r#"{"retry_after_ms": 0.5}"#, Some(1)),
            (r#"{"rate_limit_reset_after": "2.5"}"#, Some(2_500)),
            (r#"{"retry_after": 1, "retry_after": 3, "retry_after": 2}"#, Some(3_000)),
            (r#"{"retry_after": 1, "retry_after_ms": 1400}"#, Some(1_400)),
            (r#"{"retry_after": 1e300}"#, Some(WAIT_MS_MAX)),
            (r#"{"retry_after": -1}"#, None),
            (r#"{"retry_after": null}"#, None),
            (r#"{"retry_after": {"x": [1]}}"#, None),
            (r#"{"parameters": 3}"#, None),
            (r#"{"other": 3}"#, None),
            (r#"{"retry_after": 1"#, None),
            ("[1]", None),
            ("", None),
        ];
        for (body, expected) in cases {
            assert_eq!(of_body(body.as_bytes()), expected, "{body}");
        }
        let deep = format!("{{\"a\":{}", "[".repeat(100_000));
        assert_eq!(of_body(deep.as_bytes()), None);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_left(text in ".*", body in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let waits = [of_headers([text.as_str()], Some(text.as_str()), NOW_MS), of_body(&body), of_body(text.as_bytes())];
            proptest::prop_assert!(waits.into_iter().flatten().all(|wait| wait <= WAIT_MS_MAX));
        }

        #[test]
        fn a_fraction_is_exact_to_the_millisecond_above(nanos in 0_u64..80_000_000_000_000) {
            let text = format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000);
            let expected = Some(nanos.div_ceil(1_000_000));
            proptest::prop_assert_eq!(of_headers([text.as_str()], None, NOW_MS), expected);
            // As a number JSON has it in binary: it may be one millisecond more, and never less.
            let read = of_body(format!("{{\"retry_after\":{text}}}").as_bytes());
            proptest::prop_assert!(read >= expected && read <= expected.map(|ms| ms + 1), "{:?} {:?}", read, expected);
        }
    }

    #[test]
    fn headers_and_body_are_both_heeded() {
        let mut headers = HeaderMap::new();
        headers.append(RETRY_AFTER, "1".parse().unwrap());
        headers.append(RETRY_AFTER, "4".parse().unwrap());
        assert_eq!(of_answer(&headers, br#"{"retry_after":3}"#, NOW_MS), Some(4_000));
        assert_eq!(of_answer(&headers, br#"{"retry_after":5}"#, NOW_MS), Some(5_000));
    }
}
