//! The way out: one event for each attempt, under the delivery's id.

use super::address;
use super::answer::{self, Fault};
use super::api::Api;
use super::content::{self, Relation};
use super::event::RelatesTo;
use super::rooms::Rooms;
use parking_lot::Mutex;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::digest;
use switchboard_core::port::channel::{Amendment, Attempt, FailureClass, Incoming, NotSent, Performed};
use switchboard_core::time::Clock;
use tokio::time::timeout;

/// Sentences to one sender within [`TELL_WINDOW`].
const TOLD_MAX: usize = 20;
/// Sentences to all within [`TELL_WINDOW`].
const TOLD_TOTAL_MAX: usize = 1000;
/// How long a sentence counts.
const TELL_WINDOW: Duration = Duration::from_hours(1);

/// The way out.
pub(super) struct Outbound {
    api: Arc<Api>,
    rooms: Arc<Rooms>,
    /// Time for all that must be known before a message is sent.
    limit: Duration,
    clock: Arc<dyn Clock>,
    /// Who was told something, and when.
    told: Mutex<Vec<(String, Duration)>>,
}

/// What is looked at of the event that a message answers.
#[derive(Deserialize)]
struct Answered {
    content: AnsweredContent,
}

#[derive(Deserialize)]
struct AnsweredContent {
    #[serde(rename = "m.relates_to")]
    relates_to: Option<RelatesTo>,
}

impl Outbound {
    pub fn new(api: Arc<Api>, rooms: Arc<Rooms>, limit: Duration, clock: Arc<dyn Clock>) -> Self {
        Self { api, rooms, limit, clock, told: Mutex::default() }
    }

    /// One attempt. What is asked and made before the event is sent reaches nobody.
    pub async fn perform(&self, attempt: &Attempt) -> Performed {
        let ready = self.bounded(async {
            let room = self.rooms.find(&attempt.to).await?;
            let relation = self.relation(&room, &attempt.references).await.map_err(Fault::nobody_reached)?;
            Ok((room, relation))
        });
        let (room, relation) = match ready.await {
            Ok(ready) => ready,
            Err(why) => return Performed::NotSent(why),
        };
        let content = content::message(attempt, relation.as_ref());
        self.send(&room, &attempt.delivery, &content).await
    }

    /// Changes a message. The same outcome is the same transaction: made twice, there is one change.
    pub async fn amend(&self, amendment: &Amendment) -> Performed {
        if !address::is_event(&amendment.message_id) {
            let why = NotSent::new(FailureClass::Permanent, "the message's id is not one of Matrix");
            return Performed::NotSent(why);
        }
        let room = match self.bounded(self.rooms.find(&amendment.to)).await {
            Ok(room) => room,
            Err(why) => return Performed::NotSent(why),
        };
        let content = content::amended(amendment);
        let mark = digest::hex(&digest::sha256(content.to_string().as_bytes()));
        match self.send(&room, &format!("{}.{}", amendment.delivery, &mark[..16]), &content).await {
            Performed::Sent { .. } => Performed::Sent { message_id: Some(amendment.message_id.clone()) },
            other => other,
        }
    }

    /// Tells the sender of `incoming` something about it, where they wrote it. Whether it arrives does not matter.
    pub async fn tell(&self, room: &str, incoming: &Incoming, sentence: &str) {
        if !self.may_tell(&incoming.from) || !matches!(self.rooms.is_encrypted(room).await, Ok(false)) {
            return;
        }
        let answers = match &incoming.message_id {
            Some(message) => message.clone(),
            None => incoming.event_id.clone(),
        };
        let thread = self.thread_of(room, &answers).await.ok().flatten();
        let content = content::notice(sentence, &Relation { answers, thread });
        let transaction = format!("ntc_{}", digest::hex(&digest::sha256(incoming.event_id.as_bytes())));
        self.api.send(room, &transaction, &content).await.ok();
    }

    fn may_tell(&self, to: &str) -> bool {
        let now = self.clock.monotonic();
        let mut told = self.told.lock();
        told.retain(|(_, at)| now.saturating_sub(*at) < TELL_WINDOW);
        let theirs = told.iter().filter(|(other, _)| other == to).count();
        let may = theirs < TOLD_MAX && told.len() < TOLD_TOTAL_MAX;
        if may {
            told.push((to.to_owned(), now));
        }
        may
    }

    async fn send(&self, room: &str, transaction: &str, content: &serde_json::Value) -> Performed {
        match self.api.send(room, transaction, content).await {
            Ok(event) => Performed::Sent { message_id: Some(event) },
            Err(fault) => {
                if fault.is(answer::FORBIDDEN) {
                    // We, or they, may have left meanwhile.
                    self.rooms.forget();
                }
                fault.performed()
            }
        }
    }

    async fn bounded<T>(&self, work: impl Future<Output = Result<T, NotSent>>) -> Result<T, NotSent> {
        let slow = |_| NotSent::new(FailureClass::Transient, "the homeserver does not answer");
        timeout(self.limit, work).await.map_err(slow)?
    }

    /// Where a message stands that continues these: it answers the last, in its thread if it is in one.
    async fn relation(&self, room: &str, references: &[String]) -> Result<Option<Relation>, Fault> {
        let Some(answers) = references.iter().rev().find(|id| address::is_event(id)) else { return Ok(None) };
        let thread = self.thread_of(room, answers).await?;
        Ok(Some(Relation { answers: answers.clone(), thread }))
    }

    async fn thread_of(&self, room: &str, event: &str) -> Result<Option<String>, Fault> {
        let found: Option<Answered> = match self.api.event(room, event).await {
            Err(fault) if fault.is_final() => None,
            found => found?,
        };
        Ok(found.and_then(|answered| answered.content.relates_to?.thread()))
    }
}
