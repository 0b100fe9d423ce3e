//! The store port: who remembers.
//!
//! # Promises
//! 1. **Durable before answered.** When [`Store::commit`] resolves to `Ok`, every write of the batch is on disk and survives
//!    `kill -9` and power loss. When it resolves to an error other than [`StoreError::Unknown`], nothing of the batch is there.
//! 2. **All or nothing.** A batch is one transaction. A write that is [`Outcome::Refused`] changes nothing and does not
//!    hinder the others.
//! 3. **In order.** Writes of one batch apply in their order; batches of one caller in the order of their calls.
//! 4. **Gap-free.** Sequences of a stream are assigned inside the commit from a counter row, from 1, without gaps, never
//!    derived from surviving rows, never reused within one epoch.
//! 5. **Once.** Deduplication happens inside the same transaction and outlives the deduplicated message.
//! 6. **Chained.** Each commit adds one [`Record`] to the log that covers every admitted write in it that changed more than
//!    a time stamp. A batch in which nothing changed (repeats, refusals) is no commit and adds none.
//! 7. **Reads** see every commit that was answered before the read began, never a part of one, and never write.
//! 8. **Several writers.** Nothing but the transaction decides: two nodes may commit to the same streams at a time.
//! 9. **One clock.** [`Store::wall_ms`] is the same clock for all nodes of a store, whatever their machines say. Nodes stamp their
//!    batches by it, so that deadlines, retention and presence mean the same on each.
//! 10. **Leases.** A lease has one holder at a time by the store's clock; each new holder gets a higher fence, and a write under an
//!     older one is refused inside its transaction, however late it comes ([`crate::write::Write::Fenced`]).
//!
//! The conformance suite (`switchboard_store::conformance`) proves them for every backend.

use crate::console::{LoginRow, SessionRow};
use crate::digest::Digest;
use crate::event::StoredEvent;
use crate::ids::{EventId, InstanceNo, PersonNo, StreamId, VaultId};
use crate::keys::HubKeys;
use crate::ledger::Ledger;
use crate::log::{Checkpoint, Record};
use crate::port::outbound::OutboundReads;
use crate::principal::{InstanceKind, Principal};
use crate::time::WallMs;
use crate::write::{Batch, Outcome, Presence, ReceiptState, VaultInfo};
use futures_util::future::BoxFuture;
use std::path::PathBuf;
use std::sync::Arc;

/// What a store call resolves to.
pub type Fut<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Why a call failed as a whole.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The disk is full or near it: writes are refused, reads go on, it recovers by itself once there is room.
    #[error("the disk that holds the data directory is full")]
    Full,
    /// Too much waits already; try again.
    #[error("too many writes are waiting; try again shortly")]
    Overloaded,
    /// Whether the batch was committed is not known: read before trying again.
    #[error("the outcome of a commit is not known: {0}")]
    Unknown(Arc<str>),
    /// Where the store is cannot be reached, or does not answer: nothing was stored. It goes on by itself once it can be.
    #[error("the store cannot be reached: {0}")]
    Unreachable(Arc<str>),
    /// The store takes no calls any more.
    #[error("the store is closed")]
    Closed,
    /// What is stored contradicts itself.
    #[error("the store holds inconsistent data: {0}")]
    Inconsistent(Arc<str>),
    /// The driver failed; nothing was written.
    #[error("the store failed: {0}")]
    Backend(Arc<str>),
}

/// What the first start makes.
#[derive(Debug, Clone)]
pub struct Genesis {
    /// Public id of the organization.
    pub org_id: String,
    /// Its name.
    pub org_name: String,
    /// The owner's display name.
    pub owner_name: String,
    /// The first vault.
    pub vault: VaultId,
    /// Its name, `main`.
    pub vault_name: String,
    /// Public id of the hub's own instance, in the owner's name.
    pub hub_instance_id: String,
    /// First epoch.
    pub epoch: String,
    /// Keys.
    pub keys: HubKeys,
    /// Stamp.
    pub at_ms: WallMs,
}

/// What a store is of: made once by [`Genesis`].
#[derive(Debug, Clone)]
pub struct Installation {
    /// Public id of the organization.
    pub org_id: String,
    /// Its name.
    pub org_name: String,
    /// The owner.
    pub owner: PersonNo,
    /// The owner's display name.
    pub owner_name: String,
    /// The hub's own instance, in whose name the hub and its owner act.
    pub hub_instance: InstanceNo,
    /// Its public id.
    pub hub_instance_id: String,
    /// Present epoch: cursors of another one are void.
    pub epoch: String,
    /// Keys.
    pub keys: HubKeys,
}

