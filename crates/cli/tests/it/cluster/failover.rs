//! A standby is promoted: without loss nobody notices more than a pause, with loss everybody does.

use super::{Nodes, received, text, until};
use crate::faults::proxy::Proxy;
use serde_json::json;
use std::time::Duration;
use switchboard_store::conformance::cluster::Cluster;
use switchboard_testkit::{Process, Socket, Token};

/// After a promotion, writing goes on or a new epoch begins within this.
const SETTLED_WITHIN: Duration = Duration::from_secs(40);

/// A primary with a standby, behind one address, and nodes on it.
struct Pair {
    primary: Cluster,
    standby: Cluster,
    address: Proxy,
    nodes: Nodes,
    running: Vec<Process>,
    token: Token,
    sender: Socket,
    reader: Socket,
    schema: String,
    epoch: String,
}

impl Pair {
    async fn start() -> Self {
        let (primary, standby) = tokio::task::spawn_blocking(|| {
            let primary = Cluster::start();
            let standby = Cluster::standby_of(&primary);
            (primary, standby)
        })
        .await
        .unwrap();
        let address = Proxy::start(&format!("127.0.0.1:{}", primary.port)).await;
        let url = primary.fresh_url().replace(&primary.port.to_string(), &address.port().to_string());
        let schema = url.rsplit('=').next().unwrap().to_owned();
        let (nodes, running) = Nodes::on(url, 2, "auto").await;
        let (token, b) = (running[0].token("a").await, running[0].token("b").await);
        let sender = nodes.agent(&running[0], &token, "a").await;
        let reader = nodes.agent(&running[1], &b, "b").await;
        let epoch = Nodes::epoch(&running[0]).await;
        Self { primary, standby, address, nodes, running, token, sender, reader, schema, epoch }
    }

    /// Sends and returns the sequence that was acknowledged.
    async fn send(&mut self, id: &str) -> u64 {
        let stored = self.sender.ask(&self.nodes.message(id, "finding", "a")).await;
        assert_eq!(stored["t"], "message.stored", "{stored}");
        stored["seq"].as_u64().unwrap()
    }

    /// The standby has everything.
    async fn caught_up(&self) {
        let at = self.primary.sql("SELECT pg_current_wal_lsn()");
        let has = format!("SELECT pg_last_wal_replay_lsn() >= '{at}'");
        until("the standby has it", SETTLED_WITHIN, async || self.standby.sql(&has) == "t").await;
    }

    /// From now on the standby gets nothing.
    async fn fall_behind(&self) {
        self.caught_up().await;
        self.standby.sql("ALTER SYSTEM SET primary_conninfo = ''");
        self.standby.sql("SELECT pg_reload_conf()");
        let receiving = "SELECT count(*) FROM pg_stat_wal_receiver";
        until("the standby lags", SETTLED_WITHIN, async || self.standby.sql(receiving) == "0").await;
    }

    /// The primary dies and the standby takes its place.
    fn fail_over(&self) {
        self.primary.kill();
        self.address.redirect(self.standby.port);
        self.address.cut();
        assert_eq!(self.standby.sql("SELECT pg_promote()"), "t");
    }

    fn stored_epoch(&self) -> String {
        self.standby.sql(&format!("SELECT epoch FROM {}.installation", self.schema))
    }

