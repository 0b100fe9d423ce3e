//! The doorbell over a NATS server: core NATS, one subject per installation, nothing kept there. The driver comes back by itself
//! for ever; a node counts as connected once it has heard its own hello over the present connection.

use super::rings::{GATHER, Rings};
use super::wired::{Line, Wired};
use async_nats::{Client, ConnectOptions, Event, ServerAddr};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Between two pings of the driver; after two without an answer the connection counts as dead.
const PING: Duration = Duration::from_secs(2);
/// How long a connection may take to come about, and a message to be handed to it.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a node waits for its own hello before it says it again.
const HELLO: Duration = Duration::from_secs(2);
/// Servers a URL may name.
const SERVERS_MAX: usize = 16;

/// Why the doorbell cannot be.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL is not one; nothing of it is repeated, since it may hold a password.
    #[error("the URL is wrong: {0}")]
    Url(&'static str),
    /// A file cannot be used.
    #[error("{0} cannot be read: {1}")]
    File(PathBuf, std::io::Error),
}

/// Where the server is, with the credentials inside: it cannot be printed.
#[derive(Clone)]
pub struct Address {
    servers: Vec<ServerAddr>,
    user: Option<(String, Option<String>)>,
    credentials: Option<String>,
    authority: Option<PathBuf>,
}

impl fmt::Debug for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let servers = self.servers.iter().map(|server| format!("{}:{}", server.host(), server.port()));
        write!(out, "Address({})", servers.collect::<Vec<_>>().join(", "))
    }
}

impl Address {
    /// Reads `nats://HOST:PORT` or, encrypted, `tls://HOST:PORT`; with `USER:PASSWORD@` or `TOKEN@` before the host. Several
    /// servers of one cluster stand behind each other with commas; credentials of the first count for all.
    pub fn parse(url: &str) -> Result<Self, OpenError> {
        let wrong = OpenError::Url;
        let (mut servers, mut user) = (Vec::new(), None);
        for part in url.split(',').map(str::trim) {
            if !part.starts_with("nats://") && !part.starts_with("tls://") {
                return Err(wrong("each server is written nats://HOST:PORT or tls://HOST:PORT"));
            }
            let server: ServerAddr = part.parse().map_err(|_| wrong("write nats://HOST:PORT"))?;
            let mut parsed = server.into_inner();
            if parsed.host_str().is_none_or(str::is_empty) {
                return Err(wrong("it names no host"));
            }
            if !matches!(parsed.path(), "" | "/") || parsed.query().is_some() || parsed.fragment().is_some() {
                return Err(wrong("nothing stands behind HOST:PORT"));
            }
            let password = parsed.password().map(decoded).transpose()?;
            if user.is_none() && !parsed.username().is_empty() {
                user = Some((decoded(parsed.username())?, password));
            }
            let stripped = parsed.set_username("").and_then(|()| parsed.set_password(None));
            stripped.map_err(|()| wrong("it names no host"))?;
            servers.push(ServerAddr::from_url(parsed).map_err(|_| wrong("write nats://HOST:PORT"))?);
        }
        if servers.len() > SERVERS_MAX {
            return Err(wrong("it names more than 16 servers"));
        }
        Ok(Self { servers, user, credentials: None, authority: None })
    }

    /// With a `.creds` file (user JWT and key), as operator-mode servers want it.
    pub fn credentials_file(mut self, path: PathBuf) -> Result<Self, OpenError> {
        match std::fs::read_to_string(&path) {
            Ok(text) => self.credentials = Some(text),
            Err(error) => return Err(OpenError::File(path, error)),
        }
        // Tried once here, so that a damaged file is told at the start.
        self.options().map_err(|error| OpenError::File(path, error))?;
        Ok(self)
    }

    /// With a PEM file of authorities beside the system's, for `tls://`.
    pub fn authority_file(mut self, path: PathBuf) -> Result<Self, OpenError> {
        if let Err(error) = std::fs::metadata(&path) {
            return Err(OpenError::File(path, error));
        }
        self.authority = Some(path);
        Ok(self)
    }

    fn options(&self) -> std::io::Result<ConnectOptions> {
        let mut options = ConnectOptions::new();
        if let Some(credentials) = &self.credentials {
            options = options.credentials(credentials)?;
        }
        options = match self.user.clone() {
            Some((user, Some(password))) => options.user_and_password(user, password),
            Some((token, None)) => options.token(token),
            None => options,
        };
        if let Some(authority) = &self.authority {
            options = options.add_root_certificates(authority.clone());
        }
        Ok(options)
    }
}

/// What a URL writes as `%40` and the like.
fn decoded(text: &str) -> Result<String, OpenError> {
    let wrong = || OpenError::Url("user and password take %XX for what is no letter or digit");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = rest.get(..2).and_then(|digits| std::str::from_utf8(digits).ok()).ok_or_else(wrong)?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| wrong())?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

