//! Several nodes on one database, and what happens when something gives way beneath them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use switchboard_core::event::StoredEvent;
use switchboard_core::ids::{InstanceNo, StreamId};
use switchboard_core::log::{GENESIS, record_digest};
use switchboard_core::port::store::{CommitListener, Store};
use switchboard_core::write::{Append, Batch, Outcome, Receipt, ReceiptState, Write};
use switchboard_store::conformance::bench::{
    START_MS, VAULT, announce, appended, finding, genesis, in_channel, instance_of, new_instance, to, with_id,
};
use switchboard_store::conformance::cluster::Cluster;
use switchboard_store::postgres::{Address, OpenError, Options, PostgresStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

static CLUSTER: LazyLock<Cluster> = LazyLock::new(Cluster::start);

async fn open(url: &str) -> Result<Arc<PostgresStore>, OpenError> {
    let options = Options { readers: 3, ..Options::default() };
    PostgresStore::connect(Address::parse(url)?, options).await.map(Arc::new)
}

async fn node(url: &str) -> Arc<PostgresStore> {
    let store = open(url).await.unwrap();
    store.open(genesis()).await.unwrap();
    store
}

async fn commit(store: &dyn Store, writes: Vec<Write>) -> Vec<Outcome> {
    store.commit(Batch { at_ms: START_MS + 1000, writes }).await.unwrap()
}

async fn instance(store: &dyn Store, name: &str) -> InstanceNo {
    instance_of(&commit(store, vec![Write::CreateInstance(new_instance(name, Some(name)))]).await[0])
}

/// The log's chain holds from end to end; returns its length.
async fn verified(store: &dyn Store) -> u64 {
    let records = store.log(0, 1_000_000).await.unwrap();
    let mut chain = GENESIS;
    for (at, record) in records.iter().enumerate() {
        assert_eq!(record.commit, at as u64 + 1, "commits have no gap");
        chain = record_digest(&chain, record.commit, record.at_ms, &record.entries);
        assert_eq!(record.digest, chain);
    }
    records.len() as u64
}

/// What one caller of the storm does: batches that touch the same rows as everybody's, in another order each.
async fn storm(store: Arc<PostgresStore>, caller: usize, me: InstanceNo, target: StreamId) -> u64 {
    const BATCHES: usize = 30;
    let names = ["a", "b", "c", "d", "general"];
    let mut sent = 0;
    for batch in 0..BATCHES {
        let mut writes = Vec::new();
        for step in 0..names.len() {
            let name = names[(caller * 3 + step * (1 + caller % 4) + batch) % names.len()];
            writes.push(Write::Append(with_id(in_channel(finding(me), name), &format!("{batch}-{step}"), 1)));
            sent += 1;
        }
        let event = switchboard_core::ids::EventId { stream: target, seq: 1 + batch as u64 % 3 };
        let agent = format!("agent{}", caller % 3);
        writes.push(Write::Receipt(Receipt { event, instance: me, agent, state: ReceiptState::Read }));
        if batch % 5 == caller % 5 {
            writes.push(Write::Announce(announce(me, &format!("agent{}", batch % 3))));
            writes.push(Write::Append(in_channel(finding(me), &format!("new{}", batch % 7))));
            sent += 1;
        }
        if batch % 7 == 3 {
            writes.rotate_left(caller % 5);
        }
        let done = store.commit(Batch { at_ms: START_MS + 1000, writes }).await.unwrap();
        assert!(!done.iter().any(|outcome| matches!(outcome, Outcome::Refused(_))), "{done:?}");
    }
    sent
}

/// Four nodes with four callers each write to the same streams, agents and receipts in every order: no deadlock, no gap, nothing
/// twice, one chain.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nodes_that_storm_each_other_lose_nothing() {
    let cluster = Cluster::start();
    let url = cluster.fresh_url();
    let mut nodes = Vec::new();
    for _ in 0..4 {
        nodes.push(node(&url).await);
    }
    let owner = instance(&*nodes[0], "inst_owner").await;
    let three = vec![Write::Append(in_channel(finding(owner), "target")); 3];
    let target = appended(&commit(&*nodes[0], three).await[0]).id.stream;
    let mut callers = Vec::new();
    for caller in 0..16 {
        let me = instance(&*nodes[caller % 4], &format!("inst_{caller}")).await;
        callers.push(tokio::spawn(storm(Arc::clone(&nodes[(caller + 1) % 4]), caller, me, target)));
    }
    let mut sent = 3;
    for caller in callers {
        sent += caller.await.unwrap();
    }
    let mut stored = 0;
    for stream in nodes[3].channels(vec![VAULT]).await.unwrap() {
        let page = nodes[2].page(stream.id, 0, 1_000_000, usize::MAX).await.unwrap();
        let seqs: Vec<_> = page.events.iter().map(|event| event.id.seq).collect();
        assert_eq!(seqs, (1..=stream.head).collect::<Vec<_>>());
        stored += stream.head;
    }
    assert_eq!(stored, sent);
    let ledger = nodes[1].ledger().await.unwrap();
    assert!(ledger.is_balanced() && ledger.accepted == sent, "{ledger:?}");
    verified(&*nodes[0]).await;
    let deadlocks = cluster.sql("SELECT sum(deadlocks) FROM pg_stat_database");
    assert_eq!(deadlocks, "0");
}

