//! Stands in for a receiver of webhooks: answers what it was told to, and keeps every request.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A secret as Standard Webhooks writes it.
pub(crate) const SECRET: &str = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";

/// One request that came in.
#[derive(Debug, Clone)]
pub(crate) struct Came {
    pub(crate) id: String,
    pub(crate) attempt: String,
    pub(crate) body: Vec<u8>,
    pub(crate) at: Instant,
}

/// What it answers.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// A status with further header lines.
    Status(u16, &'static str),
    /// It has taken the message and closes the connection without a word.
    HangUp,
}

/// The receiver.
pub(crate) struct StandIn {
    pub(crate) url: String,
    state: Mutex<(VecDeque<Answer>, Vec<Came>)>,
}

impl StandIn {
    /// One that answers these, then 204 for ever.
    pub(crate) async fn start(answers: impl IntoIterator<Item = Answer>) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/in", listener.local_addr().unwrap());
        let state = Mutex::new((answers.into_iter().collect(), Vec::new()));
        let own = Arc::new(Self { url, state });
        let serving = Arc::downgrade(&own);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Some(own) = serving.upgrade() else { return };
                tokio::spawn(async move { own.serve(stream).await });
            }
        });
        own
    }

    /// Every request, in the order in which they came.
    pub(crate) fn came(&self) -> Vec<Came> {
        self.state.lock().1.clone()
    }

    async fn serve(&self, mut stream: TcpStream) -> Option<()> {
        let mut bytes = Vec::new();
        let head = loop {
            if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            (stream.read_buf(&mut bytes).await.ok()? > 0).then_some(())?;
        };
        let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
        let header = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            line.unwrap_or_default().to_owned()
        };
        let length: usize = header("content-length").parse().ok()?;
        while bytes.len() < head + length {
            (stream.read_buf(&mut bytes).await.ok()? > 0).then_some(())?;
        }
        let came = Came {
            id: header("webhook-id"),
            attempt: header("switchboard-attempt"),
            body: bytes[head..].to_vec(),
            at: now(),
        };
        let answer = {
            let mut state = self.state.lock();
            state.1.push(came);
            state.0.pop_front().unwrap_or(Answer::Status(204, ""))
        };
        if let Answer::Status(status, lines) = answer {
            let head =
                format!("HTTP/1.1 {status} X\r\n{lines}content-length: 0\r\nconnection: close\r\n\r\n");
            stream.write_all(head.as_bytes()).await.ok()?;
        }
        stream.shutdown().await.ok()
    }
}

#[expect(clippy::disallowed_methods, reason = "how long the other side waits is measured from outside")]
fn now() -> Instant {
    Instant::now()
}

/// The least time between two requests.
pub(crate) fn pause(came: &[Came]) -> Duration {
    came[1].at - came[0].at
}
