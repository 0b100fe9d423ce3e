//! A send and what hangs on it, as the store keeps and shows them.

use super::escalate::{RungRow, Then};
use crate::ids::{InstanceNo, PersonNo};
use crate::port::channel::{Address, MessageKind, Part};
use crate::time::WallMs;

/// Where a send is. The numbers are stored and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum SendState {
    /// Parked until somebody approves it.
    Held = 1,
    /// A question that waits until the person has answered the one before it.
    Queued = 2,
    /// Its parts are leaving.
    Sending = 3,
    /// A question that has arrived and waits for its answer.
    Open = 4,
    /// A notice that has arrived.
    Delivered = 5,
    /// A question that was answered.
    Answered = 6,
    /// Its deadline passed first.
    Expired = 7,
    /// Turned down after it was accepted: by an approver, by the person's STOP, by a rule at the gate.
    Refused = 8,
    /// Given up: refused by the service, tried too often, withdrawn or discarded.
    Dead = 9,
    /// Whether it arrived is not known; a person decides.
    Unknown = 10,
}

/// All states, in the order of their numbers.
pub const STATES: [SendState; 10] = [
    SendState::Held,
    SendState::Queued,
    SendState::Sending,
    SendState::Open,
    SendState::Delivered,
    SendState::Answered,
    SendState::Expired,
    SendState::Refused,
    SendState::Dead,
    SendState::Unknown,
];

impl SendState {
    /// Of a stored number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        STATES.into_iter().find(|state| *state as u8 == number)
    }

    /// The word for it, on the wire and in the log.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Queued => "queued",
            Self::Sending => "sending",
            Self::Open => "open",
            Self::Delivered => "delivered",
            Self::Answered => "answered",
            Self::Expired => "expired",
            Self::Refused => "refused",
            Self::Dead => "dead",
            Self::Unknown => "unknown",
        }
    }

    /// Of its word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        STATES.into_iter().find(|state| state.as_str() == word)
    }

    /// Whether nothing more happens by itself.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        self >= Self::Delivered
    }
}

/// Where one part is. The numbers are stored and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PartState {
    /// Its turn has not come: earlier parts, or earlier messages to the same target, are before it.
    Waiting = 1,
    /// To be attempted at `next_ms`.
    Due = 2,
    /// A node attempts it now.
    Attempting = 3,
    /// The service has confirmed.
    Sent = 4,
    /// Given up.
    Failed = 5,
    /// Whether it arrived is not known.
    Unknown = 6,
    /// Never tried, since its send has ended.
    Void = 7,
    /// Its send is held, or waits for the floor, or for a person's decision.
    Parked = 8,
    /// Its channel is not configured any more.
    Stranded = 9,
}

impl PartState {
    /// Of a stored number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        const ALL: [PartState; 9] = [
            PartState::Waiting,
            PartState::Due,
            PartState::Attempting,
            PartState::Sent,
            PartState::Failed,
            PartState::Unknown,
            PartState::Void,
            PartState::Parked,
            PartState::Stranded,
        ];
        ALL.into_iter().find(|state| *state as u8 == number)
    }

    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Due => "due",
            Self::Attempting => "attempting",
            Self::Sent => "sent",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
            Self::Void => "void",
            Self::Parked => "parked",
            Self::Stranded => "stranded",
        }
    }
}

