//! `hello`: who speaks here and from where it reads (contract section 3).

use super::{Close, Refused, Session};
use crate::follow::{Outbox, Start};
use crate::frame::utc;
use crate::govern::Act;
use crate::hub::Hub;
use crate::presence::{profile, profile_id};
use crate::refusal;
use crate::session::answer::Ack;
use crate::stream::Stream;
use crate::submit::permit;
use crate::viewer::Agents;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use switchboard_core::ids::{InstanceNo, VaultId};
use switchboard_core::limits::SOCKET_BURST_BYTES_MAX;
use switchboard_core::port::doorbell::Topic;
use switchboard_core::port::store::{AgentRow, StreamOwner};
use switchboard_core::rights::Right;
use switchboard_core::write::{Announce, Outcome, Presence, Write};
use switchboard_protocol::Detail;
use switchboard_protocol::frame::PresenceState;
use switchboard_protocol::frame::client::{Hello, Presence as PresenceFrame};
use switchboard_protocol::frame::server::{ErrorFrame, PresenceUpdate, ServerFrame};

/// Agents told at once; the room is locked meanwhile.
const PRESENCE_PAGE: usize = 32;
/// Presence takes so much of a burst and leaves the rest to deliveries, so that agents which come and go without end do
/// not hold messages up.
const PRESENCE_BURST_BYTES: usize = SOCKET_BURST_BYTES_MAX / 2;

impl Session {
    pub(super) async fn hello(&mut self, hello: Hello<'_>, out: &mut Outbox) -> Result<(), Close> {
        if hello.instance_id != self.who.instance_id.as_str() {
            let message =
                "This is another instance's id; connect with the bearer of the instance that hello names.";
            let error = Detail::new(switchboard_protocol::Code::ForbiddenRight, message)
                .field("instance_id")
                .sb("SB0103");
            self.hub.refused("bus.hello", &self.who.instance_id, &error);
            return Err(Close(Some(error)));
        }
        // What other nodes have done until now is part of the present state, and of where cursors may stand.
        let caught_up = self.hub.catch_up().await.map_err(|error| refusal::store(&error));
        let agents = match caught_up.and_then(|()| self.check(&hello)) {
            Ok(agents) => agents,
            Err(error) => {
                self.refuse("bus.hello", Refused::frame("hello"), error, out);
                return Ok(());
            }
        };
        // Held before they are announced: a timer that closes what nobody holds must not come in between.
        let instance = self.who.instance;
        agents.iter().for_each(|(vault, agent)| self.hub.presence.hold(instance, *vault, agent));
        if let Err(error) = self.announce(&hello).await {
            agents.iter().for_each(|(vault, agent)| self.hub.presence.release(instance, *vault, agent));
            self.refuse("bus.hello", Refused::frame("hello"), error, out);
            return Ok(());
        }
        self.replace_agents(agents);
        self.follow(&hello, out);
        self.greeted = true;
        self.notices.forget(self.follower.viewer.agents.as_ref().unwrap_or(&Agents::new()));
        self.due.notices = true;
        Ok(())
    }

    fn check(&self, hello: &Hello<'_>) -> Result<Agents, Detail> {
        permit(&self.who, Act::UseBus)?;
        let vault = |id: &str| VaultId::parse(id).filter(|vault| self.hub.vault(*vault).is_some());
        let agents = hello.agents.iter().map(|agent| {
            let vault = vault(&agent.vault_id);
            let vault =
                vault.ok_or_else(|| refusal::not_found("vault_id", "No such vault in this organization."))?;
            Ok((vault, agent.agent_id.to_string()))
        });
        agents.collect()
    }

