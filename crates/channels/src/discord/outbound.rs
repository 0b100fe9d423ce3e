//! Sends messages, changes them, and tells people what became of what they wrote.

use super::address::{MessageId, Snowflake};
use super::known::Known;
use super::rest::{Answer, Rest};
use super::{answer, message, prepare};
use crate::webhook::answer::failure;
use parking_lot::Mutex;
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use switchboard_core::ids::base32;
use switchboard_core::port::channel::{
    Address, AddressKind, Amendment, Attempt, FailureClass, NotSent, Performed,
};
use switchboard_core::time::Clock;

/// The way out.
pub(super) struct Outbound {
    pub rest: Rest,
    pub known: Mutex<Known>,
    pub clock: Arc<dyn Clock>,
}

/// Where a person is told something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Told {
    /// As the answer to a message.
    Message(MessageId),
    /// As the answer to a press, seen by who pressed alone.
    Press {
        /// The interaction.
        id: Snowflake,
        /// What allows to answer it.
        token: String,
    },
}

#[derive(Deserialize)]
struct Opened {
    id: Snowflake,
}

impl Outbound {
    /// One message. A person who has not been written to since the start has their channel of direct messages opened first: a call that
    /// reaches nobody, gives the same channel every time, and after which nothing has been sent.
    pub async fn perform(&self, attempt: &Attempt) -> Performed {
        let channel = match self.channel(&attempt.to).await {
            Ok(channel) => channel,
            Err(why) => return Performed::NotSent(why),
        };
        if let Some(why) = self.throttled(channel) {
            return Performed::NotSent(why);
        }
        let posted = self.post(channel, &message::of_attempt(attempt, channel)).await;
        let performed = match &posted {
            Ok(answer) => answer::outcome(answer, channel, self.clock.wall_ms()),
            Err(error) => failure(error),
        };
        if attempt.to.kind == AddressKind::Direct {
            self.learn(&attempt.to, &performed);
        }
        performed
    }

    /// The text of the message with the outcome under it, without buttons.
    pub async fn amend(&self, amendment: &Amendment) -> Performed {
        let Some(id) = MessageId::parse(&amendment.message_id) else {
            let why = "the id is not that of a message on Discord";
            return Performed::NotSent(NotSent::new(FailureClass::Permanent, why));
        };
        let body = message::change(&prepare::under(&amendment.part.text, &amendment.outcome));
        let path = format!("/channels/{}/messages/{}", id.channel, id.id);
        match self.rest.call(Method::PATCH, &path, Some(&body)).await {
            Ok(answer) => answer::outcome(&answer, id.channel, self.clock.wall_ms()),
            Err(error) => failure(&error),
        }
    }

    /// Tells `user` a sentence about what came in as `event`, where they wrote; not too often. Whether it arrives does not matter.
    pub async fn tell(&self, user: Snowflake, to: &Told, event: &str, sentence: Option<&str>) {
        let now = self.clock.monotonic();
        let sentence = sentence.filter(|_| self.known.lock().may_tell(user, now));
        let text = sentence.map(|sentence| prepare::under("", sentence));
        match (to, text) {
            // Said once, however often the event is brought.
            (Told::Message(id), Some(text)) => {
                let delivery = format!("n{}", base32(&Sha256::digest(event.as_bytes())[..12]));
                let body = message::text(&text, &delivery, Some(*id));
                self.post(id.channel, &body).await.ok();
            }
            (Told::Message(_), None) => {}
            (Told::Press { id, token }, text) => {
                let path = format!("/interactions/{id}/{token}/callback");
                let body = message::pressed(text.as_deref());
                self.rest.call(Method::POST, &path, Some(&body)).await.ok();
            }
        }
    }

    async fn post(&self, channel: Snowflake, body: &Value) -> reqwest::Result<Answer> {
        let answer =
            self.rest.call(Method::POST, &format!("/channels/{channel}/messages"), Some(body)).await?;
        if let Some(wait) = answer::exhausted(&answer) {
            let now = self.clock.monotonic();
            self.known.lock().set_window(channel, now, now + wait);
        }
        Ok(answer)
    }

    async fn channel(&self, to: &Address) -> Result<Snowflake, NotSent> {
        let bad = || NotSent::new(FailureClass::BadAddress, "the address is no id of Discord's");
        let id = Snowflake::parse(&to.handle).ok_or_else(bad)?;
        if to.kind == AddressKind::Channel {
            return Ok(id);
        }
        let known = self.known.lock().direct(id);
        match known {
            Some(channel) => Ok(channel),
            None => self.open(id).await,
        }
    }

    /// The channel of direct messages with `user`. Whatever goes wrong here, nothing was sent.
    async fn open(&self, user: Snowflake) -> Result<Snowflake, NotSent> {
        let transient = |why: String| NotSent::new(FailureClass::Transient, why);
        let body = json!({ "recipient_id": user.to_string() });
        let answer = match self.rest.call(Method::POST, "/users/@me/channels", Some(&body)).await {
            Ok(answer) => answer,
            Err(error) => {
                return Err(match failure(&error) {
                    Performed::NotSent(why) => why,
                    Performed::Unknown { reason } => transient(reason),
                    Performed::Sent { .. } => transient("the channel of direct messages is not known".into()),
                });
            }
        };
        if answer.is_success()
            && let Ok(opened) = serde_json::from_slice::<Opened>(&answer.body)
        {
            self.known.lock().set_direct(user, opened.id);
            return Ok(opened.id);
        }
        let unclear = || transient(format!("Discord answered {} and opened no channel", answer.status));
        Err(answer::refused(&answer, self.clock.wall_ms()).unwrap_or_else(unclear))
    }

    /// The window is used up: asking would only be refused, and refusals count against us.
    fn throttled(&self, channel: Snowflake) -> Option<NotSent> {
        let wait = self.known.lock().wait(channel, self.clock.monotonic())?;
        let wait_ms = u64::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(u64::MAX);
        let why = "Discord takes no more messages in this channel for now";
        Some(NotSent { retry_after_ms: Some(wait_ms), ..NotSent::new(FailureClass::Throttled, why) })
    }

    fn learn(&self, to: &Address, performed: &Performed) {
        let mut known = self.known.lock();
        match performed {
            Performed::Sent { message_id: Some(id) } => {
                MessageId::parse(id).into_iter().for_each(|id| known.sent(id));
            }
            Performed::NotSent(NotSent { class: FailureClass::BadAddress, .. }) => {
                Snowflake::parse(&to.handle).into_iter().for_each(|user| known.forget_direct(user));
            }
            _ => {}
        }
    }
}
