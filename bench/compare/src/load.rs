//! The work itself, the same for every peer: closed-loop senders with a fixed in-flight window, and
//! receivers that each must get every message once.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures_util::future::try_join_all;
use tokio::task::JoinSet;

use crate::histogram::Histogram;
use crate::machine::device_flushes;
use crate::outcome::Outcome;
use crate::peer::{Peer, Sender};
use crate::receipts::Receipts;

/// Size of every message body, bytes.
pub const BODY_BYTES: usize = 350;
/// Longest wait for outstanding acknowledgements, and for deliveries, after the senders stopped.
const DRAIN_LIMIT: Duration = Duration::from_mins(2);
const WARM_UP_MAX: Duration = Duration::from_secs(1);

/// One kind of work.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Name in tables and JSON.
    pub name: &'static str,
    /// Connections that publish.
    pub senders: usize,
    /// Messages that each sender keeps unacknowledged.
    pub in_flight: usize,
    /// Connections that each receive every message.
    pub receivers: usize,
}

/// The kinds of work that are compared.
pub const LOADS: [Load; 7] = [
    Load { name: "one in flight", senders: 1, in_flight: 1, receivers: 0 },
    Load { name: "16 in flight", senders: 1, in_flight: 16, receivers: 0 },
    Load { name: "256 in flight", senders: 1, in_flight: 256, receivers: 0 },
    Load { name: "64 senders x 64", senders: 64, in_flight: 64, receivers: 0 },
    Load { name: "50 receivers", senders: 4, in_flight: 64, receivers: 50 },
    Load { name: "16 senders", senders: 16, in_flight: 1, receivers: 0 },
    Load { name: "16 senders x 64", senders: 16, in_flight: 64, receivers: 0 },
];

/// A message body: number and send time in the first 16 bytes, filler after them.
pub type Body = [u8; BODY_BYTES];

/// Number of the message and nanoseconds since the start of the run at which it was handed over.
pub fn read_body(body: &[u8]) -> Option<(u64, u64)> {
    if body.len() != BODY_BYTES {
        return None;
    }
    let number = u64::from_le_bytes(body[..8].try_into().ok()?);
    let sent_ns = u64::from_le_bytes(body[8..16].try_into().ok()?);
    Some((number, sent_ns))
}

fn write_body(number: u64, sent_ns: u64) -> Body {
    let mut body = [b'.'; BODY_BYTES];
    body[..8].copy_from_slice(&number.to_le_bytes());
    body[8..16].copy_from_slice(&sent_ns.to_le_bytes());
    body
}

/// What senders share: the counters of one run.
struct Progress {
    start: Instant,
    next_number: AtomicU64,
    published: AtomicU64,
    counting: AtomicBool,
    stopping: AtomicBool,
    counted: AtomicU64,
    ack: Histogram,
}

impl Progress {
    fn new(start: Instant) -> Self {
        Self {
            start,
            next_number: AtomicU64::new(0),
            published: AtomicU64::new(0),
            counting: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            counted: AtomicU64::new(0),
            ack: Histogram::default(),
        }
    }

    /// One slot of a sender's window: publishes `batch` messages at a time until told to stop.
    async fn run_slot(self: Arc<Self>, sender: Arc<impl Sender>, batch: usize) -> Result<()> {
        while !self.stopping.load(Ordering::Relaxed) {
            let first = self.next_number.fetch_add(batch as u64, Ordering::Relaxed);
            let begun = Instant::now();
            let sent_ns = (begun - self.start).as_nanos() as u64;
            let bodies = (0..batch as u64).map(|i| write_body(first + i, sent_ns)).collect();
            sender.publish(bodies).await?;
            self.published.fetch_add(batch as u64, Ordering::Relaxed);
            if self.counting.load(Ordering::Relaxed) {
                self.counted.fetch_add(batch as u64, Ordering::Relaxed);
                self.ack.record(begun.elapsed(), batch as u64);
            }
        }
        Ok(())
    }
}

