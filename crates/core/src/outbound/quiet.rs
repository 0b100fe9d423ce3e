//! Quiet hours: a stretch of each day, by the clock on the person's wall, during which only what the policy calls urgent reaches them.

use crate::time::WallMs;
use jiff::civil::{Time, date};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use std::fmt;

/// A person's quiet hours. Made by [`Quiet::parse`] alone, so that what is stored can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quiet {
    zone: TimeZone,
    from: Time,
    until: Time,
}

impl fmt::Display for Quiet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let zone = self.zone.iana_name().unwrap_or("UTC");
        write!(out, "{}-{} {zone}", minutes(self.from), minutes(self.until))
    }
}

fn minutes(time: Time) -> String {
    format!("{:02}:{:02}", time.hour(), time.minute())
}

/// `HH:MM`, from 00:00 to 23:59.
fn time(name: &str, text: &str) -> Result<Time, String> {
    let wrong = || format!("'{name}' must be a time of day such as 22:00, from 00:00 to 23:59");
    let (hour, minute) = text.split_once(':').ok_or_else(wrong)?;
    let two = |text: &str| {
        let is_two = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        is_two.then(|| text.parse::<i8>().ok()).flatten()
    };
    let (hour, minute) = two(hour).zip(two(minute)).ok_or_else(wrong)?;
    Time::new(hour, minute, 0, 0).map_err(|_| wrong())
}

impl Quiet {
    /// From `from` to `until`, each `HH:MM`, perhaps over midnight, in a time zone of the IANA database (`Europe/Berlin`).
    ///
    /// # Errors
    /// A sentence that names the field and what it must be.
    pub fn parse(zone: &str, from: &str, until: &str) -> Result<Self, String> {
        let known = TimeZone::get(zone).ok().filter(|known| known.iana_name() == Some(zone));
        let zone = known.ok_or_else(|| {
            "'zone' must be a name of the IANA time zone database such as Europe/Berlin, with its capitals".to_owned()
        })?;
        let (from, until) = (time("from", from)?, time("until", until)?);
        if from == until {
            return Err("'until' must be another time than 'from'".into());
        }
        Ok(Self { zone, from, until })
    }

    /// The time zone's name.
    #[must_use]
    pub fn zone(&self) -> &str {
        self.zone.iana_name().unwrap_or("UTC")
    }

    /// When they begin, as `HH:MM`.
    #[must_use]
    pub fn from(&self) -> String {
        minutes(self.from)
    }

    /// When they end, as `HH:MM`.
    #[must_use]
    pub fn until(&self) -> String {
        minutes(self.until)
    }

