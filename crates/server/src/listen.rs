//! Listening: one task per connection, bounded in number, headers in bounded time, a drain at the end.

use crate::Doors;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::limits::SOCKETS_MAX;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Time a client has to send its request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest request head: a long poll's cursor may name many channels.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Time connections have to finish once the hub stops.
const DRAIN: Duration = Duration::from_secs(8);
/// Pause after an error of `accept` (no more file descriptors), so that it does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `stop` is cancelled, then gives open connections a few seconds to finish.
pub async fn serve(listener: TcpListener, doors: Doors, stop: CancellationToken) {
    let router = doors.router();
    let connections = TaskTracker::new();
    let places = Arc::new(Semaphore::new(SOCKETS_MAX));
    let cut = CancellationToken::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = accept(&listener, &places) => accepted,
        };
        let Some((stream, place)) = accepted else { continue };
        let (router, stop, cut) = (router.clone(), stop.clone(), cut.clone());
        connections.spawn(async move {
            tokio::select! {
                () = connection(stream, router, stop) => {}
                () = cut.cancelled() => {}
            }
            drop(place);
        });
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(DRAIN, connections.wait()).await.is_err() {
        tracing::warn!(open = connections.len(), "connections did not finish in time and are cut");
        cut.cancel();
        connections.wait().await;
    }
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
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
            tracing::warn!(%error, "a connection could not be accepted");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

async fn connection(stream: TcpStream, router: axum::Router, stop: CancellationToken) {
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(HEAD_BYTES_MAX);
    let connection =
        http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)).with_upgrades();
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
