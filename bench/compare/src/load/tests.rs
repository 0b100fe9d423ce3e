//! The load on a peer in memory that can be told to lose and to repeat.

use std::path::PathBuf;
use std::sync::Mutex;

use tokio::sync::broadcast;

use super::*;
use crate::usage::Usage;

const LENGTH: Duration = Duration::from_millis(100);

struct Memory<const BATCH: usize> {
    state: Arc<State>,
    folder: PathBuf,
}

struct State {
    log: broadcast::Sender<Body>,
    in_flight: Mutex<(usize, usize)>,
    /// Every n-th message is delivered this many times.
    copies_of_every_10th: usize,
}

struct MemorySender(Arc<State>);

fn memory<const BATCH: usize>(copies_of_every_10th: usize) -> Memory<BATCH> {
    let (log, _) = broadcast::channel(1 << 16);
    let state = Arc::new(State { log, in_flight: Mutex::default(), copies_of_every_10th });
    Memory { state, folder: PathBuf::from("/") }
}

impl<const BATCH: usize> Peer for Memory<BATCH> {
    type Sender = MemorySender;
    const BATCH: usize = BATCH;

    async fn start(_dir: &std::path::Path) -> Result<Self> {
        Ok(memory(1))
    }

    async fn create_topic(&self, _topic: &str, _receivers: usize) -> Result<()> {
        Ok(())
    }

    async fn sender(&self, _topic: &str) -> Result<MemorySender> {
        Ok(MemorySender(Arc::clone(&self.state)))
    }

    async fn receive(
        &self,
        _topic: &str,
        index: usize,
        receipts: Arc<Receipts>,
        tasks: &mut JoinSet<Result<()>>,
    ) -> Result<()> {
        let mut log = self.state.log.subscribe();
        tasks.spawn(async move {
            loop {
                receipts.note(index, &log.recv().await?)?;
            }
        });
        Ok(())
    }

    fn usage(&self) -> Usage {
        Usage::default()
    }

    fn folder(&self) -> &std::path::Path {
        &self.folder
    }
}

impl Sender for MemorySender {
    async fn publish(&self, bodies: Vec<Body>) -> Result<()> {
        self.0.change_in_flight(|now| now + bodies.len());
        tokio::time::sleep(Duration::from_millis(2)).await;
        self.0.change_in_flight(|now| now - bodies.len());
        for body in bodies {
            let (number, _) = read_body(&body).context("a body of this run")?;
            let copies = if number % 10 == 9 { self.0.copies_of_every_10th } else { 1 };
            (0..copies).for_each(|_| drop(self.0.log.send(body)));
        }
        Ok(())
    }
}

impl State {
    fn change_in_flight(&self, change: impl FnOnce(usize) -> usize) {
        let mut in_flight = self.in_flight.lock().unwrap();
        in_flight.0 = change(in_flight.0);
        in_flight.1 = in_flight.1.max(in_flight.0);
    }
}

fn load(senders: usize, in_flight: usize, receivers: usize) -> Load {
    Load { name: "test", senders, in_flight, receivers }
}

#[test]
fn a_body_carries_its_number_and_time() {
    assert_eq!(read_body(&write_body(7, 9)), Some((7, 9)));
    assert_eq!(read_body(&[0; 349]), None);
}

#[tokio::test]
async fn the_window_is_filled_and_never_passed() {
    let peer = memory::<1>(1);
    let outcome = run(&peer, &load(2, 8, 0), "t", LENGTH).await.unwrap();
    assert_eq!(peer.state.in_flight.lock().unwrap().1, 16);
    assert!(outcome.published_per_s > 0.0 && outcome.ack_ms.p50 >= 2.0, "{outcome:?}");
    assert_eq!(outcome.delivered_per_s, None);
}

#[tokio::test]
async fn a_batch_counts_as_its_messages_within_the_same_window() {
    let peer = memory::<4>(1);
    run(&peer, &load(1, 8, 0), "t", LENGTH).await.unwrap();
    assert_eq!(peer.state.in_flight.lock().unwrap().1, 8);
}

#[tokio::test]
async fn every_receiver_gets_every_message() {
    let outcome = run(&memory::<1>(1), &load(1, 4, 3), "t", LENGTH).await.unwrap();
    assert_eq!((outcome.lost, outcome.duplicated), (Some(0), Some(0)));
    assert!(outcome.delivered_per_s > Some(0.0), "{outcome:?}");
}

#[tokio::test]
async fn repeated_deliveries_are_counted() {
    let outcome = run(&memory::<1>(2), &load(1, 4, 2), "t", LENGTH).await.unwrap();
    assert_eq!(outcome.lost, Some(0));
    assert!(outcome.duplicated > Some(0), "{outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn lost_deliveries_are_counted_after_the_drain() {
    let peer = memory::<1>(0);
    let outcome = run(&peer, &load(1, 1, 1), "t", LENGTH).await.unwrap();
    assert!(outcome.lost > Some(0), "{outcome:?}");
}

#[tokio::test]
async fn a_failing_sender_fails_the_run() {
    let mut slots = JoinSet::new();
    slots.spawn(async { bail!("refused") });
    let error = run_for(Duration::from_mins(1), &mut slots).await.unwrap_err();
    assert_eq!(error.to_string(), "refused");
}
