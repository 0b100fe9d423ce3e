//! What can be typed. Help texts, completions and manual pages are made from here.

mod channel;
mod person;

pub use channel::Channel;
pub use person::Person;

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// One self-hosted server through which AI agents talk to each other.
#[derive(Debug, Parser)]
#[command(name = "switchboard", version, about, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Options of every command")]
pub struct Global {
    /// Print one JSON document instead of text.
    #[arg(long, global = true)]
    pub json: bool,
    /// The hub's data directory: where it keeps everything, and how commands find the running one.
    #[arg(long, global = true, env = "SWITCHBOARD_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// The configuration file; `switchboard config example` prints one.
    #[arg(long, global = true, env = "SWITCHBOARD_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// A hub elsewhere: its address, with --token.
    #[arg(long, global = true, env = "SWITCHBOARD_URL", value_name = "URL")]
    pub url: Option<String>,
    /// The bearer to act under, instead of the owner's. Better in the environment than in a command line.
    #[arg(long, global = true, env = "SWITCHBOARD_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    pub token: Option<String>,
    /// Certificate authorities (PEM) to believe beside those of the operating system, for a hub behind `https://`.
    #[arg(long, global = true, env = "SWITCHBOARD_CA_FILE", value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// What to log to stderr: error, warn, info, debug, trace, or a filter such as `info,switchboard_engine=debug`.
    #[arg(long, global = true, env = "RUST_LOG", value_name = "FILTER")]
    pub log: Option<String>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the hub. The first start makes everything it needs.
    Serve(Serve),
    /// Watch two agents talk, on a hub of their own that leaves nothing behind.
    Demo,
    /// Show how the running hub is doing.
    Status,
    /// Check configuration, files, disk, clock and the running hub, and say what to do next.
    Doctor,
    /// Print a link that opens the console in a browser, once, within 15 minutes.
    Console,
    /// Bearers for agents, scripts and CI.
    #[command(subcommand)]
    Token(Token),
    /// Devices that want to enroll.
    #[command(subcommand)]
    Device(Device),
    /// Vaults: networks inside the organization.
    #[command(subcommand)]
    Vault(Vault),
    /// Swarms: networks across organizations, under handles.
    #[command(subcommand)]
    Swarm(Swarm),
    /// Questions that nobody answered in time.
    #[command(subcommand)]
    Task(Task),
    /// The hub's public keys.
    #[command(subcommand)]
    Keys(Keys),
    /// Rules for what agents may do with the tools that reach people.
    #[command(subcommand)]
    Policy(Policy),
    /// Who can be written to.
    Agents,
    /// The newest messages; with --follow, as they pass.
    Inbox(Inbox),
    /// Send a message.
    Send(Send),
    /// Send a question and wait for its answer.
    Ask(Ask),
    /// A whole thread, by the id of any of its messages.
    Thread(Thread),
    /// Search messages.
    Search(Search),
    /// Speak MCP on standard input and output, for clients that start a program instead of opening a URL.
    Mcp(Mcp),
    /// What became of a question to a person, and its answer.
    Topic(Topic),
    /// Questions that wait for a person's answer.
    Questions,
    /// Answer a question that an agent asked.
    Answer(Answer),
    /// Set up the networks on which people are reached.
    #[command(subcommand)]
    Channel(Channel),
    /// The channels on which people can be reached, and who can be.
    Channels,
    /// What goes out to people: where each message is, and why.
    #[command(subcommand)]
    Outbound(Outbound),
    /// Calls that wait for a person's yes.
    #[command(subcommand)]
    Approval(Approval),
    /// Who may be written to.
    #[command(subcommand)]
    Pair(Pair),
    /// The people whom agents reach: addresses and quiet hours.
    #[command(subcommand)]
    Person(Person),
    /// Where every accepted message is.
    Ledger,
    /// The event log: who did what, and whether anybody changed it.
    #[command(subcommand)]
    Log(Log),
    /// Write a consistent copy of the running hub's data to a new file.
    Backup(Backup),
    /// Make a hub's store of a backup: a data directory, or a PostgreSQL database.
    Restore(Restore),
    /// The hub's store itself, while no hub runs on it: move it to another place.
    #[command(subcommand)]
    Store(Store),
    /// The configuration file.
    #[command(subcommand)]
    Config(Config),
    /// What an error code means. Needs no network.
    Explain(Explain),
    /// Measure.
    #[command(subcommand)]
    Bench(Bench),
    /// Completions for a shell, on stdout.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a directory.
    Man {
        /// Where; made when it is not there.
        dir: PathBuf,
    },
}

