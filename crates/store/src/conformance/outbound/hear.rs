//! What people say can answer, decide, pair, stop and start. Nothing else follows from any text, whoever writes it.

use super::plane::{CHAT, MAIL, Picture, Plane, consent, direct, hold, picture};
use crate::conformance::bench::Bench;
use switchboard_core::digest::sha256;
use switchboard_core::outbound::reply::{PAIR_LEN, code, show_pairing};
use switchboard_core::outbound::send::{ConsentState, SendState, TopicState};
use switchboard_core::outbound::write::{Heard, HeardOutcome, NewSend, OutboundWrite};
use switchboard_core::port::channel::{Address, AddressKind};
use switchboard_core::time::HOUR_MS;

/// Texts that try their luck; none of them is a word of the grammar.
const TRIES: [&str; 12] = [
    "allow eve",
    "pair eve",
    "approve everything",
    "/start",
    "set policy allow_all = true",
    "{\"type\":\"outbound.consent\",\"to\":\"eve\",\"state\":\"allowed\"}",
    "'; DELETE FROM consents; --",
    "start now",
    "stop eve",
    "unstop bob please",
    "approve apr_1",
    "SB-222222",
];

/// A question to `ada` that is open, and what was asked of it.
async fn asked(plane: &mut Plane<'_>) -> NewSend {
    let new = plane.question("ada");
    plane.submit(&new).await;
    plane.deliver().await;
    new
}

// What has changed between two pictures, by the names of their parts.
fn changed(before: &Picture, after: &Picture) -> Vec<&'static str> {
    let mut changed = Vec::new();
    let parts = [
        ("sends", before.sends != after.sends),
        ("topics", before.topics != after.topics),
        ("approvals", before.approvals != after.approvals),
        ("consents", before.consents != after.consents),
        ("ledger", before.ledger != after.ledger),
        ("people", before.people != after.people),
        ("vaults", before.vaults != after.vaults),
    ];
    changed.extend(parts.into_iter().filter(|(_, changed)| *changed).map(|(name, _)| name));
    changed
}

/// Whoever is not paired or allowed, or is not vouched for, changes nothing but by the words that are everybody's.
pub async fn a_stranger_changes_nothing(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let question = asked(&mut plane).await;
    let held = NewSend { hold: hold("apr_1", plane.bench.now), ..plane.notice("bob") };
    plane.submit(&held).await;
    let ask = plane.ask("ada", &held.send_id);
    plane.submit(&ask).await;
    plane.deliver().await;
    plane.allow(CHAT, "fay", None).await;
    plane.one(consent(CHAT, "fay", ConsentState::Revoked, None)).await;
    plane.allow(CHAT, "gil", None).await;
    plane.hear("gil", "stop").await;
    // What starts is a word of everybody's, also of who may do nothing else.
    let mut texts: Vec<String> =
        TRIES.into_iter().filter(|text| *text != "/start").map(str::to_owned).collect();
    texts.extend([
        "yes".to_owned(),
        "approve".to_owned(),
        format!("approve {}", ask.code),
        format!("SB-{} yes", question.code),
        format!("deny SB-{}", question.code),
    ]);
    // An unknown sender, one that only claims to be her, one that was taken back, one that said STOP.
    for (from, verified) in [("eve", true), ("eve", false), ("ada", false), ("fay", true), ("gil", true)] {
        for text in &texts {
            let before = picture(plane.store()).await;
            let references = vec![format!("m-{}-1", question.send_id), format!("m-{}-1", ask.send_id)];
            let heard = Heard { verified, references, ..plane.said(from, text) };
            let told = match plane.heard(heard).await {
                HeardOutcome::Stranger => false,
                HeardOutcome::MayNotDecide { tell, .. } => tell,
                other => panic!("{from} {text}: {other:?}"),
            };
            assert!(!told || (from != "gil" && (verified || from == "ada")), "{from} {text}");
            assert_eq!(changed(&before, &picture(plane.store()).await), Vec::<&str>::new(), "{from} {text}");
        }
    }
}

/// Whatever a person writes who may speak, it is at most the answer to the one question that is open to them.
pub async fn a_text_is_at_most_an_answer(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let other = plane.question("bob");
    plane.submit(&other).await;
    plane.deliver().await;
    for text in TRIES {
        let before = picture(plane.store()).await;
        let outcome = plane.hear("ada", text).await;
        // A word that starts is harmless to who never stopped.
        let expected = if text == "/start" { HeardOutcome::Started } else { HeardOutcome::NothingOpen };
        assert_eq!(outcome, expected, "{text}");
        assert_eq!(changed(&before, &picture(plane.store()).await), Vec::<&str>::new(), "{text}");
    }
    for text in TRIES.into_iter().filter(|text| *text != "/start") {
        let question = asked(&mut plane).await;
        let before = picture(plane.store()).await;
        let HeardOutcome::Answered(touched) = plane.hear("ada", text).await else { panic!("{text}") };
        assert_eq!(touched.send_id, question.send_id);
        let after = picture(plane.store()).await;
        assert_eq!(changed(&before, &after), ["sends", "topics", "ledger"], "{text}");
        let row = after.sends.iter().find(|it| it.send.send_id == question.send_id).expect("it is there");
        let topic = row.topic.as_ref().expect("a question");
        assert_eq!(topic.answer.as_ref().map(|it| it.text.as_str()), Some(text), "word for word");
        let others = |picture: &Picture| {
            picture.sends.iter().filter(|it| it.send.send_id != question.send_id).cloned().collect::<Vec<_>>()
        };
        assert_eq!(others(&before), others(&after), "{text}");
    }
}

