//! Several hubs on one private PostgreSQL server: whichever of them a client uses, it is one hub.

mod authority;
mod balancer;
mod bench;
mod database;
mod doorbell;
mod failover;
mod failure;
mod mcp;
mod moving;
mod one_hub;
mod people;
mod refused;
mod upgrade;

use serde_json::{Value, json};
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;
use switchboard_store::conformance::cluster::Cluster;
use switchboard_testkit::{PATIENCE, Process, Socket, Token};

static CLUSTER: LazyLock<Cluster> = LazyLock::new(Cluster::start);

/// A store with the nodes on it.
pub(crate) struct Nodes {
    pub(crate) store: String,
    pub(crate) bell: String,
    /// Further variables of each node.
    more: Vec<(&'static str, String)>,
    dirs: Vec<tempfile::TempDir>,
    pub(crate) org: String,
    pub(crate) vault: String,
}

impl Nodes {
    /// `count` nodes on a fresh store, which ring over `bell`.
    async fn start(count: usize, bell: &str) -> (Self, Vec<Process>) {
        Self::start_with(count, bell, Vec::new()).await
    }

    /// The same with further variables.
    async fn start_with(count: usize, bell: &str, more: Vec<(&'static str, String)>) -> (Self, Vec<Process>) {
        let store = tokio::task::spawn_blocking(|| CLUSTER.fresh_url()).await.unwrap();
        Self::start_at(store, count, bell, more).await
    }

    /// `count` nodes on the empty store at this URL.
    pub(crate) async fn on(store: String, count: usize, bell: &str) -> (Self, Vec<Process>) {
        Self::start_at(store, count, bell, Vec::new()).await
    }

    /// The same with further variables.
    async fn start_at(
        store: String,
        count: usize,
        bell: &str,
        more: Vec<(&'static str, String)>,
    ) -> (Self, Vec<Process>) {
        let (org, vault) = (String::new(), String::new());
        let mut nodes = Self { store, bell: bell.to_owned(), more, dirs: Vec::new(), org, vault };
        let mut running = Vec::new();
        for _ in 0..count {
            running.push(nodes.add().await);
        }
        let admin = running[0].admin();
        nodes.org = text(&admin.get("/admin/v1/status").await.json()["org_id"]);
        nodes.vault = text(&admin.get("/admin/v1/vaults").await.json()[0]["vault_id"]);
        (nodes, running)
    }

    /// One more.
    async fn add(&mut self) -> Process {
        self.dirs.push(tempfile::tempdir().unwrap());
        self.again(self.dirs.len() - 1).await
    }

    /// Starts the node of this number, which has ended, again.
    pub(crate) async fn again(&self, number: usize) -> Process {
        let mut variables = vec![
            ("SWITCHBOARD_STORE_URL", self.store.as_str()),
            ("SWITCHBOARD_DOORBELL_URL", self.bell.as_str()),
            ("SWITCHBOARD_LIMITS_PRESENCE_GRACE_SECONDS", "1"),
        ];
        variables.extend(self.more.iter().map(|(name, value)| (*name, value.as_str())));
        let binary = Path::new(env!("CARGO_BIN_EXE_switchboard"));
        Process::start_set(binary, self.dirs[number].path(), &variables).await
    }

    fn channel(&self) -> String {
        self.channel_named("general")
    }

    pub(crate) fn channel_named(&self, name: &str) -> String {
        format!("org:{}/vault:{}/{name}", self.org, self.vault)
    }

    pub(crate) async fn agent(&self, node: &Process, token: &Token, agent: &str) -> Socket {
        self.agent_from(node, token, agent, &json!({})).await
    }

    async fn agent_from(&self, node: &Process, token: &Token, agent: &str, cursors: &Value) -> Socket {
        self.agent_at(&node.url, token, agent, cursors).await
    }

    async fn agent_at(&self, url: &str, token: &Token, agent: &str, cursors: &Value) -> Socket {
        let mut socket = Socket::connect(url, &token.bearer).await.expect("the socket opens");
        let agents = json!([{ "agent_id": agent, "role": "tester", "vault_id": self.vault }]);
        socket.hello(&token.instance_id, &agents, cursors).await;
        socket
    }

    /// What clients say that they are in, and how far the streams are.
    async fn epoch(node: &Process) -> String {
        text(&node.admin().get("/v1/streams").await.json()["epoch"])
    }

    fn message(&self, id: &str, kind: &str, from: &str) -> Value {
        json!({ "t": "message", "client_msg_id": id, "network": { "kind": "org", "channel": self.channel() },
            "type": kind, "from": from, "body": { "text": id } })
    }
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

/// Whether the node says that it rings the others.
async fn rings(node: &Process) -> bool {
    let ready = node.admin().get("/readyz").await;
    assert_eq!(ready.status, 200, "a node without its doorbell serves: {}", ready.text);
    ready.json()["degraded"] == false
}

/// Asks again and again until it is so, for as long as tests wait.
async fn until(what: &str, most: Duration, is_so: impl AsyncFn() -> bool) {
    let asked = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    assert!(tokio::time::timeout(most, asked).await.is_ok(), "not in time: {what}");
}

async fn all_ring(nodes: &[Process]) {
    for node in nodes {
        until("the doorbell is connected", PATIENCE, async || rings(node).await).await;
    }
}

/// The next `count` messages, by what the sender called them.
async fn received(socket: &mut Socket, count: usize) -> Vec<(u64, String)> {
    let mut got = Vec::new();
    while got.len() < count {
        let frame = socket.expect("message.deliver").await;
        got.push((frame["seq"].as_u64().unwrap(), text(&frame["body"]["text"])));
    }
    got
}
