//! One rule, as data.

use super::ladder::Ladder;
use super::tools::{Param, Tool};
use std::fmt;
use std::sync::Arc;

/// What kind of rule it is. The names are those of the tables in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Nobody may call the tool.
    DenyTool,
    /// No parameter may contain the keyword.
    DenyKeyword,
    /// A parameter may not be, or not contain, a value.
    DenyToolParam,
    /// A parameter must be one of the values.
    AllowToolParam,
    /// A parameter may not match (or, negated, must match) a pattern.
    DenyToolParamMatching,
    /// The tool may be called so often within an interval.
    RateLimitTool,
    /// A person must approve the call.
    RequireApproval,
    /// The message is not held back by quiet hours: the one kind that permits something.
    Urgent,
    /// A question that nobody answers goes on to others. It prohibits nothing.
    Escalate,
}

impl Kind {
    /// Every kind, in the order in which rules of one file are looked at.
    pub const ALL: [Self; 9] = [
        Self::DenyTool,
        Self::DenyKeyword,
        Self::DenyToolParam,
        Self::AllowToolParam,
        Self::DenyToolParamMatching,
        Self::RateLimitTool,
        Self::RequireApproval,
        Self::Urgent,
        Self::Escalate,
    ];

    /// The table's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DenyTool => "deny_tool",
            Self::DenyKeyword => "deny_keyword",
            Self::DenyToolParam => "deny_tool_param",
            Self::AllowToolParam => "allow_tool_param",
            Self::DenyToolParamMatching => "deny_tool_param_matching",
            Self::RateLimitTool => "rate_limit_tool",
            Self::RequireApproval => "require_approval",
            Self::Urgent => "urgent",
            Self::Escalate => "escalate",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// Whose calls are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Per {
    /// Those of one agent.
    Agent,
    /// Those to one recipient on one channel.
    Recipient,
    /// Those over one channel.
    Channel,
    /// All of the organization.
    Organization,
}

impl Per {
    /// Every value, as written in a file.
    pub const ALL: [(&'static str, Self); 4] = [
        ("agent", Self::Agent),
        ("recipient", Self::Recipient),
        ("channel", Self::Channel),
        ("organization", Self::Organization),
    ];

    /// As written in a file.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(_, per)| *per == self).map_or("agent", |(name, _)| name)
    }
}

/// How a parameter's value is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    /// It is one of these.
    Equals(Vec<String>),
    /// It contains one of these.
    Contains(Vec<String>),
    /// It matches this regular expression.
    Pattern(String),
}

/// When a rule takes effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Test {
    /// Whenever the tool is called.
    Always,
    /// When any parameter contains this.
    Keyword(String),
    /// When this parameter does, or with `negate` does not, compare like this.
    Param {
        /// The parameter.
        param: &'static Param,
        /// The comparison.
        how: How,
        /// Whether the rule takes effect when the comparison fails.
        negate: bool,
    },
    /// When this parameter is none of these, letter for letter.
    Unlisted {
        /// The parameter.
        param: &'static Param,
        /// What it may be.
        values: Vec<String>,
    },
}

/// How often is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Calls within the interval.
    pub max_calls: u32,
    /// The interval.
    pub interval_ms: u64,
    /// Whose calls are counted together.
    pub per: Per,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// `<file>#<kind>:<name or index>`; the index counts the rules of this kind in the file, from 1.
    pub id: Arc<str>,
    /// Kind.
    pub kind: Kind,
    /// The tool; `None` for every tool.
    pub tool: Option<&'static Tool>,
    /// When it takes effect.
    pub test: Test,
    /// For [`Kind::RateLimitTool`].
    pub rate: Option<Rate>,
    /// For [`Kind::Escalate`].
    pub ladder: Option<Arc<Ladder>>,
    /// What its author tells whoever it hits.
    pub reason: Option<Arc<str>>,
    /// The line on which it begins.
    pub line: usize,
}

