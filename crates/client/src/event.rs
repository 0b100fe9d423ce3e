//! What a client tells its caller.

use std::time::Duration;

use switchboard_protocol::frame::server::{Control, Cursor, Deliver, PresenceUpdate};
use switchboard_protocol::frame::{HandoffAck, HandoffOffer, HandoffReject};
use switchboard_protocol::message::{Delivery, Status, TaskEvent};
use switchboard_protocol::{Detail, Invalid};

/// Something that happened, in the order the server told it.
#[derive(Debug, Clone)]
pub enum Event {
    /// A message. Its body is foreign content.
    Delivery(Box<Delivery<'static>>),
    /// Another's publish. Its body is foreign content.
    Publish(Box<Deliver<'static>>),
    /// How far a receiver got with a message of ours.
    Status(Status<'static>),
    /// What an agent of another instance is doing.
    Presence(Box<PresenceUpdate>),
    /// A task changed.
    TaskEvent(Box<TaskEvent>),
    /// An administrator intervenes.
    Control(Box<Control>),
    /// A handoff was offered, accepted or declined.
    Handoff(Box<Handoff>),
    /// Everything up to this position has been told.
    Cursor(Cursor<'static>),
    /// Positions are void or something is missing; see the reason.
    Resync(Resync),
    /// The server refused a frame that no call waits for, such as a receipt.
    Refused {
        /// Id of the frame, if it had one.
        client_msg_id: Option<String>,
        /// Type of the frame, such as `message.receipt`, if the server says it.
        answers: Option<String>,
        /// Why.
        error: Detail,
    },
    /// The server sent a frame this client could not read. Its content is not in later events.
    Unreadable(Invalid),
    /// The connection is lost; the client reconnects by itself.
    Disconnected {
        /// For people.
        reason: String,
        /// Delay before the next attempt.
        retry_in: Duration,
    },
    /// The connection is back and the agents are announced again.
    Reconnected,
}

impl Event {
    /// Channel or swarm and `seq` of an event that has one.
    pub fn position(&self) -> Option<(std::borrow::Cow<'_, str>, u64)> {
        match self {
            Self::Delivery(delivery) => Some((delivery.network.cursor_key(), delivery.seq)),
            Self::Publish(publish) => Some((publish.channel.as_ref().into(), publish.seq)),
            Self::TaskEvent(event) => Some((event.channel.as_str().into(), event.seq)),
            Self::Cursor(cursor) => Some((cursor.channel.as_ref().into(), cursor.seq)),
            _ => None,
        }
    }

    /// Whether the server tells it again after a reconnect: what has a position, present agents, active controls, open offers.
    pub(crate) fn is_replayed(&self) -> bool {
        match self {
            Self::Presence(_) | Self::Control(_) => true,
            Self::Handoff(handoff) => matches!(**handoff, Handoff::Offer(_)),
            other => other.position().is_some(),
        }
    }

    /// Whether it is about the connection; of several in a row only the last matters.
    pub(crate) fn is_connection_notice(&self) -> bool {
        matches!(self, Self::Disconnected { .. } | Self::Reconnected)
    }
}

/// A step of a handoff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Handoff {
    /// Offered to an agent of ours; answer with an ack or a reject.
    Offer(HandoffOffer<'static>),
    /// Accepted by the other side.
    Ack(HandoffAck<'static>),
    /// Declined by the other side.
    Reject(HandoffReject<'static>),
}

/// The client's positions and the server's log do not fit together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resync {
    /// The channel or `swarm:<id>` where it was noticed; empty when the reason names several.
    pub channel: String,
    /// What does not fit.
    pub reason: ResyncReason,
}

/// What does not fit, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResyncReason {
    /// The server has another log, for example from a backup. Positions of every channel are void; read history again.
    OtherEpoch {
        /// The log it has now.
        epoch: String,
    },
    /// Events are gone, removed by retention.
    Gap {
        /// First position that is missing.
        missed_from: u64,
        /// First position that is still there.
        first_available: u64,
    },
    /// More channels are followed than one connection can resume. These start at the head again; what they missed meanwhile
    /// must be read from history.
    TooManyCursors {
        /// The channels that were quiet for longest.
        channels: Vec<String>,
    },
    /// The log continues at an earlier position than the client had seen. What it saw after that may not have happened.
    Rewound {
        /// Where it continues.
        seq: u64,
    },
}
