//! The full-text index: a file of its own, derived from the log, that a background thread feeds in batches. It may be
//! deleted at any time: it is made again from the database.
//!
//! The thread follows the log record by record, so that both what was appended and what retention removed reach the index
//! in their order, and it stores how far it came in the transaction that brought it there.

use super::connect;
use super::read::stream;
use super::text::searchable;
use parking_lot::{Condvar, Mutex};
use rusqlite::{Connection, OptionalExtension as _, params};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use switchboard_core::ids::{EventId, StreamId};
use switchboard_core::log::{Entry, GENESIS};

/// Version of the index's own form; another one is made anew.
const FORM: i64 = 1;
/// Events one transaction of the index takes, roughly.
const BATCH_EVENTS: usize = 512;
/// Log records read at a time.
const BATCH_RECORDS: i64 = 256;
/// Bytes of log entries read at a time.
const BATCH_ENTRY_BYTES: usize = 256 * 1024;
/// The index waits for a pause this long: while messages pour in, the processor belongs to them. Longer than a large commit
/// takes on a slow disk.
const PAUSE: Duration = Duration::from_millis(250);
/// Pauses waited for at the most: the longest lag is 30 s.
const PAUSES_MAX: u32 = 120;
/// How long a search waits for the index to catch up.
const SEARCH_WAIT: Duration = Duration::from_secs(2);

const SCHEMA: &str = "
    CREATE VIRTUAL TABLE fts USING fts5(
        text, content = '', contentless_delete = 1, tokenize = 'unicode61 remove_diacritics 2'
    );
    -- How far it came: commit and its digest (another database's differs), events seen in all, form of this file.
    CREATE TABLE progress (
        id INTEGER PRIMARY KEY CHECK (id = 1), commit_no INTEGER NOT NULL, digest BLOB NOT NULL,
        events INTEGER NOT NULL, form INTEGER NOT NULL
    ) STRICT;
    -- First sequence the index still has, by stream.
    CREATE TABLE swept (stream INTEGER PRIMARY KEY, first INTEGER NOT NULL) STRICT;";

/// How the rest of the store reaches the indexing thread.
#[derive(Default)]
pub(crate) struct Bell {
    state: Mutex<Ring>,
    wake: Condvar,
    caught_up: Condvar,
    // Events the index has seen since the first start.
    seen: AtomicU64,
}

/// How much the index is wanted.
#[derive(Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// Nothing is new.
    #[default]
    No,
    /// Something is new.
    Yes,
    /// Somebody searches and waits.
    Asked,
}

#[derive(Default)]
struct Ring {
    due: Due,
    asleep: bool,
    closed: bool,
    // Commit the index has come to.
    commit: u64,
}

impl Bell {
    /// There are new events; called by the writer after a commit.
    pub(crate) fn ring(&self) {
        let mut state = self.state.lock();
        state.due = state.due.max(Due::Yes);
        if state.asleep {
            self.wake.notify_one();
        }
    }

    /// Ends the thread.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.wake.notify_all();
        self.caught_up.notify_all();
    }

    /// Events the index has seen since the first start.
    pub(crate) fn seen(&self) -> u64 {
        self.seen.load(Ordering::Relaxed)
    }

    /// Somebody searches: waits a moment for the index to come as far as `commit`. What is still missing then is found by a
    /// later search.
    pub(crate) fn ask(&self, commit: u64) {
        let mut state = self.state.lock();
        state.due = Due::Asked;
        self.wake.notify_all();
        let behind = |state: &mut Ring| state.commit < commit && !state.closed;
        self.caught_up.wait_while_for(&mut state, behind, SEARCH_WAIT);
    }

    fn came_to(&self, commit: u64) {
        self.state.lock().commit = commit;
        self.caught_up.notify_all();
    }

    // Waits until there is something new and a pause in it, or somebody asks; `false` at the end.
    fn wait(&self) -> bool {
        let mut state = self.state.lock();
        while state.due == Due::No && !state.closed {
            state.asleep = true;
            self.wake.wait(&mut state);
            state.asleep = false;
        }
        for _ in 0..PAUSES_MAX {
            if state.closed || state.due == Due::Asked {
                break;
            }
            state.due = Due::No;
            self.wake.wait_for(&mut state, PAUSE);
            if state.due == Due::No {
                break;
            }
        }
        state.due = Due::No;
        !state.closed
    }
}

