//! What goes out.

use super::*;
use serde_json::Value;
use switchboard_channels::conformance::Wait;
use switchboard_core::port::channel::{Amendment, Button, Dedup, FailureClass, NotSent, Performed};

const HTML: &str = "<!DOCTYPE html><title>Access denied</title>";

fn refused(performed: Performed) -> NotSent {
    match performed {
        Performed::NotSent(why) => why,
        other => panic!("{other:?}"),
    }
}

fn sent(performed: &Performed) -> String {
    match performed {
        Performed::Sent { message_id: Some(id) } => id.clone(),
        other => panic!("{other:?}"),
    }
}

fn shared(attempt: Attempt) -> Attempt {
    Attempt { to: Address { kind: AddressKind::Channel, handle: SHARED.into() }, ..attempt }
}

fn calls(service: &standin::Discord, end: &str) -> usize {
    service.calls().iter().filter(|call| call.ends_with(end)).count()
}

#[tokio::test]
async fn a_repeat_is_the_same_message_and_mentions_nobody() {
    let (service, channel) = start().await;
    let attempt = attempt(&channel, &notice("@everyone <@1100000000000000003> https://x.test"));
    service.script(Behaviour::AcceptThenSilence);
    service.script(Behaviour::AcceptThenFail);
    for number in 1..=2 {
        let performed = channel.perform(cleared(&Attempt { attempt: number, ..attempt.clone() })).await;
        assert!(matches!(performed, Performed::Unknown { .. }), "{performed:?}");
    }
    let id = sent(&channel.perform(cleared(&attempt)).await);
    let accepted = service.accepted();
    assert_eq!(accepted.len(), 3);
    assert!(accepted.iter().all(|(body, given)| *given == id && *body == accepted[0].0), "one message");
    assert_eq!(service.bot_texts().len(), 1);
    let body = &accepted[0].0;
    assert_eq!(body["allowed_mentions"]["parse"], serde_json::json!([]));
    assert_eq!((&body["enforce_nonce"], &body["flags"]), (&Value::Bool(true), &serde_json::json!(4)));
    assert_eq!(calls(&service, "/users/@me/channels"), 1, "where direct messages go is remembered");
    assert_eq!(channel.capabilities().dedup, Dedup::ByIdWithin(60_000));
}

#[tokio::test]
async fn whoever_cannot_be_reached_is_a_bad_address() {
    let (service, channel) = start().await;
    let to_ada = attempt(&channel, &notice("hello"));
    let unknown = Address { kind: AddressKind::Direct, handle: "1100000000000000099".into() };
    let why = refused(channel.perform(cleared(&Attempt { to: unknown, ..to_ada.clone() })).await);
    assert_eq!((why.class, why.code.as_deref()), (FailureClass::BadAddress, Some("50033")));
    let unknown = Address { kind: AddressKind::Channel, handle: "1100000000000000099".into() };
    let why = refused(channel.perform(cleared(&Attempt { to: unknown, ..to_ada.clone() })).await);
    assert_eq!((why.class, why.code.as_deref()), (FailureClass::BadAddress, Some("10003")));
    service.block(ADA);
    let why = refused(channel.perform(cleared(&to_ada)).await);
    assert_eq!((why.class, why.code.as_deref()), (FailureClass::BadAddress, Some("50007")));
    assert!(service.accepted().is_empty());
}

#[tokio::test]
async fn what_fails_while_the_way_is_opened_has_sent_nothing() {
    let (service, channel) = start().await;
    let attempt = attempt(&channel, &notice("hello"));
    for (status, body, class) in [
        (500, "{}", FailureClass::Transient),
        (200, "{}", FailureClass::Transient),
        (429, "{\"retry_after\": 0.2}", FailureClass::Throttled),
        (
            400,
            "{\"code\":40003,\"message\":\"You are opening direct messages too fast.\"}",
            FailureClass::Throttled,
        ),
        (401, "{\"code\":0}", FailureClass::Misconfigured),
    ] {
        service.answer_next("POST", "/users/@me/channels", status, "", body);
        assert_eq!(refused(channel.perform(cleared(&attempt)).await).class, class, "{status}");
    }
    assert_eq!(service.contacts(), 0);
    sent(&channel.perform(cleared(&attempt)).await);
}

