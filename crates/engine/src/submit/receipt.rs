//! `message.receipt`: the receiving agent has a message, or has read it (contract section 4).

use super::{Speaker, resolve_gid};
use crate::hub::Hub;
use crate::refusal;
use switchboard_core::ids::EventId;
use switchboard_core::port::store::StreamOwner;
use switchboard_core::write::{self, Write};
use switchboard_protocol::Detail;
use switchboard_protocol::message::{Receipt, ReceiptState};

/// The write of a receipt, or its refusal.
pub fn receipt(hub: &Hub, speaker: Speaker<'_>, receipt: &Receipt<'_>) -> Result<Write, Detail> {
    speaker.check_bus()?;
    let event = resolve_gid(hub, &receipt.gid);
    let state = match receipt.state {
        ReceiptState::Delivered => write::ReceiptState::Delivered,
        ReceiptState::Read => write::ReceiptState::Read,
        ReceiptState::Unknown => return Err(refusal::bad_field("state", "Use delivered or read.")),
    };
    let agent = receiver(hub, speaker, event, &receipt.by)?;
    Ok(Write::Receipt(write::Receipt { event, instance: speaker.who.instance, agent, state }))
}

/// The receiver as the sender will see it: the agent, or in a swarm nothing but its handle.
fn receiver(hub: &Hub, speaker: Speaker<'_>, event: EventId, by: &str) -> Result<String, Detail> {
    match hub.streams.get(event.stream).map(|stream| stream.owner.clone()) {
        Some(StreamOwner::Channel { vault, .. }) => {
            speaker.check_agent(vault, by, "by")?;
            Ok(by.to_owned())
        }
        Some(StreamOwner::Swarm { swarm }) => {
            speaker.check_agent_anywhere(by, "by")?;
            hub.handle_in(speaker.who.owner, &swarm).ok_or_else(no_such_message)
        }
        None => {
            speaker.check_agent_anywhere(by, "by")?;
            Err(no_such_message())
        }
    }
}

fn no_such_message() -> Detail {
    refusal::not_found("gid", "No such message.")
}
