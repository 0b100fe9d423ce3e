//! A channel with a proxy between it and a real homeserver.

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use switchboard_channels::conformance::{Accepted, Behaviour, Fixture, SECRET, Shown};
use switchboard_channels::document::{Document, WORD_JOINER};
use switchboard_channels::matrix::{Matrix, Settings};
use switchboard_core::port::channel::{AddressKind, Channel, Part};
use switchboard_core::random::SystemEntropy;
use switchboard_core::time::SystemClock;
use switchboard_standin::http::Request;
use switchboard_standin::proxy::Proxy;
use switchboard_standin::synapse::{Synapse, User};
use tokio::sync::watch;

/// Where the account keeps how far it has read.
pub const OFFSET: &str = "io.switchboard.sync";
/// What the channel says of its messages beside what people read.
pub const OWN: &str = "io.switchboard.message";
/// Lines that the channel adds to a body begin with one of these, or with a keycap.
const ADDED: [&str; 7] = [
    "Question from ",
    "Approval wanted by ",
    "From <strong>",
    "React with a number",
    "Answer in a browser: ",
    "An answer counts until ",
    "[SB-",
];

/// What the proxy has seen.
#[derive(Default)]
pub struct Seen {
    /// Our messages as they are now.
    pub messages: Mutex<HashMap<String, Value>>,
    /// How often it was written down how far we have read.
    pub kept: watch::Sender<usize>,
    /// Rooms that were made.
    pub rooms: watch::Sender<usize>,
}

impl Seen {
    fn note(&self, request: &Request, answer: &Value) {
        let path = request.path();
        match path.get(3).map(String::as_str) {
            Some("createRoom") => self.rooms.send_modify(|rooms| *rooms += 1),
            Some("user") if path.get(6).is_some_and(|kind| kind == OFFSET) && request.method == "PUT" => {
                self.kept.send_modify(|kept| *kept += 1);
            }
            Some("rooms") if path.get(5).is_some_and(|step| step == "send") => {
                let Some(event) = answer["event_id"].as_str() else { return };
                let content = request.json();
                let replaced = content["m.relates_to"]["rel_type"] == "m.replace";
                let target = content["m.relates_to"]["event_id"].as_str().filter(|_| replaced);
                let shown = if replaced { content["m.new_content"].clone() } else { content.clone() };
                self.messages.lock().insert(target.unwrap_or(event).to_owned(), shown);
            }
            _ => {}
        }
    }
}

/// An account that the channel has, a person, and a room of both.
pub struct Party {
    pub proxy: Proxy,
    pub seen: Arc<Seen>,
    pub channel: Arc<Matrix>,
    pub bot: User,
    pub ada: User,
    /// The talk of both.
    pub room: String,
    /// A room for several, by its alias.
    pub alias: String,
    /// What Ada wrote, by the names that tests give.
    events: watch::Sender<HashMap<String, String>>,
}

pub fn settings(proxy: &Proxy, bot: &User) -> Settings {
    // The proxy takes the canary off again.
    let token = format!("{SECRET}{}", bot.token);
    Settings {
        connect_timeout: Duration::from_secs(2),
        timeout: Duration::from_secs(8),
        poll: Duration::from_secs(2),
        backoff: (Duration::from_millis(20), Duration::from_millis(200)),
        ..Settings::new(
            "matrix",
            &format!("http://{}", proxy.address),
            token.as_str().into(),
            Arc::new(SystemClock::default()),
            Arc::new(SystemEntropy),
        )
    }
}

impl Party {
    pub async fn start() -> Self {
        let synapse = Synapse::shared().await;
        let (bot, ada) = (synapse.register("bot").await, synapse.register("ada").await);
        let seen = Arc::new(Seen::default());
        let noting = seen.clone();
        let note = move |request: &Request, _, answer: &Value| noting.note(request, answer);
        let proxy = Proxy::start(synapse.socket().to_owned(), text_of_content, note).await;
        let channel = Arc::new(Matrix::new(settings(&proxy, &bot)).unwrap());
        let content = json!({ "preset": "private_chat", "is_direct": true, "invite": [bot.id] });
        let room = ada.create_room(content).await;
        bot.join(&room).await;
        let local = ada.id[1..].replace(':', ".");
        let content = json!({ "preset": "public_chat", "room_alias_name": local, "invite": [bot.id] });
        let shared = ada.create_room(content).await;
        bot.join(&shared).await;
        let alias = format!("#{local}:hs.test");
        let direct = format!("user/{}/account_data/m.direct", bot.id);
        bot.call("PUT", &direct, &json!({ &ada.id: [room] })).await;
        let party = Self { proxy, seen, channel, bot, ada, room, alias, events: watch::Sender::default() };
        party.read_up_to_here().await;
        party
    }

    /// As if the channel had listened until now.
    async fn read_up_to_here(&self) {
        let synced = self.bot.get("sync?timeout=0").await;
        let now_ms = switchboard_core::time::Clock::wall_ms(&SystemClock::default());
        let offset = json!({ "since": synced["next_batch"], "at_ms": now_ms });
        self.bot.call("PUT", &format!("user/{}/account_data/{OFFSET}", self.bot.id), &offset).await;
    }

    pub async fn shared_room(&self) -> String {
        let found = self.ada.get(&format!("directory/room/{}", self.alias.replace('#', "%23"))).await;
        found["room_id"].as_str().unwrap().to_owned()
    }

