//! Acts as lines of JSON, for those who drive the stand-in from another process.

use super::Slack;
use serde::Deserialize;
use serde_json::{Value, json};
use switchboard_channels::conformance::{Behaviour, Wait};

#[derive(Deserialize)]
#[serde(tag = "act", rename_all = "snake_case", deny_unknown_fields)]
enum Act {
    Write { user: String, conversation: Option<String>, thread: Option<String>, text: String },
    Press { user: String, message: String, value: String },
    Edit { message: String, text: String },
    Delete { message: String },
    Disable { user: String },
    Revoke,
    Throttle { seconds: u32 },
    Disconnect { reason: String },
    CloseSockets,
    BringAgain,
    Messages,
    Calls,
    Acknowledged { count: usize },
    Sockets { count: usize },
    Sign { timestamp: i64, body: String },
}

/// Does what a line says; the answer has `ok`.
pub async fn act(slack: &Slack, line: &str) -> Value {
    match serde_json::from_str::<Act>(line) {
        Ok(act) => done(slack, act).await,
        Err(error) => json!({ "ok": false, "error": error.to_string() }),
    }
}

async fn done(slack: &Slack, act: Act) -> Value {
    let event = format!("act{}", slack.messages().len());
    let ok = match act {
        Act::Write { user, conversation, thread, text } => {
            let id = slack.write(&user, conversation.as_deref(), thread.as_deref(), &text, &event);
            return json!({ "ok": true, "message": id });
        }
        Act::Press { user, message, value } => slack.press(&user, &message, &value),
        Act::Edit { message, text } => slack.edit(&message, Some(&text), &format!("{event}e")),
        Act::Delete { message } => slack.edit(&message, None, &format!("{event}d")),
        Act::Throttle { seconds } => slack.script(Behaviour::Throttle(Wait::Seconds(seconds))),
        Act::Messages => return json!({ "ok": true, "messages": messages(slack) }),
        Act::Calls => return json!({ "ok": true, "calls": slack.calls() }),
        Act::Sign { timestamp, body } => return signed(slack, timestamp, &body),
        other => {
            quietly(slack, other).await;
            true
        }
    };
    json!({ "ok": ok })
}

async fn quietly(slack: &Slack, act: Act) {
    match act {
        Act::Disable { user } => slack.disable(&user),
        Act::Revoke => slack.revoke(Some("token_revoked")),
        Act::Disconnect { reason } => slack.disconnect(&reason),
        Act::CloseSockets => slack.close_sockets(),
        Act::BringAgain => slack.bring_again(),
        Act::Acknowledged { count } => slack.until_acknowledged(count).await,
        Act::Sockets { count } => slack.until_opened(count).await,
        _ => {}
    }
}

fn messages(slack: &Slack) -> Vec<Value> {
    let shown = |message: super::Message| {
        json!({
            "conversation": message.conversation,
            "ts": message.ts,
            "user": message.user,
            "text": message.body["text"],
            "thread": message.body["thread_ts"],
            "only_for": message.only_for,
        })
    };
    slack.messages().into_iter().map(shown).collect()
}

fn signed(slack: &Slack, timestamp: i64, body: &str) -> Value {
    let pushed = slack.sign(timestamp, "application/json", body.as_bytes());
    json!({ "ok": true, "signature": pushed.header("x-slack-signature") })
}
