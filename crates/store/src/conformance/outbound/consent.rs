//! Who may be written to: an operator's yes, a person's code, and a STOP that is the person's own.

use super::plane::{CHAT, MAIL, Plane, arrived, consent, direct, picture};
use crate::conformance::bench::Bench;
use switchboard_core::digest::sha256;
use switchboard_core::outbound::gate::Consent;
use switchboard_core::outbound::reply::{PAIR_LEN, code, show_pairing};
use switchboard_core::outbound::send::{ConsentState, SendState};
use switchboard_core::outbound::write::{
    ConsentRule, Heard, HeardOutcome, NewSend, OutboundOutcome, OutboundWrite,
};
use switchboard_core::port::channel::{Address, AddressKind};
use switchboard_core::time::{HOUR_MS, MINUTE_MS};
use switchboard_core::write::Refusal;

fn pair_start(code: &str, to: Option<&str>, expires_ms: i64) -> OutboundWrite {
    OutboundWrite::PairStart {
        code_hash: sha256(code.as_bytes()),
        channel: CHAT.into(),
        to: to.map(str::to_owned),
        person: None,
        expires_ms,
        by: "op".into(),
    }
}

fn pairing_code(byte: u8) -> String {
    code(&[byte; PAIR_LEN], PAIR_LEN)
}

async fn missing(plane: &mut Plane<'_>, handle: &str) {
    let new = plane.notice(handle);
    assert_eq!(plane.turned_down(&new).await, Refusal::NoConsent(Consent::Missing), "{handle}");
}

/// Nobody is written to who was not allowed, on that channel, as that kind of address.
pub async fn nobody_is_reached_without_a_yes(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    missing(&mut plane, "eve").await;
    let elsewhere = NewSend { channel: MAIL.into(), ..plane.notice("ada") };
    assert_eq!(plane.turned_down(&elsewhere).await, Refusal::NoConsent(Consent::Missing));
    let shared = Address { kind: AddressKind::Channel, handle: "ada".into() };
    let new = NewSend { to: shared.clone(), ..plane.notice("ada") };
    assert_eq!(plane.turned_down(&new).await, Refusal::NoConsent(Consent::Missing));
    let allow = OutboundWrite::Consent {
        channel: CHAT.into(),
        to: shared,
        state: ConsentState::Allowed,
        person: None,
        by: "op".into(),
        lift_stop: false,
    };
    plane.one(allow).await;
    plane.submit(&new).await;
    plane.one(consent(CHAT, "ada", ConsentState::Revoked, None)).await;
    missing(&mut plane, "ada").await;
    let nobody = consent(CHAT, "nobody", ConsentState::Revoked, None);
    assert_eq!(plane.refused(nobody).await, Refusal::NotFound);
    let person = Some(switchboard_core::ids::PersonNo(99));
    assert_eq!(plane.refused(consent(CHAT, "x", ConsentState::Allowed, person)).await, Refusal::NotFound);
}

/// A person of the organization is reached by name; a channel of the operator's own targets needs no list, but heeds it.
pub async fn each_rule_asks_what_it_says(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    for (name, found) in [("ada", true), ("ADA ", true), ("nobody", false)] {
        let new = NewSend { consent: ConsentRule::Person, channel: "console".into(), ..plane.notice(name) };
        if found {
            plane.submit(&new).await;
        } else {
            assert_eq!(plane.turned_down(&new).await, Refusal::NoConsent(Consent::Missing));
        }
    }
    let open = |plane: &mut Plane<'_>| NewSend { consent: ConsentRule::Open, ..plane.notice("hook") };
    let new = open(&mut plane);
    plane.submit(&new).await;
    assert_eq!(plane.hear("hook", "stop").await, HeardOutcome::Stopped);
    let new = open(&mut plane);
    assert_eq!(plane.turned_down(&new).await, Refusal::NoConsent(Consent::Stopped));
}

