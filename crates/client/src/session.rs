//! The task that owns the connection: keeps it, or gets it back.
//!
//! It never waits for the caller while the caller may wait for it. When the event queue is full it stops reading, and the
//! socket's own flow control slows the server. Only when an acknowledgement is awaited does it read on; events that then
//! find no room are dropped and marked as missed, and once the caller has caught up a new connection has them told again.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use switchboard_protocol::Detail;
use switchboard_protocol::frame::Heartbeat;
use switchboard_protocol::frame::client::{ClientFrame, Hello, HelloAgent};
use switchboard_protocol::frame::server::{ErrorFrame, ServerFrame};
use switchboard_protocol::json::Limits;
use switchboard_protocol::limits::{HELLO_AGENTS_MAX, HELLO_CURSORS_MAX, JSON_DEPTH_MAX};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::{self, Message, Utf8Bytes};

use crate::backoff::Backoff;
use crate::cursors::{Received, Seen};
use crate::error::Error;
use crate::event::{Event, Handoff, Resync, ResyncReason};
use crate::id::random;
use crate::options::Tuning;
use crate::pending::{Acked, Pending, Reply, Unconfirmed};
use crate::queue::Queue;
use crate::socket::{Dialer, Link, Socket};

/// How many repeatable frames go out between two pings that confirm them.
const CONFIRM_EVERY: usize = 64;

/// Answers to a server that pings without end and reads nothing, before the connection is given up.
const UNREAD_ANSWERS_MAX: usize = 1024;

/// What a handle asks of the session.
#[derive(Debug)]
pub(crate) enum Command {
    /// Send a frame that is acknowledged under its `client_msg_id`.
    Acked { id: String, text: Utf8Bytes, reply: Reply },
    /// Send a frame without acknowledgement that is safe to repeat.
    Repeatable(Utf8Bytes),
    /// Say what an agent is doing, now and after every reconnect.
    Presence { agent_id: String, text: Utf8Bytes },
    /// Announce other agents.
    Hello { agents: Vec<HelloAgent<'static>>, reply: oneshot::Sender<Result<(), Error>> },
}

/// Why a connection ended.
#[derive(Debug)]
enum End {
    /// The caller closed the client.
    Closed,
    /// No further connection can succeed.
    Final(Error),
    /// The network or the server ended it.
    Lost { reason: String, retry_after: Option<Duration> },
    /// Events were dropped for want of room, and there is room now.
    Missed,
}

impl End {
    fn lost(reason: impl Into<String>) -> Self {
        Self::Lost { reason: reason.into(), retry_after: None }
    }
}

/// What to do next on a connection.
#[derive(Debug)]
enum Turn {
    Close,
    Writable,
    Command(Command),
    Heard(Option<tungstenite::Result<Message>>),
    EventTaken,
    PingDue,
}

/// A `hello` that is sent and not answered by the pong behind it.
#[derive(Debug)]
struct Greeting {
    nonce: u64,
    agents: Vec<HelloAgent<'static>>,
    replies: Vec<oneshot::Sender<Result<(), Error>>>,
}

#[derive(Debug)]
pub(crate) struct Session {
    parts: Parts,
    state: State,
}

/// What outlives a connection.
#[derive(Debug)]
struct State {
    pending: Pending,
    unconfirmed: Unconfirmed,
    presence: BTreeMap<String, Utf8Bytes>,
    greeting: Option<Greeting>,
    backoff: Backoff,
    nonce: u64,
    /// The caller was told of a loss and not yet of the return.
    told_lost: bool,
}

/// What belongs to one connection.
#[derive(Debug)]
struct Connection {
    link: Link,
    outbox: VecDeque<Utf8Bytes>,
    ready_at: Option<Instant>,
    heard_at: Instant,
    ping_at: Instant,
    /// Events were dropped; everything the server tells again is left for the next connection.
    missed: bool,
}

/// The parts a session is made of.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) dialer: Dialer,
    pub(crate) tuning: Tuning,
    pub(crate) instance_id: String,
    pub(crate) agents: Vec<HelloAgent<'static>>,
    pub(crate) commands: mpsc::Receiver<Command>,
    pub(crate) closing: watch::Receiver<bool>,
    pub(crate) ready: watch::Sender<bool>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) received: Received,
}

