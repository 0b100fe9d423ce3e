//! The HTTP routes beside the socket.

use std::fmt;
use std::time::Duration;

use futures_util::StreamExt;
use reqwest::{Response, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use switchboard_protocol::bus::{BusEvents, BusPoll, StreamList};
use switchboard_protocol::enroll::WhoAmI;
use switchboard_protocol::json::{Limits, parse};
use switchboard_protocol::limits::HTTP_BODY_BYTES_MAX;
use switchboard_protocol::message::{Delivery, MessageList, Network};
use switchboard_protocol::{
    HEADER_IDEMPOTENCY_KEY, HEADER_NAMES, HEADER_PROTOCOL, NAMES_VAULT, PROTOCOL_VERSION, protocol_compatible,
};

pub use reqwest::Method;

use crate::error::Error;
use crate::id::fresh_key;
use crate::options::{Tuning, base_url, join};
use crate::secret::Secret;
use crate::socket::{USER_AGENT, refused_answer};
use crate::trust::Trust;

/// A hub's HTTP routes under one bearer. Cheap to clone.
#[derive(Clone)]
pub struct Http {
    client: reqwest::Client,
    base: Url,
    token: Secret,
    timeout: Duration,
}

impl fmt::Debug for Http {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Http").field("base", &self.base.as_str()).finish_non_exhaustive()
    }
}

/// What to list with [`Http::messages`].
#[derive(Debug, Clone)]
pub struct MessageQuery<'a> {
    /// The channel or swarm.
    pub network: Network<'a>,
    /// Only this thread.
    pub thread_id: Option<&'a str>,
    /// Only what follows this message: the `next` of the page before.
    pub after_gid: Option<&'a str>,
    /// Only what follows this position, instead of `after_gid`; [`Http::streams`] says which there are.
    pub after_seq: Option<u64>,
    /// Page size, at most 200; the server decides when absent.
    pub limit: Option<u32>,
}

impl Http {
    /// Routes of the hub at `url` (as [`crate::Options::url`]) under `token`.
    pub fn new(url: &str, token: Secret, tuning: &Tuning) -> Result<Self, Error> {
        Self::with_trust(url, token, tuning, &Trust::default())
    }

    /// As [`Self::new`], for a hub whose certificate comes from one of these authorities.
    pub fn with_trust(url: &str, token: Secret, tuning: &Tuning, trust: &Trust) -> Result<Self, Error> {
        let base = base_url(url)?;
        let client = trust
            .http(&base)
            .user_agent(USER_AGENT)
            .connect_timeout(tuning.connect_timeout)
            .build()
            .map_err(|error| Error::Option(format!("http: {error}")))?;
        Ok(Self { client, base, token, timeout: tuning.http_timeout })
    }

    /// Whose bearer this is: `GET /v1/whoami`.
    pub async fn whoami(&self) -> Result<WhoAmI, Error> {
        self.get("/v1/whoami", &[]).await
    }

    /// Wait up to `wait` for what happened since `cursor` (empty: from now): `GET /v1/bus/poll`.
    pub async fn poll(&self, cursor: &str, wait: Duration) -> Result<BusPoll, Error> {
        let wait_ms = wait.as_millis().to_string();
        let mut query = vec![("wait_ms", wait_ms.as_str())];
        query.extend((!cursor.is_empty()).then_some(("cursor", cursor)));
        let bytes = self.send(Method::GET, "/v1/bus/poll", &query, None, self.timeout + wait).await?;
        read(&bytes)
    }

    /// One page of a channel's publishes after `after_seq`, at most `limit` (500): `GET /v1/bus/channels/{channel}/events`.
    pub async fn channel_events(
        &self,
        channel: &str,
        after_seq: u64,
        limit: u32,
    ) -> Result<BusEvents, Error> {
        let (after_seq, limit) = (after_seq.to_string(), limit.to_string());
        let path = format!("/v1/bus/channels/{}/events", percent_encode(channel));
        let events: BusEvents = self.get(&path, &[("after_seq", &after_seq), ("limit", &limit)]).await?;
        events.validate().map_err(|error| Error::Protocol(error.message))?;
        Ok(events)
    }

    /// One page of messages, oldest first: `GET /v1/messages`.
    pub async fn messages(&self, query: &MessageQuery<'_>) -> Result<MessageList<'static>, Error> {
        let number = |number: Option<u64>| number.map(|number| number.to_string());
        let (after_seq, limit) = (number(query.after_seq), number(query.limit.map(u64::from)));
        let (kind, name, value) = match &query.network {
            Network::Org { channel } => ("org", "channel", channel),
            Network::Swarm { swarm_id } => ("swarm", "swarm_id", swarm_id),
        };
        let mut pairs = vec![("network", kind), (name, value)];
        pairs.extend(query.thread_id.map(|id| ("thread_id", id)));
        pairs.extend(query.after_gid.map(|gid| ("after_gid", gid)));
        pairs.extend(after_seq.as_deref().map(|seq| ("after_seq", seq)));
        pairs.extend(limit.as_deref().map(|limit| ("limit", limit)));
        self.message_list("/v1/messages", &pairs).await
    }

    /// One message by its id, of any network the bearer belongs to: `GET /v1/messages/{gid}`. What it may not read is
    /// refused like what does not exist.
    pub async fn message(&self, gid: &str) -> Result<Delivery<'static>, Error> {
        let list = self.message_list(&format!("/v1/messages/{}", percent_encode(gid)), &[]).await?;
        let message = list.messages.into_iter().next().filter(|message| message.gid == gid);
        message.ok_or_else(|| Error::Protocol("the server answered with another message".into()))
    }

