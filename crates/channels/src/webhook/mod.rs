//! Webhooks: a message is posted as JSON to a URL of the operator's, signed as <https://www.standardwebhooks.com> says. For programs of
//! the organization that bring messages to people in their own way.
//!
//! What is posted is in [`payload`], how it is signed in [`signature`], what an answer means in [`answer`], which addresses are connected
//! to in [`crate::guard`]. The receiver's side is described in `docs/guide/channels/webhook.md`; golden bytes are in `fixtures/webhook`.
//! Nothing comes back this way: a webhook has no one who could be known by an answer.

pub mod answer;
pub mod payload;
pub mod signature;

use crate::egress::{self, Egress, USER_AGENT};
use crate::guard::{self, Guard, Lookup, SystemLookup};
use crate::handle;
use crate::message;
use futures_util::future::BoxFuture;
use reqwest::{Client, Response, Url};
use signature::Keys;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::outbound::gate::Cleared;
use switchboard_core::port::channel::check_name;
use switchboard_core::port::channel::{
    AddressKind, Attempt, Capabilities, Channel, Checked, Dedup, Dialect, Draft, FailureClass, LengthUnit,
    NotSent, Part, Performed,
};
use switchboard_core::time::Clock;
use switchboard_core::{ExposeSecret, SecretString};

/// The kind of these channels.
pub const KIND: &str = "webhook";
/// Longest message, in bytes of its JSON.
pub const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Most of an answer that is read, in bytes.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Time to connect, TLS included, unless set.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for a whole attempt unless set; the standard advises 15 to 30 seconds.
pub const TIMEOUT: Duration = Duration::from_secs(20);

const CAPABILITIES: Capabilities = Capabilities {
    direct: true,
    shared: true,
    answers: false,
    part_max: MESSAGE_BYTES_MAX,
    unit: LengthUnit::Bytes,
    parts_max: 1,
    dialect: Dialect::CommonMark,
    threads: true,
    edits: false,
    buttons_max: 8,
    dedup: Dedup::ById,
    pace_ms: 0,
    at_once: 32,
    consent: true,
};

/// What a webhook channel is made of.
pub struct Settings {
    /// Its name.
    pub name: String,
    /// Where to post: `https`, or `http` together with `allow_private_targets`. A secret, because many receivers put one into the URL.
    pub target: SecretString,
    /// Secrets of Standard Webhooks (`whsec_` and Base64 of 24 to 64 bytes), newest first. While one replaces another both are listed, and
    /// every message is signed with each.
    pub secrets: Vec<SecretString>,
    /// Whether the target may be within a private network or on this machine.
    pub allow_private_targets: bool,
    /// Certificate authorities to believe beside those of the operating system, as PEM.
    pub authorities_pem: Option<Vec<u8>>,
    /// Time to connect, TLS included. Shorter than `timeout`, so that a target that cannot be reached is known not to be.
    pub connect_timeout: Duration,
    /// Time for the whole attempt; shorter than the minute after which the hub gives an attempt up.
    pub timeout: Duration,
    /// Gives `webhook-timestamp`.
    pub clock: Arc<dyn Clock>,
    /// Where names lead.
    pub lookup: Arc<dyn Lookup>,
}

impl Settings {
    /// Settings with everything else as usual: public targets only, the system's resolver, default time-outs.
    pub fn new(name: &str, target: SecretString, secrets: Vec<SecretString>, clock: Arc<dyn Clock>) -> Self {
        Self {
            name: name.to_owned(),
            target,
            secrets,
            allow_private_targets: false,
            authorities_pem: None,
            connect_timeout: CONNECT_TIMEOUT,
            timeout: TIMEOUT,
            clock,
            lookup: Arc::new(SystemLookup),
        }
    }
}

/// A webhook as a channel.
pub struct Webhook {
    name: String,
    target: Url,
    keys: Keys,
    timeout: Duration,
    clock: Arc<dyn Clock>,
    client: Client,
    lookup: Arc<dyn Lookup>,
    allow_private: bool,
    connect_timeout: Duration,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Webhook").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Webhook {
    /// A channel of these settings, or the setting that is wrong and how to mend it; values are not repeated, for they may be secrets.
    pub fn new(settings: Settings) -> Result<Self, String> {
        check_name(&settings.name)?;
        let target = target(&settings)?;
        let keys = Keys::parse(&settings.secrets)?;
        if settings.connect_timeout.is_zero() || settings.connect_timeout >= settings.timeout {
            return Err("connect_timeout must be above zero and shorter than timeout".into());
        }
        let client = client(&settings)?;
        Ok(Self {
            name: settings.name,
            target,
            keys,
            timeout: settings.timeout,
            clock: settings.clock,
            client,
            lookup: settings.lookup,
            allow_private: settings.allow_private_targets,
            connect_timeout: settings.connect_timeout,
        })
    }

