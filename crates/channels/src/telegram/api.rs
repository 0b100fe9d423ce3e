//! Calls of the Bot API: one HTTP request each, never repeated by itself. The bot's token is part of every URL; no URL ever reaches an
//! error.

use super::Settings;
use crate::egress::{self, Egress, USER_AGENT};
use crate::guard::Guard;
use crate::retry_after;
use reqwest::{Client, Response, Url};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::time::Clock;
use switchboard_core::{ExposeSecret as _, SecretString};

/// Most of an answer that is read, in bytes: a full set of updates is far below.
const ANSWER_BYTES_MAX: usize = 8 << 20;
/// Longest description of an error that is shown, in characters.
const DESCRIPTION_CHARS_MAX: usize = 300;
/// Shortest and longest secret part of a token.
const SECRET_CHARS: std::ops::RangeInclusive<usize> = 20..=128;

/// A bot's token: its number, a colon, and a secret.
pub(super) struct Token(SecretString);

impl Token {
    /// Reads a token; what is wrong is said without it.
    pub fn parse(token: &SecretString) -> Result<(Self, i64), String> {
        let token = token.expose_secret().trim();
        let read = token.split_once(':').and_then(|(bot, secret)| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
            let is_sound = SECRET_CHARS.contains(&secret.len()) && secret.bytes().all(plain);
            super::address::chat(bot).filter(|bot| *bot > 0 && is_sound)
        });
        let bot = read.ok_or("the token must look like 123456789:AA…, as @BotFather gives it")?;
        Ok((Self(token.into()), bot))
    }
}

/// Why a call brought nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// There was no connection: nothing was said.
    Unreached(String),
    /// The Bot API refuses.
    Refused(Refusal),
    /// Something else than the Bot API answered, with this status.
    Foreign(u16),
    /// The connection ended, or what came was no answer.
    Lost(String),
}

/// What the Bot API says when it refuses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Refusal {
    /// Its code, like a status of HTTP.
    pub code: u16,
    /// For people, and the only thing that tells one 400 from another.
    pub description: String,
    /// How long to wait, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// The number of the supergroup that the group has become.
    pub migrated_to: Option<i64>,
}

impl Fault {
    /// For people.
    pub fn sentence(&self) -> String {
        match self {
            Self::Unreached(why) => format!("no connection to the Bot API: {why}"),
            Self::Refused(refusal) => {
                format!("the Bot API answers {}: {}", refusal.code, refusal.description)
            }
            Self::Foreign(status) => {
                format!(
                    "something else than the Bot API answers {status}: look at api_url and at what stands between"
                )
            }
            Self::Lost(why) => why.clone(),
        }
    }
}

/// Answers of every method have this shape.
#[derive(Deserialize)]
struct Answer {
    ok: bool,
    result: Option<Box<RawValue>>,
    error_code: Option<u16>,
    description: Option<String>,
    parameters: Option<Parameters>,
}

#[derive(Deserialize)]
struct Parameters {
    migrate_to_chat_id: Option<i64>,
}

/// The Bot API as one bot.
pub(super) struct Api {
    client: Client,
    base: Url,
    token: Token,
    timeout: Duration,
    clock: Arc<dyn Clock>,
}

impl Api {
    pub fn new(settings: &Settings, token: Token) -> Result<Self, String> {
        let base = Url::parse(&settings.api_url)
            .ok()
            .filter(|url| {
                matches!(url.scheme(), "https" | "http") && url.query().is_none() && url.fragment().is_none()
            })
            .ok_or("api_url must be the address of a Bot API server, https://host")?;
        if settings.connect_timeout.is_zero() || settings.connect_timeout >= settings.timeout {
            return Err("connect_timeout must be above zero and shorter than timeout".into());
        }
        let (client, timeout) = (client(settings)?, settings.timeout);
        Ok(Self { client, base, token, timeout, clock: settings.clock.clone() })
    }

    /// Calls a method with JSON; its result.
    pub async fn call(&self, method: &str, body: &impl serde::Serialize) -> Result<Box<RawValue>, Fault> {
        self.call_within(method, body, None, self.timeout).await
    }

    /// The same with a time of its own, and a name under which it is found in the records of a server of one's own.
    pub async fn call_within(
        &self,
        method: &str,
        body: &impl serde::Serialize,
        id: Option<&str>,
        timeout: Duration,
    ) -> Result<Box<RawValue>, Fault> {
        let mut request = self.client.post(self.url(method)).timeout(timeout).json(body);
        if let Some(id) = id {
            request = request.header("x-request-id", id);
        }
        match request.send().await {
            Ok(response) => self.read(response).await,
            Err(error) => Err(failure(&error)),
        }
    }

    fn url(&self, method: &str) -> Url {
        let mut url = self.base.clone();
        let path = url.path().trim_end_matches('/');
        let path = format!("{path}/bot{}/{method}", self.token.0.expose_secret());
        url.set_path(&path);
        url
    }

    async fn read(&self, mut response: Response) -> Result<Box<RawValue>, Fault> {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| failure(&error))? {
            body.extend_from_slice(&chunk);
            if body.len() > ANSWER_BYTES_MAX {
                return Err(Fault::Lost(format!("the answer has more than {ANSWER_BYTES_MAX} bytes")));
            }
        }
        let Ok(answer) = serde_json::from_slice::<Answer>(&body) else {
            return Err(match status {
                200..=299 => Fault::Lost("what was answered is no answer of the Bot API".into()),
                status => Fault::Foreign(status),
            });
        };
        if let (true, Some(result), 200..=299) = (answer.ok, answer.result, status) {
            return Ok(result);
        }
        Err(Fault::Refused(Refusal {
            code: answer.error_code.unwrap_or(status),
            description: described(answer.description.as_deref().unwrap_or("no reason given")),
            retry_after_ms: retry_after::of_answer(&headers, &body, self.clock.wall_ms()),
            migrated_to: answer.parameters.and_then(|parameters| parameters.migrate_to_chat_id),
        }))
    }
}

/// One line of foreign text, bounded.
pub(super) fn described(text: &str) -> String {
    let line = crate::document::clean_line(text);
    line.chars().take(DESCRIPTION_CHARS_MAX).collect()
}

/// A connection for each call: one that is kept may have been ended by the other side, and whoever then writes on it never learns whether
/// that was read. Messages of Telegram cannot be repeated safely, so that this would cost some of them.
fn client(settings: &Settings) -> Result<Client, String> {
    egress::client(Egress {
        user_agent: USER_AGENT,
        guard: Some(Guard::new(settings.lookup.clone(), true)),
        connect_timeout: settings.connect_timeout,
        authorities_pem: settings.authorities_pem.as_deref(),
    })
}

/// What it means that there was no answer. Until the connection stands nothing has been said; after that nobody knows.
fn failure(error: &reqwest::Error) -> Fault {
    let what = innermost(error);
    if error.is_connect() || error.is_builder() {
        return Fault::Unreached(what);
    }
    Fault::Lost(format!("the connection ended before the Bot API had answered: {what}"))
}

/// The innermost cause. The outer ones name the URL, in which the token is.
fn innermost(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "time ran out".into();
    }
    let mut inner: &dyn Error = match error.source() {
        Some(source) => source,
        None => return "no cause is known".into(),
    };
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}
