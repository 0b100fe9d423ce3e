//! Writes: everything that can change, as data. A store applies a batch of them in one transaction, checks each one's
//! conditions inside it, and answers each with an [`Outcome`] (ADR 0003).
//!
//! To add a verb: a variant here and its outcome, its `apply` in every backend, its case in the conformance suite.

use crate::console::ConsoleWrite;
use crate::event::EventKind;
use crate::ids::{EventId, InstanceNo, PersonNo, StreamId, VaultId};
use crate::log::{Checkpoint, Entry};
use crate::outbound::gate::Consent;
use crate::outbound::write::{OutboundOutcome, OutboundWrite};
use crate::principal::InstanceKind;
use crate::rights::Rights;
use crate::time::WallMs;
use bytes::Bytes;
use std::sync::Arc;

/// A batch that commits together or not at all, and the wall time it is stamped with.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Stamp of everything in the batch.
    pub at_ms: WallMs,
    /// The writes, applied in order.
    pub writes: Vec<Write>,
}

/// Which stream an event goes to. Streams of a vault are made on first use.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum StreamRef {
    /// A channel of a vault, by its short name.
    Channel {
        /// The vault, which must exist.
        vault: VaultId,
        /// The name behind the last slash.
        name: String,
    },
    /// A swarm, which must exist and be open.
    Swarm {
        /// Its public id.
        swarm: String,
    },
}

/// Whom an event is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recipient {
    /// Everybody who follows the stream; for a reply to a direct message, the other end of that one alone, since everybody
    /// else may not even see what is replied to.
    Everyone,
    /// One agent, bound to one instance inside the transaction (contract section 4): the named instance; for a reply the
    /// instance of the replied message; else the single other instance that announced the agent in this vault within
    /// [`crate::limits::ANNOUNCED_MS`] (if no other did, the sender's own, when it announced it). In a swarm one can only
    /// answer who spoke: `agent` is the handle of the replied message's sender, and the instance and agent are that sender's.
    Agent {
        /// The agent.
        agent: String,
        /// The instance's public id, if the sender named one.
        instance: Option<String>,
    },
}

/// What makes a resend a repeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dedup {
    /// The client's id, unique per sending instance.
    pub client_id: String,
    /// Digest of the client's content: the same id with another digest is a conflict.
    pub digest: [u8; 16],
}

/// Append one event.
#[derive(Debug, Clone)]
pub struct Append {
    /// Where to.
    pub stream: StreamRef,
    /// What it is.
    pub kind: EventKind,
    /// The sending instance; one that was revoked, or never was, is [`Refusal::NotYours`].
    pub from_instance: InstanceNo,
    /// The sending agent.
    pub from_agent: String,
    /// Checked first: a repeat answers as the first time did, whatever has changed since.
    pub dedup: Option<Dedup>,
    /// Must be an event of the same stream that the sender may see.
    pub reply_to: Option<EventId>,
    /// Whom it is for.
    pub recipient: Recipient,
    /// Questions only: when it counts as unanswered. Must lie after the batch's stamp.
    pub deadline_ms: Option<WallMs>,
    /// When retention removes it.
    pub expires_at_ms: WallMs,
    /// Swarms only: the sender's handle, which must be a member, and how many messages it may send per hour.
    pub handle: Option<(String, u32)>,
    /// See [`crate::event::StoredEvent::data`].
    pub data: Bytes,
}

/// How far a receiver got with a message; only ever moves forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum ReceiptState {
    /// It has it.
    Delivered = 1,
    /// Its agent read it.
    Read = 2,
}

/// A receiver's receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The message.
    pub event: EventId,
    /// Receiving instance; must be the addressee's for a direct message, must not be the sender itself.
    pub instance: InstanceNo,
    /// Receiving agent.
    pub agent: String,
    /// How far.
    pub state: ReceiptState,
}

/// Whether an agent is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Presence {
    /// Working.
    Active = 1,
    /// There, not working.
    Idle = 2,
    /// Gone.
    Closed = 3,
}

/// An agent says that it is there (a `hello`, or a `presence` frame), which also makes its name one that can be written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announce {
    /// The vault.
    pub vault: VaultId,
    /// The instance.
    pub instance: InstanceNo,
    /// The agent.
    pub agent: String,
    /// Its role; `None` keeps the one known.
    pub role: Option<String>,
    /// Its profile as JSON (`display_name`, `model`, `roles`); `None` keeps the one known.
    pub profile: Option<String>,
    /// Its state.
    pub state: Presence,
    /// The node (one run of one hub process) that holds its socket; a dead node's agents are closed.
    pub node: u64,
}

