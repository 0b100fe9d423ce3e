//! Cases beside the rules: `*.test.toml` says of calls what the rules must decide, so that a change of a rule that does something else
//! than was meant is noticed before it is in force.
//!
//! ```toml
//! [[case]]
//! name = "passwords never leave"
//! call = { agent = "planner", channel = "slack", to = "#ops", body = "the password is …" }
//! expect = "deny"                               # allow, hold or deny
//! rule = "words.toml#deny_keyword:passwords"    # optional: who decides
//! escalate = "people.toml#escalate:night"       # optional: whose rungs it gets; "" for none
//! ```

use super::fault::Fault;
use super::load::{FILES_MAX, Reading};
use super::{Call, Policy, Verdict, tools};
use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// End of the names of such files.
pub const SUFFIX: &str = ".test.toml";
/// Cases of one file.
pub const CASES_MAX: usize = 2000;
/// Depth of lists and tables in a call.
const DEPTH_MAX: usize = 8;

/// One case.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// Its file.
    pub file: String,
    /// The line on which it begins.
    pub line: usize,
    /// What it is called.
    pub name: String,
    /// The tool.
    pub tool: String,
    /// The agent.
    pub agent: String,
    /// The parameters.
    pub params: Map<String, Value>,
    /// `allow`, `hold` or `deny`.
    pub expect: String,
    /// The rule that must decide.
    pub rule: Option<String>,
    /// The rule that must say whom the question goes to; empty when none may.
    pub escalate: Option<String>,
}

/// What came of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// What was decided.
    pub got: Verdict,
    /// The rule that says whom the question goes to.
    pub escalated: Option<std::sync::Arc<str>>,
    /// Whether that is what the case expects.
    pub ok: bool,
}

impl Case {
    /// Asks `policy`.
    #[must_use]
    pub fn run(&self, policy: &Policy) -> Ran {
        let call = Call { tool: &self.tool, agent: &self.agent, params: &self.params };
        let decision = policy.decide(&call);
        let (got, escalated) = (decision.verdict, decision.escalation.map(|found| found.rule));
        let decided = got.ruling().map(|ruling| &*ruling.rule);
        let by_rule = self.rule.as_deref().is_none_or(|rule| decided == Some(rule));
        let told = escalated.as_deref().unwrap_or_default();
        let goes_on = self.escalate.as_deref().is_none_or(|rule| rule == told);
        Ran { ok: got.as_str() == self.expect && by_rule && goes_on, got, escalated }
    }
}

/// Reads cases, strictly. `policy`: the rules that they may name.
///
/// # Errors
/// Every fault that was found.
pub fn load<N: AsRef<str>, T: AsRef<str>>(
    files: &[(N, T)],
    policy: &Policy,
) -> Result<Vec<Case>, Vec<Fault>> {
    let mut files: Vec<_> = files.iter().map(|(name, text)| (name.as_ref(), text.as_ref())).collect();
    files.sort_unstable();
    if files.len() > FILES_MAX {
        return Err(vec![Fault::of_file("all files together", format!("Write at most {FILES_MAX} files."))]);
    }
    let (mut cases, mut faults) = (Vec::new(), Vec::new());
    for (name, text) in files {
        let mut reading = Reading::new(name, text);
        cases.extend(file(&mut reading, name, text, policy));
        faults.extend(reading.faults);
    }
    if faults.is_empty() { Ok(cases) } else { Err(faults) }
}

fn file(reading: &mut Reading<'_>, name: &str, text: &str, policy: &Policy) -> Vec<Case> {
    let mut cases = Vec::new();
    for (key, value) in reading.table(text).iter().flat_map(DeTable::iter) {
        let at = key.span().start;
        match (key.get_ref().as_ref(), value.get_ref()) {
            ("case", DeValue::Array(items)) if items.len() <= CASES_MAX => {
                cases.extend(items.iter().filter_map(|item| case(reading, name, item, policy)));
            }
            ("case", DeValue::Array(_)) => {
                reading.fault(at, "case", format!("Write at most {CASES_MAX} cases."));
            }
            ("case", _) => {
                reading.fault(at, "case", "Write [[case]] with two brackets: there may be several.");
            }
            (other, _) => {
                reading.fault(
                    at,
                    other.escape_debug().to_string(),
                    "There is no such table; write [[case]].",
                );
            }
        }
    }
    cases
}

