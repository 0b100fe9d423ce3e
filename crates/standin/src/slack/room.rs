//! What the stand-in remembers.

use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use switchboard_channels::conformance::Behaviour;
use tokio::sync::mpsc::UnboundedSender;

/// The workspace.
pub const TEAM: &str = "T024BE7LD";
/// The app.
pub const APP: &str = "A024BE7LA";
/// The app's bot as a person.
pub const BOT_USER: &str = "U0BOT00001";
/// The app's bot as a bot.
pub const BOT: &str = "B0BOT00001";
/// The bot's name.
pub const BOT_NAME: &str = "switchboard";
/// Slack time begins here, in Unix seconds.
const FIRST_S: u64 = 1_800_000_000;

/// A message that was posted.
#[derive(Debug, Clone)]
pub struct Message {
    /// Where.
    pub conversation: String,
    /// Its timestamp.
    pub ts: String,
    /// By whom.
    pub user: String,
    /// All of it, as it stands now.
    pub body: Value,
    /// The request that posted it, as it came; empty for what people write.
    pub bytes: Vec<u8>,
    /// Who alone sees it.
    pub only_for: Option<String>,
    /// Whether it is gone.
    pub deleted: bool,
}

impl Message {
    /// The thread that it stands in: the timestamp of the message that began it.
    pub fn thread(&self) -> Option<&str> {
        self.body["thread_ts"].as_str()
    }
}

/// A conversation.
#[derive(Debug, Clone, Default)]
pub struct Conversation {
    /// The person at the other end, of a direct one.
    pub with: Option<String>,
    /// Whether the app is in it.
    pub joined: bool,
    /// Whether it is archived.
    pub archived: bool,
}

/// What is to be brought to the app.
#[derive(Debug, Clone)]
pub struct Envelope {
    /// Its id.
    pub id: String,
    /// `events_api`, `interactive`, …
    pub kind: &'static str,
    /// What is in it.
    pub payload: Value,
    /// How often it was brought.
    pub brought: usize,
    /// Whether the app has acknowledged it.
    pub acknowledged: bool,
}

/// What a socket is told.
#[derive(Debug)]
pub enum Order {
    /// Send this text.
    Text(String),
    /// End the connection.
    Close,
    /// Say and hear nothing any more, and do not end.
    Freeze,
}

/// A connection of Socket Mode.
#[derive(Debug)]
pub struct Socket {
    /// Its number.
    pub number: usize,
    /// Tells it what to do.
    pub orders: UnboundedSender<Order>,
    /// Whether the app was asked to leave it.
    pub leaving: bool,
}

/// Everything.
pub struct State {
    /// What the app's tokens are.
    pub bot_token: String,
    /// Its app-level token.
    pub app_token: String,
    /// The code that answers calls when the token was revoked.
    pub revoked: Option<&'static str>,
    /// What the bot token may do.
    pub scopes: Vec<String>,
    /// People, and whether they are active.
    pub people: BTreeMap<String, bool>,
    /// Conversations.
    pub conversations: BTreeMap<String, Conversation>,
    /// Messages, in order.
    pub messages: Vec<Message>,
    /// How the next calls that post are treated.
    pub script: VecDeque<Behaviour>,
    /// Calls that post.
    pub contacts: usize,
    /// All calls, by method.
    pub calls: Vec<String>,
    /// What is brought.
    pub envelopes: Vec<Envelope>,
    /// Connections of Socket Mode.
    pub sockets: Vec<Socket>,
    /// Tickets for sockets.
    pub tickets: Vec<String>,
    /// Sockets that there were, and the most at a time.
    pub opened: (usize, usize),
    /// Pongs that came.
    pub pongs: usize,
    clock: u64,
}

impl State {
    pub fn new(bot_token: &str, app_token: &str) -> Self {
        let shared = |joined, archived| Conversation { with: None, joined, archived };
        Self {
            bot_token: bot_token.into(),
            app_token: app_token.into(),
            revoked: None,
            scopes: [
                "chat:write",
                "im:write",
                "im:history",
                "channels:history",
                "groups:history",
                "app_mentions:read",
            ]
            .map(Into::into)
            .into(),
            people: [("U024BE7LH".into(), true), ("W012A3CDE".into(), true), ("U0GONE0001".into(), false)]
                .into(),
            conversations: [
                ("C024BE91L".into(), shared(true, false)),
                ("C0OUTSIDE1".into(), shared(false, false)),
                ("C0ARCHIVE1".into(), shared(true, true)),
            ]
            .into(),
            messages: Vec::new(),
            script: VecDeque::new(),
            contacts: 0,
            calls: Vec::new(),
            envelopes: Vec::new(),
            sockets: Vec::new(),
            tickets: Vec::new(),
            opened: (0, 0),
            pongs: 0,
            clock: 0,
        }
    }

    /// A new timestamp, later than all others.
    pub fn ts(&mut self) -> String {
        self.clock += 1;
        format!("{}.{:06}", FIRST_S + self.clock, self.clock * 100 + 19)
    }

    /// The direct conversation with a person, which is made if there is none.
    pub fn direct(&mut self, person: &str) -> String {
        let known = self.conversations.iter().find(|(_, one)| one.with.as_deref() == Some(person));
        if let Some((id, _)) = known {
            return id.clone();
        }
        let id = format!("D{}", &person[1..]);
        let conversation = Conversation { with: Some(person.into()), joined: true, archived: false };
        self.conversations.insert(id.clone(), conversation);
        id
    }

    /// A message that is there.
    pub fn message(&self, conversation: &str, ts: &str) -> Option<usize> {
        self.messages.iter().position(|one| one.conversation == conversation && one.ts == ts && !one.deleted)
    }

    /// Puts an envelope in the queue.
    pub fn enqueue(&mut self, kind: &'static str, payload: Value) {
        let id = format!("env-{:08}", self.envelopes.len() + 1);
        self.envelopes.push(Envelope { id, kind, payload, brought: 0, acknowledged: false });
        self.bring(false);
    }

    /// Brings what was not brought, or, `again`, what was not acknowledged, over the newest connection that is not being left.
    pub fn bring(&mut self, again: bool) {
        let Some(socket) = self.sockets.iter().rev().find(|socket| !socket.leaving) else { return };
        for envelope in &mut self.envelopes {
            if envelope.acknowledged || (envelope.brought > 0 && !again) {
                continue;
            }
            let retry = envelope.brought;
            let mut frame = json!({
                "envelope_id": envelope.id,
                "type": envelope.kind,
                "payload": envelope.payload,
                "accepts_response_payload": envelope.kind == "interactive",
            });
            if envelope.kind == "events_api" {
                frame["retry_attempt"] = retry.into();
                frame["retry_reason"] = if retry > 0 { "timeout" } else { "" }.into();
            }
            if socket.orders.send(Order::Text(frame.to_string())).is_ok() {
                envelope.brought += 1;
            }
        }
    }
}
