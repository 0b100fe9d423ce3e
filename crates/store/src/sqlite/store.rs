//! The port, method by method: writes go to the writer, at once or through its queue, reads to a reading thread.

use super::checkpoint::FRAME_BYTES;
use super::queue::{Answer, Pending};
use super::queue::{PushError, Queue};
use super::read::{console, directory, log, search, stream};
use super::writer::{self, Job};
use super::{SqliteStore, backup};
use crate::rules::outbound::reads::{Ask, Query, outbound_reads};
use futures_util::FutureExt as _;
use rusqlite::params_from_iter;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use switchboard_core::console::{LoginRow, SessionRow};
use switchboard_core::digest::Digest;
use switchboard_core::event::StoredEvent;
use switchboard_core::ids::{EventId, InstanceNo, PersonNo, StreamId, VaultId};
use switchboard_core::ledger::Ledger;
use switchboard_core::log::{Checkpoint, Record};
use switchboard_core::outbound::send::{ApprovalRow, ConsentRow, SendDetail, SendFilter, SendRow, TopicRow};
use switchboard_core::port::outbound::OutboundReads;
use switchboard_core::port::store::{
    AgentRow, CommitListener, Credential, DeviceRow, Fut, Genesis, HandleRow, Installation, InstanceRow,
    NoticeRow, Page, ReceiptRow, SearchScope, Store, StoreError, StoreStats, StreamInfo, StreamOwner,
    SwarmRow, TaskRow,
};
use switchboard_core::time::WallMs;
use switchboard_core::write::{Batch, Outcome, VaultInfo, Write};
use tokio::sync::oneshot;

/// Queues a job. It stands in the queue when this returns, not when the future is polled: batches apply in the order of
/// their calls.
fn ask<T: Send + 'static>(queue: &Queue<Job>, job: impl FnOnce(Answer<T>) -> Job) -> Fut<'static, T> {
    let (answer, answered) = oneshot::channel();
    match queue.push(job(answer)) {
        // The writer drops an answer only when it could not start or the process is going down.
        Ok(()) => async {
            answered.await.unwrap_or_else(|_| Err(StoreError::Unknown("the writer has gone".into())))
        }
        .boxed(),
        Err(PushError::Full) => std::future::ready(Err(StoreError::Overloaded)).boxed(),
        Err(PushError::Closed) => std::future::ready(Err(StoreError::Closed)).boxed(),
    }
}

impl Ask for SqliteStore {
    fn rows<T: Send + 'static>(&self, query: Query<T>) -> Fut<'_, Vec<T>> {
        self.together(vec![query])
    }

    // A reader runs what it is given in a transaction.
    fn together<T: Send + 'static>(&self, queries: Vec<Query<T>>) -> Fut<'_, Vec<T>> {
        let read = self.parts.readers.read(move |conn| {
            let mut found = Vec::new();
            for query in queries {
                let mut statement = conn.prepare_cached(&query.sql)?;
                let mut rows = statement.query(params_from_iter(&query.params))?;
                while let Some(row) = rows.next()? {
                    match (query.map)(row) {
                        Ok(row) => found.push(row),
                        Err(failure) => return Ok(Err(failure.answer())),
                    }
                }
            }
            Ok(Ok(found))
        });
        Box::pin(async { read.await? })
    }
}

outbound_reads!(SqliteStore);

