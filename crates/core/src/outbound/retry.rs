//! What follows a failed attempt: a pure decision, so that the outbox is the one owner of every retry.

use crate::port::channel::{FailureClass, NotSent};
use crate::time::{HOUR_MS, MINUTE_MS, SECOND_MS, WallMs};

/// Attempts that count, of one part.
pub const FAILS_MAX: u32 = 8;
/// How long one part is tried at most.
pub const TRY_FOR_MS: WallMs = 24 * HOUR_MS;
/// Longest pause between two attempts that a service did not ask for.
const PAUSE_MS_MAX: WallMs = 15 * MINUTE_MS;

/// What a part has been through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Past {
    /// Attempts that failed and counted, this one not included.
    pub fails: u32,
    /// Since when it could have left: when the message was accepted, or when its channel came to work after that.
    pub since_ms: WallMs,
    /// When it is void.
    pub deadline_ms: Option<WallMs>,
    /// Whether something has gone through on the channel since it last refused us.
    pub channel_works: bool,
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Another attempt, not before then.
    Retry {
        /// When.
        at_ms: WallMs,
        /// Whether the failure counts as one of [`FAILS_MAX`].
        counts: bool,
    },
    /// No more: it is dead.
    Dead,
    /// No more: it would come too late.
    Expired,
}

/// Decides. `jitter` is anything from 0 to 255, fresh for each decision.
///
/// Wrong credentials are no message's fault: what meets them stays due, and the channel's breaker says when one is tried again. Where
/// others go through, it is this message that is not taken, and the failure counts like any other.
#[must_use]
pub fn after(failure: &NotSent, past: Past, now_ms: WallMs, jitter: u8) -> Next {
    match failure.class {
        FailureClass::Permanent | FailureClass::BadAddress => return Next::Dead,
        FailureClass::Misconfigured if !past.channel_works => {
            let over = past.deadline_ms.is_some_and(|deadline| now_ms >= deadline);
            return if over { Next::Expired } else { Next::Retry { at_ms: now_ms, counts: false } };
        }
        _ => {}
    }
    let counts = failure.class != FailureClass::Throttled;
    if counts && past.fails + 1 >= FAILS_MAX {
        return Next::Dead;
    }
    let asked = failure.retry_after_ms.map(|ms| WallMs::try_from(ms).unwrap_or(WallMs::MAX / 4));
    // Never sooner than asked: what is random comes on top.
    let pause = asked.map_or_else(|| backoff(past.fails), |ms| ms.max(1));
    let jittered = pause.saturating_add(pause.min(10 * MINUTE_MS) / 4 * WallMs::from(jitter) / 255);
    let at_ms = now_ms.saturating_add(jittered);
    if past.deadline_ms.is_some_and(|deadline| at_ms >= deadline) {
        return Next::Expired;
    }
    if at_ms.saturating_sub(past.since_ms) > TRY_FOR_MS {
        return Next::Dead;
    }
    Next::Retry { at_ms, counts }
}

fn backoff(fails: u32) -> WallMs {
    (SECOND_MS << fails.min(16)).min(PAUSE_MS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAST: Past = Past { fails: 0, since_ms: 0, deadline_ms: None, channel_works: false };

    fn failed(class: FailureClass, retry_after_ms: Option<u64>) -> NotSent {
        NotSent { retry_after_ms, ..NotSent::new(class, "no") }
    }

    #[test]
    fn what_will_never_pass_is_dead_at_once() {
        for class in [FailureClass::Permanent, FailureClass::BadAddress] {
            assert_eq!(after(&failed(class, Some(5)), PAST, 10, 0), Next::Dead);
        }
    }

    #[test]
    fn what_meets_wrong_credentials_waits_for_its_channel() {
        let failure = failed(FailureClass::Misconfigured, None);
        let old = Past { fails: FAILS_MAX + 1, ..PAST };
        let now_ms = 9 * TRY_FOR_MS;
        for past in [PAST, old, Past { deadline_ms: Some(now_ms + 1), ..PAST }] {
            assert_eq!(after(&failure, past, now_ms, 255), Next::Retry { at_ms: now_ms, counts: false });
        }
        let late = Past { deadline_ms: Some(now_ms), ..PAST };
        assert_eq!(after(&failure, late, now_ms, 0), Next::Expired);
        // Where others go through, it is about this message.
        let works = Past { channel_works: true, ..PAST };
        assert!(matches!(after(&failure, works, 10, 0), Next::Retry { at_ms: 1010.., counts: true }));
        let often = Past { fails: FAILS_MAX - 1, ..works };
        assert_eq!(after(&failure, often, 10, 0), Next::Dead);
    }

    #[test]
    fn pauses_grow_and_the_attempts_end() {
        let failure = failed(FailureClass::Transient, None);
        let mut last = 0;
        for fails in 0..FAILS_MAX - 1 {
            match after(&failure, Past { fails, ..PAST }, 0, 255) {
                Next::Retry { at_ms, counts: true } => {
                    assert!(at_ms > last && at_ms >= SECOND_MS << fails);
                    last = at_ms;
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(after(&failure, Past { fails: FAILS_MAX - 1, ..PAST }, 0, 0), Next::Dead);
    }

    #[test]
    fn never_sooner_than_the_service_asked_and_never_held_beyond_the_deadline() {
        let failure = failed(FailureClass::Throttled, Some(7000));
        for jitter in [0, 100, 255] {
            let Next::Retry { at_ms, counts: false } = after(&failure, PAST, 50, jitter) else { panic!() };
            assert!((7050..=7050 + 7000 / 4).contains(&at_ms), "{at_ms}");
        }
        let due = Past { deadline_ms: Some(7000), ..PAST };
        assert_eq!(after(&failure, due, 50, 0), Next::Expired);
        assert_eq!(after(&failed(FailureClass::Throttled, Some(u64::MAX)), PAST, 50, 0), Next::Dead);
        let many = Past { fails: FAILS_MAX + 5, ..PAST };
        assert!(
            matches!(after(&failure, many, 50, 0), Next::Retry { .. }),
            "waiting on request is no failure"
        );
    }
}
