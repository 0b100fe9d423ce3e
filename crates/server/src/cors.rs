//! Pages of other origins that the configuration names may speak to the hub from a browser: they are told so, and may read what
//! clients need of an answer's head. No other page is told anything.

use axum::http::{HeaderName, HeaderValue, Method, header};
use std::time::Duration;
use switchboard_protocol::HEADER_PROTOCOL;
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

/// How long a browser need not ask again.
const MAX_AGE: Duration = Duration::from_hours(1);

/// The layer, when there is an origin to allow. Credentials are bearers, never cookies, so none are let through.
pub fn layer(origins: &[String]) -> Option<CorsLayer> {
    let origins: Vec<_> = origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok()).collect();
    let exposed = ["mcp-session-id", "mcp-protocol-version"].map(HeaderName::from_static);
    let protocol = HeaderName::from_bytes(HEADER_PROTOCOL.as_bytes()).ok();
    (!origins.is_empty()).then(|| {
        CorsLayer::new()
            .allow_origin(AllowOrigin::list(origins))
            .allow_methods([Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
            .allow_headers(AllowHeaders::mirror_request())
            .expose_headers(
                exposed.into_iter().chain([header::RETRY_AFTER]).chain(protocol).collect::<Vec<_>>(),
            )
            .max_age(MAX_AGE)
    })
}
