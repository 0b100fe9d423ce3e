//! What there is: people, channels, messages, and the sessions that are told of them.

use super::Upset;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The bot, which is its application too.
pub const BOT: &str = "1100000000000000001";
/// A person.
pub const ADA: &str = "1100000000000000002";
/// Another.
pub const BEN: &str = "1100000000000000003";
/// A server.
pub const GUILD: &str = "1100000000000000004";
/// A channel on it.
pub const SHARED: &str = "1100000000000000005";
/// The first snowflake that is given: 2027-01-15 08:00 UTC.
const FIRST: u64 = (1_800_000_000_000 - 1_420_070_400_000) << 22;
/// Intents.
const MESSAGE_CONTENT: u64 = 1 << 15;
const GUILD_MESSAGES: u64 = 1 << 9;
const DIRECT_MESSAGES: u64 = 1 << 12;

/// Status, code and sentence of a refusal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Refusal(pub u16, pub i64, pub &'static str);

pub(crate) const UNKNOWN_MESSAGE: Refusal = Refusal(404, 10_008, "Unknown Message");
const UNKNOWN_CHANNEL: Refusal = Refusal(404, 10_003, "Unknown Channel");
const INVALID_FORM: Refusal = Refusal(400, 50_035, "Invalid Form Body");

/// A message that a person wrote, as `CHANNEL:ID`.
pub type Sent = String;

/// One session of the gateway.
#[derive(Debug, Default)]
pub(crate) struct Session {
    pub events: Vec<(String, Value)>,
    pub intents: u64,
    /// Last event that was named as received.
    pub acknowledged: u64,
    /// Numbers of events that people caused.
    by_people: Vec<u64>,
}

/// All of it.
pub(crate) struct World {
    pub token: String,
    gateway_url: String,
    next: u64,
    direct: HashMap<String, String>,
    blocked: HashSet<String>,
    messages: BTreeMap<(String, u64), Value>,
    nonces: HashMap<String, (String, u64)>,
    presses: HashMap<String, String>,
    pub callbacks: Vec<(String, Value)>,
    pub sessions: BTreeMap<String, Session>,
    early: Vec<(String, Value, bool)>,
    begun: bool,
    pub identified: usize,
    pub resumed: usize,
    pub intents: u64,
    pub answers_heartbeats: bool,
    pub heartbeat_ms: u64,
    pub upsets: Vec<Upset>,
    pub application_flags: u64,
}

/// A user as the service shows them.
pub(crate) fn account(id: &str) -> Value {
    let name = match id {
        BOT => "switchboard",
        ADA => "ada",
        BEN => "ben",
        _ => "somebody",
    };
    json!({
        "id": id,
        "username": name,
        "global_name": null,
        "discriminator": "0",
        "avatar": null,
        "bot": id == BOT,
        "flags": 0,
        "public_flags": 0,
    })
}

impl World {
    pub fn new(token: &str, gateway_url: &str) -> Self {
        Self {
            token: token.to_owned(),
            gateway_url: gateway_url.to_owned(),
            next: 0,
            direct: HashMap::new(),
            blocked: HashSet::new(),
            messages: BTreeMap::new(),
            nonces: HashMap::new(),
            presses: HashMap::new(),
            callbacks: Vec::new(),
            sessions: BTreeMap::new(),
            early: Vec::new(),
            begun: false,
            identified: 0,
            resumed: 0,
            intents: 0,
            answers_heartbeats: true,
            heartbeat_ms: 200,
            upsets: Vec::new(),
            application_flags: 1 << 19,
        }
    }

    /// A new id, a millisecond after the last one.
    fn id(&mut self) -> u64 {
        self.next += 1;
        FIRST + (self.next << 22)
    }

    fn stamp(id: u64) -> String {
        let ms = (id - FIRST) >> 22;
        format!("2027-01-15T08:{:02}:{:02}.{:03}000+00:00", ms / 60_000 % 60, ms / 1000 % 60, ms % 1000)
    }

    fn direct_with(&mut self, user: &str) -> String {
        if !self.direct.contains_key(user) {
            let id = self.id().to_string();
            self.direct.insert(user.to_owned(), id);
        }
        self.direct[user].clone()
    }

    fn recipient(&self, channel: &str) -> Option<&String> {
        self.direct.iter().find(|(_, id)| *id == channel).map(|(user, _)| user)
    }

