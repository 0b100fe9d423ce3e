//! A proxy in front of a real homeserver. It hands everything on, and to messages that are sent it does what it was told to: the homeserver
//! takes them, or does not, and what comes back is late, cut short, nonsense or nothing. The canary that the channel's token holds is taken
//! off on the way.

use crate::http::{self, Request};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use switchboard_channels::conformance::{Accepted, Behaviour, SECRET, Wait};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::{Notify, watch};
use tokio::task::{AbortHandle, JoinSet};

/// The proxy.
pub struct Proxy {
    /// Where it listens.
    pub address: SocketAddr,
    room: Arc<Room>,
    task: AbortHandle,
}

/// What a test is told of what passed through.
type Seen = Box<dyn Fn(&Request, u16, &Value) + Send + Sync>;

struct Room {
    upstream: PathBuf,
    address: SocketAddr,
    /// `None` while nobody is there.
    listener: Mutex<Option<TcpListener>>,
    opened: Notify,
    script: Mutex<VecDeque<Behaviour>>,
    /// A refusal for whatever is asked, until it is taken back.
    refusal: Mutex<Option<(String, String)>>,
    contacts: AtomicUsize,
    accepted: Mutex<Vec<Accepted>>,
    ticks: watch::Sender<usize>,
    together: watch::Sender<(usize, usize)>,
    seen: Seen,
    text_of: fn(&Value) -> String,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    /// A proxy in front of what listens on the socket `upstream`. `text_of` says what a person reads of a message's content; `seen` is told
    /// of each request that was answered.
    ///
    /// # Panics
    /// When there is no port.
    pub async fn start(
        upstream: PathBuf,
        text_of: fn(&Value) -> String,
        seen: impl Fn(&Request, u16, &Value) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let address = listener.local_addr().expect("its number");
        let room = Arc::new(Room {
            upstream,
            address,
            listener: Mutex::new(Some(listener)),
            opened: Notify::new(),
            script: Mutex::default(),
            refusal: Mutex::default(),
            contacts: AtomicUsize::new(0),
            accepted: Mutex::default(),
            ticks: watch::Sender::new(0),
            together: watch::Sender::new((0, 0)),
            seen: Box::new(seen),
            text_of,
        });
        let task = tokio::spawn(serve(room.clone())).abort_handle();
        Self { address, room, task }
    }

    /// How the next message is treated, after those that were said before.
    ///
    /// # Panics
    /// When somebody else has taken the port meanwhile.
    pub fn script(&self, behaviour: Behaviour) {
        if behaviour == Behaviour::Unreachable {
            // At once: a connection that is accepted and then cut is something else.
            drop(self.room.listener.lock().take());
            return;
        }
        let mut listener = self.room.listener.lock();
        if listener.is_none() {
            *listener = Some(listen(self.room.address).expect("the port is still ours"));
            self.room.opened.notify_one();
        }
        self.room.script.lock().push_back(behaviour);
    }

    /// Everything is refused with this status and body from now on; `None` takes it back.
    pub fn refuse(&self, refusal: Option<(&str, &str)>) {
        *self.room.refusal.lock() = refusal.map(|(status, body)| (status.to_owned(), body.to_owned()));
    }

    /// How many messages were sent or tried to be.
    #[must_use]
    pub fn contacts(&self) -> usize {
        self.room.contacts.load(Ordering::SeqCst)
    }

    /// What the homeserver took.
    #[must_use]
    pub fn accepted(&self) -> Vec<Accepted> {
        self.room.accepted.lock().clone()
    }

