//! The way in: Discord's gateway (<https://discord.com/developers/docs/events/gateway>), spoken by own code. What a hub needs of it is small
//! (one connection, four events), and the one rule that matters here is one that gateway libraries do not have:
//!
//! The gateway has no acknowledgements. It takes the number of the last event that heartbeats and `resume` name for what has arrived, so
//! both name the last event that was **taken**. When something cannot be stored the connection is given up and the session resumed from there:
//! the service brings it again. A session that is gone for good (a restart of the hub, hours without a connection) cannot be resumed; then
//! the channels of direct messages that are known are asked for what was written since. What is written in shared channels meanwhile,
//! and by people whom this process has never met, is not brought again by anybody.

use super::address::Snowflake;
use super::desk::{Desk, Ended, what};
use super::outbound::Outbound;
use super::read::Me;
use super::socket::{Frame, Socket, address, connector, open};
use super::{answer, settings::Settings};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use parking_lot::Mutex;
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::ExposeSecret as _;
use switchboard_core::SecretString;
use switchboard_core::port::channel::Inbound;
use switchboard_core::random::{self, Entropy};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_tungstenite::Connector;
use tokio_tungstenite::tungstenite::Message;

/// Events that wait to be taken at most; with more the connection is given up, and brings them again.
const QUEUE_MAX: usize = 1_000;
/// Bounds of a heartbeat's interval.
const HEARTBEAT_MS: std::ops::RangeInclusive<u64> = 10..=600_000;

/// Intents: messages in servers, direct messages, and the text of those that do not mention us.
const GUILD_MESSAGES: u32 = 1 << 9;
const DIRECT_MESSAGES: u32 = 1 << 12;
const MESSAGE_CONTENT: u32 = 1 << 15;

/// Codes with which the gateway closes for good, and what helps.
const FATAL: [(u16, &str); 6] = [
    (
        4004,
        "Discord does not accept the bot's token: copy it again from the application's page Bot, and set it",
    ),
    (4010, "Discord refuses the shard: this is a fault of the hub"),
    (4011, "the bot is on too many servers for one connection: use a bot of its own for the hub"),
    (4012, "Discord has given up version 10 of its gateway: a newer hub is needed"),
    (4013, "Discord does not know an intent: this is a fault of the hub"),
    (
        4014,
        "Discord does not let the bot read messages: switch on Message Content Intent on the application's page Bot, or set \
         message_content = false",
    ),
];
/// Codes after which a session cannot be resumed.
const SESSION_LOST: [u16; 5] = [1000, 1001, 4003, 4007, 4009];

/// The gateway.
pub(super) struct Gateway {
    name: String,
    token: SecretString,
    intents: u32,
    connector: Connector,
    outbound: Arc<Outbound>,
    timeout: Duration,
    backoff: (Duration, Duration),
    entropy: Arc<dyn Entropy>,
    /// Sentences on their way to people.
    telling: Mutex<JoinSet<()>>,
}

/// What outlives a connection.
#[derive(Default)]
struct State {
    session: Option<Session>,
    /// Direct messages may have been missed.
    is_behind: bool,
    /// Connected since the last pause.
    has_worked: bool,
}

#[derive(Clone)]
struct Session {
    id: String,
    /// Where to resume; `None` after it could not be reached.
    url: Option<String>,
    me: Me,
    /// Last event that was taken.
    taken: u64,
}

#[derive(Deserialize)]
struct Starts {
    remaining: u32,
    reset_after: u64,
}

#[derive(Deserialize)]
struct Entrance {
    url: String,
    session_start_limit: Option<Starts>,
}

#[derive(Deserialize)]
struct Ready {
    session_id: String,
    resume_gateway_url: String,
    user: ReadyUser,
}

#[derive(Deserialize)]
struct ReadyUser {
    id: Snowflake,
}

/// What work on an event has led to.
enum Done {
    /// Everything up to this event is taken.
    Taken(u64),
    /// What was missed is taken.
    CaughtUp,
}

type Work<'a> = BoxFuture<'a, Result<Done, Ended>>;

impl Gateway {
    pub fn new(settings: &Settings, outbound: Arc<Outbound>) -> Result<Self, String> {
        let content = if settings.message_content { MESSAGE_CONTENT } else { 0 };
        Ok(Self {
            name: settings.name.clone(),
            token: settings.token.clone(),
            intents: GUILD_MESSAGES | DIRECT_MESSAGES | content,
            connector: connector()?,
            outbound,
            timeout: settings.timeout,
            backoff: settings.backoff,
            entropy: settings.entropy.clone(),
            telling: Mutex::default(),
        })
    }

    /// Listens for ever; connects again after a pause that grows while that fails.
    pub async fn listen(&self, inbound: Arc<dyn Inbound>) {
        let mut state = State::default();
        let mut pause = self.backoff.0;
        loop {
            let ended = self.connection(&mut state, &*inbound).await;
            if let Some(why) = ended.fault {
                inbound.health(&self.name, Some(why));
            }
            if std::mem::take(&mut state.has_worked) {
                pause = self.backoff.0;
            }
            sleep(self.jittered(pause).max(ended.wait)).await;
            pause = (pause * 2).min(self.backoff.1);
        }
    }

