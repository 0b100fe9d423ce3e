//! A session: one client's conversation over one socket, without the socket. Text frames go in, text frames come out; what
//! is sent together is committed together.
//!
//! The order a client may rely on: answers come in the order of its frames; a `hello` is answered by the present state
//! (presence of others, notices, then the replay) before the `pong` of a `ping` sent behind it.

pub mod answer;
pub mod hello;
mod notices;

use crate::follow::{Follower, Outbox};
use crate::hub::Hub;
use crate::refusal;
use crate::stream::Waker;
use crate::submit::{self, Speaker};
use crate::viewer::Viewer;
use answer::Ack;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use switchboard_core::ids::{InstanceNo, VaultId};
use switchboard_core::port::doorbell::Topic;
use switchboard_core::port::store::StoreError;
use switchboard_core::principal::Principal;
use switchboard_core::write::{Batch, Outcome, Write};
use switchboard_protocol::Detail;
use switchboard_protocol::frame::Heartbeat;
use switchboard_protocol::frame::client::{ClientFrame, parse};
use switchboard_protocol::frame::server::{ErrorFrame, ServerFrame};
use switchboard_protocol::json::Limits;

/// Open sessions by instance, so that they can be woken.
#[derive(Debug, Default)]
pub struct Sessions(parking_lot::Mutex<HashMap<InstanceNo, Vec<Weak<Waker>>>>);

impl Sessions {
    fn add(&self, instance: InstanceNo, waker: &Arc<Waker>) {
        let mut sessions = self.0.lock();
        let wakers = sessions.entry(instance).or_default();
        wakers.retain(|known| known.strong_count() > 0);
        wakers.push(Arc::downgrade(waker));
    }

    fn remove(&self, instance: InstanceNo, waker: &Arc<Waker>) {
        let mut sessions = self.0.lock();
        let Some(wakers) = sessions.get_mut(&instance) else { return };
        wakers.retain(|known| known.as_ptr() != Arc::as_ptr(waker));
        if wakers.is_empty() {
            sessions.remove(&instance);
        }
    }

    /// Open sessions of an instance.
    pub fn count(&self, instance: InstanceNo) -> usize {
        self.0.lock().get(&instance).map_or(0, Vec::len)
    }

    fn each(&self, of: Option<InstanceNo>, tell: impl Fn(&Waker)) {
        let sessions = self.0.lock();
        let wakers = sessions.iter().filter(|(instance, _)| of.is_none_or(|of| of == **instance));
        wakers.flat_map(|(_, wakers)| wakers).filter_map(Weak::upgrade).for_each(|waker| tell(&waker));
    }
}

/// Passes a ring on to the sessions it concerns.
pub(crate) fn ring(hub: &Hub, topic: Topic) {
    match topic {
        Topic::Instance(instance) => hub.sessions.each(Some(instance), Waker::ring_notices),
        Topic::Credentials | Topic::Swarms => hub.sessions.each(None, Waker::ring_credential),
        Topic::Stream(..) | Topic::Vault(_) | Topic::Outbound | Topic::Everything => {}
    }
}

/// The session is over: what to tell the client, if anything, before closing.
#[derive(Debug, Clone)]
pub struct Close(pub Option<Detail>);

/// Writes on their way to the disk, with what to answer for each.
pub struct Pending {
    acks: Vec<Ack>,
    outcomes: switchboard_core::port::store::Fut<'static, Vec<Outcome>>,
}

impl std::fmt::Debug for Pending {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Pending({})", self.acks.len())
    }
}

impl Pending {
    /// How many there are.
    #[must_use]
    pub fn writes(&self) -> usize {
        self.acks.len()
    }

    /// Waits until they are there, or are not.
    pub async fn wait(self) -> Settled {
        Settled { acks: self.acks, result: self.outcomes.await }
    }
}

/// What became of a [`Pending`].
#[derive(Debug)]
pub struct Settled {
    acks: Vec<Ack>,
    result: Result<Vec<Outcome>, StoreError>,
}

/// Which frame a refusal answers.
#[derive(Debug, Default)]
struct Refused {
    /// Its `client_msg_id`, if it has one.
    id: Option<String>,
    /// Its type.
    answers: Option<&'static str>,
}

impl Refused {
    fn frame(tag: &'static str) -> Self {
        Self { id: None, answers: Some(tag) }
    }
}

/// One client's conversation.
#[derive(Debug)]
pub struct Session {
    hub: Arc<Hub>,
    who: Arc<Principal>,
    follower: Follower,
    greeted: bool,
    batch: Vec<Write>,
    acks: Vec<Ack>,
    pongs: VecDeque<u64>,
    presence_seen: HashMap<VaultId, u64>,
    /// Up to which version presence belongs to the state that the last hello is answered with, until that is told.
    present: HashMap<VaultId, u64>,
    notices: notices::Sent,
    due: Due,
}

/// What has to be looked at with the next [`Session::fill`].
#[derive(Debug, Default)]
struct Due {
    presence: bool,
    notices: bool,
    credential: bool,
}

