//! People's networks. One folder per service, with both directions: how a message goes out, how an answer comes in. Each implements
//! [`switchboard_core::port::channel::Channel`] and keeps its promises, which the conformance suite proves.
//!
//! To add a service: a folder with its [`Capabilities`](switchboard_core::port::channel::Capabilities) as data, `outbound`, `inbound` and
//! recorded fixtures; then its case in the conformance suite (`conformance` says how) and its kind in the configuration. What services have
//! in common lies beside the folders: waits in [`retry_after`], addresses that may be connected to in [`guard`].

#[cfg(feature = "conformance")]
pub mod conformance;
pub mod console;
pub mod discord;
pub mod document;
mod egress;
pub mod email;
pub mod exec;
#[cfg(feature = "conformance")]
pub mod fake;
pub mod guard;
pub mod handle;
pub mod matrix;
pub mod message;
pub mod retry_after;
pub mod slack;
pub mod telegram;
pub mod webhook;
