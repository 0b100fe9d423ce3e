//! Writers with messages in flight and readers with cursors, each on any node and on another one as soon as that fails; and the
//! comparison of what they were told with what is stored.

use crate::cluster::Nodes;
use crate::faults::kill::Dice;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use switchboard_testkit::{PATIENCE, Process, Socket, Token};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

const WRITERS: usize = 4;
const READERS: usize = 3;
const CHANNELS: [&str; 2] = ["general", "side"];
/// Messages of a writer that wait for their answer.
const WINDOW: usize = 16;
/// A writer leaves a node that says nothing for so long while an answer is due.
const SILENCE: Duration = Duration::from_secs(3);
/// The log of all rounds is checked within this.
const VERIFIED: Duration = Duration::from_mins(3);
/// Before another attempt.
const PAUSE: Duration = Duration::from_millis(50);

/// Where a message stands: channel, sequence, id.
type Place = (String, u64, String);
type Seqs = BTreeMap<String, u64>;

struct Client {
    token: Token,
    name: String,
}

#[derive(Default)]
struct Sent {
    next: u64,
    unanswered: BTreeSet<u64>,
    acknowledged: HashMap<u64, Place>,
}

/// What readers were handed, by channel and sequence.
type Handed = HashMap<(String, u64), String>;

/// What all share.
struct Shared {
    vault: String,
    channels: Vec<String>,
    urls: Mutex<Vec<String>>,
    sent: Vec<Mutex<Sent>>,
    // Answers so far, by writer.
    answers: watch::Sender<Vec<u64>>,
    handed: Mutex<Handed>,
    seen: watch::Sender<Vec<Seqs>>,
    resting: watch::Sender<bool>,
}

pub(super) struct Load {
    shared: Arc<Shared>,
    clients: Vec<Arc<Client>>,
    writers: Vec<JoinHandle<()>>,
    readers: Vec<JoinHandle<()>>,
    dice: Dice,
    // What was compared: places by text, and by channel how far it was read.
    stored: HashMap<String, Place>,
    read: HashMap<String, (u64, String)>,
}

impl Load {
    pub(super) async fn new(nodes: &Nodes, node: &Process, seed: u64) -> Self {
        let mut clients = Vec::new();
        for number in 0..WRITERS + READERS {
            let name = format!("c{number}");
            clients.push(Arc::new(Client { token: node.token(&name).await, name }));
        }
        let channels: Vec<_> = CHANNELS.iter().map(|name| nodes.channel_named(name)).collect();
        let unseen: Seqs = channels.iter().map(|channel| (channel.clone(), 0)).collect();
        let shared = Shared {
            vault: nodes.vault.clone(),
            channels,
            urls: Mutex::default(),
            sent: (0..WRITERS).map(|_| Mutex::default()).collect(),
            answers: watch::Sender::new(vec![0; WRITERS]),
            handed: Mutex::default(),
            seen: watch::Sender::new(vec![unseen; READERS]),
            resting: watch::Sender::new(false),
        };
        let mut load = Self {
            shared: shared.into(),
            clients,
            writers: Vec::new(),
            readers: Vec::new(),
            dice: Dice(seed | 1),
            stored: HashMap::new(),
            read: HashMap::new(),
        };
        for number in 0..READERS {
            let reader = Reader { number, client: load.clients[WRITERS + number].clone() };
            let (shared, dice) = (load.shared.clone(), load.dice());
            load.readers.push(tokio::spawn(reader.read(shared, dice)));
        }
        load
    }

    fn dice(&mut self) -> Dice {
        Dice(self.dice.below(u64::MAX) | 1)
    }

    /// Nodes are reached here from now on.
    pub(super) fn reach(&self, urls: Vec<String>) {
        *self.shared.urls.lock() = urls;
    }

    /// Writers write.
    pub(super) async fn go(&mut self, urls: Vec<String>) {
        self.reach(urls);
        self.shared.resting.send_replace(false);
        for number in 0..WRITERS {
            let writer = Writer { number, client: self.clients[number].clone() };
            let (shared, dice) = (self.shared.clone(), self.dice());
            self.writers.push(tokio::spawn(writer.write(shared, dice)));
        }
        self.recovered(PATIENCE).await.expect("all begin");
    }

    /// Waits until every writer has got another answer.
    pub(super) async fn recovered(&mut self, most: Duration) -> Result<(), String> {
        let (mut answers, until) = (self.shared.answers.subscribe(), Instant::now() + most);
        let before = answers.borrow().clone();
        let all = |now: &Vec<u64>| now.iter().zip(&before).all(|(now, before)| now > before);
        let waited = timeout_at(until, answers.wait_for(all)).await.map(drop);
        self.still_running().await;
        waited.map_err(|_| {
            format!("answers {before:?} before, {:?} after {most:?}", *self.shared.answers.borrow())
        })
    }

    // A task that has ended has failed.
    async fn still_running(&mut self) {
        for tasks in [&mut self.writers, &mut self.readers] {
            if let Some(ended) = tasks.iter().position(JoinHandle::is_finished) {
                tasks.swap_remove(ended).await.expect("a client does not fail");
                panic!("a client ended");
            }
        }
    }

