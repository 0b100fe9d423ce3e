//! The Slack channel over its stand-in.

mod conformance;
mod golden;
mod incoming;
mod outgoing;
mod sockets;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use switchboard_channels::conformance::SECRET;
use switchboard_channels::slack::{Settings, Slack, Tuning};
use switchboard_core::outbound::gate::{Cleared, Consent, Facts, clear};
use switchboard_core::port::channel::{
    Address, AddressKind, Attempt, Channel, Draft, FailureClass, Inbound, Incoming, MessageKind, Performed,
};
use switchboard_core::port::store::StoreError;
use switchboard_core::random::SystemEntropy;
use switchboard_core::time::ManualClock;
use switchboard_standin::slack::{ADA, GENERAL, Slack as Standin};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The stand-in's first moment, in Unix milliseconds.
const NOW_MS: i64 = 1_800_000_000_000;
/// No test waits longer.
const PATIENCE: Duration = Duration::from_secs(30);

/// How answers come in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Socket,
    Push,
    None,
}

fn bot_token() -> String {
    format!("xoxb-1-{SECRET}")
}

fn app_token() -> String {
    format!("xapp-1-{SECRET}")
}

fn settings(standin: &Standin, way: Way) -> Settings {
    Settings {
        app_token: (way == Way::Socket).then(|| app_token().into()),
        signing_secret: (way == Way::Push).then(|| SECRET.into()),
        base_url: standin.base_url(),
        lookup: standin.lookup(),
        tuning: Tuning {
            connect: Duration::from_secs(5),
            call: Duration::from_secs(8),
            ping: Duration::from_millis(100),
            silence: Duration::from_millis(500),
            leave: Duration::from_secs(20),
            backoff: (Duration::from_millis(20), Duration::from_millis(200)),
        },
        ..Settings::new(
            "work",
            bot_token().into(),
            Arc::new(ManualClock::at(NOW_MS)),
            Arc::new(SystemEntropy),
        )
    }
}

/// A channel with its workspace.
struct Set {
    standin: Standin,
    channel: Arc<Slack>,
}

impl Set {
    async fn start(way: Way) -> Self {
        let standin = Standin::start(&bot_token(), &app_token(), SECRET).await;
        let channel = Arc::new(Slack::new(settings(&standin, way)).unwrap());
        Self { standin, channel }
    }

    fn listen(&self, taker: &Arc<Taker>) -> Listening {
        Listening(tokio::spawn(self.channel.clone().listen(taker.clone())))
    }

    async fn perform(&self, attempt: &Attempt) -> Performed {
        self.channel.perform(cleared(attempt)).await
    }

    /// Posts this to Ada; the message's id.
    async fn post(&self, draft: &Draft<'_>) -> String {
        match self.perform(&attempt(&*self.channel, draft, AddressKind::Direct)).await {
            Performed::Sent { message_id: Some(id) } => id,
            other => panic!("{other:?}"),
        }
    }
}

/// Ends with the test.
struct Listening(JoinHandle<()>);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.abort();
    }
}

const NOTICE: Draft<'static> = Draft {
    body: "Deploy now?",
    kind: MessageKind::Notice,
    from: "builder",
    code: None,
    deadline_ms: None,
    buttons: &[],
    link: None,
};

fn cleared(attempt: &Attempt) -> Cleared {
    let facts = Facts { now_ms: 0, consent: Consent::NotNeeded, forbidden_by: None, deadline_ms: None };
    clear(attempt.clone(), &facts).unwrap()
}

fn attempt(channel: &dyn Channel, draft: &Draft<'_>, kind: AddressKind) -> Attempt {
    let handle = if kind == AddressKind::Direct { ADA } else { GENERAL };
    Attempt {
        delivery: "dlv_01JD-7".into(),
        attempt: 1,
        channel: channel.name().to_owned(),
        to: Address { kind, handle: handle.into() },
        part: channel.prepare(draft).unwrap().remove(0),
        place: (1, 1),
        references: Vec::new(),
        accepted_ms: NOW_MS,
    }
}

fn class(performed: &Performed) -> Option<FailureClass> {
    match performed {
        Performed::NotSent(why) => Some(why.class),
        _ => None,
    }
}

/// Takes what comes in, after having failed as often as it is told, and says something to it.
struct Taker {
    seen: Mutex<Vec<Incoming>>,
    health: Mutex<Vec<Option<String>>>,
    failures: AtomicUsize,
    says: Option<&'static str>,
    ticks: watch::Sender<u64>,
}

impl Taker {
    fn new(failures: usize, says: Option<&'static str>) -> Arc<Self> {
        let (seen, health, failures) = (Mutex::default(), Mutex::default(), AtomicUsize::new(failures));
        Arc::new(Self { seen, health, failures, says, ticks: watch::Sender::new(0) })
    }

    fn seen(&self) -> Vec<Incoming> {
        self.seen.lock().clone()
    }

    async fn until(&self, holds: impl Fn(&Self) -> bool) {
        let mut ticks = self.ticks.subscribe();
        let waiting = async {
            while !holds(self) {
                ticks.changed().await.unwrap();
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.expect("it did not happen in time");
    }

    async fn until_seen(&self, count: usize) -> Vec<Incoming> {
        self.until(|taker| taker.seen.lock().len() >= count).await;
        self.seen()
    }

    /// Waits for a fault that names `word`, or for none.
    async fn until_health(&self, word: Option<&str>) {
        self.until(|taker| match (taker.health.lock().last(), word) {
            (Some(Some(fault)), Some(word)) => fault.contains(word),
            (Some(None), None) => true,
            _ => false,
        })
        .await;
    }
}

impl Inbound for Taker {
    fn take(&self, incoming: Incoming) -> BoxFuture<'_, Result<Option<String>, StoreError>> {
        let fails = self
            .failures
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
            .is_ok();
        self.seen.lock().push(incoming);
        self.ticks.send_modify(|tick| *tick += 1);
        let says = self.says.map(str::to_owned);
        Box::pin(async move { if fails { Err(StoreError::Overloaded) } else { Ok(says) } })
    }

    fn health(&self, _channel: &str, fault: Option<String>) {
        self.health.lock().push(fault);
        self.ticks.send_modify(|tick| *tick += 1);
    }
}
