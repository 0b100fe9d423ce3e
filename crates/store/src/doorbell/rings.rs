//! What every doorbell between nodes shares: who listens here, what waits to be told to other nodes, and how that is written.
//!
//! A message is text: who rings (sixteen hexadecimal digits), then one word per topic: `s<stream>:<head>`, `v<vault>`,
//! `i<instance>`, `c` (credentials), `w` (swarms), `*` (everything), and `h<number>` by which a node hears that it is heard.

use super::LocalDoorbell;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use switchboard_core::event::StoredEvent;
use switchboard_core::ids::{InstanceNo, StreamId, VaultId};
use switchboard_core::port::doorbell::{Doorbell as _, Listener, Topic};
use switchboard_core::random::{Entropy, bytes};
use tokio::sync::Notify;

/// Longest message: what PostgreSQL takes is below 8000 bytes. Beyond it goes `*`.
pub(super) const MESSAGE_BYTES_MAX: usize = 7900;
/// Topics that wait at most; beyond it goes `*`.
const WAITING_MAX: usize = 2000;
/// Pause behind a message in which the next one gathers.
pub(super) const GATHER: Duration = Duration::from_millis(2);
/// Longest pause between two attempts to connect.
const RETRY_MAX: Duration = Duration::from_secs(5);
/// Pause before the second attempt; it doubles with each.
const RETRY: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
struct Waiting {
    everything: bool,
    streams: HashMap<StreamId, u64>,
    others: HashSet<Topic>,
}

impl Waiting {
    fn add(&mut self, topic: Topic) {
        match topic {
            Topic::Everything => self.everything = true,
            Topic::Stream(stream, head) => {
                let known = self.streams.entry(stream).or_default();
                *known = head.max(*known);
            }
            other => drop(self.others.insert(other)),
        }
        if self.everything || self.streams.len() + self.others.len() > WAITING_MAX {
            *self = Self { everything: true, ..Self::default() };
        }
    }

    fn is_empty(&self) -> bool {
        !self.everything && self.streams.is_empty() && self.others.is_empty()
    }
}

/// See the module.
pub struct Rings {
    listeners: LocalDoorbell,
    waiting: Mutex<Waiting>,
    rung: Notify,
    node: u64,
    hello: AtomicU64,
    connected: AtomicBool,
    entropy: Arc<dyn Entropy>,
}

impl Rings {
    pub(super) fn new(entropy: Arc<dyn Entropy>) -> Self {
        Self {
            listeners: LocalDoorbell::new(),
            waiting: Mutex::default(),
            rung: Notify::new(),
            node: u64::from_be_bytes(bytes(&*entropy)),
            hello: AtomicU64::new(0),
            connected: AtomicBool::new(false),
            entropy,
        }
    }

    pub(super) fn listen(&self, listener: Listener) {
        self.listeners.listen(listener);
    }

    /// Calls the listeners here, and keeps the topics for the other nodes.
    pub(super) fn ring(&self, topics: &[Topic]) {
        self.listeners.ring(topics);
        let mut waiting = self.waiting.lock();
        topics.iter().for_each(|topic| waiting.add(*topic));
        drop(waiting);
        self.rung.notify_one();
    }

    /// Keeps the streams that grew for the other nodes.
    pub(super) fn committed(&self, events: &[Arc<StoredEvent>]) {
        let mut waiting = self.waiting.lock();
        for group in events.chunk_by(|one, next| one.id.stream == next.id.stream) {
            if let Some(last) = group.last() {
                waiting.add(Topic::Stream(last.id.stream, last.id.seq));
            }
        }
        drop(waiting);
        self.rung.notify_one();
    }

    /// Waits until something is to be told.
    pub(super) async fn rung(&self) {
        self.rung.notified().await;
    }

    /// What waits, as one message.
    pub(super) fn message(&self) -> Option<String> {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        (!waiting.is_empty()).then(|| encode(self.node, &waiting))
    }

