//! What goes out.

use super::fixture::{OWN, Party, settings, visible};
use super::{cleared, question, refused, sent};
use serde_json::{Value, json};
use std::sync::Arc;
use switchboard_channels::conformance::{Behaviour, SECRET};
use switchboard_channels::matrix::Matrix;
use switchboard_core::port::channel::{AddressKind, Amendment, Channel, FailureClass, Performed};
use switchboard_standin::synapse::Synapse;

/// Messages of a room that are not changes of others, as `user` sees them.
async fn messages(party: &Party, room: &str) -> Vec<Value> {
    let mut events = party.ada.events(room).await;
    events.retain(|event| {
        event["type"] == "m.room.message" && event["content"]["m.relates_to"]["rel_type"] != "m.replace"
    });
    events
}

#[tokio::test]
async fn the_same_transaction_after_a_crash_is_one_event() {
    let party = Party::start().await;
    let attempt = question(&*party.channel, "dlv_crash", AddressKind::Direct, &party.ada.id);
    party.proxy.script(Behaviour::AcceptThenReset);
    let first = party.channel.perform(cleared(&attempt)).await;
    assert!(matches!(first, Performed::Unknown { .. }), "{first:?}");
    // The hub starts anew and knows nothing but the delivery.
    let again = Matrix::new(settings(&party.proxy, &party.bot)).unwrap();
    let event = sent(&again, &attempt).await;
    assert_eq!(sent(&again, &attempt).await, event);
    let found = messages(&party, &party.room).await;
    assert_eq!(found.iter().map(|event| event["event_id"].as_str().unwrap()).collect::<Vec<_>>(), [event]);
    assert_eq!(found[0]["content"]["m.mentions"], json!({}));
    assert_eq!(
        found[0]["content"][OWN],
        json!({ "delivery": "dlv_crash", "choices": ["SB-K7QD3M.1", "SB-K7QD3M.2"] })
    );
}

#[tokio::test]
async fn a_person_without_a_room_gets_one_and_only_one() {
    let party = Party::start().await;
    let bea = Synapse::shared().await.register("bea").await;
    let attempts: Vec<_> = (0..6)
        .map(|n| question(&*party.channel, &format!("dlv_new{n}"), AddressKind::Direct, &bea.id))
        .collect();
    let at_once = attempts.iter().map(|attempt| sent(&*party.channel, attempt));
    futures_util::future::join_all(at_once).await;
    let direct = party.bot.get(&format!("user/{}/account_data/m.direct", party.bot.id)).await;
    let rooms = direct[&bea.id].as_array().unwrap().clone();
    assert_eq!((rooms.len(), *party.seen.rooms.borrow()), (1, 1));
    // Ended after it was made and before that was remembered: it is found, and nobody is invited into a second one.
    let mut forgotten = direct.clone();
    forgotten.as_object_mut().unwrap().remove(&bea.id);
    party.bot.call("PUT", &format!("user/{}/account_data/m.direct", party.bot.id), &forgotten).await;
    let again = Matrix::new(settings(&party.proxy, &party.bot)).unwrap();
    sent(&again, &question(&again, "dlv_later", AddressKind::Direct, &bea.id)).await;
    let direct = party.bot.get(&format!("user/{}/account_data/m.direct", party.bot.id)).await;
    assert_eq!(direct[&bea.id], json!(rooms));
    let room = rooms[0].as_str().unwrap();
    bea.join(room).await;
    let seen = bea.events(room).await;
    assert_eq!(seen.iter().filter(|event| event["type"] == "m.room.message").count(), 7);
    // Who leaves is not followed.
    bea.call("POST", &format!("rooms/{room}/leave"), &json!({})).await;
    let again = Matrix::new(settings(&party.proxy, &party.bot)).unwrap();
    let why = refused(&again, &question(&again, "dlv_gone", AddressKind::Direct, &bea.id)).await;
    assert_eq!(why.class, FailureClass::BadAddress, "{why:?}");
}

#[tokio::test]
async fn an_encrypted_room_is_refused_before_anything_is_sent() {
    let party = Party::start().await;
    let before = question(&*party.channel, "dlv_before", AddressKind::Direct, &party.ada.id);
    sent(&*party.channel, &before).await;
    let algorithm = json!({ "algorithm": "m.megolm.v1.aes-sha2" });
    let path = format!("rooms/{}/state/m.room.encryption/", party.room);
    party.ada.call("PUT", &path, &algorithm).await;
    let contacts = party.proxy.contacts();
    let again = Matrix::new(settings(&party.proxy, &party.bot)).unwrap();
    let why = refused(&again, &question(&again, "dlv_after", AddressKind::Direct, &party.ada.id)).await;
    assert_eq!(why.class, FailureClass::Permanent);
    assert!(
        why.reason.contains("end-to-end encrypted") && why.reason.contains("without encryption"),
        "{}",
        why.reason
    );
    assert_eq!(party.proxy.contacts(), contacts, "nothing was sent");
}

