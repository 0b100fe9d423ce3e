//! Slack: its Web API and Socket Mode (<https://docs.slack.dev>) for one app in one workspace, where Ada (`U024BE7LH`) and others work.

mod acts;
mod api;
mod blocks;
mod people;
mod room;
mod socket;
pub mod text;
mod wire;

pub use acts::act;
pub use room::{BOT_USER, Message};

use futures_util::future::BoxFuture;
use hmac::{Hmac, KeyInit as _, Mac as _};
use parking_lot::Mutex;
use room::{Order, State};
use serde_json::{Value, json};
use sha2::Sha256;
use std::fmt::Write as _;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use switchboard_channels::conformance::{Accepted, Behaviour, Shown, Wait};
use switchboard_channels::guard::Lookup;
use switchboard_core::port::channel::Pushed;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A person who is there.
pub const ADA: &str = "U024BE7LH";
/// A shared channel that the app is in.
pub const GENERAL: &str = "C024BE91L";
/// The call that posts, and that is treated as told.
const POST: &str = "chat.postMessage";

/// The workspace.
pub struct Slack {
    /// Where it listens.
    pub address: SocketAddr,
    room: Arc<Room>,
    task: JoinHandle<()>,
}

struct Room {
    state: Mutex<State>,
    signing_secret: String,
    address: String,
    /// Counts what has happened, so that it can be waited for.
    ticks: watch::Sender<u64>,
    together: watch::Sender<(usize, usize)>,
}

impl Room {
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.state.lock());
        self.ticks.send_modify(|tick| *tick += 1);
        changed
    }

    async fn until(&self, holds: impl Fn(&State) -> bool) {
        let mut ticks = self.ticks.subscribe();
        while !holds(&self.state.lock()) {
            if ticks.changed().await.is_err() {
                return;
            }
        }
    }
}

impl Drop for Slack {
    fn drop(&mut self) {
        self.task.abort();
        self.close_sockets();
    }
}

