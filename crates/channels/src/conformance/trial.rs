//! What checks have in common: a fixture, and attempts that nobody else has made.

use super::{Accepted, Behaviour, Fixture};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use switchboard_core::outbound::gate::{Cleared, Consent, Facts, clear};
use switchboard_core::port::channel::{
    Address, AddressKind, Attempt, Channel, Draft, MessageKind, Part, Performed,
};

/// A plain notice.
pub(super) fn notice(body: &str) -> Draft<'_> {
    Draft {
        body,
        kind: MessageKind::Notice,
        from: "builder",
        code: None,
        deadline_ms: None,
        buttons: &[],
        link: None,
    }
}

/// One check's fixture.
pub struct Trial {
    /// It.
    pub fixture: Box<dyn Fixture>,
    made: AtomicU32,
}

impl Trial {
    pub(super) fn new(fixture: Box<dyn Fixture>) -> Self {
        Self { fixture, made: AtomicU32::new(0) }
    }

    pub(super) fn channel(&self) -> Arc<dyn Channel> {
        self.fixture.channel()
    }

    /// An address in its one form, of whichever kind the channel reaches.
    pub(super) fn address(&self) -> Result<Address, String> {
        let mut kinds = [AddressKind::Direct, AddressKind::Channel].into_iter();
        let known = kinds.find_map(|kind| Some((kind, self.fixture.address(kind)?)));
        let (kind, to) = known.ok_or("the fixture knows no address")?;
        Ok(Address { kind, handle: self.channel().normalise(kind, &to)? })
    }

    /// A first attempt of a new delivery with a body of this text.
    pub(super) fn attempt(&self, body: &str) -> Result<Attempt, String> {
        let parts = self.channel().prepare(&notice(body))?;
        let part = parts.into_iter().next().ok_or("a message has no part")?;
        self.attempt_of(part)
    }

    /// A first attempt of a new delivery of this part.
    pub(super) fn attempt_of(&self, part: Part) -> Result<Attempt, String> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        Ok(Attempt {
            delivery: format!("dlv_{number}-conformance"),
            attempt: 1,
            channel: self.channel().name().to_owned(),
            to: self.address()?,
            part,
            place: (1, 1),
            references: Vec::new(),
            accepted_ms: 1_800_000_000_123,
        })
    }

    pub(super) async fn perform(&self, attempt: &Attempt) -> Performed {
        self.channel().perform(cleared(attempt)).await
    }

    /// A new attempt at a stand-in that behaves so; `None` when it cannot.
    pub(super) async fn under(&self, behaviour: Behaviour) -> Result<Option<(Attempt, Performed)>, String> {
        if !self.fixture.script(behaviour) {
            return Ok(None);
        }
        let attempt = self.attempt("hello")?;
        let performed = self.perform(&attempt).await;
        Ok(Some((attempt, performed)))
    }

    /// What was accepted of a delivery.
    pub(super) fn accepted_of(&self, attempt: &Attempt) -> Vec<Accepted> {
        let mut accepted = self.fixture.accepted();
        accepted.retain(|accepted| accepted.delivery == attempt.delivery);
        accepted
    }
}

/// The gate's consent to an attempt, given without conditions.
pub(super) fn cleared(attempt: &Attempt) -> Cleared {
    let facts = Facts { now_ms: 0, consent: Consent::NotNeeded, forbidden_by: None, deadline_ms: None };
    clear(attempt.clone(), &facts).expect("a gate without conditions lets everything through")
}

/// `Ok` when it holds, else the sentence.
pub(super) fn ensure(holds: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why()) }
}
