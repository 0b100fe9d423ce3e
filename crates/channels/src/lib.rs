//! People's networks. One folder per service, with both directions: how a message goes out, how an answer comes in. Each implements
//! [`switchboard_core::port::channel::Channel`] and keeps its promises, which the conformance suite proves.
//!
//! To add a service: a folder with its [`Capabilities`](switchboard_core::port::channel::Capabilities) as data, `outbound`, `inbound` and
//! recorded fixtures; then its case in the conformance suite and its kind in the configuration.

pub mod console;
pub mod document;
pub mod email;
