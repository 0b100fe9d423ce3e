//! What the writer keeps in memory: names to numbers, heads, the chain's end. Read from the database on open and after
//! every rollback, changed only inside the transaction that changes the rows behind it.

use super::failure::Failure;
use rusqlite::{Connection, Row};
use std::collections::HashMap;
use std::sync::Arc;
use switchboard_core::digest::Digest;
use switchboard_core::ids::{EventId, InstanceNo, PersonNo, SEQ_MAX, StreamId, VaultId};
use switchboard_core::ledger::Ledger;
use switchboard_core::log::GENESIS;

/// Counters that are no stream's, by their row in `counters`.
#[derive(Debug, Clone, Copy)]
#[repr(i64)]
pub(crate) enum Counter {
    /// a = last commit, b = last directory version, more = ledger.
    Store = 0,
    /// a = last notice number.
    Notices = -1,
    /// a = stamp of the last probe.
    Probe = -2,
    /// a = last commit whose ids stand in deduplicating runs.
    Dedup = -3,
}

/// One stream's position.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Head {
    /// Last assigned sequence.
    pub(crate) last: u64,
    /// First sequence retention has left.
    pub(crate) first: u64,
    /// Whether it is a swarm's: its log names no instance.
    pub(crate) swarm: bool,
    /// When all of its events go, whatever they say themselves: its swarm was closed.
    pub(crate) all_expire_ms: Option<i64>,
    /// When its first event goes, once a sweep has looked.
    pub(crate) first_expires_ms: Option<i64>,
}

impl Head {
    /// A stream without events.
    pub(crate) fn empty(swarm: bool) -> Self {
        Self { first: 1, swarm, ..Self::default() }
    }
}

/// One vault.
#[derive(Debug, Default)]
pub(crate) struct Vault {
    /// Its channels by short name.
    pub(crate) channels: HashMap<Box<str>, StreamId>,
}

/// One swarm.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Swarm {
    /// Its stream.
    pub(crate) stream: StreamId,
    /// When its messages go; `None` while it is open.
    pub(crate) expires_at_ms: Option<i64>,
}

/// One instance.
#[derive(Debug, Clone)]
pub(crate) struct Instance {
    /// Public id.
    pub(crate) id: Arc<str>,
    /// Owner.
    pub(crate) owner: PersonNo,
    /// Whether it may still act.
    pub(crate) live: bool,
}

/// The writer's memory.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) vaults: HashMap<VaultId, Vault>,
    pub(crate) swarms: HashMap<Box<str>, Swarm>,
    pub(crate) streams: HashMap<u32, Head>,
    pub(crate) instances: HashMap<u32, Instance>,
    pub(crate) instance_numbers: HashMap<Arc<str>, InstanceNo>,
    /// When waiting devices last polled; of no weight, so not stored.
    pub(crate) device_polls: HashMap<[u8; 32], i64>,
    /// Where the next look through remembered ids begins, where they are rows.
    #[cfg(feature = "postgres")]
    pub(crate) ids_swept: (u32, String),
    /// Whether some of them are hashed: they were copied from an embedded store.
    #[cfg(feature = "postgres")]
    pub(crate) hashed_ids: bool,
    /// When the directory was last looked through for agents that are long gone.
    pub(crate) agents_swept_ms: i64,
    /// When rate limits were last looked through for those that are over.
    pub(crate) limits_swept_ms: i64,
    pub(crate) hub_instance: Option<InstanceNo>,
    pub(crate) owner: Option<PersonNo>,
    pub(crate) commit: u64,
    pub(crate) chain: Digest,
    pub(crate) directory_version: u64,
    pub(crate) last_notice: i64,
    pub(crate) ledger: Ledger,
}

impl State {
    /// Reads everything; an empty schema gives an empty state.
    pub(crate) fn load(conn: &Connection) -> Result<Self, Failure> {
        let mut state = Self { chain: GENESIS, ..Self::default() };
        state.load_vaults(conn)?;
        state.load_streams(conn)?;
        state.load_swarms(conn)?;
        state.load_instances(conn)?;
        state.load_counters(conn)?;
        Ok(state)
    }

    fn load_vaults(&mut self, conn: &Connection) -> Result<(), Failure> {
        each(conn, "SELECT id FROM vaults", |row| {
            self.vaults.insert(VaultId(row.get(0)?), Vault::default());
            Ok(())
        })
    }

    fn load_streams(&mut self, conn: &Connection) -> Result<(), Failure> {
        let sql = "SELECT s.id, s.vault, s.name, c.a, c.b FROM streams s LEFT JOIN counters c ON c.id = s.id";
        let mut orphan = None;
        each(conn, sql, |row| {
            let id: u32 = row.get(0)?;
            let vault: Option<[u8; 16]> = row.get(1)?;
            let (Some(head), Some(first)) = (row.get::<_, Option<i64>>(3)?, row.get::<_, Option<i64>>(4)?)
            else {
                orphan = Some(id);
                return Ok(());
            };
            let (last, first) = (head.cast_unsigned(), first.cast_unsigned());
            let head = Head { last, first, ..Head::empty(vault.is_none()) };
            self.streams.insert(id, head);
            if let Some(vault) = vault {
                let vault = self.vaults.entry(VaultId(vault)).or_default();
                vault.channels.insert(row.get(2)?, StreamId(id));
            }
            Ok(())
        })?;
        orphan.map_or(Ok(()), |id| Err(Failure::Inconsistent(format!("stream {id} has no counter"))))
    }

