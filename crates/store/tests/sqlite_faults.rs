//! The embedded store when things go wrong: a second hub, a newer or damaged database, a full disk, a defective write.

use bytes::Bytes;
use rusqlite::Connection;
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use switchboard_core::digest::Digest;
use switchboard_core::event::StoredEvent;
use switchboard_core::ids::{EventId, InstanceNo, StreamId};
use switchboard_core::log::{Entry, event_digest};
use switchboard_core::port::store::{CommitListener, SearchScope, Store, StoreError};
use switchboard_core::write::{Append, Batch, Outcome, Write};
use switchboard_store::conformance::bench::{
    START_MS, appended, finding, genesis, instance_of, new_instance, with_id,
};
use switchboard_store::sqlite::{MigrateError, OpenError, Options, SqliteStore};

fn options() -> Options {
    Options { wal_bytes: 1 << 20, readers: 2, ..Options::default() }
}

async fn open(dir: &Path, options: Options) -> SqliteStore {
    let store = SqliteStore::open_dir(dir, options).expect("the store opens");
    store.open(genesis()).await.expect("the installation is there");
    store
}

async fn commit(store: &SqliteStore, writes: Vec<Write>) -> Result<Vec<Outcome>, StoreError> {
    store.commit(Batch { at_ms: START_MS, writes }).await
}

async fn sender(store: &SqliteStore) -> InstanceNo {
    let made = commit(store, vec![Write::CreateInstance(new_instance("inst_a", None))]).await;
    instance_of(&made.expect("it is made")[0])
}

fn big(from: InstanceNo, id: &str) -> Write {
    Write::Append(Append { data: Bytes::from(vec![b'x'; 60_000]), ..with_id(finding(from), id, 1) })
}

#[tokio::test]
async fn a_second_hub_is_refused_and_the_first_unharmed() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path(), options()).await;
    let error = SqliteStore::open_dir(dir.path(), options()).expect_err("it is locked");
    assert!(matches!(&error, OpenError::Locked(at) if at == dir.path()), "{error}");
    assert!(error.to_string().contains("another hub"), "{error}");
    sender(&store).await;
    drop(store);
    open(dir.path(), options()).await;
}

