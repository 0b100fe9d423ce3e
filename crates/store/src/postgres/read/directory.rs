//! Instances and their credentials, agents, vaults, people's handles, and what waits for whom.

use super::broken;
use crate::rules::failure::Failure;
use crate::rules::value::Row;
use crate::rules::{self, kind_of_number};
use switchboard_core::ids::{EventId, InstanceNo, PersonNo, StreamId, VaultId};
use switchboard_core::port::store::{
    AgentRow, Credential, DeviceRow, HandleRow, InstanceRow, Notice, NoticeRow, ReceiptRow, SwarmRow, TaskRow,
};
use switchboard_core::rights::Rights;
use switchboard_core::time::WallMs;
use switchboard_core::write::{Presence, ReceiptState, VaultInfo};

/// Instances; a condition goes behind it.
pub(crate) const INSTANCES: &str =
    "SELECT i.id, i.instance_id, i.kind, i.label, i.owner, p.name, i.rights, i.public_key,
        i.created_ms, i.revoked_ms, i.grace_until_ms
    FROM instances i JOIN persons p ON p.id = i.owner";

/// A row of [`INSTANCES`].
pub(crate) fn instance(row: &dyn Row) -> Result<InstanceRow, Failure> {
    Ok(InstanceRow {
        instance: InstanceNo(row.get(0)?),
        instance_id: row.get(1)?,
        kind: kind_of_number(row.get(2)?).ok_or_else(|| broken("an unknown kind of instance"))?,
        label: row.get(3)?,
        owner: PersonNo(row.get(4)?),
        owner_name: row.get(5)?,
        rights: Rights::parse(&row.get::<String>(6)?).map_err(|_| broken("an unknown right"))?,
        public_key: row.get(7)?,
        created_ms: row.get(8)?,
        revoked_ms: row.get(9)?,
        grace_until_ms: row.get(10)?,
    })
}

/// A bearer's instance and, in the last column, its end.
pub(crate) const CREDENTIAL: &str =
    "SELECT i.id, i.instance_id, i.kind, i.label, i.owner, p.name, i.rights, i.public_key,
        i.created_ms, i.revoked_ms, i.grace_until_ms, t.expires_at_ms
    FROM tokens t JOIN instances i ON i.id = t.instance JOIN persons p ON p.id = i.owner WHERE t.hash = $1";

/// A row of [`CREDENTIAL`] at `now_ms`.
pub(crate) fn credential(row: &dyn Row, now_ms: WallMs) -> Result<Credential, Failure> {
    Ok(rules::credential(instance(row)?, row.get(11)?, now_ms))
}

/// Every vault.
pub(crate) const VAULTS: &str = "SELECT id, name, sealed, label FROM vaults ORDER BY created_ms, name";

/// A row of [`VAULTS`].
pub(crate) fn vault(row: &dyn Row) -> Result<VaultInfo, Failure> {
    Ok(VaultInfo { vault: VaultId(row.get(0)?), name: row.get(1)?, sealed: row.get(2)?, label: row.get(3)? })
}

/// Agents of vaults behind a version.
pub(crate) const AGENTS: &str =
    "SELECT a.vault, a.instance, i.instance_id, i.label, p.name, a.agent, a.role, a.profile, a.state, a.seen_ms, a.version,
        a.node
     FROM agents a JOIN instances i ON i.id = a.instance JOIN persons p ON p.id = i.owner
     WHERE a.vault = ANY($1) AND a.version > $2 ORDER BY a.version";

/// A row of [`AGENTS`].
pub(crate) fn agent(row: &dyn Row) -> Result<AgentRow, Failure> {
    let state = match row.get(8)? {
        1u8 => Presence::Active,
        2 => Presence::Idle,
        3 => Presence::Closed,
        _ => return Err(broken("an unknown presence")),
    };
    Ok(AgentRow {
        vault: VaultId(row.get(0)?),
        instance: InstanceNo(row.get(1)?),
        instance_id: row.get(2)?,
        instance_label: row.get(3)?,
        owner_name: row.get(4)?,
        agent: row.get(5)?,
        role: row.get(6)?,
        profile: row.get(7)?,
        state,
        seen_ms: row.get(9)?,
        version: row.get::<i64>(10)?.cast_unsigned(),
        node: row.get::<i64>(11)?.cast_unsigned(),
    })
}

fn receipt_state(row: &dyn Row, column: usize) -> Result<ReceiptState, Failure> {
    match row.get(column)? {
        1u8 => Ok(ReceiptState::Delivered),
        2 => Ok(ReceiptState::Read),
        _ => Err(broken("an unknown receipt state")),
    }
}

