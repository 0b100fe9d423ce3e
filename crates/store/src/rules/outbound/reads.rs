//! Reads of the outbound plane, written once: a backend only runs a query.

#![expect(
    clippy::needless_pass_by_value,
    reason = "the port hands over what a query may need for longer than the call"
)]

use super::escalate;
use super::rows::{
    self, ATTEMPTS, CONSENTS, COUNTS, PARTS, RUNG_COLUMNS, SEND_COLUMNS, approval_columns, rung_columns,
    send_columns, topic_columns,
};
use crate::rules::failure::Failure;
use crate::rules::tx::sql_limit;
use crate::rules::value::{AsValue, Row, Value};
use std::borrow::Cow;
use switchboard_core::ids::PersonNo;
use switchboard_core::ledger::Ledger;
use switchboard_core::outbound::escalate::{DueRung, RungRow};
use switchboard_core::outbound::quiet::Quiet;
use switchboard_core::outbound::send::{
    ApprovalRow, AttemptRow, ConsentRow, PartRow, SendDetail, SendFilter, SendRow, SendState, TopicRow,
};
use switchboard_core::port::store::{Fut, StoreError};
use switchboard_core::time::WallMs;

/// One question to the database.
pub(crate) struct Query<T> {
    /// The statement, with question marks.
    pub(crate) sql: Cow<'static, str>,
    /// Its parameters.
    pub(crate) params: Vec<Value<'static>>,
    /// What a row means.
    pub(crate) map: fn(&dyn Row) -> Result<T, Failure>,
}

/// A backend that runs queries.
pub(crate) trait Ask: Send + Sync {
    /// All rows.
    fn rows<T: Send + 'static>(&self, query: Query<T>) -> Fut<'_, Vec<T>>;
    /// All rows of several queries, one after the other, all of one state of the database.
    fn together<T: Send + 'static>(&self, queries: Vec<Query<T>>) -> Fut<'_, Vec<T>>;
}

fn query<T>(sql: impl Into<Cow<'static, str>>, map: fn(&dyn Row) -> Result<T, Failure>) -> Query<T> {
    Query { sql: sql.into(), params: Vec::new(), map }
}

impl<T> Query<T> {
    fn with(mut self, value: &dyn AsValue) -> Self {
        self.params.push(owned(value.as_value()));
        self
    }
}

fn owned(value: Value<'_>) -> Value<'static> {
    match value {
        Value::Null => Value::Null,
        Value::Int(number) => Value::Int(number),
        Value::Text(text) => Value::Text(text.into_owned().into()),
        Value::Blob(bytes) => Value::Blob(bytes.into_owned().into()),
    }
}

const SEND: &str = concat!(
    "SELECT ",
    send_columns!(),
    ", i.instance_id FROM sends s
                            JOIN instances i ON i.id = s.instance WHERE s.send_id = ?"
);
const SEND_BY_NO: &str = concat!("SELECT ", send_columns!(), " FROM sends s WHERE s.no = ?");
const TOPIC_OF: &str = concat!(
    "SELECT ",
    topic_columns!(),
    " FROM sends s JOIN topics t ON t.topic_id = s.topic_id WHERE s.send_id = ?"
);
const RUNGS_OF: &str = concat!(
    "SELECT ",
    rung_columns!(),
    " FROM sends s JOIN rungs r ON r.topic_id = s.topic_id WHERE s.send_id = ? ORDER BY r.rung"
);
const APPROVAL_OF: &str = concat!(
    "SELECT ",
    approval_columns!(),
    " FROM sends s JOIN approvals a ON a.send = s.no WHERE s.send_id = ?"
);
const TOPIC: &str = concat!(
    "SELECT ",
    send_columns!(),
    ", ",
    topic_columns!(),
    " FROM topics t JOIN sends s ON s.no = t.send WHERE t.topic_id = ?"
);
pub(super) const OPEN_TOPICS: &str = concat!(
    "SELECT ",
    send_columns!(),
    ", ",
    topic_columns!(),
    " FROM topics t JOIN sends s ON s.no = t.send WHERE t.state < 3
      ORDER BY t.state DESC, t.deadline_ms IS NULL, t.deadline_ms, t.send LIMIT 500"
);
const APPROVALS: &str = concat!(
    "SELECT ",
    send_columns!(),
    ", ",
    approval_columns!(),
    " FROM approvals a JOIN sends s ON s.no = a.send ORDER BY a.send DESC LIMIT ?"
);
// The sign keeps SQLite from walking all that were ever decided in their order.
pub(super) const PENDING_APPROVALS: &str = concat!(
    "SELECT ",
    send_columns!(),
    ", ",
    approval_columns!(),
    " FROM approvals a JOIN sends s ON s.no = a.send WHERE a.state = 1 ORDER BY +a.send DESC LIMIT ?"
);
const APPROVAL: &str = concat!(
    "SELECT ",
    send_columns!(),
    ", ",
    approval_columns!(),
    " FROM approvals a JOIN sends s ON s.no = a.send WHERE a.approval_id = ?"
);
// What is being attempted ends by itself first; then this is asked again.
pub(super) const NEXT_END: &str = "SELECT min(at) FROM (
    SELECT (SELECT s.deadline_ms FROM sends s WHERE s.state < 5 AND s.deadline_ms IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM parts p WHERE p.send = s.no AND p.state = 3) ORDER BY s.deadline_ms LIMIT 1) AS at
    UNION ALL SELECT min(expires_ms) FROM approvals WHERE state = 1
    UNION ALL SELECT min(t.deadline_ms) FROM topics t CROSS JOIN sends s
        WHERE t.state IN (1, 2) AND t.state < 3 AND s.no = t.send AND s.state > 5) AS ends";
