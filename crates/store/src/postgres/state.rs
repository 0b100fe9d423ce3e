//! What the writer keeps in memory, read from the database: names to numbers, and what may act. Another node may change it at any
//! time: the count in `head.directory` says whether it is still good, and is compared in every commit under the head's lock.

use super::ids;
use super::session::{Session, Step};
use crate::moving::{Mark, READ_MARK};
use crate::rules::failure::Failure;
use crate::rules::value::{Row, Value};
use crate::sqlite::state::{Head, State, Swarm, decode_ledger};
use std::sync::Arc;
use switchboard_core::ids::{InstanceNo, PersonNo, StreamId, VaultId};

/// The row that all commits share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeadRow {
    pub(crate) commit: u64,
    pub(crate) digest: [u8; 32],
    pub(crate) version: u64,
    pub(crate) notice: i64,
    pub(crate) directory: i64,
    pub(crate) ledger: switchboard_core::ledger::Ledger,
}

/// Reads it.
pub(crate) const READ_HEAD: &str = "SELECT commit_no, digest, version, notice, directory, ledger FROM head";
/// Reads it, and nobody else may until the transaction ends.
pub(crate) const LOCK_HEAD: &str =
    "SELECT commit_no, digest, version, notice, directory, ledger FROM head FOR UPDATE";

impl HeadRow {
    pub(crate) fn of(rows: &[tokio_postgres::Row]) -> Result<Self, Failure> {
        let row: &dyn Row =
            rows.first().ok_or_else(|| Failure::Inconsistent("the head's row is missing".into()))?;
        Ok(Self {
            commit: row.get::<i64>(0)?.cast_unsigned(),
            digest: row.get(1)?,
            version: row.get::<i64>(2)?.cast_unsigned(),
            notice: row.get(3)?,
            directory: row.get(4)?,
            ledger: decode_ledger(&row.get::<Vec<u8>>(5)?)
                .ok_or_else(|| Failure::Inconsistent("a damaged ledger".into()))?,
        })
    }
}

const QUERIES: [&str; 8] = [
    READ_HEAD,
    "SELECT id FROM vaults",
    "SELECT s.id, s.vault, s.name, c.a, c.b FROM streams s LEFT JOIN counters c ON c.id = s.id",
    "SELECT swarm, stream, expires_at_ms FROM swarms",
    "SELECT id, instance_id, owner, revoked_ms IS NULL FROM instances",
    "SELECT hub_instance, owner FROM installation",
    ids::ANY_HASHED,
    READ_MARK,
];

/// Reads everything, as of one moment; what only this node knows is taken over from `old`. Returns the head as well. Fails when
/// the store is on the move, unless it was opened for that: who marks it changes the count, so every writer comes by here.
pub(crate) fn load(session: &Session, old: &State, moving: bool) -> Result<(State, HeadRow), Failure> {
    let mut steps = vec![Step::Plain("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")];
    steps.extend(QUERIES.map(|sql| Step::One(sql, Vec::new())));
    steps.push(Step::Plain("COMMIT"));
    let answers = session.run(&steps)?;
    if let Some(mark) = answers[8].rows.first().filter(|_| !moving) {
        return Err(Failure::Moving(Mark::of(mark)?));
    }
    let head = HeadRow::of(&answers[1].rows)?;
    let mut state = State {
        commit: head.commit,
        chain: head.digest,
        directory_version: head.version,
        last_notice: head.notice,
        ledger: head.ledger,
        device_polls: old.device_polls.clone(),
        ids_swept: old.ids_swept.clone(),
        agents_swept_ms: old.agents_swept_ms,
        limits_swept_ms: old.limits_swept_ms,
        ..State::default()
    };
    for row in &answers[2].rows {
        let row: &dyn Row = row;
        state.vaults.entry(VaultId(row.get(0)?)).or_default();
    }
    for row in &answers[3].rows {
        stream(&mut state, row)?;
    }
    for row in &answers[4].rows {
        let row: &dyn Row = row;
        let swarm = Swarm { stream: StreamId(row.get(1)?), expires_at_ms: row.get(2)? };
        if let Some(head) = state.streams.get_mut(&swarm.stream.0) {
            head.all_expire_ms = swarm.expires_at_ms;
        }
        state.swarms.insert(row.get(0)?, swarm);
    }
    for row in &answers[5].rows {
        let row: &dyn Row = row;
        let id: Arc<str> = row.get(1)?;
        state.add_instance(InstanceNo(row.get(0)?), id, PersonNo(row.get(2)?), row.get(3)?);
    }
    if let Some(row) = answers[6].rows.first() {
        let row: &dyn Row = row;
        state.hub_instance = Some(InstanceNo(row.get(0)?));
        state.owner = Some(PersonNo(row.get(1)?));
    }
    if let Some(row) = answers[7].rows.first() {
        let row: &dyn Row = row;
        state.hashed_ids = row.get(0)?;
    }
    Ok((state, head))
}

fn stream(state: &mut State, row: &dyn Row) -> Result<(), Failure> {
    let id: u32 = row.get(0)?;
    let vault: Option<[u8; 16]> = row.get(1)?;
    let (Some(last), Some(first)) = (row.get::<Option<i64>>(3)?, row.get::<Option<i64>>(4)?) else {
        return Err(Failure::Inconsistent(format!("stream {id} has no counter")));
    };
    let head =
        Head { last: last.cast_unsigned(), first: first.cast_unsigned(), ..Head::empty(vault.is_none()) };
    state.streams.insert(id, head);
    if let Some(vault) = vault {
        let vault = state.vaults.entry(VaultId(vault)).or_default();
        vault.channels.insert(row.get(2)?, StreamId(id));
    }
    Ok(())
}

/// Takes over positions that were just read: rows of id, a, b.
pub(crate) fn refresh(state: &mut State, rows: &[tokio_postgres::Row]) -> Result<(), Failure> {
    for row in rows {
        let row: &dyn Row = row;
        let Some(head) = state.streams.get_mut(&row.get::<u32>(0)?) else { continue };
        let (last, first) = (row.get::<i64>(1)?.cast_unsigned(), row.get::<i64>(2)?.cast_unsigned());
        if head.first != first {
            head.first_expires_ms = None;
        }
        (head.last, head.first) = (last, first);
    }
    Ok(())
}

/// Numbers as a parameter over arrays takes them.
pub(crate) fn numbers(numbers: impl IntoIterator<Item = u32>) -> Vec<Value<'static>> {
    numbers.into_iter().map(|number| Value::Int(number.into())).collect()
}
