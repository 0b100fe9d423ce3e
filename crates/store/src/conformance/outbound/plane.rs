//! What every function of this plane's suite stands on: a sender, two people who may be reached, short words for common writes.

use crate::conformance::bench::Bench;
use std::sync::Arc;
use switchboard_core::digest::sha256;
use switchboard_core::ids::{InstanceNo, PersonNo};
use switchboard_core::ledger::Ledger;
use switchboard_core::log::Entry;
use switchboard_core::outbound::audit;
use switchboard_core::outbound::limit::Rate;
use switchboard_core::outbound::reply::{CODE_ALPHABET, Said, read};
use switchboard_core::outbound::send::{
    ApprovalRow, ConsentRow, ConsentState, SendDetail, SendFilter, SendRow, SendState, TopicRow,
};
use switchboard_core::outbound::write::{
    Claimed, ConsentRule, Heard, HeardOutcome, Hold, LimitTake, NewSend, OutboundOutcome, OutboundWrite,
    Settle, SignDecision, Touched,
};
use switchboard_core::port::channel::{Address, AddressKind, MessageKind, Part};
use switchboard_core::port::store::Store;
use switchboard_core::time::{HOUR_MS, MINUTE_MS, WallMs};
use switchboard_core::write::{Outcome, Refusal, Write};

/// The channel of most tests.
pub const CHAT: &str = "chat";
/// Another one.
pub const MAIL: &str = "mail";
/// The node that attempts.
pub const NODE: u64 = 7;

/// A bench with a sender `ann`, and `ada` and `bob` who may be reached on [`CHAT`]; `ada` is one person on [`MAIL`] too.
pub struct Plane<'b> {
    /// The bench.
    pub bench: Bench<'b>,
    /// Who sends.
    pub me: InstanceNo,
    /// The person `ada`.
    pub ada: PersonNo,
    made: usize,
}

/// Everything that the port shows of the plane.
#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    /// Sends, newest first.
    pub sends: Vec<SendDetail>,
    /// Topics that are open or queued.
    pub topics: Vec<(TopicRow, SendRow)>,
    /// Approvals.
    pub approvals: Vec<(ApprovalRow, SendRow)>,
    /// Consents.
    pub consents: Vec<ConsentRow>,
    /// The ledger.
    pub ledger: Ledger,
    /// People.
    pub people: Vec<(PersonNo, String)>,
    /// Vaults, as one thing that is none of this plane's.
    pub vaults: usize,
}

/// Everything that `store` shows of the plane.
pub async fn picture(store: &dyn Store) -> Picture {
    let mut sends = Vec::new();
    for row in rows(store, SendFilter { limit: 1000, ..SendFilter::default() }).await {
        sends.push(store.outbound().send(row.send_id).await.expect("readable").expect("it is there"));
    }
    Picture {
        sends,
        topics: store.outbound().open_topics().await.expect("readable"),
        approvals: store.outbound().approvals(false, 1000).await.expect("readable"),
        consents: store.outbound().consents().await.expect("readable"),
        ledger: store.outbound().outbound_ledger().await.expect("readable"),
        people: store.outbound().people().await.expect("readable"),
        vaults: store.vaults().await.expect("readable").len(),
    }
}

/// Sends as `store` lists them.
pub async fn rows(store: &dyn Store, filter: SendFilter) -> Vec<SendRow> {
    store.outbound().sends(filter).await.expect("readable")
}

/// An address of one person.
#[must_use]
pub fn direct(handle: &str) -> Address {
    Address { kind: AddressKind::Direct, handle: handle.into() }
}

/// A short code that belongs to a number.
#[must_use]
pub fn code(mut number: usize) -> String {
    let letter = |number: usize| char::from(CODE_ALPHABET[number % CODE_ALPHABET.len()]);
    let mut code = String::new();
    for _ in 0..6 {
        code.push(letter(number));
        number /= CODE_ALPHABET.len();
    }
    code
}

/// A part with a text.
#[must_use]
pub fn part(text: &str) -> Part {
    Part { text: text.into(), ..Part::default() }
}

