//! The floor: a person is asked one thing at a time, in order of deadline, then of age.

use super::plane::{CHAT, MAIL, Plane, arrived, direct, failed};
use crate::conformance::bench::Bench;
use switchboard_core::outbound::send::{SendState, TopicState};
use switchboard_core::outbound::write::{HeardOutcome, NewSend, OutboundWrite};
use switchboard_core::time::{HOUR_MS, MINUTE_MS};
use switchboard_core::write::Refusal;

fn topic(new: &NewSend) -> String {
    new.topic_id.clone().expect("a question")
}

fn by_mail(new: NewSend) -> NewSend {
    NewSend { channel: MAIL.into(), to: direct("ada@example.org"), ..new }
}

fn withdraw(plane: &Plane<'_>, new: &NewSend) -> OutboundWrite {
    OutboundWrite::Withdraw { topic_id: topic(new), instance: Some(plane.me) }
}

fn answer(new: &NewSend) -> OutboundWrite {
    OutboundWrite::Answer {
        topic_id: topic(new),
        by: "ada".into(),
        via: "console".into(),
        text: "yes".into(),
    }
}

/// One open question per person over all channels; notices do not wait for it, nor do other people's questions.
pub async fn a_person_is_asked_one_thing_at_a_time(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let first = plane.question("ada");
    let second = by_mail(plane.question("x"));
    let notice = plane.notice("ada");
    let other = plane.question("bob");
    assert_eq!(plane.submit(&first).await.1, SendState::Sending);
    assert_eq!(plane.submit(&second).await.1, SendState::Queued);
    assert_eq!(plane.submit(&notice).await.1, SendState::Sending);
    assert_eq!(plane.submit(&other).await.1, SendState::Sending);
    plane.deliver().await;
    assert!(plane.claim_on(MAIL, 10).await.is_empty());
    let ids = |news: &[&NewSend]| news.iter().map(|new| new.send_id.clone()).collect::<Vec<_>>();
    assert_eq!(plane.floor().await, (ids(&[&first, &other]), ids(&[&second])));
    assert_eq!(plane.state(&first.send_id).await, SendState::Open);
    let HeardOutcome::Answered(touched) = plane.hear("ada", "on Friday").await else { panic!("an answer") };
    assert_eq!((&touched.send_id, touched.state), (&first.send_id, SendState::Answered));
    let (row, send) =
        plane.store().outbound().topic(topic(&first)).await.expect("readable").expect("it is there");
    let given = row.answer.expect("it was answered");
    assert_eq!((row.state, send.state), (TopicState::Answered, SendState::Answered));
    assert_eq!((given.text.as_str(), given.by.as_str(), given.via.as_str()), ("on Friday", "ada", "chat"));
    assert_eq!(given.at_ms, plane.bench.now);
    assert_eq!(plane.state(&second.send_id).await, SendState::Sending);
    assert_eq!(plane.claim_on(MAIL, 10).await.len(), 1, "the next one goes out");
    plane.balanced().await;
}

/// The next one is the one with the nearest deadline, then the oldest; without a deadline it waits for those with one.
pub async fn the_next_has_the_nearest_deadline(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let now = plane.bench.now;
    let mut asked = Vec::new();
    for deadline in [None, None, Some(3), Some(1), Some(2), Some(1)] {
        let new =
            NewSend { deadline_ms: deadline.map(|hours| now + hours * HOUR_MS), ..plane.question("ada") };
        plane.submit(&new).await;
        asked.push(new);
    }
    for expected in [0, 3, 5, 4, 2, 1] {
        assert_eq!(plane.floor().await.0, [asked[expected].send_id.clone()]);
        plane.deliver().await;
        let HeardOutcome::Answered(_) = plane.hear("ada", "yes").await else { panic!("an answer") };
    }
    assert_eq!(plane.floor().await, (vec![], vec![]));
}

