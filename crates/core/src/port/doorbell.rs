//! The doorbell: "something changed", across nodes. It wakes and carries nothing: whoever is woken reads the store.
//!
//! Promises: rings happen after the commit they speak of; a ring may be lost, repeated or coalesced, so nobody's
//! correctness may hang on one. A missed ring costs delay, never data: whoever shares a store with other nodes also looks at it
//! now and then, often while [`Doorbell::is_connected`] says no (ADR 8).

use crate::event::StoredEvent;
use crate::ids::{InstanceNo, StreamId, VaultId};
use std::sync::Arc;

/// What changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Topic {
    /// A stream grew, to this sequence at least.
    Stream(StreamId, u64),
    /// A vault got a new channel, or an agent's presence in it changed.
    Vault(VaultId),
    /// Something waits for an instance (receipts for what it sent, handoffs).
    Instance(InstanceNo),
    /// Credentials or rights changed: forget what was cached.
    Credentials,
    /// A swarm was made, joined or closed.
    Swarms,
    /// Something that is to reach people, or an answer of theirs, changed.
    Outbound,
    /// More than could be told, or rings may have been missed: look at everything.
    Everything,
}

/// Called for each ring, on the ringer's thread: must not block.
pub type Listener = Arc<dyn Fn(Topic) + Send + Sync>;

/// Rings and listens.
pub trait Doorbell: Send + Sync + 'static {
    /// Tells every node, this one included. Never blocks on the network.
    fn ring(&self, topics: &[Topic]);
    /// Calls `listener` for every ring from now on, for as long as the doorbell lives.
    fn listen(&self, listener: Listener);
    /// Tells the other nodes which streams grew with a commit of this node (which itself knows). Called on the committing thread,
    /// once per commit, after it: never blocks. A doorbell without other nodes does nothing.
    fn committed(&self, events: &[Arc<StoredEvent>]) {
        let _ = events;
    }
    /// The installation whose nodes ring each other; called once, before anything is rung.
    fn join(&self, org_id: &str) {
        let _ = org_id;
    }
    /// Whether other nodes hear and are heard at present; `true` when there are none.
    fn is_connected(&self) -> bool;
}
