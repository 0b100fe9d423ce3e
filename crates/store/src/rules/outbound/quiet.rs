//! Quiet hours: what they hold back is queued, and goes on when they are over; notices to one address as one digest.

use super::rows::send_state;
use super::{Head, head, state, submit};
use crate::rules::failure::{Failure, Stop};
use crate::rules::tx::Tx;
use crate::rules::value::{Row, values};
use switchboard_core::ids::PersonNo;
use switchboard_core::outbound::quiet::Quiet;
use switchboard_core::outbound::send::{DIGEST, SendState, TopicState};
use switchboard_core::outbound::write::{NewSend, OutboundOutcome};
use switchboard_core::time::WallMs;
use switchboard_core::write::Refusal;

pub(super) const HOURS_OF: &str = "SELECT q.zone, q.from_time, q.until_time FROM consents c
    JOIN quiet_hours q ON q.person = c.person WHERE c.channel = ? AND c.to_kind = 1 AND c.handle = ?";
pub(super) const MEMBERS: &str =
    "SELECT send FROM quieted WHERE digest = ? AND digest IS NOT NULL ORDER BY send";

/// A row of a zone and two times.
pub(super) fn hours(row: &dyn Row, at: usize) -> Result<Quiet, Failure> {
    let text = |column: usize| row.get::<String>(at + column);
    Quiet::parse(&text(0)?, &text(1)?, &text(2)?).map_err(Failure::Inconsistent)
}

/// Until when the quiet hours of whose address it is hold a message back; `None` when they do not.
pub(super) fn until(
    tx: &mut impl Tx,
    channel: &str,
    (kind, handle): (u8, &str),
    urgent: bool,
) -> Result<Option<WallMs>, Failure> {
    if urgent || kind != 1 {
        return Ok(None);
    }
    let quiet = tx.one(HOURS_OF, values![channel, handle], |row| hours(row, 0))?;
    Ok(quiet.and_then(|quiet| quiet.ends_ms(tx.at_ms())))
}

/// Holds a send back if quiet hours ask for it; whether they do. Its parts are parked already.
pub(super) fn hold(tx: &mut impl Tx, send: &Head) -> Result<bool, Failure> {
    let Some(until_ms) = until(tx, &send.channel, (send.to_kind, &send.handle), send.urgent)? else {
        return Ok(false);
    };
    keep(tx, send.no, until_ms)?;
    Ok(true)
}

/// Notes what holds a send back.
pub(super) fn keep(tx: &mut impl Tx, no: i64, until_ms: WallMs) -> Result<(), Failure> {
    let sql = "INSERT INTO quieted (send, until_ms, digest) VALUES (?, ?, NULL)
               ON CONFLICT (send) DO UPDATE SET until_ms = excluded.until_ms, digest = NULL";
    tx.later(sql, values![no, until_ms])?;
    tx.later("UPDATE sends SET reason = ? WHERE no = ?", values![REASON, no])
}

/// Why a send waits that quiet hours hold back.
pub(super) const REASON: &str = "the person has quiet hours";

/// Quiet hours are over for these: each goes on, unless others have begun.
pub(super) fn wake(tx: &mut impl Tx, sends: &[i64]) -> Result<OutboundOutcome, Failure> {
    for no in sends {
        let held = tx.run("DELETE FROM quieted WHERE send = ? AND digest IS NULL", values![no])? > 0;
        let Some(mut send) = head(tx, *no)?.filter(|_| held) else { continue };
        if send.state == SendState::Queued as u8 {
            tx.later("UPDATE sends SET reason = NULL WHERE no = ?", values![no])?;
            state::go_on(tx, &mut send)?;
        }
    }
    Ok(OutboundOutcome::Done)
}

