//! Swarms: nothing but handles, never bridged to the organization.

use serde_json::{Value, json};
use std::sync::Arc;
use switchboard_core::rights::Rights;
use switchboard_core::time::{HOUR_MS, ManualClock};
use switchboard_engine::Settings;
use switchboard_testkit::{Options, Socket, TestHub, Token};

struct Swarm {
    hub: TestHub,
    id: String,
    ada: Token,
    ben: Token,
}

async fn swarm(options: Options) -> Swarm {
    let hub = TestHub::with(options).await;
    let ada = hub.token_of("ada-laptop", Some("Ada"), Rights::AGENT).await;
    let ben = hub.token_of("ben-box", Some("Ben"), Rights::AGENT).await;
    let admin = hub.http(&hub.admin());
    let made = admin.post("/admin/v1/swarms", &json!({ "title": "Retry budgets" })).await.json();
    let id = made["swarm_id"].as_str().unwrap().to_owned();
    for (person, handle) in [("Ada", "quiet-heron"), ("Ben", "loud-owl")] {
        let joined = admin
            .post(&format!("/admin/v1/swarms/{id}/join"), &json!({ "handle": handle, "person": person }))
            .await;
        assert_eq!(joined.status, 204, "{}", joined.text);
    }
    Swarm { hub, id, ada, ben }
}

impl Swarm {
    fn message(&self, id: &str, from: &str, text: &str) -> Value {
        json!({ "t": "message", "client_msg_id": id, "network": { "kind": "swarm", "swarm_id": self.id },
            "type": "finding", "from": from, "body": { "text": text } })
    }

    async fn both(&self) -> (Socket, Socket) {
        (self.hub.agent(&self.ada, "ada-agent").await, self.hub.agent(&self.ben, "ben-agent").await)
    }
}