impl Session {
    pub(crate) fn new(parts: Parts) -> Self {
        let state = State {
            pending: Pending::default(),
            unconfirmed: Unconfirmed::default(),
            presence: BTreeMap::new(),
            greeting: None,
            backoff: Backoff::new(parts.tuning.backoff_min, parts.tuning.backoff_max),
            nonce: 0,
            told_lost: false,
        };
        Self { parts, state }
    }

    /// Run until closed or until no connection can succeed any more.
    pub(crate) async fn run(mut self, first: Socket) {
        let _guard = EndOnDrop(self.parts.queue.clone());
        let mut socket = first;
        let error = loop {
            let end = self.connection(socket).await;
            self.parts.ready.send_replace(false);
            self.parts.received.connection_lost();
            self.state.unconfirmed.connection_lost();
            match self.reconnect(end).await {
                Ok(next) => socket = next,
                Err(error) => break error,
            }
        };
        self.state.pending.fail_all(&error);
        for reply in self.state.greeting.into_iter().flat_map(|greeting| greeting.replies) {
            let _ = reply.send(Err(error.clone()));
        }
        self.parts.queue.end(error);
    }

    /// Get another socket, as soon as it makes sense after `end`.
    async fn reconnect(&mut self, mut end: End) -> Result<Socket, Error> {
        loop {
            match end {
                End::Closed => return Err(Error::Closed),
                End::Final(error) => return Err(error),
                End::Missed => {}
                End::Lost { reason, retry_after } => self.pause(reason, retry_after).await?,
            }
            let dialed = tokio::select! {
                biased;
                () = closed(&mut self.parts.closing) => return Err(Error::Closed),
                dialed = self.parts.dialer.dial() => dialed,
            };
            match dialed {
                Ok(socket) => return Ok(socket),
                Err(failed) if failed.error.ends_dialing() => return Err(failed.error),
                Err(failed) => {
                    end = End::Lost { reason: failed.error.to_string(), retry_after: failed.retry_after };
                }
            }
        }
    }

    /// Wait before the next attempt, taking in what callers send meanwhile.
    async fn pause(&mut self, reason: String, retry_after: Option<Duration>) -> Result<(), Error> {
        let jitter = u16::from_le_bytes(random());
        let retry_in = self.state.backoff.next_delay(jitter).max(retry_after.unwrap_or_default());
        tracing::debug!(reason, ?retry_in, "bus connection lost");
        self.parts.queue.push(Event::Disconnected { reason, retry_in });
        self.state.told_lost = true;
        let wake_at = Instant::now() + retry_in;
        loop {
            tokio::select! {
                biased;
                () = closed(&mut self.parts.closing) => return Err(Error::Closed),
                () = tokio::time::sleep_until(wake_at) => return Ok(()),
                command = self.parts.commands.recv(), if !self.state.unconfirmed.is_full() => match command {
                    Some(command) => self.take(command, None),
                    None => return Err(Error::Closed),
                },
            }
        }
    }

    /// Use one socket until it ends.
    async fn connection(&mut self, socket: Socket) -> End {
        let now = Instant::now();
        let mut connection = Connection {
            link: Link::new(socket),
            outbox: VecDeque::new(),
            ready_at: None,
            heard_at: now,
            ping_at: now + self.parts.tuning.ping_interval,
            missed: false,
        };
        self.greet(&mut connection);
        connection.outbox.extend(self.state.pending.texts());
        let end = self.serve(&mut connection).await;
        let healthy = connection.ready_at.is_some_and(|at| at.elapsed() >= self.parts.tuning.healthy_after);
        if healthy {
            self.state.backoff.reset();
        }
        match end {
            End::Closed => {
                self.say_farewell(&mut connection);
                connection.link.close().await;
            }
            _ => connection.link.cut(),
        }
        end
    }

    /// Hand the writer what is still in the outbox, as far as it takes it at once.
    fn say_farewell(&mut self, connection: &mut Connection) {
        while let Ok(command) = self.parts.commands.try_recv() {
            self.take(command, Some(connection));
        }
        // What the writer does not take now would hold up the closing.
        let _ = connection.hand_over(self.outbox_max());
    }

    async fn serve(&mut self, connection: &mut Connection) -> End {
        loop {
            if let Some(end) = connection.hand_over(self.outbox_max()) {
                return end;
            }
            if connection.missed && self.parts.queue.is_drained() {
                return End::Missed;
            }
            let end = match self.turn(connection).await {
                Turn::Close => Some(End::Closed),
                Turn::Command(command) => {
                    self.take(command, Some(connection));
                    None
                }
                Turn::Heard(frame) => self.message(connection, frame),
                Turn::Writable | Turn::EventTaken => None,
                Turn::PingDue if connection.heard_at.elapsed() > self.parts.tuning.silence_max => {
                    Some(End::lost("the server is silent"))
                }
                Turn::PingDue => {
                    self.ping(connection);
                    None
                }
            };
            if let Some(end) = end {
                return end;
            }
        }
    }

