//! `handoff.offer|ack|reject`: handing something over, redelivered until it is settled (contract section 6).

use super::{Speaker, resolve_channel};
use crate::hub::Hub;
use crate::refusal;
use switchboard_core::limits::HANDOFF_DEADLINE_MS_MAX;
use switchboard_core::time::SECOND_MS;
use switchboard_core::write::{Recipient, Write};
use switchboard_protocol::Detail;
use switchboard_protocol::frame::server::ServerFrame;
use switchboard_protocol::frame::{HandoffAck, HandoffOffer, HandoffReject};

/// The write of an offer, or its refusal.
pub fn offer(hub: &Hub, speaker: Speaker<'_>, offer: HandoffOffer<'_>) -> Result<Write, Detail> {
    speaker.check_bus()?;
    let (vault, _) = resolve_channel(hub, &offer.channel)?;
    speaker.check_agent(vault.vault, &offer.from, "from")?;
    let deadline_ms = offer.deadline.unix() * SECOND_MS;
    let now_ms = hub.clock().wall_ms();
    if deadline_ms > now_ms + HANDOFF_DEADLINE_MS_MAX {
        return Err(refusal::bad_field("deadline", "The deadline may lie at most 7 days ahead.").sb("SB0109"));
    }
    if deadline_ms <= now_ms {
        return Err(refusal::bad_field("deadline", "The deadline must lie in the future.").sb("SB0109"));
    }
    Ok(Write::HandoffOffer {
        handoff_id: offer.handoff_id.to_string(),
        vault: vault.vault,
        from: (speaker.who.instance, offer.from.to_string()),
        to: Recipient::Agent { agent: offer.to.to_string(), instance: None },
        frame: text(&ServerFrame::HandoffOffer(offer)),
        deadline_ms,
    })
}

/// The write of an acceptance, or its refusal.
pub fn accept(speaker: Speaker<'_>, ack: HandoffAck<'_>) -> Result<Write, Detail> {
    speaker.check_bus()?;
    speaker.check_agent_anywhere(&ack.by, "by")?;
    Ok(Write::HandoffSettle {
        handoff_id: ack.handoff_id.to_string(),
        by: (speaker.who.instance, ack.by.to_string()),
        accept: true,
        frame: text(&ServerFrame::HandoffAck(ack)),
    })
}

/// The write of a rejection, or its refusal.
pub fn reject(speaker: Speaker<'_>, reject: HandoffReject<'_>) -> Result<Write, Detail> {
    speaker.check_bus()?;
    speaker.check_agent_anywhere(&reject.by, "by")?;
    Ok(Write::HandoffSettle {
        handoff_id: reject.handoff_id.to_string(),
        by: (speaker.who.instance, reject.by.to_string()),
        accept: false,
        frame: text(&ServerFrame::HandoffReject(reject)),
    })
}

fn text(frame: &ServerFrame<'_>) -> String {
    // Wire types have string keys only: serializing them cannot fail.
    frame.to_json().unwrap_or_default()
}
