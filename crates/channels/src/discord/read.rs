//! What an event of the gateway means for the port. Pure: what it needs to know of before is handed in.

use super::address::{MessageId, Snowflake};
use super::known::{Known, Seen};
use super::outbound::Told;
use crate::document::{clean, clean_line};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use switchboard_core::port::channel::{Incoming, IncomingKind, Origin};
use switchboard_core::time::WallMs;

/// Longest text that is handed on, in bytes; Discord's are shorter.
const TEXT_BYTES_MAX: usize = 64 * 1024;
/// Attachments that are named.
const ATTACHMENTS_MAX: usize = 20;
/// Characters of a name that are shown.
const NAME_CHARS_MAX: usize = 100;
/// Longest value of a button that is handed on, in characters; Discord's own limit.
const VALUE_CHARS_MAX: usize = 100;
/// Longest token of an interaction, in characters.
const TOKEN_CHARS_MAX: usize = 1024;
/// Messages of a deletion at most; Discord's own limit.
const DELETIONS_MAX: usize = 100;
/// Flag of a message that is a voice message.
const VOICE: u64 = 1 << 13;
/// What a person is told whose answer Discord has kept from us.
const UNREADABLE: &str =
    "I cannot read this answer, because it does not mention me. Reply again with the mention switched on.";

/// Who we are and what we call ourselves.
#[derive(Debug, Clone)]
pub(super) struct Me {
    /// The channel's configured name.
    pub channel: String,
    /// The bot.
    pub user: Snowflake,
}

/// What is done with an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Read {
    /// It comes in; what is said about it goes there.
    Incoming(Box<Incoming>, Option<Told>),
    /// Discord has kept its text from us: who wrote it is told so.
    Unreadable { from: Snowflake, id: MessageId, sentence: &'static str },
}

#[derive(Deserialize)]
struct User {
    id: Snowflake,
    #[serde(default)]
    bot: bool,
    #[serde(default)]
    system: bool,
}

#[derive(Deserialize)]
struct Attachment {
    #[serde(default)]
    filename: String,
    #[serde(default)]
    content_type: Option<String>,
    #[serde(default)]
    size: u64,
}

