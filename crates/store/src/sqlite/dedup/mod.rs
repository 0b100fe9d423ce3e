//! Deduplication by the sender's ids: exact, inside the transaction, for at least thirty days.
//!
//! Ids are random to an index ordered by them: keeping one current in each commit would dirty a page per message, which
//! costs several times what the message itself does. So the index follows behind the log. What was appended lately stands
//! in memory; when that is enough it is written as a sorted run, a few entries with each commit that follows, and runs are
//! merged into larger ones the same way. Nothing is lost by that: each event's row holds what its entry is made of, and on
//! open the entries behind the last run are read from the rows that the log names ([`Dedup::load`]).
//!
//! A look-up asks memory, then the runs' filters, newest first; for a new id nothing is read from the database.

mod build;
mod entry;
mod filter;
mod run;
#[cfg(test)]
mod tests;

#[cfg(feature = "postgres")]
pub(crate) use entry::keep_until_ms;
pub(crate) use entry::{Entry, Key, key};

use super::failure::Failure;
use super::state::Counter;
use build::Build;
#[cfg(feature = "postgres")]
use build::Source;
use run::{Run, part_id};
use rusqlite::{Connection, OptionalExtension as _, params};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use switchboard_core::ids::InstanceNo;
use switchboard_core::log::Entry as LogEntry;

/// Entries in memory at which they are written as a run.
const FLUSH_ENTRIES: usize = 32 * 1024;
/// Runs of one level at which they are merged.
const MERGE_RUNS: usize = 8;
/// Entries of upkeep for each entry that is added: enough for merges to keep pace.
const UPKEEP_PER_ENTRY: usize = 4;
/// Fewest entries of upkeep in one commit: a page's worth.
const UPKEEP_MIN: usize = run::PART_ENTRIES;
/// Log records read at a time when memory is made again.
const REPLAY_RECORDS: i64 = 1000;

/// Keys are hashes already.
#[derive(Debug, Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Some(Ok(half)) = bytes.get(..8).map(<[u8; 8]>::try_from) {
            self.0 = u64::from_le_bytes(half);
        }
    }
}

type Map = HashMap<Key, Entry, BuildHasherDefault<KeyHasher>>;

/// See the module.
#[derive(Debug)]
pub(crate) struct Dedup {
    flush_entries: usize,
    active: Map,
    // What is being written as a run, and the commit up to which that run will cover all.
    frozen: Option<(Map, u64)>,
    // Newest first.
    runs: Vec<Run>,
    flush: Option<Build>,
    merge: Option<Build>,
    // Runs whose rows are to go, with the next one to.
    dead: Vec<(u32, u32)>,
    last_run: u32,
    undo: Vec<(Key, Option<Entry>)>,
    // The open transaction did more than add: rolling it back means reading all of this anew.
    kept_up: bool,
}

impl Dedup {
    /// Reads the runs, and memory from the events behind them.
    pub(crate) fn load(conn: &Connection) -> Result<Self, Failure> {
        Self::load_with(conn, FLUSH_ENTRIES)
    }

    fn empty(flush_entries: usize) -> Self {
        Self {
            flush_entries,
            active: Map::with_capacity_and_hasher(flush_entries, BuildHasherDefault::default()),
            frozen: None,
            runs: Vec::new(),
            flush: None,
            merge: None,
            dead: Vec::new(),
            last_run: 0,
            undo: Vec::new(),
            kept_up: false,
        }
    }

    fn load_with(conn: &Connection, flush_entries: usize) -> Result<Self, Failure> {
        let mut dedup = Self::empty(flush_entries);
        for run in Run::load_all(conn)? {
            dedup
                .runs
                .push(run.ok_or_else(|| Failure::Inconsistent("a deduplicating run is damaged".into()))?);
        }
        dedup.sort();
        let last = conn.query_row("SELECT max(id) >> 32 FROM dedup_parts", [], |row| row.get(0));
        let last: Option<u32> = last.optional()?.flatten();
        dedup.last_run = dedup.runs.iter().map(|run| run.number).chain(last).max().unwrap_or(0);
        dedup.find_orphans(conn)?;
        dedup.replay(conn)?;
        Ok(dedup)
    }

