//! The channels over stand-ins of their services.

#![expect(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a test fails by panicking; helpers beside the tests are part of them"
)]

#[cfg(unix)]
mod matrix;
