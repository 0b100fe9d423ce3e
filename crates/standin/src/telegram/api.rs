//! The methods of the Bot API that are known here.

use super::html::{self, Parsed};
use super::wire::Answer;
use super::world::{Accepted, World};
use serde_json::{Map, Value, json};

/// Longest text, in UTF-16 units after its markup is read.
const TEXT_UNITS_MAX: usize = 4096;
/// Longest data of a button, in bytes, and longest answer to a press, in UTF-16 units.
const DATA_BYTES_MAX: usize = 64;
const PRESS_UNITS_MAX: usize = 200;
const TOO_LONG: &str = "Bad Request: message is too long";

/// A call.
pub struct Call<'a> {
    /// Its parameters.
    pub parameters: &'a Map<String, Value>,
    /// Its `x-request-id`.
    pub request_id: &'a str,
    /// Its body.
    pub body: &'a [u8],
}

impl Call<'_> {
    fn text(&self, name: &str) -> String {
        self.parameters.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    /// A number, perhaps within a string.
    pub fn number(&self, name: &str) -> Option<i64> {
        let value = self.parameters.get(name)?;
        value.as_i64().or_else(|| value.as_str()?.parse().ok())
    }

    fn is_set(&self, name: &str) -> bool {
        matches!(self.parameters.get(name), Some(Value::Bool(true)))
            || self.text(name).eq_ignore_ascii_case("true")
    }

    /// An object or a list, perhaps within a string.
    pub fn json(&self, name: &str) -> Value {
        match self.parameters.get(name) {
            Some(Value::String(text)) => serde_json::from_str(text).unwrap_or_default(),
            Some(value) => value.clone(),
            None => Value::Null,
        }
    }
}

fn bad(description: &str) -> Answer {
    Answer::refused(400, &format!("Bad Request: {description}"))
}

/// Carries a call out. Requests for updates are held elsewhere.
pub fn call(world: &mut World, method: &str, call: &Call<'_>) -> Answer {
    let done = match method {
        "getme" => Ok(me(world)),
        "sendmessage" => send(world, call),
        "editmessagetext" => edit(world, call),
        "answercallbackquery" => answer_press(world, call),
        "setwebhook" => set_webhook(world, call),
        "deletewebhook" => Ok(delete_webhook(world, call)),
        "getwebhookinfo" => Ok(webhook_info(world)),
        _ => Err(Answer::refused(404, "Not Found: method not found")),
    };
    done.map_or_else(|refused| refused, |result| Answer::ok(&result))
}

fn me(world: &World) -> Value {
    let mut me = world.me();
    for (name, value) in [
        ("can_join_groups", true),
        ("can_read_all_group_messages", false),
        ("supports_inline_queries", false),
        ("can_connect_to_business", false),
        ("has_main_web_app", false),
    ] {
        me[name] = value.into();
    }
    me
}

/// The text of a call, as readers will see it.
fn parsed(call: &Call<'_>) -> Result<Parsed, Answer> {
    let text = call.text("text");
    let parsed = match call.text("parse_mode").as_str() {
        "" => html::plain(&text),
        mode if mode.eq_ignore_ascii_case("html") => {
            html::parse(&text).map_err(|why| bad(&format!("can't parse entities: {why}")))?
        }
        _ => return Err(bad("unsupported parse_mode")),
    };
    if parsed.text.trim().is_empty() {
        return Err(bad("message text is empty"));
    }
    if parsed.text.encode_utf16().count() > TEXT_UNITS_MAX {
        return Err(Answer::refused(400, TOO_LONG));
    }
    Ok(parsed)
}

/// The keyboard of a call, checked.
fn keyboard(call: &Call<'_>) -> Result<Value, Answer> {
    let markup = call.json("reply_markup");
    let rows = markup["inline_keyboard"].as_array().cloned().unwrap_or_default();
    for key in rows.iter().flat_map(|row| row.as_array().into_iter().flatten()) {
        let data = key["callback_data"].as_str().unwrap_or_default();
        if key["text"].as_str().unwrap_or_default().trim().is_empty() {
            return Err(bad("inline keyboard button text is empty"));
        }
        if data.len() > DATA_BYTES_MAX {
            return Err(bad("BUTTON_DATA_INVALID"));
        }
    }
    Ok(if rows.is_empty() { Value::Null } else { json!({ "inline_keyboard": rows }) })
}

