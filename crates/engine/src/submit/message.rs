//! `message`: an agent asks, offers, hands off, answers or reports (contract section 4).

use super::{Speaker, resolve_channel, resolve_gid};
use crate::frame::{self, OTHERS};
use crate::hub::Hub;
use crate::presence::{profile, profile_id};
use crate::refusal;
use bytes::Bytes;
use switchboard_core::digest::framed;
use switchboard_core::event::EventKind;
use switchboard_core::ids::VaultId;
use switchboard_core::limits::QUESTION_DEADLINE_MS_MAX;
use switchboard_core::principal::InstanceKind;
use switchboard_core::time::{SECOND_MS, WallMs};
use switchboard_core::write::{Append, Dedup, Recipient, StreamRef, Write};
use switchboard_protocol::Detail;
use switchboard_protocol::message::{AgentMessage, MessageType, Network};

/// The write of a message, or its refusal.
pub fn message(hub: &Hub, speaker: Speaker<'_>, message: &AgentMessage<'_>) -> Result<Write, Detail> {
    speaker.check_bus()?;
    let now_ms = hub.clock().wall_ms();
    let append = match &message.network {
        Network::Org { channel } => org(hub, speaker, message, channel, now_ms)?,
        Network::Swarm { swarm_id } => swarm(hub, speaker, message, swarm_id, now_ms)?,
    };
    Ok(Write::Append(append))
}

fn org(
    hub: &Hub,
    speaker: Speaker<'_>,
    message: &AgentMessage<'_>,
    channel: &str,
    now_ms: WallMs,
) -> Result<Append, Detail> {
    let (vault, name) = resolve_channel(hub, channel)?;
    if vault.sealed != message.sealed.is_some() {
        return Err(refusal::sealed_mismatch(vault.sealed));
    }
    speaker.check_agent(vault.vault, &message.from, "from")?;
    let recipient = match &message.to {
        Some(agent) => Recipient::Agent {
            agent: agent.to_string(),
            instance: message.to_instance.as_ref().map(ToString::to_string),
        },
        None => Recipient::Everyone,
    };
    let mut data = Vec::with_capacity(512);
    put_sender(hub, speaker, vault.vault, &message.from, &mut data);
    let deadline_ms = deadline(hub, message, now_ms)?;
    put_rest(message, deadline_ms, "team", &mut data);
    let stream = StreamRef::Channel { vault: vault.vault, name: name.to_owned() };
    let place = (kind(message.message_type)?, stream, recipient);
    Ok(append(hub, speaker, message, place, deadline_ms, now_ms + hub.org_keep_ms(), data.into()))
}

