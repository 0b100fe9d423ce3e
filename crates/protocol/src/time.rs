//! The one time format of the wire: UTC, whole seconds, `YYYY-MM-DDTHH:MM:SSZ`.

use std::fmt;
use std::str::FromStr;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::text::Invalid;

const DAY_S: i64 = 86_400;
/// `0001-01-01T00:00:00Z`.
const FIRST_S: i64 = -62_135_596_800;
/// `9999-12-31T23:59:59Z`.
const LAST_S: i64 = 253_402_300_799;

/// A moment in UTC with second precision, between the years 0001 and 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UtcTime(i64);

impl UtcTime {
    /// The earliest moment that can be written.
    pub const MIN: Self = Self(FIRST_S);
    /// The latest moment that can be written.
    pub const MAX: Self = Self(LAST_S);
    /// Bytes of the written form.
    pub const TEXT_BYTES: usize = 20;

    /// From unix seconds; values outside the years 0001 to 9999 become [`Self::MIN`] or [`Self::MAX`].
    pub const fn from_unix(seconds: i64) -> Self {
        if seconds < FIRST_S {
            Self(FIRST_S)
        } else if seconds > LAST_S {
            Self(LAST_S)
        } else {
            Self(seconds)
        }
    }

    /// Seconds since 1970-01-01T00:00:00Z; negative before.
    pub const fn unix(self) -> i64 {
        self.0
    }

    /// This moment plus `seconds` (may be negative), held inside the range.
    #[must_use]
    pub const fn plus_s(self, seconds: i64) -> Self {
        Self::from_unix(self.0.saturating_add(seconds))
    }

    /// Read exactly `YYYY-MM-DDTHH:MM:SSZ`: upper-case letters, a real calendar day, no leap second, no fraction, no offset.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes: &[u8; Self::TEXT_BYTES] = text.as_bytes().try_into().ok()?;
        let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'Z')];
        if separators.iter().any(|&(at, separator)| bytes[at] != separator) {
            return None;
        }
        let year = pair(bytes, 0)? * 100 + pair(bytes, 2)?;
        let (month, day) = (pair(bytes, 5)?, pair(bytes, 8)?);
        let (hour, minute, second) = (pair(bytes, 11)?, pair(bytes, 14)?, pair(bytes, 17)?);
        let date_ok = year >= 1 && (1..=12).contains(&month) && (1..=month_days(year, month)).contains(&day);
        let clock_ok = hour < 24 && minute < 60 && second < 60;
        (date_ok && clock_ok)
            .then(|| Self(days_from_civil(year, month, day) * DAY_S + hour * 3600 + minute * 60 + second))
    }

    /// Append the written form: always [`Self::TEXT_BYTES`] ASCII bytes, no allocation of its own.
    pub fn write_to(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.text());
    }

    fn text(self) -> [u8; Self::TEXT_BYTES] {
        let (days, clock) = (self.0.div_euclid(DAY_S), self.0.rem_euclid(DAY_S));
        let (year, month, day) = civil_from_days(days);
        let mut text = *b"0000-00-00T00:00:00Z";
        let fields = [(0, year / 100), (2, year % 100), (5, month), (8, day)];
        let clock_fields = [(11, clock / 3600), (14, clock / 60 % 60), (17, clock % 60)];
        for (at, value) in fields.into_iter().chain(clock_fields) {
            text[at] = digit(value / 10);
            text[at + 1] = digit(value % 10);
        }
        text
    }
}

fn digit(value: i64) -> u8 {
    b"0123456789"[usize::try_from(value.rem_euclid(10)).unwrap_or(0)]
}

fn pair(bytes: &[u8; UtcTime::TEXT_BYTES], at: usize) -> Option<i64> {
    let digit = |byte: u8| byte.is_ascii_digit().then(|| i64::from(byte - b'0'));
    Some(digit(bytes[at])? * 10 + digit(bytes[at + 1])?)
}

