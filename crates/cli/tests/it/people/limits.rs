//! How much an agent may send: counted durably, told in time, and free for whoever is refused.

use super::{Desk, by_clock, notice, with};
use serde_json::{Value, json};
use switchboard_channels::fake::CAPABILITIES;
use switchboard_testkit::{Mcp, Options};

fn two_an_hour() -> (Options, std::sync::Arc<switchboard_core::time::ManualClock>) {
    let (mut options, clock) = by_clock();
    options.settings.outbound.default_rate.max = 2;
    (options, clock)
}

#[tokio::test]
async fn the_one_too_many_is_told_when_to_come_back_and_passes_then() {
    let (options, clock) = two_an_hour();
    let desk = Desk::with(options, CAPABILITIES).await;
    for _ in 0..2 {
        desk.sent(&notice("ada", "hi")).await;
    }
    let desk = desk.restart().await; // and no restart forgives
    let refused = desk.send(&notice("ada", "hi")).await;
    assert_eq!(refused.status, 429, "{}", refused.text);
    let error = refused.json()["error"].clone();
    let wait_ms = error["retry_after_ms"].as_u64().unwrap();
    assert!((1..=3_700_000).contains(&wait_ms), "{error}");
    assert_eq!(refused.headers["retry-after"].to_str().unwrap(), wait_ms.div_ceil(1000).to_string());
    let by_mcp = Mcp::open(&desk.hub, &desk.agent).await.refused("messaging_send", notice("ada", "hi")).await;
    assert!(by_mcp.contains("is used up"), "{by_mcp}");
    assert_eq!(desk.ledger().await["accepted"], 2, "what is refused is not accepted");
    clock.advance(wait_ms);
    desk.sent(&notice("ada", "hi")).await;
}

#[tokio::test]
async fn a_call_that_is_refused_or_repeated_consumes_nothing() {
    let (options, _clock) = two_an_hour();
    let desk = Desk::with(options, CAPABILITIES).await;
    let key = |call: Value| with(call, &json!({ "idempotency_key": "k" }));
    desk.sent(&key(notice("ada", "hi"))).await;
    for (call, status) in [
        (notice("stranger", "hi"), 403),
        (notice("ada", ""), 400),
        (with(notice("ada", "hi"), &json!({ "channel": "slak" })), 400),
        (with(notice("ada", "hi"), &json!({ "deadline_ms": 1 })), 400),
        (key(notice("ada", "another")), 409),
    ] {
        for _ in 0..2 {
            let refused = desk.send(&call).await;
            assert_eq!(refused.status, status, "{call}: {}", refused.text);
        }
    }
    for _ in 0..3 {
        assert_eq!(desk.sent(&key(notice("ada", "hi"))).await["deduplicated"], true, "a repeat is free");
    }
    desk.sent(&notice("ada", "the second")).await;
    assert_eq!(desk.send(&notice("ada", "the third")).await.status, 429);
    assert_eq!(desk.sent(&key(notice("ada", "hi"))).await["deduplicated"], true, "also when all is used up");
}

#[tokio::test]
async fn each_agent_has_its_own() {
    let (options, _clock) = two_an_hour();
    let desk = Desk::with(options, CAPABILITIES).await;
    let agent = desk.hub.http(&desk.agent);
    for name in ["a", "b"] {
        let path = format!("{}?agent={name}", super::SEND);
        for status in [200, 200, 429] {
            assert_eq!(agent.post(&path, &notice("ada", "hi")).await.status, status, "{name}");
        }
    }
}
