//! Who is there and what is said.

use super::markup;
use crate::shell::{Section, Shell};
use crate::text::{Foreign, When};
use askama::Template;

/// How an agent is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentState {
    /// At work.
    Active,
    /// There, not working.
    Idle,
    /// Gone.
    Closed,
}

impl AgentState {
    /// What people call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Idle => "idle",
            Self::Closed => "away",
        }
    }

    /// How its badge is coloured.
    #[must_use]
    pub fn tone(self) -> &'static str {
        match self {
            Self::Active => "good",
            Self::Idle => "wait",
            Self::Closed => "",
        }
    }
}

/// An agent.
#[derive(Debug, Clone)]
pub struct Agent {
    /// Stands for it within the page, [A-Za-z0-9_-].
    pub key: String,
    /// Its name.
    pub name: Foreign,
    /// Its role.
    pub role: Foreign,
    /// The model it says it is.
    pub model: Option<Foreign>,
    /// Label of its instance.
    pub instance: Foreign,
    /// Name of its owner.
    pub owner: Foreign,
    /// Name of its vault.
    pub vault: Foreign,
    /// How it is.
    pub state: AgentState,
    /// When it was last seen.
    pub seen: When,
}

/// The agents; sent alone when presence changes.
#[derive(Debug, Clone, Template)]
#[template(path = "agent_list.html")]
pub struct AgentList {
    /// Those shown.
    pub agents: Vec<Agent>,
    /// How many are not.
    pub more: usize,
}

/// *Agents*.
#[derive(Debug, Template)]
#[template(path = "agents.html")]
pub struct Agents {
    /// Around it.
    pub shell: Shell,
    /// The agents.
    pub list: AgentList,
}

/// A channel or swarm in the list.
#[derive(Debug, Clone)]
pub struct ChannelRow {
    /// Stands for it within the page.
    pub key: String,
    /// Its page.
    pub path: String,
    /// Its name.
    pub name: Foreign,
    /// Name of its vault; empty for a swarm.
    pub vault: Foreign,
    /// Whether it is a swarm.
    pub swarm: bool,
    /// Whether its content is sealed.
    pub sealed: bool,
    /// How much was said in it.
    pub events: u64,
    /// When something was last said.
    pub last: Option<When>,
}

/// The channels; sent alone when something is said.
#[derive(Debug, Clone, Template)]
#[template(path = "channel_list.html")]
pub struct ChannelList {
    /// The channels.
    pub channels: Vec<ChannelRow>,
}

/// *Channels*.
#[derive(Debug, Template)]
#[template(path = "channels.html")]
pub struct Channels {
    /// Around it.
    pub shell: Shell,
    /// The channels.
    pub list: ChannelList,
    /// Ids and names of the vaults.
    pub vaults: Vec<(String, Foreign)>,
}

/// What a reply to a message would be.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The page on which it can be written.
    pub path: String,
    /// What it replies to.
    pub gid: String,
    /// `answer` to a question, `finding` otherwise.
    pub kind: &'static str,
}

/// Something that was said.
#[derive(Debug, Clone)]
pub struct Message {
    /// Its place within the page.
    pub anchor: String,
    /// Who said it.
    pub from: Foreign,
    /// More about who said it.
    pub about: Option<Foreign>,
    /// Whom it is for, unless it is for everybody.
    pub to: Option<Foreign>,
    /// `question`, `answer`, … `publish`, `task`.
    pub kind: &'static str,
    /// When.
    pub at: When,
    /// What.
    pub body: Foreign,
    /// Whether the body is data rather than prose.
    pub data: bool,
    /// Whether a person at the console said it.
    pub mine: bool,
    /// Link to what it replies to.
    pub reply_to: Option<String>,
    /// Its thread's page.
    pub thread: Option<String>,
    /// How to reply, where one may.
    pub reply: Option<Reply>,
    /// Until when an answer is wanted.
    pub deadline: Option<When>,
    /// Who has it, and how far.
    pub seen: Vec<(Foreign, &'static str)>,
}

impl Message {
    /// How the badge with its kind is coloured.
    #[must_use]
    pub fn tone(&self) -> &'static str {
        match self.kind {
            "question" => "accent",
            "answer" => "good",
            "handoff" | "task" => "wait",
            _ => "",
        }
    }
}

/// Things that were said; sent alone when there are new ones.
#[derive(Debug, Clone, Template)]
#[template(path = "talk.html")]
pub struct Talk {
    /// Oldest first.
    pub messages: Vec<Message>,
}

/// Where a person writes; sent alone after something was sent.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "compose.html")]
pub struct Compose {
    /// Where it is sent.
    pub action: String,
    /// What the form must carry.
    pub form_token: String,
    /// Id of the message to be: sent twice it is stored once.
    pub client_msg_id: String,
    /// As whom.
    pub person: Foreign,
    /// What it replies to, or empty.
    pub reply_to: String,
    /// Who said that.
    pub reply_name: Foreign,
    /// What was typed.
    pub text: Foreign,
    /// `question`, `answer`, `finding`, `offer`.
    pub kind: String,
    /// Whom it is for, or empty.
    pub to: Foreign,
    /// Who can be written to here.
    pub names: Vec<Foreign>,
    /// Longest text, in characters.
    pub chars_max: usize,
    /// Why it was not sent.
    pub failure: Option<String>,
}

impl Compose {
    #[expect(clippy::unused_self, reason = "the template calls it as its own")]
    fn kinds(&self) -> [(&'static str, &'static str); 4] {
        [
            ("finding", "a message"),
            ("question", "a question, with an answer wanted"),
            ("answer", "an answer"),
            ("offer", "an offer"),
        ]
    }
}

/// A channel, or one thread of it.
#[derive(Debug, Template)]
#[template(path = "channel.html")]
pub struct Channel {
    /// Around it.
    pub shell: Shell,
    /// Name of the channel.
    pub name: Foreign,
    /// The whole channel, on the page of a thread.
    pub whole: Option<String>,
    /// Older messages.
    pub older: Option<String>,
    /// The newest ones, on a page of older ones.
    pub newest: Option<String>,
    /// Where new messages come from, on a page of the newest.
    pub live: Option<String>,
    /// What was said.
    pub talk: Talk,
    /// Where a person writes, if they may.
    pub compose: Option<Compose>,
}

markup!(AgentList, ChannelList, Talk, Compose);
