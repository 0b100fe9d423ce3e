//! End-to-end tests: a real hub, its real doors, clients on the bare wire.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking; helpers beside the tests are part of them"
)]

mod bus;
mod cli;
#[cfg(unix)]
mod cluster;
mod faults;
#[cfg(target_os = "linux")]
mod mail;
mod mcp;
mod openapi;
mod people;
mod policy;
