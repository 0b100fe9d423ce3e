//! One message by its id.
//!
//! Ids of no message, of a foreign network and of what is for others get one answer in one way: the same look-ups in the
//! same order, so that neither content nor timing tells them apart (contract section 4).

use crate::hub::Hub;
use crate::read::history::Page;
use crate::refusal;
use crate::submit::{NOWHERE, permit, resolve_gid};
use crate::viewer::Viewer;
use std::sync::Arc;
use switchboard_core::event::StoredEvent;
use switchboard_core::ids::EventId;
use switchboard_core::port::store::StreamOwner;
use switchboard_core::principal::Principal;
use switchboard_protocol::Detail;

/// Where an id belongs.
#[derive(Debug)]
pub struct Found {
    /// The event it names.
    pub id: EventId,
    /// Whose stream the event stands, or stood, in.
    pub owner: StreamOwner,
    /// The event, if it is still there and the caller may read it.
    pub event: Option<StoredEvent>,
}

/// What `gid` names, on a network of the caller's; `None` for everything else.
pub async fn locate(hub: &Hub, who: &Principal, gid: &str) -> Result<Option<Found>, Detail> {
    let id = resolve_gid(hub, gid);
    // Of a foreign network not even the row is read: how long that takes would tell that there is one, and how large.
    let is_foreign = hub.streams.get(id.stream).is_some() && !hub.is_member(who, id.stream);
    let row = if is_foreign { NOWHERE } else { id };
    let events = hub.store().events(vec![row]).await.map_err(|error| refusal::store(&error))?;
    let event = events.into_iter().flatten().next();
    if event.is_some() {
        // Its stream may be so new that the directory has yet to hear of it; all others are there already.
        hub.stream(id.stream).await.map_err(|error| refusal::store(&error))?;
    }
    let stream = hub.streams.get(id.stream).filter(|_| hub.is_member(who, id.stream));
    let Some(stream) = stream else { return Ok(None) };
    let viewer = Viewer::instance(who);
    let event = event.filter(|event| viewer.may_read(event));
    Ok(Some(Found { id, owner: stream.owner.clone(), event }))
}

/// The message of this id as a page of one.
pub async fn page(hub: &Hub, who: &Principal, gid: &str) -> Result<Page, Detail> {
    permit(who, crate::govern::Act::UseBus)?;
    let event = locate(hub, who, gid).await?.and_then(|found| found.event);
    let event = event.filter(|event| event.kind.is_message());
    let unreadable = || refusal::not_found("gid", "There is no such message, or none you may read.");
    Ok(Page { events: vec![Arc::new(event.ok_or_else(unreadable)?)], next: None })
}
