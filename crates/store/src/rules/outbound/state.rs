//! The states of a send, and what hangs on each change: the counts, the log, its parts, its topic, the floor.

use super::{Head, head};
use super::{amend, escalate, lane, quiet};
use crate::rules::failure::Failure;
use crate::rules::tx::{Tx, sql_limit};
use crate::rules::value::{Row, values};
use switchboard_core::outbound::floor::{IN_A_ROW_MAX, gives_way};
use switchboard_core::outbound::send::{ApprovalState, SendState, TopicState};

/// Counts a send that is in `to` now and was in `from`, or was not there.
pub(super) fn count(tx: &mut impl Tx, from: Option<SendState>, to: SendState) -> Result<(), Failure> {
    let sql = "INSERT INTO send_counts (state, n) VALUES (?, ?), (?, 1)
               ON CONFLICT (state) DO UPDATE SET n = send_counts.n + excluded.n";
    let (left, by) = from.map_or((0u8, 1i64), |from| (from as u8, -1));
    tx.later(sql, values![left, by, to as u8])
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
    quiet::spread(tx, send, to)
}

/// Ends a send: nothing more of it leaves, its topic closes, the next question gets the floor.
pub(super) fn end(tx: &mut impl Tx, send: &mut Head, to: SendState, reason: &str) -> Result<(), Failure> {
    let sql = "UPDATE parts SET state = 7 WHERE send = ? AND state IN (1, 2, 8, 9)";
    tx.later(sql, values![send.no])?;
    free_key(tx, send, to)?;
    set(tx, send, to, Some(reason))?;
    let sql = "UPDATE approvals SET state = ? WHERE send = ? AND state = ?";
    tx.later(sql, values![ApprovalState::Void as u8, send.no, ApprovalState::Pending as u8])?;
    amend::ended(tx, send.no)?;
    amend::ended_about(tx, send.no)?;
    lane::promote(tx, &lane::of(send), None)?;
    close_topic(tx, send, to)
}

/// Ends a send that cannot be delivered. A question that others are asked as well goes on without its own message.
pub(super) fn fail(tx: &mut impl Tx, send: &mut Head, to: SendState, reason: &str) -> Result<(), Failure> {
    if escalate::takes_over(tx, send, to, reason)? { Ok(()) } else { end(tx, send, to, reason) }
}

/// Where nothing of a send that failed has left, and nothing of it can any more, the same key may try again (contract section 2).
/// An answer stays the answer to whoever asks again.
pub(super) fn free_key(tx: &mut impl Tx, send: &Head, state: SendState) -> Result<(), Failure> {
    if !matches!(state, SendState::Dead | SendState::Expired | SendState::Refused) {
        return Ok(());
    }
    let sql = "UPDATE sends SET old_key = key, key = NULL WHERE no = ? AND key IS NOT NULL
               AND NOT EXISTS (SELECT 1 FROM parts WHERE send = ? AND state IN (3, 4, 6))";
    tx.later(sql, values![send.no, send.no])
}

/// What a send is once all of it has arrived.
pub(super) fn arrived(send: &Head) -> SendState {
    if send.topic_id.is_some() { SendState::Open } else { SendState::Delivered }
}

/// A part of which nobody knew whether it arrived has arrived: the send goes on from there.
pub(super) fn known_after_all(tx: &mut impl Tx, send: &mut Head, unsent: i64) -> Result<(), Failure> {
    if send.state != SendState::Unknown as u8 {
        return Ok(());
    }
    let topic = match &send.topic_id {
        Some(topic) => {
            let sql = "SELECT state FROM topics WHERE topic_id = ?";
            tx.one(sql, values![topic], |row| row.get::<u8>(0))?
        }
        None => None,
    };
    match topic {
        Some(state) if state > TopicState::Open as u8 => {
            return end(tx, send, SendState::Expired, "its deadline passed");
        }
        // Taken up again while an attempt of before was under way.
        Some(state) if state == TopicState::Queued as u8 => return go_on(tx, send),
        _ => {}
    }
    if unsent > 0 {
        return open(tx, send);
    }
    set(tx, send, arrived(send), None)
}

fn close_topic(tx: &mut impl Tx, send: &Head, to: SendState) -> Result<(), Failure> {
    match &send.topic_id {
        Some(topic) => close(tx, topic, to),
        None => Ok(()),
    }
}

