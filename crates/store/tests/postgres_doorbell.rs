//! The doorbell over a database that has much to tell.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use switchboard_core::ids::StreamId;
use switchboard_core::port::doorbell::{Doorbell as _, Topic};
use switchboard_core::random::SystemEntropy;
use switchboard_store::conformance::cluster::Cluster;
use switchboard_store::doorbell::postgres::PostgresDoorbell;
use switchboard_store::postgres::Address;

/// The stream that other nodes ring for.
const OTHERS: StreamId = StreamId(7);
/// Notifications in one transaction: far more than are kept at a time.
const FLOOD: usize = 20_000;

async fn until(what: &str, done: impl Fn() -> bool) {
    let waited = tokio::time::timeout(Duration::from_secs(20), async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    waited.await.expect(what);
}

/// A node that rings while it is rung for hears all of it, and its connection is not given up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_rings_does_not_keep_a_node_from_ringing() {
    let cluster = Arc::new(Cluster::start());
    let address = Address::parse(&cluster.url("hub")).unwrap();
    let bell = Arc::new(PostgresDoorbell::new(address, Arc::new(SystemEntropy)));
    let (heard, lost) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
    let ears = (Arc::clone(&heard), Arc::clone(&lost));
    bell.listen(Arc::new(move |topic| match topic {
        Topic::Stream(OTHERS, _) => drop(ears.0.fetch_add(1, Ordering::SeqCst)),
        // Rung when the connection comes, and when it goes.
        Topic::Everything => ears.1.store(true, Ordering::SeqCst),
        _ => {}
    }));
    bell.join("org_a");
    until("a connection", || bell.is_connected()).await;
    lost.store(false, Ordering::SeqCst);
    let ringing = Arc::clone(&bell);
    let ringing = tokio::spawn(async move {
        for head in 1.. {
            ringing.ring(&[Topic::Stream(StreamId(1), head)]);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    for round in 1..=3 {
        let flooded = Arc::clone(&cluster);
        let flood = format!(
            "SELECT count(pg_notify('switchboard_org_a', '00000000000000ff s7:' || n)) FROM generate_series(1, {FLOOD}) n"
        );
        tokio::task::spawn_blocking(move || flooded.sql(&flood)).await.unwrap();
        until("all of the flood", || heard.load(Ordering::SeqCst) >= round * FLOOD).await;
    }
    ringing.abort();
    assert!(bell.is_connected() && !lost.load(Ordering::SeqCst), "the connection was given up");
}
