//! Instances and their credentials, agents, vaults, people's handles, and what waits for whom.

use super::super::tx::sql_limit;
use super::broken;
use crate::rules::{self, kind_of_number};
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use switchboard_core::ids::{EventId, InstanceNo, PersonNo, StreamId, VaultId};
use switchboard_core::port::store::{
    AgentRow, Credential, DeviceRow, HandleRow, InstanceRow, Notice, NoticeRow, ReceiptRow, SwarmRow, TaskRow,
};
use switchboard_core::rights::Rights;
use switchboard_core::time::WallMs;
use switchboard_core::write::{Presence, ReceiptState, VaultInfo};

const INSTANCE: &str = "SELECT i.id, i.instance_id, i.kind, i.label, i.owner, p.name, i.rights, i.public_key,
                               i.created_ms, i.revoked_ms, i.grace_until_ms
                        FROM instances i JOIN persons p ON p.id = i.owner";

fn instance_row(row: &Row<'_>) -> rusqlite::Result<InstanceRow> {
    let Some(kind) = kind_of_number(row.get(2)?) else {
        return broken(2, "an unknown kind of instance");
    };
    let Ok(rights) = Rights::parse(&row.get::<_, String>(6)?) else { return broken(6, "an unknown right") };
    Ok(InstanceRow {
        instance: InstanceNo(row.get(0)?),
        instance_id: row.get(1)?,
        kind,
        label: row.get(3)?,
        owner: PersonNo(row.get(4)?),
        owner_name: row.get(5)?,
        rights,
        public_key: row.get(7)?,
        created_ms: row.get(8)?,
        revoked_ms: row.get(9)?,
        grace_until_ms: row.get(10)?,
    })
}

pub(crate) fn instance(conn: &Connection, instance_id: &str) -> rusqlite::Result<Option<InstanceRow>> {
    let sql = format!("{INSTANCE} WHERE i.instance_id = ?");
    conn.prepare_cached(&sql)?.query_row([instance_id], instance_row).optional()
}

pub(crate) fn instances(conn: &Connection) -> rusqlite::Result<Vec<InstanceRow>> {
    let mut statement = conn.prepare_cached(&format!("{INSTANCE} ORDER BY i.id"))?;
    let rows = statement.query_map([], instance_row)?;
    rows.collect()
}

pub(crate) fn credential(
    conn: &Connection,
    token_hash: &[u8; 32],
    now_ms: WallMs,
) -> rusqlite::Result<Option<Credential>> {
    let sql = "SELECT instance, expires_at_ms FROM tokens WHERE hash = ?";
    let token = conn
        .prepare_cached(sql)?
        .query_row([token_hash], |row| Ok((row.get::<_, u32>(0)?, row.get::<_, Option<WallMs>>(1)?)));
    let Some((number, expires_at)) = token.optional()? else { return Ok(None) };
    let sql = format!("{INSTANCE} WHERE i.id = ?");
    let row = conn.prepare_cached(&sql)?.query_row([number], instance_row)?;
    Ok(Some(rules::credential(row, expires_at, now_ms)))
}

fn vault_info(row: &Row<'_>) -> rusqlite::Result<VaultInfo> {
    Ok(VaultInfo { vault: VaultId(row.get(0)?), name: row.get(1)?, sealed: row.get(2)?, label: row.get(3)? })
}

pub(crate) fn vaults(conn: &Connection) -> rusqlite::Result<Vec<VaultInfo>> {
    let mut statement =
        conn.prepare_cached("SELECT id, name, sealed, label FROM vaults ORDER BY created_ms, name")?;
    let rows = statement.query_map([], vault_info)?;
    rows.collect()
}

fn presence(row: &Row<'_>, column: usize) -> rusqlite::Result<Presence> {
    match row.get(column)? {
        1u8 => Ok(Presence::Active),
        2 => Ok(Presence::Idle),
        3 => Ok(Presence::Closed),
        _ => broken(column, "an unknown presence"),
    }
}

