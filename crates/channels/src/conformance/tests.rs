//! The suite on a fake network, as it is and with one fault at a time: each fault is found by the check that is there for it.

use super::*;
use crate::fake::{FakeNetwork, Script};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use switchboard_core::outbound::gate::Cleared;
use switchboard_core::port::channel::{
    Amendment, Capabilities, Draft, FailureClass, Inbound, Incoming, IncomingKind, NotSent, Origin, Performed,
};

/// What the channel does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    TriesAgain,
    TakesSilenceForFailure,
    TakesGarbageForSuccess,
    TellsSecrets,
    ForgetsWaits,
    SwapsIds,
    SendsOtherBytes,
    PreparesByWeather,
    LosesTheEnd,
    IgnoresLimits,
    TakesJunk,
    ChangesItsForm,
    AcknowledgesFirst,
    KeepsTheOutcome,
}

/// A channel on a fake network, with a fault.
struct Faulty {
    network: Arc<FakeNetwork>,
    fault: Fault,
    count: AtomicUsize,
    last_id: Mutex<Option<String>>,
}

impl Faulty {
    async fn once(&self, mut attempt: Cleared) -> Performed {
        if self.fault == Fault::SendsOtherBytes {
            let mut other = attempt.attempt().clone();
            other.references.push(format!("try {}", other.attempt));
            attempt = trial::cleared(&other);
        }
        let performing = self.network.perform(attempt);
        let silence = || Performed::Unknown { reason: "no answer".into() };
        tokio::time::timeout(Duration::from_millis(300), performing).await.unwrap_or_else(|_| silence())
    }

    fn spoil(&self, performed: Performed) -> Performed {
        match (self.fault, performed) {
            (Fault::TakesSilenceForFailure, Performed::Unknown { reason }) => {
                Performed::NotSent(NotSent::new(FailureClass::Transient, reason))
            }
            (Fault::TakesGarbageForSuccess, Performed::Unknown { .. }) => {
                Performed::Sent { message_id: None }
            }
            (Fault::TellsSecrets, Performed::Unknown { reason }) => {
                Performed::Unknown { reason: format!("{reason} with key {SECRET}") }
            }
            (Fault::ForgetsWaits, Performed::NotSent(why)) => Performed::NotSent(NotSent {
                retry_after_ms: why.retry_after_ms.map(|ms| ms / 1000 * 1000),
                ..why
            }),
            (Fault::SwapsIds, Performed::Sent { message_id }) => {
                let other = self.last_id.lock().replace(message_id.clone().unwrap_or_default());
                Performed::Sent { message_id: other.or(message_id) }
            }
            (_, performed) => performed,
        }
    }
}

impl Channel for Faulty {
    fn name(&self) -> &str {
        self.network.name()
    }

    fn kind(&self) -> &'static str {
        self.network.kind()
    }

    fn capabilities(&self) -> &Capabilities {
        self.network.capabilities()
    }

    fn normalise(&self, kind: AddressKind, to: &str) -> Result<String, String> {
        match self.fault {
            Fault::TakesJunk => Ok(to.trim().to_lowercase()),
            Fault::ChangesItsForm => self.network.normalise(kind, to).map(|to| format!("~{to}")),
            _ => self.network.normalise(kind, to),
        }
    }

    fn prepare(&self, draft: &Draft<'_>) -> Result<Vec<Part>, String> {
        let mut parts = self.network.prepare(draft)?;
        let last = parts.len() - 1;
        match self.fault {
            Fault::PreparesByWeather => {
                parts[last].subject = Some(self.count.fetch_add(1, Ordering::Relaxed).to_string());
            }
            Fault::LosesTheEnd => {
                parts[last].text.pop();
            }
            Fault::IgnoresLimits => return Ok(vec![Part { text: draft.body.to_owned(), ..Part::default() }]),
            _ => {}
        }
        Ok(parts)
    }

    fn perform(&self, attempt: Cleared) -> BoxFuture<'_, Performed> {
        Box::pin(async move {
            let again = trial::cleared(attempt.attempt());
            let performed = self.once(attempt).await;
            let tries_again = self.fault == Fault::TriesAgain && matches!(performed, Performed::NotSent(_));
            let performed = if tries_again { self.once(again).await } else { performed };
            self.spoil(performed)
        })
    }

    fn amend(&self, mut amendment: Amendment) -> BoxFuture<'_, Performed> {
        if self.fault == Fault::KeepsTheOutcome {
            amendment.outcome.clear();
        }
        self.network.amend(amendment)
    }

    fn listen(self: Arc<Self>, inbound: Arc<dyn Inbound>) -> BoxFuture<'static, ()> {
        let inbound: Arc<dyn Inbound> = match self.fault {
            Fault::AcknowledgesFirst => Arc::new(SaysYes(inbound)),
            _ => inbound,
        };
        self.network.clone().listen(inbound)
    }
}