/// One stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamInfo {
    /// Number.
    pub id: StreamId,
    /// Whose.
    pub owner: StreamOwner,
    /// Last assigned sequence; 0 when empty.
    pub head: u64,
    /// First sequence that retention has left (`head + 1` when none).
    pub first: u64,
}

/// Whose stream it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum StreamOwner {
    /// A vault's channel.
    Channel {
        /// The vault.
        vault: VaultId,
        /// Short name.
        name: String,
    },
    /// A swarm.
    Swarm {
        /// Public id.
        swarm: String,
    },
}

/// Part of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Events after the cursor, ascending, gap-free from the first one on.
    pub events: Vec<StoredEvent>,
    /// Last assigned sequence.
    pub head: u64,
    /// First sequence that is still there.
    pub first: u64,
}

/// An agent as the directory knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRow {
    /// The vault.
    pub vault: VaultId,
    /// The instance.
    pub instance: InstanceNo,
    /// Its public id.
    pub instance_id: String,
    /// Its label.
    pub instance_label: String,
    /// Its owner's display name.
    pub owner_name: String,
    /// The agent.
    pub agent: String,
    /// Its role.
    pub role: String,
    /// Its profile as JSON, if it gave one.
    pub profile: Option<String>,
    /// Its state.
    pub state: Presence,
    /// When it last announced itself.
    pub seen_ms: WallMs,
    /// Grows with every change in the vault: followers ask for what changed after the version they know.
    pub version: u64,
    /// The node that announced it; 0 once the store closed it because its socket or its node was gone.
    pub node: u64,
}

/// Something that waits for an instance outside any stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoticeRow {
    /// Number, to be named in [`crate::write::Write::NoticesSent`].
    pub number: i64,
    /// The agent it concerns.
    pub agent: String,
    /// What it is.
    pub notice: Notice,
}

/// What waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A receipt for something the instance sent.
    Status {
        /// The message.
        event: EventId,
        /// Id the sender gave it.
        client_id: String,
        /// The receiving agent.
        by: String,
        /// How far it got.
        state: ReceiptState,
        /// When.
        at_ms: WallMs,
    },
    /// A frame to send as it is; an open handoff offer stays until it is settled.
    Frame {
        /// The frame.
        frame: String,
        /// Whether it goes once it was sent.
        once: bool,
    },
}

/// An instance as its owner sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceRow {
    /// Number.
    pub instance: InstanceNo,
    /// Public id.
    pub instance_id: String,
    /// Kind.
    pub kind: InstanceKind,
    /// Label.
    pub label: String,
    /// Owner.
    pub owner: PersonNo,
    /// Owner's display name.
    pub owner_name: String,
    /// Rights.
    pub rights: crate::rights::Rights,
    /// Ed25519 public key, if enrolled with one.
    pub public_key: Option<[u8; 32]>,
    /// When it was made.
    pub created_ms: WallMs,
    /// When it was revoked, if it was.
    pub revoked_ms: Option<WallMs>,
    /// End of its lease's grace, if it has a lease.
    pub grace_until_ms: Option<WallMs>,
}

/// What a bearer's hash leads to.
#[derive(Debug, Clone)]
pub enum Credential {
    /// It is good.
    Good(Principal),
    /// Its instance was revoked.
    Revoked,
    /// The instance's lease is past its grace.
    LeaseExpired,
    /// It is over.
    Expired,
}

/// A task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRow {
    /// The vault.
    pub vault: VaultId,
    /// Number in the vault, from 1.
    pub number: u64,
    /// `proposed`, `open`, `rejected`.
    pub state: String,
    /// Title.
    pub title: String,
    /// The question it came from.
    pub question: EventId,
    /// When it was proposed.
    pub created_ms: WallMs,
}

/// A swarm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwarmRow {
    /// Public id.
    pub swarm: String,
    /// Title.
    pub title: String,
    /// Its stream.
    pub stream: StreamId,
    /// Whether it takes messages.
    pub open: bool,
    /// When it was made.
    pub created_ms: WallMs,
    /// Handles in it.
    pub members: u32,
}

/// A handle of a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandleRow {
    /// The handle.
    pub handle: String,
    /// The person; never shown on the network.
    pub person: PersonNo,
    /// Since when.
    pub since_ms: WallMs,
}

/// A receipt as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiptRow {
    /// The message.
    pub event: EventId,
    /// Receiving instance.
    pub instance: InstanceNo,
    /// Receiving agent.
    pub agent: String,
    /// How far.
    pub state: ReceiptState,
    /// When it got there.
    pub at_ms: WallMs,
}

/// A waiting device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceRow {
    /// Code the person types.
    pub user_code: String,
    /// What the device calls itself.
    pub label: Option<String>,
    /// When the code ends.
    pub expires_at_ms: WallMs,
}

