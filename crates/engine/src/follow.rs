//! Following: a set of streams read by cursor, near the head from their shared tails, further back from the store. The
//! same for sockets, long polls and waiting agents. A slow reader holds nothing but its cursor.

use crate::frame;
use crate::hub::Hub;
use crate::stream::{Item, Stream, Subscription, Tail, Waker};
use crate::viewer::Viewer;
use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use switchboard_core::ids::{StreamId, VaultId};
use switchboard_core::limits::{FOLLOW_PAGE_MAX, SOCKET_BURST_BYTES_MAX};
use switchboard_core::port::store::{StoreError, StreamOwner};
use switchboard_protocol::frame::server::{Cursor, ServerFrame};

/// A cursor is told at the latest after this many events that were not for this follower.
const UNTOLD_MAX: u64 = 64;

/// Frames on their way out.
#[derive(Debug, Default)]
pub struct Outbox {
    /// The frames, each one whole JSON text.
    pub frames: VecDeque<Bytes>,
    /// Their bytes.
    pub bytes: usize,
}

impl Outbox {
    /// Adds a frame.
    pub fn push(&mut self, frame: Bytes) {
        self.bytes += frame.len();
        self.frames.push_back(frame);
    }

    /// Adds a frame that is not on the hot path.
    pub fn push_frame(&mut self, frame: &ServerFrame<'_>) {
        // Wire types have string keys only: serializing them cannot fail.
        if let Ok(bytes) = serde_json::to_vec(frame) {
            self.push(bytes.into());
        }
    }

    /// Takes the frames out.
    pub fn take(&mut self) -> VecDeque<Bytes> {
        self.bytes = 0;
        std::mem::take(&mut self.frames)
    }

    /// Whether enough waits to be written.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.bytes >= SOCKET_BURST_BYTES_MAX
    }
}

/// Where to begin in a stream that was not followed yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Only what comes from now on.
    Head,
    /// What comes after this position; beyond the head counts as the head.
    After(u64),
    /// From the first event that is still there: the cursor was of another epoch.
    Again,
}

#[derive(Debug)]
struct Followed {
    stream: Arc<Stream>,
    subscription: Arc<Subscription>,
    at: u64,
    told: u64,
    replay_until: u64,
    queued: bool,
    greet: bool,
}

impl Followed {
    fn is_replaying(&self) -> bool {
        self.at < self.replay_until
    }
}

/// A follower.
pub struct Follower {
    hub: Arc<Hub>,
    /// How it is woken.
    pub waker: Arc<Waker>,
    /// Through whose eyes.
    pub viewer: Viewer,
    vaults: Vec<VaultId>,
    streams: HashMap<StreamId, Followed>,
    ready: VecDeque<StreamId>,
    /// Whether cursor frames are sent (sockets), or not (polls and waiting agents).
    tells_cursors: bool,
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Follower of {} streams", self.streams.len())
    }
}

impl Follower {
    /// Follows nothing yet.
    #[must_use]
    pub fn new(hub: Arc<Hub>, viewer: Viewer, tells_cursors: bool) -> Self {
        Self {
            hub,
            waker: Arc::default(),
            viewer,
            vaults: Vec::new(),
            streams: HashMap::new(),
            ready: VecDeque::new(),
            tells_cursors,
        }
    }

    /// The vaults it follows.
    #[must_use]
    pub fn vaults(&self) -> &[VaultId] {
        &self.vaults
    }

    /// Whether it follows this stream.
    #[must_use]
    pub fn follows(&self, name: &str) -> bool {
        self.streams.values().any(|followed| followed.stream.name == name)
    }

    /// Follows every channel of a vault, present and future.
    pub fn add_vault(&mut self, vault: VaultId, start: impl Fn(&Stream) -> Start) {
        if self.vaults.contains(&vault) {
            return;
        }
        self.vaults.push(vault);
        for stream in self.hub.streams.follow_vault(vault, &self.waker) {
            let start = start(&stream);
            self.add(&stream, start);
        }
    }

    /// Follows one stream.
    pub fn add(&mut self, stream: &Arc<Stream>, start: Start) {
        if self.streams.contains_key(&stream.id) {
            return;
        }
        let subscription = self.hub.streams.subscribe(stream, &self.waker);
        let head = stream.head();
        let at = match start {
            Start::Head => head,
            Start::After(seq) => seq.min(head),
            Start::Again => 0,
        };
        self.ready.push_back(stream.id);
        let followed = Followed {
            stream: stream.clone(),
            subscription,
            at,
            told: at,
            replay_until: head,
            queued: true,
            greet: true,
        };
        self.streams.insert(stream.id, followed);
    }

    /// Follows what `keep` says, no other vault or swarm any more.
    pub fn retain(&mut self, keep: impl Fn(&StreamOwner) -> bool) {
        let hub = &self.hub;
        self.streams.retain(|_, followed| {
            let stays = keep(&followed.stream.owner);
            if !stays {
                hub.streams.unsubscribe(&followed.stream, &followed.subscription);
            }
            stays
        });
        let probe = |vault| StreamOwner::Channel { vault, name: String::new() };
        let vaults = std::mem::take(&mut self.vaults);
        let (stay, leave): (Vec<_>, Vec<_>) = vaults.into_iter().partition(|vault| keep(&probe(*vault)));
        self.vaults = stay;
        leave.iter().for_each(|vault| hub.streams.leave_vault(*vault, &self.waker));
    }

