//! Switchboard's own figures, from its own bench command.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::Signal;
use serde::Deserialize;

use crate::histogram::Quantiles;
use crate::load::Load;
use crate::outcome::Outcome;
use crate::process::Process;

/// How to run `switchboard bench bus`.
pub struct Switchboard {
    /// The program.
    pub program: PathBuf,
    /// Arguments added to each call, for options that this driver does not know.
    pub more_args: Vec<String>,
}

/// The document that `switchboard bench bus --json` prints; fields it has besides are not compared.
#[derive(Deserialize)]
struct BenchOut {
    published_per_s: f64,
    delivered_per_s: Option<f64>,
    ack_ms: Quantiles,
    deliver_ms: Option<Quantiles>,
    lost: Option<u64>,
    duplicated: Option<u64>,
    hub_cpu_us_per_msg: Option<f64>,
    hub_rss_mb: Option<f64>,
    fsync_per_s: Option<f64>,
}

impl Switchboard {
    /// Runs one load, with `args` for where the hub runs. `dir` is handed over as `TMPDIR`, so that the hub's temporary data directory
    /// lies on the same disk as the data of the peers.
    pub async fn run(&self, dir: &Path, load: &Load, seconds: f64, args: &[String]) -> Result<Outcome> {
        let folder = tempfile::Builder::new().prefix("switchboard-").tempdir_in(dir)?;
        let (out, log) = (folder.path().join("out.json"), folder.path().join("log"));
        let mut command = Command::new(&self.program);
        command.args(["bench", "bus", "--json"]).env("TMPDIR", folder.path());
        command.arg("--senders").arg(load.senders.to_string());
        command.arg("--in-flight").arg(load.in_flight.to_string());
        command.arg("--receivers").arg(load.receivers.to_string());
        command.arg("--seconds").arg(seconds.to_string()).args(args).args(&self.more_args);
        let mut process = Process::start_with_output(&mut command, Signal::TERM, &out, &log)?;
        let limit = Duration::from_secs_f64(seconds * 3.0) + Duration::from_mins(2);
        process.wait_for_success(limit).await.context("switchboard bench bus")?;
        parse(&std::fs::read_to_string(&out)?, load)
    }
}

fn parse(json: &str, load: &Load) -> Result<Outcome> {
    let out: BenchOut =
        serde_json::from_str(json).context("the document of `switchboard bench bus --json`")?;
    let delivers = load.receivers > 0;
    Ok(Outcome {
        load: load.name,
        published_per_s: out.published_per_s,
        ack_ms: out.ack_ms,
        delivered_per_s: out.delivered_per_s.filter(|_| delivers),
        deliver_ms: out.deliver_ms.filter(|_| delivers),
        lost: out.lost.filter(|_| delivers),
        duplicated: out.duplicated.filter(|_| delivers),
        server_cpu_us_per_msg: out.hub_cpu_us_per_msg,
        server_rss_mb: out.hub_rss_mb,
        flush_per_s: out.fsync_per_s,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::LOADS;

    fn program(fixture: &str) -> Switchboard {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(fixture);
        Switchboard { program, more_args: vec!["--store".into(), "sqlite".into()] }
    }

    #[tokio::test]
    async fn the_load_is_passed_on_and_the_document_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let outcome = program("switchboard").run(folder.path(), &LOADS[4], 0.5, &[]).await.unwrap();
        let args = std::fs::read_to_string(folder.path().join("args")).unwrap();
        assert_eq!(
            args.trim(),
            "bench bus --json --senders 4 --in-flight 64 --receivers 50 --seconds 0.5 --store sqlite"
        );
        assert_eq!(outcome.delivered_per_s, Some(50_000.0));
        assert_eq!(outcome.lost, Some(0));
    }

    #[tokio::test]
    async fn a_failing_bench_is_an_error_with_its_words() {
        let folder = tempfile::tempdir().unwrap();
        let error = program("switchboard-failing").run(folder.path(), &LOADS[0], 0.1, &[]).await.unwrap_err();
        assert!(format!("{error:#}").contains("disk full"), "{error:#}");
    }

    #[test]
    fn deliveries_of_a_load_without_receivers_are_not_compared() {
        let document = r#"{"published_per_s":1,"delivered_per_s":0,"ack_ms":{"p50":0.2,"p99":1,"p999":2}}"#;
        assert_eq!(parse(document, &LOADS[0]).unwrap().delivered_per_s, None);
        assert!(parse("{}", &LOADS[0]).is_err());
    }
}
