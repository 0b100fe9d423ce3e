//! `GET /v1/bus`: the socket. All that is ready is read, committed as one batch, and answered with one write.

use crate::Doors;
use crate::http::{Answer, Caller, Refused};
use crate::trace::{self, TraceContext};
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, header};
use axum::response::Response;
use futures_util::stream::FuturesOrdered;
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use std::sync::atomic::Ordering;
use std::time::Duration;
use switchboard_core::limits::{
    FRAME_BYTES_MAX, HELLO_TIMEOUT_MS, IN_FLIGHT_MAX, MISSED_PONGS_MAX, SOCKETS_PER_INSTANCE_MAX,
};
use switchboard_engine::follow::Outbox;
use switchboard_engine::refusal;
use switchboard_engine::session::hello::error_frame;
use switchboard_engine::session::{Close, Pending, Session, Settled};
use switchboard_protocol::{Code, Detail};
use tokio::time::Instant;
use tracing::Instrument as _;

/// Small, so that an idle connection costs little; a larger frame is read in pieces.
const READ_BUFFER_BYTES: usize = 2048;
/// Frames gather up to here before they go out without being flushed; grown only by what is written.
const WRITE_BUFFER_BYTES: usize = 128 * 1024;
/// Time one write may take: a client that takes nothing for so long is gone.
const WRITE_TIMEOUT: Duration = Duration::from_mins(1);
/// How often cursors and heartbeats are looked at.
const TICK: Duration = Duration::from_secs(1);

/// Opens the socket of an authenticated instance.
#[utoipa::path(get, path = "/v1/bus", tag = "bus", security(("bearer" = [])),
    responses((status = 101, description = "The socket; frames as in docs/protocol/ws.md"), (status = 401), (status = 403)))]
