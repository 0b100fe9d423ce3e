//! Interleaved rounds: every server does all its work once before any does it again, so that a slow
//! minute of the machine falls on all of them.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;

use crate::load::{self, LOADS, Load};
use crate::machine::{self, Limits};
use crate::outcome::Outcome;
use crate::peer::Peer;
use crate::peer::nats::Nats;
use crate::peer::postgres::Postgres;
use crate::peer::rabbitmq::RabbitMq;
use crate::peer::redis::Redis;
use crate::switchboard::Switchboard;

/// What `--only` can choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// The disk and the loopback interface alone.
    Machine,
    /// This project's hub.
    Switchboard,
    /// NATS JetStream, message by message and in atomic batches.
    Nats,
    /// Redis Streams.
    Redis,
    /// PostgreSQL, a row per transaction and in batches.
    Postgres,
    /// `RabbitMQ` quorum queues.
    Rabbitmq,
}

/// How much to run.
pub struct Plan {
    /// Parts, in the order in which they run within a round.
    pub parts: Vec<Part>,
    /// Loads.
    pub loads: Vec<Load>,
    /// Rounds.
    pub rounds: u32,
    /// Measured seconds of each load on each server.
    pub seconds: f64,
    /// Folder for all data, on the disk to be measured.
    pub dir: PathBuf,
    /// The hub.
    pub switchboard: Switchboard,
}

/// One load on one server in one round.
#[derive(Debug, Serialize)]
pub struct Run {
    /// From 1.
    pub round: u32,
    /// Name of the server.
    pub server: &'static str,
    /// Name of the load.
    pub load: &'static str,
    /// Its figures, when it succeeded.
    pub outcome: Option<Outcome>,
    /// Why it has none.
    pub error: Option<String>,
}

/// All that was measured.
#[derive(Debug, Default, Serialize)]
pub struct Results {
    /// The machine's limits, one entry per round.
    pub machine: Vec<Limits>,
    /// All runs, in the order in which they ran.
    pub runs: Vec<Run>,
}

/// Messages at most in one batch of the peers that are also measured in batches.
const BATCH: usize = 128;
/// Name of the hub among the servers.
pub const SWITCHBOARD: &str = "switchboard";

impl Plan {
    /// Runs all rounds, telling of each run on stderr. A server that fails is noted and passed over.
    pub async fn run(&self) -> Result<Results> {
        let mut results = Results::default();
        for round in 1..=self.rounds {
            for &part in &self.parts {
                match part {
                    Part::Machine => self.machine(round, &mut results).await?,
                    Part::Switchboard => self.switchboard(round, &mut results).await,
                    Part::Nats => {
                        self.peer::<Nats<1>>("nats", round, &mut results).await;
                        self.peer::<Nats<BATCH>>("nats-batch", round, &mut results).await;
                    }
                    Part::Redis => self.peer::<Redis>("redis", round, &mut results).await,
                    Part::Rabbitmq => self.peer::<RabbitMq>("rabbitmq", round, &mut results).await,
                    Part::Postgres => {
                        self.peer::<Postgres<1>>("postgres", round, &mut results).await;
                        self.peer::<Postgres<BATCH>>("postgres-batch", round, &mut results).await;
                    }
                }
            }
        }
        Ok(results)
    }

    async fn machine(&self, round: u32, results: &mut Results) -> Result<()> {
        let (dir, length) = (self.dir.clone(), Duration::from_secs_f64(self.seconds));
        let limits = tokio::task::spawn_blocking(move || machine::measure(&dir, length)).await??;
        eprintln!(
            "round {round}/{}  machine: fdatasync p50 {:.3} ms, loopback {:.1} us",
            self.rounds, limits.fdatasync_p50_ms, limits.loopback_rtt_us
        );
        results.machine.push(limits);
        Ok(())
    }

    async fn switchboard(&self, round: u32, results: &mut Results) {
        for load in &self.loads {
            let outcome = self.switchboard.run(&self.dir, load, self.seconds).await;
            self.note(round, SWITCHBOARD, load, outcome, results);
        }
    }

    /// A fresh server with an empty data directory for each round; the loads share it.
    async fn peer<P: Peer>(&self, name: &'static str, round: u32, results: &mut Results) {
        let peer = match P::start(&self.dir).await {
            Ok(peer) => peer,
            Err(error) => return self.note_all_failed(round, name, &error, results),
        };
        for (index, load) in self.loads.iter().enumerate() {
            if load.receivers > 0 && !P::DELIVERS {
                continue;
            }
            let topic = format!("bench_{index}");
            let length = Duration::from_secs_f64(self.seconds);
            let outcome = load::run(&peer, load, &topic, length).await;
            self.note(round, name, load, outcome, results);
        }
    }

    fn note_all_failed(
        &self,
        round: u32,
        server: &'static str,
        error: &anyhow::Error,
        results: &mut Results,
    ) {
        for load in &self.loads {
            self.note(round, server, load, Err(anyhow::anyhow!("{error:#}")), results);
        }
    }

    fn note(
        &self,
        round: u32,
        server: &'static str,
        load: &Load,
        outcome: Result<Outcome>,
        results: &mut Results,
    ) {
        let (rounds, name) = (self.rounds, load.name);
        match &outcome {
            Ok(outcome) => {
                let rate = outcome.delivered_per_s.unwrap_or(outcome.published_per_s);
                eprintln!("round {round}/{rounds}  {server}, {name}: {rate:.0}/s");
            }
            Err(error) => eprintln!("round {round}/{rounds}  {server}, {name}: FAILED: {error:#}"),
        }
        let (outcome, error) = match outcome {
            Ok(outcome) => (Some(outcome), None),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        results.runs.push(Run { round, server, load: name, outcome, error });
    }
}

/// The loads with the given numbers (from 1), in their usual order; all of them for an empty list.
pub fn choose_loads(numbers: &[usize]) -> Vec<Load> {
    let chosen = LOADS.iter().enumerate();
    chosen.filter(|(i, _)| numbers.is_empty() || numbers.contains(&(i + 1))).map(|(_, load)| *load).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_chosen_by_number() {
        let names: Vec<_> = choose_loads(&[5, 1]).iter().map(|load| load.name).collect();
        assert_eq!(names, ["one in flight", "50 receivers"]);
        assert_eq!(choose_loads(&[]).len(), LOADS.len());
    }
}
