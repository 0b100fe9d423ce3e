//! The one thread of a node that writes: group commit as in the embedded store. It takes whatever has queued while the last commit
//! was on its way, applies it in one transaction, commits, tells the listener, answers.
//!
//! What another transaction got in the way of is tried again, a bounded number of times; what the database is out of reach for, for a
//! bounded time from when that began, so that a later batch is not kept waiting once more. When the connection is lost while a COMMIT
//! is under way, its outcome is looked up by what only that transaction knows, never guessed.

use super::config::{Address, OpenError, opening};
use super::failure::{Kind, kind};
use super::hurry::Hurry;
use super::migrate;
use super::plan::Plan;
use super::session::{STATEMENT, Session, Step};
use super::state::{self, HeadRow, LOCK_HEAD};
use super::sure::Sure;
use super::tx::{LOCK_DIRECTORY, Sealed, Tx};
use crate::moving;
use crate::rules::failure::Failure;
use crate::rules::value::Value;
use crate::rules::{self, Tx as _, install};
use crate::sqlite::queue::{Answer, Habit, Pending, Queue, Weigh};
use crate::sqlite::state::State;
use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use switchboard_core::digest::Digest;
use switchboard_core::event::StoredEvent;
use switchboard_core::limits::{BATCH_BYTES_MAX, BATCH_WRITES_MAX};
use switchboard_core::port::store::{CommitListener, Genesis, Installation, StoreError};
use switchboard_core::random::{Entropy, bytes};
use switchboard_core::time::Clock;
use switchboard_core::write::{Batch, Outcome};
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How long batches wait for a database that is out of reach, from when it came to be so; later ones have one try each.
const PATIENCE: Duration = Duration::from_secs(8);
/// The same for the installation, without which a node does not start: longer than nodes wait for each other after a fail-over.
const PATIENCE_TO_START: Duration = Duration::from_secs(18);
/// How long a connection to write by may take to come about.
const CONNECT: Duration = Duration::from_secs(5);
/// Tries after which a row that is there twice counts as the batch's own fault.
const CONFLICTS_MAX: u32 = 8;
/// Tries that others' changes of the directory made void, after which what is remembered is read again behind its lock.
const STALE_MAX: u32 = 2;
/// Pause before the second try; it doubles with each.
const PAUSE: Duration = Duration::from_millis(5);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(500);

const FIND_RECORD: &str = "SELECT 1 FROM log WHERE commit_no = ? AND command = ?";
/// Makes the head another one than the commit expects that was looked for and is not there: it may lie in the network, or wait for
/// a stream's lock, and must not go through once its absence was acted upon.
const SHUT_OUT: &str = "UPDATE head SET directory = directory + 1
    WHERE NOT EXISTS (SELECT 1 FROM log WHERE commit_no = ? AND command = ?)";

/// What the writer is asked to do.
pub(crate) enum Job {
    /// Commit a batch.
    Commit(Pending),
    /// Find or make the installation.
    Install { genesis: Box<Genesis>, answer: Answer<Installation> },
    /// See whether the database is still the one that it was (`epoch`).
    Check,
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
    /// The same with its digest, which must never be gone.
    pub(crate) seen: Mutex<Option<(u64, Digest)>>,
    /// What this node is called among those that beat; 0 until it has.
    pub(crate) node: AtomicU64,
    /// Whether a check waits in the queue.
    pub(crate) checking: AtomicBool,
    /// Whether the process is about to end.
    pub(crate) hurry: Hurry,
    /// Whether the store may be on the move.
    pub(crate) moving: bool,
    /// Wakes the full-text index: there is something new.
    pub(crate) bell: Notify,
    /// Somebody searches and waits for it.
    pub(crate) wanted: Notify,
    /// Rung when this node's index has come further.
    pub(crate) indexed: Notify,
}

impl Shared {
    pub(crate) fn new(queue_bytes_max: usize, moving: bool) -> Self {
        Self {
            queue: Queue::new(queue_bytes_max),
            listener: Mutex::new(None),
            commit: AtomicU64::new(0),
            seen: Mutex::default(),
            node: AtomicU64::new(0),
            checking: AtomicBool::new(false),
            hurry: Hurry::default(),
            moving,
            bell: Notify::new(),
            wanted: Notify::new(),
            indexed: Notify::new(),
        }
    }

    /// The store is at least that far.
    pub(crate) fn see(&self, commit: u64, digest: Digest) {
        self.commit.fetch_max(commit, Ordering::Relaxed);
        let mut seen = self.seen.lock();
        if seen.is_none_or(|(before, _)| before < commit) {
            *seen = Some((commit, digest));
        }
    }
}

