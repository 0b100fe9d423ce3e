//! The one gate before a provider's I/O (DESIGN law 7): whatever path a message took, it leaves only as a [`Cleared`], and nothing but
//! [`clear`] makes one. It looks at the final recipient and content at the time of sending, so that a person who said STOP, a rule that
//! was tightened and a deadline that passed count for what waits already.

use crate::port::channel::Attempt;
use crate::time::WallMs;

/// An attempt that may be performed now.
#[derive(Debug)]
pub struct Cleared(Attempt);

impl Cleared {
    /// What is performed.
    #[must_use]
    pub fn attempt(&self) -> &Attempt {
        &self.0
    }
}

/// What the gate looks at, read at the time of sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts<'a> {
    /// Now, by the store's clock.
    pub now_ms: WallMs,
    /// Whether the recipient may be reached on this channel.
    pub consent: Consent,
    /// The rule that forbids the call now, if one does.
    pub forbidden_by: Option<&'a str>,
    /// When the message is void.
    pub deadline_ms: Option<WallMs>,
}

/// Whether a recipient may be reached on a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Consent {
    /// Paired by the person, or allowed by an operator.
    Given,
    /// The channel's targets are the operator's own.
    NotNeeded,
    /// Nobody has said yes.
    Missing,
    /// The person said STOP.
    Stopped,
    /// The address does not exist any more.
    Suppressed,
}

impl Consent {
    /// Whether it lets a message through.
    #[must_use]
    pub fn is_given(self) -> bool {
        matches!(self, Self::Given | Self::NotNeeded)
    }
}

/// Why an attempt may not be performed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Blocked {
    /// No consent, or no longer.
    Consent(Consent),
    /// A policy rule.
    Policy(String),
    /// Too late.
    Expired,
}

/// Clears `attempt`, or says what is in its way.
pub fn clear(attempt: Attempt, facts: &Facts<'_>) -> Result<Cleared, Blocked> {
    if !facts.consent.is_given() {
        return Err(Blocked::Consent(facts.consent));
    }
    if let Some(rule) = facts.forbidden_by {
        return Err(Blocked::Policy(rule.to_owned()));
    }
    if facts.deadline_ms.is_some_and(|deadline| deadline <= facts.now_ms) {
        return Err(Blocked::Expired);
    }
    Ok(Cleared(attempt))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::channel::{Address, AddressKind, Part};

    fn attempt() -> Attempt {
        Attempt {
            delivery: "dlv_1".into(),
            attempt: 1,
            channel: "console".into(),
            to: Address { kind: AddressKind::Direct, handle: "ada".into() },
            part: Part::default(),
            place: (1, 1),
            references: Vec::new(),
            accepted_ms: 0,
        }
    }

    const OPEN: Facts<'static> =
        Facts { now_ms: 10, consent: Consent::Given, forbidden_by: None, deadline_ms: Some(11) };

    #[test]
    fn each_fact_alone_blocks() {
        assert_eq!(clear(attempt(), &OPEN).unwrap().attempt(), &attempt());
        let blocked = |facts: Facts<'_>| clear(attempt(), &facts).unwrap_err();
        for consent in [Consent::Missing, Consent::Stopped, Consent::Suppressed] {
            assert_eq!(blocked(Facts { consent, ..OPEN }), Blocked::Consent(consent));
        }
        assert_eq!(blocked(Facts { forbidden_by: Some("a#1"), ..OPEN }), Blocked::Policy("a#1".into()));
        assert_eq!(blocked(Facts { deadline_ms: Some(10), ..OPEN }), Blocked::Expired);
    }
}
