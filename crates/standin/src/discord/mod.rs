//! Discord: its HTTP API and its gateway, version 10, as far as a bot that writes and listens needs them.
//!
//! `http` treats each contact as it was told to, `rest` answers calls, `gateway` keeps sessions that can be resumed, `world` is what both
//! are about. What happens before anybody listens is held back for the first session, so that a test need not wait for it.

mod act;
mod gateway;
mod http;
mod rest;
mod world;

pub use act::act;
use futures_util::future::BoxFuture;
use http::{Request, Room};
use parking_lot::Mutex;
use serde_json::Value;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use switchboard_channels::conformance::Behaviour;
use switchboard_channels::guard::Lookup;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use world::World;
pub use world::{ADA, BEN, BOT, GUILD, SHARED, Sent};

/// What a bot has to show to the stand-in that the program runs.
pub const TOKEN: &str = "standin-token";

/// What the gateway does beside the ordinary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upset {
    /// Asks to connect again.
    Reconnect,
    /// Says that the session is invalid, and whether it can be resumed.
    Invalid(bool),
    /// Closes with this code.
    Close(u16),
    /// Cuts the connection.
    Cut,
}

/// The service.
pub struct Discord {
    port: u16,
    shared: Arc<Shared>,
    tasks: [JoinHandle<()>; 2],
}

pub(crate) struct Shared {
    world: Mutex<World>,
    room: Room,
    /// Rings when something has happened.
    bell: watch::Sender<u64>,
    gateway_url: String,
}

impl Shared {
    fn ring(&self) {
        self.bell.send_modify(|rings| *rings += 1);
    }
}

impl Drop for Discord {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Discord {
    /// A Discord on which the bot has this token, with two people and a server with one channel.
    pub async fn start(token: &str) -> Self {
        let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let (calls, sockets) = (listen().await.expect("a port"), listen().await.expect("a port"));
        let port = calls.local_addr().expect("an address").port();
        let gateway_url = format!("ws://{}", sockets.local_addr().expect("an address"));
        let shared = Arc::new(Shared {
            world: Mutex::new(World::new(token, &gateway_url)),
            room: Room::default(),
            bell: watch::Sender::new(0),
            gateway_url,
        });
        let tasks = [
            tokio::spawn(http::serve(calls, shared.clone())),
            tokio::spawn(gateway::serve(sockets, shared.clone())),
        ];
        Self { port, shared, tasks }
    }

    /// Where the API is.
    #[must_use]
    pub fn api(&self) -> String {
        format!("http://127.0.0.1:{}/api/v10", self.port)
    }

    /// The same by a name that only [`Self::lookup`] knows.
    #[must_use]
    pub fn named_api(&self) -> String {
        format!("http://discord.test:{}/api/v10", self.port)
    }

    /// Where the gateway is.
    #[must_use]
    pub fn gateway_url(&self) -> &str {
        &self.shared.gateway_url
    }

    /// Finds the service, except where it was told not to be there.
    #[must_use]
    pub fn lookup(&self) -> Arc<dyn Lookup> {
        Arc::new(Names(self.shared.clone()))
    }

    /// How the next message that is posted is treated, after those that were said before.
    pub fn script(&self, behaviour: Behaviour) {
        self.shared.room.script.lock().push_back(behaviour);
    }

    /// The next call of this method and of a path with this end gets exactly this answer: status, headers, body.
    pub fn answer_next(&self, method: &str, end: &str, status: u16, headers: &str, body: &str) {
        let bytes = http::respond(status, headers, body);
        self.shared.room.answers.lock().push((method.to_owned(), end.to_owned(), bytes));
    }

    /// How many messages were posted, whatever became of them.
    #[must_use]
    pub fn contacts(&self) -> usize {
        self.shared.room.contacts.load(Ordering::SeqCst)
    }

    /// All calls: `POST /users/@me/channels` and so on.
    #[must_use]
    pub fn calls(&self) -> Vec<String> {
        self.shared.room.calls.lock().clone()
    }

    /// Bodies of the messages that were accepted, each with the id that was given.
    #[must_use]
    pub fn accepted(&self) -> Vec<(Value, String)> {
        self.shared.room.accepted.lock().clone()
    }

    /// Waits until so many were accepted.
    pub fn until_accepted(&self, count: usize) -> BoxFuture<'_, ()> {
        self.until(move |discord| discord.shared.room.accepted.lock().len() >= count)
    }

