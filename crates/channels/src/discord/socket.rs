//! The gateway's WebSocket: how it is opened, and what its frames are.

use rustls::{ClientConfig, RootCertStore};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{Connector, MaybeTlsStream, WebSocketStream, connect_async_tls_with_config};

/// Longest event that is read, in bytes.
const EVENT_BYTES_MAX: usize = 4 << 20;

/// An open socket.
pub(super) type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// A frame of the gateway.
#[derive(Debug, Deserialize)]
pub(super) struct Frame {
    /// What it is.
    pub op: u8,
    /// Its number, if it is an event.
    pub s: Option<u64>,
    /// The event's name.
    pub t: Option<String>,
    /// The rest.
    #[serde(default)]
    pub d: Value,
}

/// Whom to believe that it is Discord: the operating system's authorities.
pub(super) fn connector() -> Result<Connector, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be set up: {error}"))?;
    Ok(Connector::Rustls(Arc::new(builder.with_root_certificates(roots).with_no_client_auth())))
}

/// The address with version and encoding. Without TLS only where the API has none either.
pub(super) fn address(url: &str, plain_allowed: bool) -> Result<String, String> {
    let is_secure = url.starts_with("wss://") || (plain_allowed && url.starts_with("ws://"));
    if !is_secure || url.contains(['?', '#', '@']) {
        return Err("Discord names a gateway that is not at wss://".to_owned());
    }
    Ok(format!("{}/?v=10&encoding=json", url.trim_end_matches('/')))
}

/// Opens it. The caller bounds the time.
pub(super) async fn open(address: &str, connector: &Connector) -> Result<Socket, String> {
    let config = WebSocketConfig::default()
        .max_message_size(Some(EVENT_BYTES_MAX))
        .max_frame_size(Some(EVENT_BYTES_MAX));
    // Boxed: the handshake's future is large, and ours is held by many.
    let connecting = connect_async_tls_with_config(address, Some(config), true, Some(connector.clone()));
    let (socket, _) =
        Box::pin(connecting).await.map_err(|error| format!("no connection to the gateway: {error}"))?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gateway_is_reached_by_tls_alone() {
        assert_eq!(
            address("wss://gateway.discord.gg/", false).as_deref(),
            Ok("wss://gateway.discord.gg/?v=10&encoding=json")
        );
        for wrong in ["ws://gateway.discord.gg", "http://x", "wss://a@b", "wss://a?b", ""] {
            assert!(address(wrong, false).is_err(), "{wrong}");
        }
        assert!(address("ws://127.0.0.1:1", true).is_ok());
    }
}
