//! *Agents*: who is there.

use super::visitor::Visitor;
use super::{Shown, html, when};
use crate::Doors;
use axum::extract::State;
use switchboard_console::page::{Agent, AgentList, AgentState, Agents};
use switchboard_console::shell::Section;
use switchboard_core::port::store::AgentRow;
use switchboard_core::write::{Presence, VaultInfo};
use switchboard_engine::presence::{profile, profile_id};

/// Agents one page shows.
const AGENTS_MAX: usize = 500;

/// The page.
pub(super) async fn page(State(doors): State<Doors>, visitor: Visitor) -> Shown {
    let shell = visitor.shell(&doors, Section::Agents, "Agents").await?;
    Ok(html(&Agents { shell, list: list(&doors) }))
}

/// Its list: who is there first, then by name.
pub(super) fn list(doors: &Doors) -> AgentList {
    let mut rows: Vec<(VaultInfo, AgentRow)> = Vec::new();
    for vault in doors.hub.vault_list() {
        rows.extend(doors.hub.presence.agents(vault.vault).into_iter().map(|row| (vault.clone(), row)));
    }
    rows.sort_by(|(_, one), (_, other)| {
        let key = |row: &AgentRow| (row.state as u8, row.agent.clone(), row.instance);
        key(one).cmp(&key(other))
    });
    let more = rows.len().saturating_sub(AGENTS_MAX);
    rows.truncate(AGENTS_MAX);
    AgentList { agents: rows.iter().map(|(vault, row)| agent(vault, row)).collect(), more }
}

fn agent(vault: &VaultInfo, row: &AgentRow) -> Agent {
    Agent {
        key: profile_id(&row.instance_id, row.vault, &row.agent),
        name: row.agent.as_str().into(),
        role: row.role.as_str().into(),
        model: profile(row).and_then(|profile| profile.model).map(Into::into),
        instance: row.instance_label.as_str().into(),
        owner: row.owner_name.as_str().into(),
        vault: vault.name.as_str().into(),
        state: match row.state {
            Presence::Active => AgentState::Active,
            Presence::Idle => AgentState::Idle,
            Presence::Closed => AgentState::Closed,
        },
        seen: when(row.seen_ms),
    }
}