    /// Asks a node to store something until a new epoch has begun: nothing may be acknowledged before.
    async fn nothing_is_acknowledged(&self, number: usize) {
        let began = tokio::time::Instant::now();
        while self.stored_epoch() == self.epoch {
            assert!(began.elapsed() < SETTLED_WITHIN, "no new epoch");
            if let Ok(mut socket) = Socket::connect(&self.running[number].url, &self.token.bearer).await {
                let agents = json!([{ "agent_id": "a", "role": "tester", "vault_id": self.nodes.vault }]);
                let hello = json!({ "t": "hello", "instance_id": self.token.instance_id, "agents": agents });
                let _ = socket.try_send(&hello).await;
                let _ = socket.try_send(&self.nodes.message("meanwhile", "finding", "a")).await;
                let answered = async {
                    while let Some(frame) = socket.next().await {
                        if frame["t"] == "message.stored" {
                            assert_ne!(self.stored_epoch(), self.epoch, "acknowledged: {frame}");
                        }
                    }
                };
                let _ = tokio::time::timeout(Duration::from_secs(1), answered).await;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The node has ended because of the new epoch; it is started again.
    async fn start_over(&mut self, number: usize, left: Process) {
        assert_eq!(left.ended().await, Some(3), "it ends, and says why");
        let node = self.nodes.again(number).await;
        assert_eq!(Nodes::epoch(&node).await, self.stored_epoch());
        self.running.push(node);
    }

    /// Who comes with a cursor of the old epoch starts over, and gets what is there: in a sequence without gaps.
    async fn reads_over(&self, node: &Process) -> Vec<String> {
        let token = node.token("c").await;
        let mut socket = Socket::connect(&node.url, &token.bearer).await.expect("the socket opens");
        let agents = json!([{ "agent_id": "c", "role": "tester", "vault_id": self.nodes.vault }]);
        let cursors = json!({ self.nodes.channel(): 5 });
        let hello = json!({ "t": "hello", "instance_id": token.instance_id, "agents": agents, "cursors": cursors,
            "epoch": self.epoch });
        socket.send(&hello).await;
        let frames = socket.drain_of("message.deliver").await;
        let seqs: Vec<_> = frames.iter().map(|frame| frame["seq"].as_u64().unwrap()).collect();
        assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
        frames.iter().map(|frame| text(&frame["body"]["text"])).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_that_loses_nothing_is_a_pause() {
    let mut pair = Pair::start().await;
    for seq in 1..=5 {
        assert_eq!(pair.send(&format!("m{seq}")).await, seq);
    }
    pair.caught_up().await;
    pair.fail_over();
    let began = tokio::time::Instant::now();
    let message = pair.nodes.message("m6", "finding", "a");
    let seq = loop {
        let answer = pair.sender.ask(&message).await;
        if answer["t"] == "message.stored" {
            break answer["seq"].as_u64();
        }
        assert_eq!(answer["error"]["reason"], "store_unreachable", "{answer}");
        assert!(began.elapsed() < SETTLED_WITHIN);
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    println!("writing goes on {:?} after the promotion", began.elapsed());
    assert_eq!(seq, Some(6));
    assert_eq!(pair.send("m7").await, 7);
    // Over the sockets that were there before.
    let got = received(&mut pair.reader, 7).await;
    assert_eq!(got, (1..=7).map(|seq| (seq, format!("m{seq}"))).collect::<Vec<_>>());
    assert_eq!(pair.stored_epoch(), pair.epoch);
    for node in &pair.running {
        assert_eq!(Nodes::epoch(node).await, pair.epoch);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_that_loses_what_was_acknowledged_begins_an_epoch_before_anything_else_is() {
    let mut pair = Pair::start().await;
    for seq in 1..=3 {
        assert_eq!(pair.send(&format!("m{seq}")).await, seq);
    }
    pair.fall_behind().await;
    for seq in 4..=6 {
        assert_eq!(pair.send(&format!("lost{seq}")).await, seq);
    }
    assert_eq!(received(&mut pair.reader, 6).await.len(), 6);
    pair.fail_over();
    // Asked of the node that acknowledged none of what is gone.
    pair.nothing_is_acknowledged(1).await;
    for (number, node) in std::mem::take(&mut pair.running).into_iter().enumerate() {
        pair.start_over(number, node).await;
    }
    let texts = pair.reads_over(&pair.running[1]).await;
    assert!(texts.starts_with(&["m1".to_owned(), "m2".into(), "m3".into()]), "{texts:?}");
    assert!(!texts.iter().any(|text| text.starts_with("lost")), "{texts:?}");
    let token = pair.token.clone();
    pair.sender = pair.nodes.agent(&pair.running[0], &token, "a").await;
    assert_eq!(pair.send("lost4").await, texts.len() as u64 + 1, "sent again, it is stored anew");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_node_acknowledged_that_died_with_the_database_is_missed_all_the_same() {
    let mut pair = Pair::start().await;
    assert_eq!(pair.send("m1").await, 1);
    assert_eq!(received(&mut pair.reader, 1).await.len(), 1);
    pair.fall_behind().await;
    // The other node is paused, so that it sees nothing of what is lost.
    pair.running[1].signal("STOP").await;
    assert_eq!(pair.send("lost2").await, 2);
    pair.running.remove(0).kill().await;
    pair.fail_over();
    pair.running[0].signal("CONT").await;
    pair.nothing_is_acknowledged(0).await;
    let left = pair.running.remove(0);
    pair.start_over(1, left).await;
    let texts = pair.reads_over(&pair.running[0]).await;
    assert!(texts[0] == "m1" && !texts.contains(&"lost2".to_owned()), "{texts:?}");
}
