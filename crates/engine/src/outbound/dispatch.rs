//! The outbox: for each channel one task that claims what is due and performs it, so that a channel that fails slows no other.

use super::Way;
use super::breaker::Breaker;
use super::submit::{CONSOLE, HUB_AGENT};
use crate::fault;
use crate::hub::Hub;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::limits::NODE_DEAD_MS;
use switchboard_core::outbound::gate::{Blocked, Cleared, Consent, Facts, clear};
use switchboard_core::outbound::retry::{Next, Past, after};
use switchboard_core::outbound::send::{DIGEST, SendState, delivery_id};
use switchboard_core::outbound::write::{Claimed, OutboundOutcome, OutboundWrite, Settle};
use switchboard_core::port::channel::{Attempt, Channel, Dedup, FailureClass, NotSent, Performed};
use switchboard_core::port::store::StoreError;
use switchboard_core::random;
use switchboard_core::time::WallMs;
use switchboard_core::write::{Outcome, Refusal, Write};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// How often a channel is looked at when nothing rings.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often attempts that nobody reports on are looked for.
const RECOVER_EVERY: Duration = Duration::from_secs(10);
struct Dispatcher {
    hub: Arc<Hub>,
    channel: Arc<dyn Channel>,
    slots: Arc<Semaphore>,
    at_once: usize,
    breaker: Arc<Mutex<Breaker>>,
}

/// Begins to send on a channel.
pub(super) fn start(hub: &Arc<Hub>, channel: Arc<dyn Channel>, end: &CancellationToken) {
    let at_once = hub.settings.outbound.attempts_max.min(channel.capabilities().at_once).max(1);
    let breaker = hub.outbound.breaker(channel.name());
    breaker.lock().begun(hub.clock().wall_ms());
    let dispatcher = Arc::new(Dispatcher {
        hub: hub.clone(),
        channel,
        slots: Arc::new(Semaphore::new(at_once)),
        at_once,
        breaker,
    });
    hub.spawn_until(end, async move { dispatcher.run().await });
}