    /// Frames that may wait for the writer: all that callers can have on their way, and some answers.
    fn outbox_max(&self) -> usize {
        2 * (self.parts.tuning.in_flight_max + Unconfirmed::MAX + HELLO_AGENTS_MAX) + UNREAD_ANSWERS_MAX
    }

    /// Wait for the next thing to do. Callers come before the server: they are few and bounded, its frames are not.
    async fn turn(&mut self, connection: &mut Connection) -> Turn {
        let reading = self.may_read(connection);
        if !reading {
            // Not the server's silence but ours.
            connection.heard_at = Instant::now();
        }
        let Parts { closing, commands, queue, .. } = &mut self.parts;
        tokio::select! {
            biased;
            () = closed(closing) => Turn::Close,
            _ = connection.link.outgoing.reserve(), if !connection.outbox.is_empty() => Turn::Writable,
            command = commands.recv(), if !self.state.unconfirmed.is_full() => command.map_or(Turn::Close, Turn::Command),
            frame = connection.link.incoming.next(), if reading => Turn::Heard(frame),
            () = queue.something_taken(), if !reading || connection.missed => Turn::EventTaken,
            () = tokio::time::sleep_until(connection.ping_at) => Turn::PingDue,
        }
    }

    /// Whether to read on: there is room, or a caller waits for something the server will say.
    fn may_read(&self, connection: &Connection) -> bool {
        let awaited = !self.state.pending.is_empty()
            || self.state.unconfirmed.is_full()
            || self.state.greeting.as_ref().is_some_and(|greeting| !greeting.replies.is_empty());
        let room = !connection.missed && !self.parts.queue.is_full();
        (room || awaited) && !self.parts.queue.is_overfull()
    }

    fn take(&mut self, command: Command, connection: Option<&mut Connection>) {
        match command {
            Command::Acked { id, text, reply } => {
                let fresh = self.state.pending.add(id, text.clone(), reply);
                if let (true, Some(connection)) = (fresh, connection) {
                    connection.outbox.push_back(text);
                }
            }
            Command::Repeatable(text) => {
                self.state.unconfirmed.add(text);
                if let Some(connection) = connection {
                    self.send_repeatable(connection);
                }
            }
            Command::Presence { agent_id, text } => {
                let known = self.state.presence.contains_key(&agent_id);
                if known || self.state.presence.len() < HELLO_AGENTS_MAX {
                    self.state.presence.insert(agent_id, text.clone());
                }
                if let Some(connection) = connection.filter(|connection| connection.ready_at.is_some()) {
                    connection.outbox.push_back(text);
                }
            }
            Command::Hello { agents, reply } => {
                let greeting = self.state.greeting.get_or_insert_with(|| Greeting::of(Vec::new()));
                greeting.agents = agents;
                greeting.replies.push(reply);
                if let Some(connection) = connection {
                    self.greet(connection);
                }
            }
        }
    }

    /// Send `hello` and behind it the ping whose pong says that it was accepted and the present state is complete.
    fn greet(&mut self, connection: &mut Connection) {
        let channels = self.parts.received.leave_out(HELLO_CURSORS_MAX);
        if !channels.is_empty() {
            let reason = ResyncReason::TooManyCursors { channels };
            self.parts.queue.push(Event::Resync(Resync { channel: String::new(), reason }));
        }
        let nonce = self.next_nonce();
        let greeting = self.state.greeting.get_or_insert_with(|| Greeting::of(self.parts.agents.clone()));
        greeting.nonce = nonce;
        let cursors = &self.parts.received.cursors;
        let hello = Hello {
            instance_id: self.parts.instance_id.as_str().into(),
            agents: greeting.agents.clone(),
            cursors: cursors.positions.clone(),
            epoch: cursors.epoch.as_deref().map(Into::into),
        };
        connection.send(&ClientFrame::Hello(hello));
        connection.send(&ClientFrame::Ping(Heartbeat { nonce }));
    }

    fn next_nonce(&mut self) -> u64 {
        self.state.nonce += 1;
        self.state.nonce
    }

