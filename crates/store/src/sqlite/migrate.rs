//! Migrations: numbered files, embedded, append-only, each applied together with its own record.
//!
//! To change the schema: add `NNNN_name.sql` under `migrations/sqlite` and its line to [`MIGRATIONS`]. Never edit one that
//! was shipped; a store in which an applied one differs from the embedded one refuses to open.

use rusqlite::{Connection, OptionalExtension as _, params};
use switchboard_core::digest::{hex, sha256};

/// One migration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Migration {
    /// Number, from 1, without gaps.
    pub(crate) number: u32,
    /// Name of its file.
    pub(crate) name: &'static str,
    /// Its statements.
    pub(crate) sql: &'static str,
    /// Schema of the oldest program that goes on working with a PostgreSQL database to which this was applied: lower than
    /// `number` only when this one adds and takes nothing away (ADR 9). With SQLite an older program never opens newer data.
    pub(crate) compatible_from: u32,
}

/// Every migration in order.
pub(crate) const MIGRATIONS: &[Migration] = &[
    Migration {
        number: 1,
        name: "0001_initial.sql",
        sql: include_str!("../../migrations/sqlite/0001_initial.sql"),
        compatible_from: 1,
    },
    Migration {
        number: 2,
        name: "0002_nodes.sql",
        sql: include_str!("../../migrations/sqlite/0002_nodes.sql"),
        compatible_from: 2,
    },
    Migration {
        number: 3,
        name: "0003_moving.sql",
        sql: include_str!("../../migrations/sqlite/0003_moving.sql"),
        compatible_from: 3,
    },
    Migration {
        number: 4,
        name: "0004_outbound.sql",
        sql: include_str!("../../migrations/sqlite/0004_outbound.sql"),
        compatible_from: 3,
    },
    Migration {
        number: 5,
        name: "0005_console.sql",
        sql: include_str!("../../migrations/sqlite/0005_console.sql"),
        compatible_from: 3,
    },
    Migration {
        number: 6,
        name: "0006_amends.sql",
        sql: include_str!("../../migrations/sqlite/0006_amends.sql"),
        compatible_from: 3,
    },
    Migration {
        number: 7,
        name: "0007_quiet.sql",
        sql: include_str!("../../migrations/sqlite/0007_quiet.sql"),
        compatible_from: 3,
    },
    Migration {
        number: 8,
        name: "0008_escalation.sql",
        sql: include_str!("../../migrations/sqlite/0008_escalation.sql"),
        compatible_from: 3,
    },
    // States of parts that an older program would not know.
    Migration {
        number: 9,
        name: "0009_rounds.sql",
        sql: include_str!("../../migrations/sqlite/0009_rounds.sql"),
        compatible_from: 9,
    },
];

/// Why the schema cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// A newer program wrote it.
    #[error(
        "the database has schema version {found}, this program knows {known}: use the newer program again"
    )]
    Newer {
        /// Version in the database.
        found: u32,
        /// Newest version this program knows.
        known: u32,
    },
    /// An applied migration is not the embedded one.
    #[error(
        "migration {name} was applied with other content: this program and the database do not belong together"
    )]
    Edited {
        /// Its file.
        name: String,
    },
    /// An applied migration is unknown, or one before it is missing.
    #[error("migration {name} is missing: this program and the database do not belong together")]
    Missing {
        /// Its file.
        name: String,
    },
    /// SQLite failed.
    #[error(transparent)]
    Sql(#[from] rusqlite::Error),
}

/// Number, file and checksum of one that was applied.
pub(crate) type Applied = (u32, String, String);

/// Brings the schema up to date, or says why it must not be touched; reads before it writes.
pub(crate) fn run(conn: &Connection, migrations: &[Migration]) -> Result<(), MigrateError> {
    let applied = check(conn, migrations)?;
    migrations.iter().skip(applied).try_for_each(|migration| apply(conn, migration))?;
    Ok(())
}

/// Compares what was applied with what is known; writes nothing. Returns how many were applied.
pub(crate) fn check(conn: &Connection, migrations: &[Migration]) -> Result<usize, MigrateError> {
    compare(applied(conn)?, migrations)
}

