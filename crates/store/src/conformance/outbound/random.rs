//! Many random operations: after each of them the books balance, everybody has one open question at most, and every lane moves.

use super::escalate::ask;
use super::plane::{
    CHAT, MAIL, NODE, Plane, again, arrived, consent, direct, failed, finish, hold, hourly, outcome, part,
    unknown,
};
use crate::conformance::bench::Bench;
use std::collections::{BTreeMap, BTreeSet};
use switchboard_core::ledger::Ledger;
use switchboard_core::outbound::audit::{Audit, told};
use switchboard_core::outbound::escalate::{NewChain, NewRung, RungState, Then};
use switchboard_core::outbound::gate::Consent;
use switchboard_core::outbound::send::{
    ApprovalState, ConsentState, PartState, SendDetail, SendFilter, SendState, TopicRow, TopicState,
};
use switchboard_core::outbound::write::{
    Claimed, Heard, HeardOutcome, NewSend, OutboundOutcome, OutboundWrite, Settle,
};
use switchboard_core::time::{MINUTE_MS, SECOND_MS, WallMs};
use switchboard_core::write::{Outcome, Refusal, Write};

/// Steps of one random run.
const STEPS: u32 = 600;
/// Whom it writes to: three ways to two people, and one that is nobody's.
const TARGETS: [(&str, &str); 4] = [(CHAT, "ada"), (MAIL, "ada@example.org"), (CHAT, "bob"), (MAIL, "cy")];

/// A small generator, so that runs repeat (Knuth's MMIX constants).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % sides
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        if from.is_empty() { None } else { Some(from[self.roll(from.len())].clone()) }
    }
}

/// Who has a floor, and who waits for it, by deadline and number.
type Floor = (Option<String>, Vec<(Option<WallMs>, i64)>);

/// What the run knows besides the store.
#[derive(Default)]
struct Model {
    /// Consents by address; what a START brings back behind it.
    consents: BTreeMap<(String, String), (ConsentState, Option<ConsentState>)>,
    /// Sends that are over as far as their rows have been looked at.
    over: BTreeSet<i64>,
    /// Who waited for which floor, and who had it, after the step before.
    floors: BTreeMap<String, Floor>,
    running: Vec<Claimed>,
    /// States by send, out of the log.
    states: BTreeMap<String, SendState>,
    audit: Audit,
    logged: u64,
    sent: BTreeMap<(i64, u32), u32>,
    /// Parts that people had sent again although they may have arrived.
    again: BTreeSet<i64>,
    seen: BTreeSet<&'static str>,
    /// Rungs that have come.
    climbed: BTreeSet<(String, u32)>,
}

impl Model {
    fn consent(&self, channel: &str, handle: &str) -> Consent {
        let known = self.consents.get(&(channel.to_owned(), handle.to_owned()));
        known.map_or(Consent::Missing, |(state, _)| state.consent())
    }

    fn put(&mut self, channel: &str, handle: &str, to: ConsentState) {
        use ConsentState::{Revoked, Stopped, Suppressed};
        let key = (channel.to_owned(), handle.to_owned());
        let known = self.consents.get(&key).copied();
        let next = match (known, to) {
            (Some((Stopped, _)), Suppressed | Revoked) => (Stopped, Some(to)),
            (Some((Stopped, was)), Stopped) => (Stopped, was),
            (known, Stopped) => (Stopped, known.map(|(state, _)| state)),
            (_, to) => (to, None),
        };
        self.consents.insert(key, next);
    }

    fn start(&mut self, channel: &str, handle: &str) {
        let key = (channel.to_owned(), handle.to_owned());
        if let Some((ConsentState::Stopped, was)) = self.consents.get(&key).copied() {
            match was {
                Some(was) => self.consents.insert(key, (was, None)),
                None => self.consents.remove(&key),
            };
        }
    }
}

