//! `messaging_send`, `conversation_get`, `messaging_channels`: the verb and what comes back, for a model.

use super::{Reply, begin};
use crate::mcp::Door;
use crate::mcp::args::{self, Common};
use crate::mcp::gate::Caller;
use rmcp::model::JsonObject;
use rmcp::schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write as _;
use std::sync::Arc;
use switchboard_core::outbound::escalate::Then;
use switchboard_engine::outbound::{submit, view};
use switchboard_protocol::Detail;
use switchboard_protocol::fence::FenceHeader;
use switchboard_protocol::message::Trust;
use switchboard_protocol::messaging::{ConversationGet, EscalationStep, MessageReceipt, Recipient};

/// Handles that the text of a listing names for each channel; the data has all.
const HANDLES_SHOWN: usize = 20;

/// What became of a call.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub(in crate::mcp) struct Sent {
    /// The channel that carries it.
    channel: String,
    /// Id that the channel's service gave, if it gives one.
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<String>,
    /// For `conversation_get`, when it is a question.
    #[serde(skip_serializing_if = "Option::is_none")]
    topic_id: Option<String>,
    /// Whether this very call was made before under its key: nothing was sent again.
    deduplicated: bool,
    /// Whether the channel has confirmed that it arrived.
    delivered: bool,
    /// Why it has not arrived, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Whether it waits until the person has answered another question.
    queued: bool,
    /// Id of this message.
    send_id: String,
    /// held, queued, sending, open, delivered, answered, expired, refused, dead or unknown.
    state: String,
    /// The approval it waits for, if a rule asks for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    approval_id: Option<String>,
    /// Whom the question goes to when nobody answers, in the order of their times.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    escalation: Vec<Step>,
    /// What it means that nobody answers in time: deny (take it for a no), proceed (go on as you proposed) or halt (stop the work).
    #[serde(skip_serializing_if = "Option::is_none")]
    then: Option<String>,
}

/// One rung of a question's chain.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub(in crate::mcp) struct Step {
    /// How long after the person was asked, in milliseconds.
    after_ms: i64,
    /// The channel on which somebody is asked; absent: a task is proposed.
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<String>,
    /// Who is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    /// waiting, asked, skipped or proposed.
    state: String,
    /// Why it is skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

fn steps(chain: Vec<EscalationStep>) -> Vec<Step> {
    let step = |step: EscalationStep| {
        let EscalationStep { after_ms, channel, to, state, reason, .. } = step;
        Step { after_ms, channel, to, state, reason }
    };
    chain.into_iter().map(step).collect()
}

// What the agent is to do now that nobody has answered.
fn meaning(then: Option<&str>) -> String {
    let known = Then::ALL.into_iter().find(|known| Some(known.as_str()) == then);
    known.map_or_else(String::new, |then| format!(" The rules say: {}. {}", then.as_str(), then.sentence()))
}

pub(super) async fn send(
    door: &Arc<Door>,
    caller: Caller,
    mut arguments: JsonObject,
) -> Result<Reply, Detail> {
    let common = Common::take(&mut arguments)?;
    let call = begin(door, caller, common).await?;
    // As it was sent: rules see the literal parameters, and the verb names what is wrong with them.
    let params = Value::Object(arguments);
    let receipt = submit::send(&call.hub, &call.caller.who, &call.agent, &params).await?;
    call.still_allowed().await?;
    let text = told(&receipt);
    let sent = Sent {
        channel: receipt.channel,
        message_id: receipt.message_id,
        topic_id: receipt.topic_id,
        deduplicated: receipt.deduplicated,
        delivered: receipt.delivered,
        reason: receipt.reason,
        queued: receipt.queued,
        send_id: receipt.send_id.unwrap_or_default(),
        state: receipt.state.unwrap_or_default(),
        approval_id: receipt.approval_id,
        escalation: steps(receipt.escalation),
        then: receipt.then,
    };
    Ok(Reply::new(text, &sent))
}

fn told(receipt: &MessageReceipt) -> String {
    let state = receipt.state.as_deref().unwrap_or("accepted");
    let mut text = String::new();
    if receipt.deduplicated {
        text.push_str("This call was made before: nothing was sent again. ");
    }
    let _ = match (&receipt.reason, receipt.delivered) {
        (_, true) => write!(text, "It has arrived on {}.", receipt.channel),
        (Some(reason), false) => write!(text, "It has not arrived yet ({state}): {reason}."),
        (None, false) => write!(text, "It has not arrived yet ({state})."),
    };
    if let Some(topic) =
        receipt.topic_id.as_ref().filter(|_| !matches!(state, "answered" | "expired" | "refused" | "dead"))
    {
        let _ = write!(text, " Wait for the answer: conversation_get with topic_id {topic} and wait_ms.");
    }
    text
}

