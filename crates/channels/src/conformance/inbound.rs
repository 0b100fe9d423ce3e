//! What comes back.

use super::Verdict;
use super::trial::{Trial, ensure};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either, select};
use parking_lot::Mutex;
use std::pin::pin;
use std::sync::Arc;
use switchboard_core::port::channel::{Inbound, Incoming, IncomingKind};
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
