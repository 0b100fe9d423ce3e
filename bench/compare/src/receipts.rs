//! Who received what: rate, latency, and whether each receiver got each message exactly once.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::histogram::Histogram;
use crate::load::read_body;
use crate::outcome::Outcome;

/// Messages that one run can number; above it a receipt is refused, so memory stays bounded.
const NUMBERS_MAX: u64 = 1 << 26;

/// The deliveries of one run, all receivers together.
pub struct Receipts {
    start: Instant,
    seen: Vec<Mutex<Vec<u64>>>,
    received: AtomicU64,
    duplicated: AtomicU64,
    last_ns: AtomicU64,
    deliver: Histogram,
}

impl Receipts {
    /// For `receivers` receivers; `start` is the zero of the time stamps in the bodies.
    pub fn new(start: Instant, receivers: usize) -> Self {
        Self {
            start,
            seen: (0..receivers).map(|_| Mutex::default()).collect(),
            received: AtomicU64::new(0),
            duplicated: AtomicU64::new(0),
            last_ns: AtomicU64::new(0),
            deliver: Histogram::default(),
        }
    }

    /// Notes that `receiver` got `body`; an error when it is no body of this run.
    pub fn note(&self, receiver: usize, body: &[u8]) -> Result<()> {
        let Some((number, sent_ns)) = read_body(body).filter(|(number, _)| *number < NUMBERS_MAX) else {
            bail!("a delivered body is not one that was sent");
        };
        let now_ns = self.start.elapsed().as_nanos() as u64;
        if self.mark(receiver, number) {
            self.deliver.record(Duration::from_nanos(now_ns.saturating_sub(sent_ns)), 1);
            self.received.fetch_add(1, Ordering::Relaxed);
            self.last_ns.fetch_max(now_ns, Ordering::Relaxed);
        } else {
            self.duplicated.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Deliveries so far, repeats not counted.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Fills in the delivery figures, given how many messages were acknowledged.
    ///
    /// The rate spans from the start of the senders to the last delivery, so a server that
    /// acknowledges first and delivers later gains nothing by it.
    pub fn report(&self, published: u64, outcome: &mut Outcome) {
        let expected = published * self.seen.len() as u64;
        let took = Duration::from_nanos(self.last_ns.load(Ordering::Relaxed)).as_secs_f64();
        outcome.delivered_per_s = Some(self.received() as f64 / took.max(f64::MIN_POSITIVE));
        outcome.deliver_ms = Some(self.deliver.quantiles());
        outcome.lost = Some(expected.saturating_sub(self.received()));
        outcome.duplicated = Some(self.duplicated.load(Ordering::Relaxed));
    }

    /// True when `number` is new to `receiver`.
    fn mark(&self, receiver: usize, number: u64) -> bool {
        let (word, bit) = ((number / 64) as usize, 1_u64 << (number % 64));
        let mut seen = self.seen[receiver].lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if seen.len() <= word {
            seen.resize(word + 1, 0);
        }
        let new = seen[word] & bit == 0;
        seen[word] |= bit;
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::BODY_BYTES;

    fn body(number: u64) -> [u8; BODY_BYTES] {
        let mut body = [0; BODY_BYTES];
        body[..8].copy_from_slice(&number.to_le_bytes());
        body
    }

    #[test]
    fn a_missing_and_a_repeated_delivery_are_both_seen() {
        let start = Instant::now();
        let receipts = Receipts::new(start, 2);
        for (receiver, number) in [(0, 0), (0, 1), (0, 1), (1, 0)] {
            receipts.note(receiver, &body(number)).unwrap();
        }
        let mut outcome = Outcome::default();
        receipts.report(2, &mut outcome);
        assert_eq!((outcome.lost, outcome.duplicated), (Some(1), Some(1)));
        // Three deliveries within a span that began at `start` and is over.
        assert!(outcome.delivered_per_s.unwrap() >= 3.0 / start.elapsed().as_secs_f64());
    }

    #[test]
    fn foreign_bodies_are_refused() {
        let receipts = Receipts::new(Instant::now(), 1);
        assert!(receipts.note(0, b"short").is_err());
        assert!(receipts.note(0, &body(u64::MAX)).is_err());
        assert_eq!(receipts.received(), 0);
    }
}