/// A new instance and the hash of its bearer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewInstance {
    /// Public id.
    pub instance_id: String,
    /// Kind.
    pub kind: InstanceKind,
    /// What people call it.
    pub label: String,
    /// Owner by display name; made as a member if not known. `None` is the organization's owner.
    pub owner: Option<String>,
    /// Rights.
    pub rights: Rights,
    /// Hash of a long bearer that lasts until revoked, if it has one.
    pub token_hash: Option<[u8; 32]>,
    /// Ed25519 and X25519 public keys, if it enrolled with keys.
    pub keys: Option<([u8; 32], [u8; 32])>,
}

/// What a person decided about a waiting device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceDecision {
    /// It may enroll.
    Approve,
    /// It may not.
    Deny,
}

/// What a person decided about a proposed task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskDecision {
    /// It becomes open.
    Approve,
    /// It becomes rejected.
    Decline,
}

/// Renders the answer to a request out of its outcome; called at most once per stored idempotency key, inside the
/// transaction, so it must neither block nor fail.
pub type Render = Arc<dyn Fn(&Outcome) -> Vec<u8> + Send + Sync>;

/// One change.
#[derive(Clone)]
pub enum Write {
    /// → [`Outcome::Appended`].
    Append(Append),
    /// → [`Outcome::Receipt`].
    Receipt(Receipt),
    /// → [`Outcome::Announced`].
    Announce(Announce),
    /// Those of the named agents of `instance` that `node` holds are closed. → [`Outcome::Closed`].
    Close {
        /// The instance.
        instance: InstanceNo,
        /// The node that held their socket.
        node: u64,
        /// The agents with their vaults; others of the instance stay as they are.
        only: Vec<(VaultId, String)>,
    },
    /// Agents held by nodes other than `alive` and those that have beaten lately ([`crate::port::store::Store::beat`]) are closed,
    /// and dead nodes forgotten. → [`Outcome::Closed`].
    CloseOrphans {
        /// Nodes that live.
        alive: Vec<u64>,
    },
    /// Takes a lease that is free or over by the store's clock, or keeps one's own. → [`Outcome::Lease`] or [`Refusal::Leased`].
    TakeLease {
        /// Which.
        name: &'static str,
        /// The node that takes it.
        holder: u64,
        /// For how long from now on; 0 gives it up.
        for_ms: WallMs,
    },
    /// `inner`, if nobody has taken the lease since it was taken with this fence. → what `inner` gives, or [`Refusal::Fenced`].
    Fenced {
        /// The lease.
        name: &'static str,
        /// Its fence.
        fence: u64,
        /// The change.
        inner: Box<Write>,
    },
    /// Notices were written to a socket of their instance and need not come again. → [`Outcome::Done`].
    NoticesSent {
        /// Their numbers.
        notices: Vec<i64>,
    },
    /// An offer to hand something over. → [`Outcome::Handoff`] with its receiver, also when it is there already.
    HandoffOffer {
        /// Client-chosen id, unique per offering instance; the same offer again is a no-op, another one a conflict.
        handoff_id: String,
        /// Vault it stands in.
        vault: VaultId,
        /// Offering instance and agent.
        from: (InstanceNo, String),
        /// Whom it is for.
        to: Recipient,
        /// The frame to redeliver until it is settled.
        frame: String,
        /// Until when.
        deadline_ms: WallMs,
    },
    /// The receiver settles an offer; of several with one id the oldest open one. → [`Outcome::Handoff`] with its offerer.
    HandoffSettle {
        /// The offer.
        handoff_id: String,
        /// Settling instance and agent.
        by: (InstanceNo, String),
        /// Taken or turned down.
        accept: bool,
        /// The frame for the offerer.
        frame: String,
    },
    /// → [`Outcome::Instance`], [`Refusal::Full`], or [`Refusal::NameTaken`] when its id or bearer is known.
    CreateInstance(NewInstance),
    /// Ends an instance and all its credentials, and closes its agents. → [`Outcome::Done`], [`Refusal::NotFound`], or
    /// [`Refusal::NotYours`] for the hub's own.
    RevokeInstance {
        /// Public id.
        instance_id: String,
    },
    /// A signed assertion was verified: mint an access token; the nonce works once. → [`Outcome::Done`].
    MintAccess {
        /// The instance.
        instance: InstanceNo,
        /// The assertion's nonce.
        nonce: String,
        /// Hash of the bearer.
        token_hash: [u8; 32],
        /// When the bearer ends.
        expires_at_ms: WallMs,
    },
    /// The instance's lease now ends then. → [`Outcome::Done`].
    RenewLease {
        /// The instance.
        instance: InstanceNo,
        /// End of the lease's grace.
        grace_until_ms: WallMs,
    },
    /// A device asks to enroll. → [`Outcome::Done`], [`Refusal::Full`], or [`Refusal::NameTaken`] when a waiting one has the code.
    DeviceStart {
        /// Hash of the secret device code.
        device_hash: [u8; 32],
        /// Code the person types, without dashes.
        user_code: String,
        /// What the device calls itself.
        label: Option<String>,
        /// When the code ends.
        expires_at_ms: WallMs,
    },
    /// A person decides. → [`Outcome::Done`] or [`Refusal::NotFound`].
    DeviceDecide {
        /// The code, without dashes.
        user_code: String,
        /// The decision.
        decision: DeviceDecision,
        /// On whose behalf the device then acts; the deciding person.
        person: PersonNo,
    },
    /// The device polls. → [`Outcome::Instance`] once approved (single use), else a device [`Refusal`].
    DeviceRedeem {
        /// Hash of the secret device code.
        device_hash: [u8; 32],
        /// The instance to make when approved; its `owner` is set from the approval.
        instance: NewInstance,
    },
    /// → [`Outcome::Vault`].
    CreateVault {
        /// Fresh id.
        vault: VaultId,
        /// Name, unique in the organization.
        name: String,
        /// Whether content travels sealed only.
        sealed: bool,
    },
    /// Binds a repository to a vault on first sight, and finds it afterwards. → [`Outcome::Vault`].
    ResolveVault {
        /// Salted digest of the repository's identity, 64 hex characters.
        identity: String,
        /// The vault to bind to, by name; must exist. `None` makes one.
        bind: Option<String>,
        /// Id and name for a vault that has to be made.
        fresh: (VaultId, String),
        /// Label, if the engine sends one.
        label: Option<String>,
    },
    /// → [`Outcome::Done`].
    CreateSwarm {
        /// Public id.
        swarm: String,
        /// Title.
        title: String,
    },
    /// → [`Outcome::Done`], [`Refusal::NotFound`], [`Refusal::SwarmClosed`], [`Refusal::HandleTaken`].
    JoinSwarm {
        /// Public id.
        swarm: String,
        /// Who joins.
        person: PersonNo,
        /// Under which handle; unique for ever, a person may use it in several swarms.
        handle: String,
    },
    /// No more messages; history stays until its retention. → [`Outcome::Done`].
    CloseSwarm {
        /// Public id.
        swarm: String,
        /// When all of its messages go, whatever they say themselves.
        expires_at_ms: WallMs,
    },
    /// → [`Outcome::Task`] or a task [`Refusal`].
    DecideTask {
        /// The vault.
        vault: VaultId,
        /// The task's number.
        number: u64,
        /// The decision.
        decision: TaskDecision,
        /// `task.event` data to append; see [`TaskData`].
        data: TaskData,
    },
    /// Open questions past their deadline become task proposals, each exactly once. → [`Outcome::Expired`].
    ExpireQuestions {
        /// At most so many.
        limit: usize,
        /// `task.event` data to append for each.
        data: TaskData,
    },
    /// Removes what retention says, at most so many rows. → [`Outcome::Swept`].
    Sweep {
        /// At most so many.
        limit: usize,
    },
    /// Moves an agent's inbox on: it has been handed everything up to there. → [`Outcome::Done`].
    AdvanceInbox {
        /// The instance.
        instance: InstanceNo,
        /// The agent.
        agent: String,
        /// Stream and position; never moves back. Numbers above [`crate::ids::STREAM_ID_MAX`] are marks of the engine's own
        /// and are kept as they are; those of streams that are not there are passed over.
        positions: Vec<(StreamId, u64)>,
    },
    /// `inner`, at most once per key. → [`Outcome::Once`], or [`Refusal::IdReused`] when the key came with another request.
    Once {
        /// Whose key: the instance, or a digest of what identifies an unauthenticated caller.
        scope: String,
        /// The client's `Idempotency-Key`.
        key: String,
        /// Digest of method, path and body.
        digest: [u8; 32],
        /// The change.
        inner: Box<Write>,
        /// Makes the stored answer. A refusal of `inner` is not stored: the request may be tried again.
        render: Render,
    },
    /// A change of the outbound plane. → [`Outcome::Outbound`] or a [`Refusal`].
    Outbound(OutboundWrite),
    /// Who may enter the console. → what [`ConsoleWrite`] says.
    Console(ConsoleWrite),
    /// Proves that a write reaches the disk. → [`Outcome::Done`].
    Probe,
    /// Stores a signed checkpoint. → [`Outcome::Done`].
    Checkpoint(Checkpoint),
    /// Only the log changes. → [`Outcome::Done`].
    Log(Vec<Entry>),
    /// A new epoch (after a restore): cursors of the old one are told to start over. → [`Outcome::Done`].
    NewEpoch {
        /// Its name.
        epoch: String,
    },
}

