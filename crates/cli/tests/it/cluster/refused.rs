//! What is wrong with a database or a clock: said with what to do, and without harm.

use super::authority::Authority;
use super::{Nodes, all_ring, one_hub::in_future, received, text, until};
use serde_json::{Value, json};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use switchboard_core::time::{Clock as _, SystemClock};
use switchboard_store::conformance::cluster::{Cluster, SMALL_DISK};
use switchboard_testkit::{Http, PATIENCE, Process, Socket};

const PROGRAM: &str = env!("CARGO_BIN_EXE_switchboard");

/// Lets a server speak TLS with a certificate for this name, from now on.
fn encrypt(cluster: &Cluster, authority: &Authority, name: &str) {
    let (certificate, key) = authority.issue(name);
    let data = cluster.dir.join("data");
    let owner = std::fs::metadata(&data).unwrap();
    for (file, content) in [("server.crt", certificate), ("server.key", key)] {
        let file = data.join(file);
        std::fs::write(&file, content).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        chown(&file, Some(owner.uid()), Some(owner.gid())).unwrap();
    }
    cluster.sql("ALTER SYSTEM SET ssl = on");
    cluster.sql("SELECT pg_reload_conf()");
}

/// What `serve` says of a store that it cannot use, as one line.
fn refused(url: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let mut serve = Command::new(PROGRAM);
    serve.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(dir.path()).stdin(Stdio::null());
    serve.env("SWITCHBOARD_STORE_URL", url).env_remove("SSL_CERT_FILE");
    let ended = serve.output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(3), "{url}: {said}");
    assert!(said.contains("SB0205") && !said.contains("geheim"), "{url}: {said}");
    said
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_encrypted_database_is_believed_by_its_authority_and_its_name_alone() {
    let cluster = tokio::task::spawn_blocking(Cluster::start).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (authority, stranger) = (Authority::new(), Authority::new());
    let ca = authority.write(dir.path());
    let strange = dir.path().join("strange");
    std::fs::create_dir(&strange).unwrap();
    let strange = stranger.write(&strange);
    let at = |host: &str, rest: &str| {
        format!("postgres://postgres:geheim@{host}:{}/postgres?schema=tls{rest}", cluster.port)
    };
    let with = |ca: &Path| format!("&sslmode=require&sslrootcert={}", ca.display());
    let plain = refused(&at("localhost", &with(&ca)));
    assert!(plain.contains("no encrypted connection") && plain.contains("sslmode=disable"), "{plain}");
    encrypt(&cluster, &authority, "localhost");
    until("the server speaks TLS", PATIENCE, async || cluster.sql("SHOW ssl") == "on").await;
    for (url, why) in [
        (at("127.0.0.1", &with(&ca)), "not valid for name"),
        (at("localhost", &with(&strange)), "invalid peer certificate"),
        (at("localhost", "&sslmode=require"), "UnknownIssuer"),
    ] {
        let said = refused(&url);
        assert!(said.contains(why) && said.contains("sslrootcert=FILE"), "{why}: {said}");
    }
    let good = at("localhost", &with(&ca));
    let variables = [("SWITCHBOARD_STORE_URL", good.as_str())];
    let hub = Process::start_set(Path::new(PROGRAM), &dir.path().join("data"), &variables).await;
    until("its doorbell rings", PATIENCE, async || super::rings(&hub).await).await;
    assert_eq!(hub.admin().get("/admin/v1/status").await.json()["backend"], "postgres");
    let open = "SELECT count(*) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) WHERE application_name LIKE 'switchboard%' AND ssl";
    let bare = open.replace("AND ssl", "AND NOT ssl");
    assert!(
        cluster.sql(open).parse::<u32>().unwrap() >= 3 && cluster.sql(&bare) == "0",
        "the doorbell's as well"
    );
}