/// The chat of a call, if it can be written to.
fn open_chat(world: &mut World, call: &Call<'_>) -> Result<i64, Answer> {
    let id = call.number("chat_id").ok_or_else(|| bad("chat_id is empty"))?;
    let chat = world.chats.get_mut(&id).ok_or_else(|| bad("chat not found"))?;
    if let Some((code, description)) = &chat.closed {
        return Err(Answer::refused(*code, description));
    }
    if let Some(new) = chat.migrated_to {
        let mut answer = bad("group chat was upgraded to a supergroup chat");
        answer.body["parameters"] = json!({ "migrate_to_chat_id": new });
        return Err(answer);
    }
    match &mut chat.flood {
        Some((0, seconds)) => Err(Answer::slow_down(*seconds)),
        Some((left, _)) => {
            *left -= 1;
            Ok(id)
        }
        None => Ok(id),
    }
}

fn content(parsed: &Parsed, keyboard: &Value) -> Value {
    let mut content = json!({ "text": parsed.text });
    if !parsed.entities.is_empty() {
        content["entities"] = json!(parsed.entities);
    }
    if !keyboard.is_null() {
        content["reply_markup"] = keyboard.clone();
    }
    content
}

fn send(world: &mut World, call: &Call<'_>) -> Result<Value, Answer> {
    let chat = open_chat(world, call)?;
    let (parsed, keyboard) = (parsed(call)?, keyboard(call)?);
    let mut content = content(&parsed, &keyboard);
    let reply = call.json("reply_parameters");
    if let Some(number) = reply["message_id"].as_i64() {
        match world.messages.get(&(chat, number)) {
            Some(message) => content["reply_to_message"] = message.clone(),
            None if reply["allow_sending_without_reply"] == true => {}
            None => return Err(bad("message to be replied not found")),
        }
    }
    let message = world.add(chat, &world.me(), &content);
    world.accepted.push(Accepted {
        request_id: call.request_id.to_owned(),
        html: call.text("text"),
        body: call.body.to_vec(),
        chat,
        message: message["message_id"].as_i64().unwrap_or_default(),
    });
    Ok(message)
}

fn edit(world: &mut World, call: &Call<'_>) -> Result<Value, Answer> {
    let chat = open_chat(world, call)?;
    let number = call.number("message_id").ok_or_else(|| bad("message identifier is not specified"))?;
    let (parsed, keyboard) = (parsed(call)?, keyboard(call)?);
    let (me, now_s) = (world.bot, world.now_s());
    let message = world.messages.get_mut(&(chat, number)).ok_or_else(|| bad("message to edit not found"))?;
    if message["from"]["id"] != me {
        return Err(bad("message can't be edited"));
    }
    let new = content(&parsed, &keyboard);
    let members = ["text", "entities", "reply_markup"];
    if members.iter().all(|name| message[name] == new[name]) {
        return Err(bad(
            "message is not modified: specified new message content and reply markup are exactly the same as a current content and reply markup of the message",
        ));
    }
    for name in members {
        if let Some(members) = message.as_object_mut() {
            members.remove(name);
        }
    }
    super::world::merge(message, &new);
    message["edit_date"] = now_s.into();
    Ok(message.clone())
}

fn answer_press(world: &mut World, call: &Call<'_>) -> Result<Value, Answer> {
    let query = call.text("callback_query_id");
    let known = world.presses.iter().position(|press| *press == query);
    let Some(place) = known else {
        return Err(bad("query is too old and response timeout expired or query ID is invalid"));
    };
    if call.text("text").encode_utf16().count() > PRESS_UNITS_MAX {
        return Err(bad("MESSAGE_TOO_LONG"));
    }
    world.presses.remove(place);
    Ok(true.into())
}

fn set_webhook(world: &mut World, call: &Call<'_>) -> Result<Value, Answer> {
    let url = call.text("url");
    if !url.is_empty() && !url.starts_with("https://") {
        return Err(bad("bad webhook: An HTTPS URL must be provided for webhook"));
    }
    world.webhook = super::world::Webhook { url, secret: call.text("secret_token"), error: None };
    allow(world, call);
    drop_pending(world, call);
    Ok(true.into())
}

fn delete_webhook(world: &mut World, call: &Call<'_>) -> Value {
    world.webhook = super::world::Webhook::default();
    drop_pending(world, call);
    true.into()
}

fn drop_pending(world: &mut World, call: &Call<'_>) {
    if call.is_set("drop_pending_updates") {
        world.updates.clear();
    }
}

/// Takes over which updates are wanted, where a call says so.
pub fn allow(world: &mut World, call: &Call<'_>) {
    if let Value::Array(kinds) = call.json("allowed_updates") {
        world.allowed = kinds.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    }
}

fn webhook_info(world: &World) -> Value {
    let mut info = json!({
        "url": world.webhook.url,
        "has_custom_certificate": false,
        "pending_update_count": world.updates.len(),
    });
    if let Some((date, message)) = &world.webhook.error {
        info["last_error_date"] = (*date).into();
        info["last_error_message"] = message.as_str().into();
    }
    info
}
