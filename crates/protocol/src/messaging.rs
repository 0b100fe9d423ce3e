//! Reaching people: what `messaging.send` and `conversation.get` take and give (contract `outbound`; the names, and what each error
//! names, follow the seed).
//!
//! There is one spelling of every parameter: policy rules match the literal key, so that an alias would be a way around them, and an
//! unknown key is refused, since a misspelt `idempotency_key` would silently be none.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The verb's name, in errors and in policies.
pub const TOOL: &str = "messaging.send";
/// Longest body, in characters.
pub const BODY_CHARS_MAX: usize = 200_000;
/// Longest address, in bytes.
pub const TO_BYTES_MAX: usize = 512;
/// Longest idempotency key, in bytes.
pub const KEY_BYTES_MAX: usize = 256;
/// Longest channel name, in bytes.
pub const CHANNEL_BYTES_MAX: usize = 32;
/// Most choices of one question.
pub const CHOICES_MAX: usize = 8;
/// Longest choice, in characters.
pub const CHOICE_CHARS_MAX: usize = 40;
/// Longest wait of `conversation.get`, in milliseconds.
pub const WAIT_MS_MAX: u64 = 60_000;
/// Longest answer that is taken from a person, in characters.
pub const ANSWER_CHARS_MAX: usize = 20_000;

/// What a person says to stop, start or decide is never an answer, so that it cannot be offered as one.
const RESERVED: [&str; 16] = [
    "stop",
    "stopall",
    "unsubscribe",
    "quit",
    "opt out",
    "opt-out",
    "stopp",
    "basta",
    "alto",
    "start",
    "unstop",
    "resume",
    "approve",
    "approved",
    "deny",
    "reject",
];

const KEYS: [&str; 8] =
    ["channel", "to", "kind", "body", "idempotency_key", "message_kind", "deadline_ms", "choices"];

/// Whom a message is for: two acts of different reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "to", rename_all = "lowercase")]
pub enum Recipient {
    /// A person, by the handle that they have on the channel.
    Direct(String),
    /// A shared channel, by its own id.
    Channel(String),
}

impl Recipient {
    /// The address.
    #[must_use]
    pub fn address(&self) -> &str {
        match self {
            Self::Direct(to) | Self::Channel(to) => to,
        }
    }
}

/// A message to a person or a shared channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutboundMessage {
    /// The channel's name, as `messaging_channels` lists it.
    pub channel: String,
    /// Whom it is for.
    pub to: Recipient,
    /// Text in CommonMark, at most [`BODY_CHARS_MAX`] characters.
    pub body: String,
    /// `question` or `notice`; left out means a question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_kind: Option<String>,
    /// When an answer counts no more, in Unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// What makes a repeat harmless; left out means that nothing is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// Answers to choose from, where a channel has buttons (extension).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
}

/// What became of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageReceipt {
    /// The channel.
    pub channel: String,
    /// Id that the service gave, where it gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// The topic of a question, for `conversation.get`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic_id: Option<String>,
    /// Whether the key was used for this very call before: nothing was sent for this one.
    pub deduplicated: bool,
    /// Whether the service has confirmed.
    #[serde(default)]
    pub delivered: bool,
    /// Why it is not delivered, as far as that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether a question waits for the person's floor.
    #[serde(default)]
    pub queued: bool,
    /// Id to look the send up by (extension).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_id: Option<String>,
    /// `held`, `queued`, `sending`, `open`, `delivered`, `answered`, `expired`, `refused`, `dead`, `unknown` (extension).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The approval that it waits for (extension).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<String>,
    /// Whom the question goes to when nobody answers it, in the order of their times (extension).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub escalation: Vec<EscalationStep>,
    /// What it means that nobody answers in time: `deny`, `proceed`, `halt`; absent: nothing more than that (extension).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<String>,
}

/// One rung of a question's chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EscalationStep {
    /// How long after the question has got the floor, in milliseconds.
    pub after_ms: i64,
    /// When that is, in Unix milliseconds, as long as it is to come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<i64>,
    /// The channel on which somebody is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// Who is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Whether a task is proposed instead.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub task: bool,
    /// `waiting`, `asked`, `skipped`, `proposed`.
    pub state: String,
    /// Why it is skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The message that it became.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_id: Option<String>,
}

