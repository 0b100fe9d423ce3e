//! Arguments of the tools. The comments on the members are what a model reads as their descriptions.

use rmcp::model::JsonObject;
use rmcp::schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use switchboard_engine::refusal;
use switchboard_protocol::Detail;
use switchboard_protocol::json::{self, Limits};
use switchboard_protocol::message::{MessageType, Reference};

/// What every tool takes.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct Common {
    /// Name of the agent you speak for; letters, digits and . _ : - only. Leave it out unless you play several agents: the
    /// default is the name this connection was set up with.
    pub(super) as_agent: Option<String>,
    /// Name or id of the vault (project space) to work in. Leave it out for the default vault.
    pub(super) vault: Option<String>,
}

/// What a new message is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(crate = "rmcp::schemars")]
pub(super) enum SendType {
    Question,
    Offer,
    Handoff,
    #[default]
    Finding,
}

impl From<SendType> for MessageType {
    fn from(kind: SendType) -> Self {
        match kind {
            SendType::Question => Self::Question,
            SendType::Offer => Self::Offer,
            SendType::Handoff => Self::Handoff,
            SendType::Finding => Self::Finding,
        }
    }
}

/// What a reply is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(crate = "rmcp::schemars")]
pub(super) enum ReplyType {
    #[default]
    Answer,
    Question,
    Offer,
    Handoff,
    Finding,
}

impl From<ReplyType> for MessageType {
    fn from(kind: ReplyType) -> Self {
        match kind {
            ReplyType::Answer => Self::Answer,
            ReplyType::Question => Self::Question,
            ReplyType::Offer => Self::Offer,
            ReplyType::Handoff => Self::Handoff,
            ReplyType::Finding => Self::Finding,
        }
    }
}

/// Arguments of `bus_send`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct Send {
    /// What you say: plain text of 1 to 4000 characters.
    pub(super) text: String,
    /// question: you want an answer, and if none comes until the deadline it becomes a task proposal for a person. finding:
    /// you report something, nobody has to react. offer: you offer help. handoff: you pass work on.
    #[serde(default, rename = "type")]
    pub(super) kind: SendType,
    /// Name of the one agent it is for, as `agents_list` shows it; nobody else sees it. Leave it out to tell everyone on the
    /// channel.
    pub(super) to: Option<String>,
    /// `instance_id` of the addressee. Needed only when `agents_list` shows the same name on several instances.
    pub(super) to_instance: Option<String>,
    /// Short name of the channel, such as general or builds; made on first use. Default: general.
    pub(super) channel: Option<String>,
    /// Id of a swarm to send to instead of a channel. Everyone there sees the message, and you only by your handle.
    pub(super) swarm: Option<String>,
    /// Questions only: hours until the question counts as unanswered, at most 168. Default: 24, or what the organization set.
    #[schemars(range(min = 0.01, max = 168))]
    pub(super) deadline_hours: Option<f64>,
    /// What the message points at, at most 16, each written task:NUMBER, proposal:NUMBER, fact:ID, commit:HEX or handoff:ID.
    #[serde(default)]
    #[schemars(length(max = 16))]
    pub(super) references: Vec<String>,
    /// An id of your own for this message. Sending again with the same id and content does nothing twice: set it if you
    /// may have to repeat the call.
    pub(super) client_msg_id: Option<String>,
    /// Wait up to so many milliseconds for an answer to this message and return it with the result. Stay under 50000 if
    /// your client gives up on calls after a minute. An answer that comes later reaches you through `bus_inbox`.
    #[schemars(range(max = 60000))]
    pub(super) wait_ms: Option<u64>,
}

/// Arguments of `bus_reply`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct Reply {
    /// gid of the message you reply to.
    pub(super) gid: String,
    /// What you say: plain text of 1 to 4000 characters.
    pub(super) text: String,
    /// answer settles a question. The others say more in the same thread.
    #[serde(default, rename = "type")]
    pub(super) kind: ReplyType,
    /// For type question only: hours until it counts as unanswered, at most 168.
    #[schemars(range(min = 0.01, max = 168))]
    pub(super) deadline_hours: Option<f64>,
    /// What the reply points at, at most 16, each written task:NUMBER, proposal:NUMBER, fact:ID, commit:HEX or handoff:ID.
    #[serde(default)]
    #[schemars(length(max = 16))]
    pub(super) references: Vec<String>,
    /// An id of your own for this reply, so that repeating the call does nothing twice.
    pub(super) client_msg_id: Option<String>,
}

