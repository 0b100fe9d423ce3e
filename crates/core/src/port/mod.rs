//! The ports: what the engine needs from the world, with the promises that every implementation keeps.

pub mod channel;
pub mod doorbell;
pub mod outbound;
pub mod store;
