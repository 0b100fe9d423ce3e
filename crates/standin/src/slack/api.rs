//! The methods of the Web API that an app like ours calls, with their documented errors.

use super::blocks;
use super::room::{APP, BOT, BOT_NAME, BOT_USER, Message, State, TEAM};
use super::wire::Call;
use serde_json::{Value, json};

/// What a method answers, or its error's code.
type Answer = Result<Value, &'static str>;

/// Longest text of a message, in characters.
const TEXT_CHARS_MAX: usize = 40_000;

/// Answers a call. `address` is where sockets are.
pub fn call(state: &mut State, call: &Call, address: &str) -> Value {
    state.calls.push(call.method.clone());
    let answer = authorised(state, call).and_then(|()| match call.method.as_str() {
        "auth.test" => Ok(who_am_i()),
        "apps.connections.open" => Ok(ticket(state, address)),
        "conversations.open" => open(state, &call.body),
        "chat.postMessage" => post(state, call),
        "chat.postEphemeral" => whisper(state, call),
        "chat.update" => update(state, &call.body),
        _ => Err("unknown_method"),
    });
    match answer {
        Ok(mut value) => {
            value["ok"] = true.into();
            value
        }
        Err("missing_scope") => {
            let needed = scope_of(&call.method);
            json!({ "ok": false, "error": "missing_scope", "needed": needed, "provided": state.scopes.join(",") })
        }
        Err(error) => json!({ "ok": false, "error": error }),
    }
}

fn scope_of(method: &str) -> Option<&'static str> {
    match method {
        "chat.postMessage" | "chat.postEphemeral" | "chat.update" => Some("chat:write"),
        "conversations.open" => Some("im:write"),
        _ => None,
    }
}

fn authorised(state: &State, call: &Call) -> Result<(), &'static str> {
    let as_app = call.method == "apps.connections.open";
    let expected = if as_app { &state.app_token } else { &state.bot_token };
    match (call.token.as_str(), state.revoked) {
        ("", _) => Err("not_authed"),
        (token, _) if as_app && token == state.bot_token => Err("not_allowed_token_type"),
        (token, _) if token != expected => Err("invalid_auth"),
        (_, Some(code)) => Err(code),
        _ => match scope_of(&call.method) {
            Some(scope) if !state.scopes.iter().any(|has| has == scope) => Err("missing_scope"),
            _ => Ok(()),
        },
    }
}

fn who_am_i() -> Value {
    json!({
        "url": "https://example.slack.com/",
        "team": "Example Team",
        "user": BOT_NAME,
        "team_id": TEAM,
        "user_id": BOT_USER,
        "bot_id": BOT,
        "is_enterprise_install": false,
    })
}

fn ticket(state: &mut State, address: &str) -> Value {
    let ticket = format!("ticket-{}", state.tickets.len() + 1);
    let url = format!("ws://{address}/link/?ticket={ticket}&app_id={APP}");
    state.tickets.push(ticket);
    json!({ "url": url })
}

fn open(state: &mut State, body: &Value) -> Answer {
    let person = body["users"].as_str().ok_or("users_list_not_supplied")?;
    match state.people.get(person) {
        _ if person == BOT_USER => Err("cannot_dm_bot"),
        None => Err("user_not_found"),
        Some(false) => Err("user_disabled"),
        Some(true) => {
            let id = state.direct(person);
            Ok(json!({ "channel": { "id": id } }))
        }
    }
}

/// Where a message goes, if the app may post there.
fn place(state: &mut State, body: &Value) -> Result<String, &'static str> {
    let to = body["channel"].as_str().ok_or("channel_not_found")?;
    let id = if state.people.contains_key(to) { state.direct(to) } else { to.to_owned() };
    let found = state.conversations.get(&id).ok_or("channel_not_found")?;
    if found.archived {
        return Err("is_archived");
    }
    if !found.joined {
        return Err("not_in_channel");
    }
    let active = found.with.as_ref().is_none_or(|person| state.people.get(person) == Some(&true));
    if active { Ok(id) } else { Err("channel_not_found") }
}

fn check_content(body: &Value) -> Result<(), &'static str> {
    let text = body["text"].as_str().unwrap_or_default();
    let blocks = body["blocks"].as_array();
    if text.is_empty() && blocks.is_none_or(Vec::is_empty) {
        return Err("no_text");
    }
    if text.chars().count() > TEXT_CHARS_MAX {
        return Err("msg_too_long");
    }
    match blocks {
        Some(blocks) if !blocks::are_sound(blocks) => Err(blocks::INVALID),
        _ => Ok(()),
    }
}

/// A thread is named by the message that began it, and not by a reply.
fn check_thread(state: &State, conversation: &str, body: &Value) -> Result<(), &'static str> {
    let Some(thread) = body["thread_ts"].as_str() else { return Ok(()) };
    let root = state.message(conversation, thread).ok_or("thread_not_found")?;
    let is_root = state.messages[root].thread().is_none_or(|ts| ts == thread);
    if is_root { Ok(()) } else { Err("cannot_reply_to_message") }
}

fn post(state: &mut State, call: &Call) -> Answer {
    let conversation = place(state, &call.body)?;
    check_content(&call.body)?;
    check_thread(state, &conversation, &call.body)?;
    let ts = add(state, call, &conversation, None);
    let mut message = json!({ "type": "message", "user": BOT_USER, "bot_id": BOT, "ts": ts, "team": TEAM });
    for key in ["text", "blocks", "thread_ts", "metadata"] {
        if !call.body[key].is_null() {
            message[key] = call.body[key].clone();
        }
    }
    Ok(json!({ "channel": conversation, "ts": ts, "message": message }))
}

fn whisper(state: &mut State, call: &Call) -> Answer {
    let conversation = place(state, &call.body)?;
    check_content(&call.body)?;
    let person = call.body["user"].as_str().filter(|person| state.people.contains_key(*person));
    let person = person.ok_or("user_not_in_channel")?.to_owned();
    let ts = add(state, call, &conversation, Some(person));
    Ok(json!({ "message_ts": ts }))
}

fn add(state: &mut State, call: &Call, conversation: &str, only_for: Option<String>) -> String {
    let ts = state.ts();
    let (conversation, body, bytes) = (conversation.to_owned(), call.body.clone(), call.bytes.clone());
    let user = BOT_USER.to_owned();
    state.messages.push(Message {
        conversation,
        ts: ts.clone(),
        user,
        body,
        bytes,
        only_for,
        deleted: false,
    });
    ts
}

fn update(state: &mut State, body: &Value) -> Answer {
    let conversation = place(state, body)?;
    let ts = body["ts"].as_str().ok_or("message_not_found")?;
    let at = state.message(&conversation, ts).ok_or("message_not_found")?;
    check_content(body)?;
    let message = &mut state.messages[at];
    if message.user != BOT_USER || message.only_for.is_some() {
        return Err("cant_update_message");
    }
    message.body["text"] = body["text"].clone();
    message.body["blocks"] = body["blocks"].clone();
    Ok(json!({ "channel": conversation, "ts": ts, "text": body["text"] }))
}
