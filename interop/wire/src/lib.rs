//! The referee of the wire, and its golden fixtures.
//!
//! The published crate `lean-ctx-protocol` defines the protocol that Switchboard's bus speaks. Here its types judge what our
//! types and a running hub put on the wire ([`referee`]), and its fixtures are read where the package registry keeps them
//! ([`fixtures`]), so that nothing of it is copied and a version moves by one line in `Cargo.toml`.
//!
//! The tests are in `tests/it`: our types against the fixtures, the referee against our types, the referee against a hub.

pub mod fixtures;
pub mod referee;
pub mod signatures;
