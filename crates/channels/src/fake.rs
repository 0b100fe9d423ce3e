//! A network that exists only in memory, for tests of what stands above channels: it does to each attempt what it was told to, can hold one
//! in the middle, and remembers everything.
//!
//! ```text
//! let network = FakeNetwork::new("chat");
//! let gate = Gate::new();
//! network.script([Script::held(&gate, Script::Sent), Script::Taken("no answer".into())]);
//! …                          // the engine claims and performs
//! gate.reached().await;      // the first attempt is in the middle: the network has it, the engine does not know
//! gate.open();
//! network.until_attempts(2).await;
//! assert_eq!(network.accepted().len(), 2);
//! ```

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use switchboard_core::outbound::gate::Cleared;
use switchboard_core::port::channel::{
    AddressKind, Amendment, Attempt, Capabilities, Channel, Dedup, Dialect, Draft, Inbound, Incoming,
    LengthUnit, NotSent, Part, Performed,
};
use tokio::sync::{Semaphore, watch};

/// What a fake network can do unless told otherwise: everything, in small parts, without dropping repeats.
pub const CAPABILITIES: Capabilities = Capabilities {
    direct: true,
    shared: true,
    answers: true,
    part_max: 4096,
    unit: LengthUnit::Chars,
    parts_max: 100,
    dialect: Dialect::Plain,
    threads: true,
    edits: true,
    buttons_max: 3,
    dedup: Dedup::None,
    pace_ms: 0,
    at_once: 64,
    consent: true,
};

/// What happens to one attempt.
#[derive(Debug, Clone)]
pub enum Script {
    /// The network takes it and says so, with an id made of the delivery's.
    Sent,
    /// The network takes it and says so, with this id.
    SentAs(Option<String>),
    /// The network does not take it.
    NotSent(NotSent),
    /// The network takes it; the channel does not learn of it.
    Taken(String),
    /// The network does not take it; the channel does not learn of it.
    Lost(String),
    /// The network takes it and the channel waits for ever, until the attempt is dropped.
    Silent,
    /// The attempt waits at the gate, then this happens.
    Held(Gate, Box<Script>),
}

impl Script {
    /// `then`, once `gate` is open.
    #[must_use]
    pub fn held(gate: &Gate, then: Self) -> Self {
        Self::Held(gate.clone(), Box::new(then))
    }
}

/// Holds an attempt in the middle.
#[derive(Debug, Clone)]
pub struct Gate(Arc<(Semaphore, Semaphore)>);

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Gate {
    /// A closed gate, for one attempt.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new((Semaphore::new(0), Semaphore::new(0))))
    }

    /// Waits until an attempt stands at the gate.
    pub async fn reached(&self) {
        take(&self.0.0).await;
    }

    /// Lets it, or the next one, through.
    pub fn open(&self) {
        self.0.1.add_permits(1);
    }

    async fn pass(&self) {
        self.0.0.add_permits(1);
        take(&self.0.1).await;
    }
}

/// Takes a permit for good. The semaphores of a gate are never closed.
async fn take(semaphore: &Semaphore) {
    if let Ok(permit) = semaphore.acquire().await {
        permit.forget();
    }
}

/// The network, which is its channel as well.
pub struct FakeNetwork {
    name: String,
    capabilities: Capabilities,
    state: Mutex<State>,
    /// Counts what has happened, so that it can be waited for.
    ticks: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    script: VecDeque<Script>,
    attempts: Vec<Attempt>,
    accepted: Vec<Attempt>,
    offered: VecDeque<Incoming>,
    acknowledged: Vec<Incoming>,
    replies: Vec<String>,
    amendments: Vec<Amendment>,
    fault: Option<String>,
}

impl FakeNetwork {
    /// A network that takes everything, until told otherwise.
    #[must_use]
    pub fn new(name: &str) -> Arc<Self> {
        Self::with(name, CAPABILITIES)
    }

    /// The same with other capabilities.
    #[must_use]
    pub fn with(name: &str, capabilities: Capabilities) -> Arc<Self> {
        let (name, ticks) = (name.to_owned(), watch::Sender::new(0));
        Arc::new(Self { name, capabilities, state: Mutex::default(), ticks })
    }

    /// What happens to the next attempts, one each, after what was told before. Without a script the network takes everything.
    pub fn script(&self, scripts: impl IntoIterator<Item = Script>) {
        self.state.lock().script.extend(scripts);
    }

    /// All attempts, in the order in which they began.
    pub fn attempts(&self) -> Vec<Attempt> {
        self.state.lock().attempts.clone()
    }

    /// What people got, in order. A network that drops repeats ([`Dedup::ById`]) has each delivery once.
    pub fn accepted(&self) -> Vec<Attempt> {
        self.state.lock().accepted.clone()
    }

