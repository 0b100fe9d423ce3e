//! Channels that come and go: what no channel carries is held where everybody sees it, and goes on when one does again.

use super::plane::{CHAT, MAIL, NODE, Plane, direct};
use crate::conformance::bench::Bench;
use switchboard_core::outbound::send::{PartState, SendState};
use switchboard_core::outbound::write::{HeardOutcome, NewSend, OutboundOutcome, OutboundWrite};
use switchboard_core::time::{MINUTE_MS, WallMs};

fn by_mail(new: NewSend) -> NewSend {
    NewSend { channel: MAIL.into(), to: direct("ada@example.org"), ..new }
}

// Only the chat is configured; the ids of what is held for that.
async fn only_chat(plane: &mut Plane<'_>, node: u64, due_ms: WallMs) -> Vec<String> {
    let write = OutboundWrite::Strand { known: vec![CHAT.into()], only_node: Some(node), due_ms, limit: 100 };
    match plane.one(write).await {
        OutboundOutcome::Stranded(held) => held.into_iter().map(|touched| touched.send_id).collect(),
        other => panic!("expected what is held, got {other:?}"),
    }
}

async fn mail_is_back(plane: &mut Plane<'_>) -> usize {
    let write = OutboundWrite::Recover { channel: MAIL.into(), by_id: false, only_node: Some(NODE) };
    match plane.one(write).await {
        OutboundOutcome::Recovered(count) => count,
        other => panic!("expected what goes on, got {other:?}"),
    }
}

/// What waits for a channel that has gone is held with the reason, keeps no floor, and goes on when the channel is back.
pub async fn what_no_channel_carries_is_held(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let (asked, behind) = (by_mail(plane.question("x")), by_mail(plane.notice("x")));
    let other = plane.question("ada");
    for (new, state) in
        [(&asked, SendState::Sending), (&behind, SendState::Sending), (&other, SendState::Queued)]
    {
        assert_eq!(plane.submit(new).await.1, state);
    }
    let now = plane.bench.now;
    assert!(only_chat(&mut plane, NODE, now - 1).await.is_empty(), "another node gets its time");
    let held = only_chat(&mut plane, NODE, WallMs::MAX).await;
    assert_eq!(held, [asked.send_id.clone(), behind.send_id.clone()]);
    for id in &held {
        let detail = plane.detail(id).await;
        assert_eq!((detail.send.state, detail.parts[0].state), (SendState::Held, PartState::Stranded));
        assert!(detail.send.reason.expect("it says why").contains("no channel \"mail\" is configured"));
    }
    assert_eq!(plane.floor().await.0, std::slice::from_ref(&other.send_id), "nobody else has to wait");
    assert!(only_chat(&mut plane, NODE, WallMs::MAX).await.is_empty(), "once");
    assert_eq!(plane.store().outbound().to_release().await.expect("readable"), Vec::<i64>::new());
    assert!(plane.claim_on(MAIL, 10).await.is_empty());
    plane.bench.restart().await;

    assert_eq!(mail_is_back(&mut plane).await, 2);
    assert_eq!(mail_is_back(&mut plane).await, 0);
    assert_eq!(plane.state(&asked.send_id).await, SendState::Queued, "somebody else has the floor by now");
    let claimed = plane.claim_on(MAIL, 10).await;
    assert_eq!(claimed.iter().map(|part| &part.send.send_id).collect::<Vec<_>>(), [&behind.send_id]);
    assert!(matches!(plane.hear("ada", "yes").await, HeardOutcome::Answered(_)));
    assert_eq!(plane.floor().await.0, std::slice::from_ref(&asked.send_id));
    plane.balanced().await;
}

/// What is held so can be given up, expires, and is answered like anything else; what was approved is not let go of without its channel.
pub async fn what_is_held_for_its_channel_ends_like_anything_else(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let deadline_ms = Some(plane.bench.now + MINUTE_MS);
    let late = NewSend { deadline_ms, ..by_mail(plane.notice("x")) };
    let unwanted = by_mail(plane.notice("x"));
    let base = by_mail(plane.notice("x"));
    let approved = NewSend { hold: super::plane::hold("apr_1", plane.bench.now), ..base };
    for new in [&late, &unwanted, &approved] {
        plane.submit(new).await;
    }
    super::approvals::decide(&mut plane, "apr_1", true).await;
    plane.settled(OutboundWrite::Release { send: 3, forbidden_by: None }).await;
    assert_eq!(only_chat(&mut plane, NODE, WallMs::MAX).await.len(), 3);
    assert_eq!(plane.store().outbound().to_release().await.expect("readable"), Vec::<i64>::new());
    let release = OutboundWrite::Release { send: 3, forbidden_by: None };
    assert_eq!(plane.settled(release).await.state, SendState::Held);
    let discard = OutboundWrite::Discard { send_id: unwanted.send_id.clone(), by: "op".into() };
    assert_eq!(plane.settled(discard).await.state, SendState::Dead);
    plane.bench.now += MINUTE_MS;
    assert_eq!(plane.expire().await.len(), 1);
    assert_eq!(plane.state(&late.send_id).await, SendState::Expired);
    assert_eq!(mail_is_back(&mut plane).await, 1, "what has ended stays so");
    assert_eq!(plane.state(&approved.send_id).await, SendState::Sending);
    plane.balanced().await;
}

/// An attempt on a channel that has gone is unknown when nobody will report on it, and keeps the floor until its deadline at most.
pub async fn an_attempt_on_a_channel_that_has_gone_is_unknown(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let deadline_ms = Some(plane.bench.now + MINUTE_MS);
    let asked = NewSend { deadline_ms, ..by_mail(plane.question("x")) };
    let other = plane.question("ada");
    plane.submit(&asked).await;
    plane.submit(&other).await;
    assert_eq!(plane.claim_on(MAIL, 10).await.len(), 1);
    assert!(only_chat(&mut plane, NODE, WallMs::MAX).await.is_empty(), "its node lives");
    assert_eq!(plane.detail(&asked.send_id).await.parts[0].state, PartState::Attempting);
    assert!(only_chat(&mut plane, NODE + 1, WallMs::MAX).await.is_empty());
    let detail = plane.detail(&asked.send_id).await;
    assert_eq!((detail.send.state, detail.parts[0].state), (SendState::Unknown, PartState::Unknown));
    plane.bench.now += MINUTE_MS;
    plane.expire().await;
    assert_eq!(plane.floor().await.0, std::slice::from_ref(&other.send_id));
    plane.balanced().await;
}
