//! The suite that proves a channel's promises (see [`switchboard_core::port::channel`]), for the channels of this crate and for those of
//! others. It drives a channel against a stand-in of its network that duplicates, reorders, refuses, asks to wait, falls silent after it
//! has accepted, cuts answers short and resets connections.
//!
//! # Running it
//! 1. Write a [`Fixture`]: a stand-in that listens on loopback, port 0 (or whatever the network is), and the channel connected to it with
//!    time-outs of a few seconds. For each [`Behaviour`] the stand-in either behaves so or says that its network cannot.
//! 2. Put the canary of [`SECRET`] into each of the channel's secrets.
//! 3. In a test: `conformance::run(|| Box::pin(async { Box::new(MyFixture::start().await) as Box<dyn Fixture> })).await.assert();`
//!
//! Each check gets a fixture of its own, and all run at a time. `tests/it/webhook.rs` of this crate is a fixture for an HTTP service,
//! `tests/it/exec.rs` one for a program; the e-mail channel's is made alike: its stand-in is an SMTP server, `Accept` answers `250` to the
//! end of the data, `AcceptThenSilence` says nothing after it, `Refuse` is a `550`, [`Accepted::text`] is the plain part's text.
//!
//! To add a promise: a function in the file of its subject and its row in [`CHECKS`].

#![expect(clippy::missing_panics_doc, reason = "panicking is how a test speaks")]

mod basics;
pub mod bodies;
mod inbound;
mod outcomes;
mod preparing;
#[cfg(test)]
mod tests;
mod trial;

use futures_util::future::{BoxFuture, join_all};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::port::channel::{AddressKind, Channel, Part};

pub use trial::Trial;

/// A canary: part of each secret that a fixture gives to its channel. Nothing that the channel says of itself may hold it. (It is Base64, so
/// that it can be part of keys.)
pub const SECRET: &str = "Y2FuYXJ5IG9mIHRoZSBzdWl0ZQ";
/// Longest time for one check. A channel bounds its attempts by itself, by far less.
pub const CHECK_TIMEOUT: Duration = Duration::from_mins(1);

/// How the stand-in treats one contact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// It accepts and confirms.
    Accept,
    /// It reads slowly, accepts, and confirms in small pieces.
    AcceptSlowly,
    /// It accepts once and confirms twice.
    AcceptTwice,
    /// It waits until so many contacts are there, accepts all, and confirms them in the reverse order.
    AcceptTogether(usize),
    /// It accepts and says nothing, with the connection open.
    AcceptThenSilence,
    /// It accepts and cuts the connection.
    AcceptThenReset,
    /// It accepts and answers with bytes that are no answer.
    AcceptThenGarbage,
    /// It accepts and confirms, but the confirmation breaks off before it is one.
    AcceptThenTruncate,
    /// It accepts, and then says that it failed in the middle.
    AcceptThenFail,
    /// It reads a part, accepts nothing, and cuts the connection.
    Reset,
    /// It refuses the message for good.
    Refuse,
    /// It cannot take the message now.
    Busy,
    /// It asks to wait.
    Throttle(Wait),
    /// It is not there, at the next contact or until something else is said.
    Unreachable,
}

/// How a service asks to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Whole seconds.
    Seconds(u32),
    /// Seconds with a fraction, given here in milliseconds.
    Fraction(u32),
    /// A date so many seconds ahead of the service's own clock.
    Date(u32),
    /// Several waits at once, in seconds.
    Several(u32, u32),
    /// In the answer's body, in milliseconds.
    Body(u32),
    /// Words that are no wait.
    Garbage,
}

impl Wait {
    /// The wait that was asked for, in milliseconds.
    #[must_use]
    pub fn asked_ms(self) -> Option<u64> {
        match self {
            Self::Seconds(seconds) | Self::Date(seconds) => Some(u64::from(seconds) * 1000),
            Self::Several(one, other) => Some(u64::from(one.max(other)) * 1000),
            Self::Fraction(ms) | Self::Body(ms) => Some(u64::from(ms)),
            Self::Garbage => None,
        }
    }
}

/// What a stand-in has accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// The delivery's id, as the network carries it.
    pub delivery: String,
    /// The text that a person would read, without what the channel adds to it.
    pub text: String,
    /// All bytes, less what must differ between attempts (their number, dates, signatures over dates).
    pub bytes: Vec<u8>,
    /// The id that the stand-in gave, if it gives any.
    pub message_id: Option<String>,
}

/// What stands at a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// All that a person reads.
    pub text: String,
    /// How many buttons are under it.
    pub buttons: usize,
}

