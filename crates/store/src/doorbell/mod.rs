//! Doorbells: how a node learns that another one committed something. What they promise stands at the port
//! ([`switchboard_core::port::doorbell`]): they wake and carry nothing, the store is the truth.

pub mod local;
#[cfg(feature = "nats")]
pub mod nats;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(any(feature = "nats", feature = "postgres"))]
mod rings;
#[cfg(any(feature = "nats", feature = "postgres"))]
mod wired;

pub use local::LocalDoorbell;
