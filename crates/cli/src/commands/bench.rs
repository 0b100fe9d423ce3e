//! `switchboard bench`: what the hub does on this machine. The hub runs as a process of its own, so that its processor time
//! and memory are told apart from the load's; the load speaks the bare wire from one thread, because both share the cores.

mod child;
mod disk;
mod histogram;
mod idle;
mod ids;
mod load;
pub mod outbound;
mod page;
mod receive;
mod report;
mod room;
mod send;
mod smtp;
mod wire;

use crate::args::{BenchBus, BenchHubs, BenchPage, Global};
use crate::failure::{Exit, Failure};
use crate::signals::Signals;
use crate::terminal::Output;
use child::Target;

/// Most connections of one bench.
const CONNECTIONS_MAX: usize = 60_000;

/// Measures the bus.
pub async fn bus(global: &Global, output: Output, bench: &BenchBus) -> Result<(), Failure> {
    check(bench)?;
    crate::limits::raise_open_files();
    if let Some(sockets) = bench.idle {
        let idle = on_hub(global, &bench.hubs, async |target| idle::run(target, sockets).await).await?;
        output.show(&idle, idle::Idle::text);
        return Ok(());
    }
    let report = on_hub(global, &bench.hubs, async |target| load::run(target, bench).await).await?;
    output.show(&report, report::Report::text);
    if report.is_sound() {
        return Ok(());
    }
    Err(Failure::no("Messages were lost, doubled or out of order: the rates mean nothing."))
}

/// Measures pages of history.
pub async fn page(global: &Global, output: Output, bench: &BenchPage) -> Result<(), Failure> {
    if bench.messages == 0 || bench.pages == 0 || !(1..=200).contains(&bench.size) {
        return Err(Failure::usage("--messages and --pages must be at least 1, --size 1 to 200."));
    }
    let report = on_hub(global, &bench.hubs, async |target| page::run(target, bench).await).await?;
    output.show(&report, page::Pages::text);
    Ok(())
}

fn check(bench: &BenchBus) -> Result<(), Failure> {
    let connections = bench.senders + bench.receivers;
    if bench.senders == 0
        || connections > CONNECTIONS_MAX
        || bench.idle.is_some_and(|idle| !(1..=CONNECTIONS_MAX).contains(&idle))
    {
        return Err(Failure::usage(format!("At least one sender, at most {CONNECTIONS_MAX} connections.")));
    }
    if !(1..=64).contains(&bench.hubs.nodes) || (bench.hubs.nodes > 1 && bench.hubs.store.is_none()) {
        return Err(Failure::usage("--nodes: 1 to 64, and more than one only with --store postgres://…"));
    }
    if !(1..=4096).contains(&bench.in_flight) {
        return Err(Failure::usage("--in-flight: 1 to 4096."));
    }
    if !(0.1..=3600.0).contains(&bench.seconds) {
        return Err(Failure::usage("--seconds: 0.1 to 3600."));
    }
    if !(ids::HEAD_BYTES..=4000).contains(&bench.body_bytes) {
        return Err(Failure::usage(format!("--body-bytes: {} to 4000.", ids::HEAD_BYTES)));
    }
    Ok(())
}

/// Runs `measure` against a hub of its own, or the one that was named, and cleans up also when interrupted.
async fn on_hub<T>(
    global: &Global,
    hubs: &BenchHubs,
    measure: impl AsyncFnOnce(&Target) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let mut signals = Signals::listen();
    let target = Target::find_or_start(global, hubs).await?;
    let measured = tokio::select! {
        measured = measure(&target) => measured,
        () = signals.next() => Err(Failure::no("Interrupted.")),
    };
    target.stop().await?;
    measured
}

/// The connection broke, or the hub said what it never should.
fn broken(error: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Refused, "SB0202", format!("The bench ended early: {error}."))
}
