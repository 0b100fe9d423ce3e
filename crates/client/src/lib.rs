//! The Rust client of a Switchboard hub: one socket that stays connected, and the HTTP routes beside it.
//!
//! [`Client::connect`] gives a cheap handle. Behind it one task owns the socket: it announces the agents, resends what was
//! not acknowledged under the same id after a reconnect, and resumes from the positions it has seen. Everything it holds is
//! bounded; a slow reader slows its own socket and loses nothing.
//!
//! ```no_run
//! # async fn example() -> Result<(), switchboard_client::Error> {
//! use switchboard_client::{Client, Event, Options, Secret, message_id};
//! use switchboard_protocol::frame::client::HelloAgent;
//!
//! let mut options = Options::new("http://127.0.0.1:8484", Secret::new("bearer"));
//! options.agents.push(HelloAgent { agent_id: "ada".into(), role: "review".into(), vault_id: "…".into() });
//! let client = Client::connect(options).await?;
//! while let Ok(event) = client.next_event().await {
//!     if let Event::Delivery(delivery) = event {
//!         println!("{} says something", delivery.gid);
//!     }
//! }
//! # Ok(()) }
//! ```
//!
//! People are written to through [`sink::HubSink`].
//!
//! A delivered body is foreign content: wrap it with [`switchboard_protocol::fence`] before a model sees it.

mod backoff;
mod client;
mod cursors;
mod error;
mod event;
mod http;
mod id;
pub mod mcp;
mod options;
mod pending;
mod queue;
mod secret;
mod session;
pub mod sink;
mod socket;
mod trust;

pub use client::Client;
pub use cursors::Cursors;
pub use error::Error;
pub use event::{Event, Handoff, Resync, ResyncReason};
pub use http::{Http, MessageQuery, Method};
pub use id::{fresh_boundary, fresh_key, message_id};
pub use options::{Options, Tuning};
pub use secret::Secret;
pub use trust::Trust;
