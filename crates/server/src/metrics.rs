//! `/metrics`: figures for Prometheus (`OpenMetrics` text), read when asked for, so that counting costs the hot path nothing
//! but an addition.

use crate::Doors;
use crate::http::{Answer, Refused};
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse as _;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::sync::atomic::Ordering;
use switchboard_engine::manage::status::{self, Status};
use switchboard_engine::refusal;

/// The figures.
#[utoipa::path(get, path = "/metrics", tag = "operation", responses((status = 200, description = "OpenMetrics text")))]
pub async fn metrics(State(doors): State<Doors>) -> Answer {
    let status = status::read(&doors.hub).await?;
    let mut text = String::new();
    let failed = |_| Refused::from(refusal::bad_field("metrics", "The figures could not be written."));
    encode(&mut text, &registry(&doors, &status)).map_err(failed)?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

fn registry(doors: &Doors, status: &Status) -> Registry {
    let mut registry = Registry::with_prefix("switchboard");
    let counters = &doors.hub.counters;
    count(&mut registry, "frames", "Frames taken from sockets", counters.frames.load(Ordering::Relaxed));
    count(&mut registry, "refusals", "Commands refused", counters.refused.load(Ordering::Relaxed));
    count(
        &mut registry,
        "deliveries",
        "Events handed to sockets",
        counters.delivered.load(Ordering::Relaxed),
    );
    count(&mut registry, "commits", "Commits since the first start", status.store.commits);
    gauge(&mut registry, "sockets", "Open sockets", counters.sockets.load(Ordering::Relaxed));
    connections(doors, &mut registry);
    let connected = u64::from(doors.hub.doorbell().is_connected());
    gauge(&mut registry, "doorbell_connected", "1 while other nodes hear and are heard", connected);
    gauge(
        &mut registry,
        "keeper",
        "1 on the node that keeps deadlines and retention",
        u64::from(doors.hub.is_keeper()),
    );
    gauge(&mut registry, "streams", "Streams", status.store.streams);
    gauge(&mut registry, "writes_queued", "Writes waiting for the writer", status.store.queued);
    gauge(&mut registry, "wal_bytes", "Bytes of the write-ahead log", status.store.wal_bytes);
    gauge(&mut registry, "db_bytes", "Bytes of the database", status.store.db_bytes);
    gauge(
        &mut registry,
        "search_lag_events",
        "Events the full-text index has yet to see",
        status.store.search_lag,
    );
    if let Some(traces) = &doors.traces {
        count(&mut registry, "trace_spans_exported", "Spans a collector took", traces.exported());
        count(&mut registry, "trace_spans_dropped", "Spans no collector took in time", traces.dropped());
    }
    let ledger = &status.ledger;
    count(&mut registry, "bus_accepted", "Units taken over durably", ledger.accepted);
    count(&mut registry, "bus_delivered", "Units that arrived", ledger.delivered);
    count(&mut registry, "bus_answered", "Questions answered", ledger.answered);
    count(&mut registry, "bus_expired", "Units run out", ledger.expired);
    count(&mut registry, "bus_refused", "Units turned down by their receiver", ledger.refused);
    gauge(&mut registry, "bus_pending_units", "Units on the way", ledger.pending);
    registry
}

fn count(registry: &mut Registry, name: &str, help: &str, value: u64) {
    let counter = Counter::<u64>::default();
    counter.inc_by(value);
    registry.register(name, help, counter);
}

fn gauge(registry: &mut Registry, name: &str, help: &str, value: u64) {
    let gauge = Gauge::<i64>::default();
    gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
    registry.register(name, help, gauge);
}

// How many there are, and how many there may be.
fn connections(doors: &Doors, registry: &mut Registry) {
    let counters = &doors.hub.counters;
    gauge(
        registry,
        "sockets_max",
        "Sockets there may be",
        u64::try_from(doors.room.sockets).unwrap_or(u64::MAX),
    );
    gauge(
        registry,
        "connections",
        "Open connections that are no sockets",
        counters.connections.load(Ordering::Relaxed),
    );
    gauge(
        registry,
        "connections_max",
        "Connections there may be; more wait to be accepted",
        u64::try_from(doors.room.connections).unwrap_or(u64::MAX),
    );
    count(
        registry,
        "connections_crowded",
        "Times that no place for another connection was free",
        counters.crowded.load(Ordering::Relaxed),
    );
}
