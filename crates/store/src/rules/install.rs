//! The first start: what a store is of.

use super::failure::{Failure, Stop};
use super::tx::Tx;
use super::value::{Row, values};
use super::{credential, vault};
use switchboard_core::ids::{InstanceNo, PersonNo};
use switchboard_core::keys::HubKeys;
use switchboard_core::log::Entry;
use switchboard_core::port::store::{Genesis, Installation};
use switchboard_core::principal::InstanceKind;
use switchboard_core::rights::Rights;
use switchboard_core::write::{NewInstance, Outcome};

/// Reads what [`installation`] takes.
pub(crate) const FIND: &str =
    "SELECT n.org_id, n.org_name, n.owner, p.name, n.hub_instance, i.instance_id, n.epoch, n.keys
    FROM installation n JOIN persons p ON p.id = n.owner JOIN instances i ON i.id = n.hub_instance";

/// The installation out of the row of [`FIND`].
pub(crate) fn installation(row: &dyn Row) -> Result<Installation, Failure> {
    let keys = HubKeys::from_bytes(&row.get::<Vec<u8>>(7)?);
    Ok(Installation {
        org_id: row.get(0)?,
        org_name: row.get(1)?,
        owner: PersonNo(row.get(2)?),
        owner_name: row.get(3)?,
        hub_instance: InstanceNo(row.get(4)?),
        hub_instance_id: row.get(5)?,
        epoch: row.get(6)?,
        keys: keys.ok_or_else(|| Failure::Inconsistent("the hub's keys are damaged".into()))?,
    })
}

/// The installation, if there is one.
#[cfg(feature = "postgres")]
pub(crate) fn find(tx: &mut impl Tx) -> Result<Option<Installation>, Failure> {
    tx.one(FIND, values![], installation)
}

/// Makes the installation of an empty store; the transaction's stamp is that of the genesis.
pub(crate) fn make(tx: &mut impl Tx, genesis: &Genesis) -> Result<(), Failure> {
    let owner = credential::create_person(tx, &genesis.owner_name, "owner")?;
    tx.state_mut().owner = Some(owner);
    let hub = match insert_hub_instance(tx, genesis, owner) {
        Ok(hub) => hub,
        Err(Stop::Failed(failure)) => return Err(failure),
        Err(Stop::Refused(refusal)) => return Err(Failure::Inconsistent(format!("{refusal:?}"))),
    };
    tx.state_mut().hub_instance = Some(hub);
    let sql = "INSERT INTO installation (id, org_id, org_name, owner, hub_instance, epoch, keys, created_ms)
               VALUES (1, ?, ?, ?, ?, ?, ?, ?)";
    let keys = genesis.keys.to_bytes();
    let row = values![
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

// Makes the hub's own instance and the first vault of a new installation.
fn insert_hub_instance(tx: &mut impl Tx, genesis: &Genesis, owner: PersonNo) -> Result<InstanceNo, Stop> {
    let instance = NewInstance {
        instance_id: genesis.hub_instance_id.clone(),
        kind: InstanceKind::Person,
        label: "switchboard".into(),
        owner: None,
        rights: Rights::OWNER,
        token_hash: None,
        keys: None,
    };
    vault::create(tx, genesis.vault, &genesis.vault_name, false)?;
    match credential::insert_instance(tx, &instance, owner)? {
        Outcome::Instance { instance, .. } => Ok(instance),
        other => Err(Failure::Inconsistent(format!("no instance but {other:?}")).into()),
    }
}
