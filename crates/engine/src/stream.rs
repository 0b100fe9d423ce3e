//! Streams in memory: which exist, who follows them, and the tail of recent events that followers near the head share.
//!
//! The store is the truth. A tail only saves reading back what this node has just committed: whoever finds a gap in it
//! reads the store instead. A tail is kept only while somebody follows, so idle streams cost a few words.

use crate::frame;
use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use switchboard_core::event::StoredEvent;
use switchboard_core::gid::GidCipher;
use switchboard_core::ids::{StreamId, VaultId};
use switchboard_core::limits::{TAIL_BYTES_MAX, TAIL_EVENTS_MAX};
use switchboard_core::port::store::{CommitListener, Page, StreamInfo, StreamOwner};
use tokio::sync::Notify;

/// Streams that wait to be looked up.
const UNKNOWN_MAX: usize = 1 << 16;

/// An event with its delivery frame, encoded once and shared by all receivers.
#[derive(Debug)]
pub struct Item {
    /// The event.
    pub event: Arc<StoredEvent>,
    frame: OnceLock<Bytes>,
}

impl Item {
    /// Wraps an event.
    #[must_use]
    pub fn new(event: Arc<StoredEvent>) -> Self {
        Self { event, frame: OnceLock::new() }
    }

    /// The frame for receivers of other instances.
    pub fn frame(&self, gids: &GidCipher) -> Bytes {
        self.frame.get_or_init(|| frame::deliver(&self.event, gids, false)).clone()
    }
}

/// What a look at a tail found.
#[derive(Debug)]
pub enum Tail {
    /// The next events, gap-free after the cursor; empty when the cursor is at the head.
    Items(Vec<Arc<Item>>),
    /// The tail does not reach back that far: read the store.
    Behind,
}

#[derive(Debug, Default)]
struct Recent {
    items: VecDeque<Arc<Item>>,
    bytes: usize,
    head: u64,
}

impl Recent {
    /// Takes the next event; `false` when what comes before it is not known.
    fn push(&mut self, event: &Arc<StoredEvent>, keep: bool) -> bool {
        let seq = event.id.seq;
        if seq <= self.head {
            return true; // already known through the directory
        }
        if keep && seq != self.head + 1 {
            return false;
        }
        if keep {
            self.head = seq;
            self.bytes += event.size();
            self.items.push_back(Arc::new(Item::new(event.clone())));
            self.trim();
        } else {
            self.jump(seq);
        }
        true
    }

    /// The head is there, and what lies before it is in the store.
    fn jump(&mut self, head: u64) {
        self.items.clear();
        self.bytes = 0;
        self.head = head;
    }

    fn trim(&mut self) {
        while self.items.len() > TAIL_EVENTS_MAX || self.bytes > TAIL_BYTES_MAX {
            let Some(oldest) = self.items.pop_front() else { return };
            self.bytes -= oldest.event.size();
        }
    }

    fn after(&self, cursor: u64, limit: usize) -> Tail {
        if cursor >= self.head {
            return Tail::Items(Vec::new());
        }
        let first = self.head + 1 - self.items.len() as u64;
        if cursor + 1 < first {
            return Tail::Behind;
        }
        let skip = usize::try_from(cursor + 1 - first).unwrap_or(usize::MAX);
        Tail::Items(self.items.iter().skip(skip).take(limit).cloned().collect())
    }
}

/// One stream.
#[derive(Debug)]
pub struct Stream {
    /// Number.
    pub id: StreamId,
    /// Whose.
    pub owner: StreamOwner,
    /// Its name as cursors use it: `org:…/vault:…/name` or `swarm:…`.
    pub name: String,
    recent: Mutex<Recent>,
    followers: Mutex<Vec<Arc<Subscription>>>,
    // It rang while nobody followed: the head here may be an old one.
    stale: AtomicBool,
    turn: tokio::sync::Mutex<()>,
}

