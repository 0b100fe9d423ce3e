//! A network that can be lost: a TCP proxy that cuts connections, or swallows what they carry without ending them.

use parking_lot::Mutex;
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

/// What the next request with certain bytes in it meets: the bytes, and if it gets through those of the answer that does not.
type Trap = Arc<Mutex<Option<(&'static [u8], Option<&'static [u8]>)>>>;

/// The proxy.
pub struct Proxy {
    /// Where clients connect instead of the hub.
    pub url: String,
    to: watch::Sender<String>,
    state: watch::Sender<State>,
    trap: Trap,
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
        let (to, hub) = watch::channel(hub);
        let (state, watched) = watch::channel(State::default());
        let trap = Trap::default();
        let (generation, connections, stop) =
            (Arc::new(AtomicUsize::new(0)), Arc::<AtomicUsize>::default(), CancellationToken::new());
        let net = Net { hub, state: watched, trap: trap.clone() };
        let accepting = accept(listener, net, generation.clone(), connections.clone(), stop.clone());
        tokio::spawn(stop.clone().run_until_cancelled_owned(accepting));
        Self { url, to, state, trap, generation, connections, stop }
    }

    /// The port of [`Proxy::url`].
    pub fn port(&self) -> u16 {
        self.url.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port")
    }

    /// New connections lead to this port of this machine.
    pub fn redirect(&self, port: u16) {
        self.to.send_replace(format!("127.0.0.1:{port}"));
    }

    /// The next request with `bytes` in it loses its connection: before it has got through, or when the answer with the same bytes has
    /// come, which gets no further.
    pub fn cut_at(&self, bytes: &'static [u8], gets_through: bool) {
        *self.trap.lock() = Some((bytes, gets_through.then_some(bytes)));
    }

    /// The same where the answer is known by other bytes; the request gets through if they are given.
    pub fn cut_between(&self, request: &'static [u8], answer: Option<&'static [u8]>) {
        *self.trap.lock() = Some((request, answer));
    }

    /// Whether such a request has come.
    pub fn has_cut(&self) -> bool {
        self.trap.lock().is_none()
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

/// What connections look at.
#[derive(Clone)]
struct Net {
    hub: watch::Receiver<String>,
    state: watch::Receiver<State>,
    trap: Trap,
}

async fn accept(
    listener: TcpListener,
    net: Net,
    generation: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
    stop: CancellationToken,
) {
    while let Ok((client, _)) = listener.accept().await {
        if net.state.borrow().down {
            continue;
        }
        let to = net.hub.borrow().clone();
        let Ok(hub) = TcpStream::connect(&to).await else { continue };
        connections.fetch_add(1, Ordering::SeqCst);
        let born = generation.load(Ordering::SeqCst);
        let ((from_client, to_client), (from_hub, to_hub)) = (client.into_split(), hub.into_split());
        let muted = Muted::default();
        let up = Carry { net: net.clone(), born, muted: muted.clone(), upwards: true };
        let down = Carry { net: net.clone(), born, muted, upwards: false };
        let carrying = async move {
            tokio::select! {
                () = up.all(from_client, to_hub) => {}
                () = down.all(from_hub, to_client) => {}
            }
        };
        tokio::spawn(stop.clone().run_until_cancelled_owned(carrying));
    }
}

/// Set when answers get no further: until the one with these bytes.
type Muted = Arc<Mutex<Option<&'static [u8]>>>;

/// One direction of a connection.
struct Carry {
    net: Net,
    born: usize,
    muted: Muted,
    upwards: bool,
}

impl Carry {
    /// Carries bytes until one side ends or the network does. In a hole it neither reads nor notices an end.
    async fn all(mut self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
        let mut buffer = vec![0; 16 * 1024];
        loop {
            let now = *self.net.state.borrow_and_update();
            if self.born < now.cut_before {
                return;
            }
            let read = async {
                if self.born < now.hole_before {
                    std::future::pending().await
                } else {
                    from.read(&mut buffer).await
                }
            };
            let count = tokio::select! {
                read = read => read.unwrap_or(0),
                changed = self.net.state.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    continue;
                }
            };
            let goes_on = count > 0 && if self.upwards { self.is_let_up(&buffer[..count]) } else { true };
            if !goes_on {
                return;
            }
            if !self.upwards
                && let Some(last) = *self.muted.lock()
            {
                if holds(&buffer[..count], last) {
                    return;
                }
                continue;
            }
            if to.write_all(&buffer[..count]).await.is_err() {
                return;
            }
        }
    }

    /// Whether these bytes of a client get through.
    fn is_let_up(&self, bytes: &[u8]) -> bool {
        let mut trap = self.net.trap.lock();
        let Some((_, answer)) = trap.take_if(|(wanted, _)| holds(bytes, wanted)) else {
            return true;
        };
        *self.muted.lock() = answer;
        answer.is_some()
    }
}

fn holds(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}
