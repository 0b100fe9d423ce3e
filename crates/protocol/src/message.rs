//! Agent messages: ask, offer, hand off, answer, report, over networks that are never bridged (contract section 4, seed 001).
//!
//! The types of the hot path borrow from the text they were read from ([`Cow`] fields); `into_owned` frees them from it.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::de::{borrowed_option, missing};
use crate::limits::{
    MESSAGE_REFERENCES_MAX, MESSAGE_TEXT_CHARS_MAX, MESSAGES_PAGE_MAX, QUESTION_DEADLINE_AHEAD_S_MAX,
    SEALED_CIPHERTEXT_CHARS_MAX, SEALED_SCHEMA_CHARS_MAX,
};
use crate::text::{
    Channel, Invalid, validate_base64_bounded, validate_base64_exact, validate_hex, validate_id,
    validate_schema, validate_text,
};
use crate::time::UtcTime;

/// `schema` of a [`MessageList`].
pub const MESSAGE_LIST_SCHEMA: &str = "leanctx.hive.message-list/v1";
/// `content_schema` of a sealed message body, whose plaintext is a [`MessageBody`].
pub const SEALED_MESSAGE_SCHEMA: &str = "leanctx.hive.sealed-message/v1";
/// The only content cipher: XChaCha20-Poly1305.
pub const SEALED_CONTENT_ALG: &str = "xchacha20poly1305";

pub(crate) fn own(text: Cow<'_, str>) -> Cow<'static, str> {
    Cow::Owned(text.into_owned())
}

pub(crate) fn own_option(text: Option<Cow<'_, str>>) -> Option<Cow<'static, str>> {
    text.map(own)
}

/// What a message is. [`AgentMessage::validate`] refuses [`MessageType::Unknown`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageType {
    /// Asks; may carry a deadline, after which it becomes a task proposal.
    Question,
    /// Offers help or a capability.
    Offer,
    /// Announces that work is handed on.
    Handoff,
    /// Answers a question; needs `reply_to`.
    Answer,
    /// Reports something found.
    Finding,
    /// A type this version does not know.
    #[serde(other)]
    Unknown,
}

impl MessageType {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Question => "question",
            Self::Offer => "offer",
            Self::Handoff => "handoff",
            Self::Answer => "answer",
            Self::Finding => "finding",
            Self::Unknown => "unknown",
        }
    }
}

/// The kinds of network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkKind {
    /// Channels of one organization.
    Org,
    /// One swarm.
    Swarm,
}

/// Where a message lives; written `{"kind":"org","channel":…}` or `{"kind":"swarm","swarm_id":…}`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Network<'a> {
    /// A channel of an organization.
    Org {
        /// `org:<org>/vault:<vault_id>/<name>`.
        channel: Cow<'a, str>,
    },
    /// A swarm.
    Swarm {
        /// Opaque id.
        swarm_id: Cow<'a, str>,
    },
}

impl Network<'_> {
    /// Which kind of network.
    pub const fn kind(&self) -> NetworkKind {
        match self {
            Self::Org { .. } => NetworkKind::Org,
            Self::Swarm { .. } => NetworkKind::Swarm,
        }
    }

    /// The key a cursor of this network has: the channel, or `swarm:<id>`.
    pub fn cursor_key(&self) -> Cow<'_, str> {
        match self {
            Self::Org { channel } => Cow::Borrowed(channel),
            Self::Swarm { swarm_id } => Cow::Owned(format!("swarm:{swarm_id}")),
        }
    }

    /// Check the name; the field is `channel` or `swarm_id`.
    pub fn validate(&self) -> Result<(), Invalid> {
        match self {
            Self::Org { channel } => Channel::parse(channel).map(drop),
            Self::Swarm { swarm_id } => validate_id(swarm_id, "swarm_id"),
        }
    }

    /// The same, independent of the text it was read from.
    pub fn into_owned(self) -> Network<'static> {
        match self {
            Self::Org { channel } => Network::Org { channel: own(channel) },
            Self::Swarm { swarm_id } => Network::Swarm { swarm_id: own(swarm_id) },
        }
    }
}

