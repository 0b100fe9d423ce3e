//! A program of the next version on a database that this one's nodes work with.

use super::*;
use crate::conformance::bench::{START_MS, appended, finding, genesis, instance_of, new_instance};
use crate::conformance::cluster::Cluster;
use crate::moving::MoveError;
use crate::postgres::{Address, Closed, Options, PostgresStore};
use std::sync::LazyLock;
use switchboard_core::ids::InstanceNo;
use switchboard_core::port::store::{Beat, Store as _, StoreError};
use switchboard_core::write::{Batch, Outcome, Write};

static CLUSTER: LazyLock<Cluster> = LazyLock::new(Cluster::start);

/// The schema of this program, and of the next one.
const KNOWN: u32 = MIGRATIONS[MIGRATIONS.len() - 1].number;
const NEXT: u32 = KNOWN + 1;

/// Adds, and takes nothing away.
const ADDING: Migration = Migration {
    number: NEXT,
    name: "next_adding.sql",
    sql: "ALTER TABLE events ADD COLUMN mark BIGINT NOT NULL DEFAULT 7; CREATE TABLE marks (id BIGINT PRIMARY KEY);
          CREATE INDEX events_mark ON events (mark); ALTER TABLE agents ADD COLUMN mark BIGINT;
          ALTER TABLE log ADD COLUMN mark BIGINT; ALTER TABLE instances ADD COLUMN mark BIGINT",
    compatible_from: KNOWN,
};
/// Takes something away that this program uses.
const BREAKING: Migration = Migration {
    number: NEXT,
    name: "next_breaking.sql",
    sql: "ALTER TABLE receipts RENAME COLUMN state TO how",
    compatible_from: NEXT,
};

async fn open(url: &str) -> Result<PostgresStore, OpenError> {
    let options = Options { readers: 2, ..Options::default() };
    PostgresStore::connect(Address::parse(url)?, options).await
}

/// What a program does that has these migrations behind the present ones, when it starts.
async fn upgrade(url: &str, next: &[Migration]) -> Result<(), OpenError> {
    let address = Address::parse(url)?;
    let client = address.connect_to_write().await?;
    run(&client, &address.schema, &[MIGRATIONS, next].concat()).await
}

async fn commit(store: &PostgresStore, write: Write) -> Result<Outcome, StoreError> {
    let outcomes = store.commit(Batch { at_ms: START_MS + 1000, writes: vec![write] }).await?;
    Ok(outcomes.into_iter().next().expect("an outcome"))
}

async fn instance(store: &PostgresStore, name: &str) -> InstanceNo {
    store.open(genesis()).await.expect("the installation");
    let made = commit(store, Write::CreateInstance(new_instance(name, Some(name)))).await;
    instance_of(&made.expect("an instance"))
}

