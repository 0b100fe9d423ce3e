//! The Discord channel over its stand-in: the conformance suite, and what is its own.

mod coming_in;
mod going_out;
mod golden;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use switchboard_channels::conformance::{self, Accepted, Behaviour, Fixture, SECRET, Shown};
use switchboard_channels::discord::{Discord, Settings};
use switchboard_channels::document::discord::{adapted, seen};
use switchboard_channels::document::{self, Document, render};
use switchboard_core::outbound::gate::{Cleared, Consent, Facts, clear};
use switchboard_core::port::channel::{
    Address, AddressKind, Attempt, Channel, Draft, Inbound, Incoming, MessageKind, Part,
};
use switchboard_core::port::store::StoreError;
use switchboard_core::random::SystemEntropy;
use switchboard_core::time::ManualClock;
use switchboard_standin::discord::{self as standin, ADA, SHARED};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// 2027-01-15 08:00 UTC, when the stand-in's time begins.
const NOW_MS: i64 = 1_800_000_000_000;

fn token() -> String {
    format!("{SECRET}.token")
}

fn settings(service: &standin::Discord, name: &str) -> Settings {
    Settings {
        api: service.named_api(),
        lookup: service.lookup(),
        connect_timeout: Duration::from_secs(2),
        timeout: Duration::from_secs(4),
        backoff: (Duration::from_millis(10), Duration::from_millis(80)),
        ..Settings::new(
            name,
            token().as_str().into(),
            Arc::new(ManualClock::at(NOW_MS)),
            Arc::new(SystemEntropy),
        )
    }
}

async fn start() -> (standin::Discord, Arc<Discord>) {
    let service = standin::Discord::start(&token()).await;
    let channel = Discord::new(settings(&service, "chat")).unwrap();
    (service, Arc::new(channel))
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

fn attempt(channel: &Discord, draft: &Draft<'_>) -> Attempt {
    Attempt {
        delivery: "dlv_01JD-7".into(),
        attempt: 1,
        channel: channel.name().to_owned(),
        to: Address { kind: AddressKind::Direct, handle: ADA.into() },
        part: channel.prepare(draft).unwrap().remove(0),
        place: (1, 1),
        references: Vec::new(),
        accepted_ms: NOW_MS,
    }
}

fn cleared(attempt: &Attempt) -> Cleared {
    let facts = Facts { now_ms: 0, consent: Consent::NotNeeded, forbidden_by: None, deadline_ms: None };
    clear(attempt.clone(), &facts).unwrap()
}

/// Keeps what comes in, as the store would: once for each event.
struct Store {
    seen: Mutex<Vec<Incoming>>,
    /// How many more are not stored.
    failures: Mutex<usize>,
    /// What senders are told.
    sentence: Mutex<Option<String>>,
    faults: Mutex<Vec<Option<String>>>,
    bell: watch::Sender<usize>,
}

impl Store {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            seen: Mutex::default(),
            failures: Mutex::default(),
            sentence: Mutex::default(),
            faults: Mutex::default(),
            bell: watch::Sender::new(0),
        })
    }

    async fn until(&self, holds: impl Fn(&Self) -> bool) {
        let wait = async {
            let mut bell = self.bell.subscribe();
            while !holds(self) {
                bell.changed().await.unwrap();
            }
        };
        tokio::time::timeout(Duration::from_secs(30), wait).await.unwrap();
    }

    /// Waits until so many have come in; they.
    async fn all(&self, count: usize) -> Vec<Incoming> {
        self.until(|store| store.seen.lock().len() >= count).await;
        self.seen.lock().clone()
    }

    fn ring(&self) {
        self.bell.send_modify(|rings| *rings += 1);
    }
}

impl Inbound for Store {
    fn take(&self, incoming: Incoming) -> BoxFuture<'_, Result<Option<String>, StoreError>> {
        Box::pin(async move {
            {
                let mut failures = self.failures.lock();
                if *failures > 0 {
                    *failures -= 1;
                    return Err(StoreError::Overloaded);
                }
            }
            let is_new = self.seen.lock().iter().all(|known| known.event_id != incoming.event_id);
            if is_new {
                self.seen.lock().push(incoming);
            }
            self.ring();
            Ok(self.sentence.lock().clone())
        })
    }

    fn health(&self, _channel: &str, fault: Option<String>) {
        self.faults.lock().push(fault);
        self.ring();
    }
}

