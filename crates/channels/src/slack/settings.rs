//! What a Slack channel is set up with.

use crate::guard::{Lookup, SystemLookup};
use reqwest::Url;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::random::Entropy;
use switchboard_core::time::Clock;
use switchboard_core::{ExposeSecret as _, SecretString};

/// Slack's Web API.
pub const BASE_URL: &str = "https://slack.com/api/";
/// Longest token or secret, in bytes.
const SECRET_BYTES_MAX: usize = 1024;
/// Shortest signing secret, in bytes; Slack's have 32.
const SIGNING_BYTES_MIN: usize = 16;

/// A Slack channel. With an app-level token answers come in over Socket Mode, with a signing secret they are posted to the hub; with
/// neither none come in.
#[derive(Clone)]
pub struct Settings {
    /// Its configured name.
    pub name: String,
    /// The bot token, `xoxb-…`.
    pub bot_token: SecretString,
    /// The app-level token with `connections:write`, `xapp-…`.
    pub app_token: Option<SecretString>,
    /// The app's signing secret.
    pub signing_secret: Option<SecretString>,
    /// Where the Web API is; another than [`BASE_URL`] for tests alone.
    pub base_url: String,
    /// Where names lead.
    pub lookup: Arc<dyn Lookup>,
    /// Times.
    pub tuning: Tuning,
    /// Gives the time.
    pub clock: Arc<dyn Clock>,
    /// Gives jitter.
    pub entropy: Arc<dyn Entropy>,
}

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub struct Tuning {
    /// Time to connect, TLS included.
    pub connect: Duration,
    /// Time for a whole call; shorter than the minute after which the hub gives an attempt up.
    pub call: Duration,
    /// How often a ping is sent on the socket.
    pub ping: Duration,
    /// After how long without anything from Slack the socket is dead.
    pub silence: Duration,
    /// How long a socket that Slack asked to leave is still read.
    pub leave: Duration,
    /// First and longest pause before connecting again.
    pub backoff: (Duration, Duration),
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            call: Duration::from_secs(20),
            ping: Duration::from_secs(20),
            silence: Duration::from_mins(1),
            leave: Duration::from_secs(30),
            backoff: (Duration::from_secs(1), Duration::from_mins(5)),
        }
    }
}

impl Settings {
    /// Settings with everything else as usual: no way back, Slack's own address, the system's resolver.
    pub fn new(
        name: &str,
        bot_token: SecretString,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            bot_token,
            app_token: None,
            signing_secret: None,
            base_url: BASE_URL.to_owned(),
            lookup: Arc::new(SystemLookup),
            tuning: Tuning::default(),
            clock,
            entropy,
        }
    }

    /// Whether answers come in.
    pub(super) fn answers(&self) -> bool {
        self.app_token.is_some() || self.signing_secret.is_some()
    }

    /// The setting that is wrong and how to mend it; values are not repeated, for they may be secrets.
    pub(super) fn check(&self) -> Result<Url, String> {
        switchboard_core::port::channel::check_name(&self.name)?;
        check_token("bot_token", &self.bot_token, &["xoxb-", "xoxe.xoxb-"])?;
        if let Some(token) = &self.app_token {
            check_token("app_token", token, &["xapp-"])?;
        }
        if let Some(secret) = &self.signing_secret {
            check_secret("signing_secret", secret)?;
            if secret.expose_secret().len() < SIGNING_BYTES_MIN {
                return Err("signing_secret is too short; copy it from `Basic Information` of the app".into());
            }
        }
        let times = self.tuning;
        if times.connect.is_zero() || times.connect >= times.call {
            return Err("the time to connect must be above zero and shorter than that of a call".into());
        }
        base(&self.base_url)
    }
}

/// Without TLS tokens could be read along: only on this machine, or at a name that is nowhere (RFC 2606).
fn base(text: &str) -> Result<Url, String> {
    let wrong = || format!("base_url must be {BASE_URL}, or another https URL that ends with a slash");
    let url = Url::parse(text).map_err(|_| wrong())?;
    let host = url.host_str().unwrap_or_default();
    let here = matches!(host, "127.0.0.1" | "[::1]" | "localhost") || host.rsplit('.').next() == Some("test");
    let safe = url.scheme() == "https" || (url.scheme() == "http" && here);
    let sound = url.path().ends_with('/') && url.query().is_none() && url.username().is_empty();
    if safe && sound { Ok(url) } else { Err(wrong()) }
}

fn check_token(name: &str, token: &SecretString, starts: &[&str]) -> Result<(), String> {
    check_secret(name, token)?;
    if starts.iter().any(|start| token.expose_secret().starts_with(start)) {
        return Ok(());
    }
    let place =
        if name == "bot_token" { "`OAuth & Permissions`" } else { "`Basic Information`, `App-Level Tokens`" };
    Err(format!("{name} does not begin with {}; copy it from {place} of the app", starts[0]))
}

fn check_secret(name: &str, secret: &SecretString) -> Result<(), String> {
    let text = secret.expose_secret();
    let sound =
        (1..=SECRET_BYTES_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    if sound { Ok(()) } else { Err(format!("{name} is empty, too long, or has a space or a line end in it")) }
}