/// `serve`.
#[derive(Debug, Args)]
pub struct Serve {
    /// Address and port to listen on; port 0 takes a free one. [default: 127.0.0.1:8484]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// Stop when standard input closes: for programs that start a hub and must not leave it behind.
    #[arg(long, hide = true)]
    pub until_stdin_closes: bool,
}

/// `mcp`.
#[derive(Debug, Args)]
pub struct Mcp {
    /// Name of the agent to speak for. [default: the token's label]
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
}

/// `token`.
#[derive(Debug, Subcommand)]
pub enum Token {
    /// Make a bearer. It is shown this once.
    Create {
        /// What people call it.
        #[arg(long)]
        label: String,
        /// Name of the person it belongs to. [default: the hub's owner]
        #[arg(long)]
        owner: Option<String>,
        /// Rights, separated by commas. [default: bus.relay,tasks.read,tasks.work,tasks.propose]
        #[arg(long, value_delimiter = ',')]
        rights: Option<Vec<String>>,
    },
    /// Everyone who has a credential.
    List,
    /// End an instance and all its credentials, at once.
    Revoke {
        /// The instance, as `token list` shows it.
        instance_id: String,
    },
}

/// `device`.
#[derive(Debug, Subcommand)]
pub enum Device {
    /// Devices that wait.
    List,
    /// Let a device in.
    Approve {
        /// The code it shows.
        code: String,
    },
    /// Turn a device away.
    Deny {
        /// The code it shows.
        code: String,
    },
}

/// `vault`.
#[derive(Debug, Subcommand)]
pub enum Vault {
    /// Make a vault.
    Create {
        /// Its name: letters, digits, `.`, `_`, `:`, `-`.
        name: String,
    },
    /// All vaults.
    List,
}

/// `swarm`.
#[derive(Debug, Subcommand)]
pub enum Swarm {
    /// Make a swarm.
    Create {
        /// What it is about.
        #[arg(long)]
        title: String,
    },
    /// Join one under a handle; all instances of the person follow it from then on.
    Join {
        /// The swarm.
        swarm_id: String,
        /// The only thing others see.
        #[arg(long)]
        handle: String,
        /// Who joins. [default: the hub's owner]
        #[arg(long)]
        person: Option<String>,
    },
    /// Take no more messages; what was said stays readable.
    Close {
        /// The swarm.
        swarm_id: String,
    },
    /// All swarms.
    List,
}

/// `task`.
#[derive(Debug, Subcommand)]
pub enum Task {
    /// The tasks of a vault.
    List {
        /// Its name or id.
        #[arg(long, default_value = "main")]
        vault: String,
    },
    /// Open a proposed task for work.
    Approve {
        /// Its number.
        number: u64,
        /// The vault.
        #[arg(long, default_value = "main")]
        vault: String,
    },
    /// Reject a proposed task.
    Decline {
        /// Its number.
        number: u64,
        /// The vault.
        #[arg(long, default_value = "main")]
        vault: String,
    },
}

/// `keys`.
#[derive(Debug, Subcommand)]
pub enum Keys {
    /// The root key to pin in clients, and the key that signs.
    Show,
}

