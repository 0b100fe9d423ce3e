//! Attempts: claimed before the wire, recorded after it, fenced in between (DESIGN laws 5 and 6).

use super::rows::{SEND_COLUMNS, content, send, send_columns, send_state};
use super::{HEAD_COLUMNS, Head, consent, head, head_columns, head_of, lane, state};
use crate::rules::failure::{Failure, Stop};
use crate::rules::tx::{Tx, sql_limit};
use crate::rules::value::{Row, values};
use switchboard_core::limits::NODE_DEAD_MS;
use switchboard_core::outbound::gate::Consent;
use switchboard_core::outbound::send::{ConsentState, PartState, SendState};
use switchboard_core::outbound::write::{Claimed, OutboundOutcome, Settle, Touched};
use switchboard_core::time::WallMs;
use switchboard_core::write::Refusal;

/// Lost attempts that are taken back in one transaction.
const RECOVER_AT_ONCE: i64 = 500;

/// Due parts, with the consent of their addresses. An address that is not listed is none of the list's business, which the
/// engine knows.
pub(super) const DUE: &str = concat!(
    "SELECT ",
    send_columns!(),
    ", p.part, p.attempt, p.fails, p.content, (SELECT count(*) FROM parts o WHERE o.send = p.send), c.state, p.round
     FROM parts p JOIN sends s ON s.no = p.send
     LEFT JOIN consents c ON c.channel = s.channel AND c.to_kind = s.to_kind AND c.handle = s.handle
     WHERE p.channel = ? AND p.state = 2 AND p.next_ms <= ? ORDER BY p.next_ms, p.send, p.part LIMIT ?"
);

fn due(row: &dyn Row) -> Result<Claimed, Failure> {
    let place = (row.get::<u32>(SEND_COLUMNS)?, row.get::<u32>(SEND_COLUMNS + 4)?);
    let known = row.get::<Option<u8>>(SEND_COLUMNS + 5)?.map(super::rows::consent_state).transpose()?;
    Ok(Claimed {
        send: send(row)?,
        place,
        attempt: row.get::<u32>(SEND_COLUMNS + 1)? + 1,
        fails: row.get(SEND_COLUMNS + 2)?,
        round: row.get(SEND_COLUMNS + 6)?,
        content: content(&row.get::<String>(SEND_COLUMNS + 3)?)?,
        consent: known.map_or(Consent::Missing, ConsentState::consent),
        references: Vec::new(),
    })
}

/// Takes due parts: each is `attempting` on disk before anything is sent.
pub(super) fn claim(
    tx: &mut impl Tx,
    channel: &str,
    node: u64,
    limit: usize,
    until_ms: WallMs,
) -> Result<OutboundOutcome, Failure> {
    let mut claimed = tx.all(DUE, values![channel, tx.at_ms(), sql_limit(limit)], due)?;
    for part in claimed.iter_mut().filter(|part| part.place.0 > 1) {
        let sql = "SELECT message_id FROM parts WHERE send = ? AND part < ? AND message_id IS NOT NULL ORDER BY part";
        part.references = tx.all(sql, values![part.send.no, part.place.0], |row| row.get(0))?;
    }
    for part in &claimed {
        let sql = "UPDATE parts SET state = 3, attempt = ?, node = ?, began_ms = ?, until_ms = ? WHERE send = ? AND part = ?";
        let (no, place) = (part.send.no, part.place.0);
        tx.later(sql, values![part.attempt, node.cast_signed(), tx.at_ms(), until_ms, no, place])?;
        tx.admit("outbound.attempt", None, format!("{} {place} {}", part.send.send_id, part.attempt));
    }
    Ok(OutboundOutcome::Claimed(claimed))
}

/// An attempt with what stands around it.
struct At {
    state: PartState,
    attempt: u32,
    round: u32,
    began_ms: WallMs,
    /// Other parts of the send that have not been sent.
    unsent: i64,
    /// The first of them that waits for its turn.
    next: Option<u32>,
    /// Whether anything waits in the lane.
    waiting: bool,
}

