//! Moving house: a hub goes from SQLite to PostgreSQL and back with all its clients.

use super::{CLUSTER, received, text, until};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Output, Stdio};
use switchboard_testkit::{Http, PATIENCE, Process, Socket, Token};
use tokio::process::{Child, Command};

const PROGRAM: &str = env!("CARGO_BIN_EXE_switchboard");

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).arg("--json").stdin(Stdio::null()).kill_on_drop(true);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SWITCHBOARD_") {
            command.env_remove(name);
        }
    }
    command
}

async fn run(arguments: &[&str]) -> Output {
    let ended = tokio::time::timeout(2 * PATIENCE, command(arguments).output()).await;
    ended.expect("it ends in time").expect("the program starts")
}

/// What it printed.
async fn json_of(arguments: &[&str]) -> Value {
    let output = run(arguments).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Why it was refused.
async fn refused(arguments: &[&str], sb: &str) -> String {
    let output = run(arguments).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains(&format!("error {sb}: ")), "{sb}: {said}");
    assert!(!said.contains("geheim"), "no password is repeated: {said}");
    said
}

async fn sql(statements: String) -> String {
    tokio::task::spawn_blocking(move || CLUSTER.sql(&statements)).await.unwrap()
}

/// A fresh schema's URL and name.
async fn fresh() -> (String, String) {
    let url = tokio::task::spawn_blocking(|| CLUSTER.fresh_url()).await.unwrap();
    let schema = url.rsplit_once('=').unwrap().1.to_owned();
    (url, schema)
}

/// A hub on its data directory, or on the store at `url`.
async fn serve(dir: &Path, url: Option<&str>) -> Process {
    let variables: Vec<_> = url.map(|url| ("SWITCHBOARD_STORE_URL", url)).into_iter().collect();
    Process::start_set(Path::new(PROGRAM), dir, &variables).await
}

/// Two agents on a channel.
struct Room {
    channel: String,
    vault: String,
    a: Token,
    b: Token,
}

impl Room {
    async fn of(hub: &Process) -> Self {
        let admin = hub.admin();
        let org = text(&admin.get("/admin/v1/status").await.json()["org_id"]);
        let vault = text(&admin.get("/admin/v1/vaults").await.json()[0]["vault_id"]);
        let channel = format!("org:{org}/vault:{vault}/general");
        Self { channel, vault, a: hub.token("a").await, b: hub.token("b").await }
    }

    /// Sends a message under an idempotency key; returns the answer's bytes.
    async fn post(&self, hub: &Process, id: &str) -> String {
        let mut message = self.message(id);
        message.as_object_mut().unwrap().remove("t");
        let key = [("Idempotency-Key", "key-1")];
        let http = Http::new(&hub.url, &self.a.bearer);
        let answer = http.post_raw("/v1/messages", message.to_string(), &key).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.text
    }

    async fn agent(&self, hub: &Process, name: &str, cursor: Option<u64>) -> Socket {
        let token = if name == "a" { &self.a } else { &self.b };
        let mut socket = Socket::connect(&hub.url, &token.bearer).await.expect("the bearer is good");
        let agents = json!([{ "agent_id": name, "role": "tester", "vault_id": self.vault }]);
        let cursors = cursor.map_or(json!({}), |cursor| json!({ &self.channel: cursor }));
        socket.hello(&token.instance_id, &agents, &cursors).await;
        socket
    }

    fn message(&self, id: &str) -> Value {
        json!({ "t": "message", "client_msg_id": id, "network": { "kind": "org", "channel": self.channel },
            "type": "finding", "from": "a", "body": { "text": id } })
    }
}

async fn status(hub: &Process) -> Value {
    hub.admin().get("/admin/v1/status").await.json()
}

async fn assert_log_holds(hub: &Process) {
    let verified = hub.admin().post("/admin/v1/log/verify", &json!({})).await.json();
    assert_eq!(verified["ok"], true, "{verified}");
}