impl std::fmt::Debug for Write {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.verb())
    }
}

impl Write {
    /// The verb as the log names it.
    #[must_use]
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Append(_) => "bus.append",
            Self::Receipt(_) => "bus.receipt",
            Self::Announce(_) => "presence.announce",
            Self::Close { .. } | Self::CloseOrphans { .. } => "presence.close",
            Self::NoticesSent { .. } => "bus.notices",
            Self::HandoffOffer { .. } => "handoff.offer",
            Self::HandoffSettle { .. } => "handoff.settle",
            Self::CreateInstance(_) => "instance.create",
            Self::RevokeInstance { .. } => "instance.revoke",
            Self::MintAccess { .. } => "instance.token",
            Self::RenewLease { .. } => "instance.lease",
            Self::DeviceStart { .. } => "device.start",
            Self::DeviceDecide { .. } => "device.decide",
            Self::DeviceRedeem { .. } => "device.redeem",
            Self::CreateVault { .. } => "vault.create",
            Self::ResolveVault { .. } => "vault.resolve",
            Self::CreateSwarm { .. } => "swarm.create",
            Self::JoinSwarm { .. } => "swarm.join",
            Self::CloseSwarm { .. } => "swarm.close",
            Self::DecideTask { .. } => "task.decide",
            Self::ExpireQuestions { .. } => "question.expire",
            Self::Sweep { .. } => "retention.sweep",
            Self::AdvanceInbox { .. } => "inbox.advance",
            Self::Once { inner, .. } | Self::Fenced { inner, .. } => inner.verb(),
            Self::TakeLease { .. } => "node.lease",
            Self::Outbound(write) => write.verb(),
            Self::Console(write) => write.verb(),
            Self::Probe => "store.probe",
            Self::Checkpoint(_) => "log.checkpoint",
            Self::Log(_) => "log.note",
            Self::NewEpoch { .. } => "store.epoch",
        }
    }

    /// Bytes of payload, for bounding batches and queues.
    #[must_use]
    pub fn size(&self) -> usize {
        64 + match self {
            Self::Append(append) => append.data.len() + append.from_agent.len(),
            Self::HandoffOffer { frame, .. } | Self::HandoffSettle { frame, .. } => frame.len(),
            Self::Once { inner, .. } | Self::Fenced { inner, .. } => inner.size(),
            Self::Log(entries) => entries.len() * 512,
            Self::Outbound(write) => write.size(),
            _ => 0,
        }
    }
}

