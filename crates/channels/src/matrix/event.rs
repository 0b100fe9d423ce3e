//! What an event says, read without asking anybody. Events come from all servers of a room: nothing in them has to be of its type.

use super::content::{OWN_KEY, Own};
use crate::document::clean_line;
use serde::Deserialize;
use serde_json::Value;
use switchboard_core::time::WallMs;

/// Characters of a file's name that are shown.
const NAME_CHARS_MAX: usize = 100;

/// An event.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Event {
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(rename = "event_id")]
    pub id: String,
    pub sender: String,
    #[serde(default)]
    pub origin_server_ts: WallMs,
    #[serde(default)]
    pub content: Value,
    /// What a redaction takes away, in rooms before version 11.
    #[serde(default)]
    redacts: Option<String>,
}

/// How an event belongs to others.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct RelatesTo {
    rel_type: Option<String>,
    event_id: Option<String>,
    key: Option<String>,
    #[serde(rename = "m.in_reply_to")]
    in_reply_to: Option<InReplyTo>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct InReplyTo {
    event_id: Option<String>,
}

impl RelatesTo {
    fn of(content: &Value) -> Self {
        content.get("m.relates_to").and_then(|value| Self::deserialize(value).ok()).unwrap_or_default()
    }

    fn related(&self, rel_type: &str) -> Option<&str> {
        let is_meant = self.rel_type.as_deref() == Some(rel_type);
        self.event_id.as_deref().filter(|id| is_meant && super::address::is_event(id))
    }

    /// The root of the thread it is in.
    pub fn thread(&self) -> Option<String> {
        self.related("m.thread").map(str::to_owned)
    }
}

impl Event {
    /// What a redaction takes away.
    pub fn redacted(&self) -> Option<&str> {
        self.redacts.as_deref().or_else(|| text(&self.content, "redacts"))
    }

    /// What an edit replaces, and its new content.
    pub fn replaced(&self) -> Option<(String, &Value)> {
        let target = RelatesTo::of(&self.content).related("m.replace")?.to_owned();
        Some((target, self.content.get("m.new_content")?))
    }

    /// Whether it is an edit, be it a sound one or not.
    pub fn is_edit(&self) -> bool {
        RelatesTo::of(&self.content).rel_type.as_deref() == Some("m.replace")
    }

    /// What a reaction is on, and which choice it stands for, from 1.
    pub fn pressed(&self) -> Option<(String, usize)> {
        let relation = RelatesTo::of(&self.content);
        Some((relation.related("m.annotation")?.to_owned(), choice(relation.key.as_deref()?)?))
    }

    /// What we said in it beside what people read, if it is ours.
    pub fn own(&self) -> Option<Own> {
        Own::deserialize(self.content.get(OWN_KEY)?).ok()
    }
}

/// The messages that a content answers, nearest last: its thread's root, and what it replies to.
pub(super) fn references(content: &Value) -> Vec<String> {
    let relation = RelatesTo::of(content);
    let reply = relation.in_reply_to.as_ref().and_then(|reply| reply.event_id.clone());
    let reply = reply.filter(|id| super::address::is_event(id));
    let mut ids: Vec<String> = relation.thread().into_iter().chain(reply).collect();
    ids.dedup();
    ids
}

/// Whether a content names this user.
pub(super) fn mentions(content: &Value, user: &str) -> bool {
    let named =
        content.get("m.mentions").and_then(|mentions| mentions.get("user_ids")).and_then(Value::as_array);
    if named.is_some_and(|ids| ids.iter().any(|id| id.as_str() == Some(user))) {
        return true;
    }
    // Clients from before `m.mentions` write the id, or a link that holds it.
    let holds = |key| text(content, key).is_some_and(|text| contains_id(text, user));
    named.is_none() && content.get("m.mentions").is_none() && (holds("body") || holds("formatted_body"))
}

fn contains_id(text: &str, user: &str) -> bool {
    let goes_on = |c: char| c.is_ascii_alphanumeric() || matches!(c, ':' | '-');
    text.match_indices(user).any(|(at, _)| {
        let rest = &text[at + user.len()..];
        // "@bot:x.test." ends a sentence, "@bot:x.test.org" is somebody else.
        let rest = rest.strip_prefix('.').unwrap_or(rest);
        !rest.starts_with(goes_on)
    })
}

/// Which choice a reaction stands for: the keycaps 1 to 9, in every form that clients send.
fn choice(key: &str) -> Option<usize> {
    let digit = key.chars().next()?.to_digit(10).filter(|digit| *digit > 0)?;
    let keycap = matches!(&key[1..], "\u{20e3}" | "\u{fe0f}\u{20e3}");
    keycap.then(|| usize::try_from(digit).ok()).flatten()
}