impl Store for SqliteStore {
    fn open(&self, genesis: Genesis) -> Fut<'_, Installation> {
        let genesis = Box::new(genesis);
        ask(&self.parts.shared.queue, |answer| Job::Install { genesis, answer })
    }

    fn commit(&self, batch: Batch) -> Fut<'static, Vec<Outcome>> {
        let batch = match writer::commit_at_once(&self.parts.slot, batch) {
            Ok(done) => return std::future::ready(done).boxed(),
            Err(batch) => batch,
        };
        let bytes = batch.writes.iter().map(Write::size).sum();
        ask(&self.parts.shared.queue, |answer| Job::Commit(Pending { batch, bytes, answer }))
    }

    fn listen(&self, listener: Arc<dyn CommitListener>) {
        *self.parts.shared.listener.lock() = Some(listener);
    }

    fn page(&self, stream: StreamId, after: u64, limit: usize, bytes_max: usize) -> Fut<'_, Page> {
        self.parts.readers.read(move |conn| stream::page(conn, stream, after, limit, bytes_max))
    }

    fn events(&self, ids: Vec<EventId>) -> Fut<'_, Vec<Option<StoredEvent>>> {
        self.parts.readers.read(move |conn| stream::events(conn, &ids))
    }

    fn thread(&self, thread: EventId, after: u64, limit: usize) -> Fut<'_, Vec<StoredEvent>> {
        self.parts.readers.read(move |conn| stream::thread(conn, thread, after, limit))
    }

    fn channels(&self, vaults: Vec<VaultId>) -> Fut<'_, Vec<StreamInfo>> {
        self.parts.readers.read(move |conn| stream::channels(conn, &vaults))
    }

    fn stream(&self, owner: StreamOwner) -> Fut<'_, Option<StreamInfo>> {
        self.parts.readers.read(move |conn| stream::stream(conn, &owner))
    }

    fn stream_by_id(&self, id: StreamId) -> Fut<'_, Option<StreamInfo>> {
        self.parts.readers.read(move |conn| stream::stream_by_id(conn, id))
    }

    fn streams(&self, after: u32) -> Fut<'_, Vec<StreamInfo>> {
        self.parts.readers.read(move |conn| stream::streams(conn, after))
    }

    fn credential(&self, token_hash: [u8; 32], now_ms: WallMs) -> Fut<'_, Option<Credential>> {
        self.parts.readers.read(move |conn| directory::credential(conn, &token_hash, now_ms))
    }

    fn instance(&self, instance_id: String) -> Fut<'_, Option<InstanceRow>> {
        self.parts.readers.read(move |conn| directory::instance(conn, &instance_id))
    }

    fn instances(&self) -> Fut<'_, Vec<InstanceRow>> {
        self.parts.readers.read(directory::instances)
    }

    fn vaults(&self) -> Fut<'_, Vec<VaultInfo>> {
        self.parts.readers.read(directory::vaults)
    }

    fn agents(&self, vaults: Vec<VaultId>, after: u64) -> Fut<'_, Vec<AgentRow>> {
        self.parts.readers.read(move |conn| directory::agents(conn, &vaults, after))
    }

    fn notices(
        &self,
        instance: InstanceNo,
        after: i64,
        now_ms: WallMs,
        limit: usize,
    ) -> Fut<'_, Vec<NoticeRow>> {
        self.parts.readers.read(move |conn| directory::notices(conn, instance, after, now_ms, limit))
    }

    fn receipts(&self, events: Vec<EventId>) -> Fut<'_, Vec<ReceiptRow>> {
        self.parts.readers.read(move |conn| directory::receipts(conn, &events))
    }

    fn unread(&self, instance: InstanceNo, agent: String, limit: usize) -> Fut<'_, Vec<EventId>> {
        self.parts.readers.read(move |conn| directory::unread(conn, instance, &agent, limit))
    }

    fn inbox(&self, instance: InstanceNo, agent: String) -> Fut<'_, Vec<(StreamId, u64)>> {
        self.parts.readers.read(move |conn| directory::inbox(conn, instance, &agent))
    }

    fn devices(&self, now_ms: WallMs) -> Fut<'_, Vec<DeviceRow>> {
        self.parts.readers.read(move |conn| directory::devices(conn, now_ms))
    }

    fn tasks(&self, vault: VaultId) -> Fut<'_, Vec<TaskRow>> {
        self.parts.readers.read(move |conn| directory::tasks(conn, vault))
    }

    fn swarms(&self) -> Fut<'_, Vec<SwarmRow>> {
        self.parts.readers.read(directory::swarms)
    }

    fn memberships(&self) -> Fut<'_, Vec<(String, HandleRow)>> {
        self.parts.readers.read(directory::memberships)
    }

    fn handle(&self, handle: String) -> Fut<'_, Option<HandleRow>> {
        self.parts.readers.read(move |conn| directory::handle(conn, &handle))
    }

    fn next_deadline(&self) -> Fut<'_, Option<WallMs>> {
        self.parts.readers.read(stream::next_deadline)
    }

    fn outbound(&self) -> &dyn OutboundReads {
        self
    }

    fn console_session(&self, hash: Digest, now_ms: WallMs) -> Fut<'_, Option<SessionRow>> {
        self.parts.readers.read(move |conn| console::session(conn, &hash, now_ms))
    }

    fn console_sessions(&self, person: PersonNo, now_ms: WallMs) -> Fut<'_, Vec<SessionRow>> {
        self.parts.readers.read(move |conn| console::sessions(conn, person, now_ms))
    }

    fn console_login(&self, name: String) -> Fut<'_, Option<LoginRow>> {
        self.parts.readers.read(move |conn| console::login(conn, &name))
    }

    fn log(&self, after: u64, limit: usize) -> Fut<'_, Vec<Record>> {
        self.parts.readers.read(move |conn| log::log(conn, after, limit))
    }

    fn checkpoints(&self, after: u64, limit: usize) -> Fut<'_, Vec<Checkpoint>> {
        self.parts.readers.read(move |conn| log::checkpoints(conn, after, limit))
    }

    fn ledger(&self) -> Fut<'_, Ledger> {
        self.parts.readers.read(log::ledger)
    }

    fn search(&self, words: String, scope: SearchScope, limit: usize) -> Fut<'_, Vec<EventId>> {
        let Some(bell) = self.parts.shared.bell.clone() else {
            return std::future::ready(Ok(Vec::new())).boxed();
        };
        let commit = self.parts.shared.commits.load(Ordering::Relaxed);
        Box::pin(async move {
            // Waiting takes no reading thread, so that searches hold up nobody but themselves.
            let asked = tokio::task::spawn_blocking(move || bell.ask(commit)).await;
            asked.map_err(|error| StoreError::Backend(error.to_string().into()))?;
            self.parts.readers.read(move |conn| search::search(conn, &words, &scope, limit)).await
        })
    }

    fn stats(&self) -> Fut<'_, StoreStats> {
        let shared = Arc::clone(&self.parts.shared);
        self.parts.readers.read(move |conn| {
            let sizes = log::sizes(conn)?;
            Ok(StoreStats {
                streams: sizes.streams,
                commits: shared.commits.load(Ordering::Relaxed),
                queued: shared.queue.queued() as u64,
                wal_bytes: shared.log.pages() * FRAME_BYTES,
                db_bytes: sizes.bytes,
                search_lag: shared.bell.as_ref().map_or(0, |bell| sizes.events.saturating_sub(bell.seen())),
            })
        })
    }

    fn backup(&self, target: PathBuf) -> Fut<'_, ()> {
        let database = self.files.database.clone();
        let copied = tokio::task::spawn_blocking(move || backup::backup(&database, &target));
        async {
            copied.await.unwrap_or_else(|_| Err(StoreError::Backend("the copy was not finished".into())))
        }
        .boxed()
    }

    fn wall_ms(&self) -> Fut<'_, WallMs> {
        std::future::ready(Ok(self.clock.wall_ms())).boxed()
    }

    fn close(&self) -> Fut<'_, ()> {
        // Joining threads blocks until the commit that is under way has ended.
        let parts = Arc::clone(&self.parts);
        let ended = tokio::task::spawn_blocking(move || parts.shut());
        async { ended.await.map_err(|_| StoreError::Backend("the store was not closed in order".into())) }
            .boxed()
    }
}
