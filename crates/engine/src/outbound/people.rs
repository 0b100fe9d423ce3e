//! What a person does whom the hub knows: answering, deciding, trying again, giving up, pairing.

use super::hear;
use super::submit::CONSOLE;
use crate::hub::Hub;
use crate::refusal;
use std::sync::Arc;
use switchboard_core::digest::sha256;
use switchboard_core::ids::{InstanceNo, PersonNo};
use switchboard_core::outbound::reply::{PAIR_LEN, code, show_pairing};
use switchboard_core::outbound::send::{
    ApprovalState, ConsentState, PartRow, PartState, SendDetail, SendState,
};
use switchboard_core::outbound::write::{
    HeardOutcome, OutboundOutcome, OutboundWrite, SignDecision, Touched,
};
use switchboard_core::port::channel::{Address, AddressKind};
use switchboard_core::random;
use switchboard_core::time::{MINUTE_MS, WallMs};
use switchboard_protocol::Detail;
use switchboard_protocol::messaging::ANSWER_CHARS_MAX;

/// How long a pairing code can be used.
pub const PAIRING_MS: WallMs = 10 * MINUTE_MS;

/// How decisions are signed: by the hub, under its signing key.
#[must_use]
pub fn signer(hub: &Hub) -> SignDecision {
    let keys = hub.installation.keys.clone();
    SignDecision(Arc::new(move |input| keys.sign(input).to_vec()))
}

/// Answers a question. `by`: the person's display name; `via`: `console` or `cli`.
pub async fn answer(hub: &Hub, topic_id: &str, by: &str, via: &str, text: &str) -> Result<Touched, Detail> {
    let text = text.trim();
    if text.is_empty() || text.chars().count() > ANSWER_CHARS_MAX {
        let message = format!("An answer has 1 to {ANSWER_CHARS_MAX} characters.");
        return Err(refusal::bad_field("text", message));
    }
    let write = OutboundWrite::Answer {
        topic_id: topic_id.to_owned(),
        by: by.to_owned(),
        via: via.to_owned(),
        text: text.to_owned(),
    };
    match heard(hub.commit_outbound(write).await.map_err(|detail| named(detail, "topic_id"))?)? {
        HeardOutcome::Answered(touched) => Ok(touched),
        other => Err(unexpected(&other)),
    }
}

/// Decides an approval; what was approved goes on under the policy as it is now.
pub async fn decide(
    hub: &Arc<Hub>,
    approval_id: &str,
    approve: bool,
    by: &str,
    via: &str,
) -> Result<ApprovalState, Detail> {
    let write = OutboundWrite::Decide {
        approval_id: approval_id.to_owned(),
        approve,
        by: by.to_owned(),
        via: via.to_owned(),
        sign: signer(hub),
    };
    match heard(hub.commit_outbound(write).await.map_err(|detail| named(detail, "approval_id"))?)? {
        HeardOutcome::Decided { send, state, .. } => {
            if state == ApprovalState::Approved {
                release(hub, send).await?;
            }
            Ok(state)
        }
        other => Err(unexpected(&other)),
    }
}

/// What was approved goes on, unless a rule forbids it by now. Also for what was left when a hub ended in between.
pub(crate) async fn release(hub: &Arc<Hub>, send: i64) -> Result<(), Detail> {
    let row = hub.store().outbound().send_by_no(send).await.map_err(|error| refusal::store(&error))?;
    let Some(row) = row else { return Ok(()) };
    let forbidden_by = super::view::forbidden_now(hub, &row);
    hub.commit_outbound(OutboundWrite::Release { send, forbidden_by }).await.map(drop)
}

fn heard(outcome: OutboundOutcome) -> Result<HeardOutcome, Detail> {
    let OutboundOutcome::Heard(heard) = outcome else {
        return Err(refusal::not_found("id", "No such thing here."));
    };
    match hear::refused(&heard) {
        Some(detail) => Err(detail),
        None => Ok(heard),
    }
}

fn unexpected(heard: &HeardOutcome) -> Detail {
    refusal::closed(&format!("it could not be done ({heard:?})"))
}

fn named(detail: Detail, field: &str) -> Detail {
    if detail.code == switchboard_protocol::Code::NotFound { detail.field(field) } else { detail }
}

/// Has a dead or unknown send tried again, or one that waits for a later attempt at once, and its channel with it; also where it waits
/// for its channel alone.
pub async fn retry(hub: &Hub, send_id: &str, by: &str) -> Result<Touched, Detail> {
    let SendDetail { send, parts, .. } = super::view::detail(hub, send_id).await?;
    let later = |part: &PartRow| part.state == PartState::Due && part.next_ms > hub.clock().wall_ms();
    let shut = hub.outbound.outward_fault(&send.channel).is_some();
    if send.state == SendState::Sending && shut && !parts.iter().any(later) {
        hub.outbound.try_now(&send.channel);
        return Ok(Touched { send_id: send.send_id, topic_id: send.topic_id, state: send.state });
    }
    let write = OutboundWrite::Retry { send_id: send_id.to_owned(), by: by.to_owned() };
    let touched = settled(hub, write, "send_id").await?;
    hub.outbound.try_now(&send.channel);
    Ok(touched)
}

