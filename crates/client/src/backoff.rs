//! How long to wait before the next attempt.

use std::time::Duration;

/// Exponential delays with jitter, forgotten after a healthy connection.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    min: Duration,
    max: Duration,
    failures: u32,
}

impl Backoff {
    pub(crate) fn new(min: Duration, max: Duration) -> Self {
        Self { min, max, failures: 0 }
    }

    /// The delay before the next attempt: between half and all of the present step, chosen by `jitter`, so that clients that
    /// lost the same server do not return at the same moment.
    pub(crate) fn next_delay(&mut self, jitter: u16) -> Duration {
        let step = self.min.saturating_mul(1 << self.failures.min(20)).min(self.max);
        self.failures = self.failures.saturating_add(1);
        step / 2 + (step / 2).mul_f64(f64::from(jitter) / f64::from(u16::MAX))
    }

    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_double_up_to_the_limit_and_jitter_stays_in_the_upper_half() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
        for step_s in [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0] {
            let (low, high) = (backoff.clone().next_delay(0), backoff.next_delay(u16::MAX));
            assert_eq!((low.as_secs_f64(), high.as_secs_f64()), (step_s / 2.0, step_s));
        }
        backoff.reset();
        assert_eq!(backoff.next_delay(u16::MAX), Duration::from_secs(1));
    }

    #[test]
    fn endless_failures_do_not_overflow() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
        backoff.failures = u32::MAX;
        assert_eq!(backoff.next_delay(u16::MAX), Duration::from_secs(30));
    }
}
