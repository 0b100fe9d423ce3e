//! The command line: configuration, wiring, commands. It knows how nothing is done, only whom to ask.
//!
//! Where to look: what can be typed in [`args`]; one file per command in `commands`; how a command ends in [`failure`]; how
//! the hub is put together in [`embedded`]. To add a command: a variant in [`args::Command`], a file in `commands`, an arm
//! in [`run`], and its JSON shape in a test.

pub mod api;
pub mod args;
mod building;
mod channels;
mod commands;
pub mod config;
mod connect;
pub mod embedded;
pub mod failure;
mod limits;
mod logging;
mod messages;
mod place;
mod signals;
#[cfg(feature = "otel")]
mod telemetry;
#[cfg(not(feature = "otel"))]
#[path = "telemetry_absent.rs"]
mod telemetry;
mod terminal;
mod time;

use args::{Cli, Command};
use clap::Parser as _;
use failure::Failure;
use std::io::Write as _;
use std::process::ExitCode;
use terminal::Output;

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are printed the same way, with exit code 0; wrong use has 2.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // With stderr gone the exit code still tells.
            let _ = writeln!(std::io::stderr(), "{failure}");
            failure.exit.into()
        }
    }
}

/// Runs a command.
pub fn run(cli: Cli) -> Result<(), Failure> {
    let Cli { global, command } = cli;
    let output = Output { json: global.json };
    if let Command::Serve(serve) = &command {
        return commands::serve::run(&global, serve);
    }
    if let Some(filter) = global.log.as_deref() {
        let log = config::Log { level: "warn".into(), ..config::Log::default() };
        logging::start(Some(filter), &log, None)
            .map_err(|error| Failure::usage(format!("--log: {error}.")))?;
    }
    match command {
        Command::Config(command) => return commands::config::run(&global, output, &command),
        Command::Explain(explain) => return commands::explain::run(output, explain.code.as_deref()),
        Command::Completions { shell } => {
            commands::shell::completions(shell);
            return Ok(());
        }
        Command::Man { dir } => return commands::shell::man(output, &dir),
        _ => {}
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::usage(format!("Cannot start: {error}.")))?;
    runtime.block_on(commands::run(&global, output, command))
}
