//! HTTP on a bare socket, so that it can be broken off anywhere.

use super::{Shared, rest};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use switchboard_channels::conformance::{Behaviour, Wait};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Request {
    pub method: String,
    /// Below `/api/v10`, without its query.
    pub path: String,
    pub query: String,
    pub authorization: String,
    pub body: Value,
}

/// An answer that was ordered: method, end of the path, bytes.
type Ordered = (String, String, Vec<u8>);

/// What is common to all contacts.
pub(crate) struct Room {
    pub script: Mutex<VecDeque<Behaviour>>,
    pub answers: Mutex<Vec<Ordered>>,
    pub contacts: AtomicUsize,
    pub calls: Mutex<Vec<String>>,
    pub accepted: Mutex<Vec<(Value, String)>>,
    together: watch::Sender<(usize, usize)>,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            script: Mutex::default(),
            answers: Mutex::default(),
            contacts: AtomicUsize::new(0),
            calls: Mutex::default(),
            accepted: Mutex::default(),
            together: watch::Sender::new((0, 0)),
        }
    }
}

impl Room {
    fn ordered(&self, request: &Request) -> Option<Vec<u8>> {
        let mut answers = self.answers.lock();
        let meant =
            |(method, end, _): &Ordered| *method == request.method && request.path.ends_with(end.as_str());
        let at = answers.iter().position(meant)?;
        Some(answers.remove(at).2)
    }
}

pub(crate) async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        let shared = shared.clone();
        // Clients that go away in the middle are part of the tests.
        tokio::spawn(async move { treat(stream, &shared).await });
    }
}

async fn treat(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    let request = read(&mut stream).await?;
    shared.room.calls.lock().push(format!("{} {}", request.method, request.path));
    if let Some(bytes) = shared.room.ordered(&request) {
        stream.write_all(&bytes).await?;
        return stream.shutdown().await;
    }
    let posts = request.method == "POST" && request.path.starts_with("/channels/");
    let behaviour = if posts { next(shared) } else { Behaviour::Accept };
    if posts {
        shared.room.contacts.fetch_add(1, Ordering::SeqCst);
    }
    if let Some(refusal) = refusal(behaviour) {
        stream.write_all(&refusal).await?;
        return stream.shutdown().await;
    }
    if behaviour == Behaviour::Reset {
        return stream.set_zero_linger();
    }
    let (status, headers, body) = rest::answer(&request, shared);
    shared.ring();
    let confirmation = respond(status, &headers, &body);
    confirm(stream, behaviour, confirmation, shared).await
}

fn next(shared: &Shared) -> Behaviour {
    shared.room.script.lock().pop_front().unwrap_or(Behaviour::Accept)
}

/// The answer of a service that takes nothing.
fn refusal(behaviour: Behaviour) -> Option<Vec<u8>> {
    Some(match behaviour {
        Behaviour::Refuse => respond(
            403,
            "",
            &json!({ "message": "Cannot send messages to this user", "code": 50_007 }).to_string(),
        ),
        Behaviour::Busy => respond(503, "", "upstream connect error"),
        Behaviour::Throttle(wait) => {
            let (headers, body) = ask(wait);
            respond(429, &headers, &body)
        }
        _ => return None,
    })
}

/// Says what has been done, in the way that was asked for.
async fn confirm(
    mut stream: TcpStream,
    behaviour: Behaviour,
    bytes: Vec<u8>,
    shared: &Shared,
) -> io::Result<()> {
    let bytes = match behaviour {
        Behaviour::AcceptTwice => bytes.repeat(2),
        Behaviour::AcceptThenGarbage => b"\x16\x03\x01 this is not HTTP\r\n\r\n".to_vec(),
        Behaviour::AcceptThenTruncate => bytes[..bytes.len() - 40].to_vec(),
        Behaviour::AcceptThenFail => {
            respond(500, "", "{\"message\":\"500: Internal Server Error\",\"code\":0}")
        }
        _ => bytes,
    };
    match behaviour {
        Behaviour::AcceptTogether(count) => in_reverse(count, &shared.room).await,
        Behaviour::AcceptThenReset => return stream.set_zero_linger(),
        Behaviour::AcceptThenSilence => return stream.read_to_end(&mut Vec::new()).await.map(|_| ()),
        Behaviour::AcceptSlowly => {
            for byte in &bytes {
                stream.write_u8(*byte).await?;
                tokio::task::yield_now().await;
            }
            return Ok(());
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
    let turn = |(here, gone): &(usize, usize)| *here >= count && *gone + place + 1 == count;
    together.wait_for(turn).await.expect("the room lives as long as its contacts");
    room.together.send_modify(|(_, gone)| *gone += 1);
}

/// Headers and body that ask to wait.
fn ask(wait: Wait) -> (String, String) {
    let thousandths = |ms: u32| format!("{}.{:03}", ms / 1000, ms % 1000);
    let limited = "{\"message\":\"You are being rate limited.\",\"global\":false}".to_owned();
    match wait {
        Wait::Seconds(seconds) => (format!("retry-after: {seconds}\r\n"), limited),
        Wait::Fraction(ms) => (format!("retry-after: {}\r\n", thousandths(ms)), limited),
        Wait::Date(ahead) => {
            let at = |seconds: u32| {
                format!("Wed, 21 Oct 2015 07:{:02}:{:02} GMT", seconds / 60 % 60, seconds % 60)
            };
            (format!("date: {}\r\nretry-after: {}\r\n", at(0), at(ahead)), limited)
        }
        Wait::Several(one, other) => (format!("retry-after: {one}\r\nRetry-After: {other}\r\n"), limited),
        Wait::Body(ms) => {
            let body = format!(
                "{{\"message\":\"You are being rate limited.\",\"retry_after\":{},\"global\":false}}",
                thousandths(ms)
            );
            (String::new(), body)
        }
        Wait::Garbage => ("retry-after: soon\r\n".into(), "<!DOCTYPE html><title>1015</title>".into()),
    }
}

/// An answer. The media type is exactly this one, and what comes from the API itself has passed a proxy: clients look at both. What
/// stands before the API answers in HTML.
pub(crate) fn respond(status: u16, headers: &str, body: &str) -> Vec<u8> {
    let kind = match (status, body.starts_with('<')) {
        (204, _) => "via: 1.1 google\r\n",
        (_, true) => "content-type: text/html\r\n",
        (_, false) => "via: 1.1 google\r\ncontent-type: application/json\r\n",
    };
    let length = if status == 204 { String::new() } else { format!("content-length: {}\r\n", body.len()) };
    format!("HTTP/1.1 {status} Status\r\n{kind}connection: close\r\n{headers}{length}\r\n{body}").into_bytes()
}

async fn read(stream: &mut TcpStream) -> io::Result<Request> {
    let (mut bytes, mut buffer) = (Vec::new(), vec![0; 64 * 1024]);
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
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.split("\r\n");
    let mut line = lines.next()?.split(' ');
    let (method, target) = (line.next()?.to_owned(), line.next()?);
    let header = |name: &str| {
        let found = head.split("\r\n").filter_map(|line| line.split_once(": "));
        found
            .filter(|(header, _)| header.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.to_owned())
            .next()
    };
    let length: usize = header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let body = &bytes[end + 4..];
    if body.len() < length {
        return None;
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    Some(Request {
        method,
        path: path.strip_prefix("/api/v10").unwrap_or(path).replace("%40", "@"),
        query: query.to_owned(),
        authorization: header("authorization").unwrap_or_default(),
        body: serde_json::from_slice(body).unwrap_or_default(),
    })
}
