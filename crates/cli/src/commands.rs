//! The commands, one file each.

pub mod agents;
pub mod backup;
pub mod bench;
pub mod channel;
pub mod config;
pub mod console;
pub mod demo;
pub mod device;
pub mod doctor;
pub mod explain;
pub mod inbox;
pub mod keys;
pub mod ledger;
pub mod log;
pub mod mcp;
pub mod people;
pub mod person;
pub mod policy;
mod reach;
pub mod restore;
pub mod search;
pub mod send;
pub mod serve;
pub mod shell;
pub mod status;
#[cfg(feature = "postgres")]
pub mod store;
#[cfg(not(feature = "postgres"))]
#[path = "commands/store_absent.rs"]
pub mod store;
pub mod swarm;
pub mod task;
pub mod thread;
pub mod token;
pub mod vault;

use crate::api::Api;
use crate::args::{Bench, Command, Global};
use crate::failure::Failure;
use crate::terminal::Output;

/// Runs a command that waits for something.
pub async fn run(global: &Global, output: Output, command: Command) -> Result<(), Failure> {
    match command {
        Command::Demo => demo::run(output).await,
        Command::Doctor => doctor::run(global, output).await,
        Command::Restore(restore) => restore::run(global, output, &restore).await,
        Command::Store(command) => store::run(global, output, command).await,
        Command::Bench(Bench::Bus(bench)) => bench::bus(global, output, &bench).await,
        Command::Bench(Bench::Outbound(bench)) => bench::outbound::run(output, &bench).await,
        Command::Bench(Bench::Page(bench)) => bench::page(global, output, &bench).await,
        Command::Log(command) => log::run(global, output, &command).await,
        Command::Backup(backup) => backup::run(global, output, &backup).await,
        Command::Inbox(inbox) => inbox::run(global, output, &inbox).await,
        Command::Channel(command) => channel::run(global, output, &command).await,
        Command::Policy(command) => policy::run(global, output, command).await,
        command => on_hub(&Api::find(global)?, output, command).await,
    }
}

/// Runs a command that is a question to the running hub.
async fn on_hub(api: &Api, output: Output, command: Command) -> Result<(), Failure> {
    match command {
        Command::Status => status::run(api, output).await,
        Command::Console => console::run(api, output).await,
        Command::Token(command) => token::run(api, output, command).await,
        Command::Device(command) => device::run(api, output, &command).await,
        Command::Vault(command) => vault::run(api, output, command).await,
        Command::Swarm(command) => swarm::run(api, output, command).await,
        Command::Task(command) => task::run(api, output, &command).await,
        Command::Keys(crate::args::Keys::Show) => keys::run(api, output).await,
        Command::Agents => agents::run(api, output).await,
        Command::Send(send) => send::send(api, output, &send).await,
        Command::Ask(ask) => send::ask(api, output, &ask).await,
        Command::Thread(thread) => thread::run(api, output, &thread).await,
        Command::Search(search) => search::run(api, output, &search).await,
        Command::Topic(topic) => people::topic(api, output, &topic).await,
        Command::Questions => people::questions(api, output).await,
        Command::Answer(answer) => people::answer(api, output, &answer).await,
        Command::Channels => people::channels(api, output).await,
        Command::Outbound(command) => people::outbound(api, output, &command).await,
        Command::Approval(command) => people::approval(api, output, &command).await,
        Command::Person(command) => person::run(api, output, &command).await,
        Command::Pair(command) => people::pair(api, output, &command).await,
        Command::Ledger => ledger::run(api, output).await,
        Command::Mcp(mcp) => mcp::run(api, mcp).await,
        other => Err(Failure::usage(format!("{other:?} does not ask a hub."))),
    }
}
