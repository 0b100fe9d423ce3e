//! Enrollment as published engines do it, with real keys.

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use serde_json::{Value, json};
use std::sync::Arc;
use switchboard_core::time::{Clock as _, ManualClock, SECOND_MS};
use switchboard_protocol::canonical::{
    KEYSET_DOMAIN, LEASE_DOMAIN, signing_input, signing_input_without_signature,
};
use switchboard_testkit::{Http, Options, TestHub, Token};

const NOON_MS: i64 = 1_792_497_600_000;

struct Engine {
    key: SigningKey,
    instance_id: String,
    enrollment: Value,
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

fn unbase64<const N: usize>(text: &Value) -> [u8; N] {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(text.as_str().unwrap()).unwrap().try_into().unwrap()
}

fn anybody(hub: &TestHub) -> Http {
    hub.http(&Token { instance_id: String::new(), bearer: String::new() })
}

async fn start(hub: &TestHub) -> Value {
    let body = json!({ "schema": "leanctx.hive.device-code-request/v1", "client_id": "lean-ctx-engine",
        "engine_version": "3.12.0", "os": "linux", "instance_label": "build-box" });
    let reply = anybody(hub).post("/v1/device/code", &body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

fn redeem(code: &Value, key: &SigningKey) -> Value {
    json!({ "schema": "leanctx.hive.device-token-request/v1", "device_code": code["device_code"],
        "instance_public_key": base64(key.verifying_key().as_bytes()), "instance_kx_public_key": base64(&[0x58; 32]),
        "instance_label": "build-box", "engine_version": "3.12.0", "os": "linux" })
}

async fn enroll(hub: &TestHub, clock: &ManualClock, seed: u8) -> Engine {
    let key = SigningKey::from_bytes(&[seed; 32]);
    let code = start(hub).await;
    let user_code = code["user_code"].as_str().unwrap();
    let approved =
        hub.http(&hub.admin()).post(&format!("/admin/v1/devices/{user_code}/approve"), &json!({})).await;
    assert_eq!(approved.status, 204, "{}", approved.text);
    clock.advance(5000);
    let reply = anybody(hub).post("/v1/device/token", &redeem(&code, &key)).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let enrollment = reply.json();
    Engine { key, instance_id: enrollment["instance_id"].as_str().unwrap().to_owned(), enrollment }
}

fn assertion(engine: &Engine, iat: i64, nonce: &str) -> Value {
    let input = format!("leanctx.hive.token.v1\n{}\n{iat}\n{nonce}", engine.instance_id);
    json!({ "schema": "leanctx.hive.token-request/v1", "iat": iat, "nonce": nonce,
        "assertion": base64(&engine.key.sign(input.as_bytes()).to_bytes()) })
}

async fn started(clock: &Arc<ManualClock>) -> TestHub {
    TestHub::with(Options { clock: Some(clock.clone()), ..Options::default() }).await
}

#[tokio::test]
async fn a_device_waits_for_a_person_and_its_lease_verifies_under_the_root_key() {
    let clock = Arc::new(ManualClock::at(NOON_MS));
    let hub = started(&clock).await;
    let key = SigningKey::from_bytes(&[7; 32]);
    let code = start(&hub).await;
    let poll = async || anybody(&hub).post("/v1/device/token", &redeem(&code, &key)).await;
    let pending = poll().await;
    assert_eq!(
        (pending.status, pending.json()["error"]["code"].as_str()),
        (400, Some("authorization_pending"))
    );
    clock.advance(500);
    assert_eq!(poll().await.json()["error"]["code"], "slow_down");
    let engine = enroll(&hub, &clock, 9).await;

    let root: [u8; 32] = unbase64(&hub.http(&hub.admin()).get("/admin/v1/keys").await.json()["root_key"]);
    let set = &engine.enrollment["keys"];
    let input = signing_input_without_signature(KEYSET_DOMAIN, set).unwrap();
    let verify = |key: &[u8; 32], input: &[u8], signature: &Value| {
        let signature = Signature::from_bytes(&unbase64::<64>(signature));
        VerifyingKey::from_bytes(key).unwrap().verify_strict(input, &signature).unwrap();
    };
    verify(&root, &input, &set["signature"]);
    let lease = &engine.enrollment["lease"];
    assert_eq!(lease["kid"], set["keys"][0]["kid"]);
    verify(
        &unbase64(&set["keys"][0]["ed25519_pub"]),
        &signing_input(LEASE_DOMAIN, &lease["lease"]).unwrap(),
        &lease["signature"],
    );
    assert_eq!(lease["lease"]["instance_id"], engine.instance_id.as_str());
    assert!(lease["lease"]["rights"].as_array().unwrap().contains(&json!("bus.relay")));
    assert_eq!(&anybody(&hub).get("/v1/keys").await.json(), set);
    hub.stop().await;
}

#[tokio::test]
async fn codes_are_single_use_and_can_be_denied_or_run_out() {
    let clock = Arc::new(ManualClock::at(NOON_MS));
    let hub = started(&clock).await;
    let key = SigningKey::from_bytes(&[7; 32]);
    let admin = hub.http(&hub.admin());
    let denied = start(&hub).await;
    let user_code = denied["user_code"].as_str().unwrap();
    assert_eq!(admin.get("/admin/v1/devices").await.json().as_array().unwrap().len(), 1);
    assert_eq!(admin.post(&format!("/admin/v1/devices/{user_code}/deny"), &json!({})).await.status, 204);
    let reply = anybody(&hub).post("/v1/device/token", &redeem(&denied, &key)).await;
    assert_eq!(reply.json()["error"]["code"], "access_denied");
    let late = start(&hub).await;
    clock.advance(901_000);
    let reply = anybody(&hub).post("/v1/device/token", &redeem(&late, &key)).await;
    assert_eq!(reply.json()["error"]["code"], "expired_token");
    assert_eq!(admin.post("/admin/v1/devices/BBBB-CCCC/approve", &json!({})).await.status, 404);
    hub.stop().await;
}

#[tokio::test]
async fn an_assertion_gets_a_bearer_once_and_only_within_the_skew() {
    let clock = Arc::new(ManualClock::at(NOON_MS));
    let hub = started(&clock).await;
    let engine = enroll(&hub, &clock, 7).await;
    let path = format!("/v1/instances/{}/token", engine.instance_id);
    let now = clock.wall_ms() / SECOND_MS;
    let http = anybody(&hub);
    for (iat, nonce, why) in
        [(now - 301, "nonce-aaaaaaaaaaaa1", "past"), (now + 301, "nonce-aaaaaaaaaaaa2", "future")]
    {
        assert_eq!(http.post(&path, &assertion(&engine, iat, nonce)).await.status, 401, "{why}");
    }
    let good = assertion(&engine, now - 299, "nonce-aaaaaaaaaaaa3");
    let reply = http.post(&path, &good).await;
    assert_eq!((reply.status, reply.json()["expires_in"].as_u64()), (200, Some(3600)));
    assert_eq!(http.post(&path, &good).await.status, 401, "a nonce works once");
    let mut forged = assertion(&engine, now, "nonce-aaaaaaaaaaaa4");
    forged["nonce"] = json!("nonce-aaaaaaaaaaaa5");
    assert_eq!(http.post(&path, &forged).await.status, 401);
    assert_eq!(http.post("/v1/instances/inst_unknown/token", &good).await.status, 404);

    let token = Token {
        instance_id: engine.instance_id.clone(),
        bearer: reply.json()["access_token"].as_str().unwrap().into(),
    };
    let mut socket = hub.agent(&token, "engine-agent").await;
    assert_eq!(socket.ask(&hub.message("m1", "finding", "engine-agent", "x")).await["t"], "message.stored");
    let salt = hub.http(&token).get("/v1/org/salt").await.json();
    assert_eq!(salt["org_salt_id"], engine.enrollment["org_salt_id"]);
    clock.advance(3_601_000);
    assert_eq!(hub.http(&token).get("/v1/agents").await.status, 401, "an hour later it is over");
    hub.stop().await;
}

async fn bearer(hub: &TestHub, engine: &Engine, clock: &ManualClock, nonce: &str) -> Token {
    let body = assertion(engine, clock.wall_ms() / SECOND_MS, nonce);
    let reply = anybody(hub).post(&format!("/v1/instances/{}/token", engine.instance_id), &body).await.json();
    Token { instance_id: engine.instance_id.clone(), bearer: reply["access_token"].as_str().unwrap().into() }
}

#[tokio::test]
async fn leases_are_renewed_and_end_after_their_grace() {
    let clock = Arc::new(ManualClock::at(NOON_MS));
    let hub = started(&clock).await;
    let engine = enroll(&hub, &clock, 7).await;
    let other = enroll(&hub, &clock, 8).await;
    let token = bearer(&hub, &engine, &clock, "nonce-aaaaaaaaaaaa1").await;
    let renew = format!("/v1/instances/{}/lease/renew", engine.instance_id);
    let renewed = hub.http(&token).post_raw(&renew, String::new(), &[]).await;
    assert_eq!(renewed.status, 200, "{}", renewed.text);
    assert_eq!(renewed.json()["lease"]["instance_id"], engine.instance_id.as_str());
    let foreign = format!("/v1/instances/{}/lease/renew", other.instance_id);
    assert_eq!(hub.http(&token).post_raw(&foreign, String::new(), &[]).await.status, 404);
    clock.advance(8 * 86_400_000 + 1000);
    let body = assertion(&engine, clock.wall_ms() / SECOND_MS, "nonce-aaaaaaaaaaaa2");
    let expired = anybody(&hub).post(&format!("/v1/instances/{}/token", engine.instance_id), &body).await;
    assert_eq!((expired.status, expired.json()["error"]["code"].as_str()), (401, Some("lease_expired")));
    hub.stop().await;
}

#[tokio::test]
async fn repositories_resolve_to_one_vault_each() {
    let clock = Arc::new(ManualClock::at(NOON_MS));
    let hub = started(&clock).await;
    let engine = enroll(&hub, &clock, 7).await;
    let token = bearer(&hub, &engine, &clock, "nonce-aaaaaaaaaaaa1").await;
    let http = hub.http(&token);
    let salt = engine.enrollment["org_salt_id"].clone();
    let resolve = |digest: &str| json!({ "schema": "leanctx.hive.vault-resolve-request/v1", "org_salt_id": salt, "identity_digest": digest, "label": "payments" });
    let one = "0".repeat(64);
    let first = http.post("/v1/vaults/resolve", &resolve(&one)).await.json();
    assert_eq!((first["sealed"].as_bool(), first["label"].as_str()), (Some(false), Some("payments")));
    assert_eq!(http.post("/v1/vaults/resolve", &resolve(&one)).await.json()["vault_id"], first["vault_id"]);
    let other = http.post("/v1/vaults/resolve", &resolve(&"1".repeat(64))).await.json();
    assert_ne!(other["vault_id"], first["vault_id"]);
    let mut bound = resolve(&"2".repeat(64));
    bound["vault"] = json!({ "ns": first["vault"]["ns"], "name": "main" });
    assert_eq!(http.post("/v1/vaults/resolve", &bound).await.json()["vault_id"], hub.vault("main").as_str());
    let mut stale = resolve(&one);
    stale["org_salt_id"] = json!("salt_other");
    assert_eq!(http.post("/v1/vaults/resolve", &stale).await.json()["error"]["field"], "org_salt_id");
    let agents = json!([{ "agent_id": "e", "role": "r", "vault_id": first["vault_id"] }]);
    let mut socket = hub.connect(&token).await;
    socket.hello(&token.instance_id, &agents, &json!({})).await;
    hub.stop().await;
}

#[tokio::test]
async fn an_instance_leaves_and_is_revoked() {
    let clock = Arc::new(ManualClock::at(NOON_MS));
    let hub = started(&clock).await;
    let (one, two) = (enroll(&hub, &clock, 7).await, enroll(&hub, &clock, 8).await);
    let token = bearer(&hub, &one, &clock, "nonce-aaaaaaaaaaaa1").await;
    let foreign = hub.http(&token).delete(&format!("/v1/instances/{}", two.instance_id)).await;
    assert_eq!(foreign.status, 403);
    assert_eq!(hub.http(&token).delete(&format!("/v1/instances/{}", one.instance_id)).await.status, 204);
    assert_eq!(hub.http(&token).get("/v1/agents").await.json()["error"]["code"], "instance_revoked");
    hub.stop().await;
}