/// Brings several together in one send of the hub's, if all of them still wait.
pub(super) fn digest(tx: &mut impl Tx, new: &NewSend, of: &[i64]) -> Result<OutboundOutcome, Stop> {
    if !new.send_id.starts_with(DIGEST) {
        return Err(Refusal::NotYours.into());
    }
    for no in of {
        let sql = "SELECT s.state FROM quieted q JOIN sends s ON s.no = q.send WHERE q.send = ? AND q.digest IS NULL";
        let waits = tx.one(sql, values![no], |row| row.get::<u8>(0))?;
        if waits != Some(SendState::Queued as u8) {
            return Err(Refusal::TaskState { state: "no longer waiting" }.into());
        }
    }
    let outcome = submit::submit(tx, new)?;
    let OutboundOutcome::Accepted { send: digest, .. } = outcome else { return Ok(outcome) };
    let reason = format!("it goes out within the digest {}", new.send_id);
    for no in of {
        tx.later("UPDATE quieted SET digest = ? WHERE send = ?", values![digest, no])?;
        tx.later("UPDATE sends SET reason = ? WHERE no = ?", values![reason, no])?;
    }
    tx.admit("outbound.digest", None, format!("{} {}", new.send_id, of.len()));
    Ok(outcome)
}

/// A digest has arrived, or never will: so has what it brings.
pub(super) fn spread(tx: &mut impl Tx, digest: &Head, to: SendState) -> Result<(), Failure> {
    if !to.is_terminal() || !digest.send_id.starts_with(DIGEST) {
        return Ok(());
    }
    let members = tx.all(MEMBERS, values![digest.no], |row| row.get::<i64>(0))?;
    for no in members {
        tx.later("DELETE FROM quieted WHERE send = ?", values![no])?;
        let Some(mut send) = head(tx, no)? else { continue };
        if send_state(send.state)?.is_terminal() {
            continue;
        }
        let reason = format!("{} in the digest {}", to.as_str(), digest.send_id);
        match to {
            SendState::Delivered => part_of(tx, &mut send, 4, to, &reason)?,
            SendState::Unknown => part_of(tx, &mut send, 6, to, &reason)?,
            _ => state::end(tx, &mut send, to, &reason)?,
        }
    }
    Ok(())
}

fn part_of(tx: &mut impl Tx, send: &mut Head, parts: u8, to: SendState, reason: &str) -> Result<(), Failure> {
    tx.later("UPDATE parts SET state = ? WHERE send = ? AND state = 8", values![parts, send.no])?;
    state::set(tx, send, to, Some(reason))
}

/// A question for which the floor is free, but not the hour.
pub(super) fn queue(tx: &mut impl Tx, send: &mut Head) -> Result<(), Failure> {
    if let Some(topic) = &send.topic_id {
        let sql = "UPDATE topics SET state = ? WHERE topic_id = ?";
        tx.later(sql, values![TopicState::Queued as u8, topic])?;
    }
    state::set(tx, send, SendState::Queued, Some(REASON))
}

/// An operator, or the person on the console, sets or ends a person's quiet hours. What they hold back is looked at again.
pub(super) fn set(
    tx: &mut impl Tx,
    person: PersonNo,
    quiet: Option<&Quiet>,
    by: &str,
) -> Result<OutboundOutcome, Stop> {
    let known = tx.one("SELECT 1 FROM persons WHERE id = ?", values![person.0], |_| Ok(()))?;
    if known.is_none() {
        return Err(Refusal::NotFound.into());
    }
    match quiet {
        Some(quiet) => {
            let sql = "INSERT INTO quiet_hours (person, zone, from_time, until_time, by_whom, at_ms) VALUES (?, ?, ?, ?, ?, ?)
                       ON CONFLICT (person) DO UPDATE SET zone = excluded.zone, from_time = excluded.from_time,
                           until_time = excluded.until_time, by_whom = excluded.by_whom, at_ms = excluded.at_ms";
            let (from, until) = (quiet.from(), quiet.until());
            tx.later(sql, values![person.0, quiet.zone(), from, until, by, tx.at_ms()])?;
        }
        None => tx.later("DELETE FROM quiet_hours WHERE person = ?", values![person.0])?,
    }
    let sql = "UPDATE quieted SET until_ms = ? WHERE digest IS NULL AND send IN (SELECT s.no FROM sends s
               JOIN consents c ON c.channel = s.channel AND c.to_kind = s.to_kind AND c.handle = s.handle
               WHERE s.state = 2 AND s.state < 5 AND c.person = ?)";
    tx.later(sql, values![tx.at_ms(), person.0])?;
    let hours = quiet.map_or_else(|| "none".to_owned(), Quiet::to_string);
    tx.admit("person.quiet", None, format!("{} {hours} by={by}", person.0));
    Ok(OutboundOutcome::Done)
}
