//! What is accepted: keys, limits, and that nothing is taken of what is refused.

use super::plane::{CHAT, Plane, accepted, arrived, failed, hourly, outcome, part, rows};
use crate::conformance::bench::Bench;
use switchboard_core::outbound::send::{SendFilter, SendState};
use switchboard_core::outbound::write::{NewSend, OutboundOutcome, OutboundWrite};
use switchboard_core::time::{HOUR_MS, MINUTE_MS};
use switchboard_core::write::{Batch, Outcome, Refusal, Write};

fn keyed(new: NewSend, key: &str) -> NewSend {
    NewSend { key: Some(key.into()), ..new }
}

/// A key gets the answer of the first call, whatever became of it, and takes from no limit.
pub async fn a_key_gets_the_first_answer(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let first = NewSend { limits: vec![hourly("a", 2)], ..keyed(plane.notice("ada"), "k") };
    let (no, state) = plane.submit(&first).await;
    assert_eq!((no, state), (1, SendState::Sending));
    for _ in 0..3 {
        let again = NewSend { send_id: format!("snd_x{}", plane.fresh()), ..first.clone() };
        let row = plane.repeated(&again).await;
        assert_eq!((row.no, row.send_id, row.state), (1, first.send_id.clone(), SendState::Sending));
    }
    plane.deliver().await;
    assert_eq!(plane.repeated(&first).await.state, SendState::Delivered);
    let second = NewSend { limits: vec![hourly("a", 2)], ..keyed(plane.notice("ada"), "k2") };
    plane.submit(&second).await;
    let third = NewSend { limits: vec![hourly("a", 2)], ..plane.notice("ada") };
    assert!(matches!(plane.turned_down(&third).await, Refusal::LimitReached { .. }), "repeats took nothing");
    assert_eq!(plane.repeated(&first).await.no, 1, "a repeat is no call");
    // A deadline that has passed meanwhile, an address that is gone: the answer stays.
    plane.bench.now += 48 * HOUR_MS;
    plane.hear("ada", "stop").await;
    assert_eq!(plane.repeated(&first).await.state, SendState::Delivered);
    plane.balanced().await;
}

/// A key is one agent's of one instance.
pub async fn a_key_is_its_agents(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let other = plane.bench.instance("eve").await;
    let first = keyed(plane.notice("ada"), "k");
    plane.submit(&first).await;
    let agent = NewSend { agent: "reader".into(), ..keyed(plane.notice("ada"), "k") };
    assert_eq!(plane.submit(&agent).await.0, 2);
    let instance = NewSend { instance: other, ..keyed(plane.notice("ada"), "k") };
    assert_eq!(plane.submit(&instance).await.0, 3);
    assert_eq!(plane.repeated(&first).await.no, 1);
    let none = plane.notice("ada");
    plane.submit(&none).await;
    let twin = NewSend { send_id: "snd_twin".into(), code: "ZZZZZZ".into(), ..none };
    assert_eq!(plane.submit(&twin).await.0, 5, "without a key nothing is a repeat");
    plane.balanced().await;
}

/// The same key for another message is a conflict.
pub async fn a_key_for_two_messages_is_refused(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let first = keyed(plane.notice("ada"), "k");
    plane.submit(&first).await;
    let other = NewSend { digest: [1; 32], ..keyed(plane.notice("ada"), "k") };
    assert_eq!(plane.turned_down(&other).await, Refusal::IdReused);
    plane.deliver().await;
    assert_eq!(plane.turned_down(&other).await, Refusal::IdReused, "also once it is over");
}

/// Many at once with one key: one is accepted, in one batch and in many.
pub async fn two_at_once_send_once(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let mut calls = Vec::new();
    for _ in 0..10 {
        calls.push(keyed(plane.notice("ada"), "k"));
    }
    let write = |new: &NewSend| Write::Outbound(OutboundWrite::Submit(Box::new(new.clone())));
    let outcomes = plane.bench.commit(calls[..5].iter().map(write).collect()).await;
    let store = plane.bench.shared();
    let at_ms = plane.bench.now;
    let single = calls[5..].iter().map(|new| store.commit(Batch { at_ms, writes: vec![write(new)] }));
    let single = futures_util::future::join_all(single).await;
    drop(store);
    let single = single.into_iter().map(|outcomes| outcomes.expect("it commits").remove(0));
    let outcomes: Vec<_> = outcomes.into_iter().chain(single).map(outcome).collect();
    assert_eq!(accepted(&outcomes[0]).0, 1);
    for repeat in &outcomes[1..] {
        assert!(matches!(repeat, OutboundOutcome::Repeat(row, _) if row.no == 1), "{repeat:?}");
    }
    assert_eq!(plane.deliver().await, [(1, 1)]);
    assert_eq!(plane.balanced().await.accepted, 1);
}