/// Whatever takes a question from the floor gives it to the next: an answer, its deadline, being taken back or given up, a failure.
pub async fn every_end_frees_the_floor(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let deadline_ms = Some(plane.bench.now + MINUTE_MS);
    let mut current = plane.question("ada");
    plane.submit(&current).await;
    for end in 0..6 {
        let next = NewSend { deadline_ms: deadline_ms.filter(|_| end == 0), ..plane.question("ada") };
        assert_eq!(plane.submit(&next).await.1, SendState::Queued);
        match end {
            0 => {
                plane.outcome_heard(answer(&current)).await;
            }
            1 => {
                plane.bench.now += MINUTE_MS;
                let ended = plane.expire().await;
                assert_eq!(ended.len(), 1);
                assert_eq!((&ended[0].send_id, ended[0].state), (&current.send_id, SendState::Expired));
                assert_eq!(ended[0].topic_id, current.topic_id);
            }
            2 => {
                plane.settled(withdraw(&plane, &current)).await;
            }
            3 => {
                let discard = OutboundWrite::Discard { send_id: current.send_id.clone(), by: "op".into() };
                plane.settled(discard).await;
            }
            4 => {
                let claimed = plane.claim_one().await;
                plane.finish(&claimed, failed()).await;
            }
            _ => {
                plane.deliver().await;
                plane.hear("ada", "yes").await;
            }
        }
        assert_eq!(plane.floor().await, (vec![next.send_id.clone()], vec![]), "end {end}");
        current = next;
    }
    plane.balanced().await;
}

/// Only who asked takes a question back, once.
pub async fn only_who_asked_takes_it_back(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let other = plane.bench.instance("eve").await;
    let new = plane.question("ada");
    plane.submit(&new).await;
    let foreign = OutboundWrite::Withdraw { topic_id: topic(&new), instance: Some(other) };
    assert_eq!(plane.refused(foreign).await, Refusal::NotFound);
    let none = OutboundWrite::Withdraw { topic_id: "top_none".into(), instance: None };
    assert_eq!(plane.refused(none).await, Refusal::NotFound);
    assert_eq!(plane.settled(withdraw(&plane, &new)).await.state, SendState::Dead);
    assert_eq!(plane.refused(withdraw(&plane, &new)).await, Refusal::TaskState { state: "withdrawn" });
    let (row, _) = plane.store().outbound().topic(topic(&new)).await.expect("readable").expect("it is there");
    assert_eq!(row.state, TopicState::Withdrawn);
}

/// The first answer counts; later ones are told by whom, and change nothing (fault K22).
pub async fn the_first_answer_counts(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let new = plane.question("ada");
    plane.submit(&new).await;
    plane.deliver().await;
    plane.hear("ada", "yes").await;
    let sb = format!("SB-{}", new.code);
    for text in [format!("{sb} no"), format!("deny {}", new.code)] {
        match plane.hear("ada", &text).await {
            HeardOutcome::TooLate { what } => assert_eq!(what, "this question was already answered by ada"),
            other => panic!("{text}: {other:?}"),
        }
    }
    let HeardOutcome::TooLate { .. } = plane.outcome_heard(answer(&new)).await else {
        panic!("it is answered")
    };
    let (row, _) = plane.store().outbound().topic(topic(&new)).await.expect("readable").expect("it is there");
    assert_eq!(row.answer.map(|it| it.text).as_deref(), Some("yes"));
    let none = OutboundWrite::Answer {
        topic_id: "top_none".into(),
        by: "a".into(),
        via: "cli".into(),
        text: "x".into(),
    };
    assert_eq!(plane.refused(none).await, Refusal::NotFound);
}

/// An answer after the deadline is none, also before anybody has ended the question.
pub async fn an_answer_after_the_deadline_is_none(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let new = NewSend { deadline_ms: Some(plane.bench.now + MINUTE_MS), ..plane.question("ada") };
    plane.submit(&new).await;
    plane.deliver().await;
    plane.bench.now += MINUTE_MS;
    let late = plane.hear("ada", "yes").await;
    assert_eq!(late, HeardOutcome::TooLate { what: "this question's time was over".into() });
    assert_eq!(plane.expire().await.len(), 1);
    let late = plane.hear("ada", &format!("SB-{} yes", new.code)).await;
    assert!(matches!(late, HeardOutcome::TooLate { .. }), "{late:?}");
    assert_eq!(plane.state(&new.send_id).await, SendState::Expired);
    assert!(plane.expire().await.is_empty(), "once");
}

