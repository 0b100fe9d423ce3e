//! Who is there. The store's agent rows are the truth; this room keeps a copy for fast reading, wakes followers when it
//! changes, and closes the agents of sockets that stay away past the grace.

use crate::hub::Hub;
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;
use switchboard_core::ids::{InstanceNo, VaultId};
use switchboard_core::port::doorbell::Topic;
use switchboard_core::port::store::{AgentRow, Store, StoreError};
use switchboard_core::write::{Announce, Presence, Write};
use tokio::sync::Notify;

/// Followers of a vault are woken at most once per this time, so that a thousand agents that come at once do not wake each
/// Between two attempts to read it from a store that cannot be reached.
const RETRY: Duration = Duration::from_secs(1);
/// other a million times.
const SETTLE: Duration = Duration::from_millis(100);

type AgentKey = (InstanceNo, String);
/// How many sockets of an instance speak for each of its agents.
type HeldAgents = HashMap<(VaultId, String), u32>;

#[derive(Debug, Default)]
struct VaultAgents {
    rows: HashMap<AgentKey, AgentRow>,
    order: BTreeMap<u64, AgentKey>,
}

impl VaultAgents {
    fn version(&self) -> u64 {
        self.order.keys().next_back().copied().unwrap_or(0)
    }

    fn put(&mut self, row: AgentRow) {
        let version = row.version;
        let key = (row.instance, row.agent.clone());
        if self.rows.get(&key).is_some_and(|known| known.version > version) {
            return; // two looks overtook each other
        }
        self.order.insert(version, key.clone());
        if let Some(old) = self.rows.insert(key, row).filter(|old| old.version != version) {
            self.order.remove(&old.version);
        }
    }
}

type Known = HashMap<VaultId, VaultAgents>;

/// A page of what changed in a vault.
#[derive(Debug)]
pub struct Changes {
    /// The agents as they are now.
    pub rows: Vec<AgentRow>,
    /// The version that the reader has seen with this page.
    pub version: u64,
    /// Whether there is another page.
    pub more: bool,
}

/// The room.
#[derive(Debug, Default)]
pub struct Room {
    known: RwLock<Known>,
    held: Mutex<HashMap<InstanceNo, HeldAgents>>,
    changed: Mutex<HashSet<VaultId>>,
    // Closed by another node, for which this one's sockets were gone, while one here speaks for them.
    lost: Mutex<HashSet<(VaultId, InstanceNo, String)>>,
    rung: Notify,
}

impl Room {
    /// Reads what changed in `vaults` since the last look.
    pub async fn refresh(&self, store: &dyn Store, vaults: Vec<VaultId>) -> Result<(), StoreError> {
        // Vaults are read at different times, so each is asked for from the version it is known at.
        let after = {
            let known = self.known.read();
            vaults.iter().map(|vault| known.get(vault).map_or(0, VaultAgents::version)).min().unwrap_or(0)
        };
        let rows = store.agents(vaults, after).await?;
        self.put(rows);
        Ok(())
    }

    /// Reads what changed in all `vaults` since `version`, and tells followers.
    pub async fn catch_up(
        &self,
        store: &dyn Store,
        vaults: Vec<VaultId>,
        version: u64,
    ) -> Result<(), StoreError> {
        let rows = store.agents(vaults, version).await?;
        let changed: HashSet<_> = rows.iter().map(|row| row.vault).collect();
        self.put(rows);
        changed.into_iter().for_each(|vault| self.ring(vault));
        Ok(())
    }

    fn put(&self, rows: Vec<AgentRow>) {
        let lost = rows.iter().filter(|row| row.state == Presence::Closed && row.node == 0);
        let held = lost.filter(|row| self.is_held(row.instance, row.vault, &row.agent));
        let lost: Vec<_> = held.map(|row| (row.vault, row.instance, row.agent.clone())).collect();
        if !lost.is_empty() {
            self.lost.lock().extend(lost);
            self.rung.notify_one();
        }
        let mut known = self.known.write();
        rows.into_iter().for_each(|row| known.entry(row.vault).or_default().put(row));
    }

    /// The agents of a vault.
    pub fn agents(&self, vault: VaultId) -> Vec<AgentRow> {
        self.known
            .read()
            .get(&vault)
            .map(|agents| agents.rows.values().cloned().collect())
            .unwrap_or_default()
    }

    /// One agent.
    pub fn agent(&self, vault: VaultId, instance: InstanceNo, agent: &str) -> Option<AgentRow> {
        let known = self.known.read();
        known.get(&vault)?.rows.get(&(instance, agent.to_owned())).cloned()
    }