#[derive(Deserialize)]
struct Named {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct Reference {
    #[serde(default, rename = "type")]
    kind: u8,
    message_id: Option<Snowflake>,
    channel_id: Option<Snowflake>,
}

#[derive(Deserialize)]
struct Answered {
    author: Option<User>,
}

/// A message, whole or only what has changed of it.
#[derive(Deserialize)]
struct Message {
    id: Snowflake,
    channel_id: Snowflake,
    guild_id: Option<Snowflake>,
    author: Option<User>,
    webhook_id: Option<Snowflake>,
    content: Option<String>,
    edited_timestamp: Option<String>,
    #[serde(default, rename = "type")]
    kind: u8,
    #[serde(default)]
    flags: u64,
    #[serde(default)]
    mentions: Vec<User>,
    #[serde(default)]
    attachments: Vec<Attachment>,
    #[serde(default)]
    sticker_items: Vec<Named>,
    poll: Option<Value>,
    #[serde(rename = "message_reference")]
    reference: Option<Reference>,
    #[serde(rename = "referenced_message")]
    answered: Option<Answered>,
}

#[derive(Deserialize)]
struct Member {
    user: Option<User>,
}

#[derive(Deserialize)]
struct PressData {
    custom_id: String,
    component_type: u8,
}

#[derive(Deserialize)]
struct Pressed {
    id: Snowflake,
    channel_id: Snowflake,
    author: Option<User>,
}

#[derive(Deserialize)]
struct Interaction {
    id: Snowflake,
    #[serde(rename = "type")]
    kind: u8,
    token: String,
    data: Option<PressData>,
    guild_id: Option<Snowflake>,
    member: Option<Member>,
    user: Option<User>,
    message: Option<Pressed>,
}

#[derive(Deserialize)]
struct Deletion {
    id: Option<Snowflake>,
    #[serde(default)]
    ids: Vec<Snowflake>,
    channel_id: Snowflake,
}

/// What the event `kind` with `data` means; nothing for most.
pub(super) fn read(kind: &str, data: &Value, me: &Me, known: &Known, now_ms: WallMs) -> Vec<Read> {
    match kind {
        "MESSAGE_CREATE" => created(data, me).into_iter().collect(),
        "MESSAGE_UPDATE" => edited(data, me, known).into_iter().collect(),
        "MESSAGE_DELETE" | "MESSAGE_DELETE_BULK" => deleted(data, me, known, now_ms),
        "INTERACTION_CREATE" => pressed(data, me).into_iter().collect(),
        _ => Vec::new(),
    }
}

/// Who wrote a message that has come in, to know them when it is changed.
pub(super) fn seen(incoming: &Incoming) -> Option<(MessageId, Seen)> {
    let id = MessageId::parse(incoming.message_id.as_deref()?)?;
    Some((id, Seen { from: Snowflake::parse(&incoming.from)?, shared: incoming.place.is_some() }))
}

fn created(data: &Value, me: &Me) -> Option<Read> {
    let message = Message::deserialize(data).ok()?;
    let author = message.author.as_ref()?;
    // 0 is an ordinary message, 19 a reply; all others are Discord's own: somebody joined, something was pinned.
    let is_persons =
        !author.bot && !author.system && message.webhook_id.is_none() && matches!(message.kind, 0 | 19);
    if !is_persons || !(message.guild_id.is_none() || message.is_for(me)) {
        return None;
    }
    let (id, from) = (message.id(), author.id);
    let text = message.text(me);
    if text.is_empty() {
        let is_answer = message.guild_id.is_some() && message.answers(me) && !message.mentions(me);
        return is_answer.then_some(Read::Unreadable { from, id, sentence: UNREADABLE });
    }
    let what = IncomingKind::Text { text };
    let place = message.guild_id.map(|_| message.channel_id.to_string());
    let at_ms = message.id.at_ms();
    let references = message.references();
    let incoming = Incoming {
        message_id: Some(id.to_string()),
        place,
        references,
        ..incoming(me, message.id.to_string(), from, what, at_ms)
    };
    Some(Read::Incoming(Box::new(incoming), Some(Told::Message(id))))
}

/// Only what is known of a message may be missing from its change. One without a time is none of the person's: a picture was added to it.
fn edited(data: &Value, me: &Me, known: &Known) -> Option<Read> {
    let message = Message::deserialize(data).ok()?;
    let (id, stamp) = (message.id(), message.edited_timestamp.clone()?);
    let at_ms = stamp.parse::<Timestamp>().ok()?.as_millisecond();
    let before = known.seen(id);
    if message.author.as_ref().is_some_and(|author| author.bot) || message.content.is_none() {
        return None;
    }
    let from = message.author.as_ref().map(|author| author.id).or(before.map(|seen| seen.from))?;
    let is_shared = message.guild_id.is_some() || before.is_some_and(|seen| seen.shared);
    let text = message.text(me);
    if text.is_empty() || (is_shared && before.is_none() && !message.is_for(me)) {
        return None;
    }
    let what = IncomingKind::Edited { message_id: id.to_string(), text };
    let incoming = Incoming {
        message_id: Some(id.to_string()),
        place: is_shared.then(|| message.channel_id.to_string()),
        references: message.references(),
        ..incoming(me, format!("{}:{at_ms}", message.id), from, what, at_ms)
    };
    Some(Read::Incoming(Box::new(incoming), Some(Told::Message(id))))
}

/// Discord does not say whose message it was: those that came in are known.
fn deleted(data: &Value, me: &Me, known: &Known, now_ms: WallMs) -> Vec<Read> {
    let Ok(deletion) = Deletion::deserialize(data) else { return Vec::new() };
    let ids = deletion.id.into_iter().chain(deletion.ids).take(DELETIONS_MAX);
    let read = |id: Snowflake| {
        let message = MessageId { channel: deletion.channel_id, id };
        let seen = known.seen(message)?;
        let what = IncomingKind::Deleted { message_id: message.to_string() };
        let incoming = Incoming {
            message_id: Some(message.to_string()),
            place: seen.shared.then(|| message.channel.to_string()),
            ..incoming(me, format!("{id}:deleted"), seen.from, what, now_ms)
        };
        Some(Read::Incoming(Box::new(incoming), None))
    };
    ids.filter_map(read).collect()
}

fn pressed(data: &Value, me: &Me) -> Option<Read> {
    let interaction = Interaction::deserialize(data).ok()?;
    let pressed = interaction.data.filter(|_| interaction.kind == 3)?;
    let message = interaction.message?;
    let is_ours = message.author.as_ref().is_none_or(|author| author.id == me.user);
    let user = interaction.member.and_then(|member| member.user).or(interaction.user)?;
    let sound = |text: &str, max: usize| {
        !text.is_empty() && text.len() <= max && text.bytes().all(|byte| byte.is_ascii_graphic())
    };
    let in_paths = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~=".contains(&byte);
    let token_is_sound =
        sound(&interaction.token, TOKEN_CHARS_MAX) && interaction.token.bytes().all(in_paths);
    let value_is_sound = pressed.component_type == 2 && sound(&pressed.custom_id, VALUE_CHARS_MAX);
    if !is_ours || user.bot || !token_is_sound || !value_is_sound {
        return None;
    }
    let id = MessageId { channel: message.channel_id, id: message.id };
    let what = IncomingKind::Button { value: pressed.custom_id };
    let incoming = Incoming {
        place: interaction.guild_id.map(|_| message.channel_id.to_string()),
        references: vec![id.to_string()],
        ..incoming(me, format!("press:{}", interaction.id), user.id, what, interaction.id.at_ms())
    };
    Some(Read::Incoming(
        Box::new(incoming),
        Some(Told::Press { id: interaction.id, token: interaction.token }),
    ))
}

fn incoming(me: &Me, event_id: String, from: Snowflake, what: IncomingKind, at_ms: WallMs) -> Incoming {
    Incoming {
        channel: me.channel.clone(),
        event_id,
        from: from.to_string(),
        origin: Origin::Verified { by: "gateway".to_owned() },
        what,
        message_id: None,
        place: None,
        references: Vec::new(),
        at_ms,
    }
}

impl Message {
    fn id(&self) -> MessageId {
        MessageId { channel: self.channel_id, id: self.id }
    }

