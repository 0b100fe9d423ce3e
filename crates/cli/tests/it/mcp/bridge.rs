//! The stdio bridge: `switchboard mcp`.

use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use switchboard_client::Secret;
use switchboard_client::mcp::{Options, bridge};
use switchboard_testkit::mcp::{Mcp, STATELESS};
use switchboard_testkit::{PATIENCE, TestHub, Token};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A client of a bridge that runs in the test.
struct Client {
    lines: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    input: WriteHalf<DuplexStream>,
    bridge: JoinHandle<Result<(), switchboard_client::Error>>,
    sent: i64,
}

impl Client {
    fn start(url: &str, token: &Token, change: impl FnOnce(&mut Options)) -> Self {
        let mut options = Options::new(url, Secret::new(&token.bearer));
        change(&mut options);
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (read, write) = tokio::io::split(theirs);
        let bridge = tokio::spawn(bridge(options, read, write));
        let (read, input) = tokio::io::split(ours);
        Self { lines: BufReader::new(read).lines(), input, bridge, sent: 0 }
    }

    async fn open(url: &str, token: &Token) -> Self {
        let mut client = Self::start(url, token, |_| {});
        let opened = client.initialize().await;
        assert_eq!(opened["result"]["protocolVersion"], "2025-06-18", "{opened}");
        client.write(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string()).await;
        client
    }

    async fn initialize(&mut self) -> Value {
        let about = json!({ "name": "stdio", "version": "1" });
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about });
        self.request("initialize", params).await
    }

    async fn write(&mut self, line: &str) {
        self.input.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn read(&mut self) -> Value {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await.expect("a line in time");
        serde_json::from_str(&line.unwrap().expect("a line")).unwrap()
    }

    async fn begin(&mut self, method: &str, params: Value) -> i64 {
        self.sent += 1;
        let message = json!({ "jsonrpc": "2.0", "id": self.sent, "method": method, "params": params });
        self.write(&message.to_string()).await;
        self.sent
    }

    async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params).await;
        let answer = self.read().await;
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.request("tools/call", json!({ "name": tool, "arguments": arguments })).await;
        assert_eq!(answer["result"]["isError"], false, "{answer}");
        answer["result"]["structuredContent"].clone()
    }

    /// Standard input ends; so does the bridge.
    async fn end(self) {
        drop((self.input, self.lines));
        tokio::time::timeout(PATIENCE, self.bridge).await.expect("ends in time").unwrap().unwrap();
    }
}

/// An address that stays while the hub behind it moves: connections end with the hub they lead to.
struct Door {
    url: String,
    target: watch::Sender<Option<SocketAddr>>,
}

impl Door {
    async fn to(hub: &TestHub) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (target, targets) = watch::channel(Some(address(hub)));
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let mut targets = targets.clone();
                let to = *targets.borrow_and_update();
                tokio::spawn(async move {
                    let Some(to) = to else { return };
                    let mut hub = TcpStream::connect(to).await.unwrap();
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut client, &mut hub) => {}
                        _ = targets.changed() => {}
                    }
                });
            }
        });
        Self { url, target }
    }

    fn lead(&self, to: Option<&TestHub>) {
        self.target.send_replace(to.map(address));
    }
}

fn address(hub: &TestHub) -> SocketAddr {
    hub.url.strip_prefix("http://").unwrap().parse().unwrap()
}

#[tokio::test]
async fn lines_go_to_the_hub_and_back() {
    let hub = TestHub::start().await;
    let mut client = Client::open(&hub.url, &hub.token("ci").await).await;
    let tools = client.request("tools/list", json!({})).await;
    assert_eq!(tools["result"]["tools"].as_array().unwrap().len(), 10);
    assert_eq!(client.call("bus_send", json!({ "text": "hello" })).await["from"], "ci");
    assert_eq!(client.request("bus/fly", json!({})).await["error"]["code"], -32601);
    client.write("not json").await;
    assert_eq!(client.read().await["error"]["code"], -32700);
    client.write(r#"{"jsonrpc":"1.0","id":"x","method":"ping"}"#).await;
    let refused = client.read().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!("x"), &json!(-32600)));
    client.end().await;
}

#[tokio::test]
async fn requests_run_at_the_same_time() {
    let hub = TestHub::start().await;
    let mut client = Client::open(&hub.url, &hub.token("ci").await).await;
    client.call("bus_inbox", json!({})).await;
    let waiting =
        client.begin("tools/call", json!({ "name": "bus_inbox", "arguments": { "wait_ms": 60_000 } })).await;
    let listed = client.begin("tools/list", json!({})).await;
    assert_eq!(client.read().await["id"], listed, "the waiting one does not hold it up");
    let other = Mcp::open(&hub, &hub.token("other").await).await;
    other.done("bus_send", json!({ "text": "wake up" })).await;
    let woken = client.read().await;
    assert_eq!(woken["id"], waiting);
    assert!(woken["result"]["content"][0]["text"].as_str().unwrap().contains("wake up"));
    client.end().await;
}

#[tokio::test]
async fn the_agent_can_be_named_and_leaves_with_its_client() {
    let hub = TestHub::start().await;
    let token = hub.token("ci").await;
    let mut client = Client::start(&hub.url, &token, |options| options.agent = Some("planner".into()));
    client.initialize().await;
    let listed = client.call("agents_list", json!({})).await;
    assert_eq!(listed["you"], "planner");
    let (vault, instance) =
        (hub.hub.vault_named("main").unwrap().vault, hub.hub.store().instance(token.instance_id));
    let instance = instance.await.unwrap().unwrap().instance;
    assert!(hub.hub.presence.is_held(instance, vault, "planner"));
    client.end().await;
    assert!(!hub.hub.presence.is_held(instance, vault, "planner"), "the session was ended");
}

