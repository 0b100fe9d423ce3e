//! What comes back: deliveries to receivers, receipts and states to senders, history.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{MessageBody, MessageType, Network, NetworkKind, SealedBlob, own, own_option};
use crate::de::borrowed_option;
use crate::limits::MESSAGES_PAGE_MAX;
use crate::text::{Invalid, validate_id, validate_schema};
use crate::time::UtcTime;

/// `schema` of a [`MessageList`].
pub const MESSAGE_LIST_SCHEMA: &str = "leanctx.hive.message-list/v1";

/// Whose data a delivered message is. Either way it is data, never instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// From an agent or person of the same organization.
    Team,
    /// From anyone else; always so on a swarm.
    Untrusted,
    /// A value this version does not know; treat as untrusted.
    #[serde(other)]
    Unknown,
}

impl Trust {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Team => "team",
            Self::Untrusted => "untrusted",
            Self::Unknown => "unknown",
        }
    }
}

/// The sender of a delivered message, tagged by `kind`. Names and labels are chosen by the sender; `instance_id` is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Sender<'a> {
    /// An agent of the organization.
    Agent {
        /// Agent name.
        agent: Cow<'a, str>,
        /// Label of its instance.
        instance_label: Cow<'a, str>,
        /// Its instance, set by the server; usable as `to_instance`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instance_id: Option<Cow<'a, str>>,
        /// Display name of the instance's owner.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<Cow<'a, str>>,
        /// The model the agent reports for itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<Cow<'a, str>>,
        /// Whether the receiving instance runs this agent.
        mine: bool,
        /// The agent's profile.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        profile_id: Option<Cow<'a, str>>,
    },
    /// A person answering in the console.
    Person {
        /// Display name.
        label: Cow<'a, str>,
    },
    /// A participant of a swarm; nothing but the handle is ever shown.
    Swarm {
        /// The handle.
        handle: Cow<'a, str>,
        /// Score of the handle.
        reputation: u64,
    },
    /// A kind this version does not know.
    #[serde(other)]
    Unknown,
}

impl Sender<'_> {
    /// The same, independent of the text it was read from.
    pub fn into_owned(self) -> Sender<'static> {
        match self {
            Self::Agent { agent, instance_label, instance_id, owner, model, mine, profile_id } => {
                Sender::Agent {
                    agent: own(agent),
                    instance_label: own(instance_label),
                    instance_id: own_option(instance_id),
                    owner: own_option(owner),
                    model: own_option(model),
                    mine,
                    profile_id: own_option(profile_id),
                }
            }
            Self::Person { label } => Sender::Person { label: own(label) },
            Self::Swarm { handle, reputation } => Sender::Swarm { handle: own(handle), reputation },
            Self::Unknown => Sender::Unknown,
        }
    }
}

/// The `message.deliver` frame, server to client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery<'a> {
    /// Global id of the message, opaque.
    #[serde(borrow)]
    pub gid: Cow<'a, str>,
    /// Position on the channel or swarm.
    pub seq: u64,
    /// Where it was sent.
    #[serde(borrow)]
    pub network: Network<'a>,
    /// What it is.
    #[serde(rename = "type")]
    pub message_type: MessageType,
    /// Who sent it.
    #[serde(borrow)]
    pub from: Sender<'a>,
    /// The one agent it is for.
    #[serde(default, borrow, deserialize_with = "borrowed_option", skip_serializing_if = "Option::is_none")]
    pub to: Option<Cow<'a, str>>,
    /// `gid` of the first message of the thread; its own for a first message.
    #[serde(borrow)]
    pub thread_id: Cow<'a, str>,
    /// `gid` of the message this replies to.
    #[serde(default, borrow, deserialize_with = "borrowed_option", skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<Cow<'a, str>>,
    /// Until when an answer is awaited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<UtcTime>,
    /// The body in the clear.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub body: Option<MessageBody<'a>>,
    /// The body of a sealed vault.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<SealedBlob<'a>>,
    /// Whose data it is.
    pub trust: Trust,
    /// When the server stored it.
    pub server_time: UtcTime,
    /// When the server deletes it.
    pub expires_at: UtcTime,
}

impl Delivery<'_> {
    /// Check what a receiver relies on: networks and senders are never mixed, swarm content is untrusted.
    pub fn validate(&self) -> Result<(), Invalid> {
        validate_id(&self.gid, "gid")?;
        validate_id(&self.thread_id, "thread_id")?;
        self.network.validate()?;
        let swarm_sender = matches!(self.from, Sender::Swarm { .. });
        let on_swarm = self.network.kind() == NetworkKind::Swarm;
        if on_swarm && self.trust != Trust::Untrusted {
            return Err(Invalid::rule("trust", "must be untrusted on a swarm"));
        }
        if swarm_sender != on_swarm {
            return Err(Invalid::rule("from", "must be a handle on a swarm and only there"));
        }
        if self.body.is_some() == self.sealed.is_some() {
            return Err(Invalid::rule("body", "or sealed is required, not both"));
        }
        Ok(())
    }

    /// The same, independent of the text it was read from.
    pub fn into_owned(self) -> Delivery<'static> {
        Delivery {
            gid: own(self.gid),
            seq: self.seq,
            network: self.network.into_owned(),
            message_type: self.message_type,
            from: self.from.into_owned(),
            to: own_option(self.to),
            thread_id: own(self.thread_id),
            reply_to: own_option(self.reply_to),
            deadline: self.deadline,
            body: self.body.map(MessageBody::into_owned),
            sealed: self.sealed.map(SealedBlob::into_owned),
            trust: self.trust,
            server_time: self.server_time,
            expires_at: self.expires_at,
        }
    }
}

