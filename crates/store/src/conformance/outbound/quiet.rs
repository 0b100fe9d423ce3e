//! Quiet hours: what they hold back stays queued until they are over; notices to one address arrive as one.

use super::plane::{CHAT, MAIL, Plane, arrived, direct, failed, hold, unknown};
use crate::conformance::bench::Bench;
use switchboard_core::outbound::gate::Consent;
use switchboard_core::outbound::quiet::Quiet;
use switchboard_core::outbound::send::{SendState, TopicState};
use switchboard_core::outbound::write::{NewSend, OutboundOutcome, OutboundWrite};
use switchboard_core::time::{DAY_MS, HOUR_MS, MINUTE_MS, WallMs};
use switchboard_core::write::Refusal;

/// Ada wants quiet from now until so long after now.
async fn quiet(plane: &mut Plane<'_>, hours: i64) -> WallMs {
    let clock = |ms: WallMs| {
        let minutes = ms.rem_euclid(DAY_MS) / MINUTE_MS;
        format!("{:02}:{:02}", minutes / 60, minutes % 60)
    };
    let now = plane.bench.now;
    let quiet = Quiet::parse("Etc/UTC", &clock(now), &clock(now + hours * HOUR_MS)).expect("hours");
    let ends_ms = quiet.ends_ms(now).expect("it is quiet");
    let write = OutboundWrite::Quiet { person: plane.ada, quiet: Some(quiet), by: "op".into() };
    assert_eq!(plane.one(write).await, OutboundOutcome::Done);
    ends_ms
}

async fn over(plane: &Plane<'_>) -> Vec<i64> {
    let rows = plane.store().outbound().quiet_over(plane.bench.now, 100).await.expect("readable");
    rows.into_iter().map(|row| row.no).collect()
}

fn digest(plane: &mut Plane<'_>) -> NewSend {
    let notice = plane.notice("ada");
    let send_id = notice.send_id.replace("snd_", "dig_");
    NewSend { send_id, urgent: true, ..notice }
}

/// Only what is urgent reaches a person meanwhile; a restart changes nothing; then everything goes on.
pub async fn quiet_hours_hold_back_what_is_not_urgent(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let ends_ms = quiet(&mut plane, 2).await;
    let (notice, question, urgent) = (plane.notice("ada"), plane.question("ada"), plane.notice("ada"));
    let urgent = NewSend { urgent: true, ..urgent };
    let (mail, other) = (plane.notice("x"), plane.notice("bob"));
    let mail = NewSend { channel: MAIL.into(), to: direct("ada@example.org"), ..mail };
    assert_eq!(plane.submit(&notice).await, (1, SendState::Queued));
    assert_eq!(plane.submit(&question).await, (2, SendState::Queued));
    assert_eq!(plane.submit(&urgent).await, (3, SendState::Sending));
    assert_eq!(plane.submit(&mail).await, (4, SendState::Queued), "the person has them, not an address");
    assert_eq!(plane.submit(&other).await, (5, SendState::Sending));
    assert_eq!(plane.deliver().await, [(3, 1), (5, 1)]);
    plane.bench.restart().await;
    assert_eq!(plane.store().outbound().next_quiet().await.expect("readable"), Some(ends_ms));
    assert_eq!(over(&plane).await, Vec::<i64>::new());
    plane.bench.now = ends_ms;
    assert_eq!(over(&plane).await, [1, 2, 4]);
    plane.one(OutboundWrite::Wake { sends: over(&plane).await }).await;
    assert_eq!(plane.deliver().await, [(1, 1), (2, 1)]);
    assert_eq!(plane.state(&question.send_id).await, SendState::Open);
    assert_eq!(plane.claim_on(MAIL, 10).await.len(), 1);
    assert_eq!(plane.store().outbound().next_quiet().await.expect("readable"), None);
    plane.balanced().await;
}

