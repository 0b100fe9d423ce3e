//! Moving house: a store that moves to the other backend keeps every promise, and nothing half done is ever in use.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use switchboard_core::port::store::{Beat, Store};
use switchboard_core::write::{Append, Batch, Outcome, Write};
use switchboard_store::conformance::Backend;
use switchboard_store::conformance::bench::{
    START_MS, appended, finding, genesis, instance_of, new_instance, with_id,
};
use switchboard_store::conformance::cluster::Cluster;
use switchboard_store::moving::{Mark, MoveError, compare};
use switchboard_store::postgres::{self, Address, PostgresStore};
use switchboard_store::sqlite::{self, SqliteStore};

static CLUSTER: LazyLock<Cluster> = LazyLock::new(Cluster::start);

fn embedded(dir: &Path) -> Result<SqliteStore, sqlite::OpenError> {
    let options = sqlite::Options { wal_bytes: 1 << 20, disk_reserve_bytes: 0, ..sqlite::Options::default() };
    SqliteStore::open_dir(dir, options)
}

async fn shared(url: &str) -> Result<PostgresStore, postgres::OpenError> {
    let options = postgres::Options { readers: 2, ..postgres::Options::default() };
    PostgresStore::connect(Address::parse(url).unwrap(), options).await
}

async fn database(url: &str) -> Result<postgres::Closed, MoveError> {
    postgres::Closed::open(&Address::parse(url).unwrap()).await
}

/// What the command does, without its words.
async fn into_database(dir: &Path, url: &str) -> Result<(), MoveError> {
    let from = sqlite::Closed::open(dir)?;
    let to = database(url).await?;
    to.prepare("there", START_MS).await?;
    to.fill(&from, START_MS, &mut |_, _| ()).await?;
    compare(&from.tallies(START_MS)?, &to.tallies(START_MS).await?)?;
    from.leave(&to.name(), START_MS)?;
    to.unmark().await
}

async fn into_directory(url: &str, dir: &Path) -> Result<(), MoveError> {
    let from = database(url).await?;
    from.backup(&dir.join("switchboard.db")).await?;
    let to = sqlite::Closed::open(dir)?;
    compare(&from.tallies(START_MS).await?, &to.tallies(START_MS)?)?;
    from.leave("there", to.commit(), START_MS).await
}

/// A store that moves to the other backend whenever it is restarted.
struct Mover {
    folder: tempfile::TempDir,
    at: Mutex<(u32, Place)>,
}

#[derive(Clone)]
enum Place {
    Directory(PathBuf),
    Database(String),
}

impl Mover {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let first = Place::Directory(folder.path().join("0"));
        Self { folder, at: Mutex::new((0, first)) }
    }

    fn next(&self) -> (Place, Place) {
        let mut at = self.at.lock();
        at.0 += 1;
        let next = match at.1 {
            Place::Directory(_) => Place::Database(CLUSTER.fresh_url()),
            Place::Database(_) => {
                let dir = self.folder.path().join(at.0.to_string());
                std::fs::create_dir(&dir).unwrap();
                Place::Directory(dir)
            }
        };
        (std::mem::replace(&mut at.1, next.clone()), next)
    }

    async fn open(&self) -> Arc<dyn Store> {
        let place = self.at.lock().1.clone();
        match place {
            Place::Directory(dir) => Arc::new(embedded(&dir).unwrap()),
            Place::Database(url) => Arc::new(shared(&url).await.unwrap()),
        }
    }
}

// Reading the embedded store stays on one thread.
async fn on_a_thread<F: Future<Output = Result<(), MoveError>>>(work: impl FnOnce() -> F + Send + 'static) {
    let work = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(work())
    };
    tokio::task::spawn_blocking(work).await.unwrap().unwrap();
}

impl Backend for Mover {
    fn fresh(&self) -> BoxFuture<'_, Arc<dyn Store>> {
        self.open().boxed()
    }

    fn reopen(&self, store: Arc<dyn Store>) -> BoxFuture<'_, Arc<dyn Store>> {
        async {
            store.close().await.expect("it closes");
            drop(store);
            let (from, to) = self.next();
            on_a_thread(|| async move {
                match (from, to) {
                    (Place::Directory(dir), Place::Database(url)) => into_database(&dir, &url).await,
                    (Place::Database(url), Place::Directory(dir)) => into_directory(&url, &dir).await,
                    _ => unreachable!("it moves to the other backend"),
                }
            })
            .await;
            self.open().await
        }
        .boxed()
    }

    fn second(&self) -> BoxFuture<'_, Option<Arc<dyn Store>>> {
        async { None }.boxed()
    }
}