    /// Writers finish what is under way; readers read up to the end.
    pub(super) async fn rest(&mut self) {
        self.shared.resting.send_replace(true);
        for writer in self.writers.drain(..) {
            timeout(2 * PATIENCE, writer).await.expect("all is answered in time").expect("a writer");
        }
        let mut last = Seqs::new();
        for sent in &self.shared.sent {
            for (channel, seq, _) in sent.lock().acknowledged.values() {
                let most = last.entry(channel.clone()).or_default();
                *most = (*most).max(*seq);
            }
        }
        let mut seen = self.shared.seen.subscribe();
        let all = |seen: &Vec<Seqs>| seen.iter().all(|of| of.iter().all(|(name, seq)| *seq >= last[name]));
        let waited = timeout(2 * PATIENCE, seen.wait_for(all)).await.map(drop);
        self.still_running().await;
        assert!(waited.is_ok(), "readers get everything: {:?} of {last:?}", *self.shared.seen.borrow());
    }

    /// What was acknowledged and what was handed out is what is stored, once each and without gaps. What was compared before is not
    /// read again: it is behind the chain that is verified in the end.
    pub(super) async fn compare(&mut self, node: &Process) {
        let admin = node.admin();
        for channel in &self.shared.channels {
            let read = self.read.entry(channel.clone()).or_default();
            for (text, gid) in history(node, channel, read).await {
                read.0 += 1;
                read.1.clone_from(&gid);
                let place = (channel.clone(), read.0, gid);
                assert!(self.stored.insert(text.clone(), place).is_none(), "{text} is stored twice");
                let handed = self.shared.handed.lock().get(&(channel.clone(), read.0)).cloned();
                assert_eq!(handed, Some(text), "{channel} {} as it was handed out", read.0);
            }
        }
        let stored = &self.stored;
        assert_eq!(self.shared.handed.lock().len(), stored.len(), "nothing was handed out that is not there");
        let mut acknowledged = 0;
        for (number, sent) in self.shared.sent.iter().enumerate() {
            let sent = sent.lock();
            acknowledged += sent.acknowledged.len();
            for (message, place) in &sent.acknowledged {
                assert_eq!(stored.get(&format!("c{number}-{message}")), Some(place), "as acknowledged");
            }
        }
        assert_eq!(acknowledged, stored.len(), "all that is stored was acknowledged in the end");
        let ledger = admin.get("/admin/v1/ledger").await.json();
        let bus = |name: &str| ledger["bus"][name].as_u64().unwrap();
        let elsewhere = ["delivered", "answered", "expired", "refused", "dead", "unknown", "pending"];
        assert_eq!(bus("accepted"), elsewhere.iter().map(|name| bus(name)).sum::<u64>(), "{ledger}");
        assert_eq!(bus("accepted"), stored.len() as u64);
        println!("{acknowledged} acknowledged, all there once");
    }

    /// The log holds from end to end.
    pub(super) async fn verify(&self, node: &Process) {
        let admin = node.admin().within(VERIFIED);
        let verified = admin.post("/admin/v1/log/verify", &json!({})).await.json();
        assert_eq!(verified["ok"], true, "{verified}");
    }
}

