//! What comes in: who is heard, once, in order, and what is said to them.

use super::{NOTICE, PATIENCE, Set, Taker, Way, attempt};
use serde_json::json;
use switchboard_core::port::channel::{
    AddressKind, Button, Channel as _, Draft, IncomingKind, MessageKind, Origin, Performed, Pushed,
};
use switchboard_standin::slack::{ADA, BOT_USER, GENERAL};

const NOW_S: i64 = super::NOW_MS / 1000;

fn text(text: &str) -> IncomingKind {
    IncomingKind::Text { text: text.into() }
}

fn question(buttons: &[Button]) -> Draft<'_> {
    Draft { kind: MessageKind::Question, code: Some("K7QD"), buttons, ..NOTICE }
}

#[tokio::test]
async fn who_is_heard_alone_and_in_shared_channels() {
    let set = Set::start(Way::Socket).await;
    let taker = Taker::new(0, None);
    let _listening = set.listen(&taker);
    let posted = set.perform(&attempt(&*set.channel, &NOTICE, AddressKind::Channel)).await;
    let Performed::Sent { message_id: Some(ours) } = posted else { panic!("{posted:?}") };
    let ts = ours.split_once(':').unwrap().1;
    let theirs = set.standin.write("W012A3CDE", Some(GENERAL), None, "nobody meant us", "1");
    let other = theirs.split_once(':').unwrap().1;
    set.standin.write(ADA, Some(GENERAL), Some(other), "still not", "2");
    set.standin.write(ADA, Some(GENERAL), Some(ts), "yes", "3");
    set.standin.write("W012A3CDE", Some(GENERAL), None, &format!("<@{BOT_USER}> I say no"), "4");
    set.standin.write(ADA, None, None, "pair K7", "5");
    let seen = taker.until_seen(4).await;
    set.standin.until_acknowledged(6).await;
    assert_eq!(
        taker.seen().len(),
        4,
        "a mention that is told twice has one id, and the store drops the second"
    );
    assert_eq!(seen[0].what, text("yes"));
    assert_eq!((seen[0].from.as_str(), seen[0].place.as_deref()), (ADA, Some(GENERAL)));
    assert_eq!(seen[0].references, [ours]);
    assert_eq!(seen[0].origin, Origin::Verified { by: "gateway".into() });
    assert_eq!((&seen[1].what, seen[1].event_id == seen[2].event_id), (&text("I say no"), true));
    assert_eq!((&seen[3].what, seen[3].place.as_ref()), (&text("pair K7"), None));
    assert_eq!(seen[3].at_ms / 1000, NOW_S + 6);
}

#[tokio::test]
async fn echoes_bots_and_strange_payloads_are_acknowledged_and_dropped() {
    let set = Set::start(Way::Socket).await;
    let taker = Taker::new(0, None);
    let _listening = set.listen(&taker);
    let event = |event: serde_json::Value| json!({ "type": "event_callback", "team_id": "T024BE7LD", "event": event });
    let message = |user: &str| json!({ "type": "message", "channel": "D024BE7LH", "user": user, "text": "x", "ts": "1800000009.000100" });
    let mut bot = message(ADA);
    bot["bot_id"] = "B1".into();
    let mut joined = message(ADA);
    joined["subtype"] = "channel_join".into();
    let mut preview = json!({ "type": "message", "subtype": "message_changed", "channel": "D024BE7LH", "message": message(ADA), "previous_message": message(ADA) });
    preview["message"]["edited"] = json!({ "user": ADA, "ts": "1800000010.000100" });
    let mut elsewhere = event(message(ADA));
    elsewhere["team_id"] = "T0OTHER001".into();
    let payloads = [
        event(message(BOT_USER)),
        event(message("USLACKBOT")),
        event(message("../etc")),
        event(bot),
        event(joined),
        event(preview),
        elsewhere,
        event(json!({})),
        json!({}),
        json!(null),
        json!([1]),
        json!({ "type": "event_callback" }),
        event(json!({ "type": "message", "channel": 7, "user": [], "ts": {} })),
        event(json!({ "type": "reaction_added", "user": ADA })),
    ];
    let count = payloads.len();
    for payload in payloads {
        set.standin.bring("events_api", payload);
    }
    set.standin.bring("slash_commands", json!({ "command": "/x" }));
    set.standin.bring("unheard_of", json!({}));
    set.standin.until_acknowledged(count + 2).await;
    assert_eq!(taker.seen(), []);
}

