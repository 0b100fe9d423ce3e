//! Latencies in buckets of about 3 %: 32 of them per power of two of nanoseconds, so that adding one is a shift and an add.

use serde::Serialize;

const SUB_BITS: u32 = 5;
const SUB: usize = 1 << SUB_BITS;
/// Powers of two above the exact ones; 2^42 ns is more than an hour.
const POWERS: usize = 38;

/// Counts of latencies.
#[derive(Debug, Clone)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
}

/// What is told of a histogram, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Quantiles {
    /// Half were faster.
    pub p50: f64,
    /// 99 of 100 were faster.
    pub p99: f64,
    /// 999 of 1000 were faster.
    pub p999: f64,
}

impl Histogram {
    /// Counts nothing yet.
    pub fn new() -> Self {
        Self { buckets: vec![0; SUB * (POWERS + 1)], count: 0 }
    }

    /// Counts one latency.
    pub fn add(&mut self, ns: u64) {
        let last = self.buckets.len() - 1;
        self.buckets[bucket(ns).min(last)] += 1;
        self.count += 1;
    }

    /// Adds the counts of another one.
    pub fn merge(&mut self, other: &Self) {
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(own, others)| *own += others);
        self.count += other.count;
    }

    /// A latency in milliseconds below which `permille` of 1000 were (upper end of the bucket); 0 without any.
    fn at(&self, permille: u64) -> f64 {
        let wanted = (self.count * permille).div_ceil(1000).max(1);
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return upper_ns(index) / 1e6;
            }
        }
        0.0
    }

    /// What is told of it.
    pub fn quantiles(&self) -> Quantiles {
        let rounded = |permille| (self.at(permille) * 10_000.0).round() / 10_000.0;
        Quantiles { p50: rounded(500), p99: rounded(990), p999: rounded(999) }
    }
}

fn bucket(ns: u64) -> usize {
    let power = (u64::BITS - ns.leading_zeros()).saturating_sub(SUB_BITS + 1);
    let sub = usize::try_from(ns >> power).unwrap_or(0);
    power as usize * SUB + sub
}

fn upper_ns(index: usize) -> f64 {
    // The first two rows of buckets are exact; each further one doubles their width.
    let power = (index / SUB).saturating_sub(1);
    let sub = index - power * SUB;
    let width = f64::from(u32::try_from(power).unwrap_or(0)).exp2();
    f64::from(u32::try_from(sub + 1).unwrap_or(u32::MAX)) * width
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_few_percent() {
        let mut histogram = Histogram::new();
        (1..=1000).for_each(|us| histogram.add(us * 1000));
        let Quantiles { p50, p99, p999 } = histogram.quantiles();
        for (found, expected) in [(p50, 0.5), (p99, 0.99), (p999, 0.999)] {
            assert!((found / expected - 1.0).abs() < 0.04, "{found} {expected}");
        }
        let mut other = Histogram::new();
        other.add(5_000_000_000);
        histogram.merge(&other);
        assert_eq!(histogram.count, 1001);
        assert!(histogram.at(1000) > 4900.0);
    }

    #[test]
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    fn every_latency_has_a_bucket_that_holds_it() {
        assert_eq!(Histogram::new().quantiles(), Quantiles { p50: 0.0, p99: 0.0, p999: 0.0 });
        for ns in (0..200).chain([1000, 65_535, 65_536, 1 << 41]) {
            let (upper, lower) = (upper_ns(bucket(ns)), bucket(ns).checked_sub(1).map_or(0.0, upper_ns));
            assert!(lower <= ns as f64 && (ns as f64) < upper, "{ns}: {lower} {upper}");
        }
        Histogram::new().add(u64::MAX);
    }
}
