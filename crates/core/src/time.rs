//! Clocks. Wall time is for calendars and deadlines, monotonic time for durations; both are injected so that tests can
//! move them apart (DESIGN law 11).

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