fn leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn month_days(year: i64, month: i64) -> i64 {
    match month {
        2 if leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 of a proleptic Gregorian date. Years begin in March here, so that the leap day comes last and a
/// month's start is a linear formula; eras are the 400-year cycles of the calendar.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

impl fmt::Display for UtcTime {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(std::str::from_utf8(&self.text()).unwrap_or_default())
    }
}

impl FromStr for UtcTime {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        Self::parse(text).ok_or_else(|| Invalid::new("time", RULE))
    }
}

const RULE: &str = "a time must be a real moment written as YYYY-MM-DDTHH:MM:SSZ";

impl Serialize for UtcTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(std::str::from_utf8(&self.text()).unwrap_or_default())
    }
}

impl<'de> Deserialize<'de> for UtcTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl Visitor<'_> for TextVisitor {
            type Value = UtcTime;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a time as YYYY-MM-DDTHH:MM:SSZ")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<UtcTime, E> {
                UtcTime::parse(text).ok_or_else(|| E::custom(RULE))
            }
        }
        deserializer.deserialize_str(TextVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_moments_are_written_and_read() {
        let known = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_792_497_600, "2026-10-20T12:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (FIRST_S, "0001-01-01T00:00:00Z"),
            (LAST_S, "9999-12-31T23:59:59Z"),
        ];
        for (seconds, text) in known {
            assert_eq!(UtcTime::from_unix(seconds).to_string(), text);
            assert_eq!(UtcTime::parse(text).map(UtcTime::unix), Some(seconds));
        }
    }

    #[test]
    fn anything_but_the_exact_form_is_refused() {
        let refused = [
            "",
            "2026-10-20T12:00:00",
            "2026-10-20t12:00:00z",
            "2026-10-20 12:00:00Z",
            "2026-10-20T12:00:00.0Z",
            "2026-10-20T12:00:00+00:00",
            "2026-02-29T00:00:00Z",
            "1900-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "2026-04-31T00:00:00Z",
            "2026-10-20T24:00:00Z",
            "2026-10-20T12:60:00Z",
            "2016-12-31T23:59:60Z",
            "0000-01-01T00:00:00Z",
            "+026-10-20T12:00:00Z",
            "2026-1 -20T12:00:00Z",
            "２026-10-20T12:00Z",
        ];
        for text in refused {
            assert_eq!(UtcTime::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn out_of_range_seconds_are_held_at_the_ends() {
        assert_eq!(UtcTime::from_unix(i64::MAX), UtcTime::MAX);
        assert_eq!(UtcTime::from_unix(i64::MIN), UtcTime::MIN);
        assert_eq!(UtcTime::MAX.plus_s(i64::MAX), UtcTime::MAX);
    }

    #[test]
    fn serde_uses_the_written_form() {
        let time = UtcTime::from_unix(1_792_497_600);
        let json = serde_json::to_string(&time).unwrap();
        assert_eq!(json, "\"2026-10-20T12:00:00Z\"");
        assert_eq!(serde_json::from_str::<UtcTime>(&json).unwrap(), time);
        assert!(serde_json::from_str::<UtcTime>("1792497600").is_err());
    }

    proptest! {
        #[test]
        fn every_second_survives_a_round_trip(seconds in FIRST_S..=LAST_S) {
            let time = UtcTime::from_unix(seconds);
            let mut text = Vec::new();
            time.write_to(&mut text);
            prop_assert_eq!(UtcTime::parse(std::str::from_utf8(&text).unwrap()), Some(time));
        }

        #[test]
        fn written_order_is_time_order(a in FIRST_S..=LAST_S, b in FIRST_S..=LAST_S) {
            let (a, b) = (UtcTime::from_unix(a), UtcTime::from_unix(b));
            prop_assert_eq!(a.cmp(&b), a.to_string().cmp(&b.to_string()));
        }

        #[test]
        fn parse_never_panics(text in "\\PC{0,24}") {
            if let Some(time) = UtcTime::parse(&text) {
                prop_assert_eq!(time.to_string(), text);
            }
        }
    }
}
