//! `channel`.

use clap::Subcommand;

/// `channel`.
#[derive(Debug, Subcommand)]
pub enum Channel {
    /// Set up a channel: asks for what is needed, tries it with a real call, saves it, and pairs you. A running hub takes it up at once.
    Add {
        /// Its kind, such as telegram, slack or email.
        kind: String,
        /// What callers put in `channel`; the kind, unless said.
        #[arg(long)]
        name: Option<String>,
        /// A key of the configuration, such as `token_env=TELEGRAM_TOKEN`; what is not set is asked for.
        #[arg(long = "set", value_name = "KEY=VALUE")]
        settings: Vec<String>,
        /// Whose address it becomes that pairs, by name.
        #[arg(long, value_name = "NAME")]
        person: Option<String>,
        /// Do not make a pairing code.
        #[arg(long)]
        no_pairing: bool,
    },
    /// The channels of the running hub: their health, and who may be written to.
    List,
    /// Try a channel with a real call that reaches nobody; with --to, send a test message.
    Test {
        /// The channel.
        name: String,
        /// Somebody who may be written to on it.
        #[arg(long, value_name = "HANDLE", allow_hyphen_values = true)]
        to: Option<String>,
    },
    /// Remove a channel that `channel add` has saved, with its secrets. What still waits for it stays, and can be discarded.
    Remove {
        /// The channel.
        name: String,
    },
}