#[tokio::test]
async fn a_newer_database_is_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().expect("a directory");
    drop(open(dir.path(), options()).await);
    let path = dir.path().join("switchboard.db");
    let change =
        |sql: &str| Connection::open(&path).and_then(|conn| conn.execute_batch(sql)).expect("it changes");
    change("INSERT INTO migrations VALUES (99, '0099_later.sql', 'x')");
    // A log without frames and none at all are the same.
    let files = || {
        ["switchboard.db", "switchboard.db-wal"]
            .map(|name| std::fs::read(dir.path().join(name)).unwrap_or_default())
    };
    let before = files();
    let error = SqliteStore::open_dir(dir.path(), options()).expect_err("it is newer");
    assert!(matches!(error, OpenError::Newer { found: 99, known: 1.. }), "{error}");
    assert!(files() == before, "nothing was written");
    change("DELETE FROM migrations WHERE number = 99; UPDATE migrations SET checksum = 'y' WHERE number = 1");
    let error = SqliteStore::open_dir(dir.path(), options()).expect_err("it was edited");
    assert!(
        matches!(&error, OpenError::Migrate(MigrateError::Edited { name }) if name == "0001_initial.sql"),
        "{error}"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn nobody_else_can_read_the_files() {
    use std::os::unix::fs::PermissionsExt as _;
    let parent = tempfile::tempdir().expect("a directory");
    let dir = parent.path().join("data");
    let store = open(&dir, options()).await;
    store.backup(dir.join("copy")).await.expect("a copy");
    let mode = |path: &Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    for entry in std::fs::read_dir(&dir).expect("readable") {
        let path = entry.expect("readable").path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[tokio::test]
async fn a_full_database_refuses_reads_on_and_recovers() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path(), Options { pages_max: Some(400), ..options() }).await;
    let me = sender(&store).await;
    let mut stored = 0;
    let full = loop {
        match commit(&store, vec![big(me, &format!("c{stored}"))]).await {
            Ok(outcomes) => assert_eq!(appended(&outcomes[0]).id.seq, stored + 1),
            Err(error) => break error,
        }
        stored += 1;
        assert!(stored < 100, "it never fills");
    };
    assert!(matches!(full, StoreError::Full), "{full}");
    // Nothing of the refused batch is there, and what was answered before is.
    let stream = StreamId(1);
    let page = store.page(stream, 0, 1000, usize::MAX).await.expect("reads go on");
    assert_eq!((page.events.len() as u64, page.head), (stored, stored));
    assert!(store.ledger().await.expect("reads go on").is_balanced());
    assert!(matches!(commit(&store, vec![big(me, "more")]).await, Err(StoreError::Full)));
    // Retention makes room; writing goes on by itself, at the next number.
    let later = Batch { at_ms: START_MS + (40 * 86_400_000), writes: vec![Write::Sweep { limit: 10 }] };
    assert!(matches!(store.commit(later).await.expect("it sweeps")[0], Outcome::Swept(1..)));
    let outcomes = commit(&store, vec![big(me, "more")]).await.expect("there is room");
    assert_eq!(appended(&outcomes[0]).id.seq, stored + 1);
    drop(store);
    let store = open(dir.path(), options()).await;
    assert_eq!(store.page(stream, 0, 1000, usize::MAX).await.expect("readable").head, stored + 1);
}

#[tokio::test]
async fn under_the_reserve_only_retention_writes() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path(), options()).await;
    let me = sender(&store).await;
    commit(&store, vec![big(me, "c1")]).await.expect("there is room");
    drop(store);
    let store = SqliteStore::open_dir(dir.path(), Options { disk_reserve_bytes: u64::MAX, ..options() })
        .expect("the store opens");
    store.open(genesis()).await.expect("finding needs no room");
    assert!(matches!(commit(&store, vec![big(me, "c2")]).await, Err(StoreError::Full)));
    assert!(matches!(commit(&store, vec![Write::Probe]).await, Err(StoreError::Full)));
    assert_eq!(store.page(StreamId(1), 0, 10, usize::MAX).await.expect("reads go on").events.len(), 1);
    let swept = commit(&store, vec![Write::Sweep { limit: 10 }]).await.expect("retention may");
    assert_eq!(swept, [Outcome::Swept(0)]);
}

fn panicking(key: &str) -> Write {
    Write::Once {
        scope: "s".into(),
        key: key.into(),
        digest: [1; 32],
        inner: Box::new(Write::Probe),
        render: Arc::new(|_| panic!("a defect")),
    }
}

/// Holds the writer in its first commit until the sender is dropped.
struct Held(Mutex<mpsc::Receiver<()>>);

