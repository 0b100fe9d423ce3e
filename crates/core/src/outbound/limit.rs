//! Rate limits that outlive restarts and are shared by all nodes: one small row for each key.
//!
//! A window of `interval_ms` is cut into [`SLICES`]; the row counts what was taken in each slice that is not over. What was taken in a
//! slice counts until the slice lies wholly outside of the window, so that never more than `max` calls fall into any window, and the
//! next one is let through at most one slice later than the strictest log of single calls would.

use crate::time::WallMs;

/// Slices of a window.
pub const SLICES: i64 = 60;

/// So many calls in so long a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Calls, at least 1.
    pub max: u32,
    /// Length of the window in milliseconds, at least 1.
    pub interval_ms: WallMs,
}

/// What was taken lately: slice number and count, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Window(Vec<(i64, u32)>);

impl Rate {
    // No slice is shorter than a millisecond.
    fn slice_ms(self) -> WallMs {
        (self.interval_ms / SLICES).max(1)
    }

    // Slices that a window touches, the present one included, when it is seen from its end.
    fn span(self) -> i64 {
        (self.interval_ms.max(1) + self.slice_ms() - 1) / self.slice_ms() + 1
    }
}

impl Window {
    /// Of what [`Window::encode`] wrote; anything else counts as empty.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Self {
        let pairs = bytes.chunks_exact(12).map(|chunk| {
            let (slice, count) = chunk.split_at(8);
            (
                i64::from_be_bytes(slice.try_into().unwrap_or_default()),
                u32::from_be_bytes(count.try_into().unwrap_or_default()),
            )
        });
        Self(pairs.collect())
    }

    /// As bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.0.len() * 12);
        for (slice, count) in &self.0 {
            out.extend(slice.to_be_bytes());
            out.extend(count.to_be_bytes());
        }
        out
    }

    /// From when on nothing of it counts any more.
    #[must_use]
    pub fn over_ms(&self, rate: Rate) -> WallMs {
        let last = self.0.last().map_or(0, |(slice, _)| *slice);
        last.saturating_add(rate.span()).saturating_mul(rate.slice_ms())
    }

    /// Takes one call at `now_ms`, or says in how many milliseconds one is to be had. A refused call takes nothing. A clock that went
    /// back is taken to stand still.
    pub fn take(&mut self, rate: Rate, now_ms: WallMs) -> Result<(), WallMs> {
        let mut now = now_ms.div_euclid(rate.slice_ms());
        if let Some((last, _)) = self.0.last() {
            now = now.max(*last);
        }
        self.0.retain(|(slice, _)| *slice > now - rate.span());
        let used: u64 = self.0.iter().map(|(_, count)| u64::from(*count)).sum();
        if used >= u64::from(rate.max) {
            let mut free = used;
            let due = self.0.iter().find(|(_, count)| {
                free -= u64::from(*count);
                free < u64::from(rate.max)
            });
            let at = due.map_or(now, |(slice, _)| *slice) + rate.span();
            return Err((at.saturating_mul(rate.slice_ms()) - now_ms).max(1));
        }
        match self.0.last_mut() {
            Some((slice, count)) if *slice == now => *count += 1,
            _ => self.0.push((now, 1)),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::HOUR_MS;

    #[test]
    fn the_one_too_many_is_told_when_to_come_back_and_then_passes() {
        let rate = Rate { max: 2, interval_ms: HOUR_MS };
        let mut window = Window::default();
        assert_eq!(window.take(rate, 1_000_000), Ok(()));
        assert_eq!(window.take(rate, 1_200_000), Ok(()));
        let before = window.clone();
        let wait = window.take(rate, 1_300_000).unwrap_err();
        assert_eq!(window, before, "a refused call takes nothing");
        assert!(wait >= 1_000_000 + HOUR_MS - 1_300_000, "{wait}");
        assert!(wait <= 1_000_000 + HOUR_MS - 1_300_000 + 2 * HOUR_MS / SLICES, "{wait}");
        assert_eq!(window.take(rate, 1_300_000 + wait), Ok(()));
    }

    #[test]
    fn it_survives_being_stored_and_a_clock_that_goes_back() {
        let rate = Rate { max: 3, interval_ms: 1000 };
        let mut window = Window::default();
        for at in [5000, 100, 4000] {
            window = Window::decode(&window.encode());
            assert_eq!(window.take(rate, at), Ok(()));
        }
        assert!(window.take(rate, 200).is_err());
        assert_eq!(window.take(rate, 7000), Ok(()));
    }

    // The oracle: a log of every call that was let through.
    #[test]
    fn no_window_ever_holds_more_and_none_is_kept_waiting_for_long() {
        let mut random = 1u64;
        let mut next = |bound: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % bound
        };
        for _ in 0..200 {
            let max = u32::try_from(1 + next(6)).unwrap();
            let interval_ms = i64::try_from(1 + next(5000)).unwrap();
            let rate = Rate { max, interval_ms };
            let (mut window, mut log, mut now) = (Window::default(), Vec::<i64>::new(), 10_000i64);
            for _ in 0..200 {
                now += i64::try_from(next(interval_ms.unsigned_abs() / 2 + 2)).unwrap();
                let recent = |since: i64| log.iter().filter(|at| **at > since).count();
                let slack = 3 * rate.slice_ms();
                match window.take(rate, now) {
                    Ok(()) => {
                        assert!(recent(now - interval_ms) < max as usize, "{rate:?}");
                        log.push(now);
                        let over = window.over_ms(rate);
                        assert!(over > now + interval_ms && over <= now + interval_ms + slack, "{rate:?}");
                        let mut later = window.clone();
                        later.take(rate, over).unwrap();
                        let mut forgotten = Window::default();
                        forgotten.take(rate, over).unwrap();
                        assert_eq!(later, forgotten, "nothing of it counts");
                    }
                    Err(wait) => {
                        assert!(recent(now - interval_ms - slack) >= max as usize, "{rate:?}");
                        assert!(window.clone().take(rate, now + wait).is_ok(), "{rate:?} {wait}");
                    }
                }
            }
        }
    }
}
