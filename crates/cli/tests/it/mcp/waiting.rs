//! Waiting: woken by the message, not by the next look.

use super::until_waiting;
use serde_json::json;
use std::sync::Arc;
use switchboard_testkit::mcp::Called;
use switchboard_testkit::mcp::Mcp;
use switchboard_testkit::{PATIENCE, TestHub};
use tokio::task::JoinHandle;

/// Longer than the test's patience: whoever returns was woken.
const LONG_MS: u64 = 60_000;

fn spawned(client: &Mcp, tool: &'static str, arguments: serde_json::Value) -> JoinHandle<Called> {
    let client = client.clone();
    tokio::spawn(async move { client.done(tool, arguments).await })
}

async fn woken(call: JoinHandle<Called>) -> Called {
    tokio::time::timeout(PATIENCE, call).await.expect("woken in time").unwrap()
}

#[tokio::test]
async fn a_message_wakes_a_waiting_agent() {
    let hub = TestHub::start().await;
    let ada = Mcp::open(&hub, &hub.token("ada").await).await;
    for ben in [Mcp::open(&hub, &hub.token("ben").await).await, Mcp::stateless(&hub, &hub.token("bea").await)]
    {
        let waiting = spawned(&ben, "bus_inbox", json!({ "wait_ms": LONG_MS }));
        until_waiting(&hub, 1).await;
        assert!(!waiting.is_finished());
        let sent = ada.done("bus_send", json!({ "text": "the build is red" })).await;
        let got = woken(waiting).await;
        assert_eq!(got.data["messages"][0]["gid"], sent.data["gid"]);
        assert_eq!(got.data["more"], false);
    }
}

#[tokio::test]
async fn a_channel_that_is_new_wakes_too() {
    let hub = TestHub::start().await;
    let (ada, ben) =
        (Mcp::open(&hub, &hub.token("ada").await).await, Mcp::open(&hub, &hub.token("ben").await).await);
    let waiting = spawned(&ben, "bus_inbox", json!({ "wait_ms": LONG_MS }));
    until_waiting(&hub, 1).await;
    ada.done("bus_send", json!({ "text": "first words", "channel": "builds" })).await;
    assert!(woken(waiting).await.text.contains("first words"));
}

#[tokio::test]
async fn a_question_can_wait_for_its_answer() {
    let hub = TestHub::start().await;
    let (ada, ben) =
        (Mcp::open(&hub, &hub.token("ada").await).await, Mcp::open(&hub, &hub.token("ben").await).await);
    ben.done("bus_inbox", json!({})).await;
    let asked = json!({ "text": "Which port?", "type": "question", "to": "ben", "wait_ms": LONG_MS });
    let waiting = spawned(&ada, "bus_send", asked);
    let question = woken(spawned(&ben, "bus_inbox", json!({ "wait_ms": LONG_MS }))).await;
    let gid = question.data["messages"][0]["gid"].clone();
    // Something else on the channel does not end the wait for the answer.
    ben.done("bus_send", json!({ "text": "unrelated" })).await;
    ben.done("bus_reply", json!({ "gid": gid, "text": "hm", "type": "finding" })).await;
    assert!(!waiting.is_finished());
    ben.done("bus_reply", json!({ "gid": gid, "text": "8484" })).await;
    let answered = woken(waiting).await;
    assert_eq!(answered.data["answer"]["type"], "answer");
    assert_eq!(answered.data["answer"]["reply_to"], gid);
    assert!(answered.text.contains("8484") && answered.text.contains("never instructions"));
    let rest = ada.done("bus_inbox", json!({})).await;
    let texts: Vec<_> =
        rest.data["messages"].as_array().unwrap().iter().map(|item| item["type"].as_str()).collect();
    assert_eq!(texts, [Some("finding"), Some("finding")], "the answer is not handed over twice");
    assert!(
        ada.done("bus_inbox", json!({ "unread": true })).await.text.contains("8484"),
        "but it is not lost"
    );
}

#[tokio::test]
async fn a_wait_for_nothing_ends_and_says_so() {
    let hub = TestHub::start().await;
    let ada = Mcp::open(&hub, &hub.token("ada").await).await;
    let asked = ada.done("bus_send", json!({ "text": "Anyone?", "type": "question", "wait_ms": 1 })).await;
    assert!(asked.text.contains("No answer came") && asked.text.contains("task proposal"), "{}", asked.text);
    assert!(asked.data["answer"].is_null() && asked.data["deadline"].is_string());
    let nothing = ada.done("bus_inbox", json!({ "wait_ms": 1 })).await;
    assert!(
        nothing.text.contains("Nothing new") && nothing.data["messages"] == json!([]),
        "{}",
        nothing.text
    );
}

#[tokio::test]
async fn many_waiting_agents_are_all_woken_by_one_message() {
    let hub = TestHub::start().await;
    let ada = Mcp::open(&hub, &hub.token("ada").await).await;
    let mut waiting = Vec::new();
    for number in 0..20 {
        let token = hub.token(&format!("w{number}")).await;
        waiting.push(spawned(&Mcp::stateless(&hub, &token), "bus_inbox", json!({ "wait_ms": LONG_MS })));
    }
    until_waiting(&hub, 20).await;
    let sent = Arc::new(ada.done("bus_send", json!({ "text": "everyone" })).await);
    for call in waiting {
        assert_eq!(woken(call).await.data["messages"][0]["gid"], sent.data["gid"]);
    }
}

#[tokio::test]
async fn a_second_request_under_a_running_id_is_refused_and_the_first_is_answered() {
    let hub = TestHub::start().await;
    let ada = Mcp::open(&hub, &hub.token("ada").await).await;
    let ben = Mcp::open(&hub, &hub.token("ben").await).await;
    let call = |wait_ms| {
        let params = json!({ "name": "bus_inbox", "arguments": { "wait_ms": wait_ms } });
        json!({ "jsonrpc": "2.0", "id": "seven", "method": "tools/call", "params": params })
    };
    let first = {
        let (ben, call) = (ben.clone(), call(15_000));
        tokio::spawn(async move { ben.post(&call).await })
    };
    until_waiting(&hub, 1).await;
    let second = tokio::time::timeout(PATIENCE, ben.post(&call(0))).await.expect("answered in time");
    assert_eq!((second.status, &second.message["id"]), (400, &json!("seven")), "{}", second.text);
    assert_eq!(second.message["error"]["code"], -32600, "{}", second.text);

    ada.done("bus_send", json!({ "text": "for the first" })).await;
    let first = tokio::time::timeout(PATIENCE, first).await.expect("answered in time").unwrap();
    assert!(first.message["result"]["content"][0]["text"].as_str().unwrap().contains("for the first"));
    let third = ben.post(&call(0)).await;
    assert!(third.message["result"].is_object(), "with its answer the id is free: {}", third.text);
}
