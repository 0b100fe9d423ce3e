//! Rules out of files, strictly: everything that could make a rule mean something else than its author thinks is a fault, and all
//! faults are told at once.

use super::fault::Fault;
use super::ladder::Ladder;
use super::normalise::normalise;
use super::rule::{How, Kind, Per, Rate, Rule, Test};
use super::screen::check_pattern;
use super::tools::{self, Param, TOOLS, Tool};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use toml::de::{DeTable, DeValue};

/// Files of one directory.
pub const FILES_MAX: usize = 200;
/// Bytes of one file.
pub const FILE_BYTES_MAX: usize = 256 << 10;
/// Rules of all files.
pub const RULES_MAX: usize = 2000;
/// Values of one rule.
pub const VALUES_MAX: usize = 1000;
/// Bytes of one value or pattern.
pub const VALUE_BYTES_MAX: usize = 4096;
/// Characters of a reason.
pub const REASON_CHARS_MAX: usize = 300;
/// Characters of a rule's or file's name.
pub const NAME_CHARS_MAX: usize = 64;
/// Calls of a rate limit.
pub const CALLS_MAX: u32 = 1_000_000;
/// Longest interval of a rate limit: 31 days.
pub const INTERVAL_MAX: Duration = Duration::from_hours(31 * 24);

pub(super) type Value<'t> = toml::Spanned<DeValue<'t>>;

/// The fields that a table of this kind may have.
const fn fields(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::DenyTool => &["tool", "name", "reason"],
        Kind::DenyKeyword => &["keyword", "tool", "name", "reason"],
        Kind::DenyToolParam => &["tool", "param", "equals", "contains", "name", "reason"],
        Kind::AllowToolParam => &["tool", "param", "values", "name", "reason"],
        Kind::DenyToolParamMatching => &["tool", "param", "pattern", "negate", "name", "reason"],
        Kind::RateLimitTool => &["tool", "max_calls", "interval_secs", "per", "name", "reason"],
        Kind::Urgent => &["tool", "param", "equals", "contains", "pattern", "name", "reason"],
        Kind::RequireApproval => {
            &["tool", "param", "equals", "contains", "pattern", "negate", "name", "reason"]
        }
        Kind::Escalate => {
            &["tool", "param", "equals", "contains", "pattern", "negate", "rungs", "then", "name", "reason"]
        }
    }
}

/// A file being read.
pub(super) struct Reading<'f> {
    file: &'f str,
    line_ends: Vec<usize>,
    pub(super) faults: Vec<Fault>,
}

impl<'f> Reading<'f> {
    pub(super) fn new(file: &'f str, text: &str) -> Self {
        let line_ends =
            text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect();
        Self { file, line_ends, faults: Vec::new() }
    }

    pub(super) fn line(&self, at: usize) -> usize {
        self.line_ends.partition_point(|end| *end < at) + 1
    }

    pub(super) fn fault(&mut self, at: usize, field: impl Into<String>, message: impl Into<String>) {
        let (line, file) = (Some(self.line(at)), self.file.to_owned());
        self.faults.push(Fault { file, line, field: field.into(), message: message.into() });
    }

    /// The file as a table; its grammar is the first thing that can be wrong.
    pub(super) fn table<'t>(&mut self, text: &'t str) -> Option<DeTable<'t>> {
        if text.len() > FILE_BYTES_MAX {
            let message = format!("The file is larger than {FILE_BYTES_MAX} bytes; split it.");
            self.faults.push(Fault::of_file(self.file, message));
            return None;
        }
        match DeTable::parse(text) {
            Ok(table) => Some(table.into_inner()),
            Err(error) => {
                let at = error.span().map_or(0, |span| span.start);
                self.fault(at, "", format!("This is no TOML: {}.", error.message()));
                None
            }
        }
    }
}

/// Reads the rules of one file, in their order.
pub(super) fn file(name: &str, text: &str) -> (Vec<Rule>, Vec<Fault>) {
    let mut reading = Reading::new(name, text);
    if let Some(problem) = bad_file_name(name) {
        return (Vec::new(), vec![Fault::of_file(name.escape_debug().to_string(), problem)]);
    }
    let mut rules = Vec::new();
    for (key, value) in reading.table(text).iter().flat_map(DeTable::iter) {
        let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.as_str() == key.get_ref()) else {
            reading.fault(key.span().start, key.get_ref().escape_debug().to_string(), no_kind());
            continue;
        };
        match value.get_ref() {
            DeValue::Array(items) => {
                let numbered = items.iter().enumerate();
                rules.extend(numbered.filter_map(|(nth, item)| rule(&mut reading, kind, nth + 1, item)));
            }
            DeValue::Table(_) => {
                let message = format!("Write [[{kind}]] with two brackets: there may be several.");
                reading.fault(key.span().start, kind.as_str(), message);
            }
            _ => reading.fault(key.span().start, kind.as_str(), "Write a list of rules."),
        }
    }
    rules.sort_by_key(|rule| (rule.kind, rule.line));
    let mut known = HashSet::new();
    for rule in &rules {
        if !known.insert(Arc::clone(&rule.id)) {
            let faulty = Fault {
                file: name.into(),
                line: Some(rule.line),
                field: format!("{}.name", rule.kind),
                message: String::new(),
            };
            reading.faults.push(Fault {
                message: "Another rule of this kind has this name; choose another one.".into(),
                ..faulty
            });
        }
    }
    (rules, reading.faults)
}

