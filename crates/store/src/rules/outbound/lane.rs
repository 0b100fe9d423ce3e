//! Lanes: what goes to one target leaves in order, one at a time, and a target that is slow holds up nobody else.

use super::Head;
use crate::rules::failure::Failure;
use crate::rules::tx::Tx;
use crate::rules::value::values;
use switchboard_core::outbound::send::{PartState, lane_of};
use switchboard_core::port::channel::{Address, AddressKind};
use switchboard_core::time::WallMs;

/// The lane of a send.
pub(super) fn of(send: &Head) -> String {
    let kind = if send.to_kind == 1 { AddressKind::Direct } else { AddressKind::Channel };
    lane_of(&send.channel, &Address { kind, handle: send.handle.clone() })
}

/// Whether anything stands in the lane.
pub(super) fn is_empty(tx: &mut impl Tx, lane: &str) -> Result<bool, Failure> {
    let sql = "SELECT 1 FROM parts WHERE lane = ? AND state IN (1, 2, 3) LIMIT 1";
    Ok(tx.one(sql, values![lane], |_| Ok(()))?.is_none())
}

/// The first part of the lane that waits becomes due, not before `not_before`, unless one is on its way.
pub(super) fn promote(tx: &mut impl Tx, lane: &str, not_before: Option<WallMs>) -> Result<(), Failure> {
    let sql = "SELECT 1 FROM parts WHERE lane = ? AND state IN (2, 3) LIMIT 1";
    if tx.one(sql, values![lane], |_| Ok(()))?.is_some() {
        return Ok(());
    }
    let sql = "SELECT send, part FROM parts WHERE lane = ? AND state = 1 ORDER BY send, part LIMIT 1";
    let first = tx.one(sql, values![lane], |row| Ok((row.get::<i64>(0)?, row.get::<i64>(1)?)))?;
    let Some((send, part)) = first else { return Ok(()) };
    let next_ms = not_before.unwrap_or(0).max(tx.at_ms());
    let sql = "UPDATE parts SET state = ?, next_ms = ? WHERE send = ? AND part = ?";
    tx.later(sql, values![PartState::Due as u8, next_ms, send, part])
}
