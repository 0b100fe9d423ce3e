//! What an event is to us. Some of it has to be asked for: whose the message is that an event answers, changes or takes away.

use super::address;
use super::answer::Fault;
use super::api::Api;
use super::event::{self, Event};
use super::rooms::Rooms;
use serde::Deserialize as _;
use serde_json::Value;
use std::sync::Arc;
use switchboard_core::port::channel::{AddressKind, Incoming, IncomingKind, Origin};

/// Reads events.
pub(super) struct Reader {
    /// The channel's name.
    pub channel: String,
    pub api: Arc<Api>,
    pub rooms: Arc<Rooms>,
}

/// What an event says to us.
struct Said {
    what: IncomingKind,
    message_id: Option<String>,
    references: Vec<String>,
}

impl Reader {
    /// What an event is to us, if it is anything.
    pub async fn read(&self, me: &str, room: &str, event: &Event) -> Result<Option<Incoming>, Fault> {
        if event.sender == me || !address::is_event(&event.id) {
            return Ok(None);
        }
        let Ok(from) = address::normalise(AddressKind::Direct, &event.sender) else { return Ok(None) };
        let said = match event.kind.as_str() {
            "m.room.message" if event.is_edit() => self.edited(me, room, event).await?,
            "m.room.message" => self.written(me, room, event).await?,
            "m.reaction" => self.pressed(me, room, event).await?,
            "m.room.redaction" => self.taken_back(room, event).await?,
            _ => None,
        };
        let Some(Said { what, message_id, references }) = said else { return Ok(None) };
        let place = (!self.is_direct(room, &event.sender).await?).then(|| room.to_owned());
        Ok(Some(Incoming {
            channel: self.channel.clone(),
            event_id: event.id.clone(),
            from,
            origin: Origin::Verified { by: "api".into() },
            what,
            message_id,
            place,
            references,
            at_ms: event.origin_server_ts,
        }))
    }

    async fn is_direct(&self, room: &str, sender: &str) -> Result<bool, Fault> {
        let direct = self.rooms.direct().await?;
        Ok(direct.get(sender).is_some_and(|rooms| rooms.iter().any(|known| known == room)))
    }

    async fn written(&self, me: &str, room: &str, event: &Event) -> Result<Option<Said>, Fault> {
        let Some(text) = event::words(&event.content) else { return Ok(None) };
        if !self.is_for_us(me, room, &event.sender, &event.content).await? {
            return Ok(None);
        }
        let references = event::references(&event.content);
        Ok(Some(Said { what: IncomingKind::Text { text }, message_id: Some(event.id.clone()), references }))
    }

    /// Clients must not believe an edit of somebody else's message, and servers do not look.
    async fn edited(&self, me: &str, room: &str, event: &Event) -> Result<Option<Said>, Fault> {
        let Some((message_id, new)) = event.replaced() else { return Ok(None) };
        let Some(text) = event::words(new) else { return Ok(None) };
        let Some(original) = self.look_up(room, &message_id).await? else { return Ok(None) };
        if original.sender != event.sender
            || !self.is_for_us(me, room, &event.sender, &original.content).await?
        {
            return Ok(None);
        }
        let references = event::references(&original.content);
        let what = IncomingKind::Edited { message_id: message_id.clone(), text };
        Ok(Some(Said { what, message_id: Some(message_id), references }))
    }

    /// A press is a reaction to a message of ours that offers so many choices.
    async fn pressed(&self, me: &str, room: &str, event: &Event) -> Result<Option<Said>, Fault> {
        let Some((message, number)) = event.pressed() else { return Ok(None) };
        let ours = self.look_up(room, &message).await?.filter(|original| original.sender == me);
        let value = ours.and_then(|ours| ours.own()?.choices.into_iter().nth(number - 1));
        Ok(value.map(|value| Said {
            what: IncomingKind::Button { value },
            message_id: None,
            references: vec![message],
        }))
    }

    /// Of a message that its writer took back only the shell is left, so that what it was about cannot be known.
    async fn taken_back(&self, room: &str, event: &Event) -> Result<Option<Said>, Fault> {
        let Some(message_id) = event.redacted().filter(|id| address::is_event(id)) else { return Ok(None) };
        let original = self.look_up(room, message_id).await?;
        let theirs =
            original.is_some_and(|gone| gone.sender == event.sender && gone.kind == "m.room.message");
        let message_id = message_id.to_owned();
        Ok(theirs.then(|| Said {
            what: IncomingKind::Deleted { message_id: message_id.clone() },
            message_id: Some(message_id),
            references: Vec::new(),
        }))
    }

    /// Whether what somebody writes is said to us: alone, in answer to us, or by name.
    async fn is_for_us(&self, me: &str, room: &str, sender: &str, content: &Value) -> Result<bool, Fault> {
        if self.is_direct(room, sender).await? || event::mentions(content, me) {
            return Ok(true);
        }
        for message in event::references(content) {
            if self.look_up(room, &message).await?.is_some_and(|answered| answered.sender == me) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn look_up(&self, room: &str, event: &str) -> Result<Option<Event>, Fault> {
        let found: Option<Value> = match self.api.event(room, event).await {
            Err(fault) if fault.is_final() => None,
            found => found?,
        };
        Ok(found.and_then(|value| Event::deserialize(&value).ok()))
    }
}
