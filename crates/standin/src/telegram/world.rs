//! What the stand-in knows: chats, messages, and what waits to be told.

use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use switchboard_channels::conformance::Behaviour;

/// A time of the service's, in Unix seconds; each message is a second later.
const BEGIN_S: i64 = 1_790_000_000;

/// What was accepted by `sendMessage`.
#[derive(Debug, Clone)]
pub struct Accepted {
    /// `x-request-id` of the call.
    pub request_id: String,
    /// The text as it was sent.
    pub html: String,
    /// The body of the call.
    pub body: Vec<u8>,
    /// The chat.
    pub chat: i64,
    /// The message's number in it.
    pub message: i64,
}

/// What is done to the next call of a method.
#[derive(Debug, Clone)]
pub enum Failure {
    /// The call is carried out, and the connection is cut before an answer.
    Cut,
    /// It is answered so instead, and nothing happens.
    Answer(u16, &'static str),
}

/// A chat.
#[derive(Debug, Clone, Default)]
pub struct Chat {
    /// `private`, `group`, `supergroup` or `channel`.
    pub kind: String,
    /// The person's name, or the title.
    pub title: String,
    /// Why nobody can write to it any more: code and description.
    pub closed: Option<(u16, String)>,
    /// The supergroup that it has become.
    pub migrated_to: Option<i64>,
    /// After so many messages it asks to wait so many seconds.
    pub flood: Option<(u32, u64)>,
    /// Number of its last message.
    pub last_message: i64,
}

/// The webhook that is set.
#[derive(Debug, Clone, Default)]
pub struct Webhook {
    /// Where to.
    pub url: String,
    /// What is shown.
    pub secret: String,
    /// When a delivery failed, and why.
    pub error: Option<(i64, String)>,
}

/// All of it.
#[derive(Default)]
pub struct World {
    pub token: String,
    pub bot: i64,
    pub username: String,
    pub chats: BTreeMap<i64, Chat>,
    /// Messages as the API shows them, by chat and number.
    pub messages: BTreeMap<(i64, i64), Value>,
    pub updates: VecDeque<Value>,
    pub allowed: Vec<String>,
    pub last_update: i64,
    pub acknowledged: usize,
    /// Counts requests for updates: a later one ends an earlier one.
    pub polls: u64,
    pub webhook: Webhook,
    pub script: VecDeque<Behaviour>,
    pub failures: BTreeMap<String, VecDeque<Failure>>,
    pub contacts: usize,
    pub accepted: Vec<Accepted>,
    /// Calls in order: method and parameters.
    pub calls: Vec<(String, Value)>,
    /// Presses that wait for an answer.
    pub presses: Vec<String>,
    pub told_s: i64,
}

impl World {
    /// The bot as a user.
    pub fn me(&self) -> Value {
        json!({ "id": self.bot, "is_bot": true, "first_name": "Switchboard", "username": self.username })
    }

    /// A chat as messages name it.
    pub fn chat(&self, id: i64) -> Value {
        let chat = self.chats.get(&id).cloned().unwrap_or_default();
        let name = if chat.kind == "private" { "first_name" } else { "title" };
        json!({ "id": id, "type": chat.kind, name: chat.title })
    }

    /// A person.
    pub fn person(&self, id: i64) -> Value {
        let name = self.chats.get(&id).map_or("Somebody", |chat| chat.title.as_str());
        json!({ "id": id, "is_bot": false, "first_name": name, "language_code": "en" })
    }

    /// The next second.
    pub fn now_s(&mut self) -> i64 {
        self.told_s += 1;
        BEGIN_S + self.told_s
    }

    /// A new message of `from` in a chat, with the members of `content`.
    pub fn add(&mut self, chat: i64, from: &Value, content: &Value) -> Value {
        let number = {
            let chat = self.chats.entry(chat).or_default();
            chat.last_message += 1;
            chat.last_message
        };
        let mut message =
            json!({ "message_id": number, "from": from, "chat": self.chat(chat), "date": self.now_s() });
        merge(&mut message, content);
        self.messages.insert((chat, number), message.clone());
        message
    }

    /// Something to tell the bot, if it wants such things; the number of the update.
    pub fn tell(&mut self, kind: &str, what: &Value) -> i64 {
        self.last_update += 1;
        if self.allowed.is_empty() || self.allowed.iter().any(|allowed| allowed == kind) {
            self.updates.push_back(json!({ "update_id": self.last_update, kind: what }));
        }
        self.last_update
    }

    /// Forgets what comes before `offset`.
    pub fn acknowledge(&mut self, offset: i64) {
        let before = self.updates.len();
        self.updates.retain(|update| update["update_id"].as_i64() >= Some(offset));
        self.acknowledged += before - self.updates.len();
    }
}

/// Puts the members of `more` into `object`.
pub fn merge(object: &mut Value, more: &Value) {
    if let (Some(object), Some(more)) = (object.as_object_mut(), more.as_object()) {
        object.extend(more.clone());
    }
}
