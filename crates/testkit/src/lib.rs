//! For tests only: a hub on port 0 over a temporary directory, with a clock that can be moved, and clients that speak the
//! bare wire so that a test sees every frame.

#![expect(
    clippy::missing_panics_doc,
    reason = "a helper of tests fails by panicking; that is what it is for"
)]

pub mod hub;
pub mod mail;
pub mod mcp;
pub mod nats;
pub mod process;
pub mod socket;
pub mod store;

pub use hub::{Http, Options, TestHub, Token};
pub use mail::MailServer;
pub use mcp::Mcp;
pub use nats::Nats;
pub use process::Process;
pub use socket::Socket;

use std::time::Duration;

/// No step of a test may take longer: the slowest promise is that the agents of a dead node close within 30 s.
pub const PATIENCE: Duration = Duration::from_secs(35);
