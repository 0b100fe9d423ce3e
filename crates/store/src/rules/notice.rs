//! What waits for an instance outside any stream.

use super::failure::{Applied, Failure};
use super::tx::Tx;
use super::value::values;
use switchboard_core::ids::{EventId, InstanceNo};
use switchboard_core::time::WallMs;
use switchboard_core::write::{Outcome, Receipt};

/// Queues a frame for an agent; `once`: it goes when it was sent. Returns its number.
pub(super) fn frame(
    tx: &mut impl Tx,
    to: (InstanceNo, &str),
    frame: &str,
    once: bool,
    expires_at_ms: WallMs,
) -> Result<i64, Failure> {
    let id = tx.next_notice()?;
    let sql = "INSERT INTO notices (id, instance, agent, frame, once, at_ms, expires_at_ms)
               VALUES (?, ?, ?, ?, ?, ?, ?)";
    tx.run(sql, values![id, to.0.0, to.1, frame, once, tx.at_ms(), expires_at_ms])?;
    Ok(id)
}

/// A message as a receipt sees it.
#[derive(Debug, Clone)]
pub(crate) struct Receipted {
    pub(crate) from_instance: InstanceNo,
    pub(crate) from_agent: String,
    pub(crate) client_id: String,
    pub(crate) expires_at_ms: WallMs,
}

/// Tells the sender of a message how far a receiver got. There is one notice per message and receiver; it moves to a new
/// number when it changes, for the old one may be on its way to a socket already and about to be marked as sent.
pub(crate) fn status(tx: &mut impl Tx, receipt: &Receipt, of: &Receipted) -> Result<(), Failure> {
    let sql = "DELETE FROM notices WHERE event = ? AND by_instance = ? AND by_agent = ?";
    tx.run(sql, values![receipt.event.row(), receipt.instance.0, receipt.agent])?;
    let id = tx.next_notice()?;
    let sql =
        "INSERT INTO notices (id, instance, agent, event, client_id, by_instance, by_agent, state, once,
                                    at_ms, expires_at_ms)
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?)";
    let row = values![
        id,
        of.from_instance.0,
        of.from_agent,
        receipt.event.row(),
        of.client_id,
        receipt.instance.0,
        receipt.agent,
        receipt.state as u8,
        tx.at_ms(),
        of.expires_at_ms
    ];
    tx.run(sql, row)?;
    Ok(())
}

/// Forgets the notices of a message that retention removed.
pub(crate) fn forget(tx: &mut impl Tx, event: EventId) -> Result<(), Failure> {
    tx.later("DELETE FROM notices WHERE event = ?", values![event.row()])?;
    Ok(())
}

/// Notices that were written to a socket; frames that are to come again stay.
pub(super) fn sent(tx: &mut impl Tx, notices: &[i64]) -> Applied {
    tx.notices_sent(notices)?;
    Ok(Outcome::Done)
}