impl Stream {
    fn new(info: &StreamInfo, name: String) -> Self {
        Self {
            id: info.id,
            owner: info.owner.clone(),
            name,
            recent: Mutex::new(Recent { head: info.head, ..Recent::default() }),
            followers: Mutex::default(),
            stale: AtomicBool::new(false),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// The highest sequence this node knows of.
    pub fn head(&self) -> u64 {
        self.recent.lock().head
    }

    /// The next events after `cursor`, at most `limit`.
    pub fn after(&self, cursor: u64, limit: usize) -> Tail {
        self.recent.lock().after(cursor, limit)
    }

    /// Whoever reads for all followers holds this: one at a time.
    pub(crate) async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Takes in what the store has behind `at`; whether there is more. A stream that nobody follows, or that is further than a tail
    /// reaches, only learns its head.
    pub(crate) fn take_in(&self, at: u64, page: Page) -> bool {
        let keep = !self.followers.lock().is_empty();
        let mut recent = self.recent.lock();
        if page.head <= recent.head {
            return false;
        }
        if !keep || page.head - at > TAIL_EVENTS_MAX as u64 || page.events.is_empty() {
            recent.jump(page.head);
            return false;
        }
        for event in page.events {
            // Retention may have taken what came before it.
            if event.id.seq > recent.head + 1 {
                recent.jump(event.id.seq - 1);
            }
            recent.push(&Arc::new(event), true);
        }
        page.head > recent.head
    }

    /// The store says that the head is `head`; whether followers wait for what lies before it.
    fn hear(&self, head: u64) -> bool {
        let followers = self.followers.lock();
        let mut recent = self.recent.lock();
        if head <= recent.head {
            return false;
        }
        if followers.is_empty() {
            recent.jump(head);
        }
        !followers.is_empty()
    }

    /// It is said to have grown; whether it has to be read. Nothing is believed but that it is worth a look.
    fn rang(&self, head: u64) -> bool {
        let followers = self.followers.lock();
        if followers.is_empty() {
            self.stale.store(true, Ordering::Release);
        }
        !followers.is_empty() && head > self.recent.lock().head
    }

    pub(crate) fn wake(&self) {
        self.followers.lock().iter().for_each(Subscription::ring);
    }
}

/// One follower's interest in one stream.
#[derive(Debug)]
pub struct Subscription {
    stream: StreamId,
    rung: AtomicBool,
    waker: Arc<Waker>,
}

impl Subscription {
    fn ring(self: &Arc<Self>) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            self.waker.rung.lock().push(self.stream);
            self.waker.notify.notify_one();
        }
    }

    /// Called before looking at the stream, so that what comes in meanwhile rings again.
    pub fn answer(&self) {
        self.rung.store(false, Ordering::Release);
    }
}

/// How a follower is woken: by streams that grew, and by other things that changed.
#[derive(Debug, Default)]
pub struct Waker {
    notify: Notify,
    rung: Mutex<Vec<StreamId>>,
    fresh: Mutex<Vec<Arc<Stream>>>,
    presence: AtomicBool,
    notices: AtomicBool,
    credential: AtomicBool,
}

/// What woke a follower.
#[derive(Debug, Default)]
pub struct Woken {
    /// Streams that grew.
    pub streams: Vec<StreamId>,
    /// Streams that are new in a followed vault.
    pub fresh: Vec<Arc<Stream>>,
    /// Whether presence changed in a followed vault.
    pub presence: bool,
    /// Whether something waits for the instance.
    pub notices: bool,
    /// Whether credentials changed somewhere.
    pub credential: bool,
}

impl Waker {
    /// Waits until there is something; may also return without a reason.
    pub async fn woken(&self) {
        self.notify.notified().await;
    }

    /// Takes what has gathered.
    pub fn take(&self) -> Woken {
        Woken {
            streams: std::mem::take(&mut self.rung.lock()),
            fresh: std::mem::take(&mut self.fresh.lock()),
            presence: self.presence.swap(false, Ordering::AcqRel),
            notices: self.notices.swap(false, Ordering::AcqRel),
            credential: self.credential.swap(false, Ordering::AcqRel),
        }
    }

    /// Wakes without a reason of its own.
    pub fn nudge(&self) {
        self.notify.notify_one();
    }

    /// Presence changed.
    pub fn ring_presence(&self) {
        self.presence.store(true, Ordering::Release);
        self.notify.notify_one();
    }

    /// Something waits for the instance.
    pub fn ring_notices(&self) {
        self.notices.store(true, Ordering::Release);
        self.notify.notify_one();
    }

    /// Credentials changed.
    pub fn ring_credential(&self) {
        self.credential.store(true, Ordering::Release);
        self.notify.notify_one();
    }
}

