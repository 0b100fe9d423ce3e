//! Databases that cannot be used, and statements that fail for a while: what is said, and what is tried again.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;
use switchboard_core::port::store::{Store as _, StoreError};
use switchboard_core::write::{Batch, Outcome, Write};
use switchboard_store::conformance::bench::{
    START_MS, appended, finding, genesis, instance_of, new_instance,
};
use switchboard_store::conformance::cluster::Cluster;
use switchboard_store::postgres::{Address, OpenError, Options, PostgresStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

async fn open(url: &str) -> Result<PostgresStore, OpenError> {
    PostgresStore::connect(Address::parse(url)?, Options { readers: 2, ..Options::default() }).await
}

/// One message of the server's: its type, its length, its content.
fn message(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len() + 4).unwrap().to_be_bytes();
    [&[kind], &length[..], content].concat()
}

/// Reads one message of the client's behind the first: its type.
async fn read(client: &mut TcpStream) -> Option<u8> {
    let kind = client.read_u8().await.ok()?;
    let length = client.read_u32().await.ok()?;
    let mut content = vec![0; length as usize - 4];
    client.read_exact(&mut content).await.ok()?;
    Some(kind)
}

/// What PostgreSQL 14.9 answers to a client that asks it for its version: numbers of types are those of int4 and text.
async fn old_server(mut client: TcpStream) {
    let length = client.read_u32().await.unwrap();
    let mut startup = vec![0; length as usize - 4];
    client.read_exact(&mut startup).await.unwrap();
    let ready = message(b'Z', b"I");
    let greeting = [
        message(b'R', &[0; 4]),
        message(b'S', b"server_version\x0014.9\0"),
        message(b'S', b"client_encoding\0UTF8\0"),
        ready.clone(),
    ];
    client.write_all(&greeting.concat()).await.unwrap();
    let column = |name: &[u8], oid: u32, size: i16| {
        let (oid, size) = (oid.to_be_bytes(), size.to_be_bytes());
        [name, &[0; 7], &oid, &size, &(-1_i32).to_be_bytes(), &[0, 0]].concat()
    };
    let columns = [&2_u16.to_be_bytes()[..], &column(b"n", 23, 4), &column(b"v", 25, -1)].concat();
    let (number, text) = (140_009_i32.to_be_bytes(), b"14.9");
    let row = [&2_u16.to_be_bytes()[..], &[0, 0, 0, 4], &number, &[0, 0, 0, 4], text].concat();
    while let Some(kind) = read(&mut client).await {
        let answer = match kind {
            b'P' => message(b'1', &[]),
            b'D' => [message(b't', &[0, 0]), message(b'T', &columns)].concat(),
            b'B' => message(b'2', &[]),
            b'E' => [message(b'D', &row), message(b'C', b"SELECT 1\0")].concat(),
            b'C' => message(b'3', &[]),
            b'S' => ready.clone(),
            _ => return,
        };
        client.write_all(&answer).await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_is_too_old_is_named_with_its_version() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(old_server(client));
        }
    });
    let url = format!("postgres://ann@127.0.0.1:{port}/hub");
    let opened = open(&url);
    let error = tokio::time::timeout(Duration::from_secs(20), opened).await.expect("in time").unwrap_err();
    assert!(matches!(&error, OpenError::Old { found } if found == "14.9"), "{error}");
    assert!(error.to_string().contains("at least 15 is needed. Upgrade it"), "{error}");
}

/// What a server says that is about to be up, or to be gone.
async fn starting_server(mut client: TcpStream) {
    let length = client.read_u32().await.unwrap();
    let mut startup = vec![0; length as usize - 4];
    client.read_exact(&mut startup).await.unwrap();
    let fields = b"SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0";
    client.write_all(&message(b'E', fields)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_about_to_be_up_is_waited_for() {
    let cluster = tokio::task::spawn_blocking(Cluster::start).await.unwrap();
    let url = tokio::task::spawn_blocking(move || (cluster.fresh_url(), cluster)).await.unwrap();
    let (url, _cluster) = url;
    let real = url.split('@').nth(1).unwrap().split('/').next().unwrap().to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = url.replace(&real, &listener.local_addr().unwrap().to_string());
    tokio::spawn(async move {
        for turn in 0.. {
            let Ok((mut client, _)) = listener.accept().await else { return };
            if turn < 3 {
                tokio::spawn(starting_server(client));
                continue;
            }
            let mut server = TcpStream::connect(&real).await.unwrap();
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut client, &mut server).await });
        }
    });
    let store = tokio::time::timeout(Duration::from_secs(20), open(&url)).await.expect("in time").unwrap();
    assert_eq!(store.open(genesis()).await.unwrap().org_id, genesis().org_id);
}

/// Makes every INSERT into the log fail so many times with an error of this code, also across rollbacks.
fn fail(cluster: &Cluster, schema: &str, code: &str, times: u32) {
    cluster.sql(&format!(
        "SET search_path = {schema}; CREATE SEQUENCE IF NOT EXISTS failures; SELECT setval('failures', 1, false);
         CREATE OR REPLACE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql SET search_path = {schema} AS $$ BEGIN
             IF nextval('failures') <= {times} THEN RAISE EXCEPTION 'made up' USING ERRCODE = '{code}'; END IF;
             RETURN NEW; END $$;
         DROP TRIGGER IF EXISTS fail ON log;
         CREATE TRIGGER fail BEFORE INSERT ON log FOR EACH ROW EXECUTE FUNCTION fail()"
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn serialization_failures_and_deadlocks_are_tried_again_within_bounds() {
    let cluster = Cluster::start();
    let store = open(&cluster.url("hub")).await.unwrap();
    store.open(genesis()).await.unwrap();
    let commit = async |write| {
        let batch = Batch { at_ms: START_MS + 1000, writes: vec![write] };
        let outcomes: Result<Vec<Outcome>, StoreError> = store.commit(batch).await;
        outcomes.map(|outcomes| outcomes.into_iter().next().unwrap())
    };
    let made = commit(Write::CreateInstance(new_instance("inst_a", Some("a")))).await.unwrap();
    let me = instance_of(&made);
    let tried = || cluster.sql("SELECT last_value FROM hub.failures").parse::<u32>().unwrap();
    let mut seq = 0;
    for code in ["40001", "40P01", "55P03"] {
        fail(&cluster, "hub", code, 4);
        seq += 1;
        assert_eq!(appended(&commit(Write::Append(finding(me))).await.unwrap()).id.seq, seq, "{code}");
        assert_eq!(tried(), 5, "{code}: four failures and the one that stands");
        fail(&cluster, "hub", code, u32::MAX);
        let error = tokio::time::timeout(Duration::from_secs(30), commit(Write::Append(finding(me)))).await;
        let error = error.expect("an end").unwrap_err();
        if code == "55P03" {
            // Waited for as long as for a database that is out of reach, and named.
            assert!(
                matches!(&error, StoreError::Unreachable(why) if why.contains("holds a lock")),
                "{error}"
            );
        } else {
            assert!(matches!(error, StoreError::Overloaded), "{code}: {error}");
        }
        let most = if code == "55P03" { 60 } else { 20 };
        assert!((5..=most).contains(&tried()), "{code}: bounded, {} tries", tried());
        cluster.sql("DROP TRIGGER fail ON hub.log");
    }
    assert_eq!(
        appended(&commit(Write::Append(finding(me))).await.unwrap()).id.seq,
        seq + 1,
        "and nothing else"
    );
}
