//! An MCP client that speaks the bare wire: JSON-RPC by POST, answers as JSON or as a stream of events.

use crate::PATIENCE;
use crate::hub::{Http, Reply, TestHub, Token};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The newest revision with sessions.
pub const SESSIONS: &str = "2025-11-25";
/// The revision without.
pub const STATELESS: &str = "2026-07-28";

/// A client, with a session or without.
#[derive(Debug, Clone)]
pub struct Mcp {
    http: Http,
    /// Headers of every request.
    pub headers: Vec<(String, String)>,
    /// The id of its session.
    pub session: Option<String>,
    stateless: bool,
    /// Counts requests, so that each has its own id.
    sent: Arc<AtomicU64>,
}

/// An answer: the HTTP part, and the JSON-RPC message in it.
#[derive(Debug)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Headers.
    pub headers: reqwest::header::HeaderMap,
    /// The body as it came.
    pub text: String,
    /// The last message of the body; null when there is none.
    pub message: Value,
}

impl Answer {
    fn of(reply: Reply) -> Self {
        let events = reply.text.lines().filter_map(|line| line.strip_prefix("data:"));
        let last = events.filter_map(|data| serde_json::from_str(data.trim()).ok()).next_back();
        let message = last.or_else(|| serde_json::from_str(&reply.text).ok()).unwrap_or_default();
        Self { status: reply.status, headers: reply.headers, text: reply.text, message }
    }

    /// A header as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// What a tool returned.
#[derive(Debug, Clone)]
pub struct Called {
    /// The text for the model.
    pub text: String,
    /// The structured part.
    pub data: Value,
    /// Whether the tool refused.
    pub is_error: bool,
}

impl Mcp {
    /// A client that has sent nothing yet.
    pub fn new(hub: &TestHub, token: &Token) -> Self {
        Self::at(&hub.url, &token.bearer)
    }

    /// The same for any address.
    pub fn at(url: &str, bearer: &str) -> Self {
        let accept = ("accept".into(), "application/json, text/event-stream".into());
        Self {
            http: Http::new(url, bearer),
            headers: vec![accept],
            session: None,
            stateless: false,
            sent: Arc::default(),
        }
    }

    /// A client of the revision without sessions.
    pub fn stateless(hub: &TestHub, token: &Token) -> Self {
        Self::stateless_at(&hub.url, &token.bearer)
    }

    /// The same for any address.
    pub fn stateless_at(url: &str, bearer: &str) -> Self {
        Self { stateless: true, ..Self::at(url, bearer) }
    }

    /// A client with a session of the newest revision that has them.
    pub async fn open(hub: &TestHub, token: &Token) -> Self {
        Self::open_at(&hub.url, &token.bearer).await
    }

    /// The same for any address.
    pub async fn open_at(url: &str, bearer: &str) -> Self {
        let mut client = Self::at(url, bearer);
        let answer = client.initialize(SESSIONS).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        client
    }

    /// The same client with one more header.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The same client in another session, or in none.
    #[must_use]
    pub fn in_session(&self, id: Option<&str>) -> Self {
        Self { session: id.map(str::to_owned), ..self.clone() }
    }

    /// Opens a session and keeps its id.
    pub async fn initialize(&mut self, version: &str) -> Answer {
        let params = json!({ "protocolVersion": version, "capabilities": {},
            "clientInfo": { "name": "bare wire", "version": "1" } });
        let answer =
            self.post(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params })).await;
        if let Some(session) = answer.header("mcp-session-id") {
            self.session = Some(session.to_owned());
            let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
            assert_eq!(self.post(&initialized).await.status, 202);
        }
        answer
    }

    /// Sends one message.
    pub async fn post(&self, message: &Value) -> Answer {
        self.post_raw(message.to_string(), &[]).await
    }

    /// Sends any text with further headers.
    pub async fn post_raw(&self, text: String, headers: &[(&str, &str)]) -> Answer {
        let own = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let session = self.session.iter().map(|id| ("mcp-session-id", id.as_str()));
        let headers: Vec<_> = own.chain(session).chain(headers.iter().copied()).collect();
        Answer::of(self.http.post_raw("/mcp", text, &headers).await)
    }

    /// Sends a request.
    pub async fn request(&self, method: &str, params: Value) -> Answer {
        let id = self.sent.fetch_add(1, Ordering::Relaxed) + 1;
        if !self.stateless {
            return self
                .post(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
                .await;
        }
        let mut params = params;
        let name = params["name"].as_str().unwrap_or_default().to_owned();
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": STATELESS,
            "io.modelcontextprotocol/clientInfo": { "name": "bare wire", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let text = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string();
        let mut headers = vec![("mcp-protocol-version", STATELESS), ("mcp-method", method)];
        if !name.is_empty() {
            headers.push(("mcp-name", name.as_str()));
        }
        self.post_raw(text, &headers).await
    }

    /// Calls a tool; anything but a tool's own result fails the test.
    pub async fn call(&self, tool: &str, arguments: Value) -> Called {
        let answer = self.request("tools/call", json!({ "name": tool, "arguments": arguments })).await;
        let result = &answer.message["result"];
        assert!(result.is_object(), "{tool}: {} {}", answer.status, answer.text);
        Called {
            text: result["content"][0]["text"].as_str().unwrap_or_default().to_owned(),
            data: result["structuredContent"].clone(),
            is_error: result["isError"].as_bool().unwrap_or_default(),
        }
    }

    /// Calls a tool that must not refuse.
    pub async fn done(&self, tool: &str, arguments: Value) -> Called {
        let called = self.call(tool, arguments).await;
        assert!(!called.is_error, "{tool}: {}", called.text);
        called
    }

    /// Calls a tool that must refuse; what it says.
    pub async fn refused(&self, tool: &str, arguments: Value) -> String {
        let called = self.call(tool, arguments).await;
        assert!(called.is_error && called.data.is_null(), "{tool}: {}", called.text);
        called.text
    }

    /// DELETE with the client's headers.
    pub async fn delete(&self) -> Answer {
        Answer::of(self.plain(reqwest::Method::DELETE, &[]).await)
    }

    /// GET with the client's headers and more, read to its end.
    pub async fn get(&self, headers: &[(&str, &str)]) -> Answer {
        Answer::of(self.plain(reqwest::Method::GET, headers).await)
    }

    async fn plain(&self, method: reqwest::Method, headers: &[(&str, &str)]) -> Reply {
        let response = self.begin(method, headers).await;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Reply { status, headers, text: response.text().await.expect("a body") }
    }

    /// Opens the stream of the session; it stays open until it is dropped.
    pub async fn stream(&self) -> reqwest::Response {
        let response = self.begin(reqwest::Method::GET, &[]).await;
        assert_eq!(response.status(), 200);
        response
    }

    async fn begin(&self, method: reqwest::Method, headers: &[(&str, &str)]) -> reqwest::Response {
        let own = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let session = self.session.iter().map(|id| ("mcp-session-id", id.as_str()));
        let request = own
            .chain(session)
            .chain(headers.iter().copied())
            .fold(self.http.request(method, "/mcp"), |request, (name, value)| request.header(name, value));
        tokio::time::timeout(PATIENCE, request.send()).await.expect("in time").expect("an answer")
    }
}
