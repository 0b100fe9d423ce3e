//! The one writer: group commit without a timer. Its thread takes whatever has queued while the last commit was being synced,
//! applies it in one transaction, syncs, tells the listener, answers. While nothing is queued, a caller with a small batch does
//! the same with the writer in its own hands (`commit_at_once`).

use super::apply;
use super::checkpoint::{self, CHECKPOINT_PAGES_HARD, Log};
use super::connect::OpenError;
use super::dedup::Dedup;
use super::disk::Disk;
use super::failure::Failure;
use super::index::Bell;
use super::queue::{Answer, Habit, Pending, Queue, Weigh};
use super::state::State;
use super::tx::Tx;
use crate::rules::install;
use parking_lot::Mutex;
use rusqlite::{Connection, ErrorCode, OptionalExtension as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use switchboard_core::limits::{BATCH_BYTES_MAX, BATCH_WRITES_MAX};
use switchboard_core::port::store::{CommitListener, Genesis, Installation, StoreError};
use switchboard_core::write::{Batch, Outcome, Write};

/// What the writer is asked to do.
pub(crate) enum Job {
    /// Commit a batch.
    Commit(Pending),
    /// Find or make the installation.
    Install { genesis: Box<Genesis>, answer: Answer<Installation> },
    /// The log is nearly checkpointed: do the rest and begin it anew.
    RestartLog { answer: std::sync::mpsc::SyncSender<()> },
}

impl Weigh for Job {
    fn writes(&self) -> usize {
        if let Self::Commit(pending) = self { pending.batch.writes.len() } else { 1 }
    }

    fn bytes(&self) -> usize {
        if let Self::Commit(pending) = self { pending.bytes } else { 0 }
    }
}

/// What the writer shares with the rest of the store.
pub(crate) struct Shared {
    /// Jobs for the writer.
    pub(crate) queue: Arc<Queue<Job>>,
    /// Who is told of commits.
    pub(crate) listener: Mutex<Option<Arc<dyn CommitListener>>>,
    /// Commits since the first start.
    pub(crate) commits: AtomicU64,
    /// The write-ahead log's length.
    pub(crate) log: Log,
    /// Wakes the full-text index, where there is one.
    pub(crate) bell: Option<Arc<Bell>>,
}

/// How a transaction failed.
enum Void {
    /// Nothing of it is there.
    Nothing(Failure),
    /// The sync failed: whether it is there is not known.
    Unknown(Arc<str>),
}

/// Writes of a batch that is committed on its caller's thread when nobody is ahead of it: such a caller waits for its answer
/// and has little else to do, and two changes of threads cost as much as the commit.
const AT_ONCE_WRITES_MAX: usize = 4;
/// Time such commits take of late up to which the runtime is not told that its thread blocks: telling costs a change of
/// threads, about as much as this.
const BRIEF: Duration = Duration::from_micros(400);

/// The writer with its connection.
pub(crate) struct Writer {
    conn: Connection,
    state: State,
    ids: Dedup,
    disk: Disk,
    shared: Arc<Shared>,
    // Set once a sync failed: nothing is written any more until the store is opened again.
    broken: Option<Arc<str>>,
    // Time that commits on their callers' threads take of late, an outlier included for a while.
    pace: Duration,
}

/// Where the writer is while nobody writes; empty once the store is closed.
pub(crate) type Slot = Mutex<Option<Writer>>;

/// The writing thread: works until the queue is closed and empty.
pub(crate) fn run(slot: &Slot, queue: &Queue<Job>) {
    // However this ends, nobody may wait for an answer that never comes.
    let _abandon = Abandon(queue);
    let (mut jobs, mut habit) = (Vec::new(), Habit::default());
    while queue.wait(&habit) {
        let mut slot = slot.lock();
        let Some(writer) = slot.as_mut() else { return };
        // Taken with the writer in hand, so that nobody commits at once what came after these.
        queue.take(&mut jobs, BATCH_WRITES_MAX, BATCH_BYTES_MAX, &mut habit);
        writer.work(&mut jobs);
    }
    if let Some(writer) = slot.lock().take() {
        checkpoint::restart(&writer.conn, &writer.shared.log);
    }
}

/// Commits a small batch on this thread, if nothing is queued or being written and the thread may block; else gives it back.
pub(crate) fn commit_at_once(slot: &Slot, batch: Batch) -> Result<Result<Vec<Outcome>, StoreError>, Batch> {
    if batch.writes.len() > AT_ONCE_WRITES_MAX || !may_block() {
        return Err(batch);
    }
    let Some(mut slot) = slot.try_lock() else { return Err(batch) };
    let Some(writer) = slot.as_mut().filter(|writer| writer.shared.queue.is_idle()) else {
        return Err(batch);
    };
    if writer.pace <= BRIEF {
        return Ok(writer.commit_one(&batch));
    }
    Ok(tokio::task::block_in_place(|| writer.commit_one(&batch)))
}

// The runtime's other tasks go on elsewhere while one of its threads blocks, unless it has only the one.
fn may_block() -> bool {
    let runtime = tokio::runtime::Handle::try_current();
    runtime.is_ok_and(|runtime| runtime.runtime_flavor() == tokio::runtime::RuntimeFlavor::MultiThread)
}

struct Abandon<'q>(&'q Queue<Job>);

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

