//! `/healthz` (the process answers) and `/readyz` (a write reaches the disk).

use crate::Doors;
use crate::http::{Answer, json};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use parking_lot::Mutex;
use serde_json::json as value;
use std::time::Duration;
use switchboard_engine::{manage, refusal};

/// A probe's result is believed so long, so that nobody can wear the disk out by asking.
const BELIEVED: Duration = Duration::from_secs(1);

/// A write that takes longer does not count as one that reaches the disk.
const PROBE: Duration = Duration::from_secs(3);

/// The last probe: when, and why it failed.
#[derive(Debug, Default)]
pub struct LastProbe(Mutex<Option<(Duration, Option<String>)>>);

/// Whether the process answers.
#[utoipa::path(get, path = "/healthz", tag = "operation", responses((status = 200)))]
pub async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether the hub takes messages: proven by a write. A doorbell that is down does not make a node unready: it delivers by polling,
/// and the others do no better. Nor do changed rules that were refused: the old ones are in force. Nor does a channel
/// that does not work: what is for it waits.
#[utoipa::path(get, path = "/readyz", tag = "operation", responses((status = 200), (status = 503)))]
pub async fn readyz(State(doors): State<Doors>) -> Answer {
    let now = doors.hub.clock().monotonic();
    let last = doors.probe.0.lock().clone();
    let failure = match last {
        Some((at, failure)) if now.saturating_sub(at) < BELIEVED => failure,
        _ => {
            let failure = match tokio::time::timeout(PROBE, manage::status::probe(&doors.hub)).await {
                Ok(probed) => probed.err().map(|error| refusal::store(&error).message.clone()),
                Err(_) => Some(format!("A write has not reached the disk within {} s.", PROBE.as_secs())),
            };
            *doors.probe.0.lock() = Some((now, failure.clone()));
            failure
        }
    };
    let doorbell = doors.hub.doorbell().is_connected();
    // Anybody may ask here: what is wrong with the rules is for their owner, in `status`.
    let policy = doors.hub.policy.status().fault.is_none();
    let faults = doors.hub.outbound.faults();
    let body = value!({ "ready": failure.is_none(), "degraded": !doorbell || !policy || faults > 0,
        "store": failure.as_deref().unwrap_or("ok"),
        "doorbell": if doorbell { "ok" } else { "not connected; delivery by polling" },
        "channels": if faults == 0 { "ok".to_owned() } else { format!("{faults} with a fault; what is for them waits") },
        "policy": if policy { "ok" } else { "changed rules were refused; the old ones are in force" } });
    let mut response = json(&body).into_response();
    if failure.is_some() {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    Ok(response)
}
