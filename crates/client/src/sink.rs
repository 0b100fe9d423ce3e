//! Writing to people through a hub: the verb `messaging.send` as a Rust interface (contract `outbound` section 1, its names from the
//! seed). Whoever has an interface of this shape for its own transports gets, with [`HubSink`], one behind which a hub stands: its rules,
//! its consents, its outbox.
//!
//! ```no_run
#![doc = include_str!("../examples/ask_a_person.rs")]
//! ```

use crate::error::Error;
use crate::http::Http;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde::Serialize;
use std::time::Duration;
use switchboard_protocol::messaging::{Channels, ConversationGet, ConversationWithdraw, WAIT_MS_MAX};
use switchboard_protocol::outbound::SendState;

pub use switchboard_protocol::messaging::{Conversation, MessageReceipt, OutboundMessage, Recipient};

const SEND: &str = "/v1/tools/messaging.send";
const GET: &str = "/v1/tools/conversation.get";
const WITHDRAW: &str = "/v1/tools/conversation.withdraw";
const CHANNELS: &str = "/v1/tools/messaging.channels";

/// Something that brings messages to people. One stands in front of all channels: only it knows which there are.
pub trait MessageSink: Send + Sync {
    /// Names of the channels that it has now. For people and for error messages; whether a message can go out is what
    /// [`send`](Self::send) says.
    fn channels(&self) -> BoxFuture<'_, Result<Vec<String>, Error>>;

    /// Has one message brought to somebody. `Ok` says that it was accepted, and how far it is: only
    /// [`MessageReceipt::delivered`] says that it arrived. `Err` says why it was not accepted, in a sentence that a model can act on;
    /// after [`Error::Timeout`] and [`Error::Unreachable`] that is not known: repeat it under the same `idempotency_key`.
    fn send<'a>(&'a self, message: &'a OutboundMessage) -> BoxFuture<'a, Result<MessageReceipt, Error>>;
}

/// A hub as a [`MessageSink`]. Cheap to clone.
#[derive(Debug, Clone)]
pub struct HubSink {
    http: Http,
    agent: Option<String>,
}

impl HubSink {
    /// The hub behind `http`; messages are sent in the name of the bearer's label.
    #[must_use]
    pub fn new(http: Http) -> Self {
        Self { http, agent: None }
    }

    /// The same, with messages sent in the name of this agent. Keys and limits are each agent's own.
    #[must_use]
    pub fn in_name_of(self, agent: impl Into<String>) -> Self {
        Self { agent: Some(agent.into()), ..self }
    }

    /// What became of a question; waits at most `wait` (longest: one minute) for its end. The answer is foreign content: data, never an
    /// instruction. A topic of another instance is refused as one that does not exist.
    pub async fn conversation(&self, topic_id: &str, wait: Duration) -> Result<Conversation, Error> {
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).min(WAIT_MS_MAX);
        let get = ConversationGet { topic_id: topic_id.to_owned(), wait_ms: Some(wait_ms) };
        self.http.call(GET, &[], &get, Duration::from_millis(wait_ms)).await
    }

    /// Takes a question back that nobody has answered.
    pub async fn withdraw(&self, topic_id: &str) -> Result<SendState, Error> {
        let body = ConversationWithdraw { topic_id: topic_id.to_owned() };
        self.http.call(WITHDRAW, &[], &body, Duration::ZERO).await
    }
}

impl MessageSink for HubSink {
    fn channels(&self) -> BoxFuture<'_, Result<Vec<String>, Error>> {
        async {
            let found: Channels = self.http.rest(crate::Method::GET, CHANNELS, None::<&()>).await?;
            Ok(found.channels.into_iter().map(|channel| channel.name).collect())
        }
        .boxed()
    }

    fn send<'a>(&'a self, message: &'a OutboundMessage) -> BoxFuture<'a, Result<MessageReceipt, Error>> {
        let agent: Vec<_> = self.agent.iter().map(|agent| ("agent", agent.as_str())).collect();
        async move { self.http.call(SEND, &agent, &Params::of(message), Duration::ZERO).await }.boxed()
    }
}

/// A message as the tool's parameters: one flat object.
#[derive(Serialize)]
struct Params<'a> {
    channel: &'a str,
    #[serde(flatten)]
    to: &'a Recipient,
    body: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_kind: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    choices: &'a [String],
}

impl<'a> Params<'a> {
    fn of(message: &'a OutboundMessage) -> Self {
        Self {
            channel: &message.channel,
            to: &message.to,
            body: &message.body,
            message_kind: message.message_kind.as_deref(),
            deadline_ms: message.deadline_ms,
            idempotency_key: message.idempotency_key.as_deref(),
            choices: &message.choices,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_reads_back_as_the_same_message() {
        let plain = OutboundMessage {
            channel: "chat".into(),
            to: Recipient::Direct("ada".into()),
            body: "hi".into(),
            message_kind: None,
            deadline_ms: None,
            idempotency_key: None,
            choices: Vec::new(),
        };
        let full = OutboundMessage {
            to: Recipient::Channel("C1".into()),
            message_kind: Some("notice".into()),
            deadline_ms: Some(7),
            idempotency_key: Some("k".into()),
            choices: vec!["Yes".into()],
            ..plain.clone()
        };
        for message in [plain, full] {
            let params = serde_json::to_value(Params::of(&message)).unwrap();
            assert_eq!(OutboundMessage::from_tool_params(&params).as_ref(), Ok(&message), "{params}");
        }
    }
}
