//! Calls of Discord's HTTP API, version 10. One call is one request: nothing is repeated, no redirect followed, no proxy asked.

use super::settings::Settings;
use crate::egress::{self, Egress};
use crate::guard::Guard;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Client, Method, Url};
use serde_json::Value;
use std::time::Duration;
use switchboard_core::ExposeSecret as _;

/// Most of an answer that is read, in bytes: a hundred messages of full length fit.
pub(super) const ANSWER_BYTES_MAX: usize = 4 << 20;
/// How a program that is a bot has to name itself.
const USER_AGENT: &str =
    concat!("DiscordBot (https://github.com/switchboard-hub/switchboard, ", env!("CARGO_PKG_VERSION"), ")");

/// An answer as it came, cut at [`ANSWER_BYTES_MAX`] or where the connection broke.
#[derive(Debug)]
pub(super) struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// The API.
pub(super) struct Rest {
    client: Client,
    base: Url,
    authorization: HeaderValue,
    timeout: Duration,
}

impl Rest {
    pub fn new(settings: &Settings) -> Result<Self, String> {
        if settings.connect_timeout.is_zero() || settings.connect_timeout >= settings.timeout {
            return Err("connect_timeout must be above zero and shorter than timeout".into());
        }
        let base = Url::parse(&settings.api).map_err(|error| format!("api is not a URL: {error}"))?;
        if !matches!(base.scheme(), "http" | "https") || base.query().is_some() {
            return Err("api must be https://host/path".into());
        }
        Ok(Self {
            client: client(settings)?,
            base,
            authorization: authorization(settings.token.expose_secret())?,
            timeout: settings.timeout,
        })
    }

    /// Whether it is spoken without TLS, as tests do.
    pub fn is_plain(&self) -> bool {
        self.base.scheme() == "http"
    }

    /// One call of `path`, below the API's base.
    pub async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> reqwest::Result<Answer> {
        let url = format!("{}{path}", self.base.as_str().trim_end_matches('/'));
        let mut request = self
            .client
            .request(method, url)
            .timeout(self.timeout)
            .header(AUTHORIZATION, self.authorization.clone());
        if let Some(body) = body {
            request = request.json(body);
        }
        let mut response = request.send().await.map_err(reqwest::Error::without_url)?;
        let mut answer = Answer {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            body: Vec::new(),
        };
        // The status says what became of the call; what is lost of the body is noticed by whoever needs it.
        while let Ok(Some(chunk)) = response.chunk().await {
            let room = ANSWER_BYTES_MAX - answer.body.len();
            answer.body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if answer.body.len() == ANSWER_BYTES_MAX {
                break;
            }
        }
        Ok(answer)
    }
}

/// The token as a header that is not printed.
fn authorization(token: &str) -> Result<HeaderValue, String> {
    let token = token.trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("token is not the token of a bot: copy it from the application's page Bot on \
            https://discord.com/developers/applications, without `Bot ` before it"
            .into());
    }
    let mut value =
        HeaderValue::try_from(format!("Bot {token}")).map_err(|_| "token is no header".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

/// One connection for each call, so that none ends with another's.
fn client(settings: &Settings) -> Result<Client, String> {
    egress::client(Egress {
        user_agent: USER_AGENT,
        guard: Some(Guard::new(settings.lookup.clone(), true)),
        connect_timeout: settings.connect_timeout,
        authorities_pem: None,
    })
}