/// A STOP ends what waits and blocks what comes; what runs may end; only the person takes it back.
pub async fn a_stop_is_the_persons_own(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let (running, waiting) = (plane.notice("ada"), plane.notice("ada"));
    let (open, queued) = (plane.question("ada"), plane.question("ada"));
    let held = NewSend { hold: super::plane::hold("apr_1", plane.bench.now), ..plane.notice("ada") };
    let (elsewhere, other) =
        (NewSend { channel: MAIL.into(), ..plane.notice("ada@example.org") }, plane.notice("bob"));
    let elsewhere = NewSend { to: direct("ada@example.org"), ..elsewhere };
    plane.submit(&running).await;
    let attempt = plane.claim_one().await;
    for new in [&waiting, &open, &queued, &held, &elsewhere, &other] {
        plane.submit(new).await;
    }
    assert_eq!(plane.hear("ada", " Stop. ").await, HeardOutcome::Stopped);
    for new in [&running, &waiting, &open, &queued, &held, &elsewhere] {
        assert_eq!(plane.state(&new.send_id).await, SendState::Refused, "{}", new.send_id);
    }
    assert_eq!(plane.state(&other.send_id).await, SendState::Sending, "another person's");
    plane.finish(&attempt, arrived(&attempt)).await;
    assert_eq!(plane.deliver().await.len(), 1, "only the other one's");
    let new = plane.notice("ada");
    assert_eq!(plane.turned_down(&new).await, Refusal::NoConsent(Consent::Stopped));

    // An operator does not take it back, not by a detour either.
    let allow = || consent(CHAT, "ada", ConsentState::Allowed, None);
    let stopped = Refusal::NoConsent(Consent::Stopped);
    assert_eq!(plane.refused(allow()).await, stopped);
    plane.one(consent(CHAT, "ada", ConsentState::Revoked, None)).await;
    assert_eq!(plane.refused(allow()).await, stopped);
    assert_eq!(plane.consent_of(CHAT, "ada").await.map(|it| it.state), Some(ConsentState::Stopped));
    // What the operator said meanwhile counts once the person takes it back.
    assert_eq!(plane.hear("ada", "START").await, HeardOutcome::Started);
    assert_eq!(plane.consent_of(CHAT, "ada").await.map(|it| it.state), Some(ConsentState::Revoked));
    missing(&mut plane, "ada").await;
    let mail = plane.consent_of(MAIL, "ada@example.org").await.map(|it| it.state);
    assert_eq!(mail, Some(ConsentState::Allowed), "it counts everywhere");
    plane.balanced().await;
}

/// START brings back what was before the STOP, and nothing more: nobody allows himself by it.
pub async fn a_start_allows_nobody_anew(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    assert_eq!(plane.hear("ada", "stop").await, HeardOutcome::Stopped);
    assert_eq!(plane.hear("ada", "stop").await, HeardOutcome::Stopped);
    plane.bench.restart().await;
    assert_eq!(plane.hear("ada", "start").await, HeardOutcome::Started);
    let row = plane.consent_of(CHAT, "ada").await.expect("it is listed");
    assert_eq!((row.state, row.person), (ConsentState::Allowed, Some(plane.ada)));
    let new = plane.notice("ada");
    plane.submit(&new).await;

    assert_eq!(plane.hear("eve", "start").await, HeardOutcome::Stranger);
    assert_eq!(plane.hear("eve", "stop").await, HeardOutcome::Stopped, "whoever is never to be written to");
    assert_eq!(plane.hear("eve", "start").await, HeardOutcome::Started);
    assert_eq!(plane.consent_of(CHAT, "eve").await, None);
    missing(&mut plane, "eve").await;

    plane.one(consent(CHAT, "bob", ConsentState::Revoked, None)).await;
    for word in ["stop", "start"] {
        plane.hear("bob", word).await;
    }
    missing(&mut plane, "bob").await;
}

/// A STOP counts when nobody vouches for its sender, as far as it is known at all; a START does not.
pub async fn a_claimed_stop_counts_and_a_claimed_start_does_not(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let claimed = |heard: Heard| Heard { verified: false, ..heard };
    let heard = claimed(plane.said("eve", "stop"));
    assert_eq!(plane.heard(heard).await, HeardOutcome::Stranger);
    assert_eq!(plane.consent_of(CHAT, "eve").await, None);
    let heard = claimed(plane.said("ada", "stop"));
    assert_eq!(plane.heard(heard).await, HeardOutcome::Stopped);
    let mail = plane.consent_of(MAIL, "ada@example.org").await.map(|it| it.state);
    assert_eq!(mail, Some(ConsentState::Allowed), "a forged word reaches no further than its address");
    let heard = claimed(plane.said("ada", "start"));
    assert_eq!(plane.heard(heard).await, HeardOutcome::Stranger);
    assert_eq!(plane.consent_of(CHAT, "ada").await.map(|it| it.state), Some(ConsentState::Stopped));
}

