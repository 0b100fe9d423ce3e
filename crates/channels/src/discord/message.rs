//! The JSON of what is posted.

use super::address::{MessageId, Snowflake};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use switchboard_core::ids::base32;
use switchboard_core::port::channel::{Attempt, Button};

/// Longest nonce, in characters.
const NONCE_CHARS_MAX: usize = 25;
/// Message flag: no pictures of what links lead to.
const SUPPRESS_EMBEDS: u32 = 1 << 2;
/// Message flag: seen by one person alone.
const EPHEMERAL: u32 = 1 << 6;
/// Buttons in a row.
const ROW: usize = 5;

/// What by the service knows a repeat: the delivery's id, or what stands for one that is too long.
pub(super) fn nonce(delivery: &str) -> String {
    if delivery.len() <= NONCE_CHARS_MAX {
        return delivery.to_owned();
    }
    let mut nonce = base32(&Sha256::digest(delivery.as_bytes())[..16]);
    nonce.truncate(NONCE_CHARS_MAX);
    nonce
}

/// A new message in `channel`; the answer to the last of its references that is there.
pub(super) fn of_attempt(attempt: &Attempt, channel: Snowflake) -> Value {
    let mut ids = attempt.references.iter().rev().filter_map(|id| MessageId::parse(id));
    let answered = ids.find(|id| id.channel == channel);
    let mut message = text(&attempt.part.text, &attempt.delivery, answered);
    message["components"] = components(&attempt.part.buttons);
    message
}

/// A new message without buttons. It mentions nobody, whatever it says.
pub(super) fn text(content: &str, delivery: &str, answered: Option<MessageId>) -> Value {
    let mut message = json!({
        "content": content,
        "nonce": nonce(delivery),
        "enforce_nonce": true,
        "allowed_mentions": nobody(),
        "flags": SUPPRESS_EMBEDS,
    });
    if let Some(answered) = answered {
        message["message_reference"] = json!({
            "type": 0,
            "message_id": answered.id.to_string(),
            "channel_id": answered.channel.to_string(),
            "fail_if_not_exists": false,
        });
    }
    message
}

/// What a message is changed to.
pub(super) fn change(content: &str) -> Value {
    json!({ "content": content, "components": [], "allowed_mentions": nobody(), "flags": SUPPRESS_EMBEDS })
}

/// The answer to a press: nothing that is seen, or a sentence for who pressed.
pub(super) fn pressed(sentence: Option<&str>) -> Value {
    match sentence {
        None => json!({ "type": 6 }),
        Some(content) => json!({
            "type": 4,
            "data": { "content": content, "allowed_mentions": nobody(), "flags": EPHEMERAL | SUPPRESS_EMBEDS },
        }),
    }
}

fn nobody() -> Value {
    json!({ "parse": [], "replied_user": false })
}

fn components(buttons: &[Button]) -> Value {
    let shown =
        |button: &Button| json!({ "type": 2, "style": 2, "label": button.label, "custom_id": button.value });
    let row = |row: &[Button]| json!({ "type": 1, "components": row.iter().map(shown).collect::<Vec<_>>() });
    buttons.chunks(ROW).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_is_the_deliverys_own() {
        assert_eq!(nonce("dlv_01JD-7"), "dlv_01JD-7");
        let long = ["dlv_01jd0000000000000000000000", "dlv_01jd0000000000000000000001"].map(nonce);
        assert!(long.iter().all(|nonce| nonce.len() == NONCE_CHARS_MAX));
        assert_ne!(long[0], long[1]);
        assert_eq!(long[0], nonce("dlv_01jd0000000000000000000000"));
    }
}
