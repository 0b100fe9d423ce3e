//! What is refused, how, and that nothing changes by it.

use serde_json::{Value, json};
use switchboard_core::rights::{Right, Rights};
use switchboard_testkit::mcp::Mcp;
use switchboard_testkit::{Process, TestHub, Token};

#[tokio::test]
async fn nobody_gets_in_without_a_bearer_and_its_right() {
    let hub = TestHub::start().await;
    let nobody = Token { instance_id: String::new(), bearer: String::new() };
    let wrong = Token { bearer: "sbt_wrong".into(), ..nobody.clone() };
    for token in [nobody, wrong] {
        let answer = Mcp::new(&hub, &token).initialize("2025-11-25").await;
        assert_eq!((answer.status, answer.header("www-authenticate")), (401, Some("Bearer")));
        assert_eq!(answer.message["error"]["code"], "unauthorized");
        assert_eq!(answer.header("mcp-session-id"), None);
    }
    let reader = hub.token_of("reader", None, Rights::of(&[Right::TasksRead])).await;
    let answer = Mcp::new(&hub, &reader).initialize("2025-11-25").await;
    assert_eq!((answer.status, &answer.message["error"]["code"]), (403, &json!("forbidden_right")));
}

#[tokio::test]
async fn a_revoked_token_ends_at_once_also_in_its_session() {
    let hub = TestHub::start().await;
    let token = hub.token("ci").await;
    let client = Mcp::open(&hub, &token).await;
    client.done("agents_list", json!({})).await;
    let revoked = hub.http(&hub.admin()).delete(&format!("/admin/v1/tokens/{}", token.instance_id)).await;
    assert!(revoked.status < 300, "{}", revoked.text);
    let answer = client.request("tools/call", json!({ "name": "agents_list", "arguments": {} })).await;
    assert_eq!((answer.status, &answer.message["error"]["code"]), (401, &json!("instance_revoked")));
}

#[tokio::test]
async fn clients_that_look_for_oauth_find_none() {
    let hub = TestHub::start().await;
    let http = hub.http(&Token { instance_id: String::new(), bearer: String::new() });
    for path in [
        "/.well-known/oauth-authorization-server",
        "/.well-known/oauth-authorization-server/mcp",
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/openid-configuration",
        "/.well-known/openid-configuration/mcp",
        "/mcp/.well-known/oauth-authorization-server",
        "/mcp/.well-known/openid-configuration",
    ] {
        let reply = http.get(path).await;
        assert_eq!(
            (reply.status, reply.json()["error"]["code"].as_str()),
            (404, Some("not_found")),
            "{path}"
        );
    }
}