/// Compares what was applied with what is known. Returns how many were applied.
pub(crate) fn compare(applied: Vec<Applied>, migrations: &[Migration]) -> Result<usize, MigrateError> {
    let count = applied.len();
    let known = migrations.last().map_or(0, |last| last.number);
    let found = applied.last().map_or(0, |last| last.0);
    if found > known {
        return Err(MigrateError::Newer { found, known });
    }
    for (at, (number, name, known_checksum)) in applied.into_iter().enumerate() {
        let Some(migration) = migrations.get(at) else {
            return Err(MigrateError::Missing { name });
        };
        if migration.number != number {
            return Err(MigrateError::Missing { name: migration.name.to_owned() });
        }
        if known_checksum != checksum(migration) {
            return Err(MigrateError::Edited { name });
        }
    }
    Ok(count)
}

/// What identifies a migration's content.
pub(crate) fn checksum(migration: &Migration) -> String {
    hex(&sha256(migration.sql.as_bytes()))
}

fn applied(conn: &Connection) -> rusqlite::Result<Vec<Applied>> {
    let known = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'migrations'";
    if conn.query_row(known, [], |_| Ok(())).optional()?.is_none() {
        return Ok(Vec::new());
    }
    let mut rows = conn.prepare("SELECT number, name, checksum FROM migrations ORDER BY number")?;
    let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    rows.collect()
}

const TABLE: &str = "CREATE TABLE IF NOT EXISTS migrations (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL
) STRICT";

fn apply(conn: &Connection, migration: &Migration) -> rusqlite::Result<()> {
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let steps = || {
        conn.execute_batch(TABLE)?;
        conn.execute_batch(migration.sql)?;
        let row = params![migration.number, migration.name, checksum(migration)];
        conn.execute("INSERT INTO migrations (number, name, checksum) VALUES (?, ?, ?)", row)?;
        conn.execute_batch("COMMIT")
    };
    steps().inspect_err(|_| {
        // The first error is the one to tell; a failing rollback leaves the transaction to the closing connection.
        let _ = conn.execute_batch("ROLLBACK");
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Migration =
        Migration { number: 1, name: "0001_a.sql", sql: "CREATE TABLE a (x)", compatible_from: 1 };
    const TWO: Migration =
        Migration { number: 2, name: "0002_b.sql", sql: "CREATE TABLE b (x)", compatible_from: 1 };

    fn fresh(migrations: &[Migration]) -> Connection {
        let conn = Connection::open_in_memory().unwrap();
        run(&conn, migrations).unwrap();
        conn
    }

    #[test]
    fn numbers_and_names_of_the_embedded_ones_agree() {
        for (at, migration) in MIGRATIONS.iter().enumerate() {
            assert_eq!(migration.number as usize, at + 1);
            assert!(migration.name.starts_with(&format!("{:04}_", migration.number)));
            assert!((1..=migration.number).contains(&migration.compatible_from));
        }
    }

    #[test]
    fn only_what_is_new_runs() {
        let conn = fresh(&[ONE]);
        run(&conn, &[ONE, TWO]).unwrap();
        run(&conn, &[ONE, TWO]).unwrap();
        conn.execute("INSERT INTO b VALUES (1)", []).unwrap();
    }

    #[test]
    fn a_newer_database_is_left_alone() {
        let conn = fresh(&[ONE, TWO]);
        let before = conn.total_changes();
        let error = run(&conn, &[ONE]).unwrap_err();
        assert!(matches!(error, MigrateError::Newer { found: 2, known: 1 }), "{error}");
        assert_eq!(conn.total_changes(), before);
    }

    #[test]
    fn an_edited_or_missing_one_is_named() {
        let conn = fresh(&[ONE, TWO]);
        let edited = Migration { sql: "CREATE TABLE a (y)", ..ONE };
        let error = run(&conn, &[edited, TWO]).unwrap_err();
        assert!(matches!(&error, MigrateError::Edited { name } if name == "0001_a.sql"), "{error}");
        conn.execute("DELETE FROM migrations WHERE number = 1", []).unwrap();
        let error = run(&conn, &[ONE, TWO]).unwrap_err();
        assert!(matches!(&error, MigrateError::Missing { name } if name == "0001_a.sql"), "{error}");
    }

    #[test]
    fn a_failing_one_leaves_nothing_behind() {
        let conn = fresh(&[ONE]);
        let broken = Migration { sql: "CREATE TABLE c (x); CREATE TABLE a (x)", ..TWO };
        assert!(run(&conn, &[ONE, broken]).is_err());
        run(&conn, &[ONE, TWO]).unwrap();
        assert!(conn.execute("INSERT INTO c VALUES (1)", []).is_err(), "rolled back with its record");
    }
}