#[derive(Debug, Default)]
struct Tables {
    by_id: HashMap<StreamId, Arc<Stream>>,
    by_owner: HashMap<StreamOwner, Arc<Stream>>,
    channels: HashMap<VaultId, Vec<Arc<Stream>>>,
    vault_followers: HashMap<VaultId, Vec<Arc<Waker>>>,
}

/// All streams of the hub.
#[derive(Debug)]
pub struct Streams {
    org_id: String,
    tables: RwLock<Tables>,
    unknown: Mutex<HashSet<StreamId>>,
    found: Notify,
}

impl Streams {
    /// An empty directory for the organization.
    #[must_use]
    pub fn new(org_id: &str) -> Self {
        Self {
            org_id: org_id.into(),
            tables: RwLock::default(),
            unknown: Mutex::default(),
            found: Notify::new(),
        }
    }

    /// The name of a channel as cursors and frames use it.
    #[must_use]
    pub fn channel_name(&self, vault: VaultId, name: &str) -> String {
        format!("org:{}/vault:{vault}/{name}", self.org_id)
    }

    /// Takes over what the store says of a stream; followers of its vault learn of a new one.
    pub fn learn(&self, info: &StreamInfo) -> Arc<Stream> {
        let mut tables = self.tables.write();
        if let Some(known) = tables.by_id.get(&info.id) {
            let known = known.clone();
            drop(tables);
            if known.hear(info.head) {
                self.wonder(known.id);
            }
            return known;
        }
        let name = match &info.owner {
            StreamOwner::Channel { vault, name } => self.channel_name(*vault, name),
            StreamOwner::Swarm { swarm } => format!("swarm:{swarm}"),
        };
        let stream = Arc::new(Stream::new(info, name));
        tables.by_id.insert(info.id, stream.clone());
        tables.by_owner.insert(info.owner.clone(), stream.clone());
        if let StreamOwner::Channel { vault, .. } = info.owner {
            tables.channels.entry(vault).or_default().push(stream.clone());
            for follower in tables.vault_followers.get(&vault).into_iter().flatten() {
                follower.fresh.lock().push(stream.clone());
                follower.notify.notify_one();
            }
        }
        stream
    }

    /// The stream of this number.
    pub fn get(&self, id: StreamId) -> Option<Arc<Stream>> {
        self.tables.read().by_id.get(&id).cloned()
    }

    /// The stream of this owner.
    pub fn find(&self, owner: &StreamOwner) -> Option<Arc<Stream>> {
        self.tables.read().by_owner.get(owner).cloned()
    }

    /// The channels of a vault that exist so far.
    pub fn channels(&self, vault: VaultId) -> Vec<Arc<Stream>> {
        self.tables.read().channels.get(&vault).cloned().unwrap_or_default()
    }

    /// Takes over what the store says of a stream; `Some` when it has followers who wait for what they lack.
    pub(crate) fn hear(&self, info: &StreamInfo) -> Option<Arc<Stream>> {
        match self.get(info.id) {
            Some(known) => known.hear(info.head).then_some(known),
            None => {
                self.learn(info);
                None
            }
        }
    }

    /// Another node says that a stream has grown.
    pub(crate) fn rang(&self, id: StreamId, head: u64) {
        if self.get(id).is_none_or(|stream| stream.rang(head)) {
            self.wonder(id);
        }
    }

    /// How far every stream is known here.
    pub(crate) fn heads(&self) -> Vec<(StreamId, u64)> {
        self.tables.read().by_id.values().map(|stream| (stream.id, stream.head())).collect()
    }

    /// Every stream.
    pub fn all(&self) -> Vec<Arc<Stream>> {
        self.tables.read().by_id.values().cloned().collect()
    }

    /// From now on `waker` hears of new channels of `vault`; returns those that exist, none missed in between.
    pub fn follow_vault(&self, vault: VaultId, waker: &Arc<Waker>) -> Vec<Arc<Stream>> {
        let mut tables = self.tables.write();
        let followers = tables.vault_followers.entry(vault).or_default();
        if !followers.iter().any(|known| Arc::ptr_eq(known, waker)) {
            followers.push(waker.clone());
        }
        tables.channels.get(&vault).cloned().unwrap_or_default()
    }

    /// The opposite of [`Streams::follow_vault`].
    pub fn leave_vault(&self, vault: VaultId, waker: &Arc<Waker>) {
        let mut tables = self.tables.write();
        if let Some(followers) = tables.vault_followers.get_mut(&vault) {
            followers.retain(|known| !Arc::ptr_eq(known, waker));
            if followers.is_empty() {
                tables.vault_followers.remove(&vault);
            }
        }
    }

