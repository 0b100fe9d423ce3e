//! What `bench bus` prints.

use super::histogram::Quantiles;
use crate::terminal;
use serde::Serialize;

/// What no hub on this machine can beat, measured right before.
#[derive(Debug, Serialize)]
pub struct Machine {
    /// Writes of 4 KiB a second, each flushed to the hub's disk; absent when the hub is elsewhere.
    pub fsync_per_s: Option<f64>,
    /// Half of all loopback round trips were faster, in microseconds.
    pub loopback_rtt_us: Option<f64>,
}

/// The figures (DESIGN section 4).
#[derive(Debug, Serialize)]
pub struct Report {
    /// As asked for.
    pub nodes: usize,
    /// As asked for.
    pub senders: usize,
    /// As asked for.
    pub in_flight: usize,
    /// As asked for.
    pub receivers: usize,
    /// As asked for.
    pub body_bytes: usize,
    /// As asked for.
    pub seconds: f64,
    /// Messages acknowledged in all, warm-up included.
    pub acknowledged: u64,
    /// Messages acknowledged a second.
    pub published_per_s: f64,
    /// Messages that receivers got a second, until the last one had come.
    pub delivered_per_s: f64,
    /// From sending to its acknowledgement.
    pub ack_ms: Quantiles,
    /// From sending to receiving.
    pub deliver_ms: Quantiles,
    /// Acknowledged and never received, over all receivers.
    pub lost: u64,
    /// Received again.
    pub duplicated: u64,
    /// Out of order, or with a gap that no cursor explains.
    pub misordered: u64,
    /// Processor time of all nodes per acknowledged message, deliveries included; the database's is not in it. Linux only.
    pub hub_cpu_us_per_msg: Option<f64>,
    /// The same per delivery, those that senders got of each other included.
    pub hub_cpu_us_per_delivery: Option<f64>,
    /// Processor time of the load itself per acknowledged message: it shares the cores, so it should be the smaller.
    pub load_cpu_us_per_msg: Option<f64>,
    /// Memory of all nodes at the end, in MiB; Linux only.
    pub hub_rss_mb: Option<f64>,
    /// The machine.
    #[serde(flatten)]
    pub machine: Machine,
}

impl Report {
    /// Whether the hub kept its promises.
    pub fn is_sound(&self) -> bool {
        self.lost == 0 && self.duplicated == 0 && self.misordered == 0
    }

    /// For people.
    pub fn text(&self) -> String {
        let quantiles = |q: &Quantiles| format!("{:.3} / {:.3} / {:.3}", q.p50, q.p99, q.p999);
        let known = |value: Option<f64>, unit: &str| match value {
            Some(value) => format!("{value} {unit}"),
            None => "not known here".to_owned(),
        };
        let load = format!(
            "{} nodes, {} senders x {} in flight, {} receivers, {} bytes, {} s",
            self.nodes, self.senders, self.in_flight, self.receivers, self.body_bytes, self.seconds
        );
        let mut facts = vec![
            ("load", load),
            ("published", format!("{} /s", self.published_per_s)),
            ("acknowledged after, ms (p50/p99/p99.9)", quantiles(&self.ack_ms)),
        ];
        if self.receivers > 0 {
            facts.push(("delivered", format!("{} /s", self.delivered_per_s)));
            facts.push(("delivered after, ms (p50/p99/p99.9)", quantiles(&self.deliver_ms)));
            facts.push(("hub's processor per delivery", known(self.hub_cpu_us_per_delivery, "us")));
        }
        let wrong = format!("{} / {} / {}", self.lost, self.duplicated, self.misordered);
        facts.extend([
            ("lost / doubled / out of order", wrong),
            ("hub's processor per message", known(self.hub_cpu_us_per_msg, "us")),
            ("load's processor per message", known(self.load_cpu_us_per_msg, "us")),
            ("hub's memory", known(self.hub_rss_mb, "MiB")),
            ("this disk's flushes of 4 KiB", known(self.machine.fsync_per_s, "/s")),
            ("loopback round trip", known(self.machine.loopback_rtt_us.map(f64::round), "us")),
        ]);
        terminal::facts(&facts)
    }
}