/// More sends than one STOP ends at once are ended by the gate: a claim says so.
pub async fn a_stop_reaches_what_a_retry_brings_back(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let new = plane.notice("ada");
    plane.submit(&new).await;
    let attempt = plane.claim_one().await;
    plane.finish(&attempt, super::plane::failed()).await;
    plane.hear("ada", "stop").await;
    plane.settled(OutboundWrite::Retry { send_id: new.send_id, by: "op".into() }).await;
    assert_eq!(plane.claim_one().await.consent, Consent::Stopped);
}

/// A code pairs the address that types it, once.
pub async fn a_code_pairs_once(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let (code, expires_ms) = (pairing_code(4), plane.bench.now + HOUR_MS);
    assert_eq!(plane.one(pair_start(&code, None, expires_ms)).await, OutboundOutcome::Done);
    let typed = show_pairing(&code).to_lowercase();
    let heard = Heard { verified: false, ..plane.said("eve", &typed) };
    assert_eq!(plane.heard(heard).await, HeardOutcome::Stranger, "nobody vouches for who types it");
    plane.bench.restart().await;
    assert_eq!(plane.hear("eve", &format!("pair {typed}")).await, HeardOutcome::Paired);
    let row = plane.consent_of(CHAT, "eve").await.expect("it is listed");
    assert_eq!((row.state, row.by.as_str()), (ConsentState::Paired, "chat:code"));
    let new = plane.notice("eve");
    plane.submit(&new).await;
    assert_eq!(plane.hear("mallory", &typed).await, HeardOutcome::BadCode);
    missing(&mut plane, "mallory").await;
}

/// A code is over at its time, and is for its channel and its address.
pub async fn a_code_has_its_bounds(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let expires_ms = plane.bench.now + HOUR_MS;
    let (code, own) = (pairing_code(4), pairing_code(5));
    plane.one(pair_start(&code, None, expires_ms)).await;
    plane.one(pair_start(&own, Some("eve"), expires_ms)).await;
    let heard = Heard { channel: MAIL.into(), ..plane.said("x", &show_pairing(&code)) };
    assert_eq!(plane.heard(heard).await, HeardOutcome::BadCode, "it is another channel's");
    assert_eq!(
        plane.hear("mallory", &show_pairing(&own)).await,
        HeardOutcome::BadCode,
        "it is another one's"
    );
    assert_eq!(
        plane.hear("eve", &show_pairing(&own)).await,
        HeardOutcome::Paired,
        "and was not used up by that"
    );
    plane.bench.now = expires_ms;
    assert_eq!(plane.hear("bob", &show_pairing(&code)).await, HeardOutcome::BadCode, "over");
}

/// A code pairs again whoever had said STOP: it is the person who types it. The person behind an address stays.
pub async fn a_code_takes_a_stop_back(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    plane.hear("ada", "stop").await;
    let (code, expires_ms) = (pairing_code(4), plane.bench.now + HOUR_MS);
    plane.one(pair_start(&code, None, expires_ms)).await;
    assert_eq!(plane.hear("ada", &show_pairing(&code)).await, HeardOutcome::Paired);
    let row = plane.consent_of(CHAT, "ada").await.expect("it is listed");
    assert_eq!((row.state, row.person), (ConsentState::Paired, Some(plane.ada)));
}

/// An address may try a few codes, then none for a while, over restarts; a right one among them does not count (fault K31).
pub async fn codes_cannot_be_guessed(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let (code, expires_ms) = (pairing_code(4), plane.bench.now + HOUR_MS);
    plane.one(pair_start(&code, None, expires_ms)).await;
    for at in 0..5 {
        let wrong = show_pairing(&pairing_code(10 + at));
        assert_eq!(plane.hear("eve", &wrong).await, HeardOutcome::BadCode);
    }
    plane.bench.restart().await;
    for _ in 0..3 {
        assert_eq!(plane.hear("eve", &show_pairing(&code)).await, HeardOutcome::TooManyCodes);
    }
    assert_eq!(
        plane.hear("bob", &show_pairing(&pairing_code(10))).await,
        HeardOutcome::BadCode,
        "others may try"
    );
    plane.bench.now += 11 * MINUTE_MS;
    assert_eq!(plane.hear("eve", &show_pairing(&code)).await, HeardOutcome::Paired);
}

