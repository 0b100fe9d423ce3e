//! What all HTTP routes share: bearers, strict bodies, errors, the protocol header.

use crate::Doors;
use axum::body::Bytes;
use axum::extract::{FromRequestParts, OriginalUri, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use switchboard_core::principal::Principal;
use switchboard_engine::Hub;
use switchboard_engine::govern::Act;
use switchboard_engine::once::Request as Once;
use switchboard_engine::refusal;
use switchboard_engine::submit::permit;
use switchboard_protocol::error::Body;
use switchboard_protocol::json::Limits;
use switchboard_protocol::{
    Code, Detail, HEADER_IDEMPOTENCY_KEY, HEADER_PROTOCOL, PROTOCOL_VERSION, body, protocol_compatible,
};

/// Time a client has to send a body: whoever holds a connection without using it must not hold it for ever.
const BODY_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);

/// A refused request.
#[derive(Debug)]
pub struct Refused(pub Box<Detail>);

impl From<Detail> for Refused {
    fn from(detail: Detail) -> Self {
        Self(Box::new(detail))
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let detail = *self.0;
        let status =
            StatusCode::from_u16(detail.code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        // A full disk is the hub's trouble, not the caller's.
        let status = match detail.reason.as_deref() {
            Some("storage_full") => StatusCode::INSUFFICIENT_STORAGE,
            Some("overloaded" | "shutting_down" | "store_unreachable") => StatusCode::SERVICE_UNAVAILABLE,
            _ => status,
        };
        let mut headers = HeaderMap::new();
        if let Some(seconds) = detail.retry_after_s {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        (status, headers, axum::Json(Body { error: detail })).into_response()
    }
}

/// What a handler returns.
pub type Answer<T = Response> = Result<T, Refused>;

/// A JSON answer of bytes that are JSON already.
#[must_use]
pub fn json_bytes(bytes: Vec<u8>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], bytes).into_response()
}

/// A JSON answer.
pub fn json<T: Serialize>(value: &T) -> Response {
    json_bytes(serde_json::to_vec(value).unwrap_or_default())
}

/// The caller, with the hash of its bearer. Fails with `401` and what to do.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Who.
    pub who: Arc<Principal>,
    /// Hash of the bearer.
    pub bearer: [u8; 32],
}

impl Caller {
    /// Whether the caller may manage the hub.
    pub fn administers(&self) -> Answer<()> {
        permit(&self.who, Act::Administer).map_err(Refused::from)
    }

    /// Whether the caller may use the bus.
    pub fn uses_bus(&self) -> Answer<()> {
        permit(&self.who, Act::UseBus).map_err(Refused::from)
    }
}

impl FromRequestParts<Doors> for Caller {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, doors: &Doors) -> Result<Self, Refused> {
        let token = bearer(&parts.headers).ok_or_else(refusal::unauthorized)?;
        let hub = &doors.hub;
        let who = hub.credentials.principal(hub.store(), hub.clock(), token).await;
        let who = who.inspect_err(|detail| hub.refused("http.authenticate", "unknown", detail))?;
        if let Some(named) = parts.headers.get("Hive-Instance")
            && named.as_bytes() != who.instance_id.as_bytes()
        {
            return Err(refusal::unauthorized().field("Hive-Instance").into());
        }
        Ok(Self { who, bearer: switchboard_engine::credentials::bearer_hash(token) })
    }
}

/// The bearer of a request.
#[must_use]
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty()).then(|| token.trim())
}

/// What identifies a POST: method, path, key.
#[derive(Debug, Clone)]
pub struct Posted {
    method: Method,
    path: String,
    key: Option<String>,
}

impl<S: Send + Sync> FromRequestParts<S> for Posted {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        let path = parts
            .extensions
            .get::<OriginalUri>()
            .map_or_else(|| parts.uri.path(), |uri| uri.path())
            .to_owned();
        let bad = || refusal::bad_field(HEADER_IDEMPOTENCY_KEY, "Send 1-128 characters of [A-Za-z0-9._:-].");
        let key = parts.headers.get(HEADER_IDEMPOTENCY_KEY);
        let key = key.map(|key| key.to_str().map(str::to_owned).map_err(|_| bad())).transpose()?;
        Ok(Self { method: parts.method.clone(), path, key })
    }
}

impl Posted {
    /// The request's identity for the engine. `scope`: whose keys these are.
    pub fn once(&self, hub: &Hub, scope: &str, body: &[u8]) -> Result<Once, Refused> {
        Ok(Once::new(hub, scope, self.key.as_deref(), self.method.as_str(), &self.path, body)?)
    }
}

/// Reads a strict JSON body.
pub fn read<T: DeserializeOwned>(bytes: &Bytes) -> Result<T, Refused> {
    Ok(body::read(bytes, Limits::HTTP_BODY).map_err(refusal::unreadable)?)
}

/// Turns what kept a body from being read (too large, cut off) into a refusal.
#[derive(Debug, Clone)]
pub struct Raw(pub Bytes);

impl<S: Send + Sync> axum::extract::FromRequest<S> for Raw {
    type Rejection = Refused;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refused> {
        let read = axum::body::to_bytes(request.into_body(), switchboard_core::limits::BODY_BYTES_MAX);
        let slow = |_| refusal::bad_field("body", "Send the whole body within 30 s.").reason("timeout");
        let read = tokio::time::timeout(BODY_TIMEOUT, read).await.map_err(slow)?;
        let bytes = read.map_err(|_| refusal::bad_field("body", "Send at most 1 MiB, completely."))?;
        Ok(Self(bytes))
    }
}

/// Answers what has no route.
pub async fn no_route() -> Response {
    Refused::from(refusal::not_found("path", "This hub has no such route; see /openapi.json."))
        .into_response()
}

/// Refuses peers of another major version and names ours on every answer.
pub async fn protocol_header(request: Request, next: Next) -> Response {
    let spoken =
        request.headers().get(HEADER_PROTOCOL).map(|value| value.to_str().unwrap_or_default().to_owned());
    let mut response = match spoken {
        Some(spoken) if !protocol_compatible(&spoken) => {
            let message =
                format!("This hub speaks protocol {PROTOCOL_VERSION}; use a client of major version 1.");
            let mut refused =
                Refused::from(Detail::new(Code::UpgradeRequired, message).sb("SB0126")).into_response();
            refused.headers_mut().insert("Hive-Min-Engine", HeaderValue::from_static("3.12.0"));
            refused
        }
        _ => next.run(request).await,
    };
    response.headers_mut().insert(HEADER_PROTOCOL, HeaderValue::from_static(PROTOCOL_VERSION));
    response
}
