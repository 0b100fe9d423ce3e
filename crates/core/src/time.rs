//! Clocks. Wall time is for calendars and deadlines, monotonic time for durations; both are injected so that tests can
//! move them apart (DESIGN law 11).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// Wall-clock time in milliseconds since 1970-01-01T00:00:00Z, leap seconds ignored.
pub type WallMs = i64;

/// One second in [`WallMs`].
pub const SECOND_MS: WallMs = 1000;
/// One minute in [`WallMs`].
pub const MINUTE_MS: WallMs = 60 * SECOND_MS;
/// One hour in [`WallMs`].
pub const HOUR_MS: WallMs = 60 * MINUTE_MS;
/// One day in [`WallMs`].
pub const DAY_MS: WallMs = 24 * HOUR_MS;

/// The two clocks.
pub trait Clock: Send + Sync + 'static {
    /// Wall time; may jump in either direction.
    fn wall_ms(&self) -> WallMs;
    /// Time since an arbitrary start; never goes back.
    fn monotonic(&self) -> Duration;
}

/// Another clock whose wall time is moved by a difference that may change: a machine's clock, set by that of a store.
pub struct ShiftedClock {
    inner: Arc<dyn Clock>,
    by_ms: AtomicI64,
}

impl ShiftedClock {
    /// `inner` as it is.
    pub fn new(inner: Arc<dyn Clock>) -> Self {
        Self { inner, by_ms: AtomicI64::new(0) }
    }

    /// From now on the wall time is `wall_ms` and what has passed since. `asked` is [`Clock::monotonic`] from before `wall_ms` was asked
    /// for: half of what has passed since then counts as its way here. Returns the difference, in milliseconds.
    pub fn set(&self, wall_ms: WallMs, asked: Duration) -> i64 {
        let way = self.inner.monotonic().saturating_sub(asked) / 2;
        let now = wall_ms.saturating_add(i64::try_from(way.as_millis()).unwrap_or(0));
        let by_ms = now.saturating_sub(self.inner.wall_ms());
        self.by_ms.store(by_ms, Ordering::Relaxed);
        by_ms
    }
}

impl Clock for ShiftedClock {
    fn wall_ms(&self) -> WallMs {
        self.inner.wall_ms().saturating_add(self.by_ms.load(Ordering::Relaxed))
    }

    fn monotonic(&self) -> Duration {
        self.inner.monotonic()
    }
}

/// The machine's clocks.
#[derive(Debug)]
pub struct SystemClock {
    started: std::time::Instant,
}

impl Default for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]
    fn default() -> Self {
        Self { started: std::time::Instant::now() }
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]
    fn wall_ms(&self) -> WallMs {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0, |elapsed| i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX))
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }
}

/// A clock that moves only when told to.
#[derive(Debug)]
pub struct ManualClock {
    wall_ms: AtomicI64,
    monotonic_ms: AtomicU64,
}

impl ManualClock {
    /// A clock standing at `wall_ms`.
    #[must_use]
    pub fn at(wall_ms: WallMs) -> Self {
        Self { wall_ms: AtomicI64::new(wall_ms), monotonic_ms: AtomicU64::new(0) }
    }

    /// Time passes: both clocks move on by `ms`.
    pub fn advance(&self, ms: u64) {
        self.wall_ms.fetch_add(i64::try_from(ms).unwrap_or(i64::MAX), Ordering::SeqCst);
        self.monotonic_ms.fetch_add(ms, Ordering::SeqCst);
    }

    /// Somebody sets the wall clock: it jumps by `ms` in either direction, the monotonic one does not.
    pub fn jump_wall(&self, ms: i64) {
        self.wall_ms.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn wall_ms(&self) -> WallMs {
        self.wall_ms.load(Ordering::SeqCst)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.monotonic_ms.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shifted_clock_follows_the_one_it_was_set_by() {
        let inner = Arc::new(ManualClock::at(1_000_000));
        let clock = ShiftedClock::new(inner.clone());
        let asked = clock.monotonic();
        inner.advance(40);
        assert_eq!(clock.set(1_300_000, asked), 1_300_020 - 1_000_040, "half of the way is behind it");
        inner.advance(500);
        assert_eq!(clock.wall_ms(), 1_300_520);
    }
}