/// Where to search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchScope {
    /// Streams the caller may read.
    pub streams: Vec<StreamId>,
    /// Whose direct messages count as readable; `None` reads all (the owner).
    pub instance: Option<InstanceNo>,
}

/// Figures about the store itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StoreStats {
    /// Streams.
    pub streams: u64,
    /// Commits since the first start.
    pub commits: u64,
    /// Writes waiting for the writer.
    pub queued: u64,
    /// Bytes of the write-ahead log, where there is one.
    pub wal_bytes: u64,
    /// Bytes of the database.
    pub db_bytes: u64,
    /// Events that the full-text index has yet to see.
    pub search_lag: u64,
}

/// How far a store is, over all its nodes: whatever has not moved since need not be looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Position {
    /// Commits.
    pub commit: u64,
    /// Changes of vaults, swarms and who is in them, people, instances.
    pub directory: u64,
    /// Last version of the agent directory.
    pub version: u64,
    /// Last notice.
    pub notice: i64,
}

/// A node says that it lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beat {
    /// Its number.
    pub node: u64,
    /// Whether it can ring the others.
    pub rings: bool,
    /// The lease to look at, and to keep for so long if this node holds it with this fence.
    pub lease: &'static str,
    /// The fence it holds the lease with, if it does.
    pub fence: Option<u64>,
    /// For how long it is kept, in milliseconds.
    pub keep_ms: WallMs,
}

/// What a node hears back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pulse {
    /// Whether every living node could ring the others when it last said.
    pub all_ring: bool,
    /// Whether the lease was kept.
    pub kept: bool,
    /// Whether nobody holds the lease.
    pub free: bool,
}

/// Told of every commit of this node, in order, after it is durable, on the committing thread: must not block.
pub trait CommitListener: Send + Sync + 'static {
    /// `events` were appended (grouped by nothing, in order of their commit).
    fn committed(&self, events: &[Arc<StoredEvent>]);
    /// The store has lost commits that were answered (after a fail-over to a server that lagged) and has begun another epoch:
    /// what this node keeps in memory of streams is void, as are the cursors it gave out.
    fn epoch_began(&self, epoch: &str) {
        let _ = epoch;
    }
}

