//! One open transaction of the writer: the rules' view of PostgreSQL. What is done for every message waits in columns and is
//! written by one statement per table; anything the rules read goes behind it, so that they see what they wrote.

use super::ids;
use super::migrate;
use super::plan::Plan;
use super::session::{Arg, Done, Session, Step};
use super::state::{HeadRow, LOCK_HEAD, READ_HEAD, numbers, refresh};
use crate::rules::failure::{Failure, Stop};
use crate::rules::notice::Receipted;
use crate::rules::value::{Params, Row, Value};
use crate::rules::{self, EVENT_ROW_COLUMNS_SQL, EventRow, due_streams, event_row};
use crate::sqlite::dedup::keep_until_ms;
use crate::sqlite::state::{Head, State, encode_ledger};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use switchboard_core::event::StoredEvent;
use switchboard_core::ids::{EventId, InstanceNo, StreamId, VaultId};
use switchboard_core::ledger::Ledger;
use switchboard_core::log::{Entry, event_digest, record_digest};
use switchboard_core::time::WallMs;
use switchboard_core::write::{Appended, Dedup, Receipt};

/// What a transaction counts its changes of the ledger from: more units than any transaction settles.
const LEDGER_FROM: u64 = 1 << 40;

const INSERT_EVENTS: &str = "INSERT INTO events (id, kind, at_ms, expires_at_ms, thread, reply_to, from_instance, from_agent,
                     to_instance, to_agent, client_id, content_digest, data)
    SELECT * FROM unnest(?::bigint[], ?::bigint[], ?::bigint[], ?::bigint[], ?::bigint[], ?::bigint[], ?::bigint[], ?::text[],
                         ?::bigint[], ?::text[], ?::text[], ?::bytea[], ?::bytea[])";
const INSERT_IDS: &str = "INSERT INTO dedup (instance, client_id, content_digest, event, thread, at_ms, expires_at_ms)
    SELECT * FROM unnest(?::bigint[], ?::text[], ?::bytea[], ?::bigint[], ?::bigint[], ?::bigint[], ?::bigint[])
    ORDER BY 1, 2";
const INSERT_REPLIES: &str =
    "INSERT INTO replies (thread, event) SELECT * FROM unnest(?::bigint[], ?::bigint[])";
const PUT_RECEIPTS: &str = "INSERT INTO receipts (event, instance, agent, state, at_ms)
    SELECT * FROM unnest(?::bigint[], ?::bigint[], ?::text[], ?::bigint[], ?::bigint[])
    ON CONFLICT (event, instance, agent) DO UPDATE SET state = excluded.state, at_ms = excluded.at_ms";
const DELETE_NOTICES: &str =
    "DELETE FROM notices n USING unnest(?::bigint[], ?::bigint[], ?::text[]) AS k (event, instance, agent)
    WHERE n.event = k.event AND n.by_instance = k.instance AND n.by_agent = k.agent";
const INSERT_NOTICES: &str = "INSERT INTO notices (id, instance, agent, event, client_id, by_instance, by_agent, state, at_ms,
                      expires_at_ms, once)
    SELECT k.*, 1 FROM unnest(?::bigint[], ?::bigint[], ?::text[], ?::bigint[], ?::text[], ?::bigint[], ?::text[], ?::bigint[],
                              ?::bigint[], ?::bigint[]) AS k";
const PUT_COUNTERS: &str =
    "INSERT INTO counters (id, a, b) SELECT * FROM unnest(?::bigint[], ?::bigint[], ?::bigint[])
    ON CONFLICT (id) DO UPDATE SET a = excluded.a, b = excluded.b";
const PUT_HEAD: &str =
    "UPDATE head SET commit_no = ?, digest = ?, version = ?, notice = ?, directory = ?, ledger = ?,
    probe_ms = coalesce(?, probe_ms)";
const INSERT_RECORD: &str =
    "INSERT INTO log (commit_no, at_ms, entries, digest, command) VALUES (?, ?, ?, ?, ?)";
// All of a plain batch in one statement, which is a transaction of its own. The streams are locked before the head, as
// everywhere; the head is only changed if it is still the one expected, and without that change the division fails.
const APPEND: &str = "WITH streams AS MATERIALIZED
        (SELECT id FROM counters WHERE id = ANY(?::bigint[]) ORDER BY id FOR UPDATE),
    moved AS (UPDATE head SET commit_no = ?, digest = ?, version = ?, notice = ?, directory = ?, ledger = ?,
        probe_ms = coalesce(?, probe_ms)
        WHERE commit_no = ? AND digest = ? AND directory = ? AND (SELECT count(*) FROM streams) >= 0 RETURNING 1),
    stored AS (INSERT INTO events (id, kind, at_ms, expires_at_ms, thread, reply_to, from_instance, from_agent, to_instance,
            to_agent, client_id, content_digest, data)
        SELECT * FROM unnest(?::bigint[], ?::bigint[], ?::bigint[], ?::bigint[], ?::bigint[], ?::bigint[], ?::bigint[],
            ?::text[], ?::bigint[], ?::text[], ?::text[], ?::bytea[], ?::bytea[])),
    ids AS (INSERT INTO dedup (instance, client_id, content_digest, event, thread, at_ms, expires_at_ms)
        SELECT * FROM unnest(?::bigint[], ?::text[], ?::bytea[], ?::bigint[], ?::bigint[], ?::bigint[], ?::bigint[])
        ORDER BY 1, 2),
    counted AS (UPDATE counters c SET a = k.a, b = k.b
        FROM unnest(?::bigint[], ?::bigint[], ?::bigint[]) AS k (id, a, b) WHERE c.id = k.id)
    INSERT INTO log (commit_no, at_ms, entries, digest, command)
    SELECT ?::bigint / (SELECT count(*) FROM moved), ?, ?, ?, ?";
