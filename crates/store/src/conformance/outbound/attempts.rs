//! Attempts: claimed once, fenced, in order; what is lost is made again or stays unknown, never both.

use super::plane::{CHAT, MAIL, NODE, Plane, again, arrived, direct, failed, finish, part, unknown};
use crate::conformance::bench::Bench;
use switchboard_core::outbound::gate::Consent;
use switchboard_core::outbound::send::{ConsentState, PartState, SendState};
use switchboard_core::outbound::write::{HeardOutcome, NewSend, OutboundWrite, Settle};
use switchboard_core::time::{HOUR_MS, MINUTE_MS, SECOND_MS};
use switchboard_core::write::Refusal;

fn retry(send_id: &str) -> OutboundWrite {
    OutboundWrite::Retry { send_id: send_id.into(), by: "op".into() }
}

fn discard(send_id: &str) -> OutboundWrite {
    OutboundWrite::Discard { send_id: send_id.into(), by: "op".into() }
}

fn bounced(event_id: &str, message_id: &str, permanent: bool) -> OutboundWrite {
    OutboundWrite::Bounced {
        channel: CHAT.into(),
        event_id: event_id.into(),
        message_id: message_id.into(),
        permanent,
        reason: "no such user".into(),
    }
}

/// A claimed part is nobody else's; what is claimed is whole; a channel's parts are its own.
pub async fn a_part_is_claimed_once(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let new = plane.notice("ada");
    plane.submit(&new).await;
    assert!(plane.claim_on(MAIL, 10).await.is_empty());
    let attempt = plane.claim_one().await;
    assert_eq!((attempt.place, attempt.attempt, attempt.fails), ((1, 1), 1, 0));
    assert_eq!((&attempt.content, attempt.consent), (&new.parts[0], Consent::Given));
    assert_eq!(attempt.send, plane.detail(&new.send_id).await.send);
    assert!(plane.claim().await.is_empty());
    plane.bench.restart().await;
    assert!(plane.claim().await.is_empty());
    assert_eq!(plane.finish(&attempt, arrived(&attempt)).await.state, SendState::Delivered);
    assert!(plane.claim().await.is_empty());
    let detail = plane.detail(&new.send_id).await;
    assert_eq!((detail.attempts.len(), detail.attempts[0].outcome.as_str()), (1, "sent"));
    assert_eq!(detail.parts[0].message_id.as_deref(), Some("m-snd_1-1"));
    plane.balanced().await;
}

/// Only the last attempt's word counts, once.
pub async fn an_older_attempt_is_fenced(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let new = plane.notice("ada");
    plane.submit(&new).await;
    let first = plane.claim_one().await;
    let now = plane.bench.now;
    plane.finish(&first, again(now)).await;
    for settle in [arrived(&first), failed(), unknown(), again(now)] {
        assert_eq!(plane.refused(finish(&first, settle)).await, Refusal::Fenced, "it has ended");
    }
    let second = plane.claim_one().await;
    assert_eq!((second.attempt, second.fails), (2, 1));
    for settle in [arrived(&first), failed(), unknown(), again(now)] {
        assert_eq!(plane.refused(finish(&first, settle)).await, Refusal::Fenced, "another one runs");
    }
    plane.finish(&second, arrived(&second)).await;
    assert_eq!(plane.refused(finish(&second, failed())).await, Refusal::Fenced);
    let nowhere = OutboundWrite::Finish { send: 99, part: 1, attempt: 1, settle: failed() };
    assert_eq!(plane.refused(nowhere).await, Refusal::NotFound);
    plane.balanced().await;
}