impl Dispatcher {
    async fn run(self: Arc<Self>) {
        let bell = self.hub.outbound.bell(self.channel.name());
        let mut recovered = None;
        loop {
            let now = self.hub.clock().monotonic();
            if recovered.is_none_or(|at| now >= at + RECOVER_EVERY) {
                recovered = self.recover(recovered.is_none()).await.then_some(now);
            }
            let notified = bell.notified();
            tokio::pin!(notified);
            notified.as_mut().enable(); // before looking: what comes in between is not missed
            let wait = match self.step().await {
                Ok(Some(wait)) => wait,
                Ok(None) => continue,
                Err(StoreError::Closed) => return,
                Err(_) => LOOK_EVERY,
            };
            tokio::select! {
                () = notified => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    // Attempts of a dead node, or of this one before it was started again.
    async fn recover(&self, first: bool) -> bool {
        let hub = &self.hub;
        let by_id = self.channel.capabilities().dedup == Dedup::ById;
        let only_node = (first && !hub.store().is_shared()).then_some(hub.node);
        let write = OutboundWrite::Recover { channel: self.channel.name().to_owned(), by_id, only_node };
        hub.commit_outbound(write).await.is_ok()
    }

    // Claims and begins what is due; how long to wait when there is nothing to do.
    async fn step(self: &Arc<Self>) -> Result<Option<Duration>, StoreError> {
        let hub = &self.hub;
        let allowed = self.breaker.lock().allows(hub.clock().monotonic(), self.under_way());
        if allowed == 0 {
            return Ok(Some(LOOK_EVERY));
        }
        let due = hub.store().outbound().next_due(self.channel.name().to_owned()).await?;
        let now = hub.clock().wall_ms();
        match due {
            None => return Ok(Some(LOOK_EVERY)),
            Some(due) if due > now => {
                let left = Duration::from_millis((due - now).unsigned_abs());
                return Ok(Some(left.min(LOOK_EVERY)));
            }
            Some(_) => {}
        }
        let Ok(first) = self.slots.clone().acquire_owned().await else { return Err(StoreError::Closed) };
        let mut permits = vec![first];
        while permits.len() < allowed.min(self.at_once) {
            let Ok(more) = self.slots.clone().try_acquire_owned() else { break };
            permits.push(more);
        }
        // To its end also when the hub stops in between: what is claimed is either attempted or given back.
        let (tell, told) = tokio::sync::oneshot::channel();
        let dispatcher = self.clone();
        self.hub.spawn_to_end(async move {
            let begun = dispatcher.begin(permits).await;
            let _ = tell.send(begun);
        });
        match told.await.unwrap_or(Err(StoreError::Closed))? {
            0 => Ok(Some(LOOK_EVERY)),
            _ => Ok(None),
        }
    }

    // Claims a part for each permit and begins to attempt them; how many there were.
    async fn begin(self: &Arc<Self>, permits: Vec<OwnedSemaphorePermit>) -> Result<usize, StoreError> {
        let claimed = self.claim(permits.len()).await?;
        let begun = claimed.len();
        if begun > 0 {
            fault::point("after-claim");
        }
        for (part, permit) in claimed.into_iter().zip(permits) {
            let dispatcher = self.clone();
            self.hub.spawn_to_end(async move { dispatcher.attempt(part, permit).await });
        }
        Ok(begun)
    }

    fn under_way(&self) -> usize {
        self.at_once - self.slots.available_permits()
    }

    async fn claim(&self, limit: usize) -> Result<Vec<Claimed>, StoreError> {
        let hub = &self.hub;
        let longest =
            WallMs::try_from(hub.settings.outbound.attempt_timeout.as_millis()).unwrap_or(WallMs::MAX / 2);
        let claim = OutboundWrite::Claim {
            channel: self.channel.name().to_owned(),
            node: hub.node,
            limit,
            // The time to record its end is on top.
            until_ms: hub.clock().wall_ms().saturating_add(longest).saturating_add(2 * NODE_DEAD_MS),
        };
        let outcome = hub.commit(vec![Write::Outbound(claim)]).await?.into_iter().next();
        match outcome {
            Some(Outcome::Outbound(OutboundOutcome::Claimed(claimed))) => Ok(claimed),
            _ => Ok(Vec::new()),
        }
    }

    async fn attempt(&self, part: Claimed, _permit: OwnedSemaphorePermit) {
        let facts = Facts {
            now_ms: self.hub.clock().wall_ms(),
            consent: self.consent(&part),
            forbidden_by: None,
            deadline_ms: part.send.deadline_ms,
        };
        let forbidden = self.forbidden_by(&part);
        let facts = Facts { forbidden_by: forbidden.as_deref(), ..facts };
        if self.hub.stopping().is_cancelled() {
            // Nothing has left: whoever comes next takes it up.
            let reason = "the hub was stopping".to_owned();
            let settle = Settle::Retry { at_ms: facts.now_ms, counts: false, reason };
            return self.record(&part, settle).await;
        }
        let settle = match clear(self.prepared(&part), &facts) {
            Ok(cleared) => self.perform(cleared, &part).await,
            Err(blocked) => blocked_as(&blocked),
        };
        fault::point("after-perform");
        self.record(&part, settle).await;
        fault::point("after-record");
    }

    fn prepared(&self, part: &Claimed) -> Attempt {
        Attempt {
            delivery: delivery_id(&part.send.send_id, part.place.0, part.round),
            attempt: part.attempt,
            channel: self.asked_channel(part),
            to: part.send.to.clone(),
            part: super::link::signed(&self.hub, &*self.channel, part),
            place: part.place,
            references: part.references.clone(),
            accepted_ms: part.send.at_ms,
        }
    }

    // The name that the caller used: a fallback carries what is addressed to others.
    fn asked_channel(&self, part: &Claimed) -> String {
        let params: Result<serde_json::Value, _> = serde_json::from_str(&part.send.params);
        let asked = params.ok().and_then(|params| params.get("channel")?.as_str().map(str::to_owned));
        asked.unwrap_or_else(|| self.channel.name().to_owned())
    }

    // What the list says, for channels to which the list applies; a STOP counts on all.
    fn consent(&self, part: &Claimed) -> Consent {
        let listed = self.channel.capabilities().consent && self.channel.kind() != CONSOLE;
        match part.consent {
            Consent::Missing if !listed => Consent::NotNeeded,
            consent => consent,
        }
    }

    // The rules as they are now; what the hub itself asks of approvers is no call of an agent.
    fn forbidden_by(&self, part: &Claimed) -> Option<String> {
        let brings_others = part.send.send_id.starts_with(DIGEST); // each of them was looked at
        if part.send.agent == HUB_AGENT && (part.send.about.is_some() || brings_others) {
            return None;
        }
        super::view::forbidden_now(&self.hub, &part.send)
    }

    async fn perform(&self, cleared: Cleared, part: &Claimed) -> Settle {
        let longest = self.hub.settings.outbound.attempt_timeout;
        let performed = match tokio::time::timeout(longest, self.channel.perform(cleared)).await {
            Ok(performed) => performed,
            Err(_) => Performed::Unknown { reason: format!("no answer within {} s", longest.as_secs()) },
        };
        let works = self.judge(&performed);
        let pace_ms = WallMs::try_from(self.channel.capabilities().pace_ms).unwrap_or(0);
        match performed {
            Performed::Sent { message_id } => Settle::Sent { message_id, pace_ms },
            Performed::NotSent(failure) => self.after(&failure, part, works),
            Performed::Unknown { reason } if self.channel.capabilities().dedup == Dedup::ById => {
                // Made again under the same id: the service removes the second one if it had the first.
                match self.after(&NotSent::new(FailureClass::Transient, reason.clone()), part, works) {
                    retry @ Settle::Retry { .. } => retry,
                    _ => Settle::Unknown { reason },
                }
            }
            Performed::Unknown { reason } => Settle::Unknown { reason },
        }
    }

    fn after(&self, failure: &NotSent, part: &Claimed, channel_works: bool) -> Settle {
        let hub = &self.hub;
        let before = Past {
            fails: part.fails,
            since_ms: part.send.at_ms.max(self.breaker.lock().since_ms()),
            deadline_ms: part.send.deadline_ms,
            channel_works,
        };
        let [jitter] = random::bytes(hub.entropy());
        let reason = match &failure.code {
            Some(code) => format!("{} ({code})", failure.reason),
            None => failure.reason.clone(),
        };
        match after(failure, before, hub.clock().wall_ms(), jitter) {
            Next::Retry { at_ms, counts } => Settle::Retry { at_ms, counts, reason },
            Next::Dead => Settle::Failed { reason, bad_address: failure.class == FailureClass::BadAddress },
            Next::Expired => Settle::Blocked {
                reason: format!("its deadline passes before it can be tried again: {reason}"),
                state: SendState::Expired,
            },
        }
    }

    // What an attempt says of the channel as a whole; whether others have gone through since it last refused us.
    fn judge(&self, performed: &Performed) -> bool {
        let clock = self.hub.clock();
        let mut breaker = self.breaker.lock();
        let mut works = true;
        let fault = match performed {
            Performed::NotSent(failure) if failure.class == FailureClass::Misconfigured => {
                works = breaker.refused(clock.monotonic());
                Some(failure.reason.clone())
            }
            Performed::NotSent(failure) if failure.class == FailureClass::Transient => {
                breaker.failed(clock.monotonic());
                Some(failure.reason.clone())
            }
            Performed::Unknown { reason } => {
                breaker.failed(clock.monotonic());
                Some(reason.clone())
            }
            _ => {
                breaker.worked(clock.wall_ms());
                None
            }
        };
        let broken = breaker.is_open();
        drop(breaker);
        if broken || fault.is_none() {
            self.hub.outbound.set_fault(self.channel.name(), Way::Out, fault);
        }
        works
    }

    // Until it is recorded, nobody else takes it: only when the lease is over, or this node ends, is it taken for lost.
    async fn record(&self, part: &Claimed, settle: Settle) {
        let write =
            OutboundWrite::Finish { send: part.send.no, part: part.place.0, attempt: part.attempt, settle };
        let mut pause = Duration::from_millis(50);
        loop {
            let outcome = self.hub.commit(vec![Write::Outbound(write.clone())]).await;
            match outcome.map(|outcomes| outcomes.into_iter().next()) {
                Ok(Some(Outcome::Outbound(outcome))) => return self.hub.outbound_changed(&outcome),
                // Recorded already (a commit whose outcome was not known), or taken for lost.
                Ok(Some(Outcome::Refused(Refusal::Fenced))) | Err(StoreError::Closed) => return,
                Ok(other) => {
                    tracing::error!(
                        send = part.send.send_id,
                        ?other,
                        "the end of an attempt was not recorded"
                    );
                    return;
                }
                Err(error) => {
                    tracing::warn!(send = part.send.send_id, %error, "the end of an attempt waits to be recorded");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_secs(2));
                }
            }
        }
    }
}

fn blocked_as(blocked: &Blocked) -> Settle {
    let (reason, state) = match blocked {
        Blocked::Consent(Consent::Stopped) => ("the person said STOP".to_owned(), SendState::Refused),
        Blocked::Consent(Consent::Suppressed) => {
            ("the address does not exist any more".into(), SendState::Refused)
        }
        Blocked::Consent(_) => ("the consent was taken back".into(), SendState::Refused),
        Blocked::Policy(rule) => (format!("forbidden since by {rule}"), SendState::Refused),
        Blocked::Expired => ("its deadline passed".into(), SendState::Expired),
    };
    Settle::Blocked { reason, state }
}
