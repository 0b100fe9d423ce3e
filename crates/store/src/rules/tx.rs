//! What the rules ask of a backend.

use super::failure::{Failure, Stop};
use super::value::{Params, Row, values};
use crate::sqlite::state::{Head, State};
use std::sync::Arc;
use switchboard_core::event::StoredEvent;
use switchboard_core::ids::{EventId, InstanceNo, StreamId, VaultId};
use switchboard_core::log::Entry;
use switchboard_core::time::WallMs;
use switchboard_core::write::{Appended, Dedup, Receipt, Refusal};

use super::notice::Receipted;

/// An open transaction in which writes are applied.
pub(crate) trait Tx {
    /// Stamp of the batch whose writes are being applied.
    fn at_ms(&self) -> WallMs;
    /// The store's own clock, by which nodes are judged: where there is one node, its stamp.
    fn clock_ms(&mut self) -> Result<WallMs, Failure> {
        Ok(self.at_ms())
    }
    /// What the writer remembers.
    fn state(&self) -> &State;
    /// What the writer remembers; changed only along with the rows behind it.
    fn state_mut(&mut self) -> &mut State;
    /// A number that grows with every changed row, for checking that refusals change none.
    fn changes(&self) -> u64;

    /// Runs a statement that changes rows; returns how many.
    fn run(&self, sql: &'static str, params: Params<'_>) -> Result<usize, Failure>;
    /// Runs a statement that changes rows, how many does not matter: it may run later, but before anything reads.
    fn later(&self, sql: &'static str, params: Params<'_>) -> Result<(), Failure> {
        self.run(sql, params).map(drop)
    }
    /// Every row of a query, which must be bounded by itself.
    fn each(
        &self,
        sql: &'static str,
        params: Params<'_>,
        take: &mut dyn FnMut(&dyn Row) -> Result<(), Failure>,
    ) -> Result<(), Failure>;

