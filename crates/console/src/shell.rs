//! What is around every page: navigation, who is signed in, what just happened.

use crate::assets::{ASSETS, Assets};
use crate::text::Foreign;

/// Where in the console a page belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// How the hub is doing.
    Overview,
    /// Questions and notices.
    Inbox,
    /// Sends that wait for a yes.
    Approvals,
    /// What goes out, and how far it got.
    Outbound,
    /// Who is there.
    Agents,
    /// What is said.
    Channels,
    /// Questions that became proposals.
    Tasks,
    /// Who did what.
    Log,
    /// The rules.
    Policy,
    /// Whom may be written to.
    Pairing,
    /// Password and sessions.
    Settings,
}

impl Section {
    /// Every section in the order of the navigation.
    pub const ALL: [Self; 11] = [
        Self::Overview,
        Self::Inbox,
        Self::Approvals,
        Self::Channels,
        Self::Agents,
        Self::Tasks,
        Self::Outbound,
        Self::Policy,
        Self::Pairing,
        Self::Log,
        Self::Settings,
    ];
    /// How many of them a phone shows at once; the others are behind "More".
    const AT_HAND: usize = 4;

    /// What people call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Inbox => "Inbox",
            Self::Approvals => "Approvals",
            Self::Outbound => "Outbound",
            Self::Agents => "Agents",
            Self::Channels => "Channels",
            Self::Tasks => "Tasks",
            Self::Log => "Log",
            Self::Policy => "Policy",
            Self::Pairing => "Pairing",
            Self::Settings => "Settings",
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            Self::Overview => "/",
            Self::Inbox => "/console/inbox",
            Self::Approvals => "/console/approvals",
            Self::Outbound => "/console/outbound",
            Self::Agents => "/console/agents",
            Self::Channels => "/console/channels",
            Self::Tasks => "/console/tasks",
            Self::Log => "/console/log",
            Self::Policy => "/console/policy",
            Self::Pairing => "/console/pairing",
            Self::Settings => "/console/settings",
        }
    }

    /// Its icon: the path of a drawing of 24 by 24, drawn with a line.
    #[must_use]
    pub fn icon(self) -> &'static str {
        match self {
            Self::Overview => "M4 13h6V4H4zM14 20h6V4h-6zM4 20h6v-3H4z",
            Self::Inbox => "M3 13h5l2 3h4l2-3h5M5 5h14l2 8v6H3v-6z",
            Self::Approvals => "M12 3l8 3v6c0 5-3.5 8-8 9-4.5-1-8-4-8-9V6zM8.5 12l2.5 2.5 4.5-5",
            Self::Outbound => "M21 3L10 14M21 3l-7 18-4-7-7-4z",
            Self::Agents => "M5 8h14v11H5zM12 8V4M9 13h.01M15 13h.01M2 12v3M22 12v3",
            Self::Channels => "M4 5h16v11H9l-5 4z",
            Self::Tasks => "M4 6l1.5 1.5L8 5M4 12l1.5 1.5L8 11M4 18l1.5 1.5L8 17M11 6h9M11 12h9M11 18h9",
            Self::Log => "M6 3h9l4 4v14H6zM9 9h5M9 13h7M9 17h7",
            Self::Policy => "M12 3v18M5 7h14M5 7l-3 7h6zM19 7l-3 7h6zM8 21h8",
            Self::Pairing => {
                "M9 15l6-6M10 6l1.5-1.5a4.2 4.2 0 0 1 6 6L16 12M14 18l-1.5 1.5a4.2 4.2 0 0 1-6-6L8 12"
            }
            Self::Settings => "M4 7h10M18 7h2M4 17h2M10 17h10M14 4v6M6 14v6",
        }
    }

    /// Those a phone shows at once.
    #[must_use]
    pub fn at_hand() -> &'static [Self] {
        Self::ALL.split_at(Self::AT_HAND).0
    }

    /// The others.
    #[must_use]
    pub fn behind_more() -> &'static [Self] {
        Self::ALL.split_at(Self::AT_HAND).1
    }
}

/// Something to say above a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The sentence.
    pub text: String,
    /// Whether something failed.
    pub failed: bool,
}

/// What is around a page.
#[derive(Debug, Clone)]
pub struct Shell {
    /// Where it belongs.
    pub section: Section,
    /// Its title.
    pub title: Foreign,
    /// The organization.
    pub org: Foreign,
    /// Who is signed in.
    pub person: Foreign,
    /// What forms must carry.
    pub form_token: String,
    /// What just happened.
    pub notice: Option<Notice>,
    /// How many questions and how many approvals wait.
    pub waiting: (usize, usize),
}

impl Shell {
    /// The files a page asks for.
    #[must_use]
    pub fn assets(&self) -> &'static Assets {
        &ASSETS
    }

    /// Whether the page belongs to the section of this name.
    #[must_use]
    pub fn is_at(&self, name: &str) -> bool {
        self.section.name() == name
    }

    /// Whether anything can wait in the section of this name.
    #[must_use]
    pub fn counts(&self, name: &str) -> bool {
        matches!(name, "Inbox" | "Approvals")
    }

    /// How much waits in the section of this name.
    #[must_use]
    pub fn count(&self, name: &str) -> usize {
        match name {
            "Inbox" => self.waiting.0,
            "Approvals" => self.waiting.1,
            _ => 0,
        }
    }
}