/// Arguments of `bus_inbox`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct Inbox {
    /// If nothing is there, wait up to so many milliseconds; a message ends the wait at once. 0 or nothing: look and return.
    /// Stay under 50000 if your client gives up on calls after a minute.
    #[schemars(range(max = 60000))]
    pub(super) wait_ms: Option<u64>,
    /// At most so many messages. Default: 10.
    #[schemars(range(min = 1, max = 50))]
    pub(super) limit: Option<usize>,
    /// true: tell the senders that you have read these messages. Otherwise they only learn that you received them.
    #[serde(default)]
    pub(super) mark_read: bool,
    /// true: first hand over again what you received earlier and neither marked as read nor replied to. Use it when you lost
    /// your memory, or the result of an earlier call.
    #[serde(default)]
    pub(super) unread: bool,
}

/// Arguments of `bus_thread`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct Thread {
    /// `thread_id`, or the gid of any message of the thread.
    #[serde(alias = "thread_id")]
    pub(super) gid: String,
    /// Only what stands behind the message with this gid; for the next page.
    pub(super) after: Option<String>,
    /// At most so many messages. Default: 50.
    #[schemars(range(min = 1, max = 200))]
    pub(super) limit: Option<usize>,
}

/// Arguments of `bus_search`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct Search {
    /// Words that must all occur, at most 200 characters.
    pub(super) query: String,
    /// At most so many hits. Default: 10.
    #[schemars(range(min = 1, max = 50))]
    pub(super) limit: Option<usize>,
}

/// Whom a message to people is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(crate = "rmcp::schemars")]
pub(super) enum ReachKind {
    #[default]
    Direct,
    Channel,
}

/// Whether an answer is wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(crate = "rmcp::schemars")]
pub(super) enum ReachMessage {
    #[default]
    Question,
    Notice,
}

/// Arguments of `messaging_send`: the schema alone; the verb reads them itself, since policies see what was literally sent.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
#[expect(dead_code, reason = "what a model is told; the parameters are read by the verb")]
pub(super) struct MessagingSend {
    /// The messaging channel, as `messaging_channels` lists it.
    pub(super) channel: String,
    /// Whom to reach: the handle of a person on that channel (a name, an address), or the id of a shared channel.
    pub(super) to: String,
    /// direct: a person. channel: a shared channel that several people read.
    #[serde(default)]
    pub(super) kind: Option<ReachKind>,
    /// What you say, in CommonMark.
    pub(super) body: String,
    /// question: you want an answer. notice: for information. Left out it is a question.
    #[serde(default)]
    pub(super) message_kind: Option<ReachMessage>,
    /// When an answer counts no more, in Unix milliseconds. Default: after a day.
    #[serde(default)]
    pub(super) deadline_ms: Option<u64>,
    /// Any text that names this message: a second call with it sends nothing again and tells what became of the first.
    #[serde(default)]
    pub(super) idempotency_key: Option<String>,
    /// Up to 8 short answers to choose from; the person may still write something else.
    #[serde(default)]
    pub(super) choices: Option<Vec<String>>,
}

/// Arguments of `conversation_get`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct ConversationGet {
    /// The `topic_id` that `messaging_send` returned.
    pub(super) topic_id: String,
    /// How long to wait for the answer, in milliseconds.
    #[schemars(range(min = 0, max = 60000))]
    pub(super) wait_ms: Option<u64>,
}

/// Arguments of `messaging_channels`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct MessagingChannels {}

/// Arguments of `agents_list`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct Agents {}

/// A state an agent can put itself in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(crate = "rmcp::schemars")]
pub(super) enum State {
    Active,
    Idle,
    Closed,
}

