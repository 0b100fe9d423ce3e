//! A lock-free latency histogram: what every sender and receiver task writes into without waiting.
//!
//! Log-linear buckets: 128 per doubling, so a quantile is at most 0.8 % above the true value.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;

const SUB_BITS: u32 = 7;
const SUB: u64 = 1 << SUB_BITS;
/// Doublings above the linear part; 2^40 microseconds (12 days) is the largest value kept apart.
const DOUBLINGS: u64 = 33;

/// Counts of durations in microseconds.
pub struct Histogram {
    buckets: Vec<AtomicU64>,
}

/// The three latencies that a run reports, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, serde::Deserialize)]
pub struct Quantiles {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
}

impl Default for Histogram {
    fn default() -> Self {
        let len = (SUB * (DOUBLINGS + 1)) as usize;
        Self { buckets: (0..len).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Histogram {
    /// Counts `n` events that all took `took` (a batch acknowledged at once counts each message).
    pub fn record(&self, took: Duration, n: u64) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.buckets[bucket_of(micros)].fetch_add(n, Ordering::Relaxed);
    }

    /// The quantiles of all that was recorded; all zero when nothing was.
    pub fn quantiles(&self) -> Quantiles {
        Quantiles { p50: self.value_at(0.5), p99: self.value_at(0.99), p999: self.value_at(0.999) }
    }

    fn value_at(&self, quantile: f64) -> f64 {
        let total: u64 = self.buckets.iter().map(|b| b.load(Ordering::Relaxed)).sum();
        let rank = ((total as f64 * quantile).ceil() as u64).max(1);
        let mut seen = 0;
        for (i, bucket) in self.buckets.iter().enumerate() {
            seen += bucket.load(Ordering::Relaxed);
            if seen >= rank {
                return upper_bound(i as u64) as f64 / 1000.0;
            }
        }
        0.0
    }
}

fn bucket_of(micros: u64) -> usize {
    let doubling = u64::from((micros >> SUB_BITS).checked_ilog2().map_or(0, |log| log + 1)).min(DOUBLINGS);
    if doubling == 0 {
        return micros as usize;
    }
    let sub = (micros >> (doubling - 1)) - SUB;
    (doubling * SUB + sub.min(SUB - 1)) as usize
}

fn upper_bound(bucket: u64) -> u64 {
    let (doubling, sub) = (bucket / SUB, bucket % SUB);
    if doubling == 0 { sub } else { ((SUB + sub + 1) << (doubling - 1)) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_within_its_bucket_and_under_one_percent_of_its_bound() {
        for micros in (0..5000).chain([65_535, 65_536, 1_000_000, 123_456_789, 1 << 39]) {
            let bound = upper_bound(bucket_of(micros) as u64);
            assert!(bound >= micros, "{micros} above its bound {bound}");
            assert!((bound - micros) as f64 <= micros as f64 * 0.008, "{micros} far from {bound}");
        }
    }

    #[test]
    fn quantiles_weigh_batches_by_their_messages() {
        let histogram = Histogram::default();
        histogram.record(Duration::from_micros(100), 98);
        histogram.record(Duration::from_millis(5), 2);
        let quantiles = histogram.quantiles();
        assert!((quantiles.p50 - 0.1).abs() < 0.001);
        assert!((quantiles.p99 - 5.0).abs() < 0.05);
    }

    #[test]
    fn an_absurd_duration_is_kept_in_the_last_bucket() {
        let histogram = Histogram::default();
        histogram.record(Duration::MAX, 1);
        assert!(histogram.quantiles().p50 > 0.0);
    }
}