/// Whatever comes up meanwhile waits as well: what is approved, and the question that gets the floor. Ending them lets all of it go.
pub async fn what_comes_up_in_quiet_hours_waits_too(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let (first, second) = (plane.question("ada"), plane.question("ada"));
    let held = NewSend { hold: hold("apr_1", plane.bench.now), ..plane.notice("ada") };
    for new in [&first, &second, &held] {
        plane.submit(new).await;
    }
    plane.deliver().await;
    quiet(&mut plane, 3).await;
    plane.hear("ada", "yes").await;
    super::approvals::decide(&mut plane, "apr_1", true).await;
    plane.settled(OutboundWrite::Release { send: 3, forbidden_by: None }).await;
    for new in [&second, &held] {
        assert_eq!(plane.state(&new.send_id).await, SendState::Queued, "{}", new.send_id);
    }
    assert!(plane.claim().await.is_empty());
    let topics = plane.store().outbound().open_topics().await.expect("readable");
    assert_eq!(topics.iter().map(|(topic, _)| topic.state).collect::<Vec<_>>(), [TopicState::Queued]);
    plane.one(OutboundWrite::Quiet { person: plane.ada, quiet: None, by: "op".into() }).await;
    assert_eq!(over(&plane).await, [2, 3], "they are looked at at once");
    plane.one(OutboundWrite::Wake { sends: vec![2, 3, 99] }).await;
    assert_eq!(plane.deliver().await.len(), 2);
    let nobody = switchboard_core::ids::PersonNo(99);
    let write = OutboundWrite::Quiet { person: nobody, quiet: None, by: "op".into() };
    assert_eq!(plane.refused(write).await, Refusal::NotFound);
    plane.balanced().await;
}

/// What a digest brings has the digest's end, whichever that is, and one STOP ends both.
pub async fn a_digest_brings_all_or_none(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    for (settle, expected) in [
        (None, SendState::Delivered),
        (Some(failed()), SendState::Dead),
        (Some(unknown()), SendState::Unknown),
    ] {
        plane.bench.now += DAY_MS;
        quiet(&mut plane, 1).await;
        let (one, other) = (plane.notice("ada"), plane.notice("ada"));
        plane.submit(&one).await;
        plane.submit(&other).await;
        plane.bench.now += HOUR_MS + MINUTE_MS;
        let (new, of) = (digest(&mut plane), over(&plane).await);
        assert_eq!(of.len(), 2);
        plane.one(OutboundWrite::Digest { new: Box::new(new.clone()), of: of.clone() }).await;
        assert_eq!(over(&plane).await, Vec::<i64>::new());
        let again = digest(&mut plane);
        let twice = OutboundWrite::Digest { new: Box::new(again), of };
        assert!(matches!(plane.refused(twice).await, Refusal::TaskState { .. }), "they go out once");
        plane.bench.restart().await;
        let part = plane.claim_one().await;
        assert_eq!(part.send.send_id, new.send_id);
        let settle = settle.unwrap_or_else(|| arrived(&part));
        plane.finish(&part, settle).await;
        for new in [&one, &other, &new] {
            assert_eq!(plane.state(&new.send_id).await, expected, "{}", new.send_id);
        }
        let retried = OutboundWrite::Retry { send_id: new.send_id.clone(), by: "op".into() };
        assert!(matches!(plane.refused(retried).await, Refusal::TaskState { .. }));
        if expected == SendState::Dead {
            let retry = OutboundWrite::Retry { send_id: one.send_id.clone(), by: "op".into() };
            assert_eq!(plane.settled(retry).await.state, SendState::Sending, "alone");
            assert_eq!(plane.deliver().await.len(), 1);
        }
        plane.balanced().await;
    }
    plane.bench.now += DAY_MS;
    quiet(&mut plane, 1).await;
    let waits = plane.notice("ada");
    plane.submit(&waits).await;
    plane.hear("ada", "stop").await;
    assert_eq!(plane.state(&waits.send_id).await, SendState::Refused);
    let new = digest(&mut plane);
    let late = OutboundWrite::Digest { new: Box::new(new.clone()), of: over(&plane).await };
    assert_eq!(plane.refused(late).await, Refusal::NoConsent(Consent::Stopped));
    plane.balanced().await;
    assert_eq!(CHAT, new.channel);
}
