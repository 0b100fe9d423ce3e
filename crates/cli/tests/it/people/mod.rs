//! Reaching people through the real doors: a hub on a real store, and a network that exists only in memory, does what a test tells it
//! and remembers everything that went out.

mod approvals;
mod channels;
mod consent;
mod escalation;
mod floor;
mod idempotency;
mod inbound;
mod limits;
mod links;
mod outcomes;
mod quiet;
mod retries;
mod shown;
mod sink;
pub(crate) mod standin;
mod verb;

use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use switchboard_channels::fake::{CAPABILITIES, FakeNetwork};
use switchboard_core::port::channel::{Capabilities, Channel, Dedup, Incoming, IncomingKind, Origin};
use switchboard_core::time::ManualClock;
use switchboard_engine::Settings;
use switchboard_testkit::hub::Reply;
use switchboard_testkit::{Http, Options, PATIENCE, TestHub, Token};

pub(crate) const SEND: &str = "/v1/tools/messaging.send";
pub(crate) const GET: &str = "/v1/tools/conversation.get";
const WITHDRAW: &str = "/v1/tools/conversation.withdraw";
pub(crate) const CONSENTS: &str = "/admin/v1/pairing/consents";
pub(crate) const OUTBOUND: &str = "/admin/v1/outbound";

/// A hub with the console and the network `chat`, on which Ada and Ben may be written to, and one agent.
struct Desk {
    hub: TestHub,
    network: Arc<FakeNetwork>,
    /// Further channels, and whether each is the fallback.
    more: Vec<(Arc<dyn Channel>, bool)>,
    agent: Token,
}

/// Options of a hub whose timers look often.
fn options() -> Options {
    let settings = Settings { sweep_every: Duration::from_millis(20), ..Settings::default() };
    Options { settings, ..Options::default() }
}

/// The same with a clock of the test's own. A call does not wait for its message to arrive: by that clock no time passes.
fn by_clock() -> (Options, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at(1_800_000_000_000));
    let mut options = options();
    options.settings.outbound.receipt_wait = Duration::ZERO;
    (Options { clock: Some(clock.clone()), ..options }, clock)
}

/// What a network can do that drops what it has seen before.
fn by_id() -> Capabilities {
    Capabilities { dedup: Dedup::ById, ..CAPABILITIES }
}

impl Desk {
    async fn open() -> Self {
        Self::with(options(), CAPABILITIES).await
    }

    async fn with(options: Options, can: Capabilities) -> Self {
        let hub = TestHub::with(options).await;
        let agent = hub.token("planner").await;
        let desk = Self { hub, network: FakeNetwork::with("chat", can), more: Vec::new(), agent };
        desk.connect();
        for name in ["ada", "ben"] {
            assert_eq!(desk.allow("chat", name, true).await.status, 200);
        }
        desk
    }

    fn connect(&self) {
        let hub = &self.hub.hub;
        hub.add_channel(self.network.clone(), false).unwrap();
        for (channel, fallback) in &self.more {
            hub.add_channel(channel.clone(), *fallback).unwrap();
        }
        hub.channels_complete();
    }

    async fn add(&mut self, channel: Arc<dyn Channel>, fallback: bool) {
        self.hub.hub.add_channel(channel.clone(), fallback).unwrap();
        if channel.capabilities().consent {
            assert_eq!(self.allow(channel.name(), "ada", true).await.status, 200);
        }
        self.more.push((channel, fallback));
    }

    async fn restart(self) -> Self {
        self.restart_after(|| ()).await
    }

    /// The same, with something done while the hub is down.
    async fn restart_after(self, meanwhile: impl FnOnce()) -> Self {
        let Self { hub, network, more, agent } = self;
        let hub = hub.restart_with(|_| meanwhile()).await;
        let desk = Self { hub, network, more, agent };
        desk.connect();
        desk
    }

    fn admin(&self) -> Http {
        self.hub.http(&self.hub.admin())
    }

    async fn allow(&self, channel: &str, to: &str, allow: bool) -> Reply {
        self.admin().post(CONSENTS, &json!({ "channel": channel, "to": to, "allow": allow })).await
    }

