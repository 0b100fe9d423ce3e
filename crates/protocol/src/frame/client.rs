//! Frames a client sends.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::server::ErrorFrame;
use super::{HandoffAck, HandoffOffer, HandoffReject, Heartbeat, PresenceState, Priority, Privacy};
use crate::de::{UnknownFields, borrowed_option, read_tagged};
use crate::error::{Code, Detail};
use crate::json::{self, Limits};
use crate::limits::{AGENT_ROLE_CHARS_MAX, HELLO_AGENTS_MAX, HELLO_CURSORS_MAX, PUBLISH_BODY_BYTES_MAX};
use crate::message::{AgentMessage, Receipt, own};
use crate::profile::PresenceProfile;
use crate::text::{Channel, CursorKey, Invalid, validate_id, validate_text, validate_vault_id};

/// An agent announced in a [`Hello`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HelloAgent<'a> {
    /// Name of the agent on its instance.
    #[serde(borrow)]
    pub agent_id: Cow<'a, str>,
    /// Its role, 1 to 64 characters.
    #[serde(borrow)]
    pub role: Cow<'a, str>,
    /// The vault it works in.
    #[serde(borrow)]
    pub vault_id: Cow<'a, str>,
}

impl HelloAgent<'_> {
    /// Check every field.
    pub fn validate(&self) -> Result<(), Invalid> {
        validate_id(&self.agent_id, "agent_id")?;
        validate_text(&self.role, AGENT_ROLE_CHARS_MAX, "role", false)?;
        validate_vault_id(&self.vault_id)
    }

    /// The same, independent of the text it was read from.
    pub fn into_owned(self) -> HelloAgent<'static> {
        HelloAgent { agent_id: own(self.agent_id), role: own(self.role), vault_id: own(self.vault_id) }
    }
}

/// `hello`: first on a socket, and again whenever the agents change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello<'a> {
    /// The instance of the bearer.
    #[serde(borrow)]
    pub instance_id: Cow<'a, str>,
    /// Replaces what was announced before; at most 64.
    #[serde(borrow)]
    pub agents: Vec<HelloAgent<'a>>,
    /// Last `seq` seen per [`CursorKey`]; newer events are replayed. At most 256.
    #[serde(default)]
    pub cursors: BTreeMap<String, u64>,
    /// The log epoch the cursors belong to (extension).
    #[serde(default, borrow, deserialize_with = "borrowed_option", skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Cow<'a, str>>,
}

impl Hello<'_> {
    /// Check ids, agents and cursors, and their numbers.
    pub fn validate(&self) -> Result<(), Invalid> {
        validate_id(&self.instance_id, "instance_id")?;
        if self.agents.len() > HELLO_AGENTS_MAX {
            return Err(Invalid::rule(
                "agents",
                format_args!("must be at most {HELLO_AGENTS_MAX} on one socket"),
            ));
        }
        if self.cursors.len() > HELLO_CURSORS_MAX {
            return Err(Invalid::rule("cursors", format_args!("must be at most {HELLO_CURSORS_MAX}")));
        }
        self.agents.iter().try_for_each(HelloAgent::validate)?;
        let malformed = self.cursors.keys().any(|key| CursorKey::parse(key).is_err());
        if malformed {
            return Err(Invalid::rule(
                "cursors",
                "must have keys org:<org>/vault:<vault_id>/<name> or swarm:<swarm_id>",
            ));
        }
        self.epoch.as_ref().map_or(Ok(()), |epoch| validate_id(epoch, "epoch"))
    }

    /// The same, independent of the text it was read from.
    pub fn into_owned(self) -> Hello<'static> {
        Hello {
            instance_id: own(self.instance_id),
            agents: self.agents.into_iter().map(HelloAgent::into_owned).collect(),
            cursors: self.cursors,
            epoch: self.epoch.map(own),
        }
    }
}

/// `presence`: what an announced agent is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Presence<'a> {
    /// The agent.
    #[serde(borrow)]
    pub agent_id: Cow<'a, str>,
    /// What it is doing.
    pub state: PresenceState,
    /// What it says about itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<PresenceProfile>,
}

impl Presence<'_> {
    /// Check id and profile.
    pub fn validate(&self) -> Result<(), Invalid> {
        validate_id(&self.agent_id, "agent_id")?;
        self.profile.as_ref().map_or(Ok(()), PresenceProfile::validate)
    }

    /// The same, independent of the text it was read from.
    pub fn into_owned(self) -> Presence<'static> {
        Presence { agent_id: own(self.agent_id), state: self.state, profile: self.profile }
    }
}