    /// When the quiet hours end in which `now` lies; `None` when it lies in none. Always later than `now`. A time that the clock skips
    /// is as much later as it skips; of one that it shows twice it is the first that is still to come.
    #[must_use]
    pub fn ends_ms(&self, now_ms: WallMs) -> Option<WallMs> {
        let now = Timestamp::from_millisecond(now_ms).ok()?.to_zoned(self.zone.clone());
        let (wall, today) = (now.time(), now.date());
        let over_midnight = self.until < self.from;
        let (is_quiet, tomorrow) = if over_midnight {
            (wall >= self.from || wall < self.until, wall >= self.from)
        } else {
            (wall >= self.from && wall < self.until, false)
        };
        if !is_quiet {
            return None;
        }
        let day = if tomorrow { today.tomorrow().ok()? } else { today };
        let ends = self.zone.to_ambiguous_zoned(day.to_datetime(self.until));
        let skipped = matches!(ends.offset(), jiff::tz::AmbiguousOffset::Gap { .. });
        let earlier = (!skipped).then(|| ends.clone().earlier().ok()).flatten();
        let moments = [earlier, ends.later().ok()];
        let moments = moments.into_iter().flatten().map(|moment| moment.timestamp().as_millisecond());
        // A day that a zone skips whole: the next one's end.
        let next = day.checked_add(1.day()).unwrap_or(date(9999, 12, 31)).to_datetime(self.until);
        let next = self.zone.to_ambiguous_zoned(next).later().ok()?.timestamp().as_millisecond();
        moments.chain([next]).find(|moment| *moment > now_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(text: &str) -> WallMs {
        text.parse::<Timestamp>().unwrap().as_millisecond()
    }

    fn ends(zone: &str, (from, until): (&str, &str), now: &str) -> Option<String> {
        let ends = Quiet::parse(zone, from, until).unwrap().ends_ms(ms(now))?;
        Some(Timestamp::from_millisecond(ends).unwrap().to_string())
    }

    /// Zone, hours, now, when they end.
    type Row = (&'static str, (&'static str, &'static str), &'static str, Option<&'static str>);

    #[test]
    fn they_end_by_the_clock_on_the_wall() {
        const NIGHT: (&str, &str) = ("22:00", "07:00");
        const BERLIN: &str = "Europe/Berlin";
        let table: [Row; 18] = [
            // An ordinary night, to the minute.
            (BERLIN, NIGHT, "2026-06-01T19:59:59Z", None),
            (BERLIN, NIGHT, "2026-06-01T20:00:00Z", Some("2026-06-02T05:00:00Z")),
            (BERLIN, NIGHT, "2026-06-02T04:59:59.999Z", Some("2026-06-02T05:00:00Z")),
            (BERLIN, NIGHT, "2026-06-02T05:00:00Z", None),
            // The same hours in winter are another time of the world.
            (BERLIN, NIGHT, "2026-12-01T06:00:00Z", None),
            (BERLIN, NIGHT, "2026-12-01T05:59:59Z", Some("2026-12-01T06:00:00Z")),
            // At noon.
            ("UTC", ("12:00", "13:30"), "2026-06-01T12:00:00Z", Some("2026-06-01T13:30:00Z")),
            ("UTC", ("12:00", "13:30"), "2026-06-01T13:30:00Z", None),
            // The night in which the clock goes forward is an hour shorter, the other one an hour longer.
            (BERLIN, NIGHT, "2026-03-28T21:00:00Z", Some("2026-03-29T05:00:00Z")),
            (BERLIN, NIGHT, "2026-10-24T20:00:00Z", Some("2026-10-25T06:00:00Z")),
            // They would end at 02:30, which is skipped.
            (BERLIN, ("22:00", "02:30"), "2026-03-29T00:30:00Z", Some("2026-03-29T01:30:00Z")),
            // They end at 02:30, which comes twice: before, and between the two.
            (BERLIN, ("22:00", "02:30"), "2026-10-25T00:15:00Z", Some("2026-10-25T00:30:00Z")),
            (BERLIN, ("22:00", "02:30"), "2026-10-25T00:45:00Z", None),
            (BERLIN, ("22:00", "02:30"), "2026-10-25T01:15:00Z", Some("2026-10-25T01:30:00Z")),
            // Half an hour, and a midnight that does not exist.
            ("Australia/Lord_Howe", ("01:00", "02:15"), "2026-10-03T15:00:00Z", Some("2026-10-03T15:45:00Z")),
            ("America/Santiago", ("22:00", "00:00"), "2026-09-06T03:00:00Z", Some("2026-09-06T04:00:00Z")),
            // The other side of the world, and a day that was left out.
            ("Pacific/Kiritimati", NIGHT, "2026-06-01T08:00:00Z", Some("2026-06-01T17:00:00Z")),
            ("Pacific/Apia", NIGHT, "2011-12-30T09:00:00Z", Some("2011-12-30T17:00:00Z")),
        ];
        for (zone, hours, now, expected) in table {
            assert_eq!(ends(zone, hours, now).as_deref(), expected, "{zone} {hours:?} at {now}");
        }
    }

    #[test]
    fn what_is_no_time_and_no_zone_is_named() {
        for (zone, from, until, named) in [
            ("Europe/Berlin", "22", "07:00", "'from'"),
            ("Europe/Berlin", "22:00", "24:00", "'until'"),
            ("Europe/Berlin", "+2:00", "07:00", "'from'"),
            ("Europe/Berlin", "22:00", "7:00", "'until'"),
            ("Europe/Berlin", "22:00", "22:00", "'until'"),
            ("Berlin", "22:00", "07:00", "'zone'"),
            ("europe/berlin", "22:00", "07:00", "'zone'"),
            ("", "22:00", "07:00", "'zone'"),
            ("../etc/passwd", "22:00", "07:00", "'zone'"),
        ] {
            let why = Quiet::parse(zone, from, until).unwrap_err();
            assert!(why.contains(named), "{zone} {from} {until}: {why}");
        }
        let quiet = Quiet::parse("Europe/Berlin", "22:00", "07:05").unwrap();
        assert_eq!(quiet.to_string(), "22:00-07:05 Europe/Berlin");
    }

    proptest::proptest! {
        #[test]
        fn they_always_end_within_two_days(
            now_ms in 0i64..4_000_000_000_000,
            zone in proptest::sample::select(vec!["Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca", "UTC"]),
            from in 0i8..24, until in 0i8..24, minute in 0i8..60,
        ) {
            let text = |hour: i8| format!("{hour:02}:{minute:02}");
            let Ok(quiet) = Quiet::parse(zone, &text(from), &text(until)) else { return Ok(()) };
            if let Some(ends_ms) = quiet.ends_ms(now_ms) {
                proptest::prop_assert!(ends_ms > now_ms && ends_ms <= now_ms + 2 * crate::time::DAY_MS);
            }
        }
    }
}
