//! Copies of the whole store, taken while everything goes on. A copy is a database of the embedded store: it stands alone, the
//! program opens and checks it as it is, and it can be brought back into either backend.

use super::failure::answer;
use super::ids;
use super::readers::Readers;
use crate::rules::failure::Failure;
use crate::rules::value::Row;
use crate::sqlite::copy::{Copy, TABLES, Table};
use crate::sqlite::state::{Counter, decode_ledger, encode_ledger};
use futures_util::{StreamExt as _, pin_mut};
use std::path::Path;
use switchboard_core::port::store::StoreError;

/// Copies everything, as of one moment, into the file `target`, which must not exist; what was begun is removed when it fails.
pub(crate) async fn backup(readers: &Readers, target: &Path) -> Result<(), StoreError> {
    let mut copy = Copy::begin(target)?;
    let mut client = readers.connection().await?;
    let failed = |error: tokio_postgres::Error| answer(&error);
    let tx = client.build_transaction().isolation_level(tokio_postgres::IsolationLevel::RepeatableRead);
    let tx = tx.read_only(true).start().await.map_err(failed)?;
    // A large table takes longer than any other statement may.
    tx.batch_execute("SET LOCAL statement_timeout = 0").await.map_err(failed)?;
    let head_sql = "SELECT commit_no, version, notice, probe_ms, ledger FROM head";
    let head = tx.query_one(head_sql, &[]).await.map_err(failed)?;
    let commit = head.get::<_, i64>(0).cast_unsigned();
    // Into the copy's own index first, as if they stood behind its log.
    let rows = tx.query_raw(ids::ALL, Vec::<i64>::new()).await.map_err(failed)?;
    pin_mut!(rows);
    while let Some(row) = rows.next().await {
        let (key, entry) = ids::entry(&row.map_err(failed)?).map_err(|failure| failure.answer())?;
        copy.id(key, entry, commit).map_err(|failure| failure.answer())?;
    }
    copy.flush_ids(commit).map_err(|failure| failure.answer())?;
    for table in TABLES {
        let rows = tx.query_raw(&table.select(), Vec::<i64>::new()).await.map_err(failed)?;
        pin_mut!(rows);
        while let Some(row) = rows.next().await {
            insert(&mut copy, table, &row.map_err(failed)?)?;
        }
    }
    counters(&mut copy, &head).map_err(|failure| failure.answer())?;
    copy.finish()
}

fn insert(copy: &mut Copy, table: &Table, row: &tokio_postgres::Row) -> Result<(), StoreError> {
    let values = (0..row.len()).map(|column| row.value(column)).collect::<Result<Vec<_>, _>>();
    copy.insert(table, &values.map_err(|failure| failure.answer())?)
}

// What is one row here stands in several rows of the embedded store's counters.
fn counters(copy: &mut Copy, head: &dyn Row) -> Result<(), Failure> {
    let ledger = decode_ledger(&head.get::<Vec<u8>>(4)?)
        .ok_or_else(|| Failure::Inconsistent("a damaged ledger".into()))?;
    copy.counter(Counter::Store, head.get(0)?, head.get(1)?, Some(&encode_ledger(&ledger)))?;
    copy.counter(Counter::Notices, head.get(2)?, 0, None)?;
    copy.counter(Counter::Probe, head.get(3)?, 0, None)
}