#[tokio::test]
async fn waits_hold_where_they_belong() {
    let (service, channel) = start().await;
    let attempt = shared(attempt(&channel, &notice("hello")));
    let throttled = async |headers: &str, body: &str| {
        service.answer_next("POST", "/messages", 429, headers, body);
        let why = refused(channel.perform(cleared(&attempt)).await);
        assert_eq!(why.class, FailureClass::Throttled);
        (why.retry_after_ms, why.account_wide)
    };
    let json = "{\"message\":\"You are being rate limited.\",\"retry_after\":1.2901,\"global\":false}";
    assert_eq!(throttled("retry-after: 1\r\n", json).await, (Some(1_291), false));
    let global = json.replace("false", "true");
    assert_eq!(throttled("retry-after: 2\r\n", &global).await, (Some(2_000), true));
    assert_eq!(throttled("x-ratelimit-global: true\r\n", json).await, (Some(1_291), true));
    assert_eq!(
        throttled("retry-after: 600\r\n", HTML).await,
        (Some(600_000), true),
        "of what stands before the API"
    );
    service.answer_next("POST", "/messages", 403, "", HTML);
    let why = refused(channel.perform(cleared(&attempt)).await);
    assert_eq!((why.class, why.account_wide), (FailureClass::Transient, true));
    service.script(Behaviour::Throttle(Wait::Body(1)));
    assert_eq!(refused(channel.perform(cleared(&attempt)).await).retry_after_ms, Some(1));
}

#[tokio::test]
async fn a_window_that_is_used_up_is_left_alone() {
    let (service, channel) = start().await;
    let to_shared = shared(attempt(&channel, &notice("hello")));
    let last = "x-ratelimit-remaining: 0\r\nx-ratelimit-reset-after: 1.5\r\n";
    service.answer_next("POST", "/messages", 200, last, "{\"id\":\"1100000000000000050\"}");
    sent(&channel.perform(cleared(&to_shared)).await);
    let why = refused(channel.perform(cleared(&to_shared)).await);
    assert_eq!(
        (why.class, why.retry_after_ms, why.account_wide),
        (FailureClass::Throttled, Some(1_500), false)
    );
    assert_eq!(calls(&service, "/messages"), 1, "nothing was asked");
    sent(&channel.perform(cleared(&attempt(&channel, &notice("hello")))).await);
}

#[tokio::test]
async fn an_answer_stands_under_what_it_answers_if_that_is_there() {
    let (service, channel) = start().await;
    let question = service.write_shared(ADA, "<@1100000000000000001> what now?", None);
    let mut attempt = shared(attempt(&channel, &notice("this")));
    attempt.references =
        vec!["nonsense".into(), question.clone(), "1100000000000000050:1100000000000000051".into()];
    let id = sent(&channel.perform(cleared(&attempt)).await);
    assert_eq!(
        service.message(&id).unwrap()["message_reference"]["message_id"],
        question.split_once(':').unwrap().1
    );
    service.delete(&question);
    attempt.delivery = "dlv_01JD-8".into();
    let id = sent(&channel.perform(cleared(&attempt)).await);
    assert_eq!(service.message(&id).unwrap()["message_reference"], Value::Null, "it is sent all the same");
}

#[tokio::test]
async fn rows_of_buttons_go_when_it_is_decided() {
    let (service, channel) = start().await;
    let buttons: Vec<Button> = (1..=7)
        .map(|number| Button { label: format!("Choice {number}"), value: format!("SB-K7.{number}") })
        .collect();
    let draft = Draft { buttons: &buttons, kind: MessageKind::Approval, ..notice("Which?") };
    let attempt = attempt(&channel, &draft);
    let id = sent(&channel.perform(cleared(&attempt)).await);
    let rows = service.message(&id).unwrap()["components"].as_array().unwrap().len();
    assert_eq!(rows, 2);
    let amendment = Amendment {
        delivery: attempt.delivery.clone(),
        to: attempt.to.clone(),
        message_id: id.clone(),
        part: attempt.part.clone(),
        outcome: "Ada chose 3 @everyone".into(),
    };
    assert_eq!(sent(&channel.amend(amendment.clone()).await), id);
    let shown = service.message(&id).unwrap();
    assert!(shown["content"].as_str().unwrap().ends_with("\n\nAda chose 3 \\@everyone"), "{shown}");
    assert_eq!(shown["components"], serde_json::json!([]));
    for (message_id, code) in [("1:2", None), ("1100000000000000050:1100000000000000051", Some("10008"))] {
        let amendment = Amendment { message_id: message_id.into(), ..amendment.clone() };
        let why = refused(channel.amend(amendment).await);
        assert_eq!((why.class, why.code.as_deref()), (FailureClass::Permanent, code));
    }
}

