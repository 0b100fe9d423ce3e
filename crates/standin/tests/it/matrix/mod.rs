//! The Matrix channel against a real homeserver.

mod fixture;
mod inbound;
mod outbound;

use fixture::Party;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use switchboard_channels::conformance::{self, CHECKS, Fixture};
use switchboard_core::outbound::gate::{Cleared, Consent, Facts, clear};
use switchboard_core::port::channel::{
    Address, AddressKind, Attempt, Button, Channel, Draft, Inbound, Incoming, MessageKind, NotSent, Performed,
};
use switchboard_core::port::store::StoreError;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Longest time for anything that is waited for.
const PATIENCE: Duration = Duration::from_mins(1);
/// Checks that run at a time: the homeserver is one process of Python.
const CHECKS_AT_A_TIME: usize = 5;

#[tokio::test]
async fn matrix_keeps_every_promise() {
    for checks in CHECKS.chunks(CHECKS_AT_A_TIME) {
        let report = conformance::run_some(checks, || {
            Box::pin(async { Box::new(Party::start().await) as Box<dyn Fixture> })
        })
        .await;
        report.assert();
        assert!(
            report
                .not_applicable()
                .iter()
                .all(|name| *name == "a_channel_without_answers_never_ends_to_listen"),
            "{report}"
        );
    }
}

/// The gate's consent to an attempt, given without conditions.
fn cleared(attempt: &Attempt) -> Cleared {
    let facts = Facts { now_ms: 0, consent: Consent::NotNeeded, forbidden_by: None, deadline_ms: None };
    clear(attempt.clone(), &facts).unwrap()
}

/// A question with two choices.
fn question(channel: &dyn Channel, delivery: &str, kind: AddressKind, to: &str) -> Attempt {
    let button = |label: &str, value: &str| Button { label: label.into(), value: value.into() };
    let draft = Draft {
        body: "May I **deploy**? @room",
        kind: MessageKind::Question,
        from: "builder",
        code: Some("K7QD3M"),
        deadline_ms: Some(1_893_456_000_000),
        buttons: &[button("Yes", "SB-K7QD3M.1"), button("No", "SB-K7QD3M.2")],
        link: None,
    };
    Attempt {
        delivery: delivery.into(),
        attempt: 1,
        channel: channel.name().to_owned(),
        to: Address { kind, handle: channel.normalise(kind, to).unwrap() },
        part: channel.prepare(&draft).unwrap().remove(0),
        place: (1, 1),
        references: Vec::new(),
        accepted_ms: 0,
    }
}

async fn sent(channel: &dyn Channel, attempt: &Attempt) -> String {
    match channel.perform(cleared(attempt)).await {
        Performed::Sent { message_id: Some(id) } => id,
        other => panic!("{other:?}"),
    }
}

async fn refused(channel: &dyn Channel, attempt: &Attempt) -> NotSent {
    match channel.perform(cleared(attempt)).await {
        Performed::NotSent(why) => why,
        other => panic!("{other:?}"),
    }
}

/// What comes in.
#[derive(Default)]
struct Ear {
    heard: watch::Sender<Vec<Incoming>>,
    health: watch::Sender<Vec<Option<String>>>,
    /// What each sender is told.
    reply: Mutex<Option<String>>,
    /// So many more are not taken.
    failures: Mutex<usize>,
}

impl Inbound for Ear {
    fn take(
        &self,
        incoming: Incoming,
    ) -> futures_util::future::BoxFuture<'_, Result<Option<String>, StoreError>> {
        let fails = {
            let mut failures = self.failures.lock();
            let fails = *failures > 0;
            *failures = failures.saturating_sub(1);
            fails
        };
        if !fails {
            // As the hub does: the same event changes nothing.
            self.heard.send_if_modified(|heard| {
                let is_new = heard.iter().all(|known| known.event_id != incoming.event_id);
                if is_new {
                    heard.push(incoming);
                }
                is_new
            });
        }
        let answer = if fails { Err(StoreError::Overloaded) } else { Ok(self.reply.lock().clone()) };
        Box::pin(std::future::ready(answer))
    }

    fn health(&self, _channel: &str, fault: Option<String>) {
        self.health.send_modify(|health| health.push(fault));
    }
}

impl Ear {
    async fn heard(&self, count: usize) -> Vec<Incoming> {
        let mut heard = self.heard.subscribe();
        let found = tokio::time::timeout(PATIENCE, heard.wait_for(|heard| heard.len() >= count)).await;
        found.unwrap_or_else(|_| panic!("heard only {:?}", self.heard.borrow())).unwrap().clone()
    }

    async fn until_health(&self, holds: impl Fn(&Option<String>) -> bool) -> Option<String> {
        let mut health = self.health.subscribe();
        let wait = health.wait_for(|health| health.last().is_some_and(&holds));
        let found = tokio::time::timeout(PATIENCE, wait).await;
        found
            .unwrap_or_else(|_| panic!("its health: {:?}", self.health.borrow()))
            .unwrap()
            .last()
            .cloned()
            .flatten()
    }
}

/// A channel that listens until this is dropped.
struct Listening {
    ear: Arc<Ear>,
    task: JoinHandle<()>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Listens, and returns when it is connected.
async fn listening(channel: &Arc<switchboard_channels::matrix::Matrix>) -> Listening {
    let ear = Arc::new(Ear::default());
    let task = tokio::spawn(channel.clone().listen(ear.clone()));
    ear.until_health(Option::is_none).await;
    Listening { ear, task }
}
