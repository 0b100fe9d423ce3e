//! Changes of the outbound plane, as data: the store applies each inside its transaction, where alone it is known whether a key was
//! used, a limit is left, a person has said STOP, or an attempt is still the last one.

use super::escalate::{NewChain, RungRow, Then};
use super::limit::Rate;
use super::quiet::Quiet;
use super::send::{ApprovalRow, ApprovalState, ConsentState, SendRow, SendState, TopicRow};
use crate::ids::{InstanceNo, PersonNo};
use crate::port::channel::{Address, MessageKind, Part};
use crate::time::WallMs;

/// A call that got past validation and policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSend {
    /// Fresh public id.
    pub send_id: String,
    /// Who sends; one that was revoked is refused.
    pub instance: InstanceNo,
    /// In whose name.
    pub agent: String,
    /// Idempotency key, unique for (instance, agent).
    pub key: Option<String>,
    /// Digest of channel, address, kind, body and deadline: the same key with another digest is a conflict.
    pub digest: [u8; 32],
    /// The channel's configured name.
    pub channel: String,
    /// Whom it is for.
    pub to: Address,
    /// The address as the caller wrote it.
    pub to_text: String,
    /// What it is.
    pub kind: MessageKind,
    /// The text as the caller wrote it.
    pub body: String,
    /// When it is void; must lie after the batch's stamp.
    pub deadline_ms: Option<WallMs>,
    /// Fresh topic id; questions only.
    pub topic_id: Option<String>,
    /// Fresh short code; one that another send has is [`crate::write::Refusal::NameTaken`].
    pub code: String,
    /// Whose address it is.
    pub consent: ConsentRule,
    /// Version of the policy that let it through.
    pub policy: String,
    /// The caller's parameters as JSON.
    pub params: String,
    /// What it is sent as, in order; one at least.
    pub parts: Vec<Part>,
    /// Limits to take one call from, each by its key; all or none.
    pub limits: Vec<LimitTake>,
    /// What holds it, if a rule asks for an approval.
    pub hold: Option<Hold>,
    /// The send that this one asks an approval for, by its public id.
    pub about: Option<String>,
    /// Whether its message can be changed once it was sent, and so shows how what it asked has ended.
    pub amends: bool,
    /// Whom it goes to when nobody answers; questions only.
    pub chain: Option<NewChain>,
    /// Whether quiet hours do not hold it back.
    pub urgent: bool,
}

/// How consent is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConsentRule {
    /// The address must be allowed or paired.
    Listed,
    /// The address is a person of the organization, by display name.
    Person,
    /// The channel's targets are the operator's own; a STOP counts all the same.
    Open,
}

/// One call taken from a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitTake {
    /// Of what, framed by who builds it; two limits never share one.
    pub key: String,
    /// The rule, for the refusal.
    pub rule: String,
    /// How much.
    pub rate: Rate,
}

/// An approval that a send waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// Fresh public id.
    pub approval_id: String,
    /// The rule that asks for it.
    pub rule: String,
    /// Until when somebody can decide.
    pub expires_ms: WallMs,
}

/// How an attempt is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settle {
    /// It arrived; the next message to the same target may leave `pace_ms` later.
    Sent {
        /// Id that the service gave.
        message_id: Option<String>,
        /// Least time to the next.
        pace_ms: WallMs,
    },
    /// Nobody was reached; another attempt is due then.
    Retry {
        /// When.
        at_ms: WallMs,
        /// Whether it counts.
        counts: bool,
        /// For people.
        reason: String,
    },
    /// Nobody was reached, and no other attempt follows.
    Failed {
        /// For people.
        reason: String,
        /// Whether the address is gone: it is suppressed.
        bad_address: bool,
    },
    /// Whether it arrived is not known.
    Unknown {
        /// For people.
        reason: String,
    },
    /// The gate was shut: nothing was attempted.
    Blocked {
        /// For people.
        reason: String,
        /// [`SendState::Refused`] or [`SendState::Expired`].
        state: SendState,
    },
}

/// Something a person said, as the grammar reads it ([`super::reply::Said`]), with what it refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// The channel's configured name.
    pub channel: String,
    /// Steadiest id of the event on that channel.
    pub event_id: String,
    /// Who said it.
    pub from: Address,
    /// Whether the service vouches for that.
    pub verified: bool,
    /// Ids of messages that it answers.
    pub references: Vec<String>,
    /// What it says.
    pub said: super::reply::Said,
    /// How a decision is signed; called at most once, inside the transaction.
    pub sign: SignDecision,
}

/// Signs [`super::send::decision_input`].
pub type Sign = dyn Fn(&[u8]) -> Vec<u8> + Send + Sync;