fn case(reading: &mut Reading<'_>, file: &str, item: &Spanned<DeValue<'_>>, policy: &Policy) -> Option<Case> {
    let at = item.span().start;
    let DeValue::Table(table) = item.get_ref() else {
        reading.fault(at, "case", "Write a table of fields.");
        return None;
    };
    let mut case = Case {
        file: file.to_owned(),
        line: reading.line(at),
        name: String::new(),
        tool: tools::TOOLS.first().map_or("", |tool| tool.name).to_owned(),
        agent: "agent".into(),
        params: Map::new(),
        expect: String::new(),
        rule: None,
        escalate: None,
    };
    let before = reading.faults.len();
    for (key, value) in table {
        let at = value.span().start;
        match (key.get_ref().as_ref(), value.get_ref()) {
            ("name", DeValue::String(name)) if !name.trim().is_empty() => case.name = name.to_string(),
            ("expect", DeValue::String(text)) if matches!(&**text, "allow" | "hold" | "deny") => {
                case.expect = text.to_string();
            }
            ("expect", _) => reading.fault(at, "case.expect", "Write \"allow\", \"hold\" or \"deny\"."),
            ("rule", DeValue::String(rule)) if policy.rules().iter().any(|known| *known.id == **rule) => {
                case.rule = Some(rule.to_string());
            }
            ("rule", _) => {
                reading.fault(
                    at,
                    "case.rule",
                    "There is no such rule; `switchboard policy check` lists them.",
                );
            }
            ("escalate", DeValue::String(rule))
                if rule.is_empty() || policy.rules().iter().any(|known| *known.id == **rule) =>
            {
                case.escalate = Some(rule.to_string());
            }
            ("escalate", _) => {
                let message = "There is no such rule; write the name of a rule, or \"\" for none.";
                reading.fault(at, "case.escalate", message);
            }
            ("call", DeValue::Table(call)) => fill(reading, &mut case, call),
            ("name" | "call", _) => {
                reading.fault(
                    at,
                    format!("case.{}", key.get_ref()),
                    "Write a name in quotes, and a call in braces.",
                );
            }
            (other, _) => {
                let message = "There is no such field; there are: name, call, expect, rule, escalate.";
                reading.fault(key.span().start, format!("case.{}", other.escape_debug()), message);
            }
        }
    }
    let has = |name: &str| table.iter().any(|(key, _)| key.get_ref() == name);
    for needed in ["name", "call", "expect"].into_iter().filter(|name| !has(name)) {
        reading.fault(at, format!("case.{needed}"), "The field is missing; write it.");
    }
    (reading.faults.len() == before).then_some(case)
}

/// Tool, agent and parameters of a call.
fn fill(reading: &mut Reading<'_>, case: &mut Case, call: &DeTable<'_>) {
    for (key, value) in call {
        let (at, name) = (value.span().start, key.get_ref());
        let target = match name.as_ref() {
            "tool" => &mut case.tool,
            "agent" => &mut case.agent,
            _ => {
                match json(value.get_ref(), DEPTH_MAX) {
                    Some(value) => drop(case.params.insert(name.to_string(), value)),
                    None => reading.fault(
                        at,
                        "case.call",
                        "This cannot be sent as JSON; write texts, numbers, lists.",
                    ),
                }
                continue;
            }
        };
        match value.get_ref() {
            DeValue::String(text) => text.as_ref().clone_into(target),
            _ => reading.fault(at, "case.call", "Write a text in quotes."),
        }
    }
    let Some(tool) = tools::tool(&case.tool) else {
        let at = call.iter().next().map_or(0, |(key, _)| key.span().start);
        return reading.fault(at, "case.call.tool", "There is no such tool.");
    };
    for (key, _) in call.iter().filter(|(key, _)| !matches!(key.get_ref().as_ref(), "tool" | "agent")) {
        if tool.param(key.get_ref()).is_none() {
            let names: Vec<_> = tool.params.iter().map(|param| param.name).collect();
            let message = format!("{} has no such parameter; it has: {}.", tool.name, names.join(", "));
            reading.fault(key.span().start, format!("case.call.{}", key.get_ref().escape_debug()), message);
        }
    }
}

fn json(value: &DeValue<'_>, depth: usize) -> Option<Value> {
    let depth = depth.checked_sub(1)?;
    Some(match value {
        DeValue::String(text) => text.as_ref().into(),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok()?.into(),
        DeValue::Float(number) => serde_json::Number::from_f64(number.as_str().parse().ok()?)?.into(),
        DeValue::Boolean(is) => (*is).into(),
        DeValue::Datetime(_) => return None,
        DeValue::Array(items) => {
            items.iter().map(|item| json(item.get_ref(), depth)).collect::<Option<Vec<_>>>()?.into()
        }
        DeValue::Table(table) => {
            let member = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
                Some((AsRef::<str>::as_ref(key.get_ref()).to_owned(), json(value.get_ref(), depth)?))
            };
            Value::Object(table.iter().map(member).collect::<Option<_>>()?)
        }
    })
}
