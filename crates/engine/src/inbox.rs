//! An agent's inbox, for callers that keep no cursor of their own: what it has not been handed yet, and what it has not
//! read. Handing over is recorded before the caller gets it; what gets lost on the way back is still unread and can be
//! asked for again. What the agent has received another way (a socket, a wait for one answer) is not handed over twice.

use crate::follow::{Follower, Outbox, Start};
use crate::frame;
use crate::hub::Hub;
use crate::refusal;
use crate::submit::permit;
use crate::viewer::{Agents, Viewer};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::event::StoredEvent;
use switchboard_core::ids::{EventId, InstanceNo, StreamId, VaultId};
use switchboard_core::limits::POLL_WAIT_MS_MAX;
use switchboard_core::port::doorbell::Topic;
use switchboard_core::port::store::{StoreError, StreamOwner};
use switchboard_core::principal::Principal;
use switchboard_core::write::{Announce, Outcome, Presence, Receipt, ReceiptState, Write};
use switchboard_protocol::Detail;
use switchboard_protocol::frame::server::ServerFrame;
use switchboard_protocol::json::Limits;
use switchboard_protocol::message::MessageType;
use tokio::time::Sleep;

/// Numbers from here on are no streams but marks: far above [`switchboard_core::ids::STREAM_ID_MAX`].
const MARKS: u32 = 1 << 31;
/// An inbox passes events that were not for it once there are so many: not worth a write each.
const PASSED_MIN: u64 = 64;
/// Messages handed over at once.
pub const TAKE_MAX: usize = 50;

/// Whose inbox.
#[derive(Debug, Clone)]
pub struct Owner<'a> {
    /// The instance.
    pub who: &'a Principal,
    /// The vault it works in.
    pub vault: VaultId,
    /// The agent.
    pub agent: &'a str,
}

/// What to hand over.
#[derive(Debug, Clone, Copy, Default)]
pub struct Take {
    /// Wait so long for something new.
    pub wait_ms: u64,
    /// At most so many, bounded by [`TAKE_MAX`].
    pub limit: usize,
    /// Count what is handed over as read.
    pub mark_read: bool,
    /// First what was handed over earlier and not read.
    pub unread: bool,
}

/// What was handed over.
#[derive(Debug, Default)]
pub struct Taken {
    /// Deliveries, oldest first.
    pub frames: Vec<ServerFrame<'static>>,
    /// Whether more waits.
    pub more: bool,
    /// How far everything was looked at, when nothing was left over: what was not for this agent is passed too.
    passed: Vec<(StreamId, u64)>,
}

/// Announces the agent, unless a socket or an earlier call did, and begins its inbox with what comes from now on.
pub async fn attend(hub: &Hub, owner: &Owner<'_>, role: Option<&str>) -> Result<(), Detail> {
    permit(owner.who, crate::govern::Act::UseBus)?;
    let failed = |error: StoreError| refusal::store(&error);
    let announce = Announce {
        vault: owner.vault,
        instance: owner.who.instance,
        agent: owner.agent.to_owned(),
        role: Some(role.unwrap_or("agent").to_owned()),
        profile: None,
        state: Presence::Active,
        node: hub.node,
    };
    let mut writes = vec![Write::Announce(announce)];
    hub.catch_up().await.map_err(failed)?;
    let positions = positions(hub, owner).await.map_err(failed)?;
    let heads = beginnings(hub, owner, &positions);
    if !heads.is_empty() {
        writes.push(advance(owner, heads));
    }
    let outcomes = hub.commit(writes).await.map_err(failed)?;
    match outcomes.first() {
        Some(Outcome::Refused(refused)) => Err(refusal::of(refused)),
        Some(Outcome::Announced { changed: true }) => {
            hub.doorbell().ring(&[Topic::Vault(owner.vault)]);
            // The caller's next look at who is there finds it, whenever the room gets round to it.
            hub.presence.refresh(hub.store(), vec![owner.vault]).await.map_err(failed)
        }
        _ => Ok(()),
    }
}

/// Whether the agent attends already (an idle one does, and stays idle), so that nothing has to be written for it to be
/// reached.
pub async fn attends(hub: &Hub, owner: &Owner<'_>) -> Result<bool, Detail> {
    let present = hub.presence.agent(owner.vault, owner.who.instance, owner.agent).is_some_and(|row| {
        let fresh = hub.clock().wall_ms() - row.seen_ms < switchboard_core::limits::ANNOUNCED_MS / 2;
        row.state != Presence::Closed && fresh
    });
    let positions = positions(hub, owner).await.map_err(|error| refusal::store(&error))?;
    Ok(present && beginnings(hub, owner, &positions).is_empty())
}

