//! The bus's doors: the socket and its fallbacks (contract section 3).

pub mod read;
pub mod send;
pub mod socket;
