//! How the hub is doing, its keys, its backup.

use crate::Doors;
use crate::http::{Answer, Caller, Raw, json, read};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use switchboard_core::ledger::Ledger;
use switchboard_engine::{manage, refusal};
use switchboard_protocol::admin;
use switchboard_protocol::lease::KeySet;

/// Figures.
#[utoipa::path(get, path = "/admin/v1/status", tag = "admin", security(("bearer" = [])), responses((status = 200), (status = 401), (status = 403)))]
pub async fn status(State(doors): State<Doors>, caller: Caller) -> Answer {
    caller.administers()?;
    let hub = &doors.hub;
    let status = manage::status::read(hub).await?;
    Ok(json(&admin::Status {
        version: env!("CARGO_PKG_VERSION").into(),
        backend: doors.backend.into(),
        org_id: hub.installation.org_id.clone(),
        org_name: hub.installation.org_name.clone(),
        url: hub.settings.public_url.clone(),
        uptime_s: hub.clock().monotonic().saturating_sub(doors.started).as_secs(),
        streams: status.store.streams,
        epoch: hub.installation.epoch.clone(),
        sockets: hub.counters.sockets.load(Ordering::Relaxed),
        db_bytes: status.store.db_bytes,
        wal_bytes: status.store.wal_bytes,
        search_lag: status.store.search_lag,
        policy: Some(manage::policy::status(hub)),
        ledger: ledgers(&status),
    }))
}

/// Where every accepted unit is.
#[utoipa::path(get, path = "/admin/v1/ledger", tag = "admin", security(("bearer" = [])), responses((status = 200), (status = 401), (status = 403)))]
pub async fn ledger(State(doors): State<Doors>, caller: Caller) -> Answer {
    caller.administers()?;
    Ok(json(&ledgers(&manage::status::read(&doors.hub).await?)))
}

/// Where every accepted unit is, by plane.
#[utoipa::path(get, path = "/v1/ledger", tag = "operation", security(("bearer" = [])), responses((status = 200), (status = 401), (status = 403)))]
pub async fn public_ledger(State(doors): State<Doors>, caller: Caller) -> Answer {
    caller.uses_bus()?;
    Ok(json(&ledgers(&manage::status::read(&doors.hub).await?)))
}

fn ledgers(status: &manage::status::Status) -> admin::Ledgers {
    admin::Ledgers { bus: ledger_of(&status.ledger), outbound: ledger_of(&status.outbound) }
}

pub(super) fn ledger_of(ledger: &Ledger) -> admin::Ledger {
    let Ledger { accepted, delivered, answered, expired, refused, dead, unknown, pending } = *ledger;
    admin::Ledger { accepted, delivered, answered, expired, refused, dead, unknown, pending }
}

/// The hub's public keys.
#[utoipa::path(get, path = "/admin/v1/keys", tag = "admin", security(("bearer" = [])), responses((status = 200), (status = 401), (status = 403)))]
pub async fn keys(State(doors): State<Doors>, caller: Caller) -> Answer {
    caller.administers()?;
    let keys = &doors.hub.installation.keys;
    let KeySet { keys: set, .. } = switchboard_engine::enroll::key_set(keys);
    let signing_key = set.into_iter().next().map(|key| key.ed25519_pub).unwrap_or_default();
    Ok(json(&admin::Keys { root_key: switchboard_engine::enroll::root_key(keys), signing_key }))
}

/// Writes a consistent copy of the store to a new file on the hub's machine.
#[utoipa::path(post, path = "/admin/v1/backup", tag = "admin", security(("bearer" = [])), responses((status = 204), (status = 400), (status = 401), (status = 403)))]
pub async fn backup(State(doors): State<Doors>, caller: Caller, Raw(bytes): Raw) -> Answer {
    caller.administers()?;
    let target = PathBuf::from(read::<admin::BackupIn>(&bytes)?.target);
    if !target.is_absolute() || target.exists() {
        return Err(refusal::bad_field(
            "target",
            "Name the absolute path of a file that does not exist yet.",
        )
        .into());
    }
    let copied = doors.hub.store().backup(target).await;
    copied.map_err(|error| refusal::bad_field("target", format!("The copy failed: {error}.")))?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
