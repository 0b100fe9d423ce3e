//! Appending: sequences, deduplication, channels, deadlines, senders.

use super::bench::{Bench, START_MS, VAULT, appended, finding, in_channel, question, to, with_id};
use switchboard_core::ids::VaultId;
use switchboard_core::limits::CHANNELS_PER_VAULT_MAX;
use switchboard_core::time::{DAY_MS, MINUTE_MS};
use switchboard_core::write::{Append, Appended, Batch, Outcome, Refusal, StreamRef, Write};

/// Sequences start at 1 and rise by 1, across batches and restarts, and each stream has its own.
pub async fn sequences_start_at_one_and_have_no_gaps(mut bench: Bench<'_>) {
    let me = bench.instance("ann").await;
    for expected in 1..=20 {
        let general = bench.append(finding(me)).await;
        assert_eq!(general.id.seq, expected);
        assert_eq!((general.thread, general.at_ms, general.repeat), (general.id, bench.now, false));
        if expected % 4 == 0 {
            assert_eq!(bench.append(in_channel(finding(me), "other")).await.id.seq, expected / 4);
        }
        if expected == 10 {
            bench.restart().await;
        }
    }
    let stream = bench.channel("general").await.expect("the channel exists");
    assert_eq!((stream.head, stream.first), (20, 1));
    let seqs: Vec<_> = bench.all(stream.id).await.iter().map(|event| event.id.seq).collect();
    assert_eq!(seqs, (1..=20).collect::<Vec<_>>());
}

/// Many callers at a time leave no gap and lose nothing; each caller's batches stand in the order of its calls.
pub async fn concurrent_callers_leave_no_gap(mut bench: Bench<'_>) {
    const CALLERS: u64 = 8;
    const BATCHES: u64 = 26;
    const SMALL: u64 = 2;
    const LARGE: u64 = 6;
    const SENT: u64 = CALLERS * BATCHES / 2 * (SMALL + LARGE);
    let mut callers = Vec::new();
    let second = bench.second().await;
    for caller in 0..CALLERS {
        let me = bench.instance(&format!("caller{caller}")).await;
        callers.push(me);
    }
    let stores = [bench.shared(), second.unwrap_or_else(|| bench.shared())];
    let now = bench.now;
    let tasks = callers.iter().enumerate().map(|(at, me)| {
        let (store, me) = (stores[at % 2].clone(), *me);
        tokio::spawn(async move {
            let mut calls = Vec::new();
            for batch in 0..BATCHES {
                // Small and large ones by turns: a backend may treat them differently.
                let size = if batch % 2 == 0 { SMALL } else { LARGE };
                let append = |at_batch| with_id(finding(me), &format!("{at}-{batch}-{at_batch}"), 1);
                let writes = (0..size).map(|at_batch| Write::Append(append(at_batch))).collect();
                // Called without waiting: the order of the calls must be the order in the stream.
                calls.push(store.commit(Batch { at_ms: now, writes }));
            }
            let mut places = Vec::new();
            for call in calls {
                places
                    .extend(call.await.expect("the commit succeeds").iter().map(|out| appended(out).id.seq));
            }
            places
        })
    });
    let places = futures_util::future::try_join_all(tasks).await.expect("no caller panics");
    for of_caller in &places {
        assert!(of_caller.is_sorted(), "a caller's batches are out of order: {of_caller:?}");
    }
    let mut all: Vec<_> = places.into_iter().flatten().collect();
    all.sort_unstable();
    assert_eq!(all, (1..=SENT).collect::<Vec<_>>());
    let stream = bench.channel("general").await.expect("the channel exists");
    assert_eq!(stream.head, SENT);
}

/// A listener hears every event once, in the order of the streams, before the commit is answered.
pub async fn the_listener_hears_each_event_once(mut bench: Bench<'_>) {
    let me = bench.instance("ann").await;
    for _ in 0..5 {
        let outcomes = bench
            .commit(vec![Write::Append(finding(me)), Write::Append(in_channel(finding(me), "other"))])
            .await;
        let heard = bench.heard.events();
        let last: Vec<_> = heard[heard.len() - 2..].iter().map(|event| event.id).collect();
        assert_eq!(last, outcomes.iter().map(|outcome| appended(outcome).id).collect::<Vec<_>>());
    }
    let heard = bench.heard.events();
    assert_eq!(heard.len(), 10);
    for event in heard {
        assert_eq!(bench.event(event.id).await.as_ref(), Some(&*event), "heard what was stored");
    }
}