impl Rule {
    /// The rule in one plain sentence, with its values: for whoever may read the files.
    #[must_use]
    pub fn sentence(&self) -> String {
        let what = match (self.kind, &self.test, self.rate) {
            (_, _, Some(rate)) => self.rate_sentence(rate),
            (Kind::Escalate, test, _) => self.ladder_sentence(test),
            (Kind::DenyTool, ..) => format!("Nobody may call {}.", self.tool_name()),
            (_, Test::Keyword(word), _) => {
                format!("No parameter of {} may contain {}.", self.tool_name(), quoted(word))
            }
            (_, Test::Unlisted { param, values }, _) => {
                format!(
                    "{}: `{}` must be {}; anything else, and nothing, is refused.",
                    self.tool_name(),
                    param.name,
                    any(values)
                )
            }
            (_, Test::Param { param, how, negate }, _) => self.param_sentence(param.name, how, *negate),
            (_, Test::Always, _) => format!("{} waits for a person's approval.", self.tool_name()),
        };
        match &self.reason {
            Some(reason) => format!("{what} Reason: {reason}"),
            None => what,
        }
    }

    fn tool_name(&self) -> &'static str {
        self.tool.map_or("any tool", |tool| tool.name)
    }

    fn rate_sentence(&self, rate: Rate) -> String {
        let per = match rate.per {
            Per::Agent => "by each agent",
            Per::Recipient => "to each recipient",
            Per::Channel => "over each channel",
            Per::Organization => "by the whole organization",
        };
        let (seconds, ms) = (rate.interval_ms / 1000, rate.interval_ms % 1000);
        let interval = if ms == 0 { seconds.to_string() } else { format!("{seconds}.{ms:03}") };
        let times = if rate.max_calls == 1 { "once" } else { &format!("{} times", rate.max_calls) };
        format!("{} may be called {times} in {interval} s {per}.", self.tool_name())
    }

    fn ladder_sentence(&self, test: &Test) -> String {
        let when = match test {
            Test::Param { param, how, negate } => {
                format!(" when `{}` {}", param.name, comparison(how, *negate))
            }
            _ => String::new(),
        };
        let ladder = self.ladder.as_ref().map(ToString::to_string).unwrap_or_default();
        format!("A question by {} that nobody answers goes on{when}: {ladder}.", self.tool_name())
    }

    fn param_sentence(&self, param: &str, how: &How, negate: bool) -> String {
        let is = comparison(how, negate);
        let then = match self.kind {
            Kind::RequireApproval => "waits for a person's approval",
            Kind::Urgent => "is not held back by quiet hours",
            _ => "is refused",
        };
        let loose = match how {
            How::Pattern(pattern) if negate && !is_anchored(pattern) => {
                " The pattern is not anchored by ^ and $: text around a match is let through."
            }
            _ => "",
        };
        format!("{} {then} when `{param}` {is}.{loose}", self.tool_name())
    }
}

fn comparison(how: &How, negate: bool) -> String {
    match (how, negate) {
        (How::Equals(values), false) => format!("is {}", any(values)),
        (How::Equals(values), true) => format!("is not {}", any(values)),
        (How::Contains(values), false) => format!("contains {}", any(values)),
        (How::Contains(values), true) => format!("does not contain {}", any(values)),
        (How::Pattern(pattern), false) => format!("matches /{pattern}/"),
        (How::Pattern(pattern), true) => format!("does not match /{pattern}/"),
    }
}

fn is_anchored(pattern: &str) -> bool {
    (pattern.starts_with('^') || pattern.starts_with("\\A"))
        && (pattern.ends_with('$') || pattern.ends_with("\\z"))
}

fn any(values: &[String]) -> String {
    values.iter().map(|value| quoted(value)).collect::<Vec<_>>().join(" or ")
}

/// Quoted and printable: a rule's value may hold the very characters that hide text.
fn quoted(value: &str) -> String {
    format!("\"{}\"", value.escape_debug())
}