    /// Ada does something in the room of both, under a name of the test's.
    fn act(
        &self,
        event: &str,
        of: Option<&str>,
        kind: &'static str,
        content: impl FnOnce(Option<String>) -> Value + Send + 'static,
    ) {
        let (ada, room, events) = (self.ada.clone(), self.room.clone(), self.events.clone());
        let (event, of) = (event.to_owned(), of.map(str::to_owned));
        tokio::spawn(async move {
            let target = match of {
                Some(of) => {
                    let mut known = events.subscribe();
                    let found = known.wait_for(|known| known.contains_key(&of)).await.unwrap()[&of].clone();
                    Some(found)
                }
                None => None,
            };
            let id = match (kind, &target) {
                ("redact", Some(target)) => {
                    let path = format!("rooms/{room}/redact/{target}/{event}");
                    let redacted = ada.call("PUT", &path, &json!({})).await;
                    redacted["event_id"].as_str().unwrap().to_owned()
                }
                _ => ada.send_event(&room, kind, &event, &content(target)).await,
            };
            events.send_modify(|known| drop(known.insert(event, id)));
        });
    }
}

/// The text that a person reads of some HTML, without what the channel adds.
fn foreign(html: &str) -> String {
    let is_added = |line: &&str| {
        let text = line.strip_prefix("<p>").unwrap_or(line);
        let is_keycap = text.chars().nth(2) == Some('\u{20e3}');
        let is_number =
            line.starts_with("<p>(") && line.ends_with(")</p>") && line.contains('/') && line.len() < 24;
        is_keycap || is_number || ADDED.iter().any(|added| text.starts_with(added))
    };
    let lines: Vec<&str> = html.split('\n').filter(|line| !is_added(line)).collect();
    visible(&lines.join("\n"))
}

/// The text that a person reads of some HTML.
pub fn visible(html: &str) -> String {
    let mut text = String::new();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        text.push_str(&rest[..at]);
        rest = &rest[rest[at..].find('>').unwrap() + at + 1..];
    }
    text.push_str(rest);
    let text = text.replace(WORD_JOINER, "").replace("&lt;", "<").replace("&gt;", ">");
    text.replace("&quot;", "\"").replace("&#39;", "'").replace("&amp;", "&")
}

fn text_of_content(content: &Value) -> String {
    foreign(content["formatted_body"].as_str().unwrap_or_default())
}

impl Fixture for Party {
    fn channel(&self) -> Arc<dyn Channel> {
        self.channel.clone()
    }

    fn script(&self, behaviour: Behaviour) -> bool {
        self.proxy.script(behaviour);
        true
    }

    fn contacts(&self) -> usize {
        self.proxy.contacts()
    }

    fn accepted(&self) -> Vec<Accepted> {
        self.proxy.accepted()
    }

    fn until_accepted(&self, count: usize) -> BoxFuture<'_, ()> {
        Box::pin(self.proxy.until_accepted(count))
    }

    fn address(&self, kind: AddressKind) -> Option<String> {
        Some(if kind == AddressKind::Direct { self.ada.id.clone() } else { self.alias.clone() })
    }

    fn junk(&self) -> Vec<String> {
        [
            "ada",
            "ada@example.org",
            "@ada",
            "#team",
            "!",
            "$event:hs.test",
            "@ada:hs.test/x",
            "https://matrix.to/#/@ada:hs.test",
        ]
        .map(str::to_owned)
        .to_vec()
    }

    fn text_of(&self, part: &Part) -> String {
        foreign(part.html.as_deref().unwrap())
    }

    fn rendered(&self, body: &str) -> String {
        Document::parse(body).visible()
    }

    fn debug(&self) -> String {
        format!("{:?} {:?}", self.channel, settings(&self.proxy, &self.bot))
    }

    fn offer(&self, event: &str, text: &str) -> bool {
        let content = json!({ "msgtype": "m.text", "body": text });
        self.act(event, None, "m.room.message", move |_| content);
        true
    }

    fn acknowledged(&self) -> usize {
        *self.seen.kept.borrow()
    }

    fn until_acknowledged(&self, count: usize) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.seen.kept.subscribe().wait_for(|kept| *kept >= count).await.ok();
        })
    }

    fn press(&self, event: &str, message_id: &str, value: &str) -> bool {
        let own = self.seen.messages.lock()[message_id][OWN].clone();
        let number =
            own["choices"].as_array().unwrap().iter().position(|choice| choice == value).unwrap() + 1;
        let relation = json!({ "rel_type": "m.annotation", "event_id": message_id, "key": format!("{number}\u{fe0f}\u{20e3}") });
        self.act(event, None, "m.reaction", move |_| json!({ "m.relates_to": relation }));
        true
    }

    fn change(&self, event: &str, of: &str, text: Option<&str>) -> bool {
        match text.map(str::to_owned) {
            Some(text) => self.act(event, Some(of), "m.room.message", move |target| {
                json!({
                    "msgtype": "m.text", "body": format!("* {text}"), "m.new_content": { "msgtype": "m.text", "body": text },
                    "m.relates_to": { "rel_type": "m.replace", "event_id": target },
                })
            }),
            None => self.act(event, Some(of), "redact", |_| Value::Null),
        }
        true
    }

    fn shown(&self, message_id: &str) -> Option<Shown> {
        let messages = self.seen.messages.lock();
        let content = messages.get(message_id)?;
        let buttons = content[OWN]["choices"].as_array().map_or(0, Vec::len);
        Some(Shown { text: visible(content["formatted_body"].as_str()?), buttons })
    }
}