#[tokio::test]
async fn members_see_only_handles() {
    let swarm = swarm(Options::default()).await;
    let (mut ada, mut ben) = swarm.both().await;
    let stored = ada.ask(&swarm.message("m1", "ada-agent", "duplicate rows")).await;
    assert_eq!(stored["network"], json!({ "kind": "swarm", "swarm_id": swarm.id }));
    let delivered = ben.expect("message.deliver").await;
    assert_eq!(delivered["from"], json!({ "kind": "swarm", "handle": "quiet-heron", "reputation": 0 }));
    assert_eq!(delivered["trust"], "untrusted");
    let text = delivered.to_string();
    for secret in ["Ada", "ada-laptop", "ada-agent", &swarm.ada.instance_id, "org_"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    ben.send(&json!({ "t": "message.receipt", "gid": delivered["gid"], "by": "ben-agent", "state": "read" }))
        .await;
    assert_eq!(ada.expect("message.status").await["by"], "loud-owl");
    let handle = swarm.hub.http(&swarm.ben).get("/v1/handles/quiet-heron").await.json();
    assert_eq!(
        (handle["handle"].as_str(), handle["reputation"]["score"].as_u64()),
        (Some("quiet-heron"), Some(0))
    );
    assert_eq!(swarm.hub.http(&swarm.ben).get("/v1/handles/nobody-here").await.status, 404);

    let log = swarm.hub.http(&swarm.hub.admin()).get("/admin/v1/log").await.json();
    let about = |entry: &&Value| entry["subject"].as_str().unwrap().contains(&format!("swarm:{}", swarm.id));
    let lines: Vec<_> = log["entries"].as_array().unwrap().iter().filter(about).collect();
    assert!(!lines.is_empty() && lines.iter().all(|line| !line.to_string().contains(&swarm.ada.instance_id)));
    swarm.hub.stop().await;
}

#[tokio::test]
async fn without_a_handle_nobody_speaks_or_reads() {
    let swarm = swarm(Options::default()).await;
    let stranger = swarm.hub.token_of("c", Some("Cleo"), Rights::AGENT).await;
    let mut socket = swarm.hub.agent(&stranger, "c").await;
    let (mut ada, _) = swarm.both().await;
    let refused = socket.ask(&swarm.message("m1", "c", "hi")).await;
    assert_eq!(
        (refused["error"]["code"].as_str(), refused["error"]["reason"].as_str()),
        (Some("forbidden_right"), Some("no_handle"))
    );
    ada.ask(&swarm.message("m2", "ada-agent", "x")).await;
    assert!(socket.drain_of("message.deliver").await.is_empty());
    let history =
        swarm.hub.http(&stranger).get(&format!("/v1/messages?network=swarm&swarm_id={}", swarm.id)).await;
    assert_eq!(history.status, 404);
    let mut unknown = swarm.message("m3", "ada-agent", "x");
    unknown["network"]["swarm_id"] = json!("sw_unknown");
    assert_eq!(ada.ask(&unknown).await["error"]["code"], "not_found");
    swarm.hub.stop().await;
}

#[tokio::test]
async fn networks_are_never_bridged() {
    let swarm = swarm(Options::default()).await;
    let (mut ada, mut ben) = swarm.both().await;
    let inside = ada.ask(&swarm.hub.message("o1", "question", "ada-agent", "secret")).await;
    let mut reply = swarm.message("s1", "ada-agent", "y");
    reply["type"] = json!("answer");
    reply["reply_to"] = inside["gid"].clone();
    let foreign = ada.ask(&reply).await;
    reply["reply_to"] = json!("msg_00000000000000000000000000");
    let unknown = ada.ask(&reply).await;
    assert_eq!(foreign["error"]["field"], "reply_to");
    assert_eq!(foreign, unknown);
    for (field, value) in [
        ("to_instance", json!(swarm.ben.instance_id)),
        ("body", json!({ "text": "x", "references": [{ "kind": "task", "number": 1 }] })),
    ] {
        let mut bad = swarm.message("s2", "ada-agent", "y");
        bad["to"] = json!("loud-owl");
        bad[field] = value;
        assert_eq!(ada.ask(&bad).await["error"]["code"], "invalid_request", "{field}");
    }
    ben.expect("message.deliver").await; // only the organization's own
    assert!(ben.drain_of("message.deliver").await.is_empty());
    swarm.hub.stop().await;
}

#[tokio::test]
async fn the_hourly_limit_is_exact_and_says_when_to_come_back() {
    let clock = Arc::new(ManualClock::at(1_792_497_600_000));
    let settings = Settings { swarm_messages_per_hour: 3, ..Settings::default() };
    let swarm = swarm(Options { settings, clock: Some(clock.clone()), ..Options::default() }).await;
    let (mut ada, mut ben) = swarm.both().await;
    for n in 0..3 {
        assert_eq!(ada.ask(&swarm.message(&format!("m{n}"), "ada-agent", "x")).await["t"], "message.stored");
        clock.advance(60_000);
    }
    let refused = ada.ask(&swarm.message("m3", "ada-agent", "x")).await;
    let error = &refused["error"];
    assert_eq!(
        (error["code"].as_str(), error["reason"].as_str()),
        (Some("rate_limited"), Some("limit_exceeded"))
    );
    assert_eq!((error["field"].as_str(), error["limit"].as_u64()), (Some("messages_per_hour"), Some(3)));
    let wait_s = error["retry_after_s"].as_u64().unwrap();
    assert!((3400..=3600).contains(&wait_s), "{wait_s}");
    assert_eq!(ada.ask(&swarm.message("m0", "ada-agent", "x")).await["seq"], 1, "a resend is no new message");
    assert_eq!(
        ben.ask(&swarm.message("b0", "ben-agent", "x")).await["t"],
        "message.stored",
        "each handle has its own"
    );
    clock.advance(wait_s * 1000);
    assert_eq!(ada.ask(&swarm.message("m3", "ada-agent", "x")).await["t"], "message.stored");
    assert!(clock_is_within_the_hour(wait_s));
    swarm.hub.stop().await;
}

fn clock_is_within_the_hour(wait_s: u64) -> bool {
    wait_s * 1000 <= HOUR_MS.unsigned_abs()
}

#[tokio::test]
async fn a_closed_swarm_takes_nothing_more_and_can_still_be_read() {
    let swarm = swarm(Options::default()).await;
    let (mut ada, _) = swarm.both().await;
    ada.ask(&swarm.message("m1", "ada-agent", "x")).await;
    let admin = swarm.hub.http(&swarm.hub.admin());
    assert_eq!(admin.post(&format!("/admin/v1/swarms/{}/close", swarm.id), &json!({})).await.status, 204);
    let refused = ada.ask(&swarm.message("m2", "ada-agent", "x")).await;
    assert_eq!(refused["error"]["reason"], "swarm_closed");
    let history = swarm
        .hub
        .http(&swarm.ben)
        .get(&format!("/v1/messages?network=swarm&swarm_id={}", swarm.id))
        .await
        .json();
    assert_eq!(history["messages"].as_array().unwrap().len(), 1);
    let handle = json!({ "handle": "quiet-heron", "person": "Ben" });
    let other = admin.post("/admin/v1/swarms", &json!({ "title": "Other" })).await.json();
    let taken =
        admin.post(&format!("/admin/v1/swarms/{}/join", other["swarm_id"].as_str().unwrap()), &handle).await;
    assert_eq!(taken.json()["error"]["reason"], "handle_taken");
    let bad = admin
        .post(&format!("/admin/v1/swarms/{}/join", swarm.id), &json!({ "handle": "Not A Handle" }))
        .await;
    assert_eq!(bad.json()["error"]["field"], "handle");
    swarm.hub.stop().await;
}

#[tokio::test]
async fn a_swarms_message_and_none_are_alike_to_a_stranger() {
    let swarm = swarm(Options::default()).await;
    let stranger = swarm.hub.token_of("c", Some("Cleo"), Rights::AGENT).await;
    let (mut ada, _ben) = swarm.both().await;
    let gid = ada.ask(&swarm.message("m1", "ada-agent", "x")).await["gid"].as_str().unwrap().to_owned();
    let (stranger, ben) = (swarm.hub.http(&stranger), swarm.hub.http(&swarm.ben));
    let foreign = stranger.get(&format!("/v1/messages/{gid}")).await;
    let unknown = stranger.get("/v1/messages/msg_x").await;
    assert_eq!((foreign.status, &foreign.text), (404, &unknown.text));
    let read = ben.get(&format!("/v1/messages/{gid}")).await;
    assert_eq!((read.status, &read.json()["messages"][0]["gid"]), (200, &json!(gid)));
    let admin = swarm.hub.http(&swarm.hub.admin());
    assert_eq!(admin.get(&format!("/v1/messages/{gid}")).await.status, 200, "an admin reads every swarm");
    swarm.hub.stop().await;
}