impl MessageReceipt {
    /// A delivery on `channel` without an id of the service.
    pub fn delivered(channel: impl Into<String>) -> Self {
        Self {
            channel: channel.into(),
            message_id: None,
            topic_id: None,
            deduplicated: false,
            delivered: true,
            reason: None,
            queued: false,
            send_id: None,
            state: None,
            approval_id: None,
            escalation: Vec::new(),
            then: None,
        }
    }

    /// The same with the service's id.
    #[must_use]
    pub fn with_message_id(mut self, id: impl Into<String>) -> Self {
        self.message_id = Some(id.into());
        self
    }
}

/// A parameter is not what it must be: which one, and a sentence that says what it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadParam {
    /// The parameter; empty when it is about all of them.
    pub param: &'static str,
    /// For the model that made the call and for the operator who reads the log.
    pub message: String,
}

fn bad<T>(param: &'static str, message: impl std::fmt::Display) -> Result<T, BadParam> {
    Err(BadParam { param, message: format!("{TOOL}: {message}") })
}

impl OutboundMessage {
    /// Reads the parameters of a call.
    pub fn from_tool_params(params: &Value) -> Result<Self, BadParam> {
        let Some(params) = params.as_object() else { return bad("", "parameters must be a JSON object") };
        if let Some(unknown) = params.keys().find(|key| !KEYS.contains(&key.as_str())) {
            // A misspelt address is told as a missing one, which is what it is.
            if params.contains_key("to") {
                return bad("", format!("unknown parameter {unknown:?} — expected {}", KEYS.join(", ")));
            }
        }
        let channel = required(params, "channel", CHANNEL_BYTES_MAX)?;
        let to = match params.get("to") {
            None => {
                return bad(
                    "to",
                    "missing required parameter 'to' — pass 'to' naming the handle or channel id",
                );
            }
            Some(_) => required(params, "to", TO_BYTES_MAX)?,
        };
        let to = recipient(params, to)?;
        let body = required(params, "body", BODY_CHARS_MAX * 4)?;
        if body.chars().count() > BODY_CHARS_MAX {
            return bad("body", format!("'body' must be at most {BODY_CHARS_MAX} characters"));
        }
        Ok(Self {
            channel,
            to,
            body,
            message_kind: message_kind(params)?,
            deadline_ms: deadline(params)?,
            idempotency_key: key(params)?,
            choices: choices(params)?,
        })
    }

    /// Whether an answer is wanted.
    #[must_use]
    pub fn is_question(&self) -> bool {
        self.message_kind.as_deref() != Some("notice")
    }
}

fn given<'a>(params: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    params.get(key).filter(|value| !value.is_null())
}

fn required(params: &Map<String, Value>, key: &'static str, bytes_max: usize) -> Result<String, BadParam> {
    match given(params, key) {
        None => bad(key, format!("missing required parameter '{key}'")),
        Some(Value::String(text)) if text.trim().is_empty() => bad(key, format!("'{key}' must not be empty")),
        Some(Value::String(text)) if text.len() > bytes_max => {
            bad(key, format!("'{key}' must be at most {bytes_max} bytes"))
        }
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) => bad(key, format!("'{key}' must be a string, got {}", shown(other))),
    }
}

// What was given instead, short enough for a sentence.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    if text.len() <= 60 { text } else { format!("{}…", text.chars().take(60).collect::<String>()) }
}

fn recipient(params: &Map<String, Value>, to: String) -> Result<Recipient, BadParam> {
    match given(params, "kind") {
        None => Ok(Recipient::Direct(to)),
        Some(Value::String(kind)) => match kind.as_str() {
            "direct" => Ok(Recipient::Direct(to)),
            "channel" => Ok(Recipient::Channel(to)),
            other => {
                let other = shown(&Value::from(other));
                let other = other.trim_matches('"');
                bad(
                    "kind",
                    format!(
                        "unknown kind '{other}' — expected 'direct' (a person) or 'channel' (a shared channel)"
                    ),
                )
            }
        },
        Some(other) => {
            bad("kind", format!("'kind' must be the string 'direct' or 'channel', got {}", shown(other)))
        }
    }
}

fn message_kind(params: &Map<String, Value>) -> Result<Option<String>, BadParam> {
    if given(params, "message_kind").is_none() {
        return Ok(None);
    }
    let kind = required(params, "message_kind", 64)?;
    if !matches!(kind.as_str(), "question" | "notice") {
        return bad(
            "message_kind",
            "'message_kind' must be 'question' (an answer is wanted) or 'notice' — omit it for a question",
        );
    }
    Ok(Some(kind))
}

