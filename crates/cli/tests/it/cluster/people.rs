//! Reaching people from several nodes is reaching them from one.

use super::{Nodes, all_ring};
use crate::faults::outbound::{configure, paged, until};
use crate::people::standin::StandIn;
use crate::people::{CONSENTS, GET, SEND, books};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::Arc;
use switchboard_engine::fault::VARIABLE;
use switchboard_testkit::{Http, PATIENCE, Process, Token};

/// Variables of nodes that have the channels `pager` and `hook`.
fn configured(dir: &std::path::Path, standin: &StandIn) -> (&'static str, String) {
    ("SWITCHBOARD_CONFIG", configure(dir, &standin.url).display().to_string())
}

async fn agent(node: &Process) -> Token {
    for channel in ["pager", "hook"] {
        let agreed = json!({ "channel": channel, "to": "ada", "allow": true });
        assert_eq!(node.admin().post(CONSENTS, &agreed).await.status, 200);
    }
    node.token("planner").await
}

fn call(channel: &str, key: &str) -> Value {
    json!({ "channel": channel, "to": "ada", "body": "once", "message_kind": "notice", "idempotency_key": key })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_is_asked_at_one_node_waited_for_at_another_and_answered_at_the_first() {
    let (_nodes, running) = Nodes::start(2, "auto").await;
    all_ring(&running).await;
    let token = running[0].token("planner").await;
    let admin = running[0].admin();
    let known = admin.get("/v1/tools/messaging.channels").await.json();
    let owner = &known["channels"].as_array().unwrap().iter().find(|one| one["name"] == "console").unwrap()["reachable"]
        [0]["to"];
    let asked = json!({ "channel": "console", "to": owner, "body": "Red or blue?" });
    let receipt = Http::new(&running[0].url, &token.bearer).post(SEND, &asked).await.json();
    assert_eq!(receipt["state"], "open", "{receipt}");

    let wait = json!({ "topic_id": receipt["topic_id"], "wait_ms": 60_000 });
    let other = Http::new(&running[1].url, &token.bearer).within(2 * PATIENCE);
    let now = json!({ "topic_id": receipt["topic_id"] });
    assert_eq!(other.post(GET, &now).await.json()["state"], "open", "the other node knows of it");
    let waiting = tokio::spawn(async move { other.post(GET, &wait).await.json() });
    let path = format!("/admin/v1/topics/{}/answer", receipt["topic_id"].as_str().unwrap());
    assert_eq!(admin.post(&path, &json!({ "text": "blue" })).await.status, 200);
    let found = tokio::time::timeout(PATIENCE, waiting).await.expect("it wakes").unwrap();
    assert_eq!((&found["state"], &found["answer"]["text"]), (&json!("answered"), &json!("blue")), "{found}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_key_at_two_nodes_at_once_goes_out_once() {
    let (dir, standin) = (tempfile::tempdir().unwrap(), StandIn::start([]).await);
    let (_nodes, running) = Nodes::start_with(2, "auto", vec![configured(dir.path(), &standin)]).await;
    all_ring(&running).await;
    let token = agent(&running[0]).await;
    for round in 0..10 {
        let channel = if round == 0 { "pager" } else { "hook" };
        let key = format!("k{round}");
        let send = |node: &Process| {
            let (http, call) = (Http::new(&node.url, &token.bearer), call(channel, &key));
            async move { http.post(SEND, &call).await.json() }
        };
        let (one, other) = tokio::join!(send(&running[0]), send(&running[1]));
        assert!(one["send_id"].is_string() && one["send_id"] == other["send_id"], "{one} {other}");
        let fresh = [&one, &other].iter().filter(|receipt| receipt["deduplicated"] == false).count();
        assert_eq!(fresh, 1, "{one} {other}");
        until(&running[0].admin(), &one["send_id"], &["delivered"]).await;
    }
    assert_eq!((paged(dir.path()).len(), standin.came().len()), (1, 9));
    books(&running[1].admin()).await;
}

/// A node dies with a message between the wire and its record. Another takes over: under the same id where that is harmless, else it
/// says that nobody knows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_node_leaves_in_the_middle_another_one_settles() {
    let (dir, standin): (_, Arc<StandIn>) = (tempfile::tempdir().unwrap(), StandIn::start([]).await);
    let config = configured(dir.path(), &standin);
    let mut fated = Vec::new();
    let mut nodes: Option<Nodes> = None;
    let mut token = None;
    for channel in ["hook", "pager"] {
        let more = vec![config.clone(), (VARIABLE, "after-perform".to_owned())];
        let node = match &mut nodes {
            None => {
                let (first, mut running) = Nodes::start_with(1, "auto", more).await;
                nodes = Some(first);
                running.remove(0)
            }
            Some(nodes) => {
                nodes.more = more;
                nodes.add().await
            }
        };
        if token.is_none() {
            token = Some(agent(&node).await);
        }
        let bearer = &token.as_ref().unwrap().bearer;
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let request = client
            .post(format!("{}{SEND}", node.url))
            .bearer_auth(bearer)
            .body(call(channel, channel).to_string());
        let (_, ended) =
            tokio::join!(request.header("content-type", "application/json").send(), node.ended());
        assert_eq!(ended, None, "it died in the middle");
        fated.push(channel);
    }
    let mut nodes = nodes.unwrap();
    nodes.more = vec![config];
    let (node, token) = (nodes.add().await, token.unwrap());
    let mut states = Vec::new();
    for channel in fated {
        let repeat = Http::new(&node.url, &token.bearer).post(SEND, &call(channel, channel)).await.json();
        assert_eq!(repeat["deduplicated"], true, "{repeat}");
        let shown = until(&node.admin(), &repeat["send_id"], &["delivered", "unknown"]).await;
        states.push(shown["state"].as_str().unwrap().to_owned());
    }
    assert_eq!(states, ["delivered", "unknown"]);
    let ids: HashSet<_> = standin.came().into_iter().map(|came| came.id).collect();
    assert_eq!((standin.came().len(), ids.len(), paged(dir.path()).len()), (2, 1, 1));
    books(&node.admin()).await;
}