    fn ping(&mut self, connection: &mut Connection) {
        let nonce = self.next_nonce();
        connection.send(&ClientFrame::Ping(Heartbeat { nonce }));
        connection.ping_at = Instant::now() + self.parts.tuning.ping_interval;
    }

    /// Send repeatable frames that this connection has not carried yet. Not before the agents are announced: the refusal of
    /// such a frame has no id, and would pass for a refused hello.
    fn send_repeatable(&mut self, connection: &mut Connection) {
        if connection.ready_at.is_none() {
            return;
        }
        let unsent = self.state.unconfirmed.unsent(self.state.nonce);
        let sent_some = !unsent.is_empty();
        connection.outbox.extend(unsent);
        if sent_some && self.state.unconfirmed.len().is_multiple_of(CONFIRM_EVERY) {
            self.ping(connection);
        }
    }

    fn message(
        &mut self,
        connection: &mut Connection,
        frame: Option<tungstenite::Result<Message>>,
    ) -> Option<End> {
        connection.heard_at = Instant::now();
        match frame {
            Some(Ok(Message::Text(text))) => self.text(connection, &text),
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => None,
            Some(Ok(Message::Binary(_))) => Some(End::lost("the server sent a binary frame")),
            Some(Ok(Message::Close(Some(close)))) => {
                Some(End::lost(format!("the server closed: {} {}", close.code, close.reason)))
            }
            Some(Ok(Message::Close(None))) | None => Some(End::lost("the server closed the connection")),
            Some(Err(error)) => Some(End::lost(error.to_string())),
        }
    }

    fn text(&mut self, connection: &mut Connection, text: &str) -> Option<End> {
        let limits = Limits { bytes_max: self.parts.tuning.frame_bytes_max, depth_max: JSON_DEPTH_MAX };
        let frame = match ServerFrame::parse(text, limits) {
            Ok(frame) => frame.into_owned(),
            Err(error) => {
                self.parts.queue.push(Event::Unreadable(error));
                return None;
            }
        };
        match frame {
            ServerFrame::MessageStored(stored) => {
                let id = stored.client_msg_id.clone();
                self.state.pending.settle(&id, Ok(Acked::Stored(stored)));
            }
            ServerFrame::Published(published) => {
                let id = published.client_msg_id.clone();
                self.state.pending.settle(&id, Ok(Acked::Published(published)));
            }
            ServerFrame::Error(refused) => return self.refused(connection, refused),
            ServerFrame::Ping(beat) => connection.send(&ClientFrame::Pong(beat)),
            ServerFrame::Pong(beat) => self.pong(connection, beat.nonce),
            other => self.tell(connection, other),
        }
        None
    }

    fn pong(&mut self, connection: &mut Connection, nonce: u64) {
        self.state.unconfirmed.confirm(nonce);
        let Some(greeting) = self.state.greeting.take_if(|greeting| greeting.nonce == nonce) else { return };
        self.parts.agents = greeting.agents;
        for reply in greeting.replies {
            let _ = reply.send(Ok(()));
        }
        let announced = |agent_id: &str| self.parts.agents.iter().any(|agent| agent.agent_id == agent_id);
        self.state.presence.retain(|agent_id, _| announced(agent_id));
        if connection.ready_at.is_none() {
            connection.ready_at = Some(Instant::now());
            connection.outbox.extend(self.state.presence.values().cloned());
            self.send_repeatable(connection);
            if std::mem::take(&mut self.state.told_lost) {
                self.parts.queue.push(Event::Reconnected);
            }
            self.parts.ready.send_replace(true);
        }
    }

    fn refused(&mut self, connection: &mut Connection, frame: ErrorFrame<'static>) -> Option<End> {
        let error = Error::refused(frame.error.clone());
        let answers = frame.answers.map(Cow::into_owned);
        let Some(id) = frame.client_msg_id else {
            return self.refused_without_id(connection, answers, frame.error, error);
        };
        let unclaimed = self.state.pending.settle(&id, Err(error)).is_some();
        if unclaimed {
            let client_msg_id = Some(id.into_owned());
            self.parts.queue.push(Event::Refused { client_msg_id, answers, error: frame.error });
        }
        None
    }

