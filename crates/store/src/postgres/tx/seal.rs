//! The end of a transaction: what the commit as a whole needs, and the last round trip.

use super::{Tx, push};
use crate::postgres::session::{Arg, Step};
use crate::postgres::state::{HeadRow, numbers};
use crate::rules::failure::Failure;
use crate::rules::value::Value;
use crate::sqlite::state::{Head, encode_ledger};
use std::collections::BTreeSet;
use switchboard_core::ledger::Ledger;
use switchboard_core::log::record_digest;
use switchboard_core::time::WallMs;

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

impl Tx<'_> {
    /// Writes what the commit as a whole needs: counters, ledger, the log record. `None` when the writes changed nothing, so that
    /// there is nothing to commit. Returns the steps of the last round trip, the one that commits included.
    pub(crate) fn seal(&mut self, command: [u8; 16]) -> Result<Option<Sealed>, Failure> {
        if self.unproven_ids.get() > 0 {
            // Something was refused whose first answer may be known.
            return Err(Failure::Conflict);
        }
        if !self.wrote.get() {
            if self.is_unproven() && self.is_open() {
                // What was read holds if the head still is the one expected.
                self.lock_head(Vec::new())?;
            }
            return Ok(None);
        }
        let head = match self.head.get() {
            Some(head) => head,
            None => self.lock_head(self.take_waiting())?,
        };
        let mut steps = Vec::new();
        self.ledger_onto(head.ledger)?;
        let one_statement = self.is_plain();
        if !one_statement {
            steps.append(&mut self.opening.take());
            steps.extend(self.take_waiting());
            steps.extend(self.expect_head(&head));
            steps.extend(self.take_behind_head());
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
            && waiting.sent.is_empty()
            && waiting.positions.is_empty()
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
        args.extend(super::ahead::expected(before).into_iter().map(Arg::One));
        args.extend(std::mem::take(&mut waiting.events).into_iter().map(Arg::Many));
        args.extend(std::mem::take(&mut waiting.ids).into_iter().map(Arg::Many));
        args.extend(counters.into_iter().map(Arg::Many));
        args.extend(record.values().into_iter().map(Arg::One));
        Step::Mixed(APPEND, args)
    }

    // What this transaction changed, onto what the ledger is by now. One that is taken for granted may lack the unit that is settled
    // here: then another node has committed since.
    fn ledger_onto(&mut self, now: Ledger) -> Result<(), Failure> {
        let (before, after) = (self.ledger_before, self.state.ledger);
        let unproven = self.is_unproven();
        let moved = |now: u64, before: u64, after: u64| {
            let by = after.wrapping_sub(before).cast_signed();
            match now.checked_add_signed(by) {
                None if unproven => Err(Failure::Conflict),
                _ => Ok(now.wrapping_add_signed(by)),
            }
        };
        self.state.ledger = Ledger {
            accepted: moved(now.accepted, before.accepted, after.accepted)?,
            delivered: moved(now.delivered, before.delivered, after.delivered)?,
            answered: moved(now.answered, before.answered, after.answered)?,
            expired: moved(now.expired, before.expired, after.expired)?,
            refused: moved(now.refused, before.refused, after.refused)?,
            dead: moved(now.dead, before.dead, after.dead)?,
            unknown: moved(now.unknown, before.unknown, after.unknown)?,
            pending: moved(now.pending, before.pending, after.pending)?,
        };
        debug_assert!(self.state.ledger.is_balanced(), "{:?}", self.state.ledger);
        Ok(())
    }
}