// Locks the head if it is still the one expected; else the division fails, and with it all that was sent behind it.
const EXPECT_HEAD: &str = "SELECT 1 / count(*) FROM (SELECT 1 FROM head WHERE commit_no = ? AND digest = ? AND directory = ? FOR UPDATE) AS expected";
const LOCK_STREAMS: &str = "SELECT id, a, b FROM counters WHERE id = ANY(?::bigint[]) ORDER BY id FOR UPDATE";
const READ_STREAMS: &str = "SELECT id, a, b FROM counters WHERE id = ANY(?::bigint[])";
const LOCK_HANDLES: &str = "SELECT 1 FROM handles WHERE handle = ANY(?::text[]) ORDER BY handle FOR UPDATE";
const READ_IDS: &str = "SELECT d.instance, d.client_id, d.content_digest, d.event, d.thread, d.at_ms, d.expires_at_ms FROM dedup d
    JOIN unnest(?::bigint[], ?::text[]) AS k (instance, client_id) ON d.instance = k.instance AND d.client_id = k.client_id";
const READ_RECEIPTS: &str = "SELECT r.event, r.instance, r.agent, r.state FROM receipts r
    JOIN unnest(?::bigint[], ?::bigint[], ?::text[]) AS k (event, instance, agent)
    ON r.event = k.event AND r.instance = k.instance AND r.agent = k.agent";
const READ_NAMES: &str = "SELECT a.vault, a.agent, a.instance, a.seen_ms, a.state FROM agents a
    JOIN unnest(?::bytea[], ?::text[]) AS k (vault, agent) ON a.vault = k.vault AND a.agent = k.agent";

/// Remembered ids looked at for each one that may be forgotten.
const LOOK_FACTOR: usize = 4;

const NOW_MS: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";

type Ids = HashMap<(u32, String), Option<([u8; 16], Appended)>>;
type Names = HashMap<(VaultId, String), Vec<(InstanceNo, WallMs, u8)>>;

/// What was read ahead, and what of it this transaction has changed since.
#[derive(Default)]
struct Known {
    ids: Ids,
    events: HashMap<i64, Option<EventRow>>,
    receipts: HashMap<(i64, u32, String), Option<u8>>,
    names: Names,
}

/// What waits to be written, by columns.
#[derive(Default)]
struct Waiting {
    events: Vec<Vec<Value<'static>>>,
    ids: Vec<Vec<Value<'static>>>,
    replies: Vec<Vec<Value<'static>>>,
    // The last one counts.
    receipts: HashMap<(i64, u32, String), (u8, WallMs)>,
    notices: HashMap<(i64, u32, String), (Receipt, Receipted, WallMs)>,
    // In the order in which the notices are numbered.
    notice_order: Vec<(i64, u32, String)>,
    steps: Vec<Step>,
}

/// The transaction in which a group of batches is applied.
pub(crate) struct Tx<'t> {
    session: &'t Session,
    state: &'t mut State,
    /// Stamp of the batch whose writes are being applied.
    pub(crate) at_ms: WallMs,
    /// Appended so far, in order.
    pub(crate) appended: Vec<Arc<StoredEvent>>,
    entries: Vec<u8>,
    moved: BTreeSet<u32>,
    ledger_before: Ledger,
    known: RefCell<Known>,
    waiting: RefCell<Waiting>,
    // Steps that open the transaction and have not been sent: they go with the first that are.
    opening: RefCell<Vec<Step>>,
    // Once it is locked, or taken for granted.
    head: Cell<Option<HeadRow>>,
    last_notice: Cell<i64>,
    directory: i64,
    locked_directory: bool,
    changes_directory: bool,
    locked_streams: BTreeSet<u32>,
    probe_ms: Option<WallMs>,
    wrote: Cell<bool>,
    changes: Cell<u64>,
}

/// A transaction that only has to be committed.
#[derive(Debug)]
pub(crate) struct Sealed {
    /// The head once it is.
    pub(crate) head: HeadRow,
    /// What only this transaction knows: its log record is recognised by it afterwards.
    pub(crate) command: [u8; 16],
    /// The last round trip, COMMIT included.
    pub(crate) steps: Vec<Step>,
    /// Streams whose positions are known from here on.
    pub(crate) streams: BTreeSet<u32>,
}

// A commit's record in the log.
struct Record {
    head: HeadRow,
    entries: Vec<u8>,
    at_ms: WallMs,
    command: [u8; 16],
}

impl Record {
    fn values(&self) -> Vec<Value<'static>> {
        vec![
            Value::Int(self.head.commit.cast_signed()),
            Value::Int(self.at_ms),
            Value::Blob(self.entries.clone().into()),
            Value::Blob(self.head.digest.to_vec().into()),
            Value::Blob(self.command.to_vec().into()),
        ]
    }
}