    fn refused_without_id(
        &mut self,
        connection: &mut Connection,
        answers: Option<String>,
        detail: Detail,
        error: Error,
    ) -> Option<End> {
        if matches!(error, Error::Unauthorized(_)) {
            return Some(End::Final(error));
        }
        // Of a server that does not say what it answers, a hello that waits gets the blame.
        let greets = answers.as_deref().is_none_or(|answers| answers == "hello");
        match self.state.greeting.take_if(|_| greets) {
            None => {
                self.parts.queue.push(Event::Refused { client_msg_id: None, answers, error: detail });
                None
            }
            Some(greeting) if greeting.replies.is_empty() => Some(if error.ends_greeting() {
                End::Final(error)
            } else {
                let retry_after = detail.retry_after_s.map(Duration::from_secs);
                End::Lost { reason: error.to_string(), retry_after }
            }),
            Some(greeting) => {
                for reply in greeting.replies {
                    let _ = reply.send(Err(error.clone()));
                }
                if connection.ready_at.is_none() {
                    // The refused agents were announced first on this connection: fall back to those that were accepted.
                    self.greet(connection);
                }
                None
            }
        }
    }

    /// Pass a frame on as an event, unless it has to wait for a connection that finds room for it.
    fn tell(&mut self, connection: &mut Connection, frame: ServerFrame<'static>) {
        let event = match frame {
            ServerFrame::MessageDeliver(delivery) => Event::Delivery(Box::new(delivery)),
            ServerFrame::Deliver(publish) => Event::Publish(Box::new(publish)),
            ServerFrame::MessageStatus(status) => Event::Status(status),
            ServerFrame::PresenceUpdate(presence) => Event::Presence(Box::new(presence)),
            ServerFrame::TaskEvent(event) => Event::TaskEvent(Box::new(event)),
            ServerFrame::Control(control) => Event::Control(Box::new(control)),
            ServerFrame::HandoffOffer(offer) => Event::Handoff(Box::new(Handoff::Offer(offer))),
            ServerFrame::HandoffAck(ack) => Event::Handoff(Box::new(Handoff::Ack(ack))),
            ServerFrame::HandoffReject(reject) => Event::Handoff(Box::new(Handoff::Reject(reject))),
            ServerFrame::Cursor(cursor) => Event::Cursor(cursor),
            // Newer servers may say more; acknowledgements and heartbeats were handled before.
            _ => return,
        };
        if event.is_replayed() && (connection.missed || self.parts.queue.is_full()) {
            connection.missed = true;
            return;
        }
        self.enqueue(event);
    }

    fn enqueue(&mut self, event: Event) {
        let resync = match &event {
            Event::Cursor(cursor) => self.parts.received.cursor(cursor),
            other => match other.position() {
                None => None,
                Some((key, seq)) => match self.parts.received.event(&key, seq) {
                    Seen::Before => return,
                    Seen::New => None,
                    Seen::Rewound => Some(Resync {
                        channel: key.into_owned(),
                        reason: ResyncReason::Rewound { seq: seq.saturating_sub(1) },
                    }),
                },
            },
        };
        if let Some(resync) = resync {
            self.parts.queue.push(Event::Resync(resync));
        }
        self.parts.queue.push(event);
    }
}

/// Ends the queue even when the task is torn down, so that no taker waits for ever.
struct EndOnDrop(Arc<Queue>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end(Error::Closed);
    }
}

impl Greeting {
    fn of(agents: Vec<HelloAgent<'static>>) -> Self {
        Self { nonce: 0, agents, replies: Vec::new() }
    }
}

impl Connection {
    /// Give the writer as much of the outbox as it takes now.
    fn hand_over(&mut self, outbox_max: usize) -> Option<End> {
        while let Some(frame) = self.outbox.pop_front() {
            match self.link.outgoing.try_send(frame) {
                Ok(()) => {}
                Err(mpsc::error::TrySendError::Full(frame)) => {
                    self.outbox.push_front(frame);
                    let stuck = self.outbox.len() > outbox_max;
                    return stuck.then(|| End::lost("the server does not read"));
                }
                Err(mpsc::error::TrySendError::Closed(_)) => {
                    return Some(End::lost("the connection broke while writing"));
                }
            }
        }
        None
    }

    fn send(&mut self, frame: &ClientFrame<'_>) {
        match frame.to_json() {
            Ok(text) => self.outbox.push_back(text.into()),
            Err(error) => tracing::error!(%error, "a frame could not be written"),
        }
    }
}

/// Resolves when the client is closed or its last handle is gone.
async fn closed(closing: &mut watch::Receiver<bool>) {
    // An error means that the handle is gone, which closes as well.
    let _ = closing.wait_for(|closing| *closing).await;
}
