//! One open transaction of the writer: the rules' view of PostgreSQL. What is done for every message waits in columns and is
//! written by one statement per table; anything the rules read goes behind it, so that they see what they wrote.

mod ahead;
mod apply;
mod seal;

pub(crate) use seal::Sealed;

use super::plan::Plan;
use super::session::{Done, Session, Step};
use super::state::{HeadRow, LOCK_HEAD};
use crate::postgres::migrate;
use crate::rules::failure::Failure;
use crate::rules::notice::Receipted;
use crate::rules::value::{Params, Value};
use crate::rules::{self};
use crate::sqlite::state::State;
use ahead::{Known, expected, find_streams, first_answer, lock_handles, lock_streams, read_ahead, reads};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use switchboard_core::event::StoredEvent;
use switchboard_core::ids::InstanceNo;
use switchboard_core::ledger::Ledger;
use switchboard_core::time::WallMs;
use switchboard_core::write::{Appended, Receipt};

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
// Whoever holds one of them at that time without the head's lock is removing it.
const DELETE_SENT: &str = "DELETE FROM notices WHERE id IN
    (SELECT id FROM notices WHERE id = ANY(?::bigint[]) AND once = 1 ORDER BY id FOR UPDATE SKIP LOCKED)";
const PUT_POSITIONS: &str = "INSERT INTO inboxes (instance, agent, stream, position)
    SELECT * FROM unnest(?::bigint[], ?::text[], ?::bigint[], ?::bigint[])
    ON CONFLICT (instance, agent, stream) DO UPDATE SET position = excluded.position
    WHERE excluded.position > inboxes.position";
// Locks the head if it is still the one expected; else the division fails, and with it all that was sent behind it.
const EXPECT_HEAD: &str = "SELECT 1 / count(*) FROM (SELECT 1 FROM head WHERE commit_no = ? AND digest = ? AND directory = ? FOR UPDATE) AS expected";

/// Takes the directory's lock.
pub(super) const LOCK_DIRECTORY: &str = "SELECT 1 FROM directory FOR UPDATE";

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
    // Numbers of notices that were sent.
    sent: BTreeSet<i64>,
    // How far inboxes have come, by instance, agent and stream.
    positions: BTreeMap<(u32, String, u32), i64>,
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
    // Ids that were taken to be unused, and were then not used: nothing shows whether that is so.
    unproven_ids: Cell<usize>,
    // Once it is locked, or taken for granted.
    head: Cell<Option<HeadRow>>,
    // Whether it is taken for granted and yet to be locked.
    unlocked: Cell<bool>,
    last_notice: Cell<i64>,
    directory: i64,
    locked_directory: bool,
    changes_directory: bool,
    locked_streams: BTreeSet<u32>,
    probe_ms: Option<WallMs>,
    wrote: Cell<bool>,
    changes: Cell<u64>,
}

impl<'t> Tx<'t> {
    /// Begins, locks and reads ahead what `plan` says. `directory` is the count at which `state` was read.
    pub(crate) fn begin(
        session: &'t Session,
        state: &'t mut State,
        directory: i64,
        mut plan: Plan,
    ) -> Result<Self, Failure> {
        let mut steps = vec![Step::Plain("BEGIN")];
        if plan.directory {
            steps.push(Step::Plain(LOCK_DIRECTORY));
            if plan.finds_streams() {
                session.run(&std::mem::take(&mut steps))?;
                find_streams(session, state, &mut plan)?;
            }
        }
        let known = read_ahead(session, state, directory, &plan, steps)?;
        Ok(Self::new(session, state, directory, plan, known))
    }