/// A resend gets the first answer again and stores nothing, whenever and however often it comes (fault B01): within a
/// batch, after a restart, after retention removed the message.
pub async fn a_repeat_gets_the_first_answer(mut bench: Bench<'_>) {
    let me = bench.instance("ann").await;
    let mine = Append { expires_at_ms: START_MS + MINUTE_MS * 30, ..with_id(finding(me), "c1", 1) };
    let outcomes = bench.commit(vec![Write::Append(mine.clone()), Write::Append(mine.clone())]).await;
    let first = appended(&outcomes[0]);
    let repeat = Appended { repeat: true, ..first };
    assert_eq!(appended(&outcomes[1]), repeat);
    let before = bench.commits().await;
    for minute in 1..=60 {
        bench.now = START_MS + minute * MINUTE_MS;
        if minute == 20 {
            bench.restart().await;
        }
        if minute == 40 {
            let swept = bench.one(Write::Sweep { limit: 100 }).await;
            assert!(matches!(swept, Outcome::Swept(1..)), "{swept:?}");
            assert_eq!(bench.event(first.id).await, None, "retention removed it");
        }
        let resent = Append { expires_at_ms: bench.now + DAY_MS, ..mine.clone() };
        assert_eq!(bench.append(resent).await, repeat);
    }
    assert_eq!(bench.commits().await, before + 1, "only the sweep was a change");
    assert_eq!(bench.channel("general").await.expect("it exists").head, 1);
}

/// The same id with other content is a conflict; another instance's ids are its own (fault B03).
pub async fn one_id_for_two_contents_is_refused(mut bench: Bench<'_>) {
    let (me, you) = (bench.instance("ann").await, bench.instance("ben").await);
    let first = bench.append(with_id(finding(me), "c1", 1)).await;
    assert_eq!(bench.refused(Write::Append(with_id(finding(me), "c1", 2))).await, Refusal::IdReused);
    let elsewhere = in_channel(with_id(finding(me), "c1", 3), "other");
    assert_eq!(bench.refused(Write::Append(elsewhere)).await, Refusal::IdReused);
    let yours = bench.append(with_id(finding(you), "c1", 2)).await;
    assert_eq!((yours.id.seq, yours.repeat), (first.id.seq + 1, false));
}

/// Several ids are remembered, in whatever order they come again (fault B04).
pub async fn every_id_is_remembered(mut bench: Bench<'_>) {
    let me = bench.instance("ann").await;
    let ids: Vec<_> = (0..50).map(|number| format!("c{}", number * 7919 % 101)).collect();
    let write = |id: &String| Write::Append(with_id(finding(me), id, 1));
    let first: Vec<_> = bench.commit(ids.iter().map(write).collect()).await.iter().map(appended).collect();
    bench.restart().await;
    let again: Vec<_> =
        bench.commit(ids.iter().rev().map(write).collect()).await.iter().map(appended).collect();
    let expected: Vec<_> = first.iter().rev().map(|first| Appended { repeat: true, ..*first }).collect();
    assert_eq!(again, expected);
}

/// A repeat is recognised before anything else is looked at: what has changed since does not matter.
pub async fn a_repeat_is_seen_before_all_else(mut bench: Bench<'_>) {
    let (me, you) = (bench.instance("ann").await, bench.instance("ben").await);
    bench.announce(you, "helper").await;
    let asked = to(with_id(question(me), "c1", 1), "helper", None);
    let first = bench.append(asked.clone()).await;
    // Since then the recipient has gone, the deadline has passed and the sender was revoked.
    bench.now = START_MS + 3 * DAY_MS;
    for id in ["inst_ann", "inst_ben"] {
        bench.one(Write::RevokeInstance { instance_id: id.into() }).await;
    }
    assert_eq!(bench.append(asked).await, Appended { repeat: true, ..first });
}

