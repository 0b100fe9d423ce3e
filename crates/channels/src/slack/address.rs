//! Who and what is meant on Slack: ids of people, of conversations and of messages.
//!
//! A message's id is unique within its conversation alone; ours is `CONVERSATION:TS`, as in `C024BE91L:1355517523.000005`.

use std::fmt;
use switchboard_core::port::channel::AddressKind;

/// Longest id of a person or a conversation, in characters; Slack names no limit and gives 9 to 11.
const ID_CHARS_MAX: usize = 24;
/// Shortest, in characters.
const ID_CHARS_MIN: usize = 7;
/// Longest timestamp, in characters: sixteen digits and a point now.
const TS_CHARS_MAX: usize = 24;

/// The one form of an address: the id in capital letters.
pub(super) fn normalise(kind: AddressKind, to: &str) -> Result<String, String> {
    let to = to.trim();
    let handle = to.to_ascii_uppercase();
    // Without a digit, `general` and `ursula` could be ids: those are taken as Slack writes them alone.
    let is_sure = to == handle || to.bytes().any(|byte| byte.is_ascii_digit());
    match kind {
        AddressKind::Direct if is_sure && is_person(&handle) => Ok(handle),
        AddressKind::Channel if is_sure && is_shared(&handle) => Ok(handle),
        AddressKind::Direct => Err(
            "must be the id of a person on Slack, such as U024BE7LH, for names can be changed: open their \
            profile there, choose ⋮ and `Copy member ID`"
                .into(),
        ),
        AddressKind::Channel => Err(
            "must be the id of a channel on Slack, such as C024BE91L, for names can be changed: open the \
            channel there, choose its name, and copy the id at the end of `About`"
                .into(),
        ),
    }
}

fn is_id(id: &str, first: &[u8]) -> bool {
    (ID_CHARS_MIN..=ID_CHARS_MAX).contains(&id.len())
        && id.bytes().next().is_some_and(|byte| first.contains(&byte))
        && id.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

/// Whether it is the id of a person (`U…`; `W…` in an Enterprise Grid).
pub(super) fn is_person(id: &str) -> bool {
    is_id(id, b"UW")
}

/// Whether it is the id of a conversation that several people share.
pub(super) fn is_shared(id: &str) -> bool {
    is_id(id, b"CG")
}

/// Whether it is the id of a conversation with one person.
pub(super) fn is_direct(id: &str) -> bool {
    is_id(id, b"D")
}

/// A message's id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MessageId {
    /// Where it stands.
    pub conversation: String,
    /// Its timestamp, which is its id there.
    pub ts: String,
}

impl MessageId {
    /// The id of a message in a conversation; `None` when one of both is no id.
    pub fn new(conversation: &str, ts: &str) -> Option<Self> {
        let sound = (is_shared(conversation) || is_direct(conversation)) && is_ts(ts);
        sound.then(|| Self { conversation: conversation.to_owned(), ts: ts.to_owned() })
    }

    /// Reads `CONVERSATION:TS`.
    pub fn parse(id: &str) -> Option<Self> {
        let (conversation, ts) = id.split_once(':')?;
        Self::new(conversation, ts)
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.conversation, self.ts)
    }
}

/// Whether it is a timestamp: seconds, a point, and what makes it unique.
pub(super) fn is_ts(ts: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    ts.len() <= TS_CHARS_MAX
        && ts.split_once('.').is_some_and(|(seconds, rest)| digits(seconds) && digits(rest))
}

/// The time that a timestamp names, in Unix milliseconds.
pub(super) fn ts_ms(ts: &str) -> Option<i64> {
    let (seconds, rest) = ts.split_once('.').filter(|_| is_ts(ts))?;
    let thousandths: String = rest.chars().chain("000".chars()).take(3).collect();
    seconds.parse::<i64>().ok()?.checked_mul(1000)?.checked_add(thousandths.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_ids_and_nothing_else() {
        let direct = |to: &str| normalise(AddressKind::Direct, to);
        let shared = |to: &str| normalise(AddressKind::Channel, to);
        assert_eq!(direct(" u024be7lh\u{a0}"), Ok("U024BE7LH".to_owned()));
        assert_eq!(direct("W012A3CDE"), Ok("W012A3CDE".to_owned()));
        assert_eq!(shared("c024be91l"), Ok("C024BE91L".to_owned()));
        assert_eq!(shared("G024BE91L"), Ok("G024BE91L".to_owned()));
        assert_eq!(shared("CBRXVWEUP"), Ok("CBRXVWEUP".to_owned()));
        for junk in ["@ada", "ada", "U", "<@U024BE7LH>", "C024BE91L", "D024BE91L", "U024BE7LÄ", "U024 BE7LH"]
        {
            assert!(direct(junk).unwrap_err().contains("Copy member ID"), "{junk}");
        }
        for junk in [
            "#general",
            "general",
            "U024BE7LH",
            "D024BE91L",
            "C024BE91L:1.2",
            "https://x.slack.com/archives/C024BE91L",
        ] {
            assert!(shared(junk).unwrap_err().contains("About"), "{junk}");
        }
    }

    #[test]
    fn a_message_is_named_with_its_conversation() {
        let id = MessageId::parse("C024BE91L:1355517523.000005").unwrap();
        assert_eq!(
            (id.to_string().as_str(), ts_ms(&id.ts)),
            ("C024BE91L:1355517523.000005", Some(1_355_517_523_000))
        );
        assert_eq!(ts_ms("1355517523.1239"), Some(1_355_517_523_123));
        for junk in [
            "",
            "C024BE91L",
            "C024BE91L:",
            "C024BE91L:1",
            "U024BE7LH:1.2",
            "C024BE91L:1.2.3",
            "C024BE91L:-1.2",
            "m_1",
        ] {
            assert_eq!(MessageId::parse(junk), None, "{junk}");
        }
        assert_eq!(ts_ms("99999999999999999999.1"), None);
    }
}