/// Gives a type whose fields depend on its `kind` a `Deserialize` that reads straight into the text: the flat form first,
/// then `TryFrom`. serde's own internally tagged enums buffer the object.
macro_rules! deserialize_by_kind {
    ($name:ident, $flat:ident, $expecting:literal) => {
        impl<'de: 'a, 'a> Deserialize<'de> for $name<'a> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct KindVisitor<'a>(std::marker::PhantomData<&'a ()>);
                impl<'de: 'a, 'a> Visitor<'de> for KindVisitor<'a> {
                    type Value = $name<'a>;

                    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                        formatter.write_str($expecting)
                    }

                    // Inside visit_map, so that an error's position is still this object's.
                    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<$name<'a>, A::Error> {
                        $flat::deserialize(MapAccessDeserializer::new(map))?.typed()
                    }
                }
                deserializer.deserialize_map(KindVisitor(std::marker::PhantomData))
            }
        }
    };
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NetworkFlat<'a> {
    kind: NetworkKind,
    #[serde(default, borrow, deserialize_with = "borrowed_option")]
    channel: Option<Cow<'a, str>>,
    #[serde(default, borrow, deserialize_with = "borrowed_option")]
    swarm_id: Option<Cow<'a, str>>,
}

impl<'a> NetworkFlat<'a> {
    fn typed<E: Error>(self) -> Result<Network<'a>, E> {
        match (self.kind, self.channel, self.swarm_id) {
            (NetworkKind::Org, Some(channel), None) => Ok(Network::Org { channel }),
            (NetworkKind::Swarm, None, Some(swarm_id)) => Ok(Network::Swarm { swarm_id }),
            (NetworkKind::Org, None, _) => Err(missing("channel")),
            (NetworkKind::Swarm, _, None) => Err(missing("swarm_id")),
            (NetworkKind::Org, _, Some(_)) => Err(E::unknown_field("swarm_id", &["kind", "channel"])),
            (NetworkKind::Swarm, Some(_), _) => Err(E::unknown_field("channel", &["kind", "swarm_id"])),
        }
    }
}

deserialize_by_kind!(Network, NetworkFlat, "a network with kind org or swarm");

/// What a message points at, tagged by `kind`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Reference<'a> {
    /// A task of the channel's vault; organization networks only.
    Task {
        /// From 1.
        number: u64,
    },
    /// A knowledge fact.
    Fact {
        /// Opaque id.
        id: Cow<'a, str>,
    },
    /// A knowledge proposal.
    Proposal {
        /// From 1.
        number: u64,
    },
    /// A commit of the repository.
    Commit {
        /// 7 to 64 lowercase hexadecimal characters.
        id: Cow<'a, str>,
    },
    /// A handoff on the bus.
    Handoff {
        /// Opaque id.
        handoff_id: Cow<'a, str>,
    },
}

impl Reference<'_> {
    /// Check numbers and ids; the field is `references`.
    pub fn validate(&self) -> Result<(), Invalid> {
        let checked = match self {
            Self::Task { number } | Self::Proposal { number } if *number == 0 => {
                return Err(Invalid::new(
                    "references",
                    "the number of a referenced task or proposal must be 1 or more",
                ));
            }
            Self::Task { .. } | Self::Proposal { .. } => Ok(()),
            Self::Fact { id } => validate_id(id, "the id of a referenced fact"),
            Self::Handoff { handoff_id } => validate_id(handoff_id, "the handoff_id of a reference"),
            Self::Commit { id } => validate_hex(id, 7..=64, "the id of a referenced commit"),
        };
        checked.map_err(|error| Invalid::new("references", error.message))
    }

    /// The same, independent of the text it was read from.
    pub fn into_owned(self) -> Reference<'static> {
        match self {
            Self::Task { number } => Reference::Task { number },
            Self::Proposal { number } => Reference::Proposal { number },
            Self::Fact { id } => Reference::Fact { id: own(id) },
            Self::Commit { id } => Reference::Commit { id: own(id) },
            Self::Handoff { handoff_id } => Reference::Handoff { handoff_id: own(handoff_id) },
        }
    }
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ReferenceKind {
    Task,
    Fact,
    Proposal,
    Commit,
    Handoff,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReferenceFlat<'a> {
    kind: ReferenceKind,
    number: Option<u64>,
    #[serde(default, borrow, deserialize_with = "borrowed_option")]
    id: Option<Cow<'a, str>>,
    #[serde(default, borrow, deserialize_with = "borrowed_option")]
    handoff_id: Option<Cow<'a, str>>,
}

