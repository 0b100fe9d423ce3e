//! Slack: messages go out by its Web API, answers come in over Socket Mode or are posted to the hub.
//!
//! Out: [`prepare`] makes mrkdwn of a draft, [`blocks`] Block Kit of a part, [`api`] the call, [`answer`] an outcome of what comes of it. In:
//! [`socket`] is one Socket Mode connection and [`inbound`] keeps one open, or takes what is posted after [`signature`] has vouched for it;
//! [`event`] and [`text`] make of it what the port takes. Golden bytes are in `fixtures/slack`; how an app is set up stands in
//! `docs/guide/channels/slack.md`.

mod address;
mod answer;
mod api;
mod blocks;
mod event;
mod inbound;
mod prepare;
mod settings;
mod signature;
mod socket;
mod text;

pub use prepare::FOOTER;
pub use settings::{BASE_URL, Settings, Tuning};

use address::{MessageId, is_direct};
use api::{Api, Done};
use event::Me;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::outbound::gate::Cleared;
use switchboard_core::port::channel::{
    AddressKind, Amendment, Attempt, Capabilities, Channel, Checked, Dedup, Dialect, Draft, FailureClass,
    Inbound, LengthUnit, NotSent, Part, Performed, PushAnswer, Pushed,
};
use switchboard_core::random::Entropy;
use switchboard_core::time::Clock;
use tokio::sync::OnceCell;
use tokio_tungstenite::Connector;

/// Kind of the channel.
pub const KIND: &str = "slack";
/// Least time between two messages to one conversation (<https://docs.slack.dev/apis/web-api/rate-limits>).
const PACE_MS: u64 = 1000;
/// Most people whose direct conversation is remembered.
const ROOMS_MAX: usize = 10_000;
/// Scopes without which nothing goes out, and those without which no answers come in.
const SCOPES_OUT: [&str; 2] = ["chat:write", "im:write"];
const SCOPES_IN: [&str; 1] = ["im:history"];

/// What every Slack channel can do. Slack documents nothing by which it would drop a repeated message.
const fn capabilities(answers: bool) -> Capabilities {
    Capabilities {
        direct: true,
        shared: true,
        answers,
        part_max: prepare::PART_MAX,
        unit: LengthUnit::Utf16,
        parts_max: prepare::PARTS_MAX,
        dialect: Dialect::Slack,
        threads: true,
        edits: true,
        buttons_max: if answers { prepare::BUTTONS_MAX } else { 0 },
        dedup: Dedup::None,
        pace_ms: PACE_MS,
        at_once: 8,
        consent: true,
    }
}

/// Slack as a channel.
pub struct Slack {
    capabilities: Capabilities,
    inner: Arc<Inner>,
}

/// What both directions share.
struct Inner {
    name: String,
    api: Api,
    connector: Connector,
    signing: Option<signature::Key>,
    by_socket: bool,
    answers: bool,
    tuning: Tuning,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    me: OnceCell<Me>,
    /// Direct conversations by person.
    rooms: Mutex<HashMap<String, String>>,
    /// Who was told something, and when.
    told: Mutex<Vec<(String, Duration)>>,
}

impl fmt::Debug for Slack {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Slack").field("name", &self.inner.name).finish_non_exhaustive()
    }
}

impl Slack {
    /// The channel, or a sentence that names the setting that is wrong. Nothing is connected yet.
    pub fn new(settings: Settings) -> Result<Self, String> {
        let base = settings.check()?;
        let inner = Inner {
            api: Api::new(&settings, base)?,
            connector: socket::connector()?,
            signing: settings.signing_secret.as_ref().map(signature::Key::new).transpose()?,
            by_socket: settings.app_token.is_some(),
            answers: settings.answers(),
            name: settings.name,
            tuning: settings.tuning,
            clock: settings.clock,
            entropy: settings.entropy,
            me: OnceCell::new(),
            rooms: Mutex::default(),
            told: Mutex::default(),
        };
        Ok(Self { capabilities: capabilities(inner.answers), inner: Arc::new(inner) })
    }
}

impl Inner {
    async fn post(&self, attempt: &Attempt) -> Performed {
        let (to, posted) = match self.conversation(attempt).await {
            Ok(conversation) => {
                let body = message_to(&conversation, attempt);
                let posted = self.api.call("chat.postMessage", &body).await;
                (conversation, posted)
            }
            Err(ended) => return answer::nobody_reached(ended),
        };
        match posted {
            Ok(done) => sent(&done.value),
            Err(ended) => {
                self.forget(&to, &ended);
                ended
            }
        }
    }

    /// Where it goes. A person is written to in a conversation that Slack opens, or has opened, when it is asked to; nobody notices.
    async fn conversation(&self, attempt: &Attempt) -> Result<String, Performed> {
        let handle = &attempt.to.handle;
        if attempt.to.kind == AddressKind::Channel {
            return Ok(handle.clone());
        }
        if let Some(known) = self.rooms.lock().get(handle) {
            return Ok(known.clone());
        }
        let opened = self.api.call("conversations.open", &json!({ "users": handle })).await?;
        let id = opened.value["channel"]["id"].as_str().filter(|id| is_direct(id));
        let no_room =
            || Performed::Unknown { reason: "Slack has opened no conversation with this person".into() };
        let id = id.ok_or_else(no_room)?.to_owned();
        let mut rooms = self.rooms.lock();
        if rooms.len() >= ROOMS_MAX {
            rooms.clear();
        }
        rooms.insert(handle.clone(), id.clone());
        Ok(id)
    }

    /// A conversation that is gone is looked for anew the next time.
    fn forget(&self, conversation: &str, ended: &Performed) {
        if matches!(ended, Performed::NotSent(why) if why.class == FailureClass::BadAddress) {
            self.rooms.lock().retain(|_, known| known != conversation);
        }
    }

