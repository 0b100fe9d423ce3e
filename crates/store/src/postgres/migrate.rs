//! Migrations under the same numbers as SQLite's, each applied together with its own record, one node at a time, while the others
//! go on.
//!
//! To change the schema: add `NNNN_name.sql` under both `migrations/sqlite` and `migrations/postgres`, and their lines to both
//! lists. Never edit one that was shipped. One that only adds (tables, indexes, columns with a default that older programs need
//! not know) names the program before it as `compatible_from`: its nodes go on, and may start again (ADR 9).

use super::config::{OpenError, opening};
use super::failure::{Kind, kind};
use crate::rules::failure::Failure;
use crate::rules::value::Row;
use crate::sqlite::migrate::{Applied, MigrateError, Migration, checksum, compare};
use std::time::Duration;
use tokio_postgres::Client;

/// Every migration in order.
pub(crate) const MIGRATIONS: &[Migration] = &[
    Migration {
        number: 1,
        name: "0001_initial.sql",
        sql: include_str!("../../migrations/postgres/0001_initial.sql"),
        compatible_from: 1,
    },
    Migration {
        number: 2,
        name: "0002_nodes.sql",
        sql: include_str!("../../migrations/postgres/0002_nodes.sql"),
        compatible_from: 2,
    },
    Migration {
        number: 3,
        name: "0003_moving.sql",
        sql: include_str!("../../migrations/postgres/0003_moving.sql"),
        compatible_from: 3,
    },
    Migration {
        number: 4,
        name: "0004_outbound.sql",
        sql: include_str!("../../migrations/postgres/0004_outbound.sql"),
        compatible_from: 3,
    },
    Migration {
        number: 5,
        name: "0005_console.sql",
        sql: include_str!("../../migrations/postgres/0005_console.sql"),
        compatible_from: 3,
    },
    Migration {
        number: 6,
        name: "0006_amends.sql",
        sql: include_str!("../../migrations/postgres/0006_amends.sql"),
        compatible_from: 3,
    },
    Migration {
        number: 7,
        name: "0007_quiet.sql",
        sql: include_str!("../../migrations/postgres/0007_quiet.sql"),
        compatible_from: 3,
    },
    Migration {
        number: 8,
        name: "0008_escalation.sql",
        sql: include_str!("../../migrations/postgres/0008_escalation.sql"),
        compatible_from: 3,
    },
    // States of parts that an older program would not know.
    Migration {
        number: 9,
        name: "0009_rounds.sql",
        sql: include_str!("../../migrations/postgres/0009_rounds.sql"),
        compatible_from: 9,
    },
];

/// The newest schema that a list knows.
pub(crate) fn newest(migrations: &[Migration]) -> u32 {
    migrations.last().map_or(0, |last| last.number)
}

/// Number of the lock under which schemas are changed: "swbd" in ASCII. With it goes a number of the schema's name.
const LOCK: i32 = 0x7377_6264;
/// How long a node that starts waits for another that changes the schema.
const WAIT: Duration = Duration::from_mins(10);
/// Between two looks whether it is done.
const LOOK: Duration = Duration::from_millis(100);
/// How often a migration that nodes at work were in the way of is tried.
const TRIES_MAX: u32 = 20;

/// What must not be newer for a program to go on: the schema, and the oldest program that may work with it. Rows of a program
/// that did not record it count as for itself alone. A column that is missing reads as null.
pub(crate) const NEWER: &str =
    "SELECT max(number), max(coalesce((to_jsonb(m) ->> 'compatible_from')::bigint, number))
    FROM migrations m WHERE number > $1";

/// Refuses to go on when a row of [`NEWER`] says that the program which knows `known` is too old.
pub(crate) fn may_go_on(row: &dyn Row, known: u32) -> Result<(), Failure> {
    match (row.get::<Option<u32>>(0)?, row.get::<Option<u32>>(1)?) {
        (Some(found), Some(needed)) if needed > known => Err(Failure::Outdated { found, known }),
        _ => Ok(()),
    }
}