/// A send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendRow {
    /// The store's number; grows with every send.
    pub no: i64,
    /// Public id, `snd_…`.
    pub send_id: String,
    /// When it was accepted.
    pub at_ms: WallMs,
    /// Who sent it.
    pub instance: InstanceNo,
    /// In whose name.
    pub agent: String,
    /// The caller's idempotency key, while it stands for this send: it is given free when the send has failed and nothing of it has
    /// left, or can any more.
    pub key: Option<String>,
    /// The channel's configured name.
    pub channel: String,
    /// Whom it is for.
    pub to: Address,
    /// The address as the caller wrote it.
    pub to_text: String,
    /// What it is.
    pub kind: MessageKind,
    /// The text, as the caller wrote it; empty once retention has erased it.
    pub body: String,
    /// When it is void.
    pub deadline_ms: Option<WallMs>,
    /// Its topic, when it is a question.
    pub topic_id: Option<String>,
    /// Short code by which people name it.
    pub code: String,
    /// Where it is.
    pub state: SendState,
    /// Why it is there, for people.
    pub reason: Option<String>,
    /// Version of the policy that let it through.
    pub policy: String,
    /// The rule that decided, if one did.
    pub rule: Option<String>,
    /// The caller's parameters as JSON: what the policy is asked about again at the gate.
    pub params: String,
    /// The send that this one asks an approval for.
    pub about: Option<i64>,
    /// The topic that this one asks once more, as a rung of its chain.
    pub asks: Option<String>,
    /// When its state last changed.
    pub updated_ms: WallMs,
}

/// One part of a send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartRow {
    /// The send.
    pub send: i64,
    /// Number, from 1.
    pub part: u32,
    /// Where it is.
    pub state: PartState,
    /// Attempts made or begun.
    pub attempt: u32,
    /// Those that failed and counted.
    pub fails: u32,
    /// When it is due.
    pub next_ms: WallMs,
    /// How often a person had it sent again: each time under another id, see [`delivery_id`].
    pub round: u32,
    /// What is sent.
    pub content: Part,
    /// Id that the service gave.
    pub message_id: Option<String>,
}

/// One attempt that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptRow {
    /// The part.
    pub part: u32,
    /// Number, from 1.
    pub attempt: u32,
    /// When it began.
    pub began_ms: WallMs,
    /// When its end was recorded.
    pub ended_ms: WallMs,
    /// `sent`, `retry`, `failed`, `unknown`, `blocked`; `unknown` becomes `sent` when that turns out, `sent` becomes `bounced` when
    /// it comes back after it was sent again.
    pub outcome: String,
    /// For people.
    pub reason: Option<String>,
    /// The round of the part that it belongs to.
    pub round: u32,
    /// Id that the service gave to what this attempt sent.
    pub message_id: Option<String>,
}

/// Where a topic is. The numbers are stored and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TopicState {
    /// It waits for the person's floor, or for an approval.
    Queued = 1,
    /// It has the floor.
    Open = 2,
    /// It was answered.
    Answered = 3,
    /// Its deadline passed first.
    Expired = 4,
    /// Taken back by who asked, refused, or never delivered.
    Withdrawn = 5,
}

impl TopicState {
    /// Of a stored number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        [Self::Queued, Self::Open, Self::Answered, Self::Expired, Self::Withdrawn]
            .into_iter()
            .find(|state| *state as u8 == number)
    }

    /// The word for it (contract section 4).
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Open => "open",
            Self::Answered => "answered",
            Self::Expired => "expired",
            Self::Withdrawn => "withdrawn",
        }
    }
}

/// A question to a person, with what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicRow {
    /// Public id, `top_…`.
    pub topic_id: String,
    /// The send that asks it.
    pub send: i64,
    /// Where it is.
    pub state: TopicState,
    /// Whose floor it takes; see [`floor_of`].
    pub floor: String,
    /// When it is void.
    pub deadline_ms: Option<WallMs>,
    /// When it got the floor.
    pub opened_ms: Option<WallMs>,
    /// The rule that its chain comes from, if it has one.
    pub escalated_by: Option<String>,
    /// What it means that nobody answers.
    pub then: Option<Then>,
    /// The answer.
    pub answer: Option<AnswerRow>,
}

/// An answer. Foreign text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerRow {
    /// What was said.
    pub text: String,
    /// Who said it: a normalised handle, or a person's name on the console.
    pub by: String,
    /// The channel it came by.
    pub via: String,
    /// When it was recorded.
    pub at_ms: WallMs,
}

