//! The Bot API of Telegram: `getMe`, `sendMessage`, `editMessageText`, `answerCallbackQuery`, `getUpdates` (held, with its conflicts),
//! `setWebhook` and its companions; groups, presses, edits, blocks, and a token that can be revoked. HTML is read strictly, and what the
//! API makes clickable by itself is an entity here too.

mod act;
mod api;
mod html;
mod server;
mod wire;
mod world;

pub use act::act;
pub use world::{Accepted, Failure};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use switchboard_channels::conformance::Behaviour;
use switchboard_channels::guard::Lookup;
use switchboard_core::port::channel::Pushed;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use world::{Chat, World, merge};

/// The token of a stand-in that runs as a program.
pub const TOKEN: &str = "123456789:AAstandin-stands-in_for-telegrams";
/// A person who has started the bot.
pub const ADA: i64 = 4711;
/// Another.
pub const EVE: i64 = 666;
/// A supergroup with both of them, the bot, and a number beyond what a double holds.
pub const GROUP: i64 = -1_009_007_199_254_740_993;
/// The bot's name.
pub const USERNAME: &str = "switchboard_bot";

/// A running stand-in.
pub struct Telegram {
    /// Where it listens.
    pub address: SocketAddr,
    room: Arc<Room>,
    task: JoinHandle<()>,
}

struct Room {
    world: Mutex<World>,
    ticks: watch::Sender<usize>,
    together: watch::Sender<(usize, usize)>,
}

impl Room {
    fn change<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        let changed = change(&mut self.world.lock());
        self.ticks.send_modify(|tick| *tick += 1);
        changed
    }

    async fn until(&self, holds: impl Fn(&World) -> bool) {
        let mut ticks = self.ticks.subscribe();
        while !holds(&self.world.lock()) {
            if ticks.changed().await.is_err() {
                return;
            }
        }
    }
}

impl Drop for Telegram {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn chat(kind: &str, title: &str) -> Chat {
    Chat { kind: kind.into(), title: title.into(), ..Chat::default() }
}

impl Telegram {
    /// A stand-in in which `token`, a number and a colon and a secret, is a bot's.
    pub async fn start(token: &str) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let bot = token.split(':').next().and_then(|bot| bot.parse().ok());
        let bot = bot.ok_or(io::ErrorKind::InvalidInput)?;
        let mut world = World {
            token: token.into(),
            bot,
            username: USERNAME.into(),
            last_update: 1000,
            ..World::default()
        };
        world.chats.insert(ADA, chat("private", "Ada"));
        world.chats.insert(EVE, chat("private", "Eve"));
        world.chats.insert(GROUP, chat("supergroup", "Deployments"));
        let room = Arc::new(Room {
            world: Mutex::new(world),
            ticks: watch::Sender::new(0),
            together: watch::Sender::new((0, 0)),
        });
        let task = tokio::spawn(server::serve(listener, room.clone()));
        Ok(Self { address, room, task })
    }

    /// Its address as a URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Leads every name here; while the service is not there, to where nobody listens.
    #[must_use]
    pub fn lookup(&self) -> Arc<dyn Lookup> {
        Arc::new(Leads(self.room.clone()))
    }

    /// How the next message is treated, after those that were said before. False when the Bot API cannot behave so: it has no answer
    /// that says that a message was surely not taken and may be later, and asks to wait in numbers alone.
    #[must_use]
    pub fn script(&self, behaviour: Behaviour) -> bool {
        use switchboard_channels::conformance::Wait;
        let can = !matches!(behaviour, Behaviour::Busy | Behaviour::Throttle(Wait::Date(_)));
        if can {
            self.room.change(|world| world.script.push_back(behaviour));
        }
        can
    }

    /// What is done to the next call of a method.
    pub fn fail(&self, method: &str, failure: Failure) {
        self.room.change(|world| world.failures.entry(method.to_lowercase()).or_default().push_back(failure));
    }

    /// How many connections were made to send a message.
    #[must_use]
    pub fn contacts(&self) -> usize {
        self.room.world.lock().contacts
    }

    /// Messages that were accepted.
    #[must_use]
    pub fn accepted(&self) -> Vec<Accepted> {
        self.room.world.lock().accepted.clone()
    }

    /// Waits for so many.
    pub async fn until_accepted(&self, count: usize) {
        self.room.until(|world| world.accepted.len() >= count).await;
    }

    /// How many updates were acknowledged.
    #[must_use]
    pub fn acknowledged(&self) -> usize {
        self.room.world.lock().acknowledged
    }

    /// Waits for so many.
    pub async fn until_acknowledged(&self, count: usize) {
        self.room.until(|world| world.acknowledged >= count).await;
    }

    /// The parameters of the calls of a method.
    #[must_use]
    pub fn calls(&self, method: &str) -> Vec<Value> {
        let world = self.room.world.lock();
        let of_method = |call: &&(String, Value)| call.0.eq_ignore_ascii_case(method);
        world.calls.iter().filter(of_method).map(|(_, parameters)| parameters.clone()).collect()
    }

    /// Waits for so many calls of a method.
    pub async fn until_called(&self, method: &str, count: usize) {
        let is = |world: &World| {
            world.calls.iter().filter(|(called, _)| called.eq_ignore_ascii_case(method)).count() >= count
        };
        self.room.until(is).await;
    }

    /// A message as it is now.
    #[must_use]
    pub fn shown(&self, chat: i64, message: i64) -> Option<Value> {
        self.room.world.lock().messages.get(&(chat, message)).cloned()
    }

