//! The log, its checkpoints, the ledger, figures.

use super::super::state::{Counter, decode_ledger};
use super::super::tx::sql_limit;
use super::broken;
use rusqlite::{Connection, OptionalExtension as _, params};
use switchboard_core::ledger::Ledger;
use switchboard_core::log::{Checkpoint, Record};

pub(crate) fn log(conn: &Connection, after: u64, limit: usize) -> rusqlite::Result<Vec<Record>> {
    let sql =
        "SELECT commit_no, at_ms, entries, digest FROM log WHERE commit_no > ? ORDER BY commit_no LIMIT ?";
    let mut statement = conn.prepare_cached(sql)?;
    let rows = statement.query_map(params![key(after), sql_limit(limit)], |row| {
        Ok(Record {
            commit: row.get::<_, i64>(0)?.cast_unsigned(),
            at_ms: row.get(1)?,
            entries: row.get(2)?,
            digest: row.get(3)?,
        })
    })?;
    rows.collect()
}

pub(crate) fn checkpoints(conn: &Connection, after: u64, limit: usize) -> rusqlite::Result<Vec<Checkpoint>> {
    let sql =
        "SELECT commit_no, digest, signature FROM checkpoints WHERE commit_no > ? ORDER BY commit_no LIMIT ?";
    let mut statement = conn.prepare_cached(sql)?;
    let rows = statement.query_map(params![key(after), sql_limit(limit)], |row| {
        Ok(Checkpoint {
            commit: row.get::<_, i64>(0)?.cast_unsigned(),
            digest: row.get(1)?,
            signature: row.get(2)?,
        })
    })?;
    rows.collect()
}

fn key(after: u64) -> i64 {
    i64::try_from(after).unwrap_or(i64::MAX)
}

pub(crate) fn ledger(conn: &Connection) -> rusqlite::Result<Ledger> {
    let sql = "SELECT more FROM counters WHERE id = ?";
    let bytes = conn.prepare_cached(sql)?.query_row([Counter::Store as i64], |row| row.get::<_, Vec<u8>>(0));
    match bytes.optional()? {
        None => Ok(Ledger::default()),
        Some(bytes) => decode_ledger(&bytes).map_or_else(|| broken(0, "a damaged ledger"), Ok),
    }
}

/// How much there is.
pub(crate) struct Sizes {
    /// Streams.
    pub(crate) streams: u64,
    /// Events ever appended.
    pub(crate) events: u64,
    /// Bytes of the database.
    pub(crate) bytes: u64,
}

pub(crate) fn sizes(conn: &Connection) -> rusqlite::Result<Sizes> {
    let number = |sql: &str| {
        conn.prepare_cached(sql)?.query_row([], |row| row.get::<_, i64>(0).map(i64::cast_unsigned))
    };
    Ok(Sizes {
        streams: number("SELECT count(*) FROM streams")?,
        events: number("SELECT coalesce(sum(a), 0) FROM counters WHERE id > 0")?,
        bytes: number("PRAGMA page_count")? * number("PRAGMA page_size")?,
    })
}
