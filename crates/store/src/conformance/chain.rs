//! The log, its chain, and the store's life: epochs, probes, backups, closing.

use super::bench::{Bench, START_MS, VAULT, finding, genesis, new_instance, with_id};
use bytes::Bytes;
use switchboard_core::digest::Digest;
use switchboard_core::log::{Checkpoint, Entry, GENESIS, Record, event_digest, record_digest};
use switchboard_core::port::store::StoreError;
use switchboard_core::write::{Append, Batch, Outcome, Receipt, ReceiptState, Refusal, Write};

/// Recomputes the chain and every event's digest; returns the log.
async fn verified(bench: &Bench<'_>) -> Vec<Record> {
    let records = bench.store().log(0, 1_000_000).await.expect("the log is readable");
    let mut chain: Digest = GENESIS;
    for (at, record) in records.iter().enumerate() {
        assert_eq!(record.commit, at as u64 + 1, "commits have no gap");
        chain = record_digest(&chain, record.commit, record.at_ms, &record.entries);
        assert_eq!(record.digest, chain, "commit {}", record.commit);
        for entry in Entry::decode_all(&record.entries).expect("entries decode") {
            let Entry::Event { id, kind, digest, .. } = entry else { continue };
            let event = bench.event(id).await.expect("the event stands");
            assert_eq!((event.kind, event_digest(&event)), (kind, digest));
        }
    }
    records
}

/// Every commit adds one record that covers what was admitted in it, and the chain covers every record.
pub async fn every_commit_is_chained(mut bench: Bench<'_>) {
    let (me, you) = (bench.instance("ann").await, bench.instance("ben").await);
    bench.announce(you, "helper").await;
    let before = bench.commits().await;
    let writes = vec![
        Write::Append(finding(me)),
        Write::Append(with_id(finding(you), "c", 1)),
        Write::Append(finding(me)),
    ];
    bench.commit(writes).await;
    bench.restart().await;
    let records = verified(&bench).await;
    assert_eq!(records.len() as u64, before + 1, "one record for the batch");
    let last = records.last().expect("there is one");
    assert_eq!(last.at_ms, bench.now);
    let entries = Entry::decode_all(&last.entries).expect("entries decode");
    assert_eq!(entries.len(), 3);
    assert!(matches!(&entries[1], Entry::Event { by, id, .. } if *by == Some(you) && id.seq == 2));
    let event = bench.heard.events().pop().expect("heard");
    let receipt = Receipt { event: event.id, instance: you, agent: "a".into(), state: ReceiptState::Read };
    for write in [Write::Receipt(receipt), Write::CreateInstance(new_instance("i", None))] {
        let verb = write.verb();
        bench.one(write).await;
        let entries = bench.entries().await;
        assert!(matches!(entries.last(), Some(Entry::Admitted { verb: logged, .. }) if logged == verb));
    }
    let stats = bench.store().stats().await.expect("readable");
    assert_eq!((stats.commits, stats.streams), (verified(&bench).await.len() as u64, 1));
    assert!(stats.db_bytes > 0);
}

/// The digest in the log tells a changed message from the one that was stored, whatever was changed.
pub async fn a_flipped_bit_is_found(mut bench: Bench<'_>) {
    let me = bench.instance("ann").await;
    let id = bench.append(with_id(finding(me), "c", 1)).await.id;
    let entries = bench.entries().await;
    let logged = entries.iter().find_map(|entry| match entry {
        Entry::Event { id: of, digest, .. } if *of == id => Some(*digest),
        _ => None,
    });
    let stored = bench.event(id).await.expect("it stands");
    assert_eq!(logged, Some(event_digest(&stored)));
    for at in 0..stored.data.len() * 8 {
        let mut data = stored.data.to_vec();
        data[at / 8] ^= 1 << (at % 8);
        let mut flipped = stored.clone();
        flipped.data = Bytes::from(data);
        assert_ne!(logged, Some(event_digest(&flipped)), "bit {at}");
    }
    let mut later = stored.clone();
    later.expires_at_ms += 1;
    assert_ne!(logged, Some(event_digest(&later)));
}

/// Entries from above stand in the log as they were given.
pub async fn notes_from_above_stand_in_the_log(mut bench: Bench<'_>) {
    let entries = vec![
        Entry::admitted("token.create", "inst_a", "inst_b"),
        Entry::Refused {
            verb: "bus.message".into(),
            actor: "inst_a".into(),
            why: "not_found/to".into(),
            count: 3,
        },
    ];
    assert_eq!(bench.one(Write::Log(entries.clone())).await, Outcome::Done);
    let logged = bench.entries().await;
    assert_eq!(logged[logged.len() - 2..], entries);
    verified(&bench).await;
}

/// A checkpoint speaks of a record as it is, and is kept with its signature.
pub async fn checkpoints_speak_of_records(mut bench: Bench<'_>) {
    bench.instance("ann").await;
    let record = verified(&bench).await.pop().expect("there is one");
    let good = Checkpoint { commit: record.commit, digest: record.digest, signature: [9; 64] };
    for wrong in [
        Checkpoint { digest: [0; 32], ..good.clone() },
        Checkpoint { commit: record.commit + 5, ..good.clone() },
    ] {
        assert_eq!(bench.refused(Write::Checkpoint(wrong)).await, Refusal::NotFound);
    }
    assert_eq!(bench.one(Write::Checkpoint(good.clone())).await, Outcome::Done);
    let before = bench.commits().await;
    assert_eq!(bench.one(Write::Checkpoint(good.clone())).await, Outcome::Done);
    assert_eq!(bench.commits().await, before, "again is no change");
    bench.restart().await;
    assert_eq!(bench.store().checkpoints(0, 10).await.expect("readable"), std::slice::from_ref(&good));
    assert_eq!(bench.store().checkpoints(good.commit, 10).await.expect("readable"), []);
    verified(&bench).await;
}

