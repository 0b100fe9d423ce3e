//! The bus, as its clients see it (contract sections 1 to 4).

mod bad_input;
mod direct;
mod enrollment;
mod fallbacks;
mod hello;
mod idempotency;
mod log;
mod messages;
mod questions;
mod receipts;
mod retention;
mod rights;
mod sessions;
mod slow;
mod swarm;
