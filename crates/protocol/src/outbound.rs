//! Bodies of the routes by which people look at and manage what goes out (`/admin/v1/outbound` and its kin, our own). Requests refuse
//! unknown fields; answers may grow. Times are Unix milliseconds.

use crate::messaging::Conversation;
use serde::{Deserialize, Serialize};

/// One send in a listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendView {
    /// Public id.
    pub send_id: String,
    /// See [`crate::messaging::MessageReceipt::state`].
    pub state: String,
    /// Why it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The channel.
    pub channel: String,
    /// The address, as it was written.
    pub to: String,
    /// `direct` or `channel`.
    pub kind: String,
    /// `question`, `notice` or `approval`.
    pub message_kind: String,
    /// The sending agent.
    pub agent: String,
    /// The text, in a listing its beginning; empty once retention has erased it.
    pub body: String,
    /// Whether there is more of it: `outbound show` has all.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// Short code.
    pub code: String,
    /// Answers that it offers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// Its topic, when it is a question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic_id: Option<String>,
    /// The topic that it asks once more, as a rung of its chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks: Option<String>,
    /// The rule that asked for an approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Version of the policy that let it through.
    pub policy: String,
    /// When it is void.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<i64>,
    /// When it was accepted.
    pub at_ms: i64,
    /// When its state last changed.
    pub updated_ms: i64,
    /// For `before`, to read on behind it.
    pub next: i64,
}

/// A page of sends, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sends {
    /// The sends.
    pub sends: Vec<SendView>,
}

/// One part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartView {
    /// Number, from 1.
    pub part: u32,
    /// `waiting`, `due`, `attempting`, `sent`, `failed`, `unknown`, `void`, `parked`, `stranded`.
    pub state: String,
    /// The id under which it leaves, the same at each attempt until a person has it sent again.
    #[serde(default)]
    pub delivery: String,
    /// The id under which it left before a person had it sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead_of: Option<String>,
    /// Attempts made or begun.
    pub attempts: u32,
    /// Those that failed and counted.
    pub fails: u32,
    /// When it is due.
    pub next_ms: i64,
    /// Id that the service gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
}

/// One attempt that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptView {
    /// The part.
    pub part: u32,
    /// Number, from 1.
    pub attempt: u32,
    /// When it began.
    pub began_ms: i64,
    /// When its end was recorded.
    pub ended_ms: i64,
    /// The id under which it was made.
    #[serde(default)]
    pub delivery: String,
    /// `sent`, `retry`, `failed`, `unknown`, `blocked`, `bounced`.
    pub outcome: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Id that the service gave to what it sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
}

/// Everything about one send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendWhole {
    /// The send.
    #[serde(flatten)]
    pub send: SendView,
    /// Public id of the instance that sent it.
    pub instance_id: String,
    /// Its parts.
    pub parts: Vec<PartView>,
    /// Attempts that have ended.
    pub attempts: Vec<AttemptView>,
    /// Its approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalView>,
    /// Its topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<Conversation>,
    /// The story in sentences: route, rule, attempts, waits, next step.
    pub why: Vec<String>,
}

/// A call that waits, or waited, for a person's yes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalView {
    /// Public id.
    pub approval_id: String,
    /// `pending`, `approved`, `denied`, `expired`, `void`.
    pub state: String,
    /// The rule that asks for it.
    pub rule: String,
    /// Until when somebody can decide.
    pub expires_ms: i64,
    /// Who decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// By which way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_via: Option<String>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_ms: Option<i64>,
    /// The call.
    pub send: SendView,
}

/// Approvals, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approvals {
    /// The approvals.
    pub approvals: Vec<ApprovalView>,
}

/// Body of `POST /admin/v1/approvals/{id}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decide {
    /// Yes or no.
    pub approve: bool,
}

/// What became of a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decided {
    /// The approval.
    pub approval_id: String,
    /// `approved` or `denied`.
    pub state: String,
}

/// Questions that are open or queued.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topics {
    /// Those that have the floor first.
    pub topics: Vec<Conversation>,
}

/// Body of `POST /admin/v1/topics/{id}/answer`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerTopic {
    /// The answer.
    pub text: String,
}

/// What a change left a send in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendState {
    /// The send.
    pub send_id: String,
    /// Its topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic_id: Option<String>,
    /// Where it is now.
    pub state: String,
}

/// Body of `POST /admin/v1/pairing/codes`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairStart {
    /// The channel.
    pub channel: String,
    /// The only address that may use the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Whose address it becomes, by display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<String>,
}

/// A pairing code; it is shown once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairCode {
    /// What the person types.
    pub code: String,
    /// When it ends.
    pub expires_ms: i64,
}

/// Body of `POST /admin/v1/pairing/consents`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetConsent {
    /// The channel.
    pub channel: String,
    /// `direct` or `channel`; left out means `direct`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The address.
    pub to: String,
    /// Whether it may be written to.
    pub allow: bool,
    /// Whether that takes back a STOP of somebody whom nobody vouched for; with `allow` alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lift_stop: bool,
    /// Whose it is, by display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<String>,
}

/// The consent of one address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsentView {
    /// The channel.
    pub channel: String,
    /// `direct` or `channel`.
    pub kind: String,
    /// The address in its one form.
    pub to: String,
    /// `allowed`, `paired`, `stopped`, `suppressed`, `revoked`.
    pub state: String,
    /// Whose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<String>,
    /// Who brought it there.
    pub by: String,
    /// When.
    pub at_ms: i64,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A person's quiet hours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuietHours {
    /// Time zone, by its name in the IANA database.
    pub zone: String,
    /// When they begin, `HH:MM` by the clock on the wall.
    pub from: String,
    /// When they end, `HH:MM`.
    pub until: String,
}

/// A person of the organization.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersonView {
    /// Display name.
    pub name: String,
    /// When only what is urgent reaches them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet: Option<QuietHours>,
    /// Their addresses on channels.
    pub addresses: Vec<ConsentView>,
}

/// The people of the organization.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct People {
    /// By name.
    pub people: Vec<PersonView>,
}

/// Body of `POST /admin/v1/people/{name}/quiet`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetQuiet {
    /// Their quiet hours from now on; `null` or left out: none.
    #[serde(default)]
    pub quiet: Option<QuietHours>,
}

/// Who may be written to, and who not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consents {
    /// By channel and address.
    pub consents: Vec<ConsentView>,
}
