//! What comes in: updates that are asked for, and updates that are posted.

use super::{ADA, GROUP, Hub, Listening, NOW_MS, Taker, notice, refused, settings, token};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use switchboard_channels::telegram::{Settings, Telegram, WebhookSettings};
use switchboard_core::port::channel::{
    Button, Channel as _, FailureClass, IncomingKind, MessageKind, Origin, Pushed,
};
use switchboard_standin::telegram::{self, EVE, Failure};

const SECRET: &str = "a-secret-of-the-webhook_0123456789";
const URL: &str = "https://hub.test/v1/channels/telegram/push";

fn text(text: &str) -> Value {
    json!({ "text": text })
}

fn said(what: &IncomingKind) -> &str {
    match what {
        IncomingKind::Text { text } | IncomingKind::Edited { text, .. } => text,
        other => panic!("{other:?}"),
    }
}

/// The texts of what comes in until `end` does.
async fn until(listening: &mut Listening, end: &str) -> Vec<String> {
    let mut texts = Vec::new();
    loop {
        match said(&listening.next().await.what) {
            text if text == end => return texts,
            text => texts.push(text.to_owned()),
        }
    }
}

/// The answer to a request for updates is lost, and so is its offset: the same is brought under the same number, and nothing moves on
/// before it is taken.
#[tokio::test]
async fn what_is_lost_on_the_way_is_brought_again() {
    let hub = Hub::start().await;
    let _ = hub.service.write(ADA, ADA, &text("one"));
    let _ = hub.service.write(ADA, ADA, &text("two"));
    hub.service.fail("getUpdates", Failure::Cut);
    let mut listening = hub.listen(Taker { failures: AtomicUsize::new(2), ..Taker::default() });
    assert!(listening.fault().await.contains("ended before"), "the first answer is lost");
    let mut ids = Vec::new();
    for expected in ["one", "one", "one", "two"] {
        let incoming = listening.next().await;
        assert_eq!(said(&incoming.what), expected);
        ids.push(incoming.event_id);
    }
    assert_eq!(ids, ["123456789:1001", "123456789:1001", "123456789:1001", "123456789:1002"]);
    hub.service.until_acknowledged(2).await;
    let offsets: Vec<Value> =
        hub.service.calls("getUpdates").iter().map(|call| call["offset"].clone()).collect();
    assert!(offsets[..4].iter().all(Value::is_null) && offsets.contains(&json!(1003)), "{offsets:?}");
    // A hub that starts anew has no offset, and gets nothing twice.
    drop(listening);
    let _ = hub.service.write(ADA, ADA, &text("three"));
    let mut listening = hub.listen(Taker::default());
    assert_eq!(said(&listening.next().await.what), "three");
}

#[tokio::test]
async fn two_that_ask_are_told_what_to_do() {
    let hub = Hub::start().await;
    let mut listening = hub.listen(Taker::default());
    assert_eq!(listening.health().await, None);
    hub.service.until_called("getUpdates", 2).await;
    let other = Arc::new(Telegram::new(settings(&hub.service, 123_456_789)).unwrap());
    let (taker, _came, _health) = Taker::default().ready();
    let rival = tokio::spawn(other.listen(taker));
    let fault = listening.fault().await;
    assert!(fault.contains("another program") && fault.contains("@BotFather"), "{fault}");
    rival.abort();
    listening.is_well().await;
}

#[tokio::test]
async fn a_webhook_is_in_the_way_until_it_is_removed() {
    let hub = Hub::start().await;
    hub.service.set_webhook("https://other.test/hook");
    let mut listening = hub.listen(Taker::default());
    let fault = listening.fault().await;
    assert!(fault.contains("webhook") && fault.contains("remove_webhook"), "{fault}");
    assert!(hub.service.calls("deleteWebhook").is_empty(), "it may be another's");
    let _ = hub.service.write(ADA, ADA, &text("hello"));
    let change = |settings: &mut Settings| settings.remove_webhook = true;
    let mut settings = settings(&hub.service, 123_456_789);
    change(&mut settings);
    drop(listening);
    let hub = Hub { channel: Arc::new(Telegram::new(settings).unwrap()), service: hub.service };
    let mut listening = hub.listen(Taker::default());
    assert_eq!(said(&listening.next().await.what), "hello");
}

#[tokio::test]
async fn a_token_that_is_revoked_says_so_on_both_ways() {
    let hub = Hub::start().await;
    let mut listening = hub.listen(Taker::default());
    assert_eq!(listening.health().await, None);
    hub.service.until_called("getUpdates", 2).await;
    hub.service.revoke();
    let why = refused(hub.send(ADA, &notice("hello")).await);
    assert_eq!(why.class, FailureClass::Misconfigured);
    let fault = listening.fault().await;
    assert!(fault.contains("Unauthorized") && fault.contains("@BotFather"), "{fault}");
    assert!(!format!("{why:?}{fault}").contains("AAAA"));
}