/// The same message sent to two nodes at a time is stored once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_message_sent_to_two_nodes_is_stored_once() {
    let url = CLUSTER.fresh_url();
    let nodes = [node(&url).await, node(&url).await];
    let me = instance(&*nodes[0], "inst_a").await;
    for round in 0..40 {
        let write =
            |channel| Write::Append(with_id(in_channel(finding(me), channel), &format!("{round}"), 1));
        let [one, two] = ["x", "y"].map(write);
        // Every second time as the conflict that it is when the same id names two messages.
        let two = if round % 2 == 0 { one.clone() } else { two };
        let batch = |write: &Write| Batch { at_ms: START_MS + 1000, writes: vec![write.clone()] };
        let (first, second) = tokio::join!(nodes[0].commit(batch(&one)), nodes[1].commit(batch(&two)));
        let done = [first.unwrap().remove(0), second.unwrap().remove(0)];
        let fresh = |outcome: &Outcome| matches!(outcome, Outcome::Appended(first) if !first.repeat);
        assert_eq!(done.iter().filter(|outcome| fresh(outcome)).count(), 1, "round {round}: {done:?}");
    }
    verified(&*nodes[1]).await;
}

/// Nodes that start together on an empty database: one makes the schema and the installation, the others find them.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nodes_start_together() {
    let url = CLUSTER.fresh_url();
    let starting = (0..4).map(|number| {
        let url = url.clone();
        async move {
            let store = open(&url).await.unwrap();
            let org_id = format!("org_{number}");
            let genesis = switchboard_core::port::store::Genesis { org_id, ..genesis() };
            store.open(genesis).await.unwrap().org_id
        }
    });
    let found = futures_util::future::join_all(starting.map(tokio::spawn)).await;
    let found: Vec<_> = found.into_iter().map(Result::unwrap).collect();
    assert!(found.iter().all(|org_id| *org_id == found[0]), "{found:?}");
}

/// An instance that one node revokes sends nothing through another from the next commit on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_node_revokes_the_others_refuse() {
    let url = CLUSTER.fresh_url();
    let nodes = [node(&url).await, node(&url).await];
    let me = instance(&*nodes[0], "inst_a").await;
    for store in &nodes {
        appended(&commit(&**store, vec![Write::Append(finding(me))]).await[0]);
    }
    commit(&*nodes[1], vec![Write::RevokeInstance { instance_id: "inst_a".into() }]).await;
    let refused = commit(&*nodes[0], vec![Write::Append(finding(me))]).await;
    assert!(matches!(refused[0], Outcome::Refused(_)), "{refused:?}");
}

/// Connections that end between two commits are made again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ended_connections_are_made_again() {
    let url = CLUSTER.fresh_url();
    let store = node(&url).await;
    let me = instance(&*store, "inst_a").await;
    for seq in 1..=5 {
        let ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE '%' AND application_name = 'switchboard'";
        CLUSTER.sql(ended);
        assert_eq!(appended(&commit(&*store, vec![Write::Append(finding(me))]).await[0]).id.seq, seq);
        assert_eq!(store.vaults().await.unwrap().len(), 1);
    }
    verified(&*store).await;
}

/// What a [`Proxy`] does with the next COMMIT.
const PASS: u8 = 0;
const CUT_BEFORE: u8 = 1;
const CUT_AFTER: u8 = 2;

/// Stands between a node and the server, and cuts connections in the middle of a commit.
struct Proxy {
    port: u16,
    mode: Arc<AtomicU8>,
}