pub async fn open(
    State(doors): State<Doors>,
    caller: Caller,
    Extension(opened): Extension<TraceContext>,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Answer {
    caller.uses_bus()?;
    check_origin(&doors, &headers)?;
    // A connection that becomes a socket leaves the listener's count, so sockets have one of their own.
    if doors.hub.counters.sockets.load(Ordering::Relaxed) >= doors.room.sockets as u64 {
        let message = "This hub has as many sockets open as it takes.";
        let full = Detail::new(Code::RateLimited, message).field("sockets").reason("overloaded");
        return Err(full.retry_after_s(30u64).sb("SB0120").into());
    }
    if doors.hub.sessions.count(caller.who.instance) >= SOCKETS_PER_INSTANCE_MAX {
        let limit = SOCKETS_PER_INSTANCE_MAX as u64;
        let message = "This instance has too many open sockets; close some.";
        return Err(Detail::new(Code::RateLimited, message)
            .field("sockets")
            .limit(limit)
            .used(limit)
            .sb("SB0110")
            .into());
    }
    let session = Session::new(doors.hub.clone(), caller.who);
    let upgrade = upgrade
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(WRITE_BUFFER_BYTES)
        .max_message_size(FRAME_BYTES_MAX)
        .max_frame_size(FRAME_BYTES_MAX);
    Ok(upgrade.on_upgrade(move |socket| {
        // A task of its own, no larger than the talk: the one that upgrades has room for much more.
        let talks = doors.talks.clone();
        let mut talk = Talk::new(doors, socket, session, opened);
        talks.spawn(async move { talk.run().await });
        std::future::ready(())
    }))
}

/// Browsers name the page that connects; anything but the hub's own pages or a configured one is refused.
fn check_origin(doors: &Doors, headers: &HeaderMap) -> Result<(), Refused> {
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let origin = origin.to_str().unwrap_or_default();
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let own = origin.split_once("://").is_some_and(|(_, rest)| !host.is_empty() && rest == host);
    let known =
        own || origin == doors.hub.settings.public_url || doors.origins.iter().any(|known| known == origin);
    if known {
        return Ok(());
    }
    let message = "This page's origin may not connect; add it to `origins` in the configuration.";
    Err(Detail::new(Code::ForbiddenRight, message).field("Origin").reason("origin").sb("SB0127").into())
}

struct Talk {
    doors: Doors,
    socket: WebSocket,
    session: Session,
    trace: TraceContext,
    out: Outbox,
    pending: FuturesOrdered<futures_util::future::BoxFuture<'static, Settled>>,
    in_flight: usize,
    opened: Instant,
    heard: Instant,
    pinged: Instant,
    unanswered: u32,
}

/// What a talk waits for.
enum Event {
    Tick,
    /// The hub goes down.
    Stopping,
    /// A batch of this socket is stored, or refused.
    Settled(Box<Settled>),
    Read(Option<Result<Message, axum::Error>>),
    /// There may be something to deliver.
    Woken,
}

/// Why the talk is over.
enum End {
    /// The client left, or cannot be reached.
    Gone,
    /// The hub ends it.
    Close(u16, Option<Detail>),
}

impl From<Close> for End {
    fn from(close: Close) -> Self {
        Self::Close(close_code::POLICY, close.0)
    }
}

impl Talk {
    fn new(doors: Doors, socket: WebSocket, session: Session, trace: TraceContext) -> Self {
        let now = Instant::now();
        Self {
            doors,
            socket,
            session,
            trace,
            out: Outbox::default(),
            pending: FuturesOrdered::new(),
            in_flight: 0,
            opened: now,
            heard: now,
            pinged: now,
            unanswered: 0,
        }
    }

    async fn run(&mut self) {
        let waker = self.session.waker();
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let end = loop {
            if let Err(end) = self.turn(&waker, &mut tick).await {
                break end;
            }
        };
        Box::pin(self.finish(end)).await;
    }

    /// Waits for one thing to happen, deals with all that is ready, writes once.
    async fn turn(
        &mut self,
        waker: &switchboard_engine::stream::Waker,
        tick: &mut tokio::time::Interval,
    ) -> Result<(), End> {
        let event = self.next(waker, tick).await;
        // The span begins here and not with the socket: thousands of them would be kept for sockets that wait.
        let span = trace::socket(&self.trace);
        self.act(event).instrument(span).await
    }

    async fn next(
        &mut self,
        waker: &switchboard_engine::stream::Waker,
        tick: &mut tokio::time::Interval,
    ) -> Event {
        tokio::select! {
            biased;
            // First what comes rarely, so that a busy socket cannot starve it.
            _ = tick.tick() => Event::Tick,
            () = self.doors.hub.stopping().cancelled() => Event::Stopping,
            Some(settled) = self.pending.next(), if self.in_flight > 0 => Event::Settled(Box::new(settled)),
            message = self.socket.next(), if self.in_flight < IN_FLIGHT_MAX => Event::Read(message),
            () = waker.woken() => Event::Woken,
        }
    }

    async fn act(&mut self, event: Event) -> Result<(), End> {
        match event {
            Event::Tick => self.tick()?,
            Event::Stopping => return Err(End::Close(close_code::RESTART, None)),
            Event::Settled(settled) => self.settled(*settled),
            Event::Read(message) => self.read(message).await?,
            Event::Woken => self.session.wake(),
        }
        while let Some(Some(settled)) = self.pending.next().now_or_never() {
            self.settled(settled);
        }
        self.submit();
        self.write().await
    }

    fn settled(&mut self, settled: Settled) {
        self.in_flight -= 1;
        self.session.settle(settled, &mut self.out);
    }

    fn submit(&mut self) {
        if let Some(pending) = self.session.submit() {
            self.in_flight += 1;
            let span = trace::batch(&self.doors, &self.trace, pending.writes());
            self.pending.push_back(Pending::wait(pending).inspect(move |_| drop(span)).boxed());
        }
    }

    /// Reads the message that came and all others that are here already.
    async fn read(&mut self, first: Option<Result<Message, axum::Error>>) -> Result<(), End> {
        let mut next = Some(first);
        let mut frames = 0;
        while let Some(message) = next {
            match message {
                Some(Ok(message)) => self.message(message).await?,
                Some(Err(error)) => return Err(too_large(&error)),
                None => return Err(End::Gone),
            }
            frames += 1;
            next = if frames < IN_FLIGHT_MAX { self.socket.next().now_or_never() } else { None };
        }
        Ok(())
    }

    async fn message(&mut self, message: Message) -> Result<(), End> {
        self.heard = Instant::now();
        self.unanswered = 0;
        match message {
            Message::Text(text) => Ok(self.session.receive(&text, &mut self.out).await?),
            Message::Binary(_) => {
                let error = refusal::bad_field("t", "Send frames as text, not as binary.");
                self.out.push_frame(&error_frame(error));
                Ok(())
            }
            Message::Close(_) => Err(End::Gone),
            Message::Ping(_) | Message::Pong(_) => Ok(()),
        }
    }

    fn tick(&mut self) -> Result<(), End> {
        self.session.tick(&mut self.out);
        let hello_due =
            !self.session.is_greeted() && self.opened.elapsed().as_millis() >= u128::from(HELLO_TIMEOUT_MS);
        if hello_due {
            let error = refusal::bad_field("t", "Send hello within 10 s.").reason("hello_timeout");
            return Err(End::Close(close_code::POLICY, Some(error)));
        }
        let interval = self.doors.hub.settings.ping_every;
        if self.pinged.elapsed() >= interval && self.heard.elapsed() >= interval {
            if self.unanswered >= MISSED_PONGS_MAX {
                return Err(End::Gone);
            }
            self.unanswered += 1;
            self.pinged = Instant::now();
            let nonce = switchboard_protocol::frame::Heartbeat { nonce: u64::from(self.unanswered) };
            self.out.push_frame(&switchboard_protocol::frame::server::ServerFrame::Ping(nonce));
        }
        Ok(())
    }

    /// Writes answers and one portion of deliveries with one flush. What is left waits for the next turn, so that a client
    /// is listened to also during a long replay.
    async fn write(&mut self) -> Result<(), End> {
        if self.session.fill(&mut self.out).await? {
            self.session.waker().nudge();
        }
        if self.out.frames.is_empty() {
            return Ok(());
        }
        let written = tokio::time::timeout(WRITE_TIMEOUT, flush(&mut self.socket, &mut self.out)).await;
        if !matches!(written, Ok(Ok(()))) {
            return Err(End::Gone);
        }
        self.session.written();
        self.submit();
        Ok(())
    }

    async fn finish(&mut self, end: End) {
        // What was read counts, also when nobody is left to take the answers: it is stored, and others are told.
        self.submit();
        while let Some(settled) = self.pending.next().await {
            self.session.settle(settled, &mut self.out); // what was taken is answered before the end
        }
        let End::Close(code, detail) = end else { return };
        let reason = detail.as_ref().map(|detail| detail.message.chars().take(100).collect::<String>());
        if let Some(detail) = detail {
            self.out.push_frame(&error_frame(detail));
        }
        let goodbye = async {
            flush(&mut self.socket, &mut self.out).await?;
            let frame = CloseFrame { code, reason: reason.unwrap_or_default().into() };
            self.socket.send(Message::Close(Some(frame))).await
        };
        if !matches!(tokio::time::timeout(Duration::from_secs(2), goodbye).await, Ok(Ok(()))) {
            tracing::debug!("a client could not be told why its socket closes");
        }
    }
}

fn too_large(error: &axum::Error) -> End {
    use std::error::Error as _;
    let text = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    if text.contains("too long") || text.contains("too large") || text.contains("Space limit") {
        let message = format!("A frame may have at most {FRAME_BYTES_MAX} bytes.");
        return End::Close(close_code::SIZE, Some(refusal::bad_field("frame", message).reason("too_large")));
    }
    End::Gone
}

async fn flush(socket: &mut WebSocket, out: &mut Outbox) -> Result<(), axum::Error> {
    for frame in out.take() {
        // Frames are made of JSON texts, which are UTF-8.
        let Ok(text) = Utf8Bytes::try_from(frame) else { continue };
        socket.feed(Message::Text(text)).await?;
    }
    socket.flush().await
}

/// The answer to a request for the socket that is not an upgrade.
#[must_use]
pub fn not_an_upgrade() -> Response {
    use axum::response::IntoResponse as _;
    Refused::from(refusal::bad_field("Upgrade", "Connect with a WebSocket client.")).into_response()
}
