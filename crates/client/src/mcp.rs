//! A bridge for MCP clients that can only start a program: an MCP server on standard input and output that hands every
//! message on to the hub's `/mcp`, and survives the hub's restarts.
//!
//! Lines in, lines out, one JSON-RPC message each (the stdio transport of the Model Context Protocol). Requests run at the
//! same time. When the hub is away, a request waits for it for a while; when the hub has forgotten the session, it is opened
//! again as the client opened it. A request that may have been acted on is sent again only when that does nothing twice:
//! `bus_send` and `bus_reply` get a `client_msg_id` for this, `bus_inbox` ends with an error that says what to do.

mod answer;
mod lines;

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{RequestBuilder, Response, StatusCode, Url};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use crate::backoff::Backoff;
use crate::error::Error;
use crate::id::{fresh_key, random};
use crate::options::{base_url, join};
use crate::secret::Secret;
use crate::socket::USER_AGENT;
use crate::trust::Trust;
use answer::Answer;
use lines::{Line, Lines};

/// Header of the session revisions.
const SESSION: &str = "mcp-session-id";
/// Header with the revision.
const VERSION: &str = "mcp-protocol-version";
/// The member of `_meta` that names the revision of a request without a session.
const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// Messages of the client under way at a time; more are read when one is done.
const UNDER_WAY_MAX: usize = 64;
/// Answers waiting for the client to read them.
const OUT_MAX: usize = 64;
/// Silence after which a connection counts as dead: longer than the longest wait of a tool, and than the hub's keep-alives.
const SILENCE: Duration = Duration::from_secs(90);
/// Time that what is under way may still take when the client has ended its input, and that the session's end may take.
const GOODBYE: Duration = Duration::from_secs(2);
/// JSON-RPC: the line is not JSON.
const PARSE_ERROR: i32 = -32700;
/// JSON-RPC, a server's own: the hub did not do it.
const FAILED: i32 = -32000;

/// How to reach the hub.
#[derive(Debug, Clone)]
pub struct Options {
    /// The hub's address, without `/mcp`.
    pub url: String,
    /// The bearer.
    pub token: Secret,
    /// The agent to speak for; without one the hub takes the token's label.
    pub agent: Option<String>,
    /// How long a request waits for a hub that is away.
    pub patience: Duration,
    /// Whom to believe that it is the hub.
    pub trust: Trust,
}

impl Options {
    /// The hub at `url` under `token`, missed for at most 20 seconds.
    pub fn new(url: impl Into<String>, token: Secret) -> Self {
        Self {
            url: url.into(),
            token,
            agent: None,
            patience: Duration::from_secs(20),
            trust: Trust::default(),
        }
    }
}

/// Bridges until `input` ends, gives what is under way two seconds to be answered, then ends the session. Fails only when the options cannot be used or `output` is gone.
pub async fn bridge(
    options: Options,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin,
) -> Result<(), Error> {
    let (out, answers) = mpsc::channel(OUT_MAX);
    let hub = Arc::new(Hub::new(options, out)?);
    let mut written = pin!(lines::write(answers, output));
    tokio::select! {
        () = read(&hub, input) => {}
        () = &mut written => return Err(Error::Closed),
    }
    hub.leave().await;
    drop(hub);
    // What is left for the client; it ends because nobody says anything any more, or reads it.
    let _ = tokio::time::timeout(GOODBYE, written).await;
    Ok(())
}

