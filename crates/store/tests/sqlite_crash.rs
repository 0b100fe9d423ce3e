//! What was acknowledged survives `kill -9` and a disk that fails, and nothing comes twice.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use switchboard_core::event::StoredEvent;
use switchboard_core::ids::StreamId;
use switchboard_core::log::{GENESIS, record_digest};
use switchboard_core::port::store::{Store, StoreError};
use switchboard_core::write::{Batch, Write};
use switchboard_store::conformance::bench::{START_MS, appended, finding, genesis, with_id};
use switchboard_store::sqlite::{Options, SqliteStore};

const DIR: &str = "SWITCHBOARD_TEST_CRASH_DIR";
const LIMITED: &str = "SWITCHBOARD_TEST_CRASH_LIMITED";
const FIRST: &str = "SWITCHBOARD_TEST_CRASH_FIRST";

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime")
}

async fn open(dir: &Path) -> SqliteStore {
    let options = Options { wal_bytes: 1 << 20, readers: 1, ..Options::default() };
    let store = SqliteStore::open_dir(dir, options).expect("the store opens");
    store.open(genesis()).await.expect("the installation is there");
    store
}

/// The process that is killed: appends as fast as it can, and says on its output what was acknowledged.
#[test]
fn appending_until_killed() {
    let (Ok(dir), Ok(first)) = (std::env::var(DIR), std::env::var(FIRST)) else { return };
    let first: u64 = first.parse().expect("a number");
    runtime().block_on(async {
        let store = open(Path::new(&dir)).await;
        let hub = store.instances().await.expect("readable")[0].instance;
        let mut number = first;
        // The test's own name stands on the line.
        println!();
        loop {
            let writes = |from: u64| {
                (from..from + 3)
                    .map(|id| Write::Append(with_id(finding(hub), &format!("c{id}"), 1)))
                    .collect()
            };
            let calls = [number, number + 3, number + 6]
                .map(|from| store.commit(Batch { at_ms: START_MS, writes: writes(from) }));
            for call in calls {
                for outcome in call.await.expect("it is stored") {
                    let mut out = std::io::stdout().lock();
                    // One line, one write: a line that is there is whole.
                    out.write_all(format!("ack c{number} {}\n", appended(&outcome).id.seq).as_bytes())
                        .and_then(|()| out.flush())
                        .expect("the parent listens");
                    number += 1;
                }
            }
        }
    });
}

fn start(dir: &Path, first: u64) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "appending_until_killed", "--nocapture", "--test-threads=1"])
        .env(DIR, dir)
        .env(FIRST, first.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child starts")
}

/// Acknowledged ids with their sequences.
fn acknowledged(child: &mut Child, at_least: usize) -> Vec<(String, u64)> {
    let mut acks = Vec::new();
    let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut killed = None;
    for line in lines.map_while(Result::ok) {
        if let Some((id, seq)) = line.strip_prefix("ack ").and_then(|ack| ack.split_once(' ')) {
            acks.push((id.to_owned(), seq.parse().expect("a number")));
        }
        if acks.len() >= at_least && killed.is_none() {
            killed = Some(child.kill());
        }
    }
    killed.expect("it acknowledged enough").expect("it was killed");
    child.wait().expect("it ended");
    acks
}

/// The process whose disk fails: it may not write beyond a length its log soon has. Says what it was told.
#[test]
fn appending_until_the_disk_fails() {
    let Ok(dir) = std::env::var(DIR).and_then(|dir| std::env::var(LIMITED).map(|_| dir)) else { return };
    runtime().block_on(async {
        let store = open(Path::new(&dir)).await;
        let hub = store.instances().await.expect("readable")[0].instance;
        let commit = |id: u64| {
            let data = bytes::Bytes::from(vec![b'x'; 100_000]);
            let append = switchboard_core::write::Append { data, ..finding(hub) };
            let writes = vec![Write::Append(with_id(append, &format!("c{id}"), 1))];
            store.commit(Batch { at_ms: START_MS, writes })
        };
        let mut number = 0;
        println!();
        let failed = loop {
            match commit(number).await {
                Ok(outcomes) => println!("ack c{number} {}", appended(&outcomes[0]).id.seq),
                Err(error) => break error,
            }
            number += 1;
        };
        assert!(matches!(failed, StoreError::Unknown(_)), "{failed:?}");
        // Nothing is tried again behind the failure: a second sync that succeeds would prove nothing.
        for _ in 0..3 {
            assert!(matches!(commit(number + 1).await, Err(StoreError::Backend(_))));
        }
        let page = store.page(StreamId(1), 0, 1000, usize::MAX).await.expect("reads go on");
        println!("left {}", page.events.len());
    });
}

#[cfg(unix)]
#[test]
fn a_failing_disk_stops_the_writing_and_loses_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    // The shell lets the program see the failed write instead of killing it. Its limit counts blocks of 512 or 1024 bytes.
    let child = Command::new("sh")
        .args(["-c", r#"trap "" XFSZ; ulimit -f 6000; exec "$0" "$@""#])
        .arg(std::env::current_exe().expect("this program"))
        .args(["--exact", "appending_until_the_disk_fails", "--nocapture", "--test-threads=1"])
        .env(DIR, dir.path())
        .env(LIMITED, "1")
        .output()
        .expect("a child runs");
    let out = String::from_utf8_lossy(&child.stdout).into_owned();
    assert!(child.status.success(), "{out}\n{}", String::from_utf8_lossy(&child.stderr));
    let acks = out.lines().filter_map(|line| line.strip_prefix("ack ")?.split_once(' '));
    let acks: Vec<_> = acks.map(|(id, seq)| (id.to_owned(), seq.parse().expect("a number"))).collect();
    assert!(acks.len() > 10 && out.contains(&format!("left {}", acks.len())), "{out}");
    runtime().block_on(check(dir.path(), &acks));
}

async fn all(store: &SqliteStore) -> Vec<StoredEvent> {
    store.page(StreamId(1), 0, usize::MAX, usize::MAX).await.expect("readable").events
}

async fn check(dir: &Path, acks: &[(String, u64)]) {
    let store = open(dir).await;
    let events = all(&store).await;
    let seqs: Vec<_> = events.iter().map(|event| event.id.seq).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "no gap");
    assert!(seqs.len() >= acks.len());
    let hub = store.instances().await.expect("readable")[0].instance;
    // Every acknowledged message is known under its id, at its place.
    let resend = acks.iter().map(|(id, _)| Write::Append(with_id(finding(hub), id, 1))).collect();
    let outcomes = store.commit(Batch { at_ms: START_MS, writes: resend }).await.expect("it answers");
    for ((id, seq), outcome) in acks.iter().zip(&outcomes) {
        let first = appended(outcome);
        assert_eq!((first.id.seq, first.repeat), (*seq, true), "{id}");
    }
    let mut chain = GENESIS;
    for record in store.log(0, usize::MAX).await.expect("readable") {
        chain = record_digest(&chain, record.commit, record.at_ms, &record.entries);
        assert_eq!(record.digest, chain);
    }
    assert!(store.ledger().await.expect("readable").is_balanced());
    store.close().await.expect("it closes");
}

#[test]
fn what_was_acknowledged_survives_a_kill() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut acks = Vec::new();
    for round in 0..5 {
        // Ids that were sent and not acknowledged may be there or not: each round begins behind them.
        let mut child = start(dir.path(), round * 100_000);
        acks.extend(acknowledged(&mut child, 60 + 17 * usize::try_from(round).unwrap_or(0)));
        runtime().block_on(check(dir.path(), &acks));
    }
}
