//! Requests that came with an idempotency key: applied at most once, answered with the same bytes for ever after.

use super::dispatch;
use super::failure::Applied;
use super::tx::Tx;
use super::value::values;
use switchboard_core::write::{Outcome, Refusal, Render, Write};

/// What a request is known by.
pub(super) struct Request<'a> {
    pub(super) scope: &'a str,
    pub(super) key: &'a str,
    pub(super) digest: &'a [u8; 32],
}

pub(super) fn once(tx: &mut impl Tx, request: &Request<'_>, inner: &Write, render: &Render) -> Applied {
    let sql = "SELECT digest, body FROM idempotency WHERE scope = ? AND key = ?";
    let known = tx.one(sql, values![request.scope, request.key], |row| {
        Ok((row.get::<[u8; 32]>(0)?, row.get::<Vec<u8>>(1)?))
    })?;
    match known {
        Some((digest, _)) if digest != *request.digest => return Err(Refusal::IdReused.into()),
        Some((_, body)) => return Ok(Outcome::Once { body, replayed: true }),
        None => {}
    }
    let body = render(&dispatch(tx, inner)?);
    let sql = "INSERT INTO idempotency (scope, key, digest, body, at_ms) VALUES (?, ?, ?, ?, ?)";
    tx.run(sql, values![request.scope, request.key, request.digest, body, tx.at_ms()])?;
    Ok(Outcome::Once { body, replayed: false })
}
