//! What the end of a request means. Any 2xx confirms, as the standard says. A refusal is one only when it is certain that the message was
//! not taken: a 500 may come after it was, and is therefore unknown; since receivers drop repeats by `webhook-id`
//! ([`Dedup::ById`](switchboard_core::port::channel::Dedup::ById)), the outbox tries again.

use crate::guard::Refused;
use crate::handle;
use crate::retry_after;
use reqwest::header::HeaderMap;
use serde::Deserialize;
use std::error::Error;
use switchboard_core::port::channel::{FailureClass, NotSent, Performed};
use switchboard_core::time::WallMs;

/// What an answer of this status means.
#[must_use]
pub fn outcome(status: u16, headers: &HeaderMap, body: &[u8], now_ms: WallMs) -> Performed {
    let wait = || retry_after::of_answer(headers, body, now_ms);
    let not_sent = |class, reason: &str, retry_after_ms| {
        let (code, reason) = (Some(status.to_string()), format!("the target answered {status}: {reason}"));
        Performed::NotSent(NotSent {
            code,
            retry_after_ms,
            account_wide: true, // one target, one account
            ..NotSent::new(class, reason)
        })
    };
    match status {
        200..=299 => Performed::Sent { message_id: message_id(body) },
        300..=399 => {
            not_sent(FailureClass::Permanent, "redirects are not followed; name the new target", None)
        }
        401 | 403 => not_sent(FailureClass::Misconfigured, "it does not accept our signature", None),
        410 => not_sent(FailureClass::BadAddress, "it does not want messages any more", None),
        429 => not_sent(FailureClass::Throttled, "it asks to slow down", wait()),
        503 => match wait() {
            Some(wait) => not_sent(FailureClass::Throttled, "it asks to wait", Some(wait)),
            None => not_sent(FailureClass::Transient, "it is not available", None),
        },
        408 | 425 => not_sent(FailureClass::Transient, "it has not taken the message yet", wait()),
        400..=499 | 501 | 505 => not_sent(FailureClass::Permanent, "it refuses the message", None),
        _ => Performed::Unknown {
            reason: format!("the target answered {status}; it may have taken the message before it failed"),
        },
    }
}

/// What it means that there was no answer. Until the connection stands nothing has been said; after that nobody knows.
#[must_use]
pub fn failure(error: &reqwest::Error) -> Performed {
    if let Some(refused) = cause::<Refused>(error) {
        return Performed::NotSent(NotSent::new(FailureClass::Misconfigured, refused.to_string()));
    }
    if error.is_builder() {
        let reason = "the request cannot be made of target and headers";
        return Performed::NotSent(NotSent::new(FailureClass::Misconfigured, reason));
    }
    let what = what(error);
    if error.is_connect() {
        let reason = format!("no connection to the target: {what}");
        return Performed::NotSent(NotSent::new(FailureClass::Transient, reason));
    }
    Performed::Unknown { reason: format!("the connection ended before the target had answered: {what}") }
}

/// The innermost cause. The outer ones name the URL, which may hold a secret.
fn what(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "time ran out".into();
    }
    let mut inner: &dyn Error = match error.source() {
        Some(source) => source,
        None => return "no cause is known".into(),
    };
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

fn cause<'a, T: Error + 'static>(error: &'a reqwest::Error) -> Option<&'a T> {
    let mut next: Option<&'a (dyn Error + 'static)> = error.source();
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<T>() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// The receiver's own id for the message, if its answer is an object with a sound `id`.
fn message_id(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Taken {
        id: String,
    }
    let id = serde_json::from_slice::<Taken>(body).ok()?.id;
    handle::is_id(&id).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, headers: &[(&'static str, &'static str)], body: &str) -> Performed {
        let headers = headers.iter().map(|&(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        outcome(status, &headers.collect(), body.as_bytes(), 0)
    }

    #[test]
    fn each_status_has_its_meaning() {
        use FailureClass::{BadAddress, Misconfigured, Permanent, Throttled, Transient};
        let table = [
            (Permanent, vec![300, 301, 302, 307, 308, 400, 404, 405, 413, 415, 422, 501, 505]),
            (Misconfigured, vec![401, 403]),
            (BadAddress, vec![410]),
            (Throttled, vec![429]),
            (Transient, vec![408, 425, 503]),
        ];
        for (class, statuses) in table {
            for status in statuses {
                let Performed::NotSent(not_sent) = of(status, &[], "") else {
                    panic!("{status} is not refused")
                };
                assert_eq!((not_sent.class, not_sent.code), (class, Some(status.to_string())), "{status}");
            }
        }
        for status in [200, 201, 202, 204, 299] {
            assert_eq!(of(status, &[], "<html>"), Performed::Sent { message_id: None }, "{status}");
        }
        for status in [500, 502, 504, 507, 599, 100, 999] {
            assert!(matches!(of(status, &[], ""), Performed::Unknown { .. }), "{status}");
        }
    }

    #[test]
    fn waits_are_taken_over() {
        for (status, body) in [(429, ""), (503, ""), (429, r#"{"retry_after":1}"#)] {
            let Performed::NotSent(not_sent) = of(status, &[("retry-after", "2.5")], body) else { panic!() };
            assert_eq!((not_sent.class, not_sent.retry_after_ms), (FailureClass::Throttled, Some(2_500)));
        }
    }

    #[test]
    fn an_id_is_taken_when_it_is_sound() {
        let id = |body: &str| match of(200, &[], body) {
            Performed::Sent { message_id } => message_id,
            other => panic!("{other:?}"),
        };
        assert_eq!(id(r#"{"id":"m1","more":[1]}"#), Some("m1".into()));
        let long = format!(r#"{{"id":"{}"}}"#, "x".repeat(256));
        for body in [
            "",
            "{}",
            r#"{"id":1}"#,
            r#"{"id":""}"#,
            r#"{"id":"a\nb"}"#,
            r#"{"id":"a b"}"#,
            r#"{"id":"m1""#,
            &long,
        ] {
            assert_eq!(id(body), None, "{body}");
        }
    }
}
