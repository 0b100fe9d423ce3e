//! An HTTP service that behaves as it is told, for channels that speak HTTP.

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};
use switchboard_channels::conformance::{Behaviour, Wait};
use switchboard_channels::guard::Lookup;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::server::TlsStream;

/// A request.
#[derive(Debug, Clone)]
pub struct Request {
    pub line: String,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Request {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// The service.
pub struct Service {
    pub address: SocketAddr,
    room: Arc<Room>,
    task: JoinHandle<()>,
}

/// How one contact is treated.
#[derive(Debug, Clone)]
pub enum Script {
    As(Behaviour),
    /// Accepts and answers with exactly these bytes.
    Raw(Vec<u8>),
    /// Accepts, confirms, and then never stops to send.
    Endless,
    /// Takes the connection and never says a word.
    Mute,
}

struct Room {
    script: Mutex<VecDeque<Script>>,
    contacts: AtomicUsize,
    lookups: AtomicUsize,
    accepted: Mutex<Vec<Request>>,
    ticks: watch::Sender<usize>,
    together: watch::Sender<(usize, usize)>,
}

impl Drop for Service {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Service {
    pub async fn start() -> Self {
        Self::with(None).await
    }

    /// The same behind TLS, with a certificate for `host` of an authority that nobody knows; its certificate, as PEM.
    pub async fn start_tls(host: &str) -> (Self, String) {
        let (authority, acceptor) = certified(host);
        (Self::with(Some(acceptor)).await, authority)
    }

    async fn with(tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let room = Arc::new(Room {
            script: Mutex::default(),
            contacts: AtomicUsize::new(0),
            lookups: AtomicUsize::new(0),
            accepted: Mutex::default(),
            ticks: watch::Sender::new(0),
            together: watch::Sender::new((0, 0)),
        });
        let task = tokio::spawn(serve(listener, tls, room.clone()));
        Self { address, room, task }
    }

    pub fn script(&self, script: Script) {
        self.room.script.lock().push_back(script);
    }

    pub fn contacts(&self) -> usize {
        self.room.contacts.load(Ordering::SeqCst)
    }

    pub fn lookups(&self) -> usize {
        self.room.lookups.load(Ordering::SeqCst)
    }

    pub fn accepted(&self) -> Vec<Request> {
        self.room.accepted.lock().clone()
    }

    pub async fn until_accepted(&self, count: usize) {
        self.room.ticks.subscribe().wait_for(|accepted| *accepted >= count).await.unwrap();
    }

    /// Leads every name here; while the service is not there, to where nobody listens.
    pub fn lookup(&self) -> Arc<dyn Lookup> {
        Arc::new(Leads(self.room.clone()))
    }
}

struct Leads(Arc<Room>);

impl Lookup for Leads {
    fn lookup(&self, _host: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        self.0.lookups.fetch_add(1, Ordering::SeqCst);
        let mut script = self.0.script.lock();
        let is_away = matches!(script.front(), Some(Script::As(Behaviour::Unreachable)));
        if is_away {
            script.pop_front();
        }
        let last = if is_away { 2 } else { 1 };
        Box::pin(async move { Ok(vec![IpAddr::V4(Ipv4Addr::new(127, 0, 0, last))]) })
    }
}

/// A fresh authority's certificate, and what speaks TLS for `host` with a certificate of it.
fn certified(host: &str) -> (String, TlsAcceptor) {
    let mut authority = CertificateParams::new(Vec::<String>::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_key = KeyPair::generate().unwrap();
    let ca = authority.self_signed(&ca_key).unwrap();
    let issuer = Issuer::new(authority, ca_key);
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec![host.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], key)
        .unwrap();
    (ca.pem(), TlsAcceptor::from(Arc::new(config)))
}

async fn serve(listener: TcpListener, tls: Option<TlsAcceptor>, room: Arc<Room>) {
    while let Ok((stream, _)) = listener.accept().await {
        room.contacts.fetch_add(1, Ordering::SeqCst);
        let script = room.script.lock().pop_front().unwrap_or(Script::As(Behaviour::Accept));
        let (room, tls) = (room.clone(), tls.clone());
        // Clients that go away in the middle are part of the tests.
        tokio::spawn(async move {
            match tls {
                Some(tls) => encrypted(tls.accept(stream).await?, &room).await,
                None => treat(stream, script, &room).await,
            }
        });
    }
}

/// Behind TLS everything is accepted.
async fn encrypted(mut stream: TlsStream<TcpStream>, room: &Room) -> io::Result<()> {
    let request = read(&mut stream, 64 * 1024).await?;
    let (_, answer) = answer(Behaviour::Accept, &request);
    room.accepted.lock().push(request);
    stream.write_all(&answer).await?;
    stream.shutdown().await
}

async fn treat(mut stream: TcpStream, script: Script, room: &Room) -> io::Result<()> {
    if let Script::As(Behaviour::Reset) = script {
        stream.read_u8().await?;
        stream.set_zero_linger()?;
        return Ok(());
    }
    if let Script::Mute = script {
        return stream.read_to_end(&mut Vec::new()).await.map(|_| ());
    }
    let slowly = matches!(script, Script::As(Behaviour::AcceptSlowly));
    let request = read(&mut stream, if slowly { 7 } else { 64 * 1024 }).await?;
    let answer = match &script {
        Script::As(behaviour) => answer(*behaviour, &request),
        Script::Raw(bytes) => (true, bytes.clone()),
        Script::Mute => (false, Vec::new()),
        Script::Endless => (true, b"HTTP/1.1 200 OK\r\ncontent-length: 999999999999\r\n\r\n".to_vec()),
    };
    let (accepts, bytes) = answer;
    if accepts {
        room.accepted.lock().push(request);
        room.ticks.send_modify(|accepted| *accepted += 1);
    }
    match script {
        Script::As(Behaviour::AcceptTogether(count)) => in_reverse(count, room).await,
        Script::As(Behaviour::AcceptThenReset) => stream.set_zero_linger()?,
        Script::As(Behaviour::AcceptThenSilence) => {
            stream.read_to_end(&mut Vec::new()).await?;
        }
        Script::As(Behaviour::AcceptSlowly) => {
            for byte in &bytes {
                stream.write_u8(*byte).await?;
                tokio::task::yield_now().await;
            }
            return Ok(());
        }
        Script::Endless => {
            stream.write_all(&bytes).await?;
            loop {
                stream.write_all(&[b' '; 4096]).await?;
            }
        }
        _ => {}
    }
    stream.write_all(&bytes).await?;
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
    together.wait_for(|(here, gone)| *here >= count && *gone + place + 1 == count).await.unwrap();
    room.together.send_modify(|(_, gone)| *gone += 1);
}

/// Whether the message is accepted, and the answer.
fn answer(behaviour: Behaviour, request: &Request) -> (bool, Vec<u8>) {
    let confirmation = respond("200 OK", "", &format!("{{\"id\":\"m_{}\"}}", request.header("webhook-id")));
    match behaviour {
        Behaviour::AcceptTwice => (true, confirmation.repeat(2)),
        Behaviour::AcceptThenSilence | Behaviour::AcceptThenReset => (true, Vec::new()),
        Behaviour::AcceptThenGarbage => (true, b"\x16\x03\x01 this is not HTTP\r\n\r\n".to_vec()),
        Behaviour::AcceptThenTruncate => (true, confirmation[..12].to_vec()),
        Behaviour::AcceptThenFail => (true, respond("500 Internal Server Error", "", "oops")),
        Behaviour::Refuse => (false, respond("404 Not Found", "", "no")),
        Behaviour::Busy => (false, respond("503 Service Unavailable", "", "busy")),
        Behaviour::Throttle(wait) => {
            let (headers, body) = ask(wait);
            (false, respond("429 Too Many Requests", &headers, &body))
        }
        _ => (true, confirmation),
    }
}

/// Headers and body that ask to wait.
fn ask(wait: Wait) -> (String, String) {
    let thousandths = |ms: u32| format!("{}.{:03}", ms / 1000, ms % 1000);
    let date = |ahead: u32| {
        let at = Duration::from_secs(1_445_412_480 + u64::from(ahead));
        httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + at)
    };
    match wait {
        Wait::Seconds(seconds) => (format!("retry-after: {seconds}\r\n"), String::new()),
        Wait::Fraction(ms) => (format!("retry-after: {}\r\n", thousandths(ms)), String::new()),
        Wait::Date(ahead) => {
            (format!("date: {}\r\nretry-after: {}\r\n", date(0), date(ahead)), String::new())
        }
        Wait::Several(one, other) => {
            (format!("retry-after: {one}\r\nRetry-After: {other}\r\n"), String::new())
        }
        Wait::Body(ms) => (String::new(), format!("{{\"retry_after\": {}}}", thousandths(ms))),
        Wait::Garbage => ("retry-after: soon\r\n".into(), "{\"retry_after\": {}}".into()),
    }
}

/// An answer.
pub fn respond(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{headers}content-length: {length}\r\n\r\n{body}")
        .into_bytes()
}

/// One request, read in pieces of at most so many bytes.
async fn read(stream: &mut (impl AsyncRead + Unpin), piece: usize) -> io::Result<Request> {
    let (mut bytes, mut buffer) = (Vec::new(), vec![0; piece]);
    loop {
        if let Some(request) = parse(&bytes) {
            return Ok(request);
        }
        match stream.read(&mut buffer).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => bytes.extend_from_slice(&buffer[..read]),
        }
    }
}

fn parse(bytes: &[u8]) -> Option<Request> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut lines = head.split("\r\n");
    let line = lines.next()?.to_owned();
    let headers: BTreeMap<_, _> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let length: usize = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let body = bytes[end + 4..].to_vec();
    (body.len() >= length).then_some(Request { line, headers, body })
}