pub(super) const AT: &str = concat!(
    "SELECT ",
    head_columns!(),
    ", p.state, p.attempt, p.began_ms, (SELECT count(*) FROM parts o WHERE o.send = p.send AND o.part <> p.part AND o.state <> 4),
     (SELECT min(o.part) FROM parts o WHERE o.send = p.send AND o.state = 1),
     (SELECT min(w.send) FROM parts w WHERE w.lane = p.lane AND w.state = 1), p.round
     FROM parts p JOIN sends s ON s.no = p.send WHERE p.send = ? AND p.part = ?"
);

fn at(row: &dyn Row) -> Result<(Head, At), Failure> {
    let at = At {
        state: super::rows::part_state(row.get(HEAD_COLUMNS)?)?,
        attempt: row.get(HEAD_COLUMNS + 1)?,
        began_ms: row.get::<Option<WallMs>>(HEAD_COLUMNS + 2)?.unwrap_or(0),
        unsent: row.get(HEAD_COLUMNS + 3)?,
        next: row.get(HEAD_COLUMNS + 4)?,
        waiting: row.get::<Option<i64>>(HEAD_COLUMNS + 5)?.is_some(),
        round: row.get(HEAD_COLUMNS + 6)?,
    };
    Ok((head_of(row)?, at))
}

