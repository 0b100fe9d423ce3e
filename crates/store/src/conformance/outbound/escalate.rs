//! Chains: a question knows whom it goes to before it is asked, its rungs come by the store's clock, and all of it ends with the question.

use super::plane::{CHAT, MAIL, Plane, arrived, code, consent, direct, failed, hold, part};
use crate::conformance::bench::Bench;
use switchboard_core::log::Entry;
use switchboard_core::outbound::escalate::{NewAsk, NewChain, NewRung, RungRow, RungState, Then};
use switchboard_core::outbound::quiet::Quiet;
use switchboard_core::outbound::reply::choice_value;
use switchboard_core::outbound::send::{ConsentState, SendState, TopicState};
use switchboard_core::outbound::write::{ConsentRule, HeardOutcome, NewSend, OutboundOutcome, OutboundWrite};
use switchboard_core::port::channel::MessageKind;
use switchboard_core::time::{MINUTE_MS, SECOND_MS, WallMs};
use switchboard_core::write::Refusal;

/// A rung that asks somebody.
pub(super) fn ask(plane: &mut Plane<'_>, after_ms: WallMs, (channel, to): (&str, &str)) -> NewRung {
    let number = plane.fresh();
    let ask = NewAsk {
        send_id: format!("snd_{number}"),
        code: code(number),
        channel: channel.into(),
        to: direct(to),
        to_text: to.to_uppercase(),
        consent: ConsentRule::Listed,
        amends: true,
        params: format!(r#"{{"channel":"{channel}","choices":["yes","no"]}}"#),
        parts: vec![part(&format!("rung {number}"))],
    };
    NewRung { after_ms, ask: Some(ask) }
}

/// A rung that proposes a task.
fn task(after_ms: WallMs) -> NewRung {
    NewRung { after_ms, ask: None }
}

/// A question with a chain.
pub(super) fn escalated(plane: &mut Plane<'_>, to: &str, rungs: Vec<NewRung>, then: Option<Then>) -> NewSend {
    let chain = Some(NewChain { rule: "p.toml#escalate:1".into(), then, rungs });
    let deadline_ms = Some(plane.bench.now + 60 * MINUTE_MS);
    NewSend { chain, deadline_ms, amends: true, ..plane.question(to) }
}

fn topic_of(new: &NewSend) -> String {
    new.topic_id.clone().expect("a question")
}

fn send_of(rung: &NewRung) -> String {
    rung.ask.as_ref().expect("it asks somebody").send_id.clone()
}

async fn rungs(plane: &Plane<'_>, new: &NewSend) -> Vec<RungRow> {
    plane.store().outbound().rungs(Some(topic_of(new))).await.expect("readable")
}

async fn states(plane: &Plane<'_>, new: &NewSend) -> Vec<RungState> {
    rungs(plane, new).await.into_iter().map(|rung| rung.state).collect()
}

async fn next(plane: &Plane<'_>) -> Option<WallMs> {
    plane.store().outbound().next_rung().await.expect("readable")
}

async fn due(plane: &Plane<'_>) -> Vec<(String, u32)> {
    let due = plane.store().outbound().due_rungs(plane.bench.now).await.expect("readable");
    due.into_iter().map(|due| (due.rung.topic_id, due.rung.rung)).collect()
}

/// Climbs a rung; where it is then.
pub(super) async fn climb(plane: &mut Plane<'_>, topic_id: &str, rung: u32) -> Option<RungRow> {
    let write = OutboundWrite::Climb { topic_id: topic_id.into(), rung, skip: None };
    match plane.one(write).await {
        OutboundOutcome::Climbed(rung) => rung,
        other => panic!("expected a rung, got {other:?}"),
    }
}

async fn changeable(plane: &mut Plane<'_>, channel: &str) -> Vec<(String, Option<String>)> {
    let until_ms = plane.bench.now + MINUTE_MS;
    let claim = OutboundWrite::ClaimAmends { channel: channel.into(), limit: 10, until_ms };
    let OutboundOutcome::Amends(claimed) = plane.one(claim).await else { panic!("messages to change") };
    let answer = |topic: switchboard_core::outbound::send::TopicRow| topic.answer.map(|it| it.text);
    claimed.into_iter().map(|amend| (amend.send.send_id, amend.topic.and_then(answer))).collect()
}

async fn deliver_on(plane: &mut Plane<'_>, channel: &str) {
    for part in plane.claim_on(channel, 10).await {
        plane.finish(&part, arrived(&part)).await;
    }
}

/// All of it stands with the question from the start, and what comes too late is said up front.
pub async fn a_chain_is_stored_whole(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let first = ask(&mut plane, 10 * MINUTE_MS, (MAIL, "ada@example.org"));
    let late = ask(&mut plane, 60 * MINUTE_MS, (CHAT, "bob"));
    let new = escalated(&mut plane, "ada", vec![first, task(20 * MINUTE_MS), late], Some(Then::Deny));
    plane.submit(&new).await;
    plane.bench.restart().await;
    let found = rungs(&plane, &new).await;
    let told: Vec<_> = found.iter().map(|rung| (rung.rung, rung.after_ms, rung.state)).collect();
    let waiting = RungState::Waiting;
    assert_eq!(
        told,
        [(1, 10 * MINUTE_MS, waiting), (2, 20 * MINUTE_MS, waiting), (3, 60 * MINUTE_MS, RungState::Skipped)]
    );
    assert_eq!(found[0].to, Some((MAIL.into(), "ADA@EXAMPLE.ORG".into())));
    assert_eq!((found[1].to.as_ref(), found[0].send_id.as_ref()), (None, None));
    assert!(found[2].reason.as_ref().is_some_and(|why| why.contains("deadline")), "{found:?}");
    let detail = plane.detail(&new.send_id).await;
    let topic = detail.topic.expect("a question");
    assert_eq!((topic.then, topic.escalated_by.as_deref()), (Some(Then::Deny), Some("p.toml#escalate:1")));
    assert_eq!(detail.rungs, found);
    assert_eq!(plane.store().outbound().rungs(None).await.expect("readable"), found);
    // A short code is nobody else's from the moment that it is promised.
    let taken =
        new.chain.as_ref().and_then(|chain| chain.rungs[0].ask.as_ref()).expect("it asks").code.clone();
    let other = NewSend { code: taken.clone(), ..plane.notice("bob") };
    assert_eq!(plane.turned_down(&other).await, Refusal::NameTaken);
    let mut rung = ask(&mut plane, MINUTE_MS, (CHAT, "bob"));
    rung.ask.as_mut().expect("it asks").code = taken;
    let other = escalated(&mut plane, "bob", vec![rung], None);
    assert_eq!(plane.turned_down(&other).await, Refusal::NameTaken);
    plane.balanced().await;
}

/// Counted from when the question got the floor, once each, whatever happens to the store meanwhile.
pub async fn rungs_come_by_the_stores_clock(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let before = plane.question("ada");
    plane.submit(&before).await;
    let first = ask(&mut plane, 10 * MINUTE_MS, (CHAT, "bob"));
    let asked = send_of(&first);
    let new = escalated(&mut plane, "ada", vec![first, task(20 * MINUTE_MS)], None);
    let topic = topic_of(&new);
    assert_eq!(plane.submit(&new).await.1, SendState::Queued);
    assert_eq!(next(&plane).await, None, "it has not got the floor");
    plane.bench.now += 30 * MINUTE_MS;
    assert_eq!((due(&plane).await, climb(&mut plane, &topic, 1).await), (vec![], None));
    plane.deliver().await;
    plane.hear("ada", "yes").await;
    let opened = plane.bench.now;
    assert_eq!(next(&plane).await, Some(opened + 10 * MINUTE_MS));
    plane.bench.now = opened + 10 * MINUTE_MS - 1;
    assert_eq!((due(&plane).await, climb(&mut plane, &topic, 1).await), (vec![], None));
    plane.bench.restart().await;
    plane.bench.now = opened + 20 * MINUTE_MS;
    assert_eq!(due(&plane).await, [(topic.clone(), 1), (topic.clone(), 2)], "both, in their order");
    let climbed = climb(&mut plane, &topic, 1).await.expect("it was due");
    assert_eq!((climbed.state, climbed.send_id.as_deref()), (RungState::Asked, Some(asked.as_str())));
    assert_eq!(climb(&mut plane, &topic, 1).await, None, "once");
    assert_eq!(climb(&mut plane, &topic, 2).await.map(|rung| rung.state), Some(RungState::Proposed));
    assert_eq!((next(&plane).await, climb(&mut plane, &topic, 3).await), (None, None));
    let message = plane.detail(&asked).await.send;
    assert_eq!((message.kind, message.asks.as_deref()), (MessageKind::Question, Some(topic.as_str())));
    assert_eq!((message.body.as_str(), message.agent.as_str()), (new.body.as_str(), "writer"));
    assert_eq!((message.topic_id, message.deadline_ms), (None, new.deadline_ms));
    assert_eq!(plane.floor().await.0, std::slice::from_ref(&new.send_id), "a rung takes nobody's floor");
    plane.balanced().await;
}

/// Two who answer make one decision, whichever way it comes, and both messages show it.
pub async fn who_is_asked_later_may_answer_and_the_first_counts(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    for (round, way) in ["bare", "code", "thread", "button"].into_iter().enumerate() {
        let rung = ask(&mut plane, MINUTE_MS, (CHAT, "bob"));
        let message = rung.ask.clone().expect("it asks");
        let new = escalated(&mut plane, "ada", vec![rung], None);
        plane.submit(&new).await;
        plane.deliver().await;
        assert_eq!(plane.hear("bob", "mine").await, HeardOutcome::NothingOpen, "he was not asked yet");
        plane.bench.now += MINUTE_MS;
        climb(&mut plane, &topic_of(&new), 1).await.expect("it was due");
        plane.deliver().await;
        let text = match way {
            "code" => format!("SB-{} yes", message.code),
            "button" => choice_value(&message.code, 1),
            _ => "yes".into(),
        };
        let mut heard = plane.said("bob", &text);
        if way == "thread" {
            heard.references = vec![format!("m-{}-1", message.send_id)];
        }
        assert!(matches!(plane.heard(heard).await, HeardOutcome::Answered(_)), "{way}");
        let code = format!("SB-{} no", new.code);
        assert!(matches!(plane.hear("ada", &code).await, HeardOutcome::TooLate { .. }), "{way}");
        let answer = plane.detail(&new.send_id).await.topic.and_then(|topic| topic.answer).expect("answered");
        assert_eq!((answer.text.as_str(), answer.by.as_str()), ("yes", "bob"), "{way}");
        let shown = changeable(&mut plane, CHAT).await;
        let yes = Some("yes".to_owned());
        assert_eq!(shown.len(), 2 * (round + 1).min(1), "{way}: {shown:?}");
        assert!(shown.contains(&(new.send_id.clone(), yes.clone())), "{way}: {shown:?}");
        assert!(shown.contains(&(message.send_id.clone(), yes)), "{way}: {shown:?}");
        for (send_id, _) in shown {
            let send = plane.detail(&send_id).await.send.no;
            plane.one(OutboundWrite::Amended { send, again_ms: None }).await;
        }
        assert_eq!(plane.state(&message.send_id).await, SendState::Delivered);
    }
    plane.balanced().await;
}

/// With several things open, a bare word answers none of them; the same question on two ways is one thing.
pub async fn a_bare_answer_needs_one_open_question(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let rung = ask(&mut plane, MINUTE_MS, (CHAT, "bob"));
    let new = escalated(&mut plane, "ada", vec![rung], None);
    let own = plane.question("bob");
    plane.submit(&new).await;
    plane.submit(&own).await;
    plane.bench.now += MINUTE_MS;
    climb(&mut plane, &topic_of(&new), 1).await.expect("it was due");
    plane.deliver().await;
    let HeardOutcome::Ambiguous { codes } = plane.hear("bob", "yes").await else {
        panic!("it could be both")
    };
    assert_eq!(codes.len(), 2);
    assert!(matches!(plane.hear("bob", &format!("SB-{} yes", own.code)).await, HeardOutcome::Answered(_)));
    assert!(matches!(plane.hear("bob", "yes").await, HeardOutcome::Answered(_)));
    let rung = ask(&mut plane, MINUTE_MS, (MAIL, "ada@example.org"));
    let new = escalated(&mut plane, "ada", vec![rung], None);
    plane.submit(&new).await;
    plane.bench.now += MINUTE_MS;
    climb(&mut plane, &topic_of(&new), 1).await.expect("it was due");
    deliver_on(&mut plane, MAIL).await;
    let mut heard = plane.said("ada@example.org", "by mail");
    heard.channel = MAIL.into();
    assert!(matches!(plane.heard(heard).await, HeardOutcome::Answered(_)), "one person, one question");
    plane.balanced().await;
}

/// Who may not be written to when the time has come is passed over, and the next one comes as planned.
pub async fn who_may_not_be_asked_is_passed_over(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let stopped = ask(&mut plane, MINUTE_MS, (CHAT, "bob"));
    let unknown = ask(&mut plane, 2 * MINUTE_MS, (CHAT, "cy"));
    let forbidden = ask(&mut plane, 3 * MINUTE_MS, (CHAT, "ada"));
    let last = ask(&mut plane, 4 * MINUTE_MS, (MAIL, "ada@example.org"));
    let asked = send_of(&last);
    let new = escalated(&mut plane, "ada", vec![stopped, unknown, forbidden, last], None);
    let topic = topic_of(&new);
    plane.submit(&new).await;
    plane.deliver().await;
    plane.hear("bob", "stop").await;
    plane.bench.now += 3 * MINUTE_MS;
    for (number, why) in [(1, "STOP"), (2, "nobody has allowed")] {
        let rung = climb(&mut plane, &topic, number).await.expect("it was due");
        assert_eq!((rung.state, rung.send_id), (RungState::Skipped, None));
        assert!(rung.reason.as_ref().is_some_and(|reason| reason.contains(why)), "{:?}", rung.reason);
    }
    let skip = Some("forbidden by p.toml#deny_tool:1".to_owned());
    plane.one(OutboundWrite::Climb { topic_id: topic.clone(), rung: 3, skip: skip.clone() }).await;
    assert_eq!(rungs(&plane, &new).await[2].reason, skip);
    assert_eq!(plane.balanced().await.accepted, 1, "nothing was sent");
    plane.bench.now += MINUTE_MS;
    climb(&mut plane, &topic, 4).await.expect("as planned");
    assert_eq!(plane.state(&asked).await, SendState::Sending);
    // A STOP ends what is on its way, and not the question.
    plane.one(consent(MAIL, "ada@example.org", ConsentState::Revoked, None)).await;
    let claimed = plane.claim_on(MAIL, 10).await;
    assert!(!claimed[0].consent.is_given(), "the gate looks at the consent of who is asked");
    let said: Vec<Entry> = plane.bench.entries().await;
    let climbs =
        said.iter().filter(|it| matches!(it, Entry::Admitted { verb, .. } if verb == "outbound.climb"));
    assert_eq!(climbs.count(), 4, "each stands in the log");
    plane.balanced().await;
}

/// A question that has ended is asked of nobody else, and what has not left does not leave.
pub async fn the_end_of_a_question_ends_its_chain(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let first = ask(&mut plane, MINUTE_MS, (CHAT, "bob"));
    let second = ask(&mut plane, 2 * MINUTE_MS, (MAIL, "ada@example.org"));
    let (running, waiting) = (send_of(&first), send_of(&second));
    let new = escalated(&mut plane, "ada", vec![first, second, task(3 * MINUTE_MS)], Some(Then::Halt));
    let topic = topic_of(&new);
    plane.submit(&new).await;
    plane.deliver().await;
    plane.bench.now += 2 * MINUTE_MS;
    climb(&mut plane, &topic, 1).await.expect("it was due");
    climb(&mut plane, &topic, 2).await.expect("it was due");
    let part = plane.claim_one().await;
    plane.settled(OutboundWrite::Withdraw { topic_id: topic.clone(), instance: None }).await;
    assert_eq!((next(&plane).await, climb(&mut plane, &topic, 3).await), (None, None));
    for send_id in [&running, &waiting] {
        assert_eq!(plane.state(send_id).await, SendState::Refused);
    }
    assert_eq!(plane.claim_on(MAIL, 10).await.len(), 0);
    plane.finish(&part, arrived(&part)).await;
    let shown: Vec<_> = changeable(&mut plane, CHAT).await.into_iter().map(|(send_id, _)| send_id).collect();
    assert!(shown.contains(&running), "what was on its way shows the end: {shown:?}");
    let retry = OutboundWrite::Retry { send_id: waiting, by: "op".into() };
    assert!(matches!(plane.refused(retry).await, Refusal::TaskState { .. }));
    plane.balanced().await;
}

/// Silence has its meaning, in the topic and in the log; those who were asked see that it was too late.
pub async fn silence_means_what_was_said(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let rung = ask(&mut plane, MINUTE_MS, (CHAT, "bob"));
    let message = send_of(&rung);
    let new = escalated(&mut plane, "ada", vec![rung], Some(Then::Proceed));
    let topic = topic_of(&new);
    plane.submit(&new).await;
    plane.deliver().await;
    plane.bench.now += MINUTE_MS;
    climb(&mut plane, &topic, 1).await.expect("it was due");
    plane.deliver().await;
    plane.bench.restart().await;
    plane.bench.now += 60 * MINUTE_MS;
    let ended = plane.expire().await;
    assert_eq!(ended.len(), 1, "{ended:?}");
    let detail = plane.detail(&new.send_id).await;
    let ended = detail.topic.expect("a question");
    assert_eq!((ended.state, ended.then), (TopicState::Expired, Some(Then::Proceed)));
    assert!(matches!(plane.hear("bob", "late").await, HeardOutcome::NothingOpen));
    let shown: Vec<_> = changeable(&mut plane, CHAT).await.into_iter().map(|(send_id, _)| send_id).collect();
    assert_eq!(shown.len(), 2, "{shown:?}");
    assert!(shown.contains(&message));
    let said = format!("{topic} then=proceed rule=p.toml#escalate:1");
    let entries: Vec<Entry> = plane.bench.entries().await;
    let told = entries.iter().filter(
        |it| matches!(it, Entry::Admitted { verb, subject, .. } if verb == "outbound.then" && *subject == said),
    );
    assert_eq!(told.count(), 1);
    plane.balanced().await;
}

/// Whom a message cannot reach is no reason to ask nobody: the next rung comes at once, the floor is free, and the end is the same.
pub async fn a_question_that_cannot_be_delivered_goes_on(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let rung = ask(&mut plane, 30 * MINUTE_MS, (CHAT, "bob"));
    let new = escalated(&mut plane, "ada", vec![rung], Some(Then::Deny));
    let topic = topic_of(&new);
    let behind = plane.question("ada");
    plane.submit(&new).await;
    plane.submit(&behind).await;
    let part = plane.claim_one().await;
    assert_eq!(plane.finish(&part, failed()).await.state, SendState::Dead);
    let found = plane.detail(&new.send_id).await.topic.expect("a question");
    assert_eq!(found.state, TopicState::Open, "others are asked");
    assert_eq!(plane.state(&behind.send_id).await, SendState::Sending, "the floor is free");
    assert_eq!(next(&plane).await, Some(plane.bench.now), "the next one comes at once");
    climb(&mut plane, &topic, 1).await.expect("it was due");
    plane.deliver().await;
    assert!(matches!(plane.hear("bob", "yes").await, HeardOutcome::Answered(_)));
    assert_eq!(plane.state(&new.send_id).await, SendState::Answered);
    // The same with a STOP, and nobody else answers: it ends at its deadline.
    let rung = ask(&mut plane, MINUTE_MS, (MAIL, "ada@example.org"));
    let new = escalated(&mut plane, "bob", vec![rung], Some(Then::Deny));
    plane.submit(&new).await;
    plane.deliver().await;
    plane.hear("bob", "stop").await;
    assert_eq!(plane.state(&new.send_id).await, SendState::Refused);
    climb(&mut plane, &topic_of(&new), 1).await.expect("it was due");
    deliver_on(&mut plane, MAIL).await;
    let end = plane.store().outbound().next_end().await.expect("readable");
    assert!(end.is_some_and(|end| Some(end) <= new.deadline_ms), "its end is looked for: {end:?}");
    plane.bench.now += 61 * MINUTE_MS;
    let ended = plane.expire().await;
    assert!(
        ended.iter().any(|it| it.topic_id == new.topic_id && it.state == SendState::Refused),
        "{ended:?}"
    );
    let topic = plane.detail(&new.send_id).await.topic.expect("a question");
    assert_eq!((topic.state, topic.then), (TopicState::Expired, Some(Then::Deny)));
    // Without anybody left to ask it ends as ever.
    let plain = escalated(&mut plane, "ada", Vec::new(), Some(Then::Deny));
    plane.one(OutboundWrite::Discard { send_id: behind.send_id, by: "op".into() }).await;
    plane.submit(&plain).await;
    let part = plane.claim_one().await;
    plane.finish(&part, failed()).await;
    let topic = plane.detail(&plain.send_id).await.topic.expect("a question");
    assert_eq!(topic.state, TopicState::Withdrawn);
    plane.balanced().await;
}

/// What waits for an approval climbs nowhere; what was approved was approved with its chain.
pub async fn a_chain_waits_for_the_approval(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let rung = ask(&mut plane, MINUTE_MS, (CHAT, "bob"));
    let message = send_of(&rung);
    let new =
        NewSend { hold: hold("apr_1", plane.bench.now), ..escalated(&mut plane, "ada", vec![rung], None) };
    let (no, _) = plane.submit(&new).await;
    plane.bench.now += 5 * MINUTE_MS;
    assert_eq!((next(&plane).await, due(&plane).await), (None, vec![]));
    super::approvals::decide(&mut plane, "apr_1", true).await;
    plane.settled(OutboundWrite::Release { send: no, forbidden_by: None }).await;
    plane.bench.now += MINUTE_MS;
    climb(&mut plane, &topic_of(&new), 1).await.expect("it was due");
    assert_eq!(plane.detail(&message).await.send.rule.as_deref(), Some("ask#1"));
    // Denied, it is nobody's.
    let rung = ask(&mut plane, SECOND_MS, (CHAT, "bob"));
    let new =
        NewSend { hold: hold("apr_2", plane.bench.now), ..escalated(&mut plane, "ada", vec![rung], None) };
    plane.submit(&new).await;
    super::approvals::decide(&mut plane, "apr_2", false).await;
    assert_eq!(plane.detail(&new.send_id).await.topic.map(|it| it.state), Some(TopicState::Withdrawn));
    assert_eq!(states(&plane, &new).await, [RungState::Waiting]);
    plane.balanced().await;
}

/// Who is asked later has quiet hours, too: the message waits for their end, unless the question is urgent or over.
pub async fn quiet_hours_hold_back_a_rung(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let quiet = Quiet::parse("UTC", "00:00", "23:59").ok();
    let (person, by) = (plane.ada, "op".to_owned());
    plane.one(OutboundWrite::Quiet { person, quiet, by }).await;
    for urgent in [false, true] {
        let rung = ask(&mut plane, MINUTE_MS, (MAIL, "ada@example.org"));
        let message = send_of(&rung);
        let new = NewSend { urgent, ..escalated(&mut plane, "bob", vec![rung], None) };
        plane.submit(&new).await;
        plane.deliver().await;
        plane.bench.now += MINUTE_MS;
        let climbed = climb(&mut plane, &topic_of(&new), 1).await.expect("it was due");
        assert_eq!(climbed.state, RungState::Asked);
        let state = if urgent { SendState::Sending } else { SendState::Queued };
        assert_eq!(plane.state(&message).await, state, "urgent: {urgent}");
        assert!(matches!(plane.hear("bob", "yes").await, HeardOutcome::Answered(_)));
        assert_eq!(plane.state(&message).await, SendState::Refused, "nobody needs it any more");
    }
    plane.balanced().await;
}