    /// A message that tells the others to look at everything, since what was rung before may be lost; and by which this node
    /// hears that it is heard.
    pub(super) fn hello(&self) -> String {
        self.waiting.lock().everything = false;
        let number = self.hello.fetch_add(1, Ordering::AcqRel) + 1;
        format!("{:016x} * h{number}", self.node)
    }

    /// Takes a message that came in.
    pub(super) fn hear(&self, message: &[u8]) {
        let Some(heard) = decode(message) else {
            tracing::warn!(bytes = message.len(), "a message of the doorbell could not be read; passed over");
            return;
        };
        if heard.node != self.node {
            self.listeners.ring(&heard.topics);
        } else if heard.hello == Some(self.hello.load(Ordering::Acquire)) {
            self.up();
        }
    }

    /// The others are heard from now on. What was rung before may be lost.
    pub(super) fn up(&self) {
        if !self.connected.swap(true, Ordering::AcqRel) {
            tracing::info!("the doorbell is connected");
            self.listeners.ring(&[Topic::Everything]);
        }
    }

    /// The others are not heard any more.
    pub(super) fn down(&self, why: &str) {
        // What was still under way answers no hello of the next connection.
        self.hello.fetch_add(1, Ordering::AcqRel);
        if self.connected.swap(false, Ordering::AcqRel) {
            tracing::warn!(why, "the doorbell is not connected: looking at the store once a second instead");
            self.listeners.ring(&[Topic::Everything]);
        }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Acquire)
    }

    /// How long to wait before attempt number `attempt`, from 1: longer with each and of random length, so that nodes that
    /// lost the same server do not come back at once.
    pub(super) fn retry(&self, attempt: usize) -> Duration {
        let doublings = u32::try_from(attempt.saturating_sub(1).min(10)).unwrap_or(10);
        let longest = RETRY.saturating_mul(1 << doublings).min(RETRY_MAX);
        let [dice] = bytes(&*self.entropy);
        longest.mul_f64(0.5 + f64::from(dice) / 512.0)
    }
}

fn encode(node: u64, waiting: &Waiting) -> String {
    let mut text = format!("{node:016x}");
    if !waiting.everything {
        for (stream, head) in &waiting.streams {
            let _ = write!(text, " s{}:{head}", stream.0);
        }
        for topic in &waiting.others {
            let _ = match topic {
                Topic::Vault(vault) => write!(text, " v{vault}"),
                Topic::Instance(instance) => write!(text, " i{}", instance.0),
                Topic::Credentials => write!(text, " c"),
                Topic::Swarms => write!(text, " w"),
                Topic::Outbound => write!(text, " o"),
                Topic::Stream(..) | Topic::Everything => Ok(()),
            };
        }
        if text.len() <= MESSAGE_BYTES_MAX {
            return text;
        }
    }
    format!("{node:016x} *")
}

struct Heard {
    node: u64,
    topics: Vec<Topic>,
    hello: Option<u64>,
}

/// A word that is not known may be a newer program's: whatever it means, it is among everything.
fn decode(message: &[u8]) -> Option<Heard> {
    let text = std::str::from_utf8(message).ok().filter(|text| text.len() <= MESSAGE_BYTES_MAX)?;
    let mut words = text.split(' ');
    let node = words.next().filter(|word| word.len() == 16)?;
    let mut heard = Heard { node: u64::from_str_radix(node, 16).ok()?, topics: Vec::new(), hello: None };
    for word in words {
        let number = word.strip_prefix('h').and_then(|number| number.parse().ok());
        if number.is_some() {
            heard.hello = number;
        } else {
            heard.topics.push(topic(word).unwrap_or(Topic::Everything));
        }
    }
    Some(heard)
}