/// A channel, connected to a stand-in of its network.
pub trait Fixture: Send + Sync {
    /// The channel.
    fn channel(&self) -> Arc<dyn Channel>;
    /// Says how the next contact is treated, after those that were said before; contacts beyond are accepted. Returns false, and changes
    /// nothing, when the network cannot behave so.
    fn script(&self, behaviour: Behaviour) -> bool;
    /// How many contacts (connections, processes, calls) there were.
    fn contacts(&self) -> usize;
    /// What was accepted, in order.
    fn accepted(&self) -> Vec<Accepted>;
    /// Waits until so much has been accepted.
    fn until_accepted(&self, count: usize) -> BoxFuture<'_, ()>;
    /// An address that exists on the network, as a caller may write it; `None` when the channel does not reach this kind.
    fn address(&self, kind: AddressKind) -> Option<String>;
    /// Texts that are no address here, beside those that are nowhere one.
    fn junk(&self) -> Vec<String> {
        Vec::new()
    }
    /// The text of a prepared part that a person would read, without what the channel adds to it, in the form of [`Accepted::text`].
    fn text_of(&self, part: &Part) -> String;
    /// The text that a person should read for this body: a channel that renders Markdown says what it makes of it.
    fn rendered(&self, body: &str) -> String {
        body.to_owned()
    }
    /// What `Debug` says of the channel and its settings.
    fn debug(&self) -> String;
    /// Lets a person write `text`, once, in the event of this id. Returns false when nothing comes back on this channel.
    fn offer(&self, _event: &str, _text: &str) -> bool {
        false
    }
    /// How much of what people wrote the channel has acknowledged to the network.
    fn acknowledged(&self) -> usize {
        0
    }
    /// Waits until so much has been acknowledged.
    fn until_acknowledged(&self, _count: usize) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
    /// Lets a person press the button that carries `value` under our message of this id, once, in the event of this id. Returns false
    /// when the network has no buttons.
    fn press(&self, _event: &str, _message_id: &str, _value: &str) -> bool {
        false
    }
    /// Lets the person change what they wrote in the event `of` into `text`, or take it back, in the event of this id. Returns false
    /// when the network does not tell.
    fn change(&self, _event: &str, _of: &str, _text: Option<&str>) -> bool {
        false
    }
    /// What stands at our message of this id now; `None` when the network cannot change it.
    fn shown(&self, _message_id: &str) -> Option<Shown> {
        None
    }
    /// Makes the network bring again what was not acknowledged.
    fn bring_again(&self) {}
}

/// How a check ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The promise was kept.
    Kept,
    /// It was not.
    Broken(String),
    /// The network cannot break it.
    NotApplicable,
}

/// One promise.
#[derive(Clone, Copy)]
pub struct Check {
    /// Its name.
    pub name: &'static str,
    run: fn(Trial) -> BoxFuture<'static, Result<Verdict, String>>,
}

macro_rules! checks {
    ($($subject:ident::{$($name:ident),* $(,)?}),* $(,)?) => {
        &[$($(Check { name: stringify!($name), run: |trial| Box::pin($subject::$name(trial)) }),*),*]
    };
}

/// All promises.
pub const CHECKS: &[Check] = checks! {
    basics::{
        what_it_is_does_not_change_and_makes_sense,
        an_address_has_one_form,
        junk_is_no_address,
        secrets_are_shown_nowhere,
    },
    preparing::{
        preparing_is_pure,
        parts_are_within_the_limits,
        nothing_of_the_text_is_lost,
        hostile_text_arrives_as_it_was,
    },
    outcomes::{
        what_is_accepted_is_sent_once,
        silence_after_accepting_is_unknown,
        a_cut_after_accepting_is_unknown,
        an_answer_that_is_none_is_unknown,
        a_confirmation_cut_short_is_unknown,
        a_failure_after_accepting_is_not_a_refusal,
        a_cut_before_accepting_is_not_sent_or_unknown,
        a_refusal_is_not_sent,
        a_busy_network_is_tried_again,
        an_unreachable_network_is_not_sent,
        waits_are_as_long_as_was_asked,
        one_attempt_is_one_contact,
        the_same_delivery_has_the_same_bytes,
        dropping_an_attempt_harms_no_other,
        attempts_at_a_time_are_kept_apart,
        an_outcome_is_shown_in_place,
    },
    inbound::{
        a_channel_without_answers_never_ends_to_listen,
        nothing_is_acknowledged_before_it_is_taken,
        a_press_brings_back_its_value,
        what_a_person_changes_is_an_event_of_its_own,
    },
};

/// What the suite found.
#[derive(Debug)]
pub struct Report {
    /// Each check's name and how it ended.
    pub verdicts: Vec<(&'static str, Verdict)>,
}

impl Report {
    /// Panics, naming what was broken, unless every promise was kept.
    pub fn assert(&self) {
        assert!(self.broken().is_empty(), "promises are broken:\n{self}");
    }

    /// Names of the promises that were broken.
    #[must_use]
    pub fn broken(&self) -> Vec<&'static str> {
        self.named(|verdict| matches!(verdict, Verdict::Broken(_)))
    }

    /// Names of the promises that this network cannot break.
    #[must_use]
    pub fn not_applicable(&self) -> Vec<&'static str> {
        self.named(|verdict| *verdict == Verdict::NotApplicable)
    }

    fn named(&self, is_meant: impl Fn(&Verdict) -> bool) -> Vec<&'static str> {
        self.verdicts.iter().filter(|(_, verdict)| is_meant(verdict)).map(|(name, _)| *name).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, verdict) in &self.verdicts {
            match verdict {
                Verdict::Kept => writeln!(formatter, "kept    {name}")?,
                Verdict::NotApplicable => writeln!(formatter, "-       {name}")?,
                Verdict::Broken(why) => writeln!(formatter, "BROKEN  {name}: {why}")?,
            }
        }
        Ok(())
    }
}

/// Runs all checks, each on a fixture of its own.
pub async fn run<F>(make: F) -> Report
where
    F: Fn() -> BoxFuture<'static, Box<dyn Fixture>> + Send + Sync,
{
    run_some(CHECKS, make).await
}

/// Runs some checks, each on a fixture of its own.
pub async fn run_some<F>(checks: &[Check], make: F) -> Report
where
    F: Fn() -> BoxFuture<'static, Box<dyn Fixture>> + Send + Sync,
{
    let verdicts = checks.iter().map(|check| async {
        let trial = Trial::new(make().await);
        let verdict = match tokio::time::timeout(CHECK_TIMEOUT, (check.run)(trial)).await {
            Ok(Ok(verdict)) => verdict,
            Ok(Err(why)) => Verdict::Broken(why),
            Err(_) => Verdict::Broken(format!("it took longer than {} s", CHECK_TIMEOUT.as_secs())),
        };
        (check.name, verdict)
    });
    Report { verdicts: join_all(verdicts).await }
}