    // Rows of runs that were begun and never finished, or replaced and not yet removed.
    fn find_orphans(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        let mut first =
            conn.prepare("SELECT min(id) & 0xFFFFFFFF FROM dedup_parts WHERE id BETWEEN ? AND ?")?;
        for number in 1..=self.last_run {
            if self.runs.iter().any(|run| run.number == number) {
                continue;
            }
            let range = [part_id(number, 0), part_id(number, u32::MAX)];
            let part: Option<u32> = first.query_row(range, |row| row.get(0))?;
            self.dead.extend(part.map(|part| (number, part)));
        }
        Ok(())
    }

    fn replay(&mut self, conn: &Connection) -> Result<(), Failure> {
        let sql = "SELECT a FROM counters WHERE id = ?";
        let covered = conn.query_row(sql, [Counter::Dedup as i64], |row| row.get::<_, i64>(0)).optional()?;
        let mut after = covered.unwrap_or(0);
        let mut records = conn
            .prepare("SELECT commit_no, entries FROM log WHERE commit_no > ? ORDER BY commit_no LIMIT ?")?;
        loop {
            let page = records.query_map([after, REPLAY_RECORDS], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?))
            })?;
            let page = page.collect::<rusqlite::Result<Vec<_>>>()?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = *last;
            for (commit, entries) in &page {
                self.replay_record(conn, *commit, entries)?;
            }
        }
    }

    fn replay_record(&mut self, conn: &Connection, commit: i64, entries: &[u8]) -> rusqlite::Result<()> {
        let Some(entries) = LogEntry::decode_all(entries) else {
            // The log's verifier tells what happened; opening must not depend on it.
            tracing::error!(commit, "a log record cannot be read: ids in it may not be recognised");
            return Ok(());
        };
        let sql = "SELECT from_instance, client_id, content_digest, thread, at_ms, expires_at_ms FROM events
                   WHERE id = ? AND client_id IS NOT NULL";
        let mut statement = conn.prepare_cached(sql)?;
        for entry in entries {
            let LogEntry::Event { id, .. } = entry else { continue };
            let row = statement.query_row([id.row()], |row| {
                let client_id = row.get_ref(1)?.as_str()?;
                let entry = Entry {
                    digest: row.get(2)?,
                    event: id.row(),
                    thread: row.get::<_, Option<i64>>(3)?.unwrap_or_else(|| id.row()),
                    at_ms: row.get(4)?,
                    expires_at_ms: row.get(5)?,
                };
                Ok((key(InstanceNo(row.get(0)?), client_id), entry))
            });
            self.active.extend(row.optional()?);
        }
        Ok(())
    }

    // Merged runs are older than what has not been merged; of one level the later number is newer.
    fn sort(&mut self) {
        self.runs.sort_by_key(|run| (run.level, Reverse(run.number)));
    }

    /// What is remembered under `key`, unless that is over.
    pub(crate) fn find(&self, conn: &Connection, key: &Key, now_ms: i64) -> rusqlite::Result<Option<Entry>> {
        let recent = self.active.get(key).or_else(|| self.frozen.as_ref()?.0.get(key));
        let mut found = recent.copied();
        for run in &self.runs {
            if found.is_some() {
                break;
            }
            found = run.find(conn, key)?;
        }
        Ok(found.filter(|entry| entry.keep_until_ms() > now_ms))
    }

    /// Every entry that is not over, each key once.
    #[cfg(feature = "postgres")]
    pub(crate) fn entries(&self, now_ms: i64) -> Entries<'_> {
        let frozen = self.frozen.iter().flat_map(|(map, _)| map);
        let recent = frozen.filter(|(key, _)| !self.active.contains_key(*key)).chain(&self.active);
        let recent: Vec<_> = recent.map(|(key, entry)| (*key, *entry)).collect();
        Entries { of: self, recent: recent.into_iter(), older: Source::of_runs(&self.runs), now_ms }
    }

    /// Remembers an entry.
    pub(crate) fn insert(&mut self, key: Key, entry: Entry) {
        self.undo.push((key, self.active.insert(key, entry)));
    }

    /// Whether `key` stands in memory only: removing its event's row now would lose it.
    pub(crate) fn is_recent(&self, key: &Key) -> bool {
        self.active.contains_key(key) || self.frozen.as_ref().is_some_and(|(map, _)| map.contains_key(key))
    }

    /// To be called last in a transaction: the part of the upkeep that falls to it. `commit` is its number.
    pub(crate) fn keep_up(&mut self, conn: &Connection, commit: u64, now_ms: i64) -> rusqlite::Result<()> {
        if self.undo.is_empty() {
            return Ok(());
        }
        if self.frozen.is_none() && self.active.len() >= self.flush_entries {
            let next = Map::with_capacity_and_hasher(self.flush_entries, BuildHasherDefault::default());
            self.frozen = Some((std::mem::replace(&mut self.active, next), commit));
            self.kept_up = true;
        }
        let mut budget = (self.undo.len() * UPKEEP_PER_ENTRY).max(UPKEEP_MIN);
        self.flush(conn, now_ms, &mut budget)?;
        self.merge(conn, now_ms, &mut budget)?;
        self.bury(conn, budget)
    }

    fn flush(&mut self, conn: &Connection, now_ms: i64, budget: &mut usize) -> rusqlite::Result<()> {
        let Some((map, covers)) = &self.frozen else { return Ok(()) };
        self.kept_up = true;
        if self.flush.is_none() {
            self.last_run += 1;
            let entries = map.iter().map(|(key, entry)| (*key, *entry)).collect();
            self.flush = Some(Build::of_memory(self.last_run, entries));
        }
        let Some(build) = &mut self.flush else { return Ok(()) };
        if !build.step(conn, now_ms, budget)? {
            return Ok(());
        }
        cover(conn, *covers)?;
        self.runs.extend(self.flush.take().map(Build::into_run));
        self.frozen = None;
        self.sort();
        Ok(())
    }

    fn merge(&mut self, conn: &Connection, now_ms: i64, budget: &mut usize) -> rusqlite::Result<()> {
        if *budget == 0 {
            return Ok(());
        }
        if self.merge.is_none() {
            self.merge = self.next_merge();
        }
        let Some(build) = &mut self.merge else { return Ok(()) };
        self.kept_up = true;
        if !build.step(conn, now_ms, budget)? {
            return Ok(());
        }
        let Some(build) = self.merge.take() else { return Ok(()) };
        let replaced = build.replaces.clone();
        self.runs.push(build.into_run());
        self.unregister(conn, &replaced)?;
        self.sort();
        Ok(())
    }

    fn next_merge(&mut self) -> Option<Build> {
        let levels = self.runs.last()?.level;
        let of_level = |level| self.runs.iter().filter(move |run| run.level == level).collect::<Vec<_>>();
        let due = (0..=levels).map(of_level).find(|runs| runs.len() >= MERGE_RUNS)?;
        let build = Build::of_runs(self.last_run + 1, &due);
        self.last_run += 1;
        Some(build)
    }

    fn unregister(&mut self, conn: &Connection, numbers: &[u32]) -> rusqlite::Result<()> {
        for number in numbers {
            conn.prepare_cached("DELETE FROM dedup_runs WHERE run = ?")?.execute([number])?;
            self.runs.retain(|run| run.number != *number);
            self.dead.push((*number, 0));
            self.kept_up = true;
        }
        Ok(())
    }

    // Removes rows nobody looks at any more.
    fn bury(&mut self, conn: &Connection, budget: usize) -> rusqlite::Result<()> {
        let parts = u32::try_from(budget / run::PART_ENTRIES).unwrap_or(u32::MAX);
        let Some((number, next)) = self.dead.last_mut().filter(|_| parts > 0) else { return Ok(()) };
        self.kept_up = true;
        let until = next.saturating_add(parts);
        let sql = "DELETE FROM dedup_parts WHERE id >= ? AND id < ?";
        let gone = conn.prepare_cached(sql)?.execute([part_id(*number, *next), part_id(*number, until)])?;
        *next = until;
        if gone < parts as usize {
            self.dead.pop();
        }
        Ok(())
    }

    /// Forgets runs in which everything is over, and removes rows of dead ones; `true` when it changed something.
    pub(crate) fn sweep(&mut self, conn: &Connection, now_ms: i64, limit: usize) -> rusqlite::Result<bool> {
        let merging = self.merge.as_ref().map(|build| build.replaces.clone()).unwrap_or_default();
        let over =
            self.runs.iter().filter(|run| run.keep_until_ms <= now_ms && !merging.contains(&run.number));
        let over: Vec<_> = over.map(|run| run.number).collect();
        let changed = !over.is_empty() || !self.dead.is_empty();
        self.unregister(conn, &over)?;
        self.bury(conn, limit.saturating_mul(run::PART_ENTRIES))?;
        Ok(changed)
    }

    /// Writes everything in memory as a run at once: retention is about to remove rows that memory would be made of again.
    pub(crate) fn flush_all(&mut self, conn: &Connection, commit: u64, now_ms: i64) -> rusqlite::Result<()> {
        self.kept_up = true;
        if let Some(begun) = self.flush.take() {
            self.dead.push((begun.number(), 0));
        }
        let mut entries = self.frozen.take().map(|(map, _)| map).unwrap_or_default();
        entries.extend(self.active.drain());
        self.last_run += 1;
        let mut build = Build::of_memory(self.last_run, entries.into_iter().collect());
        let mut unbounded = usize::MAX;
        while !build.step(conn, now_ms, &mut unbounded)? {}
        // Not this commit: what is appended behind this in the same transaction is in no run yet.
        cover(conn, commit.saturating_sub(1))?;
        self.runs.push(build.into_run());
        self.sort();
        Ok(())
    }

    /// The transaction stands.
    pub(crate) fn committed(&mut self) {
        self.undo.clear();
        self.kept_up = false;
    }

    /// The transaction is void; `false` when this must be loaded anew.
    pub(crate) fn rolled_back(&mut self) -> bool {
        for (key, before) in self.undo.drain(..).rev() {
            match before {
                Some(before) => self.active.insert(key, before),
                None => self.active.remove(&key),
            };
        }
        !std::mem::take(&mut self.kept_up)
    }
}

