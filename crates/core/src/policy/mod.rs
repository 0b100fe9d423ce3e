//! Policy: what agents may do with the tools that reach people, as rules in TOML files. Every rule is a prohibition, except for two: one
//! names what is urgent enough for quiet hours, one says whom a question goes to when nobody answers; with no rule everything is allowed.
//!
//! [`Policy::load`] reads files strictly, [`Policy::decide`] is one pure function from a call to a [`Decision`], [`Policy::explain`]
//! says what each rule thought of it. Nothing here reads a file, a clock or a counter: limits are only named, and consumed elsewhere
//! once everything else has passed.
//!
//! Rules see the parameters that the caller sent. A prohibition is matched on the literal text, on its normalised form
//! ([`normalise::normalise`]), on what is left of Markdown when it is shown, and on telephone numbers without their punctuation: any of
//! them is enough. What permits (an allowlist, anything negated, what is urgent) is matched on the literal text alone.
//!
//! To add a kind of rule: a variant of [`Kind`], its fields in `load.rs`, its sentence in `rule.rs`. To govern another tool: a row in
//! [`tools::TOOLS`].

pub mod cases;
mod fault;
mod ladder;
mod load;
pub mod normalise;
mod rule;
mod screen;
pub mod tools;

#[cfg(test)]
mod tests;

pub use fault::{Fault, listed};
pub use ladder::{Ladder, Step};
pub use load::{
    CALLS_MAX, FILE_BYTES_MAX, FILES_MAX, INTERVAL_MAX, NAME_CHARS_MAX, REASON_CHARS_MAX, RULES_MAX,
    VALUE_BYTES_MAX, VALUES_MAX,
};
pub use rule::{How, Kind, Per, Rate, Rule, Test};
pub use screen::PATTERN_BYTES_MAX;

use crate::digest::{framed, hex};
use normalise::telephone;
use screen::{Forms, Screen};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use tools::{Param, TOOLS};

/// What somebody wants to do.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The tool's name.
    pub tool: &'a str,
    /// Who calls it: the agent under which calls are counted.
    pub agent: &'a str,
    /// The parameters, literally as they were sent.
    pub params: &'a Map<String, Value>,
}

/// A rule that refuses or holds a call. Says nothing of what the rule looks for or what it found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// The rule's id.
    pub rule: Arc<str>,
    /// Its kind.
    pub kind: Kind,
    /// The parameter it is about.
    pub param: Option<&'static str>,
    /// What its author says.
    pub reason: Option<Arc<str>>,
}

impl fmt::Display for Ruling {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let does =
            if self.kind == Kind::RequireApproval { "asks for a person's approval of" } else { "refuses" };
        write!(out, "The rule {} {does} this call", self.rule)?;
        if let Some(param) = self.param {
            write!(out, " because of `{param}`")?;
        }
        match &self.reason {
            Some(reason) => write!(out, ": {reason}"),
            None => out.write_str("."),
        }
    }
}

/// May it be done?
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It may.
    Allow,
    /// It may once a person has approved it.
    Hold(Ruling),
    /// It may not.
    Deny(Ruling),
}

impl Verdict {
    /// `allow`, `hold` or `deny`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Hold(_) => "hold",
            Self::Deny(_) => "deny",
        }
    }

    /// The rule that decided.
    #[must_use]
    pub const fn ruling(&self) -> Option<&Ruling> {
        match self {
            Self::Allow => None,
            Self::Hold(ruling) | Self::Deny(ruling) => Some(ruling),
        }
    }
}

/// A rate limit that this call counts for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// The rule's id.
    pub rule: Arc<str>,
    /// The rate.
    pub rate: Rate,
}

impl Limit {
    /// What calls are counted together with this one, as a tuple: the agent, channel and recipient, the channel, or nothing. Different
    /// spellings of a recipient are one; whoever knows the resolved recipient counts that instead.
    #[must_use]
    pub fn subject(&self, call: &Call<'_>) -> Vec<String> {
        let text = |name: &str| call.params.get(name).and_then(text).unwrap_or_default();
        let plain = |name: &str| normalise::normalise(&text(name));
        match self.rate.per {
            Per::Agent => vec![call.agent.to_owned()],
            Per::Recipient => vec![plain("channel"), telephone(&text("to")).unwrap_or_else(|| plain("to"))],
            Per::Channel => vec![plain("channel")],
            Per::Organization => Vec::new(),
        }
    }
}

/// What the rules say of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Whether it may be done: a refusal beats an approval to be asked for, which beats permission.
    pub verdict: Verdict,
    /// The limits that apply to the tool, in the rules' order, whatever the verdict. They are to be consumed after everything else
    /// has passed, so that a refused call costs nothing.
    pub limits: Vec<Limit>,
    /// Whether quiet hours do not hold it back.
    pub urgent: bool,
    /// Whom it goes to when nobody answers, if it is a question and a rule says so: the first one counts.
    pub escalation: Option<Escalation>,
}