/// How a transaction could not begin.
pub(crate) enum Begin {
    /// What this node remembers is out of date: read it again.
    Stale,
    /// It failed.
    Failed(Failure),
}

impl From<Failure> for Begin {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl<'t> Tx<'t> {
    /// Begins, locks and reads ahead what `plan` says. `directory` is the count at which `state` was read.
    pub(crate) fn begin(
        session: &'t Session,
        state: &'t mut State,
        directory: i64,
        mut plan: Plan,
    ) -> Result<Self, Begin> {
        let mut steps = vec![Step::Plain("BEGIN")];
        if plan.directory {
            steps.push(Step::Plain("SELECT 1 FROM directory FOR UPDATE"));
            if plan.finds_streams() {
                session.run(&std::mem::take(&mut steps))?;
                find_streams(session, state, &mut plan)?;
            }
        }
        let known = read_ahead(session, state, directory, &plan, steps)?;
        Ok(Self::new(session, state, directory, plan, known))
    }

    /// Begins a transaction that holds only if `head` is still the head, and so `state` what the database says of the plan's
    /// streams: nothing needs to be asked, unless the plan has something to read. The first round trip finds out.
    pub(crate) fn expecting(
        session: &'t Session,
        state: &'t mut State,
        head: HeadRow,
        plan: Plan,
    ) -> Result<Self, Failure> {
        state.directory_version = head.version;
        let mut opening = vec![Step::Plain("BEGIN"), lock_streams(&plan)];
        opening.extend(lock_handles(&plan));
        opening.push(Step::One(EXPECT_HEAD, expected(&head)));
        let mut known = Known::default();
        // Ids that are there after all are found by the index that forbids them.
        known.ids.extend(plan.ids.iter().map(|(of, id)| ((of.0, id.clone()), None)));
        if plan.reads() {
            let lead = opening.len();
            opening.extend(reads(&plan));
            let answers = session.run(&std::mem::take(&mut opening))?;
            known.read(&plan, &answers[lead..])?;
        }
        let tx = Self::new(session, state, head.directory, plan, known);
        tx.opening.replace(opening);
        tx.head.set(Some(head));
        tx.last_notice.set(head.notice);
        Ok(tx)
    }

    fn new(session: &'t Session, state: &'t mut State, directory: i64, plan: Plan, known: Known) -> Self {
        // Other nodes move the ledger too, and what this one last saw of it may lack the unit that is settled now: a
        // transaction counts from a value that it cannot fall below, and only its changes are taken (`ledger_onto`).
        let ledger_before = Ledger { accepted: LEDGER_FROM, pending: LEDGER_FROM, ..Ledger::default() };
        state.ledger = ledger_before;
        Self {
            session,
            state,
            at_ms: 0,
            appended: Vec::new(),
            entries: Vec::new(),
            moved: BTreeSet::new(),
            ledger_before,
            known: RefCell::new(known),
            waiting: RefCell::default(),
            opening: RefCell::default(),
            head: Cell::new(None),
            last_notice: Cell::new(0),
            directory,
            locked_directory: plan.directory,
            changes_directory: plan.changes_directory,
            locked_streams: plan.streams,
            probe_ms: None,
            wrote: Cell::new(false),
            changes: Cell::new(0),
        }
    }

    // One round trip, behind what opens the transaction if that has not been sent yet.
    fn send(&self, steps: Vec<Step>) -> Result<Vec<Done>, Failure> {
        let mut all = self.opening.take();
        let opening = all.len();
        all.extend(steps);
        Ok(self.session.run(&all)?.split_off(opening))
    }

    fn send_one(&self, step: Step) -> Result<Done, Failure> {
        Ok(self.send(vec![step])?.pop().unwrap_or_default())
    }

    /// Whether the database has heard of this transaction.
    pub(crate) fn is_open(&self) -> bool {
        self.opening.borrow().is_empty()
    }

    fn changed(&self, rows: u64) {
        self.wrote.set(self.wrote.get() || rows > 0);
        self.changes.set(self.changes.get() + rows);
    }

    // Takes the head's lock if it is not held, and notices if another node has changed what this one remembers.
    fn lock_head(&self, mut before: Vec<Step>) -> Result<HeadRow, Failure> {
        if let Some(head) = self.head.get() {
            if !before.is_empty() {
                self.send(before)?;
            }
            return Ok(head);
        }
        before.push(Step::One(LOCK_HEAD, Vec::new()));
        // Behind the lock, and in a statement of its own: who changed the schema has held that lock.
        let known = migrate::newest(migrate::MIGRATIONS);
        before.push(Step::One(migrate::NEWER, vec![Value::Int(known.into())]));
        let answers = self.send(before)?;
        let [.., head, newer] = answers.as_slice() else {
            return Err(Failure::Inconsistent("fewer answers than questions".into()));
        };
        if let Some(newer) = newer.rows.first() {
            migrate::may_go_on(newer, known)?;
        }
        let head = HeadRow::of(&head.rows)?;
        if head.directory != self.directory {
            return Err(Failure::Conflict);
        }
        self.head.set(Some(head));
        self.last_notice.set(head.notice);
        Ok(head)
    }

