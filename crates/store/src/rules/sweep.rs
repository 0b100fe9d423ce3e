//! Retention: what is over goes, a few rows at a time. Something is over from the very millisecond it names.

use super::append::{OPEN, is_unit};
use super::failure::{Applied, Failure};
use super::notice;
use super::tx::{Tx, sql_limit};
use super::value::values;
use crate::sqlite::index::sweep_subject;
use crate::sqlite::state::{Head, State};
use switchboard_core::event::EventKind;
use switchboard_core::ids::{EventId, InstanceNo, StreamId};
use switchboard_core::limits::IDEMPOTENCY_MS;
use switchboard_core::time::{DAY_MS, HOUR_MS, WallMs};
use switchboard_core::write::{Outcome, Presence};

/// How long an expired bearer is still told that it expired.
const TOKEN_GRACE_MS: WallMs = DAY_MS;
/// How long a handoff's id is remembered after its deadline.
const HANDOFF_MS: WallMs = 30 * DAY_MS;
/// How long a closed agent stays in the directory.
const AGENT_MS: WallMs = 30 * DAY_MS;
/// How often the directory is looked through for those.
const AGENTS_EVERY_MS: WallMs = HOUR_MS;

pub(crate) fn sweep(tx: &mut impl Tx, limit: usize) -> Applied {
    let mut room = limit;
    events(tx, &mut room)?;
    for (sql, before_ms) in [
        (
            "DELETE FROM idempotency WHERE (scope, key) IN
             (SELECT scope, key FROM idempotency WHERE at_ms <= ? LIMIT ?)",
            tx.at_ms().saturating_sub(IDEMPOTENCY_MS),
        ),
        (
            "DELETE FROM nonces WHERE (instance, nonce) IN
             (SELECT instance, nonce FROM nonces WHERE expires_at_ms <= ? LIMIT ?)",
            tx.at_ms(),
        ),
        (
            "DELETE FROM tokens WHERE hash IN (SELECT hash FROM tokens WHERE expires_at_ms <= ? LIMIT ?)",
            tx.at_ms().saturating_sub(TOKEN_GRACE_MS),
        ),
        (
            "DELETE FROM devices WHERE device_hash IN
             (SELECT device_hash FROM devices WHERE expires_at_ms <= ? LIMIT ?)",
            tx.at_ms(),
        ),
        (
            "DELETE FROM console_links WHERE hash IN
             (SELECT hash FROM console_links WHERE expires_at_ms <= ? LIMIT ?)",
            tx.at_ms(),
        ),
        (
            "DELETE FROM console_sessions WHERE hash IN
             (SELECT hash FROM console_sessions WHERE ends_ms <= ? LIMIT ?)",
            tx.at_ms(),
        ),
        (
            "DELETE FROM handoffs WHERE (from_instance, handoff_id) IN
             (SELECT from_instance, handoff_id FROM handoffs WHERE deadline_ms <= ? LIMIT ?)",
            tx.at_ms().saturating_sub(HANDOFF_MS),
        ),
    ] {
        room -= tx.run(sql, values![before_ms, sql_limit(room)])?;
    }
    agents(tx, &mut room)?;
    super::outbound::sweep(tx, &mut room)?;
    tx.sweep_ids(limit, &mut room)?;
    // Last, for whoever changes notices holds what all commits share.
    let sql = "DELETE FROM notices WHERE id IN (SELECT id FROM notices WHERE expires_at_ms <= ? LIMIT ?)";
    room -= tx.run(sql, values![tx.at_ms(), sql_limit(room)])?;
    Ok(Outcome::Swept(limit - room))
}

struct Row {
    id: EventId,
    kind: u8,
    thread: Option<i64>,
    to: Option<(InstanceNo, String)>,
    /// Under which its sender's id is remembered.
    id_of_client: Option<(InstanceNo, String)>,
}

/// Streams whose first event is over, or may be.
pub(crate) fn due_streams(state: &State, now: WallMs) -> Vec<u32> {
    let due = |head: &Head| head.first <= head.last && head.first_expires_ms.is_none_or(|at| at <= now);
    let mut due: Vec<u32> = state.streams.iter().filter(|(_, head)| due(head)).map(|(id, _)| *id).collect();
    due.sort_unstable();
    due
}

fn events(tx: &mut impl Tx, room: &mut usize) -> Result<(), Failure> {
    let due = due_streams(tx.state(), tx.at_ms());
    for stream in due {
        if *room == 0 {
            break;
        }
        stream_events(tx, StreamId(stream), room)?;
    }
    Ok(())
}

