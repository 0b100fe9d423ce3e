//! HTTP against the hub. Every answer is judged by the referee before a test sees it.

use std::time::Duration;

use serde_json::Value;
use wire::referee::{self, Measure};

/// An answer: status and body, `null` when there is none.
#[derive(Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// The body.
    pub body: Value,
}

/// One caller.
pub struct Client {
    agent: ureq::Agent,
    url: String,
    headers: Vec<(&'static str, String)>,
}

impl Client {
    /// A caller without a credential.
    pub fn new(url: &str) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(30)))
            .max_redirects(0)
            .build();
        Self { agent: config.into(), url: url.to_owned(), headers: vec![("Hive-Protocol", "1.9".to_owned())] }
    }

    /// The same caller with one more header, or another value of one.
    pub fn with(&self, name: &'static str, value: impl Into<String>) -> Self {
        let mut headers = self.headers.clone();
        headers.retain(|(known, _)| *known != name);
        headers.push((name, value.into()));
        Self { agent: self.agent.clone(), url: self.url.clone(), headers }
    }

    /// `GET` of a path below `/v1`.
    pub fn get(&self, path: &str) -> Answer {
        let mut request = self.agent.get(format!("{}/v1{path}", self.url));
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        judged(path, request.call().expect("an answer"))
    }

    /// `POST` of a body to a path below `/v1`. Our own requests are judged, too.
    pub fn post(&self, path: &str, body: &Value) -> Answer {
        let mut request = self.agent.post(format!("{}/v1{path}", self.url));
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        judged(path, request.send_json(body).expect("an answer"))
    }

    /// `DELETE` of a path below `/v1`.
    pub fn delete(&self, path: &str) -> Answer {
        let mut request = self.agent.delete(format!("{}/v1{path}", self.url));
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        judged(path, request.call().expect("an answer"))
    }
}

fn judged(path: &str, mut response: ureq::http::Response<ureq::Body>) -> Answer {
    let status = response.status().as_u16();
    let header =
        |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    assert_eq!(header("Hive-Protocol").as_deref(), Some("1.9"), "{path}: every answer says the protocol");
    let text = response.body_mut().read_to_string().expect("a text");
    assert!(text.len() <= 1 << 20, "{path}: {} bytes", text.len());
    if text.is_empty() {
        return Answer { status, body: Value::Null };
    }
    let body: Value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path} {status}: {error}: {text}"));
    referee::body(&body, Measure::Exact).unwrap_or_else(|error| panic!("{path} {status}: {error:#}: {text}"));
    Answer { status, body }
}

impl Answer {
    /// The body of a success.
    #[track_caller]
    pub fn ok(self) -> Value {
        assert!((200..300).contains(&self.status), "{self:?}");
        self.body
    }

    /// Checks that this is a refusal with this status and code, and returns it.
    #[track_caller]
    pub fn refused(self, status: u16, code: &str) -> Value {
        assert_eq!((self.status, self.body["error"]["code"].as_str()), (status, Some(code)), "{self:?}");
        self.body["error"].clone()
    }
}

/// A text as one segment or value of a URL.
pub fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