#[tokio::test]
async fn forged_presses_are_dropped() {
    let set = Set::start(Way::Socket).await;
    let taker = Taker::new(0, None);
    let _listening = set.listen(&taker);
    let buttons = [Button { label: "Yes".into(), value: "SB-1.1".into() }];
    let id = set.post(&question(&buttons)).await;
    assert!(set.standin.press(ADA, &id, "SB-1.1"));
    let seen = taker.until_seen(1).await;
    assert_eq!(seen[0].what, IncomingKind::Button { value: "SB-1.1".into() });
    let (conversation, ts) = id.split_once(':').unwrap();
    let press = |change: fn(&mut serde_json::Value)| {
        let mut payload = json!({
            "type": "block_actions",
            "user": { "id": ADA },
            "container": { "type": "message", "message_ts": ts, "channel_id": conversation },
            "message": { "user": BOT_USER, "ts": ts },
            "actions": [{ "type": "button", "action_id": "switchboard_1", "value": "SB-1.1", "action_ts": "1800000011.000100" }],
        });
        change(&mut payload);
        payload
    };
    let forged: [fn(&mut serde_json::Value); 9] = [
        |payload| payload["actions"][0]["value"] = "x".repeat(65).into(),
        |payload| payload["actions"][0]["value"] = "ja ä".into(),
        |payload| payload["actions"][0]["value"] = json!({ "$gt": "" }),
        |payload| payload["actions"][0]["action_id"] = "other".into(),
        |payload| payload["actions"][0]["action_ts"] = "now".into(),
        |payload| payload["actions"] = json!([]),
        |payload| payload["message"]["user"] = "U0OTHER001".into(),
        |payload| payload["container"]["message_ts"] = "1;DROP".into(),
        |payload| payload["user"]["id"] = "nobody".into(),
    ];
    for change in forged {
        set.standin.bring("interactive", press(change));
    }
    set.standin.bring("interactive", press(|_| ()));
    let seen = taker.until_seen(2).await;
    assert_eq!(
        seen[1].event_id,
        format!("press:{id}:{ADA}:1800000011.000100"),
        "the genuine one came, and none before it"
    );
}

#[tokio::test]
async fn edits_and_deletions_carry_the_id_of_what_they_change() {
    let set = Set::start(Way::Socket).await;
    let taker = Taker::new(0, None);
    let _listening = set.listen(&taker);
    let id = set.standin.write(ADA, None, None, "yes", "1");
    set.standin.edit(&id, Some("no &amp; <b>"), "2");
    set.standin.edit(&id, None, "3");
    let seen = taker.until_seen(3).await;
    assert!(seen.iter().all(|one| one.message_id.as_deref() == Some(id.as_str())));
    assert_eq!(seen[1].what, IncomingKind::Edited { message_id: id.clone(), text: "no &amp; b".into() });
    assert_eq!(seen[2].what, IncomingKind::Deleted { message_id: id });
}

#[tokio::test]
async fn what_the_hub_says_goes_to_where_it_was_said_and_not_for_ever() {
    let set = Set::start(Way::Socket).await;
    let taker = Taker::new(0, Some("Thank you, <!channel> & all."));
    let _listening = set.listen(&taker);
    set.standin.write(ADA, Some(GENERAL), None, &format!("<@{BOT_USER}> hi"), "1");
    set.standin.until_messages(3).await;
    let answers =
        || set.standin.messages().into_iter().filter(|message| message.user == BOT_USER).collect::<Vec<_>>();
    assert!(answers().iter().all(|one| one.conversation == GENERAL && one.only_for.as_deref() == Some(ADA)));
    for number in 0..30 {
        set.standin.write(ADA, None, None, "again", &format!("d{number}"));
    }
    set.standin.until_acknowledged(32).await;
    set.standin.until_messages(1 + 30 + 20).await;
    set.standin.write("W012A3CDE", None, None, "me too", "w");
    set.standin.until_messages(1 + 30 + 20 + 2).await;
    let answers = answers();
    assert_eq!(
        answers.iter().filter(|one| one.only_for.is_some() || one.conversation == "D024BE7LH").count(),
        20
    );
    assert_eq!(answers.iter().filter(|one| one.conversation == "D012A3CDE").count(), 1);
    assert_eq!(answers[5].body["text"], "Thank you, &lt;!channel&gt; &amp; all.");
    assert_eq!(set.standin.called(), (Vec::new(), Vec::new()));
}

