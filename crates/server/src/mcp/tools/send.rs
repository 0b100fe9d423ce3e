//! `bus_send`, and what it shares with `bus_reply`.

use super::{Reply, begin};
use crate::mcp::Door;
use crate::mcp::args::{self, Common};
use crate::mcp::call::Call;
use crate::mcp::gate::Caller;
use crate::mcp::item::Item;
use rmcp::model::JsonObject;
use rmcp::schemars::JsonSchema;
use serde::Serialize;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;
use switchboard_core::event::StoredEvent;
use switchboard_core::limits::POLL_WAIT_MS_MAX;
use switchboard_core::time::SECOND_MS;
use switchboard_core::write::{Appended, Outcome, Presence};
use switchboard_engine::submit::message;
use switchboard_engine::{frame, inbox, refusal};
use switchboard_protocol::Detail;
use switchboard_protocol::message::{AgentMessage, MessageBody, MessageType, Network};
use switchboard_protocol::text::validate_id;
use switchboard_protocol::time::UtcTime;

/// The channel of messages that name none.
const GENERAL: &str = "general";
/// Seconds of an hour.
const HOUR_S: f64 = 3600.0;

/// What became of a message.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub(in crate::mcp) struct Sent {
    /// Id of the message.
    gid: String,
    /// Id of its thread.
    thread_id: String,
    /// Its position on the channel or swarm.
    seq: u64,
    /// The id it was sent with; send again with it and nothing happens twice.
    client_msg_id: String,
    /// Whether the same message was stored before under this id.
    repeat: bool,
    /// The agent it was sent as.
    from: String,
    /// The channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<String>,
    /// The swarm.
    #[serde(skip_serializing_if = "Option::is_none")]
    swarm_id: Option<String>,
    /// The agent it is for; absent: everyone.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    /// The instance it was bound to.
    #[serde(skip_serializing_if = "Option::is_none")]
    to_instance: Option<String>,
    /// active, idle or closed: how the addressee is now.
    #[serde(skip_serializing_if = "Option::is_none")]
    addressee: Option<&'static str>,
    /// Until when an answer is awaited, UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<String>,
    /// When the hub deletes it, UTC.
    expires_at: String,
    /// The answer, if one came while waiting.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<Item>,
}

pub(super) async fn run(
    door: &Arc<Door>,
    caller: Caller,
    mut arguments: JsonObject,
) -> Result<Reply, Detail> {
    let common = Common::take(&mut arguments)?;
    let send: args::Send = args::read(arguments)?;
    let wait_ms = checked_wait(send.wait_ms)?;
    if let Some(name) = &send.channel {
        validate_id(name, "channel").map_err(refusal::invalid)?;
    }
    if send.swarm.is_some() && send.channel.is_some() {
        return Err(refusal::bad_field("swarm", "Name a channel or a swarm, not both."));
    }
    let call = begin(door, caller, common).await?;
    let network = if let Some(swarm) = send.swarm {
        Network::Swarm { swarm_id: swarm.into() }
    } else {
        let name = send.channel.as_deref().unwrap_or(GENERAL);
        Network::Org { channel: call.hub.streams.channel_name(call.vault.vault, name).into() }
    };
    let mut message = compose(&call, network, send.kind.into(), send.text, &send.references)?;
    set_id(&mut message, send.client_msg_id);
    message.deadline = deadline(&call, send.deadline_hours)?;
    (message.to, message.to_instance) = (send.to.map(Cow::from), send.to_instance.map(Cow::from));
    let appended = store(&call, &message).await?;
    let mut answer = None;
    if wait_ms > 0 {
        let frame = inbox::answer(&call.hub, &call.owner(), appended.id, wait_ms).await?;
        call.still_allowed().await?;
        answer = frame.and_then(|frame| call.items(&[frame]).pop());
    }
    report(&call, &message, &appended, Waited { wait_ms, answer }).await
}

/// How long a call may wait.
pub(super) fn checked_wait(wait_ms: Option<u64>) -> Result<u64, Detail> {
    let wait_ms = wait_ms.unwrap_or(0);
    if wait_ms > POLL_WAIT_MS_MAX {
        let message = format!("wait_ms must be at most {POLL_WAIT_MS_MAX}; call again to wait longer.");
        return Err(refusal::bad_field("wait_ms", message));
    }
    Ok(wait_ms)
}

/// A message of the calling agent under a fresh id, not yet checked.
pub(super) fn compose<'a>(
    call: &'a Call,
    network: Network<'a>,
    kind: MessageType,
    text: String,
    references: &[String],
) -> Result<AgentMessage<'a>, Detail> {
    let references = references.iter().map(|text| args::reference(text)).collect::<Result<_, _>>()?;
    let body = MessageBody { text: text.into(), references };
    Ok(AgentMessage::new(call.hub.fresh_id("mcp"), network, kind, call.agent.as_str(), body))
}

/// The caller's own id for the message, if it has one.
pub(super) fn set_id(message: &mut AgentMessage<'_>, id: Option<String>) {
    if let Some(id) = id {
        message.client_msg_id = id.into();
    }
}

/// The time in `hours`.
#[expect(clippy::cast_possible_truncation, reason = "checked to lie within a week")]
pub(super) fn deadline(call: &Call, hours: Option<f64>) -> Result<Option<UtcTime>, Detail> {
    let Some(hours) = hours else { return Ok(None) };
    if !(hours > 0.0 && hours <= 168.0) {
        return Err(refusal::bad_field(
            "deadline_hours",
            "deadline_hours must be more than 0 and at most 168.",
        ));
    }
    let now_s = call.hub.clock().wall_ms().div_euclid(SECOND_MS);
    Ok(Some(UtcTime::from_unix(now_s + (hours * HOUR_S).ceil() as i64)))
}

