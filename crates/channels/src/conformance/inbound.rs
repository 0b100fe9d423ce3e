//! What comes back.

use super::Verdict;
use super::trial::{Trial, ensure, notice};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either, select};
use parking_lot::Mutex;
use std::pin::pin;
use std::sync::Arc;
use switchboard_core::port::channel::{Button, Draft, Inbound, Incoming, IncomingKind, Origin, Performed};
use switchboard_core::port::store::StoreError;
use tokio::sync::watch;

type Outcome = Result<Verdict, String>;

/// Takes what comes in, from the second time on.
struct Recorder {
    seen: Mutex<Vec<Incoming>>,
    failures: usize,
    count: watch::Sender<usize>,
}

impl Recorder {
    fn failing(failures: usize) -> Arc<Self> {
        Arc::new(Self { seen: Mutex::default(), failures, count: watch::Sender::new(0) })
    }

    async fn until(&self, count: usize) {
        let mut seen = self.count.subscribe();
        // The sender lives as long as the recorder.
        seen.wait_for(|seen| *seen >= count).await.ok();
    }
}

impl Inbound for Recorder {
    fn take(&self, incoming: Incoming) -> BoxFuture<'_, Result<Option<String>, StoreError>> {
        let count = {
            let mut seen = self.seen.lock();
            seen.push(incoming);
            seen.len()
        };
        self.count.send_replace(count);
        let taken = if count <= self.failures { Err(StoreError::Overloaded) } else { Ok(None) };
        Box::pin(async move { taken })
    }

    fn health(&self, _channel: &str, _fault: Option<String>) {}
}

pub(super) async fn a_channel_without_answers_never_ends_to_listen(trial: Trial) -> Outcome {
    if trial.fixture.offer("evt-probe", "hello") {
        return Ok(Verdict::NotApplicable);
    }
    let ended = trial.channel().listen(Recorder::failing(0)).now_or_never().is_some();
    ensure(!ended, || "listening has ended".to_owned())?;
    Ok(Verdict::Kept)
}

pub(super) async fn nothing_is_acknowledged_before_it_is_taken(trial: Trial) -> Outcome {
    if !trial.fixture.offer("evt-1", "yes, go on") {
        return Ok(Verdict::NotApplicable);
    }
    let recorder = Recorder::failing(1);
    let story = pin!(async {
        recorder.until(1).await;
        ensure(trial.fixture.acknowledged() == 0, || "acknowledged before it was taken".to_owned())?;
        trial.fixture.bring_again();
        recorder.until(2).await;
        trial.fixture.until_acknowledged(1).await;
        ensure(trial.fixture.acknowledged() == 1, || "not acknowledged although it was taken".to_owned())?;
        check_seen(&recorder.seen.lock())
    });
    match select(trial.channel().listen(recorder.clone()), story).await {
        Either::Left(_) => Err("listening has ended".into()),
        Either::Right((outcome, _)) => outcome.map(|()| Verdict::Kept),
    }
}

/// It was brought twice, as the same event.
fn check_seen(seen: &[Incoming]) -> Result<(), String> {
    let [first, second] = seen else { return Err(format!("brought {} times instead of twice", seen.len())) };
    ensure(first.event_id == second.event_id && !first.event_id.is_empty(), || {
        format!("brought as {:?} and as {:?}", first.event_id, second.event_id)
    })?;
    ensure(first.what == second.what, || "brought with two contents".to_owned())?;
    let IncomingKind::Text { text } = &first.what else { return Err(format!("came as {:?}", first.what)) };
    ensure(text.trim() == "yes, go on", || format!("came as {text:?}"))
}

/// Runs a story beside the channel's listening.
async fn beside(
    trial: &Trial,
    recorder: &Arc<Recorder>,
    story: impl Future<Output = Result<(), String>>,
) -> Outcome {
    match select(trial.channel().listen(recorder.clone()), pin!(story)).await {
        Either::Left(_) => Err("listening has ended".into()),
        Either::Right((outcome, _)) => outcome.map(|()| Verdict::Kept),
    }
}

pub(super) async fn a_press_brings_back_its_value(trial: Trial) -> Outcome {
    if trial.channel().capabilities().buttons_max == 0 || !trial.channel().capabilities().answers {
        return Ok(Verdict::NotApplicable);
    }
    let buttons = [Button { label: "Yes".into(), value: "SB-K7QD3M.1".into() }];
    let part = trial.channel().prepare(&Draft { buttons: &buttons, ..notice("Deploy now?") })?;
    let attempt = trial.attempt_of(part.into_iter().next_back().ok_or("a message has no part")?)?;
    let Performed::Sent { message_id: Some(message_id) } = trial.perform(&attempt).await else {
        return Err("a message with buttons has no id".into());
    };
    if !trial.fixture.press("evt-press", &message_id, "SB-K7QD3M.1") {
        return Ok(Verdict::NotApplicable);
    }
    let recorder = Recorder::failing(0);
    beside(&trial, &recorder, async {
        recorder.until(1).await;
        let seen = recorder.seen.lock();
        let first = seen.first().ok_or("nothing came in")?;
        let value = IncomingKind::Button { value: "SB-K7QD3M.1".into() };
        ensure(first.what == value, || format!("came as {:?}", first.what))?;
        ensure(matches!(first.origin, Origin::Verified { .. }), || "nobody vouches for it".to_owned())?;
        ensure(first.references.contains(&message_id), || {
            format!("it does not say what was pressed: {:?}", first.references)
        })
    })
    .await
}

pub(super) async fn what_a_person_changes_is_an_event_of_its_own(trial: Trial) -> Outcome {
    if !trial.fixture.offer("evt-1", "yes, go on") {
        return Ok(Verdict::NotApplicable);
    }
    if !trial.fixture.change("evt-2", "evt-1", Some("no, wait")) {
        return Ok(Verdict::NotApplicable);
    }
    let recorder = Recorder::failing(0);
    beside(&trial, &recorder, async {
        recorder.until(2).await;
        let takes_back = trial.fixture.change("evt-3", "evt-1", None);
        recorder.until(if takes_back { 3 } else { 2 }).await;
        let seen = recorder.seen.lock();
        let id = seen[0].message_id.clone().ok_or("what was said has no id")?;
        let edited = IncomingKind::Edited { message_id: id.clone(), text: "no, wait".into() };
        ensure(seen[1].what == edited, || format!("the change came as {:?}", seen[1].what))?;
        let ids: std::collections::HashSet<_> = seen.iter().map(|event| &event.event_id).collect();
        ensure(ids.len() == seen.len(), || "two events have one id".to_owned())?;
        let deleted = IncomingKind::Deleted { message_id: id };
        ensure(seen.get(2).is_none_or(|event| event.what == deleted), || {
            format!("taking back came as {:?}", seen[2].what)
        })
    })
    .await
}
