//! A database that no node runs on, held so that nobody else copies it: to be copied from, or into.

use super::config::{Address, OpenError, opening};
use super::ids;
use super::readers::Readers;
use super::state::{HeadRow, LOCK_HEAD, READ_HEAD};
use super::{Options, PostgresStore, backup, migrate};
use crate::moving::{Mark, MoveError, READ_MARK, Tally, Totals, id_values};
use crate::rules::failure::Failure;
use crate::rules::install;
use crate::rules::value::{Row, Value};
use crate::sqlite;
use crate::sqlite::closed::values;
use crate::sqlite::copy::{TABLES, Table};
use crate::sqlite::state::encode_ledger;
use futures_util::{StreamExt as _, pin_mut};
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use switchboard_core::limits::NODE_DEAD_MS;
use switchboard_core::port::store::Installation;
use switchboard_core::time::WallMs;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, RowStream};

/// Number of the lock that keeps a second copy out: "swmv" in ASCII. With it goes a number of the schema's name.
const LOCK: i32 = 0x7377_6d76;
/// How often nodes that ran lately are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Rows after which the caller is told again.
const SAY_EVERY: u64 = 100_000;
/// Columns of the table in which ids are remembered.
const IDS: Table = Table {
    name: "dedup",
    columns: "instance, client_id, content_digest, event, thread, at_ms, expires_at_ms",
};

/// See the module.
pub struct Closed {
    client: Client,
    address: Address,
    // The last commit of what was filled in.
    filled: AtomicU64,
}

impl std::fmt::Debug for Closed {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Closed({})", self.address)
    }
}

fn failed(error: tokio_postgres::Error) -> MoveError {
    Failure::Postgres(error).into()
}

impl Closed {
    /// Connects, brings the schema up to date and keeps other copies out until this is dropped. Refused when a newer program has
    /// added to the schema, although this one may work with it: a copy would lack that.
    pub async fn open(address: &Address) -> Result<Self, MoveError> {
        let client = address.connect_to_write().await?;
        migrate::run(&client, &address.schema, migrate::MIGRATIONS).await?;
        check_whole(&client).await?;
        // Copying takes longer than anything else may.
        let set = "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = '1min'";
        client.batch_execute(set).await.map_err(failed)?;
        let lock = "SELECT pg_try_advisory_lock($1, hashtext($2))";
        let locked = client.query_one(lock, &[&LOCK, &address.schema]).await.map_err(failed)?;
        let closed = Self { client, address: address.clone(), filled: AtomicU64::new(0) };
        if locked.get(0) { Ok(closed) } else { Err(MoveError::Busy(closed.name())) }
    }

    /// Where it is, as it may be shown.
    #[must_use]
    pub fn name(&self) -> String {
        self.address.to_string()
    }

    /// What it says of itself.
    pub async fn mark(&self) -> Result<Option<Mark>, MoveError> {
        Ok(mark(&self.client).await?)
    }

