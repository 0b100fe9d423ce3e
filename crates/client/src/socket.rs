//! The WebSocket itself: opening it, and writing to it without holding up reads.

use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use reqwest::Url;
use switchboard_protocol::error::Body;
use switchboard_protocol::json::{Limits, parse};
use switchboard_protocol::{
    Code, Detail, HEADER_INSTANCE, HEADER_NAMES, HEADER_PROTOCOL, NAMES_VAULT, PROTOCOL_VERSION,
};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::http::{HeaderMap, HeaderValue, Response};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message, Utf8Bytes};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async_tls_with_config};

use crate::error::Error;
use crate::options::{Tuning, join};
use crate::secret::Secret;
use crate::trust::Trust;

pub(crate) type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Frames handed to the writer and not written yet.
const WRITER_QUEUE: usize = 64;
/// A server that asks for more patience than this is asked again anyway.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(5);
/// How long a closing handshake may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Opens sockets to one hub.
#[derive(Debug)]
pub(crate) struct Dialer {
    url: String,
    token: Secret,
    instance_id: String,
    timeout: Duration,
    config: WebSocketConfig,
    trust: Trust,
}

/// Why a socket could not be opened, and how long the server asks to wait.
#[derive(Debug)]
pub(crate) struct DialError {
    pub(crate) error: Error,
    pub(crate) retry_after: Option<Duration>,
}

impl From<Error> for DialError {
    fn from(error: Error) -> Self {
        Self { error, retry_after: None }
    }
}

impl Dialer {
    pub(crate) fn new(
        base: &Url,
        token: Secret,
        instance_id: String,
        tuning: &Tuning,
        trust: &Trust,
    ) -> Self {
        // "https" becomes "wss" and "http" becomes "ws": the base address was checked to be one of them.
        let url = join(base, "/v1/bus").replacen("http", "ws", 1);
        let config = WebSocketConfig::default()
            .read_buffer_size(16 * 1024)
            .write_buffer_size(64 * 1024)
            .max_message_size(Some(tuning.frame_bytes_max))
            .max_frame_size(Some(tuning.frame_bytes_max));
        Self { url, token, instance_id, timeout: tuning.connect_timeout, config, trust: trust.clone() }
    }

    pub(crate) async fn dial(&self) -> Result<Socket, DialError> {
        // Boxed: the handshake's future is large, and callers hold ours inside theirs.
        let (request, tls) = (self.request()?, self.trust.connector());
        let connecting = Box::pin(connect_async_tls_with_config(request, Some(self.config), true, tls));
        match tokio::time::timeout(self.timeout, connecting).await {
            Err(_) => Err(Error::Unreachable("no answer in time".into()).into()),
            Ok(Err(error)) => Err(refusal(error)),
            Ok(Ok((socket, _))) => Ok(socket),
        }
    }

    fn request(&self) -> Result<Request, Error> {
        let unusable = |_| Error::Option("token or instance_id: must be plain text for a header".into());
        let mut request = self
            .url
            .as_str()
            .into_client_request()
            .map_err(|error| Error::Option(format!("url: {error}")))?;
        let headers = request.headers_mut();
        let mut bearer =
            HeaderValue::try_from(format!("Bearer {}", self.token.expose())).map_err(unusable)?;
        bearer.set_sensitive(true);
        headers.insert("authorization", bearer);
        headers.insert(HEADER_INSTANCE, HeaderValue::try_from(&self.instance_id).map_err(unusable)?);
        headers.insert(HEADER_PROTOCOL, HeaderValue::from_static(PROTOCOL_VERSION));
        headers.insert(HEADER_NAMES, HeaderValue::from_static(NAMES_VAULT));
        headers.insert("user-agent", HeaderValue::from_static(USER_AGENT));
        Ok(request)
    }
}

pub(crate) const USER_AGENT: &str = concat!("switchboard-client/", env!("CARGO_PKG_VERSION"));

fn refusal(error: tungstenite::Error) -> DialError {
    match error {
        tungstenite::Error::Http(response) => refused_upgrade(&response),
        tungstenite::Error::Io(error) => Error::Unreachable(error.to_string()).into(),
        tungstenite::Error::Tls(error) => Error::Unreachable(error.to_string()).into(),
        other => Error::Protocol(other.to_string()).into(),
    }
}

fn refused_upgrade(response: &Response<Option<Vec<u8>>>) -> DialError {
    let body = response.body().as_deref().unwrap_or_default();
    let error = refused_answer(response.status().as_u16(), body);
    DialError { error, retry_after: retry_after(response.headers()) }
}

/// The error in an HTTP answer: as the body says, or what the status means when it says nothing readable.
pub(crate) fn refused_answer(status: u16, body: &[u8]) -> Error {
    if let Ok(body) = parse::<Body>(body, Limits::HTTP_BODY) {
        return Error::refused(body.error);
    }
    let code = match status {
        400 => Code::InvalidRequest,
        401 => Code::Unauthorized,
        403 => Code::ForbiddenRight,
        404 => Code::NotFound,
        409 => Code::InvalidState,
        426 => Code::UpgradeRequired,
        429 => Code::RateLimited,
        _ => return Error::Unreachable(format!("the server answered with status {status}")),
    };
    Error::refused(Detail::new(code, format!("the server answered with status {status}")))
}

pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get("retry-after")?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}

/// An open socket, its writing half owned by a task of its own: a peer that does not read must not stop us from reading.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) outgoing: mpsc::Sender<Utf8Bytes>,
    pub(crate) incoming: SplitStream<Socket>,
    writer: JoinHandle<()>,
}

impl Link {
    pub(crate) fn new(socket: Socket) -> Self {
        let (sink, incoming) = socket.split();
        let (outgoing, frames) = mpsc::channel(WRITER_QUEUE);
        Self { outgoing, incoming, writer: tokio::spawn(write(sink, frames)) }
    }

    /// Write what is queued, then the closing frame.
    pub(crate) async fn close(mut self) {
        drop(self.outgoing);
        // A peer that does not take the farewell in time is left without.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, &mut self.writer).await;
        self.writer.abort();
    }

    /// Drop the connection as it is.
    pub(crate) fn cut(self) {
        self.writer.abort();
    }
}

/// Write frames, several per flush when several are ready. An error ends the task; the reading half notices the same loss.
async fn write(mut sink: SplitSink<Socket, Message>, mut frames: mpsc::Receiver<Utf8Bytes>) {
    while let Some(frame) = frames.recv().await {
        let mut next = Some(frame);
        while let Some(frame) = next {
            if sink.feed(Message::Text(frame)).await.is_err() {
                return;
            }
            next = frames.try_recv().ok();
        }
        if sink.flush().await.is_err() {
            return;
        }
    }
    // The peer may be gone already.
    let _ = sink.close().await;
}