switchboard_store::store_conformance!(alone crate::Mover::new());

async fn commit(store: &dyn Store, writes: Vec<Write>) -> Vec<Outcome> {
    store.commit(Batch { at_ms: START_MS + 1000, writes }).await.unwrap()
}

/// A hub with two messages in `dir`; the first one's row is gone already.
async fn filled(dir: &Path) {
    let store = embedded(dir).unwrap();
    store.open(genesis()).await.unwrap();
    let me = instance_of(&commit(&store, vec![Write::CreateInstance(new_instance("a", Some("a")))]).await[0]);
    let gone = Append { expires_at_ms: START_MS + 2000, ..with_id(finding(me), "gone", 1) };
    commit(&store, vec![Write::Append(gone), Write::Append(with_id(finding(me), "kept", 1))]).await;
    let swept =
        store.commit(Batch { at_ms: START_MS + 2000, writes: vec![Write::Sweep { limit: 10 }] }).await;
    assert_eq!(swept.unwrap(), [Outcome::Swept(1)]);
    store.close().await.unwrap();
}

#[tokio::test(flavor = "current_thread")]
async fn who_left_stays_closed_and_ids_go_along() {
    let (dir, url) = (tempfile::tempdir().unwrap(), CLUSTER.fresh_url());
    filled(dir.path()).await;
    into_database(dir.path(), &url).await.unwrap();
    let refused = embedded(dir.path()).unwrap_err();
    assert!(matches!(&refused, sqlite::OpenError::Moving(Mark { left: true, .. })), "{refused}");
    let store = shared(&url).await.unwrap();
    let found = store.open(genesis()).await.unwrap();
    assert_eq!(found.epoch, genesis().epoch);
    let me = store.instance("a".into()).await.unwrap().unwrap().instance;
    for (id, seq) in [("gone", 1), ("kept", 2)] {
        let again = appended(&commit(&store, vec![Write::Append(with_id(finding(me), id, 1))]).await[0]);
        assert_eq!((again.id.seq, again.repeat), (seq, true), "{id}");
        let other = &commit(&store, vec![Write::Append(with_id(finding(me), id, 2))]).await[0];
        assert!(matches!(other, Outcome::Refused(_)), "an id for other content: {other:?}");
    }
    assert_eq!(
        appended(&commit(&store, vec![Write::Append(with_id(finding(me), "new", 1))]).await[0]).id.seq,
        3
    );
    // Also once this node is sure that nobody else commits.
    for id in ["new1", "new2", "new3"] {
        assert!(!appended(&commit(&store, vec![Write::Append(with_id(finding(me), id, 1))]).await[0]).repeat);
        let again = appended(&commit(&store, vec![Write::Append(with_id(finding(me), "gone", 1))]).await[0]);
        assert_eq!((again.id.seq, again.repeat), (1, true));
    }
    store.close().await.unwrap();
    // A second time: the target holds a hub by now, and so does every other way in.
    let error = into_database(dir.path(), &url).await.unwrap_err();
    assert!(matches!(error, MoveError::Occupied(_)), "{error}");
}

#[tokio::test(flavor = "current_thread")]
async fn half_a_copy_is_not_used_and_is_made_again() {
    let (dir, url) = (tempfile::tempdir().unwrap(), CLUSTER.fresh_url());
    filled(dir.path()).await;
    {
        let (from, to) = (sqlite::Closed::open(dir.path()).unwrap(), database(&url).await.unwrap());
        to.prepare("there", START_MS).await.unwrap();
        let busy = database(&url).await.unwrap_err();
        assert!(matches!(busy, MoveError::Busy(_)), "{busy}");
        let locked = embedded(dir.path()).unwrap_err();
        assert!(matches!(locked, sqlite::OpenError::Locked(_)), "{locked}");
        to.fill(&from, START_MS, &mut |_, _| ()).await.unwrap();
        // It ends here, as if it had been killed.
    }
    let refused = shared(&url).await.unwrap_err();
    assert!(matches!(&refused, postgres::OpenError::Moving(Mark { left: false, .. })), "{refused}");
    into_database(dir.path(), &url).await.unwrap();
    shared(&url).await.unwrap().close().await.unwrap();
}