/// Signs a decision.
#[derive(Clone)]
pub struct SignDecision(pub std::sync::Arc<Sign>);

impl std::fmt::Debug for SignDecision {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("SignDecision")
    }
}

impl PartialEq for SignDecision {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for SignDecision {}

/// One change of the outbound plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutboundWrite {
    /// → [`OutboundOutcome::Accepted`], [`OutboundOutcome::Repeat`], or a refusal that consumed nothing.
    Submit(Box<NewSend>),
    /// Takes due parts of a channel. → [`OutboundOutcome::Claimed`].
    Claim {
        /// The channel.
        channel: String,
        /// The node that attempts them.
        node: u64,
        /// At most so many.
        limit: usize,
        /// Until when an attempt may take; later it is taken for lost.
        until_ms: WallMs,
    },
    /// Attempts that were under way when their node died, or that took longer than they may: those of a channel that removes
    /// duplicates are due again, the others' outcome is unknown. What was stranded goes on: there is such a channel again.
    /// → [`OutboundOutcome::Recovered`].
    Recover {
        /// The channel.
        channel: String,
        /// Whether it removes duplicates.
        by_id: bool,
        /// The one node that lives, where there is only one: whatever others began is lost.
        only_node: Option<u64>,
    },
    /// What is on its way on channels that nobody has configured: attempts that nobody will report on are unknown, what is due is
    /// held until there is such a channel, and keeps no floor. At most `limit` sends. → [`OutboundOutcome::Stranded`].
    Strand {
        /// The channels there are.
        known: Vec<String>,
        /// As for [`Self::Recover`].
        only_node: Option<u64>,
        /// Only what was due then: what is younger may be another node's, which has the channel.
        due_ms: WallMs,
        /// At most so many.
        limit: usize,
    },
    /// Records how an attempt ended; [`crate::write::Refusal::Fenced`] when it is not the last one. One that was given up as lost may
    /// still say that it arrived, which settles what was unknown; where a person had it sent again meanwhile, that is written down of
    /// the old attempt and changes nothing of the new one. → [`OutboundOutcome::Settled`].
    Finish {
        /// The send.
        send: i64,
        /// The part.
        part: u32,
        /// The attempt.
        attempt: u32,
        /// How.
        settle: Settle,
    },
    /// Leases messages that are to show how what they asked has ended. → [`OutboundOutcome::Amends`].
    ClaimAmends {
        /// The channel.
        channel: String,
        /// At most so many.
        limit: usize,
        /// Until when; later somebody else may do it once more, which does no harm.
        until_ms: WallMs,
    },
    /// A message shows it, or never will. → [`OutboundOutcome::Done`].
    Amended {
        /// The send.
        send: i64,
        /// When it is tried again; `None`: no more.
        again_ms: Option<WallMs>,
    },
    /// A rung whose time has come: its message is accepted like any other, or it is skipped. Nothing happens when it is not due, not any
    /// more, or its question has ended. → [`OutboundOutcome::Climbed`].
    Climb {
        /// The question's topic.
        topic_id: String,
        /// The rung.
        rung: u32,
        /// Why it is skipped, if something outside of the store is in its way.
        skip: Option<String>,
    },
    /// Something came in. → [`OutboundOutcome::Heard`].
    Hear(Box<Heard>),
    /// A message turned out not to have arrived. → [`OutboundOutcome::Heard`].
    Bounced {
        /// The channel.
        channel: String,
        /// Steadiest id of the event on that channel.
        event_id: String,
        /// Id of our message.
        message_id: String,
        /// Whether the address is gone.
        permanent: bool,
        /// For people.
        reason: String,
    },
    /// A person whom the hub knows answers a question, on the console or the command line. → [`OutboundOutcome::Heard`].
    Answer {
        /// The topic.
        topic_id: String,
        /// Who answers, by display name.
        by: String,
        /// `console` or `cli`.
        via: String,
        /// The answer.
        text: String,
    },
    /// A person whom the hub knows decides an approval. → [`OutboundOutcome::Heard`].
    Decide {
        /// The approval.
        approval_id: String,
        /// Yes or no.
        approve: bool,
        /// Who decides.
        by: String,
        /// `console` or `cli`.
        via: String,
        /// How it is signed.
        sign: SignDecision,
    },
    /// Whoever has the message that asks for an approval decides it by the link in it, in the name of the person it went to. Whether that
    /// address may decide is looked at now: if not, nothing is done and it is [`HeardOutcome::Stranger`]. → [`OutboundOutcome::Heard`].
    DecideByLink {
        /// The public id of the message that asks.
        asked: String,
        /// Yes or no.
        approve: bool,
        /// [`super::send::VIA_LINK`].
        via: String,
        /// How it is signed.
        sign: SignDecision,
    },
    /// What was approved was looked at once more by the policy as it is now: it goes on, or it is refused. → [`OutboundOutcome::Settled`].
    Release {
        /// The send.
        send: i64,
        /// The rule that forbids it now.
        forbidden_by: Option<String>,
    },
    /// The asking agent takes its question back. → [`OutboundOutcome::Settled`].
    Withdraw {
        /// The topic.
        topic_id: String,
        /// The instance, when only its own count.
        instance: Option<InstanceNo>,
    },
    /// Questions, approvals and sends whose time is over, at most so many. → [`OutboundOutcome::Expired`].
    Expire {
        /// At most so many.
        limit: usize,
    },
    /// A person has a dead or unknown send tried again, under new ids, or one that waits for a later attempt at once; what of it has
    /// arrived is not sent twice. Refused when it is due or under way, when nobody approved it or its text is erased
    /// ([`crate::write::Refusal::TaskState`]), when its agent has sent it again under the same key
    /// ([`crate::write::Refusal::IdReused`]), and past its deadline. → [`OutboundOutcome::Settled`].
    Retry {
        /// The send's public id.
        send_id: String,
        /// Who.
        by: String,
    },
    /// A person gives a send up. → [`OutboundOutcome::Settled`].
    Discard {
        /// The send's public id.
        send_id: String,
        /// Who.
        by: String,
    },
    /// Quiet hours are over for these sends: each goes on. → [`OutboundOutcome::Done`].
    Wake {
        /// Their numbers.
        sends: Vec<i64>,
    },
    /// Brings notices that quiet hours held back to their address as one; refused ([`crate::write::Refusal::TaskState`]) when one of them
    /// waits no longer. Its public id begins with [`super::send::DIGEST`]. → [`OutboundOutcome::Accepted`].
    Digest {
        /// The hub's own send.
        new: Box<NewSend>,
        /// Numbers of what it brings.
        of: Vec<i64>,
    },
    /// Sets a person's quiet hours, or ends them. → [`OutboundOutcome::Done`].
    Quiet {
        /// Whose.
        person: PersonNo,
        /// When; `None`: never.
        quiet: Option<Quiet>,
        /// Who says so.
        by: String,
    },
    /// A code by which a person can pair an address. → [`OutboundOutcome::Done`].
    PairStart {
        /// Hash of the code.
        code_hash: [u8; 32],
        /// The channel.
        channel: String,
        /// The only address that may use it, if it is for one.
        to: Option<String>,
        /// Whose address it becomes.
        person: Option<PersonNo>,
        /// Until when.
        expires_ms: WallMs,
        /// Who made it.
        by: String,
    },
    /// An operator says whether an address may be written to. What a person stopped stays so; what the operator says meanwhile counts
    /// once the person takes the STOP back. → [`OutboundOutcome::Done`].
    Consent {
        /// The channel.
        channel: String,
        /// The address.
        to: Address,
        /// [`ConsentState::Allowed`] or [`ConsentState::Revoked`].
        state: ConsentState,
        /// Whose it is.
        person: Option<PersonNo>,
        /// Who says so.
        by: String,
        /// Whether that takes back a STOP. It can where nobody vouched for who said it.
        lift_stop: bool,
    },
}