async fn submit(plane: &mut Plane<'_>, model: &mut Model, dice: &mut Dice) {
    let (channel, handle) = TARGETS[dice.roll(TARGETS.len())];
    let base = if dice.roll(2) == 0 { plane.question("x") } else { plane.notice("x") };
    let deadline_ms = (dice.roll(2) == 0)
        .then(|| plane.bench.now + SECOND_MS * i64::try_from(1 + dice.roll(400)).unwrap_or(1));
    let id = format!("apr_{}", plane.fresh());
    let chain = if base.topic_id.is_some() && dice.roll(2) == 0 { Some(chain(plane, dice)) } else { None };
    let new = NewSend {
        channel: channel.into(),
        to: direct(handle),
        key: (dice.roll(3) == 0).then(|| format!("k{}", dice.roll(12))),
        digest: [u8::try_from(dice.roll(2)).unwrap_or(0); 32],
        deadline_ms,
        parts: (0..=dice.roll(3)).map(|at| part(&at.to_string())).collect(),
        limits: if dice.roll(4) == 0 { vec![hourly("narrow", 12)] } else { Vec::new() },
        amends: dice.roll(2) == 0,
        chain,
        hold: if dice.roll(6) == 0 { hold(&id, plane.bench.now) } else { None },
        ..base
    };
    let filter = SendFilter { limit: 100_000, ..SendFilter::default() };
    let rows = super::plane::rows(plane.store(), filter).await;
    let first = rows.iter().find(|row| row.key.is_some() && row.key == new.key);
    let done = plane.bench.one(Write::Outbound(OutboundWrite::Submit(Box::new(new.clone())))).await;
    match (done, first) {
        (Outcome::Outbound(OutboundOutcome::Repeat(row, _)), Some(first)) => {
            assert_eq!(row.no, first.no);
            model.seen.insert("repeat");
        }
        (Outcome::Refused(Refusal::IdReused), Some(_)) => {
            model.seen.insert("conflict");
        }
        (Outcome::Outbound(OutboundOutcome::Accepted { .. }), None) => {
            assert!(model.consent(channel, handle).is_given(), "{channel} {handle}");
        }
        (Outcome::Refused(Refusal::NoConsent(consent)), None) => {
            assert_eq!(consent, model.consent(channel, handle), "{channel} {handle}");
            model.seen.insert("no consent");
        }
        (Outcome::Refused(Refusal::LimitReached { .. }), None) => {
            assert!(!new.limits.is_empty());
            model.seen.insert("limit");
        }
        (done, first) => panic!("{new:?}: {done:?} where {first:?} was first"),
    }
}

// Up to three rungs, each of which asks somebody or proposes a task.
fn chain(plane: &mut Plane<'_>, dice: &mut Dice) -> NewChain {
    let mut after_ms = 0;
    let mut rung = |_| {
        after_ms += SECOND_MS * i64::try_from(1 + dice.roll(120)).unwrap_or(1);
        let to = TARGETS[dice.roll(TARGETS.len())];
        if dice.roll(5) == 0 { NewRung { after_ms, ask: None } } else { ask(plane, after_ms, to) }
    };
    let rungs = (0..3).map(&mut rung).collect();
    NewChain { rule: "p.toml#escalate:1".into(), then: Some(Then::Deny), rungs }
}

// Rungs come once, when they are due, and only while their question is open.
async fn climb_due(plane: &mut Plane<'_>, model: &mut Model, dice: &mut Dice) {
    let now = plane.bench.now;
    for due in plane.store().outbound().due_rungs(now).await.expect("readable") {
        let (topic_id, rung) = (due.rung.topic_id.clone(), due.rung.rung);
        assert!(model.climbed.insert((topic_id.clone(), rung)), "{topic_id} {rung} came twice");
        let skip = (dice.roll(6) == 0).then(|| "no channel".to_owned());
        let write = OutboundWrite::Climb { topic_id, rung, skip: skip.clone() };
        let OutboundOutcome::Climbed(Some(found)) = plane.one(write).await else {
            panic!("it was due: {due:?}")
        };
        let (state, topic) = (found.state, plane.store().outbound().topic(found.topic_id.clone()).await);
        let (topic, _) = topic.expect("readable").expect("it is there");
        assert_eq!(topic.state, TopicState::Open);
        assert!(topic.opened_ms.is_some_and(|opened| opened <= now), "{topic:?}");
        assert_eq!(state == RungState::Proposed, skip.is_none() && found.to.is_none(), "{found:?}");
        if let (RungState::Asked, Some(send_id)) = (state, &found.send_id) {
            let send = plane.detail(send_id).await.send;
            assert!(model.consent(&send.channel, &send.to.handle).is_given(), "{send:?}");
            assert_eq!(send.asks, Some(found.topic_id));
        }
        model.seen.insert(state.as_str());
    }
}