/// `policy`.
#[derive(Debug, Subcommand)]
pub enum Policy {
    /// Load a directory of rules and say each in a sentence. Exit code 1 when it cannot be loaded.
    Check {
        /// The directory. [default: the one that `serve` would use]
        dir: Option<PathBuf>,
    },
    /// Run the cases beside the rules (`*.test.toml`). Exit code 1 when one fails.
    Test {
        /// The directory. [default: the one that `serve` would use]
        dir: Option<PathBuf>,
    },
    /// The rules that are in force in the running hub.
    Show,
    /// Let the running hub read its rules now instead of within a second. Exit code 1 when it refuses them.
    Reload,
    /// What the running hub's rules say of a call, which is not made. Exit code 1 when they refuse it.
    Explain(PolicyExplain),
}

/// `policy explain`.
#[derive(Debug, Args)]
pub struct PolicyExplain {
    /// The channel.
    #[arg(long)]
    pub channel: String,
    /// The address.
    #[arg(long)]
    pub to: String,
    /// The text; `-` reads it from standard input.
    #[arg(long)]
    pub body: String,
    /// `direct` or `channel`.
    #[arg(long)]
    pub kind: Option<String>,
    /// `question` or `notice`.
    #[arg(long)]
    pub message_kind: Option<String>,
    /// The caller's key.
    #[arg(long)]
    pub idempotency_key: Option<String>,
    /// Unix milliseconds.
    #[arg(long)]
    pub deadline_ms: Option<i64>,
    /// Who would call. [default: agent]
    #[arg(long)]
    pub agent: Option<String>,
    /// The tool. [default: messaging.send]
    #[arg(long)]
    pub tool: Option<String>,
}

/// Which channel a command is about.
#[derive(Debug, Clone, Args)]
pub struct Place {
    /// Name or id of the vault. [default: main, or the only one]
    #[arg(long)]
    pub vault: Option<String>,
    /// The channel of the vault.
    #[arg(long, default_value = "general")]
    pub channel: String,
    /// A swarm instead of a vault's channel.
    #[arg(long, conflicts_with_all = ["vault", "channel"], value_name = "SWARM_ID")]
    pub swarm: Option<String>,
}

/// `inbox`.
#[derive(Debug, Args)]
pub struct Inbox {
    /// Go on showing messages as they pass; your own are not repeated. Under an agent's bearer others can write to it meanwhile.
    #[arg(long, short)]
    pub follow: bool,
    /// Only this vault, by name or id.
    #[arg(long)]
    pub vault: Option<String>,
    /// How many of the newest messages to show first. [default: 20, none with --follow]
    #[arg(long, short = 'n')]
    pub limit: Option<usize>,
}

/// Who sends, to whom, where.
#[derive(Debug, Clone, Args)]
pub struct Envelope {
    /// The receiving agent; a person's address or, where no agent is called so, their name. [default: everyone on the channel]
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    pub to: Option<String>,
    /// The receiving instance, when several run that agent.
    #[arg(long, requires = "to", value_name = "INSTANCE_ID")]
    pub to_instance: Option<String>,
    /// Where.
    #[command(flatten)]
    pub place: Place,
    /// The message this replies to.
    #[arg(long, value_name = "GID")]
    pub reply_to: Option<String>,
    /// How the sender is called on the network.
    #[arg(long = "as", value_name = "NAME")]
    pub sender: Option<String>,
}

/// How a person is reached, instead of an agent.
#[derive(Debug, Clone, Default, Args)]
pub struct Reach {
    /// The messaging channel to a person (`switchboard channels` lists them). With an address such as you@example.org in --to it
    /// is the mail channel by itself.
    #[arg(long, value_name = "CHANNEL", requires = "to", conflicts_with_all = ["vault", "channel", "swarm", "reply_to", "to_instance"])]
    pub via: Option<String>,
    /// --to names a shared channel, not a person.
    #[arg(long, requires = "via")]
    pub shared: bool,
    /// Makes a repeat harmless: a second call with the same key sends nothing again.
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
}