/// A client's id is remembered for 30 days at least, and as long as its message stands.
pub async fn ids_are_forgotten_only_after_thirty_days(mut bench: Bench<'_>) {
    let me = bench.instance("ann").await;
    let short = Append { expires_at_ms: START_MS + DAY_MS, ..with_id(finding(me), "short", 1) };
    let long = Append { expires_at_ms: START_MS + 60 * DAY_MS, ..with_id(finding(me), "long", 1) };
    bench.append(short.clone()).await;
    bench.append(in_channel(long.clone(), "other")).await;
    let made_ms = bench.now;
    for (day, short_known) in [(29, true), (30, false), (59, false)] {
        bench.now = made_ms + day * DAY_MS;
        bench.one(Write::Sweep { limit: 500 }).await;
        let fresh = |append: &Append| Append { expires_at_ms: made_ms + 90 * DAY_MS, ..append.clone() };
        assert_eq!(bench.append(fresh(&short)).await.repeat, short_known || day == 59, "day {day}");
        assert!(bench.append(in_channel(fresh(&long), "other")).await.repeat, "day {day}");
    }
}

/// A refused write changes nothing and does not hinder those before and behind it.
pub async fn a_refusal_hinders_nobody(mut bench: Bench<'_>) {
    let me = bench.instance("ann").await;
    let nowhere = StreamRef::Channel { vault: VaultId([9; 16]), name: "general".into() };
    let outcomes = bench
        .commit(vec![
            Write::Append(with_id(finding(me), "a", 1)),
            Write::Append(Append { stream: nowhere, ..with_id(finding(me), "b", 1) }),
            Write::Append(with_id(finding(me), "a", 2)),
            Write::Append(with_id(finding(me), "c", 1)),
        ])
        .await;
    assert_eq!(outcomes[1], Outcome::Refused(Refusal::NotFound));
    assert_eq!(outcomes[2], Outcome::Refused(Refusal::IdReused));
    assert_eq!(appended(&outcomes[0]).id.seq, 1);
    assert_eq!(appended(&outcomes[3]).id.seq, 2);
    // The refused one's id is free.
    assert!(!bench.append(with_id(finding(me), "b", 9)).await.repeat);
}

/// Channels are made on first use in a vault that exists, up to a bound; a refused append makes none.
pub async fn channels_are_made_on_first_use(mut bench: Bench<'_>) {
    let me = bench.instance("ann").await;
    assert_eq!(bench.channel("general").await, None);
    let late = Append { deadline_ms: Some(bench.now), ..question(me) };
    assert_eq!(bench.refused(Write::Append(late)).await, Refusal::DeadlinePast);
    assert_eq!(bench.channel("general").await, None, "a refused append makes no channel");
    let writes = (0..CHANNELS_PER_VAULT_MAX)
        .map(|at| Write::Append(in_channel(finding(me), &format!("c{at}"))))
        .collect();
    bench.commit(writes).await;
    assert_eq!(bench.store().channels(vec![VAULT]).await.expect("readable").len(), CHANNELS_PER_VAULT_MAX);
    let full = Refusal::Full { what: "channels", limit: CHANNELS_PER_VAULT_MAX as u64 };
    assert_eq!(bench.refused(Write::Append(in_channel(finding(me), "one-more"))).await, full);
    assert_eq!(bench.append(in_channel(finding(me), "c5")).await.id.seq, 2);
}

/// A deadline lies in the future.
pub async fn a_deadline_is_in_the_future(mut bench: Bench<'_>) {
    let me = bench.instance("ann").await;
    for deadline in [bench.now, bench.now - 1, 0] {
        let late = Append { deadline_ms: Some(deadline), ..question(me) };
        assert_eq!(bench.refused(Write::Append(late)).await, Refusal::DeadlinePast);
    }
    let soon = Append { deadline_ms: Some(bench.now + 1), ..question(me) };
    assert_eq!(bench.append(soon).await.id.seq, 1);
}

/// An instance that was revoked, or never was, sends nothing.
pub async fn only_live_instances_send(mut bench: Bench<'_>) {
    let me = bench.instance("ann").await;
    bench.append(finding(me)).await;
    bench.one(Write::RevokeInstance { instance_id: "inst_ann".into() }).await;
    assert_eq!(bench.refused(Write::Append(finding(me))).await, Refusal::NotYours);
    let nobody = switchboard_core::ids::InstanceNo(9999);
    assert_eq!(bench.refused(Write::Append(finding(nobody))).await, Refusal::NotYours);
}
