//! Reaching people: the verb, the outbox, and what comes back (contract `outbound`).
//!
//! A call's way: [`submit`] reads it, asks the policy, and commits it with everything that only the transaction can decide; a
//! [`dispatch`]er for each channel claims what is due, takes it through the gate, and records how it ended; [`hear`] brings in what
//! people say; [`people`] is what a person does whom the hub knows, [`link`] what whoever has a mail does; [`view`] shows where
//! everything is, and why; [`escalate`] is what happens when nobody answers.

mod amend;
pub(crate) mod breaker;
pub mod dispatch;
pub(crate) mod escalate;
pub mod hear;
pub mod link;
pub mod people;
mod preview;
pub mod quiet;
pub mod registry;
mod strand;
pub mod submit;
pub mod view;
pub mod why;

use crate::hub::Hub;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use registry::Registry;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::limits;
use switchboard_core::outbound::limit::Rate;
use switchboard_core::outbound::write::{OutboundOutcome, OutboundWrite, Touched};
use switchboard_core::port::channel::Channel;
use switchboard_core::port::doorbell::Topic;
use switchboard_core::time::{DAY_MS, HOUR_MS, WallMs};
use switchboard_core::write::{Outcome, Write};
use switchboard_protocol::Detail;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// What an operator can set about reaching people.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What one agent may send when no rule of the policy sets a limit.
    pub default_rate: Rate,
    /// How long an approval can be decided.
    pub approval_ms: WallMs,
    /// Deadline of a question that names none.
    pub question_deadline_ms: WallMs,
    /// How long a call waits for its message to arrive before it answers that it was accepted.
    pub receipt_wait: Duration,
    /// Who is asked for approvals besides the console: channel and address.
    pub approvers: Vec<(String, String)>,
    /// Attempts of one channel under way at a time.
    pub attempts_max: usize,
    /// How long one attempt may take.
    pub attempt_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            default_rate: Rate { max: 30, interval_ms: HOUR_MS },
            approval_ms: DAY_MS,
            question_deadline_ms: limits::QUESTION_DEADLINE_MS,
            receipt_wait: Duration::from_secs(2),
            approvers: Vec::new(),
            attempts_max: 64,
            attempt_timeout: Duration::from_mins(3),
        }
    }
}

/// The two ways of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Out,
    In,
}

/// What the hub keeps in memory about reaching people: nothing that a restart could lose.
#[derive(Debug)]
pub struct Room {
    /// The channels.
    pub registry: Registry,
    waiters: Mutex<HashMap<String, Arc<Notify>>>,
    bells: Mutex<HashMap<String, Arc<Notify>>>,
    breakers: Mutex<HashMap<String, Arc<Mutex<breaker::Breaker>>>>,
    health: Mutex<HashMap<String, [Option<String>; 2]>>,
    changes: watch::Sender<u64>,
    /// Ends what runs for a channel, when it goes.
    ends: Mutex<HashMap<String, CancellationToken>>,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            registry: Registry::default(),
            waiters: Mutex::default(),
            bells: Mutex::default(),
            breakers: Mutex::default(),
            health: Mutex::default(),
            changes: watch::Sender::new(0),
            ends: Mutex::default(),
        }
    }
}

impl Room {
    /// Counts up with every change that this node hears of: to wait for the next one.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Why nothing leaves on a channel at present, or nothing comes in, if that is so.
    #[must_use]
    pub fn fault(&self, channel: &str) -> Option<String> {
        self.health.lock().get(channel)?.iter().flatten().next().cloned()
    }

    /// Why nothing leaves on a channel at present, if that is so.
    #[must_use]
    pub fn outward_fault(&self, channel: &str) -> Option<String> {
        self.health.lock().get(channel)?[Way::Out as usize].clone()
    }

    /// How many channels have a fault.
    #[must_use]
    pub fn faults(&self) -> usize {
        self.health.lock().values().filter(|ways| ways.iter().any(Option::is_some)).count()
    }

    /// Says why a way is shut, or that it is not.
    pub(crate) fn set_fault(&self, channel: &str, way: Way, fault: Option<String>) {
        let mut health = self.health.lock();
        let before = &mut health.entry(channel.to_owned()).or_default()[way as usize];
        let changed = *before != fault;
        *before = fault;
        drop(health);
        if changed {
            self.changes.send_modify(|count| *count = count.wrapping_add(1));
        }
    }

    /// Somebody has mended a channel, or wants to know: what waits for it is tried at once, with one message first.
    pub fn try_now(&self, channel: &str) {
        self.breaker(channel).lock().try_now();
        self.bell(channel).notify_one();
    }

    pub(crate) fn breaker(&self, channel: &str) -> Arc<Mutex<breaker::Breaker>> {
        self.breakers.lock().entry(channel.to_owned()).or_default().clone()
    }

    pub(crate) fn bell(&self, channel: &str) -> Arc<Notify> {
        self.bells.lock().entry(channel.to_owned()).or_default().clone()
    }