    /// Waits until every node that ran on it counts as gone; `said` is called if that takes a moment. A node that goes on
    /// beating runs.
    pub async fn wait_for_nodes(&self, said: impl FnOnce()) -> Result<(), MoveError> {
        let (first, mut said) = (self.last_beat().await?, Some(said));
        loop {
            let last = self.last_beat().await?;
            if last.is_none() {
                return Ok(());
            }
            if last > first {
                return Err(MoveError::Running(self.name()));
            }
            if let Some(said) = said.take() {
                said();
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    // When a node that counts as alive last said so.
    async fn last_beat(&self) -> Result<Option<WallMs>, MoveError> {
        let sql = "SELECT max(seen_ms) FROM nodes
                   WHERE seen_ms > (extract(epoch FROM clock_timestamp()) * 1000)::bigint - $1";
        let dead_ms: WallMs = NODE_DEAD_MS;
        Ok(self.client.query_one(sql, &[&dead_ms]).await.map_err(failed)?.get(0))
    }

    async fn head(&self, sql: &str) -> Result<HeadRow, MoveError> {
        Ok(HeadRow::of(&self.client.query(sql, &[]).await.map_err(failed)?)?)
    }

    /// Opens it for reading and for few commits, although it is on the move.
    pub async fn store(&self) -> Result<PostgresStore, MoveError> {
        let options = Options { search: false, moving: true, readers: 2, ..Options::default() };
        Ok(PostgresStore::connect(self.address.clone(), options).await?)
    }

    /// What the store is of: a hub must be in it.
    pub async fn installation(&self) -> Result<Installation, MoveError> {
        let row = self.client.query_opt(install::FIND, &[]).await.map_err(failed)?;
        let row = row.ok_or_else(|| MoveError::NoHub(self.name()))?;
        Ok(install::installation(&row)?)
    }

    /// Copies everything into a new file of the embedded store.
    pub async fn backup(&self, target: &Path) -> Result<(), MoveError> {
        let readers = Readers::new(&self.address, 1)?;
        let copied = backup::backup(&readers, target).await;
        readers.close();
        Ok(copied?)
    }

    /// Marks it as left for `other`, unless it has gone beyond `commit`: no node starts on it from now on.
    pub async fn leave(&self, other: &str, commit: u64, at_ms: WallMs) -> Result<(), MoveError> {
        self.client.batch_execute("BEGIN").await.map_err(failed)?;
        let left = async {
            if self.head(LOCK_HEAD).await?.commit != commit || self.last_beat().await?.is_some() {
                return Err(MoveError::Changed(self.name()));
            }
            self.put_mark(&Mark { left: true, other: other.to_owned(), at_ms }).await
        };
        self.end(left.await).await
    }

    // Nodes compare the count before they commit, read everything again when it has changed, and meet the mark.
    async fn put_mark(&self, mark: &Mark) -> Result<(), MoveError> {
        let sql = "INSERT INTO moving (id, state, other, at_ms) VALUES (1, $1, $2, $3) ON CONFLICT (id)
                   DO UPDATE SET state = excluded.state, other = excluded.other, at_ms = excluded.at_ms";
        let other = Value::Text(mark.other.as_str().into());
        self.client.execute(sql, &[&mark.state(), &other, &mark.at_ms]).await.map_err(failed)?;
        self.client.batch_execute("UPDATE head SET directory = directory + 1").await.map_err(failed)
    }

    async fn end<T>(&self, done: Result<T, MoveError>) -> Result<T, MoveError> {
        match done {
            Ok(done) => self.client.batch_execute("COMMIT").await.map(|()| done).map_err(failed),
            Err(error) => {
                // The first error is the one to tell; a lost connection rolls back as well.
                let _ = self.client.batch_execute("ROLLBACK").await;
                Err(error)
            }
        }
    }

    /// Takes its mark off: nodes may start.
    pub async fn unmark(&self) -> Result<(), MoveError> {
        self.client.batch_execute("DELETE FROM moving").await.map_err(failed)
    }

    /// Marks it as arriving from `other` and empties it of what an interrupted copy left there. Refused when it holds anything else.
    pub async fn prepare(&self, other: &str, at_ms: WallMs) -> Result<(), MoveError> {
        self.client.batch_execute("BEGIN").await.map_err(failed)?;
        let prepared = async {
            let head = self.head(LOCK_HEAD).await?;
            match self.mark().await? {
                Some(mark) if mark.left => return Err(MoveError::Marked(self.name(), mark)),
                Some(_) => self.clear().await?,
                None if head.commit > 0 => return Err(MoveError::Occupied(self.name())),
                None => {}
            }
            self.put_mark(&Mark { left: false, other: other.to_owned(), at_ms }).await
        };
        self.end(prepared.await).await
    }

    async fn clear(&self) -> Result<(), MoveError> {
        let tables: Vec<_> = TABLES.iter().map(|table| table.name).collect();
        let zeros = |bytes| format!("decode(repeat('00', {bytes}), 'hex')");
        let sql = format!(
            "TRUNCATE {}, dedup, nodes, search, moving;
             UPDATE search_progress SET commit_no = 0, events = 0;
             UPDATE head SET commit_no = 0, digest = {}, version = 0, notice = 0, directory = directory + 1,
                 ledger = {}, probe_ms = 0",
            tables.join(", "),
            zeros(32),
            zeros(64)
        );
        self.client.batch_execute(&sql).await.map_err(failed)
    }

    /// Makes it as empty as it was, after [`prepare`](Self::prepare). Refused when it holds anything but what was filled in.
    pub async fn abandon(&self) -> Result<(), MoveError> {
        self.client.batch_execute("BEGIN").await.map_err(failed)?;
        let emptied = async {
            let commit = self.head(LOCK_HEAD).await?.commit;
            if commit > 0 && commit != self.filled.load(Ordering::Relaxed) {
                return Err(MoveError::Changed(self.name()));
            }
            self.clear().await
        };
        self.end(emptied.await).await
    }

    /// Copies everything of `from` that is not over at `now_ms`, in one transaction; `said` is told of long tables and how
    /// many rows of them are written.
    pub async fn fill(
        &self,
        from: &sqlite::Closed,
        now_ms: WallMs,
        said: &mut dyn FnMut(&str, u64),
    ) -> Result<(), MoveError> {
        self.client.batch_execute("BEGIN").await.map_err(failed)?;
        self.filled.store(from.commit(), Ordering::Relaxed);
        let filled = async {
            for table in TABLES {
                self.fill_table(from, table, said).await?;
            }
            self.fill_ids(from, now_ms, said).await?;
            self.fill_head(from.totals()).await
        };
        self.end(filled.await).await?;
        // Without it the first queries would be planned for empty tables.
        self.client.batch_execute("ANALYZE events, dedup, receipts, log").await.map_err(failed)
    }

    async fn fill_table(
        &self,
        from: &sqlite::Closed,
        table: &Table,
        said: &mut dyn FnMut(&str, u64),
    ) -> Result<(), MoveError> {
        let mut filler = Filler::begin(&self.client, table).await?;
        let mut statement = from.conn().prepare(&table.select()).map_err(Failure::from)?;
        let mut rows = statement.query([]).map_err(Failure::from)?;
        while let Some(row) = rows.next().map_err(Failure::from)? {
            filler.row(values(row)?, said).await?;
        }
        filler.finish().await
    }

    async fn fill_ids(
        &self,
        from: &sqlite::Closed,
        now_ms: WallMs,
        said: &mut dyn FnMut(&str, u64),
    ) -> Result<(), MoveError> {
        let mut filler = Filler::begin(&self.client, &IDS).await?;
        let mut entries = from.entries(now_ms);
        while let Some((key, entry)) = entries.next(from.conn()).map_err(Failure::from)? {
            let [_, rest @ ..] = id_values(&key, &entry);
            let mut row = vec![Value::Int(ids::HASHED.0.into()), Value::Text(ids::hashed(&key).into())];
            row.extend(rest);
            filler.row(row, said).await?;
        }
        filler.finish().await
    }

    async fn fill_head(&self, totals: &Totals) -> Result<(), MoveError> {
        let sql = "UPDATE head SET commit_no = $1, digest = $2, version = $3, notice = $4, ledger = $5, probe_ms = $6,
                   directory = directory + 1";
        let (digest, ledger) = (totals.digest.as_slice(), encode_ledger(&totals.ledger));
        let (commit, version) = (totals.commit.cast_signed(), totals.version.cast_signed());
        let row: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
            [&commit, &digest, &version, &totals.notice, &ledger.as_slice(), &totals.probe_ms];
        self.client.execute(sql, &row).await.map(drop).map_err(failed)
    }

    /// Counts and digests of everything in it, of ids those that are not over at `now_ms`.
    pub async fn tallies(&self, now_ms: WallMs) -> Result<Vec<Tally>, MoveError> {
        let mut tallies = vec![self.totals().await?.tally()];
        for table in TABLES {
            let (mut tally, rows) = (Tally::new(table.name), self.stream(&table.select()).await?);
            pin_mut!(rows);
            while let Some(row) = rows.next().await {
                let row = row.map_err(failed)?;
                let values = (0..row.len()).map(|column| row.value(column)).collect::<Result<Vec<_>, _>>()?;
                tally.add(&values);
            }
            tallies.push(tally);
        }
        let (mut tally, rows) = (Tally::new("ids"), self.stream(ids::ALL).await?);
        pin_mut!(rows);
        while let Some(row) = rows.next().await {
            let (key, entry) = ids::entry(&row.map_err(failed)?)?;
            if entry.keep_until_ms() > now_ms {
                tally.add(&id_values(&key, &entry));
            }
        }
        tallies.push(tally);
        Ok(tallies)
    }

    async fn stream(&self, sql: &str) -> Result<RowStream, MoveError> {
        self.client.query_raw(sql, Vec::<i64>::new()).await.map_err(failed)
    }

    async fn totals(&self) -> Result<Totals, MoveError> {
        let head = self.head(READ_HEAD).await?;
        let probe = self.client.query_one("SELECT probe_ms FROM head", &[]).await.map_err(failed)?;
        Ok(Totals {
            commit: head.commit,
            digest: head.digest,
            version: head.version,
            notice: head.notice,
            ledger: head.ledger,
            probe_ms: probe.get(0),
        })
    }
}

async fn check_whole(client: &Client) -> Result<(), OpenError> {
    let known = migrate::newest(migrate::MIGRATIONS);
    let row = client.query_one(migrate::NEWER, &[&i64::from(known)]).await.map_err(opening)?;
    match row.get::<_, Option<i64>>(0) {
        None => Ok(()),
        Some(found) => Err(OpenError::Newer { found: u32::try_from(found).unwrap_or(u32::MAX), known }),
    }
}

/// What the database says of itself while it is on the move.
pub(crate) async fn mark(client: &Client) -> Result<Option<Mark>, OpenError> {
    let row = client.query_opt(READ_MARK, &[]).await.map_err(opening)?;
    let mark = row.map(|row| Mark::of(&row)).transpose();
    mark.map_err(|failure| OpenError::Server(failure.to_string()))
}

/// Rows on their way into one table.
struct Filler {
    table: &'static str,
    rows: u64,
    writer: Pin<Box<BinaryCopyInWriter>>,
}

impl Filler {
    async fn begin(client: &Client, table: &Table) -> Result<Self, MoveError> {
        let shape = client.prepare(&table.select()).await.map_err(failed)?;
        let types: Vec<Type> = shape.columns().iter().map(|column| column.type_().clone()).collect();
        let sql = format!("COPY {} ({}) FROM STDIN BINARY", table.name, table.columns);
        let sink = client.copy_in(&sql).await.map_err(failed)?;
        Ok(Self { table: table.name, rows: 0, writer: Box::pin(BinaryCopyInWriter::new(sink, &types)) })
    }

    async fn row(&mut self, row: Vec<Value<'_>>, said: &mut dyn FnMut(&str, u64)) -> Result<(), MoveError> {
        self.writer.as_mut().write_raw(row).await.map_err(failed)?;
        self.rows += 1;
        if self.rows.is_multiple_of(SAY_EVERY) {
            said(self.table, self.rows);
        }
        Ok(())
    }

    async fn finish(mut self) -> Result<(), MoveError> {
        let copied = self.writer.as_mut().finish().await.map_err(failed)?;
        if copied != self.rows {
            return Err(MoveError::Differs(self.table));
        }
        Ok(())
    }
}
