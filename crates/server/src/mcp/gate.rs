//! The gate before the SDK: nobody gets past it without a bearer, a right, and a body that is strict JSON. It also smooths
//! what the SDK takes too literally: a version nobody has heard of must be negotiated down, not refused.

use super::Door;
use super::handler::Handler;
use super::sessions::{Place, Running, Sessions};
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use futures_util::stream::unfold;
use rmcp::transport::streamable_http_server::StreamableHttpService;
use rmcp::transport::streamable_http_server::session::SessionId;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::digest::Digest;
use switchboard_core::limits::BODY_BYTES_MAX;
use switchboard_core::principal::Principal;
use switchboard_engine::credentials::bearer_hash;
use switchboard_engine::govern::Act;
use switchboard_engine::refusal;
use switchboard_engine::submit::permit;
use switchboard_protocol::json::{Limits, scan};
use switchboard_protocol::text::validate_id;
use switchboard_protocol::{Code, Detail};

/// Header of the session revisions.
const SESSION: &str = "mcp-session-id";
/// Header with the negotiated revision.
const VERSION: &str = "mcp-protocol-version";
/// Header that names the agent a client speaks for.
const AGENT: &str = "x-switchboard-agent";
/// Time a client has to send its body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// JSON-RPC: the text is not JSON.
const PARSE_ERROR: i32 = -32700;
/// JSON-RPC: the JSON is no request.
const INVALID_REQUEST: i32 = -32600;

/// Who sent a request, as the handler finds it in the request's extensions.
#[derive(Clone)]
pub(super) struct Caller {
    /// The instance.
    pub(super) who: Arc<Principal>,
    /// Hash of its bearer.
    pub(super) bearer: Digest,
    /// The session the request came in.
    pub(super) session: Option<SessionId>,
    /// The agent it says it speaks for, a valid id.
    pub(super) agent: Option<String>,
}

/// The gate and what lies behind it.
pub(super) struct Gate {
    pub(super) door: Arc<Door>,
    pub(super) service: StreamableHttpService<Handler, Sessions>,
}

/// A refused request.
enum Refused {
    /// As every other door of the hub refuses.
    Http(Detail),
    /// With another status than the code's own.
    Status(StatusCode, Detail),
    /// As JSON-RPC refuses, with the id of the request if it has a readable one.
    Rpc(i32, String, Value),
}

impl From<Detail> for Refused {
    fn from(detail: Detail) -> Self {
        Self::Http(detail)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let (status, detail) = match self {
            Self::Rpc(code, message, id) => {
                let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}});
                return (StatusCode::BAD_REQUEST, axum::Json(error)).into_response();
            }
            Self::Http(detail) => {
                let status = StatusCode::from_u16(detail.http_status());
                (status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), detail)
            }
            Self::Status(status, detail) => (status, detail),
        };
        let mut headers = HeaderMap::new();
        if let Some(seconds) = detail.retry_after_s {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        (status, headers, axum::Json(json!({ "error": detail }))).into_response()
    }
}

/// There is no OAuth server here.
pub(super) async fn no_oauth() -> Response {
    let message = "This hub has no OAuth server; use a bearer of `switchboard token create --label NAME`.";
    Refused::from(refusal::not_found("path", message)).into_response()
}

/// One request to `/mcp`.
pub(super) async fn serve(State(gate): State<Arc<Gate>>, request: Request) -> Response {
    match gate.pass(request).await {
        Ok(response) => response,
        Err(refused) => refused.into_response(),
    }
}

impl Gate {
    async fn pass(&self, request: Request) -> Result<Response, Refused> {
        let (mut parts, body) = request.into_parts();
        let mut caller = self.caller(&parts.headers).await?;
        // What comes behind logs requests; a bearer has no business there.
        parts.headers.remove(AUTHORIZATION);
        let mut running = self.session(&parts, &mut caller)?;
        let (body, place) = if parts.method == Method::POST {
            let message = self.body(&mut parts, body).await?;
            if let (Some(running), Some(id)) = (&mut running, message.asks) {
                running.ask(&id).map_err(|message| Refused::Rpc(INVALID_REQUEST, message.into(), id))?;
            }
            let place = if message.opens { Some(self.door.sessions.open(&caller)?) } else { None };
            (Body::from(message.bytes), place)
        } else {
            (Body::empty(), None)
        };
        parts.extensions.insert(caller);
        let response = self.service.handle(Request::from_parts(parts, body)).await;
        Ok(answer(response.map(Body::new), place, running))
    }

    async fn caller(&self, headers: &HeaderMap) -> Result<Caller, Refused> {
        let hub = &self.door.hub;
        let token = bearer(headers).ok_or_else(refusal::unauthorized)?;
        let who = hub.credentials.principal(hub.store(), hub.clock(), token).await;
        let who = who.inspect_err(|detail| hub.refused("mcp.authenticate", "unknown", detail))?;
        permit(&who, Act::UseBus)
            .inspect_err(|detail| hub.refused("mcp.authenticate", &who.instance_id, detail))?;
        let agent = headers.get(AGENT).map(|value| value.to_str().unwrap_or_default().to_owned());
        if let Some(agent) = &agent {
            validate_id(agent, "X-Switchboard-Agent").map_err(refusal::invalid)?;
        }
        Ok(Caller { who, bearer: bearer_hash(token), session: None, agent })
    }