async fn claim(plane: &mut Plane<'_>, model: &mut Model, dice: &mut Dice) {
    let channel = if dice.roll(2) == 0 { CHAT } else { MAIL };
    let limit = 1 + dice.roll(4);
    let claimed = plane.claim_on(channel, limit).await;
    assert!(claimed.len() <= limit);
    for part in &claimed {
        assert_eq!(part.consent, model.consent(&part.send.channel, &part.send.to.handle));
    }
    model.running.extend(claimed);
}

async fn settle(plane: &mut Plane<'_>, model: &mut Model, dice: &mut Dice) {
    let Some(part) = dice.pick(&model.running) else { return };
    let settle = match dice.roll(12) {
        0 => unknown(),
        1 => failed(),
        2 => Settle::Failed { reason: "gone".into(), bad_address: true },
        3 | 4 => again(plane.bench.now + SECOND_MS * i64::try_from(dice.roll(30)).unwrap_or(0)),
        5 => Settle::Blocked { reason: "shut".into(), state: SendState::Refused },
        _ => arrived(&part),
    };
    let done = plane.bench.one(Write::Outbound(finish(&part, settle.clone()))).await;
    model.running.retain(|it| (it.send.no, it.place.0) != (part.send.no, part.place.0));
    match done {
        Outcome::Refused(Refusal::Fenced) => {
            model.seen.insert("fenced");
            return;
        }
        Outcome::Refused(other) => panic!("{other:?}"),
        _ => {}
    }
    match settle {
        Settle::Sent { .. } => {
            let times = model.sent.entry((part.send.no, part.place.0)).or_default();
            *times += 1;
            assert!(*times == 1 || model.again.contains(&part.send.no), "{part:?} has arrived twice");
        }
        Settle::Failed { bad_address: true, .. } => {
            model.put(&part.send.channel, &part.send.to.handle, ConsentState::Suppressed);
        }
        _ => {}
    }
}

// All ways to who speaks.
fn addresses_of(channel: &'static str, handle: &'static str) -> Vec<(&'static str, &'static str)> {
    const ADA: [(&str, &str); 2] = [(CHAT, "ada"), (MAIL, "ada@example.org")];
    if ADA.contains(&(channel, handle)) { ADA.to_vec() } else { vec![(channel, handle)] }
}

async fn speak(plane: &mut Plane<'_>, model: &mut Model, dice: &mut Dice) {
    let (channel, handle) = TARGETS[dice.roll(TARGETS.len())];
    let text = match dice.roll(12) {
        0 => "stop",
        1 | 2 => "start",
        3 => "approve",
        _ => "yes",
    };
    let heard = Heard { channel: channel.into(), from: direct(handle), ..plane.said("x", text) };
    match (plane.heard(heard).await, text) {
        (HeardOutcome::Stopped, "stop") => {
            for (channel, handle) in addresses_of(channel, handle) {
                model.put(channel, handle, ConsentState::Stopped);
            }
        }
        (HeardOutcome::Started, "start") => {
            for (channel, handle) in addresses_of(channel, handle) {
                model.start(channel, handle);
            }
        }
        (HeardOutcome::Stranger, _) => assert!(!model.consent(channel, handle).is_given()),
        (HeardOutcome::Answered(_), _) => {
            model.seen.insert("answered");
        }
        _ => {}
    }
}

// People's hands on single sends.
async fn meddle(plane: &mut Plane<'_>, model: &mut Model, dice: &mut Dice) {
    let filter = SendFilter { limit: 30, ..SendFilter::default() };
    let rows = super::plane::rows(plane.store(), filter).await;
    let Some(row) = dice.pick(&rows) else { return };
    let send_id = row.send_id.clone();
    let topic_id = row.topic_id.clone().unwrap_or_default();
    let write = match dice.roll(5) {
        0 => OutboundWrite::Discard { send_id, by: "op".into() },
        1 | 2 => OutboundWrite::Retry { send_id, by: "op".into() },
        3 => OutboundWrite::Withdraw { topic_id, instance: Some(row.instance) },
        _ => OutboundWrite::Bounced {
            channel: row.channel.clone(),
            event_id: format!("b{}", plane.fresh()),
            message_id: format!("m-{}-1", row.send_id),
            permanent: false,
            reason: "full".into(),
        },
    };
    if matches!(write, OutboundWrite::Retry { .. }) {
        model.again.insert(row.no);
    }
    plane.bench.one(Write::Outbound(write)).await;
}