    async fn announce(&self, hello: &Hello<'_>) -> Result<(), Detail> {
        let announce = |agent: &switchboard_protocol::frame::client::HelloAgent<'_>| {
            Some(Write::Announce(Announce {
                vault: VaultId::parse(&agent.vault_id)?,
                instance: self.who.instance,
                agent: agent.agent_id.to_string(),
                role: Some(agent.role.to_string()),
                profile: None,
                state: Presence::Active,
                node: self.hub.node,
            }))
        };
        let writes: Vec<_> = hello.agents.iter().filter_map(announce).collect();
        if writes.is_empty() {
            return Ok(());
        }
        let outcomes = self.hub.commit(writes).await.map_err(|error| refusal::store(&error))?;
        let refused = outcomes.iter().find_map(|outcome| match outcome {
            Outcome::Refused(refused) => Some(refusal::of(refused)),
            _ => None,
        });
        if let Some(refused) = refused {
            return Err(refused);
        }
        let changed = |outcome: &Outcome| matches!(outcome, Outcome::Announced { changed: true });
        if outcomes.iter().any(changed) {
            let vaults: HashSet<_> =
                hello.agents.iter().filter_map(|agent| VaultId::parse(&agent.vault_id)).collect();
            let topics: Vec<_> = vaults.into_iter().map(Topic::Vault).collect();
            self.hub.doorbell().ring(&topics);
        }
        // What is told next is who is there now, not who was when the room last looked.
        let vaults = hello.agents.iter().filter_map(|agent| VaultId::parse(&agent.vault_id)).collect();
        self.hub.presence.refresh(self.hub.store(), vaults).await.map_err(|error| refusal::store(&error))
    }

    /// The announced agents are these from now on; they are held already.
    fn replace_agents(&mut self, agents: Agents) {
        let instance = self.who.instance;
        let before = self.follower.viewer.agents.take().unwrap_or_default();
        let (kept, gone): (Agents, Agents) = before.into_iter().partition(|agent| agents.contains(agent));
        kept.iter().for_each(|(vault, agent)| self.hub.presence.release(instance, *vault, agent));
        release(&self.hub, instance, gone);
        self.follower.viewer.agents = Some(agents);
    }

    fn follow(&mut self, hello: &Hello<'_>, out: &mut Outbox) {
        let mut vaults: HashSet<VaultId> =
            hello.agents.iter().filter_map(|agent| VaultId::parse(&agent.vault_id)).collect();
        if self.who.may(Right::Admin) {
            vaults.extend(self.hub.vault_list().into_iter().map(|vault| vault.vault));
        }
        self.follower.retain(|owner| match owner {
            StreamOwner::Channel { vault, .. } => vaults.contains(vault),
            StreamOwner::Swarm { .. } => true,
        });
        self.presence_seen.retain(|vault, _| vaults.contains(vault));
        self.present.clear();
        let other_epoch =
            hello.epoch.as_ref().is_some_and(|epoch| *epoch != self.hub.installation.epoch.as_str());
        for vault in vaults {
            let seen = *self.presence_seen.entry(vault).or_insert(0);
            let now = self.hub.presence.version(vault);
            if seen < now {
                self.present.insert(vault, now);
            }
            self.follower.add_vault(vault, |stream| start(stream, &hello.cursors, other_epoch));
        }
        self.follow_swarms(&hello.cursors, other_epoch);
        self.tell_presence(out);
    }

    /// Follows the swarms that the owner has joined.
    pub(super) fn follow_swarms(&mut self, cursors: &BTreeMap<String, u64>, other_epoch: bool) {
        let mut joined = self.hub.joined(self.who.owner);
        if self.who.may(Right::Admin) {
            joined = self.hub.swarms.read().swarms.keys().cloned().collect();
        }
        for swarm in joined {
            if let Some(stream) = self.hub.streams.find(&StreamOwner::Swarm { swarm }) {
                let start = start(&stream, cursors, other_epoch && !cursors.is_empty());
                self.follower.add(&stream, start);
            }
        }
    }

    /// Tells what changed among the agents of other instances, until `out` has its share; the rest stays due. Who was there
    /// at the last hello comes first, for elsewhere agents may come and go without end.
    pub(super) fn tell_presence(&mut self, out: &mut Outbox) {
        self.due.presence = true;
        let present: Vec<_> = self.present.iter().map(|(vault, version)| (*vault, *version)).collect();
        for (vault, version) in present {
            if !self.tell_vault(vault, version, out) {
                return;
            }
            self.present.remove(&vault);
        }
        let vaults: Vec<_> = self.presence_seen.keys().copied().collect();
        self.due.presence = !vaults.into_iter().all(|vault| self.tell_vault(vault, u64::MAX, out));
    }

    /// Tells what changed in `vault` up to `version` or a little more; whether `out` had room for it.
    fn tell_vault(&mut self, vault: VaultId, version: u64, out: &mut Outbox) -> bool {
        let Some(seen) = self.presence_seen.get_mut(&vault) else { return true };
        while *seen < version {
            if out.bytes >= PRESENCE_BURST_BYTES {
                return false;
            }
            let changes = self.hub.presence.changes(vault, *seen, self.who.instance, PRESENCE_PAGE);
            *seen = changes.version;
            changes.rows.iter().for_each(|row| out.push_frame(&presence_update(row)));
            if !changes.more {
                break;
            }
        }
        true
    }

    pub(super) fn presence(&self, presence: &PresenceFrame<'_>) -> Result<Vec<(Write, Ack)>, Detail> {
        permit(&self.who, Act::UseBus)?;
        let state = match presence.state {
            PresenceState::Active => Presence::Active,
            PresenceState::Idle => Presence::Idle,
            PresenceState::Closed => Presence::Closed,
        };
        let profile = presence.profile.as_ref().and_then(|profile| serde_json::to_string(profile).ok());
        let agents = self.follower.viewer.agents.iter().flatten();
        let writes: Vec<_> = agents
            .filter(|(_, agent)| *agent == presence.agent_id)
            .map(|(vault, agent)| {
                let announce = Announce {
                    vault: *vault,
                    instance: self.who.instance,
                    agent: agent.clone(),
                    role: None,
                    profile: profile.clone(),
                    state,
                    node: self.hub.node,
                };
                (Write::Announce(announce), Ack::Presence(*vault))
            })
            .collect();
        if writes.is_empty() {
            Err(refusal::not_announced("agent_id", &presence.agent_id))
        } else {
            Ok(writes)
        }
    }
}

