//! Handoff offers: redelivered until they are settled or over.

use super::bind::bind_in_vault;
use super::failure::{Applied, Failure};
use super::notice;
use super::tx::{Tx, found};
use super::value::values;
use switchboard_core::digest::{Digest, framed};
use switchboard_core::ids::{InstanceNo, VaultId};
use switchboard_core::time::{DAY_MS, WallMs};
use switchboard_core::write::{Outcome, Recipient, Refusal};

const OPEN: u8 = 1;
const TAKEN: u8 = 2;
const TURNED_DOWN: u8 = 3;
/// How long the settlement waits for an offerer that is away.
const SETTLEMENT_MS: WallMs = 7 * DAY_MS;

/// An offer; see [`switchboard_core::write::Write::HandoffOffer`].
pub(super) struct Offer<'a> {
    pub(super) handoff_id: &'a str,
    pub(super) vault: VaultId,
    pub(super) from: &'a (InstanceNo, String),
    pub(super) to: &'a Recipient,
    pub(super) frame: &'a str,
    pub(super) deadline_ms: WallMs,
}

impl Offer<'_> {
    fn digest(&self) -> Digest {
        let (agent, instance) = match self.to {
            Recipient::Everyone => ("", ""),
            Recipient::Agent { agent, instance } => (agent.as_str(), instance.as_deref().unwrap_or_default()),
        };
        let deadline = self.deadline_ms.to_be_bytes();
        let texts = [&self.from.1, agent, instance, self.frame].map(str::as_bytes);
        let [from, agent, instance, frame] = texts;
        framed("switchboard.handoff.v1", &[&self.vault.0, from, agent, instance, frame, &deadline])
    }
}

pub(super) fn offer(tx: &mut impl Tx, offer: &Offer<'_>) -> Applied {
    let (from, from_agent) = (offer.from.0, &offer.from.1);
    let digest = offer.digest();
    let sql = "SELECT digest, to_instance FROM handoffs WHERE from_instance = ? AND handoff_id = ?";
    let known = tx.one(sql, values![from.0, offer.handoff_id], |row| {
        Ok((row.get::<[u8; 32]>(0)?, InstanceNo(row.get(1)?)))
    })?;
    match known {
        Some((known, to)) if known == digest => return Ok(Outcome::Handoff { ring: to }),
        Some(_) => return Err(Refusal::IdReused.into()),
        None => {}
    }
    tx.state().live(from).ok_or(Refusal::NotYours)?;
    found(tx.state().vaults.get(&offer.vault))?;
    let Recipient::Agent { agent, instance } = offer.to else { return Err(Refusal::RecipientUnknown.into()) };
    let to = bind_in_vault(tx, offer.vault, agent, instance.as_deref(), from)?;
    if offer.deadline_ms <= tx.at_ms() {
        return Err(Refusal::DeadlinePast.into());
    }
    let notice = notice::frame(tx, (to, agent), offer.frame, false, offer.deadline_ms)?;
    let sql = "INSERT INTO handoffs (from_instance, handoff_id, from_agent, to_instance, to_agent, digest,
                                     deadline_ms, state, notice)
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
    let row =
        values![from.0, offer.handoff_id, from_agent, to.0, agent, digest, offer.deadline_ms, OPEN, notice];
    tx.run(sql, row)?;
    tx.admit("handoff.offer", Some(from), offer.handoff_id);
    Ok(Outcome::Handoff { ring: to })
}

struct Known {
    from_instance: InstanceNo,
    from_agent: String,
    to_agent: String,
    is_open: bool,
    notice: i64,
}

pub(super) fn settle(
    tx: &mut impl Tx,
    handoff_id: &str,
    by: &(InstanceNo, String),
    accept: bool,
    frame: &str,
) -> Applied {
    tx.state().live(by.0).ok_or(Refusal::NotYours)?;
    let known = offers_to(tx, handoff_id, by.0)?;
    let mine: Vec<_> = known.iter().filter(|offer| offer.to_agent == by.1).collect();
    let Some(offer) = mine.iter().find(|offer| offer.is_open) else {
        return Err(match (mine.is_empty(), known.is_empty()) {
            (false, _) => Refusal::HandoffClosed,
            (true, false) => Refusal::NotYours,
            (true, true) => Refusal::NotFound,
        }
        .into());
    };
    let state = if accept { TAKEN } else { TURNED_DOWN };
    let sql = "UPDATE handoffs SET state = ? WHERE from_instance = ? AND handoff_id = ?";
    tx.run(sql, values![state, offer.from_instance.0, handoff_id])?;
    tx.run("DELETE FROM notices WHERE id = ?", values![offer.notice])?;
    let until = tx.at_ms().saturating_add(SETTLEMENT_MS);
    notice::frame(tx, (offer.from_instance, &offer.from_agent), frame, true, until)?;
    let verdict = if accept { "accepted" } else { "rejected" };
    tx.admit("handoff.settle", Some(by.0), format!("{handoff_id} {verdict}"));
    Ok(Outcome::Handoff { ring: offer.from_instance })
}

// Two offerers may have chosen the same id: the oldest open one is meant.
fn offers_to(tx: &mut impl Tx, handoff_id: &str, to: InstanceNo) -> Result<Vec<Known>, Failure> {
    let sql =
        "SELECT from_instance, from_agent, to_agent, state = ? AND deadline_ms > ?, notice FROM handoffs
               WHERE to_instance = ? AND handoff_id = ? ORDER BY notice";
    tx.all(sql, values![OPEN, tx.at_ms(), to.0, handoff_id], |row| {
        Ok(Known {
            from_instance: InstanceNo(row.get(0)?),
            from_agent: row.get(1)?,
            to_agent: row.get(2)?,
            is_open: row.get(3)?,
            notice: row.get(4)?,
        })
    })
}
