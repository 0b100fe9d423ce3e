//! Traces: each request, and each batch a socket writes, has a trace id which the log lines written meanwhile carry.
//!
//! Two spans stand for one thing. The one for the log (`request`, `socket`) holds the trace id and nothing that a client
//! chose. The one for a collector has the target [`TARGET`], which no log shows; it costs nothing unless a [`Tracer`] is
//! installed. Neither ever holds a bearer, a body, a path or a query: only the route's template.

use crate::Doors;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, Method};
use axum::middleware::Next;
use axum::response::Response;
use std::fmt;
use std::sync::Arc;
use switchboard_core::random;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

/// Target of the spans that are meant for a collector.
pub const TARGET: &str = "switchboard::trace";
/// The header by which a caller names its trace (W3C Trace Context, level 1).
const HEADER: &str = "traceparent";

/// Where a span stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace, never all zero.
    pub trace_id: [u8; 16],
    /// The span within it, never all zero.
    pub span_id: [u8; 8],
    /// Whether the trace is recorded.
    pub sampled: bool,
}

/// Takes spans of [`TARGET`] to a collector.
pub trait Tracer: fmt::Debug + Send + Sync + 'static {
    /// Puts a fresh `span` under `parent`, or at the root of a trace of its own, and says where it now stands. `None`: it is
    /// not traced.
    fn begin(&self, span: &Span, parent: Option<&TraceContext>) -> Option<TraceContext>;

    /// Spans that a collector took.
    fn exported(&self) -> u64;

    /// Spans that were given up: the queue was full, or no collector took them.
    fn dropped(&self) -> u64;
}

/// The tracer of this process, if it has one.
pub type Traces = Option<Arc<dyn Tracer>>;

impl TraceContext {
    /// Reads a `traceparent`: `VERSION-TRACE-PARENT-FLAGS` in lower-case hexadecimal digits. Anything else is as good as none,
    /// as the recommendation wants it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(4, '-');
        let version: [u8; 1] = hex(parts.next()?)?;
        let trace_id: [u8; 16] = hex(parts.next()?)?;
        let span_id: [u8; 8] = hex(parts.next()?)?;
        let rest = parts.next()?;
        let (flags, more) = rest.split_at_checked(2)?;
        let [flags]: [u8; 1] = hex(flags)?;
        // Version 0 ends here; a later one may go on after a dash; 255 is no version.
        let ends = more.is_empty() || (version != [0] && more.starts_with('-'));
        let valid = ends && version != [255] && trace_id != [0; 16] && span_id != [0; 8];
        valid.then_some(Self { trace_id, span_id, sampled: flags & 1 == 1 })
    }

    /// The trace id as it is written: 32 hexadecimal digits.
    #[must_use]
    pub fn trace_id_text(&self) -> String {
        use fmt::Write as _;
        self.trace_id.iter().fold(String::with_capacity(32), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    let mut out = [0; N];
    if pairs.len() != N {
        return None;
    }
    for (byte, [high, low]) in out.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(out)
}

/// The caller's trace; several headers name none.
fn parent(headers: &HeaderMap) -> Option<TraceContext> {
    let mut named = headers.get_all(HEADER).iter();
    let context = TraceContext::parse(named.next()?.to_str().ok()?)?;
    named.next().is_none().then_some(context)
}

/// Gives each request its trace: the caller's, or a new one.
pub async fn request(State(doors): State<Doors>, mut request: Request, next: Next) -> Response {
    let method = method(request.method());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map_or("none", MatchedPath::as_str);
    let span = tracing::error_span!(target: TARGET, "request",
        "otel.name" = format!("{method} {route}"), "otel.kind" = "server", "otel.status_code" = Empty,
        "http.request.method" = method, "http.route" = route, "http.response.status_code" = Empty);
    let context = context(&doors, &span, parent(request.headers()));
    request.extensions_mut().insert(context);
    let logged = tracing::error_span!("request", trace_id = context.trace_id_text(), method, route);
    async {
        let response = next.run(request).await;
        let status = response.status();
        span.record("http.response.status_code", i64::from(status.as_u16()));
        if status.is_server_error() {
            span.record("otel.status_code", "ERROR");
        }
        tracing::debug!(status = status.as_u16(), "answered");
        response
    }
    .instrument(logged)
    .await
}

/// Where `span` stands: what the tracer says, else the caller's trace, else a trace that only the log knows.
fn context(doors: &Doors, span: &Span, parent: Option<TraceContext>) -> TraceContext {
    let traced = doors.traces.as_ref().and_then(|traces| traces.begin(span, parent.as_ref()));
    let entropy = doors.hub.entropy();
    let unknown =
        || TraceContext { trace_id: random::bytes(entropy), span_id: random::bytes(entropy), sampled: false };
    traced.or(parent.map(|parent| TraceContext { sampled: false, ..parent })).unwrap_or_else(unknown)
}

/// The span of one batch that a socket writes, under the request that opened the socket; ends when it is dropped.
pub fn batch(doors: &Doors, opened: &TraceContext, writes: usize) -> Option<Span> {
    let traces = doors.traces.as_ref().filter(|_| opened.sampled)?;
    let span = tracing::error_span!(target: TARGET, "bus.batch",
        "otel.name" = "bus batch", "otel.kind" = "server", "switchboard.writes" = i64::try_from(writes).unwrap_or(i64::MAX));
    traces.begin(&span, Some(opened))?;
    Some(span)
}

/// The span that log lines of a socket stand in. It has no parent: the request is over, and would be kept as long as it.
#[must_use]
pub fn socket(opened: &TraceContext) -> Span {
    tracing::error_span!(parent: None, "socket", trace_id = opened.trace_id_text())
}

/// The method, if it is a usual one: others are the client's invention.
fn method(method: &Method) -> &'static str {
    let usual = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    usual.into_iter().find(|name| *name == method.as_str()).unwrap_or("_OTHER")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

    #[test]
    fn a_traceparent_is_read() {
        let context = TraceContext::parse(&format!("00-{TRACE}-b7ad6b7169203331-01")).unwrap();
        assert_eq!(context.trace_id_text(), TRACE);
        assert_eq!(context.span_id, [0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31]);
        assert!(context.sampled);
        assert!(!TraceContext::parse(&format!("00-{TRACE}-b7ad6b7169203331-00")).unwrap().sampled);
        assert!(TraceContext::parse(&format!("cc-{TRACE}-b7ad6b7169203331-01-later")).is_some());
    }

    #[test]
    fn anything_else_is_no_traceparent() {
        for text in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.more",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319ü-b7ad6b7169203331-01",
        ] {
            assert_eq!(TraceContext::parse(text), None, "{text}");
        }
    }

    #[test]
    fn two_headers_name_no_trace() {
        let value = |last: u8| format!("00-{TRACE}-b7ad6b71692033{last:02}-01").parse().unwrap();
        let mut headers = HeaderMap::new();
        headers.append(HEADER, value(1));
        assert!(parent(&headers).is_some());
        headers.append(HEADER, value(2));
        assert_eq!(parent(&headers), None);
    }
}
