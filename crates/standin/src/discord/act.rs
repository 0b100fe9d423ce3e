//! Acts of people and of the service as JSON, for programs in other languages.

use super::{ADA, Discord, Upset};
use serde_json::{Value, json};
use switchboard_channels::conformance::{Behaviour, Wait};

/// One act, as a line of JSON, and what came of it: `ok`, and why not or what else there is to say.
#[must_use]
pub fn act(discord: &Discord, line: &str) -> Value {
    let done = serde_json::from_str(line).map_err(|error| error.to_string());
    match done.and_then(|act: Value| done_by(discord, &act)) {
        Ok(mut done) => {
            done["ok"] = json!(true);
            done
        }
        Err(why) => json!({ "ok": false, "error": why }),
    }
}

/// `{"act": "write", "user": "…", "text": "…"}` and so on; what came of it.
fn done_by(discord: &Discord, act: &Value) -> Result<Value, String> {
    let text = |name: &str| act[name].as_str();
    let needed = |name: &str| text(name).ok_or_else(|| format!("{name} is missing"));
    let user = text("user").unwrap_or(ADA);
    let done = |done: bool| Ok(json!({ "done": done }));
    match needed("act")? {
        "write" => Ok(json!({ "id": discord.write(user, needed("text")?, text("answers")) })),
        "write_shared" => Ok(json!({ "id": discord.write_shared(user, needed("text")?, text("answers")) })),
        "press" => done(discord.press(user, needed("message")?, needed("value")?)),
        "edit" => done(discord.edit(needed("message")?, needed("text")?)),
        "delete" => done(discord.delete(needed("message")?)),
        "block" => {
            discord.block(user);
            done(true)
        }
        "revoke" => {
            discord.revoke();
            done(true)
        }
        "throttle" => {
            let ms = act["ms"].as_u64().and_then(|ms| u32::try_from(ms).ok()).unwrap_or(100);
            discord.script(Behaviour::Throttle(Wait::Body(ms)));
            done(true)
        }
        "cut" => {
            discord.upset(Upset::Cut);
            done(true)
        }
        "reconnect" => {
            discord.upset(Upset::Reconnect);
            done(true)
        }
        "message" => Ok(json!({ "message": discord.message(needed("message")?) })),
        "state" => {
            let (begun, resumed) = discord.sessions();
            Ok(json!({
                "calls": discord.calls(),
                "callbacks": discord.callbacks(),
                "accepted": discord.accepted(),
                "begun": begun,
                "resumed": resumed,
                "gateway": discord.gateway_url(),
            }))
        }
        other => Err(format!("there is no act {other:?}")),
    }
}
