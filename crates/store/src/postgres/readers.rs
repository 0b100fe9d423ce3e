//! Readers: a few connections that are shared by all who ask.

use super::config::{Address, OpenError};
use super::failure::{Kind, answer, kind, told};
use super::migrate;
use super::read::Arg;
use crate::moving::{Mark, READ_MARK};
use crate::rules::failure::Failure;
use deadpool_postgres::{
    Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime, TimeoutType,
};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use switchboard_core::port::store::StoreError;
use tokio_postgres::types::ToSql;
use tokio_postgres::{IsolationLevel, Row};

/// How long a query waits for a connection.
const WAIT: Duration = Duration::from_secs(10);
/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a query may take.
const ANSWER: Duration = Duration::from_secs(15);

/// The pool.
pub(crate) struct Readers {
    pool: Pool,
    closed: AtomicBool,
    // Why nothing is read any more: what is there now may mean something else than this program takes it for, or be of the past.
    ended: OnceLock<StoreError>,
}

impl Readers {
    pub(crate) fn new(address: &Address, size: usize) -> Result<Self, OpenError> {
        let (config, tls) = address.driver();
        let manager =
            Manager::from_config(config, tls, ManagerConfig { recycling_method: RecyclingMethod::Fast });
        let pool = Pool::builder(manager)
            .max_size(size.max(1))
            .wait_timeout(Some(WAIT))
            .create_timeout(Some(CONNECT))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| OpenError::Server(error.to_string()))?;
        Ok(Self { pool, closed: AtomicBool::new(false), ended: OnceLock::new() })
    }

    /// No more queries.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.pool.close();
    }

    /// Fails, and lets every later query fail, when a newer program has changed the schema beyond what this one may work with.
    pub(crate) async fn check_schema(&self) -> Result<(), StoreError> {
        let known = migrate::newest(migrate::MIGRATIONS);
        let rows = self.query(migrate::NEWER, vec![Box::new(i64::from(known))]).await?;
        let Some(row) = rows.first() else { return Ok(()) };
        migrate::may_go_on(row, known).map_err(|failure| self.end_for(&failure))
    }

    /// Fails, and lets every later query fail, when the store is on the move: what is there is not the hub any more.
    pub(crate) async fn check_mark(&self) -> Result<(), StoreError> {
        let rows = self.query(READ_MARK, Vec::new()).await?;
        let Some(row) = rows.first() else { return Ok(()) };
        Err(self.end_for(&Mark::of(row).map_or_else(|failure| failure, Failure::Moving)))
    }

    // What the caller is told, and everybody after him if it is for good.
    fn end_for(&self, failure: &Failure) -> StoreError {
        let answer = failure.answer();
        let for_good = matches!(failure, Failure::Outdated { .. } | Failure::Moving(_));
        if for_good && self.ended.set(answer.clone()).is_ok() {
            tracing::error!(%failure, "this node serves no longer");
        }
        answer
    }

    /// Fails when a newer program has added to the schema: a copy by this one would lack that.
    pub(crate) async fn check_whole(&self) -> Result<(), StoreError> {
        let known = migrate::newest(migrate::MIGRATIONS);
        let rows = self.query(migrate::NEWER, vec![Box::new(i64::from(known))]).await?;
        let Some(found) = rows.first().and_then(|row| row.get::<_, Option<i64>>(0)) else { return Ok(()) };
        let why = format!(
            "the database has schema version {found}, of which this program knows the part up to {known}: take the copy \
             from a node of the newer version"
        );
        Err(StoreError::Backend(why.into()))
    }

    /// A connection of its own for a while.
    pub(crate) async fn connection(&self) -> Result<Object, StoreError> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(StoreError::Closed);
        }
        if let Some(why) = self.ended.get() {
            return Err(why.clone());
        }
        self.pool.get().await.map_err(|error| match error {
            PoolError::Timeout(TimeoutType::Wait) => StoreError::Overloaded,
            PoolError::Timeout(_) => StoreError::Unreachable("the database does not answer".into()),
            PoolError::Closed => StoreError::Closed,
            PoolError::Backend(error) => answer(&error),
            other => StoreError::Backend(other.to_string().into()),
        })
    }

    /// The rows of a query; a second time on another connection when the first one has gone.
    pub(crate) async fn query(&self, sql: &str, args: Vec<Arg>) -> Result<Vec<Row>, StoreError> {
        let first = self.try_query(sql, &args).await?;
        match first {
            Ok(rows) => Ok(rows),
            Err(error) if kind(&error) == Kind::Lost => {
                tracing::debug!(error = told(&error), "a query is asked again");
                self.try_query(sql, &args).await?.map_err(|error| answer(&error))
            }
            Err(error) => Err(answer(&error)),
        }
    }

    /// The rows of several queries, of one state of the database; a second time on another connection when the first one has gone.
    pub(crate) async fn snapshot(&self, asked: &[(String, Vec<Arg>)]) -> Result<Vec<Vec<Row>>, StoreError> {
        match self.try_snapshot(asked).await? {
            Ok(rows) => Ok(rows),
            Err(error) if kind(&error) == Kind::Lost => {
                tracing::debug!(error = told(&error), "queries are asked again");
                self.try_snapshot(asked).await?.map_err(|error| answer(&error))
            }
            Err(error) => Err(answer(&error)),
        }
    }

    async fn try_query(
        &self,
        sql: &str,
        args: &[Arg],
    ) -> Result<Result<Vec<Row>, tokio_postgres::Error>, StoreError> {
        let client = self.connection().await?;
        match tokio::time::timeout(ANSWER, ask(&client, sql, args)).await {
            Ok(answer) => Ok(answer),
            Err(_) => Err(self.silent(client)),
        }
    }

    async fn try_snapshot(
        &self,
        asked: &[(String, Vec<Arg>)],
    ) -> Result<Result<Vec<Vec<Row>>, tokio_postgres::Error>, StoreError> {
        let mut client = self.connection().await?;
        match tokio::time::timeout(ANSWER, ask_together(&mut client, asked)).await {
            Ok(answer) => Ok(answer),
            Err(_) => Err(self.silent(client)),
        }
    }

    // It may never answer: neither this connection is used again nor those that lie idle beside it.
    fn silent(&self, client: Object) -> StoreError {
        drop(Object::take(client));
        drop(self.pool.retain(|_, _| false));
        StoreError::Unreachable("the database does not answer".into())
    }
}

// A transaction that is given up rolls back by itself.
async fn ask_together(
    client: &mut Object,
    asked: &[(String, Vec<Arg>)],
) -> Result<Vec<Vec<Row>>, tokio_postgres::Error> {
    let snapshot = client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true);
    let snapshot = snapshot.start().await?;
    let mut found = Vec::with_capacity(asked.len());
    for (sql, args) in asked {
        let args: Vec<&(dyn ToSql + Sync)> = args.iter().map(|arg| &**arg as _).collect();
        let statement = snapshot.prepare_cached(sql).await?;
        found.push(snapshot.query(&statement, &args).await?);
    }
    snapshot.commit().await?;
    Ok(found)
}

async fn ask(client: &Object, sql: &str, args: &[Arg]) -> Result<Vec<Row>, tokio_postgres::Error> {
    let args: Vec<&(dyn ToSql + Sync)> = args.iter().map(|arg| &**arg as _).collect();
    let statement = client.prepare_cached(sql).await?;
    client.query(&statement, &args).await
}
