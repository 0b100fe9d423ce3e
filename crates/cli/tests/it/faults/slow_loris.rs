//! Those who hold a connection and do not use it: half requests, half upgrades, answers nobody reads, under a small
//! `ulimit -n`. Whoever is connected goes on being served, the dawdlers are ended in bounded time, and the process neither
//! dies nor spins.

use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use switchboard_testkit::{Http, PATIENCE, Process, Socket};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

const BINARY: &str = env!("CARGO_BIN_EXE_switchboard");
/// Time a request's head may take, and a place in the queue of those who come after.
const HEAD: Duration = Duration::from_secs(10);
/// Processor time, in part of real time, that is no spinning.
const IDLE_SHARE: f64 = 0.5;

fn address(process: &Process) -> String {
    process.url.trim_start_matches("http://").to_owned()
}

/// Two agents that talk to each other over sockets.
struct Pair {
    one: Socket,
    other: Socket,
    channel: String,
    sent: u64,
}

impl Pair {
    async fn connect(process: &Process) -> Self {
        let admin = process.admin();
        let org = admin.get("/admin/v1/status").await.json()["org_id"].as_str().unwrap().to_owned();
        let vaults = admin.get("/admin/v1/vaults").await.json();
        let vault = vaults[0]["vault_id"].as_str().unwrap().to_owned();
        let agent = async |name: &str| {
            let token = process.token(name).await;
            let mut socket = Socket::connect(&process.url, &token.bearer).await.unwrap();
            let agents = json!([{ "agent_id": name, "role": "r", "vault_id": vault }]);
            socket.hello(&token.instance_id, &agents, &json!({})).await;
            socket
        };
        let (one, other) = (agent("one").await, agent("other").await);
        Self { one, other, channel: format!("org:{org}/vault:{vault}/general"), sent: 0 }
    }

    /// One message there, stored and delivered.
    async fn talk(&mut self) {
        self.sent += 1;
        let text = format!("m{}", self.sent);
        let message: Value = json!({ "t": "message", "client_msg_id": text, "type": "finding", "from": "one",
            "network": { "kind": "org", "channel": self.channel }, "body": { "text": text } });
        assert_eq!(self.one.ask(&message).await["t"], "message.stored");
        let delivered = self.other.expect("message.deliver").await;
        assert_eq!(delivered["body"]["text"], *text, "in order, none twice");
    }
}

/// Holds a connection with `first` and then a byte now and then; how long until the hub ended it.
async fn dawdle(address: String, first: &'static str) -> Duration {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let began = Instant::now();
    let _ = stream.write_all(first.as_bytes()).await;
    let mut answer = [0; 1024];
    loop {
        // The byte now and then is what makes it slow; the wait is the attack, not a wait for the hub.
        match timeout(Duration::from_millis(500), stream.read(&mut answer)).await {
            Ok(Ok(0) | Err(_)) => return began.elapsed(),
            Ok(Ok(_)) => {}
            Err(_) => {
                if stream.write_all(b"x").await.is_err() {
                    return began.elapsed();
                }
            }
        }
    }
}

/// Asks for `/healthz` behind everybody who is queued already.
async fn health(address: String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

/// Seconds of processor time a process has used.
fn processor_seconds(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    ticks / 100.0
}

fn open_files(pid: u32) -> u64 {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count() as u64
}

/// Sets the bound on open files of a running process.
fn bound_files(pid: u32, files: u64) {
    use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    let pid = Pid::from_raw(pid.cast_signed());
    prlimit(pid, Resource::Nofile, Rlimit { current: Some(files), maximum }).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_half_open_requests_end_in_time_and_others_are_served() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start_bounded(Path::new(BINARY), dir.path(), 256).await;
    let mut pair = Pair::connect(&process).await;
    pair.talk().await;
    let (used, began) = (processor_seconds(process.id()), Instant::now());
    let mut dawdlers = JoinSet::new();
    for number in 0..300 {
        let first = match number % 3 {
            0 => "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ",
            1 => {
                "GET /v1/bus HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-"
            }
            _ => "",
        };
        dawdlers.spawn(dawdle(address(&process), first));
    }
    // While they hold every place: those who are connected talk on, and a newcomer gets his turn.
    let newcomer = tokio::spawn(health(address(&process)));
    for _ in 0..50 {
        pair.talk().await;
    }
    timeout(HEAD * 3, newcomer).await.expect("a newcomer gets his turn").unwrap();
    // 300 of them on 40 places: the first half has its ten seconds, those who come later one.
    let all = async {
        while let Some(ended) = dawdlers.join_next().await {
            ended.unwrap();
        }
    };
    timeout(HEAD * 3, all).await.expect("all are ended");
    let share = (processor_seconds(process.id()) - used) / began.elapsed().as_secs_f64();
    assert!(share < IDLE_SHARE, "it spins: {share}");
    pair.talk().await;
    assert_eq!(process.admin().get("/readyz").await.status, 200);
    process.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_kind_of_dawdler_has_its_time() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start(Path::new(BINARY), dir.path()).await;
    let half_head = dawdle(address(&process), "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ");
    let half_upgrade = dawdle(
        address(&process),
        "GET /v1/bus HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX: ",
    );
    let half_body = dawdle(
        address(&process),
        "POST /v1/device/code HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{",
    );
    let token = process.token("mute").await;
    let mut mute = Socket::connect(&process.url, &token.bearer).await.unwrap();
    let mute = async {
        let began = Instant::now();
        let last = mute.next().await.expect("it is told why");
        assert_eq!(last["error"]["reason"], "hello_timeout", "{last}");
        assert!(mute.next().await.is_none());
        began.elapsed()
    };
    let (head, upgrade, body, mute) = tokio::join!(half_head, half_upgrade, half_body, mute);
    let slack = Duration::from_secs(5);
    for (what, took, most) in [
        ("a half head", head, HEAD),
        ("a half upgrade", upgrade, HEAD),
        ("a half body", body, 3 * HEAD),
        ("a socket without hello", mute, HEAD),
    ] {
        assert!(took < most + slack, "{what} was held for {took:?}");
        assert!(took > HEAD / 2, "{what} was ended after {took:?} already");
    }
    process.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn running_out_of_files_neither_kills_nor_spins_and_it_recovers() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start(Path::new(BINARY), dir.path()).await;
    let mut pair = Pair::connect(&process).await;
    pair.talk().await;
    // Fewer than the hub counted with when it started: accepting fails.
    bound_files(process.id(), open_files(process.id()) + 4);
    let mut held = Vec::new();
    for _ in 0..100 {
        held.push(TcpStream::connect(address(&process)).await.unwrap());
    }
    let used = processor_seconds(process.id());
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(2) {
        pair.talk().await;
        // A rate that is no load, so that what is measured is the accept loop.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let share = (processor_seconds(process.id()) - used) / began.elapsed().as_secs_f64();
    assert!(share < IDLE_SHARE, "the accept loop spins: {share}");
    // It recovers once they are gone, without a restart and still with few files.
    drop(held);
    assert_eq!(timeout(PATIENCE, Http::new(&process.url, "none").get("/healthz")).await.unwrap().status, 200);
    assert_eq!(process.admin().get("/readyz").await.status, 200);
    pair.talk().await;
    process.kill().await;
}
