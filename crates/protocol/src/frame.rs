//! Frames of the socket `GET /v1/bus`: JSON texts tagged by `t` (contract section 3).
//!
//! [`client`] is what a client may send, [`server`] what a server may. Shapes that travel both ways live here. Everything
//! here refuses unknown fields; [`server::ServerFrame`] skips them at the top level, so that servers can grow.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::limits::{BUNDLE_REF_CHARS_MAX, REJECT_REASON_CHARS_MAX};
use crate::message::own;
use crate::text::{Channel, Invalid, validate_id, validate_text};
use crate::time::UtcTime;

pub mod client;
pub mod server;

/// What an agent is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PresenceState {
    /// Working.
    Active,
    /// Connected, doing nothing.
    Idle,
    /// Gone.
    Closed,
}

/// How urgent a publish is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// Can wait.
    Low,
    /// The usual.
    Normal,
    /// Soon.
    High,
    /// Now.
    Critical,
}

/// Who may see a publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Privacy {
    /// Everyone on the channel.
    Public,
    /// The team.
    Team,
    /// Only `to`.
    Private,
}

/// `handoff.offer`, either direction: redelivered until acknowledged, rejected or past the deadline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandoffOffer<'a> {
    /// Chosen by the offerer.
    #[serde(borrow)]
    pub handoff_id: Cow<'a, str>,
    /// The channel.
    #[serde(borrow)]
    pub channel: Cow<'a, str>,
    /// The offering agent.
    #[serde(borrow)]
    pub from: Cow<'a, str>,
    /// The agent it is offered to.
    #[serde(borrow)]
    pub to: Cow<'a, str>,
    /// Reference to what is handed over, at most 512 characters; never the content.
    #[serde(borrow)]
    pub bundle_ref: Cow<'a, str>,
    /// When the offer lapses.
    pub deadline: UtcTime,
}

impl HandoffOffer<'_> {
    /// Check every field.
    pub fn validate(&self) -> Result<(), Invalid> {
        validate_id(&self.handoff_id, "handoff_id")?;
        Channel::parse(&self.channel)?;
        validate_id(&self.from, "from")?;
        validate_id(&self.to, "to")?;
        validate_text(&self.bundle_ref, BUNDLE_REF_CHARS_MAX, "bundle_ref", false)
    }

    /// The same, independent of the text it was read from.
    pub fn into_owned(self) -> HandoffOffer<'static> {
        HandoffOffer {
            handoff_id: own(self.handoff_id),
            channel: own(self.channel),
            from: own(self.from),
            to: own(self.to),
            bundle_ref: own(self.bundle_ref),
            deadline: self.deadline,
        }
    }
}

/// `handoff.ack`, receiver to server to offerer: the handoff is complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandoffAck<'a> {
    /// The offer.
    #[serde(borrow)]
    pub handoff_id: Cow<'a, str>,
    /// The accepting agent.
    #[serde(borrow)]
    pub by: Cow<'a, str>,
}

impl HandoffAck<'_> {
    /// Check both ids.
    pub fn validate(&self) -> Result<(), Invalid> {
        validate_id(&self.handoff_id, "handoff_id")?;
        validate_id(&self.by, "by")
    }

    /// The same, independent of the text it was read from.
    pub fn into_owned(self) -> HandoffAck<'static> {
        HandoffAck { handoff_id: own(self.handoff_id), by: own(self.by) }
    }
}

/// `handoff.reject`, receiver to server to offerer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandoffReject<'a> {
    /// The offer.
    #[serde(borrow)]
    pub handoff_id: Cow<'a, str>,
    /// The declining agent.
    #[serde(borrow)]
    pub by: Cow<'a, str>,
    /// Why, at most 500 characters, one line.
    #[serde(borrow)]
    pub reason: Cow<'a, str>,
}

impl HandoffReject<'_> {
    /// Check every field.
    pub fn validate(&self) -> Result<(), Invalid> {
        validate_id(&self.handoff_id, "handoff_id")?;
        validate_id(&self.by, "by")?;
        validate_text(&self.reason, REJECT_REASON_CHARS_MAX, "reason", false)
    }

    /// The same, independent of the text it was read from.
    pub fn into_owned(self) -> HandoffReject<'static> {
        HandoffReject { handoff_id: own(self.handoff_id), by: own(self.by), reason: own(self.reason) }
    }
}

/// `ping` and `pong`, either direction; a pong echoes the nonce exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// Any unsigned 64-bit number.
    pub nonce: u64,
}