/// A rule that says whom a question goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Escalation {
    /// The rule's id.
    pub rule: Arc<str>,
    /// What it says.
    pub ladder: Arc<Ladder>,
}

/// What one rule says of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is about another tool.
    OtherTool,
    /// It has nothing against it.
    Passed,
    /// It counts it.
    Counted,
    /// It holds it, because of this parameter.
    Held(Option<&'static str>),
    /// It takes it for urgent, because of this parameter.
    Urgent(Option<&'static str>),
    /// It refuses it, because of this parameter.
    Denied(Option<&'static str>),
    /// It says whom the question goes to, because of this parameter.
    Escalated(Option<&'static str>),
}

impl Outcome {
    /// `other_tool`, `passed`, `counted`, `held`, `urgent`, `denied` or `escalated`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OtherTool => "other_tool",
            Self::Passed => "passed",
            Self::Counted => "counted",
            Self::Held(_) => "held",
            Self::Urgent(_) => "urgent",
            Self::Denied(_) => "denied",
            Self::Escalated(_) => "escalated",
        }
    }
}

/// Whether a rule found what it looks for, and in which known parameter.
type Hit = Option<Option<&'static str>>;

/// The rules in force. Cheap to ask, expensive to make; shared as `Arc<Policy>`.
#[derive(Debug)]
pub struct Policy {
    version: String,
    rules: Vec<Rule>,
    words: Screen,
    params: Vec<(&'static str, &'static Param, Screen)>,
}

impl Default for Policy {
    /// No rule: everything is allowed.
    fn default() -> Self {
        Self { version: version(&[]), rules: Vec::new(), words: Screen::default(), params: Vec::new() }
    }
}

/// Short digest of the files, sorted by name: 12 hexadecimal characters.
fn version(files: &[(&str, &str)]) -> String {
    let parts: Vec<&[u8]> =
        files.iter().flat_map(|(name, text)| [name.as_bytes(), text.as_bytes()]).collect();
    let digest = framed("switchboard.policy.v1", &parts);
    hex(&digest[..6])
}

impl Policy {
    /// Reads files, given as name and text in any order.
    ///
    /// # Errors
    /// Every fault that was found; then nothing is loaded.
    pub fn load<N: AsRef<str>, T: AsRef<str>>(files: &[(N, T)]) -> Result<Self, Vec<Fault>> {
        let mut files: Vec<_> = files.iter().map(|(name, text)| (name.as_ref(), text.as_ref())).collect();
        files.sort_unstable();
        let (mut rules, mut faults) = (Vec::new(), Vec::new());
        if files.len() > FILES_MAX {
            faults.push(Fault::of_file("all files together", format!("Write at most {FILES_MAX} files.")));
            return Err(faults);
        }
        for (name, text) in &files {
            let (found, wrong) = load::file(name, text);
            rules.extend(found);
            faults.extend(wrong);
        }
        if rules.len() > RULES_MAX {
            faults.push(Fault::of_file("all files together", format!("Write at most {RULES_MAX} rules.")));
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let (words, params) = screens(&rules).map_err(|_| vec![screen::too_large()])?;
        Ok(Self { version: version(&files), rules, words, params })
    }

    /// A digest of the files, which says in the log which rules decided.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The rules, in the order in which they are looked at: by file, by kind, as written.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Decides. Pure: the same policy says the same of the same call.
    #[must_use]
    pub fn decide(&self, call: &Call<'_>) -> Decision {
        let (mut denied, mut held, mut limits) = (None, None, Vec::new());
        let (mut urgent, mut escalation) = (false, None);
        for (rule, outcome) in self.outcomes(call) {
            match outcome {
                Outcome::Denied(param) if denied.is_none() => denied = Some(ruling(rule, param)),
                Outcome::Held(param) if held.is_none() => held = Some(ruling(rule, param)),
                Outcome::Urgent(_) => urgent = true,
                Outcome::Counted => {
                    limits.extend(rule.rate.map(|rate| Limit { rule: Arc::clone(&rule.id), rate }));
                }
                Outcome::Escalated(_) if escalation.is_none() => {
                    let of = |ladder: &Arc<Ladder>| (Arc::clone(&rule.id), Arc::clone(ladder));
                    escalation = rule.ladder.as_ref().map(of);
                }
                _ => {}
            }
        }
        let verdict = match (denied, held) {
            (Some(ruling), _) => Verdict::Deny(ruling),
            (None, Some(ruling)) => Verdict::Hold(ruling),
            (None, None) => Verdict::Allow,
        };
        let escalation = escalation.map(|(rule, ladder)| Escalation { rule, ladder });
        Decision { verdict, limits, urgent, escalation }
    }

    /// What each rule says of a call, in their order.
    #[must_use]
    pub fn explain(&self, call: &Call<'_>) -> Vec<(&Rule, Outcome)> {
        self.outcomes(call).collect()
    }

    fn outcomes(&self, call: &Call<'_>) -> impl Iterator<Item = (&Rule, Outcome)> {
        let hits = self.hits(call);
        let judged = |(rule, hit): (_, Hit)| (rule, outcome(rule, call, hit));
        self.rules.iter().zip(hits).map(judged)
    }

    /// Goes through the parameters of a call once.
    fn hits(&self, call: &Call<'_>) -> Vec<Hit> {
        let mut hits: Vec<Hit> = vec![None; self.rules.len()];
        let tool = tools::tool(call.tool);
        let screens = || self.params.iter().filter(|(tool, ..)| *tool == call.tool);
        for (name, value) in call.params {
            let Some(literal) = text(value) else { continue };
            let param = tool.and_then(|tool| tool.param(name));
            let forms = Forms::of(&literal);
            let mut hit = |rule: usize| {
                hits[rule].get_or_insert(param.map(|param| param.name));
            };
            if !self.words.is_empty() {
                self.words.sift(param, &forms, &mut hit);
            }
            if let Some((_, param, screen)) = screens().find(|(_, param, _)| param.name == name) {
                screen.sift(Some(param), &forms, &mut hit);
            }
        }
        for (_, param, screen) in screens().filter(|(_, param, _)| is_absent(call, param)) {
            let Some(default) = param.default else { continue };
            screen.sift(Some(param), &Forms::of(default), |rule| hits[rule] = Some(Some(param.name)));
        }
        hits
    }
}

fn is_absent(call: &Call<'_>, param: &Param) -> bool {
    call.params.get(param.name).is_none_or(Value::is_null)
}

/// A value as text: what is not text is looked at as JSON; `null` is nothing.
fn text(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.into()),
        other => Some(other.to_string().into()),
    }
}

