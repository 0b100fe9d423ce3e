//! From deliveries to what a page shows of them.

use super::when;
use crate::Doors;
use serde_json::Value;
use std::collections::HashMap;
use switchboard_console::page::{Message, Reply, Talk};
use switchboard_console::text::{Foreign, When};
use switchboard_core::event::StoredEvent;
use switchboard_core::ids::EventId;
use switchboard_core::write::ReceiptState;
use switchboard_engine::{frame, refusal};
use switchboard_protocol::Detail;

/// Characters of a body that a page shows.
const BODY_CHARS_MAX: usize = 20_000;

/// Where things are said, as its pages are addressed.
#[derive(Debug, Clone)]
pub(super) struct Base {
    /// The page of the whole channel or swarm.
    pub(super) path: String,
    /// Whether a person may write there.
    pub(super) writable: bool,
    /// Whether threads have pages of their own.
    pub(super) threads: bool,
}

/// What was said, with who has received it.
pub(super) async fn talk(doors: &Doors, base: &Base, events: &[StoredEvent]) -> Result<Talk, Detail> {
    let ids = events.iter().filter(|event| event.kind.is_message()).map(|event| event.id).collect();
    let receipts = doors.hub.store().receipts(ids).await.map_err(|error| refusal::store(&error))?;
    let mut seen: HashMap<EventId, Vec<(Foreign, &'static str)>> = HashMap::new();
    for row in receipts {
        let how = if row.state == ReceiptState::Read { "read" } else { "received" };
        seen.entry(row.event).or_default().push((row.agent.into(), how));
    }
    let message = |event: &StoredEvent| {
        let mut message = message(doors, base, event)?;
        message.seen = seen.remove(&event.id).unwrap_or_default();
        Some(message)
    };
    Ok(Talk { messages: events.iter().filter_map(message).collect() })
}

/// One event as a page shows it; what no program of this version wrote is passed over.
fn message(doors: &Doors, base: &Base, event: &StoredEvent) -> Option<Message> {
    let gids = &doors.hub.gids;
    let mine = event.from_instance == doors.hub.installation.hub_instance;
    let said: Value = serde_json::from_slice(&frame::deliver(event, gids, mine)).ok()?;
    let mut message = Message {
        anchor: anchor(event.id),
        from: event.from_agent.as_str().into(),
        about: None,
        to: event.to.as_ref().map(|to| to.agent.as_str().into()),
        kind: kind(&said),
        at: when(event.at_ms),
        body: Foreign::default(),
        data: false,
        mine,
        reply_to: event.reply_to.map(|id| format!("#{}", anchor(id))),
        thread: None,
        reply: None,
        deadline: said["deadline"].as_str().map(|at| When(at.to_owned())),
        seen: Vec::new(),
    };
    match message.kind {
        "publish" => publish(&said, &mut message),
        "task" => task(&said, &mut message),
        _ => spoken(base, &said, event, gids.gid(event.id), &gids.gid(event.thread), &mut message),
    }
    Some(message)
}

fn anchor(id: EventId) -> String {
    format!("m{}-{}", id.stream.0, id.seq)
}

fn kind(said: &Value) -> &'static str {
    match (said["t"].as_str(), said["type"].as_str()) {
        (Some("deliver"), _) => "publish",
        (Some("task.event"), _) => "task",
        (_, Some("question")) => "question",
        (_, Some("offer")) => "offer",
        (_, Some("handoff")) => "handoff",
        (_, Some("answer")) => "answer",
        _ => "finding",
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn spoken(base: &Base, said: &Value, event: &StoredEvent, gid: String, thread: &str, message: &mut Message) {
    let from = &said["from"];
    let name = ["agent", "label", "handle"].into_iter().find_map(|key| text(&from[key]));
    message.from = name.unwrap_or_default().into();
    message.about = match (text(&from["instance_label"]), text(&from["owner"])) {
        (Some(label), Some(owner)) => Some(format!("{label} of {owner}").into()),
        _ => (from["kind"] == "person").then(|| "at the console".into()),
    };
    message.mine = message.mine && from["kind"] == "person";
    if message.to.is_none() {
        message.to = text(&said["to"]).map(Into::into);
    }
    let body = &said["body"];
    message.body = match text(&body["text"]) {
        Some(text) => cut(text),
        None if said.get("sealed").is_some() => "(sealed: only the vault's members can open it)".into(),
        None => cut(serde_json::to_string_pretty(body).unwrap_or_default()),
    };
    message.data = !body.is_null() && body["text"].is_null();
    if base.threads && (event.thread != event.id || event.reply_to.is_none()) {
        message.thread = Some(format!("{}/threads/{thread}", base.path));
    }
    if base.writable && !message.mine {
        let kind = if message.kind == "question" { "answer" } else { "finding" };
        message.reply = Some(Reply { path: format!("{}?reply_to={gid}#compose", base.path), gid, kind });
    }
}

fn publish(said: &Value, message: &mut Message) {
    message.about = text(&said["kind"]).map(Into::into);
    let body = &said["body"];
    message.body = cut(text(body).unwrap_or_else(|| serde_json::to_string_pretty(body).unwrap_or_default()));
    message.data = !body.is_string();
}

fn task(said: &Value, message: &mut Message) {
    message.from = "hub".into();
    let state = text(&said["state"]).unwrap_or_default();
    message.body = format!("Task {} is {state}.", said["number"]).into();
}

fn cut(text: String) -> Foreign {
    match text.char_indices().nth(BODY_CHARS_MAX) {
        Some((at, _)) => format!("{}\n… {} more bytes", &text[..at], text.len() - at).into(),
        None => text.into(),
    }
}
