//! Migrations under the same numbers as SQLite's, each applied together with its own record, one node at a time.
//!
//! To change the schema: add `NNNN_name.sql` under both `migrations/sqlite` and `migrations/postgres`, and their lines to both
//! lists. Never edit one that was shipped.

use super::config::{OpenError, opening};
use crate::sqlite::migrate::{MigrateError, Migration, checksum, compare};
use tokio_postgres::Client;

/// Every migration in order.
pub(crate) const MIGRATIONS: &[Migration] = &[
    Migration {
        number: 1,
        name: "0001_initial.sql",
        sql: include_str!("../../migrations/postgres/0001_initial.sql"),
    },
    Migration {
        number: 2,
        name: "0002_nodes.sql",
        sql: include_str!("../../migrations/postgres/0002_nodes.sql"),
    },
    Migration {
        number: 3,
        name: "0003_moving.sql",
        sql: include_str!("../../migrations/postgres/0003_moving.sql"),
    },
];

/// Number of the lock under which schemas are changed: "swbd" in ASCII. With it goes a number of the schema's name.
const LOCK: i32 = 0x7377_6264;

/// Brings `schema` up to date, or says why it must not be touched. Two nodes that start together: one migrates, the other
/// waits and finds it done.
pub(crate) async fn run(client: &Client, schema: &str, migrations: &[Migration]) -> Result<(), OpenError> {
    if check(client, schema, migrations).await? == migrations.len() {
        return Ok(());
    }
    let lock = "SELECT pg_advisory_lock($1, hashtext($2))";
    client.execute(lock, &[&LOCK, &schema]).await.map_err(opening)?;
    let done = locked(client, schema, migrations).await;
    // Ending the session lets go of it as well.
    let _ = client.execute("SELECT pg_advisory_unlock($1, hashtext($2))", &[&LOCK, &schema]).await;
    done
}

async fn locked(client: &Client, schema: &str, migrations: &[Migration]) -> Result<(), OpenError> {
    let applied = check(client, schema, migrations).await?;
    for migration in &migrations[applied..] {
        let row = format!(
            "INSERT INTO migrations (number, name, checksum) VALUES ({}, '{}', '{}')",
            migration.number,
            migration.name,
            checksum(migration)
        );
        let steps = format!(
            "BEGIN; CREATE SCHEMA IF NOT EXISTS {schema};
             CREATE TABLE IF NOT EXISTS migrations (number BIGINT PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL);
             {};\n{row}; COMMIT",
            migration.sql
        );
        if let Err(error) = client.batch_execute(&steps).await {
            // The first error is the one to tell.
            let _ = client.batch_execute("ROLLBACK").await;
            return Err(opening(error));
        }
    }
    Ok(())
}

/// Compares what was applied with what is known; writes nothing. Returns how many were applied.
async fn check(client: &Client, schema: &str, migrations: &[Migration]) -> Result<usize, OpenError> {
    let known = "SELECT to_regclass($1 || '.migrations') IS NOT NULL";
    if !client.query_one(known, &[&schema]).await.map_err(opening)?.get::<_, bool>(0) {
        return Ok(0);
    }
    let rows = client.query("SELECT number, name, checksum FROM migrations ORDER BY number", &[]).await;
    let rows = rows.map_err(opening)?;
    let applied = rows
        .iter()
        .map(|row| (u32::try_from(row.get::<_, i64>(0)).unwrap_or(u32::MAX), row.get(1), row.get(2)));
    compare(applied.collect(), migrations).map_err(|error| match error {
        MigrateError::Newer { found, known } => OpenError::Newer { found, known },
        other => OpenError::Migrate(other.to_string()),
    })
}
