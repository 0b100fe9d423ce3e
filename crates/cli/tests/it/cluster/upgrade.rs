//! Node by node to the next version, under load. What its migration does to the database is done here by hand.

use super::{CLUSTER, Nodes, all_ring, received, until};
use serde_json::json;
use std::process::{Command, Stdio};
use switchboard_testkit::PATIENCE;

const PROGRAM: &str = env!("CARGO_BIN_EXE_switchboard");

/// What a node of the next version does when it starts; whether nodes of this one may go on.
async fn migrate(nodes: &Nodes, sql: &str, overlaps: bool) {
    let schema = nodes.store.rsplit('=').next().unwrap();
    let sql = format!(
        "BEGIN; SET LOCAL search_path = {schema}; {sql}; UPDATE head SET directory = directory + 1;
         INSERT INTO migrations (number, name, checksum, compatible_from)
         SELECT max(number) + 1, 'next.sql', '', max(number) + {} FROM migrations; COMMIT",
        i32::from(!overlaps)
    );
    tokio::task::spawn_blocking(move || CLUSTER.sql(&sql)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_are_replaced_one_by_one_beside_a_schema_that_was_added_to() {
    let (mut nodes, mut running) = Nodes::start(3, "auto").await;
    all_ring(&running).await;
    let (a, b) = (running[0].token("a").await, running[0].token("b").await);
    let added = "ALTER TABLE events ADD COLUMN more BIGINT NOT NULL DEFAULT 0; CREATE TABLE later (id BIGINT PRIMARY KEY)";
    let (mut cursor, mut seen, mut sent) = (json!({}), Vec::new(), 0);
    for round in 0..3 {
        let mut sender = nodes.agent(&running[1], &a, "a").await;
        let mut receiver = nodes.agent_from(&running[0], &b, "b", &cursor).await;
        if round == 1 {
            migrate(&nodes, added, true).await;
        }
        for _ in 0..10 {
            let stored = sender.ask(&nodes.message(&format!("m{sent}"), "finding", "a")).await;
            assert_eq!(stored["t"], "message.stored", "round {round}: {stored}");
            sent += 1;
        }
        seen.extend(received(&mut receiver, 4).await);
        // In order: its clients are told and go elsewhere, the next one starts, and is ready before another one stops.
        running.remove(0).terminate().await;
        while receiver.next().await.is_some() {}
        cursor = json!({ nodes.channel(): seen.last().unwrap().0 });
        running.push(nodes.add().await);
        all_ring(&running).await;
    }
    let mut receiver = nodes.agent_from(&running[2], &b, "b", &cursor).await;
    while seen.len() < sent {
        seen.extend(received(&mut receiver, 1).await);
    }
    let expected: Vec<_> = (0..sent).map(|number| format!("m{number}")).collect();
    assert_eq!(seen.into_iter().map(|(_, id)| id).collect::<Vec<_>>(), expected);
    assert!(receiver.drain_of("message.deliver").await.is_empty(), "nothing twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_beyond_the_overlap_takes_older_nodes_out_and_is_left_alone_by_them() {
    let (nodes, running) = Nodes::start(2, "auto").await;
    all_ring(&running).await;
    let token = running[0].token("a").await;
    let mut socket = nodes.agent(&running[0], &token, "a").await;
    migrate(&nodes, "CREATE TABLE later (id BIGINT PRIMARY KEY)", false).await;
    let refused = socket.ask(&nodes.message("m0", "finding", "a")).await;
    assert_eq!(refused["t"], "error", "{refused}");
    for node in &running {
        until("it is out", PATIENCE, async || node.admin().get("/readyz").await.status == 503).await;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut serve = Command::new(PROGRAM);
    serve.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(dir.path()).stdin(Stdio::null());
    let ended = serve.env("SWITCHBOARD_STORE_URL", &nodes.store).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(3), "{said}");
    assert!(
        said.contains("SB0204") && said.contains("schema version ") && said.contains("newer version"),
        "{said}"
    );
}