fn ruling(rule: &Rule, param: Option<&'static str>) -> Ruling {
    Ruling { rule: Arc::clone(&rule.id), kind: rule.kind, param, reason: rule.reason.clone() }
}

/// What `rule` says, given whether it found what it looks for.
fn outcome(rule: &Rule, call: &Call<'_>, hit: Hit) -> Outcome {
    if rule.tool.is_some_and(|tool| tool.name != call.tool) {
        return Outcome::OtherTool;
    }
    if rule.rate.is_some() {
        return Outcome::Counted;
    }
    let effect = match &rule.test {
        Test::Always => Some(None),
        Test::Keyword(_) => hit,
        // A default is no value that was found for what permits: doubt never does.
        Test::Param { param, negate: true, .. } => {
            (hit.is_none() || is_absent(call, param)).then_some(Some(param.name))
        }
        Test::Param { param, .. } => hit.map(|_| Some(param.name)),
        Test::Unlisted { param, values } => {
            let given = call.params.get(param.name).and_then(text);
            (!given.is_some_and(|given| values.iter().any(|value| *value == *given)))
                .then_some(Some(param.name))
        }
    };
    match effect {
        None => Outcome::Passed,
        Some(param) if rule.kind == Kind::Escalate => {
            if is_question(call) {
                Outcome::Escalated(param)
            } else {
                Outcome::Passed
            }
        }
        Some(param) if rule.kind == Kind::RequireApproval => Outcome::Held(param),
        Some(param) if rule.kind == Kind::Urgent => Outcome::Urgent(param),
        Some(param) => Outcome::Denied(param),
    }
}

// Only a question waits for an answer; one that says nothing of its kind is one.
fn is_question(call: &Call<'_>) -> bool {
    call.params.get("message_kind").is_none_or(|kind| kind.is_null() || kind == "question")
}

type Screens = (Screen, Vec<(&'static str, &'static Param, Screen)>);

/// Stands for any parameter where words are looked for; the parameter's own traits decide which forms of its text count.
static ANY: Param = Param { name: "any", default: None, markdown: true, address: true };

fn screens(rules: &[Rule]) -> Result<Screens, regex::Error> {
    let mut words = Screen::default();
    let all =
        TOOLS.iter().flat_map(|tool| tool.params.iter().map(|param| (tool.name, param, Screen::default())));
    let mut params: Vec<_> = all.collect();
    for (nth, rule) in rules.iter().enumerate() {
        match &rule.test {
            Test::Keyword(word) => words.add(&ANY, &How::Contains(vec![word.clone()]), false, nth),
            Test::Param { param, how, negate } => {
                let of = |(tool, known, _): &&mut (&str, &Param, _)| {
                    known.name == param.name && rule.tool.is_some_and(|own| own.name == *tool)
                };
                if let Some((.., screen)) = params.iter_mut().find(of) {
                    screen.add(param, how, *negate || rule.kind == Kind::Urgent, nth);
                }
            }
            Test::Always | Test::Unlisted { .. } => {}
        }
    }
    params.retain(|(.., screen)| !screen.is_empty());
    words.compile()?;
    params.iter_mut().try_for_each(|(.., screen)| screen.compile())?;
    Ok((words, params))
}
