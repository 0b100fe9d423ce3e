//! The stdio side: one JSON-RPC message a line.

use serde_json::Value;
use switchboard_protocol::limits::HTTP_BODY_BYTES_MAX;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;

/// What a client sent.
#[derive(Debug, PartialEq)]
pub(super) enum Line {
    /// A message.
    Message(Value),
    /// Nothing.
    Blank,
    /// Something else, and what is wrong with it.
    Bad(String),
    /// No more.
    End,
}

/// Reads lines of bounded length.
pub(super) struct Lines<R> {
    input: BufReader<R>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input: BufReader::new(input) }
    }

    /// The next line.
    pub(super) async fn next(&mut self) -> Line {
        let mut line = Vec::new();
        let mut too_long = false;
        loop {
            let Ok(bytes) = self.input.fill_buf().await else { return Line::End };
            if bytes.is_empty() {
                return if line.is_empty() { Line::End } else { read(&line, too_long) };
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let part = &bytes[..end.unwrap_or(bytes.len())];
            too_long |= line.len() + part.len() > HTTP_BODY_BYTES_MAX;
            if !too_long {
                line.extend_from_slice(part);
            }
            let taken = end.map_or(bytes.len(), |at| at + 1);
            self.input.consume(taken);
            if end.is_some() {
                return read(&line, too_long);
            }
        }
    }
}

fn read(line: &[u8], too_long: bool) -> Line {
    if too_long {
        return Line::Bad(format!("A message may have at most {HTTP_BODY_BYTES_MAX} bytes."));
    }
    if line.trim_ascii().is_empty() {
        return Line::Blank;
    }
    match serde_json::from_slice(line) {
        Ok(message @ Value::Object(_)) => Line::Message(message),
        Ok(_) => Line::Bad("Send one JSON-RPC message a line; batches are not served.".into()),
        Err(error) => Line::Bad(format!("This line is not JSON: {error}.")),
    }
}

/// Writes each message as one line, until nobody sends or nobody reads any more.
pub(super) async fn write(mut messages: mpsc::Receiver<Value>, mut output: impl AsyncWrite + Unpin) {
    while let Some(message) = messages.recv().await {
        let line = format!("{message}\n"); // a JSON text of serde_json has no line break
        let written = async {
            output.write_all(line.as_bytes()).await?;
            output.flush().await
        };
        if written.await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[tokio::test]
    async fn lines_are_read_whatever_stands_in_them() {
        let long = "x".repeat(HTTP_BODY_BYTES_MAX + 1);
        let text = format!("{{\"id\":1}}\n\n  \r\nnot json\n[1]\n{long}\n{{\"id\":2}}\r\n{{\"id\":3}}");
        let mut lines = Lines::new(text.as_bytes());
        assert_eq!(lines.next().await, Line::Message(json!({ "id": 1 })));
        assert_eq!((lines.next().await, lines.next().await), (Line::Blank, Line::Blank));
        for _ in 0..3 {
            assert!(matches!(lines.next().await, Line::Bad(_)));
        }
        assert_eq!(lines.next().await, Line::Message(json!({ "id": 2 })));
        assert_eq!(lines.next().await, Line::Message(json!({ "id": 3 })));
        assert_eq!(lines.next().await, Line::End);
    }
}
