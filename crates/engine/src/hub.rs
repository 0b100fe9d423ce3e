//! The hub: what all rooms of the engine share, and how it starts and stops.

use crate::credentials::Credentials;
use crate::nodes::Nodes;
use crate::policy::PolicyBook;
use crate::presence;
use crate::refusals::Refusals;
use crate::settings::Settings;
use crate::stream::{Stream, Streams};
use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use switchboard_core::event::StoredEvent;
use switchboard_core::gid::GidCipher;
use switchboard_core::ids::{PersonNo, StreamId, VaultId};
use switchboard_core::keys::HubKeys;
use switchboard_core::policy::{Fault, listed};
use switchboard_core::port::doorbell::{Doorbell, Topic};
use switchboard_core::port::store::{
    CommitListener, Genesis, Installation, InstanceRow, Store, StoreError, StreamOwner, SwarmRow,
};
use switchboard_core::principal::{InstanceKind, Principal};
use switchboard_core::random::{self, Entropy};
use switchboard_core::rights::{Right, Rights};
use switchboard_core::time::{Clock, WallMs};
use switchboard_core::write::{Batch, Outcome, VaultInfo, Write};
use switchboard_protocol::Detail;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long a hub that stops waits for what is on its way to people.
const STOP_GRACE: std::time::Duration = std::time::Duration::from_secs(6);

/// What the hub needs from outside.
#[derive(Clone)]
pub struct Ports {
    /// Who remembers.
    pub store: Arc<dyn Store>,
    /// Who wakes.
    pub doorbell: Arc<dyn Doorbell>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Where randomness comes from.
    pub entropy: Arc<dyn Entropy>,
}

/// Names for a hub that starts on an empty store.
#[derive(Debug, Clone)]
pub struct Founding {
    /// Name of the organization.
    pub org_name: String,
    /// Display name of its owner.
    pub owner_name: String,
}

impl Default for Founding {
    fn default() -> Self {
        Self { org_name: "Home".into(), owner_name: "Owner".into() }
    }
}

/// Why a hub does not start.
#[derive(Debug)]
pub enum StartError {
    /// The store cannot be used.
    Store(StoreError),
    /// The rules cannot be loaded.
    Policy(Vec<Fault>),
}

impl From<StoreError> for StartError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl std::fmt::Display for StartError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Store(error) => error.fmt(out),
            Self::Policy(faults) => out.write_str(&listed(faults)),
        }
    }
}

impl std::error::Error for StartError {}

/// What the hub has counted since it started.
#[derive(Debug, Default)]
pub struct Counters {
    /// Frames taken from sockets.
    pub frames: AtomicU64,
    /// Commands refused.
    pub refused: AtomicU64,
    /// Events handed to sockets.
    pub delivered: AtomicU64,
    /// Sockets open now.
    pub sockets: AtomicU64,
    /// Connections open now that are no sockets.
    pub connections: AtomicU64,
    /// How often no place for another connection was free.
    pub crowded: AtomicU64,
}

/// Swarms and who is in them under which handle, as last read.
#[derive(Debug, Default)]
pub(crate) struct SwarmTable {
    pub(crate) swarms: HashMap<String, SwarmRow>,
    pub(crate) handles: HashMap<PersonNo, HashMap<String, String>>,
}

/// The hub.
pub struct Hub {
    pub(crate) ports: Ports,
    /// How it is set.
    pub settings: Settings,
    /// What its store is of.
    pub installation: Installation,
    /// Its message ids.
    pub gids: GidCipher,
    /// Its streams.
    pub streams: Arc<Streams>,
    /// Who is there.
    pub presence: presence::Room,
    /// Bearers.
    pub credentials: Credentials,
    /// The rules in force.
    pub policy: Arc<PolicyBook>,
    /// Counters.
    pub counters: Counters,
    pub(crate) refusals: Refusals,
    pub(crate) console: crate::console::Desk,
    /// Open sessions.
    pub sessions: crate::session::Sessions,
    pub(crate) polls: crate::read::poll::Polls,
    pub(crate) vaults: RwLock<HashMap<VaultId, VaultInfo>>,
    pub(crate) swarms: RwLock<SwarmTable>,
    /// Whether every live credential is its owner's.
    personal: AtomicBool,
    reading: tokio::sync::Mutex<()>,
    pub(crate) nodes: Nodes,
    /// Reaching people.
    pub outbound: crate::outbound::Room,
    /// Names this run of this process: the agents of a dead one are closed.
    pub node: u64,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Hub({})", self.installation.org_id)
    }
}

