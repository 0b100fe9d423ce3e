//! The states of a send, and what hangs on each change: the counts, the log, its parts, its topic, the floor.

use super::lane;
use super::{Head, head};
use crate::rules::failure::Failure;
use crate::rules::tx::Tx;
use crate::rules::value::values;
use switchboard_core::outbound::send::{ApprovalState, PartState, SendState, TopicState};

/// Counts a send that is in `to` now and was in `from`, or was not there.
pub(super) fn count(tx: &mut impl Tx, from: Option<SendState>, to: SendState) -> Result<(), Failure> {
    let sql = "INSERT INTO send_counts (state, n) VALUES (?, ?)
               ON CONFLICT (state) DO UPDATE SET n = send_counts.n + excluded.n";
    match from {
        Some(from) => tx.later(sql, values![from as u8, -1i64])?,
        None => tx.later(sql, values![0u8, 1i64])?,
    }
    tx.later(sql, values![to as u8, 1i64])
}

/// Moves a send to another state.
pub(super) fn set(
    tx: &mut impl Tx,
    send: &mut Head,
    to: SendState,
    reason: Option<&str>,
) -> Result<(), Failure> {
    let from = super::rows::send_state(send.state)?;
    if from == to {
        return Ok(());
    }
    let sql = "UPDATE sends SET state = ?, reason = ?, updated_ms = ? WHERE no = ?";
    tx.later(sql, values![to as u8, reason, tx.at_ms(), send.no])?;
    count(tx, Some(from), to)?;
    send.state = to as u8;
    tx.admit("outbound.state", None, format!("{} {} {}", send.send_id, from.as_str(), to.as_str()));
    Ok(())
}

/// Ends a send: nothing more of it leaves, its topic closes, the next question gets the floor.
pub(super) fn end(tx: &mut impl Tx, send: &mut Head, to: SendState, reason: &str) -> Result<(), Failure> {
    let sql = "UPDATE parts SET state = ? WHERE send = ? AND state IN (?, ?, ?)";
    let open = (PartState::Waiting as u8, PartState::Due as u8, PartState::Parked as u8);
    tx.run(sql, values![PartState::Void as u8, send.no, open.0, open.1, open.2])?;
    let sql = "SELECT 1 FROM parts WHERE send = ? AND state IN (?, ?, ?) LIMIT 1";
    let left = (PartState::Attempting as u8, PartState::Sent as u8, PartState::Unknown as u8);
    let left = tx.one(sql, values![send.no, left.0, left.1, left.2], |_| Ok(()))?;
    if left.is_none() {
        // Nothing of it has left: the same key may try again (contract section 2).
        tx.run("UPDATE sends SET key = NULL WHERE no = ?", values![send.no])?;
    }
    set(tx, send, to, Some(reason))?;
    let sql = "UPDATE approvals SET state = ? WHERE send = ? AND state = ?";
    tx.run(sql, values![ApprovalState::Void as u8, send.no, ApprovalState::Pending as u8])?;
    lane::promote(tx, &lane::of(send), None)?;
    close_topic(tx, send, to)
}

fn close_topic(tx: &mut impl Tx, send: &Head, to: SendState) -> Result<(), Failure> {
    let state = match to {
        SendState::Answered => TopicState::Answered,
        SendState::Expired => TopicState::Expired,
        _ => TopicState::Withdrawn,
    };
    let Some(topic) = &send.topic_id else { return Ok(()) };
    let sql = "UPDATE topics SET state = ? WHERE topic_id = ? AND state IN (1, 2)";
    tx.run(sql, values![state as u8, topic])?;
    next_on_floor(tx, topic)
}

/// The next question of the floor that `topic` has left gets it.
pub(super) fn next_on_floor(tx: &mut impl Tx, topic: &str) -> Result<(), Failure> {
    let sql = "SELECT floor FROM topics WHERE topic_id = ?";
    let Some(floor) = tx.one(sql, values![topic], |row| row.get::<String>(0))? else { return Ok(()) };
    if is_taken(tx, &floor)? {
        return Ok(());
    }
    let sql = "SELECT t.send FROM topics t JOIN sends s ON s.no = t.send WHERE t.floor = ? AND t.state = 1 AND s.state = ?
               ORDER BY t.deadline_ms IS NULL, t.deadline_ms, t.send LIMIT 1";
    let next = tx.one(sql, values![floor, SendState::Queued as u8], |row| row.get::<i64>(0))?;
    let Some(next) = next else { return Ok(()) };
    let Some(mut next) = head(tx, next)? else { return Ok(()) };
    open(tx, &mut next)
}

/// Whether a question has the floor.
pub(super) fn is_taken(tx: &mut impl Tx, floor: &str) -> Result<bool, Failure> {
    let sql = "SELECT 1 FROM topics WHERE floor = ? AND state = ? LIMIT 1";
    Ok(tx.one(sql, values![floor, TopicState::Open as u8], |_| Ok(()))?.is_some())
}

/// A send begins to leave; a question takes the floor.
pub(super) fn open(tx: &mut impl Tx, send: &mut Head) -> Result<(), Failure> {
    if let Some(topic) = send.topic_id.clone() {
        let sql = "UPDATE topics SET state = ?, opened_ms = ? WHERE topic_id = ?";
        tx.run(sql, values![TopicState::Open as u8, tx.at_ms(), topic])?;
    }
    set(tx, send, SendState::Sending, None)?;
    let sql = "UPDATE parts SET state = ? WHERE send = ? AND state = ?";
    tx.run(sql, values![PartState::Waiting as u8, send.no, PartState::Parked as u8])?;
    lane::promote(tx, &lane::of(send), None)
}

/// A send that is held or queued no longer goes on: it leaves, or waits for the floor.
pub(super) fn go_on(tx: &mut impl Tx, send: &mut Head) -> Result<(), Failure> {
    if let Some(topic) = send.topic_id.clone() {
        let sql = "SELECT floor FROM topics WHERE topic_id = ?";
        let floor = tx.one(sql, values![topic], |row| row.get::<String>(0))?;
        if let Some(floor) = floor
            && is_taken(tx, &floor)?
        {
            let sql = "UPDATE topics SET state = ? WHERE topic_id = ?";
            tx.run(sql, values![TopicState::Queued as u8, topic])?;
            return set(tx, send, SendState::Queued, None);
        }
    }
    open(tx, send)
}
