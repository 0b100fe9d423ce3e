//! What an attempt says of how it ended, held against what the stand-in really did.

use super::trial::{Trial, cleared, ensure, notice};
use super::{Behaviour, Verdict, Wait};
use futures_util::future::{Either, join_all, select};
use std::pin::pin;
use switchboard_core::port::channel::{Amendment, Button, Draft, FailureClass, NotSent, Performed};

type Outcome = Result<Verdict, String>;

/// Attempts made at a time.
const AT_A_TIME: usize = 8;

fn is_unknown(performed: &Performed) -> bool {
    matches!(performed, Performed::Unknown { reason } if !reason.trim().is_empty())
}

fn is_sent(performed: &Performed) -> bool {
    matches!(performed, Performed::Sent { .. })
}

fn refused(performed: &Performed) -> Option<&NotSent> {
    match performed {
        Performed::NotSent(not_sent) if !not_sent.reason.trim().is_empty() => Some(not_sent),
        _ => None,
    }
}

/// Under `behaviour` the outcome is one that `is_right` for; so much is accepted.
async fn expect(
    trial: &Trial,
    behaviour: Behaviour,
    accepted: usize,
    is_right: impl Fn(&Performed) -> bool,
) -> Outcome {
    let Some((attempt, performed)) = trial.under(behaviour).await? else { return Ok(Verdict::NotApplicable) };
    ensure(is_right(&performed), || format!("under {behaviour:?} it says {performed:?}"))?;
    let found = trial.accepted_of(&attempt).len();
    ensure(found == accepted, || format!("under {behaviour:?} {found} were accepted instead of {accepted}"))?;
    Ok(Verdict::Kept)
}

pub(super) async fn what_is_accepted_is_sent_once(trial: Trial) -> Outcome {
    for behaviour in [Behaviour::Accept, Behaviour::AcceptSlowly, Behaviour::AcceptTwice, Behaviour::Accept] {
        expect(&trial, behaviour, 1, is_sent).await?;
    }
    Ok(Verdict::Kept)
}

pub(super) async fn silence_after_accepting_is_unknown(trial: Trial) -> Outcome {
    expect(&trial, Behaviour::AcceptThenSilence, 1, is_unknown).await
}

pub(super) async fn a_cut_after_accepting_is_unknown(trial: Trial) -> Outcome {
    expect(&trial, Behaviour::AcceptThenReset, 1, is_unknown).await
}

pub(super) async fn an_answer_that_is_none_is_unknown(trial: Trial) -> Outcome {
    expect(&trial, Behaviour::AcceptThenGarbage, 1, is_unknown).await
}

pub(super) async fn a_confirmation_cut_short_is_unknown(trial: Trial) -> Outcome {
    expect(&trial, Behaviour::AcceptThenTruncate, 1, is_unknown).await
}

pub(super) async fn a_failure_after_accepting_is_not_a_refusal(trial: Trial) -> Outcome {
    expect(&trial, Behaviour::AcceptThenFail, 1, |performed| refused(performed).is_none()).await
}

pub(super) async fn a_cut_before_accepting_is_not_sent_or_unknown(trial: Trial) -> Outcome {
    expect(&trial, Behaviour::Reset, 0, |performed| !is_sent(performed)).await
}

pub(super) async fn a_refusal_is_not_sent(trial: Trial) -> Outcome {
    let is_final = |class| {
        use FailureClass::{BadAddress, Misconfigured, Permanent};
        matches!(class, Permanent | BadAddress | Misconfigured)
    };
    expect(&trial, Behaviour::Refuse, 0, |performed| {
        refused(performed).is_some_and(|why| is_final(why.class))
    })
    .await
}

pub(super) async fn a_busy_network_is_tried_again(trial: Trial) -> Outcome {
    use FailureClass::{Throttled, Transient};
    let may_pass = |class| matches!(class, Transient | Throttled);
    expect(&trial, Behaviour::Busy, 0, |performed| refused(performed).is_some_and(|why| may_pass(why.class)))
        .await
}

pub(super) async fn an_unreachable_network_is_not_sent(trial: Trial) -> Outcome {
    expect(&trial, Behaviour::Unreachable, 0, |performed| {
        refused(performed).is_some_and(|why| why.class != FailureClass::Permanent)
    })
    .await
}

pub(super) async fn waits_are_as_long_as_was_asked(trial: Trial) -> Outcome {
    let waits = [
        Wait::Seconds(7),
        Wait::Fraction(503),
        Wait::Date(60),
        Wait::Several(3, 9),
        Wait::Body(1290),
        Wait::Garbage,
    ];
    let mut verdict = Verdict::NotApplicable;
    for wait in waits {
        let is_right = |performed: &Performed| {
            let Some(why) = refused(performed) else { return false };
            why.retry_after_ms >= wait.asked_ms()
                && (why.class == FailureClass::Throttled || wait == Wait::Garbage)
        };
        if expect(&trial, Behaviour::Throttle(wait), 0, is_right).await? == Verdict::Kept {
            verdict = Verdict::Kept;
        }
    }
    Ok(verdict)
}

