//! Appending an event to a stream.

use super::bind::bind;
use super::failure::{Applied, Failure, Stop};
use super::tx::{Tx, found};
use super::value::values;
use crate::sqlite::state::{Head, State};
use switchboard_core::event::{Addressee, EventKind, StoredEvent};
use switchboard_core::ids::{EventId, InstanceNo, PersonNo, STREAM_ID_MAX, StreamId, VaultId};
use switchboard_core::limits::CHANNELS_PER_VAULT_MAX;
use switchboard_core::time::{HOUR_MS, SECOND_MS};
use switchboard_core::write::{Append, Appended, Dedup, Outcome, Refusal, StreamRef};

/// Question states as stored.
pub(crate) const OPEN: u8 = 1;
/// An answer came.
pub(crate) const ANSWERED: u8 = 2;
/// The deadline, or retention, came first.
pub(crate) const EXPIRED: u8 = 3;

/// Where an event will stand.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place<'a> {
    /// A channel; `None` when it is yet to be made.
    Channel { vault: VaultId, stream: Option<StreamId> },
    /// A swarm, whose member `person` sends under `handle`.
    Swarm { swarm: &'a str, stream: StreamId, handle: &'a str },
}

impl Place<'_> {
    pub(crate) fn stream(self) -> Option<StreamId> {
        match self {
            Self::Channel { stream, .. } => stream,
            Self::Swarm { stream, .. } => Some(stream),
        }
    }
}

/// What matters of a replied message.
#[derive(Debug)]
pub(crate) struct Replied {
    pub(crate) id: EventId,
    pub(crate) thread: EventId,
    pub(crate) from_instance: InstanceNo,
    pub(crate) from_agent: String,
    pub(crate) to: Option<Addressee>,
}

pub(crate) fn append(tx: &mut impl Tx, append: &Append) -> Applied {
    if let Some(dedup) = &append.dedup
        && let Some(first) = seen(tx, append.from_instance, dedup)?
    {
        return Ok(Outcome::Appended(first));
    }
    let sender = tx.state().live(append.from_instance).ok_or(Refusal::NotYours)?;
    let owner = sender.owner;
    let place = place(tx, append, owner)?;
    let replied = replied(tx, append, place)?;
    let to = bind(tx, append, place, replied.as_ref())?;
    if append.deadline_ms.is_some_and(|deadline| deadline <= tx.at_ms()) {
        return Err(Refusal::DeadlinePast.into());
    }
    let stream = match (&append.stream, place.stream()) {
        (_, Some(stream)) => stream,
        (StreamRef::Channel { vault, name }, None) => create_channel(tx, *vault, name)?,
        (StreamRef::Swarm { .. }, None) => return Err(Refusal::NotFound.into()),
    };
    let appended = insert(tx, append, stream, replied.as_ref(), to)?;
    if let Some(dedup) = &append.dedup {
        tx.remember_id(append.from_instance, dedup, &appended)?;
    }
    if let Place::Swarm { handle, .. } = place {
        let since = tx.at_ms().saturating_sub(HOUR_MS);
        tx.later("DELETE FROM swarm_sends WHERE handle = ? AND at_ms <= ?", values![handle, since])?;
        let sql = "INSERT INTO swarm_sends (handle, at_ms, event) VALUES (?, ?, ?)";
        tx.later(sql, values![handle, tx.at_ms(), appended.id.row()])?;
    }
    Ok(Outcome::Appended(appended))
}

// The answer a repeat gets: that of the first time.
fn seen(tx: &mut impl Tx, instance: InstanceNo, dedup: &Dedup) -> Result<Option<Appended>, Stop> {
    match tx.used_id(instance, &dedup.client_id)? {
        Some((digest, _)) if digest != dedup.digest => Err(Refusal::IdReused.into()),
        first => Ok(first.map(|(_, appended)| appended)),
    }
}

fn place<'a>(tx: &mut impl Tx, append: &'a Append, owner: PersonNo) -> Result<Place<'a>, Stop> {
    match &append.stream {
        StreamRef::Channel { vault, name } => {
            let known = found(tx.state().vaults.get(vault))?;
            Ok(Place::Channel { vault: *vault, stream: known.channels.get(name.as_str()).copied() })
        }
        StreamRef::Swarm { swarm } => {
            let known = *found(tx.state().swarms.get(swarm.as_str()))?;
            if known.expires_at_ms.is_some() {
                return Err(Refusal::SwarmClosed.into());
            }
            let (handle, limit) = append.handle.as_ref().ok_or(Refusal::NoHandle)?;
            let sql = "SELECT 1 FROM memberships WHERE swarm = ? AND person = ? AND handle = ?";
            tx.one(sql, values![swarm, owner.0, handle], |_| Ok(()))?.ok_or(Refusal::NoHandle)?;
            within_rate(tx, handle, *limit)?;
            Ok(Place::Swarm { swarm, stream: known.stream, handle })
        }
    }
}

// An exact sliding window: of the last hour's messages the oldest one too many says when the next is taken.
fn within_rate(tx: &mut impl Tx, handle: &str, limit: u32) -> Result<(), Stop> {
    let since = tx.at_ms().saturating_sub(HOUR_MS);
    let sql =
        "SELECT at_ms FROM swarm_sends WHERE handle = ? AND at_ms > ? ORDER BY at_ms DESC LIMIT 1 OFFSET ?";
    let offset = i64::from(limit.saturating_sub(1));
    let oldest = match limit {
        0 => Some(tx.at_ms()),
        _ => tx.one(sql, values![handle, since, offset], |row| row.get::<i64>(0))?,
    };
    let Some(oldest) = oldest else { return Ok(()) };
    let wait_ms = oldest.saturating_add(HOUR_MS).saturating_sub(tx.at_ms()).max(1);
    let retry_after_s = wait_ms.unsigned_abs().div_ceil(SECOND_MS.unsigned_abs());
    Err(Refusal::RateLimited { limit, retry_after_s }.into())
}

