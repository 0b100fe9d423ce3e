//! Messages on their way out.

use super::{Hub, attempt, cleared, notice, refused, settings, token, visible};
use serde_json::Value;
use std::time::Duration;
use switchboard_channels::conformance::SECRET;
use switchboard_channels::telegram::{Settings, Telegram, WebhookSettings};
use switchboard_core::port::channel::{
    Amendment, Channel as _, Draft, FailureClass, MessageKind, Part, Performed,
};
use switchboard_standin::telegram::{ADA, EVE, Failure, GROUP};

#[tokio::test]
async fn it_says_which_bot_it_is_and_how_people_pair() {
    let hub = Hub::start().await;
    let checked = hub.channel.check().await.unwrap();
    assert_eq!(checked.account, "@switchboard_bot");
    assert_eq!(checked.invite.unwrap(), "Open https://t.me/switchboard_bot?start={code} and press Start.");
    hub.service.revoke();
    let why = hub.channel.check().await.unwrap_err();
    assert!(why.contains("Unauthorized") && why.contains("@BotFather") && !why.contains(SECRET), "{why}");
}

#[tokio::test]
async fn each_end_of_a_chat_is_told_apart() {
    let hub = Hub::start().await;
    let class = async |to: i64| {
        let why = refused(hub.send(to, &notice("hello")).await);
        (why.class, why.reason)
    };
    assert_eq!(class(12).await.0, FailureClass::BadAddress, "nobody has this number");
    hub.service.migrate(GROUP, -1_002_222);
    let (bad, reason) = class(GROUP).await;
    assert_eq!(bad, FailureClass::BadAddress);
    assert!(reason.contains("-1002222"), "{reason}");
    hub.service.block(EVE, true);
    let (bad, reason) = class(EVE).await;
    assert_eq!(bad, FailureClass::BadAddress);
    assert!(reason.contains("blocked"), "{reason}");
    hub.service.fail("sendMessage", Failure::Answer(502, "Bad Gateway"));
    assert!(matches!(hub.send(ADA, &notice("hello")).await, Performed::Unknown { .. }));
    hub.service.revoke();
    assert_eq!(class(ADA).await.0, FailureClass::Misconfigured);
}

/// One chat that has to wait holds up no other (fault O15).
#[tokio::test]
async fn a_chat_waits_alone() {
    let hub = Hub::start().await;
    hub.service.flood(ADA, Some((1, 7)));
    hub.sent(ADA, &notice("one")).await;
    let why = refused(hub.send(ADA, &notice("two")).await);
    assert_eq!((why.class, why.retry_after_ms), (FailureClass::Throttled, Some(7000)));
    assert!(!why.account_wide);
    hub.sent(EVE, &notice("two")).await;
    hub.service.flood(ADA, None);
    hub.sent(ADA, &notice("two")).await;
}

#[tokio::test]
async fn an_answer_stands_under_what_it_answers() {
    let hub = Hub::start().await;
    let first = hub.sent(ADA, &notice("first")).await;
    let part = hub.channel.prepare(&notice("second")).unwrap().remove(0);
    let mut attempt = attempt(ADA, part);
    attempt.references =
        vec![format!("{ADA}:{first}"), format!("{GROUP}:77"), "<m@example.org>".into(), String::new()];
    let performed = hub.channel.perform(cleared(attempt.clone())).await;
    let Performed::Sent { message_id: Some(id) } = performed else { panic!("{performed:?}") };
    let shown = hub.service.shown(ADA, id.rsplit(':').next().unwrap().parse().unwrap()).unwrap();
    assert_eq!(shown["reply_to_message"]["message_id"], first);
    // A message that is gone is no hindrance.
    attempt.references = vec![format!("{ADA}:9999")];
    let performed = hub.channel.perform(cleared(attempt)).await;
    assert!(matches!(performed, Performed::Sent { .. }), "{performed:?}");
}

/// What Telegram makes of hostile text on its own is nothing that can be pressed.
#[tokio::test]
async fn nothing_in_a_text_becomes_clickable() {
    let hub = Hub::start().await;
    let body = "@ada @everyone /approve K7QD /stop@switchboard_bot #tag $USD t.me/ada evil.example ada@example.org \
        tg://resolve?domain=ada **@**ada @*ada* https://t.me/ada <a href=\"tg://user?id=4711\">x</a> [x](tg://user?id=4711) \
        `@ada` README.md";
    let draft = Draft { from: "@eve /start t.me/eve", ..notice(body) };
    let number = hub.sent(ADA, &draft).await;
    let shown = hub.service.shown(ADA, number).unwrap();
    let kinds: Vec<&str> =
        shown["entities"].as_array().unwrap().iter().map(|entity| entity["type"].as_str().unwrap()).collect();
    assert!(
        kinds.iter().all(|kind| matches!(*kind, "bold" | "italic" | "code")),
        "{kinds:?}: {}",
        shown["text"]
    );
    let link = hub.sent(ADA, &notice("see https://ci.example/run/7?a=1&b=2 now")).await;
    let shown = hub.service.shown(ADA, link).unwrap();
    assert_eq!(shown["entities"][1]["type"], "url");
    assert!(shown["text"].as_str().unwrap().contains("https://ci.example/run/7?a=1&b=2"));
    assert_eq!(hub.service.calls("sendMessage")[0]["link_preview_options"]["is_disabled"], true);
}