/// After each kind of end, another attempt is made: by then a channel that tries again by itself would have been seen.
pub(super) async fn one_attempt_is_one_contact(trial: Trial) -> Outcome {
    let ends = [
        Behaviour::Accept,
        Behaviour::AcceptTwice,
        Behaviour::AcceptThenReset,
        Behaviour::AcceptThenGarbage,
        Behaviour::AcceptThenTruncate,
        Behaviour::AcceptThenFail,
        Behaviour::Reset,
        Behaviour::Refuse,
        Behaviour::Busy,
        Behaviour::Throttle(Wait::Fraction(1)),
        Behaviour::AcceptThenSilence,
    ];
    for behaviour in ends {
        let before = trial.fixture.contacts();
        if trial.under(behaviour).await?.is_none() {
            continue;
        }
        let (_, last) = trial.under(Behaviour::Accept).await?.ok_or("the stand-in cannot accept")?;
        let contacts = trial.fixture.contacts() - before;
        ensure(contacts == 2 && is_sent(&last), || {
            format!("after {behaviour:?}, two attempts made {contacts} contacts; the last says {last:?}")
        })?;
    }
    Ok(Verdict::Kept)
}

pub(super) async fn the_same_delivery_has_the_same_bytes(trial: Trial) -> Outcome {
    let mut attempt = trial.attempt("one text, é and 🦀")?;
    for number in 1..=3 {
        attempt.attempt = number;
        if number < 3 && !trial.fixture.script(Behaviour::AcceptThenFail) {
            trial.fixture.script(Behaviour::Accept);
        }
        trial.perform(&attempt).await;
    }
    let accepted = trial.accepted_of(&attempt);
    ensure(accepted.len() == 3, || format!("{} of three attempts were accepted", accepted.len()))?;
    ensure(accepted.windows(2).all(|pair| pair[0].bytes == pair[1].bytes), || {
        "attempts of one delivery were sent with different bytes".to_owned()
    })?;
    Ok(Verdict::Kept)
}

pub(super) async fn dropping_an_attempt_harms_no_other(trial: Trial) -> Outcome {
    if !trial.fixture.script(Behaviour::AcceptThenSilence) {
        return Ok(Verdict::NotApplicable);
    }
    let attempt = trial.attempt("dropped")?;
    {
        let channel = trial.channel();
        let performing = pin!(channel.perform(cleared(&attempt)));
        let accepted = pin!(trial.fixture.until_accepted(1));
        if let Either::Left((performed, _)) = select(performing, accepted).await {
            return Err(format!("it ended before the stand-in had fallen silent: {performed:?}"));
        }
    }
    what_is_accepted_is_sent_once(trial).await
}

pub(super) async fn attempts_at_a_time_are_kept_apart(trial: Trial) -> Outcome {
    for _ in 0..AT_A_TIME {
        if !trial.fixture.script(Behaviour::AcceptTogether(AT_A_TIME)) {
            trial.fixture.script(Behaviour::Accept);
        }
    }
    let attempts = (0..AT_A_TIME).map(|number| trial.attempt(&format!("text number {number}")));
    let attempts = attempts.collect::<Result<Vec<_>, _>>()?;
    let performed = join_all(attempts.iter().map(|attempt| trial.perform(attempt))).await;
    for (attempt, performed) in attempts.iter().zip(performed) {
        let accepted = trial.accepted_of(attempt);
        let [accepted] = accepted.as_slice() else {
            return Err(format!("{} of {} were accepted", accepted.len(), attempt.delivery));
        };
        let expected = trial.fixture.text_of(&attempt.part);
        ensure(accepted.text == expected, || {
            format!("{} arrived as {:?} instead of {expected:?}", attempt.delivery, accepted.text)
        })?;
        let Performed::Sent { message_id } = performed else {
            return Err(format!("accepted, but {performed:?}"));
        };
        ensure(accepted.message_id.is_none() || message_id == accepted.message_id, || {
            format!("{} got the id {message_id:?} instead of {:?}", attempt.delivery, accepted.message_id)
        })?;
    }
    Ok(Verdict::Kept)
}

/// Twice, since the hub may not learn of the first time.
pub(super) async fn an_outcome_is_shown_in_place(trial: Trial) -> Outcome {
    let channel = trial.channel();
    let can = channel.capabilities();
    if !can.edits {
        return Ok(Verdict::NotApplicable);
    }
    let buttons = [("Yes", "SB-K7QD3M.1"), ("No", "SB-K7QD3M.2")];
    let buttons = buttons.map(|(label, value)| Button { label: label.into(), value: value.into() });
    let draft = Draft { buttons: &buttons[..can.buttons_max.min(2)], ..notice("Deploy now?") };
    let part = channel.prepare(&draft)?.pop().ok_or("a message has no part")?;
    let attempt = trial.attempt_of(part)?;
    let Performed::Sent { message_id: Some(message_id) } = trial.perform(&attempt).await else {
        return Err("a message that can be changed has no id".into());
    };
    let before = trial.fixture.shown(&message_id).ok_or("the fixture does not show the message")?;
    ensure(before.buttons == draft.buttons.len(), || format!("{} buttons were sent", before.buttons))?;
    let mut shown = None;
    for _ in 0..2 {
        let amendment = Amendment {
            delivery: attempt.delivery.clone(),
            to: attempt.to.clone(),
            message_id: message_id.clone(),
            part: attempt.part.clone(),
            outcome: "Ada <b>has</b> _answered_: yes & no".into(),
        };
        let performed = channel.amend(amendment).await;
        ensure(is_sent(&performed), || format!("changing it ended with {performed:?}"))?;
        let now = trial.fixture.shown(&message_id).ok_or("the message is gone")?;
        ensure(now.buttons == 0, || "its buttons are still there".to_owned())?;
        ensure(now.text.contains("Deploy now?"), || format!("its text has become {:?}", now.text))?;
        ensure(now.text.contains("Ada <b>has</b> _answered_: yes & no"), || {
            format!("the outcome reads {:?}", now.text)
        })?;
        ensure(shown.as_ref().is_none_or(|shown| *shown == now), || {
            "the second time left something else than the first".to_owned()
        })?;
        shown = Some(now);
    }
    Ok(Verdict::Kept)
}