impl Proxy {
    async fn start(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mode = Arc::new(AtomicU8::new(PASS));
        let shared = Arc::clone(&mode);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(forward(client, to, Arc::clone(&shared)));
            }
        });
        Self { port, mode }
    }
}

async fn forward(client: TcpStream, to: u16, mode: Arc<AtomicU8>) {
    let server = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let back = tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
    let mut bytes = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from_client.read(&mut bytes).await {
        let commits = bytes[..length].windows(7).any(|window| window == b"COMMIT\0");
        let cut = if commits { mode.swap(PASS, Ordering::SeqCst) } else { PASS };
        if cut != PASS {
            // No answer reaches the client any more.
            back.abort();
        }
        if cut == CUT_BEFORE || to_server.write_all(&bytes[..length]).await.is_err() {
            break;
        }
        if cut == CUT_AFTER {
            // The server has it; give it the time to finish.
            tokio::time::sleep(Duration::from_millis(300)).await;
            break;
        }
    }
    back.abort();
}

/// A connection that is cut in the middle of a commit: whether it stands is looked up, and it is neither lost nor done twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_is_lost_is_looked_up() {
    let proxy = Proxy::start(CLUSTER.port).await;
    let url = CLUSTER.fresh_url();
    let through = url.replace(&CLUSTER.port.to_string(), &proxy.port.to_string());
    let store = node(&through).await;
    let me = instance(&*store, "inst_a").await;
    let before = verified(&*store).await;
    for (seq, cut) in (1..).zip([CUT_AFTER, CUT_BEFORE, PASS, CUT_BEFORE, CUT_AFTER]) {
        proxy.mode.store(cut, Ordering::SeqCst);
        // Without an id of the client's: nothing but the look-up keeps it from standing twice.
        let done = commit(&*store, vec![Write::Append(finding(me))]).await;
        assert_eq!(appended(&done[0]).id.seq, seq, "cut {cut}");
        assert_eq!(verified(&*store).await, before + seq);
    }
}

#[derive(Default)]
struct Heard(parking_lot::Mutex<Vec<String>>);

impl CommitListener for Heard {
    fn committed(&self, _: &[Arc<StoredEvent>]) {}

    fn epoch_began(&self, epoch: &str) {
        self.0.lock().push(epoch.to_owned());
    }
}

/// A database that has lost answered commits, as after a fail-over to a server that lagged: a new epoch begins before a sequence
/// is given again, once for all nodes, and every node hears of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_commits_begin_another_epoch() {
    let cluster = Cluster::start();
    let url = cluster.fresh_url();
    let nodes = [node(&url).await, node(&url).await];
    let heard = [Arc::<Heard>::default(), Arc::<Heard>::default()];
    for (store, heard) in nodes.iter().zip(&heard) {
        store.listen(Arc::<Heard>::clone(heard));
    }
    let me = instance(&*nodes[0], "inst_a").await;
    for _ in 0..2 {
        commit(&*nodes[0], vec![Write::Append(finding(me))]).await;
    }
    cluster.sql("CREATE SCHEMA saved; CREATE TABLE saved.head AS SELECT * FROM t0.head; CREATE TABLE saved.counters AS SELECT * FROM t0.counters");
    for store in &nodes {
        commit(&**store, vec![Write::Append(finding(me))]).await;
    }
    cluster.sql(
        "DELETE FROM t0.log WHERE commit_no > (SELECT commit_no FROM saved.head); DELETE FROM t0.head;
         INSERT INTO t0.head SELECT * FROM saved.head; DELETE FROM t0.counters; INSERT INTO t0.counters SELECT * FROM saved.counters;
         DELETE FROM t0.events WHERE id & 1023 > 2;
         SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'switchboard'",
    );
    for (store, seq) in nodes.iter().zip([3, 4]) {
        assert_eq!(appended(&commit(&**store, vec![Write::Append(finding(me))]).await[0]).id.seq, seq);
    }
    let epoch = cluster.sql("SELECT epoch FROM t0.installation");
    assert_ne!(epoch, genesis().epoch);
    for heard in &heard {
        assert_eq!(*heard.0.lock(), std::slice::from_ref(&epoch));
    }
    verified(&*nodes[0]).await;
}