// Only from the low end, so that what is left has no gaps: an event that is over waits for those before it.
fn stream_events(tx: &mut impl Tx, stream: StreamId, room: &mut usize) -> Result<(), Failure> {
    let (gone, next_expires_ms) = expired(tx, stream, *room)?;
    let ids: Vec<_> = gone.iter().filter_map(|row| row.id_of_client.clone()).collect();
    tx.messages_go(&ids)?;
    for row in &gone {
        remove(tx, row)?;
    }
    *room -= gone.len();
    let Some(head) = tx.state_mut().streams.get_mut(&stream.0) else { return Ok(()) };
    head.first_expires_ms = next_expires_ms;
    let Some(last) = gone.last() else { return Ok(()) };
    head.first = last.id.seq + 1;
    let first = head.first;
    tx.moved(stream);
    tx.admit("retention.sweep", None, sweep_subject(stream, first));
    Ok(())
}

// The expired rows at the low end, and when the one behind them goes.
fn expired(tx: &mut impl Tx, stream: StreamId, limit: usize) -> Result<(Vec<Row>, Option<WallMs>), Failure> {
    let Some(head) = tx.state().head(stream) else { return Ok((Vec::new(), None)) };
    let sql =
        "SELECT id, expires_at_ms, kind, thread, to_instance, to_agent, from_instance, client_id FROM events
               WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?";
    let [from, to] = [head.first, head.last].map(|seq| EventId { stream, seq }.row());
    let rows = tx.all(sql, values![from, to, sql_limit(limit.saturating_add(1))], |row| {
        let to = row.get::<Option<u32>>(4)?.map(InstanceNo).zip(row.get::<Option<String>>(5)?);
        let id = EventId::from_row(row.get(0)?);
        let from = InstanceNo(row.get(6)?);
        let id_of_client = row.get::<Option<String>>(7)?.map(|client_id| (from, client_id));
        Ok((row.get::<i64>(1)?, Row { id, kind: row.get(2)?, thread: row.get(3)?, to, id_of_client }))
    })?;
    let mut gone = Vec::new();
    for (expires_at_ms, row) in rows {
        let expires_at_ms = head.all_expire_ms.unwrap_or(expires_at_ms);
        if expires_at_ms > tx.at_ms() {
            return Ok((gone, Some(expires_at_ms)));
        }
        if gone.len() == limit {
            break;
        }
        gone.push(row);
    }
    Ok((gone, None))
}

fn remove(tx: &mut impl Tx, row: &Row) -> Result<(), Failure> {
    settle(tx, row)?;
    let id = row.id.row();
    tx.later("DELETE FROM receipts WHERE event = ?", values![id])?;
    if let Some(thread) = row.thread {
        tx.later("DELETE FROM replies WHERE thread = ? AND event = ?", values![thread, id])?;
    }
    notice::forget(tx, row.id)?;
    tx.later("DELETE FROM events WHERE id = ?", values![id])?;
    Ok(())
}

// What was still on its way when it went has expired.
fn settle(tx: &mut impl Tx, row: &Row) -> Result<(), Failure> {
    if !EventKind::from_number(row.kind).is_some_and(is_unit) {
        return Ok(());
    }
    let sql = "DELETE FROM questions WHERE event = ? RETURNING state";
    let question: Option<u8> = match EventKind::from_number(row.kind) {
        Some(EventKind::Question) => tx.one(sql, values![row.id.row()], |row| row.get(0))?,
        _ => None,
    };
    let pending = match (question, &row.to) {
        (Some(state), _) => state == OPEN,
        (None, Some((instance, agent))) => {
            let sql = "SELECT 1 FROM receipts WHERE event = ? AND instance = ? AND agent = ?";
            tx.one(sql, values![row.id.row(), instance.0, agent], |_| Ok(()))?.is_none()
        }
        (None, None) => false,
    };
    if pending {
        tx.state_mut().ledger.pending -= 1;
        tx.state_mut().ledger.expired += 1;
    }
    Ok(())
}

fn agents(tx: &mut impl Tx, room: &mut usize) -> Result<(), Failure> {
    if (0..AGENTS_EVERY_MS).contains(&(tx.at_ms() - tx.state().agents_swept_ms)) {
        return Ok(());
    }
    let sql = "DELETE FROM agents WHERE (vault, agent, instance) IN
               (SELECT vault, agent, instance FROM agents WHERE state = ? AND seen_ms <= ? LIMIT ?)";
    let before_ms = tx.at_ms().saturating_sub(AGENT_MS);
    *room -= tx.run(sql, values![Presence::Closed as u8, before_ms, sql_limit(*room)])?;
    if *room > 0 {
        tx.state_mut().agents_swept_ms = tx.at_ms();
    }
    Ok(())
}
