//! Nodes that share a store: no part is claimed twice, a key is one node's, and nobody stands in another one's way.

use super::plane::{CHAT, Plane, accepted, arrived, finish, hourly, outcome, picture};
use crate::conformance::bench::{Bench, genesis};
use futures_util::future::join_all;
use std::collections::BTreeSet;
use std::sync::Arc;
use switchboard_core::outbound::write::{Claimed, NewSend, OutboundOutcome, OutboundWrite};
use switchboard_core::port::store::Store;
use switchboard_core::time::{MINUTE_MS, WallMs};
use switchboard_core::write::{Batch, Outcome, Write};

async fn nodes(bench: &Bench<'_>) -> Option<[Arc<dyn Store>; 2]> {
    let second = bench.second().await?;
    second.open(genesis()).await.expect("another node opens it");
    Some([bench.shared(), second])
}

async fn commit(store: &dyn Store, at_ms: WallMs, writes: Vec<OutboundWrite>) -> Vec<Outcome> {
    let writes = writes.into_iter().map(Write::Outbound).collect();
    store.commit(Batch { at_ms, writes }).await.expect("it commits")
}

fn claim(node: u64, now: WallMs, limit: usize) -> OutboundWrite {
    OutboundWrite::Claim { channel: CHAT.into(), node, limit, until_ms: now + MINUTE_MS }
}

fn claimed(done: Outcome) -> Vec<Claimed> {
    match outcome(done) {
        OutboundOutcome::Claimed(claimed) => claimed,
        other => panic!("expected claimed parts, got {other:?}"),
    }
}

/// Two nodes that claim, finish and submit at the same time: each part is claimed once, each message arrives once, in order.
pub async fn nodes_share_the_work(mut bench: Bench<'_>) {
    bench.restless = false;
    let mut plane = Plane::new(bench).await;
    let Some(nodes) = nodes(&plane.bench).await else { return };
    let now = plane.bench.now;
    let mut writes = Vec::new();
    for at in 0..60 {
        let to = format!("p{}", at % 20);
        plane.allow(CHAT, &to, None).await;
        let new = plane.notice(&to);
        writes.push(OutboundWrite::Submit(Box::new(new)));
    }
    for some in writes.chunks(7) {
        commit(plane.store(), now, some.to_vec()).await;
    }
    let work = nodes.iter().zip(1u64..).map(|(store, node)| async move {
        let (mut mine, mut idle) = (Vec::new(), 0);
        while idle < 3 {
            let parts = claimed(commit(&**store, now, vec![claim(node, now, 5)]).await.remove(0));
            idle = if parts.is_empty() { idle + 1 } else { 0 };
            let finishes = parts.iter().map(|part| finish(part, arrived(part))).collect();
            for done in commit(&**store, now, finishes).await {
                assert!(matches!(done, Outcome::Outbound(OutboundOutcome::Settled(_))), "{done:?}");
            }
            mine.extend(parts.into_iter().map(|part| (part.send.no, part.attempt)));
        }
        mine
    });
    let done: Vec<_> = join_all(work).await.concat();
    assert!(done.iter().all(|(_, attempt)| *attempt == 1), "{done:?}");
    let once: BTreeSet<_> = done.iter().map(|(send, _)| *send).collect();
    assert_eq!((done.len(), once.len()), (60, 60), "each once");
    assert_eq!(plane.balanced().await.delivered, 60);
    let mut pictures = Vec::new();
    for store in &nodes {
        pictures.push(picture(&**store).await);
    }
    assert_eq!(pictures[0], pictures[1]);
    nodes[1].close().await.expect("it closes");
}

/// One key, one limit and one floor for all nodes.
pub async fn nodes_agree_on_keys_limits_and_floors(mut bench: Bench<'_>) {
    bench.restless = false;
    let mut plane = Plane::new(bench).await;
    let Some(nodes) = nodes(&plane.bench).await else { return };
    let now = plane.bench.now;
    for round in 0..10 {
        let mut calls = Vec::new();
        for at in 0..6 {
            let key = Some(format!("k{round}"));
            let limits = vec![hourly(&format!("l{round}"), 1)];
            let new = NewSend { key, limits, ..plane.notice("ada") };
            calls.push(commit(&*nodes[at % 2], now, vec![OutboundWrite::Submit(Box::new(new))]));
        }
        let outcomes: Vec<_> = join_all(calls).await.into_iter().flatten().map(outcome).collect();
        let fresh = outcomes.iter().filter(|it| matches!(it, OutboundOutcome::Accepted { .. })).count();
        let repeats = outcomes.iter().filter(|it| matches!(it, OutboundOutcome::Repeat(_, _))).count();
        assert_eq!((fresh, repeats), (1, 5), "round {round}");
        let mut calls = Vec::new();
        for at in 0..6 {
            let limits = vec![hourly(&format!("m{round}"), 2), hourly(&format!("n{round}"), 4)];
            let new = NewSend { limits, ..plane.notice("bob") };
            calls.push(commit(&*nodes[at % 2], now, vec![OutboundWrite::Submit(Box::new(new))]));
        }
        let outcomes = join_all(calls).await.concat();
        let fresh = outcomes.iter().filter(|it| matches!(it, Outcome::Outbound(_))).count();
        assert_eq!(fresh, 2, "round {round}");
    }
    let mut calls = Vec::new();
    for at in 0..10 {
        let new = plane.question("ada");
        calls.push(commit(&*nodes[at % 2], now, vec![OutboundWrite::Submit(Box::new(new))]));
    }
    for done in join_all(calls).await.concat() {
        accepted(&outcome(done));
    }
    let (open, queued) = plane.floor().await;
    assert_eq!((open.len(), queued.len()), (1, 9));
    plane.balanced().await;
    nodes[1].close().await.expect("it closes");
}