    /// Calls `tell` for each follower of `vault`.
    pub fn each_vault_follower(&self, vault: VaultId, tell: impl Fn(&Waker)) {
        self.tables.read().vault_followers.get(&vault).into_iter().flatten().for_each(|waker| tell(waker));
    }

    /// From now on `waker` is rung when `stream` grows.
    pub fn subscribe(&self, stream: &Arc<Stream>, waker: &Arc<Waker>) -> Arc<Subscription> {
        let subscription =
            Arc::new(Subscription { stream: stream.id, rung: AtomicBool::new(false), waker: waker.clone() });
        stream.followers.lock().push(subscription.clone());
        if stream.stale.swap(false, Ordering::AcqRel) {
            self.wonder(stream.id);
        }
        subscription
    }

    /// The opposite of [`Streams::subscribe`]; the tail goes with the last follower.
    pub fn unsubscribe(&self, stream: &Arc<Stream>, subscription: &Arc<Subscription>) {
        let mut followers = stream.followers.lock();
        followers.retain(|known| !Arc::ptr_eq(known, subscription));
        if followers.is_empty() {
            let mut recent = stream.recent.lock();
            recent.items = VecDeque::new();
            recent.bytes = 0;
        }
    }

    /// A stream has to be looked up: it is not known here, or has grown elsewhere.
    pub fn wonder(&self, id: StreamId) {
        let mut unknown = self.unknown.lock();
        // Beyond the bound it is found with the next look at everything.
        if unknown.len() < UNKNOWN_MAX {
            unknown.insert(id);
        }
        drop(unknown);
        self.found.notify_one();
    }

    /// Waits for streams that have to be looked up in the store.
    pub async fn unknown(&self) -> Vec<StreamId> {
        loop {
            let ids: Vec<_> = self.unknown.lock().drain().collect();
            if !ids.is_empty() {
                return ids;
            }
            self.found.notified().await;
        }
    }
}

