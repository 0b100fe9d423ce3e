//! Several nodes as one: what this node takes over from the others, and which of them does what only one
//! may do. A hub that has its store to itself does none of it.
//!
//! The doorbell makes this quick, the store makes it right: a ring says where to look, and everything is looked at now and then
//! anyway, once a second while any node cannot ring (ADR 8).

use crate::hub::Hub;
use crate::stream::Stream;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use switchboard_core::ids::StreamId;
use switchboard_core::limits::{
    NODE_BEAT_MS, NODE_LEASE_MS, NODE_LOOK_MS, NODE_LOOK_UNRUNG_MS, TAIL_BYTES_MAX, TAIL_EVENTS_MAX,
};
use switchboard_core::port::doorbell::Topic;
use switchboard_core::port::store::{Beat, Position, StoreError};
use switchboard_core::random::bytes;
use switchboard_core::time::WallMs;
use switchboard_core::write::{Outcome, Refusal, Write};
use tokio::sync::Notify;

/// The lease of the node that keeps deadlines, retention and the presence of dead nodes.
const KEEPER: &str = "keeper";
/// Streams read at a time.
const READ_AT_ONCE: usize = 8;

/// What this node knows of the others.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    seen: tokio::sync::Mutex<Seen>,
    // Looks begun so far.
    begun: AtomicU64,
    rung: Notify,
    lead: Mutex<Option<Lead>>,
    unrung: AtomicBool,
}

#[derive(Debug, Default)]
struct Seen {
    position: Position,
    // Number of the last look that succeeded.
    look: u64,
}

/// The lease, as far as this node knows; the store decides.
#[derive(Debug, Clone, Copy)]
struct Lead {
    fence: u64,
    // By the monotonic clock.
    until: Duration,
}

impl Nodes {
    /// What is read after `position` was read is known from there on.
    pub(crate) async fn begin(&self, position: Position) {
        self.seen.lock().await.position = position;
    }

    /// Something changed that no topic names more closely.
    pub(crate) fn ring(&self) {
        self.rung.notify_one();
    }

    /// Whether any living node could not ring when it last said.
    pub fn is_unrung(&self) -> bool {
        self.unrung.load(Ordering::Relaxed)
    }
}

impl Hub {
    /// Takes over everything that was committed anywhere before the call. Costs one look at one row when nothing was, and callers
    /// at the same time share it.
    pub async fn catch_up(&self) -> Result<(), StoreError> {
        if !self.store().is_shared() {
            return Ok(());
        }
        let before = self.nodes.begun.load(Ordering::Acquire);
        let mut seen = self.nodes.seen.lock().await;
        if seen.look > before {
            return Ok(());
        }
        let look = self.nodes.begun.fetch_add(1, Ordering::AcqRel) + 1;
        let position = self.store().position().await?;
        if position != seen.position {
            self.take_over(seen.position, position).await?;
            seen.position = position;
        }
        seen.look = look;
        Ok(())
    }

    async fn take_over(&self, before: Position, now: Position) -> Result<(), StoreError> {
        let directory = now.directory != before.directory;
        if directory {
            self.credentials.forget();
            self.read_vaults().await?;
            self.read_swarms().await?;
            self.read_people().await;
        }
        let grown = self.store().grown(self.streams.heads()).await?;
        let behind: Vec<_> = grown.iter().filter_map(|info| self.streams.hear(info)).collect();
        let refills = stream::iter(behind).map(|stream| async move { self.refill(&stream).await });
        refills.buffer_unordered(READ_AT_ONCE).try_for_each(|()| std::future::ready(Ok(()))).await?;
        if now.version != before.version {
            let vaults = self.vault_list().into_iter().map(|vault| vault.vault).collect();
            self.presence.catch_up(self.store(), vaults, before.version).await?;
        }
        if now.notice != before.notice {
            let waiting = self.store().noticed(before.notice).await?;
            waiting.into_iter().for_each(|instance| crate::session::ring(self, Topic::Instance(instance)));
        }
        if directory {
            crate::session::ring(self, Topic::Credentials);
        }
        Ok(())
    }

    /// Reads what a followed stream's tail lacks, once for all its followers, and wakes them.
    pub(crate) async fn refill(&self, stream: &Arc<Stream>) -> Result<(), StoreError> {
        let _turn = stream.turn().await;
        loop {
            let at = stream.head();
            let page = self.store().page(stream.id, at, TAIL_EVENTS_MAX, TAIL_BYTES_MAX).await?;
            let more = stream.take_in(at, page);
            stream.wake();
            if !more {
                return Ok(());
            }
        }
    }

    /// A stream that rang, or that nobody here had heard of.
    async fn look_up(&self, id: StreamId) -> Result<(), StoreError> {
        if let Some(known) = self.streams.get(id) {
            return self.refill(&known).await;
        }
        if let Some(info) = self.store().stream_by_id(id).await? {
            self.streams.learn(&info);
        }
        Ok(())
    }

