//! Receipts, the notices they make, and inbox positions.

use super::bench::{Bench, START_MS, finding, question, to, with_id};
use switchboard_core::event::EventKind;
use switchboard_core::ids::{EventId, InstanceNo, StreamId};
use switchboard_core::port::store::{Notice, NoticeRow, ReceiptRow};
use switchboard_core::time::DAY_MS;
use switchboard_core::write::{Append, Outcome, Receipt, ReceiptState, Refusal, Write};

use ReceiptState::{Delivered, Read};

fn receipt(event: EventId, instance: InstanceNo, agent: &str, state: ReceiptState) -> Write {
    Write::Receipt(Receipt { event, instance, agent: agent.into(), state })
}

const ADVANCED: Outcome = Outcome::Receipt { advanced: true };
const NOTHING_NEW: Outcome = Outcome::Receipt { advanced: false };

async fn notices(bench: &Bench<'_>, instance: InstanceNo, after: i64) -> Vec<NoticeRow> {
    bench.store().notices(instance, after, bench.now, 100).await.expect("notices are readable")
}

fn status(notice: &NoticeRow) -> (EventId, &str, &str, ReceiptState) {
    match &notice.notice {
        Notice::Status { event, client_id, by, state, .. } => (*event, client_id, by, *state),
        Notice::Frame { .. } => panic!("expected a status"),
    }
}

/// A receipt never goes back; saying it again changes nothing (fault B38).
pub async fn receipts_only_move_forward(mut bench: Bench<'_>) {
    let (me, you) = (bench.instance("ann").await, bench.instance("ben").await);
    let event = bench.append(with_id(finding(me), "c1", 1)).await.id;
    assert_eq!(bench.one(receipt(event, you, "helper", Delivered)).await, ADVANCED);
    let delivered_ms = bench.now;
    bench.now += 5;
    let before = bench.commits().await;
    assert_eq!(bench.one(receipt(event, you, "helper", Delivered)).await, NOTHING_NEW);
    assert_eq!(bench.commits().await, before);
    let row = |state, at_ms| ReceiptRow { event, instance: you, agent: "helper".into(), state, at_ms };
    let rows = bench.store().receipts(vec![event]).await.expect("receipts are readable");
    assert_eq!(rows, [row(Delivered, delivered_ms)]);
    assert_eq!(bench.one(receipt(event, you, "helper", Read)).await, ADVANCED);
    for state in [Delivered, Read] {
        assert_eq!(bench.one(receipt(event, you, "helper", state)).await, NOTHING_NEW);
    }
    let rows = bench.store().receipts(vec![event]).await.expect("receipts are readable");
    assert_eq!(rows, [row(Read, bench.now)]);
}

/// Only receivers give receipts, and only for messages they may see.
pub async fn only_receivers_give_receipts(mut bench: Bench<'_>) {
    let (me, you, third) =
        (bench.instance("ann").await, bench.instance("ben").await, bench.instance("cleo").await);
    bench.announce(you, "helper").await;
    let open = bench.append(finding(me)).await.id;
    let direct = bench.append(to(finding(me), "helper", None)).await.id;
    let published = bench.append(Append { kind: EventKind::Publish, ..finding(me) }).await.id;
    let missing = EventId { stream: open.stream, seq: 99 };
    for (event, instance, agent, expected) in [
        (missing, you, "helper", Refusal::NotFound),
        (published, you, "helper", Refusal::NotFound),
        (direct, third, "helper", Refusal::NotFound),
        (direct, you, "another", Refusal::NotYours),
        (direct, me, "sender", Refusal::NotYours),
        (open, me, "sender", Refusal::NotYours),
    ] {
        assert_eq!(bench.refused(receipt(event, instance, agent, Read)).await, expected, "{event:?} {agent}");
    }
    assert_eq!(bench.one(receipt(direct, you, "helper", Delivered)).await, ADVANCED);
    for (instance, agent) in [(you, "helper"), (you, "another"), (third, "helper"), (me, "colleague")] {
        assert_eq!(bench.one(receipt(open, instance, agent, Read)).await, ADVANCED);
    }
}