/// `publish`: an event of any shape on a channel.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Publish<'a> {
    /// Chosen by the client; publishing the same id again is answered like the first time.
    #[serde(borrow)]
    pub client_msg_id: Cow<'a, str>,
    /// The channel.
    #[serde(borrow)]
    pub channel: Cow<'a, str>,
    /// One receiving agent.
    #[serde(default, borrow, deserialize_with = "borrowed_option", skip_serializing_if = "Option::is_none")]
    pub to: Option<Cow<'a, str>>,
    /// The sending agent, announced on this socket.
    #[serde(borrow)]
    pub from: Cow<'a, str>,
    /// Kind of event, an id chosen by the sender.
    #[serde(borrow)]
    pub kind: Cow<'a, str>,
    /// How urgent.
    pub priority: Priority,
    /// Who may see it.
    pub privacy: Privacy,
    /// Any JSON, at most 64 KiB as written; passed on as it came.
    #[serde(borrow)]
    pub body: &'a RawValue,
}

impl Publish<'_> {
    /// Check ids and the size of the body.
    pub fn validate(&self) -> Result<(), Invalid> {
        validate_id(&self.client_msg_id, "client_msg_id")?;
        Channel::parse(&self.channel)?;
        validate_id(&self.from, "from")?;
        self.to.as_ref().map_or(Ok(()), |to| validate_id(to, "to"))?;
        validate_id(&self.kind, "kind")?;
        if self.body.get().len() > PUBLISH_BODY_BYTES_MAX {
            return Err(Invalid::rule(
                "body",
                format_args!("must be at most {PUBLISH_BODY_BYTES_MAX} bytes"),
            ));
        }
        Ok(())
    }
}

/// `ack`: everything up to `seq` is processed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ack<'a> {
    /// A [`CursorKey`].
    #[serde(borrow)]
    pub channel: Cow<'a, str>,
    /// The position.
    pub seq: u64,
}

impl Ack<'_> {
    /// Check the key.
    pub fn validate(&self) -> Result<(), Invalid> {
        CursorKey::parse(&self.channel).map(drop)
    }

    /// The same, independent of the text it was read from.
    pub fn into_owned(self) -> Ack<'static> {
        Ack { channel: own(self.channel), seq: self.seq }
    }
}