impl Session {
    /// A session of an authenticated instance.
    #[must_use]
    pub fn new(hub: Arc<Hub>, who: Arc<Principal>) -> Self {
        let follower = Follower::new(hub.clone(), Viewer::connection(&who), true);
        hub.sessions.add(who.instance, &follower.waker);
        hub.counters.sockets.fetch_add(1, Ordering::Relaxed);
        Self {
            hub,
            who,
            follower,
            greeted: false,
            batch: Vec::new(),
            acks: Vec::new(),
            pongs: VecDeque::new(),
            presence_seen: HashMap::new(),
            present: HashMap::new(),
            notices: notices::Sent::default(),
            // Looked at once more now that rings reach it: a revocation may have come in between.
            due: Due { credential: true, ..Due::default() },
        }
    }

    /// Whether `hello` was said.
    #[must_use]
    pub fn is_greeted(&self) -> bool {
        self.greeted
    }

    /// How the session is woken when there is something to deliver.
    #[must_use]
    pub fn waker(&self) -> Arc<Waker> {
        self.follower.waker.clone()
    }

    /// Takes one text frame. What has to be stored gathers until [`Session::submit`]; what can be answered at once goes
    /// to `out`. Waits only for a `hello`.
    pub async fn receive(&mut self, text: &str, out: &mut Outbox) -> Result<(), Close> {
        self.hub.counters.frames.fetch_add(1, Ordering::Relaxed);
        let frame = match parse(text, &Limits::FRAME) {
            Ok(frame) => frame,
            Err(refused) => {
                let what = Refused { id: refused.client_msg_id, answers: refused.answers };
                self.refuse("bus.frame", what, refusal::unreadable(refused.error), out);
                return Ok(());
            }
        };
        match frame {
            // Rare and large: every session would carry its room otherwise.
            ClientFrame::Hello(hello) => return Box::pin(self.hello(hello, out)).await,
            ClientFrame::Ping(ping) => self.ping(ping, out),
            ClientFrame::Pong(_) | ClientFrame::Unknown(_) => {}
            frame if !self.greeted => {
                let what = Refused { id: None, answers: frame.tag() };
                let error = refusal::bad_field("t", "Send hello first.").reason("hello_first");
                self.refuse("bus.frame", what, error, out);
            }
            frame => self.command(frame, out),
        }
        Ok(())
    }

    fn ping(&mut self, ping: Heartbeat, out: &mut Outbox) {
        self.pongs.push_back(ping.nonce);
        if !self.due.presence {
            self.pong(out);
        }
    }

    /// Answers pings, once everything older than the last hello has been delivered.
    fn pong(&mut self, out: &mut Outbox) {
        if self.due.notices || !self.present.is_empty() || self.follower.is_replaying() {
            return;
        }
        for nonce in self.pongs.drain(..) {
            out.push_frame(&ServerFrame::Pong(Heartbeat { nonce }));
        }
    }

    fn command(&mut self, frame: ClientFrame<'_>, out: &mut Outbox) {
        let verb = verb(&frame);
        let what = Refused { id: client_msg_id(&frame), answers: frame.tag() };
        match self.build(frame) {
            Ok(steps) => steps.into_iter().for_each(|(write, ack)| {
                self.batch.push(write);
                self.acks.push(ack);
            }),
            Err(error) => self.refuse(verb, what, error, out),
        }
    }

    fn build(&self, frame: ClientFrame<'_>) -> Result<Vec<(Write, Ack)>, Detail> {
        let agents = self.follower.viewer.agents.as_ref();
        let none = HashSet::new();
        let speaker = Speaker { who: &self.who, agents: agents.unwrap_or(&none) };
        let hub = &*self.hub;
        let one = |write, ack| Ok(vec![(write, ack)]);
        match frame {
            ClientFrame::Message(message) => {
                one(submit::message::message(hub, speaker, &message)?, Ack::message(&message))
            }
            ClientFrame::Publish(publish) => {
                one(submit::publish::publish(hub, speaker, &publish)?, Ack::publish(&publish))
            }
            ClientFrame::MessageReceipt(receipt) => {
                let event = submit::resolve_gid(hub, &receipt.gid);
                one(submit::receipt::receipt(hub, speaker, &receipt)?, Ack::Receipt(event))
            }
            ClientFrame::Presence(presence) => self.presence(&presence),
            ClientFrame::HandoffOffer(offer) => {
                one(submit::handoff::offer(hub, speaker, offer)?, Ack::Handoff { tag: "handoff.offer" })
            }
            ClientFrame::HandoffAck(ack) => {
                one(submit::handoff::accept(speaker, ack)?, Ack::Handoff { tag: "handoff.ack" })
            }
            ClientFrame::HandoffReject(reject) => {
                one(submit::handoff::reject(speaker, reject)?, Ack::Handoff { tag: "handoff.reject" })
            }
            ClientFrame::Ack(ack) if !self.follower.follows(&ack.channel) => {
                Err(refusal::not_found("channel", "This connection does not follow this channel."))
            }
            _ => Ok(Vec::new()),
        }
    }