/// Runs `load` on `peer` for `length` after a warm-up; `topic` must be new to the peer.
pub async fn run<P: Peer>(peer: &P, load: &Load, topic: &str, length: Duration) -> Result<Outcome> {
    peer.create_topic(topic, load.receivers).await.context("create the topic")?;
    let start = Instant::now();
    let receipts = Arc::new(Receipts::new(start, load.receivers));
    let mut receivers = JoinSet::new();
    for index in 0..load.receivers {
        peer.receive(topic, index, Arc::clone(&receipts), &mut receivers).await.context("subscribe")?;
    }
    let connect = (0..load.senders).map(|_| peer.sender(topic));
    let senders = try_join_all(connect).await.context("connect a sender")?;
    let progress = Arc::new(Progress::new(start));
    let mut slots = JoinSet::new();
    let batch = P::BATCH.min(load.in_flight);
    for sender in senders.into_iter().map(Arc::new) {
        for _ in 0..load.in_flight / batch {
            slots.spawn(Arc::clone(&progress).run_slot(Arc::clone(&sender), batch));
        }
    }
    let mut outcome = observe(peer, load, &progress, &mut slots, length).await?;
    if load.receivers > 0 {
        await_deliveries(&receipts, &progress, load.receivers, &mut receivers).await?;
        receipts.report(progress.published.load(Ordering::Relaxed), &mut outcome);
    }
    receivers.shutdown().await;
    Ok(outcome)
}

async fn observe<P: Peer>(
    peer: &P,
    load: &Load,
    progress: &Progress,
    slots: &mut JoinSet<Result<()>>,
    length: Duration,
) -> Result<Outcome> {
    let warm_up = WARM_UP_MAX.min(length / 5);
    run_for(warm_up, slots).await?;
    let (flushes_before, before, begun) = (device_flushes(peer.folder()), peer.usage(), Instant::now());
    progress.counting.store(true, Ordering::Relaxed);
    run_for(length, slots).await?;
    run_one_turn(load, progress, slots).await?;
    progress.counting.store(false, Ordering::Relaxed);
    let (took, after) = (begun.elapsed().as_secs_f64(), peer.usage());
    let flushes = device_flushes(peer.folder()).zip(flushes_before).map(|(now, then)| now - then);
    progress.stopping.store(true, Ordering::Relaxed);
    tokio::time::timeout(DRAIN_LIMIT, finish(slots))
        .await
        .context("acknowledgements still outstanding")??;
    let counted = progress.counted.load(Ordering::Relaxed);
    let cpu_us = (after.cpu.saturating_sub(before.cpu)).as_secs_f64() * 1e6;
    Ok(Outcome {
        load: load.name,
        published_per_s: counted as f64 / took,
        ack_ms: progress.ack.quantiles(),
        server_cpu_us_per_msg: Some(cpu_us / counted as f64),
        server_rss_mb: Some(after.rss_mb),
        flush_per_s: flushes.map(|n| n as f64 / took),
        ..Outcome::default()
    })
}

/// Lets the senders work for `length`; the first one that fails ends the run.
async fn run_for(length: Duration, slots: &mut JoinSet<Result<()>>) -> Result<()> {
    tokio::select! {
        () = tokio::time::sleep(length) => Ok(()),
        Some(ended) = slots.join_next() => {
            ended??;
            bail!("a sender ended before its time")
        }
    }
}

/// Works on until as many messages were acknowledged as may be in flight: a server that answers a
/// wide window in bursts longer than the run would else be measured between two of them.
async fn run_one_turn(load: &Load, progress: &Progress, slots: &mut JoinSet<Result<()>>) -> Result<()> {
    let turn = (load.senders * load.in_flight) as u64;
    let deadline = tokio::time::Instant::now() + DRAIN_LIMIT;
    while progress.counted.load(Ordering::Relaxed) < turn {
        if tokio::time::Instant::now() > deadline {
            bail!("not one turn of the window in {DRAIN_LIMIT:?}");
        }
        run_for(Duration::from_millis(10), slots).await?;
    }
    Ok(())
}

async fn finish(slots: &mut JoinSet<Result<()>>) -> Result<()> {
    while let Some(ended) = slots.join_next().await {
        ended??;
    }
    Ok(())
}

/// Waits for the last delivery, as long as some still arrive; what is missing then counts as lost.
async fn await_deliveries(
    receipts: &Receipts,
    progress: &Progress,
    receivers: usize,
    tasks: &mut JoinSet<Result<()>>,
) -> Result<()> {
    let target = progress.published.load(Ordering::Relaxed) * receivers as u64;
    let deadline = tokio::time::Instant::now() + DRAIN_LIMIT;
    while receipts.received() < target && tokio::time::Instant::now() < deadline {
        if let Some(ended) = tasks.try_join_next() {
            ended??;
            bail!("a receiver ended before its time");
        }
        // Deliveries carry their own time stamps: this pause does not enter any figure.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// Repeats a fallible step a client library may need while a server settles.
pub async fn retry<T, F>(limit: Duration, mut step: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let deadline = tokio::time::Instant::now() + limit;
    loop {
        match step().await {
            Ok(value) => return Ok(value),
            Err(error) if tokio::time::Instant::now() > deadline => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

#[cfg(test)]
mod tests;
