//! `GET /v1/bus/poll`: the socket's deliveries for clients that cannot keep one (contract section 3).
//!
//! The cursor carries the epoch and one encrypted position per stream: opaque, and of no use to anybody who tampers with it.

use crate::follow::{Follower, Outbox, Start};
use crate::frame;
use crate::hub::Hub;
use crate::refusal;
use crate::stream::Stream;
use crate::submit::permit;
use crate::viewer::Viewer;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::ids::{EventId, StreamId, VaultId};
use switchboard_core::limits::POLL_WAIT_MS_MAX;
use switchboard_core::port::store::StreamOwner;
use switchboard_core::principal::Principal;
use switchboard_protocol::Detail;
use switchboard_protocol::bus::BUS_POLL_SCHEMA;

const EMPTY: &str = "-";

/// Waits up to `wait_ms` for something after `cursor` (without one, or with an empty one: from now on) and returns `bus-poll/v1`.
pub async fn json(
    hub: &Arc<Hub>,
    who: &Principal,
    cursor: Option<&str>,
    wait_ms: u64,
) -> Result<Vec<u8>, Detail> {
    permit(who, crate::govern::Act::UseBus)?;
    let cursor = cursor.filter(|text| !text.is_empty());
    let cursor = cursor.map(|text| read_cursor(hub, text)).transpose()?;
    let mut follower = Follower::new(hub.clone(), Viewer::instance(who), false);
    follower.viewer.agents = Some(agents(hub, who));
    let start = |stream: &Stream| match &cursor {
        // A swarm that the cursor does not know may have been joined just now: its past is not news.
        Some(cursor) if !cursor.again && is_swarm(stream) && !cursor.positions.contains_key(&stream.id) => {
            Start::Head
        }
        None => Start::Head,
        Some(Cursor { again: true, .. }) => Start::Again,
        // A stream that the cursor does not know was made after it.
        Some(cursor) => Start::After(cursor.positions.get(&stream.id).copied().unwrap_or(0)),
    };
    hub.vault_list().iter().for_each(|vault| follower.add_vault(vault.vault, start));
    for swarm in hub.joined(who.owner) {
        if let Some(stream) = hub.streams.find(&StreamOwner::Swarm { swarm }) {
            let start = start(&stream);
            follower.add(&stream, start);
        }
    }
    let mut out = Outbox::default();
    let wait = tokio::time::sleep(Duration::from_millis(wait_ms.min(POLL_WAIT_MS_MAX)));
    tokio::pin!(wait);
    loop {
        follower.fill(&mut out).await.map_err(|error| refusal::store(&error))?;
        if !out.frames.is_empty() {
            break;
        }
        tokio::select! {
            () = follower.waker.woken() => {
                let woken = follower.waker.take();
                follower.note(woken.streams, woken.fresh);
            }
            () = &mut wait => break,
            () = hub.stopping().cancelled() => break,
        }
    }
    crate::credentials::still_good(hub, who).await?; // it may have been revoked while it waited
    Ok(answer(hub, &follower, out))
}

fn is_swarm(stream: &Stream) -> bool {
    matches!(stream.owner, StreamOwner::Swarm { .. })
}

/// A poll speaks for every agent of its instance.
fn agents(hub: &Hub, who: &Principal) -> crate::viewer::Agents {
    let of_vault = |vault: VaultId| {
        let rows = hub.presence.agents(vault).into_iter().filter(|row| row.instance == who.instance);
        rows.map(move |row| (vault, row.agent))
    };
    hub.vault_list().into_iter().flat_map(|vault| of_vault(vault.vault)).collect()
}

fn answer(hub: &Hub, follower: &Follower, mut out: Outbox) -> Vec<u8> {
    let mut json = Vec::with_capacity(out.bytes + 256);
    frame::member(&mut json, "schema", &BUS_POLL_SCHEMA);
    json.extend(br#","frames":["#);
    for (number, frame) in out.take().into_iter().enumerate() {
        if number > 0 {
            json.push(b',');
        }
        json.extend(&frame[..]);
    }
    json.push(b']');
    frame::member(&mut json, "cursor", &write_cursor(hub, follower));
    frame::member(&mut json, "epoch", &hub.installation.epoch);
    json.insert(0, b'{');
    json.push(b'}');
    json
}

struct Cursor {
    positions: HashMap<StreamId, u64>,
    again: bool,
}

fn write_cursor(hub: &Hub, follower: &Follower) -> String {
    let mut text = hub.installation.epoch.clone();
    for (stream, at) in follower.positions() {
        text.push('.');
        // A position of 0 has no event to name, so every position is one higher inside.
        text.push_str(hub.gids.gid(EventId { stream, seq: at + 1 }).trim_start_matches("msg_"));
    }
    if text == hub.installation.epoch {
        text.push('.');
        text.push_str(EMPTY);
    }
    text
}

fn read_cursor(hub: &Hub, text: &str) -> Result<Cursor, Detail> {
    let bad = || {
        refusal::bad_field(
            "cursor",
            "Pass the cursor of the last answer unchanged, or none to start at the head.",
        )
    };
    let mut parts = text.split('.');
    let again = parts.next() != Some(&*hub.installation.epoch);
    if again {
        // Of an earlier epoch: history was restored from a backup, so all that is there has to be read again.
        let ours = text.starts_with("ep_");
        return if ours { Ok(Cursor { positions: HashMap::new(), again }) } else { Err(bad()) };
    }
    let position =
        |part: &str| hub.gids.event(&format!("msg_{part}")).map(|id| (id.stream, id.seq - 1)).ok_or_else(bad);
    let positions = parts.filter(|part| *part != EMPTY).map(position).collect::<Result<_, _>>()?;
    Ok(Cursor { positions, again })
}