impl Hub {
    /// Reads the rules, opens the store, reads what is kept in memory and starts the timers.
    pub async fn start(
        ports: Ports,
        settings: Settings,
        founding: Founding,
    ) -> Result<Arc<Self>, StartError> {
        // The rules first: what they refuse, they refuse before anything is made.
        let policy = PolicyBook::open(settings.policy_dir.clone(), ports.clock.wall_ms());
        let policy = Arc::new(policy.map_err(StartError::Policy)?);
        let genesis = genesis(&ports, founding);
        let installation = ports.store.open(genesis).await?;
        let streams = Arc::new(Streams::new(&installation.org_id));
        let hub = Arc::new(Self {
            gids: GidCipher::new(&installation.keys.gid),
            streams: streams.clone(),
            presence: presence::Room::default(),
            credentials: Credentials::default(),
            policy,
            counters: Counters::default(),
            refusals: Refusals::default(),
            console: crate::console::Desk::default(),
            sessions: crate::session::Sessions::default(),
            polls: crate::read::poll::Polls::default(),
            vaults: RwLock::default(),
            swarms: RwLock::default(),
            personal: AtomicBool::default(),
            reading: tokio::sync::Mutex::default(),
            nodes: Nodes::default(),
            outbound: crate::outbound::Room::default(),
            node: u64::from_be_bytes(random::bytes(&*ports.entropy)) >> 1,
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            ports,
            settings,
            installation,
        });
        // Listening comes before reading: what is committed in between is then known twice, never not at all.
        let ears = Ears { streams, doorbell: hub.ports.doorbell.clone(), stop: hub.stop.clone() };
        hub.store().listen(Arc::new(ears));
        let weak = Arc::downgrade(&hub);
        hub.ports.doorbell.listen(Arc::new(move |topic| {
            if let Some(hub) = weak.upgrade() {
                hub.rung(topic);
            }
        }));
        hub.ports.doorbell.join(&hub.installation.org_id);
        hub.nodes.begin(hub.store().position().await?).await;
        hub.read_directory().await?;
        if hub.store().is_shared() {
            hub.beat().await?; // before any of its agents is there
        }
        hub.note_first_policy();
        crate::timers::start(&hub);
        Ok(hub)
    }

    async fn read_directory(&self) -> Result<(), StoreError> {
        self.read_vaults().await?;
        self.read_swarms().await?;
        self.read_people().await;
        let mut after = 0;
        loop {
            let page = self.store().streams(after).await?;
            let Some(last) = page.last() else { break };
            after = last.id.0;
            page.iter().for_each(|info| drop(self.streams.learn(info)));
        }
        let vaults = self.vaults.read().keys().copied().collect();
        self.presence.refresh(self.store(), vaults).await
    }

    pub(crate) async fn read_vaults(&self) -> Result<(), StoreError> {
        let _turn = self.reading.lock().await; // an older answer must not replace a newer one
        let vaults = self.store().vaults().await?;
        *self.vaults.write() = vaults.into_iter().map(|vault| (vault.vault, vault)).collect();
        Ok(())
    }

    pub(crate) async fn read_swarms(&self) -> Result<(), StoreError> {
        let _turn = self.reading.lock().await; // as above
        let swarms = self.store().swarms().await?;
        let mut table = SwarmTable::default();
        for (swarm, row) in self.store().memberships().await? {
            table.handles.entry(row.person).or_default().insert(swarm, row.handle);
        }
        for swarm in swarms {
            self.stream(swarm.stream).await?; // learnt, if it is new
            table.swarms.insert(swarm.swarm.clone(), swarm);
        }
        *self.swarms.write() = table;
        Ok(())
    }