/// `topic`.
#[derive(Debug, Args)]
pub struct Topic {
    /// The topic.
    pub topic_id: String,
    /// Wait for its end, at most so long: 30s, 10m, 2h.
    #[arg(long, value_name = "TIME")]
    pub wait: Option<String>,
    /// Take the question back instead.
    #[arg(long, conflicts_with = "wait")]
    pub withdraw: bool,
}

/// `answer`.
#[derive(Debug, Args)]
pub struct Answer {
    /// The question: its topic, or its short code.
    pub question: String,
    /// The answer.
    pub text: String,
}

/// `outbound`.
#[derive(Debug, Subcommand)]
pub enum Outbound {
    /// Messages to people, newest first.
    List {
        /// Only these states: held, queued, sending, open, delivered, answered, expired, refused, dead, unknown.
        #[arg(long, value_delimiter = ',')]
        state: Vec<String>,
        /// At most so many, up to 500.
        #[arg(long, short = 'n', default_value_t = 50)]
        limit: usize,
    },
    /// One message with everything that happened to it, and why it is where it is.
    Show {
        /// The message.
        send_id: String,
    },
    /// Try a dead or unknown message again, or one that waits for a later attempt at once.
    Retry {
        /// The message.
        send_id: String,
    },
    /// Give a message up.
    Discard {
        /// The message.
        send_id: String,
    },
}

/// `approval`.
#[derive(Debug, Subcommand)]
pub enum Approval {
    /// Calls that wait.
    List {
        /// Also those that were decided.
        #[arg(long)]
        all: bool,
    },
    /// Let a call go on.
    Approve {
        /// The approval, or the short code of its message.
        approval: String,
    },
    /// Turn a call down.
    Deny {
        /// The approval, or the short code of its message.
        approval: String,
    },
}

/// `pair`.
#[derive(Debug, Subcommand)]
pub enum Pair {
    /// Make a code that a person types into the chat (or replies with): good once, for ten minutes.
    Start {
        /// The channel.
        #[arg(long)]
        channel: String,
        /// The only address that may use it.
        #[arg(long, value_name = "HANDLE", allow_hyphen_values = true)]
        to: Option<String>,
        /// Whose address it becomes, by name.
        #[arg(long, value_name = "NAME")]
        person: Option<String>,
    },
    /// Allow an address to be written to.
    Allow {
        /// The channel.
        #[arg(long)]
        channel: String,
        /// The address.
        #[arg(long, value_name = "HANDLE", allow_hyphen_values = true)]
        to: String,
        /// It is a shared channel, not a person.
        #[arg(long)]
        shared: bool,
        /// Whose it is, by name.
        #[arg(long, value_name = "NAME")]
        person: Option<String>,
        /// Also where somebody said STOP whom nobody vouched for. A STOP that is proven is the person's alone to take back.
        #[arg(long)]
        lift_stop: bool,
    },
    /// Take that back.
    Revoke {
        /// The channel.
        #[arg(long)]
        channel: String,
        /// The address.
        #[arg(long, value_name = "HANDLE", allow_hyphen_values = true)]
        to: String,
        /// It is a shared channel, not a person.
        #[arg(long)]
        shared: bool,
    },
    /// Who may be written to, and who not.
    List,
}

/// Types of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Asks.
    Question,
    /// Offers.
    Offer,
    /// Hands work on.
    Handoff,
    /// Answers a question; with --reply-to.
    Answer,
    /// Reports.
    Finding,
}

/// `send`.
#[derive(Debug, Clone, Args)]
pub struct Send {
    /// Who, to whom, where.
    #[command(flatten)]
    pub envelope: Envelope,
    /// To a person.
    #[command(flatten)]
    pub reach: Reach,
    /// What it is. [default: answer with --reply-to, else finding]
    #[arg(long = "type", value_enum, value_name = "TYPE")]
    pub kind: Option<Kind>,
    /// When an unanswered question becomes a task: 30m, 2h, 1d.
    #[arg(long, value_name = "TIME")]
    pub deadline: Option<String>,
    /// The text; `-` reads it from standard input.
    pub text: String,
}