impl CommitListener for Held {
    fn committed(&self, _: &[Arc<StoredEvent>]) {
        let _ = self.0.lock().expect("nobody panics here").recv();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_defective_write_harms_no_other() {
    const AHEAD: u64 = 20;
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path(), options()).await;
    let me = sender(&store).await;
    let (let_go, held) = mpsc::channel();
    store.listen(Arc::new(Held(Mutex::new(held))));
    let call = |writes| store.commit(Batch { at_ms: START_MS, writes });
    // Too large to be committed at once; the writer's thread is held in it, so that all others share the next transaction.
    let ahead =
        call((0..AHEAD).map(|at| Write::Append(with_id(finding(me), &format!("a{at}"), 1))).collect());
    let calls: Vec<_> = (0..60)
        .map(|at| {
            if at % 10 == 5 {
                return call(vec![Write::Append(finding(me)), panicking(&at.to_string())]);
            }
            call(vec![Write::Append(with_id(finding(me), &format!("c{at}"), 1))])
        })
        .collect();
    drop(let_go);
    ahead.await.expect("it is sound");
    let (mut good, mut bad) = (Vec::new(), 0);
    for answer in futures_util::future::join_all(calls).await {
        match answer {
            Ok(outcomes) => good.push(appended(&outcomes[0]).id.seq),
            Err(StoreError::Backend(_)) => bad += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(bad, 6);
    let first = AHEAD + 1;
    assert_eq!(good, (first..first + 54).collect::<Vec<_>>(), "no gap where the defective ones were");
    let page = store.page(StreamId(1), AHEAD, 100, usize::MAX).await.expect("readable");
    assert_eq!((page.events.len(), page.head), (54, AHEAD + 54));
}

#[tokio::test]
async fn too_much_waiting_is_refused_and_nothing_of_it_stored() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path(), Options { queue_bytes_max: 150_000, ..options() }).await;
    let me = sender(&store).await;
    let calls: Vec<_> = (0..200).map(|at| commit(&store, vec![big(me, &format!("c{at}"))])).collect();
    let answers = futures_util::future::join_all(calls).await;
    let refused = answers.iter().filter(|answer| matches!(answer, Err(StoreError::Overloaded))).count();
    let stored = answers.iter().filter(|answer| answer.is_ok()).count();
    assert!(refused > 0 && stored > 0 && refused + stored == 200, "{refused} refused, {stored} stored");
    let head = store.page(StreamId(1), 0, 1, usize::MAX).await.expect("readable").head;
    assert_eq!(head, stored as u64);
}

async fn logged_digest(store: &SqliteStore, id: EventId) -> Option<Digest> {
    let records = store.log(0, 1000).await.expect("the log is readable");
    let mut entries =
        records.iter().flat_map(|record| Entry::decode_all(&record.entries).expect("entries decode"));
    entries.find_map(|entry| match entry {
        Entry::Event { id: of, digest, .. } if of == id => Some(digest),
        _ => None,
    })
}

#[tokio::test]
async fn a_bit_flipped_in_the_file_is_found() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path(), options()).await;
    let me = sender(&store).await;
    let write = Write::Append(with_id(finding(me), "c1", 1));
    let id = appended(&commit(&store, vec![write]).await.expect("it is stored")[0]).id;
    drop(store);
    let conn = Connection::open(dir.path().join("switchboard.db")).expect("it opens");
    let flip = "UPDATE events SET data = cast(replace(cast(data AS TEXT), 'hello', 'hellp') AS BLOB)";
    assert_eq!(conn.execute(flip, []).expect("it changes"), 1);
    drop(conn);
    let store = open(dir.path(), options()).await;
    let event = store.events(vec![id]).await.expect("readable").remove(0).expect("it stands");
    assert_ne!(logged_digest(&store, id).await, Some(event_digest(&event)));
}

async fn found(store: &SqliteStore, word: &str) -> usize {
    let waiting = async {
        while store.stats().await.expect("readable").search_lag > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), waiting).await.expect("the index catches up");
    let scope = SearchScope { streams: vec![StreamId(1)], instance: None };
    store.search(word.into(), scope, 100).await.expect("search answers").len()
}

#[tokio::test]
async fn a_missing_or_damaged_index_is_made_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path(), options()).await;
    let me = sender(&store).await;
    commit(&store, (0..20).map(|_| Write::Append(finding(me))).collect()).await.expect("stored");
    assert_eq!(found(&store, "hello").await, 20);
    drop(store);
    let index = dir.path().join("search.db");
    for damage in [None, Some(&b"not a database, not even one page of one"[..])] {
        for suffix in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(dir.path().join(format!("search.db{suffix}")));
        }
        if let Some(bytes) = damage {
            std::fs::write(&index, bytes).expect("it is written");
        }
        let store = open(dir.path(), options()).await;
        assert_eq!(found(&store, "hello").await, 20);
    }
    // An index of another, longer history: after a restore from a backup.
    let store = open(dir.path(), options()).await;
    let copy = dir.path().join("copy");
    store.backup(copy.clone()).await.expect("a copy");
    commit(&store, vec![Write::Append(finding(me))]).await.expect("stored");
    assert_eq!(found(&store, "hello").await, 21);
    drop(store);
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(dir.path().join(format!("switchboard.db{suffix}")));
    }
    std::fs::rename(&copy, dir.path().join("switchboard.db")).expect("restored");
    let store = open(dir.path(), options()).await;
    assert_eq!(found(&store, "hello").await, 20);
}