#[tokio::test]
async fn shared_rooms_are_found_by_id_and_alias() {
    let party = Party::start().await;
    let room = party.shared_room().await;
    for (delivery, to) in [("dlv_alias", party.alias.clone()), ("dlv_id", room.clone())] {
        sent(&*party.channel, &question(&*party.channel, delivery, AddressKind::Channel, &to)).await;
    }
    assert_eq!(messages(&party, &room).await.len(), 2);
    let nobody = question(&*party.channel, "dlv_none", AddressKind::Channel, "#nobody:hs.test");
    assert_eq!(refused(&*party.channel, &nobody).await.class, FailureClass::BadAddress);
    let theirs = party.ada.create_room(json!({ "preset": "private_chat" })).await;
    let outside =
        refused(&*party.channel, &question(&*party.channel, "dlv_out", AddressKind::Channel, &theirs)).await;
    assert_eq!(outside.class, FailureClass::Permanent);
    assert!(outside.reason.contains("invite it"), "{}", outside.reason);
}

#[tokio::test]
async fn an_outcome_is_shown_to_people() {
    let party = Party::start().await;
    let attempt = question(&*party.channel, "dlv_amend", AddressKind::Direct, &party.ada.id);
    let event = sent(&*party.channel, &attempt).await;
    let amendment = Amendment {
        delivery: attempt.delivery.clone(),
        to: attempt.to.clone(),
        message_id: event.clone(),
        part: attempt.part.clone(),
        outcome: "Answered by Ada: <yes>".into(),
    };
    for _ in 0..2 {
        let performed = party.channel.amend(amendment.clone()).await;
        assert_eq!(performed, Performed::Sent { message_id: Some(event.clone()) });
    }
    let changes: Vec<Value> = party.ada.events(&party.room).await;
    let changes: Vec<&Value> =
        changes.iter().filter(|event| event["content"]["m.relates_to"]["rel_type"] == "m.replace").collect();
    assert_eq!(changes.len(), 1, "made twice, it is one change");
    let shown = &changes[0]["content"]["m.new_content"];
    assert!(
        visible(shown["formatted_body"].as_str().unwrap()).ends_with("Answered by Ada: <yes>"),
        "{shown}"
    );
    assert_eq!(shown[OWN]["choices"], Value::Null);
}

/// As long as a part may be, with an outcome under it: within what a real homeserver takes.
#[tokio::test]
async fn the_longest_parts_are_taken() {
    let party = Party::start().await;
    let bodies = [
        "\"quoted\\ \n".repeat(20_000),
        "é🦀 <&> ".repeat(9000),
        format!("{}\n", "> ".repeat(20)).repeat(900),
    ];
    for (number, body) in bodies.iter().enumerate() {
        let mut attempt = question(&*party.channel, "dlv_long", AddressKind::Direct, &party.ada.id);
        let draft = switchboard_core::port::channel::Draft {
            body,
            kind: switchboard_core::port::channel::MessageKind::Notice,
            from: "builder",
            code: None,
            deadline_ms: None,
            buttons: &attempt.part.buttons.clone(),
            link: None,
        };
        for (at, part) in party.channel.prepare(&draft).unwrap().into_iter().enumerate() {
            (attempt.delivery, attempt.part) = (format!("dlv_long{number}_{at}"), part);
            let message_id = sent(&*party.channel, &attempt).await;
            let outcome = "&\"".repeat(200);
            let (delivery, to, part) = (attempt.delivery.clone(), attempt.to.clone(), attempt.part.clone());
            let amended = party.channel.amend(Amendment { delivery, to, message_id, part, outcome }).await;
            assert!(matches!(amended, Performed::Sent { .. }), "{amended:?}");
        }
    }
}