/// Brings `schema` up to date, or says why it must not be touched. Two nodes that start together: one migrates, the other
/// waits and finds it done.
pub(crate) async fn run(client: &Client, schema: &str, migrations: &[Migration]) -> Result<(), OpenError> {
    if check(client, schema, migrations).await? == migrations.len() {
        return Ok(());
    }
    // A large table takes the time it takes; who waits for one of its rows waits within its own bounds.
    client.batch_execute("SET statement_timeout = 0").await.map_err(opening)?;
    lock(client, schema).await?;
    let done = locked(client, schema, migrations).await;
    // Ending the session lets go of it as well.
    let _ = client.execute("SELECT pg_advisory_unlock($1, hashtext($2))", &[&LOCK, &schema]).await;
    done
}

async fn lock(client: &Client, schema: &str) -> Result<(), OpenError> {
    let sql = "SELECT pg_try_advisory_lock($1, hashtext($2))";
    let asked = async {
        while !client.query_one(sql, &[&LOCK, &schema]).await.map_err(opening)?.get::<_, bool>(0) {
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    };
    tokio::time::timeout(WAIT, asked).await.unwrap_or_else(|_| {
        Err(OpenError::Migrate(
            "another node has been changing the schema for ten minutes: see its log".into(),
        ))
    })
}

async fn locked(client: &Client, schema: &str, migrations: &[Migration]) -> Result<(), OpenError> {
    let applied = check(client, schema, migrations).await?;
    for migration in &migrations[applied..] {
        let steps = steps(schema, migration);
        let mut tries = 1;
        while let Err(error) = client.batch_execute(&steps).await {
            // The first error is the one to tell.
            let _ = client.batch_execute("ROLLBACK").await;
            if kind(&error) != Kind::Conflict || tries >= TRIES_MAX {
                return Err(opening(error));
            }
            tries += 1;
            tokio::time::sleep(LOOK).await;
        }
        tracing::info!(migration = migration.name, "the schema was brought up to date");
    }
    Ok(())
}

// Its own record last, under the head's lock: a commit that takes that lock later sees the record, and one that goes on from the head
// it knows finds that the directory has changed. Nodes at work wait for a table at most as long as this waits for them.
fn steps(schema: &str, migration: &Migration) -> String {
    let Migration { number, name, sql, compatible_from } = migration;
    let checksum = checksum(migration);
    format!(
        "BEGIN; SET LOCAL lock_timeout = '2s'; CREATE SCHEMA IF NOT EXISTS {schema};
         CREATE TABLE IF NOT EXISTS migrations (number BIGINT PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL);
         ALTER TABLE migrations ADD COLUMN IF NOT EXISTS compatible_from BIGINT;
         {sql};
         UPDATE head SET directory = directory + 1;
         INSERT INTO migrations (number, name, checksum, compatible_from)
         VALUES ({number}, '{name}', '{checksum}', {compatible_from}); COMMIT"
    )
}

/// Compares what was applied with what is known; writes nothing. Returns how many of those known were applied.
async fn check(client: &Client, schema: &str, migrations: &[Migration]) -> Result<usize, OpenError> {
    let there = "SELECT to_regclass($1 || '.migrations') IS NOT NULL";
    if !client.query_one(there, &[&schema]).await.map_err(opening)?.get::<_, bool>(0) {
        return Ok(0);
    }
    let sql = "SELECT number, name, checksum, coalesce((to_jsonb(m) ->> 'compatible_from')::bigint, number)
        FROM migrations m ORDER BY number";
    let rows = client.query(sql, &[]).await.map_err(opening)?;
    let number = |row: &tokio_postgres::Row, at| u32::try_from(row.get::<_, i64>(at)).unwrap_or(u32::MAX);
    let known = newest(migrations);
    let (mut applied, mut newer): (Vec<Applied>, Vec<_>) = (Vec::new(), Vec::new());
    for row in &rows {
        if number(row, 0) <= known {
            applied.push((number(row, 0), row.get(1), row.get(2)));
        } else {
            newer.push(row);
        }
    }
    if let Some(last) = newer.last() {
        let found = number(last, 0);
        let needed = newer.iter().map(|row| number(row, 3)).max().unwrap_or(found);
        if needed > known {
            return Err(OpenError::Newer { found, known });
        }
        tracing::warn!(
            found,
            known,
            "the schema is newer than this program, which may work with it: upgrade it soon"
        );
        if applied.len() < migrations.len() {
            let name = migrations[applied.len()].name.to_owned();
            return Err(OpenError::Migrate(MigrateError::Missing { name }.to_string()));
        }
    }
    compare(applied, migrations).map_err(|error| OpenError::Migrate(error.to_string()))
}

#[cfg(all(test, feature = "conformance"))]
mod tests;
