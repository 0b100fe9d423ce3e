//! Senders and receivers against a hub.

use super::child::{self, Target};
use super::histogram::Histogram;
use super::receive::{self, Received, Until};
use super::report::{Machine, Report};
use super::room::Room;
use super::send::{self, Schedule, Sent, Template};
use super::wire::Wire;
use super::{broken, disk};
use crate::args::BenchBus;
use crate::failure::Failure;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::time::{Clock as _, SystemClock};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Everything is set up by then and the hub's caches are warm; at most a tenth of the time is spent on it.
const WARM_UP: Duration = Duration::from_millis(500);
/// How long receivers may need for what is left once nobody sends.
const DRAIN: Duration = Duration::from_mins(1);

/// A sender that is connected, before it starts.
struct Ready {
    wire: Wire,
    template: Template,
}

/// Measures.
pub async fn run(target: &Target, bench: &BenchBus) -> Result<Report, Failure> {
    let machine = machine(target);
    let room = Room::open(target).await?;
    let shared = room.place("shared").await?;
    let mut receivers = Vec::new();
    for number in 0..bench.receivers {
        let token = room.token(&format!("r{number}")).await?;
        receivers.push(room.connect(number + 1, &token, &format!("r{number}"), &shared).await?);
    }
    let mut senders = Vec::new();
    for number in 0..bench.senders {
        let agent = format!("s{number}");
        // Without receivers nobody shall receive anything, so every sender is alone in a vault.
        let place = if bench.receivers > 0 { shared.clone() } else { room.place(&agent).await? };
        let wire = room.connect(number, &room.token(&agent).await?, &agent, &place).await?;
        let template = Template::new(room.run, number, &agent, &place.channel, bench.body_bytes);
        senders.push(Ready { wire, template });
    }
    Ok(Run::new(target, bench).measure(senders, receivers).await?.report(bench, machine, target))
}

fn machine(target: &Target) -> Machine {
    let flushes = target.dir().map(disk::flushes_per_s).and_then(Result::ok);
    Machine { fsync_per_s: flushes.map(f64::round), loopback_rtt_us: disk::loopback_rtt_us().ok().map(round) }
}

struct Run<'a> {
    target: &'a Target,
    schedule: Schedule,
    window: usize,
}

/// What came out.
struct Outcome {
    sent: Vec<Sent>,
    received: Vec<Received>,
    measured: Duration,
    warm: Duration,
    hub_cpu_us: Option<u64>,
    load_cpu_us: Option<u64>,
}

impl<'a> Run<'a> {
    fn new(target: &'a Target, bench: &BenchBus) -> Self {
        let seconds = Duration::from_secs_f64(bench.seconds);
        let clock = Arc::new(SystemClock::default());
        let warm = clock.monotonic() + WARM_UP.min(seconds / 10);
        let stop = warm + seconds;
        Self { target, schedule: Schedule { clock, warm, stop }, window: bench.in_flight }
    }

    async fn measure(self, senders: Vec<Ready>, receivers: Vec<Wire>) -> Result<Outcome, Failure> {
        let (until, watched) = watch::channel(Until::Sending);
        let mut receiving = JoinSet::new();
        for wire in receivers {
            receiving.spawn(receive::run(wire, senders.len(), self.schedule.clone(), watched.clone()));
        }
        let mut sending = Vec::new();
        for Ready { wire, template } in senders {
            sending.push(tokio::spawn(send::run(wire, template, self.window, self.schedule.clone())));
        }
        tokio::time::sleep(self.schedule.warm.saturating_sub(self.schedule.clock.monotonic())).await;
        let (cpu_before, own_before) = (self.target.cpu_us(), child::cpu_us_of(std::process::id()));
        let mut sent = Vec::new();
        let mut open = Vec::new();
        for task in sending {
            let (found, wire) = task.await.map_err(broken)?.map_err(broken)?;
            sent.push(found);
            open.push(wire);
        }
        let received = if receiving.is_empty() {
            Vec::new()
        } else {
            // Senders get each other's messages; while receivers catch up, somebody has to take them.
            let emptying: Vec<_> = open.into_iter().map(|wire| tokio::spawn(take_all(wire))).collect();
            let received = drain(receiving, &until, sent.iter().map(|sent| sent.acknowledged).sum()).await?;
            emptying.iter().for_each(tokio::task::JoinHandle::abort);
            received
        };
        let since = |before: Option<u64>, now: Option<u64>| Some(now?.saturating_sub(before?));
        let hub_cpu_us = since(cpu_before, self.target.cpu_us());
        let load_cpu_us = since(own_before, child::cpu_us_of(std::process::id()));
        let measured = self.schedule.stop.saturating_sub(self.schedule.warm);
        Ok(Outcome { sent, received, measured, warm: self.schedule.warm, hub_cpu_us, load_cpu_us })
    }
}