    async fn amend(&self, amendment: &Amendment) -> Performed {
        let Some(id) = MessageId::parse(&amendment.message_id) else {
            let reason = "this is no id of a message on Slack";
            return Performed::NotSent(NotSent::new(FailureClass::Permanent, reason));
        };
        let mut body = blocks::message(&amendment.part, Some(&amendment.outcome));
        body["channel"] = id.conversation.into();
        body["ts"] = id.ts.into();
        match self.api.call("chat.update", &body).await {
            Ok(_) => Performed::Sent { message_id: Some(amendment.message_id.clone()) },
            Err(ended) => ended,
        }
    }

    /// Who we are, asked once.
    async fn me(&self) -> Result<&Me, Performed> {
        self.me.get_or_try_init(|| async { me(&self.who_am_i().await?.value) }).await
    }

    async fn who_am_i(&self) -> Result<Done, Performed> {
        self.api.call("auth.test", &json!({})).await
    }

    async fn check(&self) -> Result<Checked, String> {
        let done = self.who_am_i().await.map_err(answer::sentence)?;
        let me = me(&done.value).map_err(answer::sentence)?;
        check_scopes(&done, self.answers)?;
        if self.by_socket {
            let opened = self.api.call_as_app("apps.connections.open").await;
            opened.map_err(|ended| format!("app_token: {}", answer::sentence(ended)))?;
        }
        let account = format!("@{} in {}", me.user, me.team);
        let invite = format!("Write to @{} on Slack, in the workspace {}: pair {{code}}", me.user, me.team);
        Ok(Checked { account, invite: self.answers.then_some(invite) })
    }
}

/// Slack lists what a token may do with every answer.
fn check_scopes(done: &Done, answers: bool) -> Result<(), String> {
    let Some(listed) = done.headers.get("x-oauth-scopes").and_then(|value| value.to_str().ok()) else {
        return Ok(());
    };
    let has = |scope: &&&str| listed.split(',').any(|one| one.trim() == **scope);
    let wanted = SCOPES_OUT.iter().chain(SCOPES_IN.iter().filter(|_| answers));
    let missing: Vec<&str> = wanted.filter(|scope| !has(scope)).copied().collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!(
        "the app lacks the scopes {}: add them in `OAuth & Permissions`, and install it anew",
        missing.join(", ")
    ))
}

fn me(answer: &Value) -> Result<Me, Performed> {
    let part =
        |key: &str| answer[key].as_str().map(crate::document::clean_line).filter(|text| !text.is_empty());
    let who = part("user_id").zip(part("team_id"));
    let (user_id, team_id) =
        who.ok_or_else(|| Performed::Unknown { reason: "Slack does not say who we are".into() })?;
    let named = |key| part(key).unwrap_or_else(|| "?".into());
    Ok(Me { user_id, team_id, bot_id: part("bot_id"), user: named("user"), team: named("team") })
}

/// The body of `chat.postMessage`. Of several messages that it continues the first began the thread.
fn message_to(conversation: &str, attempt: &Attempt) -> Value {
    let mut body = blocks::message(&attempt.part, None);
    body["channel"] = conversation.into();
    body["unfurl_links"] = false.into();
    body["unfurl_media"] = false.into();
    body["metadata"] =
        json!({ "event_type": "switchboard_delivery", "event_payload": { "delivery": attempt.delivery } });
    let ids = attempt.references.iter().filter_map(|id| MessageId::parse(id));
    if let Some(root) = ids.into_iter().find(|id| id.conversation == conversation) {
        body["thread_ts"] = root.ts.into();
        // What asks for an answer must be seen without opening the thread.
        body["reply_broadcast"] = (attempt.place.0 == attempt.place.1 && attempt.place.1 > 1).into();
    }
    body
}

/// Slack has said that it posted the message; without a sound id it cannot be changed later, and has been posted all the same.
fn sent(answer: &Value) -> Performed {
    let id = answer["channel"].as_str().zip(answer["ts"].as_str());
    let id = id.and_then(|(conversation, ts)| MessageId::new(conversation, ts));
    Performed::Sent { message_id: id.map(|id| id.to_string()) }
}

impl Channel for Slack {
    fn name(&self) -> &str {
        &self.inner.name
    }

    fn kind(&self) -> &'static str {
        KIND
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn normalise(&self, kind: AddressKind, to: &str) -> Result<String, String> {
        address::normalise(kind, to)
    }

    fn prepare(&self, draft: &Draft<'_>) -> Result<Vec<Part>, String> {
        prepare::prepare(draft, self.inner.answers)
    }

    fn perform(&self, attempt: Cleared) -> BoxFuture<'_, Performed> {
        Box::pin(async move { self.inner.post(attempt.attempt()).await })
    }

    fn listen(self: Arc<Self>, inbound: Arc<dyn Inbound>) -> BoxFuture<'static, ()> {
        let inner = self.inner.clone();
        Box::pin(async move {
            if inner.answers {
                inbound::listen(inner, inbound).await;
            } else {
                std::future::pending::<()>().await;
            }
        })
    }

    fn push<'a>(&'a self, pushed: Pushed, inbound: &'a dyn Inbound) -> BoxFuture<'a, PushAnswer> {
        Box::pin(inbound::push(&self.inner, pushed, inbound))
    }

    fn amend(&self, amendment: Amendment) -> BoxFuture<'_, Performed> {
        Box::pin(async move { self.inner.amend(&amendment).await })
    }

    fn check(&self) -> BoxFuture<'_, Result<Checked, String>> {
        Box::pin(self.inner.check())
    }
}
