//! The port, method by method: writes go to the writer's queue, reads to a reading connection.

use super::read::{Arg, blob, directory, each, int, ints, limit, log, nodes, position, search, stream, text};
use super::value::dialect;
use super::writer::Job;
use super::{PostgresStore, index, words};
use crate::rules;
use crate::rules::failure::Failure;
use crate::rules::outbound::reads::{Ask, Query, outbound_reads};
use crate::rules::value::{Row, Value};
use crate::sqlite::queue::PushError;
use crate::sqlite::queue::{Answer, Pending};
use crate::sqlite::state::decode_ledger;
use futures_util::FutureExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use switchboard_core::console::{LoginRow, SessionRow};
use switchboard_core::digest::Digest;
use switchboard_core::event::StoredEvent;
use switchboard_core::ids::{EventId, InstanceNo, PersonNo, SEQ_MAX, StreamId, VaultId};
use switchboard_core::ledger::Ledger;
use switchboard_core::limits::NODE_DEAD_MS;
use switchboard_core::log::{Checkpoint, Record};
use switchboard_core::outbound::send::{ApprovalRow, ConsentRow, SendDetail, SendFilter, SendRow, TopicRow};
use switchboard_core::port::outbound::OutboundReads;
use switchboard_core::port::store::{
    AgentRow, Beat, CommitListener, Credential, DeviceRow, Fut, Genesis, HandleRow, Installation,
    InstanceRow, NoticeRow, Page, Position, Pulse, ReceiptRow, SearchScope, Store, StoreError, StoreStats,
    StreamInfo, StreamOwner, SwarmRow, TaskRow,
};
use switchboard_core::time::WallMs;
use switchboard_core::write::{Batch, Outcome, VaultInfo, Write};
use tokio::sync::oneshot;

/// Streams one listing returns at most.
const STREAMS_PAGE_MAX: usize = 1000;
/// Streams one search looks into.
const SEARCH_STREAMS_MAX: usize = 1000;

impl PostgresStore {
    // Queues a job. It stands in the queue when this returns, not when the future is polled: batches apply in the order of their
    // calls.
    fn ask<T: Send + 'static>(&self, job: impl FnOnce(Answer<T>) -> Job) -> Fut<'static, T> {
        let (answer, answered) = oneshot::channel();
        match self.shared.queue.push(job(answer)) {
            // The writer drops an answer only when it could not start or the process is going down.
            Ok(()) => async {
                answered.await.unwrap_or_else(|_| Err(StoreError::Unknown("the writer has gone".into())))
            }
            .boxed(),
            Err(PushError::Full) => std::future::ready(Err(StoreError::Overloaded)).boxed(),
            Err(PushError::Closed) => std::future::ready(Err(StoreError::Closed)).boxed(),
        }
    }

    fn all<'a, T: Send + 'a>(
        &'a self,
        sql: impl AsRef<str> + Send + 'a,
        args: Vec<Arg>,
        map: impl Fn(&dyn Row) -> Result<T, Failure> + Send + Sync + 'a,
    ) -> Fut<'a, Vec<T>> {
        Box::pin(async move {
            let rows = self.readers.query(sql.as_ref(), args).await?;
            each(&rows, map).map_err(|failure| failure.answer())
        })
    }

    fn first<'a, T: Send + 'a>(
        &'a self,
        sql: impl AsRef<str> + Send + 'a,
        args: Vec<Arg>,
        map: impl Fn(&dyn Row) -> Result<T, Failure> + Send + Sync + 'a,
    ) -> Fut<'a, Option<T>> {
        Box::pin(async move { Ok(self.all(sql, args, map).await?.into_iter().next()) })
    }
}

fn id(row: &dyn Row) -> Result<EventId, Failure> {
    row.get(0).map(EventId::from_row)
}

fn vault_ids(vaults: &[VaultId]) -> Arg {
    Box::new(vaults.iter().map(|vault| vault.0.to_vec()).collect::<Vec<_>>())
}

impl Ask for PostgresStore {
    fn rows<T: Send + 'static>(&self, query: Query<T>) -> Fut<'_, Vec<T>> {
        let args = query.params.into_iter().map(|value| Box::new(value) as Arg).collect();
        self.all(dialect(&query.sql), args, query.map)
    }

    fn together<T: Send + 'static>(&self, queries: Vec<Query<T>>) -> Fut<'_, Vec<T>> {
        let asked = queries.into_iter().map(|query| {
            let args = query.params.into_iter().map(|value| Box::new(value) as Arg).collect();
            ((dialect(&query.sql), args), query.map)
        });
        let (asked, maps): (Vec<(String, Vec<Arg>)>, Vec<_>) = asked.unzip();
        Box::pin(async move {
            let mut found = Vec::new();
            for (rows, map) in self.readers.snapshot(&asked).await?.iter().zip(maps) {
                found.extend(each(rows, map).map_err(|failure| failure.answer())?);
            }
            Ok(found)
        })
    }
}

