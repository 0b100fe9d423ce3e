//! Lanes: what goes to one target leaves in order, one at a time, and a target that is slow holds up nobody else.

use super::Head;
use crate::rules::failure::Failure;
use crate::rules::tx::Tx;
use crate::rules::value::values;
use switchboard_core::outbound::send::lane_of;
use switchboard_core::port::channel::{Address, AddressKind};
use switchboard_core::time::WallMs;

/// The lane of a send.
pub(super) fn of(send: &Head) -> String {
    let kind = if send.to_kind == 1 { AddressKind::Direct } else { AddressKind::Channel };
    lane_of(&send.channel, &Address { kind, handle: send.handle.clone() })
}

/// The next message of the lane leaves then at the earliest, also if it is yet to be accepted.
pub(super) fn pause(tx: &mut impl Tx, lane: &str, until_ms: WallMs) -> Result<(), Failure> {
    let sql = "INSERT INTO lanes (lane, next_ms) VALUES (?, ?) ON CONFLICT (lane) DO UPDATE SET next_ms = excluded.next_ms";
    tx.later(sql, values![lane, until_ms])
}

/// A part that waits becomes due.
pub(super) fn due(tx: &mut impl Tx, (send, part): (i64, u32), next_ms: WallMs) -> Result<(), Failure> {
    let sql = "UPDATE parts SET state = 2, next_ms = ? WHERE send = ? AND part = ?";
    tx.later(sql, values![next_ms, send, part])
}

/// The first part of the lane that waits.
pub(super) const WAITING: &str =
    "SELECT send, part, (SELECT next_ms FROM lanes l WHERE l.lane = p.lane) FROM parts p
    WHERE lane = ? AND state = 1 ORDER BY send, part LIMIT 1";
/// Whether something of the lane is due or on its way.
pub(super) const BUSY: &str = "SELECT 1 FROM parts WHERE lane = ? AND state > 1 AND state < 4 LIMIT 1";

/// The first part of the lane that waits becomes due, not before `not_before`, unless one is on its way.
pub(super) fn promote(tx: &mut impl Tx, lane: &str, not_before: Option<WallMs>) -> Result<(), Failure> {
    let first = tx
        .one(WAITING, values![lane], |row| Ok(((row.get(0)?, row.get(1)?), row.get::<Option<WallMs>>(2)?)))?;
    let Some((first, pause_ms)) = first else { return Ok(()) };
    if tx.one(BUSY, values![lane], |_| Ok(()))?.is_some() {
        return Ok(());
    }
    let next_ms = not_before.or(pause_ms).unwrap_or(0).max(tx.at_ms());
    due(tx, first, next_ms)
}