fn bad_file_name(name: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let good = name.len() <= NAME_CHARS_MAX && name.chars().all(plain);
    (!good).then(|| {
        format!("Name the file with at most {NAME_CHARS_MAX} letters, digits, `.`, `_`, `-`: its name is part of its rules' names.")
    })
}

fn no_kind() -> String {
    let names: Vec<_> = Kind::ALL.iter().map(|kind| kind.as_str()).collect();
    format!("There is no such rule; there are: {}.", names.join(", "))
}

/// One entry of a list of rules.
pub(super) struct Entry<'r, 'f, 't> {
    reading: &'r mut Reading<'f>,
    kind: Kind,
    at: usize,
    table: Option<&'t DeTable<'t>>,
}

fn rule<'t>(reading: &mut Reading<'_>, kind: Kind, nth: usize, item: &'t Value<'t>) -> Option<Rule> {
    let at = item.span().start;
    let line = reading.line(at);
    let file = reading.file;
    let before = reading.faults.len();
    let mut entry = Entry { reading, kind, at, table: None };
    match item.get_ref() {
        DeValue::Table(table) => entry.table = Some(table),
        DeValue::String(_) if matches!(kind, Kind::DenyTool | Kind::DenyKeyword) => {}
        _ => {
            entry.fault(at, "", "Write a table of fields.");
            return None;
        }
    }
    entry.refuse_unknown();
    let name = entry.name().unwrap_or_else(|| nth.to_string());
    let reason = entry.reason();
    let ladder = if kind == Kind::Escalate { entry.ladder().map(Arc::<Ladder>::new) } else { None };
    let (tool, test, rate) = match entry.table {
        None => entry.short(item)?,
        Some(_) => entry.body()?,
    };
    let is_good = entry.reading.faults.len() == before;
    let id = format!("{file}#{kind}:{name}").into();
    is_good.then_some(Rule { id, kind, tool, test, rate, ladder, reason, line })
}

