//! What the plane's reads tell.

use super::plane::{CHAT, MAIL, Plane, again, arrived, direct, failed, hold, rows};
use crate::conformance::bench::Bench;
use std::cell::Cell;
use std::future::poll_fn;
use std::task::Poll;
use switchboard_core::outbound::send::{PartState, SendFilter, SendState};
use switchboard_core::outbound::write::{NewSend, OutboundWrite};
use switchboard_core::time::{HOUR_MS, MINUTE_MS};

/// A listing shows the states and the sender that are asked for, newest first, in pages.
pub async fn listings_show_what_is_asked_for(bench: Bench<'_>) {
    use SendState::{Answered, Dead, Delivered, Held, Sending, Unknown};
    let mut plane = Plane::new(bench).await;
    let other = plane.bench.instance("eve").await;
    let base = plane.notice("ada");
    plane.submit(&NewSend { hold: hold("apr_1", plane.bench.now), ..base }).await; // 1 held
    for _ in 0..2 {
        let new = plane.notice("ada");
        plane.submit(&new).await; // 2, 3 delivered
    }
    plane.deliver().await;
    let new = NewSend { instance: other, ..plane.notice("bob") };
    plane.submit(&new).await; // 4 dead
    let attempt = plane.claim_one().await;
    plane.finish(&attempt, failed()).await;
    let new = plane.notice("bob");
    plane.submit(&new).await; // 5 unknown
    let attempt = plane.claim_one().await;
    plane.finish(&attempt, super::plane::unknown()).await;
    let new = plane.question("bob");
    plane.submit(&new).await; // 6 sending
    let listed = async |states: &[SendState], instance, before, limit| {
        let filter = SendFilter { states: states.to_vec(), instance, before, limit, channel: None };
        rows(plane.store(), filter).await.into_iter().map(|row| row.no).collect::<Vec<_>>()
    };
    assert_eq!(listed(&[], None, None, 100).await, [6, 5, 4, 3, 2, 1]);
    assert_eq!(listed(&[], None, None, 2).await, [6, 5]);
    assert_eq!(listed(&[], None, Some(5), 2).await, [4, 3]);
    assert_eq!(listed(&[Held, Sending], None, None, 100).await, [6, 1]);
    assert_eq!(listed(&[Dead, Unknown], None, None, 100).await, [5, 4]);
    assert_eq!(listed(&[Dead, Delivered, Held], None, None, 100).await, [4, 3, 2, 1]);
    assert_eq!(listed(&[Delivered], None, Some(3), 100).await, [2]);
    assert_eq!(listed(&[Answered], None, None, 100).await, Vec::<i64>::new());
    assert_eq!(listed(&[], Some(other), None, 100).await, [4]);
    assert_eq!(listed(&[Held], Some(other), None, 100).await, Vec::<i64>::new());
    assert_eq!(plane.store().outbound().send("snd_none".into()).await.expect("readable"), None);
    assert_eq!(plane.store().outbound().send_by_no(99).await.expect("readable"), None);
    assert!(plane.store().outbound().topic("top_none".into()).await.expect("readable").is_none());
    assert!(plane.store().outbound().approval("apr_none".into()).await.expect("readable").is_none());
    plane.balanced().await;
}

/// What is due, and when something ends, to the millisecond.
pub async fn the_next_times_are_exact(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let now = plane.bench.now;
    let due =
        async |plane: &Plane<'_>| plane.store().outbound().next_due(CHAT.into()).await.expect("readable");
    let end = async |plane: &Plane<'_>| plane.store().outbound().next_end().await.expect("readable");
    assert_eq!((due(&plane).await, end(&plane).await), (None, None));
    let mail = NewSend { channel: MAIL.into(), to: direct("ada@example.org"), ..plane.notice("x") };
    plane.submit(&mail).await;
    assert_eq!((due(&plane).await, end(&plane).await), (None, None), "another channel's");
    let new = NewSend { deadline_ms: Some(now + 2 * HOUR_MS), ..plane.notice("ada") };
    plane.submit(&new).await;
    assert_eq!((due(&plane).await, end(&plane).await), (Some(now), Some(now + 2 * HOUR_MS)));
    let attempt = plane.claim_one().await;
    assert_eq!((due(&plane).await, end(&plane).await), (None, None), "under way");
    plane.finish(&attempt, again(now + 77)).await;
    assert_eq!(due(&plane).await, Some(now + 77));
    let base = plane.notice("bob");
    let held = NewSend { hold: hold("apr_1", now), ..base };
    plane.submit(&held).await;
    assert_eq!(end(&plane).await, Some(now + HOUR_MS), "the approval's");
    let queued = NewSend { deadline_ms: Some(now + MINUTE_MS), ..plane.question("bob") };
    plane.submit(&queued).await;
    assert_eq!(end(&plane).await, Some(now + MINUTE_MS));
    plane.bench.now = now + 77;
    plane.deliver().await;
    assert_eq!(end(&plane).await, Some(now + MINUTE_MS), "open until it is answered");
    plane.hear("bob", "yes").await;
    assert_eq!((due(&plane).await, end(&plane).await), (None, Some(now + HOUR_MS)));
    super::approvals::decide(&mut plane, "apr_1", true).await;
    assert_eq!(end(&plane).await, None);
    let far = NewSend { deadline_ms: Some(i64::MAX), ..plane.notice("ada") };
    plane.submit(&far).await;
    assert_eq!(end(&plane).await, Some(i64::MAX), "far ones wait");
    assert!(plane.expire().await.is_empty());
}

