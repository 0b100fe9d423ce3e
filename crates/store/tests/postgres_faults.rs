//! Several nodes on one database, and what happens when something gives way beneath them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
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
async fn storm(
    store: Arc<PostgresStore>,
    caller: usize,
    me: InstanceNo,
    target: (StreamId, InstanceNo),
) -> u64 {
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
        let event = switchboard_core::ids::EventId { stream: target.0, seq: 1 + batch as u64 % 3 };
        let agent = format!("agent{}", caller % 3);
        writes.push(Write::Receipt(Receipt { event, instance: me, agent, state: ReceiptState::Read }));
        // What several nodes say of the same agent, as when it moves from one to another.
        let mut positions: Vec<_> = (1..=6).map(|stream| (StreamId(stream), batch as u64)).collect();
        positions.rotate_left(caller % 6);
        let agent = format!("agent{}", (caller + batch) % 3);
        writes.push(Write::AdvanceInbox { instance: target.1, agent, positions });
        let mut notices: Vec<_> = (1..20).map(|number| i64::try_from(batch * 8).unwrap() + number).collect();
        notices.rotate_left(caller);
        writes.push(Write::NoticesSent { notices });
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
        callers.push(tokio::spawn(storm(Arc::clone(&nodes[(caller + 1) % 4]), caller, me, (target, owner))));
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
    for agent in ["agent0", "agent1", "agent2"] {
        let inbox = nodes[0].inbox(owner, agent.into()).await.unwrap();
        assert!(!inbox.is_empty() && inbox.iter().all(|(_, position)| *position > 0), "{inbox:?}");
    }
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

/// Nodes that all change what the others remember: none is kept from it for ever by the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nodes_that_all_change_the_directory_all_get_through() {
    let url = CLUSTER.fresh_url();
    let mut changing = Vec::new();
    for number in 0..6 {
        let store = node(&url).await;
        changing.push(tokio::spawn(async move {
            for round in 0..25 {
                instance(&*store, &format!("inst_{number}_{round}")).await;
            }
            store
        }));
    }
    let nodes: Vec<_> =
        futures_util::future::join_all(changing).await.into_iter().map(Result::unwrap).collect();
    verified(&*nodes[0]).await;
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

/// What becomes of a request that a [`Proxy`] waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// It does not arrive.
    Before,
    /// It arrives, and its answer does not.
    After,
    /// It arrives when the look-up has been answered, but before the node hears that answer.
    Late,
}

/// What a [`Proxy`] waits for.
struct Trap {
    // All of them.
    bytes: &'static [&'static [u8]],
    cut: Cut,
}

/// Stands between a node and the server, and cuts connections in the middle of a commit.
struct Proxy {
    port: u16,
    shared: Arc<Traps>,
}

#[derive(Default)]
struct Traps {
    next: Mutex<Option<Trap>>,
    // What arrives late, with the connection on which it does.
    held: Mutex<Option<(TcpStream, Vec<u8>)>>,
    // What the server said to it.
    said: Mutex<Vec<u8>>,
    // Whether the last request that was cut began with BEGIN, or had that before it since the trap was set.
    begun: AtomicBool,
}

impl Proxy {
    async fn start(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::<Traps>::default();
        let traps = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(forward(client, to, Arc::clone(&traps)));
            }
        });
        Self { port, shared }
    }

    fn set(&self, bytes: &'static [&'static [u8]], cut: Cut) {
        self.shared.begun.store(false, Ordering::SeqCst);
        self.shared.said.lock().clear();
        *self.shared.next.lock() = Some(Trap { bytes, cut });
    }

    fn has_cut(&self) -> bool {
        self.shared.next.lock().is_none()
    }
}