    fn load_swarms(&mut self, conn: &Connection) -> Result<(), Failure> {
        each(conn, "SELECT swarm, stream, expires_at_ms FROM swarms", |row| {
            let swarm = Swarm { stream: StreamId(row.get(1)?), expires_at_ms: row.get(2)? };
            if let Some(head) = self.streams.get_mut(&swarm.stream.0) {
                head.all_expire_ms = swarm.expires_at_ms;
            }
            self.swarms.insert(row.get(0)?, swarm);
            Ok(())
        })
    }

    fn load_instances(&mut self, conn: &Connection) -> Result<(), Failure> {
        each(conn, "SELECT id, instance_id, owner, revoked_ms IS NULL FROM instances", |row| {
            let number = InstanceNo(row.get(0)?);
            self.add_instance(number, row.get(1)?, PersonNo(row.get(2)?), row.get(3)?);
            Ok(())
        })?;
        each(conn, "SELECT hub_instance, owner FROM installation", |row| {
            self.hub_instance = Some(InstanceNo(row.get(0)?));
            self.owner = Some(PersonNo(row.get(1)?));
            Ok(())
        })
    }

    fn load_counters(&mut self, conn: &Connection) -> Result<(), Failure> {
        each(conn, "SELECT id, a, b, more FROM counters WHERE id <= 0", |row| {
            match row.get::<_, i64>(0)? {
                id if id == Counter::Store as i64 => {
                    self.commit = row.get::<_, i64>(1)?.cast_unsigned();
                    self.directory_version = row.get::<_, i64>(2)?.cast_unsigned();
                    self.ledger = decode_ledger(&row.get::<_, Vec<u8>>(3)?).unwrap_or_default();
                }
                id if id == Counter::Notices as i64 => self.last_notice = row.get(1)?,
                _ => {}
            }
            Ok(())
        })?;
        let (mut commit, mut chain) = (0, GENESIS);
        each(conn, "SELECT commit_no, digest FROM log ORDER BY commit_no DESC LIMIT 1", |row| {
            (commit, chain) = (row.get::<_, i64>(0)?.cast_unsigned(), row.get(1)?);
            Ok(())
        })?;
        self.chain = chain;
        if commit == self.commit {
            return Ok(());
        }
        Err(Failure::Inconsistent(format!("the log ends at commit {commit}, the counter at {}", self.commit)))
    }

    /// Notes an instance.
    pub(crate) fn add_instance(&mut self, number: InstanceNo, id: Arc<str>, owner: PersonNo, live: bool) {
        self.instance_numbers.insert(Arc::clone(&id), number);
        self.instances.insert(number.0, Instance { id, owner, live });
    }

    /// The instance, if it may still act.
    pub(crate) fn live(&self, instance: InstanceNo) -> Option<&Instance> {
        self.instances.get(&instance.0).filter(|instance| instance.live)
    }

    /// Its public id; empty when unknown.
    pub(crate) fn public_id(&self, instance: InstanceNo) -> String {
        self.instances.get(&instance.0).map_or_else(String::new, |instance| instance.id.to_string())
    }

    /// The stream's position.
    pub(crate) fn head(&self, stream: StreamId) -> Option<Head> {
        self.streams.get(&stream.0).copied()
    }
}

fn each(
    conn: &Connection,
    sql: &str,
    mut take: impl FnMut(&Row<'_>) -> rusqlite::Result<()>,
) -> Result<(), Failure> {
    let mut statement = conn.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        take(row)?;
    }
    Ok(())
}

/// The ledger as `counters.more` holds it: eight big-endian numbers.
pub(crate) fn encode_ledger(ledger: &Ledger) -> [u8; 64] {
    let numbers = [
        ledger.accepted,
        ledger.delivered,
        ledger.answered,
        ledger.expired,
        ledger.refused,
        ledger.dead,
        ledger.unknown,
        ledger.pending,
    ];
    let mut bytes = [0; 64];
    for (place, number) in bytes.chunks_exact_mut(8).zip(numbers) {
        place.copy_from_slice(&number.to_be_bytes());
    }
    bytes
}

/// The inverse of [`encode_ledger`].
pub(crate) fn decode_ledger(bytes: &[u8]) -> Option<Ledger> {
    let numbers = bytes.chunks_exact(8).map(|number| number.try_into().map(u64::from_be_bytes));
    let numbers: Vec<u64> = numbers.collect::<Result<_, _>>().ok()?;
    let [accepted, delivered, answered, expired, refused, dead, unknown, pending] = numbers[..] else {
        return None;
    };
    Some(Ledger { accepted, delivered, answered, expired, refused, dead, unknown, pending })
}

/// The first and the last row key of a stream.
pub(crate) fn row_range(stream: StreamId) -> (i64, i64) {
    (EventId { stream, seq: 0 }.row(), EventId { stream, seq: SEQ_MAX }.row())
}