// A message of another stream is refused like one that does not exist: the stream is compared before anything is looked
// up, so neither the answer nor its time tells them apart.
fn replied(tx: &mut impl Tx, append: &Append, place: Place<'_>) -> Result<Option<Replied>, Stop> {
    let Some(id) = append.reply_to else { return Ok(None) };
    if place.stream() != Some(id.stream) {
        return Err(Refusal::ReplyNotFound.into());
    }
    let me = append.from_instance;
    let replied = tx.event(id)?.map(|row| Replied {
        id,
        thread: row.thread,
        from_instance: row.from_instance,
        from_agent: row.from_agent,
        to: row.to.map(|(instance, agent)| Addressee { instance, agent }),
    });
    let visible = |replied: &Replied| {
        replied.to.as_ref().is_none_or(|to| to.instance == me) || replied.from_instance == me
    };
    replied.filter(visible).map(Some).ok_or(Refusal::ReplyNotFound.into())
}

fn create_channel(tx: &mut impl Tx, vault: VaultId, name: &str) -> Result<StreamId, Stop> {
    let channels = tx.state().vaults.get(&vault).map_or(0, |vault| vault.channels.len());
    if channels >= CHANNELS_PER_VAULT_MAX {
        return Err(Refusal::Full { what: "channels", limit: CHANNELS_PER_VAULT_MAX as u64 }.into());
    }
    let stream = tx.create_stream(Head::empty(false))?;
    let sql = "INSERT INTO streams (id, vault, name) VALUES (?, ?, ?)";
    tx.run(sql, values![stream.0, vault.0, name])?;
    let vault = tx.state_mut().vaults.entry(vault).or_default();
    vault.channels.insert(name.into(), stream);
    Ok(stream)
}

/// Takes the next stream number and makes its counter; the caller makes the stream's own row.
pub(crate) fn create_stream(tx: &mut impl Tx, head: Head) -> Result<StreamId, Stop> {
    // Streams are never deleted: their number is the next one.
    let next = u32::try_from(tx.state().streams.len()).unwrap_or(u32::MAX).saturating_add(1);
    if next > STREAM_ID_MAX {
        return Err(Refusal::Full { what: "streams", limit: u64::from(STREAM_ID_MAX) }.into());
    }
    tx.state_mut().streams.insert(next, head);
    tx.moved(StreamId(next));
    Ok(StreamId(next))
}

fn insert(
    tx: &mut impl Tx,
    append: &Append,
    stream: StreamId,
    replied: Option<&Replied>,
    to: Option<Addressee>,
) -> Result<Appended, Stop> {
    let unset = EventId { stream, seq: 0 };
    let event = StoredEvent {
        id: unset,
        kind: append.kind,
        at_ms: tx.at_ms(),
        expires_at_ms: append.expires_at_ms,
        thread: replied.map_or(unset, |replied| replied.thread),
        reply_to: append.reply_to,
        from_instance: append.from_instance,
        from_agent: append.from_agent.clone(),
        to,
        data: append.data.clone(),
    };
    let event = tx.store(stream, event, replied.is_none(), append.dedup.as_ref())?;
    let row = event.id.row();
    if replied.is_some() {
        tx.add_reply(event.thread, event.id)?;
    }
    count(tx, append, row, event.to.is_some())?;
    if let (EventKind::Answer, Some(replied)) = (append.kind, replied) {
        answer(tx, append, replied)?;
    }
    let StoredEvent { id, thread, at_ms, expires_at_ms, .. } = *event;
    Ok(Appended { id, thread, at_ms, expires_at_ms, repeat: false })
}

// Where the new unit stands in the ledger, and its deadline.
fn count(tx: &mut impl Tx, append: &Append, row: i64, direct: bool) -> Result<(), Failure> {
    if !is_unit(append.kind) {
        return Ok(());
    }
    let question = append.deadline_ms.filter(|_| append.kind == EventKind::Question);
    if let Some(deadline) = question {
        let sql = "INSERT INTO questions (event, deadline_ms, state) VALUES (?, ?, ?)";
        tx.later(sql, values![row, deadline, OPEN])?;
    }
    let State { ledger, .. } = tx.state_mut();
    ledger.accepted += 1;
    *(if direct || question.is_some() { &mut ledger.pending } else { &mut ledger.delivered }) += 1;
    Ok(())
}

/// Whether the ledger counts events of this kind.
pub(crate) fn is_unit(kind: EventKind) -> bool {
    kind.is_message() || kind == EventKind::Publish
}

// The first answer settles its question; what the asking agent says to itself is none.
fn answer(tx: &mut impl Tx, append: &Append, replied: &Replied) -> Result<(), Failure> {
    if replied.from_instance == append.from_instance && replied.from_agent == append.from_agent {
        return Ok(());
    }
    let sql = "UPDATE questions SET state = ? WHERE event = ? AND state = ?";
    if tx.run(sql, values![ANSWERED, replied.id.row(), OPEN])? > 0 {
        tx.state_mut().ledger.pending -= 1;
        tx.state_mut().ledger.answered += 1;
    }
    Ok(())
}