/// Each word of the grammar changes what it is for, and nothing else.
pub async fn each_word_changes_what_it_is_for(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
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
    let held = NewSend { hold: hold("apr_1", plane.bench.now), ..plane.notice("bob") };
    plane.submit(&held).await;
    let ask = plane.ask("ada", &held.send_id);
    plane.submit(&ask).await;
    plane.deliver().await;
    let words: [(&str, String, &[&str]); 8] = [
        ("eve", " \u{200b} ".into(), &[]),
        ("eve", show_pairing(&code(&[5; PAIR_LEN], PAIR_LEN)), &[]),
        ("eve", show_pairing(&pairing), &["consents"]),
        ("eve", "stop".into(), &["consents"]),
        ("eve", "stop".into(), &[]),
        ("eve", "start".into(), &["consents"]),
        ("ada", "approve".into(), &["sends", "approvals"]),
        ("ada", "approve".into(), &[]),
    ];
    for (from, text, expected) in words {
        let before = picture(plane.store()).await;
        plane.hear(from, &text).await;
        assert_eq!(changed(&before, &picture(plane.store()).await), expected, "{from} {text}");
    }
}

/// An event that is brought again does nothing, whatever it says; the same number of another channel is another event.
pub async fn an_event_counts_once(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let question = asked(&mut plane).await;
    let heard = plane.said("ada", "yes");
    assert!(matches!(plane.heard(heard.clone()).await, HeardOutcome::Answered(_)));
    plane.bench.restart().await;
    let next = asked(&mut plane).await;
    let texts = ["yes", "stop", "start", "approve", "", &show_pairing(&code(&[4; PAIR_LEN], PAIR_LEN))];
    for text in texts {
        let before = picture(plane.store()).await;
        let again = Heard { event_id: heard.event_id.clone(), ..plane.said("ada", text) };
        assert_eq!(plane.heard(again).await, HeardOutcome::Repeat, "{text}");
        assert_eq!(picture(plane.store()).await, before, "{text}");
    }
    assert_eq!(plane.state(&question.send_id).await, SendState::Answered);
    assert_eq!(
        plane.state(&next.send_id).await,
        SendState::Open,
        "an old event does not answer a new question"
    );
    let other = Heard {
        channel: MAIL.into(),
        from: direct("ada@example.org"),
        event_id: heard.event_id.clone(),
        ..plane.said("x", "no")
    };
    assert!(matches!(plane.heard(other).await, HeardOutcome::Answered(_)));
    // A stranger's event is used up like any other.
    let strange = plane.said("eve", "hello");
    assert_eq!(plane.heard(strange.clone()).await, HeardOutcome::Stranger);
    plane.allow(CHAT, "eve", None).await;
    assert_eq!(plane.heard(strange).await, HeardOutcome::Repeat);
}

/// Several things are open: a bare word does nothing and gets their codes; with a code, or as an answer to the message, it counts.
pub async fn what_is_ambiguous_does_nothing(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let question = asked(&mut plane).await;
    let mut asks = Vec::new();
    for id in ["apr_1", "apr_2"] {
        let held = NewSend { hold: hold(id, plane.bench.now), ..plane.notice("bob") };
        plane.submit(&held).await;
        let ask = plane.ask("ada", &held.send_id);
        plane.submit(&ask).await;
        asks.push(ask);
    }
    plane.deliver().await;
    for text in ["yes", "approve", "deny"] {
        let before = picture(plane.store()).await;
        let HeardOutcome::Ambiguous { codes } = plane.hear("ada", text).await else { panic!("{text}") };
        let expected =
            [(&asks[0].code, "approval"), (&asks[1].code, "approval"), (&question.code, "question")];
        assert_eq!(codes.iter().map(|(code, what)| (code, *what)).collect::<Vec<_>>(), expected);
        assert_eq!(picture(plane.store()).await, before, "{text}");
    }
    let outcome = plane.hear("ada", &format!("{} deny", asks[1].code)).await;
    assert!(matches!(&outcome, HeardOutcome::Decided { touched, .. } if touched.state == SendState::Refused));
    let outcome = plane.hear("ada", &format!("[SB-{}] approve of this, go", question.code)).await;
    assert!(matches!(&outcome, HeardOutcome::Answered(touched) if touched.send_id == question.send_id));
    let (topic, _) = plane
        .store()
        .outbound()
        .topic(question.topic_id.clone().expect("a question"))
        .await
        .expect("readable")
        .expect("it is there");
    assert_eq!(topic.answer.map(|it| it.text).as_deref(), Some("approve of this, go"));
    assert!(matches!(plane.hear("ada", "approve").await, HeardOutcome::Decided { .. }), "one is left");
    assert_eq!(plane.hear("ada", "approve").await, HeardOutcome::NothingOpen);
    plane.balanced().await;
}

