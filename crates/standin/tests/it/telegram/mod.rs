//! The Telegram channel over the stand-in of its Bot API: the conformance suite, and what is Telegram's own.

mod golden;
mod inbound;
mod outbound;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use switchboard_channels::conformance::{self, Accepted, Behaviour, Fixture, SECRET, Shown};
use switchboard_channels::document::{Document, TELEGRAM_JOINER, Telegram as Html, render};
use switchboard_channels::telegram::{Settings, Telegram};
use switchboard_core::outbound::gate::{Cleared, Consent, Facts, clear};
use switchboard_core::port::channel::{
    Address, AddressKind, Attempt, Channel, Draft, Inbound, Incoming, MessageKind, NotSent, Part, Performed,
};
use switchboard_core::port::store::StoreError;
use switchboard_core::random::SystemEntropy;
use switchboard_core::time::ManualClock;
use switchboard_standin::telegram::{self, ADA, GROUP};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Longest time for something that must happen.
const PATIENCE: Duration = Duration::from_secs(30);
const NOW_MS: i64 = 1_790_000_000_000;

fn token(bot: i64) -> String {
    format!("{bot}:AA{SECRET}AAAAAAA")
}

fn settings(service: &telegram::Telegram, bot: i64) -> Settings {
    let clock = Arc::new(ManualClock::at(NOW_MS));
    Settings {
        api_url: format!("http://api.telegram.test:{}", service.address.port()),
        connect_timeout: Duration::from_secs(5),
        timeout: Duration::from_secs(10),
        poll_s: 2,
        backoff: (Duration::from_millis(20), Duration::from_millis(100)),
        lookup: service.lookup(),
        ..Settings::new("telegram", token(bot).into(), clock, Arc::new(SystemEntropy))
    }
}

fn cleared(attempt: Attempt) -> Cleared {
    let facts = Facts { now_ms: 0, consent: Consent::NotNeeded, forbidden_by: None, deadline_ms: None };
    clear(attempt, &facts).unwrap()
}

fn notice(body: &str) -> Draft<'_> {
    Draft {
        body,
        kind: MessageKind::Notice,
        from: "builder",
        code: None,
        deadline_ms: None,
        buttons: &[],
        link: None,
    }
}

fn attempt(to: i64, part: Part) -> Attempt {
    let kind = if to > 0 { AddressKind::Direct } else { AddressKind::Channel };
    Attempt {
        delivery: "dlv_01JD-7".into(),
        attempt: 1,
        channel: "telegram".into(),
        to: Address { kind, handle: to.to_string() },
        part,
        place: (1, 1),
        references: Vec::new(),
        accepted_ms: NOW_MS,
    }
}

/// A channel and its service.
struct Hub {
    service: telegram::Telegram,
    channel: Arc<Telegram>,
}

impl Hub {
    async fn start() -> Self {
        Self::with(123_456_789, |_| ()).await
    }

    async fn with(bot: i64, change: impl FnOnce(&mut Settings)) -> Self {
        let service = telegram::Telegram::start(&token(bot)).await.unwrap();
        let mut settings = settings(&service, bot);
        change(&mut settings);
        let channel = Arc::new(Telegram::new(settings).unwrap());
        Self { service, channel }
    }

    async fn send(&self, to: i64, draft: &Draft<'_>) -> Performed {
        let part = self.channel.prepare(draft).unwrap().pop().unwrap();
        self.channel.perform(cleared(attempt(to, part))).await
    }

    /// Number of a message that was sent.
    async fn sent(&self, to: i64, draft: &Draft<'_>) -> i64 {
        match self.send(to, draft).await {
            Performed::Sent { message_id: Some(id) } => id.rsplit(':').next().unwrap().parse().unwrap(),
            other => panic!("{other:?}"),
        }
    }

    fn listen(&self, taker: Taker) -> Listening {
        let (taker, came, health) = taker.ready();
        let task = tokio::spawn(self.channel.clone().listen(taker));
        Listening { came, health, task }
    }
}

