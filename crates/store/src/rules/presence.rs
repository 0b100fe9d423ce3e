//! Who is there: agents as instances announce them.

use super::failure::Failure;
use super::failure::{Applied, Stop};
use super::tx::{Tx, found};
use super::value::{Row, values};
use switchboard_core::ids::{InstanceNo, VaultId};
use switchboard_core::limits::{AGENTS_PER_INSTANCE_MAX, NODE_DEAD_MS};
use switchboard_core::write::{Announce, Outcome, Presence, Refusal};

pub(super) fn announce(tx: &mut impl Tx, announce: &Announce) -> Applied {
    found(tx.state().vaults.get(&announce.vault))?;
    tx.state().live(announce.instance).ok_or(Refusal::InstanceUnknown)?;
    let sql = "SELECT role, profile, state FROM agents WHERE vault = ? AND agent = ? AND instance = ?";
    let key = values![announce.vault.0, announce.agent, announce.instance.0];
    let known = tx
        .one(sql, key, |row| Ok((row.get::<String>(0)?, row.get::<Option<String>>(1)?, row.get::<u8>(2)?)))?;
    match known {
        None => first(tx, announce).map(|()| Outcome::Announced { changed: true }),
        Some((role, profile, state)) => {
            let role_now = announce.role.as_ref().unwrap_or(&role);
            let profile_now = announce.profile.as_ref().or(profile.as_ref());
            let same = *role_now == role && profile_now == profile.as_ref() && state == announce.state as u8;
            again(tx, announce, role_now, profile_now, same)?;
            Ok(Outcome::Announced { changed: !same })
        }
    }
}

fn first(tx: &mut impl Tx, announce: &Announce) -> Result<(), Stop> {
    let sql = "SELECT count(*) FROM agents WHERE vault = ? AND instance = ?";
    let key = values![announce.vault.0, announce.instance.0];
    let known: u32 = tx.one(sql, key, |row| row.get(0))?.unwrap_or(0);
    if known >= AGENTS_PER_INSTANCE_MAX {
        return Err(Refusal::Full { what: "agents", limit: u64::from(AGENTS_PER_INSTANCE_MAX) }.into());
    }
    let sql = "INSERT INTO agents (vault, agent, instance, role, profile, state, seen_ms, version, node)
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
    let version = tx.next_version();
    let row = values![
        announce.vault.0,
        announce.agent,
        announce.instance.0,
        announce.role.as_deref().unwrap_or_default(),
        announce.profile,
        announce.state as u8,
        tx.at_ms(),
        version,
        announce.node.cast_signed()
    ];
    tx.run(sql, row)?;
    note(tx, announce);
    Ok(())
}

fn again(
    tx: &mut impl Tx,
    announce: &Announce,
    role: &str,
    profile: Option<&String>,
    same: bool,
) -> Result<(), Stop> {
    let key = values![
        tx.at_ms(),
        announce.node.cast_signed(),
        announce.vault.0,
        announce.agent,
        announce.instance.0
    ];
    tx.run("UPDATE agents SET seen_ms = ?, node = ? WHERE vault = ? AND agent = ? AND instance = ?", key)?;
    if same {
        // Only the stamp moved: followers need not hear of it, and the log would be full of it.
        return Ok(());
    }
    let version = tx.next_version();
    let sql = "UPDATE agents SET role = ?, profile = ?, state = ?, version = ?
               WHERE vault = ? AND agent = ? AND instance = ?";
    let row = values![
        role,
        profile,
        announce.state as u8,
        version,
        announce.vault.0,
        announce.agent,
        announce.instance.0
    ];
    tx.run(sql, row)?;
    note(tx, announce);
    Ok(())
}

fn note(tx: &mut impl Tx, announce: &Announce) {
    let state = match announce.state {
        Presence::Active => "active",
        Presence::Idle => "idle",
        Presence::Closed => "closed",
    };
    let subject = format!("{}/{} {state}", announce.vault, announce.agent);
    tx.admit("presence.announce", Some(announce.instance), subject);
}

struct Held {
    vault: VaultId,
    agent: String,
    instance: InstanceNo,
    node: u64,
}

fn held(row: &dyn Row) -> Result<Held, Failure> {
    Ok(Held {
        vault: VaultId(row.get(0)?),
        agent: row.get(1)?,
        instance: InstanceNo(row.get(2)?),
        node: row.get::<i64>(3)?.cast_unsigned(),
    })
}

pub(super) fn close(
    tx: &mut impl Tx,
    instance: InstanceNo,
    node: u64,
    only: &[(VaultId, String)],
) -> Applied {
    let sql = "SELECT vault, agent, instance, node FROM agents WHERE instance = ? AND state <> ?";
    let held = tx.all(sql, values![instance.0, Presence::Closed as u8], held)?;
    let meant = |row: &Held| only.iter().any(|(vault, agent)| *vault == row.vault && *agent == row.agent);
    let gone: Vec<_> = held.into_iter().filter(|row| row.node == node && meant(row)).collect();
    close_all(tx, &gone)
}

pub(super) fn close_orphans(tx: &mut impl Tx, alive: &[u64]) -> Applied {
    let dead_ms = tx.clock_ms()?.saturating_sub(NODE_DEAD_MS);
    let sql = "SELECT vault, agent, instance, node FROM agents
               WHERE state <> ? AND node NOT IN (SELECT node FROM nodes WHERE seen_ms > ?)";
    let held = tx.all(sql, values![Presence::Closed as u8, dead_ms], held)?;
    let gone: Vec<_> = held.into_iter().filter(|row| !alive.contains(&row.node)).collect();
    tx.run("DELETE FROM nodes WHERE seen_ms <= ?", values![dead_ms])?;
    close_all(tx, &gone)
}

/// Closes every agent of an instance, whoever holds it.
pub(super) fn close_instance(tx: &mut impl Tx, instance: InstanceNo) -> Applied {
    let sql = "SELECT vault, agent, instance, node FROM agents WHERE instance = ? AND state <> ?";
    let gone = tx.all(sql, values![instance.0, Presence::Closed as u8], held)?;
    close_all(tx, &gone)
}

fn close_all(tx: &mut impl Tx, gone: &[Held]) -> Applied {
    for row in gone {
        let version = tx.next_version();
        let sql = "UPDATE agents SET state = ?, version = ?, seen_ms = ?, node = 0
                   WHERE vault = ? AND agent = ? AND instance = ?";
        // It was there until now, so its name can be written to for another day.
        let state = Presence::Closed as u8;
        let key = values![state, version, tx.at_ms(), row.vault.0, row.agent, row.instance.0];
        tx.run(sql, key)?;
        tx.admit("presence.close", Some(row.instance), format!("{}/{}", row.vault, row.agent));
    }
    Ok(Outcome::Closed(gone.len()))
}
