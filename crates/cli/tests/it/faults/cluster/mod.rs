//! Random parts of a cluster killed or paused under load: nodes, PostgreSQL, NATS. The number of rounds comes from
//! `SWITCHBOARD_FAULT_ROUNDS`.

mod load;

use super::kill::Dice;
use crate::cluster::Nodes;
use load::Load;
use std::time::Duration;
use switchboard_store::conformance::cluster::Cluster;
use switchboard_testkit::{Nats, Process};
use tokio::time::Instant;

const NODES: usize = 3;
/// Rounds between two comparisons of everything.
const COMPARE_EVERY: u64 = 10;
/// Longest time a part stays down, in one round of three.
const DOWN_MS: u64 = 3000;
/// Within this after the last part is back, every writer has a fresh answer.
const RECOVERED: Duration = Duration::from_secs(30);

/// Everything that can be killed.
struct Parts {
    database: Cluster,
    nats: Option<Nats>,
    nats_port: u16,
    nodes: Nodes,
    running: Vec<Option<Process>>,
}

/// What happens in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Blow {
    Kill(usize),
    Stop(usize),
    Pause(usize, Duration),
    KillDatabase,
    StopDatabase,
    /// One of its processes: the others begin anew, too.
    CrashDatabase,
    KillNats,
}

impl Blow {
    fn rolled(dice: &mut Dice) -> Self {
        let node = usize::try_from(dice.below(NODES as u64)).unwrap();
        match dice.below(12) {
            0..=2 => Self::Kill(node),
            3 => Self::Stop(node),
            // Now and then for longer than a transaction may wait for its node.
            4 if dice.below(5) == 0 => Self::Pause(node, Duration::from_millis(11_000 + dice.below(3000))),
            4 | 5 => Self::Pause(node, Duration::from_millis(500 + dice.below(2500))),
            6 | 7 => Self::KillDatabase,
            8 => Self::StopDatabase,
            9 => Self::CrashDatabase,
            _ => Self::KillNats,
        }
    }
}

impl Parts {
    async fn start() -> Self {
        let database = tokio::task::spawn_blocking(Cluster::start).await.unwrap();
        let nats = Nats::start().await;
        let (nodes, running) = Nodes::on(database.fresh_url(), NODES, &nats.url()).await;
        let (nats_port, nats, running) = (nats.port, Some(nats), running.into_iter().map(Some).collect());
        Self { database, nats, nats_port, nodes, running }
    }

    async fn strike(&mut self, blow: Blow) {
        match blow {
            Blow::Kill(node) => {
                if let Some(node) = self.running[node].take() {
                    node.kill().await;
                }
            }
            Blow::Stop(node) => {
                if let Some(node) = self.running[node].take() {
                    node.terminate().await;
                }
            }
            Blow::Pause(node, pause) => {
                if let Some(node) = &self.running[node] {
                    node.signal("STOP").await;
                    tokio::time::sleep(pause).await;
                    node.signal("CONT").await;
                }
            }
            Blow::KillDatabase => self.database.kill(),
            Blow::StopDatabase => self.database.stop(),
            Blow::CrashDatabase => tokio::task::block_in_place(|| self.database.crash()),
            Blow::KillNats => {
                if let Some(nats) = self.nats.take() {
                    self.nats_port = nats.kill().await;
                }
            }
        }
    }

    /// Brings back what is down: the database first, without which no node starts.
    async fn mend(&mut self, blows: &[Blow]) {
        if blows.iter().any(|blow| matches!(blow, Blow::KillDatabase | Blow::StopDatabase)) {
            tokio::task::block_in_place(|| self.database.start_again());
        }
        if self.nats.is_none() {
            self.nats = Some(Nats::with(self.nats_port.into(), &[]).await);
        }
        for number in 0..NODES {
            if self.running[number].is_none() {
                self.running[number] = Some(self.nodes.again(number).await);
            }
        }
    }

    fn urls(&self) -> Vec<String> {
        self.running.iter().flatten().map(|node| node.url.clone()).collect()
    }

    fn node(&self, number: usize) -> &Process {
        self.running[number].as_ref().expect("it runs")
    }
}

/// One or two blows at once; two never hit the same part.
fn blows(dice: &mut Dice) -> Vec<Blow> {
    let mut blows = vec![Blow::rolled(dice)];
    let second = Blow::rolled(dice);
    let part = |blow: Blow| match blow {
        Blow::Kill(node) | Blow::Stop(node) | Blow::Pause(node, _) => node,
        Blow::KillDatabase | Blow::StopDatabase | Blow::CrashDatabase => NODES,
        Blow::KillNats => NODES + 1,
    };
    if dice.below(4) == 0 && part(second) != part(blows[0]) {
        blows.push(second);
    }
    // What ends in order does so on a cluster that is whole: it has its own test.
    blows.sort_by_key(|blow| !matches!(blow, Blow::Stop(_)));
    blows
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_whose_parts_are_killed_at_random_loses_and_doubles_nothing() {
    let (mut dice, rounds) = Dice::rolled();
    let mut parts = Parts::start().await;
    let mut load = Load::new(&parts.nodes, parts.node(0), dice.below(u64::MAX)).await;
    load.go(parts.urls()).await;
    for round in 0..rounds {
        // The moment of death is the point of the test, so it is left to chance and not to a signal.
        tokio::time::sleep(Duration::from_millis(30 + dice.below(400))).await;
        let blows = blows(&mut dice);
        let began = Instant::now();
        for blow in &blows {
            parts.strike(*blow).await;
        }
        // For some time what is left does without; that, too, is the point of the test.
        tokio::time::sleep(Duration::from_millis(dice.below(DOWN_MS) * u64::from(dice.below(3) == 0))).await;
        parts.mend(&blows).await;
        let mended = began.elapsed();
        load.reach(parts.urls());
        load.recovered(RECOVERED).await.unwrap_or_else(|late| panic!("round {round}, {blows:?}: {late}"));
        println!("round {round}: {blows:?}, mended after {mended:?}, all go on after {:?}", began.elapsed());
        if round % COMPARE_EVERY == COMPARE_EVERY - 1 || round + 1 == rounds {
            load.rest().await;
            let node = usize::try_from(dice.below(NODES as u64)).unwrap();
            load.compare(parts.node(node)).await;
            load.go(parts.urls()).await;
        }
    }
    load.rest().await;
    load.verify(parts.node(0)).await;
}
