//! Ringing over a NATS server, and doing without.

use super::{Nodes, all_ring, received, rings, until};
use serde_json::json;
use std::time::Duration;
use switchboard_testkit::{Nats, PATIENCE, Process, Socket, Token};

struct Pair {
    nodes: Nodes,
    running: Vec<Process>,
    sender: Socket,
    receiver: Socket,
    token: Token,
    sent: usize,
}

impl Pair {
    async fn start(bell: &str) -> Self {
        let (nodes, running) = Nodes::start(2, bell).await;
        let (a, b) = (running[0].token("a").await, running[0].token("b").await);
        let sender = nodes.agent(&running[0], &a, "a").await;
        let receiver = nodes.agent(&running[1], &b, "b").await;
        Self { nodes, running, sender, receiver, token: b, sent: 0 }
    }

    /// Sends so many over one node and takes them in order from the other.
    async fn pass(&mut self, count: usize) {
        let first = self.sent;
        for _ in 0..count {
            self.sender.ask(&self.nodes.message(&format!("m{}", self.sent), "finding", "a")).await;
            self.sent += 1;
        }
        let got: Vec<_> = received(&mut self.receiver, count).await.into_iter().map(|(_, id)| id).collect();
        assert_eq!(got, (first..self.sent).map(|number| format!("m{number}")).collect::<Vec<_>>());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_nats_server_everything_arrives_by_polling_and_then_by_rings_again() {
    let nats = Nats::start().await;
    let mut pair = Pair::start(&nats.url()).await;
    all_ring(&pair.running).await;
    pair.pass(20).await;
    let port = nats.kill().await;
    for node in &pair.running {
        until("the node says that it does not ring", PATIENCE, async || !rings(node).await).await;
        let metrics = node.admin().get("/metrics").await.text;
        assert!(metrics.contains("\nswitchboard_doorbell_connected 0\n"), "{metrics}");
    }
    pair.pass(20).await;
    let _nats = Nats::with(port.into(), &[]).await;
    all_ring(&pair.running).await;
    pair.pass(20).await;
    assert!(pair.receiver.drain_of("message.deliver").await.is_empty(), "nothing twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ring_over_nats_is_quicker_than_any_polling() {
    let nats = Nats::start().await;
    let mut pair = Pair::start(&nats.url()).await;
    all_ring(&pair.running).await;
    pair.pass(1).await;
    let all = tokio::time::timeout(Duration::from_secs(10), async {
        for _ in 0..20 {
            pair.pass(1).await;
        }
    });
    all.await.expect("twenty one after the other: by polling each would take half a second");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_cannot_ring_is_looked_after_by_those_that_can() {
    let nats = Nats::with(-1, &["--user", "hub", "--pass", "right"]).await;
    let good = format!("nats://hub:right@127.0.0.1:{}", nats.port);
    let (mut nodes, mut running) = Nodes::start(1, &good).await;
    all_ring(&running).await;
    nodes.bell = format!("nats://hub:wrong@127.0.0.1:{}", nats.port);
    running.push(nodes.add().await);
    assert!(!rings(&running[1]).await, "a wrong password is no reason not to serve");
    let (a, b) = (running[0].token("a").await, running[0].token("b").await);
    let mut receiver = nodes.agent(&running[0], &b, "b").await;
    let mut sender = nodes.agent(&running[1], &a, "a").await;
    sender.ask(&nodes.message("m0", "finding", "a")).await;
    let got = received(&mut receiver, 1).await;
    assert_eq!(got[0].1, "m0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_installations_on_one_server_do_not_ring_each_other() {
    let nats = Nats::start().await;
    let (mut one, mut two) = (Pair::start(&nats.url()).await, Pair::start(&nats.url()).await);
    all_ring(&one.running).await;
    all_ring(&two.running).await;
    one.pass(3).await;
    two.pass(2).await;
    assert!(one.receiver.drain_of("message.deliver").await.is_empty());
    assert!(Socket::connect(&two.running[0].url, &one.token.bearer).await.is_err());
    let cursors = json!({ one.nodes.channel(): 0 });
    let mut again = one.nodes.agent_from(&one.running[0], &one.token, "b", &cursors).await;
    assert_eq!(received(&mut again, 3).await.len(), 3);
}