    pub fn user(id: &str) -> Result<Value, Refusal> {
        let known = [BOT, ADA, BEN].contains(&id);
        if known { Ok(account(id)) } else { Err(Refusal(404, 10_013, "Unknown User")) }
    }

    pub fn open(&mut self, user: &str) -> Result<Value, Refusal> {
        if ![ADA, BEN].contains(&user) {
            return Err(Refusal(400, 50_033, "Invalid Recipient(s)"));
        }
        let id = self.direct_with(user);
        self.channel(&id)
    }

    pub fn channel(&self, id: &str) -> Result<Value, Refusal> {
        if id == SHARED {
            return Ok(json!({
                "id": SHARED, "type": 0, "guild_id": GUILD, "name": "general", "position": 0,
                "permission_overwrites": [], "nsfw": false, "parent_id": null,
            }));
        }
        let user = self.recipient(id).ok_or(UNKNOWN_CHANNEL)?;
        Ok(json!({ "id": id, "type": 1, "last_message_id": null, "recipients": [account(user)], "flags": 0 }))
    }

    /// The message of the bot that a body asks for.
    pub fn post(&mut self, channel: &str, body: &Value) -> Result<Value, Refusal> {
        let recipient = self.recipient(channel).cloned();
        if recipient.is_none() && channel != SHARED {
            return Err(UNKNOWN_CHANNEL);
        }
        if recipient.is_some_and(|user| self.blocked.contains(&user)) {
            return Err(Refusal(403, 50_007, "Cannot send messages to this user"));
        }
        check(body)?;
        let nonce = body["nonce"].as_str().map(str::to_owned).filter(|_| body["enforce_nonce"] == true);
        if let Some((channel, id)) = nonce.as_ref().and_then(|nonce| self.nonces.get(nonce)) {
            return Ok(self.messages[&(channel.clone(), *id)].clone());
        }
        let answered = Some(id(&body["message_reference"]["message_id"])).filter(|id| !id.is_empty());
        let answered = answered.map(|id| format!("{channel}:{id}"));
        let reference = answered.as_ref().and_then(|id| self.message(id));
        if answered.is_some()
            && reference.is_none()
            && body["message_reference"]["fail_if_not_exists"] != false
        {
            return Err(INVALID_FORM);
        }
        let id = self.id();
        let mut message = Self::message_of(
            BOT,
            channel,
            id,
            body["content"].as_str().unwrap_or_default(),
            reference.as_ref(),
        );
        message["components"] = body.get("components").cloned().unwrap_or_else(|| json!([]));
        message["flags"] = body.get("flags").cloned().unwrap_or_else(|| json!(0));
        self.messages.insert((channel.to_owned(), id), message.clone());
        if let Some(nonce) = nonce {
            message["nonce"] = json!(nonce);
            self.nonces.insert(nonce, (channel.to_owned(), id));
        }
        self.dispatch("MESSAGE_CREATE", message.clone(), false);
        Ok(message)
    }

    fn message_of(author: &str, channel: &str, id: u64, text: &str, answered: Option<&Value>) -> Value {
        let mentions: Vec<Value> = [BOT, ADA, BEN]
            .into_iter()
            .filter(|user| text.contains(&format!("<@{user}>")))
            .map(account)
            .collect();
        let mut message = json!({
            "id": id.to_string(),
            "channel_id": channel,
            "type": if answered.is_some() { 19 } else { 0 },
            "author": account(author),
            "content": text,
            "timestamp": Self::stamp(id),
            "edited_timestamp": null,
            "tts": false,
            "mention_everyone": false,
            "mentions": mentions,
            "mention_roles": [],
            "attachments": [],
            "embeds": [],
            "components": [],
            "pinned": false,
            "flags": 0,
        });
        if channel == SHARED {
            message["guild_id"] = json!(GUILD);
            message["member"] = json!({
                "roles": [], "joined_at": Self::stamp(FIRST), "deaf": false, "mute": false, "flags": 0,
            });
        }
        if let Some(answered) = answered {
            message["message_reference"] =
                json!({ "type": 0, "message_id": answered["id"], "channel_id": channel });
            message["referenced_message"] = answered.clone();
        }
        message
    }

