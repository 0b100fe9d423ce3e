//! Readers: a few threads, each with a read-only connection. Every query sees one state of the database and lets go of it
//! at once, so that checkpoints are never held up.

use super::failure::read_error;
use parking_lot::{Condvar, Mutex};
use rusqlite::Connection;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use switchboard_core::port::store::{Fut, StoreError};
use tokio::sync::oneshot;

/// Queries that may wait before more are turned away.
const WAITING_MAX: usize = 16 * 1024;

type Query = Box<dyn FnOnce(&Connection) + Send>;

#[derive(Default)]
struct Waiting {
    queries: VecDeque<Query>,
    closed: bool,
}

/// The pool.
#[derive(Default)]
pub(crate) struct Readers {
    waiting: Mutex<Waiting>,
    wake: Condvar,
}

impl Readers {
    /// Runs `query` in a transaction of its own on one of the threads.
    pub(crate) fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Fut<'static, T> {
        let (answer, answered) = oneshot::channel();
        let job: Query = Box::new(move |conn| {
            // A query that panics must not take its thread along; its caller sees a dropped answer.
            let found = catch_unwind(AssertUnwindSafe(|| snapshot(conn, query)));
            if let Ok(found) = found {
                let _ = answer.send(found.map_err(|error| read_error(&error)));
            }
        });
        let pushed = self.push(job);
        Box::pin(async move {
            pushed?;
            answered.await.unwrap_or_else(|_| Err(StoreError::Backend("a query was not finished".into())))
        })
    }

    fn push(&self, job: Query) -> Result<(), StoreError> {
        let mut waiting = self.waiting.lock();
        if waiting.closed {
            return Err(StoreError::Closed);
        }
        if waiting.queries.len() >= WAITING_MAX {
            return Err(StoreError::Overloaded);
        }
        waiting.queries.push_back(job);
        drop(waiting);
        self.wake.notify_one();
        Ok(())
    }

    /// No more queries; those that wait are still answered.
    pub(crate) fn close(&self) {
        self.waiting.lock().closed = true;
        self.wake.notify_all();
    }

    fn next(&self) -> Option<Query> {
        let mut waiting = self.waiting.lock();
        loop {
            if let Some(query) = waiting.queries.pop_front() {
                return Some(query);
            }
            if waiting.closed {
                return None;
            }
            self.wake.wait(&mut waiting);
        }
    }
}

/// One reading thread.
pub(crate) fn run(readers: &Arc<Readers>, conn: &Connection) {
    while let Some(query) = readers.next() {
        query(conn);
        if !conn.is_autocommit() {
            let _ = conn.execute_batch("ROLLBACK");
        }
    }
}

fn snapshot<T>(
    conn: &Connection,
    query: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    conn.prepare_cached("BEGIN")?.execute([])?;
    let found = query(conn);
    let ended = conn.prepare_cached("COMMIT")?.execute([]);
    let found = found?;
    ended?;
    Ok(found)
}
