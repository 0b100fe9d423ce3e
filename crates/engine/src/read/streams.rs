//! `GET /v1/streams`: which channels and swarms the caller may read, and how far they go.

use crate::hub::Hub;
use crate::refusal;
use crate::submit::permit;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use switchboard_core::limits::SCAN_ROWS_MAX;
use switchboard_core::port::store::{StreamInfo, StreamOwner};
use switchboard_core::principal::Principal;
use switchboard_core::rights::Right;
use switchboard_protocol::Detail;
use switchboard_protocol::bus::{STREAM_LIST_SCHEMA, StreamItem, StreamList};
use switchboard_protocol::limits::STREAMS_PAGE_MAX;
use switchboard_protocol::message::NetworkKind;

/// The page after `after`, oldest streams first. At most [`SCAN_ROWS_MAX`] streams are looked at for it, so a page may hold
/// fewer than fit, or none, and yet have a next one.
pub async fn list(hub: &Hub, who: &Principal, after: Option<&str>) -> Result<StreamList, Detail> {
    permit(who, crate::govern::Act::UseBus)?;
    let mut at = after.map(|text| position(hub, text)).transpose()?.unwrap_or(0);
    let mut left = SCAN_ROWS_MAX;
    let mut list = StreamList {
        schema: STREAM_LIST_SCHEMA.into(),
        epoch: hub.installation.epoch.clone(),
        streams: Vec::new(),
        next_after: None,
    };
    loop {
        let page = hub.store().streams(at).await.map_err(|error| refusal::store(&error))?;
        if page.is_empty() {
            return Ok(list);
        }
        for info in &page {
            if list.streams.len() == STREAMS_PAGE_MAX || left == 0 {
                // How many streams there are in all is nobody's business.
                list.next_after = Some(URL_SAFE_NO_PAD.encode(hub.gids.seal(&at.to_be_bytes())));
                return Ok(list);
            }
            left -= 1;
            at = info.id.0;
            list.streams.extend(item(hub, who, info));
        }
    }
}

fn position(hub: &Hub, after: &str) -> Result<u32, Detail> {
    let sealed = URL_SAFE_NO_PAD.decode(after).ok();
    let plain = sealed.and_then(|sealed| hub.gids.unseal(&sealed));
    let number = plain.and_then(|plain| Some(u32::from_be_bytes(plain.try_into().ok()?)));
    number.ok_or_else(|| refusal::bad_field("after", "Pass next_after of the last page unchanged."))
}

/// The stream as the wire shows it, if the caller may read it.
fn item(hub: &Hub, who: &Principal, info: &StreamInfo) -> Option<StreamItem> {
    let (head, first_available) = (info.head, info.first);
    match &info.owner {
        StreamOwner::Channel { vault, name } => {
            let vault = hub.vault(*vault)?;
            Some(StreamItem {
                id: hub.streams.channel_name(vault.vault, name),
                network: NetworkKind::Org,
                name: name.clone(),
                vault_id: Some(vault.vault.to_string()),
                vault: Some(vault.name),
                head,
                first_available,
            })
        }
        StreamOwner::Swarm { swarm } => {
            let member = who.may(Right::Admin) || hub.handle_in(who.owner, swarm).is_some();
            let title = hub.swarms.read().swarms.get(swarm).filter(|_| member)?.title.clone();
            Some(StreamItem {
                id: format!("swarm:{swarm}"),
                network: NetworkKind::Swarm,
                name: title,
                vault_id: None,
                vault: None,
                head,
                first_available,
            })
        }
    }
}
