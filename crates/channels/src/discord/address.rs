//! Ids of Discord: snowflakes, which are numbers with the time of their making in them; and ids of messages, which are these within
//! a channel's.

use serde::de::{Deserialize, Deserializer, Error as _};
use std::fmt;
use switchboard_core::port::channel::AddressKind;
use switchboard_core::time::WallMs;

/// When Discord's time begins: 2015-01-01.
const EPOCH_MS: i64 = 1_420_070_400_000;
/// Digits of a snowflake. Fewer were made within Discord's first day.
const DIGITS: std::ops::RangeInclusive<usize> = 15..=20;

/// An id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Snowflake(pub u64);

impl Snowflake {
    /// The one form that is taken: 15 to 20 digits, the first of which is no zero.
    pub fn parse(text: &str) -> Option<Self> {
        let shaped = DIGITS.contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_digit())
            && !text.starts_with('0');
        shaped.then(|| text.parse().ok()).flatten().map(Self)
    }

    /// When it was made.
    pub fn at_ms(self) -> WallMs {
        EPOCH_MS + i64::try_from(self.0 >> 22).unwrap_or(0)
    }
}

impl fmt::Display for Snowflake {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl<'de> Deserialize<'de> for Snowflake {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom("not an id"))
    }
}

/// A message: `CHANNEL:ID`, for only both together lead to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct MessageId {
    pub channel: Snowflake,
    pub id: Snowflake,
}

impl MessageId {
    pub fn parse(text: &str) -> Option<Self> {
        let (channel, id) = text.split_once(':')?;
        Some(Self { channel: Snowflake::parse(channel)?, id: Snowflake::parse(id)? })
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.channel, self.id)
    }
}

/// The id alone, also of a mention that was copied.
pub(super) fn normalise(kind: AddressKind, to: &str) -> Result<String, String> {
    let to = to.trim();
    let marks: &[&str] = if kind == AddressKind::Direct { &["<@!", "<@"] } else { &["<#"] };
    let inner = marks.iter().find_map(|mark| to.strip_prefix(mark)?.strip_suffix('>'));
    Snowflake::parse(inner.unwrap_or(to)).map(|id| id.to_string()).ok_or_else(|| {
        let what = if kind == AddressKind::Direct { "user" } else { "channel" };
        format!(
            "is not the id of a {what} on Discord, a number of 15 to 20 digits: switch on Settings > Advanced > Developer Mode there, \
             then right-click the {what} and choose Copy {} ID",
            if kind == AddressKind::Direct { "User" } else { "Channel" }
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_one_form() {
        let direct = |to| normalise(AddressKind::Direct, to);
        let channel = |to| normalise(AddressKind::Channel, to);
        for to in ["175928847299117063", " <@175928847299117063>\n", "<@!175928847299117063>"] {
            assert_eq!(direct(to).as_deref(), Ok("175928847299117063"));
        }
        assert_eq!(channel("<#175928847299117063>").as_deref(), Ok("175928847299117063"));
        for junk in [
            "ada",
            "@ada",
            "ada#1234",
            "12345",
            "0175928847299117063",
            "99999999999999999999",
            "<#175928847299117063>",
            "<@175928847299117063",
            "<@&175928847299117063>",
            "+175928847299117063",
            "１７５９２８８４７２９９１１７０６３",
        ] {
            assert!(direct(junk).is_err(), "{junk}");
        }
        assert!(channel("<@175928847299117063>").is_err());
    }

    #[test]
    fn an_id_knows_its_time() {
        assert_eq!(Snowflake(175_928_847_299_117_063).at_ms(), 1_462_015_105_796);
    }

    #[test]
    fn a_message_is_found_by_both_ids() {
        let id = MessageId::parse("175928847299117063:175928847299117064");
        assert_eq!(id.map(|id| id.to_string()).as_deref(), Some("175928847299117063:175928847299117064"));
        for junk in [
            "",
            "175928847299117063",
            "175928847299117063:",
            "a:b",
            "175928847299117063:1759288472991170641:1",
        ] {
            assert_eq!(MessageId::parse(junk), None, "{junk}");
        }
    }
}