/// Where an approval is. The numbers are stored and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ApprovalState {
    /// Nobody has decided.
    Pending = 1,
    /// Somebody said yes.
    Approved = 2,
    /// Somebody said no.
    Denied = 3,
    /// Nobody decided in time: denied.
    Expired = 4,
    /// What it was for has ended.
    Void = 5,
}

impl ApprovalState {
    /// Of a stored number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        [Self::Pending, Self::Approved, Self::Denied, Self::Expired, Self::Void]
            .into_iter()
            .find(|state| *state as u8 == number)
    }

    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Void => "void",
        }
    }
}

/// A call that waits for a person's yes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalRow {
    /// Public id, `apr_…`.
    pub approval_id: String,
    /// The parked send.
    pub send: i64,
    /// The rule that asks for it.
    pub rule: String,
    /// Where it is.
    pub state: ApprovalState,
    /// Until when somebody can decide.
    pub expires_ms: WallMs,
    /// Who decided, by which way, when.
    pub decided: Option<DecidedRow>,
}

/// How a decision is recorded that was made by the link in a mail.
pub const VIA_LINK: &str = "mail-link";

/// A decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecidedRow {
    /// Who.
    pub by: String,
    /// By which way: `console`, `cli`, [`VIA_LINK`], a channel's name.
    pub via: String,
    /// When.
    pub at_ms: WallMs,
    /// The hub's signature over [`decision_input`].
    pub signature: Vec<u8>,
}

/// What the hub signs when a decision is made: it binds the decision to this one occurrence and to the call as it was shown.
#[must_use]
pub fn decision_input(approval_id: &str, call: &[u8; 32], approve: bool, by: &str, via: &str) -> Vec<u8> {
    let verdict: &[u8] = if approve { b"approve" } else { b"deny" };
    let parts = [approval_id.as_bytes(), call, verdict, by.as_bytes(), via.as_bytes()];
    let mut input = b"switchboard.decision.v1\n".to_vec();
    for part in parts {
        input.extend((part.len() as u64).to_be_bytes());
        input.extend(part);
    }
    input
}

/// Whether an address may be written to. The numbers are stored and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ConsentState {
    /// An operator allowed it.
    Allowed = 1,
    /// The person typed a pairing code there.
    Paired = 2,
    /// The person said STOP.
    Stopped = 3,
    /// The address does not exist any more.
    Suppressed = 4,
    /// An operator took it back.
    Revoked = 5,
}

impl ConsentState {
    /// Of a stored number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        [Self::Allowed, Self::Paired, Self::Stopped, Self::Suppressed, Self::Revoked]
            .into_iter()
            .find(|state| *state as u8 == number)
    }

    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Paired => "paired",
            Self::Stopped => "stopped",
            Self::Suppressed => "suppressed",
            Self::Revoked => "revoked",
        }
    }

    /// What it means at the gate.
    #[must_use]
    pub fn consent(self) -> super::gate::Consent {
        use super::gate::Consent;
        match self {
            Self::Allowed | Self::Paired => Consent::Given,
            Self::Stopped => Consent::Stopped,
            Self::Suppressed => Consent::Suppressed,
            Self::Revoked => Consent::Missing,
        }
    }
}

/// The consent of one address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsentRow {
    /// The channel's configured name.
    pub channel: String,
    /// The address.
    pub to: Address,
    /// Its state.
    pub state: ConsentState,
    /// The person it belongs to, if that is known.
    pub person: Option<PersonNo>,
    /// That person's display name.
    pub person_name: Option<String>,
    /// Who brought it there.
    pub by: String,
    /// When.
    pub at_ms: WallMs,
    /// Why, for people.
    pub reason: Option<String>,
    /// Where it is a STOP: whether somebody vouched for who said it.
    pub proven: bool,
}

/// Whose floor a question takes: a person's wherever they are reached, else that of the single address.
#[must_use]
pub fn floor_of(person: Option<PersonNo>, channel: &str, to: &Address) -> String {
    match person {
        Some(person) => format!("person/{}", person.0),
        None => format!("{}/{}/{channel}/{}", to.kind.as_str(), channel.len(), to.handle),
    }
}

