//! Places at which a test lets the process end as `kill -9` would: between any two steps of a send. They exist only with the feature
//! `fault-points`, which nothing but tests turns on; without it [`point`] is nothing.

/// Names the place: one of `before-accept`, `after-accept`, `after-claim`, `after-perform`, `after-record`.
#[cfg(feature = "fault-points")]
pub const VARIABLE: &str = "SWITCHBOARD_FAULT_POINT";

/// Ends the process here, at once and without a word to anybody, if [`VARIABLE`] names this place.
#[cfg(feature = "fault-points")]
pub(crate) fn point(name: &str) {
    static NAMED: std::sync::LazyLock<Option<String>> =
        std::sync::LazyLock::new(|| std::env::var(VARIABLE).ok());
    if NAMED.as_deref() == Some(name) {
        std::process::abort();
    }
}

/// Nothing.
#[cfg(not(feature = "fault-points"))]
pub(crate) const fn point(_: &str) {}