pub(crate) fn agents(conn: &Connection, vaults: &[VaultId], after: u64) -> rusqlite::Result<Vec<AgentRow>> {
    let sql =
        "SELECT a.vault, a.instance, i.instance_id, i.label, p.name, a.agent, a.role, a.profile, a.state,
                      a.seen_ms, a.version, a.node
               FROM agents a JOIN instances i ON i.id = a.instance JOIN persons p ON p.id = i.owner
               WHERE a.vault = ? AND a.version > ?";
    let mut statement = conn.prepare_cached(sql)?;
    let mut found = Vec::new();
    for vault in vaults {
        let rows = statement.query_map(params![vault.0, after.cast_signed()], |row| {
            Ok(AgentRow {
                vault: VaultId(row.get(0)?),
                instance: InstanceNo(row.get(1)?),
                instance_id: row.get(2)?,
                instance_label: row.get(3)?,
                owner_name: row.get(4)?,
                agent: row.get(5)?,
                role: row.get(6)?,
                profile: row.get(7)?,
                state: presence(row, 8)?,
                seen_ms: row.get(9)?,
                version: row.get::<_, i64>(10)?.cast_unsigned(),
                node: row.get::<_, i64>(11)?.cast_unsigned(),
            })
        })?;
        for row in rows {
            found.push(row?);
        }
    }
    found.sort_by_key(|row| row.version);
    Ok(found)
}

fn receipt_state(row: &Row<'_>, column: usize) -> rusqlite::Result<ReceiptState> {
    match row.get(column)? {
        1u8 => Ok(ReceiptState::Delivered),
        2 => Ok(ReceiptState::Read),
        _ => broken(column, "an unknown receipt state"),
    }
}

pub(crate) fn notices(
    conn: &Connection,
    instance: InstanceNo,
    after: i64,
    now_ms: WallMs,
    limit: usize,
) -> rusqlite::Result<Vec<NoticeRow>> {
    let sql = "SELECT id, agent, event, client_id, by_agent, state, at_ms, frame, once FROM notices
               WHERE instance = ? AND id > ? AND expires_at_ms > ? ORDER BY id LIMIT ?";
    let mut statement = conn.prepare_cached(sql)?;
    let key = params![instance.0, after, now_ms, sql_limit(limit)];
    let rows = statement.query_map(key, |row| {
        let notice = match row.get::<_, Option<i64>>(2)? {
            Some(event) => Notice::Status {
                event: EventId::from_row(event),
                client_id: row.get(3)?,
                by: row.get(4)?,
                state: receipt_state(row, 5)?,
                at_ms: row.get(6)?,
            },
            None => Notice::Frame { frame: row.get(7)?, once: row.get(8)? },
        };
        Ok(NoticeRow { number: row.get(0)?, agent: row.get(1)?, notice })
    })?;
    rows.collect()
}

pub(crate) fn receipts(conn: &Connection, events: &[EventId]) -> rusqlite::Result<Vec<ReceiptRow>> {
    let sql = "SELECT instance, agent, state, at_ms FROM receipts WHERE event = ? ORDER BY instance, agent";
    let mut statement = conn.prepare_cached(sql)?;
    let mut found = Vec::new();
    for event in events {
        let rows = statement.query_map([event.row()], |row| {
            Ok(ReceiptRow {
                event: *event,
                instance: InstanceNo(row.get(0)?),
                agent: row.get(1)?,
                state: receipt_state(row, 2)?,
                at_ms: row.get(3)?,
            })
        })?;
        for row in rows {
            found.push(row?);
        }
    }
    Ok(found)
}

pub(crate) fn unread(
    conn: &Connection,
    instance: InstanceNo,
    agent: &str,
    limit: usize,
) -> rusqlite::Result<Vec<EventId>> {
    let sql = "SELECT event FROM receipts WHERE instance = ? AND agent = ? AND state = 1
               ORDER BY at_ms, event LIMIT ?";
    let mut statement = conn.prepare_cached(sql)?;
    let key = params![instance.0, agent, sql_limit(limit)];
    let rows = statement.query_map(key, |row| row.get(0).map(EventId::from_row))?;
    rows.collect()
}

