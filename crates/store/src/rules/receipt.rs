//! Receipts and inbox positions: how far receivers got. Both only ever move forward.

use super::failure::{Applied, Failure, Stop};
use super::notice::Receipted;
use super::tx::{Tx, found};
use super::value::values;
use switchboard_core::event::EventKind;
use switchboard_core::ids::{InstanceNo, STREAM_ID_MAX, StreamId};
use switchboard_core::write::{Outcome, Receipt, Refusal};

struct Target {
    kind: EventKind,
    message: Receipted,
    to: Option<(InstanceNo, String)>,
}

pub(super) fn receipt(tx: &mut impl Tx, receipt: &Receipt) -> Applied {
    tx.state().live(receipt.instance).ok_or(Refusal::NotYours)?;
    let target = target(tx, receipt)?;
    may(receipt, &target)?;
    let known = tx.receipt_state(receipt.event, (receipt.instance, &receipt.agent))?;
    if known.is_some_and(|known| known >= receipt.state as u8) {
        return Ok(Outcome::Receipt { advanced: false });
    }
    tx.put_receipt(receipt)?;
    if known.is_none() {
        arrived(tx, receipt, &target)?;
    }
    tx.status_notice(receipt, &target.message)?;
    note(tx, receipt);
    Ok(Outcome::Receipt { advanced: true })
}

fn target(tx: &mut impl Tx, receipt: &Receipt) -> Result<Target, Stop> {
    let row = found(tx.event(receipt.event)?)?;
    let kind = found(EventKind::from_number(row.kind).filter(|kind| kind.is_message()))?;
    let message = Receipted {
        from_instance: row.from_instance,
        from_agent: row.from_agent,
        client_id: row.client_id.unwrap_or_default(),
        expires_at_ms: row.expires_at_ms,
    };
    Ok(Target { kind, message, to: row.to })
}

fn may(receipt: &Receipt, target: &Target) -> Result<(), Stop> {
    let sender = target.message.from_instance == receipt.instance;
    if let Some((instance, agent)) = &target.to {
        if *instance != receipt.instance && !sender {
            // Not one it may see: answered like one that does not exist.
            return Err(Refusal::NotFound.into());
        }
        if *instance != receipt.instance || *agent != receipt.agent {
            return Err(Refusal::NotYours.into());
        }
    }
    if sender && target.message.from_agent == receipt.agent {
        return Err(Refusal::NotYours.into());
    }
    Ok(())
}

// The addressee's first sign of life: the message has arrived. A question waits for its answer instead.
fn arrived(tx: &mut impl Tx, receipt: &Receipt, target: &Target) -> Result<(), Failure> {
    if target.to.is_none() || is_tracked_question(tx, receipt, target.kind)? {
        return Ok(());
    }
    tx.state_mut().ledger.pending -= 1;
    tx.state_mut().ledger.delivered += 1;
    Ok(())
}

fn is_tracked_question(tx: &mut impl Tx, receipt: &Receipt, kind: EventKind) -> Result<bool, Failure> {
    let sql = "SELECT 1 FROM questions WHERE event = ?";
    Ok(kind == EventKind::Question && tx.one(sql, values![receipt.event.row()], |_| Ok(()))?.is_some())
}

// In a swarm the log names no instance.
fn note(tx: &mut impl Tx, receipt: &Receipt) {
    let swarm = tx.state().head(receipt.event.stream).is_some_and(|head| head.swarm);
    let actor = (!swarm).then_some(receipt.instance);
    let subject = format!("{}/{} {:?}", receipt.event.stream.0, receipt.event.seq, receipt.state);
    tx.admit("bus.receipt", actor, subject.to_lowercase());
}

pub(super) fn advance_inbox(
    tx: &mut impl Tx,
    instance: InstanceNo,
    agent: &str,
    positions: &[(StreamId, u64)],
) -> Applied {
    let mut rows = Vec::with_capacity(positions.len());
    for (stream, position) in positions {
        // A position ahead of the stream would hide what is yet to come. Marks are in no stream.
        let last = match tx.state().head(*stream) {
            Some(head) => head.last,
            None if stream.0 > STREAM_ID_MAX => *position,
            None => continue,
        };
        rows.push((*stream, last.min(*position)));
    }
    tx.put_positions(instance, agent, &rows)?;
    Ok(Outcome::Done)
}