    /// How messages were changed, in order.
    pub fn amendments(&self) -> Vec<Amendment> {
        self.state.lock().amendments.clone()
    }

    /// Waits until messages were changed so many times.
    pub async fn until_amendments(&self, count: usize) {
        self.until(|state| state.amendments.len() >= count).await;
    }

    /// Waits until so many attempts have begun.
    pub async fn until_attempts(&self, count: usize) {
        self.until(|state| state.attempts.len() >= count).await;
    }

    /// Waits until people have got so many.
    pub async fn until_accepted(&self, count: usize) {
        self.until(|state| state.accepted.len() >= count).await;
    }

    /// A person writes. It is brought until it is acknowledged.
    pub fn offer(&self, incoming: Incoming) {
        self.change(|state| state.offered.push_back(incoming));
    }

    /// What has been brought and acknowledged.
    pub fn acknowledged(&self) -> Vec<Incoming> {
        self.state.lock().acknowledged.clone()
    }

    /// Waits until so many have been acknowledged.
    pub async fn until_acknowledged(&self, count: usize) {
        self.until(|state| state.acknowledged.len() >= count).await;
    }

    /// The sentences that went back to senders.
    pub fn replies(&self) -> Vec<String> {
        self.state.lock().replies.clone()
    }

    /// The way back is cut, or mended.
    pub fn cut(&self, fault: Option<String>) {
        self.change(|state| state.fault = fault);
    }

    /// Brings what was not acknowledged once more.
    pub fn bring_again(&self) {
        self.change(|_| ());
    }

    async fn until(&self, holds: impl Fn(&State) -> bool) {
        let mut ticks = self.ticks.subscribe();
        while !holds(&self.state.lock()) {
            if ticks.changed().await.is_err() {
                return;
            }
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.state.lock());
        self.ticks.send_modify(|tick| *tick += 1);
        changed
    }

    fn accept(&self, attempt: &Attempt) {
        let drops_repeats = self.capabilities.dedup == Dedup::ById;
        self.change(|state| {
            let is_repeat = state.accepted.iter().any(|accepted| accepted.delivery == attempt.delivery);
            if !(drops_repeats && is_repeat) {
                state.accepted.push(attempt.clone());
            }
        });
    }

    async fn play(&self, attempt: &Attempt, mut script: Script) -> Performed {
        while let Script::Held(gate, then) = script {
            gate.pass().await;
            script = *then;
        }
        match script {
            Script::NotSent(why) => return Performed::NotSent(why),
            Script::Lost(reason) => return Performed::Unknown { reason },
            _ => self.accept(attempt),
        }
        match script {
            Script::SentAs(message_id) => Performed::Sent { message_id },
            Script::Taken(reason) => Performed::Unknown { reason },
            Script::Silent => std::future::pending().await,
            _ => Performed::Sent { message_id: Some(format!("fake_{}", attempt.delivery)) },
        }
    }

    /// Brings what is offered, in order, until something is not taken. What is not taken stays.
    async fn bring(&self, inbound: &dyn Inbound) {
        loop {
            let next = self.state.lock().offered.front().cloned();
            let Some(incoming) = next else { return };
            let Ok(reply) = inbound.take(incoming).await else { return };
            self.change(|state| {
                state.acknowledged.extend(state.offered.pop_front());
                state.replies.extend(reply);
            });
        }
    }

    async fn bring_all(self: Arc<Self>, inbound: Arc<dyn Inbound>) {
        let mut ticks = self.ticks.subscribe();
        let mut told = None;
        loop {
            ticks.mark_unchanged();
            let fault = self.state.lock().fault.clone();
            if told.as_ref() != Some(&fault) {
                inbound.health(&self.name, fault.clone());
                told = Some(fault.clone());
            }
            if fault.is_none() {
                self.bring(&*inbound).await;
            }
            if ticks.changed().await.is_err() {
                return;
            }
        }
    }
}

impl Channel for FakeNetwork {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> &'static str {
        "fake"
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn normalise(&self, _kind: AddressKind, to: &str) -> Result<String, String> {
        crate::handle::normalise(to).map(|handle| handle.to_lowercase())
    }

    /// Parts of [`Capabilities::part_max`] characters, with the buttons under the last.
    fn prepare(&self, draft: &Draft<'_>) -> Result<Vec<Part>, String> {
        let text: Vec<char> = draft.body.chars().collect();
        let parts = text.chunks(self.capabilities.part_max.max(1));
        let mut parts: Vec<Part> =
            parts.map(|chars| Part { text: chars.iter().collect(), ..Part::default() }).collect();
        if parts.is_empty() {
            parts.push(Part::default());
        }
        if parts.len() > self.capabilities.parts_max {
            return Err(format!(
                "has {} parts and must have at most {}: shorten it",
                parts.len(),
                self.capabilities.parts_max
            ));
        }
        if let Some(last) = parts.last_mut() {
            last.buttons = draft.buttons.to_vec();
        }
        Ok(parts)
    }