/// What a receipt says beside the send itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Carried {
    /// Id that the service gave to the first part.
    pub message_id: Option<String>,
    /// The approval that it waits, or waited, for.
    pub approval_id: Option<String>,
    /// The rungs of its chain.
    pub rungs: Vec<RungRow>,
    /// What silence means.
    pub then: Option<Then>,
}

/// What a change did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutboundOutcome {
    /// The send stands.
    Accepted {
        /// Its number.
        send: i64,
        /// [`SendState::Held`], [`SendState::Queued`] or [`SendState::Sending`].
        state: SendState,
    },
    /// The key was used for this very call before: what became of it. No limit was touched.
    Repeat(Box<SendRow>, Carried),
    /// These parts are the caller's to attempt.
    Claimed(Vec<Claimed>),
    /// These messages are the caller's to change.
    Amends(Vec<Amend>),
    /// The rung is there now; `None` when nothing changed.
    Climbed(Option<RungRow>),
    /// So many attempts were lost, or sends go on.
    Recovered(usize),
    /// These are held; as many as the limit means that there may be more.
    Stranded(Vec<Touched>),
    /// The send is there now; `false` when nothing changed.
    Settled(Touched),
    /// What came in did this.
    Heard(HeardOutcome),
    /// What ended; as many as the limit means that there may be more. A question in [`SendState::Unknown`] is among them when its
    /// topic has expired.
    Expired(Vec<Touched>),
    /// It is done.
    Done,
}

