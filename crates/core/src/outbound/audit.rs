//! The plane's ledger out of the log alone (DESIGN law 1): each accepted send and each change of state has its entry, in the same
//! commit as the rows, so that the counts that a store keeps can be checked against what it has written down.

use super::send::{STATES, SendState};
use crate::ledger::Ledger;
use crate::log::Entry;

/// Verb of the entry of an accepted send; its subject begins with the send's public id and its first state.
pub const ACCEPTED: &str = "outbound.accepted";
/// Verb of the entry of a change; its subject is the send's public id, the state before and the state after.
pub const STATE: &str = "outbound.state";

/// Counts by state, as the log tells them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Audit {
    accepted: u64,
    // By the state's number, from 1.
    counts: [u64; STATES.len()],
}

/// What an entry of this plane says of a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told<'a> {
    /// Its public id.
    pub send_id: &'a str,
    /// Where it was; `None` when it has just been accepted.
    pub from: Option<SendState>,
    /// Where it is.
    pub to: SendState,
}

/// An entry that does not fit to those before it, or cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the log entry {verb} {subject:?} does not fit to those before it")]
pub struct Misfit {
    /// Its verb.
    pub verb: String,
    /// Its subject.
    pub subject: String,
}

/// What an entry says of a send's state: `Ok(None)` for entries that say nothing of it.
pub fn told(entry: &Entry) -> Result<Option<Told<'_>>, Misfit> {
    let Entry::Admitted { verb, subject, .. } = entry else { return Ok(None) };
    let mut words = subject.split(' ');
    let mut word = || words.next().unwrap_or_default();
    let (send_id, from, to) = match verb.as_str() {
        ACCEPTED => (word(), None, word()),
        STATE => (word(), Some(word()), word()),
        _ => return Ok(None),
    };
    let misfit = || Misfit { verb: verb.clone(), subject: subject.clone() };
    let from = from.map(|from| SendState::parse(from).ok_or_else(misfit)).transpose()?;
    let to = SendState::parse(to).ok_or_else(misfit)?;
    let ends = verb != STATE || words.next().is_none();
    if send_id.is_empty() || from == Some(to) || !ends {
        Err(misfit())
    } else {
        Ok(Some(Told { send_id, from, to }))
    }
}

impl Audit {
    /// Takes the next entry of the log.
    pub fn take(&mut self, entry: &Entry) -> Result<(), Misfit> {
        let Some(told) = told(entry)? else { return Ok(()) };
        if let Some(from) = told.from {
            let left = self.count(from).checked_sub(1).ok_or_else(|| misfit(entry))?;
            *self.count(from) = left;
        } else {
            self.accepted += 1;
        }
        *self.count(told.to) += 1;
        Ok(())
    }

    fn count(&mut self, state: SendState) -> &mut u64 {
        &mut self.counts[usize::from(state as u8) - 1]
    }

    /// How many sends are in a state.
    #[must_use]
    pub fn in_state(&self, state: SendState) -> u64 {
        self.counts[usize::from(state as u8) - 1]
    }

    /// The plane's ledger.
    #[must_use]
    pub fn ledger(&self) -> Ledger {
        use SendState::{Answered, Dead, Delivered, Expired, Refused, Unknown};
        Ledger {
            accepted: self.accepted,
            delivered: self.in_state(Delivered),
            answered: self.in_state(Answered),
            expired: self.in_state(Expired),
            refused: self.in_state(Refused),
            dead: self.in_state(Dead),
            unknown: self.in_state(Unknown),
            pending: STATES
                .iter()
                .filter(|state| !state.is_terminal())
                .map(|state| self.in_state(*state))
                .sum(),
        }
    }
}

fn misfit(entry: &Entry) -> Misfit {
    match entry {
        Entry::Admitted { verb, subject, .. } => Misfit { verb: verb.clone(), subject: subject.clone() },
        _ => Misfit { verb: String::new(), subject: String::new() },
    }
}

/// The plane's ledger out of all entries of a log, in order.
pub fn ledger<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Result<Ledger, Misfit> {
    let mut audit = Audit::default();
    entries.into_iter().try_for_each(|entry| audit.take(entry))?;
    Ok(audit.ledger())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(verb: &str, subject: &str) -> Entry {
        Entry::admitted(verb, "", subject)
    }

    #[test]
    fn the_ledger_is_what_the_entries_say() {
        let log = [
            entry(ACCEPTED, "snd_1 sending console to=ab call=cd policy=1 rule=-"),
            entry(ACCEPTED, "snd_2 held console to=ab call=cd policy=1 rule=a b"),
            entry("outbound.attempt", "snd_1 1 1"),
            entry(STATE, "snd_1 sending delivered"),
            entry(STATE, "snd_2 held refused"),
            entry("bus.publish", "whatever"),
        ];
        let expected = Ledger { accepted: 2, delivered: 1, refused: 1, ..Ledger::default() };
        assert_eq!(ledger(&log), Ok(expected));
        let held = Ledger { accepted: 2, delivered: 1, pending: 1, ..Ledger::default() };
        assert_eq!(ledger(&log[..4]), Ok(held));
        assert!(held.is_balanced());
    }

    #[test]
    fn what_does_not_fit_is_named() {
        for (verb, subject) in [
            (STATE, "snd_1 sending delivered"),
            (STATE, "snd_1 sending sending"),
            (STATE, "snd_1 sending"),
            (STATE, "snd_1 sending delivered more"),
            (ACCEPTED, "snd_1 nowhere"),
            (ACCEPTED, " held"),
            (ACCEPTED, ""),
        ] {
            let misfit = ledger(&[entry(verb, subject)]).unwrap_err();
            assert_eq!((misfit.verb.as_str(), misfit.subject.as_str()), (verb, subject));
        }
    }
}
