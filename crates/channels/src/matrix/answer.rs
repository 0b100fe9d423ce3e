//! What the end of a request means. A refusal is one only when it is certain that the server did not take the request: a 500 may come after
//! it was taken, and is therefore unsure; since the server drops repeats by the transaction's id, the outbox tries again.

use crate::retry_after;
use reqwest::header::HeaderMap;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::error::Error;
use switchboard_core::port::channel::{FailureClass, NotSent, Performed};
use switchboard_core::time::WallMs;

/// The server does not know, or does not show, what was asked for.
pub(super) const NOT_FOUND: &str = "M_NOT_FOUND";
/// We may not.
pub(super) const FORBIDDEN: &str = "M_FORBIDDEN";
/// The alias of a new room is taken.
pub(super) const ROOM_IN_USE: &str = "M_ROOM_IN_USE";

/// Why a request has no answer that could be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is certain that the server did not take it.
    Refused(NotSent),
    /// It may have taken it.
    Unsure(String),
}

impl Fault {
    /// What it means for a message that was sent by the request.
    pub fn performed(self) -> Performed {
        match self {
            Self::Refused(why) => Performed::NotSent(why),
            Self::Unsure(reason) => Performed::Unknown { reason },
        }
    }

    /// What it means for a message that was to be sent after the request.
    pub fn nobody_reached(self) -> NotSent {
        match self {
            Self::Refused(why) => why,
            Self::Unsure(reason) => NotSent::new(FailureClass::Transient, reason),
        }
    }

    /// For people.
    pub fn reason(&self) -> &str {
        match self {
            Self::Refused(why) => &why.reason,
            Self::Unsure(reason) => reason,
        }
    }

    /// The same without a secret that it might repeat.
    pub fn without(self, secret: &str) -> Self {
        let clean =
            |reason: String| if secret.is_empty() { reason } else { reason.replace(secret, "[token]") };
        match self {
            Self::Refused(why) => Self::Refused(NotSent { reason: clean(why.reason), ..why }),
            Self::Unsure(reason) => Self::Unsure(clean(reason)),
        }
    }

    /// Whether the server refused with this code of its own.
    pub fn is(&self, code: &str) -> bool {
        matches!(self, Self::Refused(why) if why.code.as_deref() == Some(code))
    }

    /// Whether the same request will always be refused.
    pub fn is_final(&self) -> bool {
        use FailureClass::{BadAddress, Permanent};
        matches!(self, Self::Refused(why) if matches!(why.class, Permanent | BadAddress))
    }
}

/// An error as the specification has it; whatever is missing is empty.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ErrorBody {
    errcode: String,
    error: String,
    soft_logout: bool,
}

/// The answer that was asked for, or why there is none.
pub(super) fn read<T: DeserializeOwned>(
    status: u16,
    headers: &HeaderMap,
    body: &[u8],
    now_ms: WallMs,
) -> Result<T, Fault> {
    if (200..300).contains(&status) {
        return serde_json::from_slice(body).map_err(|error| {
            Fault::Unsure(format!("the homeserver confirmed with something that cannot be read ({error})"))
        });
    }
    Err(refusal(status, headers, body, now_ms))
}

fn refusal(status: u16, headers: &HeaderMap, body: &[u8], now_ms: WallMs) -> Fault {
    let said: ErrorBody = serde_json::from_slice(body).unwrap_or_default();
    let wait = || retry_after::of_answer(headers, body, now_ms);
    let Some((class, remedy)) = class_of(status, &said) else {
        let reason =
            format!("the homeserver answered {status}; it may have taken the request before it failed");
        return Fault::Unsure(reason);
    };
    let retry_after_ms = if status == 429 || status == 503 { wait() } else { None };
    let class = if status == 503 && retry_after_ms.is_some() { FailureClass::Throttled } else { class };
    let code = if is_code(&said.errcode) { said.errcode.clone() } else { status.to_string() };
    let quoted = quoted(&said.error);
    let reason = format!("the homeserver refuses ({code}{quoted}): {remedy}");
    // Limits are an account's; so is everything that a wait is asked for.
    Fault::Refused(NotSent {
        code: Some(code),
        retry_after_ms,
        account_wide: true,
        ..NotSent::new(class, reason)
    })
}