/// Hands on what the client sends until it ends.
async fn read(hub: &Arc<Hub>, input: impl AsyncRead + Unpin) {
    let places = Arc::new(Semaphore::new(UNDER_WAY_MAX));
    let mut running = JoinSet::new();
    let mut lines = Lines::new(input);
    loop {
        while running.try_join_next().is_some() {}
        let message = match lines.next().await {
            Line::End => break,
            Line::Blank => continue,
            Line::Bad(why) => {
                hub.say(refusal(&Value::Null, PARSE_ERROR, why)).await;
                continue;
            }
            Line::Message(message) => message,
        };
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let hub = hub.clone();
        running.spawn(async move {
            hub.hand_on(message).await;
            drop(place);
        });
    }
    let under_way = async { while running.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(GOODBYE, under_way).await;
}

/// What the bridge knows of the session.
#[derive(Default)]
struct Known {
    session: Option<String>,
    version: Option<String>,
    /// The client's own `initialize`, to open the session again with.
    opening: Option<Value>,
}

struct Hub {
    client: reqwest::Client,
    base: Url,
    token: Secret,
    agent: Option<String>,
    patience: Duration,
    known: Mutex<Known>,
    /// Held while the session is opened again.
    opening: tokio::sync::Mutex<()>,
    out: mpsc::Sender<Value>,
}

/// Why a message was not handed on.
enum Failure {
    /// The hub cannot be reached: nothing was done.
    Away(String),
    /// The connection broke while the hub worked on it.
    Broken,
    /// The hub has no such session (any more).
    NoSession,
    /// The hub refused.
    Refused(String),
    /// The hub refused as JSON-RPC does: the error to pass on.
    Rpc(Value),
}

impl Hub {
    fn new(options: Options, out: mpsc::Sender<Value>) -> Result<Self, Error> {
        let base = base_url(&options.url)?;
        let client = options
            .trust
            .http(&base)
            .user_agent(USER_AGENT)
            .connect_timeout(options.patience.min(Duration::from_secs(10)))
            .read_timeout(SILENCE)
            .build()
            .map_err(|error| Error::Option(format!("http: {error}")))?;
        Ok(Self {
            client,
            base,
            token: options.token,
            agent: options.agent,
            patience: options.patience,
            known: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
            out,
        })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Nothing panics while it is held, and what is in it is whole at any time.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn say(&self, message: Value) {
        // When nobody reads any more, the bridge is ending.
        let _ = self.out.send(message).await;
    }

    async fn hand_on(&self, mut message: Value) {
        let id = message.get("id").filter(|_| message.get("method").is_some()).cloned();
        let repeats_safely = make_repeatable(&mut message);
        let failure = match self.deliver(&message, id.as_ref(), repeats_safely).await {
            Ok(()) => return,
            Err(failure) => failure,
        };
        let Some(id) = id else { return };
        let refused = match failure {
            Failure::Rpc(error) => json!({ "jsonrpc": "2.0", "id": id, "error": error }),
            other => refusal(&id, FAILED, self.explain(&other)),
        };
        self.say(refused).await;
    }

    fn explain(&self, failure: &Failure) -> String {
        match failure {
            Failure::Away(why) => {
                let base = self.base.as_str();
                format!(
                    "The Switchboard hub at {base} cannot be reached ({why}). Start it with `switchboard serve`."
                )
            }
            Failure::Broken => {
                "The connection to the Switchboard hub broke while it worked on this. What bus_inbox may \
                have handed over is not lost: call it with unread true."
                    .into()
            }
            Failure::NoSession => {
                "The Switchboard hub has forgotten this session; send initialize again.".into()
            }
            Failure::Refused(why) => why.clone(),
            Failure::Rpc(error) => error.to_string(),
        }
    }

    /// Sends a message as often as it takes, and passes the answers on.
    async fn deliver(
        &self,
        message: &Value,
        id: Option<&Value>,
        repeats_safely: bool,
    ) -> Result<(), Failure> {
        let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(2));
        let ends = tokio::time::Instant::now() + self.patience;
        loop {
            let session = self.known().session.clone();
            let Err(failure) = self.once(message, id).await else { return Ok(()) };
            let failure = match failure {
                // Once it is open again, the message goes the same way as before.
                Failure::NoSession => self.reopen(session.as_deref()).await.err().unwrap_or(failure),
                other => other,
            };
            let passes = match failure {
                Failure::Away(_) => true,
                Failure::NoSession => self.known().session != session,
                Failure::Broken => repeats_safely,
                Failure::Refused(_) | Failure::Rpc(_) => false,
            };
            let delay = backoff.next_delay(u16::from_be_bytes(random()));
            if !passes || tokio::time::Instant::now() + delay >= ends {
                return Err(failure);
            }
            tokio::time::sleep(delay).await;
        }
    }

    /// Sends a message once and passes the answers on.
    async fn once(&self, message: &Value, id: Option<&Value>) -> Result<(), Failure> {
        let opens = message["method"] == "initialize";
        let response = self.post(message, !opens).await?;
        let session = header(&response, SESSION);
        let mut answer = Answer::of(response);
        let mut answered = false;
        while let Some(part) = answer.next().await? {
            let settles = id.is_some() && part.get("method").is_none() && part.get("id") == id;
            if settles && opens && part.get("result").is_some() {
                self.remember(message, &part, session.clone());
            }
            answered |= settles;
            self.say(part).await;
            if settles {
                break;
            }
        }
        if id.is_some() && !answered { Err(Failure::Broken) } else { Ok(()) }
    }

    fn remember(&self, opening: &Value, answer: &Value, session: Option<String>) {
        let version = answer["result"]["protocolVersion"].as_str().map(str::to_owned);
        *self.known() = Known { session, version, opening: Some(opening.clone()) };
    }

    async fn post(&self, message: &Value, in_session: bool) -> Result<Response, Failure> {
        let in_session = in_session && message["params"]["_meta"][META_VERSION].is_null();
        let request = self.client.post(join(&self.base, "/mcp"));
        let request = request.header(ACCEPT, "application/json, text/event-stream");
        let request = self.headers(request, message, in_session).header(CONTENT_TYPE, "application/json");
        let sent = request.body(message.to_string()).send().await.map_err(|error| {
            if error.is_connect() { Failure::Away(error.without_url().to_string()) } else { Failure::Broken }
        })?;
        match sent.status() {
            status if status.is_success() => Ok(sent),
            StatusCode::NOT_FOUND if in_session && self.known().session.is_some() => Err(Failure::NoSession),
            StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
                Err(Failure::Away(format!("it answers {}", sent.status())))
            }
            status => Err(answer::why(status, sent).await),
        }
    }

    fn headers(&self, request: RequestBuilder, message: &Value, in_session: bool) -> RequestBuilder {
        let mut request = request.bearer_auth(self.token.expose());
        if let Some(agent) = &self.agent {
            request = request.header("x-switchboard-agent", agent);
        }
        let named = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let params = &message["params"];
        if let Some(version) = params["_meta"][META_VERSION].as_str() {
            let name = if params["name"].is_string() { &params["name"] } else { &params["uri"] };
            request = request.header(VERSION, version).header("mcp-method", named(&message["method"]));
            return if name.is_string() { request.header("mcp-name", named(name)) } else { request };
        }
        if in_session {
            let known = self.known();
            let pairs = [(SESSION, &known.session), (VERSION, &known.version)];
            for (name, value) in pairs {
                request = value.iter().fold(request, |request, value| request.header(name, value));
            }
        }
        request
    }

    /// Opens the session again, unless somebody has since it was `lost`.
    async fn reopen(&self, lost: Option<&str>) -> Result<(), Failure> {
        let _alone = self.opening.lock().await;
        let opening = {
            let known = self.known();
            if known.session.as_deref() != lost {
                return Ok(());
            }
            known.opening.clone().ok_or(Failure::NoSession)?
        };
        let response = self.post(&opening, false).await?;
        let session = header(&response, SESSION);
        let mut answer = Answer::of(response);
        while let Some(part) = answer.next().await? {
            if part.get("result").is_some() {
                self.remember(&opening, &part, session);
                let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
                return self.post(&initialized, true).await.map(drop);
            }
        }
        Err(Failure::Broken)
    }

    /// Ends the session, if the hub is there to hear it.
    async fn leave(&self) {
        let request = self.client.delete(join(&self.base, "/mcp"));
        let request = self.headers(request, &Value::Null, true);
        if self.known().session.is_some() {
            // A session that nobody ends expires.
            let _ = tokio::time::timeout(GOODBYE, request.send()).await;
        }
    }
}