#[tokio::test]
async fn text_that_is_no_message_is_refused_with_its_reason() {
    let hub = TestHub::start().await;
    let client = Mcp::open(&hub, &hub.token("ci").await).await;
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"a":{}1{}}}}}"#,
        "[".repeat(40),
        "]".repeat(40)
    );
    let very_deep = "[".repeat(100_000);
    let call = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"bus_send","arguments":{"text":"a","text":"b"}}}"#;
    for (text, code, id) in [
        ("", -32700, Value::Null),
        ("{", -32700, Value::Null),
        ("not json", -32700, Value::Null),
        ("\u{feff}{}", -32700, Value::Null),
        (r#"{"jsonrpc":"2.0"} {}"#, -32700, Value::Null),
        (&deep, -32700, Value::Null),
        (&very_deep, -32700, Value::Null),
        (call, -32700, Value::Null),
        ("[]", -32600, Value::Null),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600, Value::Null),
        ("7", -32600, Value::Null),
        (r#"{"id":1,"method":"ping"}"#, -32600, json!(1)),
        (r#"{"jsonrpc":"1.0","id":"x","method":"ping"}"#, -32600, json!("x")),
        (r#"{"jsonrpc":"2.0","id":2,"method":7}"#, -32600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":3,"method":"ping","params":[1]}"#, -32600, json!(3)),
        (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32600, Value::Null),
    ] {
        let answer = client.post_raw(text.to_owned(), &[]).await;
        assert_eq!(answer.status, 400, "{text:.80} {}", answer.text);
        assert_eq!(answer.message["error"]["code"], code, "{text:.80} {}", answer.text);
        assert_eq!(answer.message["id"], id, "{text:.80} {}", answer.text);
    }
    assert!(
        client.done("bus_search", json!({ "query": "a" })).await.data["messages"]
            .as_array()
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn requests_that_fit_nothing_are_protocol_errors() {
    let hub = TestHub::start().await;
    let client = Mcp::open(&hub, &hub.token("ci").await).await;
    for (method, params, code) in [
        ("bus/fly", json!({}), -32601),
        ("resources/read", json!({ "uri": "x" }), -32601),
        ("tools/call", json!({ "name": "bus_fly" }), -32602),
        ("tools/call", json!({ "arguments": {} }), -32602),
        ("tools/call", json!({ "name": 7 }), -32602),
        ("tools/call", json!({ "name": "bus_send", "arguments": [] }), -32602),
    ] {
        let answer = client.request(method, params.clone()).await;
        assert_eq!(answer.message["error"]["code"], code, "{method} {params} {}", answer.text);
        assert!(answer.message["id"].is_u64());
    }
}

#[tokio::test]
async fn bodies_are_bounded_and_typed() {
    let hub = TestHub::start().await;
    let client = Mcp::open(&hub, &hub.token("ci").await).await;
    let huge = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping", "params": { "x": "y".repeat(1 << 20) } });
    assert_eq!(client.post(&huge).await.status, 413);
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }).to_string();
    let mut plain = client.clone();
    plain.headers.retain(|(name, _)| name != "accept");
    assert_eq!(plain.post_raw(ping.clone(), &[("accept", "application/json")]).await.status, 406);
    assert_eq!(client.post_raw(ping, &[]).await.status, 200);
}

#[tokio::test]
async fn other_sites_and_names_are_kept_out() {
    let hub = TestHub::start().await;
    let client = Mcp::open(&hub, &hub.token("ci").await).await;
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }).to_string();
    for (name, value, status) in [
        ("origin", "http://evil.test", 403),
        ("origin", "null", 403),
        ("origin", "http://127.0.0.1.evil.test", 403),
        ("host", "evil.test", 403),
        ("origin", "http://localhost:6274", 200),
        ("host", "localhost", 200),
    ] {
        let answer = client.post_raw(ping.clone(), &[(name, value)]).await;
        assert_eq!(answer.status, status, "{name}: {value} {}", answer.text);
        if status == 403 {
            assert_eq!(answer.message["error"]["code"], "forbidden_right");
        }
    }
}

#[tokio::test]
async fn arguments_are_strict_and_refusals_are_for_the_model() {
    let hub = TestHub::start().await;
    let client = Mcp::open(&hub, &hub.token("ci").await).await;
    let long = "x".repeat(4001);
    for (tool, arguments, argument) in [
        ("bus_send", json!({}), "text"),
        ("bus_send", json!({ "text": "" }), "text"),
        ("bus_send", json!({ "text": long }), "text"),
        ("bus_send", json!({ "text": "a\u{202e}b" }), "text"),
        ("bus_send", json!({ "text": 7 }), "text"),
        ("bus_send", json!({ "text": "a", "colour": "red" }), "colour"),
        ("bus_send", json!({ "text": "a", "type": "answer" }), "type"),
        ("bus_send", json!({ "text": "a", "type": "shout" }), "type"),
        ("bus_send", json!({ "text": "a", "channel": "a b" }), "channel"),
        ("bus_send", json!({ "text": "a", "channel": "a", "swarm": "sw_1" }), "swarm"),
        ("bus_send", json!({ "text": "a", "swarm": "sw_1" }), "swarm_id"),
        ("bus_send", json!({ "text": "a", "deadline_hours": 1 }), "deadline"),
        ("bus_send", json!({ "text": "a", "type": "question", "deadline_hours": 0 }), "deadline_hours"),
        ("bus_send", json!({ "text": "a", "type": "question", "deadline_hours": 169 }), "deadline_hours"),
        ("bus_send", json!({ "text": "a", "to": "nobody" }), "to"),
        ("bus_send", json!({ "text": "a", "to": "a b" }), "to"),
        ("bus_send", json!({ "text": "a", "to_instance": "inst_1" }), "to_instance"),
        ("bus_send", json!({ "text": "a", "wait_ms": 60_001 }), "wait_ms"),
        ("bus_send", json!({ "text": "a", "references": ["url:x"] }), "references"),
        ("bus_send", json!({ "text": "a", "client_msg_id": "" }), "client_msg_id"),
        ("bus_send", json!({ "text": "a", "as_agent": "a b" }), "as_agent"),
        ("bus_send", json!({ "text": "a", "vault": "elsewhere" }), "vault"),
        ("bus_reply", json!({ "gid": "msg_1", "text": "a" }), "gid"),
        ("bus_reply", json!({ "text": "a" }), "gid"),
        ("bus_inbox", json!({ "wait_ms": 99_999 }), "wait_ms"),
        ("bus_inbox", json!({ "limit": 0 }), "limit"),
        ("bus_inbox", json!({ "limit": 51 }), "limit"),
        ("bus_inbox", json!({ "mark_read": "yes" }), "mark_read"),
        ("bus_thread", json!({ "gid": "msg_1" }), "gid"),
        ("bus_search", json!({ "query": "" }), "query"),
        ("bus_search", json!({ "query": "a".repeat(201) }), "query"),
        ("agents_list", json!({ "all": true }), "all"),
        ("presence_set", json!({}), "state"),
        ("presence_set", json!({ "state": "asleep" }), "state"),
        ("presence_set", json!({ "state": "idle", "role": "r".repeat(65) }), "role"),
        ("presence_set", json!({ "state": "idle", "roles": ["A b"] }), "roles"),
        ("presence_set", json!({ "state": "idle", "display_name": "a\nb" }), "display_name"),
    ] {
        let text = client.refused(tool, arguments.clone()).await;
        let named = text.lines().any(|line| line == format!("argument: {argument}"));
        assert!(named && text.contains("\ncode: "), "{tool} {arguments:.120}: {text}");
    }
    let found = client.done("bus_search", json!({ "query": "a" })).await;
    assert_eq!(found.data["messages"], json!([]), "nothing was stored");
    let bad = client.clone().with("x-switchboard-agent", "a b").request("tools/list", json!({})).await;
    assert_eq!((bad.status, &bad.message["error"]["field"]), (400, &json!("X-Switchboard-Agent")));
}