/// A channel that listens until it is dropped.
struct Listening {
    store: Arc<Store>,
    task: JoinHandle<()>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Listening {
    /// Returns when it is connected.
    async fn start(channel: &Arc<Discord>) -> Self {
        let listening = Self::begin(channel);
        listening.store.until(|store| store.faults.lock().contains(&None)).await;
        listening
    }

    fn begin(channel: &Arc<Discord>) -> Self {
        let store = Store::new();
        let task = tokio::spawn(channel.clone().listen(store.clone()));
        Self { store, task }
    }
}

/// What a person reads of a part, without what the channel adds.
fn without_added(text: &str) -> String {
    let mut text = text;
    for head in ["Question from ", "Approval wanted by ", "builder\n"] {
        if text.starts_with(head) {
            text = text.split_once('\n').map_or("", |(_, rest)| rest);
        }
    }
    if let Some((before, number)) = text.rsplit_once("\n(")
        && number.trim_end_matches(')').split('/').all(|digits| digits.parse::<u32>().is_ok())
    {
        text = before;
    }
    for foot in ["Press a button or reply to this message to answer.", "Reply to this message to answer."] {
        text = text.split_once(foot).map_or(text, |(before, _)| before);
    }
    text.trim().to_owned()
}

struct DiscordFixture {
    service: standin::Discord,
    channel: Arc<Discord>,
    settings: Settings,
    /// Messages of events.
    written: Mutex<HashMap<String, String>>,
}

impl DiscordFixture {
    async fn start() -> Self {
        let (service, channel) = start().await;
        let settings = settings(&service, "chat");
        Self { service, channel, settings, written: Mutex::default() }
    }
}

impl Fixture for DiscordFixture {
    fn channel(&self) -> Arc<dyn Channel> {
        self.channel.clone()
    }

    fn script(&self, behaviour: Behaviour) -> bool {
        self.service.script(behaviour);
        true
    }

    fn contacts(&self) -> usize {
        self.service.contacts()
    }

    fn accepted(&self) -> Vec<Accepted> {
        let accepted = |(body, id): (serde_json::Value, String)| Accepted {
            delivery: body["nonce"].as_str().unwrap().to_owned(),
            text: without_added(&seen(body["content"].as_str().unwrap()).unwrap()),
            bytes: body.to_string().into_bytes(),
            message_id: Some(id),
        };
        self.service.accepted().into_iter().map(accepted).collect()
    }

    fn until_accepted(&self, count: usize) -> BoxFuture<'_, ()> {
        self.service.until_accepted(count)
    }

    fn address(&self, kind: AddressKind) -> Option<String> {
        Some(if kind == AddressKind::Direct { ADA } else { SHARED }.to_owned())
    }

    fn junk(&self) -> Vec<String> {
        ["ada", "@ada", "#general", "12345", "<@&1100000000000000002>"].map(str::to_owned).to_vec()
    }

    fn text_of(&self, part: &Part) -> String {
        without_added(&seen(&part.text).unwrap())
    }

    fn rendered(&self, body: &str) -> String {
        seen(&render(&adapted(Document::parse(body)), &document::Discord)).unwrap()
    }

    fn debug(&self) -> String {
        format!("{:?} {:?}", self.channel, self.settings)
    }

    fn offer(&self, event: &str, text: &str) -> bool {
        let id = self.service.write(ADA, text, None);
        self.written.lock().insert(event.to_owned(), id);
        true
    }

    fn press(&self, _event: &str, message_id: &str, value: &str) -> bool {
        self.service.press(ADA, message_id, value)
    }

    fn change(&self, _event: &str, of: &str, text: Option<&str>) -> bool {
        let id = self.written.lock()[of].clone();
        text.map_or_else(|| self.service.delete(&id), |text| self.service.edit(&id, text))
    }

    fn shown(&self, message_id: &str) -> Option<Shown> {
        let message = self.service.message(message_id)?;
        let rows = message["components"].as_array()?;
        let buttons = rows.iter().map(|row| row["components"].as_array().map_or(0, Vec::len)).sum();
        Some(Shown { text: seen(message["content"].as_str()?).ok()?, buttons })
    }

    fn acknowledged(&self) -> usize {
        self.service.acknowledged()
    }

    fn until_acknowledged(&self, count: usize) -> BoxFuture<'_, ()> {
        self.service.until_acknowledged(count)
    }
}

/// What is prepared is looked at apart: it takes seconds of a slow machine's only thread, and others would run out of time.
#[tokio::test]
async fn discord_keeps_every_promise() {
    let make = || -> BoxFuture<'static, Box<dyn Fixture>> {
        Box::pin(async { Box::new(DiscordFixture::start().await) as Box<dyn Fixture> })
    };
    let slow = [
        "preparing_is_pure",
        "parts_are_within_the_limits",
        "nothing_of_the_text_is_lost",
        "hostile_text_arrives_as_it_was",
    ];
    let (preparing, others): (Vec<_>, Vec<_>) =
        conformance::CHECKS.iter().copied().partition(|check| slow.contains(&check.name));
    let report = conformance::run_some(&others, make).await;
    report.assert();
    assert_eq!(report.not_applicable(), ["a_channel_without_answers_never_ends_to_listen"]);
    assert_eq!(preparing.len(), slow.len());
    let report = conformance::run_some(&preparing, make).await;
    report.assert();
    assert_eq!(report.not_applicable(), [""; 0]);
}