/// Texts and ids of a channel in order, behind a sequence and its id; fails when a sequence is missing.
async fn history(node: &Process, channel: &str, read: &(u64, String)) -> Vec<(String, String)> {
    let (channel, mut found) = (channel.replace('/', "%2F"), Vec::new());
    let mut after = if read.0 == 0 { String::new() } else { format!("&after_gid={}", read.1) };
    loop {
        let path = format!("/v1/messages?network=org&channel={channel}{after}");
        let page = node.admin().get(&path).await.json();
        for message in page["messages"].as_array().unwrap() {
            assert_eq!(message["seq"], read.0 + found.len() as u64 + 1, "sequences have no gap");
            found.push((text(&message["body"]["text"]), text(&message["gid"])));
        }
        match page["next"].as_str() {
            Some(next) => after = format!("&after_gid={next}"),
            None => return found,
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

impl Client {
    /// A socket on any node that has said hello; what is refused comes as a frame.
    async fn socket(&self, shared: &Shared, dice: &mut Dice, cursors: &Value) -> Option<Socket> {
        let url = {
            let urls = shared.urls.lock();
            urls.get(usize::try_from(dice.below(urls.len().max(1) as u64)).unwrap())?.clone()
        };
        let mut socket = timeout(SILENCE, Socket::connect(&url, &self.token.bearer)).await.ok()?.ok()?;
        let agents = json!([{ "agent_id": self.name, "role": "tester", "vault_id": shared.vault }]);
        let hello = json!({ "t": "hello", "instance_id": self.token.instance_id, "agents": agents, "cursors": cursors });
        socket.try_send(&hello).await.ok()?;
        Some(socket)
    }
}

/// Whether an error says that the same may be sent again.
fn is_passing(error: &Value) -> bool {
    let reason = error["error"]["reason"].as_str().unwrap_or_default();
    ["overloaded", "shutting_down", "outcome_unknown", "store_unreachable"].contains(&reason)
}

struct Writer {
    number: usize,
    client: Arc<Client>,
}

impl Writer {
    async fn write(self, shared: Arc<Shared>, mut dice: Dice) {
        loop {
            if self.is_done(&shared) {
                return;
            }
            if let Some(mut socket) = self.client.socket(&shared, &mut dice, &json!({})).await {
                self.write_over(&mut socket, &shared, &mut dice).await;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn is_done(&self, shared: &Shared) -> bool {
        *shared.resting.borrow() && shared.sent[self.number].lock().unanswered.is_empty()
    }

    // First what was never answered, under the same ids, then new ones and now and then one that was answered, until the socket fails.
    async fn write_over(&self, socket: &mut Socket, shared: &Shared, dice: &mut Dice) -> Option<()> {
        let mut again: Vec<u64> = shared.sent[self.number].lock().unanswered.iter().rev().copied().collect();
        let mut in_flight = 0;
        loop {
            while in_flight < WINDOW {
                let Some(number) = again.pop().or_else(|| self.next(shared, dice)) else { break };
                socket.try_send(&self.message(shared, number)).await.ok()?;
                in_flight += 1;
            }
            if in_flight == 0 {
                return None;
            }
            let frame = timeout(SILENCE, socket.next()).await.ok()??;
            match frame["t"].as_str() {
                Some("message.stored") => {
                    self.take(shared, &frame);
                    in_flight -= 1;
                }
                Some("error") => {
                    assert!(is_passing(&frame), "refused under load: {frame}");
                    return None;
                }
                _ => {}
            }
        }
    }

    fn next(&self, shared: &Shared, dice: &mut Dice) -> Option<u64> {
        if *shared.resting.borrow() {
            return None;
        }
        let mut sent = shared.sent[self.number].lock();
        if sent.next > 0 && dice.below(20) == 0 {
            let repeated = 1 + dice.below(sent.next);
            return Some(repeated);
        }
        sent.next += 1;
        let number = sent.next;
        sent.unanswered.insert(number);
        Some(number)
    }

    fn message(&self, shared: &Shared, number: u64) -> Value {
        let name = &self.client.name;
        let kind = if number.is_multiple_of(10) { "question" } else { "finding" };
        let channel = &shared.channels[usize::from(number.is_multiple_of(3))];
        json!({ "t": "message", "client_msg_id": format!("{name}-{number}"), "type": kind, "from": name,
            "network": { "kind": "org", "channel": channel }, "body": { "text": format!("{name}-{number}") } })
    }

    fn take(&self, shared: &Shared, frame: &Value) {
        let id = text(&frame["client_msg_id"]);
        let number: u64 = id.rsplit('-').next().unwrap().parse().unwrap();
        let place = (text(&frame["network"]["channel"]), frame["seq"].as_u64().unwrap(), text(&frame["gid"]));
        let mut sent = shared.sent[self.number].lock();
        sent.unanswered.remove(&number);
        if let Some(before) = sent.acknowledged.insert(number, place.clone()) {
            assert_eq!(before, place, "{id} was stored again");
        }
        shared.answers.send_modify(|answers| answers[self.number] += 1);
    }
}

struct Reader {
    number: usize,
    client: Arc<Client>,
}

impl Reader {
    async fn read(self, shared: Arc<Shared>, mut dice: Dice) {
        let mut cursors = shared.seen.borrow()[self.number].clone();
        loop {
            if let Some(mut socket) = self.client.socket(&shared, &mut dice, &json!(cursors)).await {
                self.read_over(&mut socket, &shared, &mut cursors).await;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    // Each message once and in order, until the socket fails or the node is silent: it says something when it is asked.
    async fn read_over(&self, socket: &mut Socket, shared: &Shared, cursors: &mut Seqs) -> Option<()> {
        let mut asked = false;
        loop {
            let Ok(frame) = timeout(SILENCE, socket.next()).await else {
                if asked {
                    return None;
                }
                asked = true;
                socket.try_send(&json!({ "t": "ping", "nonce": 1 })).await.ok()?;
                continue;
            };
            let frame = frame?;
            asked = false;
            match frame["t"].as_str() {
                Some("message.deliver") => self.take(shared, &frame, cursors),
                Some("error") => {
                    assert!(is_passing(&frame), "{frame}");
                    return None;
                }
                _ => {}
            }
        }
    }

    fn take(&self, shared: &Shared, frame: &Value, cursors: &mut Seqs) {
        let (channel, seq) = (text(&frame["network"]["channel"]), frame["seq"].as_u64().unwrap());
        let at = cursors.get_mut(&channel).expect("a channel of ours");
        assert_eq!(seq, *at + 1, "reader {}: each once and in order, {frame}", self.number);
        *at = seq;
        let body = text(&frame["body"]["text"]);
        let before = shared.handed.lock().insert((channel.clone(), seq), body.clone());
        assert!(before.is_none_or(|before| before == body), "{channel} {seq} is two messages");
        shared.seen.send_modify(|seen| *seen[self.number].get_mut(&channel).unwrap() = seq);
    }
}