async fn decide(plane: &mut Plane<'_>, dice: &mut Dice) {
    let pending = plane.store().outbound().approvals(true, 20).await.expect("readable");
    if let Some((row, _)) = dice.pick(&pending) {
        super::approvals::decide(plane, &row.approval_id, dice.roll(3) > 0).await;
    }
    for send in plane.store().outbound().to_release().await.expect("readable") {
        let forbidden_by = (dice.roll(4) == 0).then(|| "rule#9".to_owned());
        plane.settled(OutboundWrite::Release { send, forbidden_by }).await;
    }
}

async fn operate(plane: &mut Plane<'_>, model: &mut Model, dice: &mut Dice) {
    let (channel, handle) = TARGETS[dice.roll(TARGETS.len())];
    let state = if dice.roll(4) == 0 { ConsentState::Revoked } else { ConsentState::Allowed };
    let done = plane.bench.one(Write::Outbound(consent(channel, handle, state, None))).await;
    if !matches!(done, Outcome::Refused(_)) {
        model.put(channel, handle, state);
    }
}

async fn step(plane: &mut Plane<'_>, model: &mut Model, dice: &mut Dice) {
    plane.bench.now += i64::try_from(dice.roll(9000)).unwrap_or(0);
    match dice.roll(22) {
        20 | 21 => climb_due(plane, model, dice).await,
        0..=4 => submit(plane, model, dice).await,
        5..=7 => claim(plane, model, dice).await,
        8..=12 => settle(plane, model, dice).await,
        13 | 14 => speak(plane, model, dice).await,
        15 => meddle(plane, model, dice).await,
        16 => decide(plane, dice).await,
        17 => operate(plane, model, dice).await,
        18 => {
            plane.expire().await;
        }
        _ => {
            if dice.roll(4) == 0 {
                let known = vec![if dice.roll(2) == 0 { CHAT } else { MAIL }.to_owned()];
                let node = if dice.roll(3) == 0 { NODE + 1 } else { NODE };
                let (only_node, due_ms, limit) = (Some(node), plane.bench.now, 1 + dice.roll(5));
                plane.one(OutboundWrite::Strand { known, only_node, due_ms, limit }).await;
                return;
            }
            let channel = if dice.roll(2) == 0 { CHAT } else { MAIL };
            let node = if dice.roll(3) == 0 { NODE + 1 } else { NODE };
            let (by_id, only_node) = (channel == MAIL, Some(node));
            let recover = OutboundWrite::Recover { channel: channel.into(), by_id, only_node };
            let done = outcome(plane.bench.one(Write::Outbound(recover)).await);
            assert!(matches!(done, OutboundOutcome::Recovered(_)), "{done:?}");
        }
    }
}

// The log's new entries, onto what it said before.
async fn follow_the_log(plane: &Plane<'_>, model: &mut Model) -> Ledger {
    let records = plane.store().log(model.logged, 10_000).await.expect("the log is readable");
    for record in records {
        model.logged = record.commit;
        for entry in switchboard_core::log::Entry::decode_all(&record.entries).expect("entries decode") {
            model.audit.take(&entry).expect("it fits");
            if let Some(told) = told(&entry).expect("it can be read") {
                let before = model.states.insert(told.send_id.to_owned(), told.to);
                assert_eq!(before, told.from, "{entry:?}");
            }
        }
    }
    model.audit.ledger()
}

