//! Doorbells: how a node learns that another one committed something.

pub mod local;

pub use local::LocalDoorbell;
