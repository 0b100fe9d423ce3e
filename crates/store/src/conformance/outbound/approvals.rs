//! Approvals: parked until somebody says yes, the first word counts, signed, under the rules as they are then.

use super::plane::{Plane, consent, direct, hold, sign};
use crate::conformance::bench::Bench;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use switchboard_core::digest::sha256;
use switchboard_core::outbound::send::{
    ApprovalState, ConsentState, PartState, SendState, VIA_LINK, decision_input,
};
use switchboard_core::outbound::write::{
    HeardOutcome, NewSend, OutboundOutcome, OutboundWrite, SignDecision,
};
use switchboard_core::time::{HOUR_MS, MINUTE_MS};
use switchboard_core::write::Refusal;

fn decision(approval_id: &str, approve: bool, by: &str) -> OutboundWrite {
    let (approval_id, by, via) = (approval_id.into(), by.into(), "console".into());
    OutboundWrite::Decide { approval_id, approve, by, via, sign: sign() }
}

/// Olivia decides on the console.
pub async fn decide(plane: &mut Plane<'_>, approval_id: &str, approve: bool) -> HeardOutcome {
    plane.outcome_heard(decision(approval_id, approve, "olivia")).await
}

async fn held(plane: &mut Plane<'_>, id: &str, new: NewSend) -> NewSend {
    let new = NewSend { hold: hold(id, plane.bench.now), ..new };
    assert_eq!(plane.submit(&new).await.1, SendState::Held);
    new
}

async fn approval(plane: &Plane<'_>, id: &str) -> switchboard_core::outbound::send::ApprovalRow {
    plane.store().outbound().approval(id.into()).await.expect("readable").expect("it is there").0
}

/// A held send does not move until it is approved and released; its decision is signed, over all that was shown.
pub async fn a_held_send_waits_for_a_yes(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let base = NewSend { digest: [5; 32], ..plane.notice("ada") };
    let new = held(&mut plane, "apr_1", base).await;
    assert!(plane.claim().await.is_empty());
    assert_eq!(
        plane.settled(OutboundWrite::Release { send: 1, forbidden_by: None }).await.state,
        SendState::Held
    );
    assert_eq!(plane.store().outbound().to_release().await.expect("readable"), Vec::<i64>::new());
    let outcome = decide(&mut plane, "apr_1", true).await;
    match outcome {
        HeardOutcome::Decided { touched, send, state } => {
            assert_eq!((touched.state, send, state), (SendState::Held, 1, ApprovalState::Approved));
        }
        other => panic!("{other:?}"),
    }
    let row = approval(&plane, "apr_1").await;
    let decided = row.decided.expect("somebody has");
    assert_eq!((row.state, row.send, row.rule.as_str()), (ApprovalState::Approved, 1, "ask#1"));
    assert_eq!(
        (decided.by.as_str(), decided.via.as_str(), decided.at_ms),
        ("olivia", "console", plane.bench.now)
    );
    let input = decision_input("apr_1", &new.digest, true, "olivia", "console");
    assert_eq!(decided.signature, sha256(&input).to_vec());
    assert!(plane.claim().await.is_empty(), "the rules are asked first");
    plane.bench.restart().await;
    assert_eq!(plane.store().outbound().to_release().await.expect("readable"), [1]);
    assert_eq!(
        plane.settled(OutboundWrite::Release { send: 1, forbidden_by: None }).await.state,
        SendState::Sending
    );
    assert_eq!(plane.store().outbound().to_release().await.expect("readable"), Vec::<i64>::new());
    assert_eq!(plane.deliver().await, [(1, 1)]);
    let released = plane.settled(OutboundWrite::Release { send: 1, forbidden_by: Some("x".into()) }).await;
    assert_eq!(released.state, SendState::Delivered, "released once");
    plane.balanced().await;
}