    /// One page of the channels and swarms that the bearer may read, after `next_after` of the page before:
    /// `GET /v1/streams`.
    pub async fn streams(&self, after: Option<&str>) -> Result<StreamList, Error> {
        let query: Vec<_> = after.map(|after| ("after", after)).into_iter().collect();
        self.get("/v1/streams", &query).await
    }

    async fn message_list(&self, path: &str, query: &[(&str, &str)]) -> Result<MessageList<'static>, Error> {
        let bytes = self.send(Method::GET, path, query, None, self.timeout).await?;
        let list: MessageList<'_> = parse(&bytes, Limits::HTTP_BODY).map_err(unreadable)?;
        list.validate().map_err(|error| Error::Protocol(error.message))?;
        Ok(list.into_owned())
    }

    /// Any other route: `path` starts with `/`, `body` is sent as JSON, the answer is read as `T` (`()` when empty).
    ///
    /// A POST carries a fresh `Idempotency-Key`; use [`Self::rest_with_key`] to repeat one whose outcome is unknown.
    pub async fn rest<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<T, Error> {
        self.rest_with_key(method, path, body, &fresh_key()).await
    }

    /// As [`Self::rest`], under a key of the caller's: the same key with the same body gets the first answer again.
    pub async fn rest_with_key<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
        key: &str,
    ) -> Result<T, Error> {
        let encode = |body| serde_json::to_vec(body).map_err(|error| Error::Protocol(error.to_string()));
        let sent = Sent {
            body: body.map(encode).transpose()?,
            key: (method == Method::POST).then(|| key.to_owned()),
        };
        let bytes = self.send(method, path, &[], Some(sent), self.timeout).await?;
        read(if bytes.is_empty() { b"null" } else { &bytes })
    }

    /// A POST without a key of its own, whose answer may take `wait` longer than others.
    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, &str)],
        body: &impl Serialize,
        wait: Duration,
    ) -> Result<T, Error> {
        let body = serde_json::to_vec(body).map_err(|error| Error::Protocol(error.to_string()))?;
        let sent = Sent { body: Some(body), key: None };
        read(&self.send(Method::POST, path, query, Some(sent), self.timeout + wait).await?)
    }

    async fn get<T: DeserializeOwned>(&self, path: &str, query: &[(&str, &str)]) -> Result<T, Error> {
        read(&self.send(Method::GET, path, query, None, self.timeout).await?)
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, &str)],
        sent: Option<Sent>,
        timeout: Duration,
    ) -> Result<Vec<u8>, Error> {
        let mut request = self
            .client
            .request(method, join(&self.base, path))
            .timeout(timeout)
            .bearer_auth(self.token.expose())
            .header(HEADER_PROTOCOL, PROTOCOL_VERSION)
            .header(HEADER_NAMES, NAMES_VAULT);
        if !query.is_empty() {
            request = request.query(query);
        }
        let Sent { body, key } = sent.unwrap_or_default();
        if let Some(key) = key {
            request = request.header(HEADER_IDEMPOTENCY_KEY, key);
        }
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body);
        }
        let response = Box::pin(request.send()).await.map_err(|error| transport(&error))?;
        answer(response).await
    }
}

#[derive(Default)]
struct Sent {
    body: Option<Vec<u8>>,
    key: Option<String>,
}

async fn answer(response: Response) -> Result<Vec<u8>, Error> {
    let version =
        response.headers().get(HEADER_PROTOCOL).map(|value| value.to_str().unwrap_or_default().to_owned());
    if version.is_some_and(|version| !protocol_compatible(&version)) {
        return Err(Error::Protocol("the server speaks another major version".into()));
    }
    let status = response.status();
    let body = bounded_body(response).await?;
    if status.is_success() { Ok(body) } else { Err(refused_answer(status.as_u16(), &body)) }
}

async fn bounded_body(response: Response) -> Result<Vec<u8>, Error> {
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| transport(&error))?;
        if body.len() + chunk.len() > HTTP_BODY_BYTES_MAX {
            return Err(Error::Protocol(format!("the answer is larger than {HTTP_BODY_BYTES_MAX} bytes")));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn transport(error: &reqwest::Error) -> Error {
    if error.is_timeout() && !error.is_connect() {
        return Error::Timeout;
    }
    // The address may hold what a log should not; the cause says enough.
    let cause =
        std::error::Error::source(error).map_or_else(|| "no connection".to_owned(), ToString::to_string);
    Error::Unreachable(cause)
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    parse(bytes, Limits::HTTP_BODY).map_err(unreadable)
}

fn unreadable(error: switchboard_protocol::Invalid) -> Error {
    Error::Protocol(error.message)
}

/// Everything but unreserved characters as `%XX`: the slashes of a channel name are part of one path segment.
fn percent_encode(segment: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    segment
        .bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect::<Vec<_>>()
        .concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_is_one_segment() {
        assert_eq!(percent_encode("org:o/vault:0a/x y~é"), "org%3Ao%2Fvault%3A0a%2Fx%20y~%C3%A9");
    }
}
