//! One tool call: who calls, for which agent, in which vault. The agent is announced before its tool runs.

use super::Door;
use super::args::Common;
use super::gate::Caller;
use super::item::{Extent, Item, item};
use std::sync::Arc;
use switchboard_core::ids::VaultId;
use switchboard_core::principal::Principal;
use switchboard_core::random;
use switchboard_core::write::VaultInfo;
use switchboard_engine::govern::agent_name;
use switchboard_engine::inbox::{self, Owner};
use switchboard_engine::submit::Speaker;
use switchboard_engine::viewer::Agents;
use switchboard_engine::{Hub, refusal};
use switchboard_protocol::fence::{FenceHeader, fence};
use switchboard_protocol::frame::server::ServerFrame;
use switchboard_protocol::text::validate_id;
use switchboard_protocol::{Code, Detail};

/// Agents of one instance in one vault that calls may announce.
const AGENTS_MAX: usize = 256;
/// Vault names an error lists.
const NAMES_MAX: usize = 20;
/// The vault of the first start.
const MAIN: &str = "main";

/// A call under way.
pub(super) struct Call {
    pub(super) hub: Arc<Hub>,
    pub(super) caller: Caller,
    /// The vault it works in.
    pub(super) vault: VaultInfo,
    /// The agent it speaks for.
    pub(super) agent: String,
    agents: Agents,
    /// Unguessable, and fresh with every call.
    boundary: String,
    _stay: Option<Stay>,
}

/// An agent without a session is there until this is dropped.
struct Stay {
    hub: Arc<Hub>,
    who: Arc<Principal>,
    agents: Agents,
}

impl Drop for Stay {
    fn drop(&mut self) {
        inbox::leave(&self.hub, self.who.instance, std::mem::take(&mut self.agents));
    }
}

impl Call {
    /// Resolves agent and vault and announces the one in the other. `within`: the vault a message of the call stands in.
    pub(super) async fn begin(
        door: &Door,
        caller: Caller,
        common: Common,
        within: Option<VaultId>,
    ) -> Result<Self, Detail> {
        let hub = &door.hub;
        let agent = common.as_agent.or_else(|| caller.agent.clone());
        let agent = agent.unwrap_or_else(|| agent_name(&caller.who.label));
        validate_id(&agent, "as_agent").map_err(refusal::invalid)?;
        let vault = vault(hub, common.vault.as_deref(), within)?;
        let agents = Agents::from([(vault.vault, agent.clone())]);
        let stay = stay(door, &caller, &agents);
        let boundary = boundary(hub);
        let call = Self { hub: hub.clone(), caller, vault, agent, agents, boundary, _stay: stay };
        call.attend().await?;
        Ok(call)
    }

    async fn attend(&self) -> Result<(), Detail> {
        let (hub, owner) = (&self.hub, self.owner());
        if inbox::attends(hub, &owner).await? {
            return Ok(());
        }
        let known = hub.presence.agent(owner.vault, owner.who.instance, owner.agent);
        if known.is_none() {
            let rows = hub.presence.agents(owner.vault);
            let own = rows.iter().filter(|row| row.instance == owner.who.instance).count();
            if own >= AGENTS_MAX {
                let message =
                    "This token has announced too many agents in this vault; reuse one of their names.";
                let detail = Detail::new(Code::RateLimited, message).field("as_agent").sb("SB0110");
                return Err(detail.reason("limit_exceeded").limit(AGENTS_MAX as u64).used(own as u64));
            }
        }
        inbox::attend(hub, &owner, known.as_ref().map(|row| row.role.as_str())).await
    }

    /// Whose inbox it is about.
    pub(super) fn owner(&self) -> Owner<'_> {
        Owner { who: &self.caller.who, vault: self.vault.vault, agent: &self.agent }
    }

    /// Who speaks.
    pub(super) fn speaker(&self) -> Speaker<'_> {
        Speaker { who: &self.caller.who, agents: &self.agents }
    }

    /// A foreign text behind a fence.
    pub(super) fn fence(&self, header: &FenceHeader<'_>, body: &str) -> String {
        fence(&self.boundary, header, body)
    }

    /// What delivered frames show.
    pub(super) fn items(&self, frames: &[ServerFrame<'_>]) -> Vec<Item> {
        frames.iter().filter_map(|frame| item(&self.boundary, frame, Extent::Whole)).collect()
    }

    /// What a stored event shows.
    pub(super) fn stored(
        &self,
        event: &switchboard_core::event::StoredEvent,
        extent: Extent<'_>,
    ) -> Option<Item> {
        let mine = event.from_instance == self.caller.who.instance;
        super::item::stored(&self.boundary, &self.hub, event, mine, extent)
    }

    /// To be asked after a wait: whether the caller still may see what came.
    pub(super) async fn still_allowed(&self) -> Result<(), Detail> {
        super::sessions::still_good(&self.hub, self.caller.bearer).await
    }

    /// The agent as sentences name it.
    pub(super) fn whereabouts(&self) -> String {
        format!("agent {} in vault {}", self.agent, self.vault.name)
    }
}

fn stay(door: &Door, caller: &Caller, agents: &Agents) -> Option<Stay> {
    let held = |session| agents.iter().all(|(vault, agent)| door.sessions.hold(session, *vault, agent));
    if caller.session.as_ref().is_some_and(held) {
        return None;
    }
    let instance = caller.who.instance;
    agents.iter().for_each(|(vault, agent)| door.hub.presence.hold(instance, *vault, agent));
    Some(Stay { hub: door.hub.clone(), who: caller.who.clone(), agents: agents.clone() })
}

fn boundary(hub: &Hub) -> String {
    let random: [u8; 16] = random::bytes(hub.entropy());
    VaultId(random).to_string() // 32 hexadecimal digits
}

fn vault(hub: &Hub, named: Option<&str>, within: Option<VaultId>) -> Result<VaultInfo, Detail> {
    let Some(name) = named else {
        if let Some(found) = within.and_then(|vault| hub.vault(vault)) {
            return Ok(found);
        }
        let vaults = hub.vault_list();
        let main = vaults.iter().find(|vault| vault.name == MAIN);
        let only = if let [only] = vaults.as_slice() { Some(only) } else { None };
        let message = || format!("Name the vault to work in: {}.", names(&vaults));
        return main.or(only).cloned().ok_or_else(|| refusal::bad_field("vault", message()));
    };
    let by_id = VaultId::parse(name).and_then(|id| hub.vault(id));
    let found = by_id.or_else(|| hub.vault_named(name)).ok_or_else(|| {
        refusal::not_found("vault", &format!("No such vault; there are: {}.", names(&hub.vault_list())))
    })?;
    if within.is_some_and(|vault| vault != found.vault) {
        return Err(refusal::not_found("vault", "The message stands in another vault; leave out vault."));
    }
    Ok(found)
}

fn names(vaults: &[VaultInfo]) -> String {
    let shown: Vec<_> = vaults.iter().take(NAMES_MAX).map(|vault| vault.name.as_str()).collect();
    let more = if vaults.len() > NAMES_MAX { " and more" } else { "" };
    format!("{}{more}", shown.join(", "))
}
