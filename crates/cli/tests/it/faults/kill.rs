//! `kill -9`, and SIGTERM, at random moments under load. The number of rounds comes from `SWITCHBOARD_FAULT_ROUNDS`.

use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use switchboard_testkit::{PATIENCE, Process, Socket, Token};
use tokio::sync::Mutex;

const SENDERS: usize = 4;

/// A small generator, so that a failing run can be repeated with its seed.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    /// From the seed that `SWITCHBOARD_FAULT_SEED` names, or a fresh one, which is printed; with the number of rounds.
    pub(crate) fn rolled() -> (Self, u64) {
        let variable = |name| std::env::var(name).ok().and_then(|text: String| text.parse().ok());
        let rounds = variable("SWITCHBOARD_FAULT_ROUNDS").unwrap_or(3);
        let seed = variable("SWITCHBOARD_FAULT_SEED");
        let seed = seed.unwrap_or_else(|| u64::from(std::process::id()) * 0x9E37_79B9 + 1);
        println!("rounds {rounds}, seed {seed} (SWITCHBOARD_FAULT_SEED repeats it)");
        (Self(seed), rounds)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

#[derive(Default)]
struct Sent {
    next: u64,
    unanswered: HashSet<u64>,
    acknowledged: HashMap<u64, (u64, String)>,
}

struct Sender {
    token: Token,
    name: String,
    sent: Arc<Mutex<Sent>>,
}

struct Place {
    vault: String,
    channel: String,
}

fn message(place: &Place, name: &str, number: u64) -> Value {
    let kind = if number.is_multiple_of(10) { "question" } else { "finding" };
    json!({ "t": "message", "client_msg_id": format!("{name}-{number}"), "type": kind, "from": name,
        "network": { "kind": "org", "channel": place.channel }, "body": { "text": format!("{name}-{number}") } })
}

/// Sends until the hub is gone: first what was never answered, under the same ids, then new ones.
async fn send(url: String, place: Arc<Place>, sender: Arc<Sender>) {
    let Ok(mut socket) = Socket::connect(&url, &sender.token.bearer).await else { return };
    let agents = json!([{ "agent_id": sender.name, "role": "sender", "vault_id": place.vault }]);
    let hello = json!({ "t": "hello", "instance_id": sender.token.instance_id, "agents": agents });
    if socket.try_send(&hello).await.is_err() {
        return;
    }
    let mut again: Vec<u64> = sender.sent.lock().await.unanswered.iter().copied().collect();
    again.sort_unstable();
    loop {
        let number = if let Some(number) = again.pop() {
            number
        } else {
            let mut sent = sender.sent.lock().await;
            sent.next += 1;
            let number = sent.next;
            sent.unanswered.insert(number);
            number
        };
        if socket.try_send(&message(&place, &sender.name, number)).await.is_err() {
            return;
        }
        let waiting = sender.sent.lock().await.unanswered.len();
        if waiting >= 16 && !take_answers(&mut socket, &sender, waiting - 8).await {
            return;
        }
    }
}

async fn take_answers(socket: &mut Socket, sender: &Sender, mut count: usize) -> bool {
    while count > 0 {
        let Some(frame) = socket.next().await else { return false };
        assert!(frame["t"] != "error", "refused under load: {frame}");
        if frame["t"] == "message.stored" {
            let id = frame["client_msg_id"].as_str().unwrap();
            let number: u64 = id.rsplit('-').next().unwrap().parse().unwrap();
            let place = (frame["seq"].as_u64().unwrap(), frame["gid"].as_str().unwrap().to_owned());
            let mut sent = sender.sent.lock().await;
            sent.unanswered.remove(&number);
            if let Some(before) = sent.acknowledged.insert(number, place.clone()) {
                assert_eq!(before, place, "an acknowledged message was stored again");
            }
            count -= 1;
        }
    }
    true
}

async fn setup(process: &Process) -> (Arc<Place>, Vec<Arc<Sender>>) {
    let admin = process.admin();
    let status = admin.get("/admin/v1/status").await.json();
    let vaults = admin.get("/admin/v1/vaults").await.json();
    let vault = vaults[0]["vault_id"].as_str().unwrap().to_owned();
    let channel = format!("org:{}/vault:{vault}/general", status["org_id"].as_str().unwrap());
    let mut senders = Vec::new();
    for number in 0..SENDERS {
        let name = format!("s{number}");
        senders.push(Arc::new(Sender { token: process.token(&name).await, name, sent: Arc::default() }));
    }
    (Arc::new(Place { vault, channel }), senders)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_and_nothing_is_stored_twice() {
    let (mut dice, rounds) = Dice::rolled();
    let binary = Path::new(env!("CARGO_BIN_EXE_switchboard"));
    let dir = tempfile::tempdir().unwrap();
    let mut process = Process::start(binary, dir.path()).await;
    let (place, senders) = setup(&process).await;
    for round in 0..rounds {
        let running: Vec<_> = senders
            .iter()
            .map(|s| tokio::spawn(send(process.url.clone(), place.clone(), s.clone())))
            .collect();
        // The moment of death is the point of the test, so it is left to chance and not to a signal.
        tokio::time::sleep(Duration::from_millis(30 + dice.below(400))).await;
        // One in three is asked to end: what is under way then must be finished or left unacknowledged, too.
        if round % 3 == 1 {
            stop(process).await;
        } else {
            process.kill().await;
        }
        for sender in running {
            tokio::time::timeout(PATIENCE, sender)
                .await
                .expect("a sender notices")
                .expect("and does not fail");
        }
        process = Process::start(binary, dir.path()).await;
        if round % 10 == 9 || round + 1 == rounds {
            check(&process, &place, &senders).await;
        }
    }
    process.kill().await;
}

#[cfg(unix)]
async fn stop(process: Process) {
    process.terminate().await;
}

#[cfg(not(unix))]
async fn stop(process: Process) {
    process.kill().await;
}

async fn check(process: &Process, place: &Place, senders: &[Arc<Sender>]) {
    let admin = process.admin();
    let mut stored: HashMap<String, (u64, String)> = HashMap::new();
    let (mut seqs, mut after) = (Vec::new(), String::new());
    loop {
        let channel = place.channel.replace('/', "%2F");
        let page = admin.get(&format!("/v1/messages?network=org&channel={channel}{after}")).await.json();
        for message in page["messages"].as_array().unwrap() {
            let text = message["body"]["text"].as_str().unwrap().to_owned();
            let seq = message["seq"].as_u64().unwrap();
            seqs.push(seq);
            let twice = stored.insert(text.clone(), (seq, message["gid"].as_str().unwrap().to_owned()));
            assert!(twice.is_none(), "{text} is stored twice");
        }
        match page["next"].as_str() {
            Some(next) => after = format!("&after_gid={next}"),
            None => break,
        }
    }
    let gap_free: Vec<u64> = (1..=seqs.len() as u64).collect();
    assert!(seqs == gap_free, "sequences have gaps");
    let mut acknowledged = 0;
    for sender in senders {
        for (number, place) in &sender.sent.lock().await.acknowledged {
            acknowledged += 1;
            let found = stored.get(&format!("{}-{number}", sender.name));
            assert_eq!(found, Some(place), "{}-{number} was acknowledged", sender.name);
        }
    }
    println!("{acknowledged} acknowledged, {} stored", stored.len());
    assert!(acknowledged > 0);
    let verified = admin.post("/admin/v1/log/verify", &json!({})).await.json();
    assert_eq!(verified["ok"], true, "{verified}");
    let ledger = admin.get("/admin/v1/ledger").await.json();
    let bus = |name: &str| ledger["bus"][name].as_u64().unwrap();
    assert_eq!(bus("accepted"), stored.len() as u64);
    let elsewhere = ["delivered", "answered", "expired", "refused", "dead", "unknown", "pending"];
    assert_eq!(bus("accepted"), elsewhere.iter().map(|name| bus(name)).sum::<u64>(), "{ledger}");
}

/// A hub that stops waits for its sockets: each is told to connect again.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_socket_is_told_that_the_hub_stops() {
    const SOCKETS: usize = 300;
    const RESTART: u16 = 1012;
    let dir = tempfile::tempdir().expect("a directory");
    let process = Process::start(Path::new(env!("CARGO_BIN_EXE_switchboard")), dir.path()).await;
    let token = process.token("many").await;
    let mut farewells = Vec::new();
    for _ in 0..SOCKETS {
        let mut socket = Socket::connect(&process.url, &token.bearer).await.expect("the socket opens");
        socket.hello(&token.instance_id, &json!([]), &json!({})).await;
        farewells.push(tokio::spawn(socket.farewell()));
    }
    process.terminate().await;
    for farewell in farewells {
        assert_eq!(farewell.await.expect("it is read"), Some(RESTART));
    }
}