/// A hub with five messages of a, of which b has seen three; stopped in order.
async fn lived_in(dir: &Path) -> (Room, Vec<Value>, Value, String) {
    let hub = serve(dir, None).await;
    let room = Room::of(&hub).await;
    let (mut a, mut b) = (room.agent(&hub, "a", None).await, room.agent(&hub, "b", None).await);
    a.drain().await;
    let mut stored = Vec::new();
    for id in ["m1", "m2", "m3"] {
        stored.push(a.ask(&room.message(id)).await);
    }
    assert_eq!(received(&mut b, 3).await.last().unwrap().0, 3);
    b.send(&json!({ "t": "message.receipt", "gid": stored[0]["gid"], "by": "b", "state": "read" })).await;
    b.barrier().await;
    b.close().await;
    stored.push(a.ask(&room.message("m4")).await);
    let posted = room.post(&hub, "m5").await;
    a.close().await;
    let status = status(&hub).await;
    hub.terminate().await;
    (room, stored, status, posted)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_client_goes_on_from_its_cursor_on_the_database() {
    let (old, new, (url, _)) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), fresh().await);
    let (room, stored, before, posted) = lived_in(old.path()).await;
    let from = format!("sqlite:{}", old.path().display());
    let copied = json_of(&["store", "copy", "--from", &from, "--to", &url]).await;
    assert_eq!((&copied["ok"], &copied["epoch"]), (&json!(true), &before["epoch"]), "{copied}");
    assert_eq!(copied["tables"]["events"], 5, "{copied}");
    assert!(copied["entries"].as_u64().unwrap() > 5, "{copied}");

    let hub = serve(new.path(), Some(&url)).await;
    let after = status(&hub).await;
    for same in ["org_id", "epoch", "ledger"] {
        assert_eq!(after[same], before[same], "{same}");
    }
    let (mut a, mut b) = (room.agent(&hub, "a", Some(5)).await, room.agent(&hub, "b", Some(3)).await);
    assert_eq!(received(&mut b, 2).await, [(4, "m4".into()), (5, "m5".into())]);
    // What was sent before the move gets its answer, and is no second message.
    let again = a.ask(&room.message("m2")).await;
    assert_eq!(
        (&again["t"], &again["gid"], &again["seq"]),
        (&json!("message.stored"), &stored[1]["gid"], &json!(2))
    );
    assert_eq!(room.post(&hub, "m5").await, posted, "byte for byte");
    let mut reply = room.message("m6");
    reply["reply_to"] = stored[0]["gid"].clone();
    assert_eq!(a.ask(&reply).await["seq"], 6, "ids from before the move lead to their messages");
    assert_eq!(received(&mut b, 1).await, [(6, "m6".into())]);
    assert!(b.drain_of("message.deliver").await.is_empty());
    assert_log_holds(&hub).await;
    let found = Http::new(&hub.url, &room.b.bearer).get("/v1/search?q=m2").await;
    assert!(
        found.text.contains(stored[1]["gid"].as_str().unwrap()),
        "the index is made anew: {}",
        found.text
    );
    // The old place is closed, for the hub and for a second copy.
    let data = old.path().to_str().unwrap();
    let said = refused(&["serve", "--listen", "127.0.0.1:0", "--data-dir", data], "SB0212").await;
    assert!(said.contains("goes on there"), "{said}");
    refused(&["store", "copy", "--from", &from, "--to", &url], "SB0211").await;
    let (other, _) = fresh().await;
    refused(&["store", "copy", "--from", &from, "--to", &other], "SB0211").await;
    hub.terminate().await;
    // Unless somebody says otherwise: then positions of the new place mean nothing at the old one.
    let reopened = json_of(&["store", "reopen", &from]).await;
    assert_ne!(reopened["epoch"], before["epoch"]);
    let hub = serve(old.path(), None).await;
    assert_eq!(status(&hub).await["epoch"], reopened["epoch"]);
    assert_log_holds(&hub).await;
    refused(&["store", "reopen", &from], "SB0203").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_comes_back_into_a_directory_once_its_nodes_have_gone() {
    let (old, node, new) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let ((url, _), (second, _)) = (fresh().await, fresh().await);
    let (room, ..) = lived_in(old.path()).await;
    let from = format!("sqlite:{}", old.path().join("switchboard.db").display());
    json_of(&["store", "copy", "--from", &from, "--to", &url]).await;
    let hub = serve(node.path(), Some(&url)).await;
    let to = format!("sqlite:{}", new.path().join("hub").display());
    let said = refused(&["store", "copy", "--from", &url, "--to", &to], "SB0211").await;
    assert!(said.contains("in use by a running hub"), "{said}");
    let mut a = room.agent(&hub, "a", Some(5)).await;
    assert_eq!(a.ask(&room.message("m6")).await["seq"], 6);
    a.close().await;
    hub.terminate().await;
    json_of(&["store", "copy", "--from", &url, "--to", &second]).await;
    let copied = json_of(&["store", "copy", "--from", &second, "--to", &to]).await;
    assert_eq!(copied["tables"]["events"], 6, "{copied}");
    let left = ["serve", "--listen", "127.0.0.1:0", "--data-dir", node.path().to_str().unwrap()];
    let output = command(&left).env("SWITCHBOARD_STORE_URL", &second).output().await.unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("error SB0212: "), "{output:?}");

    let hub = serve(&new.path().join("hub"), None).await;
    let (mut a, mut b) = (room.agent(&hub, "a", Some(6)).await, room.agent(&hub, "b", Some(4)).await);
    assert_eq!(received(&mut b, 2).await, [(5, "m5".into()), (6, "m6".into())]);
    for (id, seq) in [("m1", 1), ("m6", 6), ("m7", 7)] {
        assert_eq!(a.ask(&room.message(id)).await["seq"], seq, "{id}");
    }
    assert_log_holds(&hub).await;
}

