//! `GET /v1/agents` and `GET /v1/handles/{handle}`: who can be written to (contract section 6).

use crate::frame::utc;
use crate::hub::Hub;
use crate::presence::{profile, profile_id};
use crate::refusal;
use crate::submit::permit;
use std::collections::BTreeMap;
use switchboard_core::port::store::AgentRow;
use switchboard_core::principal::Principal;
use switchboard_protocol::Detail;
use switchboard_protocol::profile::{
    AGENT_PROFILE_LIST_SCHEMA, AgentProfile, AgentProfileList, HANDLE_SCHEMA, Handle, Reputation,
};

/// Profiles of one page.
pub const PAGE_MAX: usize = 200;

/// Agents of the organization, by name; those of the caller only with `mine`.
pub fn list(hub: &Hub, who: &Principal, mine: bool, after: Option<&str>) -> Result<AgentProfileList, Detail> {
    permit(who, crate::govern::Act::UseBus)?;
    let mut profiles = BTreeMap::new();
    for vault in hub.vault_list() {
        for row in hub.presence.agents(vault.vault) {
            if mine && row.instance != who.instance {
                continue;
            }
            let profile = of(&row, who);
            // The same name in two vaults is two profiles; ordered by name, then by id.
            profiles.insert((profile.agent.clone(), profile.profile_id.clone()), profile);
        }
    }
    let key = |profile: &AgentProfile| format!("{}.{}", profile.agent, profile.profile_id);
    let mut page: Vec<_> =
        profiles.into_values().filter(|profile| after.is_none_or(|after| *key(profile) > *after)).collect();
    let more = page.len() > PAGE_MAX;
    page.truncate(PAGE_MAX);
    let next_after = page.last().filter(|_| more).map(key);
    Ok(AgentProfileList { schema: AGENT_PROFILE_LIST_SCHEMA.into(), profiles: page, next_after })
}

fn of(row: &AgentRow, who: &Principal) -> AgentProfile {
    let said = profile(row).unwrap_or_default();
    AgentProfile {
        profile_id: profile_id(&row.instance_id, row.vault, &row.agent),
        agent: row.agent.clone(),
        instance_label: row.instance_label.clone(),
        owner: row.owner_name.clone(),
        display_name: said.display_name.unwrap_or_else(|| row.agent.clone()),
        model: said.model,
        roles: said.roles,
        strengths: Vec::new(),
        reputation: unproven(),
        mine: row.instance == who.instance,
        last_seen: Some(utc(row.seen_ms)),
    }
}

/// Reputation comes from accepted work; nobody has any yet.
#[must_use]
pub fn unproven() -> Reputation {
    Reputation { score: 0, contributions: 0, weight_pct: 100 }
}

/// A handle's public view.
pub async fn handle(hub: &Hub, handle: &str) -> Result<Handle, Detail> {
    let found = hub.store().handle(handle.to_owned()).await.map_err(|error| refusal::store(&error))?;
    let row = found.ok_or_else(|| refusal::not_found("handle", "No such handle."))?;
    Ok(Handle {
        schema: HANDLE_SCHEMA.into(),
        handle: row.handle,
        reputation: unproven(),
        strengths: Vec::new(),
        since: utc(row.since_ms),
    })
}
