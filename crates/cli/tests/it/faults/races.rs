//! Races that lose messages elsewhere: reading and then following, moving while being written to, closing while being
//! written to. And an address that a client merely claims.

use serde_json::{Value, json};
use std::collections::HashSet;
use switchboard_testkit::{Http, Socket, TestHub, Token};

async fn follow(hub: &TestHub, token: &Token, agent: &str, after: u64) -> Socket {
    let mut socket = Socket::connect(&hub.url, &token.bearer).await.unwrap();
    let agents = json!([{ "agent_id": agent, "role": "r", "vault_id": hub.vault("main") }]);
    socket.hello(&token.instance_id, &agents, &json!({ hub.channel("general"): after })).await;
    socket
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_reads_and_then_follows_misses_nothing_in_between() {
    let hub = TestHub::start().await;
    let (a, b) = (hub.token("a").await, hub.token("b").await);
    let mut sender = hub.agent(&a, "a").await;
    let path = format!("/v1/messages?network=org&channel={}", hub.channel("general").replace('/', "%2F"));
    // A page holds all there is: 50 rounds of three messages.
    for round in 0..50 {
        let write = async {
            for n in 0..3 {
                let message = hub.message(&format!("m{round}-{n}"), "finding", "a", "x");
                assert_eq!(sender.ask(&message).await["t"], "message.stored");
            }
        };
        let read = async {
            let page = hub.http(&b).get(&path).await.json();
            let known = page["messages"].as_array().unwrap().len() as u64;
            let mut reader = follow(&hub, &b, "b", known).await;
            for seq in known + 1..=3 * (round + 1) {
                assert_eq!(reader.expect("message.deliver").await["seq"], seq, "round {round}, from {known}");
            }
            reader.close().await;
        };
        tokio::join!(write, read);
    }
    hub.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_reconnects_all_the_time_gets_everything_that_was_accepted_for_it() {
    let hub = TestHub::start().await;
    let (a, b) = (hub.token("a").await, hub.token("b").await);
    let mut sender = hub.agent(&a, "a").await;
    follow(&hub, &b, "mover", 0).await.close().await;
    let messages: Vec<Value> = (1..=200)
        .map(|n| {
            let mut message = hub.message(&format!("m{n}"), "finding", "a", &format!("{n}"));
            message["to"] = json!("mover");
            message
        })
        .collect();
    let writing = tokio::spawn(async move {
        for message in messages {
            let answer = sender.ask(&message).await;
            assert_eq!(answer["t"], "message.stored", "never `not found`: {answer}");
        }
    });
    while !writing.is_finished() {
        follow(&hub, &b, "mover", 0).await.close().await;
    }
    writing.await.unwrap();
    let mut mover = follow(&hub, &b, "mover", 0).await;
    for seq in 1..=200 {
        assert_eq!(mover.expect("message.deliver").await["seq"], seq);
    }
    hub.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_arrives_while_a_swarm_closes_is_stored_or_refused_and_the_counts_add_up() {
    let hub = TestHub::start().await;
    let token = hub.token("a").await;
    let admin = hub.http(&hub.admin());
    let swarm = admin.post("/admin/v1/swarms", &json!({ "title": "short" })).await.json();
    let id = swarm["swarm_id"].as_str().unwrap_or_else(|| panic!("{swarm}")).to_owned();
    let joined = admin.post(&format!("/admin/v1/swarms/{id}/join"), &json!({ "handle": "ada" })).await;
    assert!(joined.status < 300, "{}", joined.text);
    let mut sender = hub.agent(&token, "a").await;
    for n in 0..40 {
        let mut message = hub.message(&format!("m{n}"), "finding", "a", "x");
        message["network"] = json!({ "kind": "swarm", "swarm_id": id });
        sender.send(&message).await;
        if n == 20 {
            let closed = admin.post(&format!("/admin/v1/swarms/{id}/close"), &json!({})).await;
            assert!(closed.status < 300, "{}", closed.text);
        }
    }
    let (mut seqs, mut refused) = (HashSet::new(), 0);
    for _ in 0..40 {
        let answer = sender.answer().await;
        if answer["t"] == "message.stored" {
            assert!(seqs.insert(answer["seq"].as_u64().unwrap()));
        } else {
            assert_eq!(answer["error"]["reason"], "swarm_closed", "{answer}");
            refused += 1;
        }
    }
    assert!(refused >= 19, "those behind the close are refused: {refused}");
    let page = admin.get(&format!("/v1/messages?network=swarm&swarm_id={id}")).await.json();
    assert_eq!(page["messages"].as_array().unwrap().len(), seqs.len(), "each is in one of both: {page}");
    hub.stop().await;
}

#[tokio::test]
async fn an_address_that_a_client_claims_opens_nothing() {
    let hub = TestHub::start().await;
    let nobody = Http::new(&hub.url, "made-up");
    for (name, value) in [
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-for", "10.0.0.1, 127.0.0.1"),
        ("x-real-ip", "::1"),
        ("forwarded", "for=127.0.0.1;host=localhost"),
    ] {
        let answer = nobody.post_raw("/admin/v1/tokens", "{}".into(), &[(name, value)]).await;
        assert_eq!(answer.status, 401, "{name}: {value}");
    }
    hub.stop().await;
}
