//! What ends by the clock: questions and sends past their deadline, approvals nobody decided.

use super::rows::send_state;
use super::{head, state};
use crate::rules::failure::Failure;
use crate::rules::tx::{Tx, sql_limit};
use crate::rules::value::values;
use switchboard_core::outbound::send::{ApprovalState, SendState};
use switchboard_core::outbound::write::{OutboundOutcome, Touched};

pub(super) const OVER: &str = "SELECT s.no FROM sends s WHERE s.state < 5 AND s.deadline_ms <= ?
    AND NOT EXISTS (SELECT 1 FROM parts p WHERE p.send = s.no AND p.state = 3) ORDER BY s.deadline_ms LIMIT ?";
pub(super) const UNKNOWN_OVER: &str =
    "SELECT t.topic_id, s.send_id, s.no, s.state FROM topics t CROSS JOIN sends s
    WHERE t.state IN (1, 2) AND t.state < 3 AND t.deadline_ms <= ? AND s.no = t.send AND s.state > 5 LIMIT ?";

/// Ends them, at most `limit` of each kind.
pub(super) fn expire(tx: &mut impl Tx, limit: usize) -> Result<OutboundOutcome, Failure> {
    let mut ended = Vec::new();
    let now = tx.at_ms();
    // What is being attempted is left to its end: whether it arrived is then known.
    let due = tx.all(OVER, values![now, sql_limit(limit)], |row| row.get(0))?;
    end_all(tx, &due, SendState::Expired, "its deadline passed", &mut ended)?;
    let sql = "SELECT send FROM approvals WHERE state = 1 AND expires_ms <= ? ORDER BY expires_ms LIMIT ?";
    let due: Vec<i64> = tx.all(sql, values![now, sql_limit(limit)], |row| row.get(0))?;
    for send in &due {
        let sql = "UPDATE approvals SET state = ? WHERE send = ? AND state = 1";
        tx.later(sql, values![ApprovalState::Expired as u8, send])?;
    }
    end_all(tx, &due, SendState::Refused, "nobody approved it in time", &mut ended)?;
    close_topics(tx, limit, &mut ended)?;
    Ok(OutboundOutcome::Expired(ended))
}

fn end_all(
    tx: &mut impl Tx,
    sends: &[i64],
    to: SendState,
    reason: &str,
    ended: &mut Vec<Touched>,
) -> Result<(), Failure> {
    for no in sends {
        let Some(mut send) = head(tx, *no)? else { continue };
        if !send_state(send.state)?.is_terminal() {
            state::end(tx, &mut send, to, reason)?;
            ended.push(send.touched(to));
        }
    }
    Ok(())
}

// A question of which nobody knows whether it arrived holds the floor no longer than any other, and one that only others were asked
// ends like any other.
fn close_topics(tx: &mut impl Tx, limit: usize, ended: &mut Vec<Touched>) -> Result<(), Failure> {
    let over = tx.all(UNKNOWN_OVER, values![tx.at_ms(), sql_limit(limit)], |row| {
        Ok((row.get::<String>(0)?, row.get::<String>(1)?, row.get::<i64>(2)?, send_state(row.get(3)?)?))
    })?;
    for (topic, send_id, no, state) in over {
        tx.admit("outbound.expired", None, format!("{topic} {send_id}"));
        if state != SendState::Unknown {
            super::amend::ended(tx, no)?;
        }
        state::close(tx, &topic, SendState::Expired)?;
        ended.push(Touched { send_id, topic_id: Some(topic), state });
    }
    Ok(())
}