/// Sends until it is refused; how many were stored.
async fn fill(socket: &mut Socket, nodes: &Nodes, from: usize) -> (usize, Value) {
    let mut stored = from;
    loop {
        let mut message = nodes.message(&format!("m{stored}"), "finding", "a");
        message["body"]["text"] = json!("x".repeat(3900));
        let answer = socket.ask(&message).await;
        if answer["t"] == "error" {
            return (stored, answer);
        }
        stored += 1;
        assert!(stored < 4000, "the disk never filled up");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_of_the_database_refuses_writes_keeps_reads_and_recovers() {
    if !Cluster::has_small_disks() {
        eprintln!("this system mounts no disk for a test: a full disk of the database was not tried");
        return;
    }
    let cluster = tokio::task::spawn_blocking(|| Cluster::with_small_disk(32)).await.unwrap();
    // Tables stand on the small disk; the write-ahead log does not.
    cluster.sql(&format!("CREATE TABLESPACE small LOCATION '{SMALL_DISK}'"));
    cluster.sql("ALTER ROLE postgres SET default_tablespace = small");
    cluster.sql("CREATE TABLE filler AS SELECT repeat(md5(i::text), 240) AS x FROM generate_series(1, 1800) i; ALTER TABLE filler ALTER x SET STORAGE EXTERNAL");
    cluster.sql("INSERT INTO filler SELECT repeat(md5(i::text), 240) FROM generate_series(1, 1800) i");
    let (nodes, running) = Nodes::start_at(cluster.fresh_url(), 1, "auto", Vec::new()).await;
    let token = running[0].token("a").await;
    let mut socket = nodes.agent(&running[0], &token, "a").await;
    let (stored, answer) = fill(&mut socket, &nodes, 0).await;
    assert_eq!(answer["error"]["reason"], "storage_full", "{answer}");
    assert!(answer["error"]["retry_after_s"].is_u64() && stored > 0, "{answer}");
    let http = Http::new(&running[0].url, &token.bearer);
    let page = http.get(&format!("/v1/messages?network=org&channel={}&limit=1", nodes.channel())).await;
    assert_eq!(page.status, 200, "reads go on: {}", page.text);
    cluster.sql("DROP TABLE filler");
    let id = format!("m{stored}");
    let mut message = nodes.message(&id, "finding", "a");
    message["body"]["text"] = json!("x".repeat(3900));
    let answer = socket.ask(&message).await;
    assert_eq!(answer["seq"], json!(stored + 1), "it goes on by itself, where it stopped: {answer}");
    until("it is ready", PATIENCE, async || running[0].admin().get("/readyz").await.status == 200).await;
    let verified = running[0].admin().get("/admin/v1/status").await.json();
    assert_eq!(verified["ledger"]["bus"]["accepted"], json!(stored + 1), "{verified}");
}

/// The library that shows a program another time; `./test` installs it.
fn other_time() -> PathBuf {
    let folders = std::fs::read_dir("/usr/lib").unwrap().flatten().map(|folder| folder.path());
    let mut found = folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1"));
    found.find(|path| path.exists()).expect("libfaketime is there: ./test e2e installs it")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_clock_is_five_minutes_off_goes_by_the_stores() {
    let (mut nodes, mut running) = Nodes::start(1, "auto").await;
    for off in ["+5m", "-5m"] {
        nodes.more = vec![
            ("LD_PRELOAD", other_time().display().to_string()),
            ("FAKETIME", off.to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ];
        running.push(nodes.add().await);
    }
    all_ring(&running).await;
    let reader = running[0].token("reader").await;
    let mut watcher = nodes.agent(&running[0], &reader, "reader").await;
    for (number, name) in [(1, "early"), (2, "late")] {
        let token = running[0].token(name).await;
        let mut socket = nodes.agent(&running[number], &token, name).await;
        let mut question = nodes.message(name, "question", name);
        question["deadline"] = in_future(Duration::from_secs(3));
        let before = SystemClock::default().wall_ms();
        let stored = socket.ask(&question).await;
        assert_eq!(
            stored["t"], "message.stored",
            "a deadline by the right time is none of the past: {stored}"
        );
        assert_eq!(received(&mut watcher, 1).await[0].1, name);
        let proposed = socket.expect("task.event").await;
        let took = SystemClock::default().wall_ms() - before;
        assert_eq!(proposed["state"], "proposed");
        assert!((2_000..15_000).contains(&took), "{name}: after {took} ms");
        socket.close().await;
    }
    let page = Http::new(&running[1].url, &reader.bearer)
        .get(&format!("/v1/messages?network=org&channel={}", nodes.channel()))
        .await
        .json();
    // Written alike, UTC times are ordered as texts.
    let now = SystemClock::default().wall_ms();
    let [earliest, latest] =
        [now - 120_000, now + 1_000].map(|ms| text(&json!(switchboard_engine::frame::utc(ms))));
    for message in page["messages"].as_array().unwrap() {
        let sent = text(&message["server_time"]);
        assert!(earliest <= sent && sent <= latest, "stamped by the store's clock: {sent}");
    }
}