/// A send of which nothing has left, and nothing can any more, gives its key free; one that left something keeps it.
pub async fn a_key_is_free_again_when_nothing_has_left(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let first = keyed(plane.notice("ada"), "k");
    plane.submit(&first).await;
    let attempt = plane.claim_one().await;
    plane.finish(&attempt, failed()).await;
    assert_eq!(plane.detail(&first.send_id).await.send.key, None);
    let second = keyed(plane.notice("ada"), "k");
    assert_eq!(plane.submit(&second).await.0, 2, "a failed send stays retryable");
    assert_eq!(plane.repeated(&first).await.no, 2);
    // A person does not have the first one sent as well.
    let retry = OutboundWrite::Retry { send_id: first.send_id.clone(), by: "op".into() };
    assert_eq!(plane.refused(retry).await, Refusal::IdReused);

    let parts = vec![part("one"), part("two")];
    let partial = NewSend { parts, ..keyed(plane.notice("bob"), "p") };
    plane.submit(&partial).await;
    let claimed = plane.claim().await;
    let attempt = claimed.iter().find(|it| it.send.send_id == partial.send_id).expect("it is due");
    plane.finish(attempt, arrived(attempt)).await;
    let claimed = plane.claim().await;
    let attempt = claimed.iter().find(|it| it.send.send_id == partial.send_id).expect("it is due");
    assert_eq!(attempt.place, (2, 2));
    plane.finish(attempt, failed()).await;
    assert_eq!(plane.repeated(&partial).await.state, SendState::Dead, "the first half has arrived");
    plane.balanced().await;
}

/// While an attempt runs its outcome is open: the key is free only once it is known that nothing has left.
pub async fn a_key_waits_for_the_attempt_under_way(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    for (key, fails) in [("a", true), ("b", false)] {
        let new = keyed(plane.question("ada"), key);
        plane.submit(&new).await;
        let attempt = plane.claim_one().await;
        let topic_id = new.topic_id.clone().expect("a question");
        let withdraw = OutboundWrite::Withdraw { topic_id, instance: Some(plane.me) };
        assert_eq!(plane.settled(withdraw).await.state, SendState::Dead);
        assert_eq!(plane.repeated(&new).await.state, SendState::Dead, "it may have arrived");
        plane.finish(&attempt, if fails { failed() } else { arrived(&attempt) }).await;
        let key = plane.detail(&new.send_id).await.send.key;
        assert_eq!(key.is_none(), fails);
    }
    plane.balanced().await;
}

/// A person's retry takes the key back, so that the agent's own repeat finds it.
pub async fn a_retry_takes_the_key_back(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let new = keyed(plane.notice("ada"), "k");
    plane.submit(&new).await;
    let attempt = plane.claim_one().await;
    plane.finish(&attempt, failed()).await;
    let retry = OutboundWrite::Retry { send_id: new.send_id.clone(), by: "op".into() };
    assert_eq!(plane.settled(retry).await.state, SendState::Sending);
    assert_eq!(plane.repeated(&new).await.no, 1);
    assert_eq!(plane.deliver().await, [(1, 1)]);
    assert_eq!(plane.repeated(&new).await.state, SendState::Delivered);
}

/// An answer that came before the question had left is the answer to whoever asks again.
pub async fn an_answer_keeps_the_key(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let first = plane.question("ada");
    plane.submit(&first).await;
    let second = keyed(plane.question("ada"), "k");
    assert_eq!(plane.submit(&second).await.1, SendState::Queued);
    let topic_id = second.topic_id.clone().expect("a question");
    let answer =
        OutboundWrite::Answer { topic_id, by: "ada".into(), via: "console".into(), text: "yes".into() };
    plane.outcome_heard(answer).await;
    assert_eq!(plane.repeated(&second).await.state, SendState::Answered);
}