/// What a refusal means, and what to do; `None` when it may be none.
fn class_of(status: u16, said: &ErrorBody) -> Option<(FailureClass, &'static str)> {
    use FailureClass::{Misconfigured, Permanent, Throttled, Transient};
    Some(match (status, said.errcode.as_str()) {
        (429, _) => (Throttled, "it asks to slow down"),
        (_, "M_UNKNOWN_TOKEN") if said.soft_logout => (
            Misconfigured,
            "the session was ended softly; sign in again as the same device and set the new access token",
        ),
        (_, "M_UNKNOWN_TOKEN" | "M_MISSING_TOKEN") => {
            (Misconfigured, "the access token is not valid any more; sign in again and set the new one")
        }
        (401, _) => (Misconfigured, "it does not accept our access token"),
        (
            _,
            "M_USER_DEACTIVATED"
            | "M_USER_LOCKED"
            | "M_USER_SUSPENDED"
            | "M_CONSENT_NOT_GIVEN"
            | "M_GUEST_ACCESS_FORBIDDEN",
        ) => (Misconfigured, "the account may not write; ask the homeserver's administrator"),
        (_, FORBIDDEN) => (
            Permanent,
            "the account is not in the room or may not write there; invite it, or raise its power level",
        ),
        (_, "M_TOO_LARGE") | (413, _) => {
            (Permanent, "the message is too long for the homeserver; shorten it")
        }
        (_, NOT_FOUND) => (Permanent, "there is no such room"),
        (404 | 405, _) => (Misconfigured, "it is not a Matrix homeserver, or too old; check homeserver"),
        (300..=399, _) => (Misconfigured, "redirects are not followed; set homeserver to where it leads"),
        (503, _) => (Transient, "it is not available"),
        (408 | 425, _) => (Transient, "it has not taken the request yet"),
        (400..=499, _) => (Permanent, "it does not take the request"),
        _ => return None,
    })
}

fn is_code(code: &str) -> bool {
    matches!(code.len(), 1..=64)
        && code.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.'))
}

/// The server's own words, bounded.
fn quoted(error: &str) -> String {
    let line: String = crate::document::clean_line(error).chars().take(200).collect();
    if line.is_empty() { String::new() } else { format!(": {line}") }
}

/// What it means that there was no answer. Until the connection stands nothing has been said; after that nobody knows.
pub(super) fn failure(error: &reqwest::Error) -> Fault {
    let what = what(error);
    if error.is_builder() {
        let reason = "the request cannot be made of homeserver and access token; check both";
        return Fault::Refused(NotSent::new(FailureClass::Misconfigured, reason));
    }
    if error.is_connect() {
        let reason = format!("no connection to the homeserver: {what}");
        return Fault::Refused(NotSent::new(FailureClass::Transient, reason));
    }
    Fault::Unsure(format!("the connection ended before the homeserver had answered: {what}"))
}

/// The innermost cause; the outer ones name the URL.
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn of(status: u16, headers: &[(&'static str, &'static str)], body: &str) -> Fault {
        let headers = headers.iter().map(|&(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        read::<Value>(status, &headers.collect(), body.as_bytes(), 0).unwrap_err()
    }

    #[test]
    fn each_code_has_its_class() {
        use FailureClass::{Misconfigured, Permanent, Throttled, Transient};
        for (status, code, class) in [
            (401, "M_UNKNOWN_TOKEN", Misconfigured),
            (401, "M_MISSING_TOKEN", Misconfigured),
            (403, "M_FORBIDDEN", Permanent),
            (403, "M_USER_DEACTIVATED", Misconfigured),
            (404, "M_NOT_FOUND", Permanent),
            (404, "M_UNRECOGNIZED", Misconfigured),
            (413, "M_TOO_LARGE", Permanent),
            (400, "M_BAD_JSON", Permanent),
            (429, "M_LIMIT_EXCEEDED", Throttled),
            (302, "", Misconfigured),
            (503, "", Transient),
        ] {
            let body = format!(r#"{{"errcode":"{code}","error":"why"}}"#);
            let Fault::Refused(why) = of(status, &[], &body) else { panic!("{status} {code}") };
            assert_eq!(why.class, class, "{status} {code}");
            assert!(code.is_empty() || why.code.as_deref() == Some(code));
        }
        for status in [500, 502, 504, 520, 100] {
            assert!(matches!(of(status, &[], r#"{"errcode":"M_UNKNOWN"}"#), Fault::Unsure(_)), "{status}");
        }
        let Fault::Refused(soft) = of(401, &[], r#"{"errcode":"M_UNKNOWN_TOKEN","soft_logout":true}"#) else {
            panic!()
        };
        assert!(soft.reason.contains("softly"));
    }

    #[test]
    fn waits_are_read_in_every_form() {
        for (headers, body, wait) in [
            (&[][..], r#"{"errcode":"M_LIMIT_EXCEEDED","retry_after_ms":1290}"#, 1290),
            (&[("retry-after", "7")], r#"{"errcode":"M_LIMIT_EXCEEDED"}"#, 7000),
            (&[("retry-after", "2")], r#"{"retry_after_ms":2500}"#, 2500),
        ] {
            let Fault::Refused(why) = of(429, headers, body) else { panic!() };
            assert_eq!(
                (why.class, why.retry_after_ms, why.account_wide),
                (FailureClass::Throttled, Some(wait), true)
            );
        }
    }

    #[test]
    fn the_servers_words_are_bounded_and_clean() {
        let body = format!(r#"{{"errcode":"a b","error":"x\n\u202e{}"}}"#, "y".repeat(5000));
        let Fault::Refused(why) = of(400, &[], &body) else { panic!() };
        assert!(
            why.reason.len() < 400
                && !why.reason.contains(['\n', '\u{202e}'])
                && why.code == Some("400".into())
        );
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_unsure() {
        let answer = read::<Value>(200, &HeaderMap::new(), b"<html>", 0);
        assert!(matches!(answer, Err(Fault::Unsure(_))));
    }
}