/// Gives a send up.
pub async fn discard(hub: &Hub, send_id: &str, by: &str) -> Result<Touched, Detail> {
    let write = OutboundWrite::Discard { send_id: send_id.to_owned(), by: by.to_owned() };
    settled(hub, write, "send_id").await
}

/// Takes a question back; `instance`: only if it asked.
pub async fn withdraw(hub: &Hub, topic_id: &str, instance: Option<InstanceNo>) -> Result<Touched, Detail> {
    let write = OutboundWrite::Withdraw { topic_id: topic_id.to_owned(), instance };
    settled(hub, write, "topic_id").await
}

async fn settled(hub: &Hub, write: OutboundWrite, field: &str) -> Result<Touched, Detail> {
    let outcome = hub.commit_outbound(write).await.map_err(|detail| match detail.sb.as_deref() {
        // The state that is in the way, in the words of this plane.
        Some("SB0125") => refusal::not_in_state(&detail),
        _ => named(detail, field),
    });
    match outcome? {
        OutboundOutcome::Settled(touched) => Ok(touched),
        _ => Err(refusal::not_found(field, "No such thing here.")),
    }
}

/// A pairing code, as it is shown to a person, and when it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairingCode {
    /// The code.
    pub code: String,
    /// When it ends.
    pub expires_ms: WallMs,
}

/// Makes a pairing code for a channel, perhaps for one address alone, perhaps for a person's.
pub async fn pair_start(
    hub: &Hub,
    channel: &str,
    to: Option<&str>,
    person: Option<&str>,
    by: &str,
) -> Result<PairingCode, Detail> {
    let known = configured(hub, channel)?;
    if !known.capabilities().answers || known.kind() == CONSOLE {
        let message = format!(
            "On {channel} nobody can type a code; allow the address: switchboard pair allow --channel {channel} --to HANDLE."
        );
        return Err(refusal::bad_field("channel", message));
    }
    let to = to.map(|to| known.normalise(AddressKind::Direct, to)).transpose();
    let to = to.map_err(|sentence| refusal::bad_field("to", sentence))?;
    let code = code(&random::bytes::<PAIR_LEN>(hub.entropy()), PAIR_LEN);
    let expires_ms = hub.clock().wall_ms() + PAIRING_MS;
    let write = OutboundWrite::PairStart {
        code_hash: sha256(code.as_bytes()),
        channel: known.name().to_owned(),
        to,
        person: maybe_person(hub, person).await?,
        expires_ms,
        by: by.to_owned(),
    };
    hub.commit_outbound(write).await?;
    Ok(PairingCode { code: show_pairing(&code), expires_ms })
}

/// What an operator says of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Say {
    /// It may be written to.
    Allow,
    /// It may be written to, although somebody whom nobody vouched for said STOP there.
    AllowInSpiteOfStop,
    /// It may not be written to.
    Revoke,
}

/// Says whether an address may be written to; the address in its one form.
pub async fn set_consent(
    hub: &Hub,
    channel: &str,
    (kind, to): (AddressKind, &str),
    say: Say,
    person: Option<&str>,
    by: &str,
) -> Result<Address, Detail> {
    let known = configured(hub, channel)?;
    if known.kind() == CONSOLE {
        let message =
            "On the console the people of the organization can be reached without pairing, and nobody else.";
        return Err(refusal::bad_field("channel", message));
    }
    let handle = known.normalise(kind, to).map_err(|sentence| refusal::bad_field("to", sentence))?;
    let to = Address { kind, handle };
    let state = if say == Say::Revoke { ConsentState::Revoked } else { ConsentState::Allowed };
    let write = OutboundWrite::Consent {
        channel: known.name().to_owned(),
        to: to.clone(),
        state,
        person: maybe_person(hub, person).await?,
        by: by.to_owned(),
        lift_stop: say == Say::AllowInSpiteOfStop,
    };
    hub.commit_outbound(write).await.map_err(|detail| named(detail, "to"))?;
    Ok(to)
}

fn configured(hub: &Hub, channel: &str) -> Result<Arc<dyn switchboard_core::port::channel::Channel>, Detail> {
    hub.outbound.registry.configured(channel).ok_or_else(|| {
        let names = hub.outbound.registry.names().join(", ");
        refusal::bad_field("channel", format!("No channel is named {channel:?}; there are: {names}."))
            .sb("SB0130")
    })
}

async fn maybe_person(hub: &Hub, name: Option<&str>) -> Result<Option<PersonNo>, Detail> {
    match name {
        Some(name) => person_named(hub, name).await.map(Some),
        None => Ok(None),
    }
}

/// The person of a display name, compared without regard to case.
pub(super) async fn person_named(hub: &Hub, name: &str) -> Result<PersonNo, Detail> {
    let people = hub.store().outbound().people().await.map_err(|error| refusal::store(&error))?;
    let wanted = name.trim().to_lowercase();
    let found = people.iter().find(|(_, name)| name.to_lowercase() == wanted);
    found.map(|(person, _)| *person).ok_or_else(|| {
        let names: Vec<_> = people.iter().take(20).map(|(_, name)| name.as_str()).collect();
        refusal::not_found("person", &format!("Nobody is named {name:?}; there are: {}.", names.join(", ")))
    })
}
