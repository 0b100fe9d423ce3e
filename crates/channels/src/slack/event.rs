//! What Slack brings, as what the port takes: messages in direct conversations, replies and mentions in shared ones, edits, deletions and
//! presses. Payloads are in `fixtures/slack/in`.
//!
//! A message comes with an id of its event, but may come as two events (`message` and `app_mention`): its own id is the steadier one.

use super::address::{MessageId, is_direct, is_person, is_shared, ts_ms};
use super::blocks::ACTION_PREFIX;
use super::text;
use serde_json::Value;
use switchboard_core::port::channel::{Incoming, IncomingKind, Origin};
use switchboard_core::time::WallMs;

/// Longest value of a button that is taken, in bytes; ours have at most 32.
const VALUE_BYTES_MAX: usize = 64;
/// Subtypes of messages that a person has written.
const WRITTEN: [&str; 3] = ["file_share", "thread_broadcast", "me_message"];
/// Slack's own helper, which has a person's id.
const SLACKBOT: &str = "USLACKBOT";

/// Who we are in the workspace, by `auth.test`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Me {
    /// The bot's id as a person.
    pub user_id: String,
    /// Its id as a bot.
    pub bot_id: Option<String>,
    /// Its name.
    pub user: String,
    /// The workspace.
    pub team_id: String,
    /// Its name.
    pub team: String,
}

/// Something that came in, and where a sentence about it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Heard {
    /// For the hub.
    pub incoming: Incoming,
    /// Where it was said.
    pub conversation: String,
    /// The thread in which it was said.
    pub thread: Option<String>,
}

/// Reads what comes in.
pub(super) struct Reader<'a> {
    /// The channel's configured name.
    pub channel: &'a str,
    /// Who we are.
    pub me: &'a Me,
    /// What vouches for the sender.
    pub by: &'static str,
    /// When it came, for what does not say when it was written.
    pub now_ms: WallMs,
}

fn string<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value[key].as_str().filter(|text| !text.is_empty())
}

