//! Who may enter the console.

use super::broken;
use crate::rules::failure::Failure;
use crate::rules::{LOGIN, SESSION, SESSIONS, login_row, session_row};
use rusqlite::{Connection, OptionalExtension as _, params};
use switchboard_core::console::{LoginRow, SessionRow};
use switchboard_core::digest::Digest;
use switchboard_core::ids::PersonNo;
use switchboard_core::time::WallMs;

fn read<T>(row: Result<T, Failure>) -> rusqlite::Result<T> {
    row.or_else(|failure| match failure {
        Failure::Sql(error) => Err(error),
        other => broken(0, &other.to_string()),
    })
}

pub(crate) fn session(
    conn: &Connection,
    hash: &Digest,
    now_ms: WallMs,
) -> rusqlite::Result<Option<SessionRow>> {
    let mut statement = conn.prepare_cached(SESSION)?;
    statement.query_row(params![hash, now_ms], |row| read(session_row(row))).optional()
}

pub(crate) fn sessions(
    conn: &Connection,
    person: PersonNo,
    now_ms: WallMs,
) -> rusqlite::Result<Vec<SessionRow>> {
    let mut statement = conn.prepare_cached(SESSIONS)?;
    let rows = statement.query_map(params![person.0, now_ms], |row| read(session_row(row)))?;
    rows.collect()
}

pub(crate) fn login(conn: &Connection, name: &str) -> rusqlite::Result<Option<LoginRow>> {
    conn.prepare_cached(LOGIN)?.query_row([name], |row| read(login_row(row))).optional()
}
