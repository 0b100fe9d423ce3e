//! What each write does, once for every SQL backend: one function per variant of [`Write`]. All conditions are checked
//! before the first row changes, so that a refused write has changed nothing.
//!
//! A backend is a [`Tx`]: statements in the dialect that the databases share (`?` for parameters, `ON CONFLICT`, `RETURNING`),
//! its memory of names and heads, and the few things it does in its own way because they are done for every message.

mod append;
mod bind;
mod console;
mod credential;
mod device;
pub(crate) mod failure;
mod handoff;
pub(crate) mod install;
mod lease;
mod log;
pub(crate) mod notice;
mod once;
pub(crate) mod outbound;
mod presence;
mod receipt;
mod swarm;
mod sweep;
mod task;
pub(crate) mod text;
mod tx;
pub(crate) mod value;
mod vault;

pub(crate) use append::create_stream;
pub(crate) use console::{LOGIN, SESSION, SESSIONS, login_row, session_row};
pub(crate) use credential::{credential, kind_of_number};
#[cfg(feature = "postgres")]
pub(crate) use sweep::due_streams;
pub(crate) use tx::Tx;
#[cfg(feature = "postgres")]
pub(crate) use tx::{
    ANNOUNCERS, EVENT_ROW, EVENT_ROW_COLUMNS_SQL, EventRow, RECEIPT_STATE, event_row, sql_limit,
};

use failure::{Applied, Failure, Stop};
use switchboard_core::write::{Outcome, Write};

/// Applies `write`; a refusal is an outcome, a failure voids the transaction.
pub(crate) fn apply(tx: &mut impl Tx, write: &Write) -> Result<Outcome, Failure> {
    let before = tx.changes();
    match dispatch(tx, write) {
        Ok(outcome) => Ok(outcome),
        Err(Stop::Refused(refusal)) => {
            debug_assert_eq!(before, tx.changes(), "{write:?} was refused and wrote: {refusal:?}");
            Ok(Outcome::Refused(refusal))
        }
        Err(Stop::Failed(failure)) => Err(failure),
    }
}

fn dispatch(tx: &mut impl Tx, write: &Write) -> Applied {
    match write {
        Write::Append(append) => append::append(tx, append),
        Write::Receipt(receipt) => receipt::receipt(tx, receipt),
        Write::Announce(announce) => presence::announce(tx, announce),
        Write::Close { instance, node, only } => presence::close(tx, *instance, *node, only),
        Write::CloseOrphans { alive } => presence::close_orphans(tx, alive),
        Write::NoticesSent { notices } => notice::sent(tx, notices),
        Write::HandoffOffer { handoff_id, vault, from, to, frame, deadline_ms } => {
            let offer =
                handoff::Offer { handoff_id, vault: *vault, from, to, frame, deadline_ms: *deadline_ms };
            handoff::offer(tx, &offer)
        }
        Write::HandoffSettle { handoff_id, by, accept, frame } => {
            handoff::settle(tx, handoff_id, by, *accept, frame)
        }
        Write::CreateInstance(instance) => credential::create_instance(tx, instance),
        Write::RevokeInstance { instance_id } => credential::revoke(tx, instance_id),
        Write::MintAccess { instance, nonce, token_hash, expires_at_ms } => {
            credential::mint(tx, *instance, nonce, token_hash, *expires_at_ms)
        }
        Write::RenewLease { instance, grace_until_ms } => {
            credential::renew_lease(tx, *instance, *grace_until_ms)
        }
        Write::DeviceStart { device_hash, user_code, label, expires_at_ms } => {
            device::start(tx, device_hash, user_code, label.as_deref(), *expires_at_ms)
        }
        Write::DeviceDecide { user_code, decision, person } => {
            device::decide(tx, user_code, *decision, *person)
        }
        Write::DeviceRedeem { device_hash, instance } => device::redeem(tx, device_hash, instance),
        Write::Sweep { limit } => sweep::sweep(tx, *limit),
        Write::ExpireQuestions { limit, data } => task::expire_questions(tx, *limit, data),
        Write::DecideTask { vault, number, decision, data } => {
            task::decide(tx, *vault, *number, *decision, data)
        }
        Write::TakeLease { name, holder, for_ms } => lease::take(tx, name, *holder, *for_ms),
        Write::Fenced { name, fence, inner } => {
            lease::check(tx, name, *fence)?;
            dispatch(tx, inner)
        }
        Write::Once { scope, key, digest, inner, render } => {
            once::once(tx, &once::Request { scope, key, digest }, inner, render)
        }
        other => dispatch_room(tx, other),
    }
}

// The rooms messages stand in, and the store's own bookkeeping.
fn dispatch_room(tx: &mut impl Tx, write: &Write) -> Applied {
    match write {
        Write::CreateVault { vault, name, sealed } => vault::create(tx, *vault, name, *sealed),
        Write::ResolveVault { identity, bind, fresh, label } => {
            vault::resolve(tx, identity, bind.as_deref(), fresh, label.as_deref())
        }
        Write::CreateSwarm { swarm, title } => swarm::create(tx, swarm, title),
        Write::JoinSwarm { swarm, person, handle } => swarm::join(tx, swarm, *person, handle),
        Write::CloseSwarm { swarm, expires_at_ms } => swarm::close(tx, swarm, *expires_at_ms),
        Write::AdvanceInbox { instance, agent, positions } => {
            receipt::advance_inbox(tx, *instance, agent, positions)
        }
        Write::Outbound(write) => outbound::apply(tx, write),
        Write::Console(write) => console::apply(tx, write),
        Write::Probe => log::probe(tx),
        Write::Checkpoint(checkpoint) => log::checkpoint(tx, checkpoint),
        Write::Log(entries) => Ok(log::note(tx, entries)),
        Write::NewEpoch { epoch } => log::new_epoch(tx, epoch),
        handled => Err(Failure::Inconsistent(format!("no rule for {handled:?}")).into()),
    }
}
