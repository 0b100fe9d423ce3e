//! What comes in.

use super::*;
use serde_json::json;
use standin::{BEN, BOT, Upset};
use switchboard_core::port::channel::{Button, IncomingKind, Origin, Performed};

fn texts(seen: &[Incoming]) -> Vec<&str> {
    let text = |incoming| match incoming {
        &Incoming { what: IncomingKind::Text { ref text }, .. } => text.as_str(),
        other => panic!("{other:?}"),
    };
    seen.iter().map(text).collect()
}

/// A question with two buttons; its id.
async fn ask(channel: &Discord, to: AddressKind) -> String {
    let buttons = [("Yes", "SB-K7QD3M.1"), ("No", "SB-K7QD3M.2")];
    let buttons = buttons.map(|(label, value)| Button { label: label.into(), value: value.into() });
    let draft = Draft { buttons: &buttons, kind: MessageKind::Question, ..notice("Deploy now?") };
    let handle = if to == AddressKind::Direct { ADA } else { SHARED };
    let attempt = Attempt { to: Address { kind: to, handle: handle.into() }, ..attempt(channel, &draft) };
    match channel.perform(cleared(&attempt)).await {
        Performed::Sent { message_id: Some(id) } => id,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_person_answers_in_words() {
    let (service, channel) = start().await;
    let question = ask(&channel, AddressKind::Direct).await;
    let listening = Listening::start(&channel).await;
    let answer = service.write(ADA, "  yes, *go* on\n", Some(&question));
    let seen = listening.store.all(1).await;
    assert_eq!(
        seen,
        [Incoming {
            channel: "chat".into(),
            event_id: answer.split_once(':').unwrap().1.into(),
            from: ADA.into(),
            origin: Origin::Verified { by: "gateway".into() },
            what: IncomingKind::Text { text: "yes, *go* on".into() },
            message_id: Some(answer),
            place: None,
            references: vec![question],
            at_ms: seen[0].at_ms,
        }]
    );
    assert!((NOW_MS..NOW_MS + 60_000).contains(&seen[0].at_ms));
}

#[tokio::test]
async fn in_a_shared_channel_only_what_is_for_us_comes_in() {
    let (service, channel) = start().await;
    let question = ask(&channel, AddressKind::Channel).await;
    let listening = Listening::start(&channel).await;
    let other = service.write_shared(BEN, "nobody asked me", None);
    service.write_shared(BEN, "to somebody else", Some(&other));
    let told = service.write_shared(ADA, "silently yes", Some(&question));
    service.write_shared(ADA, &format!("<@{BOT}> yes"), Some(&question));
    let seen = listening.store.all(1).await;
    assert_eq!((texts(&seen), seen[0].place.as_deref()), (vec!["yes"], Some(SHARED)));
    assert_eq!(seen[0].references, [question]);
    assert_eq!(service.intents(), (1 << 9) | (1 << 12), "nothing privileged is asked for");
    // Whose answer Discord has kept from us is told so.
    service.until(|service| service.bot_texts().len() == 2).await;
    let (body, _) = service.accepted().pop().unwrap();
    assert!(body["content"].as_str().unwrap().contains("does not mention me"));
    assert_eq!(body["message_reference"]["message_id"], told.split_once(':').unwrap().1);
}

#[tokio::test]
async fn with_the_privileged_intent_replies_need_no_mention() {
    let service = standin::Discord::start(&token()).await;
    let channel =
        Arc::new(Discord::new(Settings { message_content: true, ..settings(&service, "chat") }).unwrap());
    let question = ask(&channel, AddressKind::Channel).await;
    let listening = Listening::start(&channel).await;
    service.write_shared(ADA, "unasked", None);
    service.write_shared(ADA, "silently yes", Some(&question));
    assert_eq!(texts(&listening.store.all(1).await), ["silently yes"]);
}

#[tokio::test]
async fn a_press_is_answered_when_it_is_stored() {
    let (service, channel) = start().await;
    let question = ask(&channel, AddressKind::Direct).await;
    let listening = Listening::begin(&channel);
    *listening.store.failures.lock() = 1;
    assert!(service.press(ADA, &question, "SB-K7QD3M.1"));
    assert!(!service.press(ADA, &question, "SB-K7QD3M.3"), "there is no such button");
    let seen = listening.store.all(1).await;
    assert_eq!(seen[0].what, IncomingKind::Button { value: "SB-K7QD3M.1".into() });
    assert_eq!((seen[0].from.as_str(), &seen[0].references), (ADA, &vec![question.clone()]));
    service.until(|service| service.callbacks().len() == 1).await;
    assert_eq!(service.callbacks()[0].1, json!({ "type": 6 }));
    *listening.store.sentence.lock() = Some("That was *answered* already @everyone".into());
    service.press(BEN, &question, "SB-K7QD3M.2");
    service.until(|service| service.callbacks().len() == 2).await;
    let (_, said) = service.callbacks().remove(1);
    assert_eq!((&said["type"], &said["data"]["flags"]), (&json!(4), &json!(68)));
    assert_eq!(said["data"]["content"], "That was \\*answered\\* already \\@everyone");
}

#[tokio::test]
async fn nothing_forged_is_a_press() {
    let (service, channel) = start().await;
    let question = ask(&channel, AddressKind::Direct).await;
    let listening = Listening::start(&channel).await;
    let (place, id) = question.split_once(':').unwrap();
    let press = |value: &str, token: &str, author: &str| {
        json!({
            "id": "1100000000000000077", "type": 3, "token": token, "channel_id": place,
            "data": { "custom_id": value, "component_type": 2 },
            "user": { "id": ADA, "username": "ada" },
            "message": { "id": id, "channel_id": place, "author": { "id": author } },
        })
    };
    let long = "x".repeat(101);
    for forged in [
        press("", "t", BOT),
        press(&long, "t", BOT),
        press("a b", "t", BOT),
        press("SB\u{202e}", "t", BOT),
        press("SB-K7QD3M.1", "../../users/@me", BOT),
        press("SB-K7QD3M.1", "t", BEN),
        json!({ "id": "1", "type": 3 }),
        json!([]),
        json!({ "id": "1100000000000000077", "type": 2, "token": "t", "data": { "name": "approve" } }),
    ] {
        service.dispatch("INTERACTION_CREATE", forged);
    }
    service.write(ADA, "after", None);
    assert_eq!(texts(&listening.store.all(1).await), ["after"]);
    assert!(service.callbacks().is_empty());
}

#[tokio::test]
async fn what_cannot_be_stored_is_brought_again_in_order() {
    let (service, channel) = start().await;
    let listening = Listening::start(&channel).await;
    *listening.store.failures.lock() = 2;
    for number in 0..5 {
        service.write(ADA, &number.to_string(), None);
    }
    assert_eq!(texts(&listening.store.all(5).await), ["0", "1", "2", "3", "4"]);
    service.until_acknowledged(5).await;
    let (begun, resumed) = service.sessions();
    assert_eq!(begun, 1, "the session is resumed");
    assert!(resumed >= 1);
    let faults = listening.store.faults.lock();
    assert!(faults.iter().flatten().any(|why| why.contains("cannot be stored")), "{faults:?}");
}

#[tokio::test]
async fn connections_come_and_go_and_nothing_is_missed() {
    let (service, channel) = start().await;
    // A slow machine must not take a connection for dead: only what is done to it here counts.
    service.set_heartbeat_ms(60_000);
    let listening = Listening::start(&channel).await;
    service.write(ADA, "first", None);
    listening.store.all(1).await;
    let upsets = [
        Upset::Reconnect,
        Upset::Invalid(true),
        Upset::Cut,
        Upset::Close(4000),
        Upset::Close(4008),
        Upset::Invalid(false),
        Upset::Close(4007),
        Upset::Close(4009),
        Upset::Close(1001),
    ];
    for (number, upset) in upsets.into_iter().enumerate() {
        let (begun, resumed) = service.sessions();
        service.upset(upset);
        service.until(|service| service.sessions() != (begun, resumed)).await;
        service.write(ADA, &format!("after {upset:?}"), None);
        listening.store.all(number + 2).await;
        let is_resumed = number < 5;
        let (begun_now, resumed_now) = service.sessions();
        assert_eq!((begun_now > begun, resumed_now > resumed), (!is_resumed, is_resumed), "{upset:?}");
    }
}

#[tokio::test]
async fn what_was_written_while_the_session_was_lost_is_fetched() {
    let (service, channel) = start().await;
    let listening = Listening::start(&channel).await;
    service.write(ADA, "before", None);
    listening.store.all(1).await;
    service.until_acknowledged(1).await;
    service.forget_sessions();
    for number in 0..150 {
        service.write(ADA, &format!("missed {number}"), None);
    }
    service.upset(Upset::Cut);
    let seen = listening.store.all(151).await;
    let expected: Vec<String> = (0..150).map(|number| format!("missed {number}")).collect();
    assert_eq!(texts(&seen[1..]), expected);
    assert!(
        service.calls().iter().filter(|call| call.starts_with("GET") && call.ends_with("/messages")).count()
            >= 2
    );
}

#[tokio::test]
async fn a_connection_that_is_dead_is_noticed() {
    let (service, channel) = start().await;
    let listening = Listening::start(&channel).await;
    service.set_answers_heartbeats(false);
    listening
        .store
        .until(|store| store.faults.lock().iter().flatten().any(|why| why.contains("heartbeats")))
        .await;
    service.set_answers_heartbeats(true);
    service.write(ADA, "still there?", None);
    assert_eq!(texts(&listening.store.all(1).await), ["still there?"]);
}

#[tokio::test]
async fn what_does_not_pass_by_itself_is_said_with_its_remedy() {
    let (service, channel) = start().await;
    let listening = Listening::start(&channel).await;
    let told = |part: &'static str| {
        let store = listening.store.clone();
        async move {
            store.until(|store| store.faults.lock().iter().flatten().any(|why| why.contains(part))).await;
        }
    };
    service.upset(Upset::Close(4014));
    told("switch on Message Content Intent").await;
    listening.store.until(|store| store.faults.lock().last() == Some(&None)).await;
    service.upset(Upset::Close(4013));
    told("does not know an intent").await;
    listening.store.until(|store| store.faults.lock().last() == Some(&None)).await;
    service.revoke();
    told("copy it again").await;
    let faults = listening.store.faults.lock();
    assert!(!format!("{faults:?}").contains(SECRET));
}

#[tokio::test]
async fn the_daily_number_of_sessions_is_respected() {
    let (service, channel) = start().await;
    let body = json!({
        "url": service.gateway_url(),
        "session_start_limit": { "total": 1000, "remaining": 0, "reset_after": 200, "max_concurrency": 1 },
    });
    service.answer_next("GET", "/gateway/bot", 200, "", &body.to_string());
    let listening = Listening::start(&channel).await;
    let faults = listening.store.faults.lock().clone();
    assert!(faults[0].as_ref().unwrap().contains("too many sessions"), "{faults:?}");
    assert_eq!(service.sessions(), (1, 0));
}

#[tokio::test]
async fn changes_are_told_of_and_our_own_are_not() {
    let (service, channel) = start().await;
    let listening = Listening::start(&channel).await;
    let id = service.write(ADA, "yes", None);
    listening.store.all(1).await;
    service.edit(&id, "no");
    service.edit(&id, "maybe");
    ask(&channel, AddressKind::Direct).await;
    service.delete(&id);
    let seen = listening.store.all(4).await;
    let edited = |text: &str| IncomingKind::Edited { message_id: id.clone(), text: text.into() };
    let what: Vec<_> = seen[1..].iter().map(|incoming| incoming.what.clone()).collect();
    assert_eq!(what, [edited("no"), edited("maybe"), IncomingKind::Deleted { message_id: id.clone() }]);
    assert!(seen.iter().all(|incoming| incoming.from == ADA));
    assert_eq!(seen[3].event_id, format!("{}:deleted", id.split_once(':').unwrap().1));
}

#[tokio::test]
async fn what_comes_twice_and_out_of_order_is_each_once() {
    let (service, channel) = start().await;
    let listening = Listening::start(&channel).await;
    let message = |id: &str, text: &str| {
        json!({
            "id": id, "channel_id": "1100000000000000060", "type": 0, "content": text,
            "author": { "id": ADA, "username": "ada" },
        })
    };
    for (id, text) in
        [("1100000000000000072", "two"), ("1100000000000000071", "one"), ("1100000000000000072", "two")]
    {
        service.dispatch("MESSAGE_CREATE", message(id, text));
    }
    service.dispatch("MESSAGE_CREATE", message("1100000000000000073", "three"));
    assert_eq!(texts(&listening.store.all(3).await), ["two", "one", "three"]);
}

#[tokio::test]
async fn senders_are_told_where_they_wrote_and_not_for_ever() {
    let (service, channel) = start().await;
    let listening = Listening::start(&channel).await;
    *listening.store.sentence.lock() = Some("Which one? <@1100000000000000003>".into());
    let first = service.write(ADA, "yes", None);
    service.until(|service| service.bot_texts().len() == 1).await;
    let (body, _) = service.accepted().remove(0);
    assert_eq!(body["content"], "Which one? \\<\\@1100000000000000003\\>");
    assert_eq!(body["message_reference"]["message_id"], first.split_once(':').unwrap().1);
    for number in 0..30 {
        service.write(ADA, &number.to_string(), None);
    }
    service.write(BEN, "me too", None);
    listening.store.all(32).await;
    service.until(|service| service.bot_texts().len() == 21).await;
    assert_eq!(service.contacts(), 21, "twenty to one sender, one to the other");
}