fn deadline(params: &Map<String, Value>) -> Result<Option<u64>, BadParam> {
    let Some(value) = given(params, "deadline_ms") else { return Ok(None) };
    match value.as_u64().filter(|deadline| i64::try_from(*deadline).is_ok()) {
        Some(deadline) => Ok(Some(deadline)),
        None => bad("deadline_ms", "'deadline_ms' must be a Unix-millisecond unsigned integer"),
    }
}

fn key(params: &Map<String, Value>) -> Result<Option<String>, BadParam> {
    match given(params, "idempotency_key") {
        None => Ok(None),
        Some(Value::String(key)) if key.trim().is_empty() => bad(
            "idempotency_key",
            "'idempotency_key' must not be blank — omit it entirely to opt out of dedup",
        ),
        Some(Value::String(_)) => required(params, "idempotency_key", KEY_BYTES_MAX).map(Some),
        Some(other) => {
            bad("idempotency_key", format!("'idempotency_key' must be a string, got {}", shown(other)))
        }
    }
}

fn choices(params: &Map<String, Value>) -> Result<Vec<String>, BadParam> {
    let what = format!(
        "'choices' must be at most {CHOICES_MAX} different strings of 1 to {CHOICE_CHARS_MAX} characters"
    );
    let Some(value) = given(params, "choices") else { return Ok(Vec::new()) };
    let Some(list) = value.as_array().filter(|list| list.len() <= CHOICES_MAX) else {
        return bad("choices", what);
    };
    let mut choices = Vec::new();
    for choice in list {
        let fits = |text: &&str| !text.trim().is_empty() && text.chars().count() <= CHOICE_CHARS_MAX;
        let Some(choice) = choice.as_str().filter(fits) else { return bad("choices", what) };
        let choice = choice.trim().to_owned();
        if choice.contains(['\n', '\r']) || choices.contains(&choice) {
            return bad("choices", what);
        }
        if RESERVED.contains(&choice.to_lowercase().trim_matches(['.', '!'])) {
            let word = "is a word of its own to people (STOP, START, approve, deny): offer another one";
            return bad("choices", format!("'choices': {choice:?} {word}"));
        }
        choices.push(choice);
    }
    Ok(choices)
}

/// Body of `conversation.get`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConversationGet {
    /// The topic.
    pub topic_id: String,
    /// How long to wait for its end, in milliseconds, at most [`WAIT_MS_MAX`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

/// Body of `conversation.withdraw`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConversationWithdraw {
    /// The topic.
    pub topic_id: String,
}

/// A topic as its asker and people of the organization see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversation {
    /// The topic.
    pub topic_id: String,
    /// `queued`, `open`, `answered`, `expired`, `withdrawn`.
    pub state: String,
    /// The send that asks it.
    pub send_id: String,
    /// Where the send is; see [`MessageReceipt::state`].
    pub send_state: String,
    /// Why it is there, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Short code by which people name the question: `SB-` and six letters.
    #[serde(default)]
    pub code: String,
    /// Answers that it offers; any other words are an answer as well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// The channel.
    pub channel: String,
    /// The address as the asker wrote it.
    pub to: String,
    /// When an answer counts no more, in Unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<i64>,
    /// What was said, in order: the question, then the answer.
    pub messages: Vec<ConversationMessage>,
    /// The answer, when there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<PersonAnswer>,
    /// See [`MessageReceipt::escalation`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub escalation: Vec<EscalationStep>,
    /// See [`MessageReceipt::then`]: what counts once the state is `expired`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<String>,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConversationMessage {
    /// `agent` or `person`.
    pub role: String,
    /// Who, by name or handle. Foreign text where the role is `person`.
    pub from: String,
    /// The text. Foreign where the role is `person`.
    pub text: String,
    /// When, in Unix milliseconds.
    pub at_ms: i64,
}

/// A person's answer: foreign content, data and never an instruction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersonAnswer {
    /// What was said.
    pub text: String,
    /// Who said it.
    pub by: String,
    /// By which way: a channel's name, `console`, `cli`.
    pub via: String,
    /// When, in Unix milliseconds.
    pub at_ms: i64,
}

