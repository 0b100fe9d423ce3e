//! Swarms, and handles that are for ever their person's.

use super::failure::Applied;
use super::tx::{Tx, found};
use super::value::values;
use crate::sqlite::state::{Head, Swarm};
use switchboard_core::ids::PersonNo;
use switchboard_core::time::WallMs;
use switchboard_core::write::{Outcome, Refusal};

pub(super) fn create(tx: &mut impl Tx, swarm: &str, title: &str) -> Applied {
    if tx.state().swarms.contains_key(swarm) {
        return Err(Refusal::NameTaken.into());
    }
    let stream = tx.create_stream(Head::empty(true))?;
    tx.run("INSERT INTO streams (id, swarm) VALUES (?, ?)", values![stream.0, swarm])?;
    let sql = "INSERT INTO swarms (id, swarm, title, stream, created_ms)
               VALUES ((SELECT coalesce(max(id), 0) + 1 FROM swarms), ?, ?, ?, ?)";
    tx.run(sql, values![swarm, title, stream.0, tx.at_ms()])?;
    tx.state_mut().swarms.insert(swarm.into(), Swarm { stream, expires_at_ms: None });
    tx.admit("swarm.create", None, swarm);
    Ok(Outcome::Done)
}

pub(super) fn join(tx: &mut impl Tx, swarm: &str, person: PersonNo, handle: &str) -> Applied {
    let known = *found(tx.state().swarms.get(swarm))?;
    if known.expires_at_ms.is_some() {
        return Err(Refusal::SwarmClosed.into());
    }
    found(tx.one("SELECT 1 FROM persons WHERE id = ?", values![person.0], |_| Ok(()))?)?;
    let sql = "SELECT handle FROM memberships WHERE swarm = ? AND person = ?";
    let here: Option<String> = tx.one(sql, values![swarm, person.0], |row| row.get(0))?;
    let holder: Option<u32> =
        tx.one("SELECT person FROM handles WHERE handle = ?", values![handle], |row| row.get(0))?;
    if here.as_ref().is_some_and(|here| here != handle) || holder.is_some_and(|holder| holder != person.0) {
        return Err(Refusal::HandleTaken.into());
    }
    if here.is_some() {
        return Ok(Outcome::Done);
    }
    if holder.is_none() {
        let sql = "INSERT INTO handles (handle, person, since_ms) VALUES (?, ?, ?)";
        tx.run(sql, values![handle, person.0, tx.at_ms()])?;
    }
    let sql = "INSERT INTO memberships (swarm, person, handle) VALUES (?, ?, ?)";
    tx.run(sql, values![swarm, person.0, handle])?;
    // The log names no person of a swarm: the handle is who they are there.
    tx.admit("swarm.join", None, format!("{swarm} {handle}"));
    Ok(Outcome::Done)
}

pub(super) fn close(tx: &mut impl Tx, swarm: &str, expires_at_ms: WallMs) -> Applied {
    let known = *found(tx.state().swarms.get(swarm))?;
    if known.expires_at_ms.is_some() {
        return Ok(Outcome::Done);
    }
    tx.run("UPDATE swarms SET expires_at_ms = ? WHERE swarm = ?", values![expires_at_ms, swarm])?;
    let closed = Swarm { expires_at_ms: Some(expires_at_ms), ..known };
    tx.state_mut().swarms.insert(swarm.into(), closed);
    if let Some(head) = tx.state_mut().streams.get_mut(&known.stream.0) {
        head.all_expire_ms = closed.expires_at_ms;
        head.first_expires_ms = None;
    }
    tx.admit("swarm.close", None, swarm);
    Ok(Outcome::Done)
}
