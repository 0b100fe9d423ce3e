//! The channel port: one network on which people are reached, and answer.
//!
//! # Promises of a channel
//! 1. **One attempt is one I/O.** [`Channel::perform`] makes one try and says how it ended. It never repeats by itself: the outbox owns
//!    every retry.
//! 2. **Three outcomes** (DESIGN law 5). [`Performed::Sent`] only when the service has confirmed; [`Performed::NotSent`] only when it is
//!    certain that nobody was reached; everything else, a time-out after the first byte included, is [`Performed::Unknown`].
//! 3. **Same id, same bytes.** Attempts of one delivery carry the same [`Attempt::delivery`] and the same part, so that a service that
//!    removes duplicates can ([`Dedup::ById`]).
//! 4. **Only what was cleared.** What is performed is a [`Cleared`]: nothing but the gate makes one (DESIGN law 7).
//! 5. **Preparing is pure.** [`Channel::prepare`] does no I/O and gives the same parts for the same draft; no part is over the limits
//!    of [`Capabilities`], nothing of the text is lost, and nothing in it becomes a mention or a link that was not one.
//! 6. **Durable before acknowledged.** [`Channel::listen`] acknowledges to its service (marks a mail as seen, moves an offset) only
//!    after [`Inbound::take`] has resolved to `Ok`.
//! 7. **Foreign text is text.** What comes in is data with a typed [`Origin`]; a channel decides nothing.
//! 8. **An outcome is shown in place.** [`Channel::amend`] changes a message that was sent, and only that one; made twice, it leaves
//!    what once would have.
//!
//! The conformance suite (`switchboard_channels::conformance`) proves them for every channel.

use crate::outbound::gate::Cleared;
use crate::port::store::StoreError;
use crate::time::WallMs;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Whom a message is for: a person, or a channel that several people share (seed, `Recipient`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AddressKind {
    /// A person, by the handle that they have on the channel.
    Direct,
    /// A shared channel, by its own id.
    Channel,
}

impl AddressKind {
    /// As the wire says it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Channel => "channel",
        }
    }
}

/// An address in the one form in which it is compared (contract section 2: normalised per channel).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Address {
    /// Person or shared channel.
    pub kind: AddressKind,
    /// The normalised handle.
    pub handle: String,
}

/// Whether a person is asked something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MessageKind {
    /// An answer is wanted; it takes the person's floor.
    Question,
    /// For information.
    Notice,
    /// A decision about a parked call is wanted: `approve` or `deny`.
    Approval,
}

/// What a body's length is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LengthUnit {
    /// Bytes of UTF-8.
    Bytes,
    /// Unicode scalar values.
    Chars,
    /// UTF-16 code units.
    Utf16,
}

/// The dialect a channel's parts are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// CommonMark as it came, for readers that render it themselves.
    CommonMark,
    /// Plain text.
    Plain,
    /// Plain text with an HTML form beside it.
    PlainAndHtml,
    /// Slack's mrkdwn.
    Slack,
    /// The HTML that Telegram reads.
    Telegram,
    /// Discord's Markdown.
    Discord,
    /// Plain text with the HTML of Matrix beside it.
    Matrix,
}

/// Whether the service removes the duplicates of a repeated attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Dedup {
    /// It does, by [`Attempt::delivery`]: after an unknown outcome the same attempt may be made again.
    ById,
    /// It does, but forgets: the same attempt may be made again within so many milliseconds after the first.
    ByIdWithin(u64),
    /// It does not: an unknown outcome stays unknown until a person decides.
    None,
}

