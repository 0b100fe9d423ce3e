//! `bench-compare`: the same durable work on Switchboard and on its peers, on one machine, in one run.
//!
//! `load.rs` is the work, `peer/` the servers it runs on, `rounds.rs` the order, `summary.rs` the
//! arithmetic, `table.rs` what a person sees. `bench/README.md` says what is fair about it and what not.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

mod histogram;
mod load;
mod machine;
mod outcome;
mod peer;
mod process;
mod receipts;
mod rounds;
mod summary;
mod switchboard;
mod table;
mod usage;

use rounds::{Part, Plan, Results};
use switchboard::Switchboard;

/// Runs the same durable work on Switchboard and on its peers and prints ratios.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// Interleaved rounds; figures are medians over them.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Measured seconds of each load on each server.
    #[arg(long, default_value_t = 5.0, value_parser = seconds)]
    seconds: f64,
    /// Parts to run, separated by commas; all of them when left out.
    #[arg(long, value_delimiter = ',', value_enum)]
    only: Vec<Part>,
    /// Loads to run by number, separated by commas: 1 one in flight, 2 16 in flight, 3 256 in
    /// flight, 4 64 senders, 5 50 receivers, 6 16 senders, 7 16 senders x 64; the first five when left out.
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u8).range(1..=7))]
    loads: Vec<u8>,
    /// Folder for the data of all servers; it decides which disk is measured.
    #[arg(long, default_value = "target/bench")]
    dir: PathBuf,
    /// The hub's program.
    #[arg(long, default_value = "../../target/release/switchboard")]
    switchboard: PathBuf,
    /// One more argument for `switchboard bench bus`; may be given several times.
    #[arg(long, allow_hyphen_values = true)]
    switchboard_arg: Vec<String>,
    /// Print one JSON document instead of the tables.
    #[arg(long)]
    json: bool,
    /// Also write the JSON document to this file.
    #[arg(long)]
    save: Option<PathBuf>,
}

fn seconds(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "give a number of seconds".to_owned())?;
    if (0.1..=600.0).contains(&value) { Ok(value) } else { Err("give 0.1 to 600 seconds".to_owned()) }
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    match compare(&args).await {
        Ok(results) if results.is_complete() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench-compare: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn compare(args: &Args) -> Result<Results> {
    std::fs::create_dir_all(&args.dir).with_context(|| format!("create {}", args.dir.display()))?;
    let numbers: Vec<usize> = args.loads.iter().map(|&number| number.into()).collect();
    let plan = Plan {
        parts: parts(&args.only),
        loads: rounds::choose_loads(&numbers),
        rounds: args.rounds,
        seconds: args.seconds,
        dir: args.dir.canonicalize()?,
        switchboard: Switchboard {
            program: args.switchboard.clone(),
            more_args: args.switchboard_arg.clone(),
        },
    };
    let mut results = Results::default();
    // Dropping the run drops the guards of the servers that it started; what it has measured stays.
    tokio::select! {
        ran = plan.run(&mut results) => ran?,
        stopped = stop_signal() => {
            stopped?;
            results.stopped = true;
        }
    }
    let lines = summary::summarize(&results);
    let document = json!({
        "rounds": args.rounds, "stopped": results.stopped, "seconds": args.seconds, "body_bytes": load::BODY_BYTES,
        "summary": lines, "machine": results.machine, "runs": results.runs,
    });
    if let Some(file) = &args.save {
        std::fs::write(file, document.to_string()).with_context(|| format!("write {}", file.display()))?;
    }
    if args.json {
        println!("{document}");
    } else {
        print!("{}", table::render(&results, &lines));
    }
    Ok(results)
}

/// The chosen parts in their usual order, the hub first so that each round's ratios are near in time.
fn parts(only: &[Part]) -> Vec<Part> {
    use clap::ValueEnum;
    let all = Part::value_variants().iter().copied();
    all.filter(|part| only.is_empty() || only.contains(part)).collect()
}

async fn stop_signal() -> Result<()> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
    }
}
