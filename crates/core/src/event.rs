//! Events: what stands in a stream.

use crate::ids::{EventId, InstanceNo};
use crate::time::WallMs;
use bytes::Bytes;

/// What an event is. The numbers are stored: append, never renumber.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EventKind {
    /// A message that asks.
    Question = 1,
    /// A message that offers.
    Offer = 2,
    /// A message that announces handing on.
    Handoff = 3,
    /// A message that answers.
    Answer = 4,
    /// A message that reports.
    Finding = 5,
    /// A `publish`.
    Publish = 16,
    /// A `task.event`.
    Task = 32,
}

impl EventKind {
    /// The kind stored as `number`.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Question,
            2 => Self::Offer,
            3 => Self::Handoff,
            4 => Self::Answer,
            5 => Self::Finding,
            16 => Self::Publish,
            32 => Self::Task,
            _ => return None,
        })
    }

    /// Whether it is one of the five message types.
    #[must_use]
    pub fn is_message(self) -> bool {
        (self as u8) < Self::Publish as u8
    }
}

/// The one agent that an event is for; nobody else ever sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addressee {
    /// The instance it was bound to when it was stored.
    pub instance: InstanceNo,
    /// The agent there.
    pub agent: String,
}

/// One stored event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// Where it stands.
    pub id: EventId,
    /// What it is.
    pub kind: EventKind,
    /// When it was stored.
    pub at_ms: WallMs,
    /// When retention removes it.
    pub expires_at_ms: WallMs,
    /// First message of its thread; itself for a first message.
    pub thread: EventId,
    /// What it replies to.
    pub reply_to: Option<EventId>,
    /// The sending instance.
    pub from_instance: InstanceNo,
    /// The sending agent.
    pub from_agent: String,
    /// The only receiver, if it has one.
    pub to: Option<Addressee>,
    /// The receiver-independent rest of the delivery as JSON members without braces (see the engine's `frame` module).
    pub data: Bytes,
}

impl StoredEvent {
    /// Rough size in memory, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.data.len() + self.from_agent.len() + 128
    }
}