/// What a channel can do, as data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "a table of what a channel can do is a list of yes and no")]
pub struct Capabilities {
    /// Whether it reaches a single person.
    pub direct: bool,
    /// Whether it posts to shared channels.
    pub shared: bool,
    /// Whether answers come back on it.
    pub answers: bool,
    /// Longest part, in [`Capabilities::unit`], counted on what is sent (after escaping).
    pub part_max: usize,
    /// What lengths are counted in.
    pub unit: LengthUnit,
    /// Most parts of one message.
    pub parts_max: usize,
    /// Dialect of the parts.
    pub dialect: Dialect,
    /// Whether a message can be sent as the answer to another.
    pub threads: bool,
    /// Whether a sent message can be changed.
    pub edits: bool,
    /// Most buttons under one message; 0 when it has none.
    pub buttons_max: usize,
    /// Duplicates.
    pub dedup: Dedup,
    /// Least time between two messages to one target, in milliseconds; 0 when the service names none.
    pub pace_ms: u64,
    /// Most attempts at a time; the hub begins no more.
    pub at_once: usize,
    /// Whether a person must be paired before they are reached (contract section 2). Only a channel whose targets an operator has
    /// configured one by one says no.
    pub consent: bool,
}

/// A choice that a person can make with one press.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Button {
    /// What stands on it.
    pub label: String,
    /// What comes back when it is pressed; opaque, single use, bound to this occurrence; at most 32 bytes of ASCII.
    pub value: String,
}

/// A message before it is put in a channel's own form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft<'a> {
    /// Text in CommonMark, as the agent wrote it.
    pub body: &'a str,
    /// What it is.
    pub kind: MessageKind,
    /// The sending agent, as people know it. Foreign text.
    pub from: &'a str,
    /// Short code by which an answer can name what it answers, where it is needed.
    pub code: Option<&'a str>,
    /// Until when an answer counts.
    pub deadline_ms: Option<WallMs>,
    /// Choices.
    pub buttons: &'a [Button],
    /// Where the person can answer in a browser.
    pub link: Option<&'a str>,
}

/// One part of a message in its channel's form; stored, and sent with the same bytes at each attempt.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Part {
    /// The text.
    pub text: String,
    /// The same as HTML, where the dialect has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
    /// A subject line, where the channel has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Buttons under it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub buttons: Vec<Button>,
}

/// One try to send one part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Stable over all attempts of this part, unique for ever: letters, digits, `_` and `-`, at most 64.
    pub delivery: String,
    /// Which try this is, from 1. It fences: what an older one reports is not recorded.
    pub attempt: u32,
    /// The channel's configured name.
    pub channel: String,
    /// Whom it is for.
    pub to: Address,
    /// The part.
    pub part: Part,
    /// Number of the part, from 1, and how many there are.
    pub place: (u32, u32),
    /// Message ids, given by the service, of what this continues: the last is what it answers.
    pub references: Vec<String>,
    /// When the message was accepted.
    pub accepted_ms: WallMs,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Performed {
    /// The service has confirmed.
    Sent {
        /// The id it gave, where it gives one.
        message_id: Option<String>,
    },
    /// Nobody was reached.
    NotSent(NotSent),
    /// Whether it went out is not known.
    Unknown {
        /// Why, for people.
        reason: String,
    },
}

/// Why nobody was reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotSent {
    /// The service's own code, where it has one.
    pub code: Option<String>,
    /// For people: what went wrong; no secrets, no bodies.
    pub reason: String,
    /// What it means for the next try.
    pub class: FailureClass,
    /// How long the service asked to wait, in milliseconds, rounded up.
    pub retry_after_ms: Option<u64>,
    /// Whether that holds for all that this channel sends, and not for this target alone.
    pub account_wide: bool,
}

/// What a failure means for the next try.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// Passes by itself: try again.
    Transient,
    /// The service asked to slow down; not counted as a failed attempt.
    Throttled,
    /// This message will never go through.
    Permanent,
    /// The address does not exist any more: do not write to it again until somebody says so.
    BadAddress,
    /// Our credentials or configuration are wrong: nothing on this channel will go through until they are mended.
    Misconfigured,
}

