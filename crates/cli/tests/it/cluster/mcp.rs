//! The MCP door on several nodes: sessions belong to one, everything else to all.

use super::{Nodes, all_ring, until};
use serde_json::json;
use std::time::Duration;
use switchboard_testkit::PATIENCE;
use switchboard_testkit::mcp::Mcp;

/// Sooner than any node looks without being rung.
const RUNG_WITHIN: Duration = Duration::from_secs(8);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_unknown_to_other_nodes_and_its_client_begins_a_new_one() {
    let (_nodes, running) = Nodes::start(2, "auto").await;
    all_ring(&running).await;
    let token = running[0].token("ada").await;
    let first = Mcp::open_at(&running[0].url, &token.bearer).await;
    first.done("bus_send", json!({ "text": "on the first node" })).await;
    let moved = Mcp::at(&running[1].url, &token.bearer).in_session(first.session.as_deref());
    let answer = moved.request("tools/list", json!({})).await;
    assert_eq!((answer.status, &answer.message["error"]["code"]), (404, &json!("not_found")));
    assert_eq!(moved.get(&[]).await.status, 404);
    let again = Mcp::open_at(&running[1].url, &token.bearer).await;
    // The index follows the log in its own time.
    until("the message is found", PATIENCE, async || {
        again.done("bus_search", json!({ "query": "first node" })).await.text.contains("on the first")
    })
    .await;
    assert_eq!(first.request("tools/list", json!({})).await.status, 200, "the old one is there all the same");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_session_each_call_may_go_to_another_node() {
    let (_nodes, running) = Nodes::start(2, "auto").await;
    all_ring(&running).await;
    let (ada, ben) = (running[0].token("ada").await, running[0].token("ben").await);
    let at = |node: usize, token: &switchboard_testkit::Token| {
        Mcp::stateless_at(&running[node].url, &token.bearer)
    };
    at(1, &ben).done("bus_inbox", json!({})).await; // from here on
    for round in 0..6 {
        let text = format!("round {round}");
        let sent = at(round % 2, &ada).done("bus_send", json!({ "text": text })).await;
        // The inbox remembers where it stopped, wherever it is emptied next.
        let got = at((round / 2) % 2, &ben).done("bus_inbox", json!({ "mark_read": true })).await;
        assert_eq!(got.data["messages"].as_array().unwrap().len(), 1, "{}", got.text);
        assert_eq!(got.data["messages"][0]["gid"], sent.data["gid"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_inbox_that_waits_on_one_node_is_woken_by_a_send_on_another() {
    let (_nodes, running) = Nodes::start(2, "auto").await;
    all_ring(&running).await;
    let (ada, ben) = (running[0].token("ada").await, running[0].token("ben").await);
    let sender = Mcp::open_at(&running[0].url, &ada.bearer).await;
    let receivers =
        [Mcp::open_at(&running[1].url, &ben.bearer).await, Mcp::stateless_at(&running[1].url, &ben.bearer)];
    for receiver in receivers {
        receiver.done("bus_inbox", json!({})).await;
        let waiting = tokio::spawn({
            let receiver = receiver.clone();
            async move { receiver.done("bus_inbox", json!({ "wait_ms": 60_000 })).await }
        });
        until("ben is there", PATIENCE, async || {
            let listed = sender.done("agents_list", json!({})).await.data;
            let agents = listed["agents"].as_array().unwrap().clone();
            agents.iter().any(|agent| agent["agent"] == "ben" && agent["state"] == "active")
        })
        .await;
        assert!(!waiting.is_finished());
        let sent = sender.done("bus_send", json!({ "text": "the build is red", "to": "ben" })).await;
        let woken = tokio::time::timeout(RUNG_WITHIN, waiting).await.expect("woken, not found by a look");
        assert_eq!(woken.unwrap().data["messages"][0]["gid"], sent.data["gid"]);
    }
}
