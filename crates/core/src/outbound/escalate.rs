//! Escalation: whom a question goes to when nobody answers it, and what its silence means, settled before it is asked (contract
//! section 4).
//!
//! A chain stands with its question from the moment it is accepted: rung by rung, each with its time, its message ready to be sent, and
//! its end. A rung is due so many milliseconds after the question has got the floor, by the store's clock; whoever keeps the store
//! climbs it. Nothing of it is worked out later, so that a restart, another node or a changed rule makes no other chain of it.

use crate::port::channel::{Address, Part};
use crate::time::{SECOND_MS, WallMs};
use std::fmt;

/// Rungs of one chain.
pub const RUNGS_MAX: usize = 8;
/// The soonest time of a rung.
pub const AFTER_MS_MIN: WallMs = SECOND_MS;
/// The latest: a question lives no longer.
pub const AFTER_MS_MAX: WallMs = crate::limits::QUESTION_DEADLINE_MS_MAX;

/// What it means for the asking agent that nobody has answered in time. The numbers are stored and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Then {
    /// It counts as a no.
    Deny = 1,
    /// The agent goes on as it proposed.
    Proceed = 2,
    /// The agent stops its work.
    Halt = 3,
}

impl Then {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Deny, Self::Proceed, Self::Halt];

    /// Of a stored number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|then| *then as u8 == number)
    }

    /// The word for it, in rules and on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Proceed => "proceed",
            Self::Halt => "halt",
        }
    }

    /// What the agent is to do, in a sentence.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Deny => "Take that for a no.",
            Self::Proceed => "Go on as you proposed.",
            Self::Halt => "Stop this work until a person says otherwise.",
        }
    }
}

/// Where a rung is. The numbers are stored and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RungState {
    /// Its time has not come; once the question has ended it never will.
    Waiting = 1,
    /// Its message was accepted.
    Asked = 2,
    /// Nobody was asked, and why is said.
    Skipped = 3,
    /// A task was proposed.
    Proposed = 4,
}

impl RungState {
    /// Of a stored number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        [Self::Waiting, Self::Asked, Self::Skipped, Self::Proposed]
            .into_iter()
            .find(|state| *state as u8 == number)
    }

    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Asked => "asked",
            Self::Skipped => "skipped",
            Self::Proposed => "proposed",
        }
    }
}

/// The chain of a question that is about to be accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewChain {
    /// The rule that it comes from.
    pub rule: String,
    /// What silence means; `None`: that the question has expired, and nothing more.
    pub then: Option<Then>,
    /// Its rungs, in the order of their times; at most [`RUNGS_MAX`].
    pub rungs: Vec<NewRung>,
}

/// A rung of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRung {
    /// How long after the question has got the floor.
    pub after_ms: WallMs,
    /// Whom it asks; `None`: a task is proposed.
    pub ask: Option<NewAsk>,
}

/// The message of a rung, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAsk {
    /// Fresh public id of the send that it becomes.
    pub send_id: String,
    /// Fresh short code; one that another send or rung has is [`crate::write::Refusal::NameTaken`].
    pub code: String,
    /// The channel's configured name.
    pub channel: String,
    /// Whom it asks.
    pub to: Address,
    /// The address as the rule writes it.
    pub to_text: String,
    /// How consent is found when its time has come.
    pub consent: super::write::ConsentRule,
    /// Whether its message can be changed once it was sent.
    pub amends: bool,
    /// The call that it stands for, as JSON: what the policy is asked about when its time has come.
    pub params: String,
    /// What it is sent as, in order; one at least.
    pub parts: Vec<Part>,
}

/// A rung as a store keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RungRow {
    /// The question's topic.
    pub topic_id: String,
    /// Number, from 1.
    pub rung: u32,
    /// How long after the question has got the floor.
    pub after_ms: WallMs,
    /// Where it is.
    pub state: RungState,
    /// Why nobody was asked.
    pub reason: Option<String>,
    /// When it is due: once the question has the floor, while the rung waits and the question lives.
    pub next_ms: Option<WallMs>,
    /// The channel and the address as the rule writes it; `None`: a task is proposed.
    pub to: Option<(String, String)>,
    /// Public id of the send that it became.
    pub send_id: Option<String>,
}

/// A rung whose time has come, with what the policy is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueRung {
    /// The rung.
    pub rung: RungRow,
    /// In whose name the question is asked.
    pub agent: String,
    /// The rule that had the question approved, if one did: the chain was approved with it.
    pub approved_by: Option<String>,
    /// The call that the rung stands for, as JSON; empty for a task.
    pub params: String,
    /// When the question is void.
    pub deadline_ms: Option<WallMs>,
}

/// A span of time as people write it: `90s`, `10m`, `2h`, `1d`.
#[must_use]
pub fn parse_span(text: &str) -> Option<WallMs> {
    let unit = text.chars().next_back()?;
    let digits = text.strip_suffix(unit)?;
    let ms = match unit {
        's' => SECOND_MS,
        'm' => crate::time::MINUTE_MS,
        'h' => crate::time::HOUR_MS,
        'd' => crate::time::DAY_MS,
        _ => return None,
    };
    let plain = !digits.is_empty() && digits.len() <= 9 && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse::<WallMs>().ok()?.checked_mul(ms)).flatten()
}

/// A span of time, shown in the largest unit that says it exactly.
#[derive(Debug, Clone, Copy)]
pub struct Span(pub WallMs);

impl fmt::Display for Span {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        use crate::time::{DAY_MS, HOUR_MS, MINUTE_MS};
        let units = [(DAY_MS, "d"), (HOUR_MS, "h"), (MINUTE_MS, "m"), (SECOND_MS, "s")];
        match units.into_iter().find(|(unit, _)| self.0 > 0 && self.0 % unit == 0) {
            Some((unit, name)) => write!(out, "{}{name}", self.0 / unit),
            None => write!(out, "{}ms", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_strictly_and_shown_as_written() {
        for (text, ms) in [("90s", 90_000), ("10m", 600_000), ("2h", 7_200_000), ("1d", 86_400_000)] {
            assert_eq!(parse_span(text), Some(ms));
            assert_eq!(Span(ms).to_string(), text);
        }
        for bad in ["", "m", "10", "-1m", "1.5h", "10 m", "10M", "1m2s", "9999999999s", "٣m", "10м"] {
            assert_eq!(parse_span(bad), None, "{bad:?}");
        }
        assert_eq!(Span(60_000).to_string(), "1m");
        assert_eq!(Span(1_001).to_string(), "1001ms");
    }

    #[test]
    fn numbers_come_back() {
        assert!(Then::ALL.into_iter().all(|then| Then::from_number(then as u8) == Some(then)));
        assert_eq!(Then::from_number(0), None);
        assert_eq!(RungState::from_number(4), Some(RungState::Proposed));
        assert_eq!(RungState::from_number(5), None);
    }
}
