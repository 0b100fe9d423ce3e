//! The store for several nodes: one PostgreSQL database, in a schema of its own. Each node writes through one connection and reads
//! through a few.
//!
//! # One commit
//! [`PostgresStore::commit`](Store::commit) hands a batch to the writer's queue. The writer (`writer`), a thread with a connection of its
//! own (`session`), takes all batches that have queued, locks what they touch in the one order that all nodes keep and reads ahead
//! what they need (`plan`), applies their writes by the rules that all backends share ([`crate::rules`] on `tx`), locks the head's row,
//! adds one record to the log, commits, tells the listener and answers. What the writer keeps in memory (`state`) is compared under
//! the head's lock in every commit, since other nodes write too (ADR 7).
//!
//! Reads are one statement each (`read`). Behind them follows a task that feeds the full-text index (`index`), on whichever node gets to
//! it first.

mod backup;
mod closed;
pub mod config;
mod epoch;
pub(crate) mod failure;
mod hurry;
mod ids;
mod index;
mod migrate;
mod plan;
mod read;
mod readers;
mod session;
mod state;
mod store;
mod sure;
mod tx;
mod value;
mod words;
mod writer;

pub use closed::Closed;
pub use config::{Address, OpenError, SCHEMA};

use parking_lot::Mutex;
use readers::Readers;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use switchboard_core::limits::QUEUE_BYTES_MAX;
use switchboard_core::random::{Entropy, SystemEntropy};
use switchboard_core::time::{Clock, SystemClock};
use tokio::time::Instant;
use writer::{Shared, Writer};

/// How a store is opened.
#[derive(Clone)]
pub struct Options {
    /// Stamps what the store does by itself.
    pub clock: Arc<dyn Clock>,
    /// Names commits and epochs.
    pub entropy: Arc<dyn Entropy>,
    /// Reading connections.
    pub readers: usize,
    /// Bytes of payload that may wait for the writer.
    pub queue_bytes_max: usize,
    /// Whether to keep a full-text index.
    pub search: bool,
    /// Whether it opens although it is on the move: for who moves it.
    pub moving: bool,
}

impl Default for Options {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            clock: Arc::new(SystemClock::default()),
            entropy: Arc::new(SystemEntropy),
            readers: (2 * cores).clamp(4, 16),
            queue_bytes_max: QUEUE_BYTES_MAX,
            search: true,
            moving: false,
        }
    }
}

/// The store for several nodes; see the module.
pub struct PostgresStore {
    address: Address,
    shared: Arc<Shared>,
    readers: Arc<Readers>,
    running: Arc<Mutex<Running>>,
    search: bool,
}

#[derive(Default)]
struct Running {
    writer: Option<JoinHandle<()>>,
    index: Option<tokio::task::JoinHandle<()>>,
}

impl Running {
    // Ends the index at once and the writer when what was taken is done. Blocks until then.
    fn end(&mut self) {
        if let Some(index) = self.index.take() {
            index.abort();
        }
        if self.writer.take().is_some_and(|writer| writer.join().is_err()) {
            tracing::error!("the store's writer panicked");
        }
    }
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "PostgresStore({})", self.address)
    }
}

impl PostgresStore {
    /// Opens the store at `address`: connects, checks the server, brings the schema up to date.
    pub async fn connect(address: Address, options: Options) -> Result<Self, OpenError> {
        let client = once_up(&address).await?;
        migrate::run(&client, &address.schema, migrate::MIGRATIONS).await?;
        if let Some(mark) = closed::mark(&client).await?.filter(|_| !options.moving) {
            return Err(OpenError::Moving(mark));
        }
        drop(client);
        let shared = Arc::new(Shared::new(options.queue_bytes_max, options.moving));
        let readers = Arc::new(Readers::new(&address, options.readers)?);
        let started = |error: std::io::Error| OpenError::Server(format!("no thread for the writer: {error}"));
        let (entropy, clock) = (options.entropy, options.clock);
        let (to, of) = (address.clone(), Arc::clone(&shared));
        let writer =
            std::thread::Builder::new().name("store-writer".into()).spawn(move || {
                match Writer::new(to, entropy, clock, of) {
                    Ok(writer) => writer.run(),
                    Err(error) => tracing::error!(%error, "the writer cannot start"),
                }
            });
        let index =
            options.search.then(|| tokio::spawn(index::run(Arc::clone(&readers), Arc::clone(&shared))));
        let running = Running { writer: Some(writer.map_err(started)?), index };
        let running = Arc::new(Mutex::new(running));
        Ok(Self { address, shared, readers, running, search: options.search })
    }

    fn shut(shared: &Shared, readers: &Readers, running: &Mutex<Running>) {
        shared.hurry.begin();
        shared.queue.close();
        readers.close();
        running.lock().end();
    }
}

/// How long a server that starts or recovers is waited for.
const WAIT_FOR_SERVER: Duration = Duration::from_secs(30);
/// Between two looks whether it is up; it tells nobody when it is.
const LOOK_FOR_SERVER: Duration = Duration::from_millis(200);

// Nodes often start together with their database, or while it recovers.
async fn once_up(address: &Address) -> Result<tokio_postgres::Client, OpenError> {
    let began = Instant::now();
    loop {
        match address.connect_to_write().await {
            Err(OpenError::Starting { why, .. }) if began.elapsed() < WAIT_FOR_SERVER => {
                tracing::info!(%address, why, "waiting for the database");
                tokio::time::sleep(LOOK_FOR_SERVER).await;
            }
            connected => return connected,
        }
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        Self::shut(&self.shared, &self.readers, &self.running);
    }
}