pub(crate) fn inbox(
    conn: &Connection,
    instance: InstanceNo,
    agent: &str,
) -> rusqlite::Result<Vec<(StreamId, u64)>> {
    let sql = "SELECT stream, position FROM inboxes WHERE instance = ? AND agent = ? ORDER BY stream";
    let mut statement = conn.prepare_cached(sql)?;
    let rows = statement.query_map(params![instance.0, agent], |row| {
        Ok((StreamId(row.get(0)?), row.get::<_, i64>(1)?.cast_unsigned()))
    })?;
    rows.collect()
}

pub(crate) fn devices(conn: &Connection, now_ms: WallMs) -> rusqlite::Result<Vec<DeviceRow>> {
    let sql = "SELECT user_code, label, expires_at_ms FROM devices WHERE state = 1 AND expires_at_ms > ?
               ORDER BY expires_at_ms, user_code";
    let mut statement = conn.prepare_cached(sql)?;
    let rows = statement.query_map([now_ms], |row| {
        Ok(DeviceRow { user_code: row.get(0)?, label: row.get(1)?, expires_at_ms: row.get(2)? })
    })?;
    rows.collect()
}

pub(crate) fn tasks(conn: &Connection, vault: VaultId) -> rusqlite::Result<Vec<TaskRow>> {
    let sql = "SELECT number, state, title, question, created_ms FROM tasks WHERE vault = ? ORDER BY number";
    let mut statement = conn.prepare_cached(sql)?;
    let rows = statement.query_map([vault.0], |row| {
        Ok(TaskRow {
            vault,
            number: row.get::<_, i64>(0)?.cast_unsigned(),
            state: row.get(1)?,
            title: row.get(2)?,
            question: EventId::from_row(row.get(3)?),
            created_ms: row.get(4)?,
        })
    })?;
    rows.collect()
}

pub(crate) fn swarms(conn: &Connection) -> rusqlite::Result<Vec<SwarmRow>> {
    let sql = "SELECT swarm, title, stream, expires_at_ms IS NULL, created_ms,
                      (SELECT count(*) FROM memberships m WHERE m.swarm = s.swarm)
               FROM swarms s ORDER BY id";
    let mut statement = conn.prepare_cached(sql)?;
    let rows = statement.query_map([], |row| {
        Ok(SwarmRow {
            swarm: row.get(0)?,
            title: row.get(1)?,
            stream: StreamId(row.get(2)?),
            open: row.get(3)?,
            created_ms: row.get(4)?,
            members: row.get(5)?,
        })
    })?;
    rows.collect()
}

pub(crate) fn memberships(conn: &Connection) -> rusqlite::Result<Vec<(String, HandleRow)>> {
    let sql = "SELECT m.swarm, h.handle, h.person, h.since_ms FROM memberships m JOIN handles h ON h.handle = m.handle
               ORDER BY m.person, m.swarm";
    let mut statement = conn.prepare_cached(sql)?;
    let rows = statement.query_map([], |row| {
        let handle = HandleRow { handle: row.get(1)?, person: PersonNo(row.get(2)?), since_ms: row.get(3)? };
        Ok((row.get(0)?, handle))
    })?;
    rows.collect()
}

pub(crate) fn handle(conn: &Connection, handle: &str) -> rusqlite::Result<Option<HandleRow>> {
    let sql = "SELECT handle, person, since_ms FROM handles WHERE handle = ?";
    let row = conn.prepare_cached(sql)?.query_row([handle], |row| {
        Ok(HandleRow { handle: row.get(0)?, person: PersonNo(row.get(1)?), since_ms: row.get(2)? })
    });
    row.optional()
}
