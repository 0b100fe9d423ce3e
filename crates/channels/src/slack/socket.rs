//! One connection of Socket Mode (<https://docs.slack.dev/apis/events-api/using-socket-mode>). Slack greets, brings envelopes, each of
//! which is acknowledged by its id, and says some seconds before it closes the connection that it will.

use super::api::Api;
use super::inbound::Ear;
use super::{Tuning, answer};
use futures_util::future::BoxFuture;
use futures_util::{SinkExt as _, StreamExt as _};
use reqwest::Url;
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{Connector, MaybeTlsStream, WebSocketStream, connect_async_tls_with_config};

/// Longest frame, in bytes; an envelope with a long message has some ten thousand.
const FRAME_BYTES_MAX: usize = 1 << 20;
/// Most envelopes that wait to be taken. Slack brings those again that are beyond.
const QUEUE_MAX: usize = 256;

/// A connection.
pub(super) struct Link {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    ear: Ear,
    ping: Duration,
    silence: Duration,
    /// How long nothing has come.
    quiet: Duration,
    queue: VecDeque<Value>,
    taking: Option<BoxFuture<'static, Option<String>>>,
    worked: bool,
}

/// Why a connection is of no use any more.
pub(super) enum End {
    /// Slack asked to leave it: it still brings what it has.
    Leave,
    /// It is closed; why, for people.
    Closed(String),
}

/// TLS with the operating system's certificate authorities.
pub(super) fn connector() -> Result<Connector, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS: {error}"))?;
    Ok(Connector::Rustls(Arc::new(builder.with_root_certificates(roots).with_no_client_auth())))
}

impl Link {
    /// Opens a connection; it is one when Slack has greeted.
    pub async fn open(ear: Ear, api: &Api, connector: &Connector, tuning: Tuning) -> Result<Self, String> {
        let opened = api.call_as_app("apps.connections.open").await;
        let opened = opened.map_err(|ended| format!("app_token: {}", answer::sentence(ended)))?;
        let url = address(&opened.value, api.is_plain())?;
        let config = WebSocketConfig::default()
            .max_message_size(Some(FRAME_BYTES_MAX))
            .max_frame_size(Some(FRAME_BYTES_MAX));
        let greeted = async {
            let connecting =
                connect_async_tls_with_config(url.as_str(), Some(config), true, Some(connector.clone()));
            let (mut socket, _) = Box::pin(connecting).await.map_err(|error| lost(&error))?;
            greeting(&mut socket).await?;
            Ok(socket)
        };
        let socket: Result<_, String> = timeout(tuning.call, greeted)
            .await
            .map_err(|_| "Slack does not answer on the socket".to_owned())?;
        let (ping, silence) = (tuning.ping, tuning.silence);
        let (queue, quiet) = (VecDeque::new(), Duration::ZERO);
        Ok(Self { socket: socket?, ear, ping, silence, quiet, queue, taking: None, worked: false })
    }

    /// Whether anything has come, or it has stood for a while.
    pub fn worked(&self) -> bool {
        self.worked
    }

    /// Takes what comes until Slack asks to leave, or it is closed.
    pub async fn run(&mut self) -> End {
        let mut pings = interval(self.ping);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        pings.tick().await;
        loop {
            if self.taking.is_none() {
                self.taking = self.queue.pop_front().map(|envelope| self.ear.take(&envelope));
            }
            let ended = tokio::select! {
                biased;
                taken = taken(&mut self.taking) => self.acknowledge(taken).await,
                frame = self.socket.next() => self.heard(frame),
                _ = pings.tick() => self.tick().await,
            };
            if let Some(end) = ended {
                return end;
            }
        }
    }

    /// Takes what still comes until it is closed.
    pub async fn run_out(&mut self) {
        while let End::Leave = self.run().await {}
    }

    async fn acknowledge(&mut self, taken: Option<String>) -> Option<End> {
        self.taking = None;
        // What could not be stored is brought again because it is not acknowledged.
        let envelope_id = taken?;
        self.send(Message::text(json!({ "envelope_id": envelope_id }).to_string())).await
    }

    async fn send(&mut self, message: Message) -> Option<End> {
        match timeout(self.silence, self.socket.send(message)).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(End::Closed(lost(&error))),
            Err(_) => Some(End::Closed("the socket takes nothing any more".into())),
        }
    }

    async fn tick(&mut self) -> Option<End> {
        self.worked = true;
        self.quiet += self.ping;
        if self.quiet > self.silence {
            return Some(End::Closed("nothing has come from Slack for a while".into()));
        }
        self.send(Message::Ping(tungstenite::Bytes::new())).await
    }

    fn heard(&mut self, frame: Option<tungstenite::Result<Message>>) -> Option<End> {
        self.quiet = Duration::ZERO;
        match frame {
            Some(Ok(Message::Text(text))) => self.envelope(&text),
            Some(Ok(_)) => None,
            Some(Err(error)) => Some(End::Closed(lost(&error))),
            None => Some(End::Closed("Slack has closed the socket".into())),
        }
    }

    fn envelope(&mut self, text: &str) -> Option<End> {
        let envelope: Value = serde_json::from_str(text).ok()?;
        if envelope["type"] == "disconnect" {
            return Some(match envelope["reason"].as_str() {
                Some("link_disabled") => {
                    End::Closed("Socket Mode is turned off: turn it on in the app's settings".into())
                }
                _ => End::Leave,
            });
        }
        if envelope["envelope_id"].is_string() && self.queue.len() < QUEUE_MAX {
            self.worked = true;
            self.queue.push_back(envelope);
        }
        None
    }
}

/// Resolves when what is being taken has been.
async fn taken(taking: &mut Option<BoxFuture<'static, Option<String>>>) -> Option<String> {
    match taking {
        Some(taking) => taking.await,
        None => std::future::pending().await,
    }
}

/// Where the socket is. It holds a ticket, and is therefore in no error.
fn address(answer: &Value, plain: bool) -> Result<Url, String> {
    let url = answer["url"].as_str().and_then(|url| Url::parse(url).ok());
    let safe = |url: &Url| url.scheme() == "wss" || (plain && url.scheme() == "ws");
    url.filter(safe).ok_or_else(|| "Slack gives no address for the socket".to_owned())
}

async fn greeting(socket: &mut WebSocketStream<MaybeTlsStream<TcpStream>>) -> Result<(), String> {
    while let Some(frame) = socket.next().await {
        let Message::Text(text) = frame.map_err(|error| lost(&error))? else { continue };
        let said: Value = serde_json::from_str(&text).unwrap_or_default();
        match said["type"].as_str() {
            Some("hello") => return Ok(()),
            Some("disconnect") if said["reason"] == "link_disabled" => {
                return Err("Socket Mode is turned off: turn it on in the app's settings".into());
            }
            Some("disconnect") => break,
            _ => {}
        }
    }
    Err("Slack has closed the socket before it greeted".into())
}

fn lost(error: &tungstenite::Error) -> String {
    match error {
        tungstenite::Error::Http(response) => {
            format!("Slack answered {} instead of a socket", response.status())
        }
        tungstenite::Error::Io(error) => format!("the socket is lost: {error}"),
        tungstenite::Error::Tls(error) => format!("the socket's TLS fails: {error}"),
        tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed => {
            "the socket is closed".into()
        }
        tungstenite::Error::Capacity(_) => "Slack sent more than a frame may have".into(),
        _ => "what came on the socket is no WebSocket".into(),
    }
}
