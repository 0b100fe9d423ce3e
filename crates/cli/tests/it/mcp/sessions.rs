//! Sessions: whose they are, how many there may be, when they end, and what their end means for their agents.

use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::time::ManualClock;
use switchboard_engine::Settings;
use switchboard_testkit::mcp::Mcp;
use switchboard_testkit::{Options, PATIENCE, TestHub};

fn options(mcp: impl FnOnce(&mut switchboard_server::mcp::Options)) -> Options {
    let settings = Settings { presence_grace: Duration::from_millis(50), ..Settings::default() };
    let mut options = Options { settings, ..Options::default() };
    mcp(&mut options.mcp);
    options
}

/// Asks until it is so; panics when patience is over.
async fn until<F: Future<Output = bool>>(so: impl Fn() -> F) {
    let asked = async {
        while !so().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.expect("in time");
}

async fn state_of(client: &Mcp, agent: &str) -> Value {
    let listed = client.done("agents_list", json!({ "as_agent": "observer" })).await.data;
    let rows = listed["agents"].as_array().unwrap().clone();
    rows.into_iter().find(|row| row["agent"] == agent).map_or(Value::Null, |row| row["state"].clone())
}

#[tokio::test]
async fn delete_ends_a_session_and_its_agents_leave() {
    let hub = TestHub::with(options(|_| {})).await;
    let observer = Mcp::stateless(&hub, &hub.token("observer").await);
    let client = Mcp::open(&hub, &hub.token("ci").await).await;
    client.done("bus_inbox", json!({})).await;
    until(async || state_of(&observer, "ci").await == "active").await;
    let ended = client.delete().await;
    assert!(ended.status == 202 || ended.status == 204, "{}", ended.text);
    let after = client.request("tools/list", json!({})).await;
    assert_eq!((after.status, &after.message["error"]["code"]), (404, &json!("not_found")));
    assert_eq!(client.delete().await.status, 404);
    assert_eq!(client.get(&[]).await.status, 404);
    until(async || state_of(&observer, "ci").await == "closed").await;
    let sent = observer.done("bus_send", json!({ "text": "still there?", "to": "ci" })).await;
    assert_eq!(sent.data["addressee"], "closed", "it can be written to all the same");
}

#[tokio::test]
async fn without_a_session_an_agent_is_there_while_it_calls() {
    let hub = TestHub::with(options(|_| {})).await;
    let observer = Mcp::stateless(&hub, &hub.token("observer").await);
    let client = Mcp::stateless(&hub, &hub.token("ci").await);
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.done("bus_inbox", json!({ "wait_ms": 60_000 })).await }
    });
    until(async || state_of(&observer, "ci").await == "active").await;
    observer.done("bus_send", json!({ "text": "wake up", "to": "ci" })).await;
    assert!(waiting.await.unwrap().text.contains("wake up"));
    until(async || state_of(&observer, "ci").await == "closed").await;
    // Each call makes it present again, for the short grace of this hub.
    until(async || {
        client.done("bus_inbox", json!({})).await;
        state_of(&observer, "ci").await == "active"
    })
    .await;
}

#[tokio::test]
async fn a_session_is_its_owners_alone() {
    let hub = TestHub::start().await;
    let client = Mcp::open(&hub, &hub.token("ada").await).await;
    let thief = Mcp::new(&hub, &hub.token("eve").await).in_session(client.session.as_deref());
    let unknown = thief.in_session(Some("0f0f0f0f-0000-4000-8000-000000000000"));
    let (stolen, missing) =
        (thief.request("tools/list", json!({})).await, unknown.request("tools/list", json!({})).await);
    assert_eq!((stolen.status, stolen.text), (404, missing.text), "one cannot tell the two apart");
    assert_eq!(thief.get(&[]).await.status, 404);
    assert_eq!(thief.delete().await.status, 404);
    assert_eq!(client.request("tools/list", json!({})).await.status, 200);
}