impl NotSent {
    /// A failure of this class without a code or a wait.
    pub fn new(class: FailureClass, reason: impl Into<String>) -> Self {
        Self { code: None, reason: reason.into(), class, retry_after_ms: None, account_wide: false }
    }
}

/// How well the sender of something that came in is known (DESIGN law 8).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The service vouches for the sender.
    Verified {
        /// By what: `session`, `dkim`, `signature`, `api`, `secret_address`.
        by: String,
    },
    /// It is only what the message says of itself.
    Claimed,
    /// A machine wrote it: a bounce, an absence note, an echo of our own. Never an answer.
    Automatic,
}

/// Something that came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incoming {
    /// The channel's configured name.
    pub channel: String,
    /// The steadiest id that the service gives it: the same event brought again has the same (DESIGN law 4).
    pub event_id: String,
    /// The sender's normalised handle.
    pub from: String,
    /// How well it is known.
    pub origin: Origin,
    /// What it is.
    pub what: IncomingKind,
    /// Id that the service gave to the message itself, by which it tells of its edits.
    pub message_id: Option<String>,
    /// The shared channel in which it was said; `None` when it was said to us alone.
    pub place: Option<String>,
    /// Ids, given by the service, of the messages that it answers, nearest last.
    pub references: Vec<String>,
    /// When it was written, by the service.
    pub at_ms: WallMs,
}

/// What came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IncomingKind {
    /// Text.
    Text {
        /// The person's own words, without what they quote.
        text: String,
    },
    /// A button was pressed.
    Button {
        /// Its [`Button::value`].
        value: String,
    },
    /// The person has changed what they wrote.
    Edited {
        /// Id of the message that was changed.
        message_id: String,
        /// What it says now.
        text: String,
    },
    /// The person has taken back what they wrote.
    Deleted {
        /// Id of the message that is gone.
        message_id: String,
    },
    /// A message of ours did not arrive after all.
    Bounce {
        /// Id of our message, as the service knows it.
        message_id: String,
        /// Whether the address is gone for good.
        permanent: bool,
        /// For people.
        reason: String,
    },
}

/// How something ended that a message of ours asked, to be shown where it was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Amendment {
    /// The delivery whose message is changed.
    pub delivery: String,
    /// Whom it was for.
    pub to: Address,
    /// The message's id, as the service gave it.
    pub message_id: String,
    /// What was sent. Its text stays; its buttons go.
    pub part: Part,
    /// What is put under it: one line of plain text, which is escaped like any text.
    pub outcome: String,
}

/// What a service posted to us, as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushed {
    /// Headers; names in small letters, values as they came.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The query, without its question mark.
    pub query: String,
    /// The body: at most 1 MiB.
    pub body: Vec<u8>,
}

impl Pushed {
    /// The only header of this name that is text; `None` when there is none, or several.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(header, _)| header == name);
        let (_, value) = found.next()?;
        found.next().is_none().then(|| std::str::from_utf8(value).ok()).flatten()
    }
}

/// What the service gets for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushAnswer {
    /// Status of HTTP.
    pub status: u16,
    /// Media type of the body.
    pub content_type: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

impl PushAnswer {
    /// An answer without a body.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: Vec::new() }
    }

    /// 200 with JSON.
    #[must_use]
    pub fn json(value: &serde_json::Value) -> Self {
        Self { status: 200, content_type: "application/json", body: value.to_string().into_bytes() }
    }
}

/// What a service says of our account there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// The account, as people know it: `@switchboard_bot`, `Switchboard in Example Team`.
    pub account: String,
    /// How a person pairs, with `{code}` where the code goes: a sentence, which may hold a link.
    pub invite: Option<String>,
}