#[tokio::test]
async fn in_a_group_only_what_is_meant_for_us_comes_in() {
    let hub = Hub::start().await;
    let ours = hub.sent(GROUP, &notice("Deploy?")).await;
    let mut listening = hub.listen(Taker::default());
    let group = |content: Value| drop(hub.service.write(ADA, GROUP, &content));
    group(text("between ourselves"));
    group(text("@other_bot do it"));
    group(text("/start@other_bot"));
    let theirs = hub.service.write(EVE, GROUP, &text("who?"))["message_id"].clone();
    group(json!({ "text": "not to us", "reply_to": theirs }));
    group(json!({ "text": "yes", "reply_to": ours }));
    group(
        json!({ "text": "an anonymous administrator", "reply_to": ours, "sender_chat": { "id": GROUP, "type": "supergroup" } }),
    );
    group(json!({ "text": "of a bot", "reply_to": ours, "via_bot": { "id": 9, "is_bot": true } }));
    group(
        json!({ "text": "a bot", "reply_to": ours, "from": { "id": 9, "is_bot": true, "first_name": "b" } }),
    );
    group(text("@Switchboard_Bot 👍 no, wait"));
    group(text("so, @switchboard_bot, what?"));
    group(text("/approve@switchboard_bot K7QD3M"));
    group(json!({ "new_chat_title": "Other", "reply_to": ours }));
    let _ = hub.service.press(EVE, GROUP, ours, "SB-K7QD3M.1");
    let incoming = listening.next().await;
    assert_eq!((said(&incoming.what), incoming.place.clone()), ("yes", Some(GROUP.to_string())));
    assert_eq!(incoming.references, [format!("{GROUP}:{ours}")]);
    assert_eq!(incoming.from, ADA.to_string());
    assert_eq!(incoming.origin, Origin::Verified { by: "api".into() });
    for expected in ["👍 no, wait", "so, @switchboard_bot, what?", "/approve K7QD3M"] {
        assert_eq!(said(&listening.next().await.what), expected);
    }
    let press = listening.next().await;
    assert_eq!(press.what, IncomingKind::Button { value: "SB-K7QD3M.1".into() });
    assert_eq!((press.from, press.place, press.at_ms), (EVE.to_string(), Some(GROUP.to_string()), NOW_MS));
}

#[tokio::test]
async fn starting_stopping_and_blocking_are_the_hubs_words() {
    let hub = Hub::start().await;
    let mut listening = hub.listen(Taker::default());
    for (typed, expected) in [
        ("/start", "/start"),
        ("/start ABCD-2345", "/pair ABCD-2345"),
        ("/Stop", "STOP"),
        ("/stop it", "/stop it"),
        ("/pair ABCD-2345", "/pair ABCD-2345"),
    ] {
        let _ = hub.service.write(ADA, ADA, &text(typed));
        assert_eq!(said(&listening.next().await.what), expected);
    }
    hub.service.block(EVE, true);
    let stop = listening.next().await;
    assert_eq!((said(&stop.what), stop.from.as_str(), stop.place.as_deref()), ("STOP", "666", None));
    hub.service.block(EVE, false);
    let _ = hub.service.write(EVE, EVE, &text("back"));
    assert_eq!(said(&listening.next().await.what), "back", "taking the block back is no word");
}

#[tokio::test]
async fn attachments_are_lines() {
    let hub = Hub::start().await;
    let mut listening = hub.listen(Taker::default());
    let write = |content: Value| drop(hub.service.write(ADA, ADA, &content));
    write(json!({ "caption": "see", "photo": [{ "file_id": "a" }] }));
    write(json!({ "document": { "file_name": "a\u{202e}\n.pdf", "file_size": 119_001 } }));
    write(json!({ "voice": { "duration": 12, "file_size": 400 } }));
    write(json!({ "sticker": { "emoji": "👍🏽" } }));
    write(json!({ "location": { "latitude": 52.5, "longitude": 13.4 } }));
    write(json!({ "text": "approve K7QD3M", "forward_origin": { "type": "user" } }));
    write(text("end"));
    assert_eq!(
        until(&mut listening, "end").await,
        [
            "see\n[photo]",
            "[file: a .pdf, 120 kB]",
            "[voice message: 12 s, 1 kB]",
            "[sticker 👍🏽]",
            "[location: 52.500000, 13.400000]",
            "[forwarded message]\napprove K7QD3M"
        ]
    );
}