    /// Commits what only one node does, if this is the one; `None` when it is not, or is not any more.
    pub(crate) async fn commit_as_keeper(&self, write: Write) -> Result<Option<Outcome>, StoreError> {
        let Some(write) = self.kept(write) else { return Ok(None) };
        let outcome = self.commit(vec![write]).await?.into_iter().next();
        if outcome == Some(Outcome::Refused(Refusal::Fenced)) {
            tracing::info!("another node has become the keeper");
            *self.nodes.lead.lock() = None;
            return Ok(None);
        }
        Ok(outcome)
    }

    /// Whether this node does what only one node does.
    #[must_use]
    pub fn is_keeper(&self) -> bool {
        let lead = *self.nodes.lead.lock();
        !self.store().is_shared() || lead.is_some_and(|lead| lead.until > self.clock().monotonic())
    }

    // Under the lease's fence: this node may be paused at any point behind here, for as long as it takes.
    fn kept(&self, write: Write) -> Option<Write> {
        if !self.store().is_shared() {
            return Some(write);
        }
        let now = self.clock().monotonic();
        let lead = self.nodes.lead.lock().filter(|lead| lead.until > now)?;
        Some(Write::Fenced { name: KEEPER, fence: lead.fence, inner: Box::new(write) })
    }

    /// Says that this node lives; keeps its lease, or takes it when nobody has it.
    pub(crate) async fn beat(&self) -> Result<(), StoreError> {
        let asked = self.clock().monotonic();
        let fence = self.nodes.lead.lock().map(|lead| lead.fence);
        let rings = self.doorbell().is_connected();
        let beat = Beat { node: self.node, rings, lease: KEEPER, fence, keep_ms: NODE_LEASE_MS };
        let pulse = self.store().beat(beat).await?;
        if self.nodes.unrung.swap(!pulse.all_ring, Ordering::Relaxed) == pulse.all_ring {
            self.nodes.ring(); // at another pace from now on
        }
        let fence = match (pulse.kept, pulse.free) {
            (true, _) => fence,
            (false, true) => self.take_lease(NODE_LEASE_MS).await?,
            (false, false) => None,
        };
        let until = asked + Duration::from_millis(NODE_LEASE_MS.unsigned_abs());
        *self.nodes.lead.lock() = fence.map(|fence| Lead { fence, until });
        Ok(())
    }

    async fn take_lease(&self, for_ms: WallMs) -> Result<Option<u64>, StoreError> {
        let take = Write::TakeLease { name: KEEPER, holder: self.node, for_ms };
        match self.commit(vec![take]).await?.first() {
            Some(Outcome::Lease { fence }) => Ok(Some(*fence)),
            _ => Ok(None),
        }
    }

    /// Lets another node become the keeper at once.
    pub(crate) async fn give_up_lease(&self) {
        if self.nodes.lead.lock().take().is_some()
            && let Err(error) = self.take_lease(0).await
        {
            tracing::debug!(%error, "the lease was not given up; it ends by itself");
        }
    }

    fn look_every(&self, failing: bool) -> Duration {
        let unrung = failing || self.nodes.is_unrung() || !self.doorbell().is_connected();
        let period = if unrung { NODE_LOOK_UNRUNG_MS } else { NODE_LOOK_MS };
        let [dice] = bytes(self.entropy());
        // Nodes do not all look at the same time.
        Duration::from_millis(period.unsigned_abs()).mul_f64(0.67 + f64::from(dice) / 384.0)
    }
}

/// Looks at the store whenever it rings for more than one stream, and now and then.
pub(crate) async fn look(hub: &Hub) {
    let mut failing = false;
    loop {
        tokio::select! {
            () = hub.nodes.rung.notified() => {}
            () = tokio::time::sleep(hub.look_every(failing)) => {}
        }
        match hub.catch_up().await {
            Ok(()) => failing = false,
            Err(StoreError::Closed) => return,
            Err(error) if !failing => {
                failing = true;
                tracing::warn!(%error, "what other nodes did could not be read; trying again");
            }
            Err(_) => {}
        }
    }
}

/// Beats, for as long as the hub lives.
pub(crate) async fn beat(hub: &Hub) {
    let mut failing = false;
    loop {
        tokio::time::sleep(Duration::from_millis(NODE_BEAT_MS.unsigned_abs())).await;
        match hub.beat().await {
            Ok(()) => failing = false,
            Err(StoreError::Closed) => return,
            Err(error) if !failing => {
                failing = true;
                tracing::warn!(%error, "this node could not say that it lives; trying again");
            }
            Err(_) => {}
        }
    }
}

/// Reads streams that rang.
pub(crate) async fn find_streams(hub: &Hub) {
    loop {
        let ids = hub.streams.unknown().await;
        stream::iter(ids)
            .for_each_concurrent(READ_AT_ONCE, |id| async move {
                if let Err(error) = hub.look_up(id).await {
                    tracing::warn!(%error, "a stream could not be read; trying again");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    hub.streams.wonder(id);
                }
            })
            .await;
    }
}