async fn check(plane: &Plane<'_>, model: &mut Model, at: u32) {
    let store = plane.store();
    let ledger = store.outbound().outbound_ledger().await.expect("readable");
    assert!(ledger.is_balanced(), "step {at}: {ledger:?}");
    assert_eq!(follow_the_log(plane, model).await, ledger, "step {at}");
    let rows = super::plane::rows(store, SendFilter { limit: 100_000, ..SendFilter::default() }).await;
    assert_eq!(rows.len() as u64, ledger.accepted, "step {at}");
    let mut details = Vec::new();
    for row in &rows {
        assert_eq!(model.states.get(&row.send_id), Some(&row.state), "step {at}: {row:?}");
        // What was over and has not moved since needs no second look.
        if model.over.contains(&row.no) && row.state.is_terminal() {
            continue;
        }
        let detail =
            store.outbound().send(row.send_id.clone()).await.expect("readable").expect("it is there");
        check_send(&detail, at);
        let running = detail.parts.iter().any(|part| part.state == PartState::Attempting);
        if row.state.is_terminal() && !running {
            model.over.insert(row.no)
        } else {
            model.over.remove(&row.no)
        };
        details.push(detail);
    }
    check_lanes(&details, at);
    check_times(plane, &details, at).await;
    let topics = store.outbound().open_topics().await.expect("readable");
    check_floors(model, &topics.into_iter().map(|(topic, send)| (topic, send.state)).collect::<Vec<_>>(), at);
    let keys: Vec<_> = rows.iter().filter_map(|row| row.key.clone()).collect();
    assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len(), "step {at}: a key stands once");
    for row in store.outbound().consents().await.expect("readable") {
        let known = model.consents.get(&(row.channel.clone(), row.to.handle.clone()));
        assert_eq!(known.map(|(state, _)| *state), Some(row.state), "step {at}: {row:?}");
    }
}

fn check_send(detail: &SendDetail, at: u32) {
    use PartState::{Attempting, Due, Failed, Parked, Sent, Stranded, Unknown, Void, Waiting};
    let states: Vec<_> = detail.parts.iter().map(|part| part.state).collect();
    let state = detail.send.state;
    let told = format!("step {at}: {state:?} with {states:?} {:?} {:?}", detail.topic, detail.approval);
    let all = |allowed: &[PartState]| states.iter().all(|state| allowed.contains(state));
    let fits = match state {
        SendState::Held => all(&[Parked]) || (all(&[Stranded, Sent]) && states.contains(&Stranded)),
        SendState::Queued => all(&[Parked, Sent, Attempting]),
        SendState::Sending => all(&[Waiting, Due, Attempting, Sent]) && !all(&[Sent]),
        SendState::Open | SendState::Delivered => all(&[Sent]),
        SendState::Unknown => all(&[Sent, Unknown, Parked]) && states.contains(&Unknown),
        SendState::Answered | SendState::Expired | SendState::Refused | SendState::Dead => {
            all(&[Sent, Attempting, Failed, Unknown, Void])
        }
    };
    assert!(fits, "{told}");
    if state == SendState::Sending {
        let first = states.iter().position(|state| *state != Sent);
        // An attempt that ran on while people gave the send up and took it up again may be ahead of others.
        let due = states.iter().position(|state| *state == Due);
        assert!(due.is_none() || due == first, "out of order: {told}");
    }
    let topic = detail.topic.as_ref().map(|topic| topic.state);
    let fits = match (state, topic) {
        (_, None) => detail.send.topic_id.is_none() && state != SendState::Queued && state != SendState::Open,
        (SendState::Held | SendState::Queued, Some(topic)) => topic == TopicState::Queued,
        (SendState::Sending | SendState::Open, Some(topic)) => topic == TopicState::Open,
        (SendState::Answered, Some(topic)) => topic == TopicState::Answered,
        (SendState::Unknown, Some(topic)) => topic != TopicState::Answered && topic != TopicState::Withdrawn,
        // Others are asked.
        (SendState::Dead | SendState::Refused, Some(TopicState::Open)) => !detail.rungs.is_empty(),
        (_, Some(topic)) => matches!(topic, TopicState::Expired | TopicState::Withdrawn),
    };
    assert!(fits, "{told}");
    let pending = detail.approval.as_ref().is_some_and(|it| it.state == ApprovalState::Pending);
    assert!(!pending || state == SendState::Held, "{told}");
    if let Some(approval) = &detail.approval {
        let left = states.iter().any(|state| matches!(state, Sent | Due | Attempting | Waiting));
        assert!(!left || approval.state == ApprovalState::Approved, "unapproved: {told}");
    }
    if detail.send.key.is_none() && detail.send.state == SendState::Unknown {
        assert!(detail.attempts.iter().any(|it| it.outcome == "unknown"), "{told}");
    }
}

fn check_lanes(details: &[SendDetail], at: u32) {
    let mut lanes: BTreeMap<(&str, &str), (u32, u32)> = BTreeMap::new();
    for detail in details {
        let lane = lanes.entry((&detail.send.channel, &detail.send.to.handle)).or_default();
        for part in &detail.parts {
            match part.state {
                PartState::Due | PartState::Attempting => lane.0 += 1,
                PartState::Waiting => lane.1 += 1,
                _ => {}
            }
        }
    }
    for (lane, (busy, waiting)) in lanes {
        assert!(busy <= 1, "step {at}: {busy} at a time in {lane:?}");
        assert!(waiting == 0 || busy == 1, "step {at}: {lane:?} stands still");
    }
}