/// What is being attempted at its deadline is left to its end; then it is over.
pub async fn a_deadline_waits_for_the_attempt_under_way(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let new = NewSend { deadline_ms: Some(plane.bench.now + MINUTE_MS), ..plane.question("ada") };
    plane.submit(&new).await;
    assert_eq!(plane.store().outbound().next_end().await.expect("readable"), new.deadline_ms);
    let attempt = plane.claim_one().await;
    plane.bench.now += MINUTE_MS;
    assert_eq!(
        plane.store().outbound().next_end().await.expect("readable"),
        None,
        "nothing to do until then"
    );
    assert!(plane.expire().await.is_empty());
    assert_eq!(plane.finish(&attempt, arrived(&attempt)).await.state, SendState::Open);
    assert_eq!(plane.store().outbound().next_end().await.expect("readable"), new.deadline_ms);
    assert_eq!(plane.expire().await.len(), 1);
}

/// A question of which nobody knows whether it arrived can be answered, and holds the floor until its deadline at most; who asked
/// is told.
pub async fn an_unknown_question_holds_the_floor_no_longer(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let first = NewSend { deadline_ms: Some(plane.bench.now + MINUTE_MS), ..plane.question("ada") };
    let second = plane.question("ada");
    plane.submit(&first).await;
    plane.submit(&second).await;
    let attempt = plane.claim_one().await;
    plane.finish(&attempt, super::plane::unknown()).await;
    assert_eq!(plane.floor().await.0, std::slice::from_ref(&first.send_id));
    assert_eq!(plane.store().outbound().next_end().await.expect("readable"), first.deadline_ms);
    plane.bench.now += MINUTE_MS;
    let ended = plane.expire().await;
    assert_eq!((ended.len(), ended[0].state, &ended[0].topic_id), (1, SendState::Unknown, &first.topic_id));
    assert_eq!(plane.floor().await.0, std::slice::from_ref(&second.send_id));
    assert_eq!(plane.store().outbound().next_end().await.expect("readable"), None);
    let attempt = plane.claim_one().await;
    plane.finish(&attempt, super::plane::unknown()).await;
    let HeardOutcome::Answered(touched) = plane.hear("ada", "it did arrive").await else {
        panic!("an answer")
    };
    assert_eq!((touched.send_id, touched.state), (second.send_id, SendState::Answered));
    plane.balanced().await;
}

/// A sweep of deadlines takes as many as it may.
pub async fn expiring_is_bounded(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    for _ in 0..5 {
        let new = NewSend { deadline_ms: Some(plane.bench.now + MINUTE_MS), ..plane.notice("ada") };
        plane.submit(&new).await;
    }
    plane.bench.now += MINUTE_MS;
    let mut ended = Vec::new();
    for expected in [2, 2, 1, 0] {
        let outcome = plane.one(OutboundWrite::Expire { limit: 2 }).await;
        let switchboard_core::outbound::write::OutboundOutcome::Expired(some) = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!(some.len(), expected);
        ended.extend(some);
    }
    assert_eq!(ended.len(), 5);
    assert!(plane.claim_on(CHAT, 10).await.is_empty());
    assert_eq!(plane.balanced().await.expired, 5);
}

/// A sender whose deadlines are always the nearest does not keep others from ever being heard.
pub async fn nobody_has_the_floor_for_ever(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let eve = plane.bench.instance("eve").await;
    let patient = NewSend { instance: eve, ..plane.question("ada") };
    let mut pressing = Vec::new();
    for _ in 0..6 {
        let deadline_ms = Some(plane.bench.now + MINUTE_MS);
        pressing.push(NewSend { deadline_ms, ..plane.question("ada") });
    }
    plane.submit(&pressing[0]).await;
    plane.submit(&patient).await;
    for new in &pressing[1..] {
        plane.submit(new).await;
    }
    let mut asked = Vec::new();
    while let Some(open) = plane.floor().await.0.first().cloned() {
        asked.push(open);
        if asked.len() == 2 {
            plane.bench.restart().await;
        }
        plane.deliver().await;
        assert!(matches!(plane.hear("ada", "yes").await, HeardOutcome::Answered(_)));
    }
    let expected =
        [&pressing[0], &pressing[1], &pressing[2], &patient, &pressing[3], &pressing[4], &pressing[5]];
    assert_eq!(asked, expected.map(|new| new.send_id.clone()));
}