/// Parts of one message and messages to one address leave in order, one at a time; nobody waits for another address.
pub async fn a_lane_keeps_its_order(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let parts = vec![part("one"), part("two"), part("three")];
    let long = NewSend { parts, ..plane.notice("ada") };
    plane.submit(&long).await;
    let next = plane.notice("ada");
    plane.submit(&next).await;
    let other = plane.notice("bob");
    plane.submit(&other).await;
    let claimed = plane.claim().await;
    assert_eq!(
        claimed.iter().map(|it| (it.send.no, it.place)).collect::<Vec<_>>(),
        [(1, (1, 3)), (3, (1, 1))]
    );
    // The first one is put off by a minute: its lane waits, the other one's message arrives.
    let later = plane.bench.now + MINUTE_MS;
    plane
        .finish(&claimed[0], Settle::Retry { at_ms: later, counts: false, reason: "slow down".into() })
        .await;
    plane.finish(&claimed[1], arrived(&claimed[1])).await;
    assert!(plane.claim().await.is_empty());
    assert_eq!(plane.store().outbound().next_due(CHAT.into()).await.expect("readable"), Some(later));
    plane.bench.now = later - 1;
    assert!(plane.claim().await.is_empty());
    plane.bench.now = later;
    let attempt = plane.claim_one().await;
    assert_eq!((attempt.attempt, attempt.fails), (2, 0), "being asked to wait is no failure");
    plane.finish(&attempt, arrived(&attempt)).await;
    let attempt = plane.claim_one().await;
    assert_eq!((attempt.place, attempt.references), ((2, 3), vec!["m-snd_1-1".to_owned()]));
    let attempt =
        OutboundWrite::Finish { send: 1, part: 2, attempt: 1, settle: arrived(&attempt_of(&plane, 2).await) };
    plane.settled(attempt).await;
    assert_eq!(plane.deliver().await, [(1, 3), (2, 1)]);
    plane.balanced().await;
}

// The claimed form of a part that is being attempted, for its message id.
async fn attempt_of(plane: &Plane<'_>, number: u32) -> switchboard_core::outbound::write::Claimed {
    let send = plane.store().outbound().send_by_no(1).await.expect("readable").expect("it is there");
    switchboard_core::outbound::write::Claimed {
        send,
        place: (number, 3),
        attempt: 1,
        fails: 0,
        round: 0,
        content: part(""),
        consent: Consent::Given,
        references: Vec::new(),
    }
}

/// A message that was held does not come between the parts of another one.
pub async fn what_belongs_together_goes_out_together(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let held = NewSend { hold: super::plane::hold("apr_1", plane.bench.now), ..plane.notice("ada") };
    plane.submit(&held).await;
    let parts = vec![part("one"), part("two")];
    let long = NewSend { parts, ..plane.notice("ada") };
    plane.submit(&long).await;
    let attempt = plane.claim_one().await;
    super::approvals::decide(&mut plane, "apr_1", true).await;
    plane.settled(OutboundWrite::Release { send: 1, forbidden_by: None }).await;
    plane.finish(&attempt, arrived(&attempt)).await;
    assert_eq!(plane.deliver().await, [(2, 2), (1, 1)]);
}

/// A claim takes as many as it may, the longest due first.
pub async fn a_claim_is_bounded(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    for at in 0..7 {
        let name = format!("p{at}");
        plane.allow(CHAT, &name, None).await;
        let new = plane.notice(&name);
        plane.submit(&new).await;
        plane.bench.now += 1;
    }
    let mut seen = Vec::new();
    for expected in [3, 3, 1, 0] {
        let claimed = plane.claim_on(CHAT, 3).await;
        assert_eq!(claimed.len(), expected);
        seen.extend(claimed.iter().map(|it| it.send.no));
    }
    assert_eq!(seen, [1, 2, 3, 4, 5, 6, 7]);
}

/// A service's pause between two messages is kept, also when the second one is accepted after the first has left.
pub async fn a_pause_is_kept(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let paced = Settle::Sent { message_id: None, pace_ms: SECOND_MS };
    let new = plane.notice("ada");
    plane.submit(&new).await;
    let attempt = plane.claim_one().await;
    plane.finish(&attempt, paced.clone()).await;
    let due = plane.bench.now + SECOND_MS;
    for _ in 0..2 {
        let new = plane.notice("ada");
        plane.submit(&new).await;
    }
    assert_eq!(plane.store().outbound().next_due(CHAT.into()).await.expect("readable"), Some(due));
    plane.bench.now = due - 1;
    assert!(plane.claim().await.is_empty());
    plane.bench.now = due;
    let attempt = plane.claim_one().await;
    plane.finish(&attempt, paced).await;
    assert!(plane.claim().await.is_empty());
    plane.bench.now += SECOND_MS;
    plane.claim_one().await;
}

