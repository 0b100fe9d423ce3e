//! Slack's Web API (<https://docs.slack.dev/apis/web-api>): one call, one request.

use super::answer;
use super::settings::Settings;
use crate::egress::{self, Egress, USER_AGENT};
use crate::guard::Guard;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Client, Response, Url};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::port::channel::Performed;
use switchboard_core::time::Clock;
use switchboard_core::{ExposeSecret as _, SecretString};

/// Most of an answer that is read, in bytes; Slack repeats the message in it, escaped.
const ANSWER_BYTES_MAX: usize = 512 * 1024;

/// What Slack answered when it did what it was asked to.
pub(super) struct Done {
    /// The answer.
    pub value: Value,
    /// Its headers.
    pub headers: HeaderMap,
}

/// The Web API with our tokens.
pub(super) struct Api {
    client: Client,
    base: Url,
    bot: HeaderValue,
    app: Option<HeaderValue>,
    timeout: Duration,
    clock: Arc<dyn Clock>,
}

impl Api {
    pub fn new(settings: &Settings, base: Url) -> Result<Self, String> {
        let app = settings.app_token.as_ref().map(|token| bearer("app_token", token)).transpose()?;
        Ok(Self {
            client: client(settings)?,
            base,
            bot: bearer("bot_token", &settings.bot_token)?,
            app,
            timeout: settings.tuning.call,
            clock: settings.clock.clone(),
        })
    }

    /// Whether a socket may be without TLS: only where the API is.
    pub fn is_plain(&self) -> bool {
        self.base.scheme() == "http"
    }

    /// Calls a method as the bot.
    pub async fn call(&self, method: &str, body: &Value) -> Result<Done, Performed> {
        self.post(method, &self.bot, body).await
    }

    /// Calls a method as the app.
    pub async fn call_as_app(&self, method: &str) -> Result<Done, Performed> {
        match &self.app {
            Some(token) => self.post(method, token, &Value::Object(serde_json::Map::new())).await,
            None => Err(Performed::Unknown { reason: "there is no app-level token".into() }),
        }
    }

    async fn post(&self, method: &str, token: &HeaderValue, body: &Value) -> Result<Done, Performed> {
        let url = self.base.join(method).map_err(|error| Performed::Unknown { reason: error.to_string() })?;
        let request = self
            .client
            .post(url)
            .timeout(self.timeout)
            .header(AUTHORIZATION, token)
            .header("content-type", "application/json; charset=utf-8")
            .body(body.to_string());
        let response = request.send().await.map_err(|error| answer::failure(&error.without_url()))?;
        self.read(response).await
    }

    async fn read(&self, mut response: Response) -> Result<Done, Performed> {
        let mut body = Vec::new();
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) if body.len() + chunk.len() <= ANSWER_BYTES_MAX => {
                    body.extend_from_slice(&chunk);
                }
                Ok(None) => break,
                Ok(Some(_)) => {
                    return Err(Performed::Unknown { reason: "Slack's answer does not end".into() });
                }
                Err(error) => return Err(answer::failure(&error.without_url())),
            }
        }
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let value = answer::read(status, &headers, &body, self.clock.wall_ms())?;
        Ok(Done { value, headers })
    }
}

fn bearer(name: &str, token: &SecretString) -> Result<HeaderValue, String> {
    let value = HeaderValue::try_from(format!("Bearer {}", token.expose_secret()));
    let mut value = value.map_err(|_| format!("{name} cannot be sent in a header"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// One connection for each call, so that none repeats another's request. Nothing of the environment (proxies) and nothing of an answer
/// (redirects, retries) leads anywhere else.
fn client(settings: &Settings) -> Result<Client, String> {
    egress::client(Egress {
        user_agent: USER_AGENT,
        guard: Some(Guard::new(settings.lookup.clone(), true)),
        connect_timeout: settings.tuning.connect,
        authorities_pem: None,
    })
}