/// Records how an attempt ended. The last attempt's own word settles an outcome that was taken for unknown meanwhile, when it says
/// that the message arrived: nobody has to guess any more (fault K01).
pub(super) fn finish(
    tx: &mut impl Tx,
    (no, part, attempt): (i64, u32, u32),
    settle: &Settle,
) -> Result<OutboundOutcome, Stop> {
    let (mut send, at) = crate::rules::tx::found(tx.one(AT, values![no, part], at)?)?;
    if let Settle::Sent { message_id, .. } = settle
        && sent_before(tx, &send, (part, attempt), at.round, message_id.as_deref())?
    {
        return Ok(OutboundOutcome::Settled(touched(&send)?));
    }
    let late = at.state == PartState::Unknown && matches!(settle, Settle::Sent { .. });
    if at.attempt != attempt || !(late || at.state == PartState::Attempting) {
        return Err(Refusal::Fenced.into());
    }
    let (outcome, reason) = told(settle);
    let ended = Ended { no, part, attempt, round: at.round, began_ms: at.began_ms };
    note(tx, &send, &ended, outcome, reason)?;
    match settle {
        Settle::Sent { message_id, pace_ms } => {
            let not_before = tx.at_ms().saturating_add(*pace_ms);
            sent(tx, &mut send, part, &at, message_id.as_deref(), not_before)?;
        }
        Settle::Retry { at_ms, counts, reason } => again(tx, &send, part, (*at_ms, *counts), reason)?,
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

// What was taken for lost, and sent again by a person under another id, has arrived after all: that is said of the old attempt alone.
fn sent_before(
    tx: &mut impl Tx,
    send: &Head,
    (part, attempt): (u32, u32),
    round: u32,
    message_id: Option<&str>,
) -> Result<bool, Failure> {
    let sql = "UPDATE attempts SET outcome = 'sent', ended_ms = ?, message_id = ?
               WHERE send = ? AND part = ? AND attempt = ? AND round < ? AND outcome = 'unknown'";
    if tx.run(sql, values![tx.at_ms(), message_id, send.no, part, attempt, round])? == 0 {
        return Ok(false);
    }
    if let Some(message_id) = message_id {
        wire_id(tx, send, message_id)?;
    }
    tx.admit("outbound.outcome", None, format!("{} {part} {attempt} sent", send.send_id));
    Ok(true)
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
    round: u32,
    began_ms: WallMs,
}

fn note(
    tx: &mut impl Tx,
    send: &Head,
    ended: &Ended,
    outcome: &str,
    reason: Option<&str>,
) -> Result<(), Failure> {
    let sql = "INSERT INTO attempts (send, part, attempt, began_ms, ended_ms, outcome, reason, round) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
               ON CONFLICT (send, part, attempt) DO UPDATE SET ended_ms = excluded.ended_ms, outcome = excluded.outcome,
                   reason = excluded.reason";
    let at_ms = tx.at_ms();
    tx.later(
        sql,
        values![ended.no, ended.part, ended.attempt, ended.began_ms, at_ms, outcome, reason, ended.round],
    )?;
    tx.admit(
        "outbound.outcome",
        None,
        format!("{} {} {} {outcome}", send.send_id, ended.part, ended.attempt),
    );
    Ok(())
}

fn put(tx: &mut impl Tx, no: i64, part: u32, state: PartState) -> Result<(), Failure> {
    tx.later("UPDATE parts SET state = ? WHERE send = ? AND part = ?", values![state as u8, no, part])
}

// A send that has ended meanwhile (withdrawn, stopped) keeps its end.
fn stop(tx: &mut impl Tx, send: &mut Head, to: SendState, reason: &str) -> Result<(), Failure> {
    if send_state(send.state)?.is_terminal() {
        state::free_key(tx, send, send_state(send.state)?)?;
        return lane::promote(tx, &lane::of(send), None);
    }
    state::fail(tx, send, to, reason)
}

fn sent(
    tx: &mut impl Tx,
    send: &mut Head,
    part: u32,
    at: &At,
    message_id: Option<&str>,
    not_before: WallMs,
) -> Result<(), Failure> {
    let sql = "UPDATE parts SET state = 4, message_id = ? WHERE send = ? AND part = ?";
    tx.later(sql, values![message_id, send.no, part])?;
    if let Some(message_id) = message_id {
        wire_id(tx, send, message_id)?;
        let sql = "UPDATE attempts SET message_id = ? WHERE send = ? AND part = ? AND attempt = ?";
        tx.later(sql, values![message_id, send.no, part, at.attempt])?;
    }
    let lane = lane::of(send);
    if not_before > tx.at_ms() {
        lane::pause(tx, &lane, not_before)?;
    }
    if at.state == PartState::Unknown {
        return state::known_after_all(tx, send, at.unsent);
    }
    if at.unsent == 0 && send.state == SendState::Sending as u8 {
        state::set(tx, send, state::arrived(send), None)?;
    }
    // What belongs together goes out together.
    match at.next {
        Some(next) => lane::due(tx, (send.no, next), not_before),
        None if at.waiting => lane::promote(tx, &lane, Some(not_before)),
        None => Ok(()),
    }
}

fn wire_id(tx: &mut impl Tx, send: &Head, message_id: &str) -> Result<(), Failure> {
    let sql = "INSERT INTO wire_ids (channel, message_id, send) VALUES (?, ?, ?)
               ON CONFLICT (channel, message_id) DO NOTHING";
    tx.later(sql, values![send.channel, message_id, send.no])
}

fn again(
    tx: &mut impl Tx,
    send: &Head,
    part: u32,
    (at_ms, counts): (WallMs, bool),
    reason: &str,
) -> Result<(), Failure> {
    let now = send_state(send.state)?;
    if now.is_terminal() {
        put(tx, send.no, part, PartState::Void)?;
        state::free_key(tx, send, now)?;
        return lane::promote(tx, &lane::of(send), None);
    }
    let sql = "SELECT min(part) FROM parts WHERE send = ? AND state = 1";
    let first = tx.one(sql, values![send.no], |row| row.get::<Option<u32>>(0))?.flatten();
    // Taken up again by a person while this ran: it may wait for the floor, or behind a part before it.
    let (state, first) = match first {
        _ if now == SendState::Queued => (PartState::Parked, None),
        Some(first) if first < part => (PartState::Waiting, Some(first)),
        _ => (PartState::Due, None),
    };
    let sql = "UPDATE parts SET state = ?, next_ms = ?, fails = fails + ? WHERE send = ? AND part = ?";
    tx.later(sql, values![state as u8, at_ms, i64::from(counts), send.no, part])?;
    match first {
        Some(first) => lane::due(tx, (send.no, first), at_ms)?,
        None if state == PartState::Parked => lane::promote(tx, &lane::of(send), None)?,
        None => {}
    }
    tx.later("UPDATE sends SET reason = ? WHERE no = ?", values![reason, send.no])
}

// What is behind it stays: a person may decide that it goes on.
fn unknown(tx: &mut impl Tx, send: &mut Head, part: u32, reason: &str) -> Result<(), Failure> {
    put(tx, send.no, part, PartState::Unknown)?;
    let sql = "UPDATE parts SET state = 8 WHERE send = ? AND state IN (1, 2)";
    tx.later(sql, values![send.no])?;
    if !send_state(send.state)?.is_terminal() {
        state::set(tx, send, SendState::Unknown, Some(reason))?;
    }
    lane::promote(tx, &lane::of(send), None)
}

fn suppress(tx: &mut impl Tx, send: &Head, reason: &str) -> Result<(), Failure> {
    let known = consent::of(tx, &send.channel, send.to_kind, &send.handle)?;
    let person = known.and_then(|known| known.person);
    let key = (send.channel.as_str(), send.to_kind, send.handle.as_str());
    let to = ConsentState::Suppressed;
    let change = consent::Change { to, person, by: "hub", reason: Some(reason), proven: true };
    consent::put(tx, key, known, &change)
}

pub(super) const LOST: &str = "SELECT send, part, attempt, began_ms, round FROM parts
    WHERE channel = ? AND state = 3 AND until_ms <= ? ORDER BY send, part LIMIT ?";
pub(super) const LOST_BY_OTHERS: &str = "SELECT send, part, attempt, began_ms, round FROM parts
    WHERE channel = ? AND state = 3 AND (until_ms <= ? OR node <> ?) ORDER BY send, part LIMIT ?";

// A node that shares the store and beats no more will report on nothing, long before its time is over.
pub(super) const LOST_BY_DEAD: &str = "SELECT send, part, attempt, began_ms, round FROM parts
    WHERE channel = ? AND state = 3 AND (until_ms <= ? OR NOT EXISTS (SELECT 1 FROM nodes n WHERE n.node = parts.node AND n.seen_ms > ?))
    ORDER BY send, part LIMIT ?";

/// What a channel finds when it begins, and looks for now and then: attempts that nobody will report on, and what waited for it to be
/// configured again.
pub(super) fn recover(
    tx: &mut impl Tx,
    channel: &str,
    by_id: bool,
    only_node: Option<u64>,
) -> Result<OutboundOutcome, Failure> {
    let lost = lost(tx, channel, by_id, only_node)?;
    Ok(OutboundOutcome::Recovered(lost + super::strand::bring_back(tx, channel)?))
}

/// Attempts that nobody will report on: made again under the same id where the service removes duplicates, else unknown.
pub(super) fn lost(
    tx: &mut impl Tx,
    channel: &str,
    by_id: bool,
    only_node: Option<u64>,
) -> Result<usize, Failure> {
    let ended = |row: &dyn Row| {
        let began_ms = row.get::<Option<WallMs>>(3)?.unwrap_or(0);
        Ok(Ended { no: row.get(0)?, part: row.get(1)?, attempt: row.get(2)?, round: row.get(4)?, began_ms })
    };
    let lost = match only_node {
        None if tx.one("SELECT 1 FROM nodes LIMIT 1", values![], |_| Ok(()))?.is_some() => {
            let dead_ms = tx.clock_ms()?.saturating_sub(NODE_DEAD_MS);
            tx.all(LOST_BY_DEAD, values![channel, tx.at_ms(), dead_ms, RECOVER_AT_ONCE], ended)?
        }
        None => tx.all(LOST, values![channel, tx.at_ms(), RECOVER_AT_ONCE], ended)?,
        Some(node) => {
            tx.all(LOST_BY_OTHERS, values![channel, tx.at_ms(), node.cast_signed(), RECOVER_AT_ONCE], ended)?
        }
    };
    let reason = "the hub ended in the middle of the attempt";
    for ended in &lost {
        let Some(mut send) = head(tx, ended.no)? else { continue };
        note(tx, &send, ended, "unknown", Some(reason))?;
        // Of a send that has ended meanwhile nothing is made again, and nobody knows whether this arrived.
        if by_id && !send_state(send.state)?.is_terminal() {
            again(tx, &send, ended.part, (tx.at_ms(), true), reason)?;
        } else {
            unknown(tx, &mut send, ended.part, reason)?;
        }
        tx.admit("outbound.recover", None, format!("{} {} {}", send.send_id, ended.part, ended.attempt));
    }
    Ok(lost.len())
}
