//! A part as the JSON that `chat.postMessage` and `chat.update` take: Block Kit, and the same as text for notifications.

use crate::document::slack::escape;
use crate::document::{clean, clean_line};
use serde_json::{Value, json};
use switchboard_core::port::channel::{Button, Part};

/// Begins the id of our buttons' actions.
pub(super) const ACTION_PREFIX: &str = "switchboard_";
/// Longest outcome that is shown, in characters.
const OUTCOME_CHARS_MAX: usize = 1000;

/// What is posted of a part: its blocks with buttons, or with an outcome instead of them.
pub(super) fn message(part: &Part, outcome: Option<&str>) -> Value {
    let outcome = outcome.map(|line| clean_line(line).chars().take(OUTCOME_CHARS_MAX).collect::<String>());
    let mut blocks = Vec::new();
    if let Some(subject) = part.subject.as_deref().filter(|subject| !subject.is_empty()) {
        blocks.push(context(subject));
    }
    blocks.push(json!({
        "type": "section",
        "expand": true,
        "text": { "type": "mrkdwn", "text": part.text, "verbatim": true },
    }));
    match &outcome {
        Some(line) if !line.is_empty() => blocks.push(context(line)),
        None if !part.buttons.is_empty() => blocks.push(actions(&part.buttons)),
        _ => {}
    }
    let lines =
        [part.subject.as_deref().map(escaped), Some(part.text.clone()), outcome.as_deref().map(escaped)];
    let text = lines.into_iter().flatten().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n");
    let mut message = plain(&text);
    message["blocks"] = Value::Array(blocks);
    message
}

/// A sentence of ours for somebody, as text alone.
pub(super) fn sentence(text: &str) -> Value {
    plain(&escaped(&clean(text)))
}

fn escaped(text: &str) -> String {
    let mut out = String::new();
    escape(text, &mut out);
    out
}

/// Nothing in it is looked for: no names, no links.
fn plain(text: &str) -> Value {
    json!({ "text": text, "parse": "none", "link_names": false })
}

/// Plain text is not parsed at all.
fn context(text: &str) -> Value {
    json!({ "type": "context", "elements": [{ "type": "plain_text", "text": text, "emoji": false }] })
}

fn actions(buttons: &[Button]) -> Value {
    let element = |(at, button): (usize, &Button)| {
        json!({
            "type": "button",
            "action_id": format!("{ACTION_PREFIX}{}", at + 1),
            "text": { "type": "plain_text", "text": button.label, "emoji": false },
            "value": button.value,
        })
    };
    let elements: Vec<Value> = buttons.iter().enumerate().map(element).collect();
    json!({ "type": "actions", "block_id": "switchboard", "elements": elements })
}