/// The lane of a target: what goes to one address leaves in order, one at a time.
#[must_use]
pub fn lane_of(channel: &str, to: &Address) -> String {
    format!("{}/{}/{channel}/{}", to.kind.as_str(), channel.len(), to.handle)
}

/// How public ids of digests begin: sends of the hub's own, which bring what quiet hours held back.
pub const DIGEST: &str = "dig_";

/// The stable id of one part over all attempts of a round. What a person has sent again is another delivery (fault O05): nobody may
/// take it for a repeat.
#[must_use]
pub fn delivery_id(send_id: &str, part: u32, round: u32) -> String {
    if round == 0 { format!("{send_id}-{part}") } else { format!("{send_id}-{part}-{round}") }
}

/// Which sends a listing shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SendFilter {
    /// Only these states; all when empty.
    pub states: Vec<SendState>,
    /// Only those of this instance.
    pub instance: Option<InstanceNo>,
    /// Only those that take this channel.
    pub channel: Option<String>,
    /// Only those older than this number (for the next page).
    pub before: Option<i64>,
    /// At most so many, newest first.
    pub limit: usize,
}

/// Everything about one send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendDetail {
    /// The send.
    pub send: SendRow,
    /// Public id of the instance that sent it.
    pub instance_id: String,
    /// Its parts, in order.
    pub parts: Vec<PartRow>,
    /// Attempts that have ended, in order.
    pub attempts: Vec<AttemptRow>,
    /// Its topic.
    pub topic: Option<TopicRow>,
    /// The rungs of its chain, in order.
    pub rungs: Vec<RungRow>,
    /// Its approval.
    pub approval: Option<ApprovalRow>,
}

/// The answers that a call offers, out of its parameters.
#[must_use]
pub fn choices(params: &str) -> Vec<String> {
    let params: serde_json::Value = serde_json::from_str(params).unwrap_or_default();
    let offered = params["choices"].as_array().map(Vec::as_slice).unwrap_or_default();
    offered.iter().filter_map(|choice| choice.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::channel::AddressKind;

    #[test]
    fn states_come_back_from_numbers_and_words() {
        for state in STATES {
            assert_eq!(SendState::from_number(state as u8), Some(state));
            assert_eq!(SendState::parse(state.as_str()), Some(state));
        }
        assert_eq!(SendState::from_number(0), None);
        assert_eq!(STATES.iter().filter(|state| state.is_terminal()).count(), 6);
    }

    #[test]
    fn floors_and_lanes_of_different_targets_differ() {
        let to = |handle: &str| Address { kind: AddressKind::Direct, handle: handle.into() };
        assert_ne!(lane_of("a", &to("b/c")), lane_of("a/b", &to("c")));
        assert_ne!(lane_of("a/1", &to("b")), lane_of("a", &to("1/b")));
        let shared = Address { kind: AddressKind::Channel, handle: "b".into() };
        assert_ne!(lane_of("a", &to("b")), lane_of("a", &shared));
        let person = Some(PersonNo(3));
        assert_eq!(floor_of(person, "a", &to("x")), floor_of(person, "b", &to("y")));
    }

    #[test]
    fn a_decision_is_bound_to_all_it_says() {
        let input = decision_input("apr_1", &[1; 32], true, "ada", "cli");
        assert_ne!(input, decision_input("apr_1", &[1; 32], false, "ada", "cli"));
        assert_ne!(input, decision_input("apr_1", &[2; 32], true, "ada", "cli"));
        assert_ne!(input, decision_input("apr_1", &[1; 32], true, "adac", "li"));
    }

    #[test]
    fn offered_answers_are_read_from_the_call() {
        let texts = choices;
        assert_eq!(texts(r#"{"choices":["yes","no",3]}"#), ["yes", "no"]);
        assert!(texts("{}").is_empty() && texts("no JSON").is_empty());
    }
}