impl Slack {
    /// A workspace whose app has these secrets.
    pub async fn start(bot_token: &str, app_token: &str, signing_secret: &str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("loopback has a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let room = Arc::new(Room {
            state: Mutex::new(State::new(bot_token, app_token)),
            signing_secret: signing_secret.to_owned(),
            address: address.to_string(),
            ticks: watch::Sender::new(0),
            together: watch::Sender::new((0, 0)),
        });
        let task = tokio::spawn(listen(listener, room.clone()));
        Self { address, room, task }
    }

    /// The base URL of its Web API, at the name that [`Slack::lookup`] leads here.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://slack.test:{}/api/", self.address.port())
    }

    /// Leads every name here; when the workspace is [`Behaviour::Unreachable`], to where nobody listens.
    #[must_use]
    pub fn lookup(&self) -> Arc<dyn Lookup> {
        Arc::new(Leads(self.room.clone()))
    }

    /// How the next call that posts is treated, after those that were said before. False when Slack does not behave so: it asks to wait in
    /// whole seconds alone.
    pub fn script(&self, behaviour: Behaviour) -> bool {
        let can = !matches!(
            behaviour,
            Behaviour::Throttle(Wait::Fraction(_) | Wait::Date(_) | Wait::Several(..) | Wait::Body(_))
        );
        if can {
            self.room.change(|state| state.script.push_back(behaviour));
        }
        can
    }

    /// Calls that post, so far.
    #[must_use]
    pub fn contacts(&self) -> usize {
        self.room.state.lock().contacts
    }

    /// All methods that were called, in order.
    #[must_use]
    pub fn calls(&self) -> Vec<String> {
        self.room.state.lock().calls.clone()
    }

    /// All messages, in order.
    #[must_use]
    pub fn messages(&self) -> Vec<Message> {
        self.room.state.lock().messages.clone()
    }

    /// The app's messages that carry a delivery.
    #[must_use]
    pub fn accepted(&self) -> Vec<Accepted> {
        self.messages().iter().filter_map(accepted).collect()
    }

    /// Waits until the app has posted so many messages.
    pub async fn until_accepted(&self, count: usize) {
        self.room.until(|state| state.messages.iter().filter_map(accepted).count() >= count).await;
    }

    /// Waits until there are so many messages, of whomever.
    pub async fn until_messages(&self, count: usize) {
        self.room.until(|state| state.messages.len() >= count).await;
    }

    /// What stands at a message, `CONVERSATION:TS`.
    #[must_use]
    pub fn shown(&self, message_id: &str) -> Option<Shown> {
        let (conversation, ts) = message_id.split_once(':')?;
        let state = self.room.state.lock();
        let body = &state.messages[state.message(conversation, ts)?].body;
        Some(Shown { text: blocks::read(body).text, buttons: blocks::buttons(body).len() })
    }

    /// Everybody and everything that the app's messages mention, and where their links lead.
    #[must_use]
    pub fn called(&self) -> (Vec<String>, Vec<String>) {
        let (mut mentions, mut links) = (Vec::new(), Vec::new());
        for message in self.messages().iter().filter(|message| message.user == BOT_USER) {
            let read = blocks::read(&message.body);
            let looks = message.body["link_names"] != false || message.body["parse"] != "none";
            mentions.extend(read.mentions);
            mentions.extend(looks.then(|| "names are looked for".to_owned()));
            links.extend(read.links);
        }
        (mentions, links)
    }

    /// A person writes to the app alone, or in a conversation and thread: `CONVERSATION:TS`.
    pub fn write(
        &self,
        user: &str,
        to: Option<&str>,
        thread: Option<&str>,
        text: &str,
        event_id: &str,
    ) -> String {
        self.room.change(|state| {
            let ts = state.write(user, to, thread, text, event_id);
            let conversation = to.map_or_else(|| state.direct(user), str::to_owned);
            format!("{conversation}:{ts}")
        })
    }

    /// A person changes what they wrote, or takes it back. False when there is no such message.
    pub fn edit(&self, message_id: &str, text: Option<&str>, event_id: &str) -> bool {
        let Some((conversation, ts)) = message_id.split_once(':') else { return false };
        let done = self.room.change(|state| match text {
            Some(text) => state.edit(conversation, ts, text, event_id),
            None => state.delete(conversation, ts, event_id),
        });
        done.is_some()
    }

    /// A person presses a button. False when there is none with this value.
    pub fn press(&self, user: &str, message_id: &str, value: &str) -> bool {
        let Some((conversation, ts)) = message_id.split_once(':') else { return false };
        self.room.change(|state| state.press(user, conversation, ts, value)).is_some()
    }

    /// Slack brings a payload that nobody made.
    pub fn bring(&self, kind: &'static str, payload: Value) {
        self.room.change(|state| state.enqueue(kind, payload));
    }

    /// Slack brings again what was not acknowledged.
    pub fn bring_again(&self) {
        self.room.change(|state| state.bring(true));
    }

    /// What was acknowledged, so far.
    #[must_use]
    pub fn acknowledged(&self) -> usize {
        acknowledged(&self.room.state.lock())
    }

    /// Waits until so much has been acknowledged.
    pub async fn until_acknowledged(&self, count: usize) {
        self.room.until(|state| acknowledged(state) >= count).await;
    }

    /// Calls are answered with this code from now on, as after the token was revoked; or as before.
    pub fn revoke(&self, code: Option<&'static str>) {
        self.room.change(|state| state.revoked = code);
    }

    /// The app may do this alone.
    pub fn scopes(&self, scopes: &[&str]) {
        self.room.change(|state| state.scopes = scopes.iter().map(|&scope| scope.to_owned()).collect());
    }

    /// A person's account is deactivated.
    pub fn disable(&self, user: &str) {
        self.room.change(|state| state.people.insert(user.to_owned(), false));
    }

    /// Slack asks to leave the sockets there are, and brings nothing on them any more.
    pub fn disconnect(&self, reason: &str) {
        let frame = json!({ "type": "disconnect", "reason": reason, "debug_info": { "host": "applink-1" } });
        self.order(|| Order::Text(frame.to_string()));
    }

    /// Slack ends all sockets.
    pub fn close_sockets(&self) {
        self.order(|| Order::Close);
    }

    /// Slack ends the sockets that it has asked to leave.
    pub fn close_left_sockets(&self) {
        self.room.change(|state| {
            for socket in state.sockets.iter().filter(|socket| socket.leaving) {
                let _ = socket.orders.send(Order::Close);
            }
        });
    }

    /// All sockets fall silent without ending.
    pub fn freeze_sockets(&self) {
        self.order(|| Order::Freeze);
    }

    fn order(&self, order: impl Fn() -> Order) {
        self.room.change(|state| {
            for socket in &mut state.sockets {
                let _ = socket.orders.send(order());
                socket.leaving = true;
            }
        });
    }

    /// Waits until so many sockets have been opened.
    pub async fn until_opened(&self, count: usize) {
        self.room.until(|state| state.opened.0 >= count && !state.sockets.is_empty()).await;
    }

    /// Waits until so many sockets are there.
    pub async fn until_sockets(&self, count: usize) {
        self.room.until(|state| state.sockets.len() == count).await;
    }

    /// The most sockets that there were at a time.
    #[must_use]
    pub fn sockets_at_once(&self) -> usize {
        self.room.state.lock().opened.1
    }

    /// Waits until the app has answered so many pings.
    pub async fn until_pongs(&self, count: usize) {
        self.room.until(|state| state.pongs >= count).await;
    }

    /// The newest payload, as Slack would post it to the app: signed at `now_s`.
    #[must_use]
    pub fn pushed(&self, now_s: i64) -> Pushed {
        let state = self.room.state.lock();
        let newest = state.envelopes.last().expect("something has happened");
        let body = newest.payload.to_string();
        let (kind, body) = match newest.kind {
            "interactive" => ("application/x-www-form-urlencoded", format!("payload={}", escape(&body))),
            _ => ("application/json", body),
        };
        self.sign(now_s, kind, body.as_bytes())
    }

    /// A request of Slack's with this body.
    #[must_use]
    pub fn sign(&self, now_s: i64, content_type: &str, body: &[u8]) -> Pushed {
        let key =
            Hmac::<Sha256>::new_from_slice(self.room.signing_secret.as_bytes()).expect("any key will do");
        let mac = key.chain_update(format!("v0:{now_s}:")).chain_update(body).finalize();
        let mut signature = String::from("v0=");
        for byte in mac.into_bytes() {
            let _ = write!(signature, "{byte:02x}");
        }
        let header = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
        let headers = vec![
            header("content-type", content_type),
            header("x-slack-request-timestamp", &now_s.to_string()),
            header("x-slack-signature", &signature),
        ];
        Pushed { headers, query: String::new(), body: body.to_vec() }
    }
}

