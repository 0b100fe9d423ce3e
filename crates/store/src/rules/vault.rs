//! Vaults and the repositories bound to them.

use super::failure::{Applied, Failure, Stop};
use super::tx::{Tx, found};
use super::value::{Row, values};
use crate::sqlite::state::Vault;
use switchboard_core::ids::VaultId;
use switchboard_core::limits::VAULTS_MAX;
use switchboard_core::write::{Outcome, Refusal, VaultInfo};

/// A vault's row.
pub(crate) fn info(row: &dyn Row) -> Result<VaultInfo, Failure> {
    Ok(VaultInfo { vault: VaultId(row.get(0)?), name: row.get(1)?, sealed: row.get(2)?, label: row.get(3)? })
}

pub(super) fn create(tx: &mut impl Tx, vault: VaultId, name: &str, sealed: bool) -> Applied {
    may_create(tx, vault, name)?;
    insert(tx, VaultInfo { vault, name: name.to_owned(), sealed, label: None })
}

fn may_create(tx: &mut impl Tx, vault: VaultId, name: &str) -> Result<(), Stop> {
    if tx.state().vaults.len() >= VAULTS_MAX {
        return Err(Refusal::Full { what: "vaults", limit: VAULTS_MAX as u64 }.into());
    }
    let taken = tx.one("SELECT 1 FROM vaults WHERE name = ?", values![name], |_| Ok(()))?.is_some();
    if taken || tx.state().vaults.contains_key(&vault) {
        return Err(Refusal::NameTaken.into());
    }
    Ok(())
}

fn insert(tx: &mut impl Tx, info: VaultInfo) -> Applied {
    let sql = "INSERT INTO vaults (id, name, sealed, label, tasks, created_ms) VALUES (?, ?, ?, ?, 0, ?)";
    tx.run(sql, values![info.vault.0, info.name, info.sealed, info.label, tx.at_ms()])?;
    tx.state_mut().vaults.insert(info.vault, Vault::default());
    tx.admit("vault.create", None, info.vault.to_string());
    Ok(Outcome::Vault(info))
}

pub(super) fn resolve(
    tx: &mut impl Tx,
    identity: &str,
    bind: Option<&str>,
    fresh: &(VaultId, String),
    label: Option<&str>,
) -> Applied {
    let sql = "SELECT v.id, v.name, v.sealed, v.label FROM vault_bindings b JOIN vaults v ON v.id = b.vault
               WHERE b.identity = ?";
    if let Some(known) = tx.one(sql, values![identity], info)? {
        return Ok(Outcome::Vault(known));
    }
    let bound = match bind {
        Some(name) => by_name(tx, name, label)?,
        None => make(tx, fresh, label)?,
    };
    let sql = "INSERT INTO vault_bindings (identity, vault, created_ms) VALUES (?, ?, ?)";
    tx.run(sql, values![identity, bound.vault.0, tx.at_ms()])?;
    tx.admit("vault.resolve", None, bound.vault.to_string());
    Ok(Outcome::Vault(bound))
}

fn make(tx: &mut impl Tx, fresh: &(VaultId, String), label: Option<&str>) -> Result<VaultInfo, Stop> {
    may_create(tx, fresh.0, &fresh.1)?;
    let info =
        VaultInfo { vault: fresh.0, name: fresh.1.clone(), sealed: false, label: label.map(str::to_owned) };
    insert(tx, info.clone())?;
    Ok(info)
}

// The named vault; a label is taken over when it has none.
fn by_name(tx: &mut impl Tx, name: &str, label: Option<&str>) -> Result<VaultInfo, Stop> {
    let sql = "SELECT id, name, sealed, label FROM vaults WHERE name = ?";
    let mut known = found(tx.one(sql, values![name], info)?)?;
    if let (None, Some(label)) = (&known.label, label) {
        tx.run("UPDATE vaults SET label = ? WHERE id = ?", values![label, known.vault.0])?;
        known.label = Some(label.to_owned());
    }
    Ok(known)
}