/// Pages of the log fit together.
pub async fn the_log_is_read_in_pages(mut bench: Bench<'_>) {
    let me = bench.instance("ann").await;
    for _ in 0..7 {
        bench.append(finding(me)).await;
    }
    let whole = bench.store().log(0, 1000).await.expect("readable");
    let (mut paged, mut after) = (Vec::new(), 0);
    loop {
        let page = bench.store().log(after, 3).await.expect("readable");
        let Some(last) = page.last() else { break };
        assert!(page.len() <= 3);
        after = last.commit;
        paged.extend(page);
    }
    assert_eq!(paged, whole);
    assert_eq!(bench.store().log(u64::MAX, 3).await.expect("readable"), []);
}

/// A store keeps what it is of; a genesis is for empty stores only; an epoch changes when it is told to.
pub async fn an_installation_is_made_once(mut bench: Bench<'_>) {
    let first = bench.installation.clone();
    assert_eq!((first.org_id.as_str(), first.epoch.as_str()), ("org_test", "e1"));
    assert_eq!((first.owner_name.as_str(), first.hub_instance_id.as_str()), ("Olivia", "inst_hub"));
    let mut other = genesis();
    other.org_id = "org_other".into();
    other.epoch = "e9".into();
    other.keys = switchboard_core::keys::HubKeys::generate(&super::bench::Fixed(8));
    let found = bench.store().open(other).await.expect("it opens");
    assert_eq!((found.org_id, found.epoch), (first.org_id.clone(), first.epoch.clone()));
    assert_eq!(found.keys.root_public(), first.keys.root_public());
    assert_eq!(found.keys.org_salt, first.keys.org_salt);
    assert_eq!(bench.one(Write::NewEpoch { epoch: "e2".into() }).await, Outcome::Done);
    bench.restart().await;
    assert_eq!(bench.installation.epoch, "e2");
    assert_eq!(bench.store().vaults().await.expect("readable")[0].vault, VAULT);
}

/// A probe reaches the disk.
pub async fn a_probe_is_a_commit(mut bench: Bench<'_>) {
    let before = bench.commits().await;
    assert_eq!(bench.one(Write::Probe).await, Outcome::Done);
    assert_eq!(bench.commits().await, before + 1);
    bench.now += 1;
    assert_eq!(bench.one(Write::Probe).await, Outcome::Done);
    verified(&bench).await;
}

/// A batch without writes is answered, and is no commit.
pub async fn an_empty_batch_is_nothing(mut bench: Bench<'_>) {
    let before = bench.commits().await;
    assert_eq!(bench.commit(Vec::new()).await, []);
    assert_eq!(bench.commits().await, before);
}

/// A closed store takes no calls; what was taken before is finished.
pub async fn a_closed_store_takes_no_calls(mut bench: Bench<'_>) {
    let me = bench.instance("ann").await;
    let batch =
        |id: &str| Batch { at_ms: START_MS, writes: vec![Write::Append(with_id(finding(me), id, 1))] };
    let taken: Vec<_> = (0..20).map(|at| bench.store().commit(batch(&format!("c{at}")))).collect();
    bench.store().close().await.expect("it closes");
    for outcome in taken {
        assert!(outcome.await.is_ok(), "taken before it was closed");
    }
    assert!(matches!(bench.store().commit(batch("late")).await, Err(StoreError::Closed)));
    assert!(matches!(bench.store().vaults().await, Err(StoreError::Closed)));
    bench.store().close().await.expect("closing again is nothing");
    bench.restart().await;
    assert_eq!(bench.channel("general").await.expect("it exists").head, 20);
}

/// Every handle on a store tells the same time, which goes on.
pub async fn the_clock_is_the_stores(bench: Bench<'_>) {
    let second = bench.second().await.unwrap_or_else(|| bench.shared());
    let mut times = Vec::new();
    for _ in 0..3 {
        times.push(bench.store().wall_ms().await.expect("readable"));
        times.push(second.wall_ms().await.expect("readable"));
    }
    assert!(times.is_sorted(), "{times:?}");
    assert!(times[0] > 1_600_000_000_000, "milliseconds since 1970: {times:?}");
}

/// Writes at any wall time stand, also when the clock went back.
pub async fn a_clock_that_goes_back_harms_nothing(mut bench: Bench<'_>) {
    let me = bench.instance("ann").await;
    for at_ms in [START_MS + 5000, START_MS, START_MS - 86_400_000, 0] {
        bench.now = at_ms;
        let appended = bench.append(Append { expires_at_ms: at_ms + 10, ..finding(me) }).await;
        assert_eq!(appended.at_ms, at_ms);
    }
    verified(&bench).await;
    let stream = bench.channel("general").await.expect("it exists");
    assert_eq!(stream.head, 4);
}
