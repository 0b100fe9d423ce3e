//! The full-text index: rows derived from the log, fed behind it in batches. Every node has a task for it; the one that holds the
//! progress's row does the work, the others pass it by. It may be emptied at any time: it is made again.

use super::readers::Readers;
use super::words::vector;
use super::writer::Shared;
use crate::rules::failure::Failure;
use crate::rules::text::searchable;
use crate::rules::value::Row;
use crate::sqlite::index::parse_sweep;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::ids::EventId;
use switchboard_core::log::Entry;
use switchboard_core::port::store::StoreError;

/// Log records read at a time.
const BATCH_RECORDS: i64 = 256;
/// How long the task waits without being rung: other nodes ring their own.
const IDLE: Duration = Duration::from_secs(1);
/// The index waits for a pause this long: while messages pour in, the processors belong to them.
const PAUSE: Duration = Duration::from_millis(250);
/// Longest it waits for one.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a search waits for the index to catch up.
const SEARCH_WAIT: Duration = Duration::from_secs(2);
/// How often it looks whether another node has.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Follows the log until it is stopped.
pub(crate) async fn run(readers: Arc<Readers>, shared: Arc<Shared>) {
    let mut failing = false;
    loop {
        let stepped = step(&readers).await;
        let failed_before = std::mem::replace(&mut failing, stepped.is_err());
        match stepped {
            Ok(true) => shared.indexed.notify_waiters(),
            Ok(false) => wait(&shared).await,
            Err(StoreError::Closed) => return,
            Err(error) => {
                if !failed_before {
                    tracing::warn!(%error, "the full-text index could not be brought up to date; it is tried again once a second");
                }
                tokio::time::sleep(IDLE).await;
            }
        }
    }
}

// Until there is something new and a pause in it, or somebody searches. Waking in vain is no harm; not being there when it rings
// is no loss either, the second passes.
async fn wait(shared: &Shared) {
    if tokio::time::timeout(IDLE, shared.bell.notified()).await.is_err() {
        return;
    }
    let pause = async { while tokio::time::timeout(PAUSE, shared.bell.notified()).await.is_ok() {} };
    tokio::select! {
        () = pause => {}
        () = shared.wanted.notified() => {}
        () = tokio::time::sleep(PATIENCE) => {}
    }
}

/// Waits a moment for the index to come as far as `commit`. What is still missing then is found by a later search.
pub(crate) async fn caught_up(readers: &Readers, shared: &Shared, commit: u64) -> Result<(), StoreError> {
    shared.bell.notify_one();
    shared.wanted.notify_one();
    let waiting = async {
        loop {
            let indexed = shared.indexed.notified();
            let rows = readers.query("SELECT commit_no FROM search_progress", Vec::new()).await?;
            if rows.first().is_some_and(|row| row.get::<_, i64>(0).cast_unsigned() >= commit) {
                return Ok(());
            }
            let _ = tokio::time::timeout(LOOK_EVERY, indexed).await;
        }
    };
    tokio::time::timeout(SEARCH_WAIT, waiting).await.unwrap_or(Ok(()))
}

fn failed(error: &tokio_postgres::Error) -> StoreError {
    super::failure::answer(error)
}

#[expect(clippy::needless_pass_by_value, reason = "it is what errors are mapped by")]
fn unreadable(failure: Failure) -> StoreError {
    failure.answer()
}

// One batch; `false` when there was nothing left, or another node is at it.
async fn step(readers: &Readers) -> Result<bool, StoreError> {
    let mut client = readers.connection().await?;
    let tx = client.transaction().await.map_err(|error| failed(&error))?;
    // What a crash takes of it is made again.
    tx.batch_execute("SET LOCAL synchronous_commit = off").await.map_err(|error| failed(&error))?;
    let progress = "SELECT commit_no, events FROM search_progress FOR UPDATE SKIP LOCKED";
    let Some(progress) = tx.query_opt(progress, &[]).await.map_err(|error| failed(&error))? else {
        return Ok(false);
    };
    let (commit, seen): (i64, i64) = (progress.get(0), progress.get(1));
    let sql = "SELECT commit_no, entries FROM log WHERE commit_no > $1 ORDER BY commit_no LIMIT $2";
    let records = tx.query(sql, &[&commit, &BATCH_RECORDS]).await.map_err(|error| failed(&error))?;
    let Some(last) = records.last().map(|row| row.get::<_, i64>(0)) else { return Ok(false) };
    let (mut events, mut swept) = (Vec::new(), Vec::new());
    for record in &records {
        // A record that cannot be read is the log verifier's business; here it is skipped.
        for entry in Entry::decode_all(record.get(1)).unwrap_or_default() {
            match entry {
                Entry::Event { id, .. } => events.push(id.row()),
                Entry::Admitted { verb, subject, .. } if verb == "retention.sweep" => {
                    swept.extend(parse_sweep(&subject));
                }
                _ => {}
            }
        }
    }
    let (rows, vectors) = vectors(&tx, &events).await?;
    let sql = "INSERT INTO search (event, words) SELECT k.event, k.words::tsvector
               FROM unnest($1::bigint[], $2::text[]) AS k (event, words) ON CONFLICT DO NOTHING";
    tx.execute(sql, &[&rows, &vectors]).await.map_err(|error| failed(&error))?;
    for (stream, first) in swept {
        let [from, to] = [0, first].map(|seq| EventId { stream, seq }.row());
        let sql = "DELETE FROM search WHERE event >= $1 AND event < $2";
        tx.execute(sql, &[&from, &to]).await.map_err(|error| failed(&error))?;
    }
    let seen = seen + i64::try_from(events.len()).unwrap_or(0);
    let sql = "UPDATE search_progress SET commit_no = $1, events = $2";
    tx.execute(sql, &[&last, &seen]).await.map_err(|error| failed(&error))?;
    tx.commit().await.map_err(|error| failed(&error))?;
    Ok(true)
}

async fn vectors(
    tx: &deadpool_postgres::Transaction<'_>,
    events: &[i64],
) -> Result<(Vec<i64>, Vec<String>), StoreError> {
    let sql = "SELECT id, data FROM events WHERE id = ANY($1)";
    let (mut rows, mut vectors) = (Vec::new(), Vec::new());
    for row in &tx.query(sql, &[&events]).await.map_err(|error| failed(&error))? {
        let row: &dyn Row = row;
        let data: Vec<u8> = row.get(1).map_err(unreadable)?;
        if let Some(vector) = vector(&searchable(&data)) {
            rows.push(row.get(0).map_err(unreadable)?);
            vectors.push(vector);
        }
    }
    Ok((rows, vectors))
}