/// It arrived, under an id made of the delivery.
#[must_use]
pub fn arrived(claimed: &Claimed) -> Settle {
    let message_id = format!("m-{}-{}", claimed.send.send_id, claimed.place.0);
    Settle::Sent { message_id: Some(message_id), pace_ms: 0 }
}

/// Nobody was reached, and it is tried again at `at_ms`.
#[must_use]
pub fn again(at_ms: WallMs) -> Settle {
    Settle::Retry { at_ms, counts: true, reason: "busy".into() }
}

/// Nobody was reached, for good.
#[must_use]
pub fn failed() -> Settle {
    Settle::Failed { reason: "no".into(), bad_address: false }
}

/// Nobody knows.
#[must_use]
pub fn unknown() -> Settle {
    Settle::Unknown { reason: "it timed out".into() }
}

/// A limit of `max` an hour.
#[must_use]
pub fn hourly(key: &str, max: u32) -> LimitTake {
    let rate = Rate { max, interval_ms: HOUR_MS };
    LimitTake { key: key.into(), rule: format!("rule of {key}"), rate }
}

/// An approval to wait for, for an hour.
#[must_use]
pub fn hold(id: &str, now: WallMs) -> Option<Hold> {
    Some(Hold { approval_id: id.into(), rule: "ask#1".into(), expires_ms: now + HOUR_MS })
}

/// A signature that shows what was signed.
#[must_use]
pub fn sign() -> SignDecision {
    SignDecision(Arc::new(|input| sha256(input).to_vec()))
}

/// What a write of the plane did.
pub fn outcome(outcome: Outcome) -> OutboundOutcome {
    match outcome {
        Outcome::Outbound(outcome) => outcome,
        other => panic!("expected an outcome of the plane, got {other:?}"),
    }
}

/// The number and state of a send that was accepted.
pub fn accepted(outcome: &OutboundOutcome) -> (i64, SendState) {
    match outcome {
        OutboundOutcome::Accepted { send, state } => (*send, *state),
        other => panic!("expected an accepted send, got {other:?}"),
    }
}

