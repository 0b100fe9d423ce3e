//! What the program is told: one JSON document.

use crate::message::Envelope;
use serde::Serialize;
use switchboard_core::port::channel::Attempt;

#[derive(Serialize)]
struct Document<'a> {
    attempt: u32,
    #[serde(flatten)]
    delivery: Envelope<'a>,
}

/// The document for `attempt` with a line break behind it; between attempts only `attempt` differs. Or why there is none, when what was
/// stored is not of this channel's making.
pub fn document(attempt: &Attempt) -> Result<Vec<u8>, String> {
    let document = Document { attempt: attempt.attempt, delivery: Envelope::of(attempt)? };
    let mut bytes = serde_json::to_vec(&document)
        .map_err(|error| format!("the message cannot be written as JSON: {error}"))?;
    bytes.push(b'\n');
    Ok(bytes)
}