#[tokio::test]
async fn retention_reaches_the_index() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path(), options()).await;
    let me = sender(&store).await;
    commit(&store, (0..20).map(|_| Write::Append(finding(me))).collect()).await.expect("stored");
    assert_eq!(found(&store, "hello").await, 20);
    let later = START_MS + 40 * 86_400_000;
    store.commit(Batch { at_ms: later, writes: vec![Write::Sweep { limit: 15 }] }).await.expect("swept");
    // Indexed behind the sweep in the log: once it is found, the sweep was seen.
    let fresh =
        Append { expires_at_ms: later * 2, data: Bytes::from_static(br#""text":"fresh""#), ..finding(me) };
    store.commit(Batch { at_ms: later, writes: vec![Write::Append(fresh)] }).await.expect("stored");
    assert_eq!(found(&store, "fresh").await, 1);
    drop(store);
    let index = Connection::open(dir.path().join("search.db")).expect("it opens");
    let rows: i64 = index.query_row("SELECT count(*) FROM fts", [], |row| row.get(0)).expect("it counts");
    assert_eq!(rows, 6);
}

#[tokio::test]
async fn a_backup_opens_as_a_store() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path(), options()).await;
    let me = sender(&store).await;
    commit(&store, vec![Write::Append(with_id(finding(me), "c1", 1))]).await.expect("stored");
    let restored = dir.path().join("restored");
    std::fs::create_dir(&restored).expect("a directory");
    store.backup(restored.join("switchboard.db")).await.expect("a copy");
    commit(&store, vec![Write::Append(with_id(finding(me), "c2", 1))]).await.expect("stored");
    let copy = open(&restored, options()).await;
    let again = commit(&copy, vec![Write::Append(with_id(finding(me), "c1", 1))]).await.expect("known");
    assert!(appended(&again[0]).repeat, "ids are remembered");
    // Numbers given after the copy are given again: that is what a new epoch is for.
    let lost = commit(&copy, vec![Write::Append(with_id(finding(me), "c2", 1))]).await.expect("stored");
    assert_eq!((appended(&lost[0]).id.seq, appended(&lost[0]).repeat), (2, false));
    assert!(store.backup(restored.join("switchboard.db")).await.is_err());
    assert!(open_again(&copy).await, "the copy was not touched");
}

async fn open_again(store: &SqliteStore) -> bool {
    store.vaults().await.is_ok()
}

/// Commits go on while readers read and a copy is taken, and the write-ahead log stays within its bound (fault B29).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_stays_bounded_under_readers() {
    const WAL_BYTES_MAX: u64 = 64 << 20;
    let dir = tempfile::tempdir().expect("a directory");
    let store = Arc::new(open(dir.path(), Options { search: false, ..options() }).await);
    let me = sender(&store).await;
    let reading = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let (store, reading) = (Arc::clone(&store), Arc::clone(&reading));
            tokio::spawn(async move {
                while reading.load(std::sync::atomic::Ordering::Relaxed) {
                    store.page(StreamId(1), 0, 50, usize::MAX).await.expect("reads go on");
                }
            })
        })
        .collect();
    let mut longest = 0;
    for at in 0..120 {
        let writes = (0..16).map(|number| big(me, &format!("c{at}-{number}"))).collect();
        commit(&store, writes).await.expect("writes go on");
        longest = longest.max(store.stats().await.expect("readable").wal_bytes);
    }
    reading.store(false, std::sync::atomic::Ordering::Relaxed);
    for reader in readers {
        reader.await.expect("a reader ends");
    }
    assert!(longest > 16 << 20 && longest < WAL_BYTES_MAX, "{longest}");
    let head = store.page(StreamId(1), 0, 1, usize::MAX).await.expect("readable").head;
    assert_eq!(head, 120 * 16);
}