/// Several limits are taken from all at once or not at all; a refused call takes nothing, says which and when.
pub async fn limits_take_all_or_nothing(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let limits = || vec![hourly("wide", 3), hourly("narrow", 1)];
    let new = NewSend { limits: limits(), ..plane.notice("ada") };
    plane.submit(&new).await;
    for _ in 0..5 {
        let new = NewSend { limits: limits(), ..plane.notice("ada") };
        match plane.turned_down(&new).await {
            Refusal::LimitReached { rule, retry_after_ms } => {
                assert_eq!(rule, "rule of narrow");
                assert!((1..=HOUR_MS + 2 * MINUTE_MS).contains(&retry_after_ms), "{retry_after_ms}");
            }
            other => panic!("{other:?}"),
        }
    }
    // Other refusals take nothing either.
    let wide = |plane: &mut Plane<'_>| NewSend { limits: vec![hourly("wide", 3)], ..plane.notice("ada") };
    let taken = NewSend { send_id: new.send_id.clone(), ..wide(&mut plane) };
    assert_eq!(plane.turned_down(&taken).await, Refusal::NameTaken);
    let taken = NewSend { code: new.code.clone(), ..wide(&mut plane) };
    assert_eq!(plane.turned_down(&taken).await, Refusal::NameTaken);
    let missing = NewSend { about: Some("snd_none".into()), ..wide(&mut plane) };
    assert_eq!(plane.turned_down(&missing).await, Refusal::NotFound);
    let stranger = NewSend { limits: vec![hourly("wide", 3)], ..plane.notice("nobody") };
    assert!(matches!(plane.turned_down(&stranger).await, Refusal::NoConsent(_)));
    for _ in 0..2 {
        let new = wide(&mut plane);
        plane.submit(&new).await;
    }
    let new = wide(&mut plane);
    assert!(
        matches!(plane.turned_down(&new).await, Refusal::LimitReached { .. }),
        "three were taken, not more"
    );
}

/// More limits than are read at once.
pub async fn many_limits_are_all_kept(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let limits: Vec<_> = (0..9).map(|at| hourly(&format!("l{at}"), 9 - at)).collect();
    let new = NewSend { limits: limits.clone(), ..plane.notice("ada") };
    plane.submit(&new).await;
    for at in 0..9u32 {
        let key = format!("l{at}");
        for _ in 0..8 - at {
            let new = NewSend { limits: vec![hourly(&key, 9 - at)], ..plane.notice("bob") };
            plane.submit(&new).await;
        }
        let new = NewSend { limits: vec![hourly(&key, 9 - at)], ..plane.notice("bob") };
        assert!(matches!(plane.turned_down(&new).await, Refusal::LimitReached { .. }), "{key}");
    }
}

/// A limit counts by its key, outlives restarts, and gives again what lies behind the window.
pub async fn limits_outlive_restarts(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let limited =
        |plane: &mut Plane<'_>, key: &str| NewSend { limits: vec![hourly(key, 2)], ..plane.notice("ada") };
    for _ in 0..2 {
        let new = limited(&mut plane, "a");
        plane.submit(&new).await;
    }
    plane.bench.restart().await;
    let new = limited(&mut plane, "a");
    let Refusal::LimitReached { retry_after_ms, .. } = plane.turned_down(&new).await else {
        panic!("it counts on")
    };
    let other = limited(&mut plane, "b");
    plane.submit(&other).await;
    plane.bench.now += retry_after_ms;
    plane.submit(&new).await;
}

/// A deadline lies ahead, an instance lives, a code and an id are nobody else's.
pub async fn what_cannot_be_accepted_is_refused(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let now = plane.bench.now;
    for deadline in [now - 1, now, i64::MIN] {
        let late = NewSend { deadline_ms: Some(deadline), ..plane.notice("ada") };
        assert_eq!(plane.turned_down(&late).await, Refusal::DeadlinePast);
    }
    for deadline in [now + 1, i64::MAX] {
        let new = NewSend { deadline_ms: Some(deadline), ..plane.notice("ada") };
        plane.submit(&new).await;
    }
    plane.bench.instance("gone").await;
    let gone =
        plane.store().instance("inst_gone".into()).await.expect("readable").expect("it is there").instance;
    let revoked = plane.bench.one(Write::RevokeInstance { instance_id: "inst_gone".into() }).await;
    assert!(!matches!(revoked, Outcome::Refused(_)), "{revoked:?}");
    let new = NewSend { instance: gone, ..plane.notice("ada") };
    assert_eq!(plane.turned_down(&new).await, Refusal::NotYours);
}

