//! The way in: a Socket Mode connection that is always there, or what Slack posts to the hub.

use super::event::{Heard, Reader};
use super::socket::{End, Link};
use super::{Inner, answer, blocks};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use reqwest::Url;
use serde_json::{Value, json};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::port::channel::{Inbound, PushAnswer, Pushed};
use switchboard_core::port::store::StoreError;
use switchboard_core::random;
use tokio::time::{sleep, timeout};

/// Sentences to one person in [`TOLD_WINDOW`] at most: two programs that answer each other end here.
const TOLD_MAX: usize = 20;
/// Sentences to everybody in [`TOLD_WINDOW`] at most.
const TOLD_TOTAL_MAX: usize = 500;
const TOLD_WINDOW: Duration = Duration::from_hours(1);
/// Longest body that is posted to us, in bytes.
const PUSHED_BYTES_MAX: usize = 1 << 20;

/// Sockets that Slack has asked to leave, read until they are closed.
type Leaving = FuturesUnordered<BoxFuture<'static, ()>>;

/// Takes what comes over a socket.
#[derive(Clone)]
pub(super) struct Ear {
    inner: Arc<Inner>,
    inbound: Arc<dyn Inbound>,
}

/// How one connection ended.
#[derive(Default)]
struct Ended {
    /// Whether it has been of use.
    worked: bool,
    /// The connection, if Slack asked to leave it.
    link: Option<Link>,
}

/// Keeps the way in open for ever.
pub(super) async fn listen(inner: Arc<Inner>, inbound: Arc<dyn Inbound>) {
    let ear = Ear { inner: inner.clone(), inbound };
    let (first, longest) = inner.tuning.backoff;
    let (mut pause, mut leaving) = (first, Leaving::new());
    loop {
        let alone = leaving.is_empty();
        let ended = beside(&mut leaving, ear.once(alone)).await;
        if ended.worked {
            pause = first;
        }
        if let Some(mut link) = ended.link {
            let bound = inner.tuning.leave;
            leaving.push(Box::pin(async move {
                let _ = timeout(bound, link.run_out()).await;
            }));
            if ended.worked {
                continue;
            }
        }
        beside(&mut leaving, sleep(jittered(&inner, pause))).await;
        pause = (pause * 2).min(longest);
    }
}

/// Does `work` and reads the sockets that are being left meanwhile.
async fn beside<T>(leaving: &mut Leaving, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            Some(()) = leaving.next(), if !leaving.is_empty() => {}
        }
    }
}

/// Between half of `pause` and all of it, so that many do not come back at once.
fn jittered(inner: &Inner, pause: Duration) -> Duration {
    let [chance] = random::bytes::<1>(&*inner.entropy);
    pause.mul_f64(0.5 + f64::from(chance) / 510.0)
}

impl Ear {
    /// One connection from its beginning until it ends; `alone` unless another is still being read. Where Slack posts to us there is
    /// nothing to keep open once we know who we are.
    async fn once(&self, alone: bool) -> Ended {
        match self.connect().await {
            Ok(Some(link)) => self.run(link).await,
            Ok(None) => {
                self.health(None);
                std::future::pending().await
            }
            Err(why) => {
                if alone {
                    self.health(Some(why));
                }
                Ended::default()
            }
        }
    }

    async fn connect(&self) -> Result<Option<Link>, String> {
        self.inner.me().await.map_err(answer::sentence)?;
        if !self.inner.by_socket {
            return Ok(None);
        }
        Link::open(self.clone(), &self.inner.api, &self.inner.connector, self.inner.tuning).await.map(Some)
    }

    async fn run(&self, mut link: Link) -> Ended {
        self.health(None);
        match link.run().await {
            End::Leave => Ended { worked: link.worked(), link: Some(link) },
            End::Closed(why) => {
                self.health(Some(why));
                Ended { worked: link.worked(), link: None }
            }
        }
    }

    fn health(&self, fault: Option<String>) {
        self.inbound.health(&self.inner.name, fault);
    }

    /// Takes an envelope of Socket Mode; its id once it is durable, or is nothing for the hub.
    pub fn take(&self, envelope: &Value) -> BoxFuture<'static, Option<String>> {
        let (ear, payload) = (self.clone(), &envelope["payload"]);
        let id = envelope["envelope_id"].as_str().map(str::to_owned);
        let heard = ear.inner.me.get().and_then(|me| {
            let reader = ear.inner.reader(me, "gateway");
            match envelope["type"].as_str() {
                Some("events_api") => reader.event(payload),
                Some("interactive") => reader.press(payload),
                _ => None,
            }
        });
        Box::pin(async move { ear.inner.hear(&*ear.inbound, heard).await.ok().and(id) })
    }
}