/// A frame from a client, borrowed from its text. Serializes with its tag.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "t")]
pub enum ClientFrame<'a> {
    /// `hello`.
    #[serde(rename = "hello")]
    Hello(Hello<'a>),
    /// `presence`.
    #[serde(rename = "presence")]
    Presence(Presence<'a>),
    /// `publish`.
    #[serde(rename = "publish")]
    Publish(Publish<'a>),
    /// `ack`.
    #[serde(rename = "ack")]
    Ack(Ack<'a>),
    /// `handoff.offer`.
    #[serde(rename = "handoff.offer")]
    HandoffOffer(HandoffOffer<'a>),
    /// `handoff.ack`.
    #[serde(rename = "handoff.ack")]
    HandoffAck(HandoffAck<'a>),
    /// `handoff.reject`.
    #[serde(rename = "handoff.reject")]
    HandoffReject(HandoffReject<'a>),
    /// `message`.
    #[serde(rename = "message")]
    Message(AgentMessage<'a>),
    /// `message.receipt`.
    #[serde(rename = "message.receipt")]
    MessageReceipt(Receipt<'a>),
    /// `ping`.
    #[serde(rename = "ping")]
    Ping(Heartbeat),
    /// `pong`.
    #[serde(rename = "pong")]
    Pong(Heartbeat),
    /// A type this version does not know, to be ignored; the name is unchecked.
    #[serde(skip)]
    Unknown(Cow<'a, str>),
}

impl ClientFrame<'_> {
    /// The frame as text. Fails only for [`ClientFrame::Unknown`], which has no content to write.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// Its type, as `t` says it; `None` for a type this version does not know.
    pub fn tag(&self) -> Option<&'static str> {
        Some(match self {
            Self::Hello(_) => "hello",
            Self::Presence(_) => "presence",
            Self::Publish(_) => "publish",
            Self::Ack(_) => "ack",
            Self::HandoffOffer(_) => "handoff.offer",
            Self::HandoffAck(_) => "handoff.ack",
            Self::HandoffReject(_) => "handoff.reject",
            Self::Message(_) => "message",
            Self::MessageReceipt(_) => "message.receipt",
            Self::Ping(_) => "ping",
            Self::Pong(_) => "pong",
            Self::Unknown(_) => return None,
        })
    }
}

/// Types a client sends, as [`ClientFrame::tag`] names them.
const CLIENT_TYPES: [&str; 11] = [
    "hello",
    "presence",
    "publish",
    "ack",
    "handoff.offer",
    "handoff.ack",
    "handoff.reject",
    "message",
    "message.receipt",
    "ping",
    "pong",
];

/// A frame that was not accepted: what to answer. The socket stays open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Id of the refused frame, if it had a well-formed one.
    pub client_msg_id: Option<String>,
    /// Its type, if it is one that clients send.
    pub answers: Option<&'static str>,
    /// Why.
    pub error: Detail,
}

impl From<Refused> for ErrorFrame<'static> {
    fn from(refused: Refused) -> Self {
        Self {
            client_msg_id: refused.client_msg_id.map(Cow::Owned),
            answers: refused.answers.map(Cow::Borrowed),
            error: refused.error,
        }
    }
}

/// Read one text frame of a client: strict JSON within `limits`, then exactly one typed shape, then its rules.
///
/// Unknown types are `Ok(ClientFrame::Unknown)`; types only a server sends, unknown fields, wrong types and broken rules are
/// refused with the field at fault.
pub fn parse<'a>(text: &'a str, limits: &Limits) -> Result<ClientFrame<'a>, Refused> {
    let scan = json::scan(text.as_bytes(), *limits).map_err(|error| Refused {
        client_msg_id: None,
        answers: None,
        error: Detail::from(error),
    })?;
    let Some(tag) = scan.t else {
        let rule =
            if scan.is_object { "is required and must be a string" } else { "is required in an object" };
        return Err(refuse(scan.client_msg_id, None, Invalid::rule("t", rule).into()));
    };
    let answers = CLIENT_TYPES.into_iter().find(|known| *known == tag);
    read(&tag, text)
        .map_err(|error| refuse(scan.client_msg_id, answers, error))
        .map(|frame| frame.unwrap_or(ClientFrame::Unknown(tag)))
}

fn refuse(client_msg_id: Option<Cow<'_, str>>, answers: Option<&'static str>, error: Detail) -> Refused {
    let well_formed = client_msg_id.filter(|id| validate_id(id, "client_msg_id").is_ok());
    Refused { client_msg_id: well_formed.map(Cow::into_owned), answers, error }
}

/// Types a server sends and no client may.
const SERVER_ONLY: [&str; 11] = [
    "published",
    "deliver",
    "presence_update",
    "control",
    "message.stored",
    "message.deliver",
    "message.status",
    "task.event",
    "knowledge.event",
    "cursor",
    "error",
];

fn read<'a>(tag: &str, text: &'a str) -> Result<Option<ClientFrame<'a>>, Detail> {
    let frame = match tag {
        "message" => ClientFrame::Message(checked(text, AgentMessage::validate)?),
        "publish" => ClientFrame::Publish(checked(text, Publish::validate)?),
        "ack" => ClientFrame::Ack(checked(text, Ack::validate)?),
        "message.receipt" => ClientFrame::MessageReceipt(checked(text, Receipt::validate)?),
        "presence" => ClientFrame::Presence(checked(text, Presence::validate)?),
        "hello" => ClientFrame::Hello(checked(text, Hello::validate)?),
        "ping" => ClientFrame::Ping(checked(text, |_: &Heartbeat| Ok(()))?),
        "pong" => ClientFrame::Pong(checked(text, |_: &Heartbeat| Ok(()))?),
        "handoff.offer" => ClientFrame::HandoffOffer(checked(text, HandoffOffer::validate)?),
        "handoff.ack" => ClientFrame::HandoffAck(checked(text, HandoffAck::validate)?),
        "handoff.reject" => ClientFrame::HandoffReject(checked(text, HandoffReject::validate)?),
        tag if SERVER_ONLY.contains(&tag) => {
            let message = "this frame type is sent by the server only";
            return Err(Detail::new(Code::InvalidRequest, message).field("t"));
        }
        _ => return Ok(None),
    };
    Ok(Some(frame))
}

fn checked<'a, T: Deserialize<'a>>(
    text: &'a str,
    rules: impl Fn(&T) -> Result<(), Invalid>,
) -> Result<T, Detail> {
    let frame = read_tagged(text, UnknownFields::Refuse)?;
    rules(&frame)?;
    Ok(frame)
}

#[cfg(test)]
mod tests;