/// Tells the network that everything was taken.
struct SaysYes(Arc<dyn Inbound>);

impl Inbound for SaysYes {
    fn take(
        &self,
        incoming: Incoming,
    ) -> BoxFuture<'_, Result<Option<String>, switchboard_core::port::store::StoreError>> {
        Box::pin(async move { Ok(self.0.take(incoming).await.unwrap_or_default()) })
    }

    fn health(&self, channel: &str, fault: Option<String>) {
        self.0.health(channel, fault);
    }
}

/// The fake network as a stand-in.
struct FakeFixture {
    network: Arc<FakeNetwork>,
    channel: Arc<Faulty>,
}

impl FakeFixture {
    fn new(fault: Fault) -> Self {
        let network = FakeNetwork::new("fake");
        let channel =
            Faulty { network: network.clone(), fault, count: AtomicUsize::new(0), last_id: Mutex::default() };
        Self { network, channel: Arc::new(channel) }
    }
}

fn script_of(behaviour: Behaviour) -> Option<Script> {
    let not_sent = |class| Script::NotSent(NotSent::new(class, "no"));
    Some(match behaviour {
        Behaviour::Accept | Behaviour::AcceptTogether(_) => Script::Sent,
        Behaviour::AcceptThenSilence => Script::Silent,
        Behaviour::AcceptThenReset | Behaviour::AcceptThenGarbage | Behaviour::AcceptThenFail => {
            Script::Taken("no sense".into())
        }
        Behaviour::Reset => Script::Lost("cut".into()),
        Behaviour::Refuse => not_sent(FailureClass::Permanent),
        Behaviour::Busy | Behaviour::Unreachable => not_sent(FailureClass::Transient),
        Behaviour::Throttle(wait) => {
            let retry_after_ms = wait.asked_ms();
            Script::NotSent(NotSent { retry_after_ms, ..NotSent::new(FailureClass::Throttled, "slowly") })
        }
        Behaviour::AcceptSlowly | Behaviour::AcceptTwice | Behaviour::AcceptThenTruncate => return None,
    })
}

fn said(event: &str, what: IncomingKind) -> Incoming {
    Incoming {
        channel: "fake".into(),
        event_id: event.into(),
        from: "ada".into(),
        origin: Origin::Verified { by: "fake".into() },
        what,
        message_id: None,
        place: None,
        references: Vec::new(),
        at_ms: 0,
    }
}

impl Fixture for FakeFixture {
    fn channel(&self) -> Arc<dyn Channel> {
        self.channel.clone()
    }

    fn script(&self, behaviour: Behaviour) -> bool {
        let script = script_of(behaviour);
        self.network.script(script.clone());
        script.is_some()
    }

    fn contacts(&self) -> usize {
        self.network.attempts().len()
    }

    fn accepted(&self) -> Vec<Accepted> {
        let accepted = self.network.accepted().into_iter().map(|attempt| Accepted {
            bytes: format!("{:?} {:?}", attempt.part, attempt.references).into_bytes(),
            message_id: Some(format!("fake_{}", attempt.delivery)),
            delivery: attempt.delivery,
            text: attempt.part.text,
        });
        accepted.collect()
    }