    async fn post(&self, attempt: &Attempt) -> Performed {
        let body = match payload::body(attempt) {
            Ok(body) => body,
            Err(why) => return Performed::NotSent(NotSent::new(FailureClass::Permanent, why)),
        };
        let timestamp_s = self.clock.wall_ms().div_euclid(1000);
        let request = self
            .client
            .post(self.target.clone())
            .timeout(self.timeout)
            .header("content-type", "application/json")
            .header("webhook-id", &attempt.delivery)
            .header("webhook-timestamp", timestamp_s)
            .header("webhook-signature", self.keys.sign(&attempt.delivery, timestamp_s, &body))
            .header("switchboard-attempt", attempt.attempt)
            .body(body);
        match request.send().await {
            Ok(response) => self.read(response).await,
            Err(error) => answer::failure(&error),
        }
    }

    /// Connects to the target and posts nothing: a request could not be taken for a check.
    async fn reach(&self) -> Result<Checked, String> {
        let (host, port) =
            (self.target.host_str().unwrap_or_default(), self.target.port_or_known_default().unwrap_or(443));
        let addresses = match literal_of(host) {
            Some(address) => vec![address],
            None => self
                .lookup
                .lookup(host.to_owned())
                .await
                .map_err(|error| format!("target: the name {host} cannot be looked up: {error}"))?,
        };
        if addresses.is_empty() {
            return Err(format!("target: the name {host} has no address"));
        }
        let good = guard::permitted(addresses, self.allow_private);
        let good: Vec<_> = good.map_err(|why| format!("target: {why}"))?.map(|at| at.ip()).collect();
        let mut last = String::new();
        for address in good {
            match tokio::net::TcpStream::connect((address, port)).await {
                Ok(_) => {
                    let account = format!("{}://{host}:{port} takes connections", self.target.scheme());
                    return Ok(Checked { account, invite: None });
                }
                Err(error) => last = error.to_string(),
            }
        }
        Err(format!("target: {host}:{port} cannot be connected to: {last}"))
    }

    /// What an answer says. Its status is what counts: what is lost of its body takes nothing back.
    async fn read(&self, mut response: Response) -> Performed {
        let mut body = Vec::new();
        while let Ok(Some(chunk)) = response.chunk().await {
            let room = ANSWER_BYTES_MAX - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if body.len() == ANSWER_BYTES_MAX {
                break;
            }
        }
        answer::outcome(response.status().as_u16(), response.headers(), &body, self.clock.wall_ms())
    }
}

/// One connection for each attempt, so that none repeats another's request and each looks at the address anew. Nothing of the environment
/// (proxies) and nothing of an answer (redirects, retries) leads anywhere else.
fn client(settings: &Settings) -> Result<Client, String> {
    egress::client(Egress {
        user_agent: USER_AGENT,
        guard: Some(Guard::new(settings.lookup.clone(), settings.allow_private_targets)),
        connect_timeout: settings.connect_timeout,
        authorities_pem: settings.authorities_pem.as_deref(),
    })
}

fn target(settings: &Settings) -> Result<Url, String> {
    let url = Url::parse(settings.target.expose_secret())
        .map_err(|error| format!("target is not a URL ({error}); give https://host/path"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("target holds a user name or a password; receivers check the signature instead".into());
    }
    match url.scheme() {
        "https" => {}
        "http" if settings.allow_private_targets => {}
        "http" => {
            return Err("target is http, by which others can read along; use https, or set \
                allow_private_targets = true for one in your own network"
                .into());
        }
        _ => return Err("target must begin with https://".into()),
    }
    literal(&url, settings.allow_private_targets).map_err(|why| why.to_string())?;
    Ok(url)
}

/// A host that is an address is connected to without a lookup, so that the resolver's guard never sees it. It is looked at once: it cannot
/// come to lead elsewhere.
fn literal(url: &Url, allow_private: bool) -> Result<(), guard::Refused> {
    let address = literal_of(url.host_str().unwrap_or_default());
    address.map_or(Ok(()), |address| guard::check(address, allow_private))
}

fn literal_of(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

impl Channel for Webhook {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> &'static str {
        KIND
    }

    fn capabilities(&self) -> &Capabilities {
        &CAPABILITIES
    }

    fn normalise(&self, _kind: AddressKind, to: &str) -> Result<String, String> {
        handle::normalise(to)
    }

    fn prepare(&self, draft: &Draft<'_>) -> Result<Vec<Part>, String> {
        message::prepare(draft, MESSAGE_BYTES_MAX)
    }

    fn perform(&self, attempt: Cleared) -> BoxFuture<'_, Performed> {
        Box::pin(async move { self.post(attempt.attempt()).await })
    }

    fn check(&self) -> BoxFuture<'_, Result<Checked, String>> {
        Box::pin(async move {
            let reached = tokio::time::timeout(self.connect_timeout, self.reach()).await;
            reached.unwrap_or_else(|_| Err("target: it cannot be connected to in time".to_owned()))
        })
    }
}