    fn mentions(&self, me: &Me) -> bool {
        self.mentions.iter().any(|user| user.id == me.user)
    }

    fn answers(&self, me: &Me) -> bool {
        let author = self.answered.as_ref().and_then(|answered| answered.author.as_ref());
        author.is_some_and(|author| author.id == me.user)
    }

    fn is_for(&self, me: &Me) -> bool {
        self.mentions(me) || self.answers(me)
    }

    /// What it answers; what it forwards is no answer.
    fn references(&self) -> Vec<String> {
        let reference = self.reference.as_ref().filter(|reference| reference.kind == 0);
        let id = reference.and_then(|reference| {
            Some(MessageId {
                channel: reference.channel_id.unwrap_or(self.channel_id),
                id: reference.message_id?,
            })
        });
        id.map(|id| id.to_string()).into_iter().collect()
    }

    /// The person's words without the mention that brought them here, and a line for each thing that is no text.
    fn text(&self, me: &Me) -> String {
        let words = self.content.as_deref().unwrap_or_default();
        let words = words.replace(&format!("<@{}>", me.user), "").replace(&format!("<@!{}>", me.user), "");
        let mut lines = vec![clean(words.trim()).trim().to_owned()];
        lines.extend(self.attachments.iter().take(ATTACHMENTS_MAX).map(|file| self.named(file)));
        lines.extend(
            self.sticker_items.iter().take(3).map(|sticker| format!("[sticker: {}]", name(&sticker.name))),
        );
        if self.poll.is_some() {
            lines.push("[poll]".to_owned());
        }
        if self.reference.as_ref().is_some_and(|reference| reference.kind == 1) {
            lines.push("[forwarded message]".to_owned());
        }
        lines.retain(|line| !line.is_empty());
        let mut text = lines.join("\n");
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        text
    }

    fn named(&self, file: &Attachment) -> String {
        let media = file.content_type.as_deref().unwrap_or_default();
        let what = match media.split('/').next() {
            _ if self.flags & VOICE != 0 => return "[voice message]".to_owned(),
            Some("image") => "photo",
            Some("video") => "video",
            _ => "file",
        };
        format!("[{what}: {}, {}]", name(&file.filename), size(file.size))
    }
}

fn name(text: &str) -> String {
    clean_line(text).chars().take(NAME_CHARS_MAX).collect()
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{} kB", bytes.div_ceil(1_000)),
        _ => format!("{} MB", bytes.div_ceil(1_000_000)),
    }
}
