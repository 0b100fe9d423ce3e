//! A full disk: refused with an error that says so, reads go on, it recovers by itself.

use serde_json::json;
use switchboard_store::sqlite;
use switchboard_testkit::{Options, TestHub};

#[tokio::test]
async fn a_full_store_refuses_keeps_serving_and_recovers() {
    let store = sqlite::Options { pages_max: Some(400), search: false, ..sqlite::Options::default() };
    let hub = TestHub::with(Options { store, ..Options::default() }).await;
    let token = hub.token("a").await;
    let mut socket = hub.agent(&token, "a").await;
    let text = "x".repeat(3900);
    let mut stored = 0;
    let refused = loop {
        let answer = socket.ask(&hub.message(&format!("m{stored}"), "finding", "a", &text)).await;
        if answer["t"] == "error" {
            break answer;
        }
        stored += 1;
        assert!(stored < 2000, "the store never filled up");
    };
    assert_eq!(refused["error"]["reason"], "storage_full", "{refused}");
    assert!(refused["error"]["retry_after_s"].is_u64());
    assert_eq!(refused["client_msg_id"], format!("m{stored}"));
    let http = hub.http(&token);
    let page =
        http.get(&format!("/v1/messages?network=org&channel={}&limit=1", hub.channel("general"))).await;
    assert_eq!(page.status, 200, "reads go on");
    // Room appears: the bound is lifted as a larger disk would lift it.
    let hub = hub.restart_with(|options| options.store.pages_max = None).await;
    let mut socket = hub.agent(&token, "a").await;
    let retried = socket.ask(&hub.message(&format!("m{stored}"), "finding", "a", &text)).await;
    assert_eq!(retried["seq"], json!(stored + 1), "nothing of what was refused had been stored");
    hub.stop().await;
}

#[tokio::test]
async fn below_the_reserve_nothing_is_written_and_readiness_says_so() {
    let hub = TestHub::start().await;
    let token = hub.token("a").await;
    hub.agent(&token, "a").await.close().await;
    let hub = hub.restart_with(|options| options.store.disk_reserve_bytes = u64::MAX).await;
    let http = hub.http(&token);
    let mut message = hub.message("m1", "finding", "a", "x");
    message.as_object_mut().unwrap().remove("t");
    let refused = http.post("/v1/messages", &message).await;
    assert_eq!((refused.status, refused.json()["error"]["reason"].as_str()), (507, Some("storage_full")));
    assert_eq!(http.get("/readyz").await.status, 503);
    assert_eq!(http.get("/healthz").await.status, 200);
    assert_eq!(http.get("/v1/agents").await.status, 200, "reads go on");
    let hub = hub.restart_with(|options| options.store.disk_reserve_bytes = 0).await;
    assert_eq!(hub.http(&token).post("/v1/messages", &message).await.json()["seq"], 1);
    hub.stop().await;
}
