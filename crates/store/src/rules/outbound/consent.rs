//! Who may be written to: pairing, allowing, stopping.

use super::rows::{consent_state, kind_number};
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

/// What is stored of an address.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub(super) state: ConsentState,
    /// What a START brings back; `None` where nobody had said yes before the STOP.
    was: Option<ConsentState>,
    /// Where it is a STOP: whether somebody vouched for who said it.
    pub(super) proven: bool,
    pub(super) person: Option<PersonNo>,
}

/// The consent of an address, and whose it is.
pub(super) fn of(tx: &mut impl Tx, channel: &str, kind: u8, handle: &str) -> Result<Option<Known>, Failure> {
    let sql =
        "SELECT state, was, person, proven FROM consents WHERE channel = ? AND to_kind = ? AND handle = ?";
    tx.one(sql, values![channel, kind, handle], |row| {
        Ok(Known {
            state: consent_state(row.get(0)?)?,
            was: row.get::<Option<u8>>(1)?.map(consent_state).transpose()?,
            person: row.get::<Option<u32>>(2)?.map(PersonNo),
            proven: row.get::<u8>(3)? != 0,
        })
    })
}

/// Where else a person can be written to.
pub(super) fn addresses(
    tx: &mut impl Tx,
    person: PersonNo,
    (channel, handle): (&str, &str),
) -> Result<Vec<(String, String)>, Failure> {
    let sql =
        "SELECT channel, handle FROM consents WHERE person = ? AND to_kind = 1 ORDER BY channel, handle";
    let mut all = tx.all(sql, values![person.0], |row| Ok((row.get::<String>(0)?, row.get::<String>(1)?)))?;
    all.retain(|(its_channel, its)| (its_channel.as_str(), its.as_str()) != (channel, handle));
    Ok(all)
}

/// The person of a display name, compared without regard to case.
pub(super) fn person_named(tx: &mut impl Tx, name: &str) -> Result<Option<PersonNo>, Failure> {
    let sql = "SELECT id FROM persons WHERE name = ?";
    if let Some(person) = tx.one(sql, values![name], |row| row.get(0).map(PersonNo))? {
        return Ok(Some(person));
    }
    let wanted = name.trim().to_lowercase();
    let people = tx.all("SELECT id, name FROM persons ORDER BY id", values![], |row| {
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
    let known = of(tx, channel, 1, handle)?;
    let person = person.or(known.and_then(|known| known.person));
    let by = format!("{channel}:code");
    put(
        tx,
        (channel, 1, handle),
        known,
        &Change { to: ConsentState::Paired, person, by: &by, reason: None, proven: true },
    )?;
    Ok(true)
}

/// An operator allows an address, or takes that back.
pub(super) fn set(
    tx: &mut impl Tx,
    channel: &str,
    to: &Address,
    (state, lift_stop): (ConsentState, bool),
    person: Option<PersonNo>,
    by: &str,
) -> Result<OutboundOutcome, Stop> {
    let kind = kind_number(to.kind);
    let known = of(tx, channel, kind, &to.handle)?;
    if state == ConsentState::Revoked && known.is_none() {
        return Err(Refusal::NotFound.into());
    }
    // An operator does not speak for a person who said STOP: that person alone takes it back. Where nobody vouched for who said it,
    // nobody can vouch for a START either.
    let stopped = known.filter(|known| known.state == ConsentState::Stopped);
    if state == ConsentState::Allowed && stopped.is_some_and(|known| known.proven || !lift_stop) {
        return Err(Refusal::NoConsent(ConsentState::Stopped.consent()).into());
    }
    if let Some(person) = person {
        crate::rules::tx::found(
            tx.one("SELECT 1 FROM persons WHERE id = ?", values![person.0], |_| Ok(()))?,
        )?;
    }
    let person = person.or(known.and_then(|known| known.person));
    let lifts = stopped.is_some() && state == ConsentState::Allowed;
    if lifts {
        note(tx, channel, &to.handle, ("stop_lifted", by));
    }
    let reason = lifts.then_some("an operator lifted a STOP of somebody whom nobody vouched for");
    put(tx, (channel, kind, &to.handle), known, &Change { to: state, person, by, reason, proven: true })?;
    Ok(OutboundOutcome::Done)
}

/// A change of the consent of an address.
pub(super) struct Change<'a> {
    pub(super) to: ConsentState,
    pub(super) person: Option<PersonNo>,
    pub(super) by: &'a str,
    pub(super) reason: Option<&'a str>,
    /// Of a STOP: whether somebody vouches for who says it.
    pub(super) proven: bool,
}

/// Writes the consent of an address. A STOP outlasts everything but the person's own word: what an operator or a service says
/// meanwhile counts once it is taken back.
pub(super) fn put(
    tx: &mut impl Tx,
    (channel, kind, handle): (&str, u8, &str),
    known: Option<Known>,
    change: &Change<'_>,
) -> Result<(), Failure> {
    use ConsentState::{Revoked, Stopped, Suppressed};
    let before = known.map(|known| known.state);
    let (state, was) = match (before, change.to) {
        (Some(Stopped), Suppressed | Revoked) => (Stopped, Some(change.to)),
        (Some(Stopped), Stopped) => (Stopped, known.and_then(|known| known.was)),
        (before, Stopped) => (Stopped, before),
        (_, to) => (to, None),
    };
    // Once somebody has vouched for a STOP, that stays.
    let was_proven = known.is_some_and(|known| known.state == Stopped && known.proven);
    let proven = match (before, change.to) {
        (_, Stopped) => change.proven || was_proven,
        (Some(Stopped), Suppressed | Revoked) => was_proven,
        _ => true,
    };
    let sql = "INSERT INTO consents (channel, to_kind, handle, state, was, person, by_whom, at_ms, reason, proven)
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
               ON CONFLICT (channel, to_kind, handle) DO UPDATE SET state = excluded.state, was = excluded.was,
                   person = excluded.person, by_whom = excluded.by_whom, at_ms = excluded.at_ms, reason = excluded.reason,
                   proven = excluded.proven";
    let (person, was) = (change.person.map(|person| person.0), was.map(|was| was as u8));
    tx.run(
        sql,
        values![
            channel,
            kind,
            handle,
            state as u8,
            was,
            person,
            change.by,
            tx.at_ms(),
            change.reason,
            u8::from(proven)
        ],
    )?;
    note(tx, channel, handle, (change.to.as_str(), change.by));
    Ok(())
}

/// A person takes a STOP back: what was before it is again. An address that nobody had allowed or paired is not allowed by that.
pub(super) fn start(tx: &mut impl Tx, (channel, handle): (&str, &str), known: Known) -> Result<(), Failure> {
    if let Some(to) = known.was {
        let reason = Some("the person said START");
        let change = Change { to, person: known.person, by: channel, reason, proven: true };
        return put(tx, (channel, 1, handle), Some(Known { state: to, ..known }), &change);
    }
    let sql = "DELETE FROM consents WHERE channel = ? AND to_kind = 1 AND handle = ?";
    tx.run(sql, values![channel, handle])?;
    note(tx, channel, handle, ("forgotten", channel));
    Ok(())
}

fn note(tx: &mut impl Tx, channel: &str, handle: &str, (what, by): (&str, &str)) {
    tx.admit("pair.consent", None, format!("{channel} {what} to={} by={by}", shown(channel, handle)));
}

/// An address as the log shows it: a digest.
pub(super) fn shown(channel: &str, handle: &str) -> String {
    hex(&framed("switchboard.address.v1", &[channel.as_bytes(), handle.as_bytes()])[..8])
}
