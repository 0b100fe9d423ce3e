//! Retention of the plane: texts go, the books stay.

use super::plane::{CHAT, Plane, direct, failed, hourly, part};
use crate::conformance::bench::Bench;
use switchboard_core::digest::sha256;
use switchboard_core::outbound::reply::{PAIR_LEN, code, show_pairing};
use switchboard_core::outbound::send::SendState;
use switchboard_core::outbound::write::{Heard, HeardOutcome, NewSend, OutboundWrite};
use switchboard_core::outbound::{HEARD_KEEP_MS, TEXT_KEEP_MS};
use switchboard_core::time::HOUR_MS;
use switchboard_core::write::{Outcome, Refusal, Write};

async fn sweep(plane: &mut Plane<'_>, limit: usize) -> usize {
    match plane.bench.one(Write::Sweep { limit }).await {
        Outcome::Swept(rows) => rows,
        other => panic!("expected a sweep, got {other:?}"),
    }
}

/// The texts of what is over are erased once their time is up, a few at a time; what it was and what became of it stays, and so
/// does its key.
pub async fn texts_are_erased(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let question = NewSend {
        key: Some("k".into()),
        body: "the secret".into(),
        parts: vec![part("the secret"), part("more of it")],
        ..plane.question("ada")
    };
    plane.submit(&question).await;
    plane.deliver().await;
    plane.hear("ada", "my secret").await;
    let lost = plane.notice("ada");
    plane.submit(&lost).await;
    let attempt = plane.claim_one().await;
    plane.finish(&attempt, failed()).await;
    let live = plane.question("bob");
    plane.submit(&live).await;
    plane.deliver().await;
    let before = plane.balanced().await;
    let ended = plane.detail(&question.send_id).await;
    plane.bench.now += TEXT_KEEP_MS - 1;
    assert_eq!(sweep(&mut plane, 100).await, 0);
    assert_eq!(plane.detail(&question.send_id).await, ended);
    plane.bench.now += 1;
    assert_eq!(sweep(&mut plane, 1).await, 1);
    assert_eq!(sweep(&mut plane, 1).await, 1);
    assert_eq!(sweep(&mut plane, 100).await, 0);
    let detail = plane.detail(&question.send_id).await;
    let told = format!("{detail:?}");
    assert!(!told.contains("secret") && !told.contains("more of it"), "{told}");
    assert!(detail.attempts.is_empty());
    assert_eq!((detail.send.body.as_str(), detail.send.params.as_str()), ("", "{}"));
    assert_eq!((detail.send.state, detail.send.key.as_deref()), (SendState::Answered, Some("k")));
    assert_eq!(detail.parts.len(), 2);
    assert_eq!(plane.repeated(&question).await.state, SendState::Answered, "the key counts on");
    let other = NewSend { digest: [1; 32], ..question.clone() };
    assert_eq!(plane.turned_down(&other).await, Refusal::IdReused, "and its digest");
    let retry = OutboundWrite::Retry { send_id: lost.send_id.clone(), by: "op".into() };
    assert_eq!(plane.refused(retry).await, Refusal::TaskState { state: "erased" });
    assert_eq!(plane.detail(&live.send_id).await.send.body, live.body, "it is not over");
    assert_eq!(plane.balanced().await, before);
    // A reference to what is forgotten is one of nobody.
    let mut heard = plane.said("bob", "yes");
    heard.references = vec![format!("m-{}-1", question.send_id)];
    assert!(matches!(plane.heard(heard).await, HeardOutcome::Answered(_)));
}

/// Events are remembered for a quarter, codes until they are over, limits while something of them counts.
pub async fn what_is_over_is_forgotten(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let heard = plane.said("ada", "hello");
    plane.heard(heard.clone()).await;
    let limited = NewSend { limits: vec![hourly("a", 1)], ..plane.notice("bob") };
    plane.submit(&limited).await;
    let pairing = code(&[4; PAIR_LEN], PAIR_LEN);
    let start = OutboundWrite::PairStart {
        code_hash: sha256(pairing.as_bytes()),
        channel: CHAT.into(),
        to: None,
        person: None,
        expires_ms: plane.bench.now + HOUR_MS,
        by: "op".into(),
    };
    plane.one(start).await;
    plane.bench.now += HOUR_MS - 1;
    assert_eq!(sweep(&mut plane, 100).await, 0);
    let more = NewSend { limits: vec![hourly("a", 1)], ..plane.notice("bob") };
    assert!(matches!(plane.turned_down(&more).await, Refusal::LimitReached { .. }));
    let again = Heard { event_id: heard.event_id.clone(), ..plane.said("ada", "hello") };
    assert_eq!(plane.heard(again.clone()).await, HeardOutcome::Repeat);
    plane.bench.now += 2 * HOUR_MS;
    assert_eq!(sweep(&mut plane, 1).await, 1);
    assert_eq!(sweep(&mut plane, 100).await, 1, "the code and the limit");
    assert_eq!(sweep(&mut plane, 100).await, 0);
    assert_eq!(plane.hear("eve", &show_pairing(&pairing)).await, HeardOutcome::BadCode);
    plane.submit(&more).await;
    plane.bench.now = plane.bench.now - 3 * HOUR_MS + HEARD_KEEP_MS;
    sweep(&mut plane, 100).await;
    assert_eq!(plane.heard(Heard { from: direct("ada"), ..again }).await, HeardOutcome::Repeat, "not yet");
    plane.bench.now += HOUR_MS;
    sweep(&mut plane, 100).await;
    let again = Heard { event_id: heard.event_id, ..plane.said("ada", "hello") };
    assert_eq!(plane.heard(again).await, HeardOutcome::NothingOpen);
    plane.balanced().await;
}
