//! The embedded store: one SQLite database, one writing thread, a few reading ones.
//!
//! # One commit
//! [`SqliteStore::commit`](Store::commit) hands a batch to the writer's queue (`queue`). The writer (`writer`) takes all
//! batches that have queued, applies their writes in one transaction (`apply`), adds one record to the log (`tx`), commits
//! (one `fdatasync`), tells the listener and answers. A small batch that finds the writer idle is committed on its caller's
//! thread, in the same way. Reads run on threads of their own (`readers`, `read`). Behind them follow
//! a thread that checkpoints the write-ahead log (`checkpoint`) and one that feeds the full-text index (`index`).
//!
//! To add a write: see [`switchboard_core::write`]; its rule goes into a file of `apply`.

mod apply;
mod backup;
mod checkpoint;
#[cfg(feature = "postgres")]
pub(crate) mod closed;
mod connect;
#[cfg(feature = "postgres")]
pub(crate) mod copy;
pub(crate) mod dedup;
mod disk;
pub(crate) mod index;
pub(crate) mod migrate;
pub(crate) mod queue;
mod read;
mod readers;
pub(crate) mod state;
mod store;
mod tx;
mod writer;

#[cfg(feature = "postgres")]
pub use closed::Closed;
pub use connect::{OpenError, lock_dir};
pub use migrate::MigrateError;

use crate::moving::{Mark, READ_MARK};
use crate::rules::{failure, text};
use connect::Files;
use disk::Disk;
use index::{Bell, Index};
use parking_lot::Mutex;
use queue::Queue;
use readers::Readers;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::JoinHandle;
use switchboard_core::limits::{DISK_RESERVE_BYTES, QUEUE_BYTES_MAX};
use switchboard_core::time::{Clock, SystemClock};
use writer::{Shared, Slot, Writer};

/// How a store is opened.
#[derive(Clone)]
pub struct Options {
    /// Times the looks at the disk.
    pub clock: Arc<dyn Clock>,
    /// Reading threads.
    pub readers: usize,
    /// Free bytes under which writes are refused.
    pub disk_reserve_bytes: u64,
    /// Bytes of payload that may wait for the writer.
    pub queue_bytes_max: usize,
    /// Length the write-ahead log's file is given, in bytes.
    pub wal_bytes: u64,
    /// Pages of 4 KiB the database may have at most; `None` is SQLite's own bound.
    pub pages_max: Option<u32>,
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
            readers: cores.clamp(2, 8),
            disk_reserve_bytes: DISK_RESERVE_BYTES,
            queue_bytes_max: QUEUE_BYTES_MAX,
            wal_bytes: 32 << 20,
            pages_max: None,
            search: true,
            moving: false,
        }
    }
}

/// The embedded store; see the module.
pub struct SqliteStore {
    clock: Arc<dyn Clock>,
    files: Files,
    parts: Arc<Parts>,
}

/// What the store is made of.
struct Parts {
    shared: Arc<Shared>,
    slot: Arc<Slot>,
    readers: Arc<Readers>,
    threads: Mutex<Threads>,
}

#[derive(Default)]
struct Threads {
    // In the order in which they end.
    running: Vec<JoinHandle<()>>,
    // Let go of when the last thread has ended.
    lock: Option<File>,
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "SqliteStore({})", self.files.dir.display())
    }
}

