//! `bus_inbox`.

use super::send::checked_wait;
use super::{Reply, begin, counted};
use crate::mcp::Door;
use crate::mcp::args::{self, Common};
use crate::mcp::gate::Caller;
use crate::mcp::item::{Item, texts};
use rmcp::model::JsonObject;
use rmcp::schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;
use switchboard_engine::inbox::{self, TAKE_MAX, Take};
use switchboard_engine::refusal;
use switchboard_protocol::Detail;

const LIMIT: usize = 10;

/// What was received.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub(in crate::mcp) struct Received {
    /// The agent it is for: you.
    agent: String,
    /// The vault.
    vault_id: String,
    /// Oldest first.
    messages: Vec<Item>,
    /// Whether more is waiting: call again.
    more: bool,
}

pub(super) async fn run(
    door: &Arc<Door>,
    caller: Caller,
    mut arguments: JsonObject,
) -> Result<Reply, Detail> {
    let common = Common::take(&mut arguments)?;
    let asked: args::Inbox = args::read(arguments)?;
    let wait_ms = checked_wait(asked.wait_ms)?;
    let limit = checked_limit(asked.limit, LIMIT, TAKE_MAX)?;
    let call = begin(door, caller, common).await?;
    let take = Take { wait_ms, limit, mark_read: asked.mark_read, unread: asked.unread };
    let taken = inbox::take(&call.hub, &call.owner(), take).await?;
    if wait_ms > 0 {
        call.still_allowed().await?;
    }
    let messages = call.items(&taken.frames);
    let who = call.whereabouts();
    let text = if messages.is_empty() {
        let waited = if wait_ms > 0 { format!(" within {wait_ms} ms") } else { String::new() };
        format!("Nothing new for {who}{waited}. Call again with wait_ms to wait for it.")
    } else {
        let more = if taken.more { "\nMore is waiting: call bus_inbox again." } else { "" };
        let count = counted(messages.len(), "message", "messages");
        format!(
            "{count} for {who}, oldest first. Reply with bus_reply and the gid.\n\n{}{more}",
            texts(&messages)
        )
    };
    let vault_id = call.vault.vault.to_string();
    Ok(Reply::new(text, &Received { agent: call.agent.clone(), vault_id, messages, more: taken.more }))
}

/// How many things a call returns.
pub(super) fn checked_limit(limit: Option<usize>, default: usize, max: usize) -> Result<usize, Detail> {
    let limit = limit.unwrap_or(default);
    if (1..=max).contains(&limit) {
        return Ok(limit);
    }
    Err(refusal::bad_field("limit", format!("limit must be 1 to {max}.")))
}