    /// The session a request names, which must be the caller's.
    fn session(&self, parts: &Parts, caller: &mut Caller) -> Result<Option<Running>, Refused> {
        let Some(id) = parts.headers.get(SESSION) else {
            return match parts.method {
                Method::GET | Method::DELETE => {
                    let message = "Send initialize by POST first, then name its session in Mcp-Session-Id.";
                    Err(refusal::bad_field("Mcp-Session-Id", message).into())
                }
                _ => Ok(None),
            };
        };
        let running = self.door.sessions.enter(id.to_str().unwrap_or_default(), caller)?;
        if parts.headers.contains_key("last-event-id") {
            let message =
                "Streams here have no event ids and cannot be resumed; open one without Last-Event-ID.";
            return Err(refusal::bad_field("Last-Event-ID", message).into());
        }
        caller.session = Some(running.id().clone());
        Ok(Some(running))
    }

    /// The strictly checked body.
    async fn body(&self, parts: &mut Parts, body: Body) -> Result<Message, Refused> {
        if !is_json(&parts.headers) {
            let detail = refusal::bad_field("Content-Type", "Send application/json.");
            return Err(Refused::Status(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
        }
        let read = tokio::time::timeout(BODY_TIMEOUT, axum::body::to_bytes(body, BODY_BYTES_MAX)).await;
        let Ok(Ok(bytes)) = read else {
            let detail = refusal::bad_field("body", "Send at most 1 MiB, completely and within 30 seconds.");
            return Err(Refused::Status(StatusCode::PAYLOAD_TOO_LARGE, detail));
        };
        let scan = scan(&bytes, Limits::HTTP_BODY)
            .map_err(|error| Refused::Rpc(PARSE_ERROR, error.to_string(), Value::Null))?;
        if !scan.is_object {
            let message = "Send one JSON-RPC message per request; batches are not served.";
            return Err(Refused::Rpc(INVALID_REQUEST, message.into(), Value::Null));
        }
        let (method, id) = head(scan.text)?;
        let opens = method.as_deref() == Some("initialize");
        let asks = id.filter(|_| method.is_some());
        let bytes = if opens { opening(parts, &bytes)? } else { bytes.clone() };
        Ok(Message { bytes, opens, asks })
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty()).then(|| token.trim())
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}

/// A strictly checked JSON-RPC message.
struct Message {
    bytes: Bytes,
    /// Whether it opens a session.
    opens: bool,
    /// Its id, if it is a request.
    asks: Option<Value>,
}

/// The method of a message, `None` for a response; and its id, `None` for a notification.
fn head(text: &str) -> Result<(Option<Cow<'_, str>>, Option<Value>), Refused> {
    #[derive(serde::Deserialize)]
    struct Head<'a> {
        #[serde(borrow)]
        jsonrpc: Option<Cow<'a, str>>,
        #[serde(borrow)]
        id: Option<&'a RawValue>,
        #[serde(borrow)]
        method: Option<Cow<'a, str>>,
        #[serde(borrow)]
        params: Option<&'a RawValue>,
    }
    let invalid = |message: &str, id| Refused::Rpc(INVALID_REQUEST, message.into(), id);
    let head: Head<'_> = serde_json::from_str(text)
        .map_err(|_| invalid("jsonrpc and method must be strings.", Value::Null))?;
    let id = head.id.and_then(|id| serde_json::from_str(id.get()).ok());
    let id = id.filter(|id: &Value| id.is_string() || id.is_i64() || id.is_u64());
    if head.jsonrpc.as_deref() != Some("2.0") {
        return Err(invalid("jsonrpc must be \"2.0\".", id.unwrap_or_default()));
    }
    if head.params.is_some_and(|params| !params.get().starts_with('{')) {
        return Err(invalid("params must be an object.", id.unwrap_or_default()));
    }
    Ok((head.method, id))
}

/// An `initialize` as the SDK negotiates it: any version, also none, and no header that contradicts the body.
fn opening(parts: &mut Parts, bytes: &Bytes) -> Result<Bytes, Refused> {
    parts.headers.remove(VERSION);
    parts.headers.remove(SESSION);
    let mut message: Value = serde_json::from_slice(bytes)
        .map_err(|error| Refused::Rpc(PARSE_ERROR, error.to_string(), Value::Null))?;
    if let Some(params) = message.get_mut("params").and_then(Value::as_object_mut) {
        let version = params.entry("protocolVersion").or_insert(Value::Null);
        if version.is_string() {
            return Ok(bytes.clone());
        }
        *version = "unnamed".into(); // like any unknown one: answered with the newest that has sessions
    }
    Ok(message.to_string().into())
}

/// The SDK's answer, with its plain refusals in our words, and its stream counted as a use of the session.
fn answer(response: Response, place: Option<Place>, running: Option<Running>) -> Response {
    if let Some(refused) = explain(response.status()) {
        return refused.into_response();
    }
    let opened = response.headers().get(SESSION).and_then(|id| id.to_str().ok()).map(SessionId::from);
    if let (Some(place), Some(id)) = (place, opened) {
        place.keep(id);
    }
    let Some(running) = running else { return response };
    response.map(|body| {
        // The request is over with its last chunk, before the client hears of the end.
        Body::from_stream(unfold((body.into_data_stream(), running), |(mut chunks, running)| async move {
            let chunk = chunks.next().await?;
            Some((chunk, (chunks, running)))
        }))
    })
}

fn explain(status: StatusCode) -> Option<Refused> {
    let detail = match status {
        StatusCode::FORBIDDEN => {
            let message = "The Host or Origin of this request is not one of the hub's; set server.public_url to the \
                           address that clients use.";
            Detail::new(Code::ForbiddenRight, message).field("Host").sb("SB0103")
        }
        StatusCode::NOT_ACCEPTABLE => {
            refusal::bad_field("Accept", "Accept both application/json and text/event-stream.")
        }
        // The gate has checked the content type: it is the message itself that fits nothing.
        StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            let message = "This is no message of the Model Context Protocol; check method, id and params.";
            return Some(Refused::Rpc(INVALID_REQUEST, message.into(), Value::Null));
        }
        _ => return None,
    };
    Some(Refused::Status(status, detail))
}