    /// Begins a transaction that holds only if `head` is still the head, and so `state` what the database says of the plan's
    /// streams: nothing needs to be asked, unless the plan or the rules have something to read. The last round trip finds out, so
    /// that the head is not held before.
    pub(crate) fn expecting(
        session: &'t Session,
        state: &'t mut State,
        head: HeadRow,
        plan: Plan,
    ) -> Result<Self, Failure> {
        state.directory_version = head.version;
        let mut opening = vec![Step::Plain("BEGIN"), lock_streams(&plan)];
        opening.extend(lock_handles(&plan));
        // Those that are there after all are found by the index that forbids them, if they are used.
        let taken_for_unused = plan.ids.iter().map(|(of, id)| (of.0, id.clone())).collect();
        let mut known = Known { taken_for_unused, ..Known::default() };
        if plan.reads() {
            let lead = opening.len();
            opening.extend(reads(&plan));
            let answers = session.run(&std::mem::take(&mut opening))?;
            known.read(&plan, &answers[lead..])?;
        }
        let tx = Self::new(session, state, head.directory, plan, known);
        tx.opening.replace(opening);
        tx.head.set(Some(head));
        tx.unlocked.set(true);
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
            unproven_ids: Cell::new(0),
            head: Cell::new(None),
            unlocked: Cell::new(false),
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

    /// Whether the head is taken for granted, and nobody has compared it.
    pub(crate) fn is_unproven(&self) -> bool {
        self.unlocked.get()
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
            before.extend(self.expect_head(&head));
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
            return Err(Failure::Stale);
        }
        self.head.set(Some(head));
        self.last_notice.set(head.notice);
        Ok(head)
    }

    // What locks a head that is taken for granted, once.
    fn expect_head(&self, head: &HeadRow) -> Option<Step> {
        self.unlocked.take().then(|| Step::One(EXPECT_HEAD, expected(head)))
    }

    // Everything that waits and needs no lock of the head, as steps in an order in which nothing waits for another row of its own.
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

    // Writes everything that waits and then runs `sql`, which sees it, in one round trip. No rule reads what is written under the
    // head's lock (notices and positions), which is not to be taken for that.
    fn send_behind(&self, sql: &'static str, params: Params<'_>) -> Result<Done, Failure> {
        self.flush(sql)?;
        let mut steps = self.take_waiting();
        steps.push(Step::One(sql, owned(params)));
        Ok(self.send(steps)?.pop().unwrap_or_default())
    }

    // What changes notices goes behind everything that waits.
    fn flush(&self, sql: &str) -> Result<(), Failure> {
        if sql.starts_with("DELETE FROM notices") {
            self.lock_head(self.take_waiting())?;
            self.send(self.take_notices())?;
        }
        Ok(())
    }

    // What waits for the head's lock: as nobody changes notices and positions without it, nobody waits for another with it.
    fn take_behind_head(&self) -> Vec<Step> {
        let mut steps = self.take_notices();
        let waiting = &mut *self.waiting.borrow_mut();
        let sent = std::mem::take(&mut waiting.sent);
        if !sent.is_empty() {
            steps.push(Step::Many(DELETE_SENT, vec![sent.into_iter().map(Value::Int).collect()]));
        }
        let mut columns = Vec::new();
        for ((instance, agent, stream), position) in std::mem::take(&mut waiting.positions) {
            let row = [
                Value::Int(instance.into()),
                Value::Text(agent.into()),
                Value::Int(stream.into()),
                Value::Int(position),
            ];
            push(&mut columns, row);
        }
        if !columns.is_empty() {
            steps.push(Step::Many(PUT_POSITIONS, columns));
        }
        steps
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

    // What stands under one id.
    fn id_row(&self, of: InstanceNo, client_id: &str) -> Result<Option<([u8; 16], Appended)>, Failure> {
        let key = (of.0, client_id.to_owned());
        let known = self.known.borrow();
        if let Some(known) = known.ids.get(&key) {
            return Ok(*known);
        }
        if known.taken_for_unused.contains(&key) {
            self.unproven_ids.set(self.unproven_ids.get() + 1);
            return Ok(None);
        }
        drop(known);
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