impl<'a> ReferenceFlat<'a> {
    fn typed<E: Error>(self) -> Result<Reference<'a>, E> {
        use ReferenceKind::{Commit, Fact, Handoff, Proposal, Task};
        match (self.kind, self.number, self.id, self.handoff_id) {
            (Task, Some(number), None, None) => Ok(Reference::Task { number }),
            (Proposal, Some(number), None, None) => Ok(Reference::Proposal { number }),
            (Fact, None, Some(id), None) => Ok(Reference::Fact { id }),
            (Commit, None, Some(id), None) => Ok(Reference::Commit { id }),
            (Handoff, None, None, Some(handoff_id)) => Ok(Reference::Handoff { handoff_id }),
            (Task | Proposal, None, ..) => Err(missing("number")),
            (Fact | Commit, _, None, _) => Err(missing("id")),
            (Handoff, .., None) => Err(missing("handoff_id")),
            _ => Err(E::custom("a reference must carry only the field of its kind")),
        }
    }
}

deserialize_by_kind!(
    Reference,
    ReferenceFlat,
    "a reference with kind task, fact, proposal, commit or handoff"
);

/// A message body in the clear; also the plaintext of a sealed one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageBody<'a> {
    /// 1 to 4000 characters; `\n`, `\t`, `\r` allowed.
    #[serde(borrow)]
    pub text: Cow<'a, str>,
    /// At most 16.
    #[serde(default, borrow, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<Reference<'a>>,
}

impl<'a> MessageBody<'a> {
    /// A body without references.
    pub fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self { text: text.into(), references: Vec::new() }
    }

    /// Check text and references; the field is `text` or `references`.
    pub fn validate(&self, network: NetworkKind) -> Result<(), Invalid> {
        validate_text(&self.text, MESSAGE_TEXT_CHARS_MAX, "text", true)?;
        if self.references.len() > MESSAGE_REFERENCES_MAX {
            return Err(Invalid::rule(
                "references",
                format_args!("must be at most {MESSAGE_REFERENCES_MAX}"),
            ));
        }
        self.references.iter().try_for_each(Reference::validate)?;
        let names_task = self.references.iter().any(|reference| matches!(reference, Reference::Task { .. }));
        if network == NetworkKind::Swarm && names_task {
            return Err(Invalid::rule("references", "must not name tasks on a swarm; leave them out"));
        }
        Ok(())
    }

    /// The same, independent of the text it was read from.
    pub fn into_owned(self) -> MessageBody<'static> {
        let references = self.references.into_iter().map(Reference::into_owned).collect();
        MessageBody { text: own(self.text), references }
    }
}

/// A body encrypted for a sealed vault; opaque to the server.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SealedBlob<'a> {
    /// Always [`SEALED_CONTENT_ALG`].
    #[serde(borrow)]
    pub alg: Cow<'a, str>,
    /// Epoch of the vault key.
    pub epoch: u32,
    /// Schema of the plaintext; part of what the cipher authenticates, so never with `|`.
    #[serde(borrow)]
    pub content_schema: Cow<'a, str>,
    /// 24 bytes, base64.
    #[serde(borrow)]
    pub nonce: Cow<'a, str>,
    /// Ciphertext and its 16-byte tag, base64.
    #[serde(borrow)]
    pub ciphertext: Cow<'a, str>,
}

impl SealedBlob<'_> {
    /// Check shape and bounds; the field is the member at fault.
    pub fn validate(&self) -> Result<(), Invalid> {
        if self.alg != SEALED_CONTENT_ALG {
            return Err(Invalid::rule("alg", format_args!("must be {SEALED_CONTENT_ALG}")));
        }
        validate_text(&self.content_schema, SEALED_SCHEMA_CHARS_MAX, "content_schema", false)?;
        if self.content_schema.contains('|') {
            return Err(Invalid::rule("content_schema", "must not contain |"));
        }
        validate_base64_exact(&self.nonce, 24, "nonce")?;
        validate_base64_bounded(&self.ciphertext, SEALED_CIPHERTEXT_CHARS_MAX, "ciphertext")
    }

    /// The same, independent of the text it was read from.
    pub fn into_owned(self) -> SealedBlob<'static> {
        SealedBlob {
            alg: own(self.alg),
            epoch: self.epoch,
            content_schema: own(self.content_schema),
            nonce: own(self.nonce),
            ciphertext: own(self.ciphertext),
        }
    }
}