/// A topic is over as its send is: who was asked by a rung is asked no more, and the next question of the floor gets it.
pub(super) fn close(tx: &mut impl Tx, topic: &str, over: SendState) -> Result<(), Failure> {
    let sql = "SELECT floor, state, escalated_by FROM topics WHERE topic_id = ?";
    let map = |row: &dyn Row| Ok((row.get::<String>(0)?, row.get::<u8>(1)?, row.get::<Option<String>>(2)?));
    let Some((floor, state, chain)) = tx.one(sql, values![topic], map)? else { return Ok(()) };
    if state <= TopicState::Open as u8 {
        let to = match over {
            SendState::Answered => TopicState::Answered,
            SendState::Expired => TopicState::Expired,
            _ => TopicState::Withdrawn,
        };
        tx.later("UPDATE topics SET state = ? WHERE topic_id = ?", values![to as u8, topic])?;
        if chain.is_some() {
            escalate::ended(tx, topic, over)?;
        }
    }
    next_of(tx, &floor)
}

pub(super) const NEXT: &str = "SELECT t.send FROM topics t JOIN sends s ON s.no = t.send
    WHERE t.floor = ? AND t.state = 1 AND t.state < 3 AND s.state = 2 AND NOT EXISTS (SELECT 1 FROM quieted q WHERE q.send = t.send)
    ORDER BY t.deadline_ms IS NULL, t.deadline_ms, t.send LIMIT 1";
/// The same, without the questions of one sender.
pub(super) const NEXT_OF_OTHERS: &str = "SELECT t.send FROM topics t JOIN sends s ON s.no = t.send
    WHERE t.floor = ? AND t.state = 1 AND t.state < 3 AND s.state = 2 AND s.instance <> ?
    AND NOT EXISTS (SELECT 1 FROM quieted q WHERE q.send = t.send) ORDER BY t.deadline_ms IS NULL, t.deadline_ms, t.send LIMIT 1";
/// Who had the floor, the latest first. A bearer is one sender, whatever names it calls itself by.
pub(super) const HAD: &str = "SELECT s.instance FROM topics t JOIN sends s ON s.no = t.send
    WHERE t.floor = ? AND t.opened_ms IS NOT NULL ORDER BY t.opened_ms DESC, t.send DESC LIMIT ?";
pub(super) const TAKEN: &str = "SELECT 1 FROM topics WHERE floor = ? AND state = 2 AND state < 3 LIMIT 1";

/// The next question of a floor gets it, if nobody has it.
pub(super) fn next_of(tx: &mut impl Tx, floor: &str) -> Result<(), Failure> {
    if is_taken(tx, floor)? {
        return Ok(());
    }
    while let Some(next) = whose_turn(tx, floor)? {
        let Some(mut next) = head(tx, next)? else { return Ok(()) };
        if !quiet::hold(tx, &next)? {
            return open(tx, &mut next);
        }
    }
    Ok(())
}

// By deadline and age; a sender who had it often in a row lets others go first.
fn whose_turn(tx: &mut impl Tx, floor: &str) -> Result<Option<i64>, Failure> {
    let last: Vec<u32> = tx.all(HAD, values![floor, sql_limit(IN_A_ROW_MAX)], |row| row.get(0))?;
    if let Some(sender) = gives_way(&last)
        && let Some(next) = tx.one(NEXT_OF_OTHERS, values![floor, sender], |row| row.get(0))?
    {
        return Ok(Some(next));
    }
    tx.one(NEXT, values![floor], |row| row.get(0))
}

/// Whether a question has the floor.
pub(super) fn is_taken(tx: &mut impl Tx, floor: &str) -> Result<bool, Failure> {
    Ok(tx.one(TAKEN, values![floor], |_| Ok(()))?.is_some())
}

/// A send begins to leave, or goes on; a question takes the floor.
pub(super) fn open(tx: &mut impl Tx, send: &mut Head) -> Result<(), Failure> {
    if let Some(topic) = send.topic_id.clone() {
        let sql = "UPDATE topics SET state = ?, opened_ms = ? WHERE topic_id = ?";
        tx.later(sql, values![TopicState::Open as u8, tx.at_ms(), topic])?;
        escalate::opened(tx, &topic)?;
    }
    let sql = "UPDATE parts SET state = 1 WHERE send = ? AND state = 8";
    tx.later(sql, values![send.no])?;
    let sql = "SELECT 1 FROM parts WHERE send = ? AND state <> 4 LIMIT 1";
    let left = tx.one(sql, values![send.no], |_| Ok(()))?.is_some();
    // Given up after all of it had arrived, and taken up again: there is nothing to send.
    let to = if left { SendState::Sending } else { arrived(send) };
    set(tx, send, to, None)?;
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
            tx.later(sql, values![TopicState::Queued as u8, topic])?;
            return set(tx, send, SendState::Queued, None);
        }
    }
    if quiet::hold(tx, send)? {
        return quiet::queue(tx, send);
    }
    open(tx, send)
}