fn beat() -> Beat {
    Beat { node: 1, rings: true, lease: "keeper", fence: None, keep_ms: 1000 }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_at_work_go_on_beside_a_schema_that_was_added_to_and_may_start_again() {
    let url = CLUSTER.fresh_url();
    let old = open(&url).await.unwrap();
    let me = instance(&old, "inst_a").await;
    let (sent, done) = (tokio::sync::Notify::new(), std::sync::atomic::AtomicBool::new(false));
    let working = async {
        let mut seq = 0;
        while !done.load(std::sync::atomic::Ordering::Relaxed) || seq < 20 {
            seq += 1;
            assert_eq!(appended(&commit(&old, Write::Append(finding(me))).await.unwrap()).id.seq, seq);
            assert_eq!(old.instances().await.unwrap().len(), 2);
            sent.notify_one();
        }
        seq
    };
    let upgrading = async {
        sent.notified().await;
        upgrade(&url, &[ADDING]).await.unwrap();
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    };
    let (seq, ()) = tokio::join!(working, upgrading);
    upgrade(&url, &[ADDING]).await.unwrap();
    old.beat(beat()).await.unwrap();
    let again = open(&url).await.expect("an older node may start again");
    assert_eq!(again.open(genesis()).await.unwrap().org_id, genesis().org_id);
    assert_eq!(appended(&commit(&again, Write::Append(finding(me))).await.unwrap()).id.seq, seq + 1);
    // What it knows is not the whole any more.
    let dir = tempfile::tempdir().unwrap();
    let refused = again.backup(dir.path().join("copy.db")).await.unwrap_err();
    assert!(refused.to_string().contains("node of the newer version"), "{refused}");
    let refused = Closed::open(&Address::parse(&url).unwrap()).await.unwrap_err();
    assert!(
        matches!(&refused, MoveError::Postgres(OpenError::Newer { found: NEXT, known: KNOWN })),
        "{refused}"
    );
    appended(&commit(&again, Write::Append(finding(me))).await.expect("it was not closed"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_too_old_for_the_schema_serves_no_longer_and_changes_nothing() {
    let url = CLUSTER.fresh_url();
    let old = open(&url).await.unwrap();
    let me = instance(&old, "inst_a").await;
    appended(&commit(&old, Write::Append(finding(me))).await.unwrap());
    upgrade(&url, &[BREAKING]).await.unwrap();
    let schema = url.rsplit('=').next().unwrap();
    let counted =
        || CLUSTER.sql(&format!("SELECT count(*) FROM {schema}.events; SELECT count(*) FROM {schema}.log"));
    let before = counted();
    let said = |error: &dyn std::fmt::Display| {
        let error = error.to_string();
        assert!(
            error.contains(&format!("schema version {NEXT}")) && error.contains("start the newer program"),
            "{error}"
        );
    };
    said(&commit(&old, Write::Append(finding(me))).await.unwrap_err());
    said(&old.beat(beat()).await.unwrap_err());
    said(&old.vaults().await.expect_err("nothing is read any more either"));
    assert_eq!(counted(), before);
    assert_eq!(
        CLUSTER.sql(&format!("SELECT count(*) FROM {schema}.nodes")),
        "0",
        "it does not count as alive"
    );
    let error = open(&url).await.unwrap_err();
    assert!(matches!(error, OpenError::Newer { found: NEXT, known: KNOWN }), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_several_migrations_the_most_demanding_counts() {
    let url = CLUSTER.fresh_url();
    open(&url).await.unwrap();
    let after = Migration { number: NEXT + 1, name: "later.sql", sql: "SELECT 1", compatible_from: NEXT };
    upgrade(&url, &[ADDING, after]).await.unwrap();
    let error = open(&url).await.unwrap_err();
    assert!(matches!(error, OpenError::Newer { found, known: KNOWN } if found == NEXT + 1), "{error}");
    upgrade(&url, &[ADDING]).await.expect("the version in between is overlapped");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_without_its_compatibility_counts_for_itself_alone() {
    let url = CLUSTER.fresh_url();
    open(&url).await.unwrap();
    let schema = url.rsplit('=').next().unwrap();
    CLUSTER.sql(&format!("ALTER TABLE {schema}.migrations DROP COLUMN compatible_from"));
    open(&url).await.expect("made before compatibility was recorded").close().await.unwrap();
    CLUSTER.sql(&format!("INSERT INTO {schema}.migrations VALUES ({NEXT}, 'next.sql', '')"));
    let error = open(&url).await.unwrap_err();
    assert!(matches!(error, OpenError::Newer { found: NEXT, known: KNOWN }), "{error}");
}

/// A session that holds what the migration needs is waited for, and does not make the start fail.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_waits_for_a_transaction_that_is_in_its_way() {
    let url = CLUSTER.fresh_url();
    open(&url).await.unwrap();
    let address = Address::parse(&url).unwrap();
    let holder = address.connect().await.unwrap();
    holder.batch_execute("BEGIN; LOCK TABLE events IN ROW EXCLUSIVE MODE").await.unwrap();
    let upgrading = tokio::spawn({
        let url = url.clone();
        async move { upgrade(&url, &[ADDING]).await }
    });
    // Longer than one try waits.
    let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'";
    let seen = |wanted: &'static str| async move {
        while CLUSTER.sql(waits) != wanted {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let tries = async {
        seen("1").await;
        seen("0").await;
        seen("1").await;
    };
    tokio::time::timeout(Duration::from_secs(20), tries)
        .await
        .expect("it lets others pass between its tries");
    holder.batch_execute("COMMIT").await.unwrap();
    upgrading.await.unwrap().unwrap();
}