/// The index with its connections.
pub(crate) struct Index {
    index: Connection,
    database: Connection,
}

impl Index {
    /// Opens the index, or makes it anew when it is missing, damaged, of another form, or ahead of the database.
    pub(crate) fn open(path: &Path, database: Connection, bell: &Bell) -> rusqlite::Result<Self> {
        let index = if let Ok(Some(index)) = open_file(path, &database) {
            index
        } else {
            remove(path);
            make_file(path)?
        };
        let sql = "SELECT events, commit_no FROM progress";
        let (seen, commit): (i64, i64) = index.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        bell.seen.store(seen.cast_unsigned(), Ordering::Relaxed);
        bell.came_to(commit.cast_unsigned());
        Ok(Self { index, database })
    }

    /// Follows the log until the end.
    pub(crate) fn run(mut self, bell: &Bell) {
        step_back();
        loop {
            match self.catch_up(bell) {
                Ok(()) => {}
                Err(error) => tracing::warn!(%error, "the full-text index could not be brought up to date"),
            }
            if !bell.wait() {
                return;
            }
        }
    }

    fn catch_up(&mut self, bell: &Bell) -> rusqlite::Result<()> {
        while self.step(bell)? {
            if bell.state.lock().closed {
                break;
            }
        }
        Ok(())
    }

    // One batch; `false` when there was nothing left.
    fn step(&mut self, bell: &Bell) -> rusqlite::Result<bool> {
        let (commit, seen) = self.index.query_row("SELECT commit_no, events FROM progress", [], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
        })?;
        let batch = records(&self.database, commit)?;
        let Some((last, digest)) = batch.last else { return Ok(false) };
        let tx = self.index.transaction()?;
        let mut events = 0i64;
        for entry in &batch.entries {
            match entry {
                Entry::Event { id, .. } => {
                    events += 1;
                    add(&tx, &self.database, *id)?;
                }
                Entry::Admitted { verb, subject, .. } if verb == "retention.sweep" => sweep(&tx, subject)?,
                _ => {}
            }
        }
        let progress = "UPDATE progress SET commit_no = ?, digest = ?, events = events + ?";
        tx.execute(progress, params![last, digest, events])?;
        tx.commit()?;
        bell.seen.store((seen + events).cast_unsigned(), Ordering::Relaxed);
        bell.came_to(last.cast_unsigned());
        Ok(true)
    }
}

#[derive(Default)]
struct Batch {
    last: Option<(i64, [u8; 32])>,
    entries: Vec<Entry>,
}

fn records(database: &Connection, after: i64) -> rusqlite::Result<Batch> {
    let sql = "SELECT commit_no, digest, entries FROM log WHERE commit_no > ? ORDER BY commit_no LIMIT ?";
    let mut statement = database.prepare_cached(sql)?;
    let mut rows = statement.query(params![after, BATCH_RECORDS])?;
    let (mut batch, mut bytes) = (Batch::default(), 0);
    while let Some(row) = rows.next()? {
        let entries: Vec<u8> = row.get(2)?;
        bytes += entries.len();
        // A record that cannot be read is the log verifier's business; here it is skipped.
        batch.entries.extend(Entry::decode_all(&entries).unwrap_or_default());
        batch.last = Some((row.get(0)?, row.get(1)?));
        if batch.entries.len() >= BATCH_EVENTS || bytes >= BATCH_ENTRY_BYTES {
            break;
        }
    }
    Ok(batch)
}