fn swarm(
    hub: &Hub,
    speaker: Speaker<'_>,
    message: &AgentMessage<'_>,
    swarm: &str,
    now_ms: WallMs,
) -> Result<Append, Detail> {
    if !hub.swarms.read().swarms.contains_key(swarm) {
        return Err(refusal::not_found("swarm_id", "No such swarm."));
    }
    speaker.check_agent_anywhere(&message.from, "from")?;
    let handle = hub.handle_in(speaker.who.owner, swarm);
    let handle = handle.ok_or_else(|| refusal::of(&switchboard_core::write::Refusal::NoHandle))?;
    let mut data = Vec::with_capacity(512);
    data.extend(br#""from":{"kind":"swarm","reputation":0,"#);
    let mut members = Vec::new();
    frame::member(&mut members, "handle", &handle);
    data.extend(members);
    data.push(b'}');
    let deadline_ms = deadline(hub, message, now_ms)?;
    // What is said in a swarm is public to its members: `to` only says whose turn it is.
    if let Some(to) = &message.to {
        frame::member(&mut data, "to", to);
    }
    put_rest(message, deadline_ms, "untrusted", &mut data);
    let place =
        (kind(message.message_type)?, StreamRef::Swarm { swarm: swarm.to_owned() }, Recipient::Everyone);
    let expires_at_ms = now_ms + hub.settings.swarm_keep_ms;
    let mut append = append(hub, speaker, message, place, deadline_ms, expires_at_ms, data.into());
    append.handle = Some((handle, hub.settings.swarm_messages_per_hour));
    Ok(append)
}

fn append(
    hub: &Hub,
    speaker: Speaker<'_>,
    message: &AgentMessage<'_>,
    (kind, stream, recipient): (EventKind, StreamRef, Recipient),
    deadline_ms: Option<WallMs>,
    expires_at_ms: WallMs,
    data: Bytes,
) -> Append {
    Append {
        stream,
        kind,
        from_instance: speaker.who.instance,
        from_agent: message.from.to_string(),
        dedup: Some(Dedup { client_id: message.client_msg_id.to_string(), digest: digest(message) }),
        reply_to: message.reply_to.as_ref().map(|gid| resolve_gid(hub, gid)),
        recipient,
        deadline_ms,
        expires_at_ms,
        handle: None,
        data,
    }
}

fn kind(message_type: MessageType) -> Result<EventKind, Detail> {
    match message_type {
        MessageType::Question => Ok(EventKind::Question),
        MessageType::Offer => Ok(EventKind::Offer),
        MessageType::Handoff => Ok(EventKind::Handoff),
        MessageType::Answer => Ok(EventKind::Answer),
        MessageType::Finding => Ok(EventKind::Finding),
        MessageType::Unknown => {
            Err(refusal::bad_field("type", "Use one of question, offer, handoff, answer, finding."))
        }
    }
}

/// What the client said, whatever the hub adds: two sends with one id must agree in it.
fn digest(message: &AgentMessage<'_>) -> [u8; 16] {
    let content = serde_json::to_vec(message).unwrap_or_default();
    let mut short = [0; 16];
    short.copy_from_slice(&framed("message", &[&content])[..16]);
    short
}

fn deadline(hub: &Hub, message: &AgentMessage<'_>, now_ms: WallMs) -> Result<Option<WallMs>, Detail> {
    if message.message_type != MessageType::Question {
        return Ok(None);
    }
    let Some(asked) = message.deadline else { return Ok(Some(now_ms + hub.settings.question_deadline_ms)) };
    let deadline_ms = asked.unix() * SECOND_MS;
    // One second of play: the wire rounds to seconds. That it lies ahead is checked with the commit, behind the check for
    // a resend, whose deadline may have passed in the meantime.
    if deadline_ms > now_ms + QUESTION_DEADLINE_MS_MAX + SECOND_MS {
        return Err(refusal::bad_field("deadline", "The deadline may lie at most 7 days ahead.").sb("SB0109"));
    }
    Ok(Some(deadline_ms))
}

fn put_sender(hub: &Hub, speaker: Speaker<'_>, vault: VaultId, agent: &str, out: &mut Vec<u8>) {
    let who = speaker.who;
    if who.kind == InstanceKind::Person {
        out.extend(br#""from":{"kind":"person","#);
        let mut members = Vec::new();
        frame::member(&mut members, "label", &who.owner_name);
        out.extend(members);
        out.push(b'}');
        return;
    }
    out.extend(OTHERS.as_bytes());
    frame::member(out, "agent", &agent);
    frame::member(out, "instance_label", &who.label);
    frame::member(out, "instance_id", &who.instance_id);
    frame::member(out, "owner", &who.owner_name);
    let row = hub.presence.agent(vault, who.instance, agent);
    if let Some(profile) = row.as_ref().and_then(profile) {
        if let Some(model) = profile.model {
            frame::member(out, "model", &model);
        }
        frame::member(out, "profile_id", &profile_id(&who.instance_id, vault, agent));
    }
    out.push(b'}');
}

fn put_rest(message: &AgentMessage<'_>, deadline_ms: Option<WallMs>, trust: &str, out: &mut Vec<u8>) {
    frame::member(out, "network", &message.network);
    frame::member(out, "type", &message.message_type);
    if let Some(deadline_ms) = deadline_ms {
        frame::member(out, "deadline", &frame::utc(deadline_ms));
    }
    if let Some(body) = &message.body {
        frame::member(out, "body", body);
    }
    if let Some(sealed) = &message.sealed {
        frame::member(out, "sealed", sealed);
    }
    frame::member(out, "trust", &trust);
}
