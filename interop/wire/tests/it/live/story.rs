//! The story: two instances enroll, meet in a vault, ask, answer, report, publish, look back, and one of them leaves.

use serde_json::{Value, json};
use wire::signatures;

use super::engine::Engine;
use super::http::{Client, encoded};
use super::hub::Hub;
use super::socket::Socket;

#[test]
fn two_engines_talk_and_every_word_of_the_hub_passes() {
    let hub = Hub::start();
    let (ada, ben) = (Engine::enroll(&hub, 1, "studio-mac"), Engine::enroll(&hub, 2, "build-box"));
    trust(&hub, &ada);
    tokens(&ada);
    let vault = vaults(&ada, &ben);
    let channel =
        format!("org:{}/vault:{vault}/general", ada.enrollment["org"]["id"].as_str().expect("an id"));
    versions(&Client::new(&hub.url), &ada.http);

    let mut a = Socket::connect(&hub.url, &ada.bearer);
    let mut b = Socket::connect(&hub.url, &ben.bearer);
    meet(&mut a, &mut b, (&ada, &ben), &vault);
    let talk = Talk { channel: channel.clone(), ben: ben.id().to_owned() };
    question_and_answer(&mut a, &mut b, &talk);
    findings_and_events(&mut a, &mut b, &talk);
    refusals(&mut a, &talk);
    no_gap(&a, &b);
    look_back(&ada, &ben, &channel);
    let mut again = replay(&hub, &ben, &vault, &channel);
    leave(&ada, &mut again);
}

fn trust(hub: &Hub, engine: &Engine) {
    let keys: Value = serde_json::from_str(&hub.run(&["keys", "show", "--json"])).expect("JSON");
    let root = keys["root_key"].as_str().expect("the root key");
    signatures::verify_enrollment(&engine.enrollment, root).expect("an enrollment that verifies");
    signatures::verify_keyset(&engine.http.get("/keys").ok(), root).expect("a key set that verifies");
    let renewed = engine.http.post(&format!("/instances/{}/lease/renew", engine.id()), &json!({})).ok();
    signatures::verify_lease(&renewed, &engine.enrollment["keys"]).expect("a lease that verifies");
    let rights = renewed["lease"]["rights"].as_array().expect("rights");
    assert!(rights.contains(&"bus.relay".into()), "{rights:?}");
}

fn tokens(engine: &Engine) {
    let request = engine.token_request("nonce-that-works-once");
    engine.http.post(&engine.token_path(), &request).ok();
    engine.http.post(&engine.token_path(), &request).refused(401, "unauthorized");

    let mut forged = engine.token_request("nonce-of-a-forged-one");
    forged["iat"] = (forged["iat"].as_i64().expect("iat") + 1).into();
    engine.http.post(&engine.token_path(), &forged).refused(401, "unauthorized");

    let keyed = engine.http.with("Idempotency-Key", "01JBTOKEN");
    let request = engine.token_request("nonce-of-a-repeated-one");
    let first = keyed.post(&engine.token_path(), &request).ok();
    assert_eq!(keyed.post(&engine.token_path(), &request).ok(), first, "a repeat gets the first answer");
    let other = engine.token_request("nonce-of-another-request");
    let refusal = keyed.post(&engine.token_path(), &other).refused(409, "invalid_state");
    assert_eq!(refusal["reason"], "id_reused");
}

/// Both name the same repository and get the same vault.
fn vaults(ada: &Engine, ben: &Engine) -> String {
    let resolve = |engine: &Engine| {
        let salt = engine.http.get("/org/salt").ok();
        assert_eq!(salt["org_salt_id"], engine.enrollment["org_salt_id"]);
        let request = json!({
            "schema": "leanctx.hive.vault-resolve-request/v1", "org_salt_id": salt["org_salt_id"],
            "identity_digest": "0d".repeat(32), "label": "payments",
        });
        engine.http.post("/vaults/resolve", &request).ok()
    };
    let (one, other) = (resolve(ada), resolve(ben));
    assert_eq!(one["vault_id"], other["vault_id"]);
    one["vault_id"].as_str().expect("an id").to_owned()
}