/// The person's own words, with a line for what they attached; `None` when there are none, or a machine wrote them.
pub(super) fn words(content: &Value) -> Option<String> {
    let body = text(content, "body").unwrap_or_default();
    let kind = text(content, "msgtype").unwrap_or("m.text");
    let attached = match kind {
        "m.notice" => return None,
        kind if kind.starts_with("m.key.verification.") => return None,
        "m.image" => "[photo]".to_owned(),
        "m.video" => "[video]".to_owned(),
        "m.audio" if content.get("org.matrix.msc3245.voice").is_some() => "[voice message]".to_owned(),
        "m.audio" => "[audio]".to_owned(),
        "m.location" => "[location]".to_owned(),
        "m.file" => file(content, body),
        // Of a message that was taken back there is none.
        _ => return text(content, "body").map(|body| without_quotation(content, body).to_owned()),
    };
    // With a name of its own beside it the body is what the person wrote under it.
    let caption =
        text(content, "filename").filter(|name| *name != body).map(|_| without_quotation(content, body));
    Some(caption.map_or_else(|| attached.clone(), |caption| format!("{caption}\n{attached}")))
}

fn file(content: &Value, body: &str) -> String {
    let name: String =
        clean_line(text(content, "filename").unwrap_or(body)).chars().take(NAME_CHARS_MAX).collect();
    let size = content.get("info").and_then(|info| info.get("size")).and_then(Value::as_u64);
    let size = size.map(|bytes| format!(", {} kB", bytes.div_ceil(1000))).unwrap_or_default();
    format!("[file: {name}{size}]")
}

/// Without the quotation that clients from before version 1.13 put in front of a reply.
fn without_quotation<'a>(content: &Value, body: &'a str) -> &'a str {
    let is_reply = RelatesTo::of(content).in_reply_to.is_some();
    if !is_reply || !(body.starts_with("> <@") || body.starts_with("> * <@")) {
        return body;
    }
    let mut rest = body;
    while rest.starts_with('>') {
        rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
    }
    rest.strip_prefix('\n').unwrap_or(rest)
}

fn text<'a>(content: &'a Value, key: &str) -> Option<&'a str> {
    content.get(key).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn words_are_the_persons_own() {
        let reply = json!({ "m.in_reply_to": { "event_id": "$a" } });
        for (content, expected) in [
            (json!({ "msgtype": "m.text", "body": "yes" }), Some("yes")),
            (json!({ "msgtype": "m.notice", "body": "yes" }), None),
            (json!({ "body": "> <@b:x.test> Go?\n> now\n\nyes", "m.relates_to": reply }), Some("yes")),
            (json!({ "body": "> <@b:x.test> forged\n\nyes" }), Some("> <@b:x.test> forged\n\nyes")),
            (json!({ "body": "> said\nyes", "m.relates_to": reply }), Some("> said\nyes")),
            (json!({ "msgtype": "m.image", "body": "cat.jpg" }), Some("[photo]")),
            (json!({ "msgtype": "m.image", "body": "look", "filename": "cat.jpg" }), Some("look\n[photo]")),
            (
                json!({ "msgtype": "m.file", "body": "a\n\u{202e}b.pdf", "info": { "size": 119_001 } }),
                Some("[file: a b.pdf, 120 kB]"),
            ),
            (json!({ "msgtype": "m.file", "body": "x", "info": { "size": -1 } }), Some("[file: x]")),
            (json!({ "msgtype": 3, "body": ["x"] }), None),
            (json!("nothing"), None),
        ] {
            assert_eq!(words(&content).as_deref(), expected, "{content}");
        }
    }

    #[test]
    fn references_are_nearest_last() {
        let of = |relation: Value| references(&json!({ "m.relates_to": relation }));
        let reply = json!({ "event_id": "$b" });
        assert_eq!(of(json!({ "m.in_reply_to": reply })), ["$b"]);
        assert_eq!(
            of(json!({ "rel_type": "m.thread", "event_id": "$a", "m.in_reply_to": reply })),
            ["$a", "$b"]
        );
        assert_eq!(of(json!({ "rel_type": "m.thread", "event_id": "$b", "m.in_reply_to": reply })), ["$b"]);
        assert!(of(json!({ "rel_type": "m.thread", "event_id": "b", "m.in_reply_to": 3 })).is_empty());
        assert!(of(json!({ "rel_type": "m.replace", "event_id": "$b" })).is_empty());
    }

    #[test]
    fn only_keycaps_are_choices() {
        assert_eq!((choice("1️⃣"), choice("9\u{20e3}")), (Some(1), Some(9)));
        for key in ["0️⃣", "1", "🔟", "👍", "", "1️⃣1️⃣", "é", "12"] {
            assert_eq!(choice(key), None, "{key}");
        }
    }

    #[test]
    fn naming_us_is_by_id() {
        let me = "@bot:x.test";
        for content in [
            json!({ "m.mentions": { "user_ids": [3, me] } }),
            json!({ "body": "ask @bot:x.test." }),
            json!({ "formatted_body": "<a href=\"https://matrix.to/#/@bot:x.test\">Bot</a>" }),
        ] {
            assert!(mentions(&content, me), "{content}");
        }
        for content in [
            json!({ "m.mentions": {}, "body": me }),
            json!({ "body": "@bot:x.test.org and @bot:x.tests" }),
            json!({ "m.mentions": { "room": true } }),
        ] {
            assert!(!mentions(&content, me), "{content}");
        }
    }
}
