//! For tests only: services that cannot run on a test's machine. Each stand-in listens on a free port of loopback, speaks its service's
//! documented protocol, does to each contact what it was told to, lets people write and press, and remembers everything.
//!
//! So that none drifts into our own image of its service, `interop/chats` drives each with the client library that its service publishes
//! or recommends, by the program of this crate. The channels' conformance runs over them in `tests`.
//!
//! Matrix needs no stand-in: [`synapse`] runs a real homeserver, and [`proxy`] in front of it does what a real one cannot be made to do.

#![expect(
    clippy::missing_panics_doc,
    reason = "a helper of tests fails by panicking; that is what it is for"
)]

pub mod discord;
#[cfg(unix)]
pub mod http;
#[cfg(unix)]
pub mod proxy;
pub mod slack;
#[cfg(unix)]
pub mod synapse;
pub mod telegram;
