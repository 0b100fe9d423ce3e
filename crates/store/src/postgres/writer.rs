//! The one thread of a node that writes: group commit as in the embedded store. It takes whatever has queued while the last commit
//! was on its way, applies it in one transaction, commits, tells the listener, answers.
//!
//! What another transaction or a lost connection got in the way of is tried again, a bounded number of times. When the connection
//! is lost while a COMMIT is under way, its outcome is looked up by what only that transaction knows, never guessed.

use super::config::Address;
use super::failure::{Kind, kind};
use super::migrate;
use super::plan::Plan;
use super::session::{Session, Step};
use super::state::{self, HeadRow, LOCK_HEAD};
use super::sure::Sure;
use super::tx::{Begin, Sealed, Tx};
use crate::moving;
use crate::rules::failure::Failure;
use crate::rules::value::{Row, Value};
use crate::rules::{self, Tx as _, install};
use crate::sqlite::queue::{Habit, Queue, Weigh};
use crate::sqlite::state::State;
use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use switchboard_core::digest::Digest;
use switchboard_core::event::StoredEvent;
use switchboard_core::limits::{BATCH_BYTES_MAX, BATCH_WRITES_MAX};
use switchboard_core::port::store::{CommitListener, Genesis, Installation, StoreError};
use switchboard_core::random::{Entropy, bytes, public_id};
use switchboard_core::time::Clock;
use switchboard_core::write::{Batch, Outcome, Write};
use tokio::runtime::Runtime;
use tokio::sync::{Notify, oneshot};

/// How often a commit is tried.
const TRIES_MAX: u32 = 12;
/// Tries after which a row that is there twice counts as the batch's own fault.
const CONFLICTS_MAX: u32 = 8;
/// Pause before the second try; it doubles with each.
const PAUSE: Duration = Duration::from_millis(5);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How often an unknown outcome is looked up.
const LOOKS_MAX: u32 = 10;

/// How a job is answered.
pub(crate) type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

/// What the writer is asked to do.
pub(crate) enum Job {
    /// Commit a batch.
    Commit(Pending),
    /// Find or make the installation.
    Install { genesis: Box<Genesis>, answer: Answer<Installation> },
}

/// A batch on its way.
pub(crate) struct Pending {
    pub(crate) batch: Batch,
    /// Its payload.
    pub(crate) bytes: usize,
    pub(crate) answer: Answer<Vec<Outcome>>,
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
    pub(crate) queue: Queue<Job>,
    /// Who is told of commits.
    pub(crate) listener: Mutex<Option<Arc<dyn CommitListener>>>,
    /// The last commit this node knows of.
    pub(crate) commit: AtomicU64,
    /// Wakes the full-text index: there is something new.
    pub(crate) bell: Notify,
    /// Somebody searches and waits for it.
    pub(crate) wanted: Notify,
    /// Rung when this node's index has come further.
    pub(crate) indexed: Notify,
}

impl Shared {
    pub(crate) fn new(queue_bytes_max: usize) -> Self {
        Self {
            queue: Queue::new(queue_bytes_max),
            listener: Mutex::new(None),
            commit: AtomicU64::new(0),
            bell: Notify::new(),
            wanted: Notify::new(),
            indexed: Notify::new(),
        }
    }
}

/// What a commit is recognised by afterwards.
#[derive(Debug, Clone, Copy)]
struct Mark {
    // Number it is to have.
    commit: u64,
    // What only this transaction knows.
    command: [u8; 16],
}

/// How a transaction failed.
enum Void {
    /// Nothing of it is there.
    Nothing(Failure),
    /// Whether it is there is not known.
    Unknown(Mark, String),
}

impl From<Failure> for Void {
    fn from(failure: Failure) -> Self {
        Self::Nothing(failure)
    }
}

/// What a transaction gave.
struct Committed<T> {
    done: T,
    appended: Vec<Arc<StoredEvent>>,
}

/// A transaction in which the work was done, before its commit.
struct Worked<T> {
    result: Result<(T, Option<Sealed>), Failure>,
    appended: Vec<Arc<StoredEvent>>,
    // Whether the database has heard of it.
    open: bool,
}

