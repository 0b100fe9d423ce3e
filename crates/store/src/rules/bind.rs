//! Binding a recipient to one instance (contract section 4): decided inside the transaction, never again afterwards.

use super::append::{Place, Replied};
use super::failure::Stop;
use super::tx::Tx;
use super::value::values;
use switchboard_core::event::Addressee;
use switchboard_core::ids::{InstanceNo, VaultId};
use switchboard_core::limits::ANNOUNCED_MS;
use switchboard_core::write::{Append, Recipient, Refusal};

/// Whom the event is for; `None` is everybody on the stream.
pub(crate) fn bind(
    tx: &mut impl Tx,
    append: &Append,
    place: Place<'_>,
    replied: Option<&Replied>,
) -> Result<Option<Addressee>, Stop> {
    let sender = append.from_instance;
    let Recipient::Agent { agent, instance } = &append.recipient else {
        return confidant(tx, append, replied);
    };
    let vault = match place {
        Place::Channel { vault, .. } => vault,
        Place::Swarm { swarm, .. } => return bind_in_swarm(tx, swarm, agent, replied).map(Some),
    };
    let bound = match (instance, replied.and_then(|replied| counterpart(replied, sender))) {
        (Some(id), _) => named(tx, id)?,
        (None, Some(instance)) => {
            tx.state().live(instance).ok_or(Refusal::RecipientUnknown)?;
            instance
        }
        (None, None) => announced(tx, vault, agent, sender)?,
    };
    Ok(Some(Addressee { instance: bound, agent: agent.clone() }))
}

/// Whom an offer in a vault is for.
pub(super) fn bind_in_vault(
    tx: &mut impl Tx,
    vault: VaultId,
    agent: &str,
    instance: Option<&str>,
    sender: InstanceNo,
) -> Result<InstanceNo, Stop> {
    match instance {
        Some(id) => named(tx, id),
        None => announced(tx, vault, agent, sender),
    }
}

fn named(tx: &mut impl Tx, id: &str) -> Result<InstanceNo, Stop> {
    let number = tx.state().instance_numbers.get(id).copied();
    number.filter(|number| tx.state().live(*number).is_some()).ok_or(Refusal::InstanceUnknown.into())
}

// What replies to a direct message and names nobody is not for everybody, who cannot see the message it replies to: it is
// for the other end.
fn confidant(
    tx: &mut impl Tx,
    append: &Append,
    replied: Option<&Replied>,
) -> Result<Option<Addressee>, Stop> {
    let Some((replied, to)) = replied.and_then(|replied| Some((replied, replied.to.clone()?))) else {
        return Ok(None);
    };
    let own = replied.from_instance == append.from_instance && replied.from_agent == append.from_agent;
    let from = || Addressee { instance: replied.from_instance, agent: replied.from_agent.clone() };
    let other = if own { to } else { from() };
    tx.state().live(other.instance).ok_or(Refusal::RecipientUnknown)?;
    Ok(Some(other))
}

// A reply goes to the other end of the replied message.
fn counterpart(replied: &Replied, sender: InstanceNo) -> Option<InstanceNo> {
    if replied.from_instance == sender {
        replied.to.as_ref().map(|to| to.instance)
    } else {
        Some(replied.from_instance)
    }
}

// The single other instance that announced the agent lately; if no other did, the sender's own.
fn announced(tx: &mut impl Tx, vault: VaultId, agent: &str, sender: InstanceNo) -> Result<InstanceNo, Stop> {
    let since = tx.at_ms().saturating_sub(ANNOUNCED_MS);
    let candidates = tx.announcers(vault, agent, since)?;
    let live = candidates.into_iter().filter(|candidate| tx.state().live(*candidate).is_some());
    let (own, others): (Vec<_>, Vec<_>) = live.partition(|candidate| *candidate == sender);
    match (others.as_slice(), own.first()) {
        ([other], _) => Ok(*other),
        ([], Some(own)) => Ok(*own),
        ([], None) => Err(Refusal::RecipientUnknown.into()),
        _ => Err(Refusal::RecipientAmbiguous.into()),
    }
}

// Participants of a swarm know each other by handle only, and nobody announces itself there: one can answer somebody who
// spoke, under the handle it spoke with.
fn bind_in_swarm(
    tx: &mut impl Tx,
    swarm: &str,
    handle: &str,
    replied: Option<&Replied>,
) -> Result<Addressee, Stop> {
    let replied = replied.ok_or(Refusal::RecipientUnknown)?;
    let sender = tx.state().live(replied.from_instance).ok_or(Refusal::RecipientUnknown)?;
    let sql = "SELECT 1 FROM memberships WHERE swarm = ? AND person = ? AND handle = ?";
    tx.one(sql, values![swarm, sender.owner.0, handle], |_| Ok(()))?.ok_or(Refusal::RecipientUnknown)?;
    Ok(Addressee { instance: replied.from_instance, agent: replied.from_agent.clone() })
}