fn topic(word: &str) -> Option<Topic> {
    match word {
        "c" => return Some(Topic::Credentials),
        "w" => return Some(Topic::Swarms),
        "o" => return Some(Topic::Outbound),
        _ => {}
    }
    let rest = word.get(1..)?;
    match word.as_bytes().first()? {
        b's' => {
            let (stream, head) = rest.split_once(':')?;
            Some(Topic::Stream(StreamId(stream.parse().ok()?), head.parse().ok()?))
        }
        b'v' => VaultId::parse(rest).map(Topic::Vault),
        b'i' => rest.parse().ok().map(|number| Topic::Instance(InstanceNo(number))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use switchboard_core::random::SystemEntropy;

    fn rings() -> (Arc<Rings>, Arc<Mutex<Vec<Topic>>>) {
        let rings = Arc::new(Rings::new(Arc::new(SystemEntropy)));
        let heard = Arc::new(Mutex::new(Vec::new()));
        let ears = heard.clone();
        rings.listen(Arc::new(move |topic| ears.lock().push(topic)));
        (rings, heard)
    }

    #[test]
    fn another_node_hears_each_topic_once_and_streams_at_their_last_head() {
        let (one, here) = rings();
        let (two, there) = rings();
        let topics = [
            Topic::Vault(VaultId([7; 16])),
            Topic::Instance(InstanceNo(9)),
            Topic::Credentials,
            Topic::Swarms,
            Topic::Outbound,
        ];
        one.ring(&topics);
        one.ring(&[Topic::Stream(StreamId(4), 11), Topic::Stream(StreamId(4), 10), Topic::Credentials]);
        assert_eq!(here.lock().len(), 8, "every ring is heard at home, at once");
        let message = one.message().unwrap();
        assert!(one.message().is_none());
        two.hear(message.as_bytes());
        let told: HashSet<_> = there.lock().iter().copied().collect();
        let expected: HashSet<_> = topics.into_iter().chain([Topic::Stream(StreamId(4), 11)]).collect();
        assert_eq!((told, there.lock().len()), (expected, 6));
        one.hear(message.as_bytes());
        assert_eq!(here.lock().len(), 8, "its own rings are no news");
    }

    #[test]
    fn what_is_too_much_for_a_message_becomes_everything() {
        let (one, _) = rings();
        let (two, there) = rings();
        (0..900).for_each(|stream| one.ring(&[Topic::Stream(StreamId(stream), 1 << 39)]));
        let message = one.message().unwrap();
        assert!(message.len() < 100);
        two.hear(message.as_bytes());
        assert_eq!(*there.lock(), [Topic::Everything]);
        (0..5000).for_each(|stream| one.ring(&[Topic::Stream(StreamId(stream), 1)]));
        assert!(one.waiting.lock().streams.len() <= WAITING_MAX);
    }

    #[test]
    fn a_node_is_connected_once_it_hears_its_own_last_hello() {
        let (one, here) = rings();
        let stale = one.hello();
        one.down("the connection ended");
        one.hear(stale.as_bytes());
        assert!(!one.is_connected());
        one.hear(one.hello().as_bytes());
        assert!(one.is_connected());
        assert_eq!(*here.lock(), [Topic::Everything]);
        one.down("the connection ended");
        assert!(!one.is_connected());
    }

    #[test]
    fn what_cannot_be_read_is_passed_over() {
        let (one, here) = rings();
        for bad in [&b""[..], b"\xff", b"12 s1:2", b"zzzzzzzzzzzzzzzz c", &[b' '; 9000]] {
            one.hear(bad);
        }
        assert!(here.lock().is_empty());
        for odd in ["x1", "s1", "s-1:2", "v00", "i", "\u{e9}"] {
            one.hear(format!("0123456789abcdef {odd}").as_bytes());
        }
        assert!(here.lock().iter().all(|topic| *topic == Topic::Everything));
    }

    #[test]
    fn attempts_come_further_and_further_apart() {
        let (one, _) = rings();
        assert!(one.retry(1) <= RETRY && one.retry(4) >= 4 * RETRY);
        assert!((0..50).all(|attempt| one.retry(attempt) <= RETRY_MAX));
    }
}