async fn check_times(plane: &Plane<'_>, details: &[SendDetail], at: u32) {
    for channel in [CHAT, MAIL] {
        let of = details.iter().filter(|it| it.send.channel == channel).flat_map(|it| &it.parts);
        let due = of.filter(|part| part.state == PartState::Due).map(|part| part.next_ms).min();
        assert_eq!(
            plane.store().outbound().next_due(channel.into()).await.expect("readable"),
            due,
            "step {at}"
        );
    }
    let ends = details.iter().flat_map(|it| {
        let running = it.parts.iter().any(|part| part.state == PartState::Attempting);
        let send = it.send.deadline_ms.filter(|_| !it.send.state.is_terminal() && !running);
        let approval = it.approval.as_ref().filter(|it| it.state == ApprovalState::Pending);
        [send, approval.map(|it| it.expires_ms)]
    });
    let end = ends.flatten().min();
    let told = plane.store().outbound().next_end().await.expect("readable");
    // Questions of which nobody knows whether they arrived end too; their rows are not looked at again.
    assert!(
        told == end || told.is_some_and(|told| end.is_none_or(|end| told < end)),
        "step {at}: {told:?} {end:?}"
    );
}

// A question in its order: one without a deadline behind all that have one.
fn order((deadline_ms, send): (Option<WallMs>, i64)) -> (bool, Option<WallMs>, i64) {
    (deadline_ms.is_none(), deadline_ms, send)
}

fn check_floors(model: &mut Model, topics: &[(TopicRow, SendState)], at: u32) {
    let mut floors: BTreeMap<String, Floor> = BTreeMap::new();
    let mut opened = BTreeMap::new();
    for (topic, state) in topics {
        let floor = floors.entry(topic.floor.clone()).or_default();
        if topic.state == TopicState::Open {
            assert!(floor.0.is_none(), "step {at}: two questions are open: {topics:?}");
            floor.0 = Some(topic.topic_id.clone());
            opened.insert(topic.floor.clone(), (topic.deadline_ms, topic.send));
        } else if *state == SendState::Queued {
            floor.1.push((topic.deadline_ms, topic.send));
        }
    }
    for (name, (open, queued)) in &floors {
        assert!(queued.is_empty() || open.is_some(), "step {at}: nobody has the floor {name}");
        let Some((before, waited)) = model.floors.get(name) else { continue };
        let Some(now) = opened.get(name) else { continue };
        if before != open && waited.contains(now) {
            let passed = waited.iter().find(|it| queued.contains(it) && order(**it) < order(*now));
            assert_eq!(passed, None, "step {at}: {now:?} was not next on {name}");
        }
    }
    model.floors = floors;
}

/// See the module; the log tells the same as the counts, the counts the same as the rows, at every step.
pub async fn everything_holds_at_every_step(bench: Bench<'_>) {
    let restless = bench.restless;
    let mut plane = Plane::new(bench).await;
    plane.allow(MAIL, "cy", None).await;
    let mut model = Model::default();
    for row in plane.store().outbound().consents().await.expect("readable") {
        model.put(&row.channel, &row.to.handle, row.state);
    }
    let mut dice = Dice(7);
    for at in 0..if restless { STEPS / 20 } else { STEPS } {
        step(&mut plane, &mut model, &mut dice).await;
        check(&plane, &mut model, at).await;
    }
    plane.bench.restart().await;
    // All that can end ends.
    plane.bench.now += 60 * MINUTE_MS;
    plane.expire().await;
    check(&plane, &mut model, STEPS).await;
    let ledger = plane.balanced().await;
    if !restless {
        let counts =
            [ledger.delivered, ledger.answered, ledger.expired, ledger.refused, ledger.dead, ledger.unknown];
        assert!(counts.iter().all(|count| *count > 0), "the run has seen every end: {ledger:?}");
        let seen = [
            "answered",
            "asked",
            "conflict",
            "fenced",
            "limit",
            "no consent",
            "proposed",
            "repeat",
            "skipped",
        ];
        assert_eq!(model.seen.iter().copied().collect::<Vec<_>>(), seen);
    }
}
