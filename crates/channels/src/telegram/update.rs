//! What the Bot API tells, as the port takes it. Members that are not read may be whatever they are: the API grows every month.

use super::address::MessageId;
use super::content;
use serde::Deserialize;
use serde_json::value::RawValue;
use switchboard_core::port::channel::{Incoming, IncomingKind, Origin};
use switchboard_core::time::WallMs;

/// What is asked for. Telegram tells bots of no deletions.
pub(super) const ALLOWED: [&str; 4] = ["message", "edited_message", "callback_query", "my_chat_member"];
/// Longest data of a button (Bot API, `InlineKeyboardButton`), in bytes. Clients can be made to send anything.
const DATA_BYTES_MAX: usize = 64;

/// The bot, as `getMe` tells of it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Me {
    /// Its number.
    pub id: i64,
    /// Its name, without the `@`.
    pub username: String,
}

/// Number of an update, by which it is acknowledged.
#[derive(Deserialize)]
pub(super) struct Numbered {
    pub update_id: i64,
}

#[derive(Deserialize)]
struct Update {
    #[serde(rename = "update_id")]
    number: i64,
    message: Option<Box<RawValue>>,
    edited_message: Option<Box<RawValue>>,
    callback_query: Option<Box<RawValue>>,
    my_chat_member: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct User {
    id: i64,
    #[serde(default)]
    is_bot: bool,
}

#[derive(Deserialize)]
struct Chat {
    id: i64,
    #[serde(rename = "type")]
    kind: String,
}

impl Chat {
    fn is_private(&self) -> bool {
        self.kind == "private"
    }

    /// As the port names it.
    fn place(&self) -> Option<String> {
        (!self.is_private()).then(|| self.id.to_string())
    }
}

#[derive(Deserialize)]
struct Message {
    #[serde(rename = "message_id")]
    id: i64,
    from: Option<User>,
    chat: Chat,
    date: i64,
    edit_date: Option<i64>,
    /// The chat that speaks instead of a person: an anonymous administrator, a linked channel.
    sender_chat: Option<Chat>,
    via_bot: Option<User>,
    #[serde(rename = "reply_to_message")]
    answered: Option<Replied>,
}

#[derive(Deserialize)]
struct Replied {
    message_id: i64,
    from: Option<User>,
}

#[derive(Deserialize)]
struct Press {
    id: String,
    from: User,
    message: Option<Pressed>,
    data: Option<String>,
}

#[derive(Deserialize)]
struct Pressed {
    message_id: i64,
    chat: Chat,
    from: Option<User>,
}

#[derive(Deserialize)]
struct Membership {
    chat: Chat,
    from: User,
    date: i64,
    new_chat_member: Member,
}

#[derive(Deserialize)]
struct Member {
    status: String,
}

/// Where a sentence to the sender goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Way {
    /// Under what they wrote.
    Reply(MessageId),
    /// Over the button that they pressed.
    Press {
        /// Id of the press.
        query: String,
    },
    /// Nowhere: they have blocked the bot.
    Nowhere,
}

/// Something for the hub, or a press that wants no more than its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    /// What came in.
    pub incoming: Option<Incoming>,
    /// Where a sentence goes.
    pub way: Way,
}

/// Who reads.
pub(super) struct Reader<'a> {
    /// The channel's configured name.
    pub channel: &'a str,
    /// The bot.
    pub me: &'a Me,
    /// By what senders are vouched for.
    pub by: &'a str,
    /// Our time, for what comes without one.
    pub now_ms: WallMs,
}

impl Reader<'_> {
    /// What an update tells; `None` when it is nothing for us, or of a shape that is not known.
    pub fn read(&self, update: &str) -> Option<Event> {
        let update: Update = serde_json::from_str(update).ok()?;
        // Numbers count for one bot each.
        let event_id = format!("{}:{}", self.me.id, update.number);
        if let Some(message) = update.message.or(update.edited_message) {
            return self.message(event_id, message.get());
        }
        if let Some(press) = update.callback_query {
            return Some(self.press(event_id, serde_json::from_str(press.get()).ok()?));
        }
        self.membership(event_id, &serde_json::from_str(update.my_chat_member?.get()).ok()?)
    }

    fn incoming(&self, event_id: String, from: &User, what: IncomingKind) -> Incoming {
        Incoming {
            channel: self.channel.to_owned(),
            event_id,
            from: from.id.to_string(),
            origin: Origin::Verified { by: self.by.to_owned() },
            what,
            message_id: None,
            place: None,
            references: Vec::new(),
            at_ms: self.now_ms,
        }
    }

    fn message(&self, event_id: String, json: &str) -> Option<Event> {
        let message: Message = serde_json::from_str(json).ok()?;
        let from = message.from.filter(|from| !from.is_bot)?;
        if message.sender_chat.is_some() || message.via_bot.is_some() {
            return None;
        }
        let said = content::read(json, self.me)?;
        let answers = message.answered.filter(|replied| self.is_ours(replied.from.as_ref()));
        if !message.chat.is_private() && answers.is_none() && !said.names_us {
            return None;
        }
        let chat = message.chat.id;
        let id = MessageId { chat, id: message.id };
        let what = match message.edit_date {
            Some(_) => IncomingKind::Edited { message_id: id.to_string(), text: said.text },
            None => IncomingKind::Text { text: said.text },
        };
        let references = answers.map(|replied| MessageId { chat, id: replied.message_id }.to_string());
        let incoming = Incoming {
            message_id: Some(id.to_string()),
            place: message.chat.place(),
            references: references.into_iter().collect(),
            at_ms: message.edit_date.unwrap_or(message.date).saturating_mul(1000),
            ..self.incoming(event_id, &from, what)
        };
        Some(Event { incoming: Some(incoming), way: Way::Reply(id) })
    }

    fn is_ours(&self, from: Option<&User>) -> bool {
        from.is_some_and(|from| from.id == self.me.id)
    }

    /// A press has no time of its own. Whose it was to make, the hub knows.
    fn press(&self, event_id: String, press: Press) -> Event {
        let way = Way::Press { query: press.id };
        let ours =
            press.message.filter(|message| message.from.is_none() || self.is_ours(message.from.as_ref()));
        let data = press.data.filter(|data| data.len() <= DATA_BYTES_MAX && !press.from.is_bot);
        let (Some(message), Some(value)) = (ours, data) else { return Event { incoming: None, way } };
        let id = MessageId { chat: message.chat.id, id: message.message_id };
        let incoming = Incoming {
            place: message.chat.place(),
            references: vec![id.to_string()],
            ..self.incoming(event_id, &press.from, IncomingKind::Button { value })
        };
        Event { incoming: Some(incoming), way }
    }

    /// A person who blocks the bot wants no more of it, and says so in Telegram's own way. Taking the block back is no wish to be
    /// written to: that is `/start`. What happens to the bot in groups shows at the next message to them.
    fn membership(&self, event_id: String, change: &Membership) -> Option<Event> {
        let is_person = change.chat.is_private() && change.chat.id == change.from.id && !change.from.is_bot;
        if !is_person || change.new_chat_member.status != "kicked" {
            return None;
        }
        let what = IncomingKind::Text { text: "STOP".into() };
        let incoming = Incoming {
            at_ms: change.date.saturating_mul(1000),
            ..self.incoming(event_id, &change.from, what)
        };
        Some(Event { incoming: Some(incoming), way: Way::Nowhere })
    }
}
