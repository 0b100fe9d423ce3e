//! Reading: history, catch-up, polls, the directory. Every page answers one of: data, complete up to n, a gap with the
//! first position that is left, or another epoch (DESIGN law 3).

pub mod agents;
pub mod events;
pub mod history;
pub mod message;
pub mod poll;
pub mod search;
pub mod streams;