    async fn send(&self, call: &Value) -> Reply {
        self.hub.http(&self.agent).post(SEND, call).await
    }

    /// The receipt of a call that is accepted.
    async fn sent(&self, call: &Value) -> Value {
        let reply = self.send(call).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.json()
    }

    async fn conversation(&self, topic: &Value) -> Value {
        let reply = self.hub.http(&self.agent).post(GET, &json!({ "topic_id": topic })).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.json()
    }

    async fn show(&self, send_id: &Value) -> Value {
        let reply = self.admin().get(&format!("{OUTBOUND}/{}", send_id.as_str().unwrap())).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.json()
    }

    /// Waits until the send is in this state.
    async fn until(&self, send_id: &Value, state: &str) -> Value {
        self.until_shown(send_id, |shown| shown["state"] == state).await
    }

    /// Waits until what is shown of the send is so.
    async fn until_shown(&self, send_id: &Value, is_so: impl Fn(&Value) -> bool) -> Value {
        let mut changes = self.hub.hub.outbound.changes();
        let mut last = Value::Null;
        let looked = async {
            loop {
                changes.mark_unchanged();
                last = self.show(send_id).await;
                if is_so(&last) {
                    return;
                }
                changes.changed().await.unwrap();
            }
        };
        assert!(tokio::time::timeout(PATIENCE, looked).await.is_ok(), "not in time: {last}");
        last
    }

    /// A person says something on `chat`; resolves when it is stored, with what they are told.
    async fn says(&self, event: &str, from: &str, text: &str) -> Option<String> {
        switchboard_engine::outbound::hear::take(&self.hub.hub, said(event, from, text)).await.unwrap()
    }

    /// The counts of this plane, which add up; and the log, which verifies.
    async fn ledger(&self) -> Value {
        books(&self.admin()).await
    }
}

/// What a verified sender says on `chat`.
fn said(event: &str, from: &str, text: &str) -> Incoming {
    Incoming {
        channel: "chat".into(),
        event_id: event.into(),
        from: from.into(),
        origin: Origin::Verified { by: "session".into() },
        what: IncomingKind::Text { text: text.into() },
        message_id: None,
        place: None,
        references: Vec::new(),
        at_ms: 0,
    }
}

/// A notice for somebody on `chat`.
fn notice(to: &str, body: &str) -> Value {
    json!({ "channel": "chat", "to": to, "body": body, "message_kind": "notice" })
}

/// A question for somebody on `chat`.
fn question(to: &str, body: &str) -> Value {
    json!({ "channel": "chat", "to": to, "body": body })
}

/// `value` with these members.
fn with(mut value: Value, more: &Value) -> Value {
    for (name, more) in more.as_object().unwrap() {
        value[name] = more.clone();
    }
    value
}

/// The counts of what goes out to people, as both routes tell them. They add up, and agree with the listing; the log verifies.
pub(crate) async fn books(admin: &Http) -> Value {
    let counts = admin.get("/v1/ledger").await.json()["outbound"].clone();
    let count = |name: &str| counts[name].as_u64().unwrap();
    let places = ["delivered", "answered", "expired", "refused", "dead", "unknown", "pending"];
    assert_eq!(count("accepted"), places.iter().map(|name| count(name)).sum::<u64>(), "{counts}");
    let listed = admin.get(&format!("{OUTBOUND}?limit=500")).await.json();
    let listed = listed["sends"].as_array().unwrap();
    assert_eq!(listed.len() as u64, count("accepted"), "{counts}");
    for state in ["answered", "expired", "refused", "dead", "unknown"] {
        let found = listed.iter().filter(|send| send["state"] == state).count() as u64;
        assert_eq!(found, count(state), "{state}: {counts}");
    }
    let verified = admin.post("/admin/v1/log/verify", &json!({})).await.json();
    assert_eq!((&verified["ok"], &verified["first_broken"]), (&json!(true), &Value::Null), "{verified}");
    counts
}

/// Fails the test when this takes too long.
async fn in_time<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("in time")
}