pub(super) const NEXT_DUE: &str = "SELECT min(next_ms) FROM parts WHERE channel = ? AND state = 2";
pub(super) const NEXT_AMEND: &str =
    "SELECT min(next_ms) FROM amends WHERE channel = ? AND next_ms IS NOT NULL";
const OPEN_RUNGS: &str = concat!(
    "SELECT ",
    rung_columns!(),
    " FROM topics t CROSS JOIN rungs r WHERE r.topic_id = t.topic_id AND t.state IN (1, 2) AND t.state < 3
      ORDER BY r.topic_id, r.rung LIMIT 4000"
);
pub(super) const NEXT_RUNG: &str = "SELECT min(next_ms) FROM rungs WHERE next_ms IS NOT NULL";
pub(super) const DUE_RUNGS: &str = concat!(
    "SELECT ",
    rung_columns!(),
    ", s.agent, s.rule, r.params, t.deadline_ms FROM rungs r JOIN topics t ON t.topic_id = r.topic_id JOIN sends s ON s.no = t.send
     WHERE r.next_ms IS NOT NULL AND r.next_ms <= ? AND t.state = 2 ORDER BY r.next_ms, r.topic_id, r.rung LIMIT 100"
);
pub(super) const NEXT_QUIET: &str = "SELECT min(until_ms) FROM quieted WHERE digest IS NULL";
pub(super) const QUIET_OVER: &str = concat!(
    "SELECT ",
    send_columns!(),
    " FROM quieted q JOIN sends s ON s.no = q.send WHERE q.digest IS NULL AND q.until_ms <= ? ORDER BY q.until_ms, q.send LIMIT ?"
);
const QUIET_HOURS: &str = "SELECT p.id, p.name, q.zone, q.from_time, q.until_time FROM quiet_hours q
    JOIN persons p ON p.id = q.person ORDER BY p.name LIMIT 10000";
pub(super) const TO_RELEASE: &str = "SELECT s.no FROM sends s JOIN approvals a ON a.send = s.no
    WHERE s.state = 1 AND s.state < 5 AND a.state = 2
    AND NOT EXISTS (SELECT 1 FROM parts p WHERE p.send = s.no AND p.state = 9) ORDER BY s.no LIMIT 100";

fn with_topic(row: &dyn Row) -> Result<(TopicRow, SendRow), Failure> {
    Ok((rows::topic(row, SEND_COLUMNS)?, rows::send(row)?))
}

fn with_approval(row: &dyn Row) -> Result<(ApprovalRow, SendRow), Failure> {
    Ok((rows::approval(row, SEND_COLUMNS)?, rows::send(row)?))
}

fn first<T>(rows: Vec<T>) -> Option<T> {
    rows.into_iter().next()
}

// What a send consists of, in the order in which it is read.
enum Piece {
    Send(Box<SendRow>, String),
    Topic(TopicRow),
    Part(PartRow),
    Attempt(AttemptRow),
    Approval(ApprovalRow),
    Rung(RungRow),
}

