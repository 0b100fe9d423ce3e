//! The device flow (RFC 8628): a device asks, a person decides, the device redeems once.

use super::super::failure::Applied;
use super::super::tx::{Tx, found};
use super::credential;
use rusqlite::params;
use switchboard_core::ids::PersonNo;
use switchboard_core::limits::{DEVICE_CODES_MAX, DEVICE_INTERVAL_MS};
use switchboard_core::time::WallMs;
use switchboard_core::write::{DeviceDecision, NewInstance, Outcome, Refusal};

const WAITING: u8 = 1;
const APPROVED: u8 = 2;
const DENIED: u8 = 3;

pub(super) fn start(
    tx: &mut Tx<'_>,
    device_hash: &[u8; 32],
    user_code: &str,
    label: Option<&str>,
    expires_at_ms: WallMs,
) -> Applied {
    let sql = "SELECT count(*) FROM devices WHERE expires_at_ms > ?";
    let waiting: Option<u32> = tx.one(sql, [tx.at_ms], |row| row.get(0))?;
    if waiting.unwrap_or(0) >= DEVICE_CODES_MAX {
        return Err(Refusal::Full { what: "device_codes", limit: u64::from(DEVICE_CODES_MAX) }.into());
    }
    let sql = "SELECT 1 FROM devices WHERE (user_code = ? OR device_hash = ?) AND expires_at_ms > ?";
    if tx.one(sql, params![user_code, device_hash, tx.at_ms], |_| Ok(()))?.is_some() {
        return Err(Refusal::NameTaken.into());
    }
    // A code that is over may be given again before the sweep has been there.
    tx.run("DELETE FROM devices WHERE user_code = ? OR device_hash = ?", params![user_code, device_hash])?;
    let sql =
        "INSERT INTO devices (device_hash, user_code, label, state, expires_at_ms) VALUES (?, ?, ?, ?, ?)";
    tx.run(sql, params![device_hash, user_code, label, WAITING, expires_at_ms])?;
    tx.admit("device.start", None, "");
    Ok(Outcome::Done)
}

pub(super) fn decide(
    tx: &mut Tx<'_>,
    user_code: &str,
    decision: DeviceDecision,
    person: PersonNo,
) -> Applied {
    found(tx.one("SELECT 1 FROM persons WHERE id = ?", [person.0], |_| Ok(()))?)?;
    let state = match decision {
        DeviceDecision::Approve => APPROVED,
        DeviceDecision::Deny => DENIED,
    };
    let sql =
        "UPDATE devices SET state = ?, person = ? WHERE user_code = ? AND state = ? AND expires_at_ms > ?";
    let changed = tx.run(sql, params![state, person.0, user_code, WAITING, tx.at_ms])?;
    found((changed > 0).then_some(()))?;
    let verdict = if decision == DeviceDecision::Approve { "approved" } else { "denied" };
    tx.admit("device.decide", None, verdict);
    Ok(Outcome::Done)
}

pub(super) fn redeem(tx: &mut Tx<'_>, device_hash: &[u8; 32], instance: &NewInstance) -> Applied {
    let sql = "SELECT state, person FROM devices WHERE device_hash = ? AND expires_at_ms > ?";
    let key = params![device_hash, tx.at_ms];
    let device = tx.one(sql, key, |row| Ok((row.get::<_, u8>(0)?, row.get::<_, Option<u32>>(1)?)))?;
    match device {
        Some((APPROVED, Some(person))) => {
            credential::may_create(tx, instance)?;
            tx.run("DELETE FROM devices WHERE device_hash = ?", [device_hash])?;
            tx.state.device_polls.remove(device_hash);
            credential::insert_instance(tx, instance, PersonNo(person))
        }
        Some((DENIED, _)) => Err(Refusal::DeviceDenied.into()),
        Some(_) => Err(poll(tx, device_hash).into()),
        // A code that was redeemed or swept was one once: it is over.
        None => Err(Refusal::DeviceExpired.into()),
    }
}

// When a device last polled lives in memory alone: a refused poll writes nothing, and a restart forgives.
fn poll(tx: &mut Tx<'_>, device_hash: &[u8; 32]) -> Refusal {
    let now = tx.at_ms;
    let last = tx.state.device_polls.get(device_hash).copied();
    if last.is_some_and(|last| last != now && (last..last + DEVICE_INTERVAL_MS).contains(&now)) {
        return Refusal::DeviceTooFast;
    }
    if tx.state.device_polls.len() >= 2 * DEVICE_CODES_MAX as usize {
        tx.state.device_polls.clear();
    }
    tx.state.device_polls.insert(*device_hash, now);
    Refusal::DevicePending
}