#[tokio::test]
async fn a_long_message_arrives_whole_and_in_order() {
    let (service, channel) = start().await;
    let body =
        "Zal\u{310}\u{311}\u{312}go, \u{202e}turned\u{202c}, _marks_ and https://x.test/a_b. ".repeat(1200);
    let parts = channel.prepare(&notice(&body[..body.floor_char_boundary(64 * 1024)])).unwrap();
    assert!(parts.len() > 30);
    for (number, part) in parts.iter().enumerate() {
        let delivery = format!("dlv_{number}");
        let attempt = Attempt { part: part.clone(), delivery, ..attempt(&channel, &notice("x")) };
        sent(&channel.perform(cleared(&attempt)).await);
    }
    assert_eq!(service.bot_texts(), parts.iter().map(|part| part.text.clone()).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_token_that_holds_no_more_is_said_with_its_remedy() {
    let (service, channel) = start().await;
    assert_eq!(channel.check().await.unwrap().account, "switchboard (1100000000000000001)");
    sent(&channel.perform(cleared(&attempt(&channel, &notice("hello")))).await);
    service.revoke();
    let why = refused(channel.perform(cleared(&attempt(&channel, &notice("hello")))).await);
    assert_eq!((why.class, why.account_wide), (FailureClass::Misconfigured, true));
    let checked = channel.check().await.unwrap_err();
    for sentence in [why.reason, checked] {
        assert!(sentence.contains("copy it again") && !sentence.contains(SECRET), "{sentence}");
    }
}

#[tokio::test]
async fn the_check_invites_and_looks_at_the_intent() {
    let (service, _) = start().await;
    let settings = Settings { message_content: true, ..settings(&service, "chat") };
    let channel = Discord::new(settings).unwrap();
    let invite = channel.check().await.unwrap().invite.unwrap();
    assert!(invite.contains("{code}") && invite.contains("https://discord.com/users/1100000000000000001"));
    service.answer_next("GET", "/applications/@me", 200, "", "{\"id\":\"1100000000000000001\",\"flags\":0}");
    assert!(channel.check().await.unwrap_err().contains("Message Content Intent"));
}

#[tokio::test]
async fn several_bots_are_kept_apart() {
    let services = [standin::Discord::start(&token()).await, standin::Discord::start(&token()).await];
    let channels =
        [0, 1].map(|number| Discord::new(settings(&services[number], &format!("chat{number}"))).unwrap());
    for (number, channel) in channels.iter().enumerate() {
        sent(&channel.perform(cleared(&attempt(channel, &notice(&format!("bot {number}"))))).await);
    }
    for (number, service) in services.iter().enumerate() {
        assert!(service.bot_texts().concat().ends_with(&format!("bot {number}")));
        assert_eq!(service.contacts(), 1);
    }
}

#[tokio::test]
async fn bad_settings_are_refused_without_repeating_them() {
    let (service, _) = start().await;
    let bad: [fn(&mut Settings); 8] = [
        |settings| settings.name = "Bad Name".into(),
        |settings| settings.token = "".into(),
        |settings| settings.token = "Bot canary".into(),
        |settings| settings.token = "can\nary".into(),
        |settings| settings.api = "ftp://canary".into(),
        |settings| settings.api = "canary".into(),
        |settings| settings.connect_timeout = Duration::ZERO,
        |settings| settings.timeout = settings.connect_timeout,
    ];
    for (number, change) in bad.into_iter().enumerate() {
        let mut settings = settings(&service, "chat");
        change(&mut settings);
        let why = Discord::new(settings).err().unwrap_or_else(|| panic!("setting {number} is taken"));
        assert!(!why.contains("canary") && !why.contains("can\nary"), "{why}");
    }
}
