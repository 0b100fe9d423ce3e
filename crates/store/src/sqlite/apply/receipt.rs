//! Receipts and inbox positions: how far receivers got. Both only ever move forward.

use super::super::failure::{Applied, Failure, Stop};
use super::super::tx::{Tx, found};
use super::notice::{self, Receipted};
use rusqlite::params;
use switchboard_core::event::EventKind;
use switchboard_core::ids::{InstanceNo, STREAM_ID_MAX, StreamId};
use switchboard_core::write::{Outcome, Receipt, Refusal};

struct Target {
    kind: EventKind,
    message: Receipted,
    to: Option<(InstanceNo, String)>,
}

pub(super) fn receipt(tx: &mut Tx<'_>, receipt: &Receipt) -> Applied {
    tx.state.live(receipt.instance).ok_or(Refusal::NotYours)?;
    let target = target(tx, receipt)?;
    may(receipt, &target)?;
    let sql = "SELECT state FROM receipts WHERE event = ? AND instance = ? AND agent = ?";
    let key = params![receipt.event.row(), receipt.instance.0, receipt.agent];
    let known: Option<u8> = tx.one(sql, key, |row| row.get(0))?;
    if known.is_some_and(|known| known >= receipt.state as u8) {
        return Ok(Outcome::Receipt { advanced: false });
    }
    let sql = "INSERT INTO receipts (event, instance, agent, state, at_ms) VALUES (?, ?, ?, ?, ?)
               ON CONFLICT (event, instance, agent) DO UPDATE SET state = excluded.state, at_ms = excluded.at_ms";
    let row = params![receipt.event.row(), receipt.instance.0, receipt.agent, receipt.state as u8, tx.at_ms];
    tx.run(sql, row)?;
    if known.is_none() {
        arrived(tx, receipt, &target)?;
    }
    notice::status(tx, receipt, &target.message)?;
    note(tx, receipt);
    Ok(Outcome::Receipt { advanced: true })
}

fn target(tx: &Tx<'_>, receipt: &Receipt) -> Result<Target, Stop> {
    let sql = "SELECT kind, from_instance, from_agent, client_id, expires_at_ms, to_instance, to_agent
               FROM events WHERE id = ?";
    let target = tx.one(sql, [receipt.event.row()], |row| {
        let to: Option<u32> = row.get(5)?;
        let to_agent: Option<String> = row.get(6)?;
        Ok((
            row.get::<_, u8>(0)?,
            Receipted {
                from_instance: InstanceNo(row.get(1)?),
                from_agent: row.get(2)?,
                client_id: row.get::<_, Option<String>>(3)?.unwrap_or_default(),
                expires_at_ms: row.get(4)?,
            },
            to.zip(to_agent).map(|(to, agent)| (InstanceNo(to), agent)),
        ))
    })?;
    let (kind, message, to) = found(target)?;
    let kind = found(EventKind::from_number(kind).filter(|kind| kind.is_message()))?;
    Ok(Target { kind, message, to })
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
fn arrived(tx: &mut Tx<'_>, receipt: &Receipt, target: &Target) -> Result<(), Failure> {
    if target.to.is_none() || is_tracked_question(tx, receipt, target.kind)? {
        return Ok(());
    }
    tx.state.ledger.pending -= 1;
    tx.state.ledger.delivered += 1;
    Ok(())
}

fn is_tracked_question(tx: &Tx<'_>, receipt: &Receipt, kind: EventKind) -> Result<bool, Failure> {
    let sql = "SELECT 1 FROM questions WHERE event = ?";
    Ok(kind == EventKind::Question && tx.one(sql, [receipt.event.row()], |_| Ok(()))?.is_some())
}

// In a swarm the log names no instance.
fn note(tx: &mut Tx<'_>, receipt: &Receipt) {
    let swarm = tx.state.head(receipt.event.stream).is_some_and(|head| head.swarm);
    let actor = (!swarm).then_some(receipt.instance);
    let subject = format!("{}/{} {:?}", receipt.event.stream.0, receipt.event.seq, receipt.state);
    tx.admit("bus.receipt", actor, subject.to_lowercase());
}

pub(super) fn advance_inbox(
    tx: &mut Tx<'_>,
    instance: InstanceNo,
    agent: &str,
    positions: &[(StreamId, u64)],
) -> Applied {
    for (stream, position) in positions {
        // A position ahead of the stream would hide what is yet to come. Marks are in no stream.
        let last = match tx.state.head(*stream) {
            Some(head) => head.last,
            None if stream.0 > STREAM_ID_MAX => *position,
            None => continue,
        };
        let position = last.min(*position).cast_signed();
        let sql = "INSERT INTO inboxes (instance, agent, stream, position) VALUES (?, ?, ?, ?)
                   ON CONFLICT (instance, agent, stream) DO UPDATE SET position = excluded.position
                   WHERE excluded.position > position";
        tx.run(sql, params![instance.0, agent, stream.0, position])?;
    }
    Ok(Outcome::Done)
}