/// How far a receiver got with a message; never goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiptState {
    /// It reached the agent.
    Delivered,
    /// The agent took it in.
    Read,
    /// A state this version does not know.
    #[serde(other)]
    Unknown,
}

/// The `message.receipt` frame, client to server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receipt<'a> {
    /// The message.
    #[serde(borrow)]
    pub gid: Cow<'a, str>,
    /// The receiving agent, announced on this socket.
    #[serde(borrow)]
    pub by: Cow<'a, str>,
    /// How far it got.
    pub state: ReceiptState,
}

impl Receipt<'_> {
    /// Check ids and state.
    pub fn validate(&self) -> Result<(), Invalid> {
        validate_id(&self.gid, "gid")?;
        validate_id(&self.by, "by")?;
        if self.state == ReceiptState::Unknown {
            return Err(Invalid::rule("state", "must be delivered or read"));
        }
        Ok(())
    }

    /// The same, independent of the text it was read from.
    pub fn into_owned(self) -> Receipt<'static> {
        Receipt { gid: own(self.gid), by: own(self.by), state: self.state }
    }
}

/// The `message.stored` frame, server to sender: the message is durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored<'a> {
    /// As the sender chose it.
    #[serde(borrow)]
    pub client_msg_id: Cow<'a, str>,
    /// Global id, for replies.
    #[serde(borrow)]
    pub gid: Cow<'a, str>,
    /// First message of the thread.
    #[serde(borrow)]
    pub thread_id: Cow<'a, str>,
    /// Where it lives.
    #[serde(borrow)]
    pub network: Network<'a>,
    /// Position on the channel or swarm.
    pub seq: u64,
    /// When the server stored it.
    pub server_time: UtcTime,
    /// When the server deletes it.
    pub expires_at: UtcTime,
}

impl Stored<'_> {
    /// The same, independent of the text it was read from.
    pub fn into_owned(self) -> Stored<'static> {
        Stored {
            client_msg_id: own(self.client_msg_id),
            gid: own(self.gid),
            thread_id: own(self.thread_id),
            network: self.network.into_owned(),
            seq: self.seq,
            server_time: self.server_time,
            expires_at: self.expires_at,
        }
    }
}

/// The `message.status` frame, server to sender: a receiver's receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status<'a> {
    /// The message.
    #[serde(borrow)]
    pub gid: Cow<'a, str>,
    /// As the sender chose it.
    #[serde(borrow)]
    pub client_msg_id: Cow<'a, str>,
    /// The receiving agent.
    #[serde(borrow)]
    pub by: Cow<'a, str>,
    /// How far it got.
    pub state: ReceiptState,
    /// When the receipt was stored.
    pub server_time: UtcTime,
}

impl Status<'_> {
    /// The same, independent of the text it was read from.
    pub fn into_owned(self) -> Status<'static> {
        Status {
            gid: own(self.gid),
            client_msg_id: own(self.client_msg_id),
            by: own(self.by),
            state: self.state,
            server_time: self.server_time,
        }
    }
}

/// Answer of `GET /v1/messages`: one page of history, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageList<'a> {
    /// [`MESSAGE_LIST_SCHEMA`].
    #[serde(borrow)]
    pub schema: Cow<'a, str>,
    /// At most 200.
    #[serde(borrow)]
    pub messages: Vec<Delivery<'a>>,
    /// Pass as `after_gid` for the next page; absent at the end.
    #[serde(default, borrow, deserialize_with = "borrowed_option", skip_serializing_if = "Option::is_none")]
    pub next: Option<Cow<'a, str>>,
    /// The log the positions belong to (extension).
    #[serde(default, borrow, deserialize_with = "borrowed_option", skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Cow<'a, str>>,
    /// Position on the channel or swarm up to which this page and those before it are complete: the cursor to follow from
    /// without missing or repeating anything (extension).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete_up_to: Option<u64>,
}

impl MessageList<'_> {
    /// Check schema, page size and every message.
    pub fn validate(&self) -> Result<(), Invalid> {
        validate_schema(&self.schema, MESSAGE_LIST_SCHEMA)?;
        if self.messages.len() > MESSAGES_PAGE_MAX {
            return Err(Invalid::rule(
                "messages",
                format_args!("must be at most {MESSAGES_PAGE_MAX} in one page"),
            ));
        }
        self.messages.iter().try_for_each(Delivery::validate)
    }

    /// The same, independent of the text it was read from.
    pub fn into_owned(self) -> MessageList<'static> {
        MessageList {
            schema: own(self.schema),
            messages: self.messages.into_iter().map(Delivery::into_owned).collect(),
            next: own_option(self.next),
            epoch: own_option(self.epoch),
            complete_up_to: self.complete_up_to,
        }
    }
}
