//! Checkpoints: moving the write-ahead log's pages into the database, off the acknowledging path.
//!
//! A thread of its own does the bulk of the work while commits go on. They can never get quite done that way, for commits
//! keep coming: once little is left, the writer does the rest between two commits and begins the log anew from its start,
//! so that its file keeps the length it was given.

use super::queue::Queue;
use super::writer::Job;
use parking_lot::{Condvar, Mutex};
use rusqlite::Connection;
use rusqlite::wal::CheckpointMode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Pages in the log at which it is checkpointed: 16 MiB.
pub(crate) const CHECKPOINT_PAGES: u64 = 4096;
/// Pages in the log at which the writer checkpoints it itself, whatever that costs: 256 MiB.
pub(crate) const CHECKPOINT_PAGES_HARD: u64 = 65_536;
/// Pages that may be left for the writer to checkpoint.
const REST_PAGES: u64 = 512;
/// Turns of the checkpointing thread before it hands over whatever is left.
const TURNS_MAX: u32 = 8;
/// How long the writer waits for readers to let go of the log.
const RESTART_WAIT: Duration = Duration::from_millis(20);
const BUSY_WAIT: Duration = Duration::from_secs(5);
/// Bytes of a page and its frame header in the log.
pub(crate) const FRAME_BYTES: u64 = 4096 + 24;

/// How long the log is, and the bell for the checkpointing thread.
#[derive(Default)]
pub(crate) struct Log {
    pages: AtomicU64,
    // Length at which the thread is rung; moved on after a turn that could not finish.
    ring_at: AtomicU64,
    rung: Mutex<Ring>,
    bell: Condvar,
}

#[derive(Default)]
struct Ring {
    due: bool,
    closed: bool,
}

impl Log {
    pub(crate) fn new() -> Self {
        Self { ring_at: AtomicU64::new(CHECKPOINT_PAGES), ..Self::default() }
    }

    /// Pages in the log after the last commit.
    pub(crate) fn pages(&self) -> u64 {
        self.pages.load(Ordering::Relaxed)
    }

    /// Called by the writer after each commit.
    pub(crate) fn grown_to(&self, pages: u64) {
        self.pages.store(pages, Ordering::Relaxed);
        if pages >= self.ring_at.load(Ordering::Relaxed) {
            self.ring_at.store(u64::MAX, Ordering::Relaxed);
            self.rung.lock().due = true;
            self.bell.notify_one();
        }
    }

    /// Ends the thread.
    pub(crate) fn close(&self) {
        self.rung.lock().closed = true;
        self.bell.notify_one();
    }

    // Waits for the bell; `false` at the end.
    fn wait(&self) -> bool {
        let mut ring = self.rung.lock();
        while !ring.due && !ring.closed {
            self.bell.wait(&mut ring);
        }
        ring.due = false;
        !ring.closed
    }
}

/// The checkpointing thread.
pub(crate) fn run(conn: &Connection, log: &Log, queue: &Arc<Queue<Job>>) {
    while log.wait() {
        let left = turns(conn);
        match left {
            Ok(_) => {
                let (answer, done) = std::sync::mpsc::sync_channel(1);
                if queue.push(Job::RestartLog { answer }).is_ok() {
                    let _ = done.recv();
                }
            }
            Err(error) => tracing::warn!(%error, "a checkpoint of the write-ahead log failed"),
        }
        // Restarted, the log is short again; if readers were in the way, the next try comes when it has grown some more.
        let next = log.pages() + CHECKPOINT_PAGES / 4;
        log.ring_at.store(next.max(CHECKPOINT_PAGES), Ordering::Relaxed);
    }
}

// Checkpoints until little is left; returns how many pages are.
fn turns(conn: &Connection) -> rusqlite::Result<u64> {
    let mut left = u64::MAX;
    for _ in 0..TURNS_MAX {
        let (pages, done) = conn.wal_checkpoint_v2(None::<&str>, CheckpointMode::PASSIVE)?;
        left = u64::try_from(pages.saturating_sub(done)).unwrap_or(0);
        if left <= REST_PAGES {
            break;
        }
    }
    Ok(left)
}

/// Called by the writer between commits: checkpoints the rest, and lets the next commit begin the log anew. Gives up after
/// a moment when readers hold on to it.
pub(crate) fn restart(conn: &Connection, log: &Log) {
    let restart = || {
        conn.busy_timeout(RESTART_WAIT)?;
        let done = conn.wal_checkpoint_v2(None::<&str>, CheckpointMode::RESTART);
        conn.busy_timeout(BUSY_WAIT)?;
        done
    };
    match restart() {
        Ok(_) => log.pages.store(0, Ordering::Relaxed),
        Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) => {
            tracing::debug!(pages = log.pages(), "readers hold on to the write-ahead log");
        }
        Err(error) => tracing::warn!(%error, "the write-ahead log could not be restarted"),
    }
}