/// A statement and what its rows are.
type Told = (&'static str, fn(&dyn Row) -> Result<Piece, Failure>);

async fn detail(store: &impl Ask, send_id: String) -> Result<Option<SendDetail>, StoreError> {
    let pieces: [Told; 6] = [
        (SEND, |row| Ok(Piece::Send(Box::new(rows::send(row)?), row.get(SEND_COLUMNS)?))),
        (TOPIC_OF, |row| rows::topic(row, 0).map(Piece::Topic)),
        (PARTS, |row| rows::part(row).map(Piece::Part)),
        (ATTEMPTS, |row| rows::attempt(row).map(Piece::Attempt)),
        (APPROVAL_OF, |row| rows::approval(row, 0).map(Piece::Approval)),
        (RUNGS_OF, |row| rows::rung(row).map(Piece::Rung)),
    ];
    let queries = pieces.into_iter().map(|(sql, map)| query(sql, map).with(&send_id)).collect();
    let mut found: Option<SendDetail> = None;
    for piece in store.together(queries).await? {
        match (piece, &mut found) {
            (Piece::Send(send, instance_id), _) => {
                let (parts, attempts, rungs) = (Vec::new(), Vec::new(), Vec::new());
                let (send, topic, approval) = (*send, None, None);
                found = Some(SendDetail { send, instance_id, parts, attempts, topic, rungs, approval });
            }
            (Piece::Topic(topic), Some(detail)) => detail.topic = Some(topic),
            (Piece::Part(part), Some(detail)) => detail.parts.push(part),
            (Piece::Attempt(attempt), Some(detail)) => detail.attempts.push(attempt),
            (Piece::Rung(rung), Some(detail)) => detail.rungs.push(rung),
            (Piece::Approval(approval), Some(detail)) => detail.approval = Some(approval),
            (_, None) => return Ok(None),
        }
    }
    Ok(found)
}

// Conditions are put together of fixed pieces and numbers of states; what varies is a parameter. What all the states have in
// common is said too, for the sake of the partial indexes.
pub(super) fn listing(filter: &SendFilter) -> Query<SendRow> {
    let mut sql = String::from(concat!("SELECT ", send_columns!(), " FROM sends s WHERE s.no < ?"));
    if !filter.states.is_empty() {
        let numbers: Vec<_> = filter.states.iter().map(|state| (*state as u8).to_string()).collect();
        sql = format!("{sql} AND s.state IN ({})", numbers.join(", "));
        if filter.states.iter().all(|state| !state.is_terminal()) {
            sql.push_str(" AND s.state < 5");
        } else if filter.states.iter().all(|state| *state > SendState::Delivered) {
            sql.push_str(" AND s.state > 5");
        }
    }
    if filter.instance.is_some() {
        sql.push_str(" AND s.instance = ?");
    }
    if filter.channel.is_some() {
        sql.push_str(" AND s.channel = ?");
    }
    sql.push_str(" ORDER BY s.no DESC LIMIT ?");
    let mut listing = query(sql, rows::send).with(&filter.before.unwrap_or(i64::MAX));
    if let Some(instance) = filter.instance {
        listing = listing.with(&instance.0);
    }
    if let Some(channel) = &filter.channel {
        listing = listing.with(channel);
    }
    listing.with(&sql_limit(filter.limit))
}

pub(crate) fn send(store: &impl Ask, send_id: String) -> Fut<'_, Option<SendDetail>> {
    Box::pin(detail(store, send_id))
}

pub(crate) fn sends(store: &impl Ask, filter: SendFilter) -> Fut<'_, Vec<SendRow>> {
    store.rows(listing(&filter))
}

pub(crate) fn send_by_no(store: &impl Ask, no: i64) -> Fut<'_, Option<SendRow>> {
    let found = store.rows(query(SEND_BY_NO, rows::send).with(&no));
    Box::pin(async { Ok(first(found.await?)) })
}

pub(crate) fn topic(store: &impl Ask, topic_id: String) -> Fut<'_, Option<(TopicRow, SendRow)>> {
    let found = store.rows(query(TOPIC, with_topic).with(&topic_id));
    Box::pin(async { Ok(first(found.await?)) })
}

pub(crate) fn open_topics(store: &impl Ask) -> Fut<'_, Vec<(TopicRow, SendRow)>> {
    store.rows(query(OPEN_TOPICS, with_topic))
}