/// How a `task.event` is appended: the JSON members of the frame for a task of this number and state, and when the event goes.
#[derive(Clone)]
pub struct TaskData {
    /// Makes [`crate::event::StoredEvent::data`] from channel name, number, event and state.
    pub render: Arc<dyn Fn(&TaskChange<'_>) -> Bytes + Send + Sync>,
    /// Life of the event from the batch's stamp.
    pub keep_ms: WallMs,
    /// Whose event it is in the stream: the hub's own instance.
    pub by: InstanceNo,
}

/// What happened to a task.
#[derive(Debug, Clone, Copy)]
pub struct TaskChange<'a> {
    /// Vault of the task.
    pub vault: VaultId,
    /// Short name of the channel that announces it.
    pub channel: &'a str,
    /// Number in the vault, from 1.
    pub number: u64,
    /// `proposed`, `opened`, `decided`.
    pub event: &'a str,
    /// `proposed`, `open`, `rejected`.
    pub state: &'a str,
}

/// An appended event, or the first one of a repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Where it stands.
    pub id: EventId,
    /// Its thread.
    pub thread: EventId,
    /// When it was stored.
    pub at_ms: WallMs,
    /// When it goes.
    pub expires_at_ms: WallMs,
    /// Whether this was a resend.
    pub repeat: bool,
}

