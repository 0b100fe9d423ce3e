//! The doors: decode, authenticate, limit, and hand on. What a request means is decided in the engine; a door only turns
//! bytes into its commands and its answers into bytes.
//!
//! To add a route: a handler in the file of its room, a line in that room's `routes`, and its types in
//! `switchboard_protocol`; the API description is generated from both and checked by a test.

pub mod admin;
pub mod bus;
pub mod console;
mod cors;
pub mod enroll;
pub mod health;
pub mod http;
pub mod listen;
pub mod mcp;
pub mod metrics;
pub mod openapi;
pub mod people;
pub mod stall;
pub mod trace;

use std::sync::Arc;
use std::time::Duration;
use switchboard_engine::Hub;
use tokio_util::task::TaskTracker;

/// What all doors share.
#[derive(Debug, Clone)]
pub struct Doors {
    /// The hub behind them.
    pub hub: Arc<Hub>,
    /// When this process began to serve, on the hub's monotonic clock.
    pub started: Duration,
    /// `sqlite` or `postgres`.
    pub backend: &'static str,
    /// Further origins of browsers that may connect, beside the hub's own.
    pub origins: Arc<Vec<String>>,
    /// What the last readiness probe found.
    pub probe: Arc<health::LastProbe>,
    /// What the console keeps.
    pub console: console::Console,
    /// How the MCP door is set.
    pub mcp: mcp::Options,
    /// How many connections and sockets there may be.
    pub room: listen::Room,
    /// Who takes spans to a collector, if anybody does.
    pub traces: trace::Traces,
    /// The sockets' tasks: a connection that becomes a socket leaves the listener's own.
    pub talks: TaskTracker,
}

impl Doors {
    /// Doors in front of `hub`.
    #[must_use]
    pub fn new(hub: Arc<Hub>, backend: &'static str) -> Self {
        let started = hub.clock().monotonic();
        Self {
            hub,
            started,
            backend,
            origins: Arc::default(),
            probe: Arc::default(),
            console: console::Console::default(),
            mcp: mcp::Options::default(),
            room: listen::Room::default(),
            traces: None,
            talks: TaskTracker::new(),
        }
    }

    /// Every route behind one service.
    pub fn router(&self) -> axum::Router {
        let (api, _) = openapi::router(self).split_for_parts();
        let mcp = mcp::router(self.hub.clone(), &self.mcp, &self.origins);
        let traced = axum::middleware::from_fn_with_state(self.clone(), trace::request);
        api.merge(mcp)
            .merge(console::router(self))
            .fallback(http::no_route)
            .layer(axum::middleware::from_fn(http::protocol_header))
            // Outside of what authenticates: browsers ask first, without a bearer.
            .layer(tower::util::option_layer(cors::layer(&self.origins)))
            .layer(traced)
    }
}