impl SqliteStore {
    /// Opens the store in `dir`, which is made when it is not there. Blocks on the disk.
    pub fn open_dir(dir: &Path, options: Options) -> Result<Self, OpenError> {
        let files = Files::of(dir);
        let lock = connect::lock(&files)?;
        connect::make_private(&files)?;
        let writer = connect::writer(&files.database)?;
        migrate::check(&writer, migrate::MIGRATIONS)?;
        connect::set_up_writer(&writer, options.pages_max)?;
        migrate::run(&writer, migrate::MIGRATIONS)?;
        if let Some(mark) = mark(&writer)?.filter(|_| !options.moving) {
            return Err(OpenError::Moving(mark));
        }
        connect::grow_wal(&files, options.wal_bytes)?;
        let index = if options.search { open_index(&files)? } else { None };
        let shared = Arc::new(Shared {
            queue: Arc::new(Queue::new(options.queue_bytes_max)),
            listener: Mutex::new(None),
            commits: AtomicU64::new(0),
            log: checkpoint::Log::new(),
            bell: index.as_ref().map(|(_, bell)| Arc::clone(bell)),
        });
        let clock = Arc::clone(&options.clock);
        let disk = Disk::new(files.dir.clone(), options.disk_reserve_bytes, options.clock);
        let writer = Writer::new(writer, disk, Arc::clone(&shared))?;
        let threads = Mutex::new(Threads { running: Vec::new(), lock: Some(lock) });
        let slot = Arc::new(Mutex::new(Some(writer)));
        let store =
            Self { clock, files, parts: Arc::new(Parts { shared, slot, readers: Arc::default(), threads }) };
        store.start(index, options.readers)?;
        Ok(store)
    }

    fn start(&self, index: Option<(Index, Arc<Bell>)>, readers: usize) -> Result<(), OpenError> {
        let database = &self.files.database;
        let spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
            let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
            let thread = thread.map_err(|error| OpenError::Io { path: database.clone(), error })?;
            self.parts.threads.lock().running.push(thread);
            Ok::<_, OpenError>(())
        };
        let conn = connect::checkpointer(database)?;
        let pool: Vec<_> = (0..readers.max(1)).map(|_| self.connect_reader()).collect::<Result<_, _>>()?;
        let (slot, queue) = (Arc::clone(&self.parts.slot), Arc::clone(&self.parts.shared.queue));
        spawn("store-writer", Box::new(move || writer::run(&slot, &queue)))?;
        let shared = Arc::clone(&self.parts.shared);
        spawn("store-checkpoint", Box::new(move || checkpoint::run(&conn, &shared.log, &shared.queue)))?;
        if let Some((index, bell)) = index {
            spawn("store-index", Box::new(move || index.run(&bell)))?;
        }
        for conn in pool {
            let readers = Arc::clone(&self.parts.readers);
            spawn("store-reader", Box::new(move || readers::run(&readers, &conn)))?;
        }
        Ok(())
    }

    fn connect_reader(&self) -> Result<rusqlite::Connection, OpenError> {
        let conn = connect::reader(&self.files.database)?;
        if self.parts.shared.bell.is_some() {
            let path = self.files.search.to_string_lossy();
            conn.execute(&format!("ATTACH ? AS {}", read::search::SCHEMA), [path])?;
        }
        Ok(conn)
    }
}

// What the store says of itself while it is on the move.
fn mark(conn: &rusqlite::Connection) -> Result<Option<Mark>, failure::Failure> {
    let mut statement = conn.prepare(READ_MARK)?;
    let mut rows = statement.query([])?;
    rows.next()?.map(|row| Mark::of(row)).transpose()
}

/// The index with its bell. Without room to make one, the store still opens: it is then without search until a restart.
fn open_index(files: &Files) -> Result<Option<(Index, Arc<Bell>)>, OpenError> {
    let bell = Arc::<Bell>::default();
    match Index::open(&files.search, connect::reader(&files.database)?, &bell) {
        Ok(index) => Ok(Some((index, bell))),
        Err(error) => {
            tracing::error!(%error, "there is no full-text index: searches find nothing");
            Ok(None)
        }
    }
}

impl Parts {
    /// Ends every thread, the writer first, and lets go of the files. Blocks until what was taken is done.
    fn shut(&self) {
        self.shared.queue.close();
        self.shared.log.close();
        self.readers.close();
        if let Some(bell) = &self.shared.bell {
            bell.close();
        }
        let mut threads = self.threads.lock();
        for thread in threads.running.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the store panicked");
            }
        }
        threads.lock = None;
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.parts.shut();
    }
}