fn versions(anyone: &Client, engine: &Client) {
    engine.with("Hive-Protocol", "1.2").get("/keys").ok();
    engine.with("Hive-Protocol", "2.0").get("/keys").refused(426, "upgrade_required");
    anyone.get("/org/salt").refused(401, "unauthorized");
    anyone.get("/root-cert").refused(404, "not_found");
    let refusal = anyone.post("/device/code", &json!({
        "schema": "leanctx.hive.device-code-request/v1", "client_id": "lean-ctx-engine", "engine_version": "3.12.0",
        "os": "linux", "surprise": 1,
    }));
    assert_eq!(refusal.refused(400, "invalid_request")["field"], "surprise");
}

fn hello(engine: &Engine, agent: &str, vault: &str, cursors: &Value) -> Value {
    let agents = json!([{"agent_id": agent, "role": "developer", "vault_id": vault}]);
    json!({"t": "hello", "instance_id": engine.id(), "agents": agents, "cursors": cursors})
}

fn meet(a: &mut Socket, b: &mut Socket, (ada, ben): (&Engine, &Engine), vault: &str) {
    a.send(&hello(ada, "claude-3e", vault, &json!({})));
    a.barrier(u64::MAX);
    b.send(&hello(ben, "codex-85", vault, &json!({})));
    b.send(&json!({"t": "ping", "nonce": 7}));
    b.take(|frame| frame["t"] == "pong");
    // Who is there was said before the pong.
    let update =
        b.seen.iter().find(|frame| frame["t"] == "presence_update" && frame["agent_id"] == "claude-3e");
    assert_eq!(update.expect("presence before the pong")["instance_id"], ada.id());
    let update = a.take(|frame| frame["t"] == "presence_update" && frame["agent_id"] == "codex-85");
    assert_eq!((&update["instance_id"], &update["state"]), (&ben.id().into(), &"active".into()));

    let profile = json!({"display_name": "Codex", "model": "gpt-5", "roles": ["author", "reviewer"]});
    b.send(&json!({"t": "presence", "agent_id": "codex-85", "state": "idle", "profile": profile}));
    let update = a.take(|frame| frame["t"] == "presence_update" && frame["state"] == "idle");
    assert_eq!(update["profile"], profile);
}

struct Talk {
    channel: String,
    ben: String,
}

impl Talk {
    fn message(&self, id: &str, kind: &str, from: &str, text: &str) -> Value {
        let network = json!({"kind": "org", "channel": self.channel});
        json!({"t": "message", "client_msg_id": id, "network": network, "type": kind, "from": from, "body": {"text": text}})
    }
}

fn with(mut frame: Value, name: &str, value: impl Into<Value>) -> Value {
    frame[name] = value.into();
    frame
}

