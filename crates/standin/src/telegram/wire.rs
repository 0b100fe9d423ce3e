//! HTTP as the Bot API speaks it, by hand: an answer must be one that can be cut, doubled and spoilt.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Longest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// The head of a request.
#[derive(Debug, Clone)]
pub struct Head {
    /// The path of its URL, without the query.
    pub path: String,
    query: String,
    headers: BTreeMap<String, String>,
}

impl Head {
    /// A header's value, or nothing.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// Reads a head in pieces of at most so many bytes; it, and what came of the body already.
pub async fn read_head(stream: &mut (impl AsyncRead + Unpin), piece: usize) -> io::Result<(Head, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let body = bytes.split_off(end + 4);
            let head = parse(&String::from_utf8_lossy(&bytes)).ok_or(io::ErrorKind::InvalidData)?;
            return Ok((head, body));
        }
        if bytes.len() > HEAD_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        more(stream, piece, &mut bytes).await?;
    }
}

/// Reads the rest of a body.
pub async fn read_body(
    stream: &mut (impl AsyncRead + Unpin),
    piece: usize,
    head: &Head,
    mut body: Vec<u8>,
) -> io::Result<Vec<u8>> {
    let length: usize = head.header("content-length").parse().unwrap_or(0);
    while body.len() < length {
        more(stream, piece, &mut body).await?;
    }
    Ok(body)
}

async fn more(stream: &mut (impl AsyncRead + Unpin), piece: usize, bytes: &mut Vec<u8>) -> io::Result<()> {
    let mut buffer = vec![0; piece];
    match stream.read(&mut buffer).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        read => {
            bytes.extend_from_slice(&buffer[..read]);
            Ok(())
        }
    }
}

fn parse(head: &str) -> Option<Head> {
    let mut lines = head.split("\r\n");
    let target = lines.next()?.split(' ').nth(1)?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let headers = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    Some(Head { path: decoded(path, false), query: query.to_owned(), headers })
}

/// The parameters of a call. They may be in the query, in a form or in JSON; in the first two, objects are JSON within a string.
#[must_use]
pub fn parameters(head: &Head, body: &[u8]) -> Map<String, Value> {
    let mut found = form(&head.query);
    let is_json = head.header("content-type").starts_with("application/json");
    if is_json {
        if let Ok(Value::Object(members)) = serde_json::from_slice(body) {
            found.extend(members);
        }
    } else {
        found.extend(form(&String::from_utf8_lossy(body)));
    }
    found
}

fn form(text: &str) -> Map<String, Value> {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    let member = |(name, value): (&str, &str)| (decoded(name, true), Value::String(decoded(value, true)));
    pairs.map(member).collect()
}

fn decoded(text: &str, plus: bool) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [byte, after @ ..] = rest {
        let code = after.get(..2).filter(|_| *byte == b'%').and_then(|code| std::str::from_utf8(code).ok());
        rest = if let Some(code) = code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            bytes.push(code);
            &after[2..]
        } else {
            bytes.push(if plus && *byte == b'+' { b' ' } else { *byte });
            after
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What a call is answered with.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Status of HTTP.
    pub status: u16,
    /// More headers, each with its line end.
    pub headers: String,
    /// The body.
    pub body: Value,
}

impl Answer {
    /// A result.
    #[must_use]
    pub fn ok(result: &Value) -> Self {
        Self { status: 200, headers: String::new(), body: json!({ "ok": true, "result": result }) }
    }

    /// A refusal.
    #[must_use]
    pub fn refused(code: u16, description: &str) -> Self {
        let body = json!({ "ok": false, "error_code": code, "description": description });
        Self { status: code, headers: String::new(), body }
    }

    /// A refusal that asks to wait so many seconds.
    #[must_use]
    pub fn slow_down(seconds: u64) -> Self {
        let mut answer = Self::refused(429, &format!("Too Many Requests: retry after {seconds}"));
        answer.headers = format!("retry-after: {seconds}\r\n");
        answer.body["parameters"] = json!({ "retry_after": seconds });
        answer
    }

    /// The bytes that go over the wire.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let (status, headers, body) = (self.status, &self.headers, self.body.to_string());
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status} Status\r\nserver: nginx\r\ncontent-type: application/json\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n"
        );
        [head.as_bytes(), body.as_bytes()].concat()
    }
}