/// What waits for an instance.
pub(crate) const NOTICES: &str =
    "SELECT id, agent, event, client_id, by_agent, state, at_ms, frame, once FROM notices
     WHERE instance = $1 AND id > $2 AND expires_at_ms > $3 ORDER BY id LIMIT $4";

/// A row of [`NOTICES`].
pub(crate) fn notice(row: &dyn Row) -> Result<NoticeRow, Failure> {
    let notice = match row.get::<Option<i64>>(2)? {
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
}

/// Receipts of events, in the order in which they are asked for.
pub(crate) const RECEIPTS: &str = "SELECT r.event, r.instance, r.agent, r.state, r.at_ms
     FROM unnest($1::bigint[]) WITH ORDINALITY AS k (event, place) JOIN receipts r ON r.event = k.event
     ORDER BY k.place, r.instance, r.agent";

/// A row of [`RECEIPTS`].
pub(crate) fn receipt(row: &dyn Row) -> Result<ReceiptRow, Failure> {
    Ok(ReceiptRow {
        event: EventId::from_row(row.get(0)?),
        instance: InstanceNo(row.get(1)?),
        agent: row.get(2)?,
        state: receipt_state(row, 3)?,
        at_ms: row.get(4)?,
    })
}

/// What an agent was handed and has not read.
pub(crate) const UNREAD: &str = "SELECT event FROM receipts WHERE instance = $1 AND agent = $2 AND state = 1 ORDER BY at_ms, event LIMIT $3";

/// How far an agent's inbox is.
pub(crate) const INBOX: &str =
    "SELECT stream, position FROM inboxes WHERE instance = $1 AND agent = $2 ORDER BY stream";

/// A row of [`INBOX`].
pub(crate) fn inbox(row: &dyn Row) -> Result<(StreamId, u64), Failure> {
    Ok((StreamId(row.get(0)?), row.get::<i64>(1)?.cast_unsigned()))
}

/// Waiting devices.
pub(crate) const DEVICES: &str =
    "SELECT user_code, label, expires_at_ms FROM devices WHERE state = 1 AND expires_at_ms > $1
     ORDER BY expires_at_ms, user_code";

/// A row of [`DEVICES`].
pub(crate) fn device(row: &dyn Row) -> Result<DeviceRow, Failure> {
    Ok(DeviceRow { user_code: row.get(0)?, label: row.get(1)?, expires_at_ms: row.get(2)? })
}

/// Tasks of a vault.
pub(crate) const TASKS: &str =
    "SELECT number, state, title, question, created_ms FROM tasks WHERE vault = $1 ORDER BY number";

/// A row of [`TASKS`].
pub(crate) fn task(vault: VaultId, row: &dyn Row) -> Result<TaskRow, Failure> {
    Ok(TaskRow {
        vault,
        number: row.get::<i64>(0)?.cast_unsigned(),
        state: row.get(1)?,
        title: row.get(2)?,
        question: EventId::from_row(row.get(3)?),
        created_ms: row.get(4)?,
    })
}

/// Every swarm.
pub(crate) const SWARMS: &str = "SELECT swarm, title, stream, expires_at_ms IS NULL, created_ms,
        (SELECT count(*) FROM memberships m WHERE m.swarm = s.swarm)
    FROM swarms s ORDER BY id";

/// A row of [`SWARMS`].
pub(crate) fn swarm(row: &dyn Row) -> Result<SwarmRow, Failure> {
    Ok(SwarmRow {
        swarm: row.get(0)?,
        title: row.get(1)?,
        stream: StreamId(row.get(2)?),
        open: row.get(3)?,
        created_ms: row.get(4)?,
        members: row.get(5)?,
    })
}

/// Everybody's handles, with the swarm in the last column.
pub(crate) const MEMBERSHIPS: &str = "SELECT h.handle, h.person, h.since_ms, m.swarm
     FROM memberships m JOIN handles h ON h.handle = m.handle ORDER BY m.person, m.swarm";

/// A handle.
pub(crate) const HANDLE: &str = "SELECT handle, person, since_ms FROM handles WHERE handle = $1";

/// A row of [`HANDLE`].
pub(crate) fn handle(row: &dyn Row) -> Result<HandleRow, Failure> {
    Ok(HandleRow { handle: row.get(0)?, person: PersonNo(row.get(1)?), since_ms: row.get(2)? })
}