/// Somebody who holds a lock on a table until it is dropped.
async fn lock(table: &str) -> Child {
    let mut psql = Command::new(CLUSTER.programs().join("psql"));
    psql.args([
        "-X",
        "-q",
        "-h",
        "127.0.0.1",
        "-U",
        "postgres",
        "-d",
        "postgres",
        "-p",
        &CLUSTER.port.to_string(),
    ]);
    psql.args(["-c", &format!("BEGIN; LOCK TABLE {table} IN SHARE MODE; SELECT pg_sleep(600)")]);
    let holder = psql.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true).spawn().unwrap();
    let held =
        format!("SELECT count(*) FROM pg_locks WHERE relation = '{table}'::regclass AND mode = 'ShareLock'");
    until("the lock is held", PATIENCE, async || sql(held.clone()).await == "1").await;
    holder
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_killed_in_the_middle_is_used_by_nobody_and_is_made_again() {
    let (old, new, (url, schema)) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), fresh().await);
    let (room, ..) = lived_in(old.path()).await;
    let from = format!("sqlite:{}", old.path().display());
    // The schema, with nothing in it.
    refused(&["store", "reopen", &url], "SB0211").await;
    let holder = lock(&format!("{schema}.checkpoints")).await;
    let mut copy = command(&["store", "copy", "--from", &from, "--to", &url]);
    let mut copy = copy.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let waits = format!(
        "SELECT count(*) FROM pg_locks WHERE relation = '{schema}.checkpoints'::regclass AND NOT granted"
    );
    until("the copy is in the middle", PATIENCE, async || sql(waits.clone()).await == "1").await;
    let second = refused(&["store", "copy", "--from", &from, "--to", &url], "SB0211").await;
    assert!(second.contains("being copied already"), "{second}");
    copy.kill().await.unwrap();
    // A server that sleeps does not notice that its client has gone.
    drop(holder);
    let ends = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE mode = 'ShareLock' AND granted";
    sql(format!("{ends} AND relation = '{schema}.checkpoints'::regclass")).await;

    let data = new.path().to_str().unwrap();
    let serving = ["serve", "--listen", "127.0.0.1:0", "--data-dir", data];
    let output = command(&serving).env("SWITCHBOARD_STORE_URL", &url).output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("error SB0212: ") && said.contains("was not finished"), "{said}");
    // The server may take a moment to notice that its client has gone.
    let gone = format!("SELECT count(*) FROM pg_locks WHERE relation = '{schema}.events'::regclass");
    until("the killed copy has ended", PATIENCE, async || sql(gone.clone()).await == "0").await;
    let copied = json_of(&["store", "copy", "--from", &from, "--to", &url]).await;
    assert_eq!(copied["tables"]["events"], 5, "{copied}");
    let hub = serve(new.path(), Some(&url)).await;
    let mut b = room.agent(&hub, "b", Some(4)).await;
    assert_eq!(received(&mut b, 1).await, [(5, "m5".into())]);
    assert_log_holds(&hub).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_copied_is_refused_and_stays_as_it_was() {
    let (old, (url, schema)) = (tempfile::tempdir().unwrap(), fresh().await);
    let hub = serve(old.path(), None).await;
    let from = format!("sqlite:{}", old.path().display());
    refused(&["store", "copy", "--from", &from, "--to", &url], "SB0203").await;
    hub.terminate().await;
    refused(&["store", "copy", "--from", &from], "SB0201").await;
    refused(&["store", "copy", "--from", &from, "--to", &from], "SB0201").await;
    refused(&["store", "copy", "--from", "geheim", "--to", &url], "SB0201").await;
    refused(&["store", "copy", "--from", &from, "--to", "mysql://ann:geheim@h/db"], "SB0201").await;
    refused(&["store", "copy", "--from", &from, "--to", "postgres://ann:geheim@h/db?sslmode=no"], "SB0201")
        .await;
    let missing = old.path().join("missing");
    let nowhere = format!("sqlite:{}", missing.display());
    refused(&["store", "copy", "--from", &nowhere, "--to", &url], "SB0205").await;
    assert!(!missing.exists(), "nothing is made of a misspelt name");
    refused(&["store", "copy", "--from", &url, "--to", &nowhere], "SB0211").await;
    refused(&["store", "copy", "--from", &url, "--to", &url], "SB0211").await;
    refused(&["store", "reopen", &from], "SB0211").await;
    let database = || rusqlite::Connection::open(old.path().join("switchboard.db")).unwrap();
    // A record that somebody changed: the chain does not hold.
    let broken = database().execute("UPDATE log SET at_ms = at_ms + 1 WHERE commit_no = 1", []).unwrap();
    assert_eq!(broken, 1);
    let said = refused(&["store", "copy", "--from", &from, "--to", &url], "SB0211").await;
    assert!(said.contains("Record 1"), "{said}");
    assert_eq!(
        sql(format!("SELECT count(*) FROM {schema}.log, {schema}.moving")).await,
        "0",
        "emptied again"
    );
    database().execute("UPDATE log SET at_ms = at_ms - 1 WHERE commit_no = 1", []).unwrap();
    database().execute("INSERT INTO migrations VALUES (99, '0099_later.sql', 'x')", []).unwrap();
    refused(&["store", "copy", "--from", &from, "--to", &url], "SB0204").await;
    database().execute("DELETE FROM migrations WHERE number = 99", []).unwrap();
    serve(old.path(), None).await.terminate().await;
    json_of(&["store", "copy", "--from", &from, "--to", &url]).await;
}