/// What a commit is recognised by afterwards.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    // Number it is to have.
    commit: u64,
    // What only this transaction knows.
    command: [u8; 16],
}

/// How a transaction failed.
pub(super) enum Void {
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
pub(super) struct Committed<T> {
    done: T,
    appended: Vec<Arc<StoredEvent>>,
}

/// A transaction in which the work was done, before its commit.
struct Worked<T> {
    result: Result<(T, Option<Sealed>), Failure>,
    appended: Vec<Arc<StoredEvent>>,
    // Whether the database has heard of it.
    open: bool,
    // Whether nobody has compared what was taken for granted.
    unproven: bool,
}

impl<T> Worked<T> {
    fn failed(self, failure: Failure) -> Self {
        Self { result: Err(failure), ..self }
    }
}

/// The writer.
pub(crate) struct Writer {
    address: Address,
    pub(super) entropy: Arc<dyn Entropy>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) shared: Arc<Shared>,
    runtime: Rc<Runtime>,
    session: Option<Rc<Session>>,
    // Since when the database has been out of reach.
    lost: Option<Instant>,
    state: State,
    // How often in a row it was out of date when a transaction began or ended.
    stale: u32,
    // The count at which `state` was read; `None` when it has to be read anew.
    directory: Option<i64>,
    sure: Sure,
    // The epoch this node serves.
    pub(super) epoch: Option<String>,
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
            lost: None,
            state: State::default(),
            stale: 0,
            directory: None,
            sure: Sure::default(),
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
                    Job::Check => self.check(),
                }
            }
            self.commit_group(group);
        }
    }

    fn install(&mut self, genesis: &Genesis) -> Result<Installation, StoreError> {
        let at_ms = genesis.at_ms;
        let made = self.transaction(PATIENCE_TO_START, &|_| Plan::of_directory(), &|tx| {
            tx.at_ms = at_ms;
            // Marked since this node looked: another hub is about to arrive here, or has left.
            if let Some(mark) = tx.one(moving::READ_MARK, &[], moving::Mark::of)? {
                return Err(Failure::Moving(mark));
            }
            if let Some(found) = install::find(tx)? {
                return Ok(found);
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
            // Who moves a store commits once, over a connection that may wait for other nodes first, as a start does.
            let patience = if self.shared.moving { PATIENCE_TO_START } else { PATIENCE };
            self.transaction(patience, &|state| Plan::of(&batches, state), &|tx| {
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
                let answer = void.answer();
                if let Void::Nothing(failure @ Failure::Locked(_)) = &void {
                    tracing::warn!(%failure, "nothing was stored");
                }
                for pending in group {
                    let _ = pending.answer.send(Err(answer.clone()));
                }
                if let StoreError::Unreachable(_) = answer {
                    self.refuse_waiting(&answer);
                }
            }
        }
    }

    /// What has queued behind a batch that could not be committed for as long as batches wait has waited, too.
    fn refuse_waiting(&self, why: &StoreError) {
        let mut jobs = Vec::new();
        self.shared.queue.take(&mut jobs, usize::MAX, usize::MAX, &mut Habit::default());
        for job in jobs {
            match job {
                Job::Commit(pending) => drop(pending.answer.send(Err(why.clone()))),
                Job::Install { answer, .. } => drop(answer.send(Err(why.clone()))),
                Job::Check => self.shared.checking.store(false, Ordering::Release),
            }
        }
    }

    /// Whether the connection still holds, and still leads to what it led to: with nothing to write, nobody else would notice.
    fn check(&mut self) {
        self.shared.checking.store(false, Ordering::Release);
        let open = self.session.as_ref().filter(|session| session.is_open()).cloned();
        let mut checked = open.map(|session| self.check_epoch(&session));
        if checked.as_ref().is_none_or(|checked| checked.as_ref().is_err_and(Failure::is_lost)) {
            self.session = None;
            checked = Some(self.session().map(drop));
        }
        match checked {
            None | Some(Ok(())) => self.lost = None,
            Some(Err(failure)) => {
                self.session = None;
                self.lost.get_or_insert_with(Instant::now);
                tracing::debug!(%failure, "the database was looked at");
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

    /// Runs `work` in a transaction and commits it, unless it changed nothing; again when something got in the way, and for up to
    /// `patience` when that is the way to the database.
    fn transaction<T>(
        &mut self,
        patience: Duration,
        plan: &dyn Fn(&State) -> Plan,
        work: &dyn Fn(&mut Tx<'_>) -> Result<T, Failure>,
    ) -> Result<Committed<T>, Void> {
        let mut conflicts = 0;
        for at in 1.. {
            let failure = match self.attempt(plan, work) {
                Ok(committed) => {
                    (self.lost, self.stale) = (None, 0);
                    return Ok(committed);
                }
                Err(Void::Nothing(failure)) => failure,
                Err(unknown @ Void::Unknown(..)) => return Err(unknown),
            };
            let again = match &failure {
                Failure::Conflict => {
                    conflicts += 1;
                    conflicts < CONFLICTS_MAX
                }
                Failure::Stale => {
                    // Behind the lock it is not out of date again, unless something counts it up that takes no lock.
                    self.stale += 1;
                    self.stale <= STALE_MAX + CONFLICTS_MAX
                }
                failure => failure.is_worth_waiting() && self.is_worth_waiting(patience),
            };
            if !again {
                self.stale = 0;
                return Err(Void::Nothing(self.explained(failure)));
            }
            tracing::debug!(%failure, at, "a commit is tried again");
            self.rest(at);
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

    /// Whether the database has not been out of reach for so long yet; and the process is not about to end.
    fn is_worth_waiting(&mut self, patience: Duration) -> bool {
        let since = self.lost.get_or_insert_with(Instant::now);
        since.elapsed() < patience && !self.shared.hurry.has_begun()
    }

    // Longer with each try, and of random length, so that nodes that met do not meet again.
    fn rest(&self, at: u32) {
        let longest = PAUSE.saturating_mul(1 << at.min(10)).min(PAUSE_MAX);
        let [dice] = bytes(&*self.entropy);
        self.runtime.block_on(self.shared.hurry.rest(longest.mul_f64(0.5 + f64::from(dice) / 512.0)));
    }

    pub(super) fn attempt<T>(
        &mut self,
        plan: &dyn Fn(&State) -> Plan,
        work: &dyn Fn(&mut Tx<'_>) -> Result<T, Failure>,
    ) -> Result<Committed<T>, Void> {
        let session = self.session()?;
        let behind_lock = self.stale >= STALE_MAX;
        if behind_lock && let Err(failure) = self.read_behind_lock(&session) {
            self.roll_back(&session);
            return Err(failure.into());
        }
        let directory = self.directory(&session)?;
        let mut plan = plan(&self.state);
        plan.directory |= behind_lock;
        // Nothing but a look tells that an id was used before the store was copied here: no row of it stands in the way.
        let looks = self.state.hashed_ids && !plan.ids.is_empty();
        if let Some(head) = self.sure.head(&plan).filter(|_| !looks) {
            match self.attempt_on(&session, head, plan.clone(), work) {
                Err(Void::Nothing(failure)) if !failure.is_worth_waiting() => {
                    tracing::debug!(%failure, "a commit was expected to go through at once, and asks first");
                    self.sure.forget();
                }
                done => return done,
            }
        }
        let worked = match Tx::begin(&session, &mut self.state, directory, plan) {
            Ok(tx) => work_on(tx, bytes(&*self.entropy), work),
            Err(failure) => {
                self.directory = None;
                self.roll_back(&session);
                return Err(failure.into());
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
                let unasked = worked.unproven && matches!(worked.result, Ok((_, None)));
                // Nothing to commit, says a memory that nobody has compared: the slow way compares it.
                let worked = if unasked { worked.failed(Failure::Conflict) } else { worked };
                self.settle(session, worked)
            }
            Err(failure) => {
                self.roll_back(session);
                Err(Void::Nothing(failure))
            }
        };
        match &done {
            Err(Void::Nothing(failure)) if !failure.is_worth_waiting() => {}
            Err(_) => {
                self.directory = None;
                self.sure.forget();
            }
            Ok(_) => {}
        }
        done
    }

    // Commits what was done, or takes it back.
    fn settle<T>(&mut self, session: &Session, worked: Worked<T>) -> Result<Committed<T>, Void> {
        let Worked { result, appended, open, .. } = worked;
        match result {
            Ok((done, Some(sealed))) => {
                let mark = Mark { commit: sealed.head.commit, command: sealed.command };
                self.commit(session, mark, &sealed.steps)?;
                self.directory = Some(sealed.head.directory);
                self.sure.committed(sealed.head, sealed.streams);
                self.shared.see(sealed.head.commit, sealed.head.digest);
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

    fn commit(&mut self, session: &Session, mark: Mark, steps: &[Step]) -> Result<(), Void> {
        let Err(failure) = session.run(steps) else { return Ok(()) };
        if !failure.is_lost() {
            // The server said no to one of the steps, and to the COMMIT with it; one statement alone has nothing to take back.
            if steps.len() > 1 {
                self.roll_back(session);
            }
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

    // Whether a commit is there. Whoever still works on it holds the head's lock, or has yet to find the head that it expects:
    // once the lock is ours, and the head another one, its fate is sealed.
    fn look_up(&mut self, mark: Mark) -> Result<bool, String> {
        for at in 1.. {
            let failure = match self.look(mark) {
                Ok(found) => return Ok(found),
                Err(failure) => failure,
            };
            self.session = None;
            if !self.is_worth_waiting(PATIENCE) {
                return Err(failure.to_string());
            }
            self.rest(at);
        }
        unreachable!("the loop ends by returning")
    }

    fn look(&mut self, mark: Mark) -> Result<bool, Failure> {
        let session = self.session()?;
        let named = || vec![Value::Int(mark.commit.cast_signed()), Value::Blob(mark.command.to_vec().into())];
        let answers = session.run(&[
            Step::Plain("BEGIN"),
            Step::One(LOCK_HEAD, Vec::new()),
            Step::One(FIND_RECORD, named()),
            Step::One(SHUT_OUT, named()),
            Step::Plain("COMMIT"),
        ])?;
        let found = !answers[2].rows.is_empty();
        if !found {
            // The directory's count is another one now.
            self.directory = None;
            self.sure.forget();
        }
        Ok(found)
    }

    // A connection that is good, and on a database that has lost nothing.
    pub(super) fn session(&mut self) -> Result<Rc<Session>, Failure> {
        if let Some(session) = self.session.as_ref().filter(|session| session.is_open()) {
            return Ok(Rc::clone(session));
        }
        self.directory = None;
        self.sure.forget();
        let session = Rc::new(self.connect()?);
        // Held from here on: a new epoch is begun over it.
        self.session = Some(Rc::clone(&session));
        if let Err(failure) = self.check_epoch(&session) {
            self.session = None;
            return Err(failure);
        }
        Ok(session)
    }

    fn connect(&self) -> Result<Session, Failure> {
        let connecting = async {
            let client = self.address.connect_to_write().await?;
            client.batch_execute(STATEMENT).await.map_err(opening)?;
            Ok(client)
        };
        let connected = self.runtime.block_on(self.shared.hurry.within(CONNECT, connecting));
        let connected: Result<_, OpenError> =
            connected.ok_or_else(|| Failure::Lost(format!("{} does not answer", self.address)))?;
        let client = connected.map_err(|error| Failure::Lost(error.to_string()))?;
        Ok(Session::new(Rc::clone(&self.runtime), client, self.shared.hurry.clone()))
    }

    // Begins a transaction that keeps others from changing the directory, and only then reads it: over another connection, as it is
    // read as of one moment, which has to be behind that lock.
    fn read_behind_lock(&mut self, session: &Session) -> Result<(), Failure> {
        session.run(&[Step::Plain("BEGIN"), Step::Plain(LOCK_DIRECTORY)])?;
        let other = self.connect()?;
        self.read_directory(&other).map(drop)
    }

    fn directory(&mut self, session: &Session) -> Result<i64, Failure> {
        self.directory.map_or_else(|| self.read_directory(session), Ok)
    }

    fn read_directory(&mut self, session: &Session) -> Result<i64, Failure> {
        let (state, head) = state::load(session, &self.state, self.shared.moving)?;
        self.shared.see(state.commit, state.chain);
        self.state = state;
        self.sure.read(head);
        self.directory = Some(head.directory);
        Ok(head.directory)
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
    pub(super) fn answer(&self) -> StoreError {
        match self {
            Self::Nothing(failure) => failure.answer(),
            Self::Unknown(mark, why) => {
                StoreError::Unknown(format!("commit {} and the database: {why}", mark.commit).into())
            }
        }
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
    let (open, unproven) = (tx.is_open(), tx.is_unproven());
    Worked { result, appended: std::mem::take(&mut tx.appended), open, unproven }
}

pub(super) fn apply_batch(tx: &mut Tx<'_>, batch: &Batch) -> Result<Vec<Outcome>, Failure> {
    tx.at_ms = batch.at_ms;
    batch.writes.iter().map(|write| rules::apply(tx, write)).collect()
}
