//! Making a run, a few entries at a time: out of memory, or out of several runs.

use super::entry::{ENTRY_BYTES, Entry, Key};
use super::filter::Filter;
use super::run::{Cursor, PART_ENTRIES, Run, part_id};
use rusqlite::{Connection, params};

/// Where the entries come from, in the order of their keys.
#[derive(Debug)]
pub(super) enum Source {
    Memory(std::vec::IntoIter<(Key, Entry)>),
    // Newest first: of two entries under one key the first one counts.
    Runs(Vec<Cursor>),
}

impl Source {
    /// Of `runs`, newest first.
    pub(super) fn of_runs<'r>(runs: impl IntoIterator<Item = &'r Run>) -> Self {
        Self::Runs(runs.into_iter().map(Cursor::new).collect())
    }

    /// The next entry.
    pub(super) fn next(&mut self, conn: &Connection) -> rusqlite::Result<Option<(Key, Entry)>> {
        let cursors = match self {
            Self::Memory(entries) => return Ok(entries.next()),
            Self::Runs(cursors) => cursors,
        };
        let mut least: Option<(Key, Entry)> = None;
        for cursor in cursors.iter_mut() {
            if let Some(next) = cursor.peek(conn)?
                && least.is_none_or(|(key, _)| next.0 < key)
            {
                least = Some(next);
            }
        }
        let Some((key, _)) = least else { return Ok(None) };
        for cursor in cursors {
            if cursor.peek(conn)?.is_some_and(|next| next.0 == key) {
                cursor.advance();
            }
        }
        Ok(least)
    }
}

/// A run that is being made.
#[derive(Debug)]
pub(super) struct Build {
    source: Source,
    run: Run,
    part: Vec<u8>,
    /// Runs that it will replace.
    pub(super) replaces: Vec<u32>,
}

impl Build {
    /// Of entries in memory.
    pub(super) fn of_memory(number: u32, mut entries: Vec<(Key, Entry)>) -> Self {
        entries.sort_unstable_by_key(|(key, _)| *key);
        let count = entries.len();
        Self::new(number, 0, count, Source::Memory(entries.into_iter()), Vec::new())
    }

    /// Of `runs`, newest first, all of one level.
    pub(super) fn of_runs(number: u32, runs: &[&Run]) -> Self {
        let level = runs.first().map_or(0, |run| run.level) + 1;
        let count = runs.iter().map(|run| run.entries).sum();
        let replaces = runs.iter().map(|run| run.number).collect();
        Self::new(number, level, count, Source::of_runs(runs.iter().copied()), replaces)
    }

    fn new(number: u32, level: u32, count: usize, source: Source, replaces: Vec<u32>) -> Self {
        let filter = Filter::for_entries(count);
        let run = Run { number, level, parts: 0, entries: 0, keep_until_ms: i64::MIN, filter };
        Self { source, run, part: Vec::with_capacity(PART_ENTRIES * ENTRY_BYTES), replaces }
    }

    /// Its number.
    pub(super) fn number(&self) -> u32 {
        self.run.number
    }

    /// Writes about `budget` more entries, less what it has used; `true` when there are no more and the run is registered.
    pub(super) fn step(
        &mut self,
        conn: &Connection,
        now_ms: i64,
        budget: &mut usize,
    ) -> rusqlite::Result<bool> {
        while *budget > 0 {
            *budget -= 1;
            let Some((key, entry)) = self.source.next(conn)? else {
                self.write_part(conn)?;
                self.run.register(conn)?;
                return Ok(true);
            };
            if entry.keep_until_ms() > now_ms {
                self.add(conn, &key, &entry)?;
            }
        }
        Ok(false)
    }

    fn add(&mut self, conn: &Connection, key: &Key, entry: &Entry) -> rusqlite::Result<()> {
        entry.encode(key, &mut self.part);
        self.run.filter.insert(key);
        self.run.entries += 1;
        self.run.keep_until_ms = self.run.keep_until_ms.max(entry.keep_until_ms());
        if self.part.len() < PART_ENTRIES * ENTRY_BYTES {
            return Ok(());
        }
        self.write_part(conn)
    }

    fn write_part(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        if self.part.is_empty() {
            return Ok(());
        }
        let sql = "INSERT INTO dedup_parts (id, data) VALUES (?, ?)";
        let id = part_id(self.run.number, self.run.parts);
        conn.prepare_cached(sql)?.execute(params![id, self.part])?;
        self.run.parts += 1;
        self.part.clear();
        Ok(())
    }

    /// The finished run.
    pub(super) fn into_run(self) -> Run {
        self.run
    }
}
