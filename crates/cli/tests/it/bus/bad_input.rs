//! Bad input: a clear error with code and field, and nothing changes.

use serde_json::{Value, json};
use switchboard_testkit::TestHub;

fn raw(hub: &TestHub, inner: &str) -> String {
    let channel = hub.channel("general");
    format!(
        r#"{{"t":"message","client_msg_id":"x1","network":{{"kind":"org","channel":"{channel}"}},"type":"finding","from":"a",{inner}}}"#
    )
}

#[tokio::test]
async fn each_shape_of_bad_frame_is_refused_by_name_and_stores_nothing() {
    let hub = TestHub::start().await;
    let token = hub.token("a").await;
    let mut socket = hub.agent(&token, "a").await;
    let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    let long = "x".repeat(4001);
    let references = (0..17).map(|_| r#"{"kind":"fact","id":"f"}"#).collect::<Vec<_>>().join(",");
    let table: Vec<(String, Option<&str>)> = vec![
        ("not json".into(), None),
        ("[]".into(), Some("t")),
        ("{}".into(), Some("t")),
        (r#"{"t":7}"#.into(), Some("t")),
        (r#"{"t":"message"}"#.into(), Some("client_msg_id")),
        (r#"{"t":"deliver"}"#.into(), Some("t")),
        (raw(&hub, r#""body":{"text":"x"},"body":{"text":"y"}"#), None),
        (raw(&hub, r#""body":{"text":"x","text":"y"}"#), None),
        (raw(&hub, &format!(r#""body":{deep}"#)), None),
        (raw(&hub, r#""body":{"text":"\ud800"}"#), None),
        (raw(&hub, r#""body":{"text":"x"},"extra":1"#), Some("extra")),
        (raw(&hub, r#""body":{"text":"x"},"to":"no spaces"}"#).replace("}}", "}"), None),
        (raw(&hub, r#""body":{"text":""}"#), Some("text")),
        (raw(&hub, &format!(r#""body":{{"text":"{long}"}}"#)), Some("text")),
        (raw(&hub, r#""body":{"text":"a\u202eb"}"#), Some("text")),
        (raw(&hub, r#""body":{"text":"a\u0000b"}"#), Some("text")),
        (raw(&hub, r#""body":{"text":"zero\u200bwidth"}"#), Some("text")),
        (raw(&hub, &format!(r#""body":{{"text":"x","references":[{references}]}}"#)), Some("references")),
        (raw(&hub, r#""body":{"text":"x"},"sealed":{}"#), None),
        (raw(&hub, r#""to":"b c","body":{"text":"x"}"#), Some("to")),
        (raw(&hub, r#""to_instance":"i","body":{"text":"x"}"#), Some("to_instance")),
        (raw(&hub, r#""reply_to":"","body":{"text":"x"}"#), Some("reply_to")),
        (r#"{"t":"ping","nonce":18446744073709551616}"#.into(), Some("nonce")),
        (r#"{"t":"ping","nonce":-1}"#.into(), Some("nonce")),
        (r#"{"t":"ping","nonce":1e999}"#.into(), None),
        (r#"{"t":"presence","agent_id":"nobody","state":"active"}"#.into(), Some("agent_id")),
        (r#"{"t":"presence","agent_id":"a","state":"asleep"}"#.into(), Some("state")),
        (r#"{"t":"ack","channel":"nowhere","seq":1}"#.into(), Some("channel")),
    ];
    for (frame, field) in table {
        let shown: String = frame.chars().take(120).collect();
        socket.send_text(frame).await;
        let error = socket.expect("error").await;
        let code = error["error"]["code"].as_str().unwrap();
        assert!(["invalid_request", "not_found"].contains(&code), "{shown}: {error}");
        assert!(!error["error"]["message"].as_str().unwrap().is_empty());
        assert!(error["error"]["sb"].is_string(), "{shown}: every refusal has a page: {error}");
        if let Some(field) = field {
            assert_eq!(error["error"]["field"], field, "{shown}: {error}");
        }
    }
    socket.send_binary(vec![1, 2, 3]).await;
    assert_eq!(socket.expect("error").await["error"]["field"], "t");
    let stored = socket.ask(&hub.message("good", "finding", "a", "x")).await;
    assert_eq!(stored["seq"], 1, "nothing of all that was stored, and the socket is still open");
    hub.stop().await;
}

#[tokio::test]
async fn a_frame_of_ten_megabytes_ends_the_socket_with_the_reason() {
    let hub = TestHub::start().await;
    let token = hub.token("a").await;
    let mut socket = hub.agent(&token, "a").await;
    socket.send_text(raw(&hub, &format!(r#""body":{{"text":"{}"}}"#, "x".repeat(300 * 1024)))).await;
    let mut last = Value::Null;
    while let Some(frame) = socket.next().await {
        last = frame;
    }
    assert_eq!(last["error"]["field"], "frame", "{last}");
    let mut again = hub.agent(&token, "a").await;
    assert_eq!(again.ask(&hub.message("good", "finding", "a", "x")).await["seq"], 1);
    hub.stop().await;
}

#[tokio::test]
async fn bad_bodies_are_refused_by_name() {
    let hub = TestHub::start().await;
    let http = hub.http(&hub.admin());
    let table = [
        ("/admin/v1/tokens", "not json".to_owned(), None),
        ("/admin/v1/tokens", "{}".into(), Some("label")),
        ("/admin/v1/tokens", r#"{"label":"a","label":"b"}"#.into(), None),
        ("/admin/v1/tokens", r#"{"label":"a","colour":"red"}"#.into(), Some("colour")),
        ("/admin/v1/tokens", r#"{"label":""}"#.into(), Some("label")),
        ("/admin/v1/tokens", r#"{"label":"a","rights":["fly"]}"#.into(), Some("rights")),
        ("/admin/v1/vaults", r#"{"name":"no spaces please"}"#.into(), Some("name")),
        ("/admin/v1/vaults", format!(r#"{{"name":{}}}"#, "[".repeat(10_000)), None),
        ("/v1/device/code", r#"{"schema":"leanctx.hive.device-code-request/v1"}"#.into(), Some("client_id")),
        ("/admin/v1/tokens", format!(r#"{{"label":"{}"}}"#, "x".repeat(2 << 20)), Some("body")),
    ];
    for (path, body, field) in table {
        let reply = http.post_raw(path, body, &[]).await;
        assert_eq!(
            (reply.status, reply.json()["error"]["code"].as_str()),
            (400, Some("invalid_request")),
            "{path}"
        );
        if let Some(field) = field {
            assert_eq!(reply.json()["error"]["field"], field, "{path}: {}", reply.text);
        }
    }
    assert_eq!(http.get("/admin/v1/tokens").await.json(), json!([]));
    let taken = http.post("/admin/v1/vaults", &json!({ "name": "main" })).await;
    assert_eq!((taken.status, taken.json()["error"]["reason"].as_str()), (409, Some("name_taken")));
    hub.stop().await;
}