/// Marks an inbox as begun in a vault, also while that has no stream: a position in a stream that can never be. Vault ids
/// are random, so their first bits tell them apart.
fn mark(vault: VaultId) -> StreamId {
    let [first, second, third, fourth, ..] = vault.0;
    StreamId(u32::from_be_bytes([first, second, third, fourth]) | MARKS)
}

/// Where the inbox begins in the streams it has no position in, and which were there before it: those of a vault that it
/// was not begun in, and of swarms joined since.
fn beginnings(hub: &Hub, owner: &Owner<'_>, positions: &HashMap<StreamId, u64>) -> Vec<(StreamId, u64)> {
    let mark = mark(owner.vault);
    let begun = positions.contains_key(&mark);
    let channels = if begun { Vec::new() } else { hub.streams.channels(owner.vault) };
    let streams = channels.into_iter().chain(swarms(hub, owner));
    let unknown = streams.filter(|stream| !positions.contains_key(&stream.id));
    let heads = unknown.map(|stream| (stream.id, stream.head()));
    heads.chain((!begun).then_some((mark, 1))).collect()
}

/// The caller speaks for these agents no more: they close like those of a lost socket, after the grace, unless somebody
/// else speaks for them by then. Undoes [`crate::presence::Room::hold`].
pub fn leave(hub: &Arc<Hub>, instance: InstanceNo, agents: Agents) {
    crate::session::hello::release(hub, instance, agents);
}

/// Waits up to `wait_ms` for the first answer to `question` that this agent may see, and hands it over.
pub async fn answer(
    hub: &Arc<Hub>,
    owner: &Owner<'_>,
    question: EventId,
    wait_ms: u64,
) -> Result<Option<ServerFrame<'static>>, Detail> {
    permit(owner.who, crate::govern::Act::UseBus)?;
    hub.catch_up().await.map_err(|error| refusal::store(&error))?;
    let stream = hub.stream(question.stream).await.map_err(|error| refusal::store(&error))?;
    let Some(stream) = stream else { return Ok(None) };
    let mut follower = Follower::new(hub.clone(), viewer(owner), false);
    follower.add(&stream, Start::After(question.seq));
    let gid = hub.gids.gid(question);
    let answers = |frame: &ServerFrame<'_>| {
        matches!(frame, ServerFrame::MessageDeliver(delivery)
            if delivery.message_type == MessageType::Answer && delivery.reply_to.as_deref() == Some(&*gid))
    };
    let mut timeout = timeout(wait_ms);
    let mut out = Outbox::default();
    while fill(hub, &mut follower, &mut out, timeout.as_mut()).await? {
        if let Some(frame) = out.take().iter().filter_map(|frame| parse(frame)).find(answers) {
            let receipts = place(hub, &frame).into_iter().collect();
            receive(hub, owner, Vec::new(), receipts, ReceiptState::Delivered).await?;
            return Ok(Some(frame));
        }
    }
    Ok(None)
}

/// Hands over.
pub async fn take(hub: &Arc<Hub>, owner: &Owner<'_>, take: Take) -> Result<Taken, Detail> {
    permit(owner.who, crate::govern::Act::UseBus)?;
    let failed = |error: StoreError| refusal::store(&error);
    let limit = take.limit.clamp(1, TAKE_MAX);
    let mut taken = Taken::default();
    hub.catch_up().await.map_err(failed)?;
    if take.unread {
        taken.frames = unread(hub, owner, limit).await.map_err(failed)?;
    }
    if taken.frames.is_empty() {
        let positions = positions(hub, owner).await.map_err(failed)?;
        taken = wait(hub, owner, &positions, take.wait_ms, limit).await?;
    }
    record(hub, owner, &taken, take.mark_read).await?;
    Ok(taken)
}

async fn positions(hub: &Hub, owner: &Owner<'_>) -> Result<HashMap<StreamId, u64>, StoreError> {
    Ok(hub.store().inbox(owner.who.instance, owner.agent.to_owned()).await?.into_iter().collect())
}