/// The first decision counts; everybody else is told whose it was (fault K19).
pub async fn the_first_decision_counts(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let base = plane.notice("ada");
    let new = held(&mut plane, "apr_1", base).await;
    let counted = Arc::new(AtomicU32::new(0));
    let counting = Arc::clone(&counted);
    let sign = SignDecision(Arc::new(move |input| {
        counting.fetch_add(1, Ordering::Relaxed);
        input.to_vec()
    }));
    for approve in [false, true, false] {
        let (approval_id, by, via) = ("apr_1".into(), format!("ann{approve}"), "cli".into());
        let write = OutboundWrite::Decide { approval_id, approve, by, via, sign: sign.clone() };
        let outcome = plane.outcome_heard(write).await;
        if counted.load(Ordering::Relaxed) == 1 && matches!(outcome, HeardOutcome::Decided { .. }) {
            continue;
        }
        assert_eq!(outcome, HeardOutcome::TooLate { what: "this was already denied by annfalse".into() });
    }
    assert_eq!(counted.load(Ordering::Relaxed), 1, "one signature");
    let row = approval(&plane, "apr_1").await;
    let input = decision_input("apr_1", &new.digest, false, "annfalse", "cli");
    assert_eq!(row.decided.map(|it| it.signature), Some(input));
    assert_eq!(plane.state(&new.send_id).await, SendState::Refused);
    assert_eq!(plane.detail(&new.send_id).await.send.reason.as_deref(), Some("denied by annfalse"));
    assert_eq!(plane.refused(decision("apr_none", true, "x")).await, Refusal::NotFound);
    assert!(plane.claim().await.is_empty());
    plane.balanced().await;
}

/// Nobody decided in time: denied. Who comes later is told.
pub async fn nobody_deciding_is_a_no(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let base = NewSend { key: Some("k".into()), ..plane.notice("ada") };
    let new = held(&mut plane, "apr_1", base).await;
    assert_eq!(plane.store().outbound().next_end().await.expect("readable"), Some(plane.bench.now + HOUR_MS));
    plane.bench.now += HOUR_MS;
    let late = decide(&mut plane, "apr_1", true).await;
    assert_eq!(late, HeardOutcome::TooLate { what: "the time to decide this was over".into() });
    let ended = plane.expire().await;
    assert_eq!((ended.len(), ended[0].state), (1, SendState::Refused));
    assert_eq!(approval(&plane, "apr_1").await.state, ApprovalState::Expired);
    assert_eq!(plane.store().outbound().next_end().await.expect("readable"), None);
    assert!(matches!(decide(&mut plane, "apr_1", true).await, HeardOutcome::TooLate { .. }));
    assert_eq!(plane.detail(&new.send_id).await.send.key, None, "it may be asked again");
    plane.balanced().await;
}

/// A rule that was tightened meanwhile counts for what was approved.
pub async fn a_rule_of_now_stops_what_was_approved(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let base = plane.notice("ada");
    let new = held(&mut plane, "apr_1", base).await;
    decide(&mut plane, "apr_1", true).await;
    let forbidden_by = Some("deny_keyword#2".to_owned());
    assert_eq!(
        plane.settled(OutboundWrite::Release { send: 1, forbidden_by }).await.state,
        SendState::Refused
    );
    let reason = plane.detail(&new.send_id).await.send.reason.unwrap_or_default();
    assert!(reason.contains("deny_keyword#2"), "{reason}");
    assert!(plane.claim().await.is_empty());
    assert_eq!(plane.store().outbound().to_release().await.expect("readable"), Vec::<i64>::new());
    plane.balanced().await;
}

/// A send that ends otherwise takes its approval along: void, and who decides it is told so. Nothing approves itself by being
/// given up and tried again.
pub async fn an_approval_ends_with_its_send(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let base = plane.notice("ada");
    let new = held(&mut plane, "apr_1", base).await;
    plane.settled(OutboundWrite::Discard { send_id: new.send_id.clone(), by: "op".into() }).await;
    assert_eq!(approval(&plane, "apr_1").await.state, ApprovalState::Void);
    let told = decide(&mut plane, "apr_1", true).await;
    assert_eq!(told, HeardOutcome::TooLate { what: "what this was for has ended".into() });
    let retry = OutboundWrite::Retry { send_id: new.send_id.clone(), by: "op".into() };
    assert_eq!(plane.refused(retry).await, Refusal::TaskState { state: "void" });
    let base = NewSend { deadline_ms: Some(plane.bench.now + MINUTE_MS), ..plane.question("ada") };
    let question = held(&mut plane, "apr_2", base).await;
    assert_eq!(plane.floor().await, (vec![], vec![question.send_id.clone()]));
    plane.bench.now += MINUTE_MS;
    assert_eq!(plane.expire().await.len(), 1);
    assert_eq!(plane.state(&question.send_id).await, SendState::Expired);
    assert_eq!(approval(&plane, "apr_2").await.state, ApprovalState::Void);
    plane.balanced().await;
}

