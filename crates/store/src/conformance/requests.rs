//! Idempotency keys.

use super::bench::{Bench, finding, new_instance};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use switchboard_core::limits::{IDEMPOTENCY_MS, SWEEP_ROWS_MAX};
use switchboard_core::write::{Outcome, Refusal, Write};

struct Requests {
    rendered: Arc<AtomicUsize>,
}

impl Requests {
    fn new() -> Self {
        Self { rendered: Arc::default() }
    }

    fn once(&self, scope: &str, key: &str, digest: u8, inner: Write) -> Write {
        let rendered = Arc::clone(&self.rendered);
        Write::Once {
            scope: scope.into(),
            key: key.into(),
            digest: [digest; 32],
            inner: Box::new(inner),
            render: Arc::new(move |outcome| {
                let number = rendered.fetch_add(1, Ordering::SeqCst);
                format!("{number} {outcome:?}\0").into_bytes()
            }),
        }
    }
}

fn create(id: &str) -> Write {
    Write::CreateInstance(new_instance(id, None))
}

/// A request with a key is applied once and answered with the same bytes for ever after, across restarts.
pub async fn a_key_gets_the_same_bytes_again(mut bench: Bench<'_>) {
    let requests = Requests::new();
    let first = bench.one(requests.once("a", "k", 1, create("i1"))).await;
    let Outcome::Once { body, replayed: false } = first else { panic!("{first:?}") };
    assert!(body.starts_with(b"0 Instance"), "rendered of the inner outcome");
    let replay = Outcome::Once { body, replayed: true };
    bench.restart().await;
    let before = bench.commits().await;
    for _ in 0..3 {
        assert_eq!(bench.one(requests.once("a", "k", 1, create("i1"))).await, replay);
    }
    assert_eq!(bench.commits().await, before);
    assert_eq!(requests.rendered.load(Ordering::SeqCst), 1);
    // Within one batch as well.
    let twice = bench
        .commit(vec![requests.once("a", "k2", 1, create("i2")), requests.once("a", "k2", 1, create("i2"))])
        .await;
    assert!(matches!(&twice[..], [
        Outcome::Once { body: a, replayed: false }, Outcome::Once { body: b, replayed: true }
    ] if a == b));
}

/// The same key with another request is a conflict; another caller's keys are its own.
pub async fn a_key_for_two_requests_is_refused(mut bench: Bench<'_>) {
    let requests = Requests::new();
    bench.one(requests.once("a", "k", 1, create("i1"))).await;
    assert_eq!(bench.refused(requests.once("a", "k", 2, create("i2"))).await, Refusal::IdReused);
    let other = bench.one(requests.once("b", "k", 2, create("i2"))).await;
    assert!(matches!(other, Outcome::Once { replayed: false, .. }));
}

/// A refusal is not remembered: the request may be tried again.
pub async fn a_refusal_is_not_remembered(mut bench: Bench<'_>) {
    let requests = Requests::new();
    bench.one(create("i1")).await;
    let taken = requests.once("a", "k", 1, create("i1"));
    assert_eq!(bench.refused(taken).await, Refusal::NameTaken);
    let free = bench.one(requests.once("a", "k", 1, create("i2"))).await;
    assert!(matches!(free, Outcome::Once { replayed: false, .. }));
    // What is done inside is heard and logged like anything else.
    let me = bench.instance("ann").await;
    bench.one(requests.once("a", "k3", 1, Write::Append(finding(me)))).await;
    assert_eq!(bench.heard.events().len(), 1);
}

/// Keys are forgotten after a week.
pub async fn keys_are_forgotten_after_a_week(mut bench: Bench<'_>) {
    let requests = Requests::new();
    bench.one(requests.once("a", "k", 1, create("i1"))).await;
    let made_ms = bench.now;
    bench.now = made_ms + IDEMPOTENCY_MS - 1;
    bench.one(Write::Sweep { limit: SWEEP_ROWS_MAX }).await;
    assert_eq!(bench.refused(requests.once("a", "k", 2, create("i2"))).await, Refusal::IdReused);
    bench.now += 1;
    bench.one(Write::Sweep { limit: SWEEP_ROWS_MAX }).await;
    let fresh = bench.one(requests.once("a", "k", 2, create("i2"))).await;
    assert!(matches!(fresh, Outcome::Once { replayed: false, .. }));
}