#[tokio::test]
async fn a_message_answers_what_it_continues_in_its_thread() {
    let party = Party::start().await;
    let first = question(&*party.channel, "dlv_one", AddressKind::Direct, &party.ada.id);
    let root = sent(&*party.channel, &first).await;
    let relation = json!({ "rel_type": "m.thread", "event_id": root });
    let content = json!({ "msgtype": "m.text", "body": "in a thread", "m.relates_to": relation });
    let theirs = party.ada.send_event(&party.room, "m.room.message", "thread", &content).await;
    let mut attempt = question(&*party.channel, "dlv_two", AddressKind::Direct, &party.ada.id);
    attempt.references = vec![root.clone(), "<a@mail.test>".into()];
    sent(&*party.channel, &attempt).await;
    (attempt.delivery, attempt.references) = ("dlv_three".into(), vec![root.clone(), theirs.clone()]);
    sent(&*party.channel, &attempt).await;
    (attempt.delivery, attempt.references) = ("dlv_four".into(), vec!["$nothing".into()]);
    sent(&*party.channel, &attempt).await;
    let found = messages(&party, &party.room).await;
    let relation = |delivery: &str| {
        let is_it = |event: &&Value| event["content"][OWN]["delivery"] == delivery;
        found.iter().find(is_it).unwrap()["content"]["m.relates_to"].clone()
    };
    assert_eq!(relation("dlv_two"), json!({ "m.in_reply_to": { "event_id": root } }));
    let in_thread = json!({
        "rel_type": "m.thread", "event_id": root, "is_falling_back": true, "m.in_reply_to": { "event_id": theirs },
    });
    assert_eq!(relation("dlv_three"), in_thread);
    assert_eq!(relation("dlv_four"), json!({ "m.in_reply_to": { "event_id": "$nothing" } }));
}

#[tokio::test]
async fn a_token_that_is_revoked_in_the_middle_is_said_so() {
    let party = Party::start().await;
    let checked = party.channel.check().await.unwrap();
    assert_eq!(checked.account, party.bot.id);
    assert!(checked.invite.unwrap().contains("{code}"));
    let attempt = question(&*party.channel, "dlv_revoked", AddressKind::Direct, &party.ada.id);
    sent(&*party.channel, &attempt).await;
    party.bot.call("POST", "logout", &json!({})).await;
    let why = refused(&*party.channel, &attempt).await;
    assert_eq!((why.class, why.code.as_deref()), (FailureClass::Misconfigured, Some("M_UNKNOWN_TOKEN")));
    let why = party.channel.check().await.unwrap_err();
    assert!(why.contains("sign in again"), "{why}");
    // A proxy that says our token back does not make us show it.
    party.proxy.refuse(Some((
        "403 Forbidden",
        &format!(r#"{{"errcode":"M_X","error":"bad {SECRET}{}"}}"#, party.bot.token),
    )));
    assert!(!party.channel.check().await.unwrap_err().contains(SECRET));
}

#[tokio::test]
async fn accounts_side_by_side_do_not_mix() {
    let (one, other) = tokio::join!(Party::start(), Party::start());
    let send = async |party: &Party| {
        let attempt = question(&*party.channel, "dlv_same", AddressKind::Direct, &party.ada.id);
        sent(&*party.channel, &attempt).await
    };
    let (first, second) = tokio::join!(send(&one), send(&other));
    assert_ne!(first, second);
    for party in [&one, &other] {
        assert_eq!(messages(party, &party.room).await.len(), 1);
    }
}

#[test]
fn settings_are_refused_with_a_sentence_and_without_values() {
    let clock = Arc::new(switchboard_core::time::ManualClock::at(0));
    let entropy = Arc::new(switchboard_core::random::SystemEntropy);
    let make = |homeserver: &str, change: fn(&mut switchboard_channels::matrix::Settings)| {
        let mut settings = switchboard_channels::matrix::Settings::new(
            "matrix",
            homeserver,
            SECRET.into(),
            clock.clone(),
            entropy.clone(),
        );
        change(&mut settings);
        Matrix::new(settings).map(drop)
    };
    for good in ["https://hs.test", "https://hs.test/matrix/", "http://127.0.0.1:8008", "http://localhost"] {
        assert_eq!(make(good, |_| ()), Ok(()), "{good}");
    }
    assert_eq!(make("http://hs.test", |settings| settings.plain_allowed = true), Ok(()));
    for bad in [
        "",
        "hs.test",
        "http://hs.test",
        "ftp://hs.test",
        "https://u:canary@hs.test",
        "https://hs.test/?canary",
    ] {
        let why = make(bad, |_| ()).unwrap_err();
        assert!(why.contains("homeserver") && !why.contains("canary"), "{why}");
    }
    let bad: [fn(&mut switchboard_channels::matrix::Settings); 4] = [
        |settings| settings.name = "A".into(),
        |settings| settings.connect_timeout = settings.timeout,
        |settings| settings.invite_servers = Some(vec!["https://hs.test".into()]),
        |settings| settings.authorities_pem = Some(b"none".to_vec()),
    ];
    for change in bad {
        assert!(make("https://hs.test", change).is_err());
    }
}