impl<'b> Plane<'b> {
    /// See the type.
    pub async fn new(mut bench: Bench<'b>) -> Self {
        let me = bench.instance("ann").await;
        bench.instance("ada").await;
        let people = bench.store().outbound().people().await.expect("readable");
        let ada = people.iter().find(|(_, name)| name == "ada").expect("she is there").0;
        let mut plane = Self { bench, me, ada, made: 0 };
        plane.allow(CHAT, "ada", Some(ada)).await;
        plane.allow(MAIL, "ada@example.org", Some(ada)).await;
        plane.allow(CHAT, "bob", None).await;
        plane
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &dyn Store {
        self.bench.store()
    }

    /// A fresh number.
    pub fn fresh(&mut self) -> usize {
        self.made += 1;
        self.made
    }

    /// A notice to a person on [`CHAT`].
    pub fn notice(&mut self, to: &str) -> NewSend {
        let number = self.fresh();
        NewSend {
            send_id: format!("snd_{number}"),
            instance: self.me,
            agent: "writer".into(),
            key: None,
            digest: [9; 32],
            channel: CHAT.into(),
            to: direct(to),
            to_text: to.to_uppercase(),
            kind: MessageKind::Notice,
            body: format!("text {number}"),
            deadline_ms: None,
            topic_id: None,
            code: code(number),
            consent: ConsentRule::Listed,
            policy: "p1".into(),
            params: r#"{"channel":"chat"}"#.into(),
            parts: vec![part(&format!("text {number}"))],
            limits: Vec::new(),
            hold: None,
            about: None,
            amends: false,
            chain: None,
            urgent: false,
        }
    }

    /// A question to a person on [`CHAT`], without a deadline.
    pub fn question(&mut self, to: &str) -> NewSend {
        let notice = self.notice(to);
        let topic_id = Some(format!("top_{}", self.made));
        NewSend { kind: MessageKind::Question, topic_id, ..notice }
    }

    /// A message that asks a person on [`CHAT`] for the approval of another send.
    pub fn ask(&mut self, to: &str, about: &str) -> NewSend {
        NewSend { kind: MessageKind::Approval, about: Some(about.into()), ..self.notice(to) }
    }

    /// Does it.
    pub async fn one(&mut self, write: OutboundWrite) -> OutboundOutcome {
        outcome(self.bench.one(Write::Outbound(write)).await)
    }

    /// Is refused, and changes nothing.
    pub async fn refused(&mut self, write: OutboundWrite) -> Refusal {
        let before = picture(self.store()).await;
        let refusal = self.bench.refused(Write::Outbound(write)).await;
        assert_eq!(picture(self.store()).await, before, "a refused write changes nothing");
        refusal
    }

    /// Accepts a send.
    pub async fn submit(&mut self, new: &NewSend) -> (i64, SendState) {
        accepted(&self.one(OutboundWrite::Submit(Box::new(new.clone()))).await)
    }

    /// Turns a send down.
    pub async fn turned_down(&mut self, new: &NewSend) -> Refusal {
        self.refused(OutboundWrite::Submit(Box::new(new.clone()))).await
    }

    /// Gets the answer of an earlier call.
    pub async fn repeated(&mut self, new: &NewSend) -> SendRow {
        match self.one(OutboundWrite::Submit(Box::new(new.clone()))).await {
            OutboundOutcome::Repeat(row, _) => *row,
            other => panic!("expected a repeat, got {other:?}"),
        }
    }

    /// Takes due parts of [`CHAT`] for [`NODE`].
    pub async fn claim(&mut self) -> Vec<Claimed> {
        self.claim_on(CHAT, 100).await
    }

    /// Takes due parts of a channel for [`NODE`].
    pub async fn claim_on(&mut self, channel: &str, limit: usize) -> Vec<Claimed> {
        let until_ms = self.bench.now + MINUTE_MS;
        let claim = OutboundWrite::Claim { channel: channel.into(), node: NODE, limit, until_ms };
        match self.one(claim).await {
            OutboundOutcome::Claimed(claimed) => claimed,
            other => panic!("expected claimed parts, got {other:?}"),
        }
    }

    /// Takes the one part that is due.
    pub async fn claim_one(&mut self) -> Claimed {
        let mut claimed = self.claim().await;
        assert_eq!(claimed.len(), 1, "{claimed:?}");
        claimed.remove(0)
    }

    /// Records how an attempt ended.
    pub async fn finish(&mut self, claimed: &Claimed, settle: Settle) -> Touched {
        self.settled(finish(claimed, settle)).await
    }

    /// Does it, and says where the send is.
    pub async fn settled(&mut self, write: OutboundWrite) -> Touched {
        match self.one(write).await {
            OutboundOutcome::Settled(touched) => touched,
            other => panic!("expected a settled send, got {other:?}"),
        }
    }

    /// Sends all that is due on [`CHAT`]; returns the parts in the order in which they left.
    pub async fn deliver(&mut self) -> Vec<(i64, u32)> {
        let mut left = Vec::new();
        loop {
            let claimed = self.claim().await;
            if claimed.is_empty() {
                return left;
            }
            for part in claimed {
                self.finish(&part, arrived(&part)).await;
                left.push((part.send.no, part.place.0));
            }
        }
    }

    /// What a verified person of [`CHAT`] writes, as a fresh event.
    pub fn said(&mut self, from: &str, text: &str) -> Heard {
        let event_id = format!("ev{}", self.fresh());
        Heard {
            channel: CHAT.into(),
            event_id,
            from: direct(from),
            verified: true,
            references: Vec::new(),
            said: read(text),
            sign: sign(),
        }
    }

    /// A verified person of [`CHAT`] writes.
    pub async fn hear(&mut self, from: &str, text: &str) -> HeardOutcome {
        let heard = self.said(from, text);
        self.heard(heard).await
    }

    /// Something comes in.
    pub async fn heard(&mut self, heard: Heard) -> HeardOutcome {
        self.outcome_heard(OutboundWrite::Hear(Box::new(heard))).await
    }

    /// Does it, and says what it did.
    pub async fn outcome_heard(&mut self, write: OutboundWrite) -> HeardOutcome {
        match self.one(write).await {
            OutboundOutcome::Heard(outcome) => outcome,
            other => panic!("expected that something was heard, got {other:?}"),
        }
    }

    /// An operator allows an address.
    pub async fn allow(&mut self, channel: &str, handle: &str, person: Option<PersonNo>) {
        let write = consent(channel, handle, ConsentState::Allowed, person);
        assert_eq!(self.one(write).await, OutboundOutcome::Done);
    }

    /// The consent of an address.
    pub async fn consent_of(&self, channel: &str, handle: &str) -> Option<ConsentRow> {
        let all = self.store().outbound().consents().await.expect("readable");
        all.into_iter().find(|row| row.channel == channel && row.to.handle == handle)
    }

    /// Ends what is over.
    pub async fn expire(&mut self) -> Vec<Touched> {
        match self.one(OutboundWrite::Expire { limit: 100 }).await {
            OutboundOutcome::Expired(ended) => ended,
            other => panic!("expected what ended, got {other:?}"),
        }
    }

    /// Lost attempts of [`CHAT`].
    pub async fn recover(&mut self, by_id: bool, only_node: Option<u64>) -> usize {
        match self.one(OutboundWrite::Recover { channel: CHAT.into(), by_id, only_node }).await {
            OutboundOutcome::Recovered(lost) => lost,
            other => panic!("expected lost attempts, got {other:?}"),
        }
    }

    /// Everything about a send.
    pub async fn detail(&self, send_id: &str) -> SendDetail {
        self.store().outbound().send(send_id.into()).await.expect("readable").expect("it is there")
    }

    /// Where a send is.
    pub async fn state(&self, send_id: &str) -> SendState {
        self.detail(send_id).await.send.state
    }

    /// Public ids of the sends that have the floor and of those that wait for it, in order.
    pub async fn floor(&self) -> (Vec<String>, Vec<String>) {
        use switchboard_core::outbound::send::TopicState;
        let topics = self.store().outbound().open_topics().await.expect("readable");
        let (open, queued): (Vec<_>, Vec<_>) =
            topics.into_iter().partition(|(topic, _)| topic.state == TopicState::Open);
        let ids =
            |topics: Vec<(TopicRow, SendRow)>| topics.into_iter().map(|(_, send)| send.send_id).collect();
        (ids(open), ids(queued))
    }

    /// The books agree: the stored counts, the rows, and the log.
    pub async fn balanced(&self) -> Ledger {
        use SendState::{Answered, Dead, Delivered, Expired, Held, Open, Queued, Refused, Sending, Unknown};
        let ledger = self.store().outbound().outbound_ledger().await.expect("readable");
        assert!(ledger.is_balanced(), "{ledger:?}");
        let entries: Vec<Entry> = self.bench.entries().await;
        assert_eq!(audit::ledger(&entries), Ok(ledger), "the log tells the same");
        let all = rows(self.store(), SendFilter { limit: 100_000, ..SendFilter::default() }).await;
        let count =
            |states: &[SendState]| all.iter().filter(|row| states.contains(&row.state)).count() as u64;
        let counted = Ledger {
            accepted: all.len() as u64,
            delivered: count(&[Delivered]),
            answered: count(&[Answered]),
            expired: count(&[Expired]),
            refused: count(&[Refused]),
            dead: count(&[Dead]),
            unknown: count(&[Unknown]),
            pending: count(&[Held, Queued, Sending, Open]),
        };
        assert_eq!(ledger, counted, "the rows tell the same");
        ledger
    }
}

/// Records how an attempt ended.
#[must_use]
pub fn finish(claimed: &Claimed, settle: Settle) -> OutboundWrite {
    OutboundWrite::Finish { send: claimed.send.no, part: claimed.place.0, attempt: claimed.attempt, settle }
}

/// An operator says whether an address may be written to.
#[must_use]
pub fn consent(channel: &str, handle: &str, state: ConsentState, person: Option<PersonNo>) -> OutboundWrite {
    let (channel, to, by) = (channel.into(), direct(handle), "op".into());
    OutboundWrite::Consent { channel, to, state, person, by, lift_stop: false }
}

/// What [`Said`] a text is.
#[must_use]
pub fn said(text: &str) -> Said {
    read(text)
}