/// `ask`.
#[derive(Debug, Clone, Args)]
pub struct Ask {
    /// Who, to whom, where.
    #[command(flatten)]
    pub envelope: Envelope,
    /// To a person.
    #[command(flatten)]
    pub reach: Reach,
    /// An answer to choose from; may be repeated. To a person only.
    #[arg(long = "choice", value_name = "TEXT")]
    pub choices: Vec<String>,
    /// When an unanswered question becomes a task: 30m, 2h, 1d.
    #[arg(long, value_name = "TIME")]
    pub deadline: Option<String>,
    /// How long to wait here for the answer.
    #[arg(long, default_value = "5m", value_name = "TIME")]
    pub timeout: String,
    /// The question; `-` reads it from standard input.
    pub text: String,
}

/// `thread`.
#[derive(Debug, Args)]
pub struct Thread {
    /// Any message of the thread.
    pub gid: String,
    /// Name or id of the channel's vault. [default: main, or the only one]
    #[arg(long, requires = "channel")]
    pub vault: Option<String>,
    /// The channel it must be on; finds a thread there also when the message itself is gone.
    #[arg(long)]
    pub channel: Option<String>,
    /// The swarm it must be on, likewise.
    #[arg(long, conflicts_with_all = ["vault", "channel"], value_name = "SWARM_ID")]
    pub swarm: Option<String>,
}

/// `search`.
#[derive(Debug, Args)]
pub struct Search {
    /// Words that must all occur.
    #[arg(required = true)]
    pub words: Vec<String>,
    /// At most so many, newest first, up to 50.
    #[arg(long, short = 'n', default_value_t = 20)]
    pub limit: usize,
}

/// `log`.
#[derive(Debug, Subcommand)]
pub enum Log {
    /// The newest entries; with --follow, as they come.
    Tail {
        /// Go on.
        #[arg(long, short)]
        follow: bool,
        /// How many to begin with.
        #[arg(long, short = 'n', default_value_t = 20)]
        limit: usize,
    },
    /// Check the whole chain and every signature. Exit code 1 when something does not hold.
    Verify,
    /// Recompute from the log where every message to people is, and compare it with the ledger. Exit code 1 when they differ.
    Audit,
    /// Every entry, one JSON document a line.
    Export,
}

/// `backup`.
#[derive(Debug, Args)]
pub struct Backup {
    /// A file that does not exist yet, on the hub's machine.
    pub file: PathBuf,
}

/// `restore`.
#[derive(Debug, Args)]
pub struct Restore {
    /// What `switchboard backup` wrote.
    pub file: PathBuf,
    /// Where to: `sqlite:DIR` or `postgres://USER:PASSWORD@HOST/DATABASE`, with nothing in it. [default: the database of the
    /// configuration's `store.url`, else the data directory]
    #[arg(long, value_name = "URL")]
    pub to: Option<String>,
}

/// `store`.
#[derive(Debug, Subcommand)]
pub enum Store {
    /// Copy a hub to another store, verify the copy and close the first one: clients go on from their cursors at the new place.
    Copy {
        /// Where it is: `sqlite:DIR` or `postgres://USER:PASSWORD@HOST/DATABASE`. With a password better in the environment than in
        /// a command line. [default: the data directory]
        #[arg(long, env = "SWITCHBOARD_FROM_URL", hide_env_values = true, value_name = "URL")]
        from: Option<String>,
        /// Where it goes, with nothing in it. [default: the configuration's `store.url`, which keeps its password out of the
        /// command line]
        #[arg(long, value_name = "URL")]
        to: Option<String>,
    },
    /// Let a hub start again on a store that was copied away. Its clients start over.
    Reopen {
        /// The store. [default: the configuration's `store.url`, which keeps its password out of the command line]
        #[arg(value_name = "URL")]
        store: Option<String>,
    },
}