/// Nothing that a node began is taken back before its time is over, or its node is gone.
pub async fn a_running_attempt_is_left_alone(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let new = plane.notice("ada");
    plane.submit(&new).await;
    plane.claim_one().await;
    assert_eq!(plane.recover(true, None).await, 0);
    assert_eq!(plane.recover(true, Some(NODE)).await, 0, "the one that lives began it");
    plane.bench.now += MINUTE_MS - 1;
    assert_eq!(plane.recover(false, None).await, 0);
    plane.bench.now += 1;
    assert_eq!(plane.recover(false, None).await, 1);
    assert_eq!(plane.state(&new.send_id).await, SendState::Unknown);
    let new = plane.notice("bob");
    plane.submit(&new).await;
    plane.claim_one().await;
    assert_eq!(plane.recover(false, Some(NODE + 1)).await, 1, "the one that lives did not begin it");
    assert_eq!(plane.state(&new.send_id).await, SendState::Unknown);
    plane.balanced().await;
}

/// A lost attempt on a channel that removes duplicates is made again under the same id (fault K01).
pub async fn a_lost_attempt_is_made_again_under_its_id(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let new = plane.notice("ada");
    plane.submit(&new).await;
    let first = plane.claim_one().await;
    plane.bench.now += MINUTE_MS;
    assert_eq!(plane.recover(true, None).await, 1);
    assert_eq!(plane.recover(true, None).await, 0);
    let second = plane.claim_one().await;
    assert_eq!((second.attempt, second.fails, &second.content), (2, 1, &first.content));
    assert_eq!(plane.refused(finish(&first, arrived(&first))).await, Refusal::Fenced);
    plane.finish(&second, arrived(&second)).await;
    let outcomes: Vec<_> =
        plane.detail(&new.send_id).await.attempts.into_iter().map(|it| it.outcome).collect();
    assert_eq!(outcomes, ["unknown", "sent"]);
    plane.balanced().await;
}

/// On the others it is unknown; nothing makes it again by itself, a person does (law 5).
pub async fn what_is_unknown_waits_for_a_person(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let parts = vec![part("one"), part("two")];
    let new = NewSend { parts, key: Some("k".into()), ..plane.notice("ada") };
    plane.submit(&new).await;
    let behind = plane.notice("ada");
    plane.submit(&behind).await;
    let attempt = plane.claim_one().await;
    assert_eq!(plane.finish(&attempt, unknown()).await.state, SendState::Unknown);
    assert_eq!(plane.deliver().await, [(2, 1)], "others are not held up");
    plane.bench.now += 24 * HOUR_MS;
    for _ in 0..3 {
        assert_eq!((plane.recover(true, None).await, plane.expire().await.len()), (0, 0));
        assert!(plane.claim().await.is_empty());
    }
    assert_eq!(plane.repeated(&new).await.state, SendState::Unknown, "it may have arrived");
    assert_eq!(plane.settled(retry(&new.send_id)).await.state, SendState::Sending);
    assert_eq!(plane.deliver().await, [(1, 1), (1, 2)]);

    let other = plane.notice("bob");
    plane.submit(&other).await;
    let attempt = plane.claim_one().await;
    plane.finish(&attempt, unknown()).await;
    assert_eq!(plane.settled(discard(&other.send_id)).await.state, SendState::Dead);
    let refusal = plane.refused(discard(&other.send_id)).await;
    assert_eq!(refusal, Refusal::TaskState { state: "dead" });
    plane.balanced().await;
}