impl Reader<'_> {
    /// What a payload of the Events API says; `None` when it is nothing for the hub.
    pub fn event(&self, payload: &Value) -> Option<Heard> {
        let event = &payload["event"];
        if payload["type"] != "event_callback" || !self.is_for_us(payload) {
            return None;
        }
        match (string(event, "type")?, string(event, "subtype")) {
            ("message", Some("message_changed")) => self.changed(event),
            ("message", Some("message_deleted")) => self.deleted(event),
            ("message" | "app_mention", subtype)
                if subtype.is_none_or(|subtype| WRITTEN.contains(&subtype)) =>
            {
                self.written(event)
            }
            _ => None,
        }
    }

    /// Whether it is for our workspace: an app may be installed in several.
    fn is_for_us(&self, payload: &Value) -> bool {
        let here = string(payload, "team_id").is_none_or(|team| team == self.me.team_id);
        let authorizations = payload["authorizations"].as_array();
        here || authorizations
            .is_some_and(|all| all.iter().any(|one| one["user_id"] == self.me.user_id.as_str()))
    }

    fn written(&self, event: &Value) -> Option<Heard> {
        let conversation = string(event, "channel")?;
        let id = MessageId::new(conversation, string(event, "ts")?)?;
        let from = self.person(event)?;
        if !self.concerns_us(conversation, event) {
            return None;
        }
        // A forwarded message alone, say, has no words of the person's: nothing that could answer anything.
        let text = Some(text::own(event, &self.me.user_id)).filter(|text| !text.is_empty())?;
        let what = IncomingKind::Text { text };
        let at_ms = ts_ms(&id.ts).unwrap_or(self.now_ms);
        Some(self.heard(
            format!("message:{id}"),
            from,
            what,
            conversation,
            event,
            at_ms,
            Some(id.to_string()),
        ))
    }

    /// Slack tells of a change as well when it has added a preview, or a reply was made.
    fn changed(&self, event: &Value) -> Option<Heard> {
        let (message, previous) = (&event["message"], &event["previous_message"]);
        if message["subtype"] == "tombstone" {
            return self.deleted(event);
        }
        let conversation = string(event, "channel")?;
        let id = MessageId::new(conversation, string(message, "ts")?)?;
        let from = self.person(message)?;
        let (now, before) = (text::own(message, &self.me.user_id), text::own(previous, &self.me.user_id));
        let is_edit = string(&message["edited"], "ts").is_some() && (previous.is_null() || now != before);
        if !is_edit || !(self.concerns_us(conversation, message) || self.concerns_us(conversation, previous))
        {
            return None;
        }
        let edited = string(&message["edited"], "ts")?;
        let what = IncomingKind::Edited { message_id: id.to_string(), text: now };
        let at_ms = ts_ms(edited).unwrap_or(self.now_ms);
        Some(self.heard(
            format!("edit:{id}:{edited}"),
            from,
            what,
            conversation,
            message,
            at_ms,
            Some(id.to_string()),
        ))
    }

    fn deleted(&self, event: &Value) -> Option<Heard> {
        let previous = &event["previous_message"];
        let conversation = string(event, "channel")?;
        let ts = string(event, "deleted_ts").or_else(|| string(&event["message"], "ts"))?;
        let id = MessageId::new(conversation, ts)?;
        let from = self.person(previous)?;
        if !self.concerns_us(conversation, previous) {
            return None;
        }
        let what = IncomingKind::Deleted { message_id: id.to_string() };
        let at_ms = string(event, "event_ts").and_then(ts_ms).unwrap_or(self.now_ms);
        Some(self.heard(
            format!("delete:{id}"),
            from,
            what,
            conversation,
            previous,
            at_ms,
            Some(id.to_string()),
        ))
    }

    /// A press on one of our buttons.
    pub fn press(&self, payload: &Value) -> Option<Heard> {
        let (action, container) = (payload["actions"].get(0)?, &payload["container"]);
        let ours = payload["type"] == "block_actions"
            && action["type"] == "button"
            && string(action, "action_id")?.starts_with(ACTION_PREFIX)
            && container["type"] == "message"
            && self.is_ours(&payload["message"]);
        let value = string(action, "value").filter(|value| is_value(value))?;
        let from = string(&payload["user"], "id").filter(|user| is_person(user))?;
        let conversation = string(container, "channel_id").or_else(|| string(&payload["channel"], "id"))?;
        let id = MessageId::new(conversation, string(container, "message_ts")?)?;
        let action_ts = string(action, "action_ts")?;
        let at_ms = ts_ms(action_ts)?;
        let what = IncomingKind::Button { value: value.to_owned() };
        let event_id = format!("press:{id}:{from}:{action_ts}");
        let mut heard = self.heard(event_id, from, what, conversation, &payload["message"], at_ms, None);
        heard.incoming.references = vec![id.to_string()];
        ours.then_some(heard)
    }

    fn is_ours(&self, message: &Value) -> bool {
        let bot = self.me.bot_id.as_deref();
        message.is_null()
            || message["user"] == self.me.user_id.as_str()
            || bot.is_some_and(|bot| message["bot_id"] == bot)
    }

    /// The person who wrote a message: no bot, and not us.
    fn person<'v>(&self, message: &'v Value) -> Option<&'v str> {
        let user = string(message, "user").filter(|user| is_person(user) && *user != SLACKBOT)?;
        let automatic = string(message, "bot_id").is_some() || message["subtype"] == "bot_message";
        (!automatic && user != self.me.user_id).then_some(user)
    }

    /// Whether we were meant: alone with the person, by a reply to us, or by our name.
    fn concerns_us(&self, conversation: &str, message: &Value) -> bool {
        let me = self.me.user_id.as_str();
        // What is shown outside of its thread as well carries the message that began the thread instead of its author.
        let answers_us = message["parent_user_id"] == me || message["root"]["user"] == me;
        let named = || text::mentions(string(message, "text").unwrap_or_default(), me);
        is_direct(conversation) || is_shared(conversation) && (answers_us || named())
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "they are what an event has, and each caller knows another half of them"
    )]
    fn heard(
        &self,
        event_id: String,
        from: &str,
        what: IncomingKind,
        conversation: &str,
        message: &Value,
        at_ms: WallMs,
        message_id: Option<String>,
    ) -> Heard {
        let thread = string(message, "thread_ts").and_then(|ts| MessageId::new(conversation, ts));
        let thread = thread.filter(|root| message["ts"] != root.ts.as_str());
        let incoming = Incoming {
            channel: self.channel.to_owned(),
            event_id,
            from: from.to_owned(),
            origin: Origin::Verified { by: self.by.to_owned() },
            what,
            message_id,
            place: is_shared(conversation).then(|| conversation.to_owned()),
            references: thread.iter().map(ToString::to_string).collect(),
            at_ms,
        };
        Heard { incoming, conversation: conversation.to_owned(), thread: thread.map(|root| root.ts) }
    }
}

fn is_value(value: &str) -> bool {
    value.len() <= VALUE_BYTES_MAX && value.bytes().all(|byte| byte.is_ascii_graphic())
}