#[tokio::test]
async fn a_client_without_sessions_is_understood() {
    let hub = TestHub::start().await;
    let mut client = Client::start(&hub.url, &hub.token("ci").await, |_| {});
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientInfo": { "name": "stdio", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {} });
    let found = client.request("server/discover", json!({ "_meta": meta })).await;
    assert!(found["result"]["supportedVersions"].is_array(), "{found}");
    let params = json!({ "name": "agents_list", "arguments": {}, "_meta": meta });
    let called = client.request("tools/call", params).await;
    assert_eq!(called["result"]["structuredContent"]["you"], "ci", "{called}");
    let mut future = meta;
    future["io.modelcontextprotocol/protocolVersion"] = "2099-01-01".into();
    let refused = client.request("tools/list", json!({ "_meta": future })).await;
    assert!(refused["error"]["data"]["supported"].is_array(), "the hub's own error comes through: {refused}");
    client.end().await;
}

#[tokio::test]
async fn a_restart_of_the_hub_is_not_noticed() {
    let hub = TestHub::start().await;
    let token = hub.token("ci").await;
    let door = Door::to(&hub).await;
    let mut client = Client::open(&door.url, &token).await;
    let first = client.call("bus_send", json!({ "text": "before" })).await;
    door.lead(None);
    let asked =
        client.begin("tools/call", json!({ "name": "bus_send", "arguments": { "text": "meanwhile" } })).await;
    let hub = hub.restart().await;
    door.lead(Some(&hub));
    let answer = client.read().await;
    assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(asked), &json!(false)), "{answer}");
    let sent = &answer["result"]["structuredContent"];
    assert_eq!((sent["seq"].as_u64(), first["seq"].as_u64()), (Some(2), Some(1)), "stored once");
    client.end().await;
}

#[tokio::test]
async fn a_broken_wait_says_what_to_do() {
    let hub = TestHub::start().await;
    let token = hub.token("ci").await;
    let door = Door::to(&hub).await;
    let mut client = Client::open(&door.url, &token).await;
    client.call("bus_inbox", json!({})).await;
    let params = json!({ "name": "bus_inbox", "arguments": { "wait_ms": 60_000 } });
    client.begin("tools/call", params).await;
    super::until_waiting(&hub, 1).await;
    door.lead(Some(&hub)); // cuts the connections that are open
    let answer = client.read().await;
    assert!(answer["error"]["message"].as_str().unwrap().contains("unread true"), "{answer}");
    client.call("bus_inbox", json!({ "unread": true })).await;
    client.end().await;
}

#[tokio::test]
async fn a_hub_that_is_away_or_refuses_is_an_answer_too() {
    let hub = TestHub::start().await;
    let wrong = Token { instance_id: String::new(), bearer: "sbt_wrong".into() };
    let mut client = Client::start(&hub.url, &wrong, |_| {});
    let refused = client.initialize().await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("switchboard token create"), "{refused}");
    client.end().await;

    let url = hub.url.clone();
    hub.stop().await;
    let mut client = Client::start(&url, &wrong, |options| options.patience = Duration::from_millis(300));
    let away = client.initialize().await;
    let message = away["error"]["message"].as_str().unwrap();
    assert!(message.contains(&url) && message.contains("switchboard serve"), "{message}");
    client.end().await;
    assert!(bridge(Options::new("ftp://x", Secret::new("t")), &[][..], tokio::io::sink()).await.is_err());
}

#[tokio::test]
async fn the_program_speaks_mcp_and_nothing_else() {
    let hub = TestHub::start().await;
    let token = hub.token("ci").await;
    let mut child = Command::new(Path::new(env!("CARGO_BIN_EXE_switchboard")))
        .args(["mcp", "--agent", "planner", "--url", &hub.url])
        .env("SWITCHBOARD_TOKEN", &token.bearer)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let call = json!({ "name": "agents_list", "arguments": {} });
    let about = json!({ "name": "stdio", "version": "1" });
    let opening = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": about });
    for (id, method, params) in [(1, "initialize", opening), (2, "tools/call", call)] {
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        input.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        let line =
            tokio::time::timeout(PATIENCE, lines.next_line()).await.expect("in time").unwrap().unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(answer["id"], id, "{answer}");
        assert!(id == 1 || answer["result"]["structuredContent"]["you"] == "planner", "{answer}");
    }
    drop(input);
    assert_eq!(tokio::time::timeout(PATIENCE, lines.next_line()).await.expect("in time").unwrap(), None);
    assert!(tokio::time::timeout(PATIENCE, child.wait()).await.expect("ends in time").unwrap().success());
}

#[tokio::test]
async fn what_was_asked_before_the_input_ended_is_answered() {
    let hub = TestHub::start().await;
    let options = Options::new(&hub.url, Secret::new(&hub.token("piped").await.bearer));
    let about = json!({ "name": "pipe", "version": "1" });
    let opening = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about });
    let line = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": opening }).to_string();
    let mut said = Vec::new();
    bridge(options, line.as_bytes(), &mut said).await.unwrap();
    let answer: Value = serde_json::from_slice(&said).unwrap();
    assert_eq!((&answer["id"], &answer["result"]["protocolVersion"]), (&json!(1), &json!("2025-06-18")));
    hub.stop().await;
}
