//! Rights are enforced on every route and frame.

use serde_json::json;
use switchboard_core::rights::{Right, Rights};
use switchboard_testkit::{Socket, TestHub};

#[tokio::test]
async fn every_route_asks_for_its_right() {
    let hub = TestHub::start().await;
    let none = hub.token_of("none", None, Rights::of(&[Right::TasksRead])).await;
    let agent = hub.token("agent").await;
    let anybody = hub.http(&switchboard_testkit::Token { instance_id: String::new(), bearer: String::new() });
    let bus = [
        "/v1/bus/poll".to_owned(),
        "/v1/agents".into(),
        "/v1/messages?network=org&channel=x".into(),
        "/v1/search?q=x".into(),
        "/v1/org/salt".into(),
        format!("/v1/bus/channels/{}/events", hub.channel("general")),
    ];
    for route in &bus {
        let refused = hub.http(&none).get(route).await;
        assert_eq!(
            (refused.status, refused.json()["error"]["code"].as_str()),
            (403, Some("forbidden_right")),
            "{route}"
        );
        assert_eq!(anybody.get(route).await.status, 401, "{route}");
    }
    assert!(Socket::connect(&hub.url, &none.bearer).await.is_err());
    let admin =
        ["status", "ledger", "keys", "tokens", "devices", "vaults", "swarms", "vaults/main/tasks", "log"];
    for route in admin {
        let route = format!("/admin/v1/{route}");
        assert_eq!(hub.http(&agent).get(&route).await.status, 403, "{route}");
        assert_eq!(anybody.get(&route).await.status, 401, "{route}");
        assert_eq!(hub.http(&hub.admin()).get(&route).await.status, 200, "{route}");
    }
    for route in ["tokens", "vaults", "swarms", "backup", "log/verify", "devices/AAAA-BBBB/approve"] {
        assert_eq!(
            hub.http(&agent).post(&format!("/admin/v1/{route}"), &json!({})).await.status,
            403,
            "{route}"
        );
    }
    let escalation =
        hub.http(&hub.admin()).post("/admin/v1/tokens", &json!({ "label": "x", "rights": ["admin"] })).await;
    assert_eq!(escalation.json()["error"]["field"], "rights");
    hub.stop().await;
}

#[tokio::test]
async fn a_revoked_instance_is_out_at_once_also_on_its_open_socket() {
    let hub = TestHub::start().await;
    let token = hub.token("a").await;
    let mut socket = hub.agent(&token, "a").await;
    let revoked = hub.http(&hub.admin()).delete(&format!("/admin/v1/tokens/{}", token.instance_id)).await;
    assert_eq!(revoked.status, 204);
    let error = socket.expect("error").await;
    assert_eq!(error["error"]["code"], "instance_revoked");
    assert_eq!(socket.next().await, None);
    let refused = hub.http(&token).get("/v1/agents").await;
    assert_eq!((refused.status, refused.json()["error"]["code"].as_str()), (401, Some("instance_revoked")));
    assert_eq!(hub.http(&hub.admin()).delete("/admin/v1/tokens/inst_unknown").await.status, 404);
    hub.stop().await;
}

#[tokio::test]
async fn answers_name_the_protocol_and_refuse_another_major() {
    let hub = TestHub::start().await;
    let token = hub.token("a").await;
    let http = hub.http(&token);
    let fine = http.get("/v1/agents").await;
    assert_eq!(fine.headers["hive-protocol"], "1.9");
    let request = http.post_raw("/v1/messages", "{}".into(), &[("Hive-Protocol", "2.0")]).await;
    assert_eq!((request.status, request.json()["error"]["code"].as_str()), (426, Some("upgrade_required")));
    for path in ["/v1/root-cert", "/v1/nothing", "/v1/vaults/0/knowledge"] {
        let missing = http.get(path).await;
        assert_eq!(
            (missing.status, missing.json()["error"]["code"].as_str()),
            (404, Some("not_found")),
            "{path}"
        );
    }
    for path in ["/healthz", "/readyz", "/metrics", "/openapi.json"] {
        assert_eq!(http.get(path).await.status, 200, "{path}");
    }
    hub.stop().await;
}

#[tokio::test]
async fn a_long_poll_that_waits_is_revoked_too() {
    let hub = TestHub::start().await;
    let (a, b) = (hub.token("a").await, hub.token("b").await);
    let mut sender = hub.agent(&a, "a").await;
    let http = hub.http(&b);
    let cursor = http.get("/v1/bus/poll").await.json()["cursor"].as_str().unwrap().to_owned();
    let waiting =
        tokio::spawn(async move { http.get(&format!("/v1/bus/poll?cursor={cursor}&wait_ms=15000")).await });
    hub.http(&hub.admin()).delete(&format!("/admin/v1/tokens/{}", b.instance_id)).await;
    sender.ask(&hub.message("m1", "finding", "a", "not for the revoked")).await;
    let answer = waiting.await.unwrap();
    assert_eq!((answer.status, answer.text.contains("not for the revoked")), (401, false));
    hub.stop().await;
}

#[tokio::test]
async fn an_unproven_name_does_not_fill_the_log() {
    let hub = TestHub::start().await;
    let anybody = hub.http(&switchboard_testkit::Token { instance_id: String::new(), bearer: String::new() });
    let body = json!({ "schema": "leanctx.hive.token-request/v1", "iat": 1, "nonce": "nonce-aaaaaaaaaaaa1",
        "assertion": format!("{}==", "A".repeat(86)) });
    let name = "x".repeat(20_000);
    assert_eq!(anybody.post(&format!("/v1/instances/{name}/token"), &body).await.status, 404);
    let hub = hub.restart().await;
    let log = hub.http(&hub.admin()).get("/admin/v1/log").await.text;
    assert!(log.contains("instance.token") && !log.contains(&name[..200]));
    hub.stop().await;
}
