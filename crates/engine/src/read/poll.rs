//! `GET /v1/bus/poll`: the socket's deliveries for clients that cannot keep one (contract section 3).
//!
//! The cursor carries the epoch and, sealed, one position per stream: opaque, and of no use to anybody who tampers with it. It
//! travels in the head of the next request, so it has a bound: [`POLL_CURSOR_CHARS_MAX`], about ten thousand channels.

use crate::follow::{Follower, Outbox, Start};
use crate::frame;
use crate::hub::Hub;
use crate::refusal;
use crate::stream::Stream;
use crate::submit::permit;
use crate::viewer::Viewer;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::ids::{InstanceNo, StreamId, VaultId};
use switchboard_core::limits::{POLL_CURSOR_CHARS_MAX, POLL_WAIT_MS_MAX, POLLS_PER_INSTANCE_MAX};
use switchboard_core::port::store::StreamOwner;
use switchboard_core::principal::Principal;
use switchboard_protocol::Detail;
use switchboard_protocol::bus::BUS_POLL_SCHEMA;

/// The long polls that wait, by instance.
#[derive(Debug, Default)]
pub(crate) struct Polls(parking_lot::Mutex<HashMap<InstanceNo, usize>>);

impl Polls {
    /// Counts one more for as long as the answer lives; `None` when there are [`POLLS_PER_INSTANCE_MAX`].
    fn enter(&self, instance: InstanceNo) -> Option<Waiting<'_>> {
        let mut polls = self.0.lock();
        let waiting = polls.entry(instance).or_default();
        if *waiting >= POLLS_PER_INSTANCE_MAX {
            return None;
        }
        *waiting += 1;
        Some(Waiting { polls: self, instance })
    }
}

struct Waiting<'a> {
    polls: &'a Polls,
    instance: InstanceNo,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut polls = self.polls.0.lock();
        if let Entry::Occupied(mut waiting) = polls.entry(self.instance) {
            *waiting.get_mut() -= 1;
            if *waiting.get() == 0 {
                waiting.remove();
            }
        }
    }
}

/// Waits up to `wait_ms` for something after `cursor` (without one, or with an empty one: from now on) and returns `bus-poll/v1`.
/// Of one instance, [`POLLS_PER_INSTANCE_MAX`] may wait at a time; one that does not wait is never too many.
pub async fn json(
    hub: &Arc<Hub>,
    who: &Principal,
    cursor: Option<&str>,
    wait_ms: u64,
) -> Result<Vec<u8>, Detail> {
    permit(who, crate::govern::Act::UseBus)?;
    hub.catch_up().await.map_err(|error| refusal::store(&error))?;
    let cursor = cursor.filter(|text| !text.is_empty());
    let cursor = cursor.map(|text| read_cursor(hub, text)).transpose()?;
    let _waiting = match wait_ms {
        0 => None,
        _ => Some(hub.polls.enter(who.instance).ok_or_else(refusal::too_many_polls)?),
    };
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
    write_cursor(hub, follower.positions())?; // a wait whose end could not be told is not begun
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
    answer(hub, &follower, out)
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

fn answer(hub: &Hub, follower: &Follower, mut out: Outbox) -> Result<Vec<u8>, Detail> {
    let cursor = write_cursor(hub, follower.positions())?;
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
    frame::member(&mut json, "cursor", &cursor);
    frame::member(&mut json, "epoch", &hub.installation.epoch);
    json.insert(0, b'{');
    json.push(b'}');
    Ok(json)
}

struct Cursor {
    positions: HashMap<StreamId, u64>,
    again: bool,
}

/// The cursor: the epoch, then stream by stream how far it is, as few bytes as it takes, sealed.
fn write_cursor(hub: &Hub, positions: impl Iterator<Item = (StreamId, u64)>) -> Result<String, Detail> {
    let mut positions: Vec<_> = positions.collect();
    positions.sort_unstable();
    let (mut bytes, mut before) = (Vec::with_capacity(4 * positions.len()), 0);
    for (stream, at) in &positions {
        put_varint(&mut bytes, u64::from(stream.0 - before));
        put_varint(&mut bytes, *at);
        before = stream.0;
    }
    let sealed = URL_SAFE_NO_PAD.encode(hub.gids.seal(&bytes));
    let text = format!("{}.{sealed}", hub.installation.epoch);
    if text.len() > POLL_CURSOR_CHARS_MAX {
        return Err(refusal::cursor_too_long(positions.len(), text.len()));
    }
    Ok(text)
}

fn read_cursor(hub: &Hub, text: &str) -> Result<Cursor, Detail> {
    let bad = || {
        refusal::bad_field(
            "cursor",
            "Pass the cursor of the last answer unchanged, or none to start at the head.",
        )
    };
    let (epoch, sealed) = text.split_once('.').ok_or_else(bad)?;
    if epoch != hub.installation.epoch {
        // Of an earlier epoch: history was restored from a backup, so all that is there has to be read again.
        let ours = epoch.starts_with("ep_");
        return if ours { Ok(Cursor { positions: HashMap::new(), again: true }) } else { Err(bad()) };
    }
    let sealed = URL_SAFE_NO_PAD.decode(sealed).map_err(|_| bad())?;
    let bytes = hub.gids.unseal(&sealed).ok_or_else(bad)?;
    let positions = read_positions(&bytes).ok_or_else(bad)?;
    Ok(Cursor { positions, again: false })
}

fn read_positions(mut bytes: &[u8]) -> Option<HashMap<StreamId, u64>> {
    let (mut positions, mut stream) = (HashMap::new(), 0_u32);
    while !bytes.is_empty() {
        stream = stream.checked_add(u32::try_from(take_varint(&mut bytes)?).ok()?)?;
        positions.insert(StreamId(stream), take_varint(&mut bytes)?);
    }
    Some(positions)
}

/// Seven bits a byte, the low ones first, the highest bit of a byte says that more follow (LEB128).
fn put_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..63).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_the_bytes_they_need() {
        for (number, length) in [(0, 1), (127, 1), (128, 2), (16_383, 2), (16_384, 3), ((1 << 40) - 1, 6)] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, number);
            assert_eq!(bytes.len(), length, "{number}");
            assert_eq!(take_varint(&mut &bytes[..]), Some(number));
            assert_eq!(take_varint(&mut &bytes[..length - 1]), None);
        }
        assert_eq!(take_varint(&mut &[0xff; 20][..]), None);
    }
}