    /// The one row of a query, if there is one.
    fn one<T>(
        &self,
        sql: &'static str,
        params: Params<'_>,
        map: impl FnOnce(&dyn Row) -> Result<T, Failure>,
    ) -> Result<Option<T>, Failure> {
        let (mut map, mut found) = (Some(map), None);
        self.each(sql, params, &mut |row| {
            if let Some(map) = map.take() {
                found = Some(map(row)?);
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// All rows of a query, which must be bounded by itself.
    fn all<T>(
        &self,
        sql: &'static str,
        params: Params<'_>,
        map: impl Fn(&dyn Row) -> Result<T, Failure>,
    ) -> Result<Vec<T>, Failure> {
        let mut found = Vec::new();
        self.each(sql, params, &mut |row| {
            found.push(map(row)?);
            Ok(())
        })?;
        Ok(found)
    }

    /// Takes the next stream number and makes its counter; the caller makes the stream's own row.
    fn create_stream(&mut self, head: Head) -> Result<StreamId, Stop>;
    /// Gives `event` the next place of `stream` and stores it. Its `id` is set here, and its thread when it begins one.
    fn store(
        &mut self,
        stream: StreamId,
        event: StoredEvent,
        begins_thread: bool,
        dedup: Option<&Dedup>,
    ) -> Result<Arc<StoredEvent>, Failure>;
    /// Notes that a stream's counter is to be written.
    fn moved(&mut self, stream: StreamId);
    /// What an id of this instance was used for.
    fn used_id(
        &mut self,
        instance: InstanceNo,
        client_id: &str,
    ) -> Result<Option<([u8; 16], Appended)>, Failure>;
    /// Remembers an id.
    fn remember_id(&mut self, instance: InstanceNo, dedup: &Dedup, first: &Appended) -> Result<(), Failure>;
    /// The messages of these ids are about to go; what is remembered of the ids stays.
    fn messages_go(&mut self, ids: &[(InstanceNo, String)]) -> Result<(), Failure> {
        let _ = ids;
        Ok(())
    }
    /// Forgets ids whose time is over, looking at a bounded part of them; what it removes counts against `room` where it is rows.
    fn sweep_ids(&mut self, limit: usize, room: &mut usize) -> Result<(), Failure>;

    /// A number for a new notice.
    fn next_notice(&mut self) -> Result<i64, Failure>;
    /// Queues the notice that tells a sender how far a receiver got, in place of the one before.
    fn status_notice(&mut self, receipt: &Receipt, of: &Receipted) -> Result<(), Failure>;
    /// Removes those of these notices that are sent once.
    fn notices_sent(&mut self, notices: &[i64]) -> Result<(), Failure> {
        for notice in notices {
            self.run("DELETE FROM notices WHERE id = ? AND once = 1", values![notice])?;
        }
        Ok(())
    }
    /// Moves an inbox on; it never moves back.
    fn put_positions(
        &mut self,
        instance: InstanceNo,
        agent: &str,
        positions: &[(StreamId, u64)],
    ) -> Result<(), Failure> {
        for (stream, position) in positions {
            let sql = "INSERT INTO inboxes (instance, agent, stream, position) VALUES (?, ?, ?, ?)
                       ON CONFLICT (instance, agent, stream) DO UPDATE SET position = excluded.position
                       WHERE excluded.position > inboxes.position";
            self.run(sql, values![instance.0, agent, stream.0, position.cast_signed()])?;
        }
        Ok(())
    }
    /// A version for a changed row of the agent directory.
    fn next_version(&mut self) -> i64;
    /// Lists an event as part of a thread.
    fn add_reply(&mut self, thread: EventId, event: EventId) -> Result<(), Failure> {
        let sql = "INSERT INTO replies (thread, event) VALUES (?, ?)";
        self.later(sql, values![thread.row(), event.row()])
    }
    /// Stores how far a receiver got.
    fn put_receipt(&mut self, receipt: &Receipt) -> Result<(), Failure> {
        let sql = "INSERT INTO receipts (event, instance, agent, state, at_ms) VALUES (?, ?, ?, ?, ?)
                   ON CONFLICT (event, instance, agent) DO UPDATE SET state = excluded.state, at_ms = excluded.at_ms";
        let key = (receipt.event.row(), receipt.instance.0, receipt.state as u8, self.at_ms());
        self.later(sql, values![key.0, key.1, receipt.agent, key.2, key.3])
    }
    /// What stands at `id`.
    fn event(&mut self, id: EventId) -> Result<Option<EventRow>, Failure> {
        self.one(EVENT_ROW, values![id.row()], |row| event_row(id, row))
    }
    /// How far a receiver got with an event, as stored.
    fn receipt_state(&mut self, event: EventId, by: (InstanceNo, &str)) -> Result<Option<u8>, Failure> {
        self.one(RECEIPT_STATE, values![event.row(), by.0.0, by.1], |row| row.get(0))
    }
    /// Instances that announced the agent in the vault at or after `since`, or are there.
    fn announcers(&mut self, vault: VaultId, agent: &str, since: WallMs) -> Result<Vec<InstanceNo>, Failure> {
        self.all(ANNOUNCERS, values![&vault.0, agent, since], |row| row.get(0).map(InstanceNo))
    }
    /// Writes the stamp of a probe.
    fn probe(&mut self) -> Result<(), Failure>;
    /// Adds an entry to the commit's log record.
    fn note(&mut self, entry: &Entry);

    /// Adds an [`Entry::Admitted`] in the name of an instance (or nobody) to the log record.
    fn admit(&mut self, verb: &str, actor: Option<InstanceNo>, subject: impl Into<String>) {
        let actor = actor.map_or_else(String::new, |actor| self.state().public_id(actor));
        self.note(&Entry::admitted(verb, actor, subject));
    }
}

/// What replies and receipts need to know of the event they speak of.
#[derive(Debug, Clone)]
pub(crate) struct EventRow {
    /// What it is.
    pub(crate) kind: u8,
    /// First message of its thread.
    pub(crate) thread: EventId,
    /// Sending instance.
    pub(crate) from_instance: InstanceNo,
    /// Sending agent.
    pub(crate) from_agent: String,
    /// Only receiver.
    pub(crate) to: Option<(InstanceNo, String)>,
    /// The sender's id for it.
    pub(crate) client_id: Option<String>,
    /// When it goes.
    pub(crate) expires_at_ms: WallMs,
}

/// Reads what [`event_row`] takes.
pub(crate) const EVENT_ROW: &str =
    "SELECT kind, thread, from_instance, from_agent, to_instance, to_agent, client_id, expires_at_ms
                         FROM events WHERE id = ?";

/// The same for many, with the row's number behind it.
#[cfg(feature = "postgres")]
pub(crate) const EVENT_ROW_COLUMNS_SQL: &str =
    "SELECT kind, thread, from_instance, from_agent, to_instance, to_agent, client_id, expires_at_ms, id
     FROM events WHERE id = ANY(?::bigint[])";
/// Reads a receipt's state.
pub(crate) const RECEIPT_STATE: &str =
    "SELECT state FROM receipts WHERE event = ? AND instance = ? AND agent = ?";
/// Reads who announced an agent lately: one that is there counts however long ago it said so.
pub(crate) const ANNOUNCERS: &str =
    "SELECT instance FROM agents WHERE vault = ? AND agent = ? AND (seen_ms >= ? OR state <> 3)";

/// The row of [`EVENT_ROW`].
pub(crate) fn event_row(id: EventId, row: &dyn Row) -> Result<EventRow, Failure> {
    let to = row.get::<Option<u32>>(4)?.map(InstanceNo);
    Ok(EventRow {
        kind: row.get(0)?,
        thread: row.get::<Option<i64>>(1)?.map_or(id, EventId::from_row),
        from_instance: InstanceNo(row.get(2)?),
        from_agent: row.get(3)?,
        to: to.zip(row.get(5)?),
        client_id: row.get(6)?,
        expires_at_ms: row.get(7)?,
    })
}

/// A row count or limit as SQL takes it.
pub(crate) fn sql_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Ends a write that must find a row.
pub(crate) fn found<T>(row: Option<T>) -> Result<T, Stop> {
    row.ok_or(Stop::Refused(Refusal::NotFound))
}
