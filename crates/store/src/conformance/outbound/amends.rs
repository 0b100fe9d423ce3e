//! Messages that can be changed show how what they asked has ended: once it has, and whatever happens in between.

use super::approvals::decide;
use super::plane::{CHAT, Plane, arrived, hold, unknown};
use crate::conformance::bench::Bench;
use switchboard_core::outbound::write::{Amend, HeardOutcome, NewSend, OutboundOutcome, OutboundWrite};
use switchboard_core::time::{MINUTE_MS, SECOND_MS, WallMs};

async fn next(plane: &Plane<'_>) -> Option<WallMs> {
    plane.store().outbound().next_amend(CHAT.into()).await.expect("readable")
}

async fn claim(plane: &mut Plane<'_>) -> Vec<Amend> {
    let until_ms = plane.bench.now + MINUTE_MS;
    match plane.one(OutboundWrite::ClaimAmends { channel: CHAT.into(), limit: 10, until_ms }).await {
        OutboundOutcome::Amends(claimed) => claimed,
        other => panic!("expected messages to change, got {other:?}"),
    }
}

async fn amended(plane: &mut Plane<'_>, amend: &Amend, again_ms: Option<WallMs>) {
    plane.one(OutboundWrite::Amended { send: amend.send.no, again_ms }).await;
}

fn changeable(new: NewSend) -> NewSend {
    NewSend { amends: true, ..new }
}

/// Each question once, with its answer; leased, tried again, and forgotten when it is done.
pub async fn an_answer_is_shown_where_it_was_asked(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let (asked, plain) = (changeable(plane.question("ada")), plane.question("bob"));
    plane.submit(&asked).await;
    plane.submit(&plain).await;
    plane.deliver().await;
    assert_eq!((next(&plane).await, claim(&mut plane).await.len()), (None, 0), "nothing has ended");
    assert!(matches!(plane.hear("ada", "yes").await, HeardOutcome::Answered(_)));
    assert!(matches!(plane.hear("bob", "no").await, HeardOutcome::Answered(_)));
    plane.bench.restart().await;
    assert_eq!(next(&plane).await, Some(plane.bench.now));
    let claimed = claim(&mut plane).await;
    let [amend] = claimed.as_slice() else { panic!("{claimed:?}") };
    assert_eq!((&amend.send.send_id, amend.part, amend.fails), (&asked.send_id, 1, 0));
    assert_eq!((amend.message_id.as_str(), &amend.content), ("m-snd_1-1", &asked.parts[0]));
    let answer = amend.topic.as_ref().and_then(|topic| topic.answer.as_ref()).expect("it has one");
    assert_eq!((answer.text.as_str(), answer.by.as_str(), answer.via.as_str()), ("yes", "ada", CHAT));
    assert_eq!(claim(&mut plane).await.len(), 0, "somebody has it");
    let later = plane.bench.now + SECOND_MS;
    amended(&mut plane, amend, Some(later)).await;
    assert_eq!(next(&plane).await, Some(later));
    plane.bench.now = later;
    let claimed = claim(&mut plane).await;
    assert_eq!(claimed.iter().map(|amend| amend.fails).collect::<Vec<_>>(), [1]);
    amended(&mut plane, &claimed[0], None).await;
    assert_eq!(next(&plane).await, None);
    plane.balanced().await;
}

/// All who were asked see one decision, whoever made it.
pub async fn a_decision_is_shown_to_all_who_were_asked(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let held = NewSend { hold: hold("apr_1", plane.bench.now), ..plane.notice("bob") };
    plane.submit(&held).await;
    for who in ["ada", "bob"] {
        let ask = changeable(plane.ask(who, &held.send_id));
        plane.submit(&ask).await;
    }
    plane.deliver().await;
    assert_eq!(claim(&mut plane).await.len(), 0);
    decide(&mut plane, "apr_1", true).await;
    let claimed = claim(&mut plane).await;
    assert_eq!(claimed.len(), 2);
    for amend in &claimed {
        let decided = amend.approval.as_ref().and_then(|approval| approval.decided.as_ref());
        assert_eq!(decided.map(|decided| decided.by.as_str()), Some("olivia"));
    }
}

/// What was on its way when it ended is changed once it has arrived; what never arrived is not.
pub async fn what_arrives_after_the_end_is_changed_then(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let (late, lost, taken) = (
        changeable(plane.question("ada")),
        changeable(plane.question("bob")),
        changeable(plane.question("ada")),
    );
    for new in [&late, &lost, &taken] {
        plane.submit(new).await;
    }
    let claimed = plane.claim().await;
    for topic in [&late, &lost, &taken] {
        let topic_id = topic.topic_id.clone().expect("a question");
        plane.settled(OutboundWrite::Withdraw { topic_id, instance: None }).await;
    }
    assert_eq!(claim(&mut plane).await.len(), 0, "two are on their way, one never left");
    for part in &claimed {
        let settle = if part.send.send_id == late.send_id { arrived(part) } else { unknown() };
        plane.finish(part, settle).await;
    }
    plane.bench.now = next(&plane).await.expect("it is looked at again");
    let shown: Vec<_> = claim(&mut plane).await.into_iter().map(|amend| amend.send.send_id).collect();
    assert_eq!(shown, [late.send_id]);
    plane.balanced().await;
}