impl fmt::Debug for SealedBlob<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SealedBlob")
            .field("epoch", &self.epoch)
            .field("content_schema", &self.content_schema)
            .field("ciphertext_chars", &self.ciphertext.len())
            .finish_non_exhaustive()
    }
}

/// The `message` frame, client to server: exactly one of `body` and `sealed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentMessage<'a> {
    /// Chosen by the client; resending the same id with the same content is answered like the first time.
    #[serde(borrow)]
    pub client_msg_id: Cow<'a, str>,
    /// Where it goes.
    #[serde(borrow)]
    pub network: Network<'a>,
    /// What it is.
    #[serde(rename = "type")]
    pub message_type: MessageType,
    /// The sending agent, announced on this socket.
    #[serde(borrow)]
    pub from: Cow<'a, str>,
    /// One receiving agent; absent: everyone on the network.
    #[serde(default, borrow, deserialize_with = "borrowed_option", skip_serializing_if = "Option::is_none")]
    pub to: Option<Cow<'a, str>>,
    /// The instance that runs `to`; only with `to`, only on an organization network.
    #[serde(default, borrow, deserialize_with = "borrowed_option", skip_serializing_if = "Option::is_none")]
    pub to_instance: Option<Cow<'a, str>>,
    /// `gid` of the message this replies to.
    #[serde(default, borrow, deserialize_with = "borrowed_option", skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<Cow<'a, str>>,
    /// Questions only: when an unanswered one becomes a task proposal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<UtcTime>,
    /// The body in the clear.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub body: Option<MessageBody<'a>>,
    /// The body of a sealed vault.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<SealedBlob<'a>>,
}

impl<'a> AgentMessage<'a> {
    /// A message in the clear to everyone on `network`, nothing optional set.
    pub fn new(
        client_msg_id: impl Into<Cow<'a, str>>,
        network: Network<'a>,
        message_type: MessageType,
        from: impl Into<Cow<'a, str>>,
        body: MessageBody<'a>,
    ) -> Self {
        Self {
            client_msg_id: client_msg_id.into(),
            network,
            message_type,
            from: from.into(),
            to: None,
            to_instance: None,
            reply_to: None,
            deadline: None,
            body: Some(body),
            sealed: None,
        }
    }

    /// Check every rule that needs neither clock nor store; the error's field is the one to correct.
    pub fn validate(&self) -> Result<(), Invalid> {
        validate_id(&self.client_msg_id, "client_msg_id")?;
        self.network.validate()?;
        self.validate_type()?;
        validate_id(&self.from, "from")?;
        self.validate_addressing()?;
        match (&self.body, &self.sealed) {
            (Some(body), None) => body.validate(self.network.kind()),
            (None, Some(sealed)) => self.validate_sealed(sealed),
            (None, None) => Err(Invalid::rule("body", "is required, or sealed in a sealed vault")),
            (Some(_), Some(_)) => Err(Invalid::rule("sealed", "must not accompany body; send one of them")),
        }
    }

    fn validate_type(&self) -> Result<(), Invalid> {
        match self.message_type {
            MessageType::Unknown => {
                Err(Invalid::rule("type", "must be one of question, offer, handoff, answer, finding"))
            }
            MessageType::Answer if self.reply_to.is_none() => {
                Err(Invalid::rule("reply_to", "is required in an answer: the gid of the question"))
            }
            MessageType::Question => Ok(()),
            _ if self.deadline.is_some() => {
                Err(Invalid::rule("deadline", "is for questions only; leave it out"))
            }
            _ => Ok(()),
        }
    }