fn start(stream: &Stream, cursors: &BTreeMap<String, u64>, other_epoch: bool) -> Start {
    match cursors.get(&stream.name) {
        Some(_) if other_epoch => Start::Again,
        Some(seq) => Start::After(*seq),
        None => Start::Head,
    }
}

/// The frame that tells of an agent.
#[must_use]
pub fn presence_update(row: &AgentRow) -> ServerFrame<'static> {
    let profile = profile(row);
    ServerFrame::PresenceUpdate(PresenceUpdate {
        agent_id: row.agent.clone(),
        instance_id: row.instance_id.clone(),
        role: row.role.clone(),
        vault_id: row.vault.to_string(),
        state: state(row.state),
        server_time: utc(row.seen_ms),
        profile_id: profile.as_ref().map(|_| profile_id(&row.instance_id, row.vault, &row.agent)),
        profile,
    })
}

/// A state as the wire names it.
#[must_use]
pub fn state(state: Presence) -> PresenceState {
    match state {
        Presence::Active => PresenceState::Active,
        Presence::Idle => PresenceState::Idle,
        Presence::Closed => PresenceState::Closed,
    }
}

/// The socket speaks for `agents` no more; those that nobody speaks for after the grace are closed.
pub(crate) fn release(hub: &Arc<Hub>, instance: InstanceNo, agents: Agents) {
    if agents.is_empty() {
        return;
    }
    agents.iter().for_each(|(vault, agent)| hub.presence.release(instance, *vault, agent));
    let weak = Arc::downgrade(hub);
    let grace = hub.settings.presence_grace;
    hub.spawn(async move {
        tokio::time::sleep(grace).await;
        let Some(hub) = weak.upgrade() else { return };
        let unheld = |(vault, agent): &&(VaultId, String)| !hub.presence.is_held(instance, *vault, agent);
        let only: Vec<_> = agents.iter().filter(unheld).cloned().collect();
        let close = Write::Close { instance, node: hub.node, only };
        if matches!(hub.commit(vec![close]).await.as_deref(), Ok([Outcome::Closed(1..)])) {
            let vaults: HashSet<_> = agents.iter().map(|(vault, _)| *vault).collect();
            let topics: Vec<_> = vaults.into_iter().map(Topic::Vault).collect();
            hub.doorbell().ring(&topics);
        }
    });
}

/// The frame that refuses something.
#[must_use]
pub fn error_frame(error: Detail) -> ServerFrame<'static> {
    ServerFrame::Error(ErrorFrame { client_msg_id: None, answers: None, error })
}
