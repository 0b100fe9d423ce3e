//! Attempts: claimed before the wire, recorded after it, fenced in between (DESIGN laws 5 and 6).

use super::rows::{SEND_COLUMNS, content, kind_number, send, send_columns, send_state};
use super::{Head, head, lane, state};
use crate::rules::failure::{Failure, Stop};
use crate::rules::tx::{Tx, sql_limit};
use crate::rules::value::values;
use switchboard_core::outbound::gate::Consent;
use switchboard_core::outbound::send::{ConsentState, PartState, SendRow, SendState};
use switchboard_core::outbound::write::{Claimed, OutboundOutcome, Settle, Touched};
use switchboard_core::port::channel::MessageKind;
use switchboard_core::time::WallMs;
use switchboard_core::write::Refusal;

/// Takes due parts: each is `attempting` on disk before anything is sent.
pub(super) fn claim(
    tx: &mut impl Tx,
    channel: &str,
    node: u64,
    limit: usize,
    until_ms: WallMs,
) -> Result<OutboundOutcome, Failure> {
    let sql = concat!(
        "SELECT ",
        send_columns!(),
        ", p.part, p.attempt, p.fails, p.content, (SELECT count(*) FROM parts o WHERE o.send = p.send)
         FROM parts p JOIN sends s ON s.no = p.send
         WHERE p.channel = ? AND p.state = 2 AND p.next_ms <= ? ORDER BY p.next_ms, p.send, p.part LIMIT ?"
    );
    let due = tx.all(sql, values![channel, tx.at_ms(), sql_limit(limit)], |row| {
        let place = (row.get::<u32>(SEND_COLUMNS)?, row.get::<u32>(SEND_COLUMNS + 4)?);
        let attempt = row.get::<u32>(SEND_COLUMNS + 1)? + 1;
        Ok(Claimed {
            send: send(row)?,
            place,
            attempt,
            fails: row.get(SEND_COLUMNS + 2)?,
            content: content(&row.get::<String>(SEND_COLUMNS + 3)?)?,
            consent: Consent::Missing,
            references: Vec::new(),
        })
    })?;
    let mut claimed = Vec::with_capacity(due.len());
    for mut part in due {
        let sql = "UPDATE parts SET state = ?, attempt = ?, node = ?, began_ms = ?, until_ms = ? WHERE send = ? AND part = ?";
        let (no, place) = (part.send.no, part.place.0);
        let state = PartState::Attempting as u8;
        tx.later(sql, values![state, part.attempt, node.cast_signed(), tx.at_ms(), until_ms, no, place])?;
        part.consent = consent(tx, &part.send)?;
        if place > 1 {
            let sql = "SELECT message_id FROM parts WHERE send = ? AND part < ? AND message_id IS NOT NULL ORDER BY part";
            part.references = tx.all(sql, values![no, place], |row| row.get(0))?;
        }
        tx.admit("outbound.attempt", None, format!("{} {place} {}", part.send.send_id, part.attempt));
        claimed.push(part);
    }
    Ok(OutboundOutcome::Claimed(claimed))
}

// What is stored of the address; an address that is not listed is none of the list's business, which the engine knows.
fn consent(tx: &mut impl Tx, send: &SendRow) -> Result<Consent, Failure> {
    let known = super::consent::of(tx, &send.channel, kind_number(send.to.kind), &send.to.handle)?;
    Ok(known.map_or(Consent::Missing, |(state, _)| state.consent()))
}

/// Records how an attempt ended.
pub(super) fn finish(
    tx: &mut impl Tx,
    (no, part, attempt): (i64, u32, u32),
    settle: &Settle,
) -> Result<OutboundOutcome, Stop> {
    let sql = "SELECT state, attempt, began_ms FROM parts WHERE send = ? AND part = ?";
    let at = tx.one(sql, values![no, part], |row| {
        Ok((row.get::<u8>(0)?, row.get::<u32>(1)?, row.get::<Option<WallMs>>(2)?))
    })?;
    let (at_state, last, began_ms) = crate::rules::tx::found(at)?;
    if at_state != PartState::Attempting as u8 || last != attempt {
        return Err(Refusal::Fenced.into());
    }
    let mut send = crate::rules::tx::found(head(tx, no)?)?;
    let (outcome, reason) = told(settle);
    note(tx, &Ended { no, part, attempt, began_ms: began_ms.unwrap_or(0) }, outcome, reason)?;
    match settle {
        Settle::Sent { message_id, pace_ms } => {
            sent(tx, &mut send, part, message_id.as_deref(), tx.at_ms().saturating_add(*pace_ms))?;
        }
        Settle::Retry { at_ms, counts, reason } => {
            again(tx, &send, part, (*at_ms, *counts), reason)?;
        }
        Settle::Failed { reason, bad_address } => {
            put(tx, no, part, PartState::Failed)?;
            if *bad_address {
                suppress(tx, &send, reason)?;
            }
            stop(tx, &mut send, SendState::Dead, reason)?;
        }
        Settle::Unknown { reason } => unknown(tx, &mut send, part, reason)?,
        Settle::Blocked { reason, state } => {
            put(tx, no, part, PartState::Void)?;
            stop(tx, &mut send, *state, reason)?;
        }
    }
    Ok(OutboundOutcome::Settled(touched(&send)?))
}

fn touched(send: &Head) -> Result<Touched, Failure> {
    Ok(send.touched(send_state(send.state)?))
}

fn told(settle: &Settle) -> (&'static str, Option<&str>) {
    match settle {
        Settle::Sent { .. } => ("sent", None),
        Settle::Retry { reason, .. } => ("retry", Some(reason)),
        Settle::Failed { reason, .. } => ("failed", Some(reason)),
        Settle::Unknown { reason } => ("unknown", Some(reason)),
        Settle::Blocked { reason, .. } => ("blocked", Some(reason)),
    }
}