/// A vault as outcomes and directories show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VaultInfo {
    /// Id.
    pub vault: VaultId,
    /// Name, unique in the organization.
    pub name: String,
    /// Whether content travels sealed only.
    pub sealed: bool,
    /// Label given by an engine.
    pub label: Option<String>,
}

/// What a write did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The event stands.
    Appended(Appended),
    /// The receipt stands; `false` when it said nothing new.
    Receipt {
        /// Whether it moved the state forward.
        advanced: bool,
    },
    /// The agent is announced; whether anybody should be told.
    Announced {
        /// Whether state, role or profile changed.
        changed: bool,
    },
    /// The offer, or its settlement, waits for this instance now.
    Handoff {
        /// Whom to wake.
        ring: InstanceNo,
    },
    /// So many agents were closed.
    Closed(usize),
    /// The instance was made.
    Instance {
        /// Its number.
        instance: InstanceNo,
        /// Its public id.
        instance_id: String,
    },
    /// The vault.
    Vault(VaultInfo),
    /// The task is now in this state.
    Task {
        /// `open` or `rejected`.
        state: &'static str,
    },
    /// So many questions became proposals; call again while it equals the limit.
    Expired(usize),
    /// So many rows went; call again while it equals the limit.
    Swept(usize),
    /// The stored answer, and whether it is a replay.
    Once {
        /// The bytes to send.
        body: Vec<u8>,
        /// Whether `inner` was applied earlier.
        replayed: bool,
    },
    /// The lease is the caller's.
    Lease {
        /// Higher than that of every holder before.
        fence: u64,
    },
    /// What became of a change of the outbound plane.
    Outbound(OutboundOutcome),
    /// A session of the console has begun.
    Entered {
        /// Whose it is.
        person: PersonNo,
    },
    /// It is done.
    Done,
    /// Nothing changed.
    Refused(Refusal),
}

/// Why nothing changed: conditions that only the transaction can decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The id was used before for something else.
    IdReused,
    /// No such message on this network, or not one the sender may see.
    ReplyNotFound,
    /// Nobody announced that name.
    RecipientUnknown,
    /// No such instance.
    InstanceUnknown,
    /// Several instances run that agent.
    RecipientAmbiguous,
    /// The deadline is not in the future.
    DeadlinePast,
    /// The hourly limit of a handle is used up.
    RateLimited {
        /// The limit.
        limit: u32,
        /// When the next one is taken, in seconds from now.
        retry_after_s: u64,
    },
    /// The swarm takes no more messages.
    SwarmClosed,
    /// The sender has no handle in this swarm.
    NoHandle,
    /// Somebody else has this handle, or the person has another one here.
    HandleTaken,
    /// The name is taken.
    NameTaken,
    /// The vault is sealed, or is not, against what the write says.
    SealedMismatch,
    /// A bound is reached.
    Full {
        /// Which, by its name on the wire.
        what: &'static str,
        /// The bound.
        limit: u64,
    },
    /// No such thing.
    NotFound,
    /// The caller is not the one who may do this.
    NotYours,
    /// A nonce came twice.
    NonceUsed,
    /// A person has not decided yet.
    DevicePending,
    /// Polled sooner than allowed.
    DeviceTooFast,
    /// The code is over.
    DeviceExpired,
    /// A person said no.
    DeviceDenied,
    /// The task is not `proposed`.
    TaskState {
        /// What it is.
        state: &'static str,
    },
    /// The handoff is settled or past its deadline.
    HandoffClosed,
    /// The recipient may not be reached.
    NoConsent(Consent),
    /// A rate limit is used up.
    LimitReached {
        /// The rule that sets it.
        rule: String,
        /// When the next call is taken, in milliseconds from now.
        retry_after_ms: WallMs,
    },
    /// Another node holds the lease.
    Leased,
    /// Another node has taken the lease since.
    Fenced,
}