type Body = (Option<&'static Tool>, Test, Option<Rate>);

impl<'t> Entry<'_, '_, 't> {
    pub(super) fn fault(&mut self, at: usize, field: &str, message: impl Into<String>) {
        let field = if field.is_empty() { self.kind.to_string() } else { format!("{}.{field}", self.kind) };
        self.reading.fault(at, field, message);
    }

    pub(super) fn get(&self, name: &str) -> Option<&'t Value<'t>> {
        self.table?.iter().find(|(key, _)| key.get_ref() == name).map(|(_, value)| value)
    }

    fn refuse_unknown(&mut self) {
        let known = fields(self.kind);
        for (key, _) in self.table.into_iter().flat_map(DeTable::iter) {
            if !known.contains(&key.get_ref().as_ref()) {
                let name = key.get_ref().escape_debug().to_string();
                self.fault(
                    key.span().start,
                    &name,
                    format!("There is no such field; there are: {}.", known.join(", ")),
                );
            }
        }
    }

    pub(super) fn needed(&mut self, name: &str) -> Option<&'t Value<'t>> {
        let value = self.get(name);
        if value.is_none() {
            self.fault(self.at, name, "The field is missing; write it.");
        }
        value
    }

    /// A text: visible, bounded, without blanks around it.
    pub(super) fn text(&mut self, name: &str, value: &'t Value<'t>) -> Option<&'t str> {
        let at = value.span().start;
        match value.get_ref() {
            DeValue::String(text) if self.is_good_text(at, name, text) => Some(text),
            DeValue::String(_) => None,
            _ => {
                self.fault(at, name, "Write a text in quotes.");
                None
            }
        }
    }

    fn is_good_text(&mut self, at: usize, name: &str, text: &str) -> bool {
        let problem = if text.len() > VALUE_BYTES_MAX {
            format!("Write at most {VALUE_BYTES_MAX} bytes.")
        } else if normalise(text).is_empty() {
            "Nothing of this text is visible; write what it is to find.".into()
        } else if text.trim() != text {
            "Write it without blanks around it: it is found also in the midst of a text.".into()
        } else {
            return true;
        };
        self.fault(at, name, problem);
        false
    }

    /// `deny_tool = ["…"]` and `deny_keyword = ["…"]`.
    fn short(&mut self, item: &'t Value<'t>) -> Option<Body> {
        let text = self.text("", item)?;
        if self.kind == Kind::DenyTool {
            return Some((Some(self.known_tool(item.span().start, text)?), Test::Always, None));
        }
        Some((None, Test::Keyword(text.to_owned()), None))
    }

    fn body(&mut self) -> Option<Body> {
        if self.kind == Kind::DenyKeyword {
            let word = self.needed("keyword").and_then(|value| self.text("keyword", value));
            let tool = match self.get("tool") {
                Some(_) => Some(self.tool()?),
                None => None,
            };
            return Some((tool, Test::Keyword(word?.to_owned()), None));
        }
        let tool = self.tool();
        let (test, rate) = match self.kind {
            Kind::RateLimitTool => (Some(Test::Always), self.rate()),
            Kind::AllowToolParam => (self.unlisted(tool), None),
            Kind::DenyToolParam | Kind::DenyToolParamMatching | Kind::Urgent => (self.compared(tool), None),
            Kind::RequireApproval | Kind::Escalate if self.has_matcher() => (self.compared(tool), None),
            Kind::DenyTool | Kind::DenyKeyword | Kind::RequireApproval | Kind::Escalate => {
                (Some(Test::Always), None)
            }
        };
        if self.kind == Kind::RateLimitTool && rate.is_none() {
            return None;
        }
        Some((Some(tool?), test?, rate))
    }

    fn has_matcher(&self) -> bool {
        ["param", "equals", "contains", "pattern", "negate"].iter().any(|name| self.get(name).is_some())
    }

    fn tool(&mut self) -> Option<&'static Tool> {
        let value = self.needed("tool")?;
        let name = self.text("tool", value)?;
        self.known_tool(value.span().start, name)
    }

    fn known_tool(&mut self, at: usize, name: &str) -> Option<&'static Tool> {
        let tool = tools::tool(name);
        if tool.is_none() {
            let names: Vec<_> = TOOLS.iter().map(|tool| tool.name).collect();
            self.fault(at, "tool", format!("There is no such tool; there are: {}.", names.join(", ")));
        }
        tool
    }

    fn param(&mut self, tool: Option<&'static Tool>) -> Option<&'static Param> {
        let value = self.needed("param")?;
        let (name, tool) = (self.text("param", value)?, tool?);
        let param = tool.param(name);
        if param.is_none() {
            let names: Vec<_> = tool.params.iter().map(|param| param.name).collect();
            let message = format!("{} has no such parameter; it has: {}.", tool.name, names.join(", "));
            self.fault(value.span().start, "param", message);
        }
        param
    }

    fn unlisted(&mut self, tool: Option<&'static Tool>) -> Option<Test> {
        let param = self.param(tool);
        let values = self.needed("values").and_then(|value| self.values("values", value));
        Some(Test::Unlisted { param: param?, values: values? })
    }

    /// `param` with exactly one comparison.
    fn compared(&mut self, tool: Option<&'static Tool>) -> Option<Test> {
        let param = self.param(tool);
        let possible: Vec<_> = fields(self.kind)
            .iter()
            .filter(|name| matches!(**name, "equals" | "contains" | "pattern"))
            .copied()
            .collect();
        let given: Vec<_> = possible.iter().filter_map(|name| Some((*name, self.get(name)?))).collect();
        let [(name, value)] = given[..] else {
            self.fault(self.at, "", format!("Write exactly one of: {}.", possible.join(", ")));
            return None;
        };
        let how = match name {
            "equals" => self.values(name, value).map(How::Equals),
            "contains" => self.values(name, value).map(How::Contains),
            _ => self.pattern(name, value).map(How::Pattern),
        };
        let negate = self.negate();
        Some(Test::Param { param: param?, how: how?, negate: negate? })
    }

    fn negate(&mut self) -> Option<bool> {
        let Some(value) = self.get("negate") else { return Some(false) };
        if let DeValue::Boolean(negate) = value.get_ref() {
            return Some(*negate);
        }
        self.fault(value.span().start, "negate", "Write true or false.");
        None
    }

    fn pattern(&mut self, name: &str, value: &'t Value<'t>) -> Option<String> {
        let pattern = self.text(name, value)?;
        match check_pattern(pattern) {
            Ok(()) => Some(pattern.to_owned()),
            Err(problem) => {
                self.fault(value.span().start, name, format!("This is {problem}."));
                None
            }
        }
    }

    /// One value or a list of them.
    fn values(&mut self, name: &str, value: &'t Value<'t>) -> Option<Vec<String>> {
        let DeValue::Array(items) = value.get_ref() else { return Some(vec![self.value(name, value)?]) };
        if items.is_empty() || items.len() > VALUES_MAX {
            self.fault(value.span().start, name, format!("Write 1 to {VALUES_MAX} values."));
            return None;
        }
        let values: Vec<_> = items.iter().map(|item| self.value(name, item)).collect();
        values.into_iter().collect()
    }

    fn value(&mut self, name: &str, value: &'t Value<'t>) -> Option<String> {
        match value.get_ref() {
            DeValue::Integer(number) => Some(integer(number)?.to_string()),
            DeValue::Boolean(is) => Some(is.to_string()),
            DeValue::String(_) => self.text(name, value).map(str::to_owned),
            _ => {
                self.fault(
                    value.span().start,
                    name,
                    "Write a text in quotes, a whole number, true or false.",
                );
                None
            }
        }
    }

    fn rate(&mut self) -> Option<Rate> {
        let max_calls = self.needed("max_calls").and_then(|value| self.max_calls(value));
        let interval = self.needed("interval_secs").and_then(|value| self.interval(value));
        let per = match self.get("per") {
            Some(value) => self.per(value),
            None => Some(Per::Agent),
        };
        let interval_ms = u64::try_from(interval?.as_millis()).ok()?;
        Some(Rate { max_calls: max_calls?, interval_ms, per: per? })
    }

    fn max_calls(&mut self, value: &'t Value<'t>) -> Option<u32> {
        let number = match value.get_ref() {
            DeValue::Integer(number) => integer(number).and_then(|number| u32::try_from(number).ok()),
            _ => None,
        };
        let number = number.filter(|number| (1..=CALLS_MAX).contains(number));
        if number.is_none() {
            let instead = "to allow none, write deny_tool";
            self.fault(
                value.span().start,
                "max_calls",
                format!("Write a whole number from 1 to {CALLS_MAX}; {instead}."),
            );
        }
        number
    }

    fn interval(&mut self, value: &'t Value<'t>) -> Option<Duration> {
        let interval = match value.get_ref() {
            DeValue::Integer(number) => {
                integer(number).and_then(|number| u64::try_from(number).ok()).map(Duration::from_secs)
            }
            // NaN, negative and infinite ones are no durations.
            DeValue::Float(number) => {
                number.as_str().parse().ok().and_then(|secs| Duration::try_from_secs_f64(secs).ok())
            }
            _ => None,
        };
        let interval =
            interval.filter(|interval| (Duration::from_millis(1)..=INTERVAL_MAX).contains(interval));
        if interval.is_none() {
            let most = INTERVAL_MAX.as_secs();
            self.fault(
                value.span().start,
                "interval_secs",
                format!("Write a number of seconds from 0.001 to {most}."),
            );
        }
        interval
    }

    fn per(&mut self, value: &'t Value<'t>) -> Option<Per> {
        let name = match value.get_ref() {
            DeValue::String(name) => name.as_ref(),
            _ => "",
        };
        let per = Per::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, per)| per);
        if per.is_none() {
            let names: Vec<_> = Per::ALL.iter().map(|(name, _)| format!("\"{name}\"")).collect();
            self.fault(value.span().start, "per", format!("Write one of: {}.", names.join(", ")));
        }
        per
    }

    fn name(&mut self) -> Option<String> {
        let value = self.get("name")?;
        let name = self.text("name", value)?;
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let is_number = name.chars().all(|c| c.is_ascii_digit());
        if is_number || name.len() > NAME_CHARS_MAX || !name.chars().all(plain) {
            let message = format!(
                "Write at most {NAME_CHARS_MAX} letters, digits, `.`, `_`, `-`, and not digits alone."
            );
            self.fault(value.span().start, "name", message);
            return None;
        }
        Some(name.to_owned())
    }

    fn reason(&mut self) -> Option<Arc<str>> {
        let value = self.get("reason")?;
        let reason = self.text("reason", value)?;
        if reason.chars().count() > REASON_CHARS_MAX || reason.contains(char::is_control) {
            let message = format!("Write one line of at most {REASON_CHARS_MAX} characters.");
            self.fault(value.span().start, "reason", message);
            return None;
        }
        Some(reason.into())
    }
}

fn integer(number: &toml::de::DeInteger<'_>) -> Option<i128> {
    i128::from_str_radix(number.as_str(), number.radix()).ok()
}
