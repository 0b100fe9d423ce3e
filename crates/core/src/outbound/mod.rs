//! Reaching people: what is true of a send without any I/O (contract `outbound`).

pub mod gate;