/// Rings over a NATS server.
pub type NatsDoorbell = Wired<Address>;

impl Line for Address {
    fn serve(self, rings: Arc<Rings>, org_id: String) -> BoxFuture<'static, ()> {
        serve(self, rings, format!("switchboard.{org_id}.bell")).boxed()
    }
}

async fn serve(address: Address, rings: Arc<Rings>, subject: String) {
    for attempt in 1.. {
        let why = match session(&address, &rings, &subject).await {
            Ok(()) => "the connection was closed".to_owned(),
            Err(error) => error.to_string(),
        };
        rings.down(&why);
        tokio::time::sleep(rings.retry(attempt)).await;
    }
}

/// Serves one client of the driver, which itself connects again and again: ends only when that gives up.
async fn session(address: &Address, rings: &Arc<Rings>, subject: &str) -> Result<(), async_nats::Error> {
    let (told, mut events) = mpsc::unbounded_channel();
    let pace = rings.clone();
    let options = address.options()?;
    let options = options
        .name("switchboard")
        .retry_on_initial_connect()
        .max_reconnects(None)
        .connection_timeout(CONNECT)
        .ping_interval(PING)
        .reconnect_delay_callback(move |attempt| pace.retry(attempt))
        .event_callback(move |event| {
            let told = told.clone();
            async move { drop(told.send(event)) }
        });
    let client = options.connect(address.servers.clone()).await?;
    let mut messages = client.subscribe(subject.to_owned()).await?;
    let mut up = false;
    let mut refusals = 0_u32;
    let gathered = tokio::time::sleep(Duration::ZERO);
    tokio::pin!(gathered);
    loop {
        tokio::select! {
            event = events.recv() => match event {
                Some(Event::Connected) => {
                    up = true;
                    refusals = 0;
                    tell(&client, subject, rings.hello()).await?;
                }
                Some(Event::Disconnected | Event::Closed) => {
                    up = false;
                    rings.down("the connection to the NATS server ended");
                }
                Some(Event::ServerError(error)) => refused(&mut refusals, &error.to_string()),
                Some(Event::ClientError(error)) => refused(&mut refusals, &error.to_string()),
                Some(_) => {}
                None => return Ok(()),
            },
            message = messages.next() => match message {
                Some(message) => rings.hear(&message.payload),
                None => return Ok(()),
            },
            () = gathered.as_mut(), if !gathered.is_elapsed() => {}
            () = rings.rung(), if gathered.is_elapsed() => {
                // While there is nobody to tell, the hello of the next connection tells it all.
                if let Some(message) = rings.message().filter(|_| up) {
                    tell(&client, subject, message).await?;
                    gathered.as_mut().reset(Instant::now() + GATHER);
                }
            }
            () = tokio::time::sleep(HELLO), if up && !rings.is_connected() => {
                tell(&client, subject, rings.hello()).await?;
            }
        }
    }
}

/// The driver tries for ever what a person must mend: said once in a while.
fn refused(refusals: &mut u32, why: &str) {
    if refusals.is_power_of_two() || *refusals == 0 {
        tracing::warn!(why, "the NATS server cannot be used; check doorbell.url and its credentials");
    }
    *refusals = refusals.saturating_add(1);
}

async fn tell(client: &Client, subject: &str, message: String) -> Result<(), async_nats::Error> {
    let told = client.publish(subject.to_owned(), message.into());
    tokio::time::timeout(CONNECT, told).await??;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_give_servers_and_credentials_apart() {
        let address = Address::parse("nats://ann:ge%40heim@a.example:4000, tls://b.example").unwrap();
        assert_eq!(address.user, Some(("ann".into(), Some("ge@heim".into()))));
        assert_eq!(format!("{address:?}"), "Address(a.example:4000, b.example:4222)");
        assert!(address.servers[1].tls_required() && !address.servers[0].has_user_pass());
        let token = Address::parse("nats://s3cr3t@localhost").unwrap();
        assert_eq!(token.user, Some(("s3cr3t".into(), None)));
    }

    #[test]
    fn a_wrong_url_is_refused_without_repeating_it() {
        for url in [
            "",
            "localhost",
            "http://a",
            "nats://",
            "nats://a/b",
            "nats://a?x=1",
            "ws://a",
            "nats://ann:se%4@a",
        ] {
            let error = Address::parse(url).unwrap_err().to_string();
            assert!(error.starts_with("the URL is wrong: ") && !error.contains("se%4"), "{url}: {error}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named() {
        let address = Address::parse("nats://localhost").unwrap();
        let missing = address.clone().credentials_file("/nowhere/user.creds".into()).unwrap_err();
        assert!(missing.to_string().contains("/nowhere/user.creds"));
        let damaged = tempfile::NamedTempFile::new().unwrap();
        assert!(address.credentials_file(damaged.path().to_owned()).is_err());
    }
}
