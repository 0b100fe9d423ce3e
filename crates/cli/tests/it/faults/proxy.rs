//! A network that can be lost: a TCP proxy that cuts connections, or swallows what they carry without ending them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The state of the network, by the generation of its connections.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct State {
    /// Connections of earlier generations are cut.
    cut_before: usize,
    /// Those of earlier generations carry nothing, in either direction, and are not told.
    hole_before: usize,
    /// Nobody gets through to the hub at all.
    down: bool,
}

/// The proxy.
pub struct Proxy {
    /// Where clients connect instead of the hub.
    pub url: String,
    state: watch::Sender<State>,
    generation: Arc<AtomicUsize>,
    /// Connections that were made so far.
    pub connections: Arc<AtomicUsize>,
    stop: CancellationToken,
}

impl Proxy {
    /// A proxy in front of the hub at `url`.
    pub async fn start(url: &str) -> Self {
        let hub = url.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (state, watched) = watch::channel(State::default());
        let (generation, connections, stop) =
            (Arc::new(AtomicUsize::new(0)), Arc::<AtomicUsize>::default(), CancellationToken::new());
        let accepting = accept(listener, hub, watched, generation.clone(), connections.clone(), stop.clone());
        tokio::spawn(stop.clone().run_until_cancelled_owned(accepting));
        Self { url, state, generation, connections, stop }
    }

    /// Cuts every connection there is; new ones get through.
    pub fn cut(&self) {
        let next = self.generation.fetch_add(1, Ordering::SeqCst) + 1;
        self.state.send_modify(|state| state.cut_before = next);
    }

    /// Every connection there is carries nothing any more and does not end; new ones get through.
    pub fn black_hole(&self) {
        let next = self.generation.fetch_add(1, Ordering::SeqCst) + 1;
        self.state.send_modify(|state| state.hole_before = next);
    }

    /// What was swallowed flows on, in those connections that are still held.
    pub fn resume(&self) {
        self.state.send_modify(|state| state.hole_before = 0);
    }

    /// New connections get through again.
    pub fn up(&self) {
        self.state.send_modify(|state| state.down = false);
    }

    /// Cuts everything and lets nobody through.
    pub fn down(&self) {
        self.cut();
        self.state.send_modify(|state| state.down = true);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn accept(
    listener: TcpListener,
    hub: String,
    state: watch::Receiver<State>,
    generation: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
    stop: CancellationToken,
) {
    while let Ok((client, _)) = listener.accept().await {
        if state.borrow().down {
            continue;
        }
        let Ok(hub) = TcpStream::connect(&hub).await else { continue };
        connections.fetch_add(1, Ordering::SeqCst);
        let born = generation.load(Ordering::SeqCst);
        let ((from_client, to_client), (from_hub, to_hub)) = (client.into_split(), hub.into_split());
        let (up, down) = (state.clone(), state.clone());
        let carrying = async move {
            tokio::select! {
                () = carry(from_client, to_hub, up, born) => {}
                () = carry(from_hub, to_client, down, born) => {}
            }
        };
        tokio::spawn(stop.clone().run_until_cancelled_owned(carrying));
    }
}

/// Carries bytes until one side ends or the network does. In a hole it neither reads nor notices an end.
async fn carry(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut state: watch::Receiver<State>,
    born: usize,
) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let now = *state.borrow_and_update();
        if born < now.cut_before {
            return;
        }
        let read = async {
            if born < now.hole_before { std::future::pending().await } else { from.read(&mut buffer).await }
        };
        let count = tokio::select! {
            read = read => read.unwrap_or(0),
            changed = state.changed() => {
                if changed.is_err() {
                    return;
                }
                continue;
            }
        };
        if count == 0 || to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
