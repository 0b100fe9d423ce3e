//! Channels that are not configured any more: what was on its way there is held where everybody sees it, keeps nobody from being asked,
//! and goes on when there is such a channel again.

use super::{Head, attempt, head, lane, state};
use crate::rules::failure::Failure;
use crate::rules::tx::{Tx, sql_limit};
use crate::rules::value::values;
use switchboard_core::outbound::send::{SendState, TopicState};
use switchboard_core::outbound::write::OutboundOutcome;
use switchboard_core::time::WallMs;

/// Sends that go on in one transaction.
const BACK_AT_ONCE: i64 = 500;

pub(super) const STRANDED: &str =
    "SELECT DISTINCT send FROM parts WHERE channel = ? AND state = 9 ORDER BY send LIMIT ?";
// What is being attempted has its end first.
pub(super) const DUE: &str = "SELECT p.send FROM parts p WHERE p.channel = ? AND p.state = 2 AND p.next_ms <= ?
    AND NOT EXISTS (SELECT 1 FROM parts o WHERE o.send = p.send AND o.state = 3) ORDER BY p.next_ms, p.send LIMIT ?";

/// Holds what is due on channels that are not among the `known`, at most `limit` sends.
pub(super) fn strand(
    tx: &mut impl Tx,
    known: &[String],
    only_node: Option<u64>,
    due_ms: WallMs,
    limit: usize,
) -> Result<OutboundOutcome, Failure> {
    for channel in others(tx, "SELECT DISTINCT channel FROM parts WHERE state = 3", known)? {
        attempt::lost(tx, &channel, false, only_node)?;
    }
    let mut stranded = Vec::new();
    for channel in others(tx, "SELECT DISTINCT channel FROM parts WHERE state = 2", known)? {
        // Where something has waited so long, nobody has the channel: what waits behind it, and becomes due with it, is held too.
        let mut due_ms = due_ms;
        while stranded.len() < limit {
            let due: Vec<i64> =
                tx.all(DUE, values![channel, due_ms, sql_limit(limit - stranded.len())], |row| row.get(0))?;
            if due.is_empty() {
                break;
            }
            due_ms = WallMs::MAX;
            for no in due {
                let Some(mut send) = head(tx, no)? else { continue };
                hold(tx, &mut send)?;
                stranded.push(send.touched(SendState::Held));
            }
        }
    }
    Ok(OutboundOutcome::Stranded(stranded))
}

fn others(tx: &mut impl Tx, sql: &'static str, known: &[String]) -> Result<Vec<String>, Failure> {
    let channels: Vec<String> = tx.all(sql, values![], |row| row.get(0))?;
    Ok(channels.into_iter().filter(|channel| !known.contains(channel)).collect())
}

fn hold(tx: &mut impl Tx, send: &mut Head) -> Result<(), Failure> {
    tx.later("UPDATE parts SET state = 9 WHERE send = ? AND state IN (1, 2, 8)", values![send.no])?;
    if let Some(topic) = &send.topic_id {
        let sql = "UPDATE topics SET state = ?, opened_ms = NULL WHERE topic_id = ? AND state = ?";
        tx.later(sql, values![TopicState::Queued as u8, topic, TopicState::Open as u8])?;
    }
    let reason = format!("no channel {:?} is configured; configure it or discard this", send.channel);
    state::set(tx, send, SendState::Held, Some(&reason))?;
    tx.admit("outbound.stranded", None, format!("{} {}", send.send_id, send.channel));
    lane::promote(tx, &lane::of(send), None)?;
    let sql = "SELECT floor FROM topics WHERE topic_id = ?";
    match tx.one(sql, values![send.topic_id], |row| row.get::<String>(0))? {
        Some(floor) => state::next_of(tx, &floor),
        None => Ok(()),
    }
}

/// There is such a channel: what was held goes on, or waits for the floor.
pub(super) fn bring_back(tx: &mut impl Tx, channel: &str) -> Result<usize, Failure> {
    let sends: Vec<i64> = tx.all(STRANDED, values![channel, BACK_AT_ONCE], |row| row.get(0))?;
    for no in &sends {
        let Some(mut send) = head(tx, *no)? else { continue };
        tx.later("UPDATE parts SET state = 8 WHERE send = ? AND state = 9", values![send.no])?;
        if send.state == SendState::Held as u8 {
            state::go_on(tx, &mut send)?;
        }
    }
    Ok(sends.len())
}

/// Whether a send is held since its channel is not configured.
pub(super) fn is_stranded(tx: &mut impl Tx, send: &Head) -> Result<bool, Failure> {
    let sql = "SELECT 1 FROM parts WHERE send = ? AND state = 9 LIMIT 1";
    Ok(tx.one(sql, values![send.no], |_| Ok(()))?.is_some())
}