/// An approved question waits for the floor like any other; a held one does not take it.
pub async fn a_held_question_takes_no_floor(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let base = plane.question("ada");
    let parked = held(&mut plane, "apr_1", base).await;
    let open = plane.question("ada");
    assert_eq!(plane.submit(&open).await.1, SendState::Sending);
    decide(&mut plane, "apr_1", true).await;
    assert_eq!(
        plane.settled(OutboundWrite::Release { send: 1, forbidden_by: None }).await.state,
        SendState::Queued
    );
    plane.deliver().await;
    plane.hear("ada", "yes").await;
    assert_eq!(plane.floor().await, (vec![parked.send_id.clone()], vec![]));
    assert_eq!(plane.deliver().await, [(1, 1)]);
    assert_eq!(plane.detail(&parked.send_id).await.parts[0].state, PartState::Sent);
    plane.balanced().await;
}

/// Who was asked decides in the chat: bare when there is one thing to decide, by code, or by answering the message.
pub async fn who_was_asked_decides_in_the_chat(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    for way in 0..3 {
        let id = format!("apr_{way}");
        let base = plane.notice("bob");
        let new = held(&mut plane, &id, base).await;
        let ask = plane.ask("ada", &new.send_id);
        plane.submit(&ask).await;
        plane.deliver().await;
        let mut heard = plane.said("ada", "approve");
        match way {
            0 => {}
            1 => heard = plane.said("ada", &format!("approve {}", ask.code)),
            _ => heard.references = vec!["m-other".into(), format!("m-{}-1", ask.send_id)],
        }
        match plane.heard(heard).await {
            HeardOutcome::Decided { touched, state, .. } => {
                assert_eq!((touched.send_id, state), (new.send_id, ApprovalState::Approved));
            }
            other => panic!("way {way}: {other:?}"),
        }
        let decided = approval(&plane, &id).await.decided.expect("somebody has");
        assert_eq!((decided.by.as_str(), decided.via.as_str()), ("ada", "chat"));
        let late = plane.hear("ada", &format!("deny {}", ask.code)).await;
        assert_eq!(late, HeardOutcome::TooLate { what: "this was already approved by ada".into() });
    }
    plane.balanced().await;
}

/// Somebody who was not asked decides nothing, whatever code he knows; nor does a free text.
pub async fn only_who_was_asked_decides(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let base = plane.notice("bob");
    let new = held(&mut plane, "apr_1", base).await;
    let ask = plane.ask("ada", &new.send_id);
    plane.submit(&ask).await;
    plane.deliver().await;
    let code = &ask.code;
    let mut by_reference = plane.said("bob", "approve");
    by_reference.references = vec![format!("m-{}-1", ask.send_id)];
    for (from, text) in
        [("bob", "approve".into()), ("bob", format!("approve {code}")), ("eve", format!("approve {code}"))]
    {
        let outcome = plane.hear(from, &text).await;
        match outcome {
            HeardOutcome::NothingOpen => assert_eq!(text, "approve"),
            HeardOutcome::MayNotDecide { tell: true, .. } => assert_ne!(text, "approve"),
            other => panic!("{from} {text}: {other:?}"),
        }
    }
    assert!(matches!(plane.heard(by_reference).await, HeardOutcome::MayNotDecide { .. }));
    // The code of the parked send itself is nobody's to decide by.
    assert_eq!(plane.hear("bob", &format!("approve {}", new.code)).await, HeardOutcome::NothingOpen);
    for text in ["yes, approve it", "ok"] {
        let outcome = plane.hear("ada", text).await;
        assert!(
            matches!(&outcome, HeardOutcome::Ambiguous { codes } if codes == &[(code.clone(), "approval")]),
            "{outcome:?}"
        );
    }
    assert_eq!(approval(&plane, "apr_1").await.state, ApprovalState::Pending);
    // Another address of hers may, by code.
    let mut heard = plane.said("ada@example.org", &format!("approve {code}"));
    heard.channel = super::plane::MAIL.into();
    heard.from = direct("ada@example.org");
    assert!(matches!(plane.heard(heard).await, HeardOutcome::Decided { .. }));
}