/// What was accepted is there as it was given, with its parts, and its entry in the log shows neither text nor address.
pub async fn it_is_stored_as_it_was_given(bench: Bench<'_>) {
    const CANARIES: [&str; 4] = ["CANARY-body", "CANARY-part", "CANARY-param", "canary.address"];
    let mut plane = Plane::new(bench).await;
    plane.allow(CHAT, "canary.address", None).await;
    let new = NewSend {
        to_text: "Canary.Address".into(),
        body: "CANARY-body".into(),
        params: r#"{"x":"CANARY-param"}"#.into(),
        parts: vec![part("CANARY-part \0 \u{10FFFF}"), part("two")],
        deadline_ms: Some(plane.bench.now + HOUR_MS),
        ..keyed(plane.question("canary.address"), "k")
    };
    let (no, _) = plane.submit(&new).await;
    let detail = plane.detail(&new.send_id).await;
    let row = plane.store().outbound().send_by_no(no).await.expect("readable").expect("it is there");
    assert_eq!(row, detail.send);
    assert_eq!(
        (row.at_ms, row.instance, row.agent.as_str(), row.key.as_deref(), row.kind),
        (plane.bench.now, plane.me, "writer", Some("k"), new.kind)
    );
    assert_eq!((&row.to, &row.to_text, &row.body, &row.code), (&new.to, &new.to_text, &new.body, &new.code));
    assert_eq!((row.deadline_ms, &row.topic_id, row.policy.as_str()), (new.deadline_ms, &new.topic_id, "p1"));
    assert_eq!((&row.params, row.reason, row.rule, row.about), (&new.params, None, None, None));
    assert_eq!(detail.instance_id, "inst_ann");
    assert_eq!(detail.parts.iter().map(|it| it.content.clone()).collect::<Vec<_>>(), new.parts);
    // Everything that can be said of it is said.
    plane.deliver().await;
    plane.hear("canary.address", "CANARY-body is the answer").await;
    let held = NewSend {
        hold: super::plane::hold("apr_1", plane.bench.now),
        body: "CANARY-body".into(),
        ..plane.notice("canary.address")
    };
    plane.submit(&held).await;
    let ask = plane.ask("canary.address", &held.send_id);
    plane.submit(&ask).await;
    plane.deliver().await;
    plane.hear("canary.address", "deny").await;
    plane.hear("canary.address", "stop").await;
    for entry in plane.bench.entries().await {
        let text = format!("{entry:?}").to_lowercase();
        assert!(CANARIES.iter().all(|canary| !text.contains(&canary.to_lowercase())), "{text}");
    }
    plane.balanced().await;
}

/// Each accepted send, attempt, outcome and change has its entry, in order.
pub async fn the_log_tells_the_story(bench: Bench<'_>) {
    use switchboard_core::log::Entry;
    let mut plane = Plane::new(bench).await;
    let new = plane.question("ada");
    plane.submit(&new).await;
    let attempt = plane.claim_one().await;
    let later = plane.bench.now + 1000;
    plane.finish(&attempt, super::plane::again(later)).await;
    plane.bench.now = later;
    plane.deliver().await;
    plane.hear("ada", "yes").await;
    let told = plane.bench.entries().await.into_iter().filter_map(|entry| match entry {
        Entry::Admitted { verb, subject, .. } if verb.starts_with("outbound.") => {
            Some(format!("{verb} {}", subject.split(" chat ").next().unwrap_or_default()))
        }
        _ => None,
    });
    let told: Vec<_> = told.collect();
    let id = &new.send_id;
    let topic = new.topic_id.as_deref().unwrap_or_default();
    assert_eq!(
        told,
        [
            format!("outbound.accepted {id} sending"),
            format!("outbound.attempt {id} 1 1"),
            format!("outbound.outcome {id} 1 1 retry"),
            format!("outbound.attempt {id} 1 2"),
            format!("outbound.outcome {id} 1 2 sent"),
            format!("outbound.state {id} sending open"),
            format!("outbound.answered {topic} {id} via=chat"),
            format!("outbound.state {id} open answered"),
        ]
    );
    let listed = rows(plane.store(), SendFilter { limit: 10, ..SendFilter::default() }).await;
    assert_eq!(listed.len(), 1);
}