fn question_and_answer(a: &mut Socket, b: &mut Socket, talk: &Talk) {
    let question =
        talk.message("01JBQUESTION", "question", "claude-3e", "Which retry budget does payments use?");
    let question = with(with(question, "to", "codex-85"), "to_instance", talk.ben.as_str());
    let question = with(
        question,
        "body",
        json!({
            "text": "Which retry budget\ndoes payments use? 🙂", "references": [{"kind": "commit", "id": "9f01cf32a3"}],
        }),
    );
    a.send(&question);
    let stored = a.take_type("message.stored");
    assert_eq!(
        (&stored["client_msg_id"], &stored["gid"]),
        (&question["client_msg_id"], &stored["thread_id"])
    );
    let delivered = b.take_type("message.deliver");
    assert_eq!((&delivered["gid"], &delivered["seq"]), (&stored["gid"], &stored["seq"]));
    assert_eq!((&delivered["body"], &delivered["trust"]), (&question["body"], &"team".into()));
    assert_eq!(
        (&delivered["from"]["agent"], &delivered["from"]["mine"]),
        (&"claude-3e".into(), &false.into())
    );
    assert!(delivered["deadline"].is_string(), "a question gets the default deadline");

    for state in ["delivered", "read"] {
        b.send(&json!({"t": "message.receipt", "gid": stored["gid"], "by": "codex-85", "state": state}));
        let status = a.take_type("message.status");
        assert_eq!((&status["gid"], &status["state"]), (&stored["gid"], &state.into()));
        assert_eq!(status["client_msg_id"], question["client_msg_id"]);
    }

    let answer =
        with(talk.message("01JBANSWER", "answer", "codex-85", "Three."), "reply_to", stored["gid"].clone());
    b.send(&answer);
    b.take_type("message.stored");
    let delivered = a.take_type("message.deliver");
    assert_eq!((&delivered["reply_to"], &delivered["thread_id"]), (&stored["gid"], &stored["gid"]));
    assert_eq!((&delivered["type"], &delivered["from"]["agent"]), (&"answer".into(), &"codex-85".into()));

    a.send(&question);
    assert_eq!(a.take_type("message.stored"), stored, "a repeat gets the first answer");
}

fn findings_and_events(a: &mut Socket, b: &mut Socket, talk: &Talk) {
    a.send(&talk.message("01JBFINDING", "finding", "claude-3e", "The 2019 dataset has duplicate rows."));
    let stored = a.take_type("message.stored");
    let delivered = b.take(|frame| frame["type"] == "finding");
    assert_eq!(delivered["gid"], stored["gid"]);

    let bound = with(talk.message("01JBDIRECT", "offer", "claude-3e", "I can review."), "to", "codex-85");
    a.send(&bound);
    a.take_type("message.stored");
    assert_eq!(b.take(|frame| frame["type"] == "offer")["to"], "codex-85");

    let body = json!({"nested": [1, 2.5, null, {"b": "ü", "a": u64::MAX}]});
    let publish = json!({
        "t": "publish", "client_msg_id": "01JBPUBLISH", "channel": talk.channel, "from": "claude-3e", "kind": "status",
        "priority": "normal", "privacy": "team", "body": body,
    });
    a.send(&publish);
    let published = a.take_type("published");
    let delivered = b.take_type("deliver");
    assert_eq!((&delivered["seq"], &delivered["body"]), (&published["seq"], &body));
    b.send(&json!({"t": "ack", "channel": talk.channel, "seq": published["seq"]}));

    a.send_anyway(&json!({"t": "a.frame.of.tomorrow", "x": 1}));
    a.barrier(8);
    assert!(
        !a.has(|frame| frame["t"] == "message.deliver" || frame["t"] == "deliver"),
        "the sender gets no echo"
    );
    assert!(!a.has(|frame| frame["t"] == "error"), "unknown frames are passed over");
}

fn refusals(a: &mut Socket, talk: &Talk) {
    let message = |id: &str| talk.message(id, "finding", "claude-3e", "x");
    let cases = [
        (
            with(message("01JBFINDING"), "body", json!({"text": "other"})),
            "invalid_state",
            "reason",
            "id_reused",
        ),
        (with(message("01JBE1"), "to", "nobody-1"), "not_found", "field", "to"),
        (
            with(with(message("01JBE2"), "to", "codex-85"), "to_instance", "inst_unknown"),
            "not_found",
            "field",
            "to_instance",
        ),
        (with(message("01JBE3"), "reply_to", "msg_unknown"), "not_found", "field", "reply_to"),
        (with(message("01JBE4"), "from", "stranger"), "invalid_request", "field", "from"),
        (with(message("01JBE5"), "type", "gossip"), "invalid_request", "field", "type"),
        (with(message("01JBE6"), "body", json!({"text": "a\u{202e}b"})), "invalid_request", "field", "text"),
        (with(message("01JBE7"), "surprise", 1), "invalid_request", "field", "surprise"),
    ];
    for (frame, code, name, value) in cases {
        a.send_anyway(&frame);
        let error = a.take_type("error");
        assert_eq!(error["client_msg_id"], frame["client_msg_id"], "{error}");
        assert_eq!(
            (&error["error"]["code"], &error["error"][name]),
            (&code.into(), &value.into()),
            "{error}"
        );
    }
    a.barrier(9);
}

