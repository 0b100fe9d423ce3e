//! `GET /v1/bus/channels/{channel}/events`: catch up on the publishes of one channel (contract section 3).

use crate::frame;
use crate::hub::Hub;
use crate::refusal;
use crate::submit::{permit, resolve_channel};
use crate::viewer::Viewer;
use switchboard_core::event::EventKind;
use switchboard_core::limits::{EVENTS_PAGE_MAX, SCAN_ROWS_MAX};
use switchboard_core::port::store::StreamOwner;
use switchboard_core::principal::Principal;
use switchboard_protocol::Detail;
use switchboard_protocol::bus::BUS_EVENTS_SCHEMA;

/// Bytes read from the store at once.
const READ_BYTES: usize = 512 * 1024;
/// Bytes of one answer, so that large bodies make shorter pages.
const PAGE_BYTES: usize = 900 * 1024;

/// The page after `after_seq` as `bus-events/v1`.
pub async fn json(
    hub: &Hub,
    who: &Principal,
    channel: &str,
    after_seq: u64,
    limit: usize,
) -> Result<Vec<u8>, Detail> {
    permit(who, crate::govern::Act::UseBus)?;
    let (vault, name) = resolve_channel(hub, channel)?;
    let viewer = Viewer::instance(who);
    let owner = StreamOwner::Channel { vault: vault.vault, name: name.to_owned() };
    let mut out = Vec::new();
    frame::member(&mut out, "schema", &BUS_EVENTS_SCHEMA);
    frame::member(&mut out, "channel", &channel);
    out.extend(br#","events":["#);
    let mut position = Position { at: after_seq, ..Position::default() };
    if let Some(stream) = hub.find_stream(&owner).await.map_err(|error| refusal::store(&error))? {
        let limit = limit.clamp(1, EVENTS_PAGE_MAX);
        while !position.is_full(limit, out.len()) {
            let want = EVENTS_PAGE_MAX.min(SCAN_ROWS_MAX - position.scanned);
            let page = hub.store().page(stream.id, position.at, want, READ_BYTES).await;
            let page = page.map_err(|error| refusal::store(&error))?;
            (position.head, position.first) = (page.head, page.first);
            if page.events.is_empty() {
                position.at = position.at.max(page.head);
                break;
            }
            for event in &page.events {
                if position.is_full(limit, out.len()) {
                    break;
                }
                position.at = event.id.seq;
                position.scanned += 1;
                if event.kind == EventKind::Publish && viewer.may_read(event) {
                    if position.taken > 0 {
                        out.push(b',');
                    }
                    out.extend(&frame::deliver(event, &hub.gids, false)[..]);
                    position.taken += 1;
                }
            }
        }
    }
    out.push(b']');
    position.put(hub, after_seq, &mut out);
    let mut json = Vec::with_capacity(out.len() + 2);
    json.push(b'{');
    json.append(&mut out);
    json.push(b'}');
    Ok(json)
}

#[derive(Default)]
struct Position {
    at: u64,
    head: u64,
    first: u64,
    scanned: usize,
    taken: usize,
}

impl Position {
    fn is_full(&self, limit: usize, bytes: usize) -> bool {
        self.taken >= limit || self.scanned >= SCAN_ROWS_MAX || bytes >= PAGE_BYTES
    }

    fn put(&self, hub: &Hub, after_seq: u64, out: &mut Vec<u8>) {
        if self.at < self.head {
            frame::member(out, "next_after_seq", &self.at);
        }
        frame::member(out, "epoch", &hub.installation.epoch);
        frame::member(out, "complete_up_to", &self.at.min(self.head));
        if self.first > after_seq + 1 {
            frame::member(out, "first_available_seq", &self.first);
        }
    }
}
