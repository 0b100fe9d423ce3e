//! Submitting: from a checked wire shape and an authenticated caller to a [`Write`]. Each verb is one file and one
//! function that goes the same way: decide, resolve, build. Nothing here waits: conditions that can change are checked
//! inside the transaction.

pub mod handoff;
pub mod message;
pub mod publish;
pub mod receipt;

use crate::govern::{Act, Decision, decide};
use crate::hub::Hub;
use crate::refusal;
use crate::viewer::Agents;
use switchboard_core::ids::{EventId, SEQ_MAX, STREAM_ID_MAX, StreamId, VaultId};
use switchboard_core::principal::Principal;
use switchboard_core::write::VaultInfo;
use switchboard_protocol::Detail;
use switchboard_protocol::text::Channel;

/// Who speaks: an authenticated instance and the agents it has announced on this connection.
#[derive(Debug, Clone, Copy)]
pub struct Speaker<'a> {
    /// The instance.
    pub who: &'a Principal,
    /// Its agents.
    pub agents: &'a Agents,
}

impl Speaker<'_> {
    /// Whether it may use the bus.
    pub fn check_bus(&self) -> Result<(), Detail> {
        permit(self.who, Act::UseBus)
    }

    /// Whether `agent` was announced in `vault`; `field` names what spoke for it.
    pub fn check_agent(&self, vault: VaultId, agent: &str, field: &str) -> Result<(), Detail> {
        let known = self.agents.iter().any(|(at, name)| *at == vault && name == agent);
        if known { Ok(()) } else { Err(refusal::not_announced(field, agent)) }
    }

    /// Whether `agent` was announced in any vault.
    pub fn check_agent_anywhere(&self, agent: &str, field: &str) -> Result<(), Detail> {
        let known = self.agents.iter().any(|(_, name)| name == agent);
        if known { Ok(()) } else { Err(refusal::not_announced(field, agent)) }
    }
}

/// Asks for a decision; a denial is the detail to send.
pub fn permit(who: &Principal, act: Act) -> Result<(), Detail> {
    match decide(who, act) {
        Decision::Allow => Ok(()),
        Decision::Deny(right) => Err(refusal::missing_right(right)),
    }
}

/// The vault of a channel of this organization. Other organizations answer like unknown vaults.
pub fn resolve_channel<'a>(hub: &Hub, channel: &'a str) -> Result<(VaultInfo, &'a str), Detail> {
    let parsed = Channel::parse(channel).map_err(refusal::invalid)?;
    let ours = parsed.org == hub.installation.org_id;
    let vault = VaultId::parse(parsed.vault).filter(|_| ours).and_then(|vault| hub.vault(vault));
    let vault = vault.ok_or_else(|| refusal::not_found("channel", "No such vault in this organization."))?;
    Ok((vault, parsed.name))
}

/// The event a gid names. One that this hub never issued becomes an address that no event has, so that it takes the same
/// way, and the same time, as one of a foreign network.
#[must_use]
pub fn resolve_gid(hub: &Hub, gid: &str) -> EventId {
    hub.gids.event(gid).unwrap_or(NOWHERE)
}

/// An address that no event has, to look up in place of one that the caller must learn nothing of.
pub(crate) const NOWHERE: EventId = EventId { stream: StreamId(STREAM_ID_MAX), seq: SEQ_MAX };
