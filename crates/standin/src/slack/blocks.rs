//! Block Kit's documented limits (<https://docs.slack.dev/reference/block-kit/blocks>), and what a person sees of blocks.

use super::text::{self, Read};
use serde_json::Value;

/// The error that Slack gives for blocks that are none.
pub const INVALID: &str = "invalid_blocks";

fn length(value: &Value) -> usize {
    value.as_str().map_or(0, |text| text.encode_utf16().count())
}

fn is_text(object: &Value, kinds: &[&str], max: usize) -> bool {
    object["type"].as_str().is_some_and(|kind| kinds.contains(&kind))
        && (1..=max).contains(&length(&object["text"]))
}

/// Whether blocks are within the limits.
pub fn are_sound(blocks: &[Value]) -> bool {
    blocks.len() <= 50 && blocks.iter().all(is_sound)
}

fn is_sound(block: &Value) -> bool {
    let elements = block["elements"].as_array();
    match block["type"].as_str() {
        Some("section") => is_text(&block["text"], &["mrkdwn", "plain_text"], 3000),
        Some("context") => elements.is_some_and(|all| {
            (1..=10).contains(&all.len())
                && all.iter().all(|one| is_text(one, &["mrkdwn", "plain_text"], 3000))
        }),
        Some("actions") => elements.is_some_and(|all| {
            let ids: std::collections::HashSet<_> = all.iter().map(|one| one["action_id"].as_str()).collect();
            (1..=25).contains(&all.len()) && ids.len() == all.len() && all.iter().all(is_button)
        }),
        Some("divider") => true,
        _ => false,
    }
}

fn is_button(element: &Value) -> bool {
    element["type"] == "button"
        && is_text(&element["text"], &["plain_text"], 75)
        && length(&element["value"]) <= 2000
        && (1..=255).contains(&length(&element["action_id"]))
}

/// What a person reads of a message: its blocks, or its text when it has none.
pub fn read(message: &Value) -> Read {
    let blocks = message["blocks"].as_array().filter(|blocks| !blocks.is_empty());
    let Some(blocks) = blocks else { return text::read(message["text"].as_str().unwrap_or_default()) };
    let mut whole = Read::default();
    for block in blocks {
        for object in texts(block) {
            let shown = object["text"].as_str().unwrap_or_default();
            let read = match object["type"].as_str() {
                Some("mrkdwn") => text::read(shown),
                _ => Read { text: shown.to_owned(), ..Read::default() },
            };
            whole.text.push_str(&read.text);
            whole.text.push('\n');
            whole.mentions.extend(read.mentions);
            whole.links.extend(read.links);
        }
    }
    whole.mentions.extend(text::read(message["text"].as_str().unwrap_or_default()).mentions);
    whole
}

fn texts(block: &Value) -> Vec<&Value> {
    match block["type"].as_str() {
        Some("section") => vec![&block["text"]],
        Some("context") => block["elements"].as_array().into_iter().flatten().collect(),
        _ => Vec::new(),
    }
}

/// The section's text as it was posted.
pub fn section(message: &Value) -> &str {
    let blocks = message["blocks"].as_array().into_iter().flatten();
    blocks
        .filter(|block| block["type"] == "section")
        .find_map(|block| block["text"]["text"].as_str())
        .unwrap_or_default()
}

/// The buttons under a message.
pub fn buttons(message: &Value) -> Vec<&Value> {
    let blocks = message["blocks"].as_array().into_iter().flatten();
    let actions = blocks.filter(|block| block["type"] == "actions");
    actions.filter_map(|block| block["elements"].as_array()).flatten().collect()
}
