//! `switchboard status`.

use super::ledger;
use crate::api::Api;
use crate::failure::Failure;
use crate::terminal::{self, Output};
use crate::time;
use switchboard_protocol::admin::{PolicyStatus, Status};

/// Shows how the hub is doing.
pub async fn run(api: &Api, output: Output) -> Result<(), Failure> {
    let status: Status = api.get("/admin/v1/status").await?;
    output.show(&status, text);
    Ok(())
}

fn text(status: &Status) -> String {
    let facts = terminal::facts(&[
        ("version", status.version.clone()),
        ("organization", format!("{} ({})", status.org_name, status.org_id)),
        ("url", status.url.clone()),
        ("store", format!("{}, {}", status.backend, terminal::bytes(status.db_bytes + status.wal_bytes))),
        ("up", time::human(status.uptime_s)),
        ("sockets", status.sockets.to_string()),
        ("streams", status.streams.to_string()),
        ("search lag", format!("{} events", status.search_lag)),
        ("policy", status.policy.as_ref().map_or_else(|| "-".to_owned(), policy)),
    ]);
    let refused = status.policy.as_ref().map(super::policy::refused).unwrap_or_default();
    format!("{facts}{refused}\n{}", ledger::text(&status.ledger))
}

fn policy(policy: &PolicyStatus) -> String {
    format!("{} rules, version {}", policy.rules, policy.version)
}