    /// Waits until it took so much.
    pub async fn until_accepted(&self, count: usize) {
        self.room.ticks.subscribe().wait_for(|accepted| *accepted >= count).await.ok();
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

async fn serve(room: Arc<Room>) {
    let mut connections = JoinSet::new();
    loop {
        let next = poll_fn(|context| match &*room.listener.lock() {
            Some(listener) => listener.poll_accept(context).map(Some),
            None => Poll::Ready(None),
        });
        tokio::select! {
            accepted = next => match accepted {
                Some(Ok((stream, _))) => {
                    let room = room.clone();
                    // Clients that go away in the middle are part of the tests.
                    connections.spawn(async move { treat(stream, &room).await.ok(); });
                }
                Some(Err(_)) => {}
                None => room.opened.notified().await,
            },
            () = room.opened.notified() => {}
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Whether a request sends a message that is not a change of another.
fn is_message(request: &Request) -> bool {
    request.method == "PUT" && request.path().get(5).is_some_and(|step| step == "send")
}

async fn treat(mut stream: TcpStream, room: &Room) -> io::Result<()> {
    let request = http::read(&mut stream).await?;
    let refusal = room.refusal.lock().clone();
    if let Some((status, body)) = refusal {
        stream.write_all(&http::answer(&status, "", &body)).await?;
        return stream.shutdown().await;
    }
    if !is_message(&request) {
        let (_, bytes) = hand_on(&request, room).await?;
        stream.write_all(&bytes).await?;
        return stream.shutdown().await;
    }
    room.contacts.fetch_add(1, Ordering::SeqCst);
    let behaviour = room.script.lock().pop_front().unwrap_or(Behaviour::Accept);
    if let Some(refused) = refused(behaviour) {
        stream.write_all(&refused).await?;
        return stream.shutdown().await;
    }
    if behaviour == Behaviour::Reset {
        return stream.set_zero_linger();
    }
    let (answer, bytes) = hand_on(&request, room).await?;
    accept(&request, &answer, room);
    confirm(stream, behaviour, &bytes, room).await
}

/// What the homeserver answered, as JSON and as it came.
async fn hand_on(request: &Request, room: &Room) -> io::Result<(Value, Vec<u8>)> {
    let mut upstream = UnixStream::connect(&room.upstream).await?;
    let mut known = request.clone();
    for (_, value) in known.headers.iter_mut().filter(|(name, _)| name == "authorization") {
        *value = value.replace(SECRET, "");
    }
    let answer = http::exchange(&mut upstream, &known).await?;
    let said = serde_json::from_slice(&answer.body).unwrap_or_default();
    (room.seen)(request, answer.status, &said);
    Ok((said, answer.bytes))
}

fn accept(request: &Request, answer: &Value, room: &Room) {
    let Some(event) = answer["event_id"].as_str() else { return };
    room.accepted.lock().push(Accepted {
        delivery: request.path().pop().unwrap_or_default(),
        text: (room.text_of)(&request.json()),
        bytes: request.bytes(),
        message_id: Some(event.to_owned()),
    });
    room.ticks.send_modify(|accepted| *accepted += 1);
}

/// Confirms in the way that `behaviour` says.
async fn confirm(mut stream: TcpStream, behaviour: Behaviour, bytes: &[u8], room: &Room) -> io::Result<()> {
    let failed = http::answer("500 Internal Server Error", "", r#"{"errcode":"M_UNKNOWN","error":"oops"}"#);
    match behaviour {
        Behaviour::AcceptTwice => stream.write_all(&bytes.repeat(2)).await?,
        Behaviour::AcceptTogether(count) => {
            in_reverse(count, room).await;
            stream.write_all(bytes).await?;
        }
        Behaviour::AcceptSlowly => {
            for byte in bytes {
                stream.write_u8(*byte).await?;
                tokio::task::yield_now().await;
            }
        }
        Behaviour::AcceptThenSilence => {
            stream.read_to_end(&mut Vec::new()).await?;
        }
        Behaviour::AcceptThenReset => stream.set_zero_linger()?,
        Behaviour::AcceptThenGarbage => stream.write_all(b"\x16\x03\x01 this is not HTTP\r\n\r\n").await?,
        Behaviour::AcceptThenTruncate => stream.write_all(&bytes[..bytes.len() - 10]).await?,
        Behaviour::AcceptThenFail => stream.write_all(&failed).await?,
        _ => stream.write_all(bytes).await?,
    }
    stream.shutdown().await
}

/// Returns when `count` contacts are here, to the last first.
async fn in_reverse(count: usize, room: &Room) {
    let mut together = room.together.subscribe();
    let mut place = 0;
    room.together.send_modify(|(here, _)| {
        place = *here;
        *here += 1;
    });
    together.wait_for(|(here, gone)| *here >= count && *gone + place + 1 == count).await.ok();
    room.together.send_modify(|(_, gone)| *gone += 1);
}

/// The answer instead of handing the message on.
fn refused(behaviour: Behaviour) -> Option<Vec<u8>> {
    let error = |code: &str, error: &str| json!({ "errcode": code, "error": error }).to_string();
    match behaviour {
        Behaviour::Refuse => {
            Some(http::answer("403 Forbidden", "", &error("M_FORBIDDEN", "User not in room")))
        }
        Behaviour::Busy => Some(http::answer("503 Service Unavailable", "", "busy")),
        Behaviour::Throttle(wait) => {
            let (headers, mut body) = ask(wait);
            body["errcode"] = "M_LIMIT_EXCEEDED".into();
            body["error"] = "Too Many Requests".into();
            Some(http::answer("429 Too Many Requests", &headers, &body.to_string()))
        }
        _ => None,
    }
}

/// Headers and body that ask to wait. Matrix itself asks in whole milliseconds in the body and, of late, in `Retry-After`; proxies in front of
/// homeservers ask in their own ways.
fn ask(wait: Wait) -> (String, Value) {
    match wait {
        Wait::Seconds(seconds) => (format!("retry-after: {seconds}\r\n"), json!({})),
        Wait::Fraction(ms) => (format!("retry-after: {}.{:03}\r\n", ms / 1000, ms % 1000), json!({})),
        Wait::Date(ahead) => {
            let date = |second: u32| format!("Wed, 21 Oct 2015 07:{:02}:{:02} GMT", second / 60, second % 60);
            (format!("date: {}\r\nretry-after: {}\r\n", date(0), date(ahead)), json!({}))
        }
        Wait::Several(one, other) => (format!("retry-after: {one}\r\nretry-after: {other}\r\n"), json!({})),
        Wait::Body(ms) => (String::new(), json!({ "retry_after_ms": ms })),
        Wait::Garbage => ("retry-after: soon\r\n".to_owned(), json!({ "retry_after_ms": {} })),
    }
}
