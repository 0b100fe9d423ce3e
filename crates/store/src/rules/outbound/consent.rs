//! Who may be written to: pairing, allowing, stopping.

use super::rows::kind_number;
use crate::rules::failure::{Failure, Stop};
use crate::rules::tx::Tx;
use crate::rules::value::values;
use switchboard_core::digest::{framed, hex};
use switchboard_core::ids::PersonNo;
use switchboard_core::outbound::send::ConsentState;
use switchboard_core::outbound::write::OutboundOutcome;
use switchboard_core::port::channel::Address;
use switchboard_core::time::WallMs;
use switchboard_core::write::Refusal;

/// Pairing codes of one organization that wait at a time.
const PAIRINGS_MAX: i64 = 256;

/// What a pairing code is for.
pub(super) struct Pairing<'a> {
    pub(super) channel: &'a str,
    pub(super) to: Option<&'a str>,
    pub(super) person: Option<PersonNo>,
    pub(super) by: &'a str,
}

/// The consent of an address, and whose it is.
pub(super) fn of(
    tx: &mut impl Tx,
    channel: &str,
    kind: u8,
    handle: &str,
) -> Result<Option<(ConsentState, Option<PersonNo>)>, Failure> {
    let sql = "SELECT state, person FROM consents WHERE channel = ? AND to_kind = ? AND handle = ?";
    tx.one(sql, values![channel, kind, handle], |row| {
        let state = ConsentState::from_number(row.get(0)?);
        let state = state.ok_or_else(|| Failure::Inconsistent("an unknown consent".into()))?;
        Ok((state, row.get::<Option<u32>>(1)?.map(PersonNo)))
    })
}

/// The person of a display name, compared without regard to case.
pub(super) fn person_named(tx: &mut impl Tx, name: &str) -> Result<Option<PersonNo>, Failure> {
    let wanted = name.trim().to_lowercase();
    let people = tx.all("SELECT id, name FROM persons", values![], |row| {
        Ok((PersonNo(row.get(0)?), row.get::<String>(1)?))
    })?;
    Ok(people.into_iter().find(|(_, name)| name.trim().to_lowercase() == wanted).map(|(person, _)| person))
}

/// A pairing code is made.
pub(super) fn pair_start(
    tx: &mut impl Tx,
    code_hash: &[u8; 32],
    pairing: &Pairing<'_>,
    expires_ms: WallMs,
) -> Result<OutboundOutcome, Stop> {
    if let Some(person) = pairing.person {
        let sql = "SELECT 1 FROM persons WHERE id = ?";
        crate::rules::tx::found(tx.one(sql, values![person.0], |_| Ok(()))?)?;
    }
    let sql = "SELECT count(*) FROM pairings WHERE expires_ms > ?";
    let waiting = tx.one(sql, values![tx.at_ms()], |row| row.get::<i64>(0))?.unwrap_or(0);
    if waiting >= PAIRINGS_MAX {
        return Err(Refusal::Full { what: "pairing_codes", limit: PAIRINGS_MAX.cast_unsigned() }.into());
    }
    tx.run("DELETE FROM pairings WHERE expires_ms <= ?", values![tx.at_ms()])?;
    let sql = "INSERT INTO pairings (code_hash, channel, handle, person, expires_ms, by_whom) VALUES (?, ?, ?, ?, ?, ?)";
    let person = pairing.person.map(|person| person.0);
    tx.run(sql, values![code_hash, pairing.channel, pairing.to, person, expires_ms, pairing.by])?;
    tx.admit("pair.start", None, format!("{} by={}", pairing.channel, pairing.by));
    Ok(OutboundOutcome::Done)
}

/// A code was typed by `handle`: it is used up, and the address paired; `false` when it is not one.
pub(super) fn redeem(
    tx: &mut impl Tx,
    channel: &str,
    handle: &str,
    code: &[u8; 32],
) -> Result<bool, Failure> {
    let sql = "SELECT handle, person FROM pairings WHERE code_hash = ? AND channel = ? AND expires_ms > ?";
    let found = tx.one(sql, values![code, channel, tx.at_ms()], |row| {
        Ok((row.get::<Option<String>>(0)?, row.get::<Option<u32>>(1)?.map(PersonNo)))
    })?;
    let Some((only, person)) = found else { return Ok(false) };
    if only.is_some_and(|only| only != handle) {
        return Ok(false);
    }
    tx.run("DELETE FROM pairings WHERE code_hash = ?", values![code])?;
    let by = format!("{channel}:code");
    put(tx, (channel, 1, handle), ConsentState::Paired, person, &by, None)?;
    Ok(true)
}

/// An operator allows an address, or takes that back.
pub(super) fn set(
    tx: &mut impl Tx,
    channel: &str,
    to: &Address,
    state: ConsentState,
    person: Option<PersonNo>,
    by: &str,
) -> Result<OutboundOutcome, Stop> {
    let kind = kind_number(to.kind);
    let known = of(tx, channel, kind, &to.handle)?;
    if state == ConsentState::Revoked && known.is_none() {
        return Err(Refusal::NotFound.into());
    }
    // An operator does not speak for a person who said STOP: that person alone takes it back.
    if state == ConsentState::Allowed && known.is_some_and(|(known, _)| known == ConsentState::Stopped) {
        return Err(Refusal::NoConsent(ConsentState::Stopped.consent()).into());
    }
    if let Some(person) = person {
        crate::rules::tx::found(
            tx.one("SELECT 1 FROM persons WHERE id = ?", values![person.0], |_| Ok(()))?,
        )?;
    }
    let person = person.or(known.and_then(|(_, person)| person));
    put(tx, (channel, kind, &to.handle), state, person, by, None)?;
    Ok(OutboundOutcome::Done)
}

/// Writes the consent of an address.
pub(super) fn put(
    tx: &mut impl Tx,
    (channel, kind, handle): (&str, u8, &str),
    state: ConsentState,
    person: Option<PersonNo>,
    by: &str,
    reason: Option<&str>,
) -> Result<(), Failure> {
    let sql = "INSERT INTO consents (channel, to_kind, handle, state, person, by_whom, at_ms, reason)
               VALUES (?, ?, ?, ?, ?, ?, ?, ?)
               ON CONFLICT (channel, to_kind, handle) DO UPDATE SET state = excluded.state, person = excluded.person,
                   by_whom = excluded.by_whom, at_ms = excluded.at_ms, reason = excluded.reason";
    let person = person.map(|person| person.0);
    tx.run(sql, values![channel, kind, handle, state as u8, person, by, tx.at_ms(), reason])?;
    let to = framed("switchboard.address.v1", &[channel.as_bytes(), handle.as_bytes()]);
    tx.admit("pair.consent", None, format!("{channel} {} to={} by={by}", state.as_str(), hex(&to[..8])));
    Ok(())
}
