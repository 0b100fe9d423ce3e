//! The readable text in an event's data: for task titles and the full-text index.

use serde_json::Value;
use serde_json::value::RawValue;

/// Most text of one event that is indexed, in bytes.
const TEXT_BYTES_MAX: usize = 64 * 1024;
/// Deepest nesting that is looked into; the data was checked on its way in.
const DEPTH_MAX: usize = 32;

/// The text of a message out of its JSON members: `text`, or `body.text`.
pub(crate) fn message_text(members: &[u8]) -> Option<String> {
    let value = parse(members)?;
    let text = value.get("text").or_else(|| value.get("body")?.get("text"));
    text.and_then(Value::as_str).map(str::to_owned)
}

/// Everything worth finding an event by: the strings in its `text` and `body`, the names of members not included. Sealed
/// bodies have none.
pub(crate) fn searchable(members: &[u8]) -> String {
    let mut out = String::new();
    let json = std::str::from_utf8(members).map(|members| format!("{{{members}}}"));
    let parts = json.as_deref().ok().and_then(|json| serde_json::from_str::<Parts<'_>>(json).ok());
    let parts = parts.into_iter().flat_map(|parts| [parts.text, parts.body]).flatten();
    let values = parts.filter_map(|part| serde_json::from_str::<Value>(part.get()).ok());
    values.for_each(|value| collect(&value, &mut out, DEPTH_MAX));
    out
}

/// What is looked into; the rest is passed over without being built.
#[derive(serde::Deserialize)]
struct Parts<'a> {
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    body: Option<&'a RawValue>,
}

fn parse(members: &[u8]) -> Option<Value> {
    let members = std::str::from_utf8(members).ok()?;
    serde_json::from_str(&format!("{{{members}}}")).ok()
}

fn collect(value: &Value, out: &mut String, depth: usize) {
    if depth == 0 || out.len() >= TEXT_BYTES_MAX {
        return;
    }
    match value {
        Value::String(text) => {
            let room = TEXT_BYTES_MAX - out.len();
            let end = (0..=text.len().min(room)).rev().find(|end| text.is_char_boundary(*end));
            out.push_str(&text[..end.unwrap_or(0)]);
            out.push('\n');
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, out, depth - 1)),
        Value::Object(members) => members.values().for_each(|member| collect(member, out, depth - 1)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_text_wherever_messages_carry_it() {
        assert_eq!(message_text(br#""text":"a""#).as_deref(), Some("a"));
        assert_eq!(message_text(br#""x":1,"body":{"text":"b"}"#).as_deref(), Some("b"));
        assert_eq!(message_text(br#""body":{"text":7}"#), None);
        assert_eq!(message_text(b"}{"), None);
    }

    #[test]
    fn indexes_strings_only_and_bounds_them() {
        assert_eq!(searchable(br#""body":{"a":["x",{"b":"y"}],"n":5},"seq":"z""#), "x\ny\n");
        assert_eq!(searchable(br#""sealed":{"ciphertext":"abc"}"#), "");
        let long = format!(r#""text":"{}""#, "é".repeat(TEXT_BYTES_MAX));
        assert!(searchable(long.as_bytes()).len() <= TEXT_BYTES_MAX + 1);
    }
}