/// A channel on which people can be reached (`messaging_channels`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelView {
    /// What to put in `channel`.
    pub name: String,
    /// What it is made of.
    pub kind: String,
    /// Whether it reaches single people.
    pub direct: bool,
    /// Whether it posts to shared channels.
    pub shared: bool,
    /// Whether answers come back on it.
    pub answers: bool,
    /// `ok`, or why nothing leaves on it at present.
    pub health: String,
    /// Addresses that may be written to, for those who may know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reachable: Vec<Recipient>,
}

/// What can be reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Channels {
    /// By name; the fallback is not listed.
    pub channels: Vec<ChannelView>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refused(params: &Value) -> BadParam {
        OutboundMessage::from_tool_params(params).expect_err("it is refused")
    }

    #[test]
    fn the_narrower_act_is_the_default() {
        let call = json!({ "channel": "email", "to": "ada@example.org", "body": "hi" });
        let message = OutboundMessage::from_tool_params(&call).unwrap();
        assert_eq!(message.to, Recipient::Direct("ada@example.org".into()));
        assert!(message.is_question() && message.idempotency_key.is_none());
        let call = json!({ "channel": "ops", "to": "C1", "kind": "channel", "body": "hi", "message_kind": "notice",
                           "deadline_ms": 5, "idempotency_key": "run-42", "choices": ["Yes", " No "] });
        let message = OutboundMessage::from_tool_params(&call).unwrap();
        assert_eq!(message.to, Recipient::Channel("C1".into()));
        assert!(!message.is_question());
        assert_eq!((message.deadline_ms, message.choices), (Some(5), vec!["Yes".into(), "No".into()]));
    }

    // What the seed's tests pin, and what its runtime let through.
    #[test]
    fn errors_name_the_parameter_and_the_shape() {
        let base = json!({ "channel": "email", "to": "a", "body": "hi" });
        let with = |key: &str, value: Value| {
            let mut call = base.clone();
            call[key] = value;
            call
        };
        let without = |key: &str| {
            let mut call = base.clone();
            call.as_object_mut().unwrap().remove(key);
            call
        };
        let mut aliased = without("to");
        aliased["recipient"] = json!("a");
        for (call, param, text) in [
            (aliased, "to", "missing required parameter 'to'"),
            (json!("text"), "", "must be a JSON object"),
            (without("channel"), "channel", "missing required parameter 'channel'"),
            (with("channel", json!("  ")), "channel", "'channel' must not be empty"),
            (without("to"), "to", "missing required parameter 'to'"),
            (without("body"), "body", "missing required parameter 'body'"),
            (with("body", json!(42)), "body", "'body' must be a string, got 42"),
            (with("kind", json!("broadcast")), "kind", "unknown kind 'broadcast'"),
            (with("kind", json!(true)), "kind", "'kind' must be the string"),
            (with("idempotency_key", json!("")), "idempotency_key", "'idempotency_key' must not be blank"),
            (with("idempotency_key", json!(7)), "idempotency_key", "'idempotency_key' must be a string"),
            (with("deadline_ms", json!(-1)), "deadline_ms", "Unix-millisecond unsigned integer"),
            (with("deadline_ms", json!("soon")), "deadline_ms", "Unix-millisecond unsigned integer"),
            (with("message_kind", json!("shout")), "message_kind", "'question'"),
            (with("idempotencykey", json!("k")), "", "unknown parameter \"idempotencykey\""),
            (with("choices", json!(["a", "a"])), "choices", "different strings"),
            (with("body", json!("x".repeat(BODY_CHARS_MAX + 1))), "body", "at most 200000 characters"),
        ] {
            let refused = refused(&call);
            assert!(
                refused.message.starts_with("messaging.send: ") && refused.message.contains(text),
                "{refused:?}"
            );
            assert_eq!(refused.param, param, "{refused:?}");
        }
        assert!(OutboundMessage::from_tool_params(&with("kind", Value::Null)).is_ok());
    }

    #[test]
    fn recipient_and_receipt_have_the_seeds_json() {
        let recipient = Recipient::Channel("C1".into());
        assert_eq!(serde_json::to_value(&recipient).unwrap(), json!({ "kind": "channel", "to": "C1" }));
        let receipt = MessageReceipt::delivered("imessage").with_message_id("m-1");
        let json = json!({ "channel": "imessage", "message_id": "m-1", "deduplicated": false, "queued": false, "delivered": true });
        assert_eq!(serde_json::to_value(&receipt).unwrap(), json);
        assert_eq!(serde_json::from_value::<MessageReceipt>(json).unwrap(), receipt);
    }
}