fn header(response: &Response, name: &str) -> Option<String> {
    response.headers().get(name)?.to_str().ok().map(str::to_owned)
}

fn refusal(id: &Value, code: i32, message: impl Into<String>) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message.into() } })
}

/// Whether sending the message again does nothing twice. A call that stores something gets an id for this.
fn make_repeatable(message: &mut Value) -> bool {
    if message["method"] != "tools/call" {
        return true;
    }
    match message["params"]["name"].as_str() {
        Some("bus_send" | "bus_reply") => {
            let arguments = message.get_mut("params").and_then(|params| params.get_mut("arguments"));
            let Some(arguments) = arguments.and_then(Value::as_object_mut) else { return true };
            let id = arguments.entry("client_msg_id").or_insert(Value::Null);
            if id.is_null() {
                *id = format!("mcp-{}", fresh_key()).into();
            }
            true
        }
        Some("bus_inbox") => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stores_something_can_be_repeated() {
        let call = |name: &str, arguments: Value| json!({ "method": "tools/call", "params": { "name": name, "arguments": arguments } });
        let mut send = call("bus_send", json!({ "text": "a" }));
        assert!(make_repeatable(&mut send));
        let id = send["params"]["arguments"]["client_msg_id"].clone();
        assert!(id.as_str().unwrap().starts_with("mcp-"));
        assert!(make_repeatable(&mut send));
        assert_eq!(
            send["params"]["arguments"]["client_msg_id"], id,
            "the same for the whole life of the call"
        );
        let mut own = call("bus_reply", json!({ "client_msg_id": "mine" }));
        assert!(make_repeatable(&mut own) && own["params"]["arguments"]["client_msg_id"] == "mine");
        assert!(!make_repeatable(&mut call("bus_inbox", json!({}))));
        assert!(make_repeatable(&mut call("agents_list", json!({}))));
        assert!(make_repeatable(&mut json!({ "method": "tools/call", "params": { "name": "bus_send" } })));
        assert!(make_repeatable(&mut json!({ "method": "ping" })));
    }
}