    /// A person writes: `content` has the members of the message, `text` or others; `reply_to` in it is a message's number. The message.
    #[must_use]
    pub fn write(&self, person: i64, chat: i64, content: &Value) -> Value {
        self.room.change(|world| {
            let mut content = entities(content);
            if let Some(number) = content.get("reply_to").and_then(Value::as_i64) {
                content["reply_to_message"] =
                    world.messages.get(&(chat, number)).cloned().unwrap_or_default();
            }
            let person = world.person(person);
            let message = world.add(chat, &person, &content);
            world.tell("message", &message);
            message
        })
    }

    /// A person changes what they wrote.
    pub fn edit(&self, chat: i64, message: i64, content: &Value) {
        self.room.change(|world| {
            let now_s = world.now_s();
            let Some(message) = world.messages.get_mut(&(chat, message)) else { return };
            merge(message, &entities(content));
            message["edit_date"] = now_s.into();
            let message = message.clone();
            world.tell("edited_message", &message);
        });
    }

    /// A person takes a message away. The bot is not told.
    pub fn delete(&self, chat: i64, message: i64) {
        self.room.change(|world| world.messages.remove(&(chat, message)));
    }

    /// A person presses a button, or sends what one might send. The id of the press.
    #[must_use]
    pub fn press(&self, person: i64, chat: i64, message: i64, data: &str) -> String {
        self.room.change(|world| {
            let query = format!("{}{}", world.bot, world.last_update + 1);
            let message = world.messages.get(&(chat, message)).cloned();
            let gone = json!({ "message_id": message, "chat": world.chat(chat), "date": 0 });
            let press = json!({
                "id": query, "from": world.person(person), "message": message.unwrap_or(gone),
                "chat_instance": "1", "data": data,
            });
            world.presses.push(query.clone());
            world.tell("callback_query", &press);
            query
        })
    }

    /// A person blocks the bot, or takes that back.
    pub fn block(&self, person: i64, blocked: bool) {
        self.room.change(|world| {
            let closed = blocked.then(|| (403, "Forbidden: bot was blocked by the user".to_owned()));
            world.chats.entry(person).or_default().closed = closed;
            let status = |kicked| if kicked { "kicked" } else { "member" };
            let member = |kicked| {
                let mut member = json!({ "user": world.me(), "status": status(kicked) });
                if kicked {
                    member["until_date"] = 0.into();
                }
                member
            };
            let (old, new) = (member(!blocked), member(blocked));
            let change = json!({
                "chat": world.chat(person), "from": world.person(person), "date": world.now_s(),
                "old_chat_member": old, "new_chat_member": new,
            });
            world.tell("my_chat_member", &change);
        });
    }

    /// Nobody can write to a chat any more.
    pub fn close(&self, chat: i64, code: u16, description: &str) {
        self.room.change(|world| {
            world.chats.entry(chat).or_default().closed = Some((code, description.to_owned()));
        });
    }

    /// A group becomes a supergroup with another number.
    pub fn migrate(&self, group: i64, new: i64) {
        self.room.change(|world| world.chats.entry(group).or_default().migrated_to = Some(new));
    }

    /// A chat takes so many messages more and then asks to wait so many seconds; `None` ends that.
    pub fn flood(&self, chat: i64, flood: Option<(u32, u64)>) {
        self.room.change(|world| world.chats.entry(chat).or_default().flood = flood);
    }

    /// The token is worth nothing any more.
    pub fn revoke(&self) {
        self.room.change(|world| world.token.clear());
    }

    /// Another program sets a webhook, or with an empty address removes it.
    pub fn set_webhook(&self, url: &str) {
        self.room.change(|world| url.clone_into(&mut world.webhook.url));
    }

    /// Something else that the API tells.
    pub fn tell(&self, kind: &str, what: &Value) {
        self.room.change(|world| world.tell(kind, what));
    }

    /// The next update as it is posted to the webhook.
    #[must_use]
    pub fn next_push(&self) -> Option<Pushed> {
        let world = self.room.world.lock();
        let body = world.updates.front()?.to_string().into_bytes();
        let secret = world.webhook.secret.clone().into_bytes();
        let headers = vec![
            ("content-type".to_owned(), b"application/json".to_vec()),
            ("x-telegram-bot-api-secret-token".to_owned(), secret),
        ];
        Some(Pushed { headers, query: String::new(), body })
    }

    /// What it was answered with; `at_s` is when, in the service's time.
    pub fn pushed(&self, status: u16, at_s: i64) {
        self.room.change(|world| {
            if (200..300).contains(&status) {
                world.updates.pop_front();
                world.acknowledged += 1;
            } else {
                world.webhook.error = Some((at_s, format!("Wrong response from the webhook: {status}")));
            }
        });
    }
}

/// Content with the entities that the API finds in its text.
fn entities(content: &Value) -> Value {
    let mut content = content.clone();
    for (text, name) in [("text", "entities"), ("caption", "caption_entities")] {
        let found = content
            .get(text)
            .and_then(Value::as_str)
            .map(|text| html::plain(text).entities)
            .unwrap_or_default();
        if content.get(name).is_none() && !found.is_empty() {
            content[name] = found.into();
        }
    }
    content
}

struct Leads(Arc<Room>);

impl Lookup for Leads {
    fn lookup(&self, _host: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let mut world = self.0.world.lock();
        let is_away = world.script.front() == Some(&Behaviour::Unreachable);
        if is_away {
            world.script.pop_front();
        }
        let last = if is_away { 2 } else { 1 };
        Box::pin(std::future::ready(Ok(vec![IpAddr::V4(Ipv4Addr::new(127, 0, 0, last))])))
    }
}
