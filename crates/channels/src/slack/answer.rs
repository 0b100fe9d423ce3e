//! What Slack's answers mean (<https://docs.slack.dev/reference/methods/chat.postMessage#errors>). Slack says no with `"ok": false` and a
//! code in an answer of status 200; only that it asks to slow down is a status of its own.
//!
//! `fatal_error` and `internal_error` are no refusals: Slack says that a part of the operation may have succeeded before them.

use crate::retry_after;
use reqwest::header::HeaderMap;
use serde_json::Value;
use std::error::Error;
use switchboard_core::port::channel::{FailureClass, NotSent, Performed};
use switchboard_core::time::WallMs;

use FailureClass::{BadAddress, Misconfigured, Permanent, Throttled, Transient};

/// Codes, what they mean for the next try, and what it is about or how it is mended.
const CODES: &[(&str, FailureClass, &str)] = &[
    ("invalid_auth", Misconfigured, "the token is wrong: copy it anew from the app's settings"),
    ("not_authed", Misconfigured, "the token is missing"),
    ("token_revoked", Misconfigured, "the token was revoked: install the app anew and copy its token"),
    ("token_expired", Misconfigured, "the token has expired: turn token rotation off, or copy a new one"),
    ("account_inactive", Misconfigured, "the app was removed from the workspace: install it anew"),
    (
        "not_allowed_token_type",
        Misconfigured,
        "it is a token of another kind: token begins with xoxb-, app_token with xapp-",
    ),
    ("missing_scope", Misconfigured, "the app lacks a scope: add those of the guide, and install it anew"),
    ("no_permission", Permanent, "the app may not post there"),
    ("access_denied", Permanent, "the app may not post there"),
    ("accesslimited", Misconfigured, "the workspace does not let the app in from this network"),
    ("ekm_access_denied", Misconfigured, "administrators have suspended the posting of messages"),
    ("enterprise_is_restricted", Misconfigured, "the app has to be installed in a workspace"),
    ("two_factor_setup_required", Misconfigured, "the workspace wants two-factor authentication set up"),
    ("restricted_action", Permanent, "a setting does not let the app post there"),
    ("messages_tab_disabled", Misconfigured, "turn the Messages Tab on, in `App Home` of the app's settings"),
    ("method_deprecated", Misconfigured, "this version of Switchboard is too old for Slack"),
    ("deprecated_endpoint", Misconfigured, "this version of Switchboard is too old for Slack"),
    (
        "channel_not_found",
        BadAddress,
        "there is no such conversation, or the app was not invited to it: /invite it there",
    ),
    ("user_not_found", BadAddress, "there is no such person in this workspace"),
    ("user_not_visible", BadAddress, "the app cannot see this person"),
    ("user_disabled", BadAddress, "this person's account is deactivated"),
    ("users_not_found", BadAddress, "there is no such person in this workspace"),
    ("is_archived", BadAddress, "the channel is archived"),
    ("cannot_dm_bot", BadAddress, "this is an app and not a person"),
    ("not_in_channel", Permanent, "the app is not in the channel: /invite it there, then send again"),
    ("restricted_action_read_only_channel", Permanent, "only some may post in this channel"),
    ("restricted_action_thread_only_channel", Permanent, "only replies may be posted in this channel"),
    ("restricted_action_non_threadable_channel", Permanent, "no replies may be posted in this channel"),
    ("restricted_action_thread_locked", Permanent, "no replies may be posted in this thread"),
    ("msg_too_long", Permanent, "the message is too long"),
    ("msg_blocks_too_long", Permanent, "the message is too long"),
    ("message_not_found", Permanent, "the message is gone"),
    ("cant_update_message", Permanent, "the message is not ours to change"),
    (
        "edit_window_closed",
        Permanent,
        "the workspace does not let messages be changed any more after a while",
    ),
    ("ratelimited", Throttled, "it asks to slow down"),
    ("rate_limited", Throttled, "it asks to slow down"),
    ("message_limit_exceeded", Throttled, "the workspace posts too many messages"),
    ("service_unavailable", Transient, "it is not available"),
    ("request_timeout", Transient, "the request did not arrive whole"),
    ("team_added_to_org", Transient, "the workspace is being moved"),
    ("org_login_required", Transient, "the workspace is being moved"),
];

