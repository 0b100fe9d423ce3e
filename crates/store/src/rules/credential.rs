//! Instances, people and what they prove themselves with.

use super::failure::{Applied, Failure, Stop};
use super::presence;
use super::tx::{Tx, found};
use super::value::values;
use switchboard_core::ids::{InstanceNo, PersonNo};
use switchboard_core::limits::{ASSERTION_SKEW_MS, INSTANCES_MAX, LEASE_GRACE_MS, LEASE_MS};
use switchboard_core::port::store::{Credential, InstanceRow};
use switchboard_core::principal::{InstanceKind, Principal};
use switchboard_core::time::WallMs;
use switchboard_core::write::{NewInstance, Outcome, Refusal};

/// The kind of a stored number.
pub(crate) fn kind_of_number(number: u8) -> Option<InstanceKind> {
    let kinds = [InstanceKind::Engine, InstanceKind::Token, InstanceKind::Person];
    kinds.into_iter().find(|kind| kind_number(*kind) == number)
}

/// What a bearer with this end is at `now_ms`, when it belongs to `row`.
pub(crate) fn credential(row: InstanceRow, expires_at: Option<WallMs>, now_ms: WallMs) -> Credential {
    let over = |at: Option<WallMs>| at.is_some_and(|at| at <= now_ms);
    if row.revoked_ms.is_some() {
        Credential::Revoked
    } else if over(expires_at) {
        Credential::Expired
    } else if over(row.grace_until_ms) {
        Credential::LeaseExpired
    } else {
        Credential::Good(Principal {
            instance: row.instance,
            instance_id: row.instance_id,
            label: row.label,
            kind: row.kind,
            owner: row.owner,
            owner_name: row.owner_name,
            rights: row.rights,
            expires_at,
        })
    }
}

/// The stored number of a kind.
pub(crate) fn kind_number(kind: InstanceKind) -> u8 {
    match kind {
        InstanceKind::Engine => 1,
        InstanceKind::Token => 2,
        InstanceKind::Person => 3,
    }
}

pub(super) fn create_instance(tx: &mut impl Tx, new: &NewInstance) -> Applied {
    let owner = match &new.owner {
        None => Owner::Known(tx.state().owner.ok_or_else(no_installation)?),
        Some(name) => {
            match tx.one("SELECT id FROM persons WHERE name = ?", values![name], |row| row.get(0))? {
                Some(known) => Owner::Known(PersonNo(known)),
                None => Owner::New(name),
            }
        }
    };
    may_create(tx, new)?;
    let owner = match owner {
        Owner::Known(known) => known,
        Owner::New(name) => create_person(tx, name, "member")?,
    };
    insert_instance(tx, new, owner)
}

enum Owner<'a> {
    Known(PersonNo),
    New(&'a str),
}

fn no_installation() -> Failure {
    Failure::Inconsistent("the store has no installation yet".into())
}

/// Whether an instance may be made: there is a seat, and neither its id nor its bearer is taken.
pub(super) fn may_create(tx: &mut impl Tx, new: &NewInstance) -> Result<(), Stop> {
    let live = tx.state().instances.values().filter(|instance| instance.live).count();
    if live >= INSTANCES_MAX as usize {
        return Err(Refusal::Full { what: "instances", limit: u64::from(INSTANCES_MAX) }.into());
    }
    if tx.state().instance_numbers.contains_key(new.instance_id.as_str()) {
        return Err(Refusal::NameTaken.into());
    }
    let Some(hash) = &new.token_hash else { return Ok(()) };
    free_token(tx, hash)
}

fn free_token(tx: &mut impl Tx, hash: &[u8; 32]) -> Result<(), Stop> {
    let taken = tx.one("SELECT 1 FROM tokens WHERE hash = ?", values![hash], |_| Ok(()))?;
    taken.map_or(Ok(()), |()| Err(Refusal::NameTaken.into()))
}

/// Makes a person.
pub(crate) fn create_person(tx: &mut impl Tx, name: &str, role: &str) -> Result<PersonNo, Failure> {
    let sql = "INSERT INTO persons (id, name, role, created_ms)
               VALUES ((SELECT coalesce(max(id), 0) + 1 FROM persons), ?, ?, ?)";
    tx.run(sql, values![name, role, tx.at_ms()])?;
    let number = tx.one("SELECT id FROM persons WHERE name = ?", values![name], |row| row.get(0))?;
    number.map(PersonNo).ok_or_else(|| Failure::Inconsistent("too many people".into()))
}