/// The link of the message decides in the name of the person it went to, once, and only while that address may be written to.
pub async fn the_link_of_a_message_decides(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let base = plane.notice("bob");
    let new = held(&mut plane, "apr_1", base).await;
    let ask = plane.ask("ada", &new.send_id);
    plane.submit(&ask).await;
    let by_link = |asked: &str, approve| OutboundWrite::DecideByLink {
        asked: asked.into(),
        approve,
        via: VIA_LINK.into(),
        sign: sign(),
    };
    assert_eq!(plane.refused(by_link("snd_none", true)).await, Refusal::NotFound);
    assert_eq!(plane.refused(by_link(&new.send_id, true)).await, Refusal::NotFound, "it asks nobody");
    for (state, may) in [(ConsentState::Revoked, false), (ConsentState::Allowed, true)] {
        let ada = Some(plane.ada);
        assert_eq!(plane.one(consent(&ask.channel, "ada", state, ada)).await, OutboundOutcome::Done);
        let outcome = plane.outcome_heard(by_link(&ask.send_id, true)).await;
        assert_eq!(matches!(outcome, HeardOutcome::Decided { .. }), may, "{outcome:?}");
        assert!(may || outcome == HeardOutcome::Stranger, "{outcome:?}");
    }
    let row = approval(&plane, "apr_1").await;
    let decided = row.decided.expect("somebody has");
    assert_eq!((row.state, decided.via.as_str()), (ApprovalState::Approved, VIA_LINK));
    let input = decision_input("apr_1", &new.digest, true, &decided.by, VIA_LINK);
    assert_eq!(decided.signature, sha256(&input).to_vec());
    let again = plane.outcome_heard(by_link(&ask.send_id, false)).await;
    let what = format!("this was already approved by {}", decided.by);
    assert_eq!(again, HeardOutcome::TooLate { what });
    plane.balanced().await;
}

/// Somebody who decides what is not theirs to decide is refused, and that is in the log: who, what, and why.
pub async fn who_may_not_decide_is_written_down(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let parked = plane.notice("bob");
    let parked = held(&mut plane, "apr_1", parked).await;
    let ask = plane.ask("ada", &parked.send_id);
    plane.submit(&ask).await;
    let yes = format!("approve SB-{}", ask.code);
    let refused = async |plane: &mut Plane<'_>, from: &str, verified: bool| {
        let heard = switchboard_core::outbound::write::Heard { verified, ..plane.said(from, &yes) };
        match plane.heard(heard).await {
            HeardOutcome::MayNotDecide { why, tell } => (why, tell),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refused(&mut plane, "bob", true).await, ("somebody else was asked to decide this", true));
    assert_eq!(refused(&mut plane, "ada", false).await, ("nobody vouches for who you are", true));
    let stranger = "you were not asked to decide anything here";
    assert_eq!(refused(&mut plane, "eve", true).await, (stranger, true));
    assert_eq!(
        refused(&mut plane, "eve", false).await,
        (stranger, false),
        "nobody is told on another's word"
    );
    let log = plane.bench.entries().await;
    let count = log.iter().filter(|entry| format!("{entry:?}").contains("outbound.decision_refused")).count();
    assert_eq!(count, 4);
    assert_eq!(approval(&plane, "apr_1").await.state, ApprovalState::Pending);
    let nothing = plane.hear("bob", "approve SB-ZZZZZZ").await;
    assert_eq!(nothing, HeardOutcome::NothingOpen, "there is no such approval");
    assert_eq!(plane.hear("eve", "approve").await, HeardOutcome::Stranger);
    assert!(matches!(plane.hear("ada", &yes).await, HeardOutcome::Decided { .. }));
}