/// Checks and stores a message.
async fn store(call: &Call, message: &AgentMessage<'_>) -> Result<Appended, Detail> {
    let write = write(call, message)?;
    appended(call.hub.commit_one(write).await?)
}

/// The checked write of a message.
pub(super) fn write(
    call: &Call,
    message: &AgentMessage<'_>,
) -> Result<switchboard_core::write::Write, Detail> {
    message.validate().map_err(refusal::invalid)?;
    message::message(&call.hub, call.speaker(), message)
}

/// The place of a stored message.
pub(super) fn appended(outcome: Outcome) -> Result<Appended, Detail> {
    match outcome {
        Outcome::Appended(appended) => Ok(appended),
        Outcome::Refused(refused) => Err(refusal::of(&refused)),
        _ => Err(refusal::not_found("text", "The store answered something else; the hub's log says why.")),
    }
}

/// What a call waited for.
#[derive(Default)]
pub(super) struct Waited {
    wait_ms: u64,
    answer: Option<Item>,
}

/// Tells what became of a stored message.
pub(super) async fn report(
    call: &Call,
    message: &AgentMessage<'_>,
    appended: &Appended,
    waited: Waited,
) -> Result<Reply, Detail> {
    let stored = call.hub.store().events(vec![appended.id]).await.map_err(|error| refusal::store(&error))?;
    let addressee = stored.into_iter().flatten().next().and_then(|event| addressee(call, &event));
    let awaits = message.message_type == MessageType::Question;
    let asked_at = appended.at_ms + call.hub.settings.question_deadline_ms;
    let deadline = awaits.then(|| message.deadline.unwrap_or_else(|| frame::utc(asked_at)));
    let (channel, swarm_id) = match &message.network {
        Network::Org { channel } => (Some(channel.to_string()), None),
        Network::Swarm { swarm_id } => (None, Some(swarm_id.to_string())),
    };
    let mut sent = Sent {
        gid: call.hub.gids.gid(appended.id),
        thread_id: call.hub.gids.gid(appended.thread),
        seq: appended.id.seq,
        client_msg_id: message.client_msg_id.to_string(),
        repeat: appended.repeat,
        from: call.agent.clone(),
        channel,
        swarm_id,
        to: message.to.as_ref().map(ToString::to_string),
        to_instance: addressee.as_ref().map(|(instance, _)| instance.clone()),
        addressee: addressee.map(|(_, state)| state),
        deadline: deadline.map(|deadline| deadline.to_string()),
        expires_at: frame::utc(appended.expires_at_ms).to_string(),
        answer: None,
    };
    let text = tell(call, &sent, &waited);
    sent.answer = waited.answer;
    Ok(Reply::new(text, &sent))
}

/// The instance a direct message went to, and how its agent is now.
fn addressee(call: &Call, event: &StoredEvent) -> Option<(String, &'static str)> {
    let to = event.to.as_ref()?;
    let row = call.hub.presence.agent(call.vault.vault, to.instance, &to.agent)?;
    Some((row.instance_id.clone(), state(row.state)))
}

/// The name of a state.
pub(super) fn state(state: Presence) -> &'static str {
    match state {
        Presence::Active => "active",
        Presence::Idle => "idle",
        Presence::Closed => "closed",
    }
}

fn tell(call: &Call, sent: &Sent, waited: &Waited) -> String {
    let known = if sent.repeat {
        " It was stored before under this client_msg_id; nothing was sent twice."
    } else {
        ""
    };
    let mut text = format!(
        "Stored durably, gid {}, thread {}, sent as {}.{known}\n",
        sent.gid, sent.thread_id, sent.from
    );
    text.push_str(&reach(call, sent));
    if let Some(answer) = &waited.answer {
        let _ = write!(text, "\nThe answer came:\n{}", answer.text);
        return text;
    }
    if waited.wait_ms > 0 {
        let _ = write!(
            text,
            "\nNo answer came within {} ms. It will reach you through bus_inbox.",
            waited.wait_ms
        );
    }
    if let Some(deadline) = &sent.deadline {
        let wait = if waited.wait_ms > 0 { "" } else { " Wait for the answer with bus_inbox and wait_ms." };
        let _ = write!(
            text,
            "\nIf nobody answers until {deadline} it becomes a task proposal for a person.{wait}"
        );
    }
    text
}

fn reach(call: &Call, sent: &Sent) -> String {
    match (&sent.to, sent.addressee) {
        (Some(to), Some("active")) => format!("{to} is there now and has been woken."),
        (Some(to), Some("idle")) => format!("{to} is there, idle, and has been woken."),
        (Some(to), Some(_)) => format!("{to} is not there now; the message waits until it comes back."),
        _ if sent.swarm_id.is_some() => "Everyone in the swarm can read it.".into(),
        _ => {
            let rows = call.hub.presence.agents(call.vault.vault);
            let other = |row: &&switchboard_core::port::store::AgentRow| {
                row.state != Presence::Closed
                    && !(row.instance == call.caller.who.instance && row.agent == call.agent)
            };
            let others = rows.iter().filter(other).count();
            match others {
                0 => "Nobody else is in the vault now; agents find it in their inbox when they come back."
                    .into(),
                _ => format!(
                    "{} in the vault now.",
                    super::counted(others, "other agent is", "other agents are")
                ),
            }
        }
    }
}
