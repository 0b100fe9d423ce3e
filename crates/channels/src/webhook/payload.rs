//! What is posted: `type`, `timestamp` and `data`, as Standard Webhooks advises. The bytes depend on the delivery alone, never on the
//! attempt, so that a receiver that keeps digests sees a repeat as one.

use crate::message::Envelope;
use serde::Serialize;
use switchboard_core::port::channel::Attempt;

/// The `type` of a message for somebody.
pub const MESSAGE_CREATED: &str = "message.created";

#[derive(Serialize)]
struct Payload<'a> {
    r#type: &'a str,
    timestamp: String,
    data: Envelope<'a>,
}

/// The body of the request that makes `attempt`; or why it cannot be made, when what was stored is not of this channel's making.
pub fn body(attempt: &Attempt) -> Result<Vec<u8>, String> {
    check_delivery(&attempt.delivery)?;
    let accepted = jiff::Timestamp::from_millisecond(attempt.accepted_ms)
        .map_err(|error| format!("the time of acceptance is no date: {error}"))?;
    let payload = Payload {
        r#type: MESSAGE_CREATED,
        timestamp: format!("{accepted:.3}"),
        data: Envelope::of(attempt)?,
    };
    serde_json::to_vec(&payload).map_err(|error| format!("the message cannot be written as JSON: {error}"))
}

/// The id is signed together with dots that separate it from the rest, and stands in a header.
fn check_delivery(delivery: &str) -> Result<(), String> {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    let is_sound = (1..=64).contains(&delivery.len()) && delivery.bytes().all(is_good);
    if is_sound {
        Ok(())
    } else {
        Err("the delivery's id is not made of 1 to 64 letters, digits, `_` and `-`".into())
    }
}