/// The lost attempt's own late word that it arrived settles what was unknown; any other word of it does not.
pub async fn a_late_word_settles_what_was_unknown(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let parts = vec![part("one"), part("two")];
    let new = NewSend { parts, ..plane.notice("ada") };
    plane.submit(&new).await;
    let attempt = plane.claim_one().await;
    plane.bench.now += MINUTE_MS;
    plane.recover(false, None).await;
    for settle in [failed(), unknown(), again(plane.bench.now)] {
        assert_eq!(plane.refused(finish(&attempt, settle)).await, Refusal::Fenced);
    }
    assert_eq!(plane.finish(&attempt, arrived(&attempt)).await.state, SendState::Sending, "and goes on");
    assert_eq!(plane.deliver().await, [(1, 2)]);
    assert_eq!(plane.state(&new.send_id).await, SendState::Delivered);
    let outcomes: Vec<_> =
        plane.detail(&new.send_id).await.attempts.into_iter().map(|it| (it.part, it.outcome)).collect();
    assert_eq!(outcomes, [(1, "sent".to_owned()), (2, "sent".to_owned())]);

    let question = NewSend { deadline_ms: Some(plane.bench.now + HOUR_MS), ..plane.question("bob") };
    plane.submit(&question).await;
    let attempt = plane.claim_one().await;
    plane.finish(&attempt, unknown()).await;
    assert_eq!(plane.finish(&attempt, arrived(&attempt)).await.state, SendState::Open);

    // Too late, or given up meanwhile: it has arrived, and that is all.
    let late = NewSend { deadline_ms: Some(plane.bench.now + HOUR_MS), ..plane.question("ada") };
    plane.submit(&late).await;
    let attempt = plane.claim_one().await;
    plane.finish(&attempt, unknown()).await;
    plane.bench.now += HOUR_MS;
    plane.expire().await;
    assert_eq!(plane.state(&late.send_id).await, SendState::Unknown);
    assert_eq!(plane.finish(&attempt, arrived(&attempt)).await.state, SendState::Expired);
    let given_up = plane.notice("ada");
    plane.submit(&given_up).await;
    let attempt = plane.claim_one().await;
    plane.finish(&attempt, unknown()).await;
    plane.settled(discard(&given_up.send_id)).await;
    assert_eq!(plane.finish(&attempt, arrived(&attempt)).await.state, SendState::Dead);
    assert_eq!(plane.detail(&given_up.send_id).await.parts[0].state, PartState::Sent);
    plane.balanced().await;
}

/// A send that ended while an attempt ran keeps its end, however the attempt ends, and the lane goes on.
pub async fn an_end_outlasts_the_attempt_under_way(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let now = plane.bench.now;
    let blocked = || Settle::Blocked { reason: "late".into(), state: SendState::Expired };
    for settle in [None, Some(failed()), Some(unknown()), Some(again(now)), Some(blocked())] {
        let new = NewSend { parts: vec![part("1"), part("2")], ..plane.question("ada") };
        plane.submit(&new).await;
        let attempt = plane.claim_one().await;
        let withdraw =
            OutboundWrite::Withdraw { topic_id: new.topic_id.clone().unwrap_or_default(), instance: None };
        plane.settled(withdraw).await;
        let behind = plane.notice("ada");
        plane.submit(&behind).await;
        assert!(plane.claim().await.is_empty(), "one at a time");
        let settle = settle.unwrap_or_else(|| arrived(&attempt));
        assert_eq!(plane.finish(&attempt, settle).await.state, SendState::Dead);
        assert_eq!(plane.deliver().await.len(), 1);
        assert_eq!(plane.state(&behind.send_id).await, SendState::Delivered);
    }
    // Its node died as well.
    let new = plane.question("ada");
    plane.submit(&new).await;
    plane.claim_one().await;
    let withdraw = OutboundWrite::Withdraw { topic_id: new.topic_id.unwrap_or_default(), instance: None };
    plane.settled(withdraw).await;
    plane.bench.now += MINUTE_MS;
    assert_eq!(plane.recover(true, None).await, 1);
    assert!(plane.claim().await.is_empty(), "nothing of it is made again");
    assert_eq!(plane.state(&new.send_id).await, SendState::Dead);
    plane.balanced().await;
}