/// The answer as JSON if Slack did what it was asked to; else how the attempt ended.
pub(super) fn read(
    status: u16,
    headers: &HeaderMap,
    body: &[u8],
    now_ms: WallMs,
) -> Result<Value, Performed> {
    let wait = || retry_after::of_answer(headers, body, now_ms);
    if status == 429 {
        return Err(throttled("ratelimited", wait()));
    }
    let parsed: Option<Value> = serde_json::from_slice(body).ok();
    let Some(value) = parsed.filter(|value| value["ok"].is_boolean()) else { return Err(bare(status)) };
    if value["ok"] == true {
        return if (200..300).contains(&status) { Ok(value) } else { Err(bare(status)) };
    }
    let code: String =
        value["error"].as_str().unwrap_or("no_code").chars().filter(|c| is_code(*c)).take(64).collect();
    Err(refusal(&code, &value, wait()))
}

fn is_code(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn refusal(code: &str, value: &Value, wait: Option<u64>) -> Performed {
    if matches!(code, "fatal_error" | "internal_error") {
        let reason = format!("Slack answered {code}; it may have posted the message before it failed");
        return Performed::Unknown { reason };
    }
    let row = CODES.iter().find(|(known, _, _)| *known == code);
    let (class, what) = row.map_or((Permanent, "it refuses the message"), |(_, class, what)| (*class, *what));
    if class == Throttled {
        return throttled(code, wait);
    }
    let needed = value["needed"].as_str().filter(|_| code == "missing_scope");
    let needed: String =
        needed.unwrap_or_default().chars().filter(|c| is_code(*c) || ":,.-".contains(*c)).take(200).collect();
    let needed = if needed.is_empty() { needed } else { format!(" ({needed})") };
    not_sent(class, code, format!("Slack answered {code}{needed}: {what}"))
}

/// Slack counts calls by workspace and method: it is not this target alone that has to wait.
fn throttled(code: &str, retry_after_ms: Option<u64>) -> Performed {
    let what = CODES.iter().find(|(known, _, _)| *known == code).map_or("", |(_, _, what)| what);
    let why = NotSent::new(Throttled, format!("Slack answered {code}: {what}"));
    Performed::NotSent(NotSent { code: Some(code.to_owned()), retry_after_ms, account_wide: true, ..why })
}

fn not_sent(class: FailureClass, code: &str, reason: String) -> Performed {
    Performed::NotSent(NotSent { code: Some(code.to_owned()), ..NotSent::new(class, reason) })
}

/// An answer that is not one of Slack's API.
fn bare(status: u16) -> Performed {
    let refused =
        |class, what: &str| not_sent(class, &status.to_string(), format!("Slack answered {status}: {what}"));
    match status {
        300..=399 | 404 | 405 => refused(Misconfigured, "its API is not at this address"),
        401 | 403 | 407 => refused(Misconfigured, "it does not let us in"),
        408 | 425 => refused(Transient, "it has not taken the request"),
        413 | 414 | 431 => refused(Permanent, "the message is too long"),
        _ => Performed::Unknown {
            reason: format!("Slack answered {status} and nothing that confirms or refuses"),
        },
    }
}

/// What it means that there was no answer. Until the connection stands nothing has been said; after that nobody knows.
pub(super) fn failure(error: &reqwest::Error) -> Performed {
    let what = what(error);
    if error.is_builder() {
        let reason = "the request cannot be made of this token and address";
        return Performed::NotSent(NotSent::new(Misconfigured, reason));
    }
    if error.is_connect() {
        return Performed::NotSent(NotSent::new(Transient, format!("no connection to Slack: {what}")));
    }
    Performed::Unknown { reason: format!("the connection ended before Slack had answered: {what}") }
}

/// The innermost cause; the outer ones name the URL.
fn what(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "time ran out".into();
    }
    let mut inner: Option<&dyn Error> = error.source();
    while let Some(source) = inner.and_then(Error::source) {
        inner = Some(source);
    }
    inner.map_or_else(|| "no cause is known".into(), ToString::to_string)
}

