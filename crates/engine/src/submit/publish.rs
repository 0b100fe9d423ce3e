//! `publish`: an event of any kind on a channel (contract section 3).

use super::{Speaker, resolve_channel};
use crate::frame;
use crate::hub::Hub;
use crate::refusal;
use switchboard_core::digest::framed;
use switchboard_core::event::EventKind;
use switchboard_core::write::{Append, Dedup, Recipient, StreamRef, Write};
use switchboard_protocol::Detail;
use switchboard_protocol::frame::Privacy;
use switchboard_protocol::frame::client::Publish;

/// The write of a publish, or its refusal.
pub fn publish(hub: &Hub, speaker: Speaker<'_>, publish: &Publish<'_>) -> Result<Write, Detail> {
    speaker.check_bus()?;
    let (vault, name) = resolve_channel(hub, &publish.channel)?;
    if vault.sealed {
        return Err(refusal::sealed_mismatch(true));
    }
    speaker.check_agent(vault.vault, &publish.from, "from")?;
    Ok(Write::Append(Append {
        stream: StreamRef::Channel { vault: vault.vault, name: name.to_owned() },
        kind: EventKind::Publish,
        from_instance: speaker.who.instance,
        from_agent: publish.from.to_string(),
        dedup: Some(Dedup { client_id: publish.client_msg_id.to_string(), digest: digest(publish) }),
        reply_to: None,
        recipient: recipient(publish)?,
        deadline_ms: None,
        expires_at_ms: hub.clock().wall_ms() + hub.org_keep_ms(),
        handle: None,
        data: data(publish).into(),
    }))
}

/// Only a private publish is kept from others; otherwise `to` says whom it concerns.
fn recipient(publish: &Publish<'_>) -> Result<Recipient, Detail> {
    match (&publish.to, publish.privacy) {
        (Some(agent), Privacy::Private) => Ok(Recipient::Agent { agent: agent.to_string(), instance: None }),
        (None, Privacy::Private) => {
            Err(refusal::bad_field("to", "A private publish names its receiver in `to`."))
        }
        _ => Ok(Recipient::Everyone),
    }
}

fn data(publish: &Publish<'_>) -> Vec<u8> {
    let mut data = Vec::with_capacity(publish.body.get().len() + 256);
    frame::member(&mut data, "channel", &publish.channel);
    frame::member(&mut data, "from", &publish.from);
    if let Some(to) = &publish.to {
        frame::member(&mut data, "to", to);
    }
    frame::member(&mut data, "kind", &publish.kind);
    frame::member(&mut data, "priority", &publish.priority);
    frame::member(&mut data, "privacy", &publish.privacy);
    data.extend(br#","body":"#);
    data.extend(publish.body.get().as_bytes());
    data
}

fn digest(publish: &Publish<'_>) -> [u8; 16] {
    let mut short = [0; 16];
    short.copy_from_slice(&framed("publish", &[&data(publish)])[..16]);
    short
}
