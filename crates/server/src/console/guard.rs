//! What every request to the console passes and every answer carries. A page of another site can make a browser send requests here,
//! with the cookie; it can have a name point to this machine. Neither may get anywhere.

use super::Failure;
use crate::Doors;
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, ORIGIN, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use std::net::IpAddr;
use switchboard_protocol::{Code, Detail};

/// Nothing but what this hub serves itself, no script or style within a page, in nobody's frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
     form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// See the module.
pub(super) async fn guard(State(doors): State<Doors>, request: Request, next: Next) -> Response {
    let admitted = admit(&doors, &request);
    let mut response = match admitted {
        Ok(()) => next.run(request).await,
        Err(detail) => {
            doors.hub.refused("console.request", "unknown", &detail);
            Failure::from(detail).into_response()
        }
    };
    let headers = response.headers_mut();
    let set = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (VARY, "Cookie"),
    ];
    for (name, value) in set {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    // Not "no-referrer": with it browsers say that a form of ours comes from "null".
    headers.entry(REFERRER_POLICY).or_insert(HeaderValue::from_static("same-origin"));
    response
}

fn admit(doors: &Doors, request: &Request) -> Result<(), Detail> {
    let headers = request.headers();
    let host = host(headers).filter(|host| is_ours(doors, host));
    let Some(host) = host else {
        let message = "This hub does not answer under this name; set public_url, or add the name to `hosts`.";
        return Err(Detail::new(Code::ForbiddenRight, message).field("Host").sb("SB0161"));
    };
    if request.method().is_safe() || is_same_origin(doors, headers, host) {
        return Ok(());
    }
    let message = "This was sent by a page of another origin; open the console itself and try again.";
    Err(Detail::new(Code::ForbiddenRight, message).field("Origin").sb("SB0161"))
}

fn host(headers: &HeaderMap) -> Option<&str> {
    headers.get(HOST)?.to_str().ok()
}

/// Whether the hub may be asked under this name. A name that merely points here may belong to anybody, an address does not.
fn is_ours(doors: &Doors, host: &str) -> bool {
    let name = without_port(host);
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    let public = Uri::try_from(&doors.hub.settings.public_url).ok();
    let public = public.as_ref().and_then(Uri::host);
    let named = doors.mcp.allowed_hosts.iter().any(|host| without_port(host).eq_ignore_ascii_case(name));
    named
        || bare.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || public.is_some_and(|public| public.eq_ignore_ascii_case(name))
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

/// Whether a page of this console sends the request. Browsers say so, in one or both of two ways; what says it in neither is none.
fn is_same_origin(doors: &Doors, headers: &HeaderMap, host: &str) -> bool {
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    let origin = headers.get(ORIGIN).map(|origin| origin.to_str().unwrap_or("null"));
    let from_here = |origin: &str| {
        let public = doors.hub.settings.public_url.as_str();
        origin.eq_ignore_ascii_case(public)
            || origin.split_once("://").is_some_and(|(scheme, rest)| {
                (scheme == "http" || scheme == "https") && rest.eq_ignore_ascii_case(host)
            })
    };
    match (site, origin) {
        (Some(site), Some(origin)) => site == b"same-origin" && from_here(origin),
        (Some(site), None) => site == b"same-origin",
        (None, Some(origin)) => from_here(origin),
        (None, None) => false,
    }
}

/// Whether the browser reached the hub under its public name over TLS, so that its cookie can be bound to that.
pub(super) fn is_public_tls(doors: &Doors, headers: &HeaderMap) -> bool {
    let Ok(public) = Uri::try_from(&doors.hub.settings.public_url) else { return false };
    let same = |public: &str| host(headers).is_some_and(|host| public.eq_ignore_ascii_case(host));
    public.scheme_str() == Some("https")
        && public.authority().is_some_and(|authority| same(authority.as_str()))
}

#[cfg(test)]
mod tests {
    use super::without_port;

    #[test]
    fn a_port_is_no_part_of_a_name() {
        for (host, name) in [
            ("127.0.0.1:8484", "127.0.0.1"),
            ("hub.example", "hub.example"),
            ("[::1]:80", "[::1]"),
            ("[::1]", "[::1]"),
            ("localhost:1", "localhost"),
        ] {
            assert_eq!(without_port(host), name);
        }
    }
}
