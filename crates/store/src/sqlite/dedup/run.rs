//! Runs: sorted, immutable lists of entries. A run's parts are rows that fill a page each.

use super::entry::{ENTRY_BYTES, Entry, Key};
use super::filter::Filter;
use rusqlite::{Connection, OptionalExtension as _, params};

/// Entries of a part: as many as fit a 4 KiB page without spilling over.
pub(super) const PART_ENTRIES: usize = 63;
const FIND_PART: &str = "SELECT data FROM dedup_parts WHERE id = ?";

/// One run.
#[derive(Debug)]
pub(super) struct Run {
    /// Its number; rises with every run that is begun.
    pub(super) number: u32,
    /// 0 came from memory; each higher one was merged of several of the one below.
    pub(super) level: u32,
    /// Its rows in `dedup_parts`.
    pub(super) parts: u32,
    /// Its entries.
    pub(super) entries: usize,
    /// From when on nothing in it is of use.
    pub(super) keep_until_ms: i64,
    /// Tells most of what is not in it.
    pub(super) filter: Filter,
}

/// The row key of a part.
pub(super) fn part_id(run: u32, part: u32) -> i64 {
    i64::from(run) << 32 | i64::from(part)
}

impl Run {
    /// Every registered run, in no order.
    pub(super) fn load_all(conn: &Connection) -> rusqlite::Result<Vec<Option<Self>>> {
        let sql = "SELECT run, level, parts, entries, keep_until_ms, filter FROM dedup_runs";
        let mut statement = conn.prepare(sql)?;
        let rows = statement.query_map([], |row| {
            let filter = Filter::from_bytes(row.get_ref(5)?.as_blob()?);
            let entries = usize::try_from(row.get::<_, i64>(3)?).unwrap_or(0);
            let (number, level, parts, keep_until_ms) = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(4)?);
            Ok(filter.map(|filter| Self { number, level, parts, entries, keep_until_ms, filter }))
        })?;
        rows.collect()
    }

    /// Registers the run: from now on it is looked into.
    pub(super) fn register(&self, conn: &Connection) -> rusqlite::Result<()> {
        let sql = "INSERT INTO dedup_runs (run, level, parts, entries, keep_until_ms, filter)
                   VALUES (?, ?, ?, ?, ?, ?)";
        let entries = i64::try_from(self.entries).unwrap_or(i64::MAX);
        let row =
            params![self.number, self.level, self.parts, entries, self.keep_until_ms, self.filter.to_bytes()];
        conn.prepare_cached(sql)?.execute(row).map(drop)
    }

    /// The entry under `key`. Keys are spread evenly, so the first guess at its part is close.
    pub(super) fn find(&self, conn: &Connection, key: &Key) -> rusqlite::Result<Option<Entry>> {
        if self.parts == 0 || !self.filter.may_hold(key) {
            return Ok(None);
        }
        let mut statement = conn.prepare_cached(FIND_PART)?;
        let high = key[..8].try_into().map_or(0, u64::from_be_bytes);
        let guess = (u128::from(high) * u128::from(self.parts)) >> 64;
        let (mut low, mut end) = (0, self.parts);
        let mut part = u32::try_from(guess).unwrap_or(0);
        while low < end {
            let id = part_id(self.number, part);
            match statement.query_row([id], |row| Ok(look(row.get_ref(0)?.as_blob()?, key))).optional()? {
                Some(Look::Here(entry)) => return Ok(entry),
                Some(Look::Before) => end = part,
                Some(Look::Behind) => low = part + 1,
                None => return Ok(None),
            }
            part = u32::midpoint(low, end);
        }
        Ok(None)
    }
}

enum Look {
    /// If anywhere, it is in this part.
    Here(Option<Entry>),
    Before,
    Behind,
}

fn look(data: &[u8], key: &Key) -> Look {
    let count = data.len() / ENTRY_BYTES;
    let at = |index: usize| &data[index * ENTRY_BYTES..index * ENTRY_BYTES + key.len()];
    if count == 0 || *at(0) > key[..] {
        return Look::Before;
    }
    if *at(count - 1) < key[..] {
        return Look::Behind;
    }
    let (mut low, mut end) = (0, count);
    while low < end {
        let middle = usize::midpoint(low, end);
        match at(middle).cmp(&key[..]) {
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Greater => end = middle,
            std::cmp::Ordering::Equal => {
                return Look::Here(Entry::decode(data, middle).map(|(_, entry)| entry));
            }
        }
    }
    Look::Here(None)
}

/// Reads a run from its first entry to its last.
#[derive(Debug)]
pub(super) struct Cursor {
    run: u32,
    parts: u32,
    next_part: u32,
    data: Vec<u8>,
    at: usize,
}

impl Cursor {
    pub(super) fn new(run: &Run) -> Self {
        Self { run: run.number, parts: run.parts, next_part: 0, data: Vec::new(), at: 0 }
    }

    /// The entry the cursor stands at; `None` behind the last.
    pub(super) fn peek(&mut self, conn: &Connection) -> rusqlite::Result<Option<(Key, Entry)>> {
        while self.at * ENTRY_BYTES >= self.data.len() && self.next_part < self.parts {
            let id = part_id(self.run, self.next_part);
            self.data = conn.prepare_cached(FIND_PART)?.query_row([id], |row| row.get(0))?;
            (self.next_part, self.at) = (self.next_part + 1, 0);
        }
        Ok(Entry::decode(&self.data, self.at))
    }

    /// Moves on by one.
    pub(super) fn advance(&mut self) {
        self.at += 1;
    }
}