impl Inner {
    fn reader<'a>(&'a self, me: &'a super::Me, by: &'static str) -> Reader<'a> {
        Reader { channel: &self.name, me, by, now_ms: self.clock.wall_ms() }
    }

    /// Hands over what was heard; what the hub says to it goes to where it was said.
    async fn hear(self: &Arc<Self>, inbound: &dyn Inbound, heard: Option<Heard>) -> Result<(), StoreError> {
        let Some(heard) = heard else { return Ok(()) };
        if let Some(sentence) = inbound.take(heard.incoming.clone()).await? {
            let inner = self.clone();
            // Slack waits for us, and not for what we have to say.
            tokio::spawn(async move { inner.tell(&heard, &sentence).await });
        }
        Ok(())
    }

    /// In a shared channel nobody else sees it. Whether it arrives does not matter.
    async fn tell(&self, heard: &Heard, sentence: &str) {
        let Heard { incoming, conversation, thread } = heard;
        if !self.may_tell(&incoming.from) {
            return;
        }
        let mut body = blocks::sentence(sentence);
        body["channel"] = conversation.as_str().into();
        if let Some(thread) = thread {
            body["thread_ts"] = thread.as_str().into();
        }
        let mut method = "chat.postMessage";
        if incoming.place.is_some() {
            body["user"] = incoming.from.as_str().into();
            method = "chat.postEphemeral";
        }
        let _ = self.api.call(method, &body).await;
    }

    fn may_tell(&self, to: &str) -> bool {
        let now = self.clock.monotonic();
        let mut told = self.told.lock();
        told.retain(|(_, at)| now.saturating_sub(*at) < TOLD_WINDOW);
        let theirs = told.iter().filter(|(known, _)| known == to).count();
        let may = theirs < TOLD_MAX && told.len() < TOLD_TOTAL_MAX;
        if may {
            told.push((to.to_owned(), now));
        }
        may
    }
}

/// What Slack posts: events as JSON, presses as a form with JSON in it.
enum Posted {
    Event(Value),
    Press(Value),
    Nothing,
}

/// Takes what was posted. It is taken anew by Slack when the answer is not 2xx.
pub(super) async fn push(inner: &Arc<Inner>, pushed: Pushed, inbound: &dyn Inbound) -> PushAnswer {
    let Some(key) = &inner.signing else { return PushAnswer::status(404) };
    if pushed.body.len() > PUSHED_BYTES_MAX {
        return PushAnswer::status(413);
    }
    if !key.verifies(&pushed, inner.clock.wall_ms()) {
        return PushAnswer::status(401);
    }
    let Some(posted) = posted(&pushed) else { return PushAnswer::status(400) };
    if let Posted::Event(event) = &posted
        && event["type"] == "url_verification"
    {
        return challenge(event);
    }
    let Ok(me) = inner.me().await else { return PushAnswer::status(503) };
    let reader = inner.reader(me, "signature");
    let heard = match &posted {
        Posted::Event(event) => reader.event(event),
        Posted::Press(press) => reader.press(press),
        Posted::Nothing => None,
    };
    let taken = inner.hear(inbound, heard).await;
    PushAnswer::status(if taken.is_ok() { 200 } else { 503 })
}

fn challenge(event: &Value) -> PushAnswer {
    match event["challenge"].as_str() {
        Some(challenge) => PushAnswer::json(&json!({ "challenge": challenge })),
        None => PushAnswer::status(400),
    }
}

fn posted(pushed: &Pushed) -> Option<Posted> {
    let kind = pushed.header("content-type")?.split(';').next()?.trim().to_ascii_lowercase();
    match kind.as_str() {
        "application/json" => object(&pushed.body).map(Posted::Event),
        "application/x-www-form-urlencoded" => {
            let mut form = Url::parse("form:").ok()?;
            form.set_query(Some(std::str::from_utf8(&pushed.body).ok()?));
            let mut payloads = form.query_pairs().filter(|(name, _)| name == "payload");
            let Some((_, payload)) = payloads.next() else { return Some(Posted::Nothing) };
            let single = payloads.next().is_none();
            single.then(|| object(payload.as_bytes())).flatten().map(Posted::Press)
        }
        _ => None,
    }
}

fn object(bytes: &[u8]) -> Option<Value> {
    serde_json::from_slice::<Value>(bytes).ok().filter(Value::is_object)
}
