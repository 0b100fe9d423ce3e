//! What the end of a call means for a message. The Bot API tells kinds of refusals apart by their descriptions alone; of those only what
//! concerns the chat is looked for, whatever else may have been said.

use super::address::MessageId;
use super::api::{Fault, Refusal};
use serde::Deserialize;
use serde_json::value::RawValue;
use switchboard_core::port::channel::{FailureClass, NotSent, Performed};

/// Parts of the descriptions of a 400 that say that the chat is gone. Rights that are missing may come back: they end the message alone.
const GONE: [&str; 4] = ["chat not found", "user not found", "PEER_ID_INVALID", "group chat was deactivated"];

#[derive(Deserialize)]
struct Message {
    message_id: i64,
    chat: Chat,
}

#[derive(Deserialize)]
struct Chat {
    id: i64,
}

/// What became of a message that was sent or changed.
pub(super) fn outcome(answered: Result<Box<RawValue>, Fault>) -> Performed {
    match answered {
        Ok(result) => match serde_json::from_str::<Message>(result.get()) {
            Ok(Message { message_id: id, chat }) if id > 0 => {
                Performed::Sent { message_id: Some(MessageId { chat: chat.id, id }.to_string()) }
            }
            _ => Performed::Unknown { reason: "the Bot API confirmed without naming a message".into() },
        },
        Err(Fault::Refused(refusal)) => refused(&refusal),
        Err(fault @ Fault::Unreached(_)) => {
            Performed::NotSent(NotSent::new(FailureClass::Transient, fault.sentence()))
        }
        Err(fault @ Fault::Foreign(status)) if status < 500 => {
            let why = NotSent::new(FailureClass::Misconfigured, fault.sentence());
            Performed::NotSent(NotSent { code: Some(status.to_string()), ..why })
        }
        Err(fault) => Performed::Unknown { reason: fault.sentence() },
    }
}

/// The API says no. What it says after it failed itself (5xx) may come after the message went out.
fn refused(refusal: &Refusal) -> Performed {
    if refusal.code >= 500 {
        return Performed::Unknown { reason: Fault::Refused(refusal.clone()).sentence() };
    }
    let (class, reason) = classified(refusal);
    Performed::NotSent(NotSent {
        code: Some(refusal.code.to_string()),
        retry_after_ms: refusal.retry_after_ms,
        // It does not say whether a chat or the whole bot has to wait. Nearly always it is the chat (a message a second, twenty a minute
        // in a group), and where it is the bot every other chat hears it at its next message.
        account_wide: false,
        ..NotSent::new(class, reason)
    })
}

fn classified(refusal: &Refusal) -> (FailureClass, String) {
    let said = Fault::Refused(refusal.clone()).sentence();
    if let Some(chat) = refusal.migrated_to {
        let reason =
            format!("the group has become a supergroup with the number {chat}: use that one, and allow it");
        return (FailureClass::BadAddress, reason);
    }
    let class = match refusal.code {
        401 | 404 => {
            let remedy = "give the token that @BotFather shows for the bot (/token), or a new one (/revoke)";
            return (FailureClass::Misconfigured, format!("{said}; {remedy}"));
        }
        // Blocked, deactivated, never started, kicked out, not a member: the bot is not to write there.
        403 => FailureClass::BadAddress,
        429 => FailureClass::Throttled,
        400 if GONE.iter().any(|gone| refusal.description.contains(gone)) => FailureClass::BadAddress,
        408 | 409 | 425 => FailureClass::Transient,
        _ => FailureClass::Permanent,
    };
    (class, said)
}

/// What became of a change. A message that says it already was changed by an earlier try.
pub(super) fn changed(answered: Result<Box<RawValue>, Fault>, message_id: &str) -> Performed {
    match answered {
        Err(Fault::Refused(refusal))
            if refusal.code == 400 && refusal.description.contains("message is not modified") =>
        {
            Performed::Sent { message_id: Some(message_id.to_owned()) }
        }
        other => outcome(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: u16, description: &str) -> Performed {
        outcome(Err(Fault::Refused(Refusal { code, description: description.into(), ..Refusal::default() })))
    }

    #[test]
    fn each_refusal_has_its_class() {
        use FailureClass::{BadAddress, Misconfigured, Permanent, Throttled, Transient};
        for (code, description, class) in [
            (400, "Bad Request: chat not found", BadAddress),
            (400, "Bad Request: not enough rights to send text messages to the chat", Permanent),
            (400, "Bad Request: can't parse entities: Unsupported start tag", Permanent),
            (400, "Bad Request: message is too long", Permanent),
            (401, "Unauthorized", Misconfigured),
            (403, "Forbidden: bot was blocked by the user", BadAddress),
            (403, "Forbidden: bot can't initiate conversation with a user", BadAddress),
            (403, "Forbidden: user is deactivated", BadAddress),
            (403, "Forbidden: bot was kicked from the supergroup chat", BadAddress),
            (404, "Not Found", Misconfigured),
            (409, "Conflict", Transient),
            (413, "Request Entity Too Large", Permanent),
            (429, "Too Many Requests: retry after 7", Throttled),
        ] {
            let Performed::NotSent(why) = of(code, description) else { panic!("{description}") };
            assert_eq!((why.class, why.code), (class, Some(code.to_string())), "{description}");
            assert!(why.reason.contains(description), "{}", why.reason);
        }
        for code in [500, 502, 504] {
            assert!(matches!(of(code, "Internal Server Error"), Performed::Unknown { .. }));
        }
        assert!(matches!(outcome(Err(Fault::Foreign(502))), Performed::Unknown { .. }));
        let Performed::NotSent(why) = outcome(Err(Fault::Foreign(403))) else { panic!() };
        assert_eq!(why.class, Misconfigured);
    }

    #[test]
    fn a_group_that_moved_says_where_to() {
        let refusal =
            Refusal { code: 400, migrated_to: Some(-1_009_007_199_254_740_993), ..Refusal::default() };
        let Performed::NotSent(why) = outcome(Err(Fault::Refused(refusal))) else { panic!() };
        assert_eq!(why.class, FailureClass::BadAddress);
        assert!(why.reason.contains("-1009007199254740993"), "{}", why.reason);
    }

    #[test]
    fn only_a_message_with_its_number_confirms() {
        let of = |json: &str| outcome(Ok(RawValue::from_string(json.into()).unwrap()));
        let sent = of(r#"{"message_id":7,"chat":{"id":-100,"type":"group"},"new":{}}"#);
        assert_eq!(sent, Performed::Sent { message_id: Some("-100:7".into()) });
        for none in
            ["true", "{}", r#"{"message_id":"7","chat":{"id":1}}"#, r#"{"message_id":0,"chat":{"id":1}}"#]
        {
            assert!(matches!(of(none), Performed::Unknown { .. }), "{none}");
        }
    }

    #[test]
    fn a_change_made_before_is_made() {
        let refusal = |description: &str| {
            Err(Fault::Refused(Refusal { code: 400, description: description.into(), ..Refusal::default() }))
        };
        let same = "Bad Request: message is not modified: specified new message content is the same";
        assert_eq!(changed(refusal(same), "1:7"), Performed::Sent { message_id: Some("1:7".into()) });
        let gone = changed(refusal("Bad Request: message to edit not found"), "1:7");
        assert!(matches!(gone, Performed::NotSent(NotSent { class: FailureClass::Permanent, .. })));
    }
}
