//! The database beneath the nodes: restarted, killed, cut off, out of reach.

use super::{Nodes, received, text, until};
use crate::faults::proxy::Proxy;
use serde_json::Value;
use std::time::Duration;
use switchboard_store::conformance::cluster::Cluster;
use switchboard_testkit::{PATIENCE, Process, Socket};
use tokio::time::Instant;

/// A refusal comes within this, whatever the database does.
const REFUSED_WITHIN: Duration = Duration::from_secs(30);
/// A node ends within this, whatever the database does.
const ENDED_WITHIN: Duration = Duration::from_secs(10);

async fn database() -> Cluster {
    tokio::task::spawn_blocking(Cluster::start).await.unwrap()
}

/// A proxy in front of the database, and the URL of a fresh store through it.
async fn link(database: &Cluster) -> (Proxy, String) {
    let proxy = Proxy::start(&format!("127.0.0.1:{}", database.port)).await;
    let url = database.fresh_url().replace(&database.port.to_string(), &proxy.port().to_string());
    (proxy, url)
}

async fn readiness(node: &Process) -> u16 {
    node.admin().get("/readyz").await.status
}

async fn is_ready(node: &Process, status: u16) {
    until("readiness", PATIENCE, async || readiness(node).await == status).await;
}

fn reason(answer: &Value) -> &str {
    answer["error"]["reason"].as_str().unwrap_or_default()
}