/// Makes an instance that [`may_create`] has let pass.
pub(super) fn insert_instance(tx: &mut impl Tx, new: &NewInstance, owner: PersonNo) -> Applied {
    let sql =
        "INSERT INTO instances (id, instance_id, kind, label, owner, rights, public_key, kx_key, created_ms, grace_until_ms)
               VALUES ((SELECT coalesce(max(id), 0) + 1 FROM instances), ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    // What enrolls with keys gets a lease with them; a long bearer has none.
    let grace_until_ms = new.keys.map(|_| tx.at_ms().saturating_add(LEASE_MS + LEASE_GRACE_MS));
    let (public, exchange) = new.keys.unzip();
    let row = values![
        new.instance_id,
        kind_number(new.kind),
        new.label,
        owner.0,
        new.rights.to_string(),
        public,
        exchange,
        tx.at_ms(),
        grace_until_ms
    ];
    tx.run(sql, row)?;
    let sql = "SELECT id FROM instances WHERE instance_id = ?";
    let number = tx.one(sql, values![&new.instance_id], |row| row.get(0))?;
    let number = number.ok_or_else(|| Failure::Inconsistent("too many instances".into()))?;
    let instance = InstanceNo(number);
    if let Some(hash) = new.token_hash {
        tx.run("INSERT INTO tokens (hash, instance) VALUES (?, ?)", values![hash, instance.0])?;
    }
    tx.state_mut().add_instance(instance, new.instance_id.as_str().into(), owner, true);
    tx.admit("instance.create", None, new.instance_id.as_str());
    Ok(Outcome::Instance { instance, instance_id: new.instance_id.clone() })
}

pub(super) fn revoke(tx: &mut impl Tx, instance_id: &str) -> Applied {
    let instance = found(tx.state().instance_numbers.get(instance_id).copied())?;
    if tx.state().hub_instance == Some(instance) {
        // The hub acts in its own instance's name: without it nothing would work, nor could it be brought back.
        return Err(Refusal::NotYours.into());
    }
    let sql = "UPDATE instances SET revoked_ms = ? WHERE id = ? AND revoked_ms IS NULL";
    if tx.run(sql, values![tx.at_ms(), instance.0])? == 0 {
        return Ok(Outcome::Done);
    }
    if let Some(row) = tx.state_mut().instances.get_mut(&instance.0) {
        row.live = false;
    }
    presence::close_instance(tx, instance)?;
    tx.admit("instance.revoke", None, instance_id);
    Ok(Outcome::Done)
}

pub(super) fn mint(
    tx: &mut impl Tx,
    instance: InstanceNo,
    nonce: &str,
    token_hash: &[u8; 32],
    expires_at_ms: WallMs,
) -> Applied {
    found(tx.state().live(instance))?;
    let sql = "SELECT 1 FROM nonces WHERE instance = ? AND nonce = ?";
    if tx.one(sql, values![instance.0, nonce], |_| Ok(()))?.is_some() {
        return Err(Refusal::NonceUsed.into());
    }
    free_token(tx, token_hash)?;
    // An assertion is good for the skew before and after its stamp; its nonce is kept for twice that and some.
    let nonce_until = tx.at_ms().saturating_add(4 * ASSERTION_SKEW_MS);
    let sql = "INSERT INTO nonces (instance, nonce, expires_at_ms) VALUES (?, ?, ?)";
    tx.run(sql, values![instance.0, nonce, nonce_until])?;
    let sql = "INSERT INTO tokens (hash, instance, expires_at_ms) VALUES (?, ?, ?)";
    tx.run(sql, values![token_hash, instance.0, expires_at_ms])?;
    tx.admit("instance.token", Some(instance), "");
    Ok(Outcome::Done)
}

pub(super) fn renew_lease(tx: &mut impl Tx, instance: InstanceNo, grace_until_ms: WallMs) -> Applied {
    found(tx.state().live(instance))?;
    let sql = "UPDATE instances SET grace_until_ms = ? WHERE id = ?";
    tx.run(sql, values![grace_until_ms, instance.0])?;
    tx.admit("instance.lease", Some(instance), grace_until_ms.to_string());
    Ok(Outcome::Done)
}