    fn refuse(&self, verb: &'static str, what: Refused, error: Detail, out: &mut Outbox) {
        self.hub.refused(verb, &self.who.instance_id, &error);
        let (client_msg_id, answers) = (what.id.map(Into::into), what.answers.map(Into::into));
        out.push_frame(&ServerFrame::Error(ErrorFrame { client_msg_id, answers, error }));
    }

    /// Hands what has gathered to the store as one batch.
    #[must_use]
    pub fn submit(&mut self) -> Option<Pending> {
        if self.batch.is_empty() {
            return None;
        }
        let batch = Batch { at_ms: self.hub.clock().wall_ms(), writes: std::mem::take(&mut self.batch) };
        Some(Pending { acks: std::mem::take(&mut self.acks), outcomes: self.hub.ports.store.commit(batch) })
    }

    /// Answers what was settled.
    pub fn settle(&mut self, settled: Settled, out: &mut Outbox) {
        answer::settle(self, settled, out);
    }

    /// Takes note of what has rung.
    pub fn wake(&mut self) {
        let woken = self.follower.waker.take();
        self.follower.note(woken.streams, woken.fresh);
        self.due.presence |= woken.presence && self.greeted;
        self.due.notices |= woken.notices && self.greeted;
        self.due.credential |= woken.credential;
    }

    /// Adds what there is to deliver until `out` is full; whether more is left.
    pub async fn fill(&mut self, out: &mut Outbox) -> Result<bool, Close> {
        if std::mem::take(&mut self.due.credential) {
            self.check_credential().await?;
        }
        if self.due.presence {
            self.tell_presence(out);
            if !self.present.is_empty() && self.follower.is_replaying() {
                return Ok(true); // the present state comes before the replay
            }
        }
        if std::mem::take(&mut self.due.notices) {
            match self.tell_notices(out).await {
                Err(StoreError::Overloaded | StoreError::Unreachable(_)) => self.due.notices = true, // with the next tick
                told => told.map_err(failed)?,
            }
        }
        let before = out.frames.len();
        let filled = self.follower.fill(out).await;
        let unreachable = matches!(filled, Err(StoreError::Unreachable(_)));
        if !unreachable {
            filled.map_err(failed)?;
        }
        let delivered = (out.frames.len() - before) as u64;
        self.hub.counters.delivered.fetch_add(delivered, Ordering::Relaxed);
        if !self.pongs.is_empty() {
            self.pong(out);
        }
        // What cannot be read now is tried again with the next tick.
        Ok(!unreachable && (self.due.presence || self.follower.has_more()))
    }

    /// Tells cursors that moved without a delivery; called about once a second.
    pub fn tick(&mut self, out: &mut Outbox) {
        self.follower.tell_all(out);
    }

    /// What was in the outbox has been written to the socket.
    pub fn written(&mut self) {
        if let Some(write) = self.notices.take() {
            self.batch.push(write);
            self.acks.push(Ack::Nothing);
        }
    }

    async fn check_credential(&mut self) -> Result<(), Close> {
        match crate::credentials::still_good(&self.hub, &self.who).await {
            Ok(()) => {}
            Err(detail) if detail.code == switchboard_protocol::Code::RateLimited => {
                self.due.credential = true;
            }
            Err(detail) => return Err(Close(Some(detail))),
        }
        if self.greeted {
            self.follow_swarms(&std::collections::BTreeMap::new(), false);
        }
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.hub.counters.sockets.fetch_sub(1, Ordering::Relaxed);
        self.hub.sessions.remove(self.who.instance, &self.follower.waker);
        let agents = self.follower.viewer.agents.take().unwrap_or_default();
        hello::release(&self.hub, self.who.instance, agents);
    }
}

#[expect(clippy::needless_pass_by_value, reason = "handed to map_err")]
fn failed(error: StoreError) -> Close {
    tracing::warn!(%error, "a session ends because the store cannot be read; its client will reconnect");
    Close(Some(refusal::store(&error)))
}

fn verb(frame: &ClientFrame<'_>) -> &'static str {
    match frame {
        ClientFrame::Message(_) => "bus.message",
        ClientFrame::Publish(_) => "bus.publish",
        ClientFrame::MessageReceipt(_) => "bus.receipt",
        ClientFrame::Presence(_) => "presence.announce",
        ClientFrame::HandoffOffer(_) => "handoff.offer",
        ClientFrame::HandoffAck(_) | ClientFrame::HandoffReject(_) => "handoff.settle",
        _ => "bus.frame",
    }
}

fn client_msg_id(frame: &ClientFrame<'_>) -> Option<String> {
    match frame {
        ClientFrame::Message(message) => Some(message.client_msg_id.to_string()),
        ClientFrame::Publish(publish) => Some(publish.client_msg_id.to_string()),
        _ => None,
    }
}
