//! Whom a question goes to when nobody answers it: what a rule `[[escalate]]` says beside its matchers.
//!
//! ```toml
//! [[escalate]]
//! tool = "messaging.send"
//! rungs = [{ after = "10m", channel = "email", to = "ada@example.org" }, { after = "1h", propose_task = true }]
//! then = "deny"
//! ```

use super::load::{Entry, Value};
use crate::outbound::escalate::{AFTER_MS_MAX, AFTER_MS_MIN, RUNGS_MAX, Span, Then, parse_span};
use crate::port::channel::check_name;
use crate::time::WallMs;
use std::fmt;
use toml::de::{DeTable, DeValue};

const FIELDS: [&str; 4] = ["after", "channel", "to", "propose_task"];

/// What happens when nobody answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ladder {
    /// Rungs in the order of their times: 1 to [`RUNGS_MAX`].
    pub rungs: Vec<Step>,
    /// What silence means in the end; `None`: that the question has expired.
    pub then: Option<Then>,
}

/// One rung.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// How long after the question has got the floor, from [`AFTER_MS_MIN`] to [`AFTER_MS_MAX`].
    pub after_ms: WallMs,
    /// Channel and address of the person who is asked; `None`: a task is proposed.
    pub to: Option<(String, String)>,
}

impl fmt::Display for Ladder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, step) in self.rungs.iter().enumerate() {
            let sign = if nth == 0 { "" } else { ", " };
            let after = Span(step.after_ms);
            match &step.to {
                Some((channel, to)) => {
                    write!(out, "{sign}after {after} to {} on {channel}", to.escape_debug())?;
                }
                None => write!(out, "{sign}after {after} as a task proposal")?,
            }
        }
        match self.then {
            Some(then) => write!(out, "; with no answer in time: {}", then.as_str()),
            None => out.write_str("; with no answer in time it has expired"),
        }
    }
}

impl<'t> Entry<'_, '_, 't> {
    /// `rungs` and `then`.
    pub(super) fn ladder(&mut self) -> Option<Ladder> {
        let rungs = self.needed("rungs").and_then(|value| self.rungs(value));
        let then = match self.get("then") {
            Some(value) => Some(self.then(value)?),
            None => None,
        };
        Some(Ladder { rungs: rungs?, then })
    }

    fn then(&mut self, value: &'t Value<'t>) -> Option<Then> {
        let name = if let DeValue::String(name) = value.get_ref() { name.as_ref() } else { "" };
        let then = Then::ALL.into_iter().find(|then| then.as_str() == name);
        if then.is_none() {
            let names: Vec<_> = Then::ALL.iter().map(|then| format!("\"{}\"", then.as_str())).collect();
            self.fault(value.span().start, "then", format!("Write one of: {}.", names.join(", ")));
        }
        then
    }

    fn rungs(&mut self, value: &'t Value<'t>) -> Option<Vec<Step>> {
        let items = match value.get_ref() {
            DeValue::Array(items) if (1..=RUNGS_MAX).contains(&items.len()) => items,
            _ => {
                let message = format!("Write a list of 1 to {RUNGS_MAX} rungs.");
                self.fault(value.span().start, "rungs", message);
                return None;
            }
        };
        let read: Vec<_> = items.iter().map(|item| self.step(item)).collect();
        let steps: Vec<_> = read.into_iter().collect::<Option<_>>()?;
        for (pair, item) in steps.windows(2).zip(&items[1..]) {
            if pair[1].after_ms <= pair[0].after_ms {
                let message = "Write the rungs in the order of their times, each later than the one before.";
                self.fault(item.span().start, "rungs.after", message);
                return None;
            }
        }
        Some(steps)
    }

    fn step(&mut self, item: &'t Value<'t>) -> Option<Step> {
        let at = item.span().start;
        let DeValue::Table(table) = item.get_ref() else {
            self.fault(at, "rungs", "Write each rung as a table in braces.");
            return None;
        };
        let unknown =
            |(key, _): &(&toml::Spanned<_>, _)| !FIELDS.contains(&AsRef::<str>::as_ref(key.get_ref()));
        if let Some((key, _)) = table.iter().find(unknown) {
            let message = format!("There is no such field; there are: {}.", FIELDS.join(", "));
            self.fault(key.span().start, &format!("rungs.{}", key.get_ref().escape_debug()), message);
            return None;
        }
        let after_ms = self.after(at, field(table, "after"));
        let asks = (field(table, "channel"), field(table, "to"), field(table, "propose_task"));
        let to = match asks {
            (None, None, Some(task)) if matches!(task.get_ref(), DeValue::Boolean(true)) => None,
            (Some(channel), Some(to), None) => Some(self.person(channel, to)?),
            _ => {
                self.fault(at, "rungs", "Write `channel` and `to`, or `propose_task = true`.");
                return None;
            }
        };
        Some(Step { after_ms: after_ms?, to })
    }

    fn after(&mut self, at: usize, value: Option<&'t Value<'t>>) -> Option<WallMs> {
        let text = value.and_then(|value| value.get_ref().as_str());
        let after = text.and_then(parse_span).filter(|after| (AFTER_MS_MIN..=AFTER_MS_MAX).contains(after));
        if after.is_none() {
            let at = value.map_or(at, |value| value.span().start);
            let (least, most) = (Span(AFTER_MS_MIN), Span(AFTER_MS_MAX));
            let message = format!(
                "Write a time from {least} to {most}, counted from when the person is asked: \"90s\", \"10m\", \"2h\", \"1d\"."
            );
            self.fault(at, "rungs.after", message);
        }
        after
    }

    fn person(&mut self, channel: &'t Value<'t>, to: &'t Value<'t>) -> Option<(String, String)> {
        let name = self.text("rungs.channel", channel);
        let to = self.text("rungs.to", to);
        let name = name?;
        if let Err(sentence) = check_name(name) {
            self.fault(channel.span().start, "rungs.channel", format!("This is no name: {sentence}."));
            return None;
        }
        Some((name.to_owned(), to?.to_owned()))
    }
}

fn field<'t>(table: &'t DeTable<'t>, name: &str) -> Option<&'t Value<'t>> {
    table.iter().find(|(key, _)| key.get_ref() == name).map(|(_, value)| value)
}
