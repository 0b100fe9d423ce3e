//! What a caller decides about a client.

use std::fmt;
use std::time::Duration;

use reqwest::Url;
use switchboard_protocol::frame::client::HelloAgent;
use switchboard_protocol::limits::{FRAME_BYTES_MAX, HELLO_AGENTS_MAX};

use crate::cursors::Cursors;
use crate::error::Error;
use crate::secret::Secret;
use crate::trust::Trust;

/// Where to connect, as whom, and from where to resume.
#[derive(Clone)]
pub struct Options {
    /// Base address of the hub: `http://127.0.0.1:8484`, `https://hub.example`, or `ws://` and `wss://` of the same.
    pub url: String,
    /// Bearer of the instance.
    pub token: Secret,
    /// The bearer's instance; absent: asked with `GET /v1/whoami`.
    pub instance_id: Option<String>,
    /// Agents to announce; at most 64.
    pub agents: Vec<HelloAgent<'static>>,
    /// Positions of an earlier client, as [`crate::Client::cursors`] gave them. Without any, following starts at the head.
    pub cursors: Cursors,
    /// Whom to believe that it is the hub, when its address is `https://` or `wss://`.
    pub trust: Trust,
    /// Timings and bounds.
    pub tuning: Tuning,
}

impl Options {
    /// Options for a hub and a bearer, announcing no agent yet.
    pub fn new(url: impl Into<String>, token: Secret) -> Self {
        Self {
            url: url.into(),
            token,
            instance_id: None,
            agents: Vec::new(),
            cursors: Cursors::default(),
            trust: Trust::default(),
            tuning: Tuning::default(),
        }
    }

    pub(crate) fn validate(&self) -> Result<(), Error> {
        if self.agents.len() > HELLO_AGENTS_MAX {
            return Err(Error::Option(format!("agents: at most {HELLO_AGENTS_MAX}")));
        }
        self.agents.iter().try_for_each(HelloAgent::validate)?;
        Ok(())
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Options")
            .field("url", &self.url)
            .field("token", &self.token)
            .field("instance_id", &self.instance_id)
            .field("agents", &self.agents.len())
            .finish_non_exhaustive()
    }
}

/// Timings and bounds of a client. The defaults are right unless a test or a special network needs others.
#[derive(Debug, Clone)]
pub struct Tuning {
    /// Longest wait for a connection and its upgrade.
    pub connect_timeout: Duration,
    /// Longest wait for an acknowledgement, reconnects included.
    pub ack_timeout: Duration,
    /// Longest wait for an HTTP answer; a long poll adds its own wait.
    pub http_timeout: Duration,
    /// First delay before a reconnect; doubles with every failure.
    pub backoff_min: Duration,
    /// Longest delay before a reconnect.
    pub backoff_max: Duration,
    /// A connection that lasted this long clears the memory of failures.
    pub healthy_after: Duration,
    /// How often to ping the server.
    pub ping_interval: Duration,
    /// A server silent for this long is taken for gone.
    pub silence_max: Duration,
    /// Messages and publishes sent but not acknowledged; more wait in `send`.
    pub in_flight_max: usize,
    /// Events received but not taken; more wait in the socket.
    pub events_max: usize,
    /// Largest frame accepted from the server.
    pub frame_bytes_max: usize,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            ack_timeout: Duration::from_mins(1),
            http_timeout: Duration::from_secs(30),
            backoff_min: Duration::from_secs(1),
            backoff_max: Duration::from_secs(30),
            healthy_after: Duration::from_secs(30),
            ping_interval: Duration::from_secs(20),
            silence_max: Duration::from_mins(1),
            in_flight_max: 64,
            events_max: 1024,
            // A delivery carries more than the frame it came from: sender, times, ids.
            frame_bytes_max: 2 * FRAME_BYTES_MAX,
        }
    }
}

/// The base address as an HTTP address without trailing slash, query or fragment.
pub(crate) fn base_url(url: &str) -> Result<Url, Error> {
    let refused = |why: &str| Error::Option(format!("url: {why}"));
    let http = match url.split_once("://") {
        Some(("ws" | "http", rest)) => format!("http://{rest}"),
        Some(("wss" | "https", rest)) => format!("https://{rest}"),
        _ => return Err(refused("must start with http://, https://, ws:// or wss://")),
    };
    let mut base = Url::parse(&http).map_err(|_| refused("is not a valid address"))?;
    if base.host_str().is_none() || !base.username().is_empty() || base.password().is_some() {
        return Err(refused("must name a host and no credentials"));
    }
    base.set_query(None);
    base.set_fragment(None);
    let path = base.path().trim_end_matches('/').to_owned();
    base.set_path(&path);
    Ok(base)
}

/// `path` (starting with `/`) below the base address.
pub(crate) fn join(base: &Url, path: &str) -> String {
    format!("{}{path}", base.as_str().trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_either_kind_lead_to_the_same_base() {
        for url in ["http://h:1", "ws://h:1/", "http://h:1/?x=1#y"] {
            assert_eq!(join(&base_url(url).unwrap(), "/v1/bus"), "http://h:1/v1/bus", "{url}");
        }
        assert_eq!(join(&base_url("wss://h/hub/").unwrap(), "/v1/bus"), "https://h/hub/v1/bus");
        for bad in ["h:1", "ftp://h", "http://", "http://u:p@h", "http://h:port"] {
            assert!(matches!(base_url(bad), Err(Error::Option(_))), "{bad}");
        }
    }

    #[test]
    fn options_never_print_the_token() {
        let options = Options::new("http://h", Secret::new("s3cret"));
        assert!(!format!("{options:?}").contains("s3cret"));
    }
}
