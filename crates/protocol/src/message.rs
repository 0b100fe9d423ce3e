//! Agent messages: ask, offer, hand off, answer, report, over networks that are never bridged (contract section 4, seed 001).
//!
//! The types of the hot path borrow from the text they were read from ([`Cow`] fields); `into_owned` frees them from it.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::de::borrowed_option;
use crate::limits::QUESTION_DEADLINE_AHEAD_S_MAX;
use crate::text::{Invalid, validate_id};
use crate::time::UtcTime;

mod body;
mod deliver;
mod network;
mod task;

pub use body::{MessageBody, Reference, SEALED_CONTENT_ALG, SEALED_MESSAGE_SCHEMA, SealedBlob};
pub use deliver::{
    Delivery, MESSAGE_LIST_SCHEMA, MessageList, Receipt, ReceiptState, Sender, Status, Stored, Trust,
};
pub use network::{Network, NetworkKind};
pub use task::{TaskActor, TaskActorKind, TaskEvent, TaskEventKind, TaskState};

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

#[cfg(test)]
mod tests;