    pub fn amend(&mut self, id: &str, body: &Value) -> Result<Value, Refusal> {
        check(body)?;
        let key = key(id).ok_or(UNKNOWN_MESSAGE)?;
        let stamp = {
            let id = self.id();
            Self::stamp(id)
        };
        let message = self.messages.get_mut(&key).ok_or(UNKNOWN_MESSAGE)?;
        if message["author"]["id"] != BOT {
            return Err(Refusal(403, 50_005, "Cannot edit a message authored by another user"));
        }
        for member in ["content", "components", "flags"] {
            if let Some(value) = body.get(member) {
                message[member] = value.clone();
            }
        }
        message["edited_timestamp"] = json!(stamp);
        let message = message.clone();
        self.dispatch("MESSAGE_UPDATE", message.clone(), false);
        Ok(message)
    }

    /// Newest first, as the service does.
    pub fn page(&self, channel: &str, after: Option<&str>, limit: Option<&str>) -> Result<Value, Refusal> {
        self.channel(channel)?;
        let after: u64 = after.and_then(|id| id.parse().ok()).unwrap_or(0);
        let limit: usize = limit.and_then(|limit| limit.parse().ok()).unwrap_or(50);
        let found = self.messages.iter().filter(|((of, id), _)| of == channel && *id > after);
        let mut found: Vec<Value> = found.take(limit).map(|(_, message)| message.clone()).collect();
        found.reverse();
        Ok(Value::Array(found))
    }

    pub fn message(&self, id: &str) -> Option<Value> {
        self.messages.get(&key(id)?).cloned()
    }

    pub fn bot_texts(&self) -> Vec<String> {
        let ours = self.messages.values().filter(|message| message["author"]["id"] == BOT);
        let mut ours: Vec<&Value> = ours.collect();
        ours.sort_by_key(|message| message["id"].as_str().and_then(|id| id.parse::<u64>().ok()));
        ours.into_iter().map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
    }

    pub fn write(&mut self, user: &str, shared: Option<&str>, text: &str, answers: Option<&str>) -> Sent {
        let channel = shared.map_or_else(|| self.direct_with(user), str::to_owned);
        let answered = answers.and_then(|id| self.message(id));
        let id = self.id();
        let message = Self::message_of(user, &channel, id, text, answered.as_ref());
        self.messages.insert((channel.clone(), id), message.clone());
        self.dispatch("MESSAGE_CREATE", message, true);
        format!("{channel}:{id}")
    }

    pub fn press(&mut self, user: &str, message: &str, value: &str) -> bool {
        let Some(pressed) = self.message(message) else { return false };
        let rows = pressed["components"].as_array().cloned().unwrap_or_default();
        let mut buttons =
            rows.iter().flat_map(|row| row["components"].as_array().cloned().unwrap_or_default());
        if !buttons.any(|button| button["custom_id"] == value) {
            return false;
        }
        let id = self.id();
        let token = format!("press_{id}");
        self.presses.insert(id.to_string(), token.clone());
        let mut interaction = json!({
            "id": id.to_string(),
            "application_id": BOT,
            "type": 3,
            "token": token,
            "version": 1,
            "data": { "custom_id": value, "component_type": 2 },
            "channel_id": pressed["channel_id"],
            "message": pressed,
            "locale": "en-US",
            "attachment_size_limit": 10_485_760,
            "authorizing_integration_owners": {},
            "entitlements": [],
        });
        if pressed["channel_id"] == SHARED {
            interaction["guild_id"] = json!(GUILD);
            interaction["member"] = json!({
                "user": account(user), "roles": [], "joined_at": Self::stamp(FIRST), "permissions": "0",
                "deaf": false, "mute": false, "flags": 0,
            });
        } else {
            interaction["user"] = account(user);
        }
        self.dispatch("INTERACTION_CREATE", interaction, true);
        true
    }

    pub fn callback(&mut self, id: &str, token: &str, body: &Value) -> Result<Value, Refusal> {
        if self.presses.get(id).is_none_or(|known| known != token) {
            return Err(Refusal(404, 10_062, "Unknown interaction"));
        }
        if self.callbacks.iter().any(|(answered, _)| answered == id) {
            return Err(Refusal(400, 40_060, "Interaction has already been acknowledged."));
        }
        self.callbacks.push((id.to_owned(), body.clone()));
        Ok(Value::Null)
    }

    pub fn edit(&mut self, id: &str, text: &str) -> bool {
        let stamp = {
            let id = self.id();
            Self::stamp(id)
        };
        let Some(message) = key(id).and_then(|key| self.messages.get_mut(&key)) else { return false };
        message["content"] = json!(text);
        message["edited_timestamp"] = json!(stamp);
        let message = message.clone();
        self.dispatch("MESSAGE_UPDATE", message, true);
        true
    }

