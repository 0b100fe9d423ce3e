//! The channels over stand-ins of their services.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking; helpers beside the tests are part of them"
)]

mod discord;
#[cfg(unix)]
mod matrix;
mod slack;
mod telegram;
