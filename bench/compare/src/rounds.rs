//! Interleaved rounds: every server does its work once before any does it again, so that a slow
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
use crate::usage::Bystander;

/// What `--only` can choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// The disk and the loopback interface alone.
    Machine,
    /// This project's hub.
    Switchboard,
    /// The hub on PostgreSQL, one node and three, with NATS between them.
    SwitchboardPostgres,
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
    /// CPU time that programs outside the comparison took meanwhile, percent of all cores.
    pub foreign_cpu_percent: f64,
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
    /// True when a signal ended the comparison early.
    pub stopped: bool,
}

impl Results {
    /// True when all that was planned was measured.
    pub fn is_complete(&self) -> bool {
        !self.stopped && self.runs.iter().all(|run| run.error.is_none())
    }
}

/// Messages at most in one batch of the peers that are also measured in batches.
const BATCH: usize = 128;
/// Name of the hub among the servers.
pub const SWITCHBOARD: &str = "switchboard";

/// A server in one way of using it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Contestant {
    Switchboard,
    SwitchboardPostgres,
    SwitchboardThreeNodes,
    Nats,
    NatsBatch,
    Redis,
    Postgres,
    PostgresBatch,
    RabbitMq,
}

impl Contestant {
    fn name(self) -> &'static str {
        match self {
            Self::Switchboard => SWITCHBOARD,
            Self::SwitchboardPostgres => "switchboard-pg",
            Self::SwitchboardThreeNodes => "switchboard-pg-3",
            Self::Nats => "nats",
            Self::NatsBatch => "nats-batch",
            Self::Redis => "redis",
            Self::Postgres => "postgres",
            Self::PostgresBatch => "postgres-batch",
            Self::RabbitMq => "rabbitmq",
        }
    }

    fn of(part: Part) -> &'static [Self] {
        match part {
            Part::Machine => &[],
            Part::Switchboard => &[Self::Switchboard],
            Part::SwitchboardPostgres => &[Self::SwitchboardPostgres, Self::SwitchboardThreeNodes],
            Part::Nats => &[Self::Nats, Self::NatsBatch],
            Part::Redis => &[Self::Redis],
            Part::Postgres => &[Self::Postgres, Self::PostgresBatch],
            Part::Rabbitmq => &[Self::RabbitMq],
        }
    }
}

impl Plan {
    /// Runs all rounds into `results`, telling of each run on stderr. A server that fails is noted and passed over.
    ///
    /// Within a round all servers do one load before any does the next, so that what a ratio
    /// compares lies seconds apart; each round starts with another server.
    pub async fn run(&self, results: &mut Results) -> Result<()> {
        let mut contestants: Vec<_> =
            self.parts.iter().flat_map(|&part| Contestant::of(part)).copied().collect();
        for round in 1..=self.rounds {
            if self.parts.contains(&Part::Machine) {
                results.machine.push(self.machine(round).await?);
            }
            for load in &self.loads {
                for &contestant in &contestants {
                    results.runs.extend(self.one(round, contestant, load).await);
                }
            }
            if !contestants.is_empty() {
                contestants.rotate_left(1);
            }
        }
        Ok(())
    }

    async fn machine(&self, round: u32) -> Result<Limits> {
        let (dir, length) = (self.dir.clone(), Duration::from_secs_f64(self.seconds));
        let limits = tokio::task::spawn_blocking(move || machine::measure(&dir, length)).await??;
        eprintln!(
            "round {round}/{}  machine: fdatasync p50 {:.3} ms, loopback {:.1} us",
            self.rounds, limits.fdatasync_p50_ms, limits.loopback_rtt_us
        );
        Ok(limits)
    }

