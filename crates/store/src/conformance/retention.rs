//! Retention: what goes, what stays, and that numbers never come back.

use super::bench::{Bench, START_MS, finding, in_channel};
use switchboard_core::ids::InstanceNo;
use switchboard_core::time::{DAY_MS, MINUTE_MS};
use switchboard_core::write::{Append, Outcome, Write};

fn lasting(from: InstanceNo, minutes: i64) -> Write {
    Write::Append(Append { expires_at_ms: START_MS + minutes * MINUTE_MS, ..finding(from) })
}

async fn sweep(bench: &mut Bench<'_>, limit: usize) -> usize {
    match bench.one(Write::Sweep { limit }).await {
        Outcome::Swept(rows) => rows,
        other => panic!("expected a sweep, got {other:?}"),
    }
}

async fn left(bench: &Bench<'_>) -> (Vec<u64>, u64, u64) {
    let stream = bench.channel("general").await.expect("it exists");
    let seqs = bench.all(stream.id).await.iter().map(|event| event.id.seq).collect();
    (seqs, stream.first, stream.head)
}

/// Nothing expired: nothing goes, however often it is swept. One expired: one goes. An event goes from the very
/// millisecond it names (fault B41).
pub async fn exactly_what_has_expired_goes(mut bench: Bench<'_>) {
    let me = bench.instance("ann").await;
    bench.commit(vec![lasting(me, 10), lasting(me, 20), lasting(me, 30)]).await;
    bench.now = START_MS + 10 * MINUTE_MS - 1;
    let before = bench.commits().await;
    let sweeps = if bench.restless { 10 } else { 1000 };
    for _ in 0..sweeps {
        assert_eq!(sweep(&mut bench, 100).await, 0);
    }
    assert_eq!(bench.commits().await, before, "a sweep that finds nothing commits nothing");
    bench.now += 1;
    assert_eq!(sweep(&mut bench, 100).await, 1);
    assert_eq!(left(&bench).await, (vec![2, 3], 2, 3));
    assert_eq!(sweep(&mut bench, 100).await, 0);
    bench.now = START_MS + 40 * MINUTE_MS;
    assert_eq!(sweep(&mut bench, 100).await, 2);
    assert_eq!(left(&bench).await, (vec![], 4, 3));
}

/// Only the low end goes: what is left has no gaps, even if something behind expires sooner.
pub async fn only_the_low_end_goes(mut bench: Bench<'_>) {
    let me = bench.instance("ann").await;
    bench.commit([10, 50, 10, 10, 60].map(|minutes| lasting(me, minutes)).to_vec()).await;
    bench.now = START_MS + 20 * MINUTE_MS;
    assert_eq!(sweep(&mut bench, 100).await, 1);
    assert_eq!(left(&bench).await, (vec![2, 3, 4, 5], 2, 5));
    bench.restart().await;
    bench.now = START_MS + 50 * MINUTE_MS;
    assert_eq!(sweep(&mut bench, 100).await, 3);
    assert_eq!(left(&bench).await, (vec![5], 5, 5));
}

/// A sweep takes as many rows as it may and says so; the next one goes on, over all streams.
pub async fn a_sweep_is_bounded(mut bench: Bench<'_>) {
    let me = bench.instance("ann").await;
    for channel in ["general", "other", "third"] {
        let short = Append { expires_at_ms: START_MS + MINUTE_MS, ..in_channel(finding(me), channel) };
        bench.commit(vec![Write::Append(short); 7]).await;
    }
    bench.now = START_MS + MINUTE_MS;
    let mut swept = Vec::new();
    for _ in 0..4 {
        swept.push(sweep(&mut bench, 8).await);
    }
    assert_eq!(swept, [8, 8, 5, 0]);
    assert_eq!(sweep(&mut bench, 0).await, 0);
}

/// When retention has deleted everything, also across a restart, numbering goes on where it stood (fault B47).
pub async fn numbering_outlives_every_row(mut bench: Bench<'_>) {
    let me = bench.instance("ann").await;
    bench.commit((0..10).map(|_| lasting(me, 1)).collect()).await;
    bench.now = START_MS + DAY_MS;
    assert_eq!(sweep(&mut bench, 100).await, 10);
    bench.restart().await;
    assert_eq!(left(&bench).await, (vec![], 11, 10));
    let next = bench.append(Append { expires_at_ms: bench.now + DAY_MS, ..finding(me) }).await.id;
    assert_eq!(next.seq, 11);
    let page = bench.store().page(next.stream, 10, 100, usize::MAX).await.expect("readable");
    assert_eq!(page.events.iter().map(|event| event.id.seq).collect::<Vec<_>>(), [11]);
    assert_eq!((page.first, page.head), (11, 11));
    // A reader behind the low end learns where what is left begins.
    let page = bench.store().page(next.stream, 3, 100, usize::MAX).await.expect("readable");
    assert_eq!((page.first, page.events[0].id.seq), (11, 11));
}

/// A thread whose first message has gone keeps its replies.
pub async fn a_thread_outlives_its_first_message(mut bench: Bench<'_>) {
    let me = bench.instance("ann").await;
    let short = Append { expires_at_ms: START_MS + MINUTE_MS, ..finding(me) };
    let first = bench.append(short).await.id;
    let reply = bench.append(Append { reply_to: Some(first), ..finding(me) }).await.id;
    bench.now = START_MS + MINUTE_MS;
    sweep(&mut bench, 10).await;
    let thread = bench.store().thread(first, 0, 10).await.expect("readable");
    assert_eq!(thread.iter().map(|event| event.id).collect::<Vec<_>>(), [reply]);
    let next = bench.append(Append { reply_to: Some(reply), ..finding(me) }).await;
    assert_eq!(next.thread, first);
}