    /// Looks whose the live credentials are. What cannot be read counts as several people's, which keeps messages longer.
    pub(crate) async fn read_people(&self) {
        let _turn = self.reading.lock().await; // as above
        let owners_own = |row: &InstanceRow| row.revoked_ms.is_some() || row.owner == self.installation.owner;
        let personal = self.store().instances().await.map(|rows| rows.iter().all(owners_own));
        if let Err(error) = &personal {
            tracing::warn!(%error, "credentials could not be read; messages are kept as in an organization");
        }
        self.personal.store(personal.unwrap_or(false), Ordering::Relaxed);
    }

    /// How long what is said in the organization from now on is kept.
    #[must_use]
    pub fn org_keep_ms(&self) -> WallMs {
        let personal = self.settings.personal_keep_ms.filter(|_| self.personal.load(Ordering::Relaxed));
        personal.unwrap_or(self.settings.org_keep_ms)
    }

    fn rung(&self, topic: Topic) {
        match topic {
            Topic::Stream(id, head) => self.streams.rang(id, head),
            Topic::Vault(vault) => {
                self.presence.ring(vault);
                if self.vault(vault).is_none() {
                    self.nodes.ring();
                }
            }
            Topic::Credentials | Topic::Swarms | Topic::Everything => {
                self.credentials.forget();
                self.nodes.ring();
                if topic == Topic::Everything {
                    self.outbound.rang();
                }
            }
            Topic::Outbound => self.outbound.rang(),
            Topic::Instance(_) => {}
        }
        crate::session::ring(self, topic);
    }

    /// The store.
    pub fn store(&self) -> &dyn Store {
        &*self.ports.store
    }

    /// The clock.
    pub fn clock(&self) -> &dyn Clock {
        &*self.ports.clock
    }

    /// Randomness.
    pub fn entropy(&self) -> &dyn Entropy {
        &*self.ports.entropy
    }

    /// The doorbell.
    pub fn doorbell(&self) -> &dyn Doorbell {
        &*self.ports.doorbell
    }

    /// Cancelled when the hub begins to stop: take nothing new, finish what was taken.
    pub fn stopping(&self) -> &CancellationToken {
        &self.stop
    }

