//! The device flow (RFC 8628): a device asks, a person decides, the device redeems once.

use super::credential;
use super::failure::Applied;
use super::tx::{Tx, found};
use super::value::values;
use switchboard_core::ids::PersonNo;
use switchboard_core::limits::{DEVICE_CODES_MAX, DEVICE_INTERVAL_MS};
use switchboard_core::time::WallMs;
use switchboard_core::write::{DeviceDecision, NewInstance, Outcome, Refusal};

const WAITING: u8 = 1;
const APPROVED: u8 = 2;
const DENIED: u8 = 3;

pub(super) fn start(
    tx: &mut impl Tx,
    device_hash: &[u8; 32],
    user_code: &str,
    label: Option<&str>,
    expires_at_ms: WallMs,
) -> Applied {
    let sql = "SELECT count(*) FROM devices WHERE expires_at_ms > ?";
    let waiting: Option<u32> = tx.one(sql, values![tx.at_ms()], |row| row.get(0))?;
    if waiting.unwrap_or(0) >= DEVICE_CODES_MAX {
        return Err(Refusal::Full { what: "device_codes", limit: u64::from(DEVICE_CODES_MAX) }.into());
    }
    let sql = "SELECT 1 FROM devices WHERE (user_code = ? OR device_hash = ?) AND expires_at_ms > ?";
    if tx.one(sql, values![user_code, device_hash, tx.at_ms()], |_| Ok(()))?.is_some() {
        return Err(Refusal::NameTaken.into());
    }
    // A code that is over may be given again before the sweep has been there.
    tx.run("DELETE FROM devices WHERE user_code = ? OR device_hash = ?", values![user_code, device_hash])?;
    let sql =
        "INSERT INTO devices (device_hash, user_code, label, state, expires_at_ms) VALUES (?, ?, ?, ?, ?)";
    tx.run(sql, values![device_hash, user_code, label, WAITING, expires_at_ms])?;
    tx.admit("device.start", None, "");
    Ok(Outcome::Done)
}

pub(super) fn decide(
    tx: &mut impl Tx,
    user_code: &str,
    decision: DeviceDecision,
    person: PersonNo,
) -> Applied {
    found(tx.one("SELECT 1 FROM persons WHERE id = ?", values![person.0], |_| Ok(()))?)?;
    let state = match decision {
        DeviceDecision::Approve => APPROVED,
        DeviceDecision::Deny => DENIED,
    };
    let sql =
        "UPDATE devices SET state = ?, person = ? WHERE user_code = ? AND state = ? AND expires_at_ms > ?";
    let changed = tx.run(sql, values![state, person.0, user_code, WAITING, tx.at_ms()])?;
    found((changed > 0).then_some(()))?;
    let verdict = if decision == DeviceDecision::Approve { "approved" } else { "denied" };
    tx.admit("device.decide", None, verdict);
    Ok(Outcome::Done)
}

pub(super) fn redeem(tx: &mut impl Tx, device_hash: &[u8; 32], instance: &NewInstance) -> Applied {
    let sql = "SELECT state, person FROM devices WHERE device_hash = ? AND expires_at_ms > ?";
    let key = values![device_hash, tx.at_ms()];
    let device = tx.one(sql, key, |row| Ok((row.get::<u8>(0)?, row.get::<Option<u32>>(1)?)))?;
    match device {
        Some((APPROVED, Some(person))) => {
            credential::may_create(tx, instance)?;
            tx.run("DELETE FROM devices WHERE device_hash = ?", values![device_hash])?;
            tx.state_mut().device_polls.remove(device_hash);
            credential::insert_instance(tx, instance, PersonNo(person))
        }
        Some((DENIED, _)) => Err(Refusal::DeviceDenied.into()),
        Some(_) => Err(poll(tx, device_hash).into()),
        // A code that was redeemed or swept was one once: it is over.
        None => Err(Refusal::DeviceExpired.into()),
    }
}

// When a device last polled lives in memory alone: a refused poll writes nothing, and a restart forgives.
fn poll(tx: &mut impl Tx, device_hash: &[u8; 32]) -> Refusal {
    let now = tx.at_ms();
    let last = tx.state().device_polls.get(device_hash).copied();
    if last.is_some_and(|last| last != now && (last..last + DEVICE_INTERVAL_MS).contains(&now)) {
        return Refusal::DeviceTooFast;
    }
    if tx.state().device_polls.len() >= 2 * DEVICE_CODES_MAX as usize {
        tx.state_mut().device_polls.clear();
    }
    tx.state_mut().device_polls.insert(*device_hash, now);
    Refusal::DevicePending
}
