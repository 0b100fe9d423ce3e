//! Retention: what one person's organization and one of several keep, and that it goes when it was said to.

use serde_json::json;
use std::sync::Arc;
use switchboard_core::time::{DAY_MS, ManualClock};
use switchboard_engine::Settings;
use switchboard_testkit::{Options, PATIENCE, TestHub, Token};

const NOON_MS: i64 = 1_790_000_000_000;

fn personal_for_a_day(clock: &Arc<ManualClock>) -> Options {
    let settings =
        Settings { personal_keep_ms: Some(DAY_MS), org_keep_ms: 10 * DAY_MS, ..Settings::default() };
    Options { settings, clock: Some(clock.clone()), ..Options::default() }
}

/// Texts of what is kept in the channel.
async fn kept(hub: &TestHub, token: &Token) -> Vec<String> {
    let path = format!("/v1/messages?network=org&channel={}", hub.channel("general").replace('/', "%2F"));
    let page = hub.http(token).get(&path).await.json();
    let texts = page["messages"].as_array().unwrap().iter();
    texts.map(|message| message["body"]["text"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn one_persons_messages_go_sooner_and_those_of_several_people_stay() {
    let clock = Arc::new(ManualClock::at(NOON_MS));
    let hub = TestHub::with(personal_for_a_day(&clock)).await;
    let token = hub.token("a").await;
    let mut socket = hub.agent(&token, "a").await;
    socket.ask(&hub.message("m1", "finding", "a", "alone")).await;
    let admin = hub.http(&hub.admin());
    let made = admin.post("/admin/v1/tokens", &json!({ "label": "bens", "owner": "Ben" })).await;
    assert_eq!(made.status, 200, "{}", made.text);
    socket.ask(&hub.message("m2", "finding", "a", "with Ben")).await;
    assert_eq!(kept(&hub, &token).await, ["alone", "with Ben"]);
    socket.close().await;
    clock.advance(2 * DAY_MS.unsigned_abs());
    // A start looks at retention at once; a running hub does every minute.
    let hub = hub.restart().await;
    let swept = async {
        while kept(&hub, &token).await != ["with Ben"] {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, swept).await.expect("the personal message goes after a day");
    let mut socket = hub.agent(&token, "a").await;
    let stored = socket.ask(&hub.message("m3", "finding", "a", "later")).await;
    assert_eq!(stored["seq"], 3, "sequences go on after what went: {stored}");
    clock.advance(2 * DAY_MS.unsigned_abs());
    let hub = hub.restart().await;
    hub.agent(&token, "a").await.close().await;
    assert_eq!(kept(&hub, &token).await, ["with Ben", "later"], "it still knows that there are two people");
    hub.stop().await;
}
