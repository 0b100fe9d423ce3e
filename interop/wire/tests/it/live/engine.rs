//! An instance as an engine is one: keys of its own, enrolled by the device flow, with a bearer it signed for.

use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ed25519_dalek::SigningKey;
use serde_json::{Value, json};
use wire::referee::{self, Measure};
use wire::signatures;

use super::http::Client;
use super::hub::Hub;

/// An enrolled instance.
pub struct Engine {
    key: SigningKey,
    /// Its enrollment, as received.
    pub enrollment: Value,
    /// A caller with its bearer.
    pub http: Client,
    /// The bearer.
    pub bearer: String,
}

impl Engine {
    /// Enrolls: code, approval by a person at the hub, enrollment, signed assertion, bearer. `seed` makes the keys.
    pub fn enroll(hub: &Hub, seed: u8, label: &str) -> Self {
        let client = Client::new(&hub.url);
        let code = ask(
            &client,
            "/device/code",
            &json!({
                "schema": "leanctx.hive.device-code-request/v1", "client_id": "lean-ctx-engine", "engine_version": "3.12.0",
                "os": "linux", "instance_label": label,
            }),
        );
        let key = SigningKey::from_bytes(&[seed; 32]);
        let request = json!({
            "schema": "leanctx.hive.device-token-request/v1", "device_code": code["device_code"],
            "instance_public_key": signatures::public_key(&key),
            "instance_kx_public_key": signatures::public_key(&SigningKey::from_bytes(&[seed ^ 0xff; 32])),
            "instance_label": label, "engine_version": "3.12.0", "os": "linux",
        });
        client.post("/device/token", &request).refused(400, "authorization_pending");
        client.post("/device/token", &request).refused(400, "slow_down");
        hub.run(&["device", "approve", code["user_code"].as_str().expect("a code")]);
        let enrollment = poll(&client, &request, code["interval"].as_u64().expect("an interval"));
        let mut engine = Self { key, enrollment, http: client, bearer: String::new() };
        engine.sign_on("nonce-of-the-first-token");
        engine
    }

    /// Its id.
    pub fn id(&self) -> &str {
        self.enrollment["instance_id"].as_str().expect("an id")
    }

    /// The request for a bearer, signed.
    pub fn token_request(&self, nonce: &str) -> Value {
        let iat = now_s();
        let assertion = signatures::assertion(&self.key, self.id(), iat, nonce);
        json!({"schema": "leanctx.hive.token-request/v1", "iat": iat, "nonce": nonce, "assertion": assertion})
    }

    /// Where bearers are asked for.
    pub fn token_path(&self) -> String {
        format!("/instances/{}/token", self.id())
    }

    fn sign_on(&mut self, nonce: &str) {
        let answer = ask(&self.http, &self.token_path(), &self.token_request(nonce));
        self.bearer = answer["access_token"].as_str().expect("a bearer").into();
        let bearer = format!("Bearer {}", self.bearer);
        self.http = self.http.with("Authorization", bearer).with("Hive-Instance", self.id().to_owned());
    }
}

/// Asks at the interval that the hub named, as the device flow wants it.
fn poll(client: &Client, request: &Value, interval_s: u64) -> Value {
    for _ in 0..5 {
        thread::sleep(Duration::from_secs(interval_s));
        let answer = client.post("/device/token", request);
        if answer.status == 200 {
            return answer.body;
        }
        answer.refused(400, "slow_down");
    }
    panic!("approved, and still no enrollment");
}

fn ask(client: &Client, path: &str, request: &Value) -> Value {
    referee::body(request, Measure::Exact).unwrap_or_else(|error| panic!("{path}: {error:#}"));
    client.post(path, request).ok()
}

#[expect(
    clippy::disallowed_methods,
    reason = "the hub judges assertions by the machine's clock, so they are made by it"
)]
fn now_s() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(elapsed.as_secs()).expect("before the end of time")
}
