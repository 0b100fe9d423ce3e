//! A socket on the bare wire.

use crate::PATIENCE;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

/// A connected socket.
#[derive(Debug)]
pub struct Socket {
    stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
    kept: VecDeque<Value>,
}

impl Socket {
    /// Connects with a bearer.
    pub async fn connect(url: &str, bearer: &str) -> Result<Self, Box<Error>> {
        Self::connect_with(url, &[("authorization", &format!("Bearer {bearer}"))]).await
    }

    /// Connects with these headers.
    pub async fn connect_with(url: &str, headers: &[(&'static str, &str)]) -> Result<Self, Box<Error>> {
        let mut request = format!("{}/v1/bus", url.replace("http", "ws")).into_client_request()?;
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().expect("a header"));
        }
        let connected = tokio::time::timeout(PATIENCE, tokio_tungstenite::connect_async(request)).await;
        let (stream, _) = connected.expect("in time")?;
        Ok(Self { stream, kept: VecDeque::new() })
    }

    /// Sends a frame.
    pub async fn send(&mut self, frame: &Value) {
        self.send_text(frame.to_string()).await;
    }

    /// Sends a frame to a hub that may be gone.
    pub async fn try_send(&mut self, frame: &Value) -> Result<(), Box<Error>> {
        Ok(self.stream.send(Message::text(frame.to_string())).await?)
    }

    /// Sends any text.
    pub async fn send_text(&mut self, text: String) {
        self.stream.send(Message::text(text)).await.expect("the socket takes it");
    }

    /// Sends bytes as a binary message.
    pub async fn send_binary(&mut self, bytes: Vec<u8>) {
        self.stream.send(Message::binary(bytes)).await.expect("the socket takes it");
    }

    /// Says hello and waits until the present state has been told; what came meanwhile is kept.
    pub async fn hello(&mut self, instance_id: &str, agents: &Value, cursors: &Value) {
        self.send(&json!({ "t": "hello", "instance_id": instance_id, "agents": agents, "cursors": cursors }))
            .await;
        self.barrier().await;
    }

    /// Sends a ping and waits for its pong; what came before it is kept for [`Socket::next`].
    pub async fn barrier(&mut self) {
        let nonce = u64::MAX - 7;
        self.send(&json!({ "t": "ping", "nonce": nonce })).await;
        let mut before = VecDeque::new();
        loop {
            let frame = self.read().await.expect("a pong");
            if frame["t"] == "pong" && frame["nonce"] == nonce {
                break;
            }
            before.push_back(frame);
        }
        self.kept.append(&mut before);
    }

    /// The next frame; `None` when the socket was closed.
    pub async fn next(&mut self) -> Option<Value> {
        match self.kept.pop_front() {
            Some(frame) => Some(frame),
            None => self.read().await,
        }
    }

    async fn read(&mut self) -> Option<Value> {
        loop {
            let message = tokio::time::timeout(PATIENCE, self.stream.next()).await.expect("a frame in time");
            match message {
                Some(Ok(Message::Text(text))) => {
                    return Some(serde_json::from_str(&text).expect("frames are JSON"));
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
                Some(Ok(_)) => {}
            }
        }
    }

    /// Says nothing for so long but what the protocol answers by itself, and keeps what comes; panics when the socket ends.
    pub async fn keep_silent(&mut self, time: Duration) {
        let until = tokio::time::Instant::now() + time;
        while let Ok(message) = tokio::time::timeout_at(until, self.stream.next()).await {
            match message {
                Some(Ok(Message::Text(text))) => {
                    self.kept.push_back(serde_json::from_str(&text).expect("frames are JSON"));
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => panic!("the socket ended: {message:?}"),
                Some(Ok(_)) => {}
            }
        }
    }

    /// The next frame of this type; others are dropped.
    pub async fn expect(&mut self, t: &str) -> Value {
        let mut seen = Vec::new();
        loop {
            let Some(frame) = self.next().await else { panic!("closed while waiting for {t}; saw {seen:?}") };
            if frame["t"] == t {
                return frame;
            }
            seen.push(frame);
        }
    }

    /// Sends a frame and returns the first answer that is no delivery: `message.stored`, `published` or `error`.
    pub async fn ask(&mut self, frame: &Value) -> Value {
        self.send(frame).await;
        self.answer().await
    }

    /// The next answer to something sent.
    pub async fn answer(&mut self) -> Value {
        loop {
            let frame = self.next().await.expect("an answer");
            if ["message.stored", "published", "error"].iter().any(|t| frame["t"] == **t) {
                return frame;
            }
        }
    }

    /// Everything that is here already, up to a barrier.
    pub async fn drain(&mut self) -> Vec<Value> {
        self.barrier().await;
        self.kept.drain(..).collect()
    }

    /// Everything of this type that is here already.
    pub async fn drain_of(&mut self, t: &str) -> Vec<Value> {
        self.drain().await.into_iter().filter(|frame| frame["t"] == t).collect()
    }

    /// Sends frames and the farewell as one write, so that the other side finds all of it at once.
    pub async fn send_and_close(mut self, frames: &[Value]) {
        for frame in frames {
            self.stream.feed(Message::text(frame.to_string())).await.expect("the socket takes it");
        }
        self.stream.close(None).await.expect("the socket takes it");
    }

    /// Reads on until the other side closes; the code it gives, if it says farewell at all.
    pub async fn farewell(mut self) -> Option<u16> {
        loop {
            match tokio::time::timeout(PATIENCE, self.stream.next()).await.expect("the end in time") {
                Some(Ok(Message::Close(frame))) => return frame.map(|frame| frame.code.into()),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return None,
            }
        }
    }

    /// Closes in order.
    pub async fn close(mut self) {
        // The other side may be gone already, which is as good.
        let _ = self.stream.close(None).await;
    }
}
