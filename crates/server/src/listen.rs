//! Listening: one task per connection, bounded in number and by the files the system grants, heads and writes in bounded
//! time, a drain at the end.

use crate::Doors;
use crate::stall::Stall;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use switchboard_core::limits::SOCKETS_MAX;
use switchboard_engine::Hub;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Time a client has to send its request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// The same while fewer than half of the places are free: places must not be held by those who dawdle.
const HEAD_TIMEOUT_CROWDED: Duration = Duration::from_secs(1);
/// How often it is said that nothing can be accepted.
const REFUSING_SAID_EVERY: Duration = Duration::from_mins(1);
/// Time in which a client has to take some of what is written to it.
const WRITE_TIMEOUT: Duration = Duration::from_mins(1);
/// Files that the hub needs beside its connections: its store, its listener, its log.
const FILES_KEPT: u64 = 96;
/// Fewest connections, and fewest sockets, that are tried, however few files there are.
const ROOM_MIN: usize = 8;
/// Largest request head: a long poll's cursor may name many channels.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Time connections have to finish once the hub stops.
const DRAIN: Duration = Duration::from_secs(8);
/// Pause after an error of `accept` (no more file descriptors), so that it does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How many connections and sockets there may be. A connection that becomes a socket leaves the one count for the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Connections with a request or between two.
    pub connections: usize,
    /// Sockets of the bus.
    pub sockets: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self::within(None)
    }
}

impl Room {
    /// What fits into `files` open files (`None`: no bound): a quarter for connections, the rest for sockets, so that
    /// accepting stops before the store has no file left.
    #[must_use]
    pub fn within(files: Option<u64>) -> Self {
        let free = files.map_or(usize::MAX, |files| {
            usize::try_from(files.saturating_sub(FILES_KEPT)).unwrap_or(usize::MAX)
        });
        let connections = (free / 4).clamp(ROOM_MIN, SOCKETS_MAX);
        Self { connections, sockets: free.saturating_sub(connections).clamp(ROOM_MIN, SOCKETS_MAX) }
    }
}

/// Serves until `stop` is cancelled, then gives open connections and sockets a few seconds to finish.
pub async fn serve(listener: TcpListener, doors: Doors, stop: CancellationToken) {
    let router = doors.router();
    let talks = doors.talks.clone();
    let connections = TaskTracker::new();
    let most = doors.room.connections;
    let places = Arc::new(Semaphore::new(most));
    let cut = CancellationToken::new();
    let mut said = None;
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = accept(&listener, &places, &mut said) => accepted,
        };
        let Some((stream, place)) = accepted else { continue };
        let (router, stop, cut) = (router.clone(), stop.clone(), cut.clone());
        let open = Open::count(&doors.hub);
        if places.available_permits() == 0 {
            doors.hub.counters.crowded.fetch_add(1, Ordering::Relaxed);
        }
        let crowded = places.available_permits() < most / 2;
        let head_timeout = if crowded { HEAD_TIMEOUT_CROWDED } else { HEAD_TIMEOUT };
        connections.spawn(async move {
            tokio::select! {
                () = connection(stream, head_timeout, router, stop) => {}
                () = cut.cancelled() => {}
            }
            drop((place, open));
        });
    }
    drop(listener);
    connections.close();
    talks.close();
    // In this order: a connection may still become a socket.
    let finished = async {
        connections.wait().await;
        talks.wait().await;
    };
    if tokio::time::timeout(DRAIN, finished).await.is_err() {
        let open = connections.len() + talks.len();
        tracing::warn!(open, "connections did not finish in time and are cut");
        cut.cancel();
        connections.wait().await;
    }
}

/// One of the connections that are counted, however it ends.
struct Open(Arc<Hub>);

impl Open {
    fn count(hub: &Arc<Hub>) -> Self {
        hub.counters.connections.fetch_add(1, Ordering::Relaxed);
        Self(hub.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.counters.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
    said: &mut Option<Instant>,
) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = places.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => {
            // Answers are written in one piece; waiting for more would only delay them.
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "a connection goes without TCP_NODELAY");
            }
            Some((stream, place))
        }
        Err(error) => {
            // Not twenty times a second.
            if said.is_none_or(|said| said.elapsed() >= REFUSING_SAID_EVERY) {
                *said = Some(Instant::now());
                tracing::warn!(%error, "a connection could not be accepted; it is tried again until it can");
            }
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

async fn connection(
    stream: TcpStream,
    head_timeout: Duration,
    router: axum::Router,
    stop: CancellationToken,
) {
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(head_timeout).max_buf_size(HEAD_BYTES_MAX);
    let connection = http
        .serve_connection(TokioIo::new(Stall::new(stream, WRITE_TIMEOUT)), TowerToHyperService::new(router))
        .with_upgrades();
    tokio::pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended early");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_what_the_system_grants() {
        let room = |files| {
            let room = Room::within(files);
            (room.connections, room.sockets)
        };
        assert_eq!(room(None), (SOCKETS_MAX, SOCKETS_MAX));
        assert_eq!(room(Some(1 << 40)), (SOCKETS_MAX, SOCKETS_MAX));
        assert_eq!(room(Some(1024)), (232, 696));
        assert_eq!(room(Some(256)), (40, 120));
        assert_eq!(room(Some(10)), (ROOM_MIN, ROOM_MIN));
    }
}
