//! The bus socket of one instance. Every frame from the hub is judged by the referee before a test sees it, and so is every
//! frame to it unless a test means to break a rule.

use std::collections::VecDeque;
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest as _;
use tungstenite::{Message, WebSocket};
use wire::referee::{self, Measure, Sender};

const READ_WITHIN: Duration = Duration::from_secs(20);

/// An open socket.
pub struct Socket {
    connection: WebSocket<TcpStream>,
    waiting: VecDeque<Value>,
    /// Every frame received so far, in order.
    pub seen: Vec<Value>,
}

impl Socket {
    /// Connects with a bearer.
    pub fn connect(url: &str, bearer: &str) -> Self {
        let address = url.strip_prefix("http://").expect("a loopback URL");
        let mut request = format!("ws://{address}/v1/bus").into_client_request().expect("a request");
        for (name, value) in
            [("authorization", format!("Bearer {bearer}")), ("hive-protocol", "1.9".to_owned())]
        {
            request.headers_mut().insert(name, value.parse().expect("a header"));
        }
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(READ_WITHIN)).expect("a timeout");
        let (connection, response) = tungstenite::client(request, stream).expect("an upgrade");
        assert_eq!(response.headers()["hive-protocol"], "1.9");
        Self { connection, waiting: VecDeque::new(), seen: Vec::new() }
    }

    /// Sends a frame that keeps the rules.
    pub fn send(&mut self, frame: &Value) {
        referee::frame(frame, Sender::Client, Measure::Exact)
            .unwrap_or_else(|error| panic!("{error:#}: {frame}"));
        self.send_anyway(frame);
    }

    /// Sends a frame, whatever it is.
    pub fn send_anyway(&mut self, frame: &Value) {
        self.connection.send(Message::text(frame.to_string())).expect("sent");
    }

    /// The next frame that `wanted` accepts; others keep waiting, in order.
    #[track_caller]
    pub fn take(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.waiting.iter().position(&wanted) {
            return self.waiting.remove(at).expect("found");
        }
        loop {
            let frame = self.read();
            if wanted(&frame) {
                return frame;
            }
            self.waiting.push_back(frame);
        }
    }

    /// The next frame of a type.
    #[track_caller]
    pub fn take_type(&mut self, tag: &str) -> Value {
        self.take(|frame| frame["t"] == tag)
    }

    /// Sends a ping and waits for its pong: everything that the hub had to say before it has arrived then.
    pub fn barrier(&mut self, nonce: u64) {
        self.send(&json!({"t": "ping", "nonce": nonce}));
        let pong = self.take(|frame| frame["t"] == "pong" && frame["nonce"].as_u64() == Some(nonce));
        assert_eq!(pong, json!({"t": "pong", "nonce": nonce}));
    }

    /// Whether a frame that `wanted` accepts has arrived and was not taken.
    pub fn has(&self, wanted: impl Fn(&Value) -> bool) -> bool {
        self.waiting.iter().any(wanted)
    }

    #[track_caller]
    fn read(&mut self) -> Value {
        loop {
            match self.connection.read() {
                Ok(Message::Text(text)) => return self.judged(&text),
                // tungstenite answers pings of the transport by itself.
                Ok(Message::Ping(_) | Message::Pong(_)) => {}
                other => panic!("{other:?} after {:#?}", self.seen),
            }
        }
    }

    fn judged(&mut self, text: &str) -> Value {
        let frame: Value = serde_json::from_str(text).expect("JSON");
        referee::frame(&frame, Sender::Hub, Measure::Exact)
            .unwrap_or_else(|error| panic!("{error:#}: {text}"));
        self.seen.push(frame.clone());
        frame
    }
}