/// The writer.
pub(crate) struct Writer {
    address: Address,
    entropy: Arc<dyn Entropy>,
    clock: Arc<dyn Clock>,
    shared: Arc<Shared>,
    runtime: Rc<Runtime>,
    session: Option<Rc<Session>>,
    state: State,
    // The count at which `state` was read; `None` when it has to be read anew.
    directory: Option<i64>,
    sure: Sure,
    // The last commit that was answered, which must never be gone.
    answered: Option<(u64, Digest)>,
    // The epoch this node serves.
    epoch: Option<String>,
}

impl Writer {
    pub(crate) fn new(
        address: Address,
        entropy: Arc<dyn Entropy>,
        clock: Arc<dyn Clock>,
        shared: Arc<Shared>,
    ) -> std::io::Result<Self> {
        let runtime = Rc::new(tokio::runtime::Builder::new_current_thread().enable_all().build()?);
        Ok(Self {
            address,
            entropy,
            clock,
            shared,
            runtime,
            session: None,
            state: State::default(),
            directory: None,
            sure: Sure::default(),
            answered: None,
            epoch: None,
        })
    }

    /// Works until the queue is closed and empty.
    pub(crate) fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        // However this ends, nobody may wait for an answer that never comes.
        let _abandon = Abandon(&shared.queue);
        let (mut jobs, mut habit) = (Vec::new(), Habit::default());
        while shared.queue.wait(&habit) {
            shared.queue.take(&mut jobs, BATCH_WRITES_MAX, BATCH_BYTES_MAX, &mut habit);
            let mut group = Vec::with_capacity(jobs.len());
            for job in jobs.drain(..) {
                match job {
                    Job::Commit(pending) => group.push(pending),
                    Job::Install { genesis, answer } => {
                        self.commit_group(std::mem::take(&mut group));
                        let installation = self.install(&genesis);
                        let _ = answer.send(installation);
                    }
                }
            }
            self.commit_group(group);
        }
    }

    fn install(&mut self, genesis: &Genesis) -> Result<Installation, StoreError> {
        let at_ms = genesis.at_ms;
        let made = self.transaction(&|_| Plan::of_directory(), &|tx| {
            tx.at_ms = at_ms;
            if let Some(found) = install::find(tx)? {
                return Ok(found);
            }
            // Marked since this node looked: another hub is about to arrive here.
            if let Some(mark) = tx.one(moving::READ_MARK, &[], moving::Mark::of)? {
                return Err(Failure::Inconsistent(mark.to_string()));
            }
            install::make(tx, genesis)?;
            install::find(tx)?.ok_or_else(|| Failure::Inconsistent("the installation is not there".into()))
        });
        let installation = made.map_err(|void| void.answer())?.done;
        self.epoch = Some(installation.epoch.clone());
        Ok(installation)
    }

    /// Commits batches together; if one of them cannot be applied, each by itself, so that it harms no other.
    fn commit_group(&mut self, group: Vec<Pending>) {
        if group.is_empty() {
            return;
        }
        let committed = {
            let batches: Vec<&Batch> = group.iter().map(|pending| &pending.batch).collect();
            self.transaction(&|state| Plan::of(&batches, state), &|tx| {
                batches.iter().map(|batch| apply_batch(tx, batch)).collect::<Result<Vec<_>, _>>()
            })
        };
        match committed {
            Ok(Committed { done, appended }) => {
                self.tell(&appended);
                for (pending, outcomes) in group.into_iter().zip(done) {
                    let _ = pending.answer.send(Ok(outcomes));
                }
            }
            Err(Void::Nothing(failure)) if group.len() > 1 && !failure.is_environment() => {
                tracing::error!(%failure, batches = group.len(), "a commit failed: trying its batches one by one");
                for pending in group {
                    self.commit_group(vec![pending]);
                }
            }
            Err(void) => {
                for pending in group {
                    let _ = pending.answer.send(Err(void.answer()));
                }
            }
        }
    }

    fn tell(&self, appended: &[Arc<StoredEvent>]) {
        let listener = self.shared.listener.lock().clone();
        if let Some(listener) = listener.filter(|_| !appended.is_empty()) {
            // A listener that panics has lost a wake-up; the commit stands.
            let told = catch_unwind(AssertUnwindSafe(|| listener.committed(appended)));
            told.unwrap_or_else(|_| tracing::error!("the commit listener panicked"));
        }
        self.shared.bell.notify_one();
    }

    /// Runs `work` in a transaction and commits it, unless it changed nothing; again when something got in the way.
    fn transaction<T>(
        &mut self,
        plan: &dyn Fn(&State) -> Plan,
        work: &dyn Fn(&mut Tx<'_>) -> Result<T, Failure>,
    ) -> Result<Committed<T>, Void> {
        let mut conflicts = 0;
        for at in 1.. {
            let failure = match self.attempt(plan, work) {
                Ok(committed) => return Ok(committed),
                Err(Void::Nothing(failure)) => failure,
                Err(unknown @ Void::Unknown(..)) => return Err(unknown),
            };
            conflicts += u32::from(matches!(failure, Failure::Conflict));
            let again =
                is_lost(&failure) || matches!(failure, Failure::Conflict) && conflicts < CONFLICTS_MAX;
            if !again || at >= TRIES_MAX {
                return Err(Void::Nothing(self.explained(failure)));
            }
            tracing::debug!(%failure, at, "a commit is tried again");
            std::thread::sleep(self.pause(at));
        }
        unreachable!("the loop ends by returning")
    }

    // A statement that the database does not understand any more: perhaps a newer program has changed the schema.
    fn explained(&self, failure: Failure) -> Failure {
        let known = migrate::newest(migrate::MIGRATIONS);
        let look = |session: &Session| {
            let key = vec![Value::Int(known.into())];
            let found = session.run(&[Step::One(migrate::NEWER, key)]).ok()?;
            migrate::may_go_on(found[0].rows.first()?, known).err()
        };
        let unknown = matches!(&failure, Failure::Postgres(error) if kind(error) == Kind::Data);
        let outdated = self.session.as_deref().filter(|_| unknown).and_then(look);
        outdated.filter(|failure| matches!(failure, Failure::Outdated { .. })).unwrap_or(failure)
    }

    // Longer with each try, and of random length, so that nodes that met do not meet again.
    fn pause(&self, at: u32) -> Duration {
        let longest = PAUSE.saturating_mul(1 << at.min(10)).min(PAUSE_MAX);
        let [dice] = bytes(&*self.entropy);
        longest.mul_f64(0.5 + f64::from(dice) / 512.0)
    }

    fn attempt<T>(
        &mut self,
        plan: &dyn Fn(&State) -> Plan,
        work: &dyn Fn(&mut Tx<'_>) -> Result<T, Failure>,
    ) -> Result<Committed<T>, Void> {
        let session = self.session()?;
        let directory = self.directory(&session)?;
        let plan = plan(&self.state);
        // Nothing but a look tells that an id was used before the store was copied here: no row of it stands in the way.
        let looks = self.state.hashed_ids && !plan.ids.is_empty();
        if let Some(head) = self.sure.head(&plan).filter(|_| !looks) {
            match self.attempt_on(&session, head, plan.clone(), work) {
                Err(Void::Nothing(failure)) if !is_lost(&failure) => {
                    tracing::debug!(%failure, "a commit was expected to go through at once, and asks first");
                    self.sure.forget();
                }
                done => return done,
            }
        }
        let worked = match Tx::begin(&session, &mut self.state, directory, plan) {
            Ok(tx) => work_on(tx, bytes(&*self.entropy), work),
            Err(begin) => {
                self.directory = None;
                self.roll_back(&session);
                return Err(Void::Nothing(match begin {
                    Begin::Stale => Failure::Conflict,
                    Begin::Failed(failure) => failure,
                }));
            }
        };
        let done = self.settle(&session, worked);
        if done.is_err() {
            self.directory = None;
        }
        done
    }

    // In one round trip if nothing has to be read, on what this node is sure of. If it was wrong about that, nothing is there.
    fn attempt_on<T>(
        &mut self,
        session: &Session,
        head: HeadRow,
        plan: Plan,
        work: &dyn Fn(&mut Tx<'_>) -> Result<T, Failure>,
    ) -> Result<Committed<T>, Void> {
        let command = bytes(&*self.entropy);
        let done = match Tx::expecting(session, &mut self.state, head, plan) {
            Ok(tx) => {
                let worked = work_on(tx, command, work);
                let unasked = !worked.open && matches!(worked.result, Ok((_, None)));
                // Nothing to commit, says a memory that nobody has compared: the slow way compares it.
                if unasked { Err(Failure::Conflict.into()) } else { self.settle(session, worked) }
            }
            Err(failure) => {
                self.roll_back(session);
                Err(Void::Nothing(failure))
            }
        };
        match &done {
            Err(Void::Nothing(failure)) if !is_lost(failure) => {}
            Err(_) => self.directory = None,
            Ok(_) => {}
        }
        done
    }

    // Commits what was done, or takes it back.
    fn settle<T>(&mut self, session: &Session, worked: Worked<T>) -> Result<Committed<T>, Void> {
        let Worked { result, appended, open } = worked;
        match result {
            Ok((done, Some(sealed))) => {
                let mark = Mark { commit: sealed.head.commit, command: sealed.command };
                self.commit(session, mark, &sealed.steps)?;
                self.directory = Some(sealed.head.directory);
                self.sure.committed(sealed.head, sealed.streams);
                self.acknowledge(sealed.head.commit, sealed.head.digest);
                Ok(Committed { done, appended })
            }
            Ok((done, None)) => {
                self.roll_back(session);
                Ok(Committed { done, appended })
            }
            Err(failure) => {
                if open {
                    self.roll_back(session);
                }
                Err(failure.into())
            }
        }
    }

    fn acknowledge(&mut self, commit: u64, digest: Digest) {
        self.answered = Some((commit, digest));
        self.shared.commit.fetch_max(commit, Ordering::Relaxed);
    }

    fn commit(&mut self, session: &Session, mark: Mark, steps: &[Step]) -> Result<(), Void> {
        let Err(failure) = session.run(steps) else { return Ok(()) };
        if !is_lost(&failure) {
            // The server said no to one of the steps, and to the COMMIT with it.
            self.roll_back(session);
            return Err(failure.into());
        }
        self.directory = None;
        self.session = None;
        tracing::warn!(%failure, commit = mark.commit, "the answer to a commit was lost: looking it up");
        match self.look_up(mark) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Failure::Lost("the connection was lost before the commit".into()).into()),
            Err(why) => Err(Void::Unknown(mark, why)),
        }
    }

    // Whether a commit is there. Whoever still works on it holds the head's lock: once that is ours, its fate is sealed.
    fn look_up(&mut self, mark: Mark) -> Result<bool, String> {
        let mut why = String::new();
        for at in 1..=LOOKS_MAX {
            match self.look(mark) {
                Ok(found) => return Ok(found),
                Err(failure) => why = failure.to_string(),
            }
            self.session = None;
            std::thread::sleep(self.pause(at + 5));
        }
        Err(why)
    }

    fn look(&mut self, mark: Mark) -> Result<bool, Failure> {
        let session = self.session()?;
        let key = vec![Value::Int(mark.commit.cast_signed())];
        let answers = session.run(&[
            Step::Plain("BEGIN"),
            Step::One(LOCK_HEAD, Vec::new()),
            Step::One("SELECT command FROM log WHERE commit_no = ?", key),
            Step::Plain("COMMIT"),
        ])?;
        let Some(row) = answers[2].rows.first() else { return Ok(false) };
        let row: &dyn Row = row;
        Ok(row.get::<Option<Vec<u8>>>(0)?.as_deref() == Some(&mark.command))
    }

    // A connection that is good, and on a database that has lost nothing.
    fn session(&mut self) -> Result<Rc<Session>, Failure> {
        if let Some(session) = self.session.as_ref().filter(|session| session.is_open()) {
            return Ok(Rc::clone(session));
        }
        self.directory = None;
        self.sure.forget();
        let connected = self.runtime.block_on(self.address.connect_to_write());
        let client = connected.map_err(|error| Failure::Lost(error.to_string()))?;
        let session = Rc::new(Session::new(Rc::clone(&self.runtime), client));
        self.session = Some(Rc::clone(&session));
        self.check_epoch(&session)?;
        Ok(session)
    }

    fn directory(&mut self, session: &Session) -> Result<i64, Failure> {
        if let Some(directory) = self.directory {
            return Ok(directory);
        }
        let (state, head) = state::load(session, &self.state)?;
        self.shared.commit.fetch_max(state.commit, Ordering::Relaxed);
        self.state = state;
        self.sure.read(head);
        self.directory = Some(head.directory);
        Ok(head.directory)
    }

    /// After a fail-over to a server that lags, commits that were answered may be gone. Their sequences must not be used again for
    /// something else under the same epoch: readers have them. Whoever sees it first begins another epoch.
    fn check_epoch(&mut self, session: &Session) -> Result<(), Failure> {
        use crate::rules::value::Value;
        let Some((commit, digest)) = self.answered else { return Ok(()) };
        let key = vec![Value::Int(commit.cast_signed())];
        let sql = "SELECT l.digest, n.epoch FROM installation n LEFT JOIN log l ON l.commit_no = ?";
        let answer = session.one(Step::One(sql, key))?;
        let row: &dyn Row =
            answer.rows.first().ok_or_else(|| Failure::Inconsistent("the installation has gone".into()))?;
        let (found, epoch): (Option<[u8; 32]>, String) = (row.get(0)?, row.get(1)?);
        if found == Some(digest) {
            return Ok(());
        }
        tracing::error!(commit, "the database has lost commits that were answered: a new epoch begins");
        self.answered = None;
        if self.epoch.as_ref() == Some(&epoch) {
            let at_ms = self.clock.wall_ms();
            let fresh = public_id("ep", &*self.entropy, at_ms);
            let batch = Batch { at_ms, writes: vec![Write::NewEpoch { epoch: fresh }] };
            let plan = |_: &State| Plan::of_directory();
            let begun = self.attempt(&plan, &|tx| apply_batch(tx, &batch));
            if let Err(void) = begun {
                // Not done: the next connection tries again.
                self.answered = Some((commit, digest));
                self.session = None;
                return Err(Failure::Lost(void.answer().to_string()));
            }
        }
        let epoch = self.read_epoch()?;
        if let Some(listener) = self.shared.listener.lock().clone() {
            listener.epoch_began(&epoch);
        }
        self.epoch = Some(epoch);
        Ok(())
    }

    fn read_epoch(&mut self) -> Result<String, Failure> {
        let session = self.session()?;
        let answer = session.one(Step::One("SELECT epoch FROM installation", Vec::new()))?;
        let row: &dyn Row =
            answer.rows.first().ok_or_else(|| Failure::Inconsistent("the installation has gone".into()))?;
        row.get(0)
    }

    fn roll_back(&mut self, session: &Session) {
        if session.is_open() && session.one(Step::Plain("ROLLBACK")).is_ok() {
            return;
        }
        self.session = None;
    }
}