fn holds(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

async fn forward(mut client: TcpStream, to: u16, traps: Arc<Traps>) {
    let mut server = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
    // The look-up comes over a new connection; other work of the node has its own.
    let looks_up = traps.held.lock().is_some();
    let (mut up, mut down) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            read = client.read(&mut up) => {
                let Ok(length @ 1..) = read else { return };
                let bytes = &up[..length];
                let armed = traps.next.lock().is_some();
                if armed && holds(bytes, b"BEGIN\0") {
                    traps.begun.store(true, Ordering::SeqCst);
                }
                let trap = traps.next.lock().take_if(|trap| trap.bytes.iter().all(|wanted| holds(bytes, wanted)));
                match trap.map(|trap| trap.cut) {
                    Some(Cut::Before) => return,
                    Some(Cut::After) => {
                        server.write_all(bytes).await.unwrap();
                        // It answers when it has finished.
                        answer(&mut server).await;
                        return;
                    }
                    Some(Cut::Late) => {
                        *traps.held.lock() = Some((server, bytes.to_vec()));
                        return;
                    }
                    None => {}
                }
                if server.write_all(bytes).await.is_err() {
                    return;
                }
                let held = if looks_up && holds(bytes, b"COMMIT\0") { traps.held.lock().take() } else { None };
                if let Some((mut late, request)) = held {
                    let looked_up = answer(&mut server).await;
                    late.write_all(&request).await.unwrap();
                    *traps.said.lock() = answer(&mut late).await;
                    client.write_all(&looked_up).await.unwrap();
                }
            }
            read = server.read(&mut down) => {
                let Ok(length @ 1..) = read else { return };
                if client.write_all(&down[..length]).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// All that the server answers, until it has nothing to do any more and is in no transaction.
async fn answer(server: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    while !all.ends_with(b"Z\0\0\0\x05I") {
        let count = server.read_buf(&mut all).await.unwrap();
        assert!(count > 0, "the server has closed the connection");
    }
    all
}

/// A store through a proxy, with an instance.
async fn through_proxy(cluster: &Cluster) -> (Proxy, Arc<PostgresStore>, InstanceNo) {
    let proxy = Proxy::start(cluster.port).await;
    let url = cluster.fresh_url();
    let through = url.replace(&cluster.port.to_string(), &proxy.port.to_string());
    let store = node(&through).await;
    let me = instance(&*store, "inst_a").await;
    (proxy, store, me)
}

/// A connection that is cut in the middle of a commit: whether it stands is looked up, and it is neither lost nor done twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_is_lost_is_looked_up() {
    let (proxy, store, me) = through_proxy(&CLUSTER).await;
    let before = verified(&*store).await;
    let cuts = [Some(Cut::After), Some(Cut::Before), None, Some(Cut::Before), Some(Cut::After)];
    for (seq, cut) in (1..).zip(cuts) {
        if let Some(cut) = cut {
            proxy.set(&[b"COMMIT\0"], cut);
        }
        // Without an id of the client's: nothing but the look-up keeps it from standing twice.
        let done = commit(&*store, vec![Write::Append(finding(me))]).await;
        assert_eq!(appended(&done[0]).id.seq, seq, "{cut:?}");
        assert_eq!(verified(&*store).await, before + seq);
    }
}

/// The same where a commit is one round trip, which holds no lock before it arrives: what was not found when it was looked up
/// does not go through any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_of_one_round_trip_that_was_looked_up_in_vain_comes_to_nothing() {
    // Of its own: another test ends connections.
    let cluster = Cluster::start();
    let (proxy, store, me) = through_proxy(&cluster).await;
    let before = verified(&*store).await;
    let cuts = [Cut::Late, Cut::After, Cut::Before, Cut::Late];
    let rounds = cuts.map(|cut| (cut, true)).into_iter().chain(cuts.map(|cut| (cut, false)));
    let mut seq = 0;
    for (round, (cut, with_ids)) in rounds.enumerate() {
        for step in 0..4 {
            let mut write = in_channel(finding(me), "general");
            if with_ids {
                write = with_id(write, &format!("{round}-{step}"), 1);
            }
            if step == 3 {
                write.data = b"the message that is cut".as_slice().into();
                // By now the node is sure of the head.
                let all: &[&[u8]] = &[b"the message that is cut", b"COMMIT\0"];
                proxy.set(if with_ids { &all[..1] } else { all }, cut);
            }
            let done = commit(&*store, vec![Write::Append(write)]).await;
            seq += 1;
            let done = appended(&done[0]);
            assert_eq!((done.id.seq, done.repeat), (seq, false), "{cut:?} {with_ids}");
        }
        assert!(proxy.has_cut(), "{cut:?}");
        assert_eq!(proxy.shared.begun.load(Ordering::SeqCst), !with_ids, "one statement, {cut:?}");
        let said = proxy.shared.said.lock().clone();
        assert_eq!(cut == Cut::Late, holds(&said, b"22012"), "{}", String::from_utf8_lossy(&said));
        assert_eq!(verified(&*store).await, before + seq);
    }
}

#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

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