fn swarms(hub: &Hub, owner: &Owner<'_>) -> Vec<Arc<crate::stream::Stream>> {
    let swarms = hub.joined(owner.who.owner).into_iter();
    swarms.filter_map(|swarm| hub.streams.find(&StreamOwner::Swarm { swarm })).collect()
}

fn viewer(owner: &Owner<'_>) -> Viewer {
    let mut viewer = Viewer::connection(owner.who);
    viewer.agents = Some(Agents::from([(owner.vault, owner.agent.to_owned())]));
    viewer
}

fn timeout(wait_ms: u64) -> Pin<Box<Sleep>> {
    Box::pin(tokio::time::sleep(Duration::from_millis(wait_ms.min(POLL_WAIT_MS_MAX))))
}

/// Fills `out`, waiting until there is something; `false` when the time is up or the hub stops.
async fn fill(
    hub: &Hub,
    follower: &mut Follower,
    out: &mut Outbox,
    mut timeout: Pin<&mut Sleep>,
) -> Result<bool, Detail> {
    loop {
        follower.fill(out).await.map_err(|error| refusal::store(&error))?;
        if !out.frames.is_empty() {
            return Ok(true);
        }
        tokio::select! {
            () = follower.waker.woken() => {
                let woken = follower.waker.take();
                follower.note(woken.streams, woken.fresh);
            }
            () = timeout.as_mut() => return Ok(false),
            () = hub.stopping().cancelled() => return Ok(false),
        }
    }
}

async fn wait(
    hub: &Arc<Hub>,
    owner: &Owner<'_>,
    positions: &HashMap<StreamId, u64>,
    wait_ms: u64,
    limit: usize,
) -> Result<Taken, Detail> {
    let mut follower = Follower::new(hub.clone(), viewer(owner), false);
    let begun = positions.contains_key(&mark(owner.vault));
    let channel = |id: &StreamId| match positions.get(id) {
        Some(at) => Start::After(*at),
        None if begun => Start::After(0), // made since: all of it is new
        None => Start::Head,
    };
    follower.add_vault(owner.vault, |stream| channel(&stream.id));
    for swarm in swarms(hub, owner) {
        let start = positions.get(&swarm.id).map_or(Start::Head, |at| Start::After(*at));
        follower.add(&swarm, start);
    }
    let mut timeout = timeout(wait_ms);
    let mut out = Outbox::default();
    let mut frames = Vec::new();
    let mut received = HashSet::new();
    while frames.is_empty() && fill(hub, &mut follower, &mut out, timeout.as_mut()).await? {
        frames = out.take().iter().filter_map(|frame| parse(frame)).collect();
        let before = drop_received(hub, owner, &mut frames).await.map_err(|error| refusal::store(&error))?;
        received.extend(before);
    }
    let more = frames.len() > limit || follower.has_more();
    let is_passed = |(id, at): &(StreamId, u64)| {
        received.contains(id) || positions.get(id).is_none_or(|before| at - before >= PASSED_MIN)
    };
    let passed = if more { Vec::new() } else { follower.positions().filter(|at| is_passed(at)).collect() };
    frames.truncate(limit);
    Ok(Taken { frames, more, passed })
}

/// Drops what the agent has a receipt for; the streams in which there was such.
async fn drop_received(
    hub: &Hub,
    owner: &Owner<'_>,
    frames: &mut Vec<ServerFrame<'static>>,
) -> Result<HashSet<StreamId>, StoreError> {
    let message = |frame: &ServerFrame<'_>| match frame {
        ServerFrame::MessageDeliver(delivery) => hub.gids.event(&delivery.gid),
        _ => None,
    };
    let events: Vec<_> = frames.iter().filter_map(message).collect();
    if events.is_empty() {
        return Ok(HashSet::new());
    }
    let receipts = hub.store().receipts(events).await?;
    // In a swarm a receipt is the handle's, which all agents of an instance share: there the positions alone decide.
    let own =
        receipts.into_iter().filter(|row| row.instance == owner.who.instance && row.agent == owner.agent);
    let received: HashSet<EventId> = own.map(|row| row.event).collect();
    frames.retain(|frame| message(frame).is_none_or(|id| !received.contains(&id)));
    Ok(received.into_iter().map(|id| id.stream).collect())
}

