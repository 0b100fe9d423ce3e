//! One open transaction of the writer: what the writes of a commit share.

use super::dedup as ids;
use super::failure::Failure;
use super::state::{Counter, Head, State, encode_ledger};
use rusqlite::{CachedStatement, Connection, Params, params};
use std::cell::Cell;
use std::sync::Arc;
use switchboard_core::digest::Digest;
use switchboard_core::event::StoredEvent;
use switchboard_core::ids::{EventId, StreamId};
use switchboard_core::ledger::Ledger;
use switchboard_core::log::{Entry, event_digest, record_digest};
use switchboard_core::time::WallMs;
use switchboard_core::write::Dedup;

/// Statements of the appending path, taken once a commit: looking one up costs as much as running it.
pub(crate) struct Hot<'c> {
    insert_event: CachedStatement<'c>,
    set_counter: CachedStatement<'c>,
    insert_log: CachedStatement<'c>,
}

impl<'c> Hot<'c> {
    fn take(conn: &'c Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            insert_event: conn.prepare_cached(
                "INSERT INTO events (id, kind, at_ms, expires_at_ms, thread, reply_to, from_instance, from_agent,
                                     to_instance, to_agent, client_id, content_digest, data)
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            )?,
            set_counter: conn.prepare_cached(
                "INSERT INTO counters (id, a, b, more) VALUES (?, ?, ?, ?)
                 ON CONFLICT (id) DO UPDATE SET a = excluded.a, b = excluded.b, more = excluded.more",
            )?,
            insert_log: conn.prepare_cached(
                "INSERT INTO log (commit_no, at_ms, entries, digest) VALUES (?, ?, ?, ?)",
            )?,
        })
    }
}

/// The transaction in which a group of batches is applied.
pub(crate) struct Tx<'t> {
    pub(crate) conn: &'t Connection,
    hot: Hot<'t>,
    pub(crate) state: &'t mut State,
    pub(crate) ids: &'t mut ids::Dedup,
    /// Stamp of the batch whose writes are being applied.
    pub(crate) at_ms: WallMs,
    /// Appended so far, in order.
    pub(crate) appended: Vec<Arc<StoredEvent>>,
    entries: Vec<u8>,
    // Streams whose counters have moved.
    moved: Vec<StreamId>,
    ledger_before: Ledger,
    wrote: Cell<bool>,
}

impl<'t> Tx<'t> {
    /// A transaction on `conn`, which has begun one.
    pub(crate) fn new(
        conn: &'t Connection,
        state: &'t mut State,
        ids: &'t mut ids::Dedup,
    ) -> rusqlite::Result<Self> {
        let ledger_before = state.ledger;
        Ok(Self {
            conn,
            hot: Hot::take(conn)?,
            state,
            ids,
            at_ms: 0,
            appended: Vec::new(),
            entries: Vec::new(),
            moved: Vec::new(),
            ledger_before,
            wrote: Cell::new(false),
        })
    }

    /// Runs a statement that changes rows; returns how many.
    pub(crate) fn run(&self, sql: &str, params: impl Params) -> rusqlite::Result<usize> {
        let changed = self.conn.prepare_cached(sql)?.execute(params)?;
        self.wrote.set(self.wrote.get() || changed > 0);
        Ok(changed)
    }

    /// Notes that rows have changed by other means than this.
    pub(crate) fn changed(&self) {
        self.wrote.set(true);
    }

    /// Adds an entry to the commit's log record.
    pub(crate) fn note(&mut self, entry: &Entry) {
        entry.encode(&mut self.entries);
        self.wrote.set(true);
    }

    /// Gives `event` the next place of `stream` and stores it. Its `id` is set here, and its thread when it begins one.
    pub(crate) fn store(
        &mut self,
        stream: StreamId,
        mut event: StoredEvent,
        begins_thread: bool,
        dedup: Option<&Dedup>,
    ) -> Result<Arc<StoredEvent>, Failure> {
        let head = self.state.streams.get_mut(&stream.0);
        let head = head.ok_or_else(|| Failure::Inconsistent(format!("stream {} is unknown", stream.0)))?;
        head.last += 1;
        let swarm = head.swarm;
        event.id = EventId { stream, seq: head.last };
        if begins_thread {
            event.thread = event.id;
        }
        self.hot.insert_event.execute(params![
            event.id.row(),
            event.kind as u8,
            event.at_ms,
            event.expires_at_ms,
            (!begins_thread).then(|| event.thread.row()),
            event.reply_to.map(EventId::row),
            event.from_instance.0,
            event.from_agent,
            event.to.as_ref().map(|to| to.instance.0),
            event.to.as_ref().map(|to| to.agent.as_str()),
            dedup.map(|dedup| dedup.client_id.as_str()),
            dedup.map(|dedup| dedup.digest),
            &event.data[..],
        ])?;
        let digest: Digest = event_digest(&event);
        let by = (!swarm).then_some(event.from_instance);
        self.note(&Entry::Event { id: event.id, kind: event.kind, by, digest });
        self.moved(stream);
        let event = Arc::new(event);
        self.appended.push(Arc::clone(&event));
        Ok(event)
    }

    /// Notes that a stream's counter is to be written.
    pub(crate) fn moved(&mut self, stream: StreamId) {
        if self.moved.last() != Some(&stream) {
            self.moved.push(stream);
        }
    }

    /// Writes a counter's row.
    pub(crate) fn set_counter(
        &mut self,
        id: i64,
        a: i64,
        b: i64,
        more: Option<&[u8]>,
    ) -> rusqlite::Result<()> {
        self.wrote.set(true);
        self.hot.set_counter.execute(params![id, a, b, more]).map(drop)
    }

    /// A number for a new notice.
    pub(crate) fn next_notice(&mut self) -> Result<i64, Failure> {
        self.state.last_notice += 1;
        let last = self.state.last_notice;
        self.set_counter(Counter::Notices as i64, last, 0, None)?;
        Ok(last)
    }

    /// A version for a changed row of the agent directory.
    pub(crate) fn next_version(&mut self) -> i64 {
        self.state.directory_version += 1;
        self.state.directory_version.cast_signed()
    }

    /// Writes what the commit as a whole needs: counters, ledger, the log record. `false` when the writes changed nothing,
    /// so that there is nothing to commit.
    pub(crate) fn seal(&mut self) -> Result<bool, Failure> {
        if !self.wrote.get() {
            return Ok(false);
        }
        let mut moved = std::mem::take(&mut self.moved);
        moved.sort_unstable();
        moved.dedup();
        for stream in moved {
            let Head { last, first, .. } = self.state.streams[&stream.0];
            self.set_counter(i64::from(stream.0), last.cast_signed(), first.cast_signed(), None)?;
        }
        self.state.commit += 1;
        self.ids.keep_up(self.conn, self.state.commit, self.at_ms)?;
        let commit = self.state.commit.cast_signed();
        let version = self.state.directory_version.cast_signed();
        let ledger = encode_ledger(&self.state.ledger);
        self.set_counter(Counter::Store as i64, commit, version, Some(&ledger))?;
        let digest = record_digest(&self.state.chain, self.state.commit, self.at_ms, &self.entries);
        self.hot.insert_log.execute(params![commit, self.at_ms, self.entries, digest])?;
        self.state.chain = digest;
        debug_assert!(
            self.state.ledger.is_balanced(),
            "{:?} after {:?}",
            self.state.ledger,
            self.ledger_before
        );
        Ok(true)
    }
}

/// A row count or limit as SQL takes it.
pub(crate) fn sql_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