    fn until_accepted(&self, count: usize) -> BoxFuture<'_, ()> {
        Box::pin(self.network.until_accepted(count))
    }

    fn address(&self, _kind: AddressKind) -> Option<String> {
        Some("Ada".into())
    }

    fn text_of(&self, part: &Part) -> String {
        part.text.clone()
    }

    fn debug(&self) -> String {
        String::new()
    }

    fn offer(&self, event: &str, text: &str) -> bool {
        let what = IncomingKind::Text { text: text.into() };
        self.network.offer(Incoming { message_id: Some(event.into()), ..said(event, what) });
        true
    }

    fn press(&self, event: &str, message_id: &str, value: &str) -> bool {
        let what = IncomingKind::Button { value: value.into() };
        self.network.offer(Incoming { references: vec![message_id.into()], ..said(event, what) });
        true
    }

    fn change(&self, event: &str, of: &str, text: Option<&str>) -> bool {
        let message_id = of.to_owned();
        let what = match text {
            Some(text) => IncomingKind::Edited { message_id, text: text.into() },
            None => IncomingKind::Deleted { message_id },
        };
        self.network.offer(said(event, what));
        true
    }

    fn shown(&self, message_id: &str) -> Option<Shown> {
        let mut accepted = self.network.accepted().into_iter();
        let sent = accepted.find(|attempt| message_id == format!("fake_{}", attempt.delivery))?;
        let changed = self.network.amendments().into_iter().rfind(|change| change.message_id == message_id);
        Some(match changed {
            Some(change) => Shown { text: format!("{} {}", change.part.text, change.outcome), buttons: 0 },
            None => Shown { text: sent.part.text, buttons: sent.part.buttons.len() },
        })
    }

    fn acknowledged(&self) -> usize {
        self.network.acknowledged().len()
    }

    fn until_acknowledged(&self, count: usize) -> BoxFuture<'_, ()> {
        Box::pin(self.network.until_acknowledged(count))
    }

    fn bring_again(&self) {
        self.network.bring_again();
    }
}

async fn report(fault: Fault, checks: &[Check]) -> Report {
    run_some(checks, move || Box::pin(async move { Box::new(FakeFixture::new(fault)) as Box<dyn Fixture> }))
        .await
}

#[tokio::test]
async fn a_faultless_channel_keeps_every_promise() {
    let report = report(Fault::None, CHECKS).await;
    report.assert();
    let not_applicable =
        ["a_confirmation_cut_short_is_unknown", "a_channel_without_answers_never_ends_to_listen"];
    assert_eq!(report.not_applicable(), not_applicable);
    assert_eq!(report.verdicts.len(), CHECKS.len());
}

#[tokio::test]
async fn each_fault_is_found() {
    let table = [
        (Fault::TriesAgain, "one_attempt_is_one_contact"),
        (Fault::TakesSilenceForFailure, "silence_after_accepting_is_unknown"),
        (Fault::TakesGarbageForSuccess, "an_answer_that_is_none_is_unknown"),
        (Fault::TellsSecrets, "secrets_are_shown_nowhere"),
        (Fault::ForgetsWaits, "waits_are_as_long_as_was_asked"),
        (Fault::SwapsIds, "attempts_at_a_time_are_kept_apart"),
        (Fault::SendsOtherBytes, "the_same_delivery_has_the_same_bytes"),
        (Fault::PreparesByWeather, "preparing_is_pure"),
        (Fault::LosesTheEnd, "nothing_of_the_text_is_lost"),
        (Fault::IgnoresLimits, "parts_are_within_the_limits"),
        (Fault::TakesJunk, "junk_is_no_address"),
        (Fault::ChangesItsForm, "an_address_has_one_form"),
        (Fault::KeepsTheOutcome, "an_outcome_is_shown_in_place"),
        (Fault::AcknowledgesFirst, "nothing_is_acknowledged_before_it_is_taken"),
    ];
    for (fault, check) in table {
        let checks: Vec<Check> = CHECKS.iter().filter(|known| known.name == check).copied().collect();
        let report = report(fault, &checks).await;
        assert_eq!(report.broken(), [check], "{fault:?} is not found:\n{report}");
    }
}
