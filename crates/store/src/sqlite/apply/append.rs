//! Appending an event to a stream.

use super::super::failure::{Applied, Failure, Stop};
use super::super::state::{Head, State};
use super::super::tx::{Tx, found};
use crate::rules::bind::bind;
use crate::rules::{ANSWERED, OPEN, Place, Replied, is_unit};
use rusqlite::{OptionalExtension as _, params};
use switchboard_core::event::{Addressee, EventKind, StoredEvent};
use switchboard_core::ids::{EventId, InstanceNo, PersonNo, STREAM_ID_MAX, StreamId, VaultId};
use switchboard_core::limits::CHANNELS_PER_VAULT_MAX;
use switchboard_core::time::{HOUR_MS, SECOND_MS};
use switchboard_core::write::{Append, Appended, Dedup, Outcome, Refusal, StreamRef};

pub(super) fn append(tx: &mut Tx<'_, '_>, append: &Append) -> Applied {
    if let Some(dedup) = &append.dedup
        && let Some(first) = seen(tx, append.from_instance, dedup)?
    {
        return Ok(Outcome::Appended(first));
    }
    let sender = tx.state.live(append.from_instance).ok_or(Refusal::NotYours)?;
    let owner = sender.owner;
    let place = place(tx, append, owner)?;
    let replied = replied(tx, append, place)?;
    let to = bind(tx, &append.recipient, place, append.from_instance, replied.as_ref())?;
    if append.deadline_ms.is_some_and(|deadline| deadline <= tx.at_ms) {
        return Err(Refusal::DeadlinePast.into());
    }
    let stream = match (&append.stream, place.stream()) {
        (_, Some(stream)) => stream,
        (StreamRef::Channel { vault, name }, None) => create_channel(tx, *vault, name)?,
        (StreamRef::Swarm { .. }, None) => return Err(Refusal::NotFound.into()),
    };
    let appended = insert(tx, append, stream, replied.as_ref(), to)?;
    if let Place::Swarm { handle, .. } = place {
        let since = tx.at_ms.saturating_sub(HOUR_MS);
        tx.run("DELETE FROM swarm_sends WHERE handle = ? AND at_ms <= ?", params![handle, since])?;
        let sql = "INSERT INTO swarm_sends (handle, at_ms, event) VALUES (?, ?, ?)";
        tx.run(sql, params![handle, tx.at_ms, appended.id.row()])?;
    }
    Ok(Outcome::Appended(appended))
}

// The answer a repeat gets: that of the first time.
fn seen(tx: &mut Tx<'_, '_>, instance: InstanceNo, dedup: &Dedup) -> Result<Option<Appended>, Stop> {
    let first = tx.hot.find_dedup.query_row(params![instance.0, dedup.client_id], |row| {
        let appended = Appended {
            id: EventId::from_row(row.get(1)?),
            thread: EventId::from_row(row.get(2)?),
            at_ms: row.get(3)?,
            expires_at_ms: row.get(4)?,
            repeat: true,
        };
        Ok((row.get::<_, [u8; 16]>(0)?, appended))
    });
    match first.optional()? {
        Some((digest, _)) if digest != dedup.digest => Err(Refusal::IdReused.into()),
        first => Ok(first.map(|(_, appended)| appended)),
    }
}

fn place<'a>(tx: &mut Tx<'_, '_>, append: &'a Append, owner: PersonNo) -> Result<Place<'a>, Stop> {
    match &append.stream {
        StreamRef::Channel { vault, name } => {
            let known = found(tx.state.vaults.get(vault))?;
            Ok(Place::Channel { vault: *vault, stream: known.channels.get(name.as_str()).copied() })
        }
        StreamRef::Swarm { swarm } => {
            let known = *found(tx.state.swarms.get(swarm.as_str()))?;
            if known.expires_at_ms.is_some() {
                return Err(Refusal::SwarmClosed.into());
            }
            let (handle, limit) = append.handle.as_ref().ok_or(Refusal::NoHandle)?;
            let sql = "SELECT 1 FROM memberships WHERE swarm = ? AND person = ? AND handle = ?";
            tx.one(sql, params![swarm, owner.0, handle], |_| Ok(()))?.ok_or(Refusal::NoHandle)?;
            within_rate(tx, handle, *limit)?;
            Ok(Place::Swarm { swarm, stream: known.stream, handle })
        }
    }
}

// An exact sliding window: of the last hour's messages the oldest one too many says when the next is taken.
fn within_rate(tx: &Tx<'_, '_>, handle: &str, limit: u32) -> Result<(), Stop> {
    let since = tx.at_ms.saturating_sub(HOUR_MS);
    let sql =
        "SELECT at_ms FROM swarm_sends WHERE handle = ? AND at_ms > ? ORDER BY at_ms DESC LIMIT 1 OFFSET ?";
    let offset = i64::from(limit.saturating_sub(1));
    let oldest = match limit {
        0 => Some(tx.at_ms),
        _ => tx.one(sql, params![handle, since, offset], |row| row.get::<_, i64>(0))?,
    };
    let Some(oldest) = oldest else { return Ok(()) };
    let wait_ms = oldest.saturating_add(HOUR_MS).saturating_sub(tx.at_ms).max(1);
    let retry_after_s = wait_ms.unsigned_abs().div_ceil(SECOND_MS.unsigned_abs());
    Err(Refusal::RateLimited { limit, retry_after_s }.into())
}