impl Writer {
    /// Reads the state; the schema is up to date.
    pub(crate) fn new(mut conn: Connection, disk: Disk, shared: Arc<Shared>) -> Result<Self, OpenError> {
        let state = State::load(&conn)?;
        let ids = Dedup::load(&conn)?;
        shared.commits.store(state.commit, Ordering::Relaxed);
        let told = Arc::clone(&shared);
        conn.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages| {
            told.log.grown_to(u64::try_from(pages).unwrap_or(0));
            Ok(())
        }))?;
        Ok(Self { conn, state, ids, disk, shared, broken: None, pace: Duration::MAX })
    }

    fn work(&mut self, jobs: &mut Vec<Job>) {
        let mut group = Vec::with_capacity(jobs.len());
        for job in jobs.drain(..) {
            match job {
                Job::Commit(pending) => group.push(pending),
                Job::Install { genesis, answer } => {
                    self.commit_group(std::mem::take(&mut group));
                    let installation = self.install(&genesis);
                    let _ = answer.send(installation);
                }
                Job::RestartLog { answer } => {
                    self.commit_group(std::mem::take(&mut group));
                    checkpoint::restart(&self.conn, &self.shared.log);
                    let _ = answer.send(());
                }
            }
        }
        self.commit_group(group);
        self.bound_log();
    }

    fn bound_log(&self) {
        if self.shared.log.pages() >= CHECKPOINT_PAGES_HARD {
            checkpoint::restart(&self.conn, &self.shared.log);
        }
    }

    fn commit_one(&mut self, batch: &Batch) -> Result<Vec<Outcome>, StoreError> {
        self.may_write(is_sweep(batch))?;
        let began = self.disk.now();
        let done = self.transaction(|tx| apply_batch(tx, batch)).map_err(|void| void.answer());
        let took = self.disk.now().saturating_sub(began);
        // Up at once, down by an eighth each time.
        self.pace = took.max(self.pace.min(Duration::from_secs(1)) * 7 / 8);
        self.bound_log();
        done
    }

    fn install(&mut self, genesis: &Genesis) -> Result<Installation, StoreError> {
        if let Some(found) = self.find_installation()? {
            return Ok(found);
        }
        self.may_write(false)?;
        let made = self.transaction(|tx| {
            tx.at_ms = genesis.at_ms;
            install::make(tx, genesis)
        });
        made.map_err(|void| void.answer())?;
        self.find_installation()?
            .ok_or_else(|| StoreError::Inconsistent("the installation is not there".into()))
    }

    fn find_installation(&self) -> Result<Option<Installation>, StoreError> {
        let found = self.conn.query_row(install::FIND, [], |row| Ok(install::installation(row)));
        let found = found.optional().map_err(|error| Failure::from(error).answer())?;
        found.transpose().map_err(|failure| failure.answer())
    }

    /// Commits batches together; if one of them cannot be applied, each by itself, so that it harms no other.
    fn commit_group(&mut self, mut group: Vec<Pending>) {
        group = self.refuse_without_room(group);
        if group.is_empty() {
            return;
        }
        match self.transaction(|tx| group.iter().map(|pending| apply_batch(tx, &pending.batch)).collect()) {
            Ok(answers) => {
                let answers: Vec<_> = answers;
                for (pending, outcomes) in group.into_iter().zip(answers) {
                    let _ = pending.answer.send(Ok(outcomes));
                }
            }
            Err(Void::Nothing(failure)) if group.len() > 1 && !failure.is_environment() => {
                tracing::error!(%failure, batches = group.len(), "a commit failed: trying its batches one by one");
                for pending in group {
                    self.commit_group(vec![pending]);
                }
            }
            Err(void) => answer_all(group, &void.answer()),
        }
    }

    // Answers what may not be written now.
    fn refuse_without_room(&mut self, group: Vec<Pending>) -> Vec<Pending> {
        let mut go = Vec::with_capacity(group.len());
        for pending in group {
            match self.may_write(is_sweep(&pending.batch)) {
                Ok(()) => go.push(pending),
                Err(error) => drop(pending.answer.send(Err(error))),
            }
        }
        go
    }

    // Retention may go on without room, since it makes some.
    fn may_write(&mut self, sweeps: bool) -> Result<(), StoreError> {
        match &self.broken {
            Some(why) => Err(stopped(why)),
            None if !sweeps && !self.disk.has_room(&self.conn) => Err(StoreError::Full),
            None => Ok(()),
        }
    }

    /// Runs `work` in a transaction and commits it, unless it changed nothing.
    fn transaction<T>(&mut self, work: impl FnOnce(&mut Tx<'_>) -> Result<T, Failure>) -> Result<T, Void> {
        self.run_sql("BEGIN IMMEDIATE").map_err(|error| Void::Nothing(error.into()))?;
        let applied = catch_unwind(AssertUnwindSafe(|| {
            let mut tx = Tx::new(&self.conn, &mut self.state, &mut self.ids)?;
            let done = work(&mut tx)?;
            let wrote = tx.seal()?;
            Ok((done, wrote, tx.appended))
        }));
        let (done, wrote, appended) = match applied.unwrap_or(Err(Failure::Panic)) {
            Ok(applied) => applied,
            Err(failure) => {
                self.roll_back(true);
                return Err(Void::Nothing(failure));
            }
        };
        if !wrote {
            self.roll_back(false);
            return Ok(done);
        }
        self.run_sql("COMMIT").map_err(|error| self.not_committed(error))?;
        self.ids.committed();
        self.shared.commits.store(self.state.commit, Ordering::Relaxed);
        let listener = self.shared.listener.lock().clone();
        if let Some(listener) = listener.filter(|_| !appended.is_empty()) {
            // A listener that panics has lost a wake-up; the commit stands.
            let told = catch_unwind(AssertUnwindSafe(|| listener.committed(&appended)));
            told.unwrap_or_else(|_| tracing::error!("the commit listener panicked"));
        }
        if let Some(bell) = &self.shared.bell {
            bell.ring();
        }
        Ok(done)
    }

    fn run_sql(&self, sql: &str) -> rusqlite::Result<()> {
        self.conn.prepare_cached(sql)?.execute([]).map(drop)
    }

    fn not_committed(&mut self, error: rusqlite::Error) -> Void {
        self.roll_back(true);
        if error.sqlite_error_code() == Some(ErrorCode::DiskFull) {
            // The log's last frame, which makes the commit, was not written.
            return Void::Nothing(error.into());
        }
        let why: Arc<str> = error.to_string().into();
        tracing::error!(%error, "a commit could not be synced: nothing is written any more until a restart");
        self.broken = Some(Arc::clone(&why));
        Void::Unknown(why)
    }

    // SQLite may have rolled back by itself already.
    fn roll_back(&mut self, reload: bool) {
        if !self.conn.is_autocommit()
            && let Err(error) = self.run_sql("ROLLBACK")
        {
            self.broken = Some(error.to_string().into());
        }
        if !reload {
            return;
        }
        let ids = if self.ids.rolled_back() { None } else { Some(Dedup::load(&self.conn)) };
        match (State::load(&self.conn), ids.transpose()) {
            (Ok(state), Ok(ids)) => {
                self.state = state;
                if let Some(ids) = ids {
                    self.ids = ids;
                }
            }
            (Err(failure), _) | (_, Err(failure)) => self.broken = Some(failure.to_string().into()),
        }
    }
}

impl Void {
    fn answer(&self) -> StoreError {
        match self {
            Self::Nothing(failure) => failure.answer(),
            Self::Unknown(why) => StoreError::Unknown(Arc::clone(why)),
        }
    }
}

fn stopped(why: &str) -> StoreError {
    StoreError::Backend(format!("writing stopped after a failure ({why}); restart the hub").into())
}

fn answer_all(group: Vec<Pending>, error: &StoreError) {
    for pending in group {
        let _ = pending.answer.send(Err(error.clone()));
    }
}

fn is_sweep(batch: &Batch) -> bool {
    batch.writes.iter().all(|write| matches!(write, Write::Sweep { .. }))
}

fn apply_batch(tx: &mut Tx<'_>, batch: &Batch) -> Result<Vec<Outcome>, Failure> {
    tx.at_ms = batch.at_ms;
    batch.writes.iter().map(|write| apply::apply(tx, write)).collect()
}