    pub fn delete(&mut self, id: &str) -> bool {
        let Some(message) = key(id).and_then(|key| self.messages.remove(&key)) else { return false };
        let mut gone = json!({ "id": message["id"], "channel_id": message["channel_id"] });
        if let Some(guild) = message.get("guild_id") {
            gone["guild_id"] = guild.clone();
        }
        self.dispatch("MESSAGE_DELETE", gone, true);
        true
    }

    pub fn block(&mut self, user: &str) {
        self.blocked.insert(user.to_owned());
    }

    pub fn dispatch(&mut self, kind: &str, data: Value, by_people: bool) {
        if !self.begun {
            self.early.push((kind.to_owned(), data, by_people));
            return;
        }
        for session in self.sessions.values_mut() {
            session.tell(kind, &data, by_people);
        }
    }

    /// A new session; its id.
    pub fn begin(&mut self, intents: u64) -> String {
        self.identified += 1;
        self.intents = intents;
        let id = format!("session{}", self.identified);
        let ready = json!({
            "v": 10,
            "user": account(BOT),
            "guilds": [],
            "private_channels": [],
            "session_id": id,
            "resume_gateway_url": self.gateway_url,
            "application": { "id": BOT, "flags": self.application_flags },
        });
        let mut session = Session { intents, ..Session::default() };
        session.events.push(("READY".to_owned(), ready));
        if !std::mem::replace(&mut self.begun, true) {
            for (kind, data, by_people) in std::mem::take(&mut self.early) {
                session.tell(&kind, &data, by_people);
            }
        }
        self.sessions.insert(id.clone(), session);
        id
    }

    pub fn forget_sessions(&mut self) {
        self.sessions.clear();
    }

    pub fn acknowledged(&self) -> usize {
        let of = |session: &Session| {
            session.by_people.iter().filter(|number| **number <= session.acknowledged).count()
        };
        self.sessions.values().map(of).sum()
    }
}

impl Session {
    /// An event, if its intents ask for it; without text where they do not.
    fn tell(&mut self, kind: &str, data: &Value, by_people: bool) {
        let mut data = data.clone();
        if kind.starts_with("MESSAGE_") {
            let is_shared = data.get("guild_id").is_some();
            let needed = if is_shared { GUILD_MESSAGES } else { DIRECT_MESSAGES };
            if self.intents & needed == 0 {
                return;
            }
            let mentions_bot =
                data["mentions"].as_array().is_some_and(|users| users.iter().any(|user| user["id"] == BOT));
            let is_bots = data["author"]["id"] == BOT;
            let is_kept = is_shared && !mentions_bot && !is_bots && self.intents & MESSAGE_CONTENT == 0;
            if is_kept && data.get("content").is_some() {
                data["content"] = json!("");
                data["attachments"] = json!([]);
            }
        }
        self.events.push((kind.to_owned(), data));
        if by_people {
            self.by_people.push(self.events.len() as u64);
        }
    }
}

/// An id, which the service takes as text and as a number.
pub(crate) fn id(value: &Value) -> String {
    value.as_str().map(str::to_owned).or(value.as_u64().map(|id| id.to_string())).unwrap_or_default()
}

fn key(id: &str) -> Option<(String, u64)> {
    let (channel, id) = id.split_once(':')?;
    Some((channel.to_owned(), id.parse().ok()?))
}

/// What the service's form check looks at.
fn check(body: &Value) -> Result<(), Refusal> {
    let content = body["content"].as_str().unwrap_or_default();
    let is_short = |value: &Value, max: usize| {
        value.as_str().is_some_and(|text| !text.is_empty() && text.encode_utf16().count() <= max)
    };
    if content.trim().is_empty() {
        return Err(Refusal(400, 50_006, "Cannot send an empty message"));
    }
    let rows = body["components"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_row = |row: &Value| {
        let buttons = row["components"].as_array().map(Vec::as_slice).unwrap_or_default();
        row["type"] == 1
            && (1..=5).contains(&buttons.len())
            && buttons.iter().all(|button| {
                button["type"] == 2 && is_short(&button["label"], 80) && is_short(&button["custom_id"], 100)
            })
    };
    let nonce_fits = body["nonce"].as_str().is_none_or(|nonce| nonce.chars().count() <= 25);
    let fits =
        content.encode_utf16().count() <= 2000 && rows.len() <= 5 && rows.iter().all(is_row) && nonce_fits;
    if fits { Ok(()) } else { Err(INVALID_FORM) }
}
