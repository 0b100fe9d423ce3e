//! What clients of different nodes see of each other is what they would see on one.

use super::{Nodes, all_ring, received, text};
use serde_json::json;
use std::time::Duration;
use switchboard_testkit::{PATIENCE, Socket};

/// Messages each node's client sends.
const EACH: usize = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_three_nodes_arrive_everywhere_in_one_order() {
    let (nodes, running) = Nodes::start(3, "auto").await;
    all_ring(&running).await;
    let mut sockets = Vec::new();
    for (number, node) in running.iter().enumerate() {
        let token = running[0].token(&format!("t{number}")).await;
        let mut socket = nodes.agent(node, &token, &format!("a{number}")).await;
        socket.drain().await;
        sockets.push(socket);
    }
    for round in 0..EACH {
        for (number, socket) in sockets.iter_mut().enumerate() {
            socket.send(&nodes.message(&format!("{number}-{round}"), "finding", &format!("a{number}"))).await;
        }
    }
    // One's own messages are not delivered to it: what each lacks are its own.
    for (number, socket) in sockets.iter_mut().enumerate() {
        let got = received(socket, 2 * EACH).await;
        assert!(got.windows(2).all(|pair| pair[0].0 < pair[1].0), "in order: {got:?}");
        for other in (0..3).filter(|other| *other != number) {
            let of = format!("{other}-");
            let from: Vec<_> = got.iter().filter(|(_, id)| id.starts_with(&of)).collect();
            assert!(from.iter().enumerate().all(|(at, (_, id))| *id == format!("{other}-{at}")), "{from:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_moves_with_its_cursor_misses_nothing_and_gets_nothing_twice() {
    let (nodes, running) = Nodes::start(2, "auto").await;
    all_ring(&running).await;
    let (a, b) = (running[0].token("a").await, running[0].token("b").await);
    let mut sender = nodes.agent(&running[0], &a, "a").await;
    let (mut cursor, mut seen) = (json!({}), Vec::new());
    for round in 0..6 {
        let at = &running[round % 2];
        let mut receiver = nodes.agent_from(at, &b, "b", &cursor).await;
        for number in 0..5 {
            sender.ask(&nodes.message(&format!("{round}-{number}"), "finding", "a")).await;
        }
        // It leaves having seen a part of them.
        let got = received(&mut receiver, if round == 5 { 8 } else { 3 + usize::from(round > 0) }).await;
        seen.extend(got);
        cursor = json!({ nodes.channel(): seen.last().unwrap().0 });
        receiver.close().await;
    }
    let mut last = nodes.agent_from(&running[1], &b, "b", &cursor).await;
    while seen.len() < 30 {
        seen.extend(received(&mut last, 1).await);
    }
    let expected: Vec<_> =
        (0..6).flat_map(|round| (0..5).map(move |number| format!("{round}-{number}"))).collect();
    assert_eq!(seen.into_iter().map(|(_, id)| id).collect::<Vec<_>>(), expected);
    assert!(last.drain_of("message.deliver").await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn direct_messages_receipts_and_presence_cross_nodes() {
    let (nodes, running) = Nodes::start(2, "auto").await;
    all_ring(&running).await;
    let (a, b) = (running[0].token("a").await, running[1].token("b").await);
    let mut sender = nodes.agent(&running[0], &a, "a").await;
    let mut receiver = nodes.agent(&running[1], &b, "b").await;
    let seen = sender.expect("presence_update").await;
    assert_eq!((seen["agent_id"].as_str(), seen["state"].as_str()), (Some("b"), Some("active")));
    let mut message = nodes.message("m1", "finding", "a");
    message["to"] = json!("b");
    let stored = sender.ask(&message).await;
    assert_eq!(stored["t"], "message.stored", "bound to b's instance, wherever it is: {stored}");
    let delivered = receiver.expect("message.deliver").await;
    assert_eq!(delivered["gid"], stored["gid"]);
    receiver.send(&json!({ "t": "message.receipt", "gid": stored["gid"], "by": "b", "state": "read" })).await;
    let status = sender.expect("message.status").await;
    assert_eq!((&status["gid"], status["state"].as_str()), (&stored["gid"], Some("read")));
    receiver.close().await;
    loop {
        let seen = sender.expect("presence_update").await;
        if seen["state"] == "closed" {
            assert_eq!(seen["agent_id"], "b");
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_bearer_is_refused_by_every_node_and_its_sockets_end() {
    let (nodes, running) = Nodes::start(2, "auto").await;
    all_ring(&running).await;
    let token = running[0].token("a").await;
    let mut socket = nodes.agent(&running[1], &token, "a").await;
    let path = format!("/admin/v1/tokens/{}", token.instance_id);
    assert!(running[0].admin().delete(&path).await.status < 300);
    let ended = async { while socket.next().await.is_some() {} };
    tokio::time::timeout(PATIENCE, ended).await.expect("the socket ends");
    assert!(Socket::connect(&running[1].url, &token.bearer).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_speaks_over_two_nodes_is_there_until_both_have_lost_it() {
    let (nodes, running) = Nodes::start(2, "auto").await;
    all_ring(&running).await;
    let (a, b) = (running[0].token("a").await, running[0].token("b").await);
    let mut watcher = nodes.agent(&running[0], &a, "a").await;
    let first = nodes.agent(&running[0], &b, "b").await;
    let second = nodes.agent(&running[1], &b, "b").await;
    assert_eq!(watcher.expect("presence_update").await["state"], "active");
    second.close().await;
    // The node that announced it last closes it, and the other one says that it is there.
    while watcher.expect("presence_update").await["state"] != "active" {}
    first.close().await;
    assert_eq!(watcher.expect("presence_update").await["state"], "closed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_nobody_answers_becomes_one_task() {
    let (nodes, running) = Nodes::start(3, "auto").await;
    all_ring(&running).await;
    let token = running[0].token("a").await;
    let mut socket = nodes.agent(&running[1], &token, "a").await;
    let soon = Duration::from_secs(2);
    let mut question = nodes.message("q1", "question", "a");
    question["deadline"] = in_future(soon);
    let stored = socket.ask(&question).await;
    assert_eq!(stored["t"], "message.stored", "{stored}");
    let proposed = socket.expect("task.event").await;
    assert_eq!(proposed["state"], "proposed", "{proposed}");
    tokio::time::sleep(Duration::from_secs(3)).await; // another keeper would have come by
    assert!(socket.drain_of("task.event").await.is_empty());
    let tasks = running[2].admin().get("/admin/v1/vaults/main/tasks").await;
    assert_eq!(tasks.text.matches("\"proposed\"").count(), 1, "{}", tasks.text);
}

pub(super) fn in_future(from_now: Duration) -> serde_json::Value {
    use switchboard_core::time::{Clock as _, SystemClock};
    let ms = SystemClock::default().wall_ms() + i64::try_from(from_now.as_millis()).unwrap();
    json!(switchboard_engine::frame::utc(ms))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vaults_swarms_and_polls_are_the_same_on_every_node() {
    let (nodes, running) = Nodes::start(2, "auto").await;
    all_ring(&running).await;
    let admin = running[0].admin();
    let vault = text(&admin.post("/admin/v1/vaults", &json!({ "name": "late" })).await.json()["vault_id"]);
    let swarm = text(&admin.post("/admin/v1/swarms", &json!({ "title": "Late" })).await.json()["swarm_id"]);
    let join = json!({ "handle": "quiet-heron" });
    assert!(admin.post(&format!("/admin/v1/swarms/{swarm}/join"), &join).await.status < 300);
    let (a, b) = (running[0].token("a").await, running[0].token("b").await);
    let http = switchboard_testkit::Http::new(&running[1].url, &b.bearer);
    let mut cursor = text(&http.get("/v1/bus/poll?wait_ms=0").await.json()["cursor"]);
    let mut sender = Socket::connect(&running[1].url, &a.bearer).await.unwrap();
    let agents = json!([{ "agent_id": "a", "role": "tester", "vault_id": vault }]);
    sender.hello(&a.instance_id, &agents, &json!({})).await;
    for (number, network) in [
        json!({ "kind": "org", "channel": format!("org:{}/vault:{vault}/general", nodes.org) }),
        json!({ "kind": "swarm", "swarm_id": swarm }),
    ]
    .into_iter()
    .enumerate()
    {
        let mut message = nodes.message(&format!("m{number}"), "finding", "a");
        message["network"] = network;
        let stored = sender.ask(&message).await;
        assert_eq!(stored["t"], "message.stored", "{stored}");
    }
    // One poll here, the next one there, each from where the one before stopped.
    let mut got = Vec::new();
    for round in 0..10 {
        let http = switchboard_testkit::Http::new(&running[round % 2].url, &b.bearer);
        let answer = http.get(&format!("/v1/bus/poll?wait_ms=500&cursor={cursor}")).await.json();
        cursor = text(&answer["cursor"]);
        let frames = answer["frames"].as_array().unwrap().iter();
        got.extend(
            frames.filter(|frame| frame["t"] == "message.deliver").map(|frame| text(&frame["body"]["text"])),
        );
    }
    got.sort_unstable();
    assert_eq!(got, ["m0", "m1"]);
}