    // Everything that waits, as steps in an order in which nothing waits for another row of its own.
    fn take_waiting(&self) -> Vec<Step> {
        let waiting = &mut *self.waiting.borrow_mut();
        let mut steps = Vec::new();
        for (sql, rows) in [
            (INSERT_EVENTS, &mut waiting.events),
            (INSERT_IDS, &mut waiting.ids),
            (INSERT_REPLIES, &mut waiting.replies),
        ] {
            if !rows.is_empty() {
                steps.push(Step::Many(sql, std::mem::take(rows)));
            }
        }
        if !waiting.receipts.is_empty() {
            let mut rows: Vec<_> = waiting.receipts.drain().collect();
            rows.sort_unstable();
            let mut columns = Vec::new();
            for ((event, instance, agent), (state, at_ms)) in rows {
                push(
                    &mut columns,
                    [
                        Value::Int(event),
                        Value::Int(instance.into()),
                        Value::Text(agent.into()),
                        Value::Int(state.into()),
                        Value::Int(at_ms),
                    ],
                );
            }
            steps.push(Step::Many(PUT_RECEIPTS, columns));
        }
        steps.append(&mut waiting.steps);
        steps
    }

    // Writes everything that waits, so that what is read next is there.
    fn flush(&self) -> Result<(), Failure> {
        let steps = self.take_waiting();
        if self.waiting.borrow().notice_order.is_empty() {
            if !steps.is_empty() {
                self.send(steps)?;
            }
            return Ok(());
        }
        self.lock_head(steps)?;
        self.send(self.take_notices()).map(drop)
    }

    // Notices get their numbers under the head's lock: whoever reads on from a number misses none.
    fn take_notices(&self) -> Vec<Step> {
        let mut waiting = self.waiting.borrow_mut();
        let order = std::mem::take(&mut waiting.notice_order);
        let (mut gone, mut fresh) = (Vec::new(), Vec::new());
        for key in order {
            let Some((receipt, of, at_ms)) = waiting.notices.remove(&key) else { continue };
            let (event, by) = (Value::Int(key.0), Value::Int(key.1.into()));
            push(&mut gone, [event.clone(), by.clone(), Value::Text(key.2.clone().into())]);
            self.last_notice.set(self.last_notice.get() + 1);
            push(
                &mut fresh,
                [
                    Value::Int(self.last_notice.get()),
                    Value::Int(of.from_instance.0.into()),
                    Value::Text(of.from_agent.into()),
                    event,
                    Value::Text(of.client_id.into()),
                    by,
                    Value::Text(receipt.agent.into()),
                    Value::Int(receipt.state as i64),
                    Value::Int(at_ms),
                    Value::Int(of.expires_at_ms),
                ],
            );
        }
        if fresh.is_empty() {
            return Vec::new();
        }
        vec![Step::Many(DELETE_NOTICES, gone), Step::Many(INSERT_NOTICES, fresh)]
    }

    /// Writes what the commit as a whole needs: counters, ledger, the log record. `None` when the writes changed nothing, so that
    /// there is nothing to commit. Returns the steps of the last round trip, the one that commits included.
    pub(crate) fn seal(&mut self, command: [u8; 16]) -> Result<Option<Sealed>, Failure> {
        if !self.wrote.get() {
            return Ok(None);
        }
        let head = match self.head.get() {
            Some(head) => head,
            None => self.lock_head(self.take_waiting())?,
        };
        let mut steps = Vec::new();
        self.ledger_onto(head.ledger);
        let one_statement = self.is_plain();
        if !one_statement {
            steps.append(&mut self.opening.take());
            steps.extend(self.take_waiting());
            steps.extend(self.take_notices());
        }
        let after = self.head_after(&head);
        let record =
            Record { head: after, entries: std::mem::take(&mut self.entries), at_ms: self.at_ms, command };
        let counters = self.counters();
        if one_statement {
            self.opening.take();
            steps.push(self.append_all(&head, &record, counters));
        } else {
            if !counters.is_empty() {
                steps.push(Step::Many(PUT_COUNTERS, counters));
            }
            steps.push(Step::One(PUT_HEAD, self.head_values(&after)));
            steps.push(Step::One(INSERT_RECORD, record.values()));
            steps.push(Step::Plain("COMMIT"));
        }
        self.state.commit = after.commit;
        self.state.chain = after.digest;
        Ok(Some(Sealed { head: after, command, steps, streams: self.locked_streams.clone() }))
    }

    // Whether all there is to do is in the columns of `APPEND`, and nothing was sent yet.
    fn is_plain(&self) -> bool {
        let waiting = self.waiting.borrow();
        !self.is_open()
            && !waiting.events.is_empty()
            && !waiting.ids.is_empty()
            && waiting.replies.is_empty()
            && waiting.receipts.is_empty()
            && waiting.notice_order.is_empty()
            && waiting.steps.is_empty()
    }

    fn head_after(&mut self, before: &HeadRow) -> HeadRow {
        let commit = before.commit + 1;
        HeadRow {
            commit,
            digest: record_digest(&before.digest, commit, self.at_ms, &self.entries),
            // Versions are given under the directory's lock: without it there are none.
            version: if self.locked_directory { self.state.directory_version } else { before.version },
            notice: self.last_notice.get(),
            directory: before.directory + i64::from(self.changes_directory),
            ledger: self.state.ledger,
        }
    }