/// How a call ended that posts nothing: whatever became of it, nobody was reached.
pub(super) fn nobody_reached(performed: Performed) -> Performed {
    match performed {
        Performed::Unknown { reason } => Performed::NotSent(NotSent::new(Transient, reason)),
        other => other,
    }
}

/// An end as a sentence for people.
pub(super) fn sentence(performed: Performed) -> String {
    match performed {
        Performed::Sent { .. } => "Slack has confirmed".into(),
        Performed::NotSent(why) => why.reason,
        Performed::Unknown { reason } => reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, body: &str) -> Performed {
        let headers = [(reqwest::header::RETRY_AFTER, "30".parse().unwrap())].into_iter().collect();
        match read(status, &headers, body.as_bytes(), 0) {
            Ok(_) => Performed::Sent { message_id: None },
            Err(performed) => performed,
        }
    }

    fn class(status: u16, body: &str) -> Option<FailureClass> {
        match of(status, body) {
            Performed::NotSent(why) => Some(why.class),
            _ => None,
        }
    }

    #[test]
    fn each_code_has_its_meaning_and_a_remedy() {
        for (code, expected, what) in CODES {
            let body = format!(r#"{{"ok":false,"error":"{code}"}}"#);
            let Performed::NotSent(why) = of(200, &body) else { panic!("{code}") };
            assert_eq!((why.class, why.code.as_deref()), (*expected, Some(*code)));
            assert!(why.reason.contains(what) && why.reason.contains(code));
            assert_eq!(why.retry_after_ms.is_some(), *expected == Throttled, "{code}");
        }
        for code in ["fatal_error", "internal_error"] {
            let body = format!(r#"{{"ok":false,"error":"{code}"}}"#);
            assert!(matches!(of(200, &body), Performed::Unknown { .. }), "{code}");
        }
        assert_eq!(class(200, r#"{"ok":false,"error":"brand_new"}"#), Some(Permanent));
        assert_eq!(class(200, r#"{"ok":false}"#), Some(Permanent));
    }

    #[test]
    fn a_missing_scope_is_named() {
        let body = r#"{"ok":false,"error":"missing_scope","needed":"im:write","provided":"chat:write"}"#;
        let Performed::NotSent(why) = of(200, body) else { panic!() };
        assert!(why.reason.contains("missing_scope (im:write):"), "{}", why.reason);
    }

    #[test]
    fn only_what_is_one_of_slacks_answers_confirms_or_refuses() {
        assert_eq!(of(200, r#"{"ok":true}"#), Performed::Sent { message_id: None });
        for (status, body) in [
            (200, ""),
            (200, "<html>"),
            (200, r#"{"ok":tr"#),
            (200, r#"{"ok":"true"}"#),
            (200, "[]"),
            (500, r#"{"ok":true}"#),
            (500, "oops"),
            (502, ""),
            (503, "busy"),
            (504, ""),
        ] {
            assert!(matches!(of(status, body), Performed::Unknown { .. }), "{status} {body}");
        }
        assert_eq!(class(503, r#"{"ok":false,"error":"service_unavailable"}"#), Some(Transient));
        assert_eq!(
            [302, 404, 401, 413].map(|status| class(status, "")),
            [Misconfigured, Misconfigured, Misconfigured, Permanent].map(Some)
        );
        let Performed::NotSent(why) = of(429, r#"{"ok":false,"error":"ratelimited"}"#) else { panic!() };
        assert_eq!((why.class, why.retry_after_ms, why.account_wide), (Throttled, Some(30_000), true));
    }
}