#[tokio::test(flavor = "current_thread")]
async fn a_node_that_was_starting_founds_nothing_where_a_hub_arrives() {
    let url = CLUSTER.fresh_url();
    let store = shared(&url).await.unwrap();
    let to = database(&url).await.unwrap();
    to.prepare("there", START_MS).await.unwrap();
    let error = store.open(genesis()).await.unwrap_err();
    assert!(error.to_string().contains("not finished"), "{error}");
    to.abandon().await.unwrap();
    store.open(genesis()).await.unwrap();
    store.close().await.unwrap();
    let error = to.prepare("there", START_MS).await.unwrap_err();
    assert!(matches!(error, MoveError::Occupied(_)), "{error}");
}

#[tokio::test(flavor = "current_thread")]
async fn a_node_that_was_starting_does_not_serve_a_hub_that_is_still_arriving() {
    let (dir, url) = (tempfile::tempdir().unwrap(), CLUSTER.fresh_url());
    filled(dir.path()).await;
    let store = shared(&url).await.unwrap();
    let (from, to) = (sqlite::Closed::open(dir.path()).unwrap(), database(&url).await.unwrap());
    to.prepare("there", START_MS).await.unwrap();
    to.fill(&from, START_MS, &mut |_, _| ()).await.unwrap();
    let error = store.open(genesis()).await.unwrap_err();
    assert!(error.to_string().contains("not finished"), "{error}");
    // What somebody else has put there is not thrown away.
    let schema = url.rsplit_once('=').unwrap().1;
    CLUSTER.sql(&format!("UPDATE {schema}.head SET commit_no = commit_no + 1"));
    let error = to.abandon().await.unwrap_err();
    assert!(matches!(error, MoveError::Changed(_)), "{error}");
    assert_ne!(CLUSTER.sql(&format!("SELECT count(*) FROM {schema}.events")), "0");
    CLUSTER.sql(&format!("UPDATE {schema}.head SET commit_no = commit_no - 1"));
    to.abandon().await.unwrap();
    assert_eq!(CLUSTER.sql(&format!("SELECT count(*) FROM {schema}.events")), "0");
}

/// Nodes that were cut off, and so did not count as running while the store was copied away.
#[tokio::test(flavor = "current_thread")]
async fn nodes_that_come_back_to_a_database_that_was_left_serve_no_longer_and_change_nothing() {
    let url = CLUSTER.fresh_url();
    let (node, idle, fresh) =
        (shared(&url).await.unwrap(), shared(&url).await.unwrap(), shared(&url).await.unwrap());
    let found = node.open(genesis()).await.unwrap();
    idle.open(genesis()).await.unwrap();
    let me = instance_of(&commit(&node, vec![Write::CreateInstance(new_instance("a", Some("a")))]).await[0]);
    // The last ones go through without asking: it is sure that nobody else commits.
    for id in ["1", "2", "3"] {
        commit(&node, vec![Write::Append(with_id(finding(me), id, 1))]).await;
    }
    let schema = url.rsplit_once('=').unwrap().1;
    let counted = || {
        CLUSTER.sql(&format!(
            "SELECT (SELECT count(*) FROM {schema}.log), (SELECT count(*) FROM {schema}.nodes), epoch
             FROM {schema}.installation"
        ))
    };
    let before = counted();
    let from = database(&url).await.unwrap();
    from.leave("there", node.position().await.unwrap().commit, START_MS).await.unwrap();
    let said = |error: &dyn std::fmt::Display| {
        let error = error.to_string();
        assert!(error.contains("goes on there") && error.contains("stop this node"), "{error}");
    };
    let append =
        |id| Batch { at_ms: START_MS + 1000, writes: vec![Write::Append(with_id(finding(me), id, 1))] };
    for _ in 0..2 {
        said(&node.commit(append("4")).await.unwrap_err());
        said(&idle.commit(append("5")).await.unwrap_err());
    }
    said(&fresh.open(genesis()).await.unwrap_err());
    for store in [&node, &idle] {
        let beat = Beat { node: 7, rings: true, lease: "keeper", fence: None, keep_ms: 1000 };
        said(&store.beat(beat).await.unwrap_err());
        said(&store.vaults().await.expect_err("nothing is read any more either"));
    }
    assert_eq!(counted(), before);
    // Who moves it still can.
    let moving = from.store().await.unwrap();
    let write = Write::NewEpoch { epoch: "ep_next".into() };
    moving.commit(Batch { at_ms: START_MS + 1000, writes: vec![write] }).await.unwrap();
    moving.close().await.unwrap();
    from.unmark().await.unwrap();
    let again = shared(&url).await.unwrap();
    assert_ne!(again.open(genesis()).await.unwrap().epoch, found.epoch);
}

