//! The calls of the HTTP API. Shapes, limits and codes are those of the service's documentation.

use super::world::{Refusal, World, account};
use super::{Call, Shared, world};
use serde_json::{Value, json};

/// Status, headers and body.
pub(crate) type Answer = (u16, String, String);

pub(crate) fn answer(call: &Call, shared: &Shared) -> Answer {
    let mut world = shared.world.lock();
    let parts: Vec<&str> = call.path.trim_matches('/').split('/').collect();
    let needs_token = parts.first() != Some(&"interactions");
    if needs_token && (world.token.is_empty() || call.authorization != format!("Bot {}", world.token)) {
        return refused(&Refusal(401, 0, "401: Unauthorized"));
    }
    let done = match (call.method.as_str(), parts.as_slice()) {
        ("GET", ["gateway"]) => Ok(json!({ "url": shared.gateway_url })),
        ("GET", ["gateway", "bot"]) => Ok(json!({
            "url": shared.gateway_url,
            "shards": 1,
            "session_start_limit": { "total": 1000, "remaining": 999, "reset_after": 14_400_000, "max_concurrency": 1 },
        })),
        ("GET", ["users", "@me"]) => Ok(account(world::BOT)),
        ("GET", ["users", id]) => World::user(id),
        ("GET", ["applications", "@me"] | ["oauth2", "applications", "@me"]) => Ok(application(&world)),
        ("POST", ["users", "@me", "channels"]) => world.open(&world::id(&call.body["recipient_id"])),
        ("GET", ["channels", id]) => world.channel(id),
        ("POST", ["channels", id, "messages"]) => post(&mut world, id, &call.body, shared),
        ("GET", ["channels", id, "messages"]) => {
            world.page(id, parameter(call, "after"), parameter(call, "limit"))
        }
        ("GET", ["channels", channel, "messages", id]) => {
            world.message(&format!("{channel}:{id}")).ok_or(world::UNKNOWN_MESSAGE)
        }
        ("PATCH", ["channels", channel, "messages", id]) => {
            world.amend(&format!("{channel}:{id}"), &call.body)
        }
        ("DELETE", ["channels", channel, "messages", id]) => {
            let there = world.delete(&format!("{channel}:{id}"));
            if there { Ok(Value::Null) } else { Err(world::UNKNOWN_MESSAGE) }
        }
        ("POST", ["interactions", id, token, "callback"]) => world.callback(id, token, &call.body),
        _ => Err(Refusal(404, 0, "404: Not Found")),
    };
    match done {
        Ok(Value::Null) => (204, String::new(), String::new()),
        Ok(value) => {
            let headers = "x-ratelimit-limit: 5\r\nx-ratelimit-remaining: 4\r\nx-ratelimit-reset-after: 5.000\r\n\
                x-ratelimit-bucket: 80c17d2f203122d936070c88c8d10f33\r\n";
            (200, headers.to_owned(), value.to_string())
        }
        Err(refusal) => refused(&refusal),
    }
}

fn refused(refusal: &Refusal) -> Answer {
    let Refusal(status, code, message) = refusal;
    (*status, String::new(), json!({ "message": message, "code": code }).to_string())
}

fn post(world: &mut World, channel: &str, body: &Value, shared: &Shared) -> Result<Value, Refusal> {
    let message = world.post(channel, body)?;
    let id = format!("{channel}:{}", message["id"].as_str().unwrap_or_default());
    shared.room.accepted.lock().push((body.clone(), id));
    Ok(message)
}

fn application(world: &World) -> Value {
    json!({
        "id": world::BOT,
        "name": "switchboard",
        "icon": null,
        "description": "",
        "bot_public": true,
        "bot_require_code_grant": false,
        "verify_key": "00",
        "owner": account(world::ADA),
        "team": null,
        "flags": world.application_flags,
    })
}

fn parameter<'a>(call: &'a Call, name: &str) -> Option<&'a str> {
    let pairs = call.query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(|(known, _)| *known == name).map(|(_, value)| value).next()
}
