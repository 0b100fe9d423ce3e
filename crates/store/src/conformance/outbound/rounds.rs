//! Sent again by a person: another delivery, linked to the one before (fault O05).

use super::plane::{CHAT, Plane, arrived, failed, finish, part, unknown};
use crate::conformance::bench::Bench;
use switchboard_core::outbound::send::{PartState, SendState};
use switchboard_core::outbound::write::{HeardOutcome, NewSend, OutboundWrite, Settle};
use switchboard_core::write::Refusal;

fn retry(send_id: &str) -> OutboundWrite {
    OutboundWrite::Retry { send_id: send_id.into(), by: "op".into() }
}

fn bounced(event_id: &str, message_id: &str) -> OutboundWrite {
    OutboundWrite::Bounced {
        channel: CHAT.into(),
        event_id: event_id.into(),
        message_id: message_id.into(),
        permanent: false,
        reason: "full".into(),
    }
}

/// What may have left gets another id, what has arrived is not sent again; what is heard of the old attempt late is said of it alone.
pub async fn what_a_person_sends_again_is_another_delivery(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let new = NewSend { parts: vec![part("one"), part("two"), part("three")], ..plane.notice("ada") };
    plane.submit(&new).await;
    let first = plane.claim_one().await;
    plane.finish(&first, arrived(&first)).await;
    let old = plane.claim_one().await;
    plane.finish(&old, unknown()).await;
    assert_eq!((old.round, plane.settled(retry(&new.send_id)).await.state), (0, SendState::Sending));
    let rounds = |detail: &switchboard_core::outbound::send::SendDetail| {
        detail.parts.iter().map(|part| part.round).collect::<Vec<_>>()
    };
    assert_eq!(rounds(&plane.detail(&new.send_id).await), [0, 1, 0], "what was never tried has its first id");

    plane.finish(&old, arrived(&old)).await;
    let detail = plane.detail(&new.send_id).await;
    let told = detail.attempts.iter().find(|attempt| attempt.part == 2).expect("it was tried");
    assert_eq!((told.outcome.as_str(), told.round), ("sent", 0));
    assert_eq!(told.message_id.as_deref(), Some("m-snd_1-2"));
    assert_eq!((detail.send.state, detail.parts[1].state), (SendState::Sending, PartState::Due));
    assert_eq!(plane.refused(finish(&old, arrived(&old))).await, Refusal::Fenced, "once");
    assert_eq!(plane.refused(finish(&old, failed())).await, Refusal::Fenced);

    let again = plane.claim_one().await;
    assert_eq!((again.round, again.attempt), (1, 2));
    let sent = Settle::Sent { message_id: Some("m-new".into()), pace_ms: 0 };
    plane.finish(&again, sent).await;
    assert_eq!(plane.deliver().await, [(1, 3)]);
    let outcome = plane.outcome_heard(bounced("e1", "m-snd_1-2")).await;
    assert!(matches!(outcome, HeardOutcome::Bounced(Some(it)) if it.state == SendState::Delivered));
    let detail = plane.detail(&new.send_id).await;
    let outcomes: Vec<_> =
        detail.attempts.iter().map(|it| (it.part, it.round, it.outcome.as_str())).collect();
    assert_eq!(outcomes, [(1, 0, "sent"), (2, 0, "bounced"), (2, 1, "sent"), (3, 0, "sent")]);
    let outcome = plane.outcome_heard(bounced("e2", "m-new")).await;
    assert!(matches!(outcome, HeardOutcome::Bounced(Some(it)) if it.state == SendState::Dead));
    plane.settled(retry(&new.send_id)).await;
    assert_eq!(rounds(&plane.detail(&new.send_id).await), [0, 2, 0]);
    plane.balanced().await;
}

/// Also of what was certainly not sent.
pub async fn a_dead_one_is_another_delivery_too(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let new = plane.notice("ada");
    plane.submit(&new).await;
    let attempt = plane.claim_one().await;
    plane.finish(&attempt, failed()).await;
    plane.settled(retry(&new.send_id)).await;
    let again = plane.claim_one().await;
    assert_eq!((again.round, again.attempt, again.fails), (1, 2, 0));
    plane.finish(&again, super::plane::again(plane.bench.now)).await;
    assert_eq!(plane.claim_one().await.round, 1, "the hub's own retries keep the id");
}
