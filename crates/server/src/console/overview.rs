//! *Overview*: how the hub is doing.

use super::visitor::Visitor;
use super::{Shown, html};
use crate::Doors;
use axum::extract::State;
use std::sync::atomic::Ordering;
use switchboard_console::page::{Figures, Ledger, Overview};
use switchboard_console::shell::Section;
use switchboard_core::ledger;
use switchboard_core::write::Presence;
use switchboard_engine::{manage, refusal};
use switchboard_protocol::Detail;

/// The page.
pub(super) async fn page(State(doors): State<Doors>, visitor: Visitor) -> Shown {
    let shell = visitor.shell(&doors, Section::Overview, "Overview").await?;
    let mcp_url = format!("{}/mcp", doors.hub.settings.public_url).into();
    Ok(html(&Overview { shell, figures: figures(&doors).await?, mcp_url }))
}

/// Its figures.
pub(super) async fn figures(doors: &Doors) -> Result<Figures, Detail> {
    let hub = &doors.hub;
    let status = manage::status::read(hub).await?;
    let presences: Vec<Presence> = hub
        .vault_list()
        .iter()
        .flat_map(|vault| hub.presence.agents(vault.vault))
        .map(|agent| agent.state)
        .collect();
    let people = hub.store().outbound().outbound_ledger().await.map_err(|error| refusal::store(&error))?;
    let sockets = hub.counters.sockets.load(Ordering::Relaxed);
    Ok(Figures {
        agents_there: presences.iter().filter(|state| **state != Presence::Closed).count(),
        agents: presences.len(),
        ledger: ledger(&status.ledger),
        people: ledger(&people),
        uptime: span(hub.clock().monotonic().saturating_sub(doors.started).as_secs()),
        facts: vec![
            ("address", hub.settings.public_url.as_str().into()),
            ("version", env!("CARGO_PKG_VERSION").into()),
            ("store", format!("{}, {}", doors.backend, size(status.store.db_bytes)).into()),
            ("organization", hub.installation.org_id.as_str().into()),
            ("streams", status.store.streams.to_string().into()),
            ("open sockets", sockets.to_string().into()),
        ],
    })
}

fn ledger(counts: &ledger::Ledger) -> Ledger {
    let ledger::Ledger { accepted, delivered, answered, expired, refused, dead, unknown, pending } = *counts;
    Ledger { accepted, delivered, answered, expired, refused, dead, unknown, pending }
}

fn span(seconds: u64) -> String {
    match seconds {
        0..60 => "under a minute".to_owned(),
        60..3600 => format!("{} min", seconds / 60),
        3600..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_048_576 => format!("{} KiB", bytes / 1024),
        1_048_576..1_073_741_824 => format!("{} MiB", bytes / 1_048_576),
        _ => format!("{} GiB", bytes / 1_073_741_824),
    }
}
