//! `bus_search`.

use super::inbox::checked_limit;
use super::{Items, Reply, begin, counted};
use crate::mcp::Door;
use crate::mcp::args::{self, Common};
use crate::mcp::gate::Caller;
use crate::mcp::item::{Extent, texts};
use rmcp::model::JsonObject;
use std::sync::Arc;
use switchboard_core::event::StoredEvent;
use switchboard_core::port::store::StreamOwner;
use switchboard_engine::read::search::{HITS_MAX, search};
use switchboard_protocol::Detail;

const LIMIT: usize = 10;

pub(super) async fn run(
    door: &Arc<Door>,
    caller: Caller,
    mut arguments: JsonObject,
) -> Result<Reply, Detail> {
    let common = Common::take(&mut arguments)?;
    let asked: args::Search = args::read(arguments)?;
    let limit = checked_limit(asked.limit, LIMIT, HITS_MAX)?;
    let only_here = common.vault.is_some();
    let call = begin(door, caller, common).await?;
    let hits = search(&call.hub, &call.caller.who, &asked.query, HITS_MAX).await?;
    let here = |event: &StoredEvent| match call
        .hub
        .streams
        .get(event.id.stream)
        .map(|stream| stream.owner.clone())
    {
        Some(StreamOwner::Channel { vault, .. }) => vault == call.vault.vault,
        _ => false,
    };
    let hits = hits.iter().filter(|event| !only_here || here(event)).take(limit);
    let messages: Vec<_> =
        hits.filter_map(|event| call.stored(event, Extent::Around(&asked.query))).collect();
    let text = if messages.is_empty() {
        "Nothing you may read contains all of these words. Try fewer or other words, or ask with bus_send."
            .into()
    } else {
        let count = counted(messages.len(), "hit", "hits");
        format!("{count}, newest first. Read the whole with bus_thread and the gid.\n\n{}", texts(&messages))
    };
    Ok(Reply::new(text, &Items { messages, next: None }))
}