/// An update of a shape that nobody has documented is let go, and what comes behind it comes in.
#[tokio::test]
async fn strange_updates_hold_nothing_up() {
    let hub = Hub::start().await;
    for (kind, what) in [
        ("message", json!({ "text": 7 })),
        ("message", json!("text")),
        ("callback_query", json!({ "id": 5 })),
        ("my_chat_member", json!(null)),
        ("gift_from_the_future", json!({ "a": [[[[1]]]] })),
    ] {
        hub.service.tell(kind, &what);
    }
    let _ = hub.service.write(ADA, ADA, &text("end"));
    let mut listening = hub.listen(Taker::default());
    assert!(until(&mut listening, "end").await.is_empty());
    hub.service.until_acknowledged(6).await;
}

#[tokio::test]
async fn a_sentence_goes_where_it_was_written_and_not_without_end() {
    let hub = Hub::start().await;
    let mut listening = hub.listen(Taker::saying("<b>@ada</b>, that question is closed."));
    let first = hub.service.write(ADA, ADA, &text("yes"))["message_id"].clone();
    hub.service.until_accepted(1).await;
    let call = hub.service.calls("sendMessage").remove(0);
    assert_eq!((&call["chat_id"], &call["reply_parameters"]["message_id"]), (&json!(ADA), &first));
    let shown = call["text"].as_str().unwrap();
    assert!(shown.starts_with("&lt;b&gt;@\u{2060}ada"), "{shown}");
    for _ in 0..30 {
        let _ = hub.service.write(ADA, ADA, &text("yes"));
    }
    let _ = hub.service.write(EVE, EVE, &text("end"));
    until(&mut listening, "end").await;
    hub.service.until_accepted(21).await;
    hub.service.until_acknowledged(32).await;
    let told = hub.service.accepted().iter().filter(|accepted| accepted.chat == ADA).count();
    assert!(told <= 20, "{told}");
}

#[tokio::test]
async fn presses_are_answered_and_forged_ones_are_not_believed() {
    let hub = Hub::start().await;
    let buttons = [Button { label: "Yes".into(), value: "SB-K7QD3M.1".into() }];
    let draft = switchboard_core::port::channel::Draft {
        kind: MessageKind::Question,
        buttons: &buttons,
        ..notice("?")
    };
    let ours = hub.sent(ADA, &draft).await;
    let theirs = hub.service.write(ADA, ADA, &text("mine"))["message_id"].as_i64().unwrap();
    let sentence = "Thank you. ".repeat(40);
    let mut listening = hub.listen(Taker::saying(&sentence));
    assert_eq!(said(&listening.next().await.what), "mine");
    let long = "x".repeat(65);
    for (message, data) in
        [(ours, long.as_str()), (theirs, "SB-K7QD3M.1"), (ours, "SB-FORGED.9"), (ours, "SB-K7QD3M.1")]
    {
        let _ = hub.service.press(ADA, ADA, message, data);
    }
    for expected in ["SB-FORGED.9", "SB-K7QD3M.1"] {
        let press = listening.next().await;
        assert_eq!(press.what, IncomingKind::Button { value: expected.into() });
        assert_eq!(press.references, [format!("{ADA}:{ours}")]);
    }
    hub.service.until_called("answerCallbackQuery", 4).await;
    let calls = hub.service.calls("answerCallbackQuery");
    let texts: Vec<usize> = calls
        .iter()
        .map(|call| call["text"].as_str().map_or(0, |text| text.encode_utf16().count()))
        .collect();
    assert_eq!(texts.iter().filter(|length| **length == 0).count(), 2, "{texts:?}");
    assert!(texts.iter().all(|length| *length <= 200), "{texts:?}");
}

/// Several bots side by side: numbers of updates are each bot's own.
#[tokio::test]
async fn accounts_are_kept_apart() {
    let (one, other) = tokio::join!(Hub::with(111, |_| ()), Hub::with(222, |_| ()));
    let (mut one_hears, mut other_hears) = (one.listen(Taker::default()), other.listen(Taker::default()));
    let _ = one.service.write(ADA, ADA, &text("to one"));
    let _ = other.service.write(ADA, ADA, &text("to the other"));
    let (first, second) = tokio::join!(one_hears.next(), other_hears.next());
    assert_eq!((said(&first.what), first.event_id.as_str()), ("to one", "111:1001"));
    assert_eq!((said(&second.what), second.event_id.as_str()), ("to the other", "222:1001"));
    assert_eq!(token(111).split(':').next(), Some("111"));
}

fn by_webhook(settings: &mut Settings) {
    settings.webhook = Some(WebhookSettings { url: URL.into(), secret: SECRET.into() });
}

