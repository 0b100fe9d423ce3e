//! What people do, and the payloads by which Slack tells the app of it.

use super::blocks;
use super::room::{APP, BOT, BOT_USER, Message, State, TEAM};
use serde_json::{Value, json};

/// The event around which Slack wraps what happened.
fn event_callback(event_id: &str, event: &Value) -> Value {
    json!({
        "token": "deprecated",
        "team_id": TEAM,
        "api_app_id": APP,
        "event": event,
        "type": "event_callback",
        "event_id": format!("Ev{event_id}"),
        "event_time": 1_800_000_000,
        "authorizations": [{
            "enterprise_id": null,
            "team_id": TEAM,
            "user_id": BOT_USER,
            "is_bot": true,
            "is_enterprise_install": false,
        }],
        "is_ext_shared_channel": false,
        "event_context": "4-eyJldCI6Im1lc3NhZ2UifQ",
    })
}

fn kind_of(conversation: &str) -> &'static str {
    match conversation.as_bytes().first() {
        Some(b'D') => "im",
        Some(b'G') => "group",
        _ => "channel",
    }
}

/// As Slack stores what a person types; mentions and links are typed as Slack gives them.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
}

impl State {
    /// A person writes: the message's timestamp. Without a conversation it is their direct one with the app.
    pub fn write(
        &mut self,
        user: &str,
        to: Option<&str>,
        thread: Option<&str>,
        text: &str,
        event_id: &str,
    ) -> String {
        let conversation = to.map_or_else(|| self.direct(user), str::to_owned);
        let ts = self.ts();
        let mut body =
            json!({ "type": "message", "user": user, "text": escaped(text), "ts": ts, "team": TEAM });
        if let Some(thread) = thread {
            let root = self.message(&conversation, thread).map(|at| self.messages[at].user.clone());
            body["thread_ts"] = thread.into();
            body["parent_user_id"] = root.into();
        }
        self.messages.push(Message {
            conversation: conversation.clone(),
            ts: ts.clone(),
            user: user.to_owned(),
            body: body.clone(),
            bytes: Vec::new(),
            only_for: None,
            deleted: false,
        });
        body["client_msg_id"] = format!("00000000-0000-4000-8000-{:012}", self.messages.len()).into();
        body["channel"] = conversation.as_str().into();
        body["event_ts"] = ts.as_str().into();
        body["channel_type"] = kind_of(&conversation).into();
        self.enqueue("events_api", event_callback(event_id, &body));
        let named = text.contains(&format!("<@{BOT_USER}>"));
        if named && kind_of(&conversation) != "im" {
            body["type"] = "app_mention".into();
            self.enqueue("events_api", event_callback(&format!("{event_id}m"), &body));
        }
        ts
    }

    /// A person changes what they wrote.
    pub fn edit(&mut self, conversation: &str, ts: &str, text: &str, event_id: &str) -> Option<()> {
        let (at, event_ts) = (self.message(conversation, ts)?, self.ts());
        let previous = self.messages[at].body.clone();
        let message = &mut self.messages[at].body;
        message["text"] = escaped(text).into();
        message["edited"] = json!({ "user": message["user"], "ts": event_ts });
        let event = json!({
            "type": "message",
            "subtype": "message_changed",
            "message": message,
            "previous_message": previous,
            "channel": conversation,
            "hidden": true,
            "ts": event_ts,
            "event_ts": event_ts,
            "channel_type": kind_of(conversation),
        });
        self.enqueue("events_api", event_callback(event_id, &event));
        Some(())
    }

    /// A person takes back what they wrote.
    pub fn delete(&mut self, conversation: &str, ts: &str, event_id: &str) -> Option<()> {
        let (at, event_ts) = (self.message(conversation, ts)?, self.ts());
        self.messages[at].deleted = true;
        let event = json!({
            "type": "message",
            "subtype": "message_deleted",
            "previous_message": self.messages[at].body,
            "channel": conversation,
            "hidden": true,
            "deleted_ts": ts,
            "ts": event_ts,
            "event_ts": event_ts,
            "channel_type": kind_of(conversation),
        });
        self.enqueue("events_api", event_callback(event_id, &event));
        Some(())
    }

    /// A person presses the button that carries `value`.
    pub fn press(&mut self, user: &str, conversation: &str, ts: &str, value: &str) -> Option<()> {
        let (at, action_ts) = (self.message(conversation, ts)?, self.ts());
        let posted = &self.messages[at];
        let button = blocks::buttons(&posted.body).into_iter().find(|button| button["value"] == value)?;
        let mut action = button.clone();
        action["block_id"] = "switchboard".into();
        action["action_ts"] = action_ts.into();
        let payload = json!({
            "type": "block_actions",
            "user": { "id": user, "username": "ada", "name": "ada", "team_id": TEAM },
            "api_app_id": APP,
            "token": "deprecated",
            "container": { "type": "message", "message_ts": ts, "channel_id": conversation, "is_ephemeral": false },
            "trigger_id": "12466734323.1395872398",
            "team": { "id": TEAM, "domain": "example" },
            "enterprise": null,
            "is_enterprise_install": false,
            "channel": { "id": conversation, "name": "directmessage" },
            "message": {
                "type": "message", "user": BOT_USER, "bot_id": BOT, "app_id": APP, "ts": ts, "team": TEAM,
                "text": posted.body["text"], "blocks": posted.body["blocks"],
            },
            "state": { "values": {} },
            "response_url": "https://hooks.slack.com/actions/T024BE7LD/1/x",
            "actions": [action],
        });
        self.enqueue("interactive", payload);
        Some(())
    }
}