async fn take_all(mut wire: Wire) -> std::io::Result<()> {
    loop {
        wire.exchange().await?;
        while wire.next()?.is_some() {}
    }
}

/// Waits until every receiver has everything, or gives up.
async fn drain(
    mut receiving: JoinSet<std::io::Result<Received>>,
    until: &watch::Sender<Until>,
    total: u64,
) -> Result<Vec<Received>, Failure> {
    until.send_replace(Until::Total(total));
    let give_up = tokio::time::sleep(DRAIN);
    tokio::pin!(give_up);
    let mut received = Vec::new();
    loop {
        tokio::select! {
            joined = receiving.join_next() => match joined {
                Some(found) => received.push(found.map_err(broken)?.map_err(broken)?),
                None => return Ok(received),
            },
            () = &mut give_up, if *until.borrow() != Until::GiveUp => {
                until.send_replace(Until::GiveUp);
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of a bench are far below 2^52")]
impl Outcome {
    fn report(self, bench: &BenchBus, machine: Machine, target: &Target) -> Report {
        let (mut acks, mut deliveries) = (Histogram::new(), Histogram::new());
        self.sent.iter().for_each(|sent| acks.merge(&sent.latency));
        self.received.iter().for_each(|received| deliveries.merge(&received.latency));
        let published: u64 = self.sent.iter().map(|sent| sent.counted).sum();
        let delivered: u64 = self.received.iter().map(|received| received.counted).sum();
        let acknowledged: Vec<u64> = self.sent.iter().map(|sent| sent.acknowledged).collect();
        let overheard: u64 = self.sent.iter().map(|sent| sent.overheard).sum();
        let has_receivers = !self.received.is_empty();
        // Deliveries count until the last one: a hub that acknowledges first and delivers later gains nothing.
        let last = self.received.iter().map(|received| Duration::from_nanos(received.last_ns)).max();
        let delivering = last.unwrap_or_default().saturating_sub(self.warm).max(self.measured).as_secs_f64();
        let each = |cpu_us: Option<u64>, count: u64| {
            cpu_us.filter(|_| count > 0).map(|cpu_us| round(cpu_us as f64 / count as f64))
        };
        Report {
            senders: bench.senders,
            nodes: bench.hubs.nodes,
            in_flight: bench.in_flight,
            receivers: bench.receivers,
            body_bytes: bench.body_bytes,
            seconds: bench.seconds,
            acknowledged: acknowledged.iter().sum(),
            published_per_s: (published as f64 / self.measured.as_secs_f64()).round(),
            delivered_per_s: (delivered as f64 / delivering).round(),
            ack_ms: acks.quantiles(),
            deliver_ms: deliveries.quantiles(),
            lost: self.received.iter().map(|received| received.lost(&acknowledged)).sum(),
            duplicated: self.received.iter().map(|received| received.duplicated).sum(),
            misordered: self.sent.iter().map(|sent| sent.misordered).sum::<u64>()
                + self.received.iter().map(|received| received.misordered).sum::<u64>(),
            hub_cpu_us_per_msg: each(self.hub_cpu_us, published),
            hub_cpu_us_per_delivery: each(self.hub_cpu_us, delivered + overheard).filter(|_| has_receivers),
            load_cpu_us_per_msg: each(self.load_cpu_us, published),
            hub_rss_mb: target.rss_bytes().map(|bytes| round(bytes as f64 / f64::from(1 << 20))),
            machine,
        }
    }
}

fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
