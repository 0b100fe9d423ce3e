//! Full-text search over what the caller may read.

use crate::hub::Hub;
use crate::refusal;
use crate::submit::permit;
use crate::viewer::Viewer;
use std::sync::Arc;
use switchboard_core::event::StoredEvent;
use switchboard_core::port::store::{SearchScope, StreamOwner};
use switchboard_core::principal::Principal;
use switchboard_core::rights::Right;
use switchboard_protocol::Detail;
use switchboard_protocol::text::validate_text;

/// Hits of one search.
pub const HITS_MAX: usize = 50;
/// Longest query.
pub const QUERY_CHARS_MAX: usize = 200;

/// Messages and publishes that contain all of `words`, newest first.
pub async fn search(
    hub: &Hub,
    who: &Principal,
    words: &str,
    limit: usize,
) -> Result<Vec<Arc<StoredEvent>>, Detail> {
    permit(who, crate::govern::Act::UseBus)?;
    validate_text(words, QUERY_CHARS_MAX, "query", false).map_err(refusal::invalid)?;
    let all = who.may(Right::Admin);
    let readable = |owner: &StreamOwner| match owner {
        StreamOwner::Channel { .. } => true,
        StreamOwner::Swarm { swarm } => all || hub.handle_in(who.owner, swarm).is_some(),
    };
    let mut streams = hub.streams.all();
    streams.retain(|stream| readable(&stream.owner));
    // A search has a bound on what it looks at: the fullest streams come last, so that they do not use it up alone.
    streams.sort_by_key(|stream| stream.head());
    let streams = streams.iter().map(|stream| stream.id).collect();
    let scope = SearchScope { streams, instance: (!all).then_some(who.instance) };
    let failed = |error| refusal::store(&error);
    let hits = hub.store().search(words.to_owned(), scope, limit.clamp(1, HITS_MAX)).await.map_err(failed)?;
    let events = hub.store().events(hits).await.map_err(failed)?;
    // The index is derived and may lag; the events themselves decide who may read them.
    let viewer = Viewer::instance(who);
    Ok(events.into_iter().flatten().filter(|event| viewer.may_read(event)).map(Arc::new).collect())
}