    fn head_values(&self, head: &HeadRow) -> Vec<Value<'static>> {
        vec![
            Value::Int(head.commit.cast_signed()),
            Value::Blob(head.digest.to_vec().into()),
            Value::Int(head.version.cast_signed()),
            Value::Int(head.notice),
            Value::Int(head.directory),
            Value::Blob(encode_ledger(&head.ledger).to_vec().into()),
            self.probe_ms.map_or(Value::Null, Value::Int),
        ]
    }

    // The streams that have moved, by columns.
    fn counters(&self) -> Vec<Vec<Value<'static>>> {
        let mut columns = Vec::new();
        for stream in &self.moved {
            let Head { last, first, .. } = self.state.streams[stream];
            let row = [(*stream).into(), last.cast_signed(), first.cast_signed()];
            push(&mut columns, row.map(Value::Int));
        }
        columns
    }

    fn append_all(&self, before: &HeadRow, record: &Record, counters: Vec<Vec<Value<'static>>>) -> Step {
        let waiting = &mut *self.waiting.borrow_mut();
        let mut args = vec![Arg::Many(numbers(self.moved.iter().copied()))];
        args.extend(self.head_values(&record.head).into_iter().map(Arg::One));
        args.extend(expected(before).into_iter().map(Arg::One));
        args.extend(std::mem::take(&mut waiting.events).into_iter().map(Arg::Many));
        args.extend(std::mem::take(&mut waiting.ids).into_iter().map(Arg::Many));
        args.extend(counters.into_iter().map(Arg::Many));
        args.extend(record.values().into_iter().map(Arg::One));
        Step::Mixed(APPEND, args)
    }

    // What this transaction changed, onto what the ledger is by now.
    fn ledger_onto(&mut self, now: Ledger) {
        let (before, after) = (self.ledger_before, self.state.ledger);
        let moved = |now: u64, before: u64, after: u64| now.wrapping_add(after.wrapping_sub(before));
        self.state.ledger = Ledger {
            accepted: moved(now.accepted, before.accepted, after.accepted),
            delivered: moved(now.delivered, before.delivered, after.delivered),
            answered: moved(now.answered, before.answered, after.answered),
            expired: moved(now.expired, before.expired, after.expired),
            refused: moved(now.refused, before.refused, after.refused),
            dead: moved(now.dead, before.dead, after.dead),
            unknown: moved(now.unknown, before.unknown, after.unknown),
            pending: moved(now.pending, before.pending, after.pending),
        };
        debug_assert!(self.state.ledger.is_balanced(), "{:?}", self.state.ledger);
    }

    // What stands under one id.
    fn id_row(&self, of: InstanceNo, client_id: &str) -> Result<Option<([u8; 16], Appended)>, Failure> {
        if let Some(known) = self.known.borrow().ids.get(&(of.0, client_id.to_owned())) {
            return Ok(*known);
        }
        let sql = "SELECT content_digest, event, thread, at_ms, expires_at_ms FROM dedup
                   WHERE instance = ? AND client_id = ?";
        rules::Tx::one(self, sql, rules::value::values![of.0, client_id], |row| first_answer(row, 0))
    }

    // A statement may change rows that were read ahead: they are read again when they are needed.
    fn forget(&self, sql: &str) {
        let mut known = self.known.borrow_mut();
        if sql.contains(" dedup") {
            known.ids.clear();
        }
        if sql.contains(" events") {
            known.events.clear();
        }
        if sql.contains(" receipts") {
            known.receipts.clear();
        }
        if sql.contains(" agents") {
            known.names.clear();
        }
    }
}

fn push<const N: usize>(columns: &mut Vec<Vec<Value<'static>>>, row: [Value<'static>; N]) {
    columns.resize_with(N, Vec::new);
    for (column, value) in columns.iter_mut().zip(row) {
        column.push(value);
    }
}