/// As if it had been paused while the store was copied away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_that_runs_where_its_store_was_left_is_not_ready_and_stores_nothing() {
    let (dir, (url, schema)) = (tempfile::tempdir().unwrap(), fresh().await);
    let hub = serve(dir.path(), Some(&url)).await;
    let room = Room::of(&hub).await;
    let mut a = room.agent(&hub, "a", None).await;
    for id in ["m1", "m2", "m3"] {
        a.ask(&room.message(id)).await;
    }
    sql(format!(
        "SET search_path = {schema}; BEGIN; INSERT INTO moving (id, state, other, at_ms) VALUES (1, 'left', 'there', 1);
         UPDATE head SET directory = directory + 1; COMMIT"
    ))
    .await;
    let refused = a.ask(&room.message("m4")).await;
    assert_ne!(refused["t"], "message.stored", "{refused}");
    let http = Http::new(&hub.url, &room.b.bearer);
    until("it is not ready", PATIENCE, async || http.get("/readyz").await.status == 503).await;
    until("nothing is read", PATIENCE, async || http.get("/v1/streams").await.status != 200).await;
    assert_eq!(sql(format!("SELECT count(*) FROM {schema}.events")).await, "3");
}

/// Passwords stand in the environment: everybody on the machine may read command lines.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_stores_may_be_named_without_a_command_line() {
    let (old, new, (url, _)) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), fresh().await);
    lived_in(old.path()).await;
    let (from, to) =
        (format!("sqlite:{}", old.path().display()), format!("sqlite:{}", new.path().join("hub").display()));
    json_of(&["store", "copy", "--from", &from, "--to", &url]).await;
    let said = |output: Output| {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let copied =
        command(&["store", "copy", "--to", &to]).env("SWITCHBOARD_FROM_URL", &url).output().await.unwrap();
    assert_eq!(said(copied)["tables"]["events"], 5);
    let data = ["store", "reopen", "--data-dir", old.path().to_str().unwrap()];
    let reopened = command(&data).env("SWITCHBOARD_STORE_URL", &url).output().await.unwrap();
    assert!(said(reopened)["store"].as_str().unwrap().contains("schema"), "the configured one");
    assert!(json_of(&data).await["store"].as_str().unwrap().contains(old.path().to_str().unwrap()));
    let help = command(&["store", "copy", "--help"]).env("SWITCHBOARD_FROM_URL", "geheim").output().await;
    let help = String::from_utf8(help.unwrap().stdout).unwrap();
    assert!(help.contains("SWITCHBOARD_FROM_URL") && !help.contains("geheim"), "{help}");
}

