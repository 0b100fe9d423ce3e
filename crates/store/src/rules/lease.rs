//! Leases of nodes: who does what only one of them may do.

use super::failure::{Applied, Stop};
use super::tx::Tx;
use super::value::values;
use switchboard_core::time::WallMs;
use switchboard_core::write::{Outcome, Refusal};

pub(super) fn take(tx: &mut impl Tx, name: &'static str, holder: u64, for_ms: WallMs) -> Applied {
    let now = tx.clock_ms()?;
    let sql = "SELECT holder, fence, until_ms FROM leases WHERE name = ?";
    let known = tx.one(sql, values![name], |row| {
        Ok((row.get::<i64>(0)?.cast_unsigned(), row.get::<i64>(1)?, row.get::<WallMs>(2)?))
    })?;
    let fence = match known {
        Some((other, _, until)) if other != holder && until > now => return Err(Refusal::Leased.into()),
        Some((same, fence, _)) if same == holder => fence,
        Some((_, fence, _)) => fence + 1,
        None => 1,
    };
    let sql = "INSERT INTO leases (name, holder, fence, until_ms) VALUES (?, ?, ?, ?)
               ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, fence = excluded.fence, until_ms = excluded.until_ms";
    tx.run(sql, values![name, holder.cast_signed(), fence, now.saturating_add(for_ms)])?;
    if known.is_none_or(|(_, before, _)| before != fence) {
        tx.admit("node.lease", None, format!("{name} {fence}"));
    }
    Ok(Outcome::Lease { fence: fence.cast_unsigned() })
}

/// Whether the fence is still the last one.
pub(super) fn check(tx: &mut impl Tx, name: &'static str, fence: u64) -> Result<(), Stop> {
    let sql = "SELECT fence FROM leases WHERE name = ?";
    let last = tx.one(sql, values![name], |row| row.get::<i64>(0))?;
    if last == Some(fence.cast_signed()) { Ok(()) } else { Err(Refusal::Fenced.into()) }
}