/// Positions on the channel have no gap: what one sent and what it received are all there is.
fn no_gap(a: &Socket, b: &Socket) {
    for socket in [a, b] {
        let on_channel = |frame: &&Value| {
            ["message.stored", "message.deliver", "published", "deliver"]
                .contains(&frame["t"].as_str().unwrap_or_default())
        };
        let mut positions: Vec<u64> = socket
            .seen
            .iter()
            .filter(on_channel)
            .map(|frame| frame["seq"].as_u64().expect("a position"))
            .collect();
        positions.sort_unstable();
        positions.dedup();
        assert_eq!(positions, (1..=5).collect::<Vec<u64>>());
    }
}

fn look_back(ada: &Engine, ben: &Engine, channel: &str) {
    let history = ben.http.get(&format!("/messages?network=org&channel={}", encoded(channel))).ok();
    let messages = history["messages"].as_array().expect("messages");
    let kinds: Vec<&Value> = messages.iter().map(|message| &message["type"]).collect();
    assert_eq!(kinds, ["question", "answer", "finding", "offer"]);
    let thread =
        format!("/messages?network=org&channel={}&thread_id={}", encoded(channel), text(&messages[0]["gid"]));
    assert_eq!(ben.http.get(&thread).ok()["messages"].as_array().map(Vec::len), Some(2));

    let events =
        ben.http.get(&format!("/bus/channels/{}/events?after_seq=0&limit=500", encoded(channel))).ok();
    assert_eq!(events["events"].as_array().map(Vec::len), Some(1));

    let start = ben.http.get("/bus/poll?wait_ms=0").ok();
    assert_eq!(start["frames"], json!([]));
    let next = ben.http.get(&format!("/bus/poll?wait_ms=0&cursor={}", encoded(text(&start["cursor"])))).ok();
    assert_eq!(next["frames"], json!([]));

    let profiles = ada.http.get("/agents").ok();
    let names: Vec<&Value> =
        profiles["profiles"].as_array().expect("profiles").iter().map(|profile| &profile["agent"]).collect();
    assert_eq!(names, ["claude-3e", "codex-85"]);
    ada.http.get("/handles/nobody").refused(404, "not_found");
    ada.http.get("/no/such/route").refused(404, "not_found");
}

/// A new socket with an old cursor gets what came after it, and its `pong` only behind that.
fn replay(hub: &Hub, ben: &Engine, vault: &str, channel: &str) -> Socket {
    let mut socket = Socket::connect(&hub.url, &ben.bearer);
    socket.send(&hello(ben, "codex-85", vault, &json!({channel: 2})));
    socket.barrier(10);
    let delivered = |frame: &&Value| frame["t"] == "message.deliver" || frame["t"] == "deliver";
    let positions: Vec<&Value> = socket.seen.iter().filter(delivered).map(|frame| &frame["seq"]).collect();
    assert_eq!(positions, [3, 4, 5]);

    let mut ahead = Socket::connect(&hub.url, &ben.bearer);
    ahead.send(&hello(ben, "codex-85", vault, &json!({channel: 1_000_000})));
    ahead.barrier(11);
    assert!(!ahead.has(|frame| frame["t"] == "error"), "a cursor ahead of the log counts as the head");
    socket
}

fn leave(ada: &Engine, others: &mut Socket) {
    let answer = ada.http.delete(&format!("/instances/{}", ada.id()));
    assert_eq!((answer.status, answer.body), (204, Value::Null));
    ada.http.get("/org/salt").refused(401, "instance_revoked");
    others.barrier(12);
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}