struct Abandon<'q>(&'q Queue<Job>);

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

impl Void {
    fn answer(&self) -> StoreError {
        match self {
            Self::Nothing(failure) => failure.answer(),
            Self::Unknown(mark, why) => {
                StoreError::Unknown(format!("commit {} and the database: {why}", mark.commit).into())
            }
        }
    }
}

fn is_lost(failure: &Failure) -> bool {
    match failure {
        Failure::Lost(_) => true,
        Failure::Postgres(error) => kind(error) == Kind::Lost,
        _ => false,
    }
}

fn work_on<T>(
    mut tx: Tx<'_>,
    command: [u8; 16],
    work: &dyn Fn(&mut Tx<'_>) -> Result<T, Failure>,
) -> Worked<T> {
    let applied = catch_unwind(AssertUnwindSafe(|| {
        let done = work(&mut tx)?;
        tx.seal(command).map(|sealed| (done, sealed))
    }));
    let result = applied.unwrap_or(Err(Failure::Panic));
    Worked { result, appended: std::mem::take(&mut tx.appended), open: tx.is_open() }
}

fn apply_batch(tx: &mut Tx<'_>, batch: &Batch) -> Result<Vec<Outcome>, Failure> {
    tx.at_ms = batch.at_ms;
    batch.writes.iter().map(|write| rules::apply(tx, write)).collect()
}