    /// `None` where the server has nothing to compare for this load.
    async fn one(&self, round: u32, contestant: Contestant, load: &Load) -> Option<Run> {
        let watch = Bystander::start();
        let ran = match contestant {
            Contestant::Switchboard => {
                self.switchboard.run(&self.dir, load, self.seconds, &[]).await.map(Some)
            }
            Contestant::SwitchboardPostgres => self.on_postgres(load, 1).await.map(Some),
            Contestant::SwitchboardThreeNodes => self.on_postgres(load, 3).await.map(Some),
            Contestant::Nats => self.peer::<Nats<1>>(load).await,
            Contestant::NatsBatch => self.peer::<Nats<BATCH>>(load).await,
            Contestant::Redis => self.peer::<Redis>(load).await,
            Contestant::Postgres => self.peer::<Postgres<1>>(load).await,
            Contestant::PostgresBatch => self.peer::<Postgres<BATCH>>(load).await,
            Contestant::RabbitMq => self.peer::<RabbitMq>(load).await,
        };
        let (outcome, error) = match ran {
            Ok(None) => return None,
            Ok(outcome) => (outcome, None),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        let server = contestant.name();
        let run = Run {
            round,
            server,
            load: load.name,
            foreign_cpu_percent: watch.foreign_percent(),
            outcome,
            error,
        };
        eprintln!("round {round}/{}  {}", self.rounds, told(&run));
        Some(run)
    }

    /// `nodes` of the hub on a PostgreSQL and a NATS server of their own.
    async fn on_postgres(&self, load: &Load, nodes: usize) -> Result<Outcome> {
        let store = Postgres::<1>::start(&self.dir).await?;
        let doorbell = Nats::<1>::start(&self.dir).await?;
        let args = [
            "--nodes".to_owned(),
            nodes.to_string(),
            "--store".to_owned(),
            store.url(),
            "--doorbell".to_owned(),
            doorbell.url(),
        ];
        self.switchboard.run(&self.dir, load, self.seconds, &args).await
    }

    /// A fresh server with an empty data directory for each run.
    async fn peer<P: Peer>(&self, load: &Load) -> Result<Option<Outcome>> {
        if load.receivers > 0 && !P::DELIVERS {
            return Ok(None);
        }
        let peer = P::start(&self.dir).await?;
        load::run(&peer, load, "bench", Duration::from_secs_f64(self.seconds)).await.map(Some)
    }
}

fn told(run: &Run) -> String {
    let (server, load, foreign) = (run.server, run.load, run.foreign_cpu_percent);
    match (&run.outcome, &run.error) {
        (Some(outcome), _) => {
            let rate = outcome.delivered_per_s.unwrap_or(outcome.published_per_s);
            format!("{server}, {load}: {rate:.0}/s (others took {foreign:.0} % of the CPU)")
        }
        (None, error) => format!("{server}, {load}: FAILED: {}", error.as_deref().unwrap_or_default()),
    }
}

/// Loads that run when none is named: the others are asked of the hub on PostgreSQL only.
const USUAL_LOADS: usize = 5;

/// The loads with the given numbers (from 1), in their usual order; the usual ones for an empty list.
pub fn choose_loads(numbers: &[usize]) -> Vec<Load> {
    let wanted = |number| if numbers.is_empty() { number <= USUAL_LOADS } else { numbers.contains(&number) };
    LOADS.iter().enumerate().filter(|(i, _)| wanted(i + 1)).map(|(_, load)| *load).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_chosen_by_number() {
        let names: Vec<_> = choose_loads(&[5, 1]).iter().map(|load| load.name).collect();
        assert_eq!(names, ["one in flight", "50 receivers"]);
        assert_eq!(choose_loads(&[]).len(), USUAL_LOADS);
    }

    #[test]
    fn a_stopped_or_failing_comparison_is_not_complete() {
        assert!(Results::default().is_complete());
        assert!(!Results { stopped: true, ..Results::default() }.is_complete());
        let error = Some("no".to_owned());
        let run =
            Run { round: 1, server: "redis", load: "l", foreign_cpu_percent: 0.0, outcome: None, error };
        assert!(!Results { runs: vec![run], ..Results::default() }.is_complete());
    }
}