    // Everything may have changed: whoever waits looks.
    pub(crate) fn rang(&self) {
        self.bells.lock().values().for_each(|bell| bell.notify_one());
        self.waiters.lock().values().for_each(|waiter| waiter.notify_waiters());
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    fn touched(&self, touched: &Touched) {
        let waiters = self.waiters.lock();
        for id in std::iter::once(&touched.send_id).chain(&touched.topic_id) {
            if let Some(waiter) = waiters.get(id) {
                waiter.notify_waiters();
            }
        }
    }
}

/// Waits for changes of one send or topic.
pub(crate) struct Waiter<'h> {
    hub: &'h Hub,
    id: String,
    notify: Arc<Notify>,
}

impl<'h> Waiter<'h> {
    pub(crate) fn of(hub: &'h Hub, id: &str) -> Self {
        let notify = hub.outbound.waiters.lock().entry(id.to_owned()).or_default().clone();
        Self { hub, id: id.to_owned(), notify }
    }

    /// Resolves with what `look` gives, looked at now and after each change, or with what it gives last when `wait` is over.
    pub(crate) async fn until<'l, T>(
        &self,
        wait: Duration,
        mut look: impl FnMut() -> BoxFuture<'l, Result<(T, bool), Detail>>,
    ) -> Result<T, Detail> {
        let end = self.hub.clock().monotonic() + wait;
        loop {
            let notified = self.notify.notified();
            tokio::pin!(notified);
            notified.as_mut().enable(); // before looking: what comes in between is not missed
            let (found, over) = look().await?;
            let left = end.saturating_sub(self.hub.clock().monotonic());
            if over || left.is_zero() || self.hub.stopping().is_cancelled() {
                return Ok(found);
            }
            // Where nobody rings, looking now and then has to do.
            let look_again = left.min(Duration::from_secs(2));
            tokio::select! {
                () = notified => {}
                () = tokio::time::sleep(look_again) => {}
                () = self.hub.stopping().cancelled() => {}
            }
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut waiters = self.hub.outbound.waiters.lock();
        // The map's and this one.
        if waiters.get(&self.id).is_some_and(|notify| Arc::strong_count(notify) <= 2) {
            waiters.remove(&self.id);
        }
    }
}

impl Hub {
    /// Adds a channel and begins to send and to listen on it.
    pub fn add_channel(self: &Arc<Self>, channel: Arc<dyn Channel>, fallback: bool) -> Result<(), String> {
        self.outbound.registry.add(channel.clone(), fallback)?;
        let end = CancellationToken::new();
        self.outbound.ends.lock().insert(channel.name().to_owned(), end.clone());
        hear::start(self, &channel, &end);
        amend::start(self, channel.clone(), &end);
        dispatch::start(self, channel, &end);
        Ok(())
    }

    /// All channels of the configuration are there: what is on its way on others is held from now on, where everybody sees it.
    pub fn channels_complete(self: &Arc<Self>) {
        strand::start(self);
    }

    /// Ends a channel: nothing new leaves or comes in on it. What is on its way is recorded to its end. Whether there was one.
    pub fn remove_channel(&self, name: &str) -> bool {
        let was_there = self.outbound.registry.remove(name);
        if let Some(end) = self.outbound.ends.lock().remove(name) {
            end.cancel();
        }
        self.outbound.set_fault(name, Way::Out, None);
        self.outbound.set_fault(name, Way::In, None);
        was_there
    }

    /// Runs `task` until `end`, or until the hub stops.
    fn spawn_until(&self, end: &CancellationToken, task: impl Future<Output = ()> + Send + 'static) {
        let end = end.clone();
        self.spawn(async move { end.run_until_cancelled(task).await.unwrap_or(()) });
    }

    /// Commits a change of this plane and wakes whoever waits for it.
    pub(crate) async fn commit_outbound(&self, write: OutboundWrite) -> Result<OutboundOutcome, Detail> {
        match self.commit_one(Write::Outbound(write)).await? {
            Outcome::Outbound(outcome) => {
                self.outbound_changed(&outcome);
                Ok(outcome)
            }
            other => {
                let what = format!("{other:?} for a change of the outbound plane");
                Err(crate::refusal::store(&switchboard_core::port::store::StoreError::Inconsistent(
                    what.into(),
                )))
            }
        }
    }

    /// Wakes whoever waits for what changed.
    pub(crate) fn outbound_changed(&self, outcome: &OutboundOutcome) {
        use switchboard_core::outbound::write::HeardOutcome;
        let room = &self.outbound;
        match outcome {
            OutboundOutcome::Settled(touched)
            | OutboundOutcome::Heard(
                HeardOutcome::Answered(touched)
                | HeardOutcome::Decided { touched, .. }
                | HeardOutcome::Bounced(Some(touched)),
            ) => room.touched(touched),
            OutboundOutcome::Stranded(held) if held.is_empty() => return,
            OutboundOutcome::Stranded(ended) | OutboundOutcome::Expired(ended) => {
                ended.iter().for_each(|touched| room.touched(touched));
            }
            OutboundOutcome::Claimed(_)
            | OutboundOutcome::Repeat(..)
            | OutboundOutcome::Recovered(0)
            | OutboundOutcome::Climbed(None) => return,
            _ => {}
        }
        room.bells.lock().values().for_each(|bell| bell.notify_one());
        room.changes.send_modify(|count| *count = count.wrapping_add(1));
        if self.store().is_shared() {
            self.doorbell().ring(&[Topic::Outbound]);
        }
    }
}
