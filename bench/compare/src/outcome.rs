//! What one run of one load on one server came to.

use serde::Serialize;

use crate::histogram::Quantiles;

/// Figures of one run; `None` where the load or the server has no such figure.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Outcome {
    /// Name of the load.
    pub load: &'static str,
    /// Messages acknowledged as durable, per second.
    pub published_per_s: f64,
    /// From handing a message to the client library until its acknowledgement.
    pub ack_ms: Quantiles,
    /// Deliveries per second, all receivers together.
    pub delivered_per_s: Option<f64>,
    /// From handing a message over until one receiver has it, over all receivers.
    pub deliver_ms: Option<Quantiles>,
    /// Deliveries that were due and never came.
    pub lost: Option<u64>,
    /// Deliveries that came again.
    pub duplicated: Option<u64>,
    /// CPU time of the server's processes per acknowledged message, microseconds.
    pub server_cpu_us_per_msg: Option<f64>,
    /// Resident memory of the server's processes at the end, MiB.
    pub server_rss_mb: Option<f64>,
    /// Cache flushes of the device (or syncs, where the server counts its own) per second.
    pub flush_per_s: Option<f64>,
}
