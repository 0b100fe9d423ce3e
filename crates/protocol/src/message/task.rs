//! How task changes are announced on a vault's channels.

use serde::{Deserialize, Serialize};

use crate::time::UtcTime;

/// What happened to a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskEventKind {
    /// Proposed; a person decides.
    Proposed,
    /// Approved and open for claims.
    Opened,
    /// Claimed by an instance.
    Claimed,
    /// The claim ended without a result.
    Released,
    /// A result waits for its decision.
    Submitted,
    /// The result was decided.
    Decided,
    /// Cancelled.
    Cancelled,
    /// A kind this version does not know.
    #[serde(other)]
    Unknown,
}

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// Proposed; a person must approve it.
    Proposed,
    /// Open for claims.
    Open,
    /// Held under a claim.
    Claimed,
    /// A result waits for its decision.
    Submitted,
    /// Decided and done.
    Done,
    /// Declined when proposed.
    Rejected,
    /// Cancelled.
    Cancelled,
    /// The holder gave up with a failure.
    Failed,
    /// A state this version does not know.
    #[serde(other)]
    Unknown,
}

/// Kind of a [`TaskActor`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskActorKind {
    /// A person.
    Person,
    /// An instance.
    Instance,
    /// The server itself, or a kind this version does not know.
    #[serde(other)]
    Unknown,
}

/// Who did something to a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskActor {
    /// Person or instance.
    pub kind: TaskActorKind,
    /// Display name of the person, or label of the instance.
    pub label: String,
    /// The agent on that instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Display name of the instance's owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The model the agent reports for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether this is the receiving instance.
    pub mine: bool,
    /// The agent's profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_id: Option<String>,
}

/// The `task.event` frame, server to client, on a channel of the task's vault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskEvent {
    /// The channel.
    pub channel: String,
    /// Position on the channel.
    pub seq: u64,
    /// Number of the task in its vault.
    pub number: u64,
    /// What happened.
    pub event: TaskEventKind,
    /// Where the task stands now.
    pub state: TaskState,
    /// Who did it; absent when the server did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<TaskActor>,
    /// When it was stored.
    pub server_time: UtcTime,
}