#[tokio::test]
async fn streams_cannot_be_resumed_and_say_so() {
    let hub = TestHub::start().await;
    let client = Mcp::open(&hub, &hub.token("ci").await).await;
    let answer = client.request("tools/list", json!({})).await;
    assert!(!answer.text.lines().any(|line| line.starts_with("id:")), "{}", answer.text);
    let resumed = client.get(&[("last-event-id", "0/0")]).await;
    assert_eq!((resumed.status, &resumed.message["error"]["field"]), (400, &json!("Last-Event-ID")));
    let nowhere = client.in_session(None);
    assert_eq!(nowhere.get(&[]).await.status, 400);
    assert_eq!(nowhere.delete().await.status, 400);
    assert_eq!(nowhere.request("tools/list", json!({})).await.status, 400);
}

#[tokio::test]
async fn sessions_of_one_token_are_bounded() {
    let hub = TestHub::with(options(|mcp| mcp.sessions_per_instance_max = 2)).await;
    let token = hub.token("ci").await;
    let (first, _second) = (Mcp::open(&hub, &token).await, Mcp::open(&hub, &token).await);
    let refused = Mcp::new(&hub, &token).initialize("2025-11-25").await;
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("60")));
    let error = &refused.message["error"];
    assert_eq!(
        (&error["reason"], &error["limit"], &error["used"]),
        (&json!("limit_exceeded"), &json!(2), &json!(2))
    );
    assert_eq!(first.request("tools/list", json!({})).await.status, 200, "live ones go on");
    Mcp::open(&hub, &hub.token("other").await).await;
    assert_eq!(Mcp::stateless(&hub, &token).request("tools/list", json!({})).await.status, 200);
    first.delete().await;
    Mcp::open(&hub, &token).await;
}

#[tokio::test]
async fn sessions_of_the_hub_are_bounded() {
    let hub = TestHub::with(options(|mcp| mcp.sessions_max = 1)).await;
    Mcp::open(&hub, &hub.token("ada").await).await;
    assert_eq!(Mcp::new(&hub, &hub.token("ben").await).initialize("2025-11-25").await.status, 429);
}

#[tokio::test]
async fn idle_sessions_end_and_those_with_an_open_stream_do_not() {
    const IDLE_MS: u64 = 200;
    let clock = Arc::new(ManualClock::at(1_800_000_000_000));
    let mut options = options(|mcp| mcp.session_idle = Duration::from_millis(IDLE_MS));
    options.clock = Some(clock.clone());
    let hub = TestHub::with(options).await;
    let token = hub.token("ci").await;
    let (watched, left) = (Mcp::open(&hub, &token).await, Mcp::open(&hub, &token).await);
    let stream = watched.stream().await;
    // A request would keep a session alive: the presence of its agent tells how it is.
    left.done("bus_inbox", json!({ "as_agent": "left" })).await;
    watched.done("bus_inbox", json!({ "as_agent": "watched" })).await;
    let observer = Mcp::stateless(&hub, &token);
    assert_eq!(state_of(&observer, "left").await, "active");
    clock.advance(IDLE_MS);
    until(async || state_of(&observer, "left").await == "closed").await;
    let ping = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(left.post(&ping).await.status, 404);
    assert_eq!(state_of(&observer, "watched").await, "active");
    assert_eq!(watched.post(&ping).await.status, 202);
    drop(stream);
    until(async || {
        clock.advance(IDLE_MS); // the hub notices only after a while that the stream is gone
        state_of(&observer, "watched").await == "closed"
    })
    .await;
    assert_eq!(watched.post(&ping).await.status, 404);
}

#[tokio::test]
async fn running_calls_of_one_token_are_bounded() {
    let hub = TestHub::with(options(|mcp| mcp.calls_per_instance_max = 1)).await;
    let token = hub.token("ci").await;
    let client = Mcp::open(&hub, &token).await;
    let observer = Mcp::open(&hub, &hub.token("observer").await).await;
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.done("bus_inbox", json!({ "wait_ms": 60_000 })).await }
    });
    until(async || state_of(&observer, "ci").await == "active").await;
    assert!(client.refused("agents_list", json!({})).await.contains("reason: limit_exceeded"));
    observer.done("bus_send", json!({ "text": "go on" })).await;
    waiting.await.unwrap();
    client.done("agents_list", json!({})).await;
}