/// The stand-in's next request to the webhook, and what it got.
async fn deliver(service: &telegram::Telegram, channel: &Telegram, taker: &Taker) -> (u16, String) {
    let pushed = service.next_push().unwrap();
    let answer = channel.push(pushed, taker).await;
    service.pushed(answer.status, NOW_MS / 1000);
    (answer.status, String::from_utf8(answer.body).unwrap())
}

#[tokio::test]
async fn updates_are_posted_to_a_webhook() {
    let hub = Hub::with(123_456_789, by_webhook).await;
    let mut listening = hub.listen(Taker::default());
    assert_eq!(listening.health().await, None);
    let set = hub.service.calls("setWebhook").remove(0);
    assert_eq!((&set["url"], &set["secret_token"]), (&json!(URL), &json!(SECRET)));
    assert_eq!(
        set["allowed_updates"],
        json!(["message", "edited_message", "callback_query", "my_chat_member"])
    );
    let taker = Taker { failures: AtomicUsize::new(1), ..Taker::saying("Noted") };
    let (taker, mut came, _health) = taker.ready();
    let _ = hub.service.write(ADA, ADA, &text("yes"));
    assert_eq!(deliver(&hub.service, &hub.channel, &taker).await, (503, String::new()), "it is not stored");
    let (status, body) = deliver(&hub.service, &hub.channel, &taker).await;
    assert_eq!(status, 200);
    let method: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&method["method"], &method["text"]), (&json!("sendMessage"), &json!("Noted")));
    let ids: Vec<_> = (0..2).map(|_| came.try_recv().unwrap()).collect();
    assert_eq!(ids[0], ids[1]);
    assert_eq!(ids[0].origin, Origin::Verified { by: "secret_token".into() });
    assert_eq!(hub.service.acknowledged(), 1);
}

#[tokio::test]
async fn nobody_else_posts_to_it() {
    let hub = Hub::with(123_456_789, by_webhook).await;
    let (taker, mut came, _health) = Taker::default().ready();
    let update = json!({ "update_id": 1, "message": { "message_id": 1, "text": "approve K7QD3M", "date": 1,
        "from": { "id": ADA, "is_bot": false }, "chat": { "id": ADA, "type": "private" } } });
    let header = |secret: &str| ("x-telegram-bot-api-secret-token".to_owned(), secret.as_bytes().to_vec());
    let pushed = |headers: Vec<(String, Vec<u8>)>, body: &[u8]| Pushed {
        headers,
        query: String::new(),
        body: body.to_vec(),
    };
    let body = update.to_string().into_bytes();
    let longer = format!("{SECRET}x");
    for headers in [
        vec![],
        vec![header("")],
        vec![header(&SECRET[1..])],
        vec![header(&longer)],
        vec![header(SECRET), header(SECRET)],
        vec![header("\u{fffd}")],
    ] {
        assert_eq!(hub.channel.push(pushed(headers, &body), &*taker).await.status, 401);
    }
    for junk in [&b""[..], b"{}", b"[]", b"\xff", b"{\"update_id\":\"1\"}"] {
        assert_eq!(hub.channel.push(pushed(vec![header(SECRET)], junk), &*taker).await.status, 400);
    }
    assert!(came.try_recv().is_err());
    // Posted twice at a time, and before the channel has listened: the hub tells by the number that they are one.
    let posted = pushed(vec![header(SECRET)], &body);
    let (first, second) =
        tokio::join!(hub.channel.push(posted.clone(), &*taker), hub.channel.push(posted.clone(), &*taker));
    assert_eq!((first.status, second.status), (200, 200));
    assert_eq!(came.try_recv().unwrap().event_id, came.try_recv().unwrap().event_id);
    let polling = Hub::start().await;
    assert_eq!(polling.channel.push(posted, &*taker).await.status, 404);
}

#[tokio::test]
async fn a_webhook_that_fails_or_is_taken_away_is_noticed() {
    let change = |settings: &mut Settings| {
        by_webhook(settings);
        settings.poll_s = 1;
    };
    let hub = Hub::with(123_456_789, change).await;
    let mut listening = hub.listen(Taker::default());
    assert_eq!(listening.health().await, None);
    let _ = hub.service.write(ADA, ADA, &text("yes"));
    hub.service.pushed(502, NOW_MS / 1000);
    let fault = listening.fault().await;
    assert!(
        fault.contains("cannot deliver") && fault.contains("1 updates") && fault.contains("502"),
        "{fault}"
    );
    hub.service.pushed(200, NOW_MS / 1000);
    listening.is_well().await;
    hub.service.set_webhook("https://other.test/hook");
    let fault = listening.fault().await;
    assert!(fault.contains("another program"), "{fault}");
    listening.is_well().await;
    assert_eq!(hub.service.calls("setWebhook").len(), 2, "it is set again");
}