fn owned(params: Params<'_>) -> Vec<Value<'static>> {
    params.iter().map(|param| param.as_value().into_owned()).collect()
}

impl Plan {
    fn reads(&self) -> bool {
        !(self.events.is_empty() && self.receipts.is_empty() && self.names.is_empty())
    }

    fn finds_streams(&self) -> bool {
        self.sweep_ms.is_some() || self.expire_ms.is_some() || !self.tasks.is_empty()
    }
}

// The streams that retention, deadlines and decisions will reach.
fn find_streams(session: &Session, state: &mut State, plan: &mut Plan) -> Result<(), Failure> {
    if let Some(at_ms) = plan.sweep_ms {
        let answer = session.one(Step::One("SELECT id, a, b FROM counters", Vec::new()))?;
        refresh(state, &answer.rows)?;
        plan.streams.extend(due_streams(state, at_ms));
    }
    if let Some(at_ms) = plan.expire_ms {
        let sql = "SELECT DISTINCT event >> 40 FROM questions WHERE state = 1 AND deadline_ms <= ?";
        for row in &session.one(Step::One(sql, vec![Value::Int(at_ms)]))?.rows {
            let row: &dyn Row = row;
            plan.streams.insert(row.get(0)?);
        }
    }
    for (vault, number) in &plan.tasks {
        let sql = "SELECT question >> 40 FROM tasks WHERE vault = ? AND number = ?";
        let key = vec![Value::Blob(vault.0.to_vec().into()), Value::Int(number.cast_signed())];
        for row in &session.one(Step::One(sql, key))?.rows {
            let row: &dyn Row = row;
            plan.streams.insert(row.get(0)?);
        }
    }
    Ok(())
}

// Locks, then reads, in one round trip: statements see what was committed before each of them began.
fn read_ahead(
    session: &Session,
    state: &mut State,
    directory: i64,
    plan: &Plan,
    mut steps: Vec<Step>,
) -> Result<Known, Begin> {
    let lead = steps.len();
    steps.push(lock_streams(plan));
    steps.extend(lock_handles(plan));
    let at = steps.len();
    steps.push(Step::One(READ_HEAD, Vec::new()));
    steps.push(Step::Many(READ_STREAMS, vec![numbers(plan.peek.iter().copied())]));
    steps.push(read_ids(plan));
    steps.extend(reads(plan));
    let answers = session.run(&steps)?;
    let head = HeadRow::of(&answers[at].rows)?;
    if head.directory != directory {
        return Err(Begin::Stale);
    }
    state.directory_version = head.version;
    refresh(state, &answers[lead].rows)?;
    refresh(state, &answers[at + 1].rows)?;
    let mut known = Known::default();
    known.read_ids(plan, &answers[at + 2])?;
    known.read(plan, &answers[at + 3..])?;
    Ok(known)
}

// The number says that nobody has committed since; the digest, that it is the same history.
fn expected(head: &HeadRow) -> Vec<Value<'static>> {
    // The directory's count tells of a change of the schema too.
    vec![
        Value::Int(head.commit.cast_signed()),
        Value::Blob(head.digest.to_vec().into()),
        Value::Int(head.directory),
    ]
}

fn text(text: &str) -> Value<'static> {
    Value::Text(text.to_owned().into())
}

fn lock_streams(plan: &Plan) -> Step {
    Step::Many(LOCK_STREAMS, vec![numbers(plan.streams.iter().copied())])
}

fn lock_handles(plan: &Plan) -> Option<Step> {
    let handles: Vec<_> = plan.handles.iter().map(|handle| text(handle)).collect();
    (!handles.is_empty()).then(|| Step::Many(LOCK_HANDLES, vec![handles]))
}

fn read_ids(plan: &Plan) -> Step {
    let ids = plan.ids.iter();
    let of = ids.clone().map(|(of, _)| Value::Int(of.0.into())).collect();
    Step::Many(READ_IDS, vec![of, ids.map(|(_, id)| text(id)).collect()])
}

// What is read besides the ids; nothing is asked when the plan has none of it.
fn reads(plan: &Plan) -> Vec<Step> {
    let mut steps = Vec::new();
    if !plan.events.is_empty() {
        let rows = plan.events.iter().map(|row| Value::Int(*row)).collect();
        steps.push(Step::Many(EVENT_ROW_COLUMNS_SQL, vec![rows]));
    }
    if !plan.receipts.is_empty() {
        let mut columns = Vec::new();
        for (event, by, agent) in &plan.receipts {
            push(&mut columns, [Value::Int(*event), Value::Int(by.0.into()), text(agent)]);
        }
        steps.push(Step::Many(READ_RECEIPTS, columns));
    }
    if !plan.names.is_empty() {
        let mut columns = Vec::new();
        for (vault, agent) in &plan.names {
            push(&mut columns, [Value::Blob(vault.0.to_vec().into()), text(agent)]);
        }
        steps.push(Step::Many(READ_NAMES, columns));
    }
    steps
}

impl Known {
    fn read_ids(&mut self, plan: &Plan, answer: &Done) -> Result<(), Failure> {
        self.ids.extend(plan.ids.iter().map(|(of, id)| ((of.0, id.clone()), None)));
        for row in &answer.rows {
            let row: &dyn Row = row;
            self.ids.insert((row.get(0)?, row.get(1)?), Some(first_answer(row, 2)?));
        }
        Ok(())
    }

    // The answers to `reads`, in its order.
    fn read(&mut self, plan: &Plan, answers: &[Done]) -> Result<(), Failure> {
        let mut answers = answers.iter();
        let mut next = |asked: bool| match asked {
            true => answers.next().map_or(&[][..], |answer| &answer.rows[..]),
            false => &[],
        };
        self.events.extend(plan.events.iter().map(|event| (*event, None)));
        for row in next(!plan.events.is_empty()) {
            let row: &dyn Row = row;
            let id: i64 = row.get(8)?;
            self.events.insert(id, Some(event_row(EventId::from_row(id), row)?));
        }
        let receipts = plan.receipts.iter();
        self.receipts.extend(receipts.map(|(event, by, agent)| ((*event, by.0, agent.clone()), None)));
        for row in next(!plan.receipts.is_empty()) {
            let row: &dyn Row = row;
            self.receipts.insert((row.get(0)?, row.get(1)?, row.get(2)?), Some(row.get(3)?));
        }
        self.names.extend(plan.names.iter().map(|name| (name.clone(), Vec::new())));
        for row in next(!plan.names.is_empty()) {
            let row: &dyn Row = row;
            let key = (VaultId(row.get(0)?), row.get(1)?);
            let announcer = (InstanceNo(row.get(2)?), row.get(3)?, row.get(4)?);
            self.names.entry(key).or_default().push(announcer);
        }
        Ok(())
    }
}

