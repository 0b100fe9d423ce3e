//! `presence_set`.

use super::{Reply, begin};
use crate::mcp::Door;
use crate::mcp::args::{self, Common, State};
use crate::mcp::call::Call;
use crate::mcp::gate::Caller;
use rmcp::model::JsonObject;
use rmcp::schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;
use switchboard_core::port::doorbell::Topic;
use switchboard_core::write::{Announce, Outcome, Presence, Write};
use switchboard_engine::presence::profile;
use switchboard_engine::refusal;
use switchboard_protocol::Detail;
use switchboard_protocol::limits::AGENT_ROLE_CHARS_MAX;
use switchboard_protocol::profile::PresenceProfile;
use switchboard_protocol::text::validate_text;

/// What the others now see.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub(in crate::mcp) struct Said {
    /// Your agent's name.
    agent: String,
    /// The vault.
    vault_id: String,
    /// active, idle or closed.
    state: &'static str,
    /// Whether anything changed.
    changed: bool,
}

pub(super) async fn run(
    door: &Arc<Door>,
    caller: Caller,
    mut arguments: JsonObject,
) -> Result<Reply, Detail> {
    let common = Common::take(&mut arguments)?;
    let said: args::Presence = args::read(arguments)?;
    if let Some(role) = &said.role {
        validate_text(role, AGENT_ROLE_CHARS_MAX, "role", false).map_err(refusal::invalid)?;
    }
    let given = given(&said);
    given.validate().map_err(refusal::invalid)?;
    let call = begin(door, caller, common).await?;
    let state = match said.state {
        State::Active => Presence::Active,
        State::Idle => Presence::Idle,
        State::Closed => Presence::Closed,
    };
    let announce = Announce {
        vault: call.vault.vault,
        instance: call.caller.who.instance,
        agent: call.agent.clone(),
        role: said.role,
        profile: merged(&call, given, said.roles.is_some()),
        state,
        node: call.hub.node,
    };
    let outcome = call.hub.commit_one(Write::Announce(announce)).await?;
    let changed = matches!(outcome, Outcome::Announced { changed: true });
    if changed {
        call.hub.doorbell().ring(&[Topic::Vault(call.vault.vault)]);
    }
    let state = super::send::state(state);
    let text = format!("The others now see {} as {state}.", call.whereabouts());
    let vault_id = call.vault.vault.to_string();
    Ok(Reply::new(text, &Said { agent: call.agent.clone(), vault_id, state, changed }))
}

/// What the call says about the agent; roles in the order the wire wants.
fn given(said: &args::Presence) -> PresenceProfile {
    let mut roles = said.roles.clone().unwrap_or_default();
    roles.sort();
    roles.dedup();
    PresenceProfile { display_name: said.display_name.clone(), model: said.model.clone(), roles }
}

/// The whole profile to store: what was said before, with what is said now. `None` keeps it.
fn merged(call: &Call, given: PresenceProfile, names_roles: bool) -> Option<String> {
    if given == PresenceProfile::default() && !names_roles {
        return None;
    }
    let owner = call.owner();
    let row = call.hub.presence.agent(owner.vault, owner.who.instance, owner.agent);
    let before = row.as_ref().and_then(profile).unwrap_or_default();
    let whole = PresenceProfile {
        display_name: given.display_name.or(before.display_name),
        model: given.model.or(before.model),
        roles: if names_roles { given.roles } else { before.roles },
    };
    serde_json::to_string(&whole).ok()
}