/// Codes that wait are bounded; those that are over make room.
pub async fn codes_are_bounded(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let expires_ms = plane.bench.now + HOUR_MS;
    let started = |at: usize| {
        let write = pair_start(&format!("code {at}"), None, expires_ms);
        switchboard_core::write::Write::Outbound(write)
    };
    plane.bench.commit((0..256).map(started).collect()).await;
    let full = Refusal::Full { what: "pairing_codes", limit: 256 };
    assert_eq!(plane.refused(pair_start("one more", None, expires_ms)).await, full);
    plane.bench.now = expires_ms;
    plane.one(pair_start("one more", None, expires_ms + 1)).await;
    let person = OutboundWrite::PairStart {
        code_hash: [1; 32],
        channel: CHAT.into(),
        to: None,
        person: Some(switchboard_core::ids::PersonNo(99)),
        expires_ms: expires_ms + 1,
        by: "op".into(),
    };
    assert_eq!(plane.refused(person).await, Refusal::NotFound);
}

/// A code made for a person makes the address theirs.
pub async fn a_code_can_be_a_persons(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let code = pairing_code(4);
    let write = OutboundWrite::PairStart {
        code_hash: sha256(code.as_bytes()),
        channel: CHAT.into(),
        to: None,
        person: Some(plane.ada),
        expires_ms: plane.bench.now + HOUR_MS,
        by: "op".into(),
    };
    plane.one(write).await;
    assert_eq!(plane.hear("phone", &show_pairing(&code)).await, HeardOutcome::Paired);
    let row = plane.consent_of(CHAT, "phone").await.expect("it is listed");
    assert_eq!((row.person, row.person_name.as_deref()), (Some(plane.ada), Some("ada")));
    let before = picture(plane.store()).await;
    plane.bench.restart().await;
    assert_eq!(picture(plane.store()).await, before);
}

/// An operator lifts a STOP that nobody vouched for, and says so; one that is proven is the person's own.
pub async fn only_a_stop_that_nobody_vouches_for_can_be_lifted(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let lift = || OutboundWrite::Consent {
        channel: CHAT.into(),
        to: direct("ada"),
        state: ConsentState::Allowed,
        person: None,
        by: "op".into(),
        lift_stop: true,
    };
    let stop = async |plane: &mut Plane<'_>, verified: bool| {
        let heard = Heard { verified, ..plane.said("ada", "stop") };
        assert_eq!(plane.heard(heard).await, HeardOutcome::Stopped);
    };
    let is_proven = async |plane: &Plane<'_>| plane.consent_of(CHAT, "ada").await.expect("known").proven;
    stop(&mut plane, false).await;
    assert!(!is_proven(&plane).await);
    let refusal = plane.refused(consent(CHAT, "ada", ConsentState::Allowed, None)).await;
    assert_eq!(refusal, Refusal::NoConsent(Consent::Stopped), "not by chance");
    plane.one(consent(CHAT, "ada", ConsentState::Revoked, None)).await;
    assert!(!is_proven(&plane).await);
    plane.bench.restart().await;
    assert_eq!(plane.one(lift()).await, OutboundOutcome::Done);
    let row = plane.consent_of(CHAT, "ada").await.expect("known");
    assert_eq!((row.state, row.person, row.by.as_str()), (ConsentState::Allowed, Some(plane.ada), "op"));
    let log = plane.bench.entries().await;
    assert!(log.iter().any(|entry| format!("{entry:?}").contains("stop_lifted")), "it is in the log");
    let new = plane.notice("ada");
    plane.submit(&new).await;

    for (first, second) in [(false, true), (true, false), (true, true)] {
        stop(&mut plane, first).await;
        stop(&mut plane, second).await;
        assert!(is_proven(&plane).await);
        assert_eq!(plane.refused(lift()).await, Refusal::NoConsent(Consent::Stopped));
        assert_eq!(plane.hear("ada", "start").await, HeardOutcome::Started);
    }
}
