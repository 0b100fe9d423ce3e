//! `GET /v1/messages`: the messages of one network, or of one thread, page by page (contract section 3).

use crate::frame;
use crate::hub::Hub;
use crate::refusal;
use crate::submit::{permit, resolve_channel};
use crate::viewer::Viewer;
use std::sync::Arc;
use switchboard_core::event::StoredEvent;
use switchboard_core::limits::{HISTORY_PAGE_MAX, SCAN_ROWS_MAX};
use switchboard_core::port::store::StreamOwner;
use switchboard_core::principal::Principal;
use switchboard_core::rights::Right;
use switchboard_protocol::Detail;
use switchboard_protocol::message::{MESSAGE_LIST_SCHEMA, Network};

/// Bytes read from the store at once.
const READ_BYTES: usize = 512 * 1024;

/// Bytes of one answer, roughly: clients take no body above 1 MiB, so long messages make shorter pages.
const PAGE_BYTES: usize = 768 * 1024;

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Query<'a> {
    /// The network.
    pub network: Network<'a>,
    /// Only this thread.
    pub thread_id: Option<&'a str>,
    /// Only what stands behind this message.
    pub after_gid: Option<&'a str>,
    /// Only what stands behind this position; not with `after_gid`.
    pub after_seq: Option<u64>,
    /// At most so many; bounded by [`HISTORY_PAGE_MAX`].
    pub limit: usize,
}

/// A page of messages.
#[derive(Debug, Default)]
pub struct Page {
    /// The messages.
    pub events: Vec<Arc<StoredEvent>>,
    /// Pass as `after_gid` for the next page; absent at the end. A page may be empty and still have a next one, when
    /// nothing in it was for the reader.
    pub next: Option<String>,
}

/// Reads a page.
pub async fn page(hub: &Hub, who: &Principal, query: &Query<'_>) -> Result<Page, Detail> {
    permit(who, crate::govern::Act::UseBus)?;
    if query.after_gid.is_some() && query.after_seq.is_some() {
        return Err(refusal::bad_field("after_seq", "Name after_gid or after_seq, not both."));
    }
    let owner = owner(hub, who, &query.network)?;
    let stream = hub.find_stream(&owner).await.map_err(|error| refusal::store(&error))?;
    let Some(stream) = stream else { return Ok(Page::default()) };
    let unknown = |field| refusal::not_found(field, "No such message on this network.");
    let position = |field, gid: &str| match hub.gids.event(gid) {
        Some(id) if id.stream == stream.id => Ok(id),
        _ => Err(unknown(field)),
    };
    let after = query.after_gid.map(|gid| position("after_gid", gid)).transpose()?;
    let after = after.map_or(query.after_seq.unwrap_or(0), |id| id.seq);
    let thread = query.thread_id.map(|gid| position("thread_id", gid)).transpose()?;
    let limit = query.limit.clamp(1, HISTORY_PAGE_MAX);
    let viewer = Viewer::instance(who);
    let mut page = Page::default();
    let (mut cursor, mut scanned, mut bytes) = (after, 0, 0);
    loop {
        // One more than the page takes says whether there is a next one.
        let want = (limit - page.events.len() + 1).min(SCAN_ROWS_MAX - scanned);
        let rows = match thread {
            Some(thread) => hub.store().thread(thread, cursor, want).await,
            None => hub.store().page(stream.id, cursor, want, READ_BYTES).await.map(|page| page.events),
        };
        let rows = rows.map_err(|error| refusal::store(&error))?;
        let Some(last) = rows.last().map(|event| event.id) else { return Ok(page) };
        scanned += rows.len();
        for event in rows {
            if page.events.len() == limit || bytes >= PAGE_BYTES {
                page.next = page.events.last().map(|event| hub.gids.gid(event.id));
                return Ok(page);
            }
            if event.kind.is_message() && viewer.may_read(&event) {
                bytes += event.size();
                page.events.push(Arc::new(event));
            }
        }
        cursor = last.seq;
        if scanned >= SCAN_ROWS_MAX {
            page.next = Some(hub.gids.gid(last));
            return Ok(page);
        }
    }
}

fn owner(hub: &Hub, who: &Principal, network: &Network<'_>) -> Result<StreamOwner, Detail> {
    match network {
        Network::Org { channel } => {
            let (vault, name) = resolve_channel(hub, channel)?;
            Ok(StreamOwner::Channel { vault: vault.vault, name: name.to_owned() })
        }
        Network::Swarm { swarm_id } => {
            let member = who.may(Right::Admin) || hub.handle_in(who.owner, swarm_id).is_some();
            let known = member && hub.swarms.read().swarms.contains_key(&**swarm_id);
            if !known {
                return Err(refusal::not_found("swarm_id", "No such swarm, or you have no handle in it."));
            }
            Ok(StreamOwner::Swarm { swarm: swarm_id.to_string() })
        }
    }
}

/// The page as `message-list/v1`.
#[must_use]
pub fn json(hub: &Hub, who: &Principal, page: &Page) -> Vec<u8> {
    let viewer = Viewer::instance(who);
    let mut out = format!(r#"{{"schema":"{MESSAGE_LIST_SCHEMA}","messages":["#).into_bytes();
    for (number, event) in page.events.iter().enumerate() {
        if number > 0 {
            out.push(b',');
        }
        out.extend(frame::history_item(event, &hub.gids, viewer.is_mine(event)));
    }
    out.push(b']');
    if let Some(next) = &page.next {
        frame::member(&mut out, "next", next);
    }
    out.push(b'}');
    out
}
