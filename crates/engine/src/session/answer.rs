//! Answers to what a client sent, once it is settled.

use super::{Refused, Session, Settled};
use crate::follow::Outbox;
use crate::frame::{put_number, utc};
use crate::refusal;
use switchboard_core::gid::GidCipher;
use switchboard_core::ids::{EventId, VaultId};
use switchboard_core::port::doorbell::Topic;
use switchboard_core::write::{Appended, Outcome};
use switchboard_protocol::Detail;
use switchboard_protocol::frame::client::Publish;
use switchboard_protocol::message::AgentMessage;

/// How to answer one write.
#[derive(Debug)]
pub enum Ack {
    /// `message.stored`.
    Message {
        /// The client's id.
        id: String,
        /// The network as JSON.
        network: Vec<u8>,
    },
    /// `published`.
    Publish {
        /// The client's id.
        id: String,
        /// The channel as JSON.
        channel: Vec<u8>,
    },
    /// Nothing, but the sender is told.
    Receipt(EventId),
    /// Nothing, but others are told.
    Presence(VaultId),
    /// Nothing, but whom it concerns is told.
    Handoff {
        /// Type of the frame.
        tag: &'static str,
    },
    /// Nothing.
    Nothing,
}

impl Ack {
    pub(super) fn message(message: &AgentMessage<'_>) -> Self {
        let network = serde_json::to_vec(&message.network).unwrap_or_default();
        Self::Message { id: message.client_msg_id.to_string(), network }
    }

    pub(super) fn publish(publish: &Publish<'_>) -> Self {
        let channel = serde_json::to_vec(&publish.channel).unwrap_or_default();
        Self::Publish { id: publish.client_msg_id.to_string(), channel }
    }

    fn verb(&self) -> &'static str {
        match self {
            Self::Message { .. } => "bus.message",
            Self::Publish { .. } => "bus.publish",
            Self::Receipt(_) => "bus.receipt",
            Self::Presence(_) => "presence.announce",
            Self::Handoff { .. } => "handoff",
            Self::Nothing => "bus.notices",
        }
    }

    fn tag(&self) -> Option<&'static str> {
        match self {
            Self::Message { .. } => Some("message"),
            Self::Publish { .. } => Some("publish"),
            Self::Receipt(_) => Some("message.receipt"),
            Self::Presence(_) => Some("presence"),
            Self::Handoff { tag } => Some(tag),
            Self::Nothing => None,
        }
    }

    fn id(self) -> Option<String> {
        match self {
            Self::Message { id, .. } | Self::Publish { id, .. } => Some(id),
            _ => None,
        }
    }
}

/// Answers each write of a batch in its order.
pub(super) fn settle(session: &mut Session, settled: Settled, out: &mut Outbox) {
    let outcomes = match settled.result {
        Ok(outcomes) => outcomes,
        Err(error) => {
            let detail = refusal::store(&error);
            settled.acks.into_iter().for_each(|ack| refuse(session, ack, detail.clone(), out));
            return;
        }
    };
    let mut rings = Vec::new();
    let mut receipts = Vec::new();
    for (ack, outcome) in settled.acks.into_iter().zip(outcomes) {
        match (ack, outcome) {
            (ack, Outcome::Refused(refused)) => refuse(session, ack, refusal::of(&refused), out),
            (Ack::Message { id, network }, Outcome::Appended(appended)) => {
                out.push(stored(&session.hub.gids, &id, &network, &appended).into());
            }
            (Ack::Publish { id, channel }, Outcome::Appended(appended)) => {
                out.push(published(&id, &channel, &appended).into());
            }
            (Ack::Receipt(event), Outcome::Receipt { advanced: true }) => receipts.push(event),
            (Ack::Presence(vault), Outcome::Announced { changed: true }) => rings.push(Topic::Vault(vault)),
            (Ack::Handoff { .. }, Outcome::Handoff { ring }) => rings.push(Topic::Instance(ring)),
            _ => {}
        }
    }
    session.hub.doorbell().ring(&rings);
    tell_senders(session, receipts);
}

/// Wakes the senders of messages that were received.
fn tell_senders(session: &Session, receipts: Vec<EventId>) {
    if !receipts.is_empty() {
        let hub = session.hub.clone();
        session.hub.spawn(async move { crate::inbox::tell_senders(&hub, receipts).await });
    }
}

fn refuse(session: &Session, ack: Ack, detail: Detail, out: &mut Outbox) {
    let (verb, answers) = (ack.verb(), ack.tag());
    session.refuse(verb, Refused { id: ack.id(), answers }, detail, out);
}

/// `message.stored`.
#[must_use]
pub fn stored(gids: &GidCipher, id: &str, network: &[u8], appended: &Appended) -> Vec<u8> {
    let mut out = Vec::with_capacity(320);
    // A client id has no character that JSON escapes.
    out.extend(br#"{"t":"message.stored","client_msg_id":""#);
    out.extend(id.as_bytes());
    out.extend(br#"","gid":""#);
    out.extend(gids.gid(appended.id).as_bytes());
    out.extend(br#"","thread_id":""#);
    out.extend(gids.gid(appended.thread).as_bytes());
    out.extend(br#"","network":"#);
    out.extend(network);
    out.extend(br#","seq":"#);
    put_number(&mut out, appended.id.seq);
    out.extend(br#","server_time":""#);
    utc(appended.at_ms).write_to(&mut out);
    out.extend(br#"","expires_at":""#);
    utc(appended.expires_at_ms).write_to(&mut out);
    out.extend(br#""}"#);
    out
}

fn published(id: &str, channel: &[u8], appended: &Appended) -> Vec<u8> {
    let mut out = Vec::with_capacity(224);
    out.extend(br#"{"t":"published","client_msg_id":""#);
    out.extend(id.as_bytes());
    out.extend(br#"","channel":"#);
    out.extend(channel);
    out.extend(br#","seq":"#);
    put_number(&mut out, appended.id.seq);
    out.extend(br#","server_time":""#);
    utc(appended.at_ms).write_to(&mut out);
    out.extend(br#""}"#);
    out
}