#[tokio::test]
async fn what_is_posted_is_believed_when_it_is_signed() {
    let set = Set::start(Way::Push).await;
    let taker = Taker::new(1, None);
    set.standin.write(ADA, None, None, "yes", "1");
    let pushed = set.standin.pushed(NOW_S);
    let answers = [
        set.channel.push(pushed.clone(), &*taker).await.status,
        set.channel.push(pushed.clone(), &*taker).await.status,
    ];
    assert_eq!(answers, [503, 200], "Slack posts again what is not answered with 200");
    let seen = taker.seen();
    assert_eq!(
        (seen[0].event_id == seen[1].event_id, &seen[1].origin),
        (true, &Origin::Verified { by: "signature".into() })
    );
    let buttons = [Button { label: "Yes & no".into(), value: "SB-1.1".into() }];
    let id = set.post(&question(&buttons)).await;
    set.standin.press(ADA, &id, "SB-1.1");
    assert_eq!(set.channel.push(set.standin.pushed(NOW_S), &*taker).await.status, 200);
    let seen = taker.seen();
    assert_eq!(
        (&seen[2].what, &seen[2].references),
        (&IncomingKind::Button { value: "SB-1.1".into() }, &vec![id])
    );
    let challenge =
        set.standin.sign(NOW_S, "application/json", br#"{"type":"url_verification","challenge":"3eZbrw1a"}"#);
    assert_eq!(set.channel.push(challenge, &*taker).await.body, br#"{"challenge":"3eZbrw1a"}"#);
    assert_eq!(taker.seen().len(), 3);
}

#[tokio::test]
async fn what_is_posted_otherwise_changes_nothing() {
    let set = Set::start(Way::Push).await;
    let taker = Taker::new(0, None);
    set.standin.write(ADA, None, None, "yes", "1");
    let good = set.standin.pushed(NOW_S);
    let with = |name: &str, value: Option<&str>| {
        let mut headers = good.headers.clone();
        headers.retain(|(header, _)| header != name);
        headers.extend(value.map(|value| (name.to_owned(), value.as_bytes().to_vec())));
        Pushed { headers, ..good.clone() }
    };
    let signed = |kind: &str, body: &str| set.standin.sign(NOW_S, kind, body.as_bytes());
    let form = "application/x-www-form-urlencoded";
    for (pushed, status) in [
        (with("x-slack-signature", None), 401),
        (with("x-slack-signature", Some("v0=00")), 401),
        (with("x-slack-request-timestamp", Some("1799999999")), 401),
        (set.standin.pushed(NOW_S - 301), 401),
        (set.standin.pushed(NOW_S + 301), 401),
        (Pushed { body: [&good.body[..], b" "].concat(), ..good.clone() }, 401),
        (with("content-type", None), 400),
        (with("content-type", Some("text/plain")), 400),
        (signed("application/json", "{"), 400),
        (signed("application/json", "[]"), 400),
        (signed("application/json", "\u{0}"), 400),
        (signed("application/json", r#"{"type":"url_verification"}"#), 400),
        (signed(form, "payload=%7B"), 400),
        (signed(form, "payload={}&payload={}"), 400),
        (signed(form, "ssl_check=1"), 200),
        (signed(form, "payload=%7B%7D"), 200),
        (signed("application/json", r#"{"type":"app_rate_limited"}"#), 200),
    ] {
        let answer = set.channel.push(pushed.clone(), &*taker).await;
        assert_eq!(answer.status, status, "{}", String::from_utf8_lossy(&pushed.body));
    }
    assert_eq!(taker.seen(), []);
    let unsigned = Set::start(Way::Socket).await;
    assert_eq!(unsigned.channel.push(good, &*taker).await.status, 404);
}

#[tokio::test]
async fn a_way_by_push_says_how_it_is() {
    let set = Set::start(Way::Push).await;
    set.standin.revoke(Some("token_revoked"));
    let taker = Taker::new(0, None);
    let _listening = set.listen(&taker);
    taker.until_health(Some("token_revoked")).await;
    set.standin.revoke(None);
    taker.until_health(None).await;
}

#[tokio::test]
async fn without_a_way_back_nothing_is_connected() {
    let set = Set::start(Way::None).await;
    let taker = Taker::new(0, None);
    let listening = set.channel.clone().listen(taker.clone());
    let ended = tokio::time::timeout(PATIENCE / 300, listening).await;
    assert!(ended.is_err() && set.standin.calls().is_empty() && taker.health.lock().is_empty());
}
