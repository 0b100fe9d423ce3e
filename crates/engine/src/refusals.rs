//! The log of refusals: counted here, written with one of the next commits. A flood of bad requests costs one line per
//! kind and second, not one per request.

use parking_lot::Mutex;
use std::collections::HashMap;
use switchboard_core::log::Entry;
use switchboard_protocol::Detail;

/// Kinds of refusals remembered between two writes; what is beyond is counted together.
const KINDS_MAX: usize = 1000;
/// Longest text of a refusal in the log: what a caller chose must not fill the disk.
const TEXT_CHARS_MAX: usize = 160;

fn cut(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Kind {
    verb: &'static str,
    actor: String,
    why: String,
}

/// Refusals since the last write.
#[derive(Debug, Default)]
pub struct Refusals(Mutex<HashMap<Kind, u32>>);

impl Refusals {
    /// Counts one.
    pub fn note(&self, verb: &'static str, actor: &str, detail: &Detail) {
        let mut counts = self.0.lock();
        let kind = Kind { verb, actor: cut(actor), why: cut(&crate::refusal::why(detail)) };
        let kind = if counts.len() < KINDS_MAX || counts.contains_key(&kind) {
            kind
        } else {
            Kind { verb, actor: "many".into(), why: "many".into() }
        };
        *counts.entry(kind).or_default() += 1;
    }

    /// Takes what has gathered, as log entries.
    pub fn take(&self) -> Vec<Entry> {
        let counts = std::mem::take(&mut *self.0.lock());
        let entry = |(kind, count): (Kind, u32)| Entry::Refused {
            verb: kind.verb.into(),
            actor: kind.actor,
            why: kind.why,
            count,
        };
        counts.into_iter().map(entry).collect()
    }
}