// A message of another stream is refused like one that does not exist: the stream is compared before anything is looked
// up, so neither the answer nor its time tells them apart.
fn replied(tx: &Tx<'_, '_>, append: &Append, place: Place<'_>) -> Result<Option<Replied>, Stop> {
    let Some(id) = append.reply_to else { return Ok(None) };
    if place.stream() != Some(id.stream) {
        return Err(Refusal::ReplyNotFound.into());
    }
    let sql = "SELECT thread, from_instance, from_agent, to_instance FROM events WHERE id = ?";
    let replied = tx.one(sql, [id.row()], |row| {
        Ok(Replied {
            id,
            thread: row.get::<_, Option<i64>>(0)?.map_or(id, EventId::from_row),
            from_instance: InstanceNo(row.get(1)?),
            from_agent: row.get(2)?,
            to_instance: row.get::<_, Option<u32>>(3)?.map(InstanceNo),
        })
    })?;
    let me = append.from_instance;
    let visible =
        |replied: &Replied| replied.to_instance.is_none_or(|to| to == me) || replied.from_instance == me;
    replied.filter(visible).map(Some).ok_or(Refusal::ReplyNotFound.into())
}

fn create_channel(tx: &mut Tx<'_, '_>, vault: VaultId, name: &str) -> Result<StreamId, Stop> {
    let channels = tx.state.vaults.get(&vault).map_or(0, |vault| vault.channels.len());
    if channels >= CHANNELS_PER_VAULT_MAX {
        return Err(Refusal::Full { what: "channels", limit: CHANNELS_PER_VAULT_MAX as u64 }.into());
    }
    let stream = create_stream(tx, Head::empty(false))?;
    let sql = "INSERT INTO streams (id, vault, name) VALUES (?, ?, ?)";
    tx.run(sql, params![stream.0, vault.0, name])?;
    let vault = tx.state.vaults.entry(vault).or_default();
    vault.channels.insert(name.into(), stream);
    Ok(stream)
}

/// Takes the next stream number and makes its counter; the caller makes the stream's own row.
pub(super) fn create_stream(tx: &mut Tx<'_, '_>, head: Head) -> Result<StreamId, Stop> {
    // Streams are never deleted: their number is the next one.
    let next = u32::try_from(tx.state.streams.len()).unwrap_or(u32::MAX).saturating_add(1);
    if next > STREAM_ID_MAX {
        return Err(Refusal::Full { what: "streams", limit: u64::from(STREAM_ID_MAX) }.into());
    }
    tx.state.streams.insert(next, head);
    tx.moved(StreamId(next));
    Ok(StreamId(next))
}

fn insert(
    tx: &mut Tx<'_, '_>,
    append: &Append,
    stream: StreamId,
    replied: Option<&Replied>,
    to: Option<Addressee>,
) -> Result<Appended, Stop> {
    let unset = EventId { stream, seq: 0 };
    let event = StoredEvent {
        id: unset,
        kind: append.kind,
        at_ms: tx.at_ms,
        expires_at_ms: append.expires_at_ms,
        thread: replied.map_or(unset, |replied| replied.thread),
        reply_to: append.reply_to,
        from_instance: append.from_instance,
        from_agent: append.from_agent.clone(),
        to,
        data: append.data.clone(),
    };
    let event = tx.store(stream, event, replied.is_none(), append.dedup.as_ref())?;
    let (row, thread) = (event.id.row(), event.thread.row());
    if let Some(dedup) = &append.dedup {
        let key = params![
            append.from_instance.0,
            dedup.client_id,
            dedup.digest,
            row,
            thread,
            event.at_ms,
            event.expires_at_ms
        ];
        tx.hot.insert_dedup.execute(key)?;
    }
    if replied.is_some() {
        tx.run("INSERT INTO replies (thread, event) VALUES (?, ?)", [thread, row])?;
    }
    count(tx, append, row, event.to.is_some())?;
    if let (EventKind::Answer, Some(replied)) = (append.kind, replied) {
        answer(tx, append, replied)?;
    }
    let StoredEvent { id, thread, at_ms, expires_at_ms, .. } = *event;
    Ok(Appended { id, thread, at_ms, expires_at_ms, repeat: false })
}

// Where the new unit stands in the ledger, and its deadline.
fn count(tx: &mut Tx<'_, '_>, append: &Append, row: i64, direct: bool) -> Result<(), Failure> {
    if !is_unit(append.kind) {
        return Ok(());
    }
    let question = append.deadline_ms.filter(|_| append.kind == EventKind::Question);
    if let Some(deadline) = question {
        let sql = "INSERT INTO questions (event, deadline_ms, state) VALUES (?, ?, ?)";
        tx.run(sql, params![row, deadline, OPEN])?;
    }
    let State { ledger, .. } = tx.state;
    ledger.accepted += 1;
    *(if direct || question.is_some() { &mut ledger.pending } else { &mut ledger.delivered }) += 1;
    Ok(())
}

// The first answer settles its question; what the asking agent says to itself is none.
fn answer(tx: &mut Tx<'_, '_>, append: &Append, replied: &Replied) -> Result<(), Failure> {
    if replied.from_instance == append.from_instance && replied.from_agent == append.from_agent {
        return Ok(());
    }
    let sql = "UPDATE questions SET state = ? WHERE event = ? AND state = ?";
    if tx.run(sql, params![ANSWERED, replied.id.row(), OPEN])? > 0 {
        tx.state.ledger.pending -= 1;
        tx.state.ledger.answered += 1;
    }
    Ok(())
}