/// Approvals are listed newest first, all or those that wait.
pub async fn approvals_are_listed(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    for id in ["apr_1", "apr_2", "apr_3"] {
        let base = plane.notice("ada");
        plane.submit(&NewSend { hold: hold(id, plane.bench.now), ..base }).await;
    }
    super::approvals::decide(&mut plane, "apr_2", false).await;
    let ids = async |pending, limit| {
        let listed = plane.store().outbound().approvals(pending, limit).await.expect("readable");
        listed.into_iter().map(|(row, send)| (row.approval_id, send.no)).collect::<Vec<_>>()
    };
    let id = |id: &str, no: i64| (id.to_owned(), no);
    assert_eq!(ids(false, 10).await, [id("apr_3", 3), id("apr_2", 2), id("apr_1", 1)]);
    assert_eq!(ids(true, 10).await, [id("apr_3", 3), id("apr_1", 1)]);
    assert_eq!(ids(true, 1).await, [id("apr_3", 3)]);
    assert_eq!(plane.detail("snd_2").await.approval.map(|it| it.approval_id).as_deref(), Some("apr_2"));
}

/// Everything outlives a restart.
pub async fn everything_outlives_a_restart(bench: Bench<'_>) {
    let mut plane = Plane::new(bench).await;
    let base = plane.notice("ada");
    plane.submit(&NewSend { hold: hold("apr_1", plane.bench.now), ..base }).await;
    for to in ["ada", "ada", "bob"] {
        let new = NewSend { deadline_ms: Some(plane.bench.now + HOUR_MS), ..plane.question(to) };
        plane.submit(&new).await;
    }
    let claimed = plane.claim().await;
    plane.finish(&claimed[0], arrived(&claimed[0])).await;
    plane.hear("bob", "stop").await;
    let before = super::plane::picture(plane.store()).await;
    let times = (
        plane.store().outbound().next_due(CHAT.into()).await.expect("readable"),
        plane.store().outbound().next_end().await.expect("readable"),
    );
    plane.bench.restart().await;
    assert_eq!(super::plane::picture(plane.store()).await, before);
    let after = (
        plane.store().outbound().next_due(CHAT.into()).await.expect("readable"),
        plane.store().outbound().next_end().await.expect("readable"),
    );
    assert_eq!(after, times);
    plane.settled(OutboundWrite::Discard { send_id: "snd_1".into(), by: "op".into() }).await;
    plane.balanced().await;
}

/// Reads of a send that changes, and changes to each of them.
const READS: u32 = 40;
const CHANGES: u32 = 5;

/// What is shown of one send is one state of it, however fast it changes.
pub async fn a_send_is_read_whole(bench: Bench<'_>) {
    if bench.restless {
        return; // there would be nobody to ask meanwhile
    }
    let mut plane = Plane::new(bench).await;
    let new = plane.notice("ada");
    plane.submit(&new).await;
    let store = plane.bench.shared();
    let (reads, done) = (Cell::new(0), Cell::new(false));
    let write = async {
        for change in 0..READS * CHANGES {
            let attempt = plane.claim_one().await;
            let now = plane.bench.now;
            plane.finish(&attempt, again(now)).await;
            // Whoever reads keeps up: its wake-ups are this task's too.
            poll_fn(|_| if change < (reads.get() + 1) * CHANGES { Poll::Ready(()) } else { Poll::Pending })
                .await;
        }
        done.set(true);
    };
    let read = async {
        while !done.get() {
            let detail = store.outbound().send(new.send_id.clone()).await.expect("readable").expect("there");
            let part = &detail.parts[0];
            let running = usize::from(part.state == PartState::Attempting);
            assert_eq!(detail.attempts.len() + running, part.attempt as usize, "{detail:?}");
            reads.set(reads.get() + 1);
        }
    };
    futures_util::future::join(write, read).await;
    assert!(reads.get() + 1 >= READS, "it was read while it changed: {}", reads.get());
}