    /// Between half of `pause` and all of it, so that many do not come back at once.
    fn jittered(&self, pause: Duration) -> Duration {
        pause.mul_f64(0.5 + self.chance() / 2.0)
    }

    fn chance(&self) -> f64 {
        let [chance] = random::bytes::<1>(&*self.entropy);
        f64::from(chance) / 255.0
    }

    async fn connection(&self, state: &mut State, inbound: &dyn Inbound) -> Ended {
        let url = match state.session.as_ref().and_then(|session| session.url.clone()) {
            Some(url) => url,
            None => match self.entrance(state.session.is_some()).await {
                Ok(url) => url,
                Err(ended) => return ended,
            },
        };
        let opened = match address(&url, self.outbound.rest.is_plain()) {
            Ok(address) => self.bounded(open(&address, &self.connector)).await,
            Err(why) => Err(Ended::fault(why)),
        };
        let socket = match opened {
            Ok(socket) => socket,
            Err(ended) => {
                // The session may live on behind another door.
                state.session.iter_mut().for_each(|session| session.url = None);
                return ended;
            }
        };
        let mut connection =
            Connection { gateway: self, socket, inbound, queue: VecDeque::new(), is_unanswered: false };
        match connection.run(state).await {
            Err(ended) => ended,
        }
    }

    /// Where to connect. A bot may begin a thousand sessions a day and loses its token over more.
    async fn entrance(&self, resumes: bool) -> Result<String, Ended> {
        let answer = self.outbound.rest.call(Method::GET, "/gateway/bot", None).await;
        let answer =
            answer.map_err(|error| Ended::fault(format!("Discord cannot be reached: {}", what(&error))))?;
        if !answer.is_success() {
            let refused = answer::refused(&answer, self.outbound.clock.wall_ms());
            let wait = refused.as_ref().and_then(|why| why.retry_after_ms).unwrap_or(0);
            let why = refused.map_or_else(|| format!("Discord answered {}", answer.status), |why| why.reason);
            return Err(Ended { fault: Some(why), wait: Duration::from_millis(wait) });
        }
        let unread = |_| Ended::fault("Discord's answer to where its gateway is cannot be read");
        let entrance: Entrance = serde_json::from_slice(&answer.body).map_err(unread)?;
        match entrance.session_start_limit {
            Some(Starts { remaining: 0, reset_after }) if !resumes => Err(Ended {
                fault: Some("the bot has begun too many sessions at Discord today; it waits".to_owned()),
                wait: Duration::from_millis(reset_after),
            }),
            _ => Ok(entrance.url),
        }
    }

    async fn bounded<T, E: Into<String>>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, Ended> {
        match timeout(self.timeout, work).await {
            Ok(done) => done.map_err(|why| Ended::fault(why)),
            Err(_) => Err(Ended::fault("Discord's gateway does not answer")),
        }
    }
}

/// One connection.
struct Connection<'a> {
    gateway: &'a Gateway,
    socket: Socket,
    inbound: &'a dyn Inbound,
    queue: VecDeque<(u64, String, Value)>,
    /// The last heartbeat was not answered yet.
    is_unanswered: bool,
}