/// Who takes what comes in.
pub trait Inbound: Send + Sync + 'static {
    /// Stores it and resolves when it is durable; a repeat of the same [`Incoming::event_id`] changes nothing and is `Ok`. What is
    /// refused (a stranger's text) is `Ok` as well: it is not to be brought again. The sentence, if there is one, is for the sender.
    fn take(&self, incoming: Incoming) -> BoxFuture<'_, Result<Option<String>, StoreError>>;
    /// The channel says how it is: `None` while it is connected, else why it is not.
    fn health(&self, channel: &str, fault: Option<String>);
}

/// A channel. See the promises above.
pub trait Channel: Send + Sync + 'static {
    /// Its configured name; what callers put in `channel`.
    fn name(&self) -> &str;
    /// What it is made of: `console`, `email`, `webhook`, `exec`, `slack`, `telegram`, `discord`, `matrix`, `ntfy`, `imessage`.
    fn kind(&self) -> &'static str;
    /// What it can do.
    fn capabilities(&self) -> &Capabilities;
    /// The one form of an address in which it is compared, or a sentence that says what one looks like here.
    fn normalise(&self, kind: AddressKind, to: &str) -> Result<String, String>;
    /// A message in this channel's form: one part at least; or a sentence that says why it cannot be.
    fn prepare(&self, draft: &Draft<'_>) -> Result<Vec<Part>, String>;
    /// Makes one attempt. Bounded in time by itself; dropping the future leaves the outcome unknown.
    fn perform(&self, attempt: Cleared) -> BoxFuture<'_, Performed>;
    /// Brings in what people write, until it is dropped; reconnects by itself. A channel without a way back never resolves.
    fn listen(self: Arc<Self>, inbound: Arc<dyn Inbound>) -> BoxFuture<'static, ()> {
        drop(inbound);
        Box::pin(std::future::pending())
    }
    /// Takes what the service posted to us. Nobody has vouched for it: the channel proves its signature before it believes anything.
    /// It answers only when what came in is durable.
    fn push<'a>(&'a self, pushed: Pushed, inbound: &'a dyn Inbound) -> BoxFuture<'a, PushAnswer> {
        let _ = (pushed, inbound);
        Box::pin(std::future::ready(PushAnswer::status(404)))
    }
    /// Changes a message that was sent. Only called where [`Capabilities::edits`] says that it can be.
    fn amend(&self, amendment: Amendment) -> BoxFuture<'_, Performed> {
        drop(amendment);
        let why = NotSent::new(FailureClass::Permanent, "messages cannot be changed here");
        Box::pin(std::future::ready(Performed::NotSent(why)))
    }
    /// Asks the service whether our credentials hold, with a real call that reaches nobody; or a sentence that says what is wrong and
    /// how to mend it. Bounded in time by itself.
    fn check(&self) -> BoxFuture<'_, Result<Checked, String>> {
        let checked = Checked { account: self.name().to_owned(), invite: None };
        Box::pin(std::future::ready(Ok(checked)))
    }
}

/// Longest name of a channel, in characters.
pub const NAME_CHARS_MAX: usize = 32;

/// Refuses a name that is not made of a small letter or digit and up to 31 small letters, digits, `_` and `-`.
pub fn check_name(name: &str) -> Result<(), String> {
    let is_good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let starts = name.bytes().next().is_some_and(is_good);
    let is_sound =
        starts && name.len() <= NAME_CHARS_MAX && name.bytes().all(|b| is_good(b) || b == b'_' || b == b'-');
    if is_sound {
        return Ok(());
    }
    Err(format!(
        "a channel's name begins with a small letter or a digit and has up to {NAME_CHARS_MAX} small letters, digits, `_` and `-`"
    ))
}

#[cfg(test)]
mod tests {
    use super::{NAME_CHARS_MAX, check_name};

    #[test]
    fn names_are_plain() {
        for good in ["a", "0", "team-chat_2", &"x".repeat(NAME_CHARS_MAX)] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        for bad in ["", "-a", "_a", "A", "a b", "é", "a.b", "a\n", &"x".repeat(NAME_CHARS_MAX + 1)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
