//! Questions nobody answered become task proposals, which a person decides.

use super::append::{EXPIRED, OPEN};
use super::failure::{Applied, Failure};
use super::tx::{Tx, found, sql_limit};
use super::value::values;
use switchboard_core::event::{EventKind, StoredEvent};
use switchboard_core::ids::{EventId, StreamId, VaultId};
use switchboard_core::write::{Outcome, Refusal, TaskChange, TaskData, TaskDecision};

/// Longest title, in characters.
const TITLE_CHARS_MAX: usize = 180;
/// Shortest title, in characters.
const TITLE_CHARS_MIN: usize = 5;

pub(super) fn expire_questions(tx: &mut impl Tx, limit: usize, data: &TaskData) -> Applied {
    let sql = "SELECT event FROM questions WHERE state = ? AND deadline_ms <= ? ORDER BY deadline_ms, event LIMIT ?";
    let due = tx.all(sql, values![OPEN, tx.at_ms(), sql_limit(limit)], |row| row.get::<i64>(0))?;
    for event in &due {
        expire(tx, EventId::from_row(*event), data)?;
    }
    Ok(Outcome::Expired(due.len()))
}

fn expire(tx: &mut impl Tx, question: EventId, data: &TaskData) -> Result<(), Failure> {
    let sql = "UPDATE questions SET state = ? WHERE event = ?";
    tx.run(sql, values![EXPIRED, question.row()])?;
    tx.state_mut().ledger.pending -= 1;
    tx.state_mut().ledger.expired += 1;
    tx.admit("question.expire", None, format!("{}/{}", question.stream.0, question.seq));
    // A swarm has no tasks: there the question is merely over.
    let Some((vault, channel)) = channel_of(tx, question.stream)? else { return Ok(()) };
    let title = title(&question_data(tx, question)?);
    let sql = "UPDATE vaults SET tasks = tasks + 1 WHERE id = ? RETURNING tasks";
    let number: i64 = tx
        .one(sql, values![vault.0], |row| row.get(0))?
        .ok_or_else(|| Failure::Inconsistent(format!("vault {vault} has gone")))?;
    let sql = "INSERT INTO tasks (vault, number, state, title, question, created_ms)
               VALUES (?, ?, 'proposed', ?, ?, ?)";
    tx.run(sql, values![vault.0, number, title, question.row(), tx.at_ms()])?;
    let change = TaskChange {
        vault,
        channel: &channel,
        number: number.cast_unsigned(),
        event: "proposed",
        state: "proposed",
    };
    announce(tx, question.stream, &change, data)
}

pub(super) fn decide(
    tx: &mut impl Tx,
    vault: VaultId,
    number: u64,
    decision: TaskDecision,
    data: &TaskData,
) -> Applied {
    let sql = "SELECT state, question FROM tasks WHERE vault = ? AND number = ?";
    let key = values![vault.0, number.cast_signed()];
    let task = tx.one(sql, key, |row| Ok((row.get::<String>(0)?, row.get::<i64>(1)?)))?;
    let (state, question) = found(task)?;
    if state != "proposed" {
        return Err(Refusal::TaskState { state: known_state(&state) }.into());
    }
    let (event, state) = match decision {
        TaskDecision::Approve => ("opened", "open"),
        TaskDecision::Decline => ("decided", "rejected"),
    };
    let sql = "UPDATE tasks SET state = ? WHERE vault = ? AND number = ?";
    tx.run(sql, values![state, vault.0, number.cast_signed()])?;
    let stream = EventId::from_row(question).stream;
    let (_, channel) = channel_of(tx, stream)?
        .ok_or_else(|| Failure::Inconsistent(format!("task {number} stands on no channel")))?;
    tx.admit("task.decide", Some(data.by), format!("{vault}/{number} {state}"));
    announce(tx, stream, &TaskChange { vault, channel: &channel, number, event, state }, data)?;
    Ok(Outcome::Task { state })
}

fn known_state(state: &str) -> &'static str {
    ["open", "rejected"].into_iter().find(|known| *known == state).unwrap_or("proposed")
}

fn channel_of(tx: &mut impl Tx, stream: StreamId) -> Result<Option<(VaultId, String)>, Failure> {
    let sql = "SELECT vault, name FROM streams WHERE id = ? AND vault IS NOT NULL";
    tx.one(sql, values![stream.0], |row| Ok((VaultId(row.get(0)?), row.get(1)?)))
}

// A question whose row was lost to damage must not hold up all others for ever: its task has a title of its own.
fn question_data(tx: &mut impl Tx, question: EventId) -> Result<Vec<u8>, Failure> {
    let data = tx.one("SELECT data FROM events WHERE id = ?", values![question.row()], |row| row.get(0))?;
    Ok(data.unwrap_or_default())
}

fn announce(
    tx: &mut impl Tx,
    stream: StreamId,
    change: &TaskChange<'_>,
    data: &TaskData,
) -> Result<(), Failure> {
    let unset = EventId { stream, seq: 0 };
    let event = StoredEvent {
        id: unset,
        kind: EventKind::Task,
        at_ms: tx.at_ms(),
        expires_at_ms: tx.at_ms().saturating_add(data.keep_ms),
        thread: unset,
        reply_to: None,
        from_instance: data.by,
        from_agent: String::new(),
        to: None,
        data: (data.render)(change),
    };
    tx.store(stream, event, true, None).map(drop)
}

/// A task's title out of a question's JSON members: the first line of its text, cut and padded to what a title may be.
fn title(members: &[u8]) -> String {
    let text = super::text::message_text(members).unwrap_or_default();
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("Sealed question");
    let short = line.chars().count() < TITLE_CHARS_MIN;
    let line = if short { format!("Question: {line}") } else { line.to_owned() };
    line.chars().take(TITLE_CHARS_MAX).collect::<String>().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_one_line_of_bounded_length() {
        let of = |text: &str| title(format!(r#""body":{{"text":{}}}"#, serde_json::json!(text)).as_bytes());
        assert_eq!(of("Which retry budget?\nThe old one?"), "Which retry budget?");
        assert_eq!(of("\n  why\nso"), "Question: why");
        assert_eq!(of(&"ü".repeat(500)).chars().count(), TITLE_CHARS_MAX);
        assert_eq!(title(br#""sealed":{"ciphertext":"x"}"#), "Sealed question");
        assert_eq!(title(b"not json"), "Sealed question");
    }
}