/// A page that the configuration names works in a browser: it may ask, sends what clients send, and sees the session's id.
#[tokio::test]
async fn a_named_page_may_speak_from_a_browser_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_switchboard"));
    let variables = [("SWITCHBOARD_SERVER_ORIGINS", "https://console.example")];
    let hub = Process::start_set(program, dir.path(), &variables).await;
    let token = hub.token("page").await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let asked = |origin: &'static str| {
        let request =
            client.request(reqwest::Method::OPTIONS, format!("{}/mcp", hub.url)).header("origin", origin);
        request
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "authorization,content-type,mcp-protocol-version")
            .send()
    };
    let allowed = asked("https://console.example").await.unwrap();
    assert!(allowed.status().is_success(), "{allowed:?}");
    assert_eq!(allowed.headers()["access-control-allow-origin"], "https://console.example");
    let headers = allowed.headers()["access-control-allow-headers"].to_str().unwrap();
    assert!(headers.contains("authorization") && headers.contains("mcp-protocol-version"), "{headers}");
    let stranger = asked("https://evil.example").await.unwrap();
    assert!(!stranger.headers().contains_key("access-control-allow-origin"), "{stranger:?}");
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": "2025-06-18",
        "capabilities": {}, "clientInfo": { "name": "page", "version": "1" } } });
    let opened = client
        .post(format!("{}/mcp", hub.url))
        .header("origin", "https://console.example")
        .header("accept", "application/json, text/event-stream")
        .bearer_auth(&token.bearer)
        .json(&hello)
        .send()
        .await
        .unwrap();
    assert_eq!(opened.status(), 200, "{opened:?}");
    assert!(opened.headers().contains_key("mcp-session-id"));
    let exposed = opened.headers()["access-control-expose-headers"].to_str().unwrap();
    assert!(
        ["mcp-session-id", "mcp-protocol-version", "retry-after"].iter().all(|name| exposed.contains(name)),
        "{exposed}"
    );
    let metrics = client.get(format!("{}/metrics", hub.url)).send().await.unwrap().text().await.unwrap();
    let open = metrics.lines().find_map(|line| line.strip_prefix("switchboard_connections "));
    assert!(open.unwrap().parse::<u64>().unwrap() >= 1, "this one at least: {metrics}");
    assert!(metrics.contains("switchboard_connections_crowded_total 0"), "{metrics}");
    hub.terminate().await;
}
