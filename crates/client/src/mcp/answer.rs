//! The HTTP side: the messages of an answer, be it one JSON text or a stream of events.

use super::Failure;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Response, StatusCode};
use serde_json::Value;

/// Largest event or body that is read.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Longest part of a refusal's body that is shown.
const WHY_CHARS_MAX: usize = 500;

type Chunks = BoxStream<'static, reqwest::Result<Vec<u8>>>;

/// An answer, read message by message.
pub(super) struct Answer {
    chunks: Chunks,
    is_stream: bool,
    events: Events,
    ended: bool,
}

impl Answer {
    pub(super) fn of(response: Response) -> Self {
        let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let is_stream = kind.is_some_and(|kind| kind.starts_with("text/event-stream"));
        let chunks = response.bytes_stream().map(|chunk| chunk.map(Vec::from)).boxed();
        Self { chunks, is_stream, events: Events::default(), ended: false }
    }

    /// The next message; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Value>, Failure> {
        loop {
            if self.is_stream
                && let Some(data) = self.events.next()
            {
                match serde_json::from_str(&data) {
                    Ok(message) => return Ok(Some(message)),
                    Err(_) => continue, // an event without a message, such as the first of a stream
                }
            }
            if self.ended {
                return Ok(None);
            }
            match self.chunks.next().await {
                Some(Ok(chunk)) => self.events.buffer.extend_from_slice(&chunk),
                Some(Err(_)) => return Err(Failure::Broken),
                None => {
                    self.ended = true;
                    if !self.is_stream {
                        return Ok(serde_json::from_slice(&self.events.buffer).ok());
                    }
                }
            }
            if self.events.buffer.len() > ANSWER_BYTES_MAX {
                return Err(Failure::Refused("The hub's answer is larger than this bridge reads.".into()));
            }
        }
    }
}

/// Events out of bytes (WHATWG, server-sent events): only their data matter here.
#[derive(Default)]
struct Events {
    buffer: Vec<u8>,
}

impl Events {
    /// The data of the next whole event.
    fn next(&mut self) -> Option<String> {
        let (end, length) = blank_line(&self.buffer)?;
        let event: Vec<u8> = self.buffer.drain(..end + length).take(end).collect();
        let text = String::from_utf8_lossy(&event);
        let data = text.lines().filter_map(|line| line.strip_prefix("data:"));
        let data: Vec<_> = data.map(|data| data.strip_prefix(' ').unwrap_or(data)).collect();
        Some(data.join("\n"))
    }
}

/// Where the first blank line begins, and the bytes of the line ends around it.
fn blank_line(bytes: &[u8]) -> Option<(usize, usize)> {
    let find =
        |ends: &[u8]| bytes.windows(ends.len()).position(|window| window == ends).map(|at| (at, ends.len()));
    [find(b"\n\n"), find(b"\r\n\r\n")].into_iter().flatten().min()
}

/// Why the hub refused: in its own words if it gave any.
pub(super) async fn why(status: StatusCode, response: Response) -> Failure {
    let mut text = String::new();
    let mut chunks = response.bytes_stream();
    while let Some(Ok(chunk)) = chunks.next().await {
        text.push_str(&String::from_utf8_lossy(&chunk));
        if text.len() > ANSWER_BYTES_MAX {
            break;
        }
    }
    let error =
        serde_json::from_str(&text).ok().and_then(|mut said: Value| said.get_mut("error").map(Value::take));
    let error = error.unwrap_or_default();
    match error["message"].as_str() {
        Some(_) if error["code"].is_i64() => Failure::Rpc(error),
        Some(message) => Failure::Refused(message.to_owned()),
        None => {
            let shown: String = text.trim().chars().take(WHY_CHARS_MAX).collect();
            Failure::Refused(format!("The Switchboard hub answered {status}: {shown}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_cut_at_blank_lines() {
        let mut events = Events::default();
        events.buffer.extend(
            b"data:\nid: 0\n\ndata: {\"a\":1}\n\n: ping\n\nevent: message\r\ndata: {\r\ndata: }\r\n\r\nda",
        );
        let mut found = Vec::new();
        while let Some(data) = events.next() {
            found.push(data);
        }
        assert_eq!(found, ["", "{\"a\":1}", "", "{\n}"]);
        events.buffer.extend(b"ta:x\n\n");
        assert_eq!((events.next().as_deref(), events.next()), (Some("x"), None));
    }
}