/// Arguments of `presence_set`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct Presence {
    /// active: working. idle: there, with nothing to do. closed: gone; messages still wait for you, and your next call makes
    /// you active again.
    pub(super) state: State,
    /// What you do here in a few words, such as reviewer; at most 64 characters.
    pub(super) role: Option<String>,
    /// How you want to be shown, at most 64 characters.
    pub(super) display_name: Option<String>,
    /// The model you run on, at most 80 characters.
    pub(super) model: Option<String>,
    /// What you can be asked for, at most 8 words of a-z 0-9 -.
    #[schemars(length(max = 8))]
    pub(super) roles: Option<Vec<String>>,
}

impl Common {
    /// Takes these members out of `arguments`.
    pub(super) fn take(arguments: &mut JsonObject) -> Result<Self, Detail> {
        let names = ["as_agent", "vault"];
        read(names.iter().filter_map(|name| arguments.remove_entry(*name)).collect())
    }
}

/// Reads arguments strictly; the refusal names the one at fault.
pub(super) fn read<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, Detail> {
    let text = serde_json::Value::Object(arguments).to_string();
    json::parse(text.as_bytes(), Limits::HTTP_BODY).map_err(refusal::invalid)
}

/// Reads one reference as models write it.
pub(super) fn reference(text: &str) -> Result<Reference<'static>, Detail> {
    let rule = "Write each reference as task:NUMBER, proposal:NUMBER, fact:ID, commit:HEX or handoff:ID.";
    let refused = || refusal::bad_field("references", rule);
    let (kind, id) = text.split_once(':').ok_or_else(refused)?;
    let number = || id.parse().map_err(|_| refused());
    let id = || id.to_owned().into();
    Ok(match kind {
        "task" => Reference::Task { number: number()? },
        "proposal" => Reference::Proposal { number: number()? },
        "fact" => Reference::Fact { id: id() },
        "commit" => Reference::Commit { id: id() },
        "handoff" => Reference::Handoff { handoff_id: id() },
        _ => return Err(refused()),
    })
}

/// The inverse of [`reference`], for a model to read.
pub(super) fn written(reference: &Reference<'_>) -> String {
    match reference {
        Reference::Task { number } => format!("task:{number}"),
        Reference::Proposal { number } => format!("proposal:{number}"),
        Reference::Fact { id } => format!("fact:{id}"),
        Reference::Commit { id } => format!("commit:{id}"),
        Reference::Handoff { handoff_id } => format!("handoff:{handoff_id}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn object(value: &Value) -> JsonObject {
        value.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn a_refusal_names_the_argument() {
        let field = |value| read::<Send>(object(&value)).unwrap_err().field.clone();
        assert_eq!(field(json!({})).as_deref(), Some("text"));
        assert_eq!(field(json!({"text": 7})).as_deref(), Some("text"));
        assert_eq!(field(json!({"text": "a", "type": "answer"})).as_deref(), Some("type"));
        assert_eq!(field(json!({"text": "a", "urgent": true})).as_deref(), Some("urgent"));
        assert_eq!(field(json!({"text": "a", "wait_ms": -1})).as_deref(), Some("wait_ms"));
    }

    #[test]
    fn common_arguments_are_taken_out() {
        let mut arguments = object(&json!({"text": "a", "as_agent": "ben", "vault": null}));
        let common = Common::take(&mut arguments).unwrap();
        assert_eq!((common.as_agent.as_deref(), common.vault), (Some("ben"), None));
        assert_eq!(read::<Send>(arguments).unwrap().text, "a");
        assert_eq!(
            Common::take(&mut object(&json!({"vault": 1}))).unwrap_err().field.as_deref(),
            Some("vault")
        );
    }

    #[test]
    fn references_are_written_as_they_are_read() {
        for text in ["task:3", "proposal:18446744073709551615", "fact:f-1", "commit:0a1b2c3", "handoff:h:1"] {
            assert_eq!(written(&reference(text).unwrap()), text);
        }
        for bad in ["task", "task:-1", "task:1.5", "url:http://x", ""] {
            assert_eq!(reference(bad).unwrap_err().field.as_deref(), Some("references"), "{bad}");
        }
    }
}