/// The store.
pub trait Store: Send + Sync + 'static {
    /// Finds the installation, or makes it of `genesis` when the store is empty.
    fn open(&self, genesis: Genesis) -> Fut<'_, Installation>;
    /// Applies a batch; see the promises. Calls [`CommitListener`] before it resolves. The call itself may take as long as a
    /// short write does: hold no lock meanwhile that a listener takes.
    fn commit(&self, batch: Batch) -> Fut<'static, Vec<Outcome>>;
    /// Registers the one listener of this node.
    fn listen(&self, listener: Arc<dyn CommitListener>);

    /// Events of `stream` after `after`, at most `limit` rows and about `bytes_max` of data (one row at least).
    fn page(&self, stream: StreamId, after: u64, limit: usize, bytes_max: usize) -> Fut<'_, Page>;
    /// The events of these ids, in their order, `None` for those that are not there.
    fn events(&self, ids: Vec<EventId>) -> Fut<'_, Vec<Option<StoredEvent>>>;
    /// Messages of a thread after `after` (by position), ascending.
    fn thread(&self, thread: EventId, after: u64, limit: usize) -> Fut<'_, Vec<StoredEvent>>;
    /// All streams of these vaults.
    fn channels(&self, vaults: Vec<VaultId>) -> Fut<'_, Vec<StreamInfo>>;
    /// The stream of this owner, if it exists.
    fn stream(&self, owner: StreamOwner) -> Fut<'_, Option<StreamInfo>>;
    /// The stream of this number, if it exists.
    fn stream_by_id(&self, id: StreamId) -> Fut<'_, Option<StreamInfo>>;
    /// Every stream after `after`, by number, at most 1000.
    fn streams(&self, after: u32) -> Fut<'_, Vec<StreamInfo>>;

    /// What the bearer with this hash is, if anything.
    fn credential(&self, token_hash: [u8; 32], now_ms: WallMs) -> Fut<'_, Option<Credential>>;
    /// The instance with this public id.
    fn instance(&self, instance_id: String) -> Fut<'_, Option<InstanceRow>>;
    /// Every instance.
    fn instances(&self) -> Fut<'_, Vec<InstanceRow>>;
    /// Every vault.
    fn vaults(&self) -> Fut<'_, Vec<VaultInfo>>;
    /// Agents of these vaults whose version is above `after`, ascending by version.
    fn agents(&self, vaults: Vec<VaultId>, after: u64) -> Fut<'_, Vec<AgentRow>>;
    /// What waits for an instance, oldest first, after notice number `after`.
    fn notices(
        &self,
        instance: InstanceNo,
        after: i64,
        now_ms: WallMs,
        limit: usize,
    ) -> Fut<'_, Vec<NoticeRow>>;
    /// Receipts of these messages.
    fn receipts(&self, events: Vec<EventId>) -> Fut<'_, Vec<ReceiptRow>>;
    /// Messages that the agent has been handed and has not read, oldest first.
    fn unread(&self, instance: InstanceNo, agent: String, limit: usize) -> Fut<'_, Vec<EventId>>;
    /// How far the agent's inbox is in each stream.
    fn inbox(&self, instance: InstanceNo, agent: String) -> Fut<'_, Vec<(StreamId, u64)>>;
    /// Waiting devices.
    fn devices(&self, now_ms: WallMs) -> Fut<'_, Vec<DeviceRow>>;
    /// Tasks of a vault, by number.
    fn tasks(&self, vault: VaultId) -> Fut<'_, Vec<TaskRow>>;
    /// Swarms, newest last.
    fn swarms(&self) -> Fut<'_, Vec<SwarmRow>>;
    /// Everybody's handles: swarm and handle, by person, then by swarm; one of each person in each swarm. As of one moment.
    fn memberships(&self) -> Fut<'_, Vec<(String, HandleRow)>>;
    /// A handle.
    fn handle(&self, handle: String) -> Fut<'_, Option<HandleRow>>;
    /// Earliest deadline of an open question, if there is one.
    fn next_deadline(&self) -> Fut<'_, Option<WallMs>>;

    /// The console's session under the secret with this hash, while it is good.
    fn console_session(&self, hash: Digest, now_ms: WallMs) -> Fut<'_, Option<SessionRow>>;
    /// A person's good sessions, the one used last first.
    fn console_sessions(&self, person: PersonNo, now_ms: WallMs) -> Fut<'_, Vec<SessionRow>>;
    /// What a sign-in under this display name is checked against; `None` for who has no password.
    fn console_login(&self, name: String) -> Fut<'_, Option<LoginRow>>;

    /// Whether other nodes may write to the same store. Where not, what follows up to [`Store::beat`] has nothing to tell.
    fn is_shared(&self) -> bool {
        false
    }
    /// How far the store is.
    fn position(&self) -> Fut<'_, Position> {
        Box::pin(async { Ok(Position::default()) })
    }
    /// Streams whose head is beyond the one in `heads`, and those that are not among them; by number.
    fn grown(&self, heads: Vec<(StreamId, u64)>) -> Fut<'_, Vec<StreamInfo>> {
        let _ = heads;
        Box::pin(async { Ok(Vec::new()) })
    }
    /// Instances that have a notice numbered above `after`.
    fn noticed(&self, after: i64) -> Fut<'_, Vec<InstanceNo>> {
        let _ = after;
        Box::pin(async { Ok(Vec::new()) })
    }
    /// Says that a node lives, in the store's time; [`crate::write::Write::CloseOrphans`] spares the agents of those that have said
    /// so within [`crate::limits::NODE_DEAD_MS`]. Keeps the node's lease. Not in the log.
    fn beat(&self, beat: Beat) -> Fut<'_, Pulse> {
        let pulse = Pulse { all_ring: true, kept: beat.fence.is_some(), free: beat.fence.is_none() };
        Box::pin(async move { Ok(pulse) })
    }

    /// Reads of the outbound plane.
    fn outbound(&self) -> &dyn OutboundReads;

    /// Log records after `after`, ascending.
    fn log(&self, after: u64, limit: usize) -> Fut<'_, Vec<Record>>;
    /// Checkpoints after `after`, ascending.
    fn checkpoints(&self, after: u64, limit: usize) -> Fut<'_, Vec<Checkpoint>>;
    /// The bus's ledger.
    fn ledger(&self) -> Fut<'_, Ledger>;
    /// Events whose text matches all of `words`, newest first. Follows the log with a bounded lag.
    fn search(&self, words: String, scope: SearchScope, limit: usize) -> Fut<'_, Vec<EventId>>;
    /// Figures.
    fn stats(&self) -> Fut<'_, StoreStats>;
    /// Writes a consistent copy while everything goes on; the target must not exist.
    fn backup(&self, target: PathBuf) -> Fut<'_, ()>;
    /// Wall time by the store's own clock.
    fn wall_ms(&self) -> Fut<'_, WallMs>;
    /// The process is about to end: what cannot be reached now is waited for no more.
    fn hurry(&self) {}
    /// Stops taking calls, finishes what was taken, lets go of files.
    fn close(&self) -> Fut<'_, ()>;
}
