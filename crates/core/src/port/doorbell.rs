//! The doorbell: "something changed", across nodes. It wakes and carries nothing: whoever is woken reads the store.
//!
//! Promises: rings happen after the commit they speak of; a ring may be lost, repeated or coalesced, so nobody's
//! correctness may hang on one. A missed ring costs delay, never data.

use crate::ids::{InstanceNo, StreamId, VaultId};
use std::sync::Arc;

/// What changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Topic {
    /// A stream grew.
    Stream(StreamId),
    /// A vault got a new channel, or an agent's presence in it changed.
    Vault(VaultId),
    /// Something waits for an instance (receipts for what it sent, handoffs).
    Instance(InstanceNo),
    /// Credentials or rights changed: forget what was cached.
    Credentials,
    /// A swarm was made, joined or closed.
    Swarms,
}

/// Called for each ring, on the ringer's thread: must not block.
pub type Listener = Arc<dyn Fn(Topic) + Send + Sync>;

/// Rings and listens.
pub trait Doorbell: Send + Sync + 'static {
    /// Tells every node, this one included. Never blocks on the network.
    fn ring(&self, topics: &[Topic]);
    /// Calls `listener` for every ring from now on, for as long as the doorbell lives.
    fn listen(&self, listener: Listener);
    /// Whether other nodes can be reached at present; `true` when there are none.
    fn is_connected(&self) -> bool;
}