fn parse(frame: &[u8]) -> Option<ServerFrame<'static>> {
    let limits = Limits { bytes_max: usize::MAX, ..Limits::FRAME };
    ServerFrame::parse(std::str::from_utf8(frame).ok()?, limits).ok().map(ServerFrame::into_owned)
}

async fn unread(hub: &Hub, owner: &Owner<'_>, limit: usize) -> Result<Vec<ServerFrame<'static>>, StoreError> {
    let mut ids = hub.store().unread(owner.who.instance, owner.agent.to_owned(), limit).await?;
    for swarm in hub.joined(owner.who.owner) {
        if let Some(handle) = hub.handle_in(owner.who.owner, &swarm) {
            ids.extend(hub.store().unread(owner.who.instance, handle, limit).await?);
        }
    }
    ids.truncate(limit);
    let events = hub.store().events(ids).await?;
    let deliver = |event: StoredEvent| {
        parse(&frame::deliver(&event, &hub.gids, event.from_instance == owner.who.instance))
    };
    Ok(events.into_iter().flatten().filter_map(deliver).collect())
}

/// Records what was handed over, before the caller gets it.
async fn record(hub: &Hub, owner: &Owner<'_>, taken: &Taken, read: bool) -> Result<(), Detail> {
    let state = if read { ReceiptState::Read } else { ReceiptState::Delivered };
    let mut positions: BTreeMap<StreamId, u64> = taken.passed.iter().copied().collect();
    let mut receipts = Vec::new();
    for frame in &taken.frames {
        let Some(id) = place(hub, frame) else { continue };
        let at = positions.entry(id.stream).or_default();
        *at = (*at).max(id.seq);
        if matches!(frame, ServerFrame::MessageDeliver(_)) {
            receipts.push(id);
        }
    }
    receive(hub, owner, positions.into_iter().collect(), receipts, state).await
}

/// Moves the inbox on and writes receipts, in one commit.
async fn receive(
    hub: &Hub,
    owner: &Owner<'_>,
    positions: Vec<(StreamId, u64)>,
    receipts: Vec<EventId>,
    state: ReceiptState,
) -> Result<(), Detail> {
    let mut writes = Vec::with_capacity(receipts.len() + 1);
    if !positions.is_empty() {
        writes.push(advance(owner, positions));
    }
    writes.extend(receipts.iter().map(|event| {
        let agent = receiver(hub, owner, *event);
        Write::Receipt(Receipt { event: *event, instance: owner.who.instance, agent, state })
    }));
    if writes.is_empty() {
        return Ok(());
    }
    hub.commit(writes).await.map_err(|error| refusal::store(&error))?;
    tell_senders(hub, receipts).await;
    Ok(())
}

fn receiver(hub: &Hub, owner: &Owner<'_>, event: EventId) -> String {
    let handle = hub.streams.get(event.stream).and_then(|stream| match &stream.owner {
        StreamOwner::Swarm { swarm } => hub.handle_in(owner.who.owner, swarm),
        StreamOwner::Channel { .. } => None,
    });
    handle.unwrap_or_else(|| owner.agent.to_owned())
}

fn place(hub: &Hub, frame: &ServerFrame<'_>) -> Option<EventId> {
    let named = |channel: &str, seq| {
        let parsed = switchboard_protocol::text::Channel::parse(channel).ok()?;
        let owner =
            StreamOwner::Channel { vault: VaultId::parse(parsed.vault)?, name: parsed.name.to_owned() };
        Some(EventId { stream: hub.streams.find(&owner)?.id, seq })
    };
    match frame {
        ServerFrame::MessageDeliver(delivery) => hub.gids.event(&delivery.gid),
        ServerFrame::Deliver(deliver) => named(&deliver.channel, deliver.seq),
        ServerFrame::TaskEvent(event) => named(&event.channel, event.seq),
        _ => None,
    }
}

fn advance(owner: &Owner<'_>, positions: Vec<(StreamId, u64)>) -> Write {
    Write::AdvanceInbox { instance: owner.who.instance, agent: owner.agent.to_owned(), positions }
}

/// Wakes the senders of messages that were received.
pub async fn tell_senders(hub: &Hub, receipts: Vec<EventId>) {
    // A lost ring costs delay only: the notice stands in the store until the sender's next hello.
    let Ok(events) = hub.store().events(receipts).await else { return };
    let rings: Vec<_> = events.iter().flatten().map(|event| Topic::Instance(event.from_instance)).collect();
    hub.doorbell().ring(&rings);
}