    fn validate_addressing(&self) -> Result<(), Invalid> {
        for (value, field) in
            [(&self.to, "to"), (&self.to_instance, "to_instance"), (&self.reply_to, "reply_to")]
        {
            value.as_ref().map_or(Ok(()), |value| validate_id(value, field))?;
        }
        let Some(_) = &self.to_instance else { return Ok(()) };
        if self.network.kind() != NetworkKind::Org {
            return Err(Invalid::rule(
                "to_instance",
                "is for organization networks only; leave it out on a swarm",
            ));
        }
        if self.to.is_none() {
            return Err(Invalid::rule("to_instance", "needs to: the agent on that instance"));
        }
        Ok(())
    }

    fn validate_sealed(&self, sealed: &SealedBlob<'_>) -> Result<(), Invalid> {
        if self.network.kind() == NetworkKind::Swarm {
            return Err(Invalid::rule("sealed", "is for sealed vaults only; a swarm takes body"));
        }
        sealed.validate()?;
        if sealed.content_schema != SEALED_MESSAGE_SCHEMA {
            return Err(Invalid::rule("content_schema", format_args!("must be {SEALED_MESSAGE_SCHEMA}")));
        }
        Ok(())
    }

    /// Check that a deadline lies after `now` and at most seven days ahead.
    pub fn validate_deadline(&self, now: UtcTime) -> Result<(), Invalid> {
        let Some(deadline) = self.deadline else { return Ok(()) };
        if deadline <= now || deadline > now.plus_s(QUESTION_DEADLINE_AHEAD_S_MAX) {
            return Err(Invalid::rule("deadline", "must lie in the future and at most 7 days ahead"));
        }
        Ok(())
    }

    /// The same, independent of the text it was read from.
    pub fn into_owned(self) -> AgentMessage<'static> {
        AgentMessage {
            client_msg_id: own(self.client_msg_id),
            network: self.network.into_owned(),
            message_type: self.message_type,
            from: own(self.from),
            to: own_option(self.to),
            to_instance: own_option(self.to_instance),
            reply_to: own_option(self.reply_to),
            deadline: self.deadline,
            body: self.body.map(MessageBody::into_owned),
            sealed: self.sealed.map(SealedBlob::into_owned),
        }
    }
}

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

/// What happened to a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskEventKind {
    /// Proposed; a person decides.
    Proposed,
    /// Approved and open for claims.
    Opened,
    /// Claimed by an instance.
    Claimed,
    /// The claim ended without a result.
    Released,
    /// A result waits for its decision.
    Submitted,
    /// The result was decided.
    Decided,
    /// Cancelled.
    Cancelled,
    /// A kind this version does not know.
    #[serde(other)]
    Unknown,
}

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// Proposed; a person must approve it.
    Proposed,
    /// Open for claims.
    Open,
    /// Held under a claim.
    Claimed,
    /// A result waits for its decision.
    Submitted,
    /// Decided and done.
    Done,
    /// Declined when proposed.
    Rejected,
    /// Cancelled.
    Cancelled,
    /// The holder gave up with a failure.
    Failed,
    /// A state this version does not know.
    #[serde(other)]
    Unknown,
}

/// Kind of a [`TaskActor`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskActorKind {
    /// A person.
    Person,
    /// An instance.
    Instance,
    /// The server itself, or a kind this version does not know.
    #[serde(other)]
    Unknown,
}

/// Who did something to a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskActor {
    /// Person or instance.
    pub kind: TaskActorKind,
    /// Display name of the person, or label of the instance.
    pub label: String,
    /// The agent on that instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Display name of the instance's owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The model the agent reports for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether this is the receiving instance.
    pub mine: bool,
    /// The agent's profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_id: Option<String>,
}

/// The `task.event` frame, server to client, on a channel of the task's vault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskEvent {
    /// The channel.
    pub channel: String,
    /// Position on the channel.
    pub seq: u64,
    /// Number of the task in its vault.
    pub number: u64,
    /// What happened.
    pub event: TaskEventKind,
    /// Where the task stands now.
    pub state: TaskState,
    /// Who did it; absent when the server did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<TaskActor>,
    /// When it was stored.
    pub server_time: UtcTime,
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
        }
    }
}

#[cfg(test)]
mod tests;
