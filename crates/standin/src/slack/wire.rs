//! HTTP by hand, so that an answer can break off, come twice, come byte by byte, or never.

use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Longest head and body, in bytes.
const REQUEST_BYTES_MAX: usize = 4 << 20;

/// A call of a method.
#[derive(Debug, Clone)]
pub struct Call {
    /// `chat.postMessage` and so on.
    pub method: String,
    /// The token in the header, or else in the body.
    pub token: String,
    /// The arguments.
    pub body: Value,
    /// The body as it came.
    pub bytes: Vec<u8>,
}

/// The head of a request.
pub struct Head {
    /// The method that is called.
    pub method: String,
    headers: BTreeMap<String, String>,
    /// What came of the body with it.
    begun: Vec<u8>,
}

/// Reads a request's head; `None` when the client goes away.
pub async fn head(stream: &mut TcpStream) -> io::Result<Option<Head>> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 1024]);
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            return Ok(parse(&bytes[..end], bytes[end + 4..].to_vec()));
        }
        let read = stream.read(&mut buffer).await?;
        if read == 0 || bytes.len() > REQUEST_BYTES_MAX {
            return Ok(None);
        }
        bytes.extend_from_slice(&buffer[..read]);
    }
}

fn parse(head: &[u8], begun: Vec<u8>) -> Option<Head> {
    let head = std::str::from_utf8(head).ok()?;
    let mut lines = head.split("\r\n");
    let path = lines.next()?.split(' ').nth(1)?;
    let method = path.split('?').next()?.rsplit('/').next()?.to_owned();
    let headers = lines.filter_map(|line| line.split_once(':'));
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect();
    Some(Head { method, headers, begun })
}

/// Reads the rest of a request, in pieces of at most so many bytes.
pub async fn body(stream: &mut TcpStream, head: Head, piece: usize) -> io::Result<Call> {
    let header = |name: &str| head.headers.get(name).map_or("", String::as_str);
    let length = header("content-length").parse().unwrap_or(0_usize).min(REQUEST_BYTES_MAX);
    let (mut bytes, mut buffer) = (head.begun.clone(), vec![0; piece]);
    while bytes.len() < length {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&buffer[..read]);
    }
    let is_json = header("content-type").starts_with("application/json");
    let body = if is_json { serde_json::from_slice(&bytes).unwrap_or_default() } else { form(&bytes) };
    let token = header("authorization").strip_prefix("Bearer ").map(str::to_owned);
    let token = token.or_else(|| body["token"].as_str().map(str::to_owned)).unwrap_or_default();
    Ok(Call { method: head.method, token, body, bytes })
}

/// A form; what is JSON in it is read.
fn form(bytes: &[u8]) -> Value {
    let text = String::from_utf8_lossy(bytes);
    let mut out = Map::new();
    for (name, value) in text.split('&').filter_map(|pair| pair.split_once('=')) {
        let value = unescape(value);
        let structured = value.starts_with(['[', '{']);
        let parsed = structured.then(|| serde_json::from_str(&value).ok()).flatten();
        out.insert(unescape(name), parsed.unwrap_or(Value::String(value)));
    }
    Value::Object(out)
}

fn unescape(text: &str) -> String {
    let (mut out, mut rest) = (Vec::new(), text.bytes());
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                let pair: String = rest.by_ref().take(2).map(char::from).collect();
                out.push(u8::from_str_radix(&pair, 16).unwrap_or(b'?'));
            }
            byte => out.push(byte),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// An answer as bytes.
pub fn respond(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json; charset=utf-8\r\n{headers}connection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

/// Writes an answer and ends the connection.
pub async fn answer(stream: &mut TcpStream, bytes: &[u8], slowly: bool) -> io::Result<()> {
    if slowly {
        for byte in bytes {
            stream.write_u8(*byte).await?;
            tokio::task::yield_now().await;
        }
    } else {
        stream.write_all(bytes).await?;
    }
    stream.shutdown().await
}
