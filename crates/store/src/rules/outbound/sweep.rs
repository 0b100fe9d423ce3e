//! Retention of this plane: texts go, that something was sent and what became of it stays, and so does what a key was used for.

use crate::rules::failure::Failure;
use crate::rules::tx::{Tx, sql_limit};
use crate::rules::value::values;
use switchboard_core::outbound::{HEARD_KEEP_MS, TEXT_KEEP_MS};
use switchboard_core::time::{HOUR_MS, WallMs};

/// How often rate limits and pauses are looked through.
const LIMITS_EVERY_MS: WallMs = HOUR_MS;
/// What is left of a part's content.
const ERASED_PART: &str = r#"{"text":""}"#;

pub(super) const ENDED: &str = "SELECT no, send_id, topic_id FROM sends
    WHERE state > 4 AND body <> '' AND updated_ms <= ? ORDER BY updated_ms LIMIT ?";
pub(super) const HEARD_OVER: &str = "DELETE FROM heard WHERE (channel, event_id) IN
    (SELECT channel, event_id FROM heard WHERE at_ms <= ? ORDER BY at_ms LIMIT ?)";

/// Erases and forgets, at most `room` rows.
pub(in crate::rules) fn sweep(tx: &mut impl Tx, room: &mut usize) -> Result<(), Failure> {
    let before_ms = tx.at_ms().saturating_sub(TEXT_KEEP_MS);
    let ended = tx.all(ENDED, values![before_ms, sql_limit(*room)], |row| {
        Ok((row.get::<i64>(0)?, row.get::<String>(1)?, row.get::<Option<String>>(2)?))
    })?;
    for (no, send_id, topic_id) in &ended {
        erase(tx, *no, topic_id.as_deref())?;
        tx.admit("outbound.erased", None, send_id.as_str());
    }
    *room -= ended.len();
    let before_ms = tx.at_ms().saturating_sub(HEARD_KEEP_MS);
    *room -= tx.run(HEARD_OVER, values![before_ms, sql_limit(*room)])?;
    let sql = "DELETE FROM pairings WHERE code_hash IN (SELECT code_hash FROM pairings WHERE expires_ms <= ? LIMIT ?)";
    *room -= tx.run(sql, values![tx.at_ms(), sql_limit(*room)])?;
    limits(tx, room)
}

// The row with its digest, its key and its place in the counts stays.
fn erase(tx: &mut impl Tx, no: i64, topic_id: Option<&str>) -> Result<(), Failure> {
    let sql = "DELETE FROM wire_ids WHERE (channel, message_id) IN
               (SELECT channel, message_id FROM parts WHERE send = ? AND message_id IS NOT NULL)";
    tx.later(sql, values![no])?;
    // Also those of what was sent again.
    let sql = "DELETE FROM wire_ids WHERE (channel, message_id) IN
               (SELECT s.channel, a.message_id FROM attempts a JOIN sends s ON s.no = a.send
                WHERE a.send = ? AND a.message_id IS NOT NULL)";
    tx.later(sql, values![no])?;
    tx.later("UPDATE parts SET content = ? WHERE send = ?", values![ERASED_PART, no])?;
    tx.later("DELETE FROM attempts WHERE send = ?", values![no])?;
    tx.later("DELETE FROM amends WHERE send = ?", values![no])?;
    tx.later("DELETE FROM quieted WHERE send = ?", values![no])?;
    if let Some(topic) = topic_id {
        let sql = "UPDATE topics SET answer = '' WHERE topic_id = ? AND answer IS NOT NULL";
        tx.later(sql, values![topic])?;
        tx.later(
            "UPDATE rungs SET code = NULL, params = NULL, parts = NULL WHERE topic_id = ?",
            values![topic],
        )?;
    }
    tx.later("UPDATE sends SET body = '', params = '{}' WHERE no = ?", values![no])
}

// An index on when they are over would cost every send; instead all are looked at now and then.
fn limits(tx: &mut impl Tx, room: &mut usize) -> Result<(), Failure> {
    if (0..LIMITS_EVERY_MS).contains(&(tx.at_ms() - tx.state().limits_swept_ms)) {
        return Ok(());
    }
    for sql in [
        "DELETE FROM limits WHERE key IN (SELECT key FROM limits WHERE over_ms <= ? LIMIT ?)",
        "DELETE FROM lanes WHERE lane IN (SELECT lane FROM lanes WHERE next_ms <= ? LIMIT ?)",
    ] {
        *room -= tx.run(sql, values![tx.at_ms(), sql_limit(*room)])?;
    }
    if *room > 0 {
        tx.state_mut().limits_swept_ms = tx.at_ms();
    }
    Ok(())
}
