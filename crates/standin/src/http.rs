//! HTTP/1.1, one request for each connection, as much of it as tests need: byte by byte in our hands, so that answers can be broken.

use serde_json::Value;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// Longest head that is read, in bytes.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// A request.
#[derive(Debug, Clone)]
pub struct Request {
    /// Method.
    pub method: String,
    /// Path and query, as they came.
    pub target: String,
    /// Names in small letters, and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Request {
    /// A header's value, or nothing.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(header, _)| header == name);
        found.map_or("", |(_, value)| value.as_str())
    }

    /// The segments of its path, without the escapes of URLs.
    #[must_use]
    pub fn path(&self) -> Vec<String> {
        let path = self.target.split('?').next().unwrap_or_default();
        path.trim_start_matches('/').split('/').map(unescaped).collect()
    }

    /// The body as JSON; null when it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Its bytes, for somebody who is to answer in one piece and close the connection.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.0\r\n", self.method, self.target);
        for (name, value) in self.headers.iter().filter(|(name, _)| name != "connection") {
            head.extend([name, ": ", value, "\r\n"]);
        }
        // On a socket that is a file servers know no client's address but this.
        head.push_str("x-forwarded-for: 127.0.0.1\r\nconnection: close\r\n\r\n");
        [head.as_bytes(), &self.body].concat()
    }
}

fn unescaped(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let escaped = (first == b'%').then(|| tail.get(..2)).flatten();
        let value = escaped.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(value.unwrap_or(first));
        rest = if value.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads a head, up to the empty line, and says how many bytes of a body came with it.
async fn head(stream: &mut (impl AsyncRead + Unpin), bytes: &mut Vec<u8>) -> io::Result<usize> {
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            return Ok(end + 4);
        }
        if bytes.len() > HEAD_BYTES_MAX || stream.read_buf(bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Reads a request with its body.
pub async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Request> {
    let mut bytes = Vec::new();
    let end = head(stream, &mut bytes).await?;
    let text = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = text.lines();
    let mut words = lines.next().unwrap_or_default().split(' ').map(str::to_owned);
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let mut request = Request { method, target, headers, body: bytes.split_off(end) };
    let length: usize = request.header("content-length").parse().unwrap_or(0);
    while request.body.len() < length {
        if stream.read_buf(&mut request.body).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(request)
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Status.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
    /// All its bytes, with the body's length.
    pub bytes: Vec<u8>,
}

/// Sends a request and reads the answer until the other side closes.
pub async fn exchange(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    request: &Request,
) -> io::Result<Answer> {
    stream.write_all(&request.bytes()).await?;
    let mut bytes = Vec::new();
    let end = head(stream, &mut bytes).await?;
    stream.read_to_end(&mut bytes).await?;
    let body = bytes.split_off(end);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let status = text.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    let is_ours = |line: &&str| {
        let name = line.split(':').next().unwrap_or_default().to_ascii_lowercase();
        line.is_empty() || matches!(name.as_str(), "content-length" | "connection" | "transfer-encoding")
    };
    let mut head: String =
        text.lines().filter(|line| !is_ours(line)).flat_map(|line| [line, "\r\n"]).collect();
    head = head.replacen("HTTP/1.0", "HTTP/1.1", 1);
    head.extend(["content-length: ", &body.len().to_string(), "\r\nconnection: close\r\n\r\n"]);
    Ok(Answer { status, bytes: [head.as_bytes(), &body].concat(), body })
}

/// An answer with a JSON body.
#[must_use]
pub fn answer(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
    .into_bytes()
}
