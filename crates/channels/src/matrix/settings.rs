//! What a Matrix channel is set up with.

use super::address;
use crate::egress::{self, Egress, USER_AGENT};
use reqwest::{Client, Url};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::SecretString;
use switchboard_core::port::channel::check_name;
use switchboard_core::random::Entropy;
use switchboard_core::time::Clock;

/// Time to connect, TLS included, unless set.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for one request, and for all that must be known before a message is sent, unless set. An attempt takes at most twice as long, which is
/// shorter than the minute after which the hub gives it up.
pub const TIMEOUT: Duration = Duration::from_secs(20);
/// How long the server waits for something new before it answers that there is nothing, unless set.
pub const POLL: Duration = Duration::from_secs(30);

/// What a Matrix channel is made of.
#[derive(Clone)]
pub struct Settings {
    /// Its name.
    pub name: String,
    /// The homeserver's base URL: `https`, or `http` on this machine, or together with `plain_allowed`.
    pub homeserver: String,
    /// Whether an unencrypted connection may leave this machine.
    pub plain_allowed: bool,
    /// The access token of the account that we write as.
    pub token: SecretString,
    /// Servers whose users may invite the account into rooms, `*` for all; `None` for those of the account's own server.
    pub invite_servers: Option<Vec<String>>,
    /// Certificate authorities to believe beside those of the operating system, as PEM.
    pub authorities_pem: Option<Vec<u8>>,
    /// Time to connect, TLS included. Shorter than `timeout`, so that a server that cannot be reached is known not to be.
    pub connect_timeout: Duration,
    /// Time for one request, and for all that must be known before a message is sent.
    pub timeout: Duration,
    /// How long the server waits for something new.
    pub poll: Duration,
    /// Pause before the server is asked again after a failure: the first, and the longest.
    pub backoff: (Duration, Duration),
    /// Tells when waits and memories end.
    pub clock: Arc<dyn Clock>,
    /// Spreads the pauses.
    pub entropy: Arc<dyn Entropy>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Settings")
            .field("name", &self.name)
            .field("homeserver", &self.homeserver)
            .finish_non_exhaustive()
    }
}

impl Settings {
    /// Settings with everything else as usual.
    pub fn new(
        name: &str,
        homeserver: &str,
        token: SecretString,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            homeserver: homeserver.to_owned(),
            plain_allowed: false,
            token,
            invite_servers: None,
            authorities_pem: None,
            connect_timeout: CONNECT_TIMEOUT,
            timeout: TIMEOUT,
            poll: POLL,
            backoff: (Duration::from_secs(1), Duration::from_mins(1)),
            clock,
            entropy,
        }
    }

    /// The first setting that is wrong and how to mend it.
    pub(super) fn check(&self) -> Result<(), String> {
        check_name(&self.name)?;
        if self.connect_timeout.is_zero() || self.connect_timeout >= self.timeout {
            return Err("connect_timeout must be above zero and shorter than timeout".into());
        }
        for server in self.invite_servers.iter().flatten() {
            if server != "*" && !address::is_server(server) {
                return Err("invite_servers must name servers, like \"example.org\", or be [\"*\"]".into());
            }
        }
        Ok(())
    }

    /// The base of all requests.
    pub(super) fn base(&self) -> Result<Url, String> {
        let url = Url::parse(self.homeserver.trim())
            .map_err(|error| format!("homeserver is not a URL ({error}); give https://matrix.example.org"))?;
        if !url.username().is_empty()
            || url.password().is_some()
            || url.query().is_some()
            || url.fragment().is_some()
        {
            return Err("homeserver must be scheme, host and perhaps a path alone; the token has a setting of its own".into());
        }
        match url.scheme() {
            "https" => Ok(url),
            "http" if self.plain_allowed || is_loopback(&url) => Ok(url),
            "http" => Err("homeserver is http, by which others can read the token; use https, or set plain_allowed = true for \
                one in your own network"
                .into()),
            _ => Err("homeserver must begin with https://".into()),
        }
    }

    /// One connection for each request, so that none repeats another's. Nothing of the environment (proxies) and nothing of an answer
    /// (redirects, retries) leads anywhere else.
    pub(super) fn client(&self) -> Result<Client, String> {
        egress::client(Egress {
            user_agent: USER_AGENT,
            guard: None,
            connect_timeout: self.connect_timeout,
            authorities_pem: self.authorities_pem.as_deref(),
        })
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}