fn escape(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b' ' => out.push('+'),
            byte if byte.is_ascii_alphanumeric() => out.push(char::from(byte)),
            byte => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

fn acknowledged(state: &State) -> usize {
    state.envelopes.iter().filter(|envelope| envelope.acknowledged).count()
}

fn accepted(message: &Message) -> Option<Accepted> {
    let delivery = message.body["metadata"]["event_payload"]["delivery"].as_str()?;
    Some(Accepted {
        delivery: delivery.to_owned(),
        text: text::read(blocks::section(&message.body)).text,
        bytes: message.bytes.clone(),
        message_id: Some(format!("{}:{}", message.conversation, message.ts)),
    })
}

struct Leads(Arc<Room>);

impl Lookup for Leads {
    fn lookup(&self, _host: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let is_away = self.0.change(|state| {
            let is_away = state.script.front() == Some(&Behaviour::Unreachable);
            is_away.then(|| state.script.pop_front()).is_some()
        });
        let last = if is_away { 2 } else { 1 };
        Box::pin(async move { Ok(vec![IpAddr::V4(Ipv4Addr::new(127, 0, 0, last))]) })
    }
}

async fn listen(listener: TcpListener, room: Arc<Room>) {
    while let Ok((stream, _)) = listener.accept().await {
        let room = room.clone();
        // Clients that go away in the middle are part of the tests.
        tokio::spawn(async move {
            let mut start = [0; 4];
            while stream.peek(&mut start).await? < start.len() {
                tokio::task::yield_now().await;
            }
            if start == *b"GET " {
                socket::serve(stream, room).await;
                return Ok(());
            }
            treat(stream, &room).await
        });
    }
}

async fn treat(mut stream: TcpStream, room: &Room) -> io::Result<()> {
    let Some(head) = wire::head(&mut stream).await? else { return Ok(()) };
    let posts = head.method == POST;
    let behaviour = room.change(|state| {
        state.contacts += usize::from(posts);
        posts.then(|| state.script.pop_front()).flatten().unwrap_or(Behaviour::Accept)
    });
    if behaviour == Behaviour::Reset {
        return stream.set_zero_linger();
    }
    let slowly = behaviour == Behaviour::AcceptSlowly;
    let call = wire::body(&mut stream, head, if slowly { 7 } else { 64 * 1024 }).await?;
    if let Some(refusal) = refusal(behaviour) {
        return wire::answer(&mut stream, &refusal, false).await;
    }
    let (answer, scopes) = room.change(|state| {
        let answer = api::call(state, &call, &room.address);
        (answer, format!("x-oauth-scopes: {}\r\n", state.scopes.join(",")))
    });
    let confirmation = wire::respond("200 OK", &scopes, &answer.to_string());
    let bytes = match behaviour {
        Behaviour::AcceptThenReset => return stream.set_zero_linger(),
        Behaviour::AcceptThenSilence => return stream.read_to_end(&mut Vec::new()).await.map(drop),
        Behaviour::AcceptTwice => confirmation.repeat(2),
        Behaviour::AcceptThenGarbage => b"\x16\x03\x01 this is not HTTP\r\n\r\n".to_vec(),
        Behaviour::AcceptThenTruncate => confirmation[..confirmation.len() - 20].to_vec(),
        Behaviour::AcceptThenFail => {
            wire::respond("200 OK", &scopes, r#"{"ok":false,"error":"fatal_error"}"#)
        }
        Behaviour::AcceptTogether(count) => {
            in_reverse(count, room).await;
            confirmation
        }
        _ => confirmation,
    };
    wire::answer(&mut stream, &bytes, slowly).await
}

/// The answer of a workspace that takes nothing.
fn refusal(behaviour: Behaviour) -> Option<Vec<u8>> {
    let no = |code: &str| wire::respond("200 OK", "", &json!({ "ok": false, "error": code }).to_string());
    let slow = |wait: &str| {
        let headers = format!("retry-after: {wait}\r\n");
        wire::respond("429 Too Many Requests", &headers, r#"{"ok":false,"error":"ratelimited"}"#)
    };
    match behaviour {
        Behaviour::Refuse => Some(no("restricted_action")),
        Behaviour::Busy => Some(no("service_unavailable")),
        Behaviour::Throttle(Wait::Seconds(seconds)) => Some(slow(&seconds.to_string())),
        Behaviour::Throttle(_) => Some(slow("soon")),
        _ => None,
    }
}

/// Returns when `count` calls are here, to the last first.
async fn in_reverse(count: usize, room: &Room) {
    let mut together = room.together.subscribe();
    let mut place = 0;
    room.together.send_modify(|(here, _)| {
        place = *here;
        *here += 1;
    });
    let turn = together.wait_for(|(here, gone)| *here >= count && *gone + place + 1 == count).await;
    drop(turn);
    room.together.send_modify(|(_, gone)| *gone += 1);
}