/// A question and what came of it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[expect(clippy::struct_field_names, reason = "the contract calls it topic_id")]
pub(in crate::mcp) struct Topic {
    /// The topic.
    topic_id: String,
    /// queued, open, answered, expired or withdrawn.
    state: String,
    /// Why it is there, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Whom it is for.
    to: String,
    /// The channel.
    channel: String,
    /// Until when an answer counts, in Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline_ms: Option<i64>,
    /// The answer, behind a fence: what the person wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
    /// Whom the question goes to when nobody answers, in the order of their times.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    escalation: Vec<Step>,
    /// What it means that nobody answers in time: deny (take it for a no), proceed (go on as you proposed) or halt (stop the work).
    #[serde(skip_serializing_if = "Option::is_none")]
    then: Option<String>,
}

pub(super) async fn conversation(
    door: &Arc<Door>,
    caller: Caller,
    mut arguments: JsonObject,
) -> Result<Reply, Detail> {
    let common = Common::take(&mut arguments)?;
    let asked: args::ConversationGet = args::read(arguments)?;
    let call = begin(door, caller, common).await?;
    let get = ConversationGet { topic_id: asked.topic_id, wait_ms: asked.wait_ms };
    let found = view::conversation(&call.hub, &call.caller.who, &get).await?;
    call.still_allowed().await?;
    let answer = found.answer.as_ref().map(|answer| {
        // Who signed in is of the organization; a handle on a service may be anybody's.
        let known = matches!(answer.via.as_str(), "console" | "cli");
        let trust = if known { Trust::Team } else { Trust::Untrusted };
        let header = FenceHeader::new(format!("person {} via {}", answer.by, answer.via), trust)
            .with("topic", found.topic_id.clone());
        call.fence(&header, &answer.text)
    });
    let text = match (&answer, found.state.as_str()) {
        (Some(answer), _) => format!("The person has answered.\n\n{answer}"),
        (None, "open") => "No answer yet. Call again with wait_ms to go on waiting.".into(),
        (None, "queued") => {
            "It waits until the person has answered the question before it, or until it is approved.".into()
        }
        (None, state) => {
            let meaning = meaning(found.then.as_deref().filter(|_| state == "expired"));
            match &found.reason {
                Some(reason) => format!("There is no answer: {state} ({reason}).{meaning}"),
                None => format!("There is no answer: {state}.{meaning}"),
            }
        }
    };
    let topic = Topic {
        topic_id: found.topic_id,
        state: found.state,
        reason: found.reason,
        to: found.to,
        channel: found.channel,
        deadline_ms: found.deadline_ms,
        answer,
        escalation: steps(found.escalation),
        then: found.then,
    };
    Ok(Reply::new(text, &topic))
}

/// What can be reached.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub(in crate::mcp) struct Reachable {
    /// The channels.
    channels: Vec<Reach>,
}

/// One channel.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
struct Reach {
    /// What to put in channel.
    name: String,
    /// What it is made of.
    kind: String,
    /// Whether it reaches single people.
    direct: bool,
    /// Whether it reaches shared channels.
    shared: bool,
    /// Whether answers come back on it.
    answers: bool,
    /// ok, or why nothing leaves on it at present.
    health: String,
    /// People who can be reached: what to put in to.
    people: Vec<String>,
    /// Shared channels: what to put in to, with kind channel.
    shared_channels: Vec<String>,
}

pub(super) async fn channels(
    door: &Arc<Door>,
    caller: Caller,
    mut arguments: JsonObject,
) -> Result<Reply, Detail> {
    let common = Common::take(&mut arguments)?;
    let _: args::MessagingChannels = args::read(arguments)?;
    let call = begin(door, caller, common).await?;
    let found = view::channels(&call.hub, &call.caller.who).await?;
    let channels = found.channels.into_iter().map(|channel| {
        let (people, shared): (Vec<_>, Vec<_>) =
            channel.reachable.into_iter().partition(|to| matches!(to, Recipient::Direct(_)));
        let address = |to: &Recipient| to.address().to_owned();
        Reach {
            name: channel.name,
            kind: channel.kind,
            direct: channel.direct,
            shared: channel.shared,
            answers: channel.answers,
            health: channel.health,
            people: people.iter().map(address).collect(),
            shared_channels: shared.iter().map(address).collect(),
        }
    });
    let channels: Vec<_> = channels.collect();
    let mut text = String::new();
    for channel in &channels {
        let shown = channel.people.iter().chain(&channel.shared_channels).take(HANDLES_SHOWN);
        let shown: Vec<_> = shown.map(String::as_str).collect();
        let reached = if shown.is_empty() { "nobody has agreed yet".to_owned() } else { shown.join(", ") };
        let _ = writeln!(text, "{} ({}, {}): {reached}", channel.name, channel.kind, channel.health);
    }
    Ok(Reply::new(text, &Reachable { channels }))
}