// What an id was used for, out of the columns from `at` on.
fn first_answer(row: &dyn Row, at: usize) -> Result<([u8; 16], Appended), Failure> {
    let appended = Appended {
        id: EventId::from_row(row.get(at + 1)?),
        thread: EventId::from_row(row.get(at + 2)?),
        at_ms: row.get(at + 3)?,
        expires_at_ms: row.get(at + 4)?,
        repeat: true,
    };
    Ok((row.get(at)?, appended))
}

impl rules::Tx for Tx<'_> {
    fn at_ms(&self) -> WallMs {
        self.at_ms
    }

    fn clock_ms(&mut self) -> Result<WallMs, Failure> {
        let now = self.one(NOW_MS, &[], |row| row.get(0))?;
        now.ok_or_else(|| Failure::Inconsistent("the database has no clock".into()))
    }

    fn state(&self) -> &State {
        self.state
    }

    fn state_mut(&mut self) -> &mut State {
        self.state
    }

    fn changes(&self) -> u64 {
        self.changes.get()
    }

    fn run(&self, sql: &'static str, params: Params<'_>) -> Result<usize, Failure> {
        self.forget(sql);
        self.flush()?;
        let changed = self.send_one(Step::One(sql, owned(params)))?.changed;
        self.changed(changed);
        Ok(usize::try_from(changed).unwrap_or(usize::MAX))
    }

    fn later(&self, sql: &'static str, params: Params<'_>) -> Result<(), Failure> {
        self.forget(sql);
        self.waiting.borrow_mut().steps.push(Step::One(sql, owned(params)));
        self.changed(1);
        Ok(())
    }

    fn each(
        &self,
        sql: &'static str,
        params: Params<'_>,
        take: &mut dyn FnMut(&dyn Row) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.flush()?;
        let answer = self.send_one(Step::One(sql, owned(params)))?;
        if !sql.starts_with("SELECT") {
            self.forget(sql);
            self.changed(answer.changed);
        }
        answer.rows.iter().try_for_each(|row| take(row))
    }

    fn create_stream(&mut self, head: Head) -> Result<StreamId, Stop> {
        if !self.locked_directory {
            return Err(Failure::Conflict.into());
        }
        self.changes_directory = true;
        let stream = rules::create_stream(self, head)?;
        self.locked_streams.insert(stream.0);
        Ok(stream)
    }

    fn store(
        &mut self,
        stream: StreamId,
        mut event: StoredEvent,
        begins_thread: bool,
        dedup: Option<&Dedup>,
    ) -> Result<Arc<StoredEvent>, Failure> {
        let head = self.state.streams.get_mut(&stream.0);
        let head = head.ok_or_else(|| Failure::Inconsistent(format!("stream {} is unknown", stream.0)))?;
        if !self.locked_streams.contains(&stream.0) {
            return Err(Failure::Inconsistent(format!("stream {} was not locked", stream.0)));
        }
        head.last += 1;
        let swarm = head.swarm;
        event.id = EventId { stream, seq: head.last };
        if begins_thread {
            event.thread = event.id;
        }
        let int = |number: Option<i64>| number.map_or(Value::Null, Value::Int);
        let text = |text: Option<&str>| text.map_or(Value::Null, |text| Value::Text(text.to_owned().into()));
        let to = event.to.as_ref();
        let row = [
            Value::Int(event.id.row()),
            Value::Int(event.kind as i64),
            Value::Int(event.at_ms),
            Value::Int(event.expires_at_ms),
            int((!begins_thread).then(|| event.thread.row())),
            int(event.reply_to.map(EventId::row)),
            Value::Int(event.from_instance.0.into()),
            text(Some(&event.from_agent)),
            int(to.map(|to| to.instance.0.into())),
            text(to.map(|to| to.agent.as_str())),
            text(dedup.map(|dedup| dedup.client_id.as_str())),
            dedup.map_or(Value::Null, |dedup| Value::Blob(dedup.digest.to_vec().into())),
            Value::Blob(event.data.to_vec().into()),
        ];
        push(&mut self.waiting.borrow_mut().events, row);
        let known = EventRow {
            kind: event.kind as u8,
            thread: event.thread,
            from_instance: event.from_instance,
            from_agent: event.from_agent.clone(),
            to: to.map(|to| (to.instance, to.agent.clone())),
            client_id: dedup.map(|dedup| dedup.client_id.clone()),
            expires_at_ms: event.expires_at_ms,
        };
        self.known.borrow_mut().events.insert(event.id.row(), Some(known));
        let by = (!swarm).then_some(event.from_instance);
        let digest = event_digest(&event);
        self.note(&Entry::Event { id: event.id, kind: event.kind, by, digest });
        self.moved(stream);
        let event = Arc::new(event);
        self.appended.push(Arc::clone(&event));
        Ok(event)
    }

    fn moved(&mut self, stream: StreamId) {
        self.moved.insert(stream.0);
        self.changed(1);
    }

    fn used_id(&mut self, of: InstanceNo, client_id: &str) -> Result<Option<([u8; 16], Appended)>, Failure> {
        let found = self.id_row(of, client_id)?;
        if found.is_some() || !self.state.hashed_ids {
            return Ok(found);
        }
        self.id_row(ids::HASHED, &ids::hash_of(of, client_id))
    }

    fn remember_id(&mut self, of: InstanceNo, dedup: &Dedup, first: &Appended) -> Result<(), Failure> {
        let row = [
            Value::Int(of.0.into()),
            Value::Text(dedup.client_id.clone().into()),
            Value::Blob(dedup.digest.to_vec().into()),
            Value::Int(first.id.row()),
            Value::Int(first.thread.row()),
            Value::Int(first.at_ms),
            Value::Int(first.expires_at_ms),
        ];
        push(&mut self.waiting.borrow_mut().ids, row);
        let first = Appended { repeat: true, ..*first };
        self.known.borrow_mut().ids.insert((of.0, dedup.client_id.clone()), Some((dedup.digest, first)));
        Ok(())
    }

    // An index on age would cost every append; instead each sweep looks through the next part of the table.
    fn sweep_ids(&mut self, _: usize, room: &mut usize) -> Result<(), Failure> {
        let look = room.saturating_mul(LOOK_FACTOR);
        let (instance, client_id) = self.state.ids_swept.clone();
        let sql = "SELECT instance, client_id, at_ms, expires_at_ms FROM dedup
                   WHERE (instance, client_id) > (?, ?) ORDER BY instance, client_id LIMIT ?";
        let now = self.at_ms;
        let rows =
            self.all(sql, rules::value::values![instance, client_id, rules::sql_limit(look)], |row| {
                let over = keep_until_ms(row.get(2)?, row.get(3)?) <= now;
                Ok((row.get::<u32>(0)?, row.get::<String>(1)?, over))
            })?;
        let complete = rows.len() < look;
        let mut last = None;
        for (instance, client_id, over) in rows {
            if over && *room == 0 {
                break;
            }
            if over {
                let sql = "DELETE FROM dedup WHERE instance = ? AND client_id = ?";
                *room -= self.run(sql, rules::value::values![instance, client_id])?;
            }
            last = Some((instance, client_id));
        }
        self.state.ids_swept = last.filter(|_| !complete || *room == 0).unwrap_or_default();
        Ok(())
    }

    fn add_reply(&mut self, thread: EventId, event: EventId) -> Result<(), Failure> {
        let row = [Value::Int(thread.row()), Value::Int(event.row())];
        push(&mut self.waiting.borrow_mut().replies, row);
        Ok(())
    }

    fn event(&mut self, id: EventId) -> Result<Option<EventRow>, Failure> {
        if let Some(known) = self.known.borrow().events.get(&id.row()) {
            return Ok(known.clone());
        }
        self.one(rules::EVENT_ROW, rules::value::values![id.row()], |row| event_row(id, row))
    }

    fn receipt_state(&mut self, event: EventId, by: (InstanceNo, &str)) -> Result<Option<u8>, Failure> {
        if let Some(known) = self.known.borrow().receipts.get(&(event.row(), by.0.0, by.1.to_owned())) {
            return Ok(*known);
        }
        self.one(rules::RECEIPT_STATE, rules::value::values![event.row(), by.0.0, by.1], |row| row.get(0))
    }

    fn put_receipt(&mut self, receipt: &Receipt) -> Result<(), Failure> {
        let key = (receipt.event.row(), receipt.instance.0, receipt.agent.clone());
        let state = receipt.state as u8;
        self.known.borrow_mut().receipts.insert(key.clone(), Some(state));
        self.waiting.borrow_mut().receipts.insert(key, (state, self.at_ms));
        self.changed(1);
        Ok(())
    }

    fn announcers(&mut self, vault: VaultId, agent: &str, since: WallMs) -> Result<Vec<InstanceNo>, Failure> {
        if let Some(known) = self.known.borrow().names.get(&(vault, agent.to_owned())) {
            let lately = known.iter().filter(|(_, seen_ms, state)| *seen_ms >= since || *state != 3);
            return Ok(lately.map(|(instance, ..)| *instance).collect());
        }
        self.all(rules::ANNOUNCERS, rules::value::values![vault.0, agent, since], |row| {
            row.get(0).map(InstanceNo)
        })
    }

    fn next_notice(&mut self) -> Result<i64, Failure> {
        self.lock_head(self.take_waiting())?;
        self.changed(1);
        self.last_notice.set(self.last_notice.get() + 1);
        Ok(self.last_notice.get())
    }

    fn status_notice(&mut self, receipt: &Receipt, of: &Receipted) -> Result<(), Failure> {
        let key = (receipt.event.row(), receipt.instance.0, receipt.agent.clone());
        let mut waiting = self.waiting.borrow_mut();
        // A later one goes in place of the one before, behind what was queued meanwhile.
        waiting.notice_order.retain(|before| *before != key);
        waiting.notice_order.push(key.clone());
        waiting.notices.insert(key, (receipt.clone(), of.clone(), self.at_ms));
        drop(waiting);
        self.changed(1);
        Ok(())
    }

    fn next_version(&mut self) -> i64 {
        self.state.directory_version += 1;
        self.state.directory_version.cast_signed()
    }

    fn probe(&mut self) -> Result<(), Failure> {
        self.probe_ms = Some(self.at_ms);
        self.changed(1);
        Ok(())
    }

    fn note(&mut self, entry: &Entry) {
        entry.encode(&mut self.entries);
        self.changed(1);
    }
}
