//! Circuit breakers: a channel that fails is left alone for a while, and found out about with one attempt at a time.

use std::time::Duration;
use switchboard_core::time::WallMs;

/// Failures in a row after which a channel is left alone for a while; one that does not take our credentials is at once.
const BREAK_AFTER: u32 = 5;
/// The shortest such while, doubled with each failure after it.
const BREAK_FOR: Duration = Duration::from_secs(5);
/// The longest.
const BREAK_FOR_MAX: Duration = Duration::from_mins(5);

/// A circuit breaker: while it is open, nothing is attempted and no attempt is used up.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    failures: u32,
    open_until: Duration,
    works: bool,
    since_ms: WallMs,
}

impl Breaker {
    /// Something failed that passes by itself.
    pub(super) fn failed(&mut self, now: Duration) {
        // Attempts that began before it opened say nothing new.
        if now < self.open_until {
            return;
        }
        self.failures = self.failures.saturating_add(1);
        if self.is_open() {
            let pause = BREAK_FOR * (1 << (self.failures - BREAK_AFTER).min(6));
            self.open_until = now + pause.min(BREAK_FOR_MAX);
        }
    }

    /// Our credentials or configuration were refused. Whether something has gone through since that happened last.
    pub(super) fn refused(&mut self, now: Duration) -> bool {
        self.failures = self.failures.max(BREAK_AFTER - 1);
        self.failed(now);
        std::mem::take(&mut self.works)
    }

    /// The service was reached, and it knows us.
    pub(super) fn worked(&mut self, now_ms: WallMs) {
        if self.is_open() {
            self.since_ms = now_ms;
        }
        (self.failures, self.open_until, self.works) = (0, Duration::ZERO, true);
    }

    /// The channel begins anew: what waits for it could leave since now.
    pub(super) fn begun(&mut self, now_ms: WallMs) {
        *self = Self { since_ms: now_ms, ..Self::default() };
    }

    /// Somebody has mended it, or wants to know: one attempt may begin at once.
    pub(super) fn try_now(&mut self) {
        self.open_until = Duration::ZERO;
    }

    /// Since when messages could leave, as far as this node knows.
    pub(super) fn since_ms(&self) -> WallMs {
        self.since_ms
    }

    /// Whether the channel is left alone, or found out about.
    pub(super) fn is_open(&self) -> bool {
        self.failures >= BREAK_AFTER
    }

    /// How many attempts may begin now: one, to find out, when it has been open and none is under way.
    pub(super) fn allows(&self, now: Duration, under_way: usize) -> usize {
        match self.is_open() {
            false => usize::MAX,
            true if now < self.open_until || under_way > 0 => 0,
            true => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_that_keeps_failing_is_left_alone_and_tried_with_one() {
        let mut breaker = Breaker::default();
        let now = Duration::from_secs(100);
        for _ in 0..BREAK_AFTER - 1 {
            breaker.failed(now);
            assert_eq!(breaker.allows(now, 0), usize::MAX);
        }
        breaker.failed(now);
        assert_eq!(breaker.allows(now, 0), 0);
        assert_eq!(breaker.allows(now + BREAK_FOR, 0), 1);
        assert_eq!(breaker.allows(now + BREAK_FOR, 1), 0, "one at a time");
        breaker.failed(now);
        assert_eq!(breaker.allows(now + BREAK_FOR, 0), 1, "what began before says nothing new");
        let mut later = now;
        for _ in 0..100 {
            later += BREAK_FOR_MAX;
            breaker.failed(later);
        }
        assert_eq!(breaker.allows(later + (BREAK_FOR_MAX.saturating_sub(BREAK_FOR)), 0), 0);
        assert_eq!(breaker.allows(later + BREAK_FOR_MAX, 0), 1);
        breaker.worked(7);
        assert_eq!((breaker.allows(later, 0), breaker.since_ms()), (usize::MAX, 7));
    }

    #[test]
    fn a_channel_that_does_not_know_us_is_left_alone_at_once_until_somebody_asks() {
        let mut breaker = Breaker::default();
        let now = Duration::from_secs(100);
        breaker.begun(3);
        assert!(!breaker.refused(now), "nothing has ever gone through");
        assert_eq!(breaker.allows(now, 0), 0);
        breaker.try_now();
        assert_eq!(breaker.allows(now, 0), 1);
        assert!(!breaker.refused(now));
        assert_eq!(breaker.allows(now + BREAK_FOR, 0), 0, "pauses grow");
        assert_eq!(breaker.allows(now + 2 * BREAK_FOR, 0), 1);
        breaker.worked(9);
        assert_eq!((breaker.allows(now, 0), breaker.since_ms()), (usize::MAX, 9));
        assert!(breaker.refused(now), "others have gone through");
        assert!(!breaker.refused(now));
    }
}
