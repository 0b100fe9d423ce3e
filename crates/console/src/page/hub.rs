//! How the hub is doing, what was logged, what waits for a decision.

use super::markup;
use crate::shell::{Section, Shell};
use crate::text::{Foreign, When};
use askama::Template;

/// Where every accepted message is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ledger {
    /// All of them.
    pub accepted: u64,
    /// Received.
    pub delivered: u64,
    /// Answered.
    pub answered: u64,
    /// Over.
    pub expired: u64,
    /// Turned down.
    pub refused: u64,
    /// Given up.
    pub dead: u64,
    /// Nobody knows.
    pub unknown: u64,
    /// On their way.
    pub pending: u64,
}

impl Ledger {
    fn states(&self) -> [(&'static str, u64); 7] {
        [
            ("delivered", self.delivered),
            ("answered", self.answered),
            ("pending", self.pending),
            ("expired", self.expired),
            ("refused", self.refused),
            ("dead", self.dead),
            ("unknown", self.unknown),
        ]
    }

    fn adds_up(&self) -> bool {
        self.states().iter().map(|(_, count)| count).sum::<u64>() == self.accepted
    }
}

/// Figures; sent alone when something happens.
#[derive(Debug, Clone, Template)]
#[template(path = "figures.html")]
pub struct Figures {
    /// Agents that are there.
    pub agents_there: usize,
    /// Agents that are known.
    pub agents: usize,
    /// The bus's ledger.
    pub ledger: Ledger,
    /// The ledger of what goes out to people.
    pub people: Ledger,
    /// For how long the hub has been running.
    pub uptime: String,
    /// Names and values.
    pub facts: Vec<(&'static str, Foreign)>,
}

impl Figures {
    fn ledgers(&self) -> [(&'static str, Ledger); 2] {
        [("Where every message is", self.ledger), ("What goes out to people", self.people)]
    }
}

/// *Overview*.
#[derive(Debug, Template)]
#[template(path = "overview.html")]
pub struct Overview {
    /// Around it.
    pub shell: Shell,
    /// The figures.
    pub figures: Figures,
    /// Address for MCP clients.
    pub mcp_url: Foreign,
}

/// A proposal, or what became of it.
#[derive(Debug, Clone)]
pub struct TaskRow {
    /// Stands for it within the page.
    pub key: String,
    /// Its number.
    pub number: u64,
    /// Id of its vault.
    pub vault_id: String,
    /// Name of its vault.
    pub vault: Foreign,
    /// Its title.
    pub title: Foreign,
    /// `proposed`, `open`, `rejected`.
    pub state: String,
    /// When it was proposed.
    pub created: When,
}

impl TaskRow {
    fn tone(&self) -> &'static str {
        match self.state.as_str() {
            "proposed" => "wait",
            "open" => "good",
            _ => "",
        }
    }
}

/// *Tasks*.
#[derive(Debug, Template)]
#[template(path = "tasks.html")]
pub struct Tasks {
    /// Around it.
    pub shell: Shell,
    /// Newest first.
    pub tasks: Vec<TaskRow>,
}

/// What of the log is asked for.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Beginning of the verb.
    pub verb: Foreign,
    /// Part of actor or subject.
    pub about: Foreign,
    /// `admitted`, `refused` or empty.
    pub result: String,
}

/// One line of the log.
#[derive(Debug, Clone)]
pub struct LogEntry {
    /// Number of its record.
    pub number: u64,
    /// When.
    pub at: When,
    /// What.
    pub verb: Foreign,
    /// Who.
    pub actor: Foreign,
    /// To what, or why not.
    pub subject: Foreign,
    /// Whether it was refused.
    pub refused: bool,
    /// How often.
    pub count: u32,
}

/// What verifying found; sent alone when asked for from the page.
#[derive(Debug, Clone, Template)]
#[template(path = "verified.html")]
pub struct Verified {
    /// Entries that were looked at.
    pub entries: u64,
    /// Signed checkpoints that hold.
    pub checkpoints: u64,
    /// The first record that is wrong, and why.
    pub broken: Option<(u64, Foreign)>,
}

/// *Log*.
#[derive(Debug, Template)]
#[template(path = "log.html")]
pub struct LogPage {
    /// Around it.
    pub shell: Shell,
    /// What is asked for.
    pub filter: Filter,
    /// Newest first.
    pub entries: Vec<LogEntry>,
    /// Older ones.
    pub older: Option<String>,
    /// What verifying found.
    pub verified: Option<Verified>,
}

markup!(Figures, Verified);