    /// The version of the latest change in `vault`, 0 without one.
    pub fn version(&self, vault: VaultId) -> u64 {
        self.known.read().get(&vault).map_or(0, VaultAgents::version)
    }

    /// What changed in `vault` after `version` among instances other than `except`: the oldest `limit` of it.
    pub fn changes(&self, vault: VaultId, version: u64, except: InstanceNo, limit: usize) -> Changes {
        let known = self.known.read();
        let Some(agents) = known.get(&vault) else {
            return Changes { rows: Vec::new(), version, more: false };
        };
        let mut changes = Changes { rows: Vec::new(), version: agents.version(), more: false };
        for (version, key) in agents.order.range(version + 1..).filter(|(_, key)| key.0 != except) {
            if changes.rows.len() == limit {
                changes.more = true;
                break;
            }
            changes.rows.extend(agents.rows.get(key).cloned());
            changes.version = *version;
        }
        if !changes.more {
            changes.version = agents.version();
        }
        changes
    }

    /// Presence in `vault` changed.
    pub fn ring(&self, vault: VaultId) {
        self.changed.lock().insert(vault);
        self.rung.notify_one();
    }

    /// Passes changes on to followers, for as long as it is polled.
    pub async fn run(&self, hub: &Hub) {
        let (store, streams) = (hub.store(), &hub.streams);
        let mut failing = false;
        loop {
            self.rung.notified().await;
            self.announce_lost(hub).await;
            let vaults: Vec<_> = self.changed.lock().drain().collect();
            if let Err(error) = self.refresh(store, vaults.clone()).await {
                vaults.iter().for_each(|vault| self.ring(*vault));
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(%error, "presence could not be read; it is tried again once a second");
                }
                tokio::time::sleep(RETRY).await;
                continue;
            }
            failing = false;
            vaults
                .iter()
                .for_each(|vault| streams.each_vault_follower(*vault, crate::stream::Waker::ring_presence));
            tokio::time::sleep(SETTLE).await;
        }
    }

    /// Says of agents that another node has closed that they are there: this node was taken for dead, or the agent spoke over both.
    async fn announce_lost(&self, hub: &Hub) {
        let lost: Vec<_> = self.lost.lock().drain().collect();
        let held = lost.into_iter().filter(|(vault, instance, agent)| self.is_held(*instance, *vault, agent));
        let (mut writes, mut topics) = (Vec::new(), HashSet::new());
        for (vault, instance, agent) in held {
            topics.insert(Topic::Vault(vault));
            let state = Presence::Active;
            let node = hub.node;
            writes.push(Write::Announce(Announce {
                vault,
                instance,
                agent,
                role: None,
                profile: None,
                state,
                node,
            }));
        }
        if writes.is_empty() {
            return;
        }
        match hub.commit(writes).await {
            Ok(_) => hub.doorbell().ring(&topics.into_iter().collect::<Vec<_>>()),
            Err(error) => tracing::warn!(%error, "agents that are here could not be announced again"),
        }
    }

    /// A socket speaks for this agent from now on.
    pub fn hold(&self, instance: InstanceNo, vault: VaultId, agent: &str) {
        let mut held = self.held.lock();
        *held.entry(instance).or_default().entry((vault, agent.to_owned())).or_default() += 1;
    }

    /// A socket speaks for this agent no more.
    pub fn release(&self, instance: InstanceNo, vault: VaultId, agent: &str) {
        let mut held = self.held.lock();
        let Some(agents) = held.get_mut(&instance) else { return };
        let key = (vault, agent.to_owned());
        if let Some(count) = agents.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                agents.remove(&key);
            }
        }
        if agents.is_empty() {
            held.remove(&instance);
        }
    }

    /// Whether any socket of this node speaks for this agent.
    pub fn is_held(&self, instance: InstanceNo, vault: VaultId, agent: &str) -> bool {
        let held = self.held.lock();
        held.get(&instance).is_some_and(|agents| agents.contains_key(&(vault, agent.to_owned())))
    }
}

/// The profile an agent announced about itself.
#[must_use]
pub fn profile(row: &AgentRow) -> Option<switchboard_protocol::profile::PresenceProfile> {
    serde_json::from_str(row.profile.as_deref()?).ok()
}

/// The public id of an agent's profile: the same for the same agent of the same instance, says nothing else.
#[must_use]
pub fn profile_id(instance_id: &str, vault: VaultId, agent: &str) -> String {
    let digest =
        switchboard_core::digest::framed("profile", &[instance_id.as_bytes(), &vault.0, agent.as_bytes()]);
    format!("prof_{}", switchboard_core::ids::base32(&digest[..10]))
}