    /// Runs `task` until it ends by itself or the hub stops.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move { stop.run_until_cancelled(task).await });
    }

    /// Runs `task` to its end, also while the hub stops, for as long as stopping may take: what is on its way to a person must be
    /// recorded.
    pub(crate) fn spawn_to_end(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = task => {}
                () = async { stop.cancelled().await; tokio::time::sleep(STOP_GRACE).await } => {}
            }
        });
    }

    /// Stops the timers, waits for them, closes the store. Doors must have stopped before.
    pub async fn stop(&self) -> Result<(), StoreError> {
        self.stop.cancel();
        self.store().hurry();
        self.tasks.close();
        self.tasks.wait().await;
        self.flush_refusals().await;
        self.give_up_lease().await;
        self.store().close().await
    }

    /// Commits `writes` stamped with the present time.
    pub async fn commit(&self, writes: Vec<Write>) -> Result<Vec<Outcome>, StoreError> {
        self.ports.store.commit(Batch { at_ms: self.clock().wall_ms(), writes }).await
    }

    /// Commits one write; its refusal and the store's failure come as the detail to send.
    pub async fn commit_one(&self, write: Write) -> Result<Outcome, Detail> {
        let outcomes = self.commit(vec![write]).await.map_err(|error| crate::refusal::store(&error))?;
        match outcomes.into_iter().next() {
            Some(Outcome::Refused(refusal)) => Err(crate::refusal::of(&refusal)),
            Some(outcome) => Ok(outcome),
            None => {
                Err(crate::refusal::store(&StoreError::Inconsistent("a write without an outcome".into())))
            }
        }
    }

    /// Counts a refusal and notes it for the event log.
    pub fn refused(&self, verb: &'static str, actor: &str, detail: &Detail) {
        self.counters.refused.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.refusals.note(verb, actor, detail);
    }

    pub(crate) async fn flush_refusals(&self) {
        let entries = self.refusals.take();
        if entries.is_empty() {
            return;
        }
        if let Err(error) = self.commit(vec![Write::Log(entries)]).await {
            tracing::warn!(%error, "refusals could not be written to the event log");
        }
    }

    /// The hub's owner, acting from a terminal or the console.
    #[must_use]
    pub fn owner(&self) -> Principal {
        let installation = &self.installation;
        Principal {
            instance: installation.hub_instance,
            instance_id: installation.hub_instance_id.clone(),
            label: "console".into(),
            kind: InstanceKind::Person,
            owner: installation.owner,
            owner_name: installation.owner_name.clone(),
            rights: Rights::OWNER,
            expires_at: None,
        }
    }

    /// A vault.
    pub fn vault(&self, vault: VaultId) -> Option<VaultInfo> {
        self.vaults.read().get(&vault).cloned()
    }

    /// A vault by name.
    pub fn vault_named(&self, name: &str) -> Option<VaultInfo> {
        self.vaults.read().values().find(|vault| vault.name == name).cloned()
    }

    /// Every vault, by name.
    pub fn vault_list(&self) -> Vec<VaultInfo> {
        let mut vaults: Vec<_> = self.vaults.read().values().cloned().collect();
        vaults.sort_by(|one, other| one.name.cmp(&other.name));
        vaults
    }

    /// A stream by number, also one that was made a moment ago and is not in the directory yet.
    pub async fn stream(&self, id: StreamId) -> Result<Option<Arc<Stream>>, StoreError> {
        if let Some(known) = self.streams.get(id) {
            return Ok(Some(known));
        }
        Ok(self.store().stream_by_id(id).await?.map(|info| self.streams.learn(&info)))
    }

    /// The stream of this owner, also one that was made a moment ago and that the directory has yet to hear of.
    pub async fn find_stream(&self, owner: &StreamOwner) -> Result<Option<Arc<Stream>>, StoreError> {
        if let Some(known) = self.streams.find(owner) {
            return Ok(Some(known));
        }
        let found = self.store().stream(owner.clone()).await?;
        Ok(found.map(|info| self.streams.learn(&info)))
    }

    /// Whether the caller belongs to the network of this stream: every channel is its organization's, a swarm its members'.
    pub fn is_member(&self, who: &Principal, stream: StreamId) -> bool {
        let known = self.streams.get(stream);
        known.is_some_and(|stream| match &stream.owner {
            StreamOwner::Channel { .. } => true,
            StreamOwner::Swarm { swarm } => {
                who.may(Right::Admin) || self.handle_in(who.owner, swarm).is_some()
            }
        })
    }

    /// The handle of a person in a swarm.
    pub fn handle_in(&self, person: PersonNo, swarm: &str) -> Option<String> {
        self.swarms.read().handles.get(&person)?.get(swarm).cloned()
    }

    /// The swarms a person has joined.
    pub fn joined(&self, person: PersonNo) -> Vec<String> {
        let swarms = self.swarms.read();
        swarms.handles.get(&person).map(|handles| handles.keys().cloned().collect()).unwrap_or_default()
    }

    /// A fresh public id.
    #[must_use]
    pub fn fresh_id(&self, prefix: &str) -> String {
        random::public_id(prefix, self.entropy(), self.clock().wall_ms())
    }
}

/// Hears of this node's commits, and passes them on. What it knows of streams is void once the store has begun another epoch by
/// itself: the hub ends, and reads everything anew when it is started again.
struct Ears {
    streams: Arc<Streams>,
    doorbell: Arc<dyn Doorbell>,
    stop: CancellationToken,
}

impl CommitListener for Ears {
    fn committed(&self, events: &[Arc<StoredEvent>]) {
        self.streams.committed(events);
        self.doorbell.committed(events);
    }

    fn epoch_began(&self, epoch: &str) {
        tracing::error!(epoch, "the store lost commits that were answered and began another epoch: stopping");
        self.stop.cancel();
    }
}

fn genesis(ports: &Ports, founding: Founding) -> Genesis {
    let (entropy, at_ms) = (&*ports.entropy, ports.clock.wall_ms());
    Genesis {
        org_id: random::public_id("org", entropy, at_ms),
        org_name: founding.org_name,
        owner_name: founding.owner_name,
        vault: VaultId(random::bytes(entropy)),
        vault_name: "main".into(),
        hub_instance_id: random::public_id("inst", entropy, at_ms),
        epoch: random::public_id("ep", entropy, at_ms),
        keys: HubKeys::generate(entropy),
        at_ms,
    }
}