/// Walks through what is remembered.
#[cfg(feature = "postgres")]
pub(crate) struct Entries<'d> {
    of: &'d Dedup,
    recent: std::vec::IntoIter<(Key, Entry)>,
    older: Source,
    now_ms: i64,
}

#[cfg(feature = "postgres")]
impl Entries<'_> {
    /// The next entry.
    pub(crate) fn next(&mut self, conn: &Connection) -> rusqlite::Result<Option<(Key, Entry)>> {
        loop {
            let next = match self.recent.next() {
                Some(recent) => Some(recent),
                None => loop {
                    match self.older.next(conn)? {
                        Some((key, _)) if self.of.is_recent(&key) => {}
                        older => break older,
                    }
                },
            };
            match next {
                Some((_, entry)) if entry.keep_until_ms() <= self.now_ms => {}
                next => return Ok(next),
            }
        }
    }
}

/// Notes the commit up to which runs cover everything.
fn cover(conn: &Connection, commit: u64) -> rusqlite::Result<()> {
    let sql =
        "INSERT INTO counters (id, a, b) VALUES (?, ?, 0) ON CONFLICT (id) DO UPDATE SET a = excluded.a";
    conn.prepare_cached(sql)?.execute(params![Counter::Dedup as i64, commit.cast_signed()]).map(drop)
}
