//! Pages and search.

use super::bench::{Bench, START_MS, finding, in_channel, to};
use bytes::Bytes;
use switchboard_core::event::EventKind;
use switchboard_core::ids::{EventId, InstanceNo, StreamId};
use switchboard_core::limits::{FOLLOW_PAGE_MAX, SWEEP_ROWS_MAX};
use switchboard_core::port::store::SearchScope;
use switchboard_core::time::MINUTE_MS;
use switchboard_core::write::{Append, Write};

fn saying(from: InstanceNo, text: &str) -> Append {
    let body = serde_json::json!({ "text": text });
    Append { data: Bytes::from(format!(r#""type":"finding","body":{body}"#)), ..finding(from) }
}

/// Pages are bounded in rows and bytes, give one row at least, and fit together without a gap, with events of one stamp as
/// with others (fault B44).
pub async fn pages_are_bounded_and_fit_together(mut bench: Bench<'_>) {
    let me = bench.instance("ann").await;
    let writes = (0..500).map(|at| Write::Append(saying(me, &format!("{at:0>100}")))).collect();
    bench.commit(writes).await;
    bench.append(in_channel(saying(me, "elsewhere"), "other")).await;
    let stream = bench.channel("general").await.expect("it exists").id;
    let page = async |bench: &Bench<'_>, after, limit, bytes| {
        bench.store().page(stream, after, limit, bytes).await.expect("pages are readable")
    };
    let (mut seqs, mut after) = (Vec::new(), 0);
    loop {
        let page = page(&bench, after, 7, usize::MAX).await;
        assert_eq!((page.head, page.first), (500, 1));
        let Some(last) = page.events.last() else { break };
        after = last.id.seq;
        seqs.extend(page.events.iter().map(|event| event.id.seq));
    }
    assert_eq!(seqs, (1..=500).collect::<Vec<_>>());
    assert_eq!(page(&bench, 0, FOLLOW_PAGE_MAX, usize::MAX).await.events.len(), FOLLOW_PAGE_MAX);
    let bytes = bench.all(stream).await[0].data.len();
    assert_eq!(page(&bench, 0, 100, 10 * bytes).await.events.len(), 10);
    assert_eq!(page(&bench, 0, 100, 1).await.events.len(), 1, "one row at least");
    assert_eq!(page(&bench, 0, 100, 0).await.events.len(), 1);
    // A cursor ahead of the stream is the head; one of a stream that is not there is empty.
    for ahead in [500, 501, u64::MAX] {
        assert_eq!(page(&bench, ahead, 10, usize::MAX).await.events, []);
    }
    let nowhere = bench.store().page(StreamId(4000), 0, 10, 1000).await.expect("readable");
    assert_eq!((nowhere.events.len(), nowhere.head, nowhere.first), (0, 0, 1));
}

/// Events come back byte for byte, in the order asked for, with holes where there is none.
pub async fn events_come_back_as_they_were(mut bench: Bench<'_>) {
    let (me, you) = (bench.instance("ann").await, bench.instance("ben").await);
    bench.announce(you, "helper").await;
    let odd = Append {
        kind: EventKind::Publish,
        data: Bytes::from((0..=255).collect::<Vec<u8>>()),
        from_agent: "a\u{0}'\"é\u{1F600}".into(),
        ..finding(me)
    };
    let first = bench.append(odd.clone()).await.id;
    let direct = bench.append(to(Append { data: Bytes::new(), ..odd.clone() }, "helper", None)).await.id;
    bench.restart().await;
    let missing = EventId { stream: first.stream, seq: 77 };
    let ids = vec![direct, missing, first, direct];
    let events = bench.store().events(ids).await.expect("events are readable");
    assert_eq!(events[1], None);
    let stored = events[2].clone().expect("it stands");
    assert_eq!((stored.data, stored.from_agent, stored.kind), (odd.data, odd.from_agent, EventKind::Publish));
    assert_eq!(events[0].as_ref().and_then(|event| event.to.clone()).map(|to| to.instance), Some(you));
    assert_eq!(events[0], events[3]);
    let heard = bench.heard.events();
    assert_eq!(events[2].as_ref(), Some(&*heard[0]));
}

async fn search(
    bench: &Bench<'_>,
    words: &str,
    streams: &[StreamId],
    reader: Option<InstanceNo>,
) -> Vec<EventId> {
    caught_up(bench).await;
    let scope = SearchScope { streams: streams.to_vec(), instance: reader };
    bench.store().search(words.into(), scope, 10).await.expect("search answers")
}

// The index follows behind: waits until it has seen everything, and fails when it never does.
async fn caught_up(bench: &Bench<'_>) {
    let waiting = async {
        while bench.store().stats().await.expect("readable").search_lag > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), waiting).await.expect("the index catches up");
}

/// Search finds messages that hold all words, newest first, in the streams it is asked about, and nothing that was for
/// somebody else.
pub async fn search_finds_what_the_reader_may_see(mut bench: Bench<'_>) {
    let (me, you, third) =
        (bench.instance("ann").await, bench.instance("ben").await, bench.instance("cleo").await);
    bench.announce(you, "helper").await;
    let mut ids = Vec::new();
    for append in [
        saying(me, "The retry budget is Größe seven"),
        saying(me, "budget without the other word"),
        in_channel(saying(me, "retry elsewhere, budget too"), "other"),
        to(saying(me, "secret retry budget"), "helper", None),
    ] {
        bench.now += 1;
        ids.push(bench.append(append).await.id);
    }
    let streams = [ids[0].stream, ids[2].stream];
    assert_eq!(search(&bench, "retry budget", &streams, Some(third)).await, [ids[2], ids[0]]);
    assert_eq!(search(&bench, "BUDGET retry", &streams, Some(you)).await, [ids[3], ids[2], ids[0]]);
    assert_eq!(search(&bench, "secret", &streams, Some(me)).await, [ids[3]], "one's own");
    assert_eq!(search(&bench, "retry budget", &streams, None).await, [ids[3], ids[2], ids[0]]);
    assert_eq!(search(&bench, "retry", &streams[1..], None).await, [ids[2]]);
    assert_eq!(search(&bench, "grosse", &streams, None).await, [], "ß is not ss");
    assert_eq!(search(&bench, "groß", &streams, None).await, [], "whole words only");
    assert_eq!(search(&bench, "GROßE", &streams, None).await, [ids[0]], "accents do not count");
    for nothing in ["", "  ", "\"", "* OR", "NEAR(", "absent", "body", "finding"] {
        assert_eq!(search(&bench, nothing, &streams, None).await, [], "{nothing}");
    }
    let scope = SearchScope { streams: streams.to_vec(), instance: None };
    let newest = bench.store().search("budget".into(), scope, 2).await.expect("search answers");
    assert_eq!(newest, [ids[3], ids[2]]);
}

/// What retention removed is not found, and the index outlives restarts.
pub async fn search_forgets_what_retention_removed(mut bench: Bench<'_>) {
    let me = bench.instance("ann").await;
    let short = Append { expires_at_ms: START_MS + MINUTE_MS, ..saying(me, "alpha one") };
    let first = bench.append(short).await.id;
    let second = bench.append(saying(me, "alpha two")).await.id;
    assert_eq!(search(&bench, "alpha", &[first.stream], None).await, [second, first]);
    bench.restart().await;
    bench.now = START_MS + MINUTE_MS;
    bench.one(Write::Sweep { limit: SWEEP_ROWS_MAX }).await;
    assert_eq!(search(&bench, "alpha", &[first.stream], None).await, [second]);
    let third = bench.append(saying(me, "alpha three")).await.id;
    assert_eq!(search(&bench, "alpha", &[first.stream], None).await, [third, second]);
}

/// A copy holds everything that was answered before it was asked for, and its target must not exist.
pub async fn a_backup_is_whole(mut bench: Bench<'_>) {
    let me = bench.instance("ann").await;
    bench.commit((0..300).map(|at| Write::Append(saying(me, &format!("m{at}")))).collect()).await;
    let dir = tempfile::tempdir().expect("a directory for the copy");
    let target = dir.path().join("copy");
    bench.store().backup(target.clone()).await.expect("the copy is made");
    assert!(std::fs::metadata(&target).expect("it is there").len() > 0);
    let again = bench.store().backup(target.clone()).await;
    assert!(again.is_err(), "an existing file is not overwritten");
    assert_eq!(bench.append(finding(me)).await.id.seq, 301);
}
