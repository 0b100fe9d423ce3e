//! Streams and the events in them.

use super::super::state::row_range;
use super::super::tx::sql_limit;
use super::broken;
use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use switchboard_core::event::{Addressee, EventKind, StoredEvent};
use switchboard_core::ids::{EventId, InstanceNo, SEQ_MAX, StreamId, VaultId};
use switchboard_core::port::store::{Page, StreamInfo, StreamOwner};
use switchboard_core::time::WallMs;

/// Streams one listing returns at most.
const STREAMS_PAGE_MAX: i64 = 1000;

const EVENT: &str =
    "SELECT id, kind, at_ms, expires_at_ms, thread, reply_to, from_instance, from_agent, to_instance,
                            to_agent, data FROM events";

/// A stored event out of the columns of `EVENT`.
pub(crate) fn event(row: &Row<'_>) -> rusqlite::Result<StoredEvent> {
    let id = EventId::from_row(row.get(0)?);
    let Some(kind) = EventKind::from_number(row.get(1)?) else {
        return broken(1, "an unknown kind of event");
    };
    Ok(StoredEvent {
        id,
        kind,
        at_ms: row.get(2)?,
        expires_at_ms: row.get(3)?,
        thread: row.get::<_, Option<i64>>(4)?.map_or(id, EventId::from_row),
        reply_to: row.get::<_, Option<i64>>(5)?.map(EventId::from_row),
        from_instance: InstanceNo(row.get(6)?),
        from_agent: row.get(7)?,
        to: addressee(row, 8)?,
        data: Bytes::copy_from_slice(row.get_ref(10)?.as_blob()?),
    })
}

/// The addressee out of the column `at` with its instance and the next one with its agent.
pub(crate) fn addressee(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<Addressee>> {
    let to = row.get::<_, Option<u32>>(at)?.zip(row.get::<_, Option<String>>(at + 1)?);
    Ok(to.map(|(instance, agent)| Addressee { instance: InstanceNo(instance), agent }))
}

pub(crate) fn page(
    conn: &Connection,
    stream: StreamId,
    after: u64,
    limit: usize,
    bytes_max: usize,
) -> rusqlite::Result<Page> {
    let sql = "SELECT a, b FROM counters WHERE id = ?";
    let position = conn.prepare_cached(sql)?.query_row([stream.0], |row| Ok((row.get(0)?, row.get(1)?)));
    let Some((head, first)): Option<(i64, i64)> = position.optional()? else {
        return Ok(Page { events: Vec::new(), head: 0, first: 1 });
    };
    let after = EventId { stream, seq: after.min(SEQ_MAX) }.row();
    let sql = format!("{EVENT} WHERE id > ? AND id <= ? ORDER BY id LIMIT ?");
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(params![after, row_range(stream).1, sql_limit(limit)])?;
    let (mut events, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let event = event(row)?;
        bytes += event.data.len();
        if bytes > bytes_max && !events.is_empty() {
            break;
        }
        events.push(event);
    }
    Ok(Page { events, head: head.cast_unsigned(), first: first.cast_unsigned() })
}

pub(crate) fn events(conn: &Connection, ids: &[EventId]) -> rusqlite::Result<Vec<Option<StoredEvent>>> {
    let mut statement = conn.prepare_cached(&format!("{EVENT} WHERE id = ?"))?;
    ids.iter().map(|id| statement.query_row([id.row()], event).optional()).collect()
}

// Replies lie in the thread's own stream, behind its first message.
pub(crate) fn thread(
    conn: &Connection,
    thread: EventId,
    after: u64,
    limit: usize,
) -> rusqlite::Result<Vec<StoredEvent>> {
    let mut found = Vec::new();
    if after < thread.seq && limit > 0 {
        found.extend(events(conn, &[thread])?.into_iter().flatten().filter(|event| event.thread == thread));
    }
    let sql = format!(
        "{EVENT} WHERE id IN (SELECT event FROM replies WHERE thread = ? AND event > ? ORDER BY event LIMIT ?)
         ORDER BY id"
    );
    let after = EventId { stream: thread.stream, seq: after.min(SEQ_MAX) }.row();
    let left = sql_limit(limit.saturating_sub(found.len()));
    let mut statement = conn.prepare_cached(&sql)?;
    for event in statement.query_map(params![thread.row(), after, left], event)? {
        found.push(event?);
    }
    Ok(found)
}

const STREAM: &str =
    "SELECT s.id, s.vault, s.name, s.swarm, c.a, c.b FROM streams s JOIN counters c ON c.id = s.id";

fn stream_info(row: &Row<'_>) -> rusqlite::Result<StreamInfo> {
    let owner = match row.get::<_, Option<[u8; 16]>>(1)? {
        Some(vault) => StreamOwner::Channel { vault: VaultId(vault), name: row.get(2)? },
        None => StreamOwner::Swarm { swarm: row.get(3)? },
    };
    Ok(StreamInfo {
        id: StreamId(row.get(0)?),
        owner,
        head: row.get::<_, i64>(4)?.cast_unsigned(),
        first: row.get::<_, i64>(5)?.cast_unsigned(),
    })
}

pub(crate) fn channels(conn: &Connection, vaults: &[VaultId]) -> rusqlite::Result<Vec<StreamInfo>> {
    let mut statement = conn.prepare_cached(&format!("{STREAM} WHERE s.vault = ? ORDER BY s.id"))?;
    let mut found = Vec::new();
    for vault in vaults {
        for stream in statement.query_map([vault.0], stream_info)? {
            found.push(stream?);
        }
    }
    Ok(found)
}

pub(crate) fn stream(conn: &Connection, owner: &StreamOwner) -> rusqlite::Result<Option<StreamInfo>> {
    match owner {
        StreamOwner::Channel { vault, name } => {
            let sql = format!("{STREAM} WHERE s.vault = ? AND s.name = ?");
            conn.prepare_cached(&sql)?.query_row(params![vault.0, name], stream_info).optional()
        }
        StreamOwner::Swarm { swarm } => {
            let sql = format!("{STREAM} WHERE s.swarm = ?");
            conn.prepare_cached(&sql)?.query_row([swarm], stream_info).optional()
        }
    }
}

pub(crate) fn stream_by_id(conn: &Connection, id: StreamId) -> rusqlite::Result<Option<StreamInfo>> {
    conn.prepare_cached(&format!("{STREAM} WHERE s.id = ?"))?.query_row([id.0], stream_info).optional()
}

pub(crate) fn streams(conn: &Connection, after: u32) -> rusqlite::Result<Vec<StreamInfo>> {
    let mut statement = conn.prepare_cached(&format!("{STREAM} WHERE s.id > ? ORDER BY s.id LIMIT ?"))?;
    let rows = statement.query_map(params![after, STREAMS_PAGE_MAX], stream_info)?;
    rows.collect()
}

pub(crate) fn next_deadline(conn: &Connection) -> rusqlite::Result<Option<WallMs>> {
    let sql = "SELECT min(deadline_ms) FROM questions WHERE state = 1";
    conn.prepare_cached(sql)?.query_row([], |row| row.get(0))
}