/// The sender gets one notice per message and receiver. It changes its number when it changes, so that marking the older
/// one as sent does not lose what came since.
pub async fn the_sender_is_told_how_far_receivers_got(mut bench: Bench<'_>) {
    let (me, you) = (bench.instance("ann").await, bench.instance("ben").await);
    let event = bench.append(with_id(finding(me), "c1", 1)).await.id;
    bench.one(receipt(event, you, "helper", Delivered)).await;
    let first = notices(&bench, me, 0).await;
    assert_eq!(first.iter().map(status).collect::<Vec<_>>(), [(event, "c1", "helper", Delivered)]);
    assert_eq!(first[0].agent, "sender");
    bench.one(receipt(event, you, "helper", Read)).await;
    bench.one(Write::NoticesSent { notices: vec![first[0].number] }).await;
    let second = notices(&bench, me, first[0].number).await;
    assert_eq!(second.iter().map(status).collect::<Vec<_>>(), [(event, "c1", "helper", Read)]);
    assert_eq!(notices(&bench, me, 0).await, second);
    bench.one(receipt(event, you, "another", Read)).await;
    assert_eq!(notices(&bench, me, 0).await.len(), 2);
    assert_eq!(notices(&bench, you, 0).await, []);
    let numbers = notices(&bench, me, 0).await.iter().map(|notice| notice.number).collect();
    bench.one(Write::NoticesSent { notices: numbers }).await;
    bench.restart().await;
    assert_eq!(notices(&bench, me, 0).await, []);
    // Numbers are not used twice: a reader that has seen up to one misses nothing behind it.
    let next = bench.append(with_id(finding(me), "c2", 1)).await.id;
    bench.one(receipt(next, you, "helper", Read)).await;
    assert!(notices(&bench, me, 0).await[0].number > second[0].number);
}

/// A notice is over with its message.
pub async fn notices_end_with_their_message(mut bench: Bench<'_>) {
    let (me, you) = (bench.instance("ann").await, bench.instance("ben").await);
    let short = Append { expires_at_ms: START_MS + DAY_MS, ..finding(me) };
    let event = bench.append(short).await.id;
    bench.one(receipt(event, you, "helper", Read)).await;
    bench.now = START_MS + DAY_MS;
    assert_eq!(notices(&bench, me, 0).await, [], "computed when read, swept or not");
    bench.one(Write::Sweep { limit: 100 }).await;
    assert_eq!(bench.store().receipts(vec![event]).await.expect("receipts are readable"), []);
    assert_eq!(bench.refused(receipt(event, you, "helper", Read)).await, Refusal::NotFound);
}

/// What an agent has been handed and has not read, oldest first.
pub async fn unread_is_what_was_handed_and_not_read(mut bench: Bench<'_>) {
    let (me, you) = (bench.instance("ann").await, bench.instance("ben").await);
    let mut events = Vec::new();
    for _ in 0..4 {
        events.push(bench.append(question(me)).await.id);
    }
    for event in [events[2], events[0], events[1]] {
        bench.now += 1;
        bench.one(receipt(event, you, "helper", Delivered)).await;
    }
    bench.one(receipt(events[0], you, "helper", Read)).await;
    let unread = async |bench: &Bench<'_>, agent: &str, limit| {
        bench.store().unread(you, agent.into(), limit).await.expect("readable")
    };
    assert_eq!(unread(&bench, "helper", 10).await, [events[2], events[1]]);
    assert_eq!(unread(&bench, "helper", 1).await, [events[2]]);
    assert_eq!(unread(&bench, "another", 10).await, []);
}

/// An inbox moves forward only, and never past what was appended; marks, which are in no stream, are kept.
pub async fn inboxes_only_move_forward(mut bench: Bench<'_>) {
    const MARK: u32 = 1 << 31;
    let me = bench.instance("ann").await;
    let mut stream = StreamId(0);
    for _ in 0..5 {
        stream = bench.append(finding(me)).await.id.stream;
    }
    let advance = |to| Write::AdvanceInbox {
        instance: me,
        agent: "a".into(),
        positions: vec![(stream, to), (StreamId(4000), 3), (StreamId(MARK), 1)],
    };
    for (to, expected) in [(3, 3), (2, 3), (3, 3), (900, 5), (4, 5)] {
        assert_eq!(bench.one(advance(to)).await, Outcome::Done);
        let inbox = bench.store().inbox(me, "a".into()).await.expect("inboxes are readable");
        assert_eq!(inbox, [(stream, expected), (StreamId(MARK), 1)]);
    }
    assert_eq!(bench.store().inbox(me, "b".into()).await.expect("inboxes are readable"), []);
}
