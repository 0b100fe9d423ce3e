//! How what was asked has ended, shown at the message that asked it. Changing a message twice leaves what once would have, so whoever
//! takes one up only leases it.

use super::rows::{
    self, SEND_COLUMNS, approval, approval_columns, content, send, send_columns, topic, topic_columns,
};
use crate::rules::failure::Failure;
use crate::rules::tx::{Tx, sql_limit};
use crate::rules::value::{Row, values};
use switchboard_core::outbound::send::PartState;
use switchboard_core::outbound::write::{Amend, NewSend, OutboundOutcome};
use switchboard_core::time::{SECOND_MS, WallMs};

/// Between two looks at a message that is still on its way.
const LOOK_AGAIN_MS: WallMs = 2 * SECOND_MS;

pub(super) const DUE: &str = concat!(
    "SELECT ",
    send_columns!(),
    ", p.part, p.state, p.content, p.message_id, m.fails, p.round, ",
    topic_columns!(),
    ", ",
    approval_columns!(),
    " FROM amends m JOIN sends s ON s.no = m.send JOIN parts p ON p.send = m.send AND p.part = m.part
      LEFT JOIN topics t ON t.topic_id = coalesce(s.topic_id, s.asks) LEFT JOIN approvals a ON a.send = s.about
      WHERE m.channel = ? AND m.next_ms IS NOT NULL AND m.next_ms <= ? ORDER BY m.next_ms, m.send LIMIT ?"
);
const PART: usize = SEND_COLUMNS;
const TOPIC: usize = PART + 6;
const APPROVAL: usize = TOPIC + rows::TOPIC_COLUMNS;

/// A new send's message is one that can be changed.
pub(super) fn remember(tx: &mut impl Tx, new: &NewSend, no: i64) -> Result<(), Failure> {
    if !new.amends {
        return Ok(());
    }
    let sql = "INSERT INTO amends (send, part, channel, fails, next_ms) VALUES (?, ?, ?, 0, NULL)";
    tx.later(sql, values![no, new.parts.len().cast_signed() as i64, new.channel])
}

/// What the send asked has ended.
pub(super) fn ended(tx: &mut impl Tx, no: i64) -> Result<(), Failure> {
    tx.later("UPDATE amends SET next_ms = ? WHERE send = ?", values![tx.at_ms(), no])
}

/// What is asked about the send has ended.
pub(super) fn ended_about(tx: &mut impl Tx, no: i64) -> Result<(), Failure> {
    let sql = "UPDATE amends SET next_ms = ? WHERE send IN (SELECT no FROM sends WHERE about = ?)";
    tx.later(sql, values![tx.at_ms(), no])
}

/// The question of this topic, which rungs asked once more, has ended.
pub(super) fn ended_asking(tx: &mut impl Tx, topic: &str) -> Result<(), Failure> {
    let sql = "UPDATE amends SET next_ms = ? WHERE send IN (SELECT no FROM sends WHERE asks = ? AND asks IS NOT NULL)";
    tx.later(sql, values![tx.at_ms(), topic])
}

fn due(row: &dyn Row) -> Result<(PartState, Option<Amend>), Failure> {
    let state = rows::part_state(row.get(PART + 1)?)?;
    let message_id = row.get::<Option<String>>(PART + 3)?.filter(|_| state == PartState::Sent);
    let Some(message_id) = message_id else { return Ok((state, None)) };
    let topic = row.get::<Option<String>>(TOPIC)?.map(|_| topic(row, TOPIC)).transpose()?;
    let approval = row.get::<Option<String>>(APPROVAL)?.map(|_| approval(row, APPROVAL)).transpose()?;
    let amend = Amend {
        send: send(row)?,
        part: row.get(PART)?,
        content: content(&row.get::<String>(PART + 2)?)?,
        message_id,
        fails: row.get(PART + 4)?,
        round: row.get(PART + 5)?,
        topic,
        approval,
    };
    Ok((state, Some(amend)))
}

/// Leases messages of a channel that are to be changed.
pub(super) fn claim(
    tx: &mut impl Tx,
    channel: &str,
    limit: usize,
    until_ms: WallMs,
) -> Result<OutboundOutcome, Failure> {
    let found = tx.all(DUE, values![channel, tx.at_ms(), sql_limit(limit)], |row| {
        Ok((row.get::<i64>(0)?, due(row)?))
    })?;
    let mut claimed = Vec::with_capacity(found.len());
    for (no, (state, amend)) in found {
        let next_ms = match (&amend, state) {
            (Some(_), _) => until_ms,
            // It may still leave: held back, in its lane, or on its way.
            (None, PartState::Parked | PartState::Waiting | PartState::Due | PartState::Attempting) => {
                tx.at_ms().saturating_add(LOOK_AGAIN_MS)
            }
            // Nothing arrived that could be changed, or it has no id.
            _ => {
                forget(tx, no)?;
                continue;
            }
        };
        tx.later("UPDATE amends SET next_ms = ? WHERE send = ?", values![next_ms, no])?;
        claimed.extend(amend);
    }
    Ok(OutboundOutcome::Amends(claimed))
}

/// It is shown, or given up; or it is tried again then.
pub(super) fn amended(
    tx: &mut impl Tx,
    no: i64,
    again_ms: Option<WallMs>,
) -> Result<OutboundOutcome, Failure> {
    match again_ms {
        Some(at_ms) => {
            let sql = "UPDATE amends SET next_ms = ?, fails = fails + 1 WHERE send = ?";
            tx.later(sql, values![at_ms, no])?;
        }
        None => forget(tx, no)?,
    }
    Ok(OutboundOutcome::Done)
}

fn forget(tx: &mut impl Tx, no: i64) -> Result<(), Failure> {
    tx.later("DELETE FROM amends WHERE send = ?", values![no])
}
