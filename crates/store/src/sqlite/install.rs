//! The first start: what a store is of.

use super::apply::{create_person, insert_hub_instance};
use super::failure::{Failure, Stop};
use super::tx::Tx;
use rusqlite::{Connection, OptionalExtension as _, params};
use switchboard_core::ids::{InstanceNo, PersonNo};
use switchboard_core::keys::HubKeys;
use switchboard_core::log::Entry;
use switchboard_core::port::store::{Genesis, Installation};

/// The installation, if there is one.
pub(crate) fn find(conn: &Connection) -> Result<Option<Installation>, Failure> {
    let sql = "SELECT n.org_id, n.org_name, n.owner, p.name, n.hub_instance, i.instance_id, n.epoch, n.keys
               FROM installation n JOIN persons p ON p.id = n.owner JOIN instances i ON i.id = n.hub_instance";
    let found = conn.query_row(sql, [], |row| {
        let Some(keys) = HubKeys::from_bytes(&row.get::<_, Vec<u8>>(7)?) else { return Ok(None) };
        Ok(Some(Installation {
            org_id: row.get(0)?,
            org_name: row.get(1)?,
            owner: PersonNo(row.get(2)?),
            owner_name: row.get(3)?,
            hub_instance: InstanceNo(row.get(4)?),
            hub_instance_id: row.get(5)?,
            epoch: row.get(6)?,
            keys,
        }))
    });
    match found.optional()? {
        None => Ok(None),
        Some(None) => Err(Failure::Inconsistent("the hub's keys are damaged".into())),
        Some(found) => Ok(found),
    }
}

/// Makes the installation of an empty store.
pub(crate) fn make(tx: &mut Tx<'_>, genesis: &Genesis) -> Result<(), Failure> {
    tx.at_ms = genesis.at_ms;
    let owner = create_person(tx, &genesis.owner_name, "owner")?;
    tx.state.owner = Some(owner);
    let hub = match insert_hub_instance(tx, genesis, owner) {
        Ok(hub) => hub,
        Err(Stop::Failed(failure)) => return Err(failure),
        Err(Stop::Refused(refusal)) => return Err(Failure::Inconsistent(format!("{refusal:?}"))),
    };
    tx.state.hub_instance = Some(hub);
    let sql = "INSERT INTO installation (id, org_id, org_name, owner, hub_instance, epoch, keys, created_ms)
               VALUES (1, ?, ?, ?, ?, ?, ?, ?)";
    let keys = genesis.keys.to_bytes();
    let row = params![
        genesis.org_id,
        genesis.org_name,
        owner.0,
        hub.0,
        genesis.epoch,
        keys.as_slice(),
        genesis.at_ms
    ];
    tx.run(sql, row)?;
    tx.note(&Entry::admitted("store.genesis", genesis.hub_instance_id.as_str(), genesis.org_id.as_str()));
    Ok(())
}