struct Ended {
    no: i64,
    part: u32,
    attempt: u32,
    began_ms: WallMs,
}

fn note(tx: &mut impl Tx, ended: &Ended, outcome: &str, reason: Option<&str>) -> Result<(), Failure> {
    let sql = "INSERT INTO attempts (send, part, attempt, began_ms, ended_ms, outcome, reason) VALUES (?, ?, ?, ?, ?, ?, ?)";
    let at_ms = tx.at_ms();
    tx.later(sql, values![ended.no, ended.part, ended.attempt, ended.began_ms, at_ms, outcome, reason])
}

fn put(tx: &mut impl Tx, no: i64, part: u32, state: PartState) -> Result<(), Failure> {
    tx.later("UPDATE parts SET state = ? WHERE send = ? AND part = ?", values![state as u8, no, part])
}

// A send that has ended meanwhile (withdrawn, stopped) keeps its end.
fn stop(tx: &mut impl Tx, send: &mut Head, to: SendState, reason: &str) -> Result<(), Failure> {
    if send_state(send.state)?.is_terminal() {
        return lane::promote(tx, &lane::of(send), None);
    }
    state::end(tx, send, to, reason)
}

fn sent(
    tx: &mut impl Tx,
    send: &mut Head,
    part: u32,
    message_id: Option<&str>,
    not_before: WallMs,
) -> Result<(), Failure> {
    let sql = "UPDATE parts SET state = ?, message_id = ? WHERE send = ? AND part = ?";
    tx.run(sql, values![PartState::Sent as u8, message_id, send.no, part])?;
    if let Some(message_id) = message_id {
        let sql = "INSERT INTO wire_ids (channel, message_id, send) VALUES (?, ?, ?)
                   ON CONFLICT (channel, message_id) DO NOTHING";
        tx.later(sql, values![send.channel, message_id, send.no])?;
    }
    let left =
        tx.one("SELECT 1 FROM parts WHERE send = ? AND state <> 4 LIMIT 1", values![send.no], |_| Ok(()))?;
    if left.is_none() && send.state == SendState::Sending as u8 {
        let arrived = if send.kind == super::rows::message_number(MessageKind::Question) {
            SendState::Open
        } else {
            SendState::Delivered
        };
        state::set(tx, send, arrived, None)?;
    }
    lane::promote(tx, &lane::of(send), Some(not_before))
}

fn again(
    tx: &mut impl Tx,
    send: &Head,
    part: u32,
    (at_ms, counts): (WallMs, bool),
    reason: &str,
) -> Result<(), Failure> {
    if send_state(send.state)?.is_terminal() {
        put(tx, send.no, part, PartState::Void)?;
        return lane::promote(tx, &lane::of(send), None);
    }
    let sql = "UPDATE parts SET state = ?, next_ms = ?, fails = fails + ? WHERE send = ? AND part = ?";
    tx.later(sql, values![PartState::Due as u8, at_ms, i64::from(counts), send.no, part])?;
    tx.later("UPDATE sends SET reason = ? WHERE no = ?", values![reason, send.no])
}

// What is behind it stays: a person may decide that it goes on.
fn unknown(tx: &mut impl Tx, send: &mut Head, part: u32, reason: &str) -> Result<(), Failure> {
    put(tx, send.no, part, PartState::Unknown)?;
    let sql = "UPDATE parts SET state = ? WHERE send = ? AND state IN (1, 2)";
    tx.run(sql, values![PartState::Parked as u8, send.no])?;
    if !send_state(send.state)?.is_terminal() {
        state::set(tx, send, SendState::Unknown, Some(reason))?;
    }
    lane::promote(tx, &lane::of(send), None)
}

fn suppress(tx: &mut impl Tx, send: &Head, reason: &str) -> Result<(), Failure> {
    let person = super::consent::of(tx, &send.channel, send.to_kind, &send.handle)?;
    let person = person.and_then(|(_, person)| person);
    let key = (send.channel.as_str(), send.to_kind, send.handle.as_str());
    super::consent::put(tx, key, ConsentState::Suppressed, person, "hub", Some(reason))
}

/// Attempts that nobody will report on: made again under the same id where the service removes duplicates, else unknown.
pub(super) fn recover(
    tx: &mut impl Tx,
    channel: &str,
    by_id: bool,
    only_node: Option<u64>,
) -> Result<OutboundOutcome, Failure> {
    let sql = "SELECT send, part, attempt, began_ms FROM parts
               WHERE channel = ? AND state = 3 AND (until_ms <= ? OR (? = 1 AND node <> ?)) ORDER BY send, part LIMIT 500";
    let only = (u8::from(only_node.is_some()), only_node.unwrap_or(0).cast_signed());
    let lost = tx.all(sql, values![channel, tx.at_ms(), only.0, only.1], |row| {
        Ok(Ended {
            no: row.get(0)?,
            part: row.get(1)?,
            attempt: row.get(2)?,
            began_ms: row.get::<Option<WallMs>>(3)?.unwrap_or(0),
        })
    })?;
    let reason = "the hub ended in the middle of the attempt";
    for ended in &lost {
        let Some(mut send) = head(tx, ended.no)? else { continue };
        note(tx, ended, "unknown", Some(reason))?;
        if by_id {
            again(tx, &send, ended.part, (tx.at_ms(), true), reason)?;
        } else {
            unknown(tx, &mut send, ended.part, reason)?;
        }
        tx.admit("outbound.recover", None, format!("{} {} {}", send.send_id, ended.part, ended.attempt));
    }
    Ok(OutboundOutcome::Recovered(lost.len()))
}
