//! The MCP door: the bus as tools for models (contract section 4), over streamable HTTP at `/mcp`.
//!
//! One URL serves the stateless revision 2026-07-28 and the revisions with sessions, 2024-11-05 to 2025-11-25. A request
//! passes the gate (bearer, right, strict body, session of its owner), then the official SDK (lifecycle, versions, `Host`
//! and `Origin`), then one tool, which is a thin layer over the engine. What others wrote reaches a model only inside a
//! fence (`switchboard_protocol::fence`); the structured part of a result carries ids and the same fenced text.
//!
//! Presence: the agent that a call speaks for is announced with its first call. With a session it is there until the
//! session ends (`DELETE`, half an hour without a request or an open stream, a restart of the hub), then it closes like the
//! agent of a lost socket; without one it is there during each call and the same grace after it. Either way its name can
//! be written to for 24 hours, and what is sent meanwhile waits in its inbox.
//!
//! Streams cannot be resumed: events carry no ids. A call whose answer got lost is made again; a repeated `bus_send` with
//! its `client_msg_id` is a no-op, and what an inbox handed over into nothing is still `unread`.
//!
//! To add a tool: its arguments in `args`, a file in `tools` that runs it, and its line in [`tools::TABLE`].

mod args;
mod call;
mod gate;
mod handler;
mod item;
mod schema;
mod sessions;
mod tools;

use crate::mcp::gate::Gate;
use crate::mcp::handler::Handler;
use crate::mcp::sessions::Sessions;
use axum::Router;
use axum::routing::{any, get};
use parking_lot::Mutex;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::ids::InstanceNo;
use switchboard_core::limits::BODY_BYTES_MAX;
use switchboard_engine::Hub;
use switchboard_protocol::{Code, Detail};

/// Silence after which a comment goes out on an open stream, so that proxies keep it and a dead client is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// By these names the hub may always be reached.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// How the door is set.
#[derive(Debug, Clone)]
pub struct Options {
    /// Hosts (`name`, `name:port`, `[address]`) under which clients reach the hub, beside loopback and the host of the
    /// public URL. Requests that name another one in `Host` are refused, as are browsers whose `Origin` is none of them.
    pub allowed_hosts: Vec<String>,
    /// Open sessions of the whole hub; each takes about 110 KiB, most of it queues of the SDK.
    pub sessions_max: usize,
    /// Open sessions of one instance.
    pub sessions_per_instance_max: usize,
    /// A session with no request and no open stream for so long ends.
    pub session_idle: Duration,
    /// Tool calls of one instance that may run at a time; waiting ones count.
    pub calls_per_instance_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            allowed_hosts: Vec::new(),
            sessions_max: 2048,
            sessions_per_instance_max: 64,
            session_idle: Duration::from_mins(30),
            calls_per_instance_max: 64,
        }
    }
}

/// What all requests of the door share.
struct Door {
    hub: Arc<Hub>,
    sessions: Arc<Sessions>,
    running: Mutex<HashMap<InstanceNo, usize>>,
    calls_per_instance_max: usize,
}

impl Door {
    /// Counts one more running call of `instance` until the result is dropped.
    fn enter(self: &Arc<Self>, instance: InstanceNo) -> Result<Running, Detail> {
        let max = self.calls_per_instance_max;
        let mut running = self.running.lock();
        let count = running.entry(instance).or_default();
        if *count >= max {
            let message = "Too many calls of this token run at once; let one of the waiting ones end first.";
            let detail = Detail::new(Code::RateLimited, message).reason("limit_exceeded").sb("SB0110");
            return Err(detail.limit(max as u64).used(max as u64).retry_after_s(1u64));
        }
        *count += 1;
        Ok(Running { door: self.clone(), instance })
    }
}

/// A running call.
struct Running {
    door: Arc<Door>,
    instance: InstanceNo,
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut running = self.door.running.lock();
        if let Some(count) = running.get_mut(&self.instance) {
            *count -= 1;
            if *count == 0 {
                running.remove(&self.instance);
            }
        }
    }
}

/// The routes: `/mcp`, and a plain 404 where clients look for an OAuth server (bearers come from `switchboard token`).
pub fn router(hub: Arc<Hub>, options: &Options, pages: &[String]) -> Router {
    let sessions = Sessions::start(&hub, options);
    let config = config(&hub, options, pages);
    let door = Arc::new(Door {
        hub,
        sessions: sessions.clone(),
        running: Mutex::default(),
        calls_per_instance_max: options.calls_per_instance_max,
    });
    let handler = Handler::new(door.clone());
    let service = StreamableHttpService::new(move || Ok(handler.clone()), sessions, config);
    let gate = Arc::new(Gate { door, service });
    let mut router = Router::new().route("/mcp/.well-known/{*rest}", get(gate::no_oauth));
    for probe in ["oauth-authorization-server", "oauth-protected-resource", "openid-configuration"] {
        let path = format!("/.well-known/{probe}");
        router = router.route(&format!("{path}/{{*rest}}"), get(gate::no_oauth));
        router = router.route(&path, get(gate::no_oauth));
    }
    router.route("/mcp", any(gate::serve).with_state(gate))
}

// An origin with its port, which the SDK wants named.
fn with_port(origin: &str) -> String {
    match origin.split_once("://") {
        Some((scheme, host)) if !has_port(host) => {
            format!("{origin}:{}", if scheme == "https" { 443 } else { 80 })
        }
        _ => origin.to_owned(),
    }
}

fn config(hub: &Hub, options: &Options, pages: &[String]) -> StreamableHttpServerConfig {
    let public = axum::http::Uri::try_from(&hub.settings.public_url).ok();
    let public = public.as_ref().and_then(|uri| Some((uri.scheme_str()?, uri.authority()?)));
    let named = options.allowed_hosts.iter().map(String::as_str);
    let hosts: Vec<&str> = LOOPBACK.into_iter().chain(named).collect();
    let any_port = |host: &str| if has_port(host) { host.to_owned() } else { format!("{host}:*") };
    let mut origins: Vec<_> = hosts
        .iter()
        .flat_map(|host| ["http", "https"].map(|scheme| format!("{scheme}://{}", any_port(host))))
        .collect();
    let mut hosts: Vec<_> = hosts.into_iter().map(str::to_owned).collect();
    if let Some((scheme, authority)) = public {
        let port = if scheme == "https" { 443 } else { 80 };
        let port = authority.port_u16().unwrap_or(port);
        origins.push(format!("{scheme}://{}:{port}", authority.host()));
        hosts.push(authority.host().to_owned());
    }
    origins.extend(pages.iter().map(|page| with_port(page)));
    StreamableHttpServerConfig::default()
        .with_allowed_hosts(hosts)
        .with_allowed_origins(origins)
        .enforce_origin_validation()
        .with_sse_keep_alive(Some(KEEP_ALIVE))
        .with_sse_retry(None)
        .with_max_request_body_bytes(BODY_BYTES_MAX)
        .with_cancellation_token(hub.stopping().child_token())
}

fn has_port(host: &str) -> bool {
    axum::http::uri::Authority::try_from(host).is_ok_and(|authority| authority.port_u16().is_some())
}
