//! A lost network between clients and hub: clients come back from their cursors, nothing acknowledged is lost, nothing is
//! doubled, and the hub finds out about those who went without a word.

use super::proxy::Proxy;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::time::Duration;
use switchboard_client::{Client, Event, Options, Secret, Tuning};
use switchboard_core::limits::{MISSED_PONGS_MAX, PING_INTERVAL_MS};
use switchboard_engine::Settings;
use switchboard_protocol::frame::client::HelloAgent;
use switchboard_protocol::message::AgentMessage;
use switchboard_testkit::{PATIENCE, Socket, TestHub, Token};
use tokio::time::timeout;

const MESSAGES: u64 = 240;

fn options(hub: &TestHub, proxy: &Proxy, token: &Token, name: &'static str) -> Options {
    let mut options = Options::new(&proxy.url, Secret::new(&token.bearer));
    let vault_id = hub.vault("main").into();
    options.agents.push(HelloAgent { agent_id: name.into(), role: "r".into(), vault_id });
    options.tuning = Tuning {
        backoff_min: Duration::from_millis(20),
        backoff_max: Duration::from_millis(200),
        ping_interval: Duration::from_millis(300),
        silence_max: Duration::from_secs(1),
        connect_timeout: Duration::from_secs(2),
        ..Tuning::default()
    };
    options
}

async fn send(client: &Client, hub: &TestHub, number: u64) -> u64 {
    let mut message = hub.message(&format!("m{number}"), "finding", "a", &format!("text {number}"));
    message.as_object_mut().unwrap().remove("t");
    let text = message.to_string();
    let message: AgentMessage<'_> = serde_json::from_str(&text).unwrap();
    client.send(&message).await.expect("acknowledged in the end").seq
}

/// Reads until the last message; every sequence in the order of arrival.
async fn receive(client: Client) -> Vec<(u64, String)> {
    let mut seen = Vec::new();
    while seen.len() < usize::try_from(MESSAGES).unwrap() {
        match client.next_event().await.expect("the client lives") {
            Event::Delivery(delivery) => {
                let delivery = serde_json::to_value(&delivery).unwrap();
                let text = delivery["body"]["text"].as_str().unwrap().to_owned();
                seen.push((delivery["seq"].as_u64().unwrap(), text));
            }
            Event::Resync(resync) => panic!("nothing was lost, so there is nothing to resync: {resync:?}"),
            _ => {}
        }
    }
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_come_back_from_their_cursors_and_nothing_is_lost_or_doubled() {
    let hub = TestHub::start().await;
    let proxy = Proxy::start(&hub.url).await;
    let (a, b) = (hub.token("a").await, hub.token("b").await);
    let sender = Client::connect(options(&hub, &proxy, &a, "a")).await.unwrap();
    let reader = Client::connect(options(&hub, &proxy, &b, "b")).await.unwrap();
    sender.ready().await.unwrap();
    reader.ready().await.unwrap();
    let reading = tokio::spawn(receive(reader));
    let mut acknowledged = Vec::new();
    for number in 1..=MESSAGES {
        match number % 40 {
            10 => proxy.cut(),
            20 => proxy.black_hole(), // for good: what is in the hole never arrives
            30 => proxy.down(),
            35 => {
                // A short one: what was swallowed arrives late, also from connections that were given up long ago.
                proxy.black_hole();
                proxy.resume();
            }
            _ => {}
        }
        let sending = send(&sender, &hub, number);
        let seq = if number % 40 == 30 {
            let up = async {
                // While nobody gets through, nothing is acknowledged.
                tokio::time::sleep(Duration::from_millis(300)).await;
                proxy.up();
            };
            tokio::join!(timeout(PATIENCE, sending), up).0
        } else {
            timeout(PATIENCE, sending).await
        };
        acknowledged.push(seq.expect("acknowledged in time"));
    }
    let expected: Vec<u64> = (1..=MESSAGES).collect();
    assert_eq!(acknowledged, expected, "each is stored once, in the order it was sent");
    let seen = timeout(PATIENCE, reading).await.expect("all arrive in time").unwrap();
    let expected: Vec<(u64, String)> = expected.into_iter().map(|n| (n, format!("text {n}"))).collect();
    assert_eq!(seen, expected, "each arrives once, in order");
    assert!(proxy.connections.load(std::sync::atomic::Ordering::SeqCst) > 12, "they did come back");
    let page =
        hub.http(&a).get(&format!("/v1/messages?network=org&channel={}", hub.channel("general"))).await;
    let ids: HashSet<String> = texts(&page.json());
    assert_eq!(ids.len(), 200, "a page of the history, without doubles");
    hub.stop().await;
}

fn texts(page: &Value) -> HashSet<String> {
    let messages = page["messages"].as_array().unwrap().iter();
    messages.map(|message| message["body"]["text"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_socket_in_a_black_hole_is_found_by_its_pings_and_its_agents_leave() {
    let settings = Settings {
        ping_every: Duration::from_millis(500),
        presence_grace: Duration::from_millis(200),
        ..Settings::default()
    };
    let hub = TestHub::with(switchboard_testkit::Options { settings, ..Default::default() }).await;
    let proxy = Proxy::start(&hub.url).await;
    let (a, b) = (hub.token("a").await, hub.token("b").await);
    let mut lost = Socket::connect(&proxy.url, &a.bearer).await.unwrap();
    let agents = json!([{ "agent_id": "lost", "role": "r", "vault_id": hub.vault("main") }]);
    lost.hello(&a.instance_id, &agents, &json!({})).await;
    let open = || hub.hub.counters.sockets.load(std::sync::atomic::Ordering::Relaxed);
    let mut sender = hub.agent(&b, "sender").await;
    sender.drain().await;
    assert_eq!(open(), 2);
    proxy.black_hole();
    let noticed = async {
        // Asking again and again also keeps the observer's own socket alive: this client answers no ping.
        while !sender.drain_of("presence_update").await.iter().any(|frame| frame["state"] == "closed") {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, noticed).await.expect("its presence ends");
    assert_eq!(open(), 1, "its socket is gone");
    // What is sent to it meanwhile waits for it.
    for number in 0..10 {
        let mut message = hub.message(&format!("m{number}"), "finding", "sender", "while you were away");
        message["to"] = json!("lost");
        assert_eq!(sender.ask(&message).await["t"], "message.stored");
    }
    let mut back = Socket::connect(&proxy.url, &a.bearer).await.unwrap();
    back.hello(&a.instance_id, &agents, &json!({ hub.channel("general"): 0 })).await;
    for seq in 1..=10 {
        assert_eq!(back.expect("message.deliver").await["seq"], seq);
    }
    hub.stop().await;
}

#[test]
fn the_documented_time_is_the_one_that_counts() {
    let page = include_str!("../../../../../docs/protocol/ws.md");
    let written = format!("pings after {} s of silence; after two pings", PING_INTERVAL_MS / 1000);
    assert!(page.contains(&written), "docs/protocol/ws.md: {written}");
    assert_eq!(MISSED_PONGS_MAX, 2);
    assert_eq!(Settings::default().ping_every, Duration::from_millis(PING_INTERVAL_MS));
}
