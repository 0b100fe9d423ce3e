//! What goes out to people, and what they say to it.

use super::markup;
use crate::shell::{Section, Shell};
use crate::text::{Foreign, When};
use askama::Template;

/// Something that an agent sends to a person or a shared channel.
#[derive(Debug, Clone)]
pub struct Send {
    /// Its public id, `snd_…`.
    pub send_id: String,
    /// The short code by which people name it.
    pub code: String,
    /// Who sends it.
    pub agent: Foreign,
    /// The channel it takes.
    pub channel: Foreign,
    /// Whom it is for.
    pub to: Foreign,
    /// `question`, `notice`, `approval`.
    pub kind: &'static str,
    /// The word for where it is.
    pub state: &'static str,
    /// Why it is there.
    pub reason: Option<Foreign>,
    /// What it says.
    pub body: Foreign,
    /// Answers it offers.
    pub choices: Vec<Foreign>,
    /// Whether it is for a shared channel.
    pub shared: bool,
    /// When it was accepted.
    pub at: When,
    /// When it is void.
    pub deadline: Option<When>,
}

impl Send {
    fn tone(&self) -> &'static str {
        match self.state {
            "delivered" | "answered" => "good",
            "open" => "accent",
            "held" | "queued" | "sending" => "wait",
            "refused" | "dead" | "unknown" => "bad",
            _ => "",
        }
    }
}

/// A question to a person.
#[derive(Debug, Clone)]
pub struct Question {
    /// Its public id, `top_…`.
    pub topic_id: String,
    /// How it was sent.
    pub send: Send,
    /// Whether it can be answered now; otherwise it waits until the one before it is answered.
    pub open: bool,
    /// Answers to press.
    pub choices: Vec<Foreign>,
    /// Longest answer, in characters.
    pub chars_max: usize,
    /// Whom it goes to next when nobody answers, and when.
    pub next: Option<Foreign>,
}

/// A question that was answered.
#[derive(Debug, Clone)]
pub struct AnsweredQuestion {
    /// How it was sent.
    pub send: Send,
    /// The answer.
    pub answer: Foreign,
    /// Who gave it.
    pub by: Foreign,
    /// The way it came.
    pub via: Foreign,
    /// When.
    pub at: When,
}

/// Questions and notices; sent alone when something changes.
#[derive(Debug, Clone, Template)]
#[template(path = "inbox_list.html")]
pub struct InboxList {
    /// What forms must carry.
    pub form_token: String,
    /// Open questions, then those that wait.
    pub questions: Vec<Question>,
    /// Notices, newest first.
    pub notices: Vec<Send>,
    /// Answered lately, newest first.
    pub answered: Vec<AnsweredQuestion>,
}

/// *Inbox*.
#[derive(Debug, Template)]
#[template(path = "inbox.html")]
pub struct Inbox {
    /// Around it.
    pub shell: Shell,
    /// What is in it.
    pub list: InboxList,
}

/// A send that waits for a yes, or what became of it.
#[derive(Debug, Clone)]
pub struct Approval {
    /// Its public id, `apr_…`.
    pub approval_id: String,
    /// The send.
    pub send: Send,
    /// The rule that asks.
    pub rule: Foreign,
    /// The word for where it is.
    pub state: &'static str,
    /// Until when somebody can decide.
    pub expires: When,
    /// Who decided, by which way, when.
    pub decided: Option<(Foreign, Foreign, When)>,
}

impl Approval {
    /// What became of it, for who can decide no more.
    pub(super) fn headline(&self) -> &'static str {
        match self.state {
            "approved" => "Approved",
            "denied" => "Denied",
            "void" => "Not wanted any more",
            _ => "Its time is over",
        }
    }

    pub(super) fn tone(&self) -> &'static str {
        match self.state {
            "approved" => "good",
            "denied" => "bad",
            "pending" => "wait",
            _ => "",
        }
    }
}

/// The approvals; sent alone when one comes or is decided.
#[derive(Debug, Clone, Template)]
#[template(path = "approval_list.html")]
pub struct ApprovalList {
    /// What forms must carry.
    pub form_token: String,
    /// Those nobody has decided.
    pub pending: Vec<Approval>,
    /// Those somebody has, newest first.
    pub decided: Vec<Approval>,
}

/// *Approvals*.
#[derive(Debug, Template)]
#[template(path = "approvals.html")]
pub struct Approvals {
    /// Around it.
    pub shell: Shell,
    /// The approvals.
    pub list: ApprovalList,
}

/// Sends; sent alone when one moves.
#[derive(Debug, Clone, Template)]
#[template(path = "send_list.html")]
pub struct SendList {
    /// Newest first.
    pub sends: Vec<Send>,
    /// Older ones.
    pub older: Option<String>,
}