fn add(index: &Connection, database: &Connection, id: EventId) -> rusqlite::Result<()> {
    let event = stream::events(database, &[id])?.into_iter().flatten().next();
    let text = event.map(|event| searchable(&event.data)).unwrap_or_default();
    if text.is_empty() {
        return Ok(());
    }
    let sql = "INSERT OR REPLACE INTO fts (rowid, text) VALUES (?, ?)";
    index.prepare_cached(sql)?.execute(params![id.row(), text]).map(drop)
}

fn sweep(index: &Connection, subject: &str) -> rusqlite::Result<()> {
    let Some((stream, first)) = parse_sweep(subject) else { return Ok(()) };
    let sql = "SELECT first FROM swept WHERE stream = ?";
    let from: Option<i64> = index.prepare_cached(sql)?.query_row([stream.0], |row| row.get(0)).optional()?;
    let from = EventId { stream, seq: from.unwrap_or(1).cast_unsigned() }.row();
    let to = EventId { stream, seq: first }.row();
    // Row by row: a range would make the index look through everything it has.
    let mut delete = index.prepare_cached("DELETE FROM fts WHERE rowid = ?")?;
    (from..to).try_for_each(|row| delete.execute([row]).map(drop))?;
    let sql = "INSERT INTO swept (stream, first) VALUES (?, ?)
               ON CONFLICT (stream) DO UPDATE SET first = excluded.first";
    index.prepare_cached(sql)?.execute(params![stream.0, first.cast_signed()]).map(drop)
}

/// Lets every other thread of the machine go before this one: who writes and who reads must not wait for the index.
#[cfg(target_os = "linux")]
fn step_back() {
    const NICENESS: i32 = 10;
    // To Linux a thread is a process of its own here; not being allowed to is no harm.
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICENESS);
}

#[cfg(not(target_os = "linux"))]
fn step_back() {}

/// The subject of a sweep's log entry.
pub(crate) fn sweep_subject(stream: StreamId, first: u64) -> String {
    format!("stream={} first={first}", stream.0)
}

/// The inverse of [`sweep_subject`].
pub(crate) fn parse_sweep(subject: &str) -> Option<(StreamId, u64)> {
    let (stream, first) = subject.strip_prefix("stream=")?.split_once(" first=")?;
    Some((StreamId(stream.parse().ok()?), first.parse().ok()?))
}

fn open_file(path: &Path, database: &Connection) -> rusqlite::Result<Option<Connection>> {
    if !path.exists() {
        return Ok(None);
    }
    let index = connect::index(path)?;
    let progress = index.query_row("SELECT commit_no, digest, form FROM progress", [], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, [u8; 32]>(1)?, row.get::<_, i64>(2)?))
    });
    let (commit, digest, form) = progress?;
    let sql = "SELECT digest FROM log WHERE commit_no = ?";
    let known: Option<[u8; 32]> = match commit {
        0 => Some(GENESIS),
        _ => database.query_row(sql, [commit], |row| row.get(0)).optional()?,
    };
    Ok((form == FORM && known == Some(digest)).then_some(index))
}

fn make_file(path: &Path) -> rusqlite::Result<Connection> {
    let mut index = connect::index(path)?;
    let tx = index.transaction()?;
    tx.execute_batch(SCHEMA)?;
    tx.execute("INSERT INTO progress VALUES (1, 0, ?, 0, ?)", params![GENESIS, FORM])?;
    tx.commit()?;
    Ok(index)
}

fn remove(path: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        // What was not there, or cannot go, shows itself when the file is made.
        let _ = fs::remove_file(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeps_are_read_as_they_are_written() {
        assert_eq!(parse_sweep(&sweep_subject(StreamId(7), 12)), Some((StreamId(7), 12)));
        assert_eq!(parse_sweep("stream=x first=1"), None);
    }
}
