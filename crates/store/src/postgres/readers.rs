//! Readers: a few connections that are shared by all who ask.

use super::config::{Address, OpenError};
use super::failure::{Kind, answer, kind, told};
use super::read::Arg;
use deadpool_postgres::{
    Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime, TimeoutType,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use switchboard_core::port::store::StoreError;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// How long a query waits for a connection.
const WAIT: Duration = Duration::from_secs(10);

/// The pool.
pub(crate) struct Readers {
    pool: Pool,
    closed: AtomicBool,
}

impl Readers {
    pub(crate) fn new(address: &Address, size: usize) -> Result<Self, OpenError> {
        let (config, tls) = address.driver();
        let manager =
            Manager::from_config(config, tls, ManagerConfig { recycling_method: RecyclingMethod::Fast });
        let pool = Pool::builder(manager)
            .max_size(size.max(1))
            .wait_timeout(Some(WAIT))
            .create_timeout(Some(WAIT))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| OpenError::Server(error.to_string()))?;
        Ok(Self { pool, closed: AtomicBool::new(false) })
    }

    /// No more queries.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.pool.close();
    }

    /// A connection of its own for a while.
    pub(crate) async fn connection(&self) -> Result<Object, StoreError> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(StoreError::Closed);
        }
        self.pool.get().await.map_err(|error| match error {
            PoolError::Timeout(TimeoutType::Wait) => StoreError::Overloaded,
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

    async fn try_query(
        &self,
        sql: &str,
        args: &[Arg],
    ) -> Result<Result<Vec<Row>, tokio_postgres::Error>, StoreError> {
        let client = self.connection().await?;
        let args: Vec<&(dyn ToSql + Sync)> = args.iter().map(|arg| &**arg as _).collect();
        let statement = match client.prepare_cached(sql).await {
            Ok(statement) => statement,
            Err(error) => return Ok(Err(error)),
        };
        Ok(client.query(&statement, &args).await)
    }
}