impl<'a> Connection<'a> {
    /// Until it breaks.
    async fn run(&mut self, state: &mut State) -> Result<std::convert::Infallible, Ended> {
        let interval = self.hello(state).await?;
        let first = self.introduction(state);
        self.send(&first).await?;
        let mut beat = Instant::now() + interval.mul_f64(self.gateway.chance());
        let mut work: Work<'a> = std::future::pending().boxed();
        let mut is_working = false;
        loop {
            if !is_working && let Some(next) = self.next_work(state) {
                (work, is_working) = (next, true);
            }
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(beat) => {
                    self.heartbeat(state).await?;
                    beat = Instant::now() + interval;
                }
                done = &mut work, if is_working => {
                    is_working = false;
                    work = std::future::pending().boxed();
                    match done? {
                        Done::Taken(number) => state.session.iter_mut().for_each(|session| session.taken = number),
                        Done::CaughtUp => state.is_behind = false,
                    }
                }
                frame = self.socket.next(), if self.queue.len() < QUEUE_MAX => {
                    self.hear(frame, state).await?;
                }
            }
        }
    }

    async fn hello(&mut self, state: &mut State) -> Result<Duration, Ended> {
        let gateway = self.gateway;
        let first = gateway.bounded(async { Ok::<_, String>(self.socket.next().await) }).await?;
        let text = text_of(first, state)?;
        let frame: Option<Frame> = text.and_then(|text| serde_json::from_str(&text).ok());
        let interval =
            frame.filter(|frame| frame.op == 10).and_then(|frame| frame.d["heartbeat_interval"].as_u64());
        let interval = interval.ok_or_else(|| Ended::fault("Discord's gateway does not say hello"))?;
        Ok(Duration::from_millis(interval.clamp(*HEARTBEAT_MS.start(), *HEARTBEAT_MS.end())))
    }

    fn introduction(&self, state: &State) -> Value {
        let token = self.gateway.token.expose_secret().trim();
        match &state.session {
            Some(session) => {
                json!({ "op": 6, "d": { "token": token, "session_id": session.id, "seq": session.taken } })
            }
            None => json!({ "op": 2, "d": {
                "token": token,
                "intents": self.gateway.intents,
                "properties": { "os": std::env::consts::OS, "browser": "switchboard", "device": "switchboard" },
            } }),
        }
    }

    async fn send(&mut self, frame: &Value) -> Result<(), Ended> {
        let gateway = self.gateway;
        let sending = self.socket.send(Message::text(frame.to_string()));
        let sent = async {
            sending.await.map_err(|error| format!("the connection to Discord's gateway broke: {error}"))
        };
        gateway.bounded(sent).await
    }

    /// Names what was taken. A connection that has not answered the last one is dead, whatever it looks like.
    async fn heartbeat(&mut self, state: &State) -> Result<(), Ended> {
        if self.is_unanswered {
            return Err(Ended::fault("Discord's gateway does not answer heartbeats"));
        }
        self.is_unanswered = true;
        let taken = state.session.as_ref().map(|session| session.taken);
        self.send(&json!({ "op": 1, "d": taken })).await
    }

    async fn hear(
        &mut self,
        frame: Option<tokio_tungstenite::tungstenite::Result<Message>>,
        state: &mut State,
    ) -> Result<(), Ended> {
        let Some(text) = text_of(frame, state)? else { return Ok(()) };
        // What is no frame has no number: the next one that has stands for it too.
        let Ok(frame) = serde_json::from_str::<Frame>(&text) else { return Ok(()) };
        match (frame.op, frame.s, frame.t) {
            (0, Some(number), Some(kind)) if kind == "READY" => self.ready(number, &frame.d, state)?,
            (0, Some(number), Some(kind)) => {
                if kind == "RESUMED" {
                    self.works(state);
                }
                self.queue.push_back((number, kind, frame.d));
            }
            (1, ..) => {
                self.is_unanswered = false;
                self.heartbeat(state).await?;
            }
            (7, ..) => return Err(Ended { fault: None, wait: Duration::ZERO }),
            (9, ..) => {
                if frame.d != Value::Bool(true) {
                    state.session = None;
                }
                return Err(Ended { fault: None, wait: Duration::ZERO });
            }
            (11, ..) => self.is_unanswered = false,
            _ => {}
        }
        Ok(())
    }

    fn ready(&mut self, number: u64, data: &Value, state: &mut State) -> Result<(), Ended> {
        let unread = |_| Ended::fault("Discord's gateway is ready and does not say for whom");
        let ready = Ready::deserialize(data).map_err(unread)?;
        let me = Me { channel: self.gateway.name.clone(), user: ready.user.id };
        let url = Some(ready.resume_gateway_url);
        state.session = Some(Session { id: ready.session_id, url, me, taken: number });
        state.is_behind = true;
        self.works(state);
        Ok(())
    }

    fn works(&self, state: &mut State) {
        state.has_worked = true;
        self.inbound.health(&self.gateway.name, None);
    }

    fn next_work(&mut self, state: &State) -> Option<Work<'a>> {
        let me = state.session.as_ref()?.me.clone();
        let (outbound, telling) = (&self.gateway.outbound, &self.gateway.telling);
        let desk = Desk { outbound, telling, inbound: self.inbound, me };
        if state.is_behind && state.has_worked {
            return Some(async move { desk.catch_up().await.map(|()| Done::CaughtUp) }.boxed());
        }
        let (number, kind, data) = self.queue.pop_front()?;
        Some(async move { desk.event(&kind, &data).await.map(|()| Done::Taken(number)) }.boxed())
    }
}

/// The text of a frame; why the connection has ended when there is none more.
fn text_of(
    frame: Option<tokio_tungstenite::tungstenite::Result<Message>>,
    state: &mut State,
) -> Result<Option<String>, Ended> {
    match frame {
        Some(Ok(Message::Text(text))) => Ok(Some(text.as_str().to_owned())),
        Some(Ok(Message::Close(close))) => {
            let code = close.as_ref().map_or(1006, |close| u16::from(close.code));
            let fatal = FATAL.iter().find(|(known, _)| *known == code);
            if fatal.is_some() || SESSION_LOST.contains(&code) {
                state.session = None;
            }
            let why = fatal.map_or_else(
                || format!("Discord's gateway closed the connection ({code})"),
                |(_, why)| (*why).to_owned(),
            );
            Err(Ended::fault(why))
        }
        Some(Ok(_)) => Ok(None),
        Some(Err(error)) => Err(Ended::fault(format!("the connection to Discord's gateway broke: {error}"))),
        None => Err(Ended::fault("Discord's gateway ended the connection")),
    }
}
