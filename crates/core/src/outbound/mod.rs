//! Reaching people: what is true of a send without any I/O (contract `outbound`).
//!
//! A send is accepted once, then takes its way through [`send::SendState`]: perhaps it is parked for an approval, perhaps it waits for
//! the person's floor, then its parts leave one after the other, each attempt fenced and recorded, and it ends in one terminal state.
//! [`write`](self::write) has every change of that as data; the store decides inside the transaction what only it can know.

use crate::time::{DAY_MS, WallMs};

/// How long texts of a send, the caller's parameters and the answer stay after its last change of state.
pub const TEXT_KEEP_MS: WallMs = 30 * DAY_MS;
/// How long it is remembered that an event of a service was taken.
pub const HEARD_KEEP_MS: WallMs = 90 * DAY_MS;

pub mod audit;
pub mod escalate;
pub mod floor;
pub mod gate;
pub mod limit;
pub mod quiet;
pub mod reply;
pub mod retry;
pub mod send;
pub mod write;
