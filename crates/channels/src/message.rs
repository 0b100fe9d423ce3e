//! A message as programs read it: the JSON object that `webhook` posts and `exec` hands over. It is made once, when a message is prepared,
//! and stored as the part's text, so that every attempt carries the same bytes, also after an upgrade (faults O05, I24).

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;
use switchboard_core::port::channel::{Address, Attempt, Button, Draft, MessageKind, Part};
use switchboard_core::time::WallMs;

/// What a message says. Members that have nothing to say are left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message<'a> {
    /// What is wanted of the recipient.
    pub kind: MessageKind,
    /// The sending agent. Foreign text.
    pub from: Cow<'a, str>,
    /// CommonMark, as the agent wrote it. Foreign text.
    pub text: Cow<'a, str>,
    /// Short code by which an answer names what it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Cow<'a, str>>,
    /// Until when an answer counts, in Unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<WallMs>,
    /// Choices.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub buttons: Cow<'a, [Button]>,
    /// Where the recipient can answer in a browser.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<Cow<'a, str>>,
}

impl<'a> From<&Draft<'a>> for Message<'a> {
    fn from(draft: &Draft<'a>) -> Self {
        Self {
            kind: draft.kind,
            from: draft.from.into(),
            text: draft.body.into(),
            code: draft.code.map(Into::into),
            deadline_ms: draft.deadline_ms,
            buttons: draft.buttons.into(),
            link: draft.link.map(Into::into),
        }
    }
}

/// The one part of a message, or why there is none. `bytes_max` bounds the JSON text.
pub fn prepare(draft: &Draft<'_>, bytes_max: usize) -> Result<Vec<Part>, String> {
    let text = serde_json::to_string(&Message::from(draft))
        .map_err(|error| format!("cannot be written as JSON: {error}"))?;
    if text.len() > bytes_max {
        return Err(format!(
            "has {} bytes as JSON and must have at most {bytes_max}: shorten it",
            text.len()
        ));
    }
    Ok(vec![Part { text, ..Part::default() }])
}

/// The message of a prepared part.
pub fn read(part: &Part) -> Result<Message<'_>, String> {
    serde_json::from_str(&part.text).map_err(|error| format!("the stored part is no message: {error}"))
}

/// A prepared part's JSON, byte for byte.
pub(crate) fn raw(part: &Part) -> Result<&RawValue, String> {
    read(part)?;
    serde_json::from_str(&part.text).map_err(|error| format!("the stored part is no message: {error}"))
}

/// One part of a message and whom it is for; the same bytes at each attempt.
#[derive(Debug, Serialize)]
pub(crate) struct Envelope<'a> {
    /// Stable over all attempts.
    pub delivery: &'a str,
    /// The channel's configured name, or the one that was asked for when this is the fallback.
    pub channel: &'a str,
    /// Whom it is for.
    pub to: &'a Address,
    /// Which part of how many.
    pub place: Place,
    /// Ids of what this continues.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub references: &'a [String],
    /// What it says.
    pub message: &'a RawValue,
}

/// Number of a part, from 1, and how many there are.
#[derive(Debug, Serialize)]
pub(crate) struct Place {
    part: u32,
    of: u32,
}

impl<'a> Envelope<'a> {
    /// What `attempt` delivers.
    pub fn of(attempt: &'a Attempt) -> Result<Self, String> {
        let (part, of) = attempt.place;
        Ok(Self {
            delivery: &attempt.delivery,
            channel: &attempt.channel,
            to: &attempt.to,
            place: Place { part, of },
            references: &attempt.references,
            message: raw(&attempt.part)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_back_whole() {
        let buttons = [Button { label: "Approve".into(), value: "b1".into() }];
        let draft = Draft {
            body: "line\r\n\"quoted\" \u{202e}é🦀",
            kind: MessageKind::Approval,
            from: "builder",
            code: Some("K7"),
            deadline_ms: Some(1_800_000_000_000),
            buttons: &buttons,
            link: Some("https://hub.example/a/1"),
        };
        let parts = prepare(&draft, 1000).unwrap();
        assert_eq!(read(&parts[0]).unwrap(), Message::from(&draft));
        let size = parts[0].text.len();
        assert_eq!(prepare(&draft, size).unwrap(), parts);
        assert!(prepare(&draft, size - 1).unwrap_err().contains("shorten it"));
        assert!(read(&Part { text: "hello".into(), ..Part::default() }).is_err());
    }
}
