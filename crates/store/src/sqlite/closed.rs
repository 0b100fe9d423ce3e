//! An embedded store that no hub runs on, held so that none starts: to be copied away.

use super::connect::{self, Files};
use super::copy::{TABLES, Table};
use super::dedup::{Dedup, Entries};
use super::failure::Failure;
use super::migrate::{self, MIGRATIONS};
use super::state::{Counter, State};
use super::{OpenError, mark};
use crate::moving::{Mark, MoveError, Tally, Totals, id_values};
use crate::rules::install;
use crate::rules::value::{Row, Value};
use rusqlite::{Connection, OptionalExtension as _, params};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use switchboard_core::port::store::Installation;
use switchboard_core::time::WallMs;

/// See the module.
pub struct Closed {
    conn: Connection,
    ids: Dedup,
    totals: Totals,
    dir: PathBuf,
    _lock: File,
}

impl std::fmt::Debug for Closed {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Closed({})", self.dir.display())
    }
}

impl Closed {
    /// Takes the store in `dir`, brings its schema up to date and checks that a hub is in it. Blocks on the disk, as everything
    /// here does.
    pub fn open(dir: &Path) -> Result<Self, MoveError> {
        let opened = Self::connect(&Files::of(dir));
        let (lock, conn) = opened.map_err(|error| MoveError::Sqlite { dir: dir.to_owned(), error })?;
        let hubs: i64 = one(&conn, "SELECT count(*) FROM installation")?;
        if hubs == 0 {
            return Err(MoveError::NoHub(dir.display().to_string()));
        }
        let state = State::load(&conn)?;
        let totals = Totals {
            commit: state.commit,
            digest: state.chain,
            version: state.directory_version,
            notice: state.last_notice,
            ledger: state.ledger,
            probe_ms: probe_ms(&conn)?,
        };
        let ids = Dedup::load(&conn)?;
        Ok(Self { conn, ids, totals, dir: dir.to_owned(), _lock: lock })
    }

    fn connect(files: &Files) -> Result<(File, Connection), OpenError> {
        if !files.database.is_file() {
            let error = io::Error::from(io::ErrorKind::NotFound);
            return Err(OpenError::Io { path: files.database.clone(), error });
        }
        let lock = connect::lock(files)?;
        let conn = connect::writer(&files.database)?;
        migrate::check(&conn, MIGRATIONS)?;
        connect::set_up_writer(&conn, None)?;
        migrate::run(&conn, MIGRATIONS)?;
        Ok((lock, conn))
    }

    /// Where it is.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The number of its last commit.
    #[must_use]
    pub fn commit(&self) -> u64 {
        self.totals.commit
    }

    /// What it says of itself.
    pub fn mark(&self) -> Result<Option<Mark>, MoveError> {
        Ok(mark(&self.conn)?)
    }

    /// What the store is of.
    pub fn installation(&self) -> Result<Installation, MoveError> {
        let found = self.conn.query_row(install::FIND, [], |row| Ok(install::installation(row)));
        Ok(found.map_err(Failure::from)??)
    }

    /// Marks it as left for `other`: no hub opens it from now on.
    pub fn leave(&self, other: &str, at_ms: WallMs) -> Result<(), MoveError> {
        self.put_mark(&Mark { left: true, other: other.to_owned(), at_ms })
    }

    /// Marks it as arriving from `other`: no hub opens it until that is over.
    pub fn arrive(&self, other: &str, at_ms: WallMs) -> Result<(), MoveError> {
        self.put_mark(&Mark { left: false, other: other.to_owned(), at_ms })
    }

    fn put_mark(&self, mark: &Mark) -> Result<(), MoveError> {
        let sql = "INSERT OR REPLACE INTO moving (id, state, other, at_ms) VALUES (1, ?, ?, ?)";
        self.run(sql, params![mark.state(), mark.other, mark.at_ms])
    }

    /// Takes its mark off.
    pub fn unmark(&self) -> Result<(), MoveError> {
        self.run("DELETE FROM moving", [])
    }

    fn run(&self, sql: &str, params: impl rusqlite::Params) -> Result<(), MoveError> {
        self.conn.execute(sql, params).map(drop).map_err(|error| Failure::from(error).into())
    }

    /// Counts and digests of everything in it, of ids those that are not over at `now_ms`.
    pub fn tallies(&self, now_ms: WallMs) -> Result<Vec<Tally>, MoveError> {
        let mut tallies = vec![self.totals.tally()];
        for table in TABLES {
            tallies.push(self.tally(table)?);
        }
        let (mut ids, mut entries) = (Tally::new("ids"), self.entries(now_ms));
        while let Some((key, entry)) = entries.next(&self.conn).map_err(Failure::from)? {
            ids.add(&id_values(&key, &entry));
        }
        tallies.push(ids);
        Ok(tallies)
    }

    fn tally(&self, table: &Table) -> Result<Tally, Failure> {
        let mut tally = Tally::new(table.name);
        let mut statement = self.conn.prepare(&table.select())?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            tally.add(&values(row)?);
        }
        Ok(tally)
    }

    pub(crate) fn totals(&self) -> &Totals {
        &self.totals
    }

    pub(crate) fn conn(&self) -> &Connection {
        &self.conn
    }

    pub(crate) fn entries(&self, now_ms: WallMs) -> Entries<'_> {
        self.ids.entries(now_ms)
    }
}

/// All columns of a row.
pub(crate) fn values<'r>(row: &'r rusqlite::Row<'_>) -> Result<Vec<Value<'r>>, Failure> {
    (0..row.as_ref().column_count()).map(|column| row.value(column)).collect()
}

fn one(conn: &Connection, sql: &str) -> Result<i64, Failure> {
    Ok(conn.query_row(sql, [], |row| row.get(0))?)
}

fn probe_ms(conn: &Connection) -> Result<i64, Failure> {
    let sql = "SELECT a FROM counters WHERE id = ?";
    let found = conn.query_row(sql, [Counter::Probe as i64], |row| row.get(0)).optional()?;
    Ok(found.unwrap_or_default())
}