/// A message of several parts of which some arrived says which (fault K53); a person has the rest sent, and the rest only.
pub async fn what_arrived_in_part_says_so(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let new = NewSend { parts: ["1", "2", "3", "4"].map(part).to_vec(), ..plane.notice("ada") };
    plane.submit(&new).await;
    for _ in 0..2 {
        let attempt = plane.claim_one().await;
        plane.finish(&attempt, arrived(&attempt)).await;
    }
    let attempt = plane.claim_one().await;
    assert_eq!(plane.finish(&attempt, unknown()).await.state, SendState::Unknown);
    let states: Vec<_> = plane.detail(&new.send_id).await.parts.iter().map(|it| it.state).collect();
    assert_eq!(states, [PartState::Sent, PartState::Sent, PartState::Unknown, PartState::Parked]);
    plane.settled(retry(&new.send_id)).await;
    assert_eq!(plane.deliver().await, [(1, 3), (1, 4)]);
    assert_eq!(plane.state(&new.send_id).await, SendState::Delivered);

    let new = NewSend { parts: ["1", "2", "3"].map(part).to_vec(), ..plane.notice("ada") };
    plane.submit(&new).await;
    let attempt = plane.claim_one().await;
    plane.finish(&attempt, arrived(&attempt)).await;
    let attempt = plane.claim_one().await;
    plane.finish(&attempt, failed()).await;
    let states: Vec<_> = plane.detail(&new.send_id).await.parts.iter().map(|it| it.state).collect();
    assert_eq!(states, [PartState::Sent, PartState::Failed, PartState::Void]);
    assert_eq!(plane.detail(&new.send_id).await.send.reason.as_deref(), Some("no"));
    plane.settled(retry(&new.send_id)).await;
    assert_eq!(plane.deliver().await, [(2, 2), (2, 3)]);
    plane.balanced().await;
}

/// A shut gate attempts nothing, and gives the key free.
pub async fn a_shut_gate_attempts_nothing(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    for state in [SendState::Refused, SendState::Expired] {
        let new = NewSend { key: Some("k".into()), ..plane.notice("ada") };
        plane.submit(&new).await;
        let attempt = plane.claim_one().await;
        let blocked = Settle::Blocked { reason: "quiet hours".into(), state };
        assert_eq!(plane.finish(&attempt, blocked).await.state, state);
        let detail = plane.detail(&new.send_id).await;
        assert_eq!(
            (detail.parts[0].state, detail.attempts[0].outcome.as_str()),
            (PartState::Void, "blocked")
        );
        assert_eq!((detail.send.key, detail.send.reason.as_deref()), (None, Some("quiet hours")));
    }
    plane.balanced().await;
}

/// An address that is gone is not written to again until an operator says so (fault K55).
pub async fn an_address_that_is_gone_is_suppressed(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let new = plane.notice("ada");
    plane.submit(&new).await;
    let attempt = plane.claim_one().await;
    let gone = Settle::Failed { reason: "550 no such user".into(), bad_address: true };
    assert_eq!(plane.finish(&attempt, gone).await.state, SendState::Dead);
    let consent = plane.consent_of(CHAT, "ada").await.expect("it is listed");
    assert_eq!(
        (consent.state, consent.person, consent.by.as_str()),
        (ConsentState::Suppressed, Some(plane.ada), "hub")
    );
    assert_eq!(consent.reason.as_deref(), Some("550 no such user"));
    let again = plane.notice("ada");
    assert_eq!(plane.turned_down(&again).await, Refusal::NoConsent(Consent::Suppressed));
    plane.allow(CHAT, "ada", None).await;
    plane.submit(&again).await;
    assert_eq!(plane.consent_of(CHAT, "ada").await.and_then(|it| it.person), Some(plane.ada), "still hers");
}

/// A message that comes back has not arrived; the same event counts once, and a person may have it sent again.
pub async fn what_comes_back_has_not_arrived(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let new = NewSend { key: Some("k".into()), ..plane.notice("ada") };
    plane.submit(&new).await;
    let question = plane.question("bob");
    plane.submit(&question).await;
    plane.deliver().await;
    let unknown = plane.outcome_heard(bounced("b0", "m-none", true)).await;
    assert_eq!(unknown, HeardOutcome::Bounced(None));
    let HeardOutcome::Bounced(Some(touched)) = plane.outcome_heard(bounced("b1", "m-snd_1-1", false)).await
    else {
        panic!("it is known")
    };
    assert_eq!((touched.send_id, touched.state), (new.send_id.clone(), SendState::Dead));
    assert_eq!(plane.outcome_heard(bounced("b1", "m-snd_1-1", true)).await, HeardOutcome::Repeat);
    assert_eq!(plane.consent_of(CHAT, "ada").await.map(|it| it.state), Some(ConsentState::Allowed));
    assert_eq!(plane.repeated(&new).await.state, SendState::Dead, "something had left");
    plane.settled(retry(&new.send_id)).await;
    assert_eq!(plane.deliver().await, [(1, 1)]);

    let behind = plane.question("bob");
    plane.submit(&behind).await;
    plane.outcome_heard(bounced("b2", &format!("m-{}-1", question.send_id), true)).await;
    assert_eq!(plane.state(&question.send_id).await, SendState::Dead);
    assert_eq!(plane.consent_of(CHAT, "bob").await.map(|it| it.state), Some(ConsentState::Suppressed));
    assert_eq!(plane.floor().await.0, [behind.send_id], "the next one has the floor");
    plane.balanced().await;
}