/// 64 KB, letters under hundreds of marks, and turned text: every part is taken, in order, and nothing is lost.
#[tokio::test]
async fn long_and_strange_texts_arrive_whole() {
    let hub = Hub::start().await;
    let line = "Wörter & <mehr> \"davon\" 👩‍👩‍👧‍👦 שלום. ";
    let zalgo = format!("Z{} \u{202e}turned\u{202c}", "\u{310}".repeat(900));
    let body = format!("{zalgo}\n\n{}", line.repeat(64 * 1024 / line.len()));
    let parts = hub.channel.prepare(&notice(&body)).unwrap();
    assert!(parts.len() > 10, "{}", parts.len());
    let mut seen = String::new();
    for part in parts {
        let performed = hub.channel.perform(cleared(attempt(ADA, part.clone()))).await;
        assert!(matches!(performed, Performed::Sent { .. }), "{performed:?}");
        seen += &super::without_added(&visible(&part.text));
    }
    let dense = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
    assert_eq!(dense(&seen), dense(&body.replace(['\u{202e}', '\u{202c}'], "")));
}

#[tokio::test]
async fn an_outcome_goes_to_the_message_that_asked() {
    let hub = Hub::start().await;
    let number = hub.sent(GROUP, &notice("Deploy?")).await;
    let amendment = |message_id: String| Amendment {
        delivery: "dlv_1".into(),
        to: attempt(GROUP, Part::default()).to,
        message_id,
        part: Part { text: "x".repeat(3840), ..Part::default() },
        outcome: "@ada said yes ".repeat(100),
    };
    let performed = hub.channel.amend(amendment(format!("{GROUP}:{number}"))).await;
    assert_eq!(performed, Performed::Sent { message_id: Some(format!("{GROUP}:{number}")) });
    let shown = hub.service.shown(GROUP, number).unwrap();
    assert!(
        shown["text"].as_str().unwrap().encode_utf16().count() <= 4096 && shown.get("entities").is_none()
    );
    for gone in [format!("{GROUP}:999"), "m_1".to_owned()] {
        assert!(matches!(hub.channel.amend(amendment(gone)).await, Performed::NotSent(_)));
    }
}

#[tokio::test]
async fn bad_settings_are_refused_without_repeating_them() {
    let hub = Hub::start().await;
    let with = |change: fn(&mut Settings)| {
        let mut settings = settings(&hub.service, 1);
        change(&mut settings);
        Telegram::new(settings).err()
    };
    assert_eq!(with(|_| ()), None);
    let bad: [fn(&mut Settings); 12] = [
        |settings| settings.name = "Bad Name".into(),
        |settings| settings.token = "canary".into(),
        |settings| settings.token = "12:canary".into(),
        |settings| settings.token = format!("0{}", token(1)).into(),
        |settings| settings.token = format!("{}/../canary", token(1)).into(),
        |settings| settings.api_url = "ftp://canary".into(),
        |settings| settings.api_url = "https://api.telegram.org/?canary".into(),
        |settings| settings.authorities_pem = Some(b"canary".to_vec()),
        |settings| settings.timeout = settings.connect_timeout,
        |settings| settings.connect_timeout = Duration::ZERO,
        |settings| settings.poll_s = 51,
        |settings| {
            settings.webhook =
                Some(WebhookSettings { url: "https://hub.test/in".into(), secret: "canary".into() });
        },
    ];
    for (number, change) in bad.into_iter().enumerate() {
        let why = with(change).unwrap_or_else(|| panic!("setting {number} is taken"));
        assert!(!why.contains("canary") && !why.contains(SECRET), "{why}");
    }
}

/// The token is in every URL, and in nothing that is shown.
#[tokio::test]
async fn the_token_is_in_no_error() {
    let hub = Hub::with(5, |settings| settings.api_url = "http://127.0.0.1:1".into()).await;
    let why = refused(hub.send(ADA, &notice("hello")).await);
    assert_eq!(why.class, FailureClass::Transient);
    let checked = hub.channel.check().await.unwrap_err();
    let hub = Hub::with(5, |settings| settings.api_url = "https://127.0.0.1:1/deep/".into()).await;
    let tls = refused(hub.send(ADA, &notice("hello")).await);
    for text in [why.reason, checked, tls.reason, format!("{:?}", hub.channel)] {
        assert!(!text.contains(SECRET) && !text.contains("/bot"), "{text}");
    }
}

#[tokio::test]
async fn a_question_has_its_buttons_in_rows() {
    let hub = Hub::start().await;
    let button = |label: &str, value: &str| switchboard_core::port::channel::Button {
        label: label.into(),
        value: value.into(),
    };
    let buttons = [
        button("Yes", "SB-K7QD3M.1"),
        button("No", "SB-K7QD3M.2"),
        button(&"long ".repeat(8), "SB-K7QD3M.3"),
    ];
    let draft = Draft { kind: MessageKind::Question, buttons: &buttons, ..notice("Deploy?") };
    let number = hub.sent(ADA, &draft).await;
    let shown = hub.service.shown(ADA, number).unwrap();
    let rows = shown["reply_markup"]["inline_keyboard"].as_array().unwrap();
    let counts: Vec<usize> = rows.iter().map(|row| row.as_array().map_or(0, Vec::len)).collect();
    assert_eq!(counts, [2, 1]);
    assert_eq!(rows[0][1]["callback_data"], Value::from("SB-K7QD3M.2"));
}
