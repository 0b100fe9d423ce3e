//! Acts of people and of the service as JSON, for programs in other languages.

use super::{ADA, GROUP, Telegram};
use serde_json::{Value, json};

/// Carries one act out; what came of it. `act` says which: `write`, `edit`, `delete`, `press`, `block`, `unblock`, `flood`, `calm`, `close`,
/// `migrate`, `revoke`, `webhook`, `shown`, `calls`. Persons and chats are numbers; `chat` is the person's own unless given.
#[must_use]
pub fn act(telegram: &Telegram, line: &str) -> Value {
    let Ok(act) = serde_json::from_str::<Value>(line) else { return json!({ "error": "no JSON" }) };
    let number = |name: &str| act[name].as_i64();
    let text = |name: &str| act[name].as_str().unwrap_or_default();
    let person = number("person").unwrap_or(ADA);
    let chat = number("chat").unwrap_or(person);
    let message = number("message").unwrap_or_default();
    match text("act") {
        "write" => return json!({ "ok": true, "message": telegram.write(person, chat, &act["content"]) }),
        "press" => return json!({ "ok": true, "query": telegram.press(person, chat, message, text("data")) }),
        "shown" => return json!({ "ok": true, "message": telegram.shown(chat, message) }),
        "calls" => return json!({ "ok": true, "calls": telegram.calls(text("method")) }),
        "edit" => telegram.edit(chat, message, &act["content"]),
        "delete" => telegram.delete(chat, message),
        "block" | "unblock" => telegram.block(person, text("act") == "block"),
        "flood" => {
            let left = number("left").and_then(|left| left.try_into().ok()).unwrap_or(0);
            let seconds = number("seconds").and_then(|seconds| seconds.try_into().ok()).unwrap_or(1);
            telegram.flood(chat, Some((left, seconds)));
        }
        "calm" => telegram.flood(chat, None),
        "close" => telegram.close(chat, 403, text("description")),
        "migrate" => telegram.migrate(chat, number("to").unwrap_or(GROUP)),
        "revoke" => telegram.revoke(),
        "webhook" => telegram.set_webhook(text("url")),
        other => return json!({ "error": format!("there is no act {other:?}") }),
    }
    json!({ "ok": true })
}