/// What a person has tried again: dead and unknown sends within their time. What had arrived already is not sent twice.
pub async fn a_retry_has_its_bounds(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let new = NewSend { deadline_ms: Some(plane.bench.now + HOUR_MS), ..plane.notice("ada") };
    plane.submit(&new).await;
    assert_eq!(
        plane.refused(retry(&new.send_id)).await,
        Refusal::TaskState { state: "due as soon as it may be" }
    );
    assert_eq!(plane.refused(retry("snd_none")).await, Refusal::NotFound);
    let attempt = plane.claim_one().await;
    plane.finish(&attempt, failed()).await;
    plane.bench.now += HOUR_MS;
    assert_eq!(plane.refused(retry(&new.send_id)).await, Refusal::DeadlinePast);

    let question = plane.question("ada");
    plane.submit(&question).await;
    plane.deliver().await;
    plane.settled(discard(&question.send_id)).await;
    let other = plane.question("ada");
    plane.submit(&other).await;
    assert_eq!(plane.settled(retry(&question.send_id)).await.state, SendState::Queued, "the floor is taken");
    plane.deliver().await;
    plane.hear("ada", "yes").await;
    assert_eq!(plane.state(&other.send_id).await, SendState::Answered);
    assert_eq!(plane.state(&question.send_id).await, SendState::Open, "it was there already");
    assert!(plane.deliver().await.is_empty());
    plane.hear("ada", "no").await;
    assert_eq!(plane.state(&question.send_id).await, SendState::Answered);
    assert_eq!(plane.refused(retry(&question.send_id)).await, Refusal::TaskState { state: "answered" });
    plane.balanced().await;
}

/// What waits for a later attempt is made due at once; nothing else of what is on its way is.
pub async fn what_waits_can_be_hurried(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let new = plane.notice("ada");
    plane.submit(&new).await;
    let behind = plane.notice("ada");
    plane.submit(&behind).await;
    let attempt = plane.claim_one().await;
    assert_eq!(plane.refused(retry(&new.send_id)).await, Refusal::TaskState { state: "being attempted" });
    let later = plane.bench.now + HOUR_MS;
    plane.finish(&attempt, again(later)).await;
    assert!(plane.claim().await.is_empty());
    let waiting = Refusal::TaskState { state: "waiting behind another message to the same address" };
    assert_eq!(plane.refused(retry(&behind.send_id)).await, waiting);
    assert_eq!(plane.settled(retry(&new.send_id)).await.state, SendState::Sending);
    let second = plane.claim_one().await;
    assert_eq!((&second.send.send_id, second.attempt, second.fails), (&new.send_id, 2, 1));

    let pace = Settle::Sent { message_id: None, pace_ms: MINUTE_MS };
    plane.finish(&second, pace).await;
    let due = Refusal::TaskState { state: "due as soon as it may be" };
    assert_eq!(plane.refused(retry(&behind.send_id)).await, due, "a lane's pace is not hurried");
    assert!(plane.claim().await.is_empty());
    plane.bench.now += MINUTE_MS;
    assert_eq!(plane.claim_one().await.send.send_id, behind.send_id);
    plane.balanced().await;
}

/// The consent that a claim tells is that of the moment: a STOP counts for what waits already (fault K62).
pub async fn a_claim_tells_the_consent_of_now(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let open = NewSend {
        consent: switchboard_core::outbound::write::ConsentRule::Open,
        to: direct("hook"),
        ..plane.notice("hook")
    };
    plane.submit(&open).await;
    assert_eq!(plane.claim_one().await.consent, Consent::Missing, "nobody has listed it");
    let new = plane.notice("bob");
    plane.submit(&new).await;
    plane.one(super::plane::consent(CHAT, "bob", ConsentState::Revoked, None)).await;
    assert_eq!(plane.claim_one().await.consent, Consent::Missing);
}