/// Nobody knows whether the first store is closed when the answer to that was lost: the copy must not go then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_stays_when_the_first_store_may_be_closed_and_is_made_again() {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let ((url, schema), (second, into)) = (fresh().await, fresh().await);
    lived_in(old.path()).await;
    let from = format!("sqlite:{}", old.path().display());
    json_of(&["store", "copy", "--from", &from, "--to", &url]).await;
    sql(format!(
        "SET search_path = {schema};
         CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''not now''; END';
         CREATE TRIGGER refuse BEFORE INSERT ON moving EXECUTE FUNCTION refuse()"
    ))
    .await;
    let said = refused(&["store", "copy", "--from", &url, "--to", &second], "SB0211").await;
    assert!(said.contains("Everything is at") && said.contains("not now"), "{said}");
    let kept = format!("SELECT count(*) FROM {into}.events, {into}.moving WHERE moving.state = 'arriving'");
    assert_eq!(sql(kept).await, "5");
    let dir = new.path().join("hub");
    let to = format!("sqlite:{}", dir.display());
    let said = refused(&["store", "copy", "--from", &url, "--to", &to], "SB0211").await;
    assert!(said.contains("Everything is at") && said.contains("remove "), "{said}");
    let serving = ["serve", "--listen", "127.0.0.1:0", "--data-dir", dir.to_str().unwrap()];
    let said = refused(&serving, "SB0212").await;
    assert!(said.contains("was not finished"), "{said}");

    sql(format!("DROP TRIGGER refuse ON {schema}.moving")).await;
    std::fs::remove_dir_all(&dir).unwrap();
    let copied = json_of(&["store", "copy", "--from", &url, "--to", &to]).await;
    assert_eq!(copied["tables"]["events"], 5, "{copied}");
    let copied = json_of(&["store", "copy", "--from", &to, "--to", &second]).await;
    assert_eq!(copied["tables"]["events"], 5, "{copied}");
    let hub = serve(new.path(), Some(&second)).await;
    assert_log_holds(&hub).await;
}
