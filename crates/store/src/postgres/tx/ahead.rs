//! What is read before the rules run: in one round trip with the locks, what the plan has foreseen.

use super::push;
use crate::postgres::plan::Plan;
use crate::postgres::session::{Done, Session, Step};
use crate::postgres::state::{HeadRow, READ_HEAD, numbers, refresh};
use crate::rules::failure::Failure;
use crate::rules::value::{Row, Value};
use crate::rules::{EVENT_ROW_COLUMNS_SQL, EventRow, due_streams, event_row};
use crate::sqlite::state::State;
use std::collections::{HashMap, HashSet};
use switchboard_core::ids::{EventId, InstanceNo, VaultId};
use switchboard_core::time::WallMs;
use switchboard_core::write::Appended;

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

type Ids = HashMap<(u32, String), Option<([u8; 16], Appended)>>;
type Names = HashMap<(VaultId, String), Vec<(InstanceNo, WallMs, u8)>>;

/// What was read ahead, and what of it this transaction has changed since.
#[derive(Default)]
pub(super) struct Known {
    pub(super) ids: Ids,
    /// Ids that nobody has looked up.
    pub(super) taken_for_unused: HashSet<(u32, String)>,
    pub(super) events: HashMap<i64, Option<EventRow>>,
    pub(super) receipts: HashMap<(i64, u32, String), Option<u8>>,
    pub(super) names: Names,
}

impl Plan {
    pub(super) fn reads(&self) -> bool {
        !(self.events.is_empty() && self.receipts.is_empty() && self.names.is_empty())
    }

    pub(super) fn finds_streams(&self) -> bool {
        self.sweep_ms.is_some() || self.expire_ms.is_some() || !self.tasks.is_empty()
    }
}

// The streams that retention, deadlines and decisions will reach.
pub(super) fn find_streams(session: &Session, state: &mut State, plan: &mut Plan) -> Result<(), Failure> {
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
pub(super) fn read_ahead(
    session: &Session,
    state: &mut State,
    directory: i64,
    plan: &Plan,
    mut steps: Vec<Step>,
) -> Result<Known, Failure> {
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
        return Err(Failure::Stale);
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
pub(super) fn expected(head: &HeadRow) -> Vec<Value<'static>> {
    // The directory's count tells of a change of the schema too.
    vec![
        Value::Int(head.commit.cast_signed()),
        Value::Blob(head.digest.to_vec().into()),
        Value::Int(head.directory),
    ]
}

pub(super) fn text(text: &str) -> Value<'static> {
    Value::Text(text.to_owned().into())
}

pub(super) fn lock_streams(plan: &Plan) -> Step {
    Step::Many(LOCK_STREAMS, vec![numbers(plan.streams.iter().copied())])
}

pub(super) fn lock_handles(plan: &Plan) -> Option<Step> {
    let handles: Vec<_> = plan.handles.iter().map(|handle| text(handle)).collect();
    (!handles.is_empty()).then(|| Step::Many(LOCK_HANDLES, vec![handles]))
}

fn read_ids(plan: &Plan) -> Step {
    let ids = plan.ids.iter();
    let of = ids.clone().map(|(of, _)| Value::Int(of.0.into())).collect();
    Step::Many(READ_IDS, vec![of, ids.map(|(_, id)| text(id)).collect()])
}

// What is read besides the ids; nothing is asked when the plan has none of it.
pub(super) fn reads(plan: &Plan) -> Vec<Step> {
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
    pub(super) fn read(&mut self, plan: &Plan, answers: &[Done]) -> Result<(), Failure> {
        let mut answers = answers.iter();
        let mut next = |asked: bool| {
            let answer = if asked { answers.next() } else { None };
            answer.map_or(&[][..], |answer| &answer.rows[..])
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
pub(super) fn first_answer(row: &dyn Row, at: usize) -> Result<([u8; 16], Appended), Failure> {
    let appended = Appended {
        id: EventId::from_row(row.get(at + 1)?),
        thread: EventId::from_row(row.get(at + 2)?),
        at_ms: row.get(at + 3)?,
        expires_at_ms: row.get(at + 4)?,
        repeat: true,
    };
    Ok((row.get(at)?, appended))
}