    fn perform(&self, attempt: Cleared) -> BoxFuture<'_, Performed> {
        Box::pin(async move {
            let attempt = attempt.attempt();
            let script = self.change(|state| {
                state.attempts.push(attempt.clone());
                state.script.pop_front().unwrap_or(Script::Sent)
            });
            self.play(attempt, script).await
        })
    }

    fn listen(self: Arc<Self>, inbound: Arc<dyn Inbound>) -> BoxFuture<'static, ()> {
        Box::pin(self.bring_all(inbound))
    }

    /// Always takes it; a scripted failure is for attempts alone.
    fn amend(&self, amendment: Amendment) -> BoxFuture<'_, Performed> {
        let message_id = Some(amendment.message_id.clone());
        self.change(|state| state.amendments.push(amendment));
        Box::pin(std::future::ready(Performed::Sent { message_id }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use switchboard_core::outbound::gate::{Consent, Facts, clear};
    use switchboard_core::port::channel::{Address, IncomingKind, Origin};
    use switchboard_core::port::store::StoreError;

    fn cleared(delivery: &str) -> Cleared {
        let attempt = Attempt {
            delivery: delivery.into(),
            attempt: 1,
            channel: "fake".into(),
            to: Address { kind: AddressKind::Direct, handle: "ada".into() },
            part: Part::default(),
            place: (1, 1),
            references: Vec::new(),
            accepted_ms: 0,
        };
        let facts = Facts { now_ms: 0, consent: Consent::Given, forbidden_by: None, deadline_ms: None };
        clear(attempt, &facts).unwrap()
    }

    fn text(event_id: &str) -> Incoming {
        Incoming {
            channel: "fake".into(),
            event_id: event_id.into(),
            from: "ada".into(),
            origin: Origin::Claimed,
            what: IncomingKind::Text { text: "yes".into() },
            message_id: None,
            place: None,
            references: Vec::new(),
            at_ms: 0,
        }
    }

    #[tokio::test]
    async fn an_attempt_is_held_in_the_middle() {
        let (network, gate) = (FakeNetwork::new("fake"), Gate::new());
        network.script([Script::held(&gate, Script::Taken("no answer".into()))]);
        let performing = tokio::spawn({
            let network = network.clone();
            async move { network.perform(cleared("d1")).await }
        });
        gate.reached().await;
        assert_eq!((network.attempts().len(), network.accepted().len()), (1, 0));
        gate.open();
        network.until_accepted(1).await;
        assert_eq!(performing.await.unwrap(), Performed::Unknown { reason: "no answer".into() });
    }

    #[tokio::test]
    async fn only_a_network_that_drops_repeats_does() {
        let by_id = Capabilities { dedup: Dedup::ById, ..CAPABILITIES };
        for (network, expected) in [(FakeNetwork::new("fake"), 2), (FakeNetwork::with("fake", by_id), 1)] {
            for _ in 0..2 {
                assert!(matches!(network.perform(cleared("d1")).await, Performed::Sent { .. }));
            }
            assert_eq!((network.attempts().len(), network.accepted().len()), (2, expected));
        }
    }

    /// Takes everything, and remembers how the channel said it was.
    #[derive(Default)]
    struct Taker {
        health: Mutex<Vec<Option<String>>>,
    }

    impl Inbound for Taker {
        fn take(&self, incoming: Incoming) -> BoxFuture<'_, Result<Option<String>, StoreError>> {
            Box::pin(async move { Ok(Some(format!("thanks for {}", incoming.event_id))) })
        }

        fn health(&self, _channel: &str, fault: Option<String>) {
            self.health.lock().push(fault);
        }
    }

    #[tokio::test]
    async fn a_way_back_that_is_cut_brings_nothing_until_it_is_mended() {
        let (network, taker) = (FakeNetwork::new("fake"), Arc::new(Taker::default()));
        network.cut(Some("no network".into()));
        network.offer(text("e1"));
        let listening = tokio::spawn(network.clone().listen(taker.clone()));
        while taker.health.lock().is_empty() {
            tokio::task::yield_now().await;
        }
        assert!(network.acknowledged().is_empty());
        network.cut(None);
        network.until_acknowledged(1).await;
        assert_eq!(network.replies(), ["thanks for e1"]);
        assert_eq!(*taker.health.lock(), [Some("no network".to_owned()), None]);
        listening.abort();
    }
}