/// A send that changed, with whoever may be waiting for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touched {
    /// Public id.
    pub send_id: String,
    /// Its topic.
    pub topic_id: Option<String>,
    /// Where it is now.
    pub state: SendState,
}

/// A part to attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// The send.
    pub send: SendRow,
    /// The part's number and how many there are.
    pub place: (u32, u32),
    /// The attempt's number.
    pub attempt: u32,
    /// Attempts that failed and counted.
    pub fails: u32,
    /// How often a person had it sent again.
    pub round: u32,
    /// What is sent.
    pub content: Part,
    /// The consent of its address now.
    pub consent: super::gate::Consent,
    /// Ids that the service gave to what this continues.
    pub references: Vec<String>,
}

/// A message that is to show how what it asked has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Amend {
    /// The send.
    pub send: SendRow,
    /// The part's number.
    pub part: u32,
    /// What was sent.
    pub content: Part,
    /// Id that the service gave to it.
    pub message_id: String,
    /// How often it was tried in vain.
    pub fails: u32,
    /// How often a person had the part sent again.
    pub round: u32,
    /// The topic of the question that it asks.
    pub topic: Option<TopicRow>,
    /// The approval that was asked for.
    pub approval: Option<ApprovalRow>,
}

/// What something that a person said did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeardOutcome {
    /// It answered a question.
    Answered(Touched),
    /// It decided an approval; an approved send waits for [`OutboundWrite::Release`].
    Decided {
        /// What was decided about.
        touched: Touched,
        /// The parked send.
        send: i64,
        /// What the approval is now.
        state: ApprovalState,
    },
    /// Somebody decided before, or it was over.
    TooLate {
        /// What it is, for people.
        what: String,
    },
    /// Several things are open: nothing was done.
    Ambiguous {
        /// Their short codes, with a word for each: `question` or `approval`.
        codes: Vec<(String, &'static str)>,
    },
    /// Nothing is open that it could answer.
    NothingOpen,
    /// The address is paired.
    Paired,
    /// The code is not one, or not any more.
    BadCode,
    /// Too many wrong codes from this address.
    TooManyCodes,
    /// The address is written to no more.
    Stopped,
    /// The address is written to again.
    Started,
    /// The sender is nobody who may say this, or nobody vouches for who it is.
    Stranger,
    /// Somebody decides an approval who may not.
    MayNotDecide {
        /// Why not, for people.
        why: &'static str,
        /// Whether the sender is told: nobody is on another's word.
        tell: bool,
    },
    /// It was there before.
    Repeat,
    /// A message did not arrive after all.
    Bounced(Option<Touched>),
    /// It says nothing.
    Nothing,
}

impl OutboundWrite {
    /// The verb as the log names it.
    #[must_use]
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Submit(_) => "outbound.send",
            Self::Claim { .. } => "outbound.claim",
            Self::Recover { .. } => "outbound.recover",
            Self::Strand { .. } => "outbound.strand",
            Self::Finish { .. } => "outbound.finish",
            Self::ClaimAmends { .. } => "outbound.claim_amends",
            Self::Amended { .. } => "outbound.amended",
            Self::Climb { .. } => "outbound.climb",
            Self::Hear(_) => "outbound.hear",
            Self::Bounced { .. } => "outbound.bounce",
            Self::Answer { .. } => "outbound.answer",
            Self::Decide { .. } | Self::DecideByLink { .. } => "outbound.decide",
            Self::Release { .. } => "outbound.release",
            Self::Withdraw { .. } => "outbound.withdraw",
            Self::Expire { .. } => "outbound.expire",
            Self::Retry { .. } => "outbound.retry",
            Self::Discard { .. } => "outbound.discard",
            Self::Wake { .. } => "outbound.wake",
            Self::Digest { .. } => "outbound.digest",
            Self::Quiet { .. } => "person.quiet",
            Self::PairStart { .. } => "pair.start",
            Self::Consent { .. } => "pair.consent",
        }
    }

    /// Bytes of payload, for bounding batches and queues.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Submit(send) | Self::Digest { new: send, .. } => {
                let rungs =
                    send.chain.iter().flat_map(|chain| &chain.rungs).filter_map(|rung| rung.ask.as_ref());
                let rungs: usize = rungs.map(|ask| ask.params.len() + bytes_of(&ask.parts)).sum();
                send.body.len() + send.params.len() + bytes_of(&send.parts) + rungs
            }
            Self::Answer { text, .. } => text.len(),
            _ => 256,
        }
    }
}

fn bytes_of(parts: &[Part]) -> usize {
    parts.iter().map(|part| part.text.len() + part.html.as_ref().map_or(0, String::len)).sum()
}