/// Sends until it is stored; what is said before must be that the database is out of reach.
async fn stored(socket: &mut Socket, message: &Value) -> u64 {
    loop {
        let answer = answer(&socket.ask(message).await);
        if let Some(seq) = answer {
            return seq;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The sequence; `None` when it may be sent again.
fn answer(frame: &Value) -> Option<u64> {
    if frame["t"] == "message.stored" {
        return frame["seq"].as_u64();
    }
    assert!(["store_unreachable", "outcome_unknown"].contains(&reason(frame)), "{frame}");
    assert!(reason(frame) == "outcome_unknown" || frame["error"]["retry_after_s"] == 2, "{frame}");
    None
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_of_the_database_costs_a_pause_and_no_socket() {
    let mut database = database().await;
    let (nodes, running) = Nodes::on(database.fresh_url(), 2, "local").await;
    let (a, b) = (running[0].token("a").await, running[0].token("b").await);
    let mut sender = nodes.agent(&running[0], &a, "a").await;
    let mut receiver = nodes.agent(&running[1], &b, "b").await;
    let mut next = 0;
    for in_order in [true, false] {
        let first = next;
        for _ in 0..30 {
            sender.send(&nodes.message(&format!("m{next}"), "finding", "a")).await;
            next += 1;
        }
        if in_order {
            database.stop();
        } else {
            database.kill();
        }
        for node in &running {
            is_ready(node, 503).await;
        }
        // What is sent now is answered when the database is back.
        for _ in 0..10 {
            sender.send(&nodes.message(&format!("m{next}"), "finding", "a")).await;
            next += 1;
        }
        tokio::task::block_in_place(|| database.start_again());
        let mut again = Vec::new();
        for number in first..next {
            match answer(&sender.answer().await) {
                Some(seq) => assert_eq!(seq, number + 1, "in the order in which they were sent"),
                None => again.push(number),
            }
        }
        assert!(again.is_empty(), "so short an outage is waited for: {again:?}");
        for node in &running {
            is_ready(node, 200).await;
        }
    }
    let got = received(&mut receiver, usize::try_from(next).unwrap()).await;
    let expected: Vec<_> = (0..next).map(|number| (number + 1, format!("m{number}"))).collect();
    assert_eq!(got, expected, "each once and in order, over the same socket");
    assert!(receiver.drain_of("message.deliver").await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_cut_in_the_middle_of_a_commit_gives_the_true_answer() {
    let database = database().await;
    let (proxy, url) = link(&database).await;
    let (mut nodes, mut running) = Nodes::on(url, 1, "local").await;
    nodes.store = nodes.store.replace(&proxy.port().to_string(), &database.port.to_string());
    running.push(nodes.add().await);
    let token = running[0].token("a").await;
    let mut sender = nodes.agent(&running[0], &token, "a").await;
    assert_eq!(stored(&mut sender, &nodes.message("m0", "finding", "a")).await, 1);
    for (number, gets_through) in (1..).zip([true, false, true, true, false, false]) {
        // Another node's commit: this one asks before it commits.
        running[1].token(&format!("t{number}")).await;
        proxy.cut_at(b"COMMIT\0", gets_through);
        let message = nodes.message(&format!("m{number}"), "finding", "a");
        let answer = sender.ask(&message).await;
        assert!(proxy.has_cut());
        assert_eq!(answer["t"], "message.stored", "looked up, not guessed: {answer}");
        assert_eq!(answer["seq"], number + 1);
        let again = sender.ask(&message).await;
        assert_eq!((&again["seq"], &again["gid"]), (&answer["seq"], &answer["gid"]));
    }
    // By its third commit in a row a node asks for nothing first: a message is one statement.
    let mut sent: Vec<_> = (0..7).map(|number| format!("m{number}")).collect();
    for answer in [Some(&b"INSERT 0 1"[..]), None, Some(b"INSERT 0 1"), None] {
        for step in 0..4 {
            let mut message = nodes.message(&format!("m{}", sent.len()), "finding", "a");
            if step == 3 {
                message["body"]["text"] = "the one that is cut".into();
                proxy.cut_between(b"the one that is cut", answer);
            }
            sent.push(text(&message["body"]["text"]));
            let stored = sender.ask(&message).await;
            assert_eq!(stored["seq"], sent.len(), "{answer:?}: {stored}");
        }
        assert!(proxy.has_cut());
    }
    // As the other node has it.
    let channel = nodes.channel().replace('/', "%2F");
    let page = running[1].admin().get(&format!("/v1/messages?network=org&channel={channel}")).await.json();
    let found: Vec<_> =
        page["messages"].as_array().unwrap().iter().map(|message| text(&message["body"]["text"])).collect();
    assert_eq!(found, sent);
    let verified = running[1].admin().post("/admin/v1/log/verify", &serde_json::json!({})).await.json();
    assert_eq!(verified["ok"], true, "{verified}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_database_is_down_clients_are_told_in_time_and_the_node_ends_in_time() {
    let mut database = database().await;
    let (nodes, mut running) = Nodes::on(database.fresh_url(), 2, "local").await;
    let token = running[0].token("a").await;
    let mut sender = nodes.agent(&running[0], &token, "a").await;
    assert_eq!(stored(&mut sender, &nodes.message("m0", "finding", "a")).await, 1);
    database.stop();
    let began = Instant::now();
    let mut waiting = Vec::new();
    for number in 1..=40 {
        let message = nodes.message(&format!("m{number}"), "finding", "a");
        sender.send(&message).await;
        waiting.push(message);
    }
    for _ in &waiting {
        assert_eq!(answer(&sender.answer().await), None);
    }
    assert!(began.elapsed() < REFUSED_WITHIN, "{:?}", began.elapsed());
    // Who comes later waits no more.
    let began = Instant::now();
    assert_eq!(answer(&sender.ask(&waiting[0]).await), None);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let refused = running[0].admin().post("/admin/v1/tokens", &serde_json::json!({ "label": "x" })).await;
    assert_eq!((refused.status, refused.json()["error"]["sb"].as_str()), (503, Some("SB0129")));
    tokio::task::block_in_place(|| database.start_again());
    for (seq, message) in (2..).zip(&waiting) {
        assert_eq!(stored(&mut sender, message).await, seq);
    }
    database.stop();
    sender.send(&nodes.message("last", "finding", "a")).await;
    is_ready(&running[0], 503).await;
    for node in running.drain(..) {
        let began = Instant::now();
        node.terminate().await;
        assert!(began.elapsed() < ENDED_WITHIN, "{:?}", began.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_cut_off_from_the_database_alone_says_so_and_catches_up() {
    let database = database().await;
    let (proxy, url) = link(&database).await;
    let (mut nodes, mut running) = Nodes::on(url, 1, "local").await;
    nodes.store = nodes.store.replace(&proxy.port().to_string(), &database.port.to_string());
    running.push(nodes.add().await);
    let (a, b) = (running[0].token("a").await, running[0].token("b").await);
    let mut lost = nodes.agent(&running[0], &a, "a").await;
    let mut other = nodes.agent(&running[1], &b, "b").await;
    let (c, d) = (running[0].token("c").await, running[0].token("d").await);
    let mut reads_there = nodes.agent(&running[0], &c, "c").await;
    let mut reads_elsewhere = nodes.agent(&running[1], &d, "d").await;
    assert_eq!(stored(&mut lost, &nodes.message("m0", "finding", "a")).await, 1);
    // What is sent into the hole is neither answered nor refused by anybody.
    proxy.black_hole();
    let began = Instant::now();
    let message = nodes.message("m1", "finding", "a");
    lost.send(&message).await;
    assert_eq!(stored(&mut other, &nodes.message("m2", "finding", "b")).await, 2, "the other node goes on");
    proxy.down();
    let told = loop {
        // A frame may be longer in coming than tests wait for one.
        match tokio::time::timeout(Duration::from_secs(15), lost.answer()).await {
            Ok(frame) => break frame,
            Err(_) => assert!(began.elapsed() < REFUSED_WITHIN),
        }
    };
    assert_eq!(answer(&told), None);
    assert!(began.elapsed() < REFUSED_WITHIN, "{:?}", began.elapsed());
    proxy.up();
    assert_eq!(stored(&mut lost, &message).await, 3);
    for reader in [&mut reads_there, &mut reads_elsewhere] {
        let all = [(1, "m0".to_owned()), (2, "m2".to_owned()), (3, "m1".to_owned())];
        assert_eq!(received(reader, 3).await, all, "over the sockets that were there before");
    }
    // In a hole it ends in time as well.
    proxy.black_hole();
    lost.send(&nodes.message("m4", "finding", "a")).await;
    let began = Instant::now();
    running.remove(0).terminate().await;
    assert!(began.elapsed() < ENDED_WITHIN, "{:?}", began.elapsed());
    assert_eq!(stored(&mut other, &nodes.message("m5", "finding", "b")).await, 4);
}