    /// Takes note of streams that rang and channels that are new.
    pub fn note(&mut self, rung: Vec<StreamId>, fresh: Vec<Arc<Stream>>) {
        for stream in fresh {
            let followed =
                matches!(&stream.owner, StreamOwner::Channel { vault, .. } if self.vaults.contains(vault));
            if followed {
                self.add(&stream, Start::After(0)); // all of it came after this follower
            }
        }
        for id in rung {
            if let Some(followed) = self.streams.get_mut(&id).filter(|followed| !followed.queued) {
                followed.queued = true;
                self.ready.push_back(id);
            }
        }
    }

    /// Whether there may be something to [`Follower::fill`] with.
    #[must_use]
    pub fn has_more(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether anything older than the last `hello` is still to come.
    #[must_use]
    pub fn is_replaying(&self) -> bool {
        self.ready.iter().any(|id| self.streams.get(id).is_some_and(Followed::is_replaying))
    }

    /// Positions in all streams.
    pub fn positions(&self) -> impl Iterator<Item = (StreamId, u64)> {
        self.streams.iter().map(|(id, followed)| (*id, followed.at))
    }

    /// Adds deliveries to `out` until it is full or nothing more is there. What failed is there for another try.
    pub async fn fill(&mut self, out: &mut Outbox) -> Result<(), StoreError> {
        while !out.is_full() {
            let Some(id) = self.ready.pop_front() else { return Ok(()) };
            let Some(followed) = self.streams.get_mut(&id) else { continue };
            followed.queued = false;
            followed.subscription.answer();
            let stepped = self.step(id, out).await;
            if !matches!(stepped, Ok(false))
                && let Some(followed) = self.streams.get_mut(&id).filter(|followed| !followed.queued)
            {
                followed.queued = true;
                self.ready.push_back(id);
            }
            stepped?;
        }
        Ok(())
    }

    /// Delivers one portion of a stream; whether more may be there.
    async fn step(&mut self, id: StreamId, out: &mut Outbox) -> Result<bool, StoreError> {
        let Some(followed) = self.streams.get_mut(&id) else { return Ok(false) };
        if followed.greet && self.tells_cursors {
            out.push_frame(&cursor(&self.hub, &followed.stream, followed.at, None));
        }
        followed.greet = false;
        let (stream, at) = (followed.stream.clone(), followed.at);
        let items = match stream.after(at, FOLLOW_PAGE_MAX) {
            Tail::Items(items) => items,
            Tail::Behind => self.read_back(&stream, at, out).await?,
        };
        for item in &items {
            self.deliver(&stream, item, out);
        }
        let more = stream.head() > items.last().map_or(at, |item| item.event.id.seq) && !items.is_empty();
        self.tell(id, more, out);
        Ok(more)
    }

    async fn read_back(
        &mut self,
        stream: &Stream,
        at: u64,
        out: &mut Outbox,
    ) -> Result<Vec<Arc<Item>>, StoreError> {
        let page = self.hub.store().page(stream.id, at, FOLLOW_PAGE_MAX, SOCKET_BURST_BYTES_MAX).await?;
        let Some(followed) = self.streams.get_mut(&stream.id) else { return Ok(Vec::new()) };
        if page.first > at + 1 {
            // Retention has removed what the cursor asks for: say so instead of going on in silence.
            followed.at = page.first - 1;
            followed.told = followed.at;
            if self.tells_cursors {
                out.push_frame(&cursor(&self.hub, stream, followed.at, Some(page.first)));
            }
        }
        if page.events.is_empty() {
            followed.at = followed.at.max(page.head);
        }
        Ok(page.events.into_iter().map(|event| Arc::new(Item::new(Arc::new(event)))).collect())
    }

    fn deliver(&mut self, stream: &Stream, item: &Item, out: &mut Outbox) {
        let Some(followed) = self.streams.get_mut(&stream.id) else { return };
        followed.at = item.event.id.seq;
        if !self.viewer.receives(&item.event, &stream.owner, &self.hub.presence) {
            return;
        }
        followed.told = followed.at;
        let mine = self.viewer.is_mine(&item.event);
        out.push(if mine {
            frame::deliver(&item.event, &self.hub.gids, true)
        } else {
            item.frame(&self.hub.gids)
        });
    }

    /// What was passed over is told with a cursor, so that no gap stays unexplained.
    fn tell(&mut self, id: StreamId, more: bool, out: &mut Outbox) {
        let Some(followed) = self.streams.get_mut(&id) else { return };
        let untold = followed.at - followed.told;
        if self.tells_cursors
            && untold > 0
            && (untold >= UNTOLD_MAX || (!more && followed.told < followed.replay_until))
        {
            followed.told = followed.at;
            out.push_frame(&cursor(&self.hub, &followed.stream, followed.at, None));
        }
    }

    /// Tells every cursor that has moved without a delivery; called now and then.
    pub fn tell_all(&mut self, out: &mut Outbox) {
        for followed in self.streams.values_mut().filter(|followed| followed.at > followed.told) {
            followed.told = followed.at;
            out.push_frame(&cursor(&self.hub, &followed.stream, followed.at, None));
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.retain(|_| false);
    }
}

fn cursor<'a>(hub: &'a Hub, stream: &'a Stream, seq: u64, first_available: Option<u64>) -> ServerFrame<'a> {
    ServerFrame::Cursor(Cursor {
        channel: stream.name.as_str().into(),
        seq,
        epoch: hub.installation.epoch.as_str().into(),
        first_available,
    })
}