/// *Outbound*.
#[derive(Debug, Template)]
#[template(path = "outbound.html")]
pub struct Outbound {
    /// Around it.
    pub shell: Shell,
    /// Names of the filters, what they are called, how many they hold as far as that is counted.
    pub filters: Vec<(&'static str, &'static str)>,
    /// The one that is chosen.
    pub filter: &'static str,
    /// Channels that cannot carry anything at present, and why.
    pub faults: Vec<(Foreign, Foreign)>,
    /// Where it is kept fresh from.
    pub live: String,
    /// The sends.
    pub list: SendList,
}

impl Outbound {
    fn is_chosen(&self, filter: &str) -> bool {
        self.filter == filter
    }
}

/// One attempt.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// The part.
    pub part: u32,
    /// Its number.
    pub attempt: u32,
    /// When it began.
    pub began: When,
    /// How it ended.
    pub outcome: Foreign,
    /// More about that.
    pub reason: Option<Foreign>,
}

/// Everything about one send; sent alone when it moves.
#[derive(Debug, Clone, Template)]
#[template(path = "send_story.html")]
pub struct SendStory {
    /// What forms must carry.
    pub form_token: String,
    /// The send.
    pub send: Send,
    /// Why it is where it is, sentence by sentence.
    pub why: Vec<Foreign>,
    /// Attempts that have ended.
    pub attempts: Vec<Attempt>,
    /// Whether it can be tried again.
    pub may_retry: bool,
    /// Whether it can be given up.
    pub may_discard: bool,
}

/// One send.
#[derive(Debug, Template)]
#[template(path = "send.html")]
pub struct SendPage {
    /// Around it.
    pub shell: Shell,
    /// Its story.
    pub story: SendStory,
}

/// An address and whether it may be written to.
#[derive(Debug, Clone)]
pub struct ConsentRow {
    /// The channel.
    pub channel: Foreign,
    /// `direct` or `channel`.
    pub kind: &'static str,
    /// The address.
    pub to: Foreign,
    /// The word for whether it may.
    pub state: &'static str,
    /// Whether it may.
    pub given: bool,
    /// Whose it is.
    pub person: Option<Foreign>,
    /// Who said so.
    pub by: Foreign,
    /// When.
    pub at: When,
    /// Why.
    pub reason: Option<Foreign>,
}

/// *Pairing*.
#[derive(Debug, Template)]
#[template(path = "pairing.html")]
pub struct Pairing {
    /// Around it.
    pub shell: Shell,
    /// A code that was just made, the channel it is for, and until when it can be used.
    pub code: Option<(String, Foreign, When)>,
    /// Who may be written to, and who not.
    pub consents: Vec<ConsentRow>,
    /// Channels whose addresses need consent.
    pub channels: Vec<Foreign>,
    /// Channels on which a person can type a code.
    pub pairable: Vec<Foreign>,
    /// The people of the organization.
    pub people: Vec<Foreign>,
}

/// How much waits, for the navigation of a page that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Template)]
#[template(path = "counts.html")]
pub struct Counts {
    /// Open questions.
    pub questions: usize,
    /// Approvals that wait.
    pub approvals: usize,
}

markup!(InboxList, ApprovalList, SendList, SendStory, Counts);

/// What the rules would say of a call; sent alone when asked for from the page.
#[derive(Debug, Clone, Template)]
#[template(path = "explained.html")]
pub struct Explained {
    /// `allow`, `hold`, `deny`.
    pub verdict: String,
    /// What the caller would be told.
    pub told: Option<Foreign>,
    /// Limits that the call would count for.
    pub limits: Vec<Foreign>,
    /// Each rule's sentence and what it thought of the call.
    pub steps: Vec<(Foreign, Foreign, String)>,
}

impl Explained {
    fn tone(&self) -> &'static str {
        match self.verdict.as_str() {
            "allow" => "good",
            "hold" => "wait",
            _ => "bad",
        }
    }

    fn says(&self) -> &'static str {
        match self.verdict.as_str() {
            "allow" => "It may be sent.",
            "hold" => "It waits for an approval.",
            _ => "It may not be sent.",
        }
    }
}

/// A call to ask the rules about.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// Who would send it.
    pub agent: Foreign,
    /// The channel it would take.
    pub channel: Foreign,
    /// Whom it would be for.
    pub to: Foreign,
    /// `direct` or `channel`.
    pub kind: String,
    /// What it would say.
    pub body: Foreign,
}

/// *Policy*.
#[derive(Debug, Template)]
#[template(path = "policy.html")]
pub struct Policy {
    /// Around it.
    pub shell: Shell,
    /// Name and sentence of each rule.
    pub rules: Vec<(Foreign, Foreign)>,
    /// Where the files are.
    pub dir: Option<Foreign>,
    /// Digest of the files in force, shortened.
    pub version: Foreign,
    /// Since when they are in force.
    pub loaded: When,
    /// Why the files that are there now are not in force.
    pub fault: Option<Foreign>,
    /// Names of the channels.
    pub channels: Vec<Foreign>,
    /// What was asked.
    pub asked: Asked,
    /// What came of it.
    pub explained: Option<Explained>,
    /// Why nothing came of it.
    pub failure: Option<String>,
}

markup!(Explained);
