//! The servers that Switchboard is compared with. One more peer is one more file here that
//! implements [`Peer`] and [`Sender`], and one more arm in `rounds.rs`.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use tokio::task::JoinSet;

use crate::load::Body;
use crate::receipts::Receipts;
use crate::usage::Usage;

pub mod nats;
pub mod postgres;
pub mod rabbitmq;
pub mod redis;

/// A private server of one kind, configured to sync to disk before it acknowledges.
/// Dropping it stops the server and removes its data.
pub trait Peer: Sized {
    /// One publishing connection.
    type Sender: Sender;
    /// Most messages in one publish call; above 1 the peer acknowledges whole batches.
    const BATCH: usize = 1;
    /// False where the peer has no delivery to compare.
    const DELIVERS: bool = true;

    /// Starts the server with its data in a new folder under `dir`.
    fn start(dir: &Path) -> impl Future<Output = Result<Self>>;
    /// Makes an empty durable log (stream, table, queue) with room for `receivers` receivers.
    fn create_topic(&self, topic: &str, receivers: usize) -> impl Future<Output = Result<()>>;
    /// Opens a connection that publishes to `topic`.
    fn sender(&self, topic: &str) -> impl Future<Output = Result<Self::Sender>>;
    /// Opens a connection that gets every message of `topic` from the first on, and spawns a task
    /// on `tasks` that notes each in `receipts` as receiver `index`. Subscribed when this returns.
    fn receive(
        &self,
        topic: &str,
        index: usize,
        receipts: Arc<Receipts>,
        tasks: &mut JoinSet<Result<()>>,
    ) -> impl Future<Output = Result<()>>;
    /// CPU and memory of the server so far.
    fn usage(&self) -> Usage;
    /// The folder that holds the server's data.
    fn folder(&self) -> &Path;
}

/// A publishing connection; many tasks publish on it at once, up to the in-flight window.
pub trait Sender: Send + Sync + 'static {
    /// Publishes and waits until the server has acknowledged all of `bodies` as durable.
    fn publish(&self, bodies: Vec<Body>) -> impl Future<Output = Result<()>> + Send;
}
