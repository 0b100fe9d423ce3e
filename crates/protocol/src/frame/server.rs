//! Frames a server sends.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::{HandoffAck, HandoffOffer, HandoffReject, Heartbeat, PresenceState, Priority, Privacy};
use crate::de::{UnknownFields, borrowed_option, borrowed_raw, read_tagged};
use crate::error::Detail;
use crate::json::{self, Limits};
use crate::message::{Delivery, Status, Stored, TaskEvent, own, own_option};
use crate::profile::PresenceProfile;
use crate::text::Invalid;
use crate::time::UtcTime;

/// `published`: a publish is durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published<'a> {
    /// As the sender chose it.
    #[serde(borrow)]
    pub client_msg_id: Cow<'a, str>,
    /// The channel.
    #[serde(borrow)]
    pub channel: Cow<'a, str>,
    /// Position on the channel.
    pub seq: u64,
    /// When it was stored.
    pub server_time: UtcTime,
}

impl Published<'_> {
    /// The same, independent of the text it was read from.
    pub fn into_owned(self) -> Published<'static> {
        Published {
            client_msg_id: own(self.client_msg_id),
            channel: own(self.channel),
            seq: self.seq,
            server_time: self.server_time,
        }
    }
}

/// `deliver`: someone else's publish.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deliver<'a> {
    /// Position on the channel.
    pub seq: u64,
    /// The channel.
    #[serde(borrow)]
    pub channel: Cow<'a, str>,
    /// The sending agent.
    #[serde(borrow)]
    pub from: Cow<'a, str>,
    /// The one agent it is for.
    #[serde(default, borrow, deserialize_with = "borrowed_option", skip_serializing_if = "Option::is_none")]
    pub to: Option<Cow<'a, str>>,
    /// Kind of event.
    #[serde(borrow)]
    pub kind: Cow<'a, str>,
    /// How urgent.
    pub priority: Priority,
    /// Who may see it.
    pub privacy: Privacy,
    /// As the sender wrote it. Foreign content: fence it before a model sees it.
    #[serde(borrow, deserialize_with = "borrowed_raw")]
    pub body: Cow<'a, RawValue>,
    /// When it was stored.
    pub server_time: UtcTime,
}

impl Deliver<'_> {
    /// The same, independent of the text it was read from.
    pub fn into_owned(self) -> Deliver<'static> {
        Deliver {
            seq: self.seq,
            channel: own(self.channel),
            from: own(self.from),
            to: own_option(self.to),
            kind: own(self.kind),
            priority: self.priority,
            privacy: self.privacy,
            body: Cow::Owned(self.body.into_owned()),
            server_time: self.server_time,
        }
    }
}

/// `presence_update`: what an agent of another instance is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PresenceUpdate {
    /// The agent.
    pub agent_id: String,
    /// Its instance.
    pub instance_id: String,
    /// Its role.
    pub role: String,
    /// The vault it works in.
    pub vault_id: String,
    /// What it is doing.
    pub state: PresenceState,
    /// When the server learned it.
    pub server_time: UtcTime,
    /// The agent's profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_id: Option<String>,
    /// What it says about itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<PresenceProfile>,
}

/// What a control frame asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlAction {
    /// Refuse calls that change something until `resume`.
    Hold,
    /// Refuse the lease or handoff in `target_ref`.
    Veto,
    /// Refuse calls that change something; end the task.
    Stop,
    /// End a hold.
    Resume,
}

/// `control`: an administrator, or an agent with the right, intervenes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Control {
    /// Opaque id.
    pub control_id: String,
    /// The agent; absent: every agent of the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_agent: Option<String>,
    /// Lease or handoff of a veto.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<String>,
    /// What to do.
    pub action: ControlAction,
    /// Why, for people.
    pub reason: String,
    /// Who, for people.
    pub issued_by: String,
    /// Position on the channel.
    pub seq: u64,
    /// When it was stored.
    pub server_time: UtcTime,
}

/// `cursor`: everything up to `seq` that the follower may see has been sent (extension). Explains positions that were
/// addressed to others, and gaps that retention left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cursor<'a> {
    /// A channel, or `swarm:<id>`.
    #[serde(borrow)]
    pub channel: Cow<'a, str>,
    /// The position.
    pub seq: u64,
    /// The log the position belongs to; cursors of another epoch are void.
    #[serde(borrow)]
    pub epoch: Cow<'a, str>,
    /// Earliest position still kept, when events between the asked cursor and it are gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_available: Option<u64>,
}

