//! Bodies of the management routes under `/admin/v1` (our own): what `switchboard` commands and the console send and get.
//! Requests refuse unknown fields; answers may grow.

mod policy;

pub use policy::{
    Policy, PolicyExplainIn, PolicyExplained, PolicyLimit, PolicyRule, PolicyStatus, PolicyStep,
};

use crate::time::UtcTime;
use serde::{Deserialize, Serialize};

/// `GET /admin/v1/status`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Version of the hub.
    pub version: String,
    /// `sqlite` or `postgres`.
    pub backend: String,
    /// Public id of the organization.
    pub org_id: String,
    /// Name of the organization.
    pub org_name: String,
    /// Where the hub is reached.
    pub url: String,
    /// Seconds since it started.
    pub uptime_s: u64,
    /// Streams.
    pub streams: u64,
    /// Log epoch.
    pub epoch: String,
    /// Open sockets.
    pub sockets: u64,
    /// Bytes of the database.
    pub db_bytes: u64,
    /// Bytes of the write-ahead log.
    pub wal_bytes: u64,
    /// Messages the full-text index has yet to see.
    pub search_lag: u64,
    /// The rules for tools that reach people. Absent from a hub that has none of them yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyStatus>,
    /// Where every accepted unit is.
    pub ledger: Ledgers,
}

/// Counts of one plane; see DESIGN law 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// Taken over durably.
    pub accepted: u64,
    /// Arrived.
    pub delivered: u64,
    /// Questions answered.
    pub answered: u64,
    /// Run out.
    pub expired: u64,
    /// Turned down by the receiver.
    pub refused: u64,
    /// Given up.
    pub dead: u64,
    /// Outcome not known.
    pub unknown: u64,
    /// On the way.
    pub pending: u64,
}

/// The ledgers by plane.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledgers {
    /// Agent to agent.
    pub bus: Ledger,
    /// To people.
    #[serde(default)]
    pub outbound: Ledger,
}

/// One vault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vault {
    /// 32 lowercase hex characters.
    pub vault_id: String,
    /// Unique in the organization.
    pub name: String,
    /// Whether content travels sealed only.
    pub sealed: bool,
    /// Label given by an engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// `POST /admin/v1/vaults`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VaultIn {
    /// An id: 1–128 of `[A-Za-z0-9._:-]`.
    pub name: String,
}

/// Answer of `POST /admin/v1/console/links`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsoleLink {
    /// Opens the console once. The secret stands behind the `#`.
    pub url: String,
    /// Until when.
    pub expires_at: UtcTime,
}

/// `POST /admin/v1/tokens`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenIn {
    /// What people call the instance, 1–64 characters.
    pub label: String,
    /// Display name of the owning person; made as a member if not known. Absent: the organization's owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Rights by name. Absent: `bus.relay`, `tasks.read`, `tasks.work`, `tasks.propose`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rights: Option<Vec<String>>,
}

/// Answer to [`TokenIn`]: the only time the token is shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenOut {
    /// The instance it is for.
    pub instance_id: String,
    /// The organization.
    pub org_id: String,
    /// The bearer.
    pub token: String,
}

impl std::fmt::Debug for TokenOut {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("TokenOut").field("instance_id", &self.instance_id).finish_non_exhaustive()
    }
}

/// One instance, as `GET /admin/v1/tokens` lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    /// Public id.
    pub instance_id: String,
    /// `engine`, `token` or `person`.
    pub kind: String,
    /// What people call it.
    pub label: String,
    /// Display name of its owner.
    pub owner: String,
    /// Rights by name.
    pub rights: Vec<String>,
    /// When it was made.
    pub created_at: UtcTime,
    /// When it was revoked, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<UtcTime>,
}

/// One device that waits for a person's word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// What the person types.
    pub user_code: String,
    /// What the device calls itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// When the code ends.
    pub expires_at: UtcTime,
}

/// `POST /admin/v1/swarms`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwarmIn {
    /// 1–180 characters.
    pub title: String,
}

/// One swarm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Swarm {
    /// Public id.
    pub swarm_id: String,
    /// Title.
    pub title: String,
    /// Whether it takes messages.
    pub open: bool,
    /// Handles in it.
    pub members: u32,
}

/// `POST /admin/v1/swarms/{id}/join`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JoinIn {
    /// `[a-z0-9][a-z0-9-]{2,31}`.
    pub handle: String,
    /// Display name of the person who joins; absent: the organization's owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<String>,
}

/// One task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The vault's name.
    pub vault: String,
    /// Number in the vault.
    pub number: u64,
    /// `proposed`, `open`, `rejected`.
    pub state: String,
    /// Title.
    pub title: String,
    /// The question it came from.
    pub question_gid: String,
    /// When it was proposed.
    pub created_at: UtcTime,
}

/// `GET /admin/v1/keys`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keys {
    /// Ed25519 root public key, base64: what engines pin as `root_key`.
    pub root_key: String,
    /// Ed25519 signing public key, base64.
    pub signing_key: String,
}

/// One event-log entry, as `GET /admin/v1/log` lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEntry {
    /// The log record (one per commit).
    pub seq: u64,
    /// When.
    pub at: UtcTime,
    /// `admitted` or `refused`.
    pub result: String,
    /// What was done or tried, `room.verb`.
    pub verb: String,
    /// Who.
    pub actor: String,
    /// To what, or why it was refused.
    pub subject: String,
    /// How often, for refusals.
    pub count: u32,
}

/// `GET /admin/v1/log`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogPage {
    /// Ascending.
    pub entries: Vec<LogEntry>,
    /// Pass as `after` for the next page; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// `POST /admin/v1/log/verify`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    /// Whether everything holds.
    pub ok: bool,
    /// Entries seen.
    pub entries: u64,
    /// Checkpoints whose signature holds.
    pub checkpoints: u64,
    /// The first thing that does not hold.
    pub first_broken: Option<Broken>,
}

/// `POST /admin/v1/log/audit`: the ledger of what goes to people, twice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audited {
    /// Whether they agree.
    pub ok: bool,
    /// As the store counts it.
    pub kept: Ledger,
    /// As the log tells it.
    pub logged: Ledger,
    /// The first entry that does not fit to those before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misfit: Option<String>,
}

/// What does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Broken {
    /// The log record.
    pub seq: u64,
    /// Why.
    pub why: String,
}

/// `POST /admin/v1/backup`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupIn {
    /// Absolute path of a file that does not exist yet, on the hub's machine.
    pub target: String,
}