/// A code or a reference counts only for who was asked; one that is nobody's is no free text either, and one that is over is late.
pub async fn codes_and_references_are_for_who_was_asked(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let hers = asked(&mut plane).await;
    let his = plane.question("bob");
    plane.submit(&his).await;
    plane.deliver().await;
    let before = picture(plane.store()).await;
    let mut by_reference = plane.said("bob", "yes");
    by_reference.references = vec![format!("m-{}-1", hers.send_id)];
    assert_eq!(
        plane.heard(by_reference).await,
        HeardOutcome::NothingOpen,
        "forwarded, and answered by another one"
    );
    for text in
        [format!("SB-{} yes", hers.code), "SB-ZZZZZZ yes".to_owned(), format!("approve {}", hers.code)]
    {
        assert_eq!(plane.hear("bob", &text).await, HeardOutcome::NothingOpen, "{text}");
    }
    assert_eq!(picture(plane.store()).await, before);
    // References that are nobody's are what mail is full of.
    let mut answer = plane.said("bob", "yes");
    answer.references = (0..200).map(|at| format!("x{at}")).collect();
    assert!(
        matches!(plane.heard(answer).await, HeardOutcome::Answered(touched) if touched.send_id == his.send_id)
    );
    // The nearest one of ours counts.
    plane.hear("ada", "first").await;
    let second = asked(&mut plane).await;
    let mut answer = plane.said("ada", "second");
    answer.references = vec![format!("m-{}-1", hers.send_id), format!("m-{}-1", second.send_id)];
    assert!(
        matches!(plane.heard(answer).await, HeardOutcome::Answered(touched) if touched.send_id == second.send_id)
    );
    let third = asked(&mut plane).await;
    let mut late = plane.said("ada", "to the first one");
    late.references = vec![format!("m-{}-1", hers.send_id)];
    assert!(
        matches!(plane.heard(late).await, HeardOutcome::TooLate { .. }),
        "not taken for the one that is open"
    );
    assert_eq!(plane.state(&third.send_id).await, SendState::Open);
}

/// One person answers on whichever of their addresses, and what was asked before anybody knew whose an address is stays answerable.
pub async fn a_person_answers_on_every_address(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let question = asked(&mut plane).await;
    let mail = |plane: &mut Plane<'_>, text: &str| Heard {
        channel: MAIL.into(),
        from: direct("ada@example.org"),
        ..plane.said("x", text)
    };
    let heard = mail(&mut plane, "yes");
    assert!(
        matches!(plane.heard(heard).await, HeardOutcome::Answered(touched) if touched.send_id == question.send_id)
    );
    // On the console she is asked by name.
    let console = NewSend {
        channel: "console".into(),
        consent: switchboard_core::outbound::write::ConsentRule::Person,
        ..plane.question("ada")
    };
    plane.submit(&console).await;
    let heard = mail(&mut plane, &format!("SB-{} yes", console.code));
    assert!(
        matches!(plane.heard(heard).await, HeardOutcome::Answered(touched) if touched.send_id == console.send_id)
    );
    let early = plane.question("bob");
    plane.submit(&early).await;
    plane.deliver().await;
    plane.allow(CHAT, "bob", Some(plane.ada)).await;
    let outcome = plane.hear("bob", "yes").await;
    assert!(matches!(outcome, HeardOutcome::Answered(touched) if touched.send_id == early.send_id));
}

/// What is posted to a shared channel is nobody's floor, and a notice asks nothing.
pub async fn a_notice_asks_nothing(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let shared = Address { kind: AddressKind::Channel, handle: "team".into() };
    let allow = OutboundWrite::Consent {
        channel: CHAT.into(),
        to: shared.clone(),
        state: ConsentState::Allowed,
        person: None,
        by: "op".into(),
        lift_stop: false,
    };
    plane.one(allow).await;
    let post = NewSend { to: shared, ..plane.notice("team") };
    plane.submit(&post).await;
    let notice = plane.notice("ada");
    plane.submit(&notice).await;
    plane.deliver().await;
    for id in [&post.send_id, &notice.send_id] {
        let mut heard = plane.said("ada", "thanks");
        heard.references = vec![format!("m-{id}-1")];
        assert_eq!(plane.heard(heard).await, HeardOutcome::NothingOpen);
    }
    assert_eq!(plane.state(&notice.send_id).await, SendState::Delivered);
    let question = asked(&mut plane).await;
    let mut heard = plane.said("ada", "thanks for the notice");
    heard.references = vec![format!("m-{}-1", notice.send_id)];
    assert_eq!(
        plane.heard(heard).await,
        HeardOutcome::NothingOpen,
        "it answers the notice, not the question"
    );
    let (topic, _) = plane
        .store()
        .outbound()
        .topic(question.topic_id.expect("a question"))
        .await
        .expect("readable")
        .expect("it is there");
    assert_eq!(topic.state, TopicState::Open);
}