impl CommitListener for Streams {
    fn committed(&self, events: &[Arc<StoredEvent>]) {
        for group in events.chunk_by(|one, next| one.id.stream == next.id.stream) {
            let id = group[0].id.stream;
            let Some(stream) = self.get(id) else {
                self.wonder(id);
                continue;
            };
            let keep = !stream.followers.lock().is_empty();
            let known = {
                let mut recent = stream.recent.lock();
                group.iter().all(|event| recent.push(event, keep))
            };
            if known {
                stream.wake();
            } else {
                self.wonder(id); // another node has committed before this
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use switchboard_core::event::EventKind;
    use switchboard_core::ids::{EventId, InstanceNo};

    fn event(stream: u32, seq: u64) -> Arc<StoredEvent> {
        let id = EventId { stream: StreamId(stream), seq };
        Arc::new(StoredEvent {
            id,
            kind: EventKind::Finding,
            at_ms: 0,
            expires_at_ms: 0,
            thread: id,
            reply_to: None,
            from_instance: InstanceNo(1),
            from_agent: "a".into(),
            to: None,
            data: Bytes::new(),
        })
    }

    fn channel(streams: &Streams, id: u32, head: u64) -> Arc<Stream> {
        let owner = StreamOwner::Channel { vault: VaultId([1; 16]), name: format!("c{id}") };
        streams.learn(&StreamInfo { id: StreamId(id), owner, head, first: 1 })
    }

    fn seqs(tail: Tail) -> Option<Vec<u64>> {
        match tail {
            Tail::Items(items) => Some(items.iter().map(|item| item.event.id.seq).collect()),
            Tail::Behind => None,
        }
    }

    #[test]
    fn a_follower_reads_the_tail_and_is_sent_to_the_store_below_it() {
        let streams = Streams::new("org_a");
        let stream = channel(&streams, 1, 5);
        let waker = Arc::new(Waker::default());
        let subscription = streams.subscribe(&stream, &waker);
        streams.committed(&[event(1, 6), event(1, 7)]);
        assert_eq!(waker.take().streams, [StreamId(1)]);
        subscription.answer();
        assert_eq!(seqs(stream.after(5, 10)), Some(vec![6, 7]));
        assert_eq!(seqs(stream.after(6, 10)), Some(vec![7]));
        assert_eq!(seqs(stream.after(9, 10)), Some(vec![]));
        assert_eq!(seqs(stream.after(4, 10)), None, "5 was never in this tail");
    }

    fn page(events: &[u64], head: u64) -> Page {
        let events = events.iter().map(|seq| StoredEvent::clone(&event(1, *seq))).collect();
        Page { events, head, first: 1 }
    }

    #[tokio::test]
    async fn a_gap_left_by_another_node_is_read_once_for_all() {
        let streams = Streams::new("org_a");
        let stream = channel(&streams, 1, 0);
        streams.subscribe(&stream, &Arc::new(Waker::default()));
        streams.committed(&[event(1, 1), event(1, 4)]);
        assert_eq!(streams.unknown().await, [StreamId(1)]);
        assert_eq!(stream.head(), 1);
        assert!(stream.take_in(1, page(&[2, 3], 5)), "5 is still to come");
        assert!(!stream.take_in(3, page(&[4, 5], 5)));
        assert_eq!(seqs(stream.after(0, 10)), Some(vec![1, 2, 3, 4, 5]));
    }

    #[test]
    fn what_a_tail_cannot_hold_is_left_to_the_store() {
        let streams = Streams::new("org_a");
        let stream = channel(&streams, 1, 3);
        assert!(!stream.take_in(3, page(&[4], 9)), "nobody follows");
        assert_eq!(stream.head(), 9);
        streams.subscribe(&stream, &Arc::new(Waker::default()));
        let far = 10 + TAIL_EVENTS_MAX as u64;
        assert!(!stream.take_in(9, page(&[10], far)));
        assert_eq!((stream.head(), seqs(stream.after(9, 10))), (far, None));
        assert!(!stream.take_in(far, page(&[far + 3], far + 3)), "retention took what came before");
        assert_eq!(seqs(stream.after(far + 2, 10)), Some(vec![far + 3]));
    }

    #[tokio::test]
    async fn a_ring_is_looked_into_and_never_believed() {
        let streams = Streams::new("org_a");
        let stream = channel(&streams, 1, 3);
        streams.rang(StreamId(1), 1 << 39);
        assert_eq!(stream.head(), 3);
        assert!(streams.unknown.lock().is_empty(), "nobody follows");
        streams.subscribe(&stream, &Arc::new(Waker::default()));
        assert_eq!(streams.unknown().await, [StreamId(1)], "its head may be an old one");
        streams.rang(StreamId(1), 3);
        assert!(streams.unknown.lock().is_empty(), "known already");
        streams.rang(StreamId(1), 4);
        streams.rang(StreamId(8), 1);
        let mut asked = streams.unknown().await;
        asked.sort_unstable();
        assert_eq!(asked, [StreamId(1), StreamId(8)]);
    }

    #[test]
    fn nothing_is_kept_for_nobody() {
        let streams = Streams::new("org_a");
        let stream = channel(&streams, 1, 0);
        streams.committed(&[event(1, 1)]);
        assert_eq!(stream.head(), 1);
        assert_eq!(seqs(stream.after(0, 10)), None);
    }

    #[test]
    fn a_tail_is_bounded() {
        let streams = Streams::new("org_a");
        let stream = channel(&streams, 1, 0);
        streams.subscribe(&stream, &Arc::new(Waker::default()));
        let last = TAIL_EVENTS_MAX as u64 + 3;
        (1..=last).for_each(|seq| streams.committed(&[event(1, seq)]));
        assert_eq!(seqs(stream.after(2, 1)), None);
        assert_eq!(seqs(stream.after(3, 1)), Some(vec![4]));
    }

    #[test]
    fn followers_of_a_vault_hear_of_new_channels() {
        let streams = Streams::new("org_a");
        let waker = Arc::new(Waker::default());
        assert!(streams.follow_vault(VaultId([1; 16]), &waker).is_empty());
        channel(&streams, 9, 1);
        assert_eq!(waker.take().fresh.len(), 1);
        streams.leave_vault(VaultId([1; 16]), &waker);
        channel(&streams, 10, 1);
        assert!(waker.take().fresh.is_empty());
    }

    #[tokio::test]
    async fn a_commit_on_an_unknown_stream_asks_for_a_look_up() {
        let streams = Streams::new("org_a");
        streams.committed(&[event(3, 1)]);
        assert_eq!(streams.unknown().await, [StreamId(3)]);
    }
}
