//! What nodes that share a store promise each other. A backend of one node grants everything to it and has nothing to tell.

use super::bench::{Bench, VAULT, announce, finding, with_id};
use std::time::Duration;
use switchboard_core::ids::StreamId;
use switchboard_core::port::store::{Beat, Position};
use switchboard_core::time::{MINUTE_MS, WallMs};
use switchboard_core::write::{Announce, Outcome, Presence, Receipt, ReceiptState, Refusal, Write};

const NAME: &str = "keeper";
/// Short, where a test waits for its end by the store's clock.
const SHORT_MS: WallMs = 20;

fn take(holder: u64, for_ms: WallMs) -> Write {
    Write::TakeLease { name: NAME, holder, for_ms }
}

fn fence(outcome: &Outcome) -> u64 {
    match outcome {
        Outcome::Lease { fence } => *fence,
        other => panic!("no lease: {other:?}"),
    }
}

/// Lets a lease of [`SHORT_MS`] end, whichever clock the store goes by.
async fn let_it_end(bench: &mut Bench<'_>) {
    bench.now += MINUTE_MS;
    tokio::time::sleep(Duration::from_millis(3 * SHORT_MS.unsigned_abs())).await;
}

/// Who holds it may keep it; another one gets it once it is over or given up, with a higher fence.
pub async fn a_lease_has_one_holder_and_a_growing_fence(mut bench: Bench<'_>) {
    let first = fence(&bench.one(take(1, MINUTE_MS)).await);
    assert_eq!(bench.refused(take(2, MINUTE_MS)).await, Refusal::Leased);
    assert_eq!(fence(&bench.one(take(1, SHORT_MS)).await), first, "kept");
    let_it_end(&mut bench).await;
    let second = fence(&bench.one(take(2, MINUTE_MS)).await);
    assert!(second > first);
    assert_eq!(bench.refused(take(1, MINUTE_MS)).await, Refusal::Leased);
    assert_eq!(fence(&bench.one(take(2, 0)).await), second, "given up");
    bench.now += 1;
    let third = fence(&bench.one(take(1, MINUTE_MS)).await);
    assert!(third > second);
    let other = Write::TakeLease { name: "other", holder: 9, for_ms: MINUTE_MS };
    assert_eq!(fence(&bench.one(other).await), 1, "leases are counted apart");
}

/// However late it comes: a node that was paused does nothing that another one does by now.
pub async fn a_write_under_an_old_fence_is_refused(mut bench: Bench<'_>) {
    let me = bench.instance("ann").await;
    let fenced = |fence, write| Write::Fenced { name: NAME, fence, inner: Box::new(write) };
    let close = || Write::CloseOrphans { alive: vec![] };
    assert_eq!(bench.refused(fenced(1, close())).await, Refusal::Fenced, "nobody has taken it");
    let first = fence(&bench.one(take(1, SHORT_MS)).await);
    bench.announce(me, "a").await;
    let_it_end(&mut bench).await;
    let note = || Write::Announce(Announce { state: Presence::Idle, ..announce(me, "a") });
    let changed = Outcome::Announced { changed: true };
    assert_eq!(bench.one(fenced(first, note())).await, changed, "over, but nobody has taken it since");
    let second = fence(&bench.one(take(2, MINUTE_MS)).await);
    assert_eq!(bench.refused(fenced(first, close())).await, Refusal::Fenced);
    assert_eq!(bench.one(fenced(second, close())).await, Outcome::Closed(1));
}

/// The agents of a node that has beaten lately stay, without anybody naming it.
pub async fn agents_of_nodes_that_beat_are_spared(mut bench: Bench<'_>) {
    let me = bench.instance("ann").await;
    for (agent, node) in [("a", 5), ("b", 6), ("c", 7)] {
        bench.one(Write::Announce(Announce { node, ..announce(me, agent) })).await;
    }
    let shared = bench.store().is_shared();
    bench.store().beat(beat(5, true, None)).await.expect("a beat");
    let closed = bench.one(Write::CloseOrphans { alive: vec![6] }).await;
    assert_eq!(closed, Outcome::Closed(if shared { 1 } else { 2 }));
    let rows = bench.store().agents(vec![VAULT], 0).await.expect("agents are readable");
    let last = rows.last().expect("agents");
    assert_eq!((last.agent.as_str(), last.state, last.node), ("c", Presence::Closed, 0));
    let spared = rows.iter().find(|row| row.agent == "b").expect("b");
    assert_eq!((spared.state, spared.node), (Presence::Active, 6));
}

fn beat(node: u64, rings: bool, fence: Option<u64>) -> Beat {
    Beat { node, rings, lease: NAME, fence, keep_ms: MINUTE_MS }
}

/// What moved since a position, and nothing else.
pub async fn a_node_is_told_what_moved(mut bench: Bench<'_>) {
    let (me, you) = (bench.instance("ann").await, bench.instance("ben").await);
    let at = bench.append(with_id(finding(me), "m1", 1)).await;
    let before = bench.store().position().await.expect("a position");
    if !bench.store().is_shared() {
        assert_eq!(before, Position::default());
        return;
    }
    let heads = vec![(at.id.stream, at.id.seq)];
    assert_eq!(bench.store().grown(heads.clone()).await.expect("streams"), []);
    let unknown = bench.store().grown(vec![(StreamId(900), 1)]).await.expect("streams");
    assert_eq!(unknown.iter().map(|info| info.id).collect::<Vec<_>>(), [at.id.stream]);
    bench.append(with_id(finding(me), "m2", 2)).await;
    let grown = bench.store().grown(heads).await.expect("streams");
    assert_eq!((grown.len(), grown[0].head), (1, 2));
    let after = bench.store().position().await.expect("a position");
    assert!(after.commit > before.commit);
    assert_eq!(
        (after.directory, after.version, after.notice),
        (before.directory, before.version, before.notice)
    );
    bench.announce(you, "b").await;
    let receipt = Receipt { event: at.id, instance: you, agent: "b".into(), state: ReceiptState::Read };
    bench.one(Write::Receipt(receipt)).await;
    let last = bench.store().position().await.expect("a position");
    assert!(last.version > after.version && last.notice > after.notice);
    assert_eq!(bench.store().noticed(after.notice).await.expect("instances"), [me]);
    assert_eq!(bench.store().noticed(last.notice).await.expect("instances"), []);
    bench.one(Write::RevokeInstance { instance_id: "inst_ben".into() }).await;
    assert!(bench.store().position().await.expect("a position").directory > last.directory);
}

/// A beat keeps the lease of the right fence only.
pub async fn a_beat_keeps_a_lease_and_tells_who_cannot_ring(mut bench: Bench<'_>) {
    let first = fence(&bench.one(take(1, SHORT_MS)).await);
    let store = bench.shared();
    let pulse = async |node, rings, fence| store.beat(beat(node, rings, fence)).await.expect("a beat");
    if !store.is_shared() {
        assert!(pulse(1, true, Some(first)).await.kept);
        return;
    }
    let before = bench.commits().await;
    let mine = pulse(1, true, Some(first)).await;
    assert!(mine.kept && mine.all_ring);
    let other = pulse(2, false, None).await;
    assert!(!other.kept && !other.free && !other.all_ring, "{other:?}");
    assert!(!pulse(1, true, Some(first)).await.all_ring, "the other one cannot");
    assert!(!pulse(1, true, Some(first + 1)).await.kept);
    assert!(pulse(2, true, None).await.all_ring);
    assert_eq!(bench.commits().await, before, "beats are not in the log");
}
