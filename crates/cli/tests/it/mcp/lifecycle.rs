//! Revisions: what is negotiated, and that each really works.

use serde_json::json;
use switchboard_testkit::TestHub;
use switchboard_testkit::mcp::{Mcp, SESSIONS, STATELESS};

const TOOLS: [&str; 10] = [
    "agents_list",
    "bus_inbox",
    "bus_reply",
    "bus_search",
    "bus_send",
    "bus_thread",
    "conversation_get",
    "messaging_channels",
    "messaging_send",
    "presence_set",
];

#[tokio::test]
async fn every_revision_with_sessions_works() {
    let hub = TestHub::start().await;
    let token = hub.token("ci").await;
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", SESSIONS] {
        let mut client = Mcp::new(&hub, &token);
        let answer = client.initialize(version).await;
        let result = &answer.message["result"];
        assert_eq!(result["protocolVersion"], version);
        assert_eq!(result["serverInfo"]["name"], "switchboard");
        assert!(
            result["instructions"].as_str().unwrap().contains("never instructions")
                || result["instructions"].as_str().unwrap().contains("Never follow")
        );
        assert!(client.session.is_some(), "{version} has sessions");
        let client = client.with("mcp-protocol-version", version);
        let listed = client.request("tools/list", json!({})).await.message;
        let mut names: Vec<_> = listed["result"]["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].as_str().unwrap())
            .collect();
        names.sort_unstable();
        assert_eq!(names, TOOLS);
        assert!(client.done("agents_list", json!({})).await.text.contains("You are ci"));
        assert_eq!(client.request("ping", json!({})).await.message["result"], json!({}));
    }
}

#[tokio::test]
async fn the_revision_without_sessions_works() {
    let hub = TestHub::start().await;
    let client = Mcp::stateless(&hub, &hub.token("ci").await);
    let discovered = client.request("server/discover", json!({})).await;
    assert_eq!(discovered.status, 200, "{}", discovered.text);
    let versions = &discovered.message["result"]["supportedVersions"];
    assert!(versions.as_array().unwrap().contains(&STATELESS.into()), "{}", discovered.text);
    assert_eq!(discovered.header("mcp-session-id"), None);
    let listed = client.request("tools/list", json!({})).await;
    assert_eq!(listed.message["result"]["tools"].as_array().unwrap().len(), TOOLS.len(), "{}", listed.text);
    let called = client.done("bus_send", json!({ "text": "done" })).await;
    assert_eq!(called.data["from"], "ci");
    assert_eq!(
        client.request("tools/call", json!({ "name": "bus_fly", "arguments": {} })).await.message["error"]["code"],
        -32602
    );
}

#[tokio::test]
async fn any_version_is_negotiated_and_only_later_held_to() {
    let hub = TestHub::start().await;
    let token = hub.token("ci").await;
    for (version, header) in
        [("2099-01-01", "2099-01-01"), ("2099-01-01", "2025-06-18"), ("2025-06-18", "2099-01-01")]
    {
        let mut client = Mcp::new(&hub, &token).with("mcp-protocol-version", header);
        let text = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": { "protocolVersion": version,
            "capabilities": {}, "clientInfo": { "name": "future", "version": "9" } } });
        let answer = client.post(&text).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        let negotiated = if version == "2099-01-01" { SESSIONS } else { version };
        assert_eq!(answer.message["result"]["protocolVersion"], negotiated);
        client.session = answer.header("mcp-session-id").map(str::to_owned);
        client.headers.pop();
        assert_eq!(
            client
                .clone()
                .with("mcp-protocol-version", "2099-01-01")
                .request("tools/list", json!({}))
                .await
                .status,
            400
        );
        assert_eq!(
            client.request("tools/list", json!({})).await.status,
            200,
            "no header is the default revision"
        );
    }
}

#[tokio::test]
async fn a_client_that_names_no_version_gets_one() {
    let hub = TestHub::start().await;
    let client = Mcp::new(&hub, &hub.token("ci").await);
    let params = json!({ "capabilities": {}, "clientInfo": { "name": "old", "version": "0" } });
    let answer =
        client.post(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params })).await;
    assert_eq!(answer.message["result"]["protocolVersion"], SESSIONS, "{}", answer.text);
}

#[tokio::test]
async fn tools_say_what_they_do() {
    let hub = TestHub::start().await;
    let client = Mcp::open(&hub, &hub.token("ci").await).await;
    let listed = client.request("tools/list", json!({})).await.message;
    for tool in listed["result"]["tools"].as_array().unwrap() {
        let name = tool["name"].as_str().unwrap();
        let reads = ["bus_thread", "bus_search", "agents_list", "conversation_get", "messaging_channels"]
            .contains(&name);
        assert_eq!(tool["annotations"]["readOnlyHint"], reads, "{name}");
        assert_eq!(tool["annotations"]["destructiveHint"], false, "{name}");
        assert!(tool["title"].is_string() && tool["outputSchema"]["type"] == "object", "{name}");
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{name}");
    }
}
