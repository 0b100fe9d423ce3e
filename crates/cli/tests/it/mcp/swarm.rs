//! Swarms through tools: untrusted, handles only.

use serde_json::json;
use switchboard_core::rights::Rights;
use switchboard_testkit::TestHub;
use switchboard_testkit::mcp::Mcp;

#[tokio::test]
async fn swarm_messages_are_untrusted_and_name_nobody() {
    let hub = TestHub::start().await;
    let ada = hub.token_of("ada-laptop", Some("Ada"), Rights::AGENT).await;
    let ben = hub.token_of("ben-box", Some("Ben"), Rights::AGENT).await;
    let admin = hub.http(&hub.admin());
    let made = admin.post("/admin/v1/swarms", &json!({ "title": "Retry budgets" })).await.json();
    let swarm = made["swarm_id"].as_str().unwrap().to_owned();
    for (person, handle) in [("Ada", "quiet-heron"), ("Ben", "loud-owl")] {
        let path = format!("/admin/v1/swarms/{swarm}/join");
        let joined = admin.post(&path, &json!({ "handle": handle, "person": person })).await;
        assert_eq!(joined.status, 204, "{}", joined.text);
    }
    let (a, b) = (Mcp::open(&hub, &ada).await, Mcp::open(&hub, &ben).await);
    b.done("bus_inbox", json!({})).await;
    let asked = json!({ "text": "How many retries?", "type": "question", "swarm": swarm });
    let sent = a.done("bus_send", asked).await;
    assert_eq!(sent.data["swarm_id"], swarm.as_str());
    let got = b.done("bus_inbox", json!({ "wait_ms": 60_000 })).await;
    let item = &got.data["messages"][0];
    assert_eq!((&item["trust"], &item["from_handle"]), (&json!("untrusted"), &json!("quiet-heron")));
    assert!(got.text.contains("\ntrust: untrusted\n"), "{}", got.text);
    for secret in ["Ada", "ada-laptop", &ada.instance_id] {
        assert!(
            !got.text.contains(secret) && !got.data.to_string().contains(secret),
            "{secret} in {}",
            got.text
        );
    }
    b.done("bus_reply", json!({ "gid": item["gid"], "text": "Three." })).await;
    let answer = a.done("bus_inbox", json!({ "wait_ms": 60_000 })).await;
    assert_eq!(answer.data["messages"][0]["from_handle"], "loud-owl");
    let thread = a.done("bus_thread", json!({ "gid": sent.data["gid"] })).await;
    assert_eq!(thread.data["messages"].as_array().unwrap().len(), 2);

    let outsider = Mcp::open(&hub, &hub.token_of("cy", Some("Cy"), Rights::AGENT).await).await;
    for (tool, arguments) in [
        ("bus_thread", json!({ "gid": sent.data["gid"] })),
        ("bus_reply", json!({ "gid": sent.data["gid"], "text": "me too" })),
    ] {
        let foreign = outsider.refused(tool, arguments.clone()).await;
        assert!(foreign.contains("code: not_found"), "{tool}: {foreign}");
        let mut unknown = arguments;
        unknown["gid"] = json!("msg_unknown");
        assert_eq!(outsider.refused(tool, unknown).await, foreign, "{tool}");
    }
    let agents = hub.http(&hub.admin()).get("/v1/agents").await.text;
    assert!(agents.contains("\"ada-laptop\""), "{agents}");
    assert!(!agents.contains("\"cy\""), "a foreign message announces nobody, like an unknown one: {agents}");
    assert!(
        outsider.refused("bus_send", json!({ "text": "hi", "swarm": swarm })).await.contains("no_handle")
    );
    let found = outsider.done("bus_search", json!({ "query": "retries" })).await;
    assert_eq!(found.data["messages"], json!([]));
}