/// `config`.
#[derive(Debug, Subcommand)]
pub enum Config {
    /// A commented example with every key and its default.
    Example,
    /// The configuration as it would be used, with the environment applied.
    Show,
}

/// `explain`.
#[derive(Debug, Args)]
pub struct Explain {
    /// The code, such as SB0104. [default: a list of all]
    pub code: Option<String>,
}

/// `bench`.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// Messages through the bus: rate, latency, what the hub spends on each.
    Bus(BenchBus),
    /// Reading pages of history.
    Page(BenchPage),
    /// Messages to people: what a decision costs, how many are accepted and delivered to a sink in this process, and how soon after its
    /// acceptance a mail begins to leave for a relay on loopback.
    Outbound(BenchOutbound),
}

/// `bench bus`.
#[derive(Debug, Clone, Args)]
pub struct BenchBus {
    /// Connections that send.
    #[arg(long, default_value_t = 1)]
    pub senders: usize,
    /// Messages each has under way at a time.
    #[arg(long, default_value_t = 1)]
    pub in_flight: usize,
    /// Connections that receive everything.
    #[arg(long, default_value_t = 0)]
    pub receivers: usize,
    /// How long to measure.
    #[arg(long, default_value_t = 5.0)]
    pub seconds: f64,
    /// Bytes of text in each message.
    #[arg(long, default_value_t = 350)]
    pub body_bytes: usize,
    /// Measure the memory of so many idle sockets instead.
    #[arg(long, value_name = "SOCKETS", conflicts_with_all = ["senders", "in_flight", "receivers", "seconds"])]
    pub idle: Option<usize>,
    /// The hub.
    #[command(flatten)]
    pub hubs: BenchHubs,
}

/// What a bench starts, unless `--url` names a hub that runs.
#[derive(Debug, Clone, Args)]
pub struct BenchHubs {
    /// Nodes; connections are spread over them, receivers elsewhere than senders.
    #[arg(long, default_value_t = 1)]
    pub nodes: usize,
    /// The store of the nodes: `postgres://…`, with a database that may be written to. Else SQLite in a temporary directory.
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    /// The doorbell of the nodes: `nats://…` or `postgres`.
    #[arg(long, value_name = "URL", requires = "store")]
    pub doorbell: Option<String>,
}

/// `bench outbound`.
#[derive(Debug, Clone, Args)]
pub struct BenchOutbound {
    /// Calls under way at a time.
    #[arg(long, default_value_t = 256)]
    pub in_flight: usize,
    /// Addresses that the messages go to.
    #[arg(long, default_value_t = 4096)]
    pub targets: u64,
    /// How long to measure each part.
    #[arg(long, default_value_t = 5.0)]
    pub seconds: f64,
    /// Bytes of text in each message.
    #[arg(long, default_value_t = 350)]
    pub body_bytes: usize,
    /// Deliveries, and mails to a relay on loopback, that are timed one by one.
    #[arg(long, default_value_t = 300)]
    pub samples: u64,
}

/// `bench page`.
#[derive(Debug, Clone, Args)]
pub struct BenchPage {
    /// Messages to fill the channel with first.
    #[arg(long, default_value_t = 100_000)]
    pub messages: usize,
    /// Pages to read.
    #[arg(long, default_value_t = 200)]
    pub pages: usize,
    /// Messages a page, up to 200.
    #[arg(long, default_value_t = 200)]
    pub size: usize,
    /// The hub.
    #[command(flatten)]
    pub hubs: BenchHubs,
}

#[cfg(test)]
mod tests {
    use super::Cli;
    use clap::CommandFactory as _;

    #[test]
    fn the_definitions_agree_with_each_other() {
        Cli::command().debug_assert();
    }
}