impl Cursor<'_> {
    /// The same, independent of the text it was read from.
    pub fn into_owned(self) -> Cursor<'static> {
        Cursor {
            channel: own(self.channel),
            seq: self.seq,
            epoch: own(self.epoch),
            first_available: self.first_available,
        }
    }
}

/// `error`: a frame was refused; the socket stays open unless the server closes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorFrame<'a> {
    /// Id of the refused frame, if it had one.
    #[serde(default, borrow, deserialize_with = "borrowed_option", skip_serializing_if = "Option::is_none")]
    pub client_msg_id: Option<Cow<'a, str>>,
    /// Extension: the type (`t`) of the refused frame, where the server could tell. Frames without an id are told apart by it.
    #[serde(default, borrow, deserialize_with = "borrowed_option", skip_serializing_if = "Option::is_none")]
    pub answers: Option<Cow<'a, str>>,
    /// Why.
    pub error: Detail,
}

impl ErrorFrame<'_> {
    /// The same, independent of the text it was read from.
    pub fn into_owned(self) -> ErrorFrame<'static> {
        ErrorFrame {
            client_msg_id: own_option(self.client_msg_id),
            answers: own_option(self.answers),
            error: self.error,
        }
    }
}

/// A frame from a server. Serializes with its tag; reads tolerate fields and types this version does not know.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "t")]
#[expect(clippy::large_enum_variant, reason = "a message delivery, the large one, is also the common one")]
pub enum ServerFrame<'a> {
    /// `published`.
    #[serde(rename = "published")]
    Published(Published<'a>),
    /// `deliver`.
    #[serde(rename = "deliver")]
    Deliver(Deliver<'a>),
    /// `presence_update`.
    #[serde(rename = "presence_update")]
    PresenceUpdate(PresenceUpdate),
    /// `control`.
    #[serde(rename = "control")]
    Control(Control),
    /// `handoff.offer`.
    #[serde(rename = "handoff.offer")]
    HandoffOffer(HandoffOffer<'a>),
    /// `handoff.ack`.
    #[serde(rename = "handoff.ack")]
    HandoffAck(HandoffAck<'a>),
    /// `handoff.reject`.
    #[serde(rename = "handoff.reject")]
    HandoffReject(HandoffReject<'a>),
    /// `message.stored`.
    #[serde(rename = "message.stored")]
    MessageStored(Stored<'a>),
    /// `message.deliver`.
    #[serde(rename = "message.deliver")]
    MessageDeliver(Delivery<'a>),
    /// `message.status`.
    #[serde(rename = "message.status")]
    MessageStatus(Status<'a>),
    /// `task.event`.
    #[serde(rename = "task.event")]
    TaskEvent(TaskEvent),
    /// `cursor` (extension).
    #[serde(rename = "cursor")]
    Cursor(Cursor<'a>),
    /// `ping`.
    #[serde(rename = "ping")]
    Ping(Heartbeat),
    /// `pong`.
    #[serde(rename = "pong")]
    Pong(Heartbeat),
    /// `error`.
    #[serde(rename = "error")]
    Error(ErrorFrame<'a>),
    /// A type this version does not know, to be ignored; the name is unchecked.
    #[serde(skip)]
    Unknown(Cow<'a, str>),
}

impl<'a> ServerFrame<'a> {
    /// Read one text frame of a server within `limits`, borrowing from it.
    pub fn parse(text: &'a str, limits: Limits) -> Result<Self, Invalid> {
        let scan = json::scan(text.as_bytes(), limits)?;
        let Some(tag) = scan.t else { return Err(Invalid::rule("t", "is required and must be a string")) };
        Ok(match &*tag {
            "message.deliver" => Self::MessageDeliver(tolerant(text)?),
            "deliver" => Self::Deliver(tolerant(text)?),
            "message.stored" => Self::MessageStored(tolerant(text)?),
            "published" => Self::Published(tolerant(text)?),
            "message.status" => Self::MessageStatus(tolerant(text)?),
            "cursor" => Self::Cursor(tolerant(text)?),
            "presence_update" => Self::PresenceUpdate(tolerant(text)?),
            "control" => Self::Control(tolerant(text)?),
            "handoff.offer" => Self::HandoffOffer(tolerant(text)?),
            "handoff.ack" => Self::HandoffAck(tolerant(text)?),
            "handoff.reject" => Self::HandoffReject(tolerant(text)?),
            "task.event" => Self::TaskEvent(tolerant(text)?),
            "ping" => Self::Ping(tolerant(text)?),
            "pong" => Self::Pong(tolerant(text)?),
            "error" => Self::Error(tolerant(text)?),
            _ => Self::Unknown(tag),
        })
    }

    /// The same, independent of the text it was read from.
    pub fn into_owned(self) -> ServerFrame<'static> {
        match self {
            Self::Published(frame) => ServerFrame::Published(frame.into_owned()),
            Self::Deliver(frame) => ServerFrame::Deliver(frame.into_owned()),
            Self::PresenceUpdate(frame) => ServerFrame::PresenceUpdate(frame),
            Self::Control(frame) => ServerFrame::Control(frame),
            Self::HandoffOffer(frame) => ServerFrame::HandoffOffer(frame.into_owned()),
            Self::HandoffAck(frame) => ServerFrame::HandoffAck(frame.into_owned()),
            Self::HandoffReject(frame) => ServerFrame::HandoffReject(frame.into_owned()),
            Self::MessageStored(frame) => ServerFrame::MessageStored(frame.into_owned()),
            Self::MessageDeliver(frame) => ServerFrame::MessageDeliver(frame.into_owned()),
            Self::MessageStatus(frame) => ServerFrame::MessageStatus(frame.into_owned()),
            Self::TaskEvent(frame) => ServerFrame::TaskEvent(frame),
            Self::Cursor(frame) => ServerFrame::Cursor(frame.into_owned()),
            Self::Ping(frame) => ServerFrame::Ping(frame),
            Self::Pong(frame) => ServerFrame::Pong(frame),
            Self::Error(frame) => ServerFrame::Error(frame.into_owned()),
            Self::Unknown(tag) => ServerFrame::Unknown(own(tag)),
        }
    }

    /// The frame as text. Fails only for [`ServerFrame::Unknown`], which has no content to write.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }
}

fn tolerant<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Invalid> {
    read_tagged(text, UnknownFields::Skip)
}

/// For frames inside HTTP bodies; reads from `serde_json` only.
impl<'de> Deserialize<'de> for ServerFrame<'static> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let frame = ServerFrame::parse(raw.get(), Limits::HTTP_BODY).map_err(serde::de::Error::custom)?;
        Ok(frame.into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_newer_server_adds_is_skipped() {
        let text = r#"{"later":{"t":"x"},"t":"pong","nonce":18446744073709551615,"more":[1]}"#;
        let frame = ServerFrame::parse(text, Limits::FRAME).unwrap();
        assert!(matches!(frame, ServerFrame::Pong(Heartbeat { nonce: u64::MAX })));
        let frame = ServerFrame::parse(r#"{"t":"dream","x":1}"#, Limits::FRAME).unwrap();
        assert!(matches!(frame, ServerFrame::Unknown(Cow::Borrowed("dream"))));
    }

    #[test]
    fn broken_frames_name_the_field() {
        for (text, field) in [
            (r#"{"nonce":1}"#, "t"),
            (r#"{"t":"pong"}"#, "nonce"),
            (r#"{"t":"cursor","channel":"c","seq":"1","epoch":"e"}"#, "seq"),
            (r#"{"t":"error","error":{"code":"not_found"}}"#, "message"),
        ] {
            assert_eq!(ServerFrame::parse(text, Limits::FRAME).unwrap_err().field, field, "{text}");
        }
    }

    #[test]
    fn cursors_say_how_far_the_follower_is() {
        let cursor = Cursor { channel: "swarm:s".into(), seq: 7, epoch: "e1".into(), first_available: None };
        let text = ServerFrame::Cursor(cursor.clone()).to_json().unwrap();
        assert_eq!(text, r#"{"t":"cursor","channel":"swarm:s","seq":7,"epoch":"e1"}"#);
        let ServerFrame::Cursor(read) = ServerFrame::parse(&text, Limits::FRAME).unwrap() else {
            panic!("{text}")
        };
        assert_eq!(read, cursor);
    }

    #[test]
    fn owned_frames_outlive_their_text() {
        let frame: ServerFrame<'static> = {
            let text =
                r#"{"t":"error","client_msg_id":"m","error":{"code":"not_found","message":"x"}}"#.to_owned();
            serde_json::from_str(&text).unwrap()
        };
        assert!(matches!(frame, ServerFrame::Error(error) if error.client_msg_id.as_deref() == Some("m")));
    }

    #[test]
    fn an_unknown_frame_cannot_be_sent() {
        assert!(ServerFrame::Unknown("x".into()).to_json().is_err());
    }
}