outbound_reads!(PostgresStore);

impl Store for PostgresStore {
    fn open(&self, genesis: Genesis) -> Fut<'_, Installation> {
        let genesis = Box::new(genesis);
        self.ask(|answer| Job::Install { genesis, answer })
    }

    fn commit(&self, batch: Batch) -> Fut<'static, Vec<Outcome>> {
        let bytes = batch.writes.iter().map(Write::size).sum();
        self.ask(|answer| Job::Commit(Pending { batch, bytes, answer }))
    }

    fn listen(&self, listener: Arc<dyn CommitListener>) {
        *self.shared.listener.lock() = Some(listener);
    }

    fn page(&self, stream: StreamId, after: u64, rows_max: usize, bytes_max: usize) -> Fut<'_, Page> {
        let bounds = [stream::behind(stream, after), stream::behind(stream, SEQ_MAX)];
        let args = vec![int(stream.0), int(bounds[0]), int(bounds[1]), limit(rows_max), limit(bytes_max)];
        Box::pin(async move {
            let rows = self.readers.query(stream::PAGE, args).await?;
            let read = || {
                let Some(first) = rows.first() else {
                    return Ok(Page { events: Vec::new(), head: 0, first: 1 });
                };
                let first: &dyn Row = first;
                let found = rows.iter().map(|row| row as &dyn Row);
                // A stream without events behind the position is one row of nothing.
                let found = found.filter(|row| row.value(2).is_ok_and(|id| id != Value::Null));
                Ok(Page {
                    events: found.map(|row| stream::event(row, 2)).collect::<Result<_, _>>()?,
                    head: first.get::<i64>(0)?.cast_unsigned(),
                    first: first.get::<i64>(1)?.cast_unsigned(),
                })
            };
            read().map_err(|failure: Failure| failure.answer())
        })
    }

    fn events(&self, ids: Vec<EventId>) -> Fut<'_, Vec<Option<StoredEvent>>> {
        Box::pin(async move {
            let rows = ints(ids.iter().map(|id| id.row()));
            let found = self.all(stream::EVENTS, vec![rows], |row| stream::event(row, 0)).await?;
            let found: std::collections::HashMap<_, _> =
                found.into_iter().map(|event| (event.id, event)).collect();
            Ok(ids.iter().map(|id| found.get(id).cloned()).collect())
        })
    }

    fn thread(&self, thread: EventId, after: u64, rows_max: usize) -> Fut<'_, Vec<StoredEvent>> {
        let args = vec![int(thread.row()), int(stream::behind(thread.stream, after)), limit(rows_max)];
        self.all(stream::THREAD, args, |row| stream::event(row, 0))
    }

    fn channels(&self, vaults: Vec<VaultId>) -> Fut<'_, Vec<StreamInfo>> {
        let sql = format!(
            "{} JOIN unnest($1::bytea[]) WITH ORDINALITY AS k (vault, place) ON s.vault = k.vault ORDER BY k.place, s.id",
            stream::STREAMS
        );
        self.all(sql, vec![vault_ids(&vaults)], stream::stream)
    }

    fn stream(&self, owner: StreamOwner) -> Fut<'_, Option<StreamInfo>> {
        let (condition, args) = match &owner {
            StreamOwner::Channel { vault, name } => {
                ("s.vault = $1 AND s.name = $2", vec![blob(&vault.0), text(name)])
            }
            StreamOwner::Swarm { swarm } => ("s.swarm = $1", vec![text(swarm)]),
        };
        self.first(format!("{} WHERE {condition}", stream::STREAMS), args, stream::stream)
    }

    fn stream_by_id(&self, id: StreamId) -> Fut<'_, Option<StreamInfo>> {
        self.first(format!("{} WHERE s.id = $1", stream::STREAMS), vec![int(id.0)], stream::stream)
    }

    fn streams(&self, after: u32) -> Fut<'_, Vec<StreamInfo>> {
        let sql = format!("{} WHERE s.id > $1 ORDER BY s.id LIMIT $2", stream::STREAMS);
        self.all(sql, vec![int(after), limit(STREAMS_PAGE_MAX)], stream::stream)
    }

    fn credential(&self, token_hash: [u8; 32], now_ms: WallMs) -> Fut<'_, Option<Credential>> {
        let args = vec![blob(&token_hash)];
        self.first(directory::CREDENTIAL, args, move |row| directory::credential(row, now_ms))
    }

    fn instance(&self, instance_id: String) -> Fut<'_, Option<InstanceRow>> {
        let sql = format!("{} WHERE i.instance_id = $1", directory::INSTANCES);
        self.first(sql, vec![text(&instance_id)], directory::instance)
    }

    fn instances(&self) -> Fut<'_, Vec<InstanceRow>> {
        let sql = format!("{} ORDER BY i.id", directory::INSTANCES);
        self.all(sql, Vec::new(), directory::instance)
    }

    fn vaults(&self) -> Fut<'_, Vec<VaultInfo>> {
        self.all(directory::VAULTS, Vec::new(), directory::vault)
    }

    fn agents(&self, vaults: Vec<VaultId>, after: u64) -> Fut<'_, Vec<AgentRow>> {
        self.all(directory::AGENTS, vec![vault_ids(&vaults), position(after)], directory::agent)
    }

    fn notices(
        &self,
        instance: InstanceNo,
        after: i64,
        now_ms: WallMs,
        rows_max: usize,
    ) -> Fut<'_, Vec<NoticeRow>> {
        let args = vec![int(instance.0), int(after), int(now_ms), limit(rows_max)];
        self.all(directory::NOTICES, args, directory::notice)
    }

    fn receipts(&self, events: Vec<EventId>) -> Fut<'_, Vec<ReceiptRow>> {
        let rows = ints(events.iter().map(|event| event.row()));
        self.all(directory::RECEIPTS, vec![rows], directory::receipt)
    }

    fn unread(&self, instance: InstanceNo, agent: String, rows_max: usize) -> Fut<'_, Vec<EventId>> {
        self.all(directory::UNREAD, vec![int(instance.0), text(&agent), limit(rows_max)], id)
    }

    fn inbox(&self, instance: InstanceNo, agent: String) -> Fut<'_, Vec<(StreamId, u64)>> {
        self.all(directory::INBOX, vec![int(instance.0), text(&agent)], directory::inbox)
    }

    fn devices(&self, now_ms: WallMs) -> Fut<'_, Vec<DeviceRow>> {
        self.all(directory::DEVICES, vec![int(now_ms)], directory::device)
    }

    fn tasks(&self, vault: VaultId) -> Fut<'_, Vec<TaskRow>> {
        self.all(directory::TASKS, vec![blob(&vault.0)], move |row| directory::task(vault, row))
    }

    fn swarms(&self) -> Fut<'_, Vec<SwarmRow>> {
        self.all(directory::SWARMS, Vec::new(), directory::swarm)
    }

    fn memberships(&self) -> Fut<'_, Vec<(String, HandleRow)>> {
        self.all(directory::MEMBERSHIPS, Vec::new(), |row| Ok((row.get(3)?, directory::handle(row)?)))
    }

    fn handle(&self, handle: String) -> Fut<'_, Option<HandleRow>> {
        self.first(directory::HANDLE, vec![text(&handle)], directory::handle)
    }

    fn next_deadline(&self) -> Fut<'_, Option<WallMs>> {
        let sql = "SELECT min(deadline_ms) FROM questions WHERE state = 1";
        Box::pin(async move { Ok(self.first(sql, Vec::new(), |row| row.get(0)).await?.flatten()) })
    }

    fn console_session(&self, hash: Digest, now_ms: WallMs) -> Fut<'_, Option<SessionRow>> {
        self.first(rules::SESSION, vec![blob(&hash), int(now_ms)], rules::session_row)
    }

    fn console_sessions(&self, person: PersonNo, now_ms: WallMs) -> Fut<'_, Vec<SessionRow>> {
        self.all(rules::SESSIONS, vec![int(person.0), int(now_ms)], rules::session_row)
    }

    fn console_login(&self, name: String) -> Fut<'_, Option<LoginRow>> {
        self.first(rules::LOGIN, vec![text(&name)], rules::login_row)
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn position(&self) -> Fut<'_, Position> {
        Box::pin(async {
            let read = |row: &dyn Row| Ok((nodes::position(row)?, row.get::<[u8; 32]>(4)?));
            let Some((position, digest)) = self.first(nodes::POSITION, Vec::new(), read).await? else {
                return Ok(Position::default());
            };
            self.shared.see(position.commit, digest);
            Ok(position)
        })
    }

    fn grown(&self, heads: Vec<(StreamId, u64)>) -> Fut<'_, Vec<StreamInfo>> {
        let streams = ints(heads.iter().map(|(stream, _)| stream.0.into()));
        let heads = ints(heads.iter().map(|(_, head)| head.cast_signed()));
        let sql = format!("{} {}", stream::STREAMS, nodes::GROWN);
        self.all(sql, vec![streams, heads], stream::stream)
    }

    fn noticed(&self, after: i64) -> Fut<'_, Vec<InstanceNo>> {
        self.all(nodes::NOTICED, vec![int(after)], |row| row.get(0).map(InstanceNo))
    }

    fn beat(&self, beat: Beat) -> Fut<'_, Pulse> {
        self.shared.node.store(beat.node, Ordering::Relaxed);
        if !self.shared.checking.swap(true, Ordering::AcqRel) && self.shared.queue.push(Job::Check).is_err() {
            self.shared.checking.store(false, Ordering::Release);
        }
        let fence = beat.fence.map_or(0, u64::cast_signed);
        let (node, rings) = (int(beat.node.cast_signed()), int(u8::from(beat.rings)));
        let args = vec![node, rings, text(beat.lease), int(fence), int(NODE_DEAD_MS), int(beat.keep_ms)];
        Box::pin(async move {
            // A node that is too old for the schema, or whose store has moved, must not count as alive.
            self.readers.check_schema().await?;
            if !self.shared.moving {
                self.readers.check_mark().await?;
            }
            let pulse = self.first(nodes::BEAT, args, nodes::pulse).await?;
            pulse.ok_or_else(|| StoreError::Inconsistent("a beat without an answer".into()))
        })
    }

    fn outbound(&self) -> &dyn OutboundReads {
        self
    }

    fn log(&self, after: u64, rows_max: usize) -> Fut<'_, Vec<Record>> {
        self.all(log::LOG, vec![position(after), limit(rows_max)], log::record)
    }

    fn checkpoints(&self, after: u64, rows_max: usize) -> Fut<'_, Vec<Checkpoint>> {
        self.all(log::CHECKPOINTS, vec![position(after), limit(rows_max)], log::checkpoint)
    }

    fn ledger(&self) -> Fut<'_, Ledger> {
        let read = |row: &dyn Row| {
            let ledger = decode_ledger(&row.get::<Vec<u8>>(0)?);
            ledger.ok_or_else(|| Failure::Inconsistent("a damaged ledger".into()))
        };
        Box::pin(async move {
            Ok(self.first("SELECT ledger FROM head", Vec::new(), read).await?.unwrap_or_default())
        })
    }

    fn search(&self, words: String, scope: SearchScope, rows_max: usize) -> Fut<'_, Vec<EventId>> {
        let query = words::query(&words);
        if query.is_empty() || !self.search {
            return std::future::ready(Ok(Vec::new())).boxed();
        }
        let commit = self.shared.commit.load(Ordering::Relaxed);
        let reader: Arg = Box::new(scope.instance.map(|instance| i64::from(instance.0)));
        let streams = scope.streams.iter().take(SEARCH_STREAMS_MAX).map(|stream| stream.0.into());
        let args = vec![text(&query), ints(streams), reader, limit(rows_max)];
        Box::pin(async move {
            index::caught_up(&self.readers, &self.shared, commit).await?;
            self.all(search::SEARCH, args, id).await
        })
    }

    fn stats(&self) -> Fut<'_, StoreStats> {
        Box::pin(async move {
            let number = |row: &dyn Row, at| row.get::<i64>(at).map(i64::cast_unsigned);
            let read = |row: &dyn Row| {
                let lag = number(row, 1)?.saturating_sub(number(row, 3)?);
                Ok(StoreStats {
                    streams: number(row, 0)?,
                    commits: number(row, 2)?,
                    queued: self.shared.queue.queued() as u64,
                    wal_bytes: 0,
                    db_bytes: number(row, 4)?,
                    search_lag: if self.search { lag } else { 0 },
                })
            };
            Ok(self.first(log::SIZES, Vec::new(), read).await?.unwrap_or_default())
        })
    }

    fn backup(&self, target: PathBuf) -> Fut<'_, ()> {
        Box::pin(async move {
            self.readers.check_whole().await?;
            super::backup::backup(&self.readers, &target).await
        })
    }

    fn wall_ms(&self) -> Fut<'_, WallMs> {
        let sql = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
        Box::pin(async move {
            let now = self.first(sql, Vec::new(), |row| row.get(0)).await?;
            now.ok_or_else(|| StoreError::Inconsistent("the database has no clock".into()))
        })
    }

    fn hurry(&self) {
        self.shared.hurry.begin();
    }

    fn close(&self) -> Fut<'_, ()> {
        // Joining the writer blocks until the commit that is under way has ended.
        let (shared, readers) = (Arc::clone(&self.shared), Arc::clone(&self.readers));
        let running = Arc::clone(&self.running);
        let ended = tokio::task::spawn_blocking(move || Self::shut(&shared, &readers, &running));
        async { ended.await.map_err(|_| StoreError::Backend("the store was not closed in order".into())) }
            .boxed()
    }
}
