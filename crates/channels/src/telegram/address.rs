//! Whom Telegram's Bot API reaches: chats, by their numbers. A person's chat has the person's own number, which is positive; those of
//! groups, supergroups and channels are negative. Ids of messages count within a chat, so that one is unique only together with it.

use switchboard_core::port::channel::AddressKind;

/// The one form of a chat's number, or a sentence that says what one looks like.
pub(super) fn normalise(kind: AddressKind, to: &str) -> Result<String, String> {
    let to = to.trim();
    if to.starts_with('@') {
        return Err("bots cannot write to names: give the number of the chat; a person's is known once they have paired".into());
    }
    let chat = chat(to).filter(|chat| (*chat > 0) == (kind == AddressKind::Direct));
    chat.map(|chat| chat.to_string()).ok_or_else(|| match kind {
        AddressKind::Direct => "must be the number of a Telegram user, such as 123456789".into(),
        AddressKind::Channel => {
            "must be the number of a Telegram group or channel, which is negative: -1001234567890".into()
        }
    })
}

/// A chat's number in its one form: no plus, no zeros before it.
pub(super) fn chat(text: &str) -> Option<i64> {
    let chat: i64 = text.parse().ok()?;
    (chat != 0 && chat.to_string() == text).then_some(chat)
}

/// A message, unique in a bot's account: `CHAT:ID`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MessageId {
    pub chat: i64,
    pub id: i64,
}

impl MessageId {
    /// Reads `CHAT:ID`; `None` for what is of another form.
    pub fn parse(text: &str) -> Option<Self> {
        let (chat_text, id) = text.split_once(':')?;
        let (chat, id) = (chat(chat_text)?, chat(id).filter(|id| *id > 0)?);
        Some(Self { chat, id })
    }
}

impl std::fmt::Display for MessageId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}:{}", self.chat, self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chats_have_one_form_and_their_kinds_sign() {
        assert_eq!(normalise(AddressKind::Direct, " 123456789\u{a0}"), Ok("123456789".into()));
        let beyond_doubles = "-1009007199254740993";
        assert_eq!(normalise(AddressKind::Channel, beyond_doubles).as_deref(), Ok(beyond_doubles));
        assert_eq!(normalise(AddressKind::Channel, "-1001234567890"), Ok("-1001234567890".into()));
        for (kind, junk) in [
            (AddressKind::Direct, "-1001234567890"),
            (AddressKind::Channel, "123456789"),
            (AddressKind::Direct, "@ada"),
            (AddressKind::Channel, "@deployments"),
            (AddressKind::Direct, "+123"),
            (AddressKind::Direct, "0123"),
            (AddressKind::Direct, "0"),
            (AddressKind::Direct, "12 3"),
            (AddressKind::Direct, "١٢٣"),
            (AddressKind::Direct, "99999999999999999999"),
        ] {
            assert!(normalise(kind, junk).is_err(), "{junk}");
        }
    }

    #[test]
    fn messages_are_read_back() {
        let id = MessageId { chat: -1_001_234_567_890, id: 7 };
        assert_eq!(MessageId::parse(&id.to_string()), Some(id));
        for other in ["7", "1:0", "1:-7", "1:7:8", ":", "a:1", "<x@example.org>", "1:07"] {
            assert_eq!(MessageId::parse(other), None, "{other}");
        }
    }
}
