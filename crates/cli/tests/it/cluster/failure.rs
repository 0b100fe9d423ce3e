//! Nodes that die, and nodes that come back from the dead.

use super::{CLUSTER, Nodes, all_ring, received, until};
use std::time::Duration;
use switchboard_testkit::Process;

/// Presence of a dead node's agents closes within this.
const CLOSED_WITHIN: Duration = Duration::from_secs(30);

async fn is_keeper(node: &Process) -> bool {
    node.admin().get("/metrics").await.text.contains("\nswitchboard_keeper 1\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_of_a_node_that_was_killed_close_and_another_keeps_deadlines() {
    let (nodes, mut running) = Nodes::start(2, "auto").await;
    all_ring(&running).await;
    assert!(is_keeper(&running[0]).await && !is_keeper(&running[1]).await);
    let (a, b) = (running[0].token("a").await, running[0].token("b").await);
    let mut watcher = nodes.agent(&running[1], &b, "b").await;
    let _lost = nodes.agent(&running[0], &a, "a").await;
    assert_eq!(watcher.expect("presence_update").await["state"], "active");
    let started = tokio::time::Instant::now();
    running.remove(0).kill().await;
    let closed = tokio::time::timeout(CLOSED_WITHIN, async {
        loop {
            // A frame may be longer in coming than tests wait for one.
            if let Some(seen) = watcher.drain_of("presence_update").await.pop() {
                return seen;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    let seen = closed.await.expect("closed in time");
    assert_eq!((seen["agent_id"].as_str(), seen["state"].as_str()), (Some("a"), Some("closed")));
    until("the other is the keeper", CLOSED_WITHIN, async || is_keeper(&running[0]).await).await;
    println!("closed after {:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_keeper_paused_beyond_its_lease_does_no_harm_when_it_goes_on() {
    let (nodes, running) = Nodes::start(2, "auto").await;
    all_ring(&running).await;
    let (a, b) = (running[0].token("a").await, running[0].token("b").await);
    let mut watcher = nodes.agent(&running[1], &b, "b").await;
    let mut paused = nodes.agent(&running[0], &a, "a").await;
    watcher.drain().await;
    running[0].signal("STOP").await;
    until("the other is the keeper", CLOSED_WITHIN, async || is_keeper(&running[1]).await).await;
    until("the paused node's agent is closed", CLOSED_WITHIN, async || {
        let schema = nodes.store.rsplit('=').next().unwrap().to_owned();
        let sql = format!("SELECT state FROM {schema}.agents WHERE agent = 'a'");
        tokio::task::spawn_blocking(move || CLUSTER.sql(&sql)).await.unwrap() == "3"
    })
    .await;
    watcher.ask(&nodes.message("while-paused", "finding", "b")).await;
    running[0].signal("CONT").await;
    // It takes over what it missed, its agent is there again, and it is not the keeper.
    assert_eq!(received(&mut paused, 1).await[0].1, "while-paused");
    loop {
        let seen = watcher.expect("presence_update").await;
        if seen["state"] == "active" {
            assert_eq!(seen["agent_id"], "a");
            break;
        }
    }
    until("one keeper", CLOSED_WITHIN, async || !is_keeper(&running[0]).await).await;
    assert!(is_keeper(&running[1]).await);
    let mut question = nodes.message("q", "question", "a");
    question["deadline"] = super::one_hub::in_future(Duration::from_secs(2));
    assert_eq!(paused.ask(&question).await["t"], "message.stored");
    assert_eq!(paused.expect("task.event").await["state"], "proposed");
    assert!(paused.drain_of("task.event").await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_stops_in_order_hands_over_at_once() {
    let (_nodes, mut running) = Nodes::start(2, "auto").await;
    let first = running.remove(0);
    assert!(is_keeper(&first).await);
    first.terminate().await;
    until("the other is the keeper", Duration::from_secs(10), async || is_keeper(&running[0]).await).await;
}
