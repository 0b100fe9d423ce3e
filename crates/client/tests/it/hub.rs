//! A scripted hub: it does on each connection exactly what a test says.

use std::future::Future;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use switchboard_client::{Client, Event, Options, Secret, fresh_key};
use switchboard_protocol::frame::client::HelloAgent;
use switchboard_protocol::message::{AgentMessage, MessageBody, MessageType, Network};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::{HeaderMap, HeaderValue};

pub const VAULT: &str = "0123456789abcdef0123456789abcdef";
pub const CHANNEL: &str = "org:o/vault:0123456789abcdef0123456789abcdef/build";
const PATIENCE: Duration = Duration::from_secs(30);

/// Every wait of a test ends.
pub async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it happens in time")
}

pub struct Hub {
    listener: TcpListener,
    pub url: String,
    /// Fresh, so that no client of an earlier hub on the same port is taken for one of this.
    token: String,
}

impl Hub {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        Self { listener, url, token: fresh_key() }
    }

    pub fn options(&self) -> Options {
        let mut options = Options::new(&self.url, Secret::new(self.token()));
        options.instance_id = Some("inst_a".into());
        options.agents = vec![agent("ada")];
        options.tuning.backoff_min = Duration::from_millis(10);
        options.tuning.backoff_max = Duration::from_millis(50);
        options
    }

    /// The next connection, upgraded. Connections meant for another hub, which had this port before, are let go.
    pub async fn accept(&self) -> Conn {
        loop {
            let (stream, _) = soon(self.listener.accept()).await.expect("a connection");
            let mut headers = HeaderMap::new();
            #[expect(clippy::result_large_err, reason = "the callback's type is given")]
            let note = |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
                assert_eq!(request.uri().path(), "/v1/bus");
                headers = request.headers().clone();
                Ok(response)
            };
            let upgraded = soon(tokio_tungstenite::accept_hdr_async(stream, note)).await;
            if let (Ok(socket), true) = (upgraded, headers.get("authorization") == Some(&self.bearer())) {
                return Conn { socket, headers };
            }
        }
    }

    pub fn bearer(&self) -> HeaderValue {
        HeaderValue::try_from(format!("Bearer {}", self.token())).expect("a header")
    }

    fn token(&self) -> &str {
        &self.token
    }

    /// The next connection, through its hello and the pong that makes the client ready.
    pub async fn welcome(&self) -> (Conn, Value) {
        let mut conn = self.accept().await;
        let hello = conn.receive().await;
        assert_eq!(hello["t"], "hello");
        conn.answer_ping().await;
        (conn, hello)
    }

    /// Answer the next connection's upgrade with an HTTP error.
    pub async fn refuse(&self, status: &str, headers: &str, body: &str) {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut stream = loop {
            let (mut stream, _) = soon(self.listener.accept()).await.expect("a connection");
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                match soon(stream.read_u8()).await {
                    Ok(byte) => request.push(byte),
                    Err(_) => break,
                }
            }
            if String::from_utf8_lossy(&request).contains(self.token()) {
                break stream;
            }
        };
        let answer = format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len());
        stream.write_all(answer.as_bytes()).await.expect("the answer is taken");
        stream.shutdown().await.expect("the connection ends");
    }

    /// A connected client and its first connection, ready.
    pub async fn connected(&self) -> (Client, Conn) {
        self.connected_with(self.options()).await
    }

    pub async fn connected_with(&self, options: Options) -> (Client, Conn) {
        let (client, (conn, _)) = tokio::join!(Client::connect(options), self.welcome());
        let client = client.expect("connected");
        soon(client.ready()).await.expect("ready");
        (client, conn)
    }
}

pub struct Conn {
    socket: WebSocketStream<TcpStream>,
    pub headers: HeaderMap,
}

impl Conn {
    /// The next text frame; pings of the client are answered on the way.
    pub async fn receive(&mut self) -> Value {
        soon(self.try_receive()).await.expect("a frame")
    }

    pub async fn try_receive(&mut self) -> Option<Value> {
        loop {
            match self.socket.next().await? {
                Ok(Message::Text(text)) => return Some(serde_json::from_str(&text).expect("JSON")),
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    pub async fn answer_ping(&mut self) {
        let ping = self.receive().await;
        assert_eq!(ping["t"], "ping");
        self.send(&json!({"t": "pong", "nonce": ping["nonce"]})).await;
    }

    pub async fn send(&mut self, frame: &Value) {
        soon(self.socket.send(Message::text(frame.to_string()))).await.expect("the frame is taken");
    }

    /// Queue without waiting for the client to read.
    pub async fn feed(&mut self, frame: &Value) -> bool {
        self.socket.feed(Message::text(frame.to_string())).await.is_ok()
    }

    pub async fn flush(&mut self) -> bool {
        self.socket.flush().await.is_ok()
    }

    /// End without a farewell, as a crash does.
    pub fn drop_dead(self) {
        drop(self.socket);
    }

    /// Answer a `message` with `message.stored` at `seq`.
    pub async fn store(&mut self, message: &Value, seq: u64) {
        self.send(&stored(message, seq)).await;
    }
}

pub fn stored(message: &Value, seq: u64) -> Value {
    json!({
        "t": "message.stored", "client_msg_id": message["client_msg_id"], "gid": format!("g_{seq}"),
        "thread_id": format!("g_{seq}"), "network": message["network"], "seq": seq,
        "server_time": "2027-03-14T12:00:00Z", "expires_at": "2027-04-14T12:00:00Z",
    })
}

pub fn deliver(seq: u64) -> Value {
    json!({
        "t": "deliver", "seq": seq, "channel": CHANNEL, "from": "ben", "kind": "status", "priority": "normal",
        "privacy": "team", "body": {"n": seq}, "server_time": "2027-03-14T12:00:00Z",
    })
}

pub fn cursor(seq: u64, epoch: &str) -> Value {
    json!({"t": "cursor", "channel": CHANNEL, "seq": seq, "epoch": epoch})
}

pub fn agent(name: &str) -> HelloAgent<'static> {
    HelloAgent { agent_id: name.to_owned().into(), role: "build".into(), vault_id: VAULT.into() }
}

pub fn message(id: &str) -> AgentMessage<'static> {
    let network = Network::Org { channel: CHANNEL.into() };
    AgentMessage::new(
        id.to_owned(),
        network,
        MessageType::Finding,
        "ada",
        MessageBody::text("The build is green."),
    )
}

/// The next event that is not about the connection.
pub async fn next(client: &Client) -> Event {
    loop {
        match soon(client.next_event()).await.expect("an event") {
            Event::Disconnected { .. } | Event::Reconnected => {}
            event => return event,
        }
    }
}

pub async fn next_seq(client: &Client) -> u64 {
    next(client).await.position().expect("an event with a position").1
}