/// What is wrong with a database is said, with what to do about it, and without the password.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_is_said() {
    let cluster = Cluster::start();
    let hba = cluster.dir.join("data/pg_hba.conf");
    let rules = std::fs::read_to_string(&hba).unwrap();
    std::fs::write(&hba, format!("host all ann 127.0.0.1/32 scram-sha-256\n{rules}")).unwrap();
    cluster.sql("CREATE ROLE ann LOGIN PASSWORD 'richtig'");
    cluster.sql("SELECT pg_reload_conf()");
    let at = |user: &str, port: u16, rest: &str| format!("postgres://{user}@127.0.0.1:{port}/{rest}");
    let said = async |url: String| {
        let error = open(&url).await.expect_err(&url);
        assert!(!error.to_string().contains("geheim") && !format!("{error:?}").contains("geheim"), "{error}");
        error
    };
    let error = said(at("ann:geheim", cluster.port, "postgres")).await;
    assert!(matches!(&error, OpenError::Refused { user, .. } if user == "ann"), "{error}");
    let error = said(at("ann:richtig", cluster.port, "postgres")).await;
    assert!(matches!(error, OpenError::Rights(_)), "{error}");
    let error = said(at("postgres:geheim", cluster.port, "nowhere")).await;
    assert!(matches!(error, OpenError::Database { .. }), "{error}");
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let error = said(at("postgres:geheim", free, "postgres")).await;
    assert!(matches!(error, OpenError::Unreachable { .. }), "{error}");
    let error = said(at("postgres:geheim", cluster.port, "postgres?sslmode=require")).await;
    assert!(matches!(error, OpenError::Tls(_) | OpenError::Unreachable { .. }), "{error}");
    // With the rights it needs it opens; a newer schema is left alone.
    cluster.sql("GRANT CREATE ON DATABASE postgres TO ann");
    let url = at("ann:richtig", cluster.port, "postgres?schema=hub");
    open(&url).await.unwrap().close().await.unwrap();
    cluster.sql("INSERT INTO hub.migrations VALUES (99, '0099_x.sql', '')");
    let before = cluster.sql("SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables");
    let error = said(url.clone()).await;
    assert!(matches!(error, OpenError::Newer { found: 99, .. }), "{error}");
    assert_eq!(cluster.sql("SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables"), before);
    cluster.sql("DELETE FROM hub.migrations WHERE number = 99; UPDATE hub.migrations SET checksum = 'x'");
    let error = said(url).await;
    assert!(error.to_string().contains("0001_initial.sql"), "{error}");
}

/// A copy is a database of the embedded store: it opens there with everything in it, remembered ids included.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_opens_as_an_embedded_store() {
    let store = node(&CLUSTER.fresh_url()).await;
    let me = instance(&*store, "inst_a").await;
    commit(&*store, vec![Write::Announce(announce(me, "helper"))]).await;
    let write = |id: &str| Write::Append(with_id(to(finding(me), "helper", None), id, 1));
    let short = Append { expires_at_ms: START_MS + 2000, ..with_id(finding(me), "gone", 1) };
    commit(&*store, vec![Write::Append(short)]).await;
    let writes: Vec<_> = (0..50).map(|number| write(&format!("c{number}"))).collect();
    let first = appended(&commit(&*store, writes).await[7]);
    let swept =
        store.commit(Batch { at_ms: START_MS + 2000, writes: vec![Write::Sweep { limit: 100 }] }).await;
    assert_eq!(swept.unwrap(), [Outcome::Swept(1)]);
    let dir = tempfile::tempdir().unwrap();
    store.backup(dir.path().join("switchboard.db")).await.unwrap();
    let options = switchboard_store::sqlite::Options { wal_bytes: 1 << 20, ..Default::default() };
    let copy = switchboard_store::sqlite::SqliteStore::open_dir(dir.path(), options).unwrap();
    let found = copy.open(genesis()).await.unwrap();
    assert_eq!((found.org_id, found.epoch), (genesis().org_id, genesis().epoch));
    assert_eq!(verified(&copy).await, verified(&*store).await);
    assert_eq!(copy.ledger().await.unwrap(), store.ledger().await.unwrap());
    let again = appended(&commit(&copy, vec![write("c7")]).await[0]);
    assert_eq!((again.id, again.repeat), (first.id, true));
    let gone = commit(&copy, vec![Write::Append(with_id(finding(me), "gone", 1))]).await;
    assert!(appended(&gone[0]).repeat, "an id outlives its message and the move");
    assert_eq!(appended(&commit(&copy, vec![write("new")]).await[0]).id.seq, 52);
}
