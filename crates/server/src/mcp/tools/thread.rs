//! `bus_thread`.

use super::inbox::checked_limit;
use super::{Items, Reply, counted, locate, network_of, no_message, vault_of};
use crate::mcp::Door;
use crate::mcp::args::{self, Common};
use crate::mcp::call::Call;
use crate::mcp::gate::Caller;
use crate::mcp::item::{Extent, texts};
use rmcp::model::JsonObject;
use std::sync::Arc;
use switchboard_core::limits::HISTORY_PAGE_MAX;
use switchboard_engine::read::history::{Query, page};
use switchboard_protocol::{Code, Detail};

const LIMIT: usize = 50;

pub(super) async fn run(
    door: &Arc<Door>,
    caller: Caller,
    mut arguments: JsonObject,
) -> Result<Reply, Detail> {
    let common = Common::take(&mut arguments)?;
    let asked: args::Thread = args::read(arguments)?;
    let limit = checked_limit(asked.limit, LIMIT, HISTORY_PAGE_MAX)?;
    let found = locate(door, &caller, &asked.gid, "gid").await?;
    let call = Call::begin(door, caller, common, vault_of(&found.owner)).await?;
    let hub = &call.hub;
    // The first message may be gone or for others alone: its id still names the thread.
    let thread = hub.gids.gid(found.event.map_or(found.id, |event| event.thread));
    let query = Query {
        network: network_of(hub, &found.owner),
        after_seq: None,
        thread_id: Some(&thread),
        after_gid: asked.after.as_deref(),
        limit,
    };
    let page = page(hub, &call.caller.who, &query).await.map_err(outsider)?;
    let messages: Vec<_> = page.events.iter().filter_map(|event| call.stored(event, Extent::Whole)).collect();
    if messages.is_empty() && asked.after.is_none() && page.next.is_none() {
        return Err(no_message("gid"));
    }
    let more = page.next.as_ref().map(|next| format!("\nThe thread goes on: call again with after {next}."));
    let count = counted(messages.len(), "message", "messages");
    let text = format!(
        "Thread {thread}, {count}, oldest first.\n\n{}{}",
        texts(&messages),
        more.unwrap_or_default()
    );
    Ok(Reply::new(text, &Items { messages, next: page.next }))
}

/// To those outside a swarm its messages are unknown ones.
fn outsider(detail: Detail) -> Detail {
    match (detail.code, detail.field.as_deref()) {
        (Code::NotFound, Some("after_gid")) => no_message("after"),
        (Code::NotFound, _) => no_message("gid"),
        _ => detail,
    }
}