/// The database has failed over since, and a node that is gone never says that it misses nothing.
#[tokio::test(flavor = "current_thread")]
async fn who_goes_on_where_a_hub_has_left_waits_for_as_long_as_nodes_wait_after_a_failover() {
    let url = CLUSTER.fresh_url();
    // The second start agrees to the server's timeline.
    for _ in 0..2 {
        let node = shared(&url).await.unwrap();
        node.open(genesis()).await.unwrap();
        node.close().await.unwrap();
    }
    let from = database(&url).await.unwrap();
    from.leave("there", 1, START_MS).await.unwrap();
    let schema = url.rsplit_once('=').unwrap().1;
    // Another has waited for it for two of twelve seconds.
    CLUSTER.sql(&format!(
        "SET search_path = {schema}; INSERT INTO nodes (node, seen_ms, rings) VALUES (7, 0, 1);
         INSERT INTO leases (name, holder, fence, until_ms)
             SELECT 'timeline:8', 8, fence, (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 2000
             FROM leases WHERE name = 'timeline';
         UPDATE leases SET fence = fence - 1 WHERE name = 'timeline'"
    ));
    let moving = from.store().await.unwrap();
    let write = Write::NewEpoch { epoch: "ep_next".into() };
    moving.commit(Batch { at_ms: START_MS + 1000, writes: vec![write] }).await.unwrap();
    moving.close().await.unwrap();
    assert_eq!(CLUSTER.sql(&format!("SELECT epoch FROM {schema}.installation")), "ep_next");
    let asked = CLUSTER.sql(&format!("SELECT count(*) FROM {schema}.leases WHERE name LIKE 'timeline:%'"));
    assert_eq!(asked, "0", "it was waited for");
}

#[tokio::test(flavor = "current_thread")]
async fn a_database_with_a_node_on_it_is_not_left() {
    let url = CLUSTER.fresh_url();
    let node = shared(&url).await.unwrap();
    node.open(genesis()).await.unwrap();
    let from = database(&url).await.unwrap();
    let beat = || node.beat(Beat { node: 7, rings: true, lease: "keeper", fence: None, keep_ms: 1000 });
    beat().await.unwrap();
    let beating = async {
        loop {
            beat().await.unwrap();
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    let waited = tokio::select! {
        waited = from.wait_for_nodes(|| ()) => waited,
        () = beating => unreachable!("it beats on"),
    };
    assert!(matches!(waited, Err(MoveError::Running(_))), "{waited:?}");
    let error = from.leave("there", 1, START_MS).await.unwrap_err();
    assert!(matches!(error, MoveError::Changed(_)), "{error}");
    assert_eq!(from.mark().await.unwrap(), None);
}

#[tokio::test(flavor = "current_thread")]
async fn what_differs_is_named() {
    let (dir, url) = (tempfile::tempdir().unwrap(), CLUSTER.fresh_url());
    filled(dir.path()).await;
    let (from, to) = (sqlite::Closed::open(dir.path()).unwrap(), database(&url).await.unwrap());
    let schema = url.rsplit_once('=').unwrap().1;
    for (table, change) in [
        ("events", "UPDATE events SET data = data || '\\x00'"),
        ("instances", "DELETE FROM instances WHERE instance_id = 'a'"),
        ("ids", "UPDATE dedup SET event = event + 1"),
        ("head", "UPDATE head SET notice = notice + 1"),
    ] {
        to.prepare("there", START_MS).await.unwrap();
        to.fill(&from, START_MS, &mut |_, _| ()).await.unwrap();
        compare(&from.tallies(START_MS).unwrap(), &to.tallies(START_MS).await.unwrap()).unwrap();
        CLUSTER.sql(&format!("SET search_path = {schema}; {change}"));
        let differs = compare(&from.tallies(START_MS).unwrap(), &to.tallies(START_MS).await.unwrap());
        assert!(matches!(differs, Err(MoveError::Differs(named)) if named == table), "{table}: {differs:?}");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn nothing_is_made_of_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    assert!(sqlite::Closed::open(&missing).is_err() && !missing.exists());
    embedded(dir.path()).unwrap().close().await.unwrap();
    assert!(matches!(sqlite::Closed::open(dir.path()), Err(MoveError::NoHub(_))));
}