pub(crate) fn waiting(store: &impl Ask) -> Fut<'_, (u64, u64)> {
    let sql = "SELECT (SELECT count(*) FROM topics WHERE state = 2), (SELECT count(*) FROM approvals WHERE state = 1)";
    let map = |row: &dyn Row| Ok((row.get::<i64>(0)?.cast_unsigned(), row.get::<i64>(1)?.cast_unsigned()));
    let found = store.rows(query(sql, map));
    Box::pin(async { Ok(first(found.await?).unwrap_or_default()) })
}

pub(crate) fn approvals(
    store: &impl Ask,
    pending_only: bool,
    limit: usize,
) -> Fut<'_, Vec<(ApprovalRow, SendRow)>> {
    let sql = if pending_only { PENDING_APPROVALS } else { APPROVALS };
    store.rows(query(sql, with_approval).with(&sql_limit(limit)))
}

pub(crate) fn approval(store: &impl Ask, approval_id: String) -> Fut<'_, Option<(ApprovalRow, SendRow)>> {
    let found = store.rows(query(APPROVAL, with_approval).with(&approval_id));
    Box::pin(async { Ok(first(found.await?)) })
}

pub(crate) fn consents(store: &impl Ask) -> Fut<'_, Vec<ConsentRow>> {
    store.rows(query(CONSENTS, rows::consent))
}

pub(crate) fn next_due(store: &impl Ask, channel: String) -> Fut<'_, Option<WallMs>> {
    let found = store.rows(query(NEXT_DUE, |row| row.get::<Option<WallMs>>(0)).with(&channel));
    Box::pin(async { Ok(first(found.await?).flatten()) })
}

pub(crate) fn next_amend(store: &impl Ask, channel: String) -> Fut<'_, Option<WallMs>> {
    let found = store.rows(query(NEXT_AMEND, |row| row.get::<Option<WallMs>>(0)).with(&channel));
    Box::pin(async { Ok(first(found.await?).flatten()) })
}

pub(crate) fn next_quiet(store: &impl Ask) -> Fut<'_, Option<WallMs>> {
    let found = store.rows(query(NEXT_QUIET, |row| row.get::<Option<WallMs>>(0)));
    Box::pin(async { Ok(first(found.await?).flatten()) })
}

pub(crate) fn quiet_over(store: &impl Ask, now_ms: WallMs, limit: usize) -> Fut<'_, Vec<SendRow>> {
    store.rows(query(QUIET_OVER, rows::send).with(&now_ms).with(&sql_limit(limit)))
}

pub(crate) fn quiet_hours(store: &impl Ask) -> Fut<'_, Vec<(PersonNo, String, Quiet)>> {
    store.rows(query(QUIET_HOURS, |row| {
        Ok((PersonNo(row.get(0)?), row.get(1)?, super::quiet::hours(row, 2)?))
    }))
}

pub(crate) fn next_end(store: &impl Ask) -> Fut<'_, Option<WallMs>> {
    let found = store.rows(query(NEXT_END, |row| row.get::<Option<WallMs>>(0)));
    Box::pin(async { Ok(first(found.await?).flatten()) })
}

pub(crate) fn rungs(store: &impl Ask, topic_id: Option<String>) -> Fut<'_, Vec<RungRow>> {
    match topic_id {
        Some(topic_id) => store.rows(query(escalate::OF_TOPIC, rows::rung).with(&topic_id)),
        None => store.rows(query(OPEN_RUNGS, rows::rung)),
    }
}

pub(crate) fn next_rung(store: &impl Ask) -> Fut<'_, Option<WallMs>> {
    let found = store.rows(query(NEXT_RUNG, |row| row.get::<Option<WallMs>>(0)));
    Box::pin(async { Ok(first(found.await?).flatten()) })
}

pub(crate) fn due_rungs(store: &impl Ask, now_ms: WallMs) -> Fut<'_, Vec<DueRung>> {
    let map = |row: &dyn Row| {
        Ok(DueRung {
            rung: rows::rung(row)?,
            agent: row.get(RUNG_COLUMNS)?,
            approved_by: row.get(RUNG_COLUMNS + 1)?,
            params: row.get::<Option<String>>(RUNG_COLUMNS + 2)?.unwrap_or_default(),
            deadline_ms: row.get(RUNG_COLUMNS + 3)?,
        })
    };
    store.rows(query(DUE_RUNGS, map).with(&now_ms))
}

pub(crate) fn to_release(store: &impl Ask) -> Fut<'_, Vec<i64>> {
    store.rows(query(TO_RELEASE, |row| row.get::<i64>(0)))
}