fn refused(performed: Performed) -> NotSent {
    match performed {
        Performed::NotSent(why) => why,
        other => panic!("{other:?}"),
    }
}

/// Takes what comes in, after having failed so often, and answers with a sentence.
#[derive(Default)]
struct Taker {
    failures: AtomicUsize,
    sentence: Option<String>,
    came: Option<mpsc::UnboundedSender<Incoming>>,
    health: Option<mpsc::UnboundedSender<Option<String>>>,
}

impl Taker {
    fn saying(sentence: &str) -> Self {
        Self { sentence: Some(sentence.into()), ..Self::default() }
    }

    fn ready(
        self,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<Incoming>, mpsc::UnboundedReceiver<Option<String>>) {
        let (came, came_rx) = mpsc::unbounded_channel();
        let (health, health_rx) = mpsc::unbounded_channel();
        (Arc::new(Self { came: Some(came), health: Some(health), ..self }), came_rx, health_rx)
    }
}

impl Inbound for Taker {
    fn take(&self, incoming: Incoming) -> BoxFuture<'_, Result<Option<String>, StoreError>> {
        let count = |left: usize| left.checked_sub(1);
        let fails = self.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, count).is_ok();
        let _ = self.came.as_ref().unwrap().send(incoming);
        let sentence = self.sentence.clone();
        Box::pin(async move { if fails { Err(StoreError::Overloaded) } else { Ok(sentence) } })
    }

    fn health(&self, _channel: &str, fault: Option<String>) {
        let _ = self.health.as_ref().unwrap().send(fault);
    }
}

/// A channel that listens.
struct Listening {
    came: mpsc::UnboundedReceiver<Incoming>,
    health: mpsc::UnboundedReceiver<Option<String>>,
    task: JoinHandle<()>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Listening {
    async fn next(&mut self) -> Incoming {
        tokio::time::timeout(PATIENCE, self.came.recv()).await.expect("something comes in").unwrap()
    }

    /// The next time that the channel says that it is well, or else why not.
    async fn health(&mut self) -> Option<String> {
        tokio::time::timeout(PATIENCE, self.health.recv()).await.expect("it says how it is").unwrap()
    }

    /// The next fault.
    async fn fault(&mut self) -> String {
        loop {
            if let Some(fault) = self.health().await {
                return fault;
            }
        }
    }

    async fn is_well(&mut self) {
        while self.health().await.is_some() {}
    }
}

/// What a reader sees of Telegram's HTML.
fn visible(html: &str) -> String {
    let (mut text, mut rest) = (String::new(), html);
    while let Some((before, tag)) = rest.split_once('<') {
        text.push_str(before);
        rest = tag.split_once('>').unwrap().1;
    }
    text.push_str(rest);
    let text = text.replace(TELEGRAM_JOINER, "").replace("&lt;", "<").replace("&gt;", ">");
    text.replace("&quot;", "\"").replace("&#39;", "'").replace("&amp;", "&")
}

/// Without what the channel puts before and behind a body.
fn without_added(text: &str) -> String {
    let mut body = text;
    if ["From ", "Approval wanted by "].iter().any(|head| body.starts_with(head)) {
        body = body.split_once("\n\n").map_or("", |(_, body)| body);
    }
    let is_added = |last: &str| {
        let is_number = last.starts_with('(') && last.ends_with(')') && last.contains('/') && last.len() < 12;
        is_number
            || ["Or answer in", "An answer counts", "[SB-", "Reply with:"]
                .iter()
                .any(|foot| last.starts_with(foot))
    };
    loop {
        match body.rsplit_once("\n\n") {
            Some((before, last)) if is_added(last) => body = before,
            None if is_added(body) => return String::new(),
            _ => return body.to_owned(),
        }
    }
}

struct TelegramFixture {
    hub: Hub,
    /// Messages by the event in which they were written.
    written: Mutex<BTreeMap<String, i64>>,
}

impl TelegramFixture {
    async fn start() -> Self {
        Self { hub: Hub::start().await, written: Mutex::default() }
    }
}

fn parts_of(message_id: &str) -> (i64, i64) {
    let (chat, id) = message_id.split_once(':').unwrap();
    (chat.parse().unwrap(), id.parse().unwrap())
}

impl Fixture for TelegramFixture {
    fn channel(&self) -> Arc<dyn Channel> {
        self.hub.channel.clone()
    }

