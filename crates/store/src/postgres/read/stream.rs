//! Streams and the events in them.

use super::broken;
use crate::rules::failure::Failure;
use crate::rules::value::Row;
use bytes::Bytes;
use switchboard_core::event::{Addressee, EventKind, StoredEvent};
use switchboard_core::ids::{EventId, InstanceNo, SEQ_MAX, StreamId, VaultId};
use switchboard_core::port::store::{StreamInfo, StreamOwner};

/// Head, first and the page behind it, as of one moment: the rows of [`event`] from the third column on. A page ends before the
/// row with which it would be larger than asked for, unless that is its first.
pub(crate) const PAGE: &str = "
    SELECT c.a, c.b, e.* FROM counters c LEFT JOIN LATERAL (
        SELECT id, kind, at_ms, expires_at_ms, thread, reply_to, from_instance, from_agent, to_instance, to_agent, data FROM (
            SELECT *, sum(length(data)) OVER (ORDER BY id) AS size, row_number() OVER (ORDER BY id) AS place FROM (
                SELECT * FROM events WHERE id > $2 AND id <= $3 ORDER BY id LIMIT $4
            ) bounded
        ) measured WHERE place = 1 OR size <= $5 ORDER BY id
    ) e ON true WHERE c.id = $1 ORDER BY e.id";

/// Events by their rows.
pub(crate) const EVENTS: &str =
    "SELECT id, kind, at_ms, expires_at_ms, thread, reply_to, from_instance, from_agent, to_instance, to_agent, data
     FROM events WHERE id = ANY($1)";

/// A thread: its first message, if it is one and behind the position, and its replies.
pub(crate) const THREAD: &str =
    "SELECT id, kind, at_ms, expires_at_ms, thread, reply_to, from_instance, from_agent, to_instance, to_agent, data
     FROM events WHERE id > $2 AND (id = $1 AND thread IS NULL OR id IN (
         SELECT event FROM replies WHERE thread = $1 AND event > $2 ORDER BY event LIMIT $3
     )) ORDER BY id LIMIT $3";

/// A stored event out of eleven columns from `at` on.
pub(crate) fn event(row: &dyn Row, at: usize) -> Result<StoredEvent, Failure> {
    let id = EventId::from_row(row.get(at)?);
    let to = row.get::<Option<u32>>(at + 8)?.zip(row.get::<Option<String>>(at + 9)?);
    Ok(StoredEvent {
        id,
        kind: EventKind::from_number(row.get(at + 1)?).ok_or_else(|| broken("an unknown kind of event"))?,
        at_ms: row.get(at + 2)?,
        expires_at_ms: row.get(at + 3)?,
        thread: row.get::<Option<i64>>(at + 4)?.map_or(id, EventId::from_row),
        reply_to: row.get::<Option<i64>>(at + 5)?.map(EventId::from_row),
        from_instance: InstanceNo(row.get(at + 6)?),
        from_agent: row.get(at + 7)?,
        to: to.map(|(instance, agent)| Addressee { instance: InstanceNo(instance), agent }),
        data: Bytes::from(row.get::<Vec<u8>>(at + 10)?),
    })
}

/// The row behind which a position ends.
pub(crate) fn behind(stream: StreamId, seq: u64) -> i64 {
    EventId { stream, seq: seq.min(SEQ_MAX) }.row()
}

/// Streams with their positions; a condition goes behind it.
pub(crate) const STREAMS: &str =
    "SELECT s.id, s.vault, s.name, s.swarm, c.a, c.b FROM streams s JOIN counters c ON c.id = s.id";

/// A row of [`STREAMS`].
pub(crate) fn stream(row: &dyn Row) -> Result<StreamInfo, Failure> {
    let owner = match row.get::<Option<[u8; 16]>>(1)? {
        Some(vault) => StreamOwner::Channel { vault: VaultId(vault), name: row.get(2)? },
        None => StreamOwner::Swarm { swarm: row.get(3)? },
    };
    Ok(StreamInfo {
        id: StreamId(row.get(0)?),
        owner,
        head: row.get::<i64>(4)?.cast_unsigned(),
        first: row.get::<i64>(5)?.cast_unsigned(),
    })
}