pub(crate) fn outbound_ledger(store: &impl Ask) -> Fut<'_, Ledger> {
    let counts = store.rows(query(COUNTS, |row| Ok((row.get(0)?, row.get(1)?))));
    Box::pin(async { Ok(rows::ledger(&counts.await?)) })
}

pub(crate) fn people(store: &impl Ask) -> Fut<'_, Vec<(PersonNo, String)>> {
    let sql = "SELECT id, name FROM persons ORDER BY name LIMIT 10000";
    store.rows(query(sql, |row| Ok((PersonNo(row.get(0)?), row.get(1)?))))
}

/// Makes a backend that runs queries tell of the outbound plane.
macro_rules! outbound_reads {
    ($store:ty) => {
        impl switchboard_core::port::outbound::OutboundReads for $store {
            fn sends(&self, filter: SendFilter) -> Fut<'_, Vec<SendRow>> {
                $crate::rules::outbound::reads::sends(self, filter)
            }
            fn send(&self, send_id: String) -> Fut<'_, Option<SendDetail>> {
                $crate::rules::outbound::reads::send(self, send_id)
            }
            fn send_by_no(&self, no: i64) -> Fut<'_, Option<SendRow>> {
                $crate::rules::outbound::reads::send_by_no(self, no)
            }
            fn topic(&self, topic_id: String) -> Fut<'_, Option<(TopicRow, SendRow)>> {
                $crate::rules::outbound::reads::topic(self, topic_id)
            }
            fn open_topics(&self) -> Fut<'_, Vec<(TopicRow, SendRow)>> {
                $crate::rules::outbound::reads::open_topics(self)
            }
            fn waiting(&self) -> Fut<'_, (u64, u64)> {
                $crate::rules::outbound::reads::waiting(self)
            }
            fn approvals(&self, pending_only: bool, limit: usize) -> Fut<'_, Vec<(ApprovalRow, SendRow)>> {
                $crate::rules::outbound::reads::approvals(self, pending_only, limit)
            }
            fn approval(&self, approval_id: String) -> Fut<'_, Option<(ApprovalRow, SendRow)>> {
                $crate::rules::outbound::reads::approval(self, approval_id)
            }
            fn consents(&self) -> Fut<'_, Vec<ConsentRow>> {
                $crate::rules::outbound::reads::consents(self)
            }
            fn next_due(&self, channel: String) -> Fut<'_, Option<WallMs>> {
                $crate::rules::outbound::reads::next_due(self, channel)
            }
            fn next_amend(&self, channel: String) -> Fut<'_, Option<WallMs>> {
                $crate::rules::outbound::reads::next_amend(self, channel)
            }
            fn next_quiet(&self) -> Fut<'_, Option<WallMs>> {
                $crate::rules::outbound::reads::next_quiet(self)
            }
            fn quiet_over(&self, now_ms: WallMs, limit: usize) -> Fut<'_, Vec<SendRow>> {
                $crate::rules::outbound::reads::quiet_over(self, now_ms, limit)
            }
            fn quiet_hours(
                &self,
            ) -> Fut<'_, Vec<(PersonNo, String, switchboard_core::outbound::quiet::Quiet)>> {
                $crate::rules::outbound::reads::quiet_hours(self)
            }
            fn next_end(&self) -> Fut<'_, Option<WallMs>> {
                $crate::rules::outbound::reads::next_end(self)
            }
            fn rungs(
                &self,
                topic_id: Option<String>,
            ) -> Fut<'_, Vec<switchboard_core::outbound::escalate::RungRow>> {
                $crate::rules::outbound::reads::rungs(self, topic_id)
            }
            fn next_rung(&self) -> Fut<'_, Option<WallMs>> {
                $crate::rules::outbound::reads::next_rung(self)
            }
            fn due_rungs(
                &self,
                now_ms: WallMs,
            ) -> Fut<'_, Vec<switchboard_core::outbound::escalate::DueRung>> {
                $crate::rules::outbound::reads::due_rungs(self, now_ms)
            }
            fn to_release(&self) -> Fut<'_, Vec<i64>> {
                $crate::rules::outbound::reads::to_release(self)
            }
            fn outbound_ledger(&self) -> Fut<'_, Ledger> {
                $crate::rules::outbound::reads::outbound_ledger(self)
            }
            fn people(&self) -> Fut<'_, Vec<(PersonNo, String)>> {
                $crate::rules::outbound::reads::people(self)
            }
        }
    };
}
pub(crate) use outbound_reads;