    /// Waits until something holds that rings the bell.
    pub fn until<'a>(&'a self, holds: impl Fn(&Self) -> bool + Send + 'a) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let mut bell = self.shared.bell.subscribe();
            while !holds(self) {
                bell.changed().await.expect("the bell lives as long as the service");
            }
        })
    }

    /// A message as it stands now, `CHANNEL:ID`.
    #[must_use]
    pub fn message(&self, id: &str) -> Option<Value> {
        self.shared.world.lock().message(id)
    }

    /// Texts of the bot's messages that are there, in order.
    #[must_use]
    pub fn bot_texts(&self) -> Vec<String> {
        self.shared.world.lock().bot_texts()
    }

    /// How many of the events that people caused were named as received.
    #[must_use]
    pub fn acknowledged(&self) -> usize {
        self.shared.world.lock().acknowledged()
    }

    /// Waits until so many were.
    pub fn until_acknowledged(&self, count: usize) -> BoxFuture<'_, ()> {
        self.until(move |discord| discord.acknowledged() >= count)
    }

    /// Sessions that were begun, and resumptions of them.
    #[must_use]
    pub fn sessions(&self) -> (usize, usize) {
        let world = self.shared.world.lock();
        (world.identified, world.resumed)
    }

    /// Intents of the last session.
    #[must_use]
    pub fn intents(&self) -> u64 {
        self.shared.world.lock().intents
    }

    /// Answers to presses: the interaction and the JSON.
    #[must_use]
    pub fn callbacks(&self) -> Vec<(String, Value)> {
        self.shared.world.lock().callbacks.clone()
    }

    /// A person writes to the bot alone, or as an answer to a message.
    pub fn write(&self, user: &str, text: &str, answers: Option<&str>) -> Sent {
        self.change(|world| world.write(user, None, text, answers))
    }

    /// A person writes in the shared channel.
    pub fn write_shared(&self, user: &str, text: &str, answers: Option<&str>) -> Sent {
        self.change(|world| world.write(user, Some(SHARED), text, answers))
    }

    /// A person presses a button of a message. False when it has no such button.
    pub fn press(&self, user: &str, message: &str, value: &str) -> bool {
        self.change(|world| world.press(user, message, value))
    }

    /// A person changes what they wrote.
    pub fn edit(&self, message: &str, text: &str) -> bool {
        self.change(|world| world.edit(message, text))
    }

    /// A person takes back what they wrote.
    pub fn delete(&self, message: &str) -> bool {
        self.change(|world| world.delete(message))
    }

    /// A person takes no messages of the bot any more.
    pub fn block(&self, user: &str) {
        self.change(|world| world.block(user));
    }

    /// The token holds no more; connections end.
    pub fn revoke(&self) {
        self.shared.world.lock().token.clear();
        self.upset(Upset::Close(4004));
    }

    /// An event as it is, made by nobody.
    pub fn dispatch(&self, kind: &str, data: Value) {
        self.change(|world| world.dispatch(kind, data, true));
    }

    /// Heartbeats are answered, or not.
    pub fn set_answers_heartbeats(&self, answers: bool) {
        self.change(|world| world.answers_heartbeats = answers);
    }

    /// How often new connections are to send a heartbeat.
    pub fn set_heartbeat_ms(&self, interval_ms: u64) {
        self.change(|world| world.heartbeat_ms = interval_ms);
    }

    /// Sessions are forgotten, and what happens until the next one is brought to nobody.
    pub fn forget_sessions(&self) {
        self.change(World::forget_sessions);
    }

    /// Does something to all that are connected.
    pub fn upset(&self, upset: Upset) {
        self.change(|world| world.upsets.push(upset));
    }

    fn change<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        let done = change(&mut self.shared.world.lock());
        self.shared.ring();
        done
    }
}

struct Names(Arc<Shared>);

impl Lookup for Names {
    fn lookup(&self, _host: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let mut script = self.0.room.script.lock();
        let is_away = script.front() == Some(&Behaviour::Unreachable);
        if is_away {
            script.pop_front();
        }
        // Nobody listens at the second one.
        let last = if is_away { 2 } else { 1 };
        Box::pin(async move { Ok(vec![IpAddr::V4(Ipv4Addr::new(127, 0, 0, last))]) })
    }
}

/// A request that was read, for the routes.
type Call = Request;