    fn script(&self, behaviour: Behaviour) -> bool {
        self.hub.service.script(behaviour)
    }

    fn contacts(&self) -> usize {
        self.hub.service.contacts()
    }

    fn accepted(&self) -> Vec<Accepted> {
        let accepted = self.hub.service.accepted().into_iter().map(|accepted| Accepted {
            delivery: accepted.request_id,
            text: without_added(&visible(&accepted.html)),
            bytes: accepted.body,
            message_id: Some(format!("{}:{}", accepted.chat, accepted.message)),
        });
        accepted.collect()
    }

    fn until_accepted(&self, count: usize) -> BoxFuture<'_, ()> {
        Box::pin(self.hub.service.until_accepted(count))
    }

    fn address(&self, kind: AddressKind) -> Option<String> {
        Some(if kind == AddressKind::Direct { ADA } else { GROUP }.to_string())
    }

    fn junk(&self) -> Vec<String> {
        ["@ada", "ada", "12 3", "+4711", "0", "-0", "4711.0", "0x1267"].map(str::to_owned).into()
    }

    fn text_of(&self, part: &Part) -> String {
        without_added(&visible(&part.text))
    }

    fn rendered(&self, body: &str) -> String {
        visible(&render(&Document::parse(body), &Html))
    }

    fn debug(&self) -> String {
        format!("{:?}", self.hub.channel)
    }

    fn offer(&self, event: &str, text: &str) -> bool {
        let message = self.hub.service.write(ADA, ADA, &json!({ "text": text }));
        self.written.lock().insert(event.into(), message["message_id"].as_i64().unwrap());
        true
    }

    fn acknowledged(&self) -> usize {
        self.hub.service.acknowledged()
    }

    fn until_acknowledged(&self, count: usize) -> BoxFuture<'_, ()> {
        Box::pin(self.hub.service.until_acknowledged(count))
    }

    fn press(&self, _event: &str, message_id: &str, value: &str) -> bool {
        let (chat, message) = parts_of(message_id);
        let _ = self.hub.service.press(ADA, chat, message, value);
        true
    }

    /// Telegram does not tell bots what is deleted.
    fn change(&self, _event: &str, of: &str, text: Option<&str>) -> bool {
        let Some(text) = text else { return false };
        self.hub.service.edit(ADA, self.written.lock()[of], &json!({ "text": text }));
        true
    }

    fn shown(&self, message_id: &str) -> Option<Shown> {
        let (chat, message) = parts_of(message_id);
        let message = self.hub.service.shown(chat, message)?;
        let rows = message["reply_markup"]["inline_keyboard"].as_array().cloned().unwrap_or_default();
        let text = message["text"].as_str().unwrap().replace(TELEGRAM_JOINER, "");
        Some(Shown { text, buttons: rows.iter().map(|row| row.as_array().unwrap().len()).sum() })
    }
}

#[tokio::test]
async fn telegram_keeps_every_promise() {
    let report =
        conformance::run(|| Box::pin(async { Box::new(TelegramFixture::start().await) as Box<dyn Fixture> }))
            .await;
    report.assert();
    // No answer of the Bot API says that a message was surely not taken and may be later, but the one that asks to wait.
    assert_eq!(
        report.not_applicable(),
        ["a_busy_network_is_tried_again", "a_channel_without_answers_never_ends_to_listen"]
    );
}
