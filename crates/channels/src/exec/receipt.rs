//! What the program answers: a receipt, one JSON document and nothing else.

use crate::handle;
use crate::retry_after::WAIT_MS_MAX;
use serde::Deserialize;
use switchboard_core::port::channel::{FailureClass, NotSent, Performed};

/// Longest reason that is kept, in characters.
pub const REASON_CHARS_MAX: usize = 300;

/// How an attempt went, in the program's words.
#[derive(Debug, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case", deny_unknown_fields)]
enum Receipt {
    Sent {
        #[serde(default)]
        message_id: Option<String>,
    },
    NotSent {
        reason: String,
        #[serde(default = "transient")]
        class: FailureClass,
        #[serde(default)]
        code: Option<String>,
        #[serde(default)]
        retry_after_ms: Option<u64>,
    },
    Unknown {
        reason: String,
    },
}

fn transient() -> FailureClass {
    FailureClass::Transient
}

/// What the program's output means. Without a receipt nobody knows whether the message went out: `ended` says how the program did.
#[must_use]
pub fn outcome(output: &[u8], ended: &str) -> Performed {
    match serde_json::from_slice(output) {
        Ok(Receipt::Sent { message_id }) => {
            Performed::Sent { message_id: message_id.filter(|id| handle::is_id(id)) }
        }
        Ok(Receipt::NotSent { reason, class, code, retry_after_ms }) => Performed::NotSent(NotSent {
            code: code.map(|code| visible(&code)),
            reason: visible(&reason),
            class,
            retry_after_ms: retry_after_ms.map(|wait| wait.min(WAIT_MS_MAX)),
            account_wide: false,
        }),
        Ok(Receipt::Unknown { reason }) => Performed::Unknown { reason: visible(&reason) },
        Err(_) if output.is_empty() => {
            Performed::Unknown { reason: format!("{ended} and printed no receipt") }
        }
        // The error's own words may repeat what was printed.
        Err(error) => Performed::Unknown {
            reason: format!(
                "{ended}; what it printed is no receipt (line {}, column {})",
                error.line(),
                error.column()
            ),
        },
    }
}

/// Foreign words on one line, bounded, with nothing hidden.
fn visible(text: &str) -> String {
    let shown = text.chars().map(|c| if c.is_control() { ' ' } else { c }).filter(|&c| !handle::is_hidden(c));
    shown.take(REASON_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(output: &str) -> Performed {
        outcome(output.as_bytes(), "it ended")
    }

    #[test]
    fn a_receipt_is_taken_at_its_word() {
        let sent = |id: Option<&str>| Performed::Sent { message_id: id.map(str::to_owned) };
        assert_eq!(of(r#"{"status":"sent","message_id":"m1"}"#), sent(Some("m1")));
        assert_eq!(of(" {\"status\":\"sent\"}\n\n"), sent(None));
        assert_eq!(of(r#"{"status":"sent","message_id":"a\nb"}"#), sent(None));
        let told = of(
            r#"{"status":"not_sent","reason":"no such\nuser","class":"bad_address","code":"E4","retry_after_ms":99999999999}"#,
        );
        let expected = NotSent {
            code: Some("E4".into()),
            reason: "no such user".into(),
            class: FailureClass::BadAddress,
            retry_after_ms: Some(WAIT_MS_MAX),
            account_wide: false,
        };
        assert_eq!(told, Performed::NotSent(expected));
        let plain = of(r#"{"status":"not_sent","reason":"busy"}"#);
        assert_eq!(plain, Performed::NotSent(NotSent::new(FailureClass::Transient, "busy")));
        assert_eq!(
            of(r#"{"status":"unknown","reason":"cut off"}"#),
            Performed::Unknown { reason: "cut off".into() }
        );
    }

    #[test]
    fn what_is_no_receipt_leaves_it_unknown_and_is_not_repeated() {
        let cases = [
            "",
            "ok",
            "{}",
            r#"{"status":"delivered"}"#,
            r#"{"status":"sent""#,
            r#"{"status":"sent"} canary"#,
            r#"{"status":"sent","canary":1}"#,
            r#"{"status":"not_sent"}"#,
            r#"{"status":"not_sent","reason":"x","class":"canary"}"#,
            r#"{"status":"sent","status":"not_sent","reason":"x"}"#,
            r#"{"status":"not_sent","reason":"x","retry_after_ms":-1}"#,
        ];
        for output in cases {
            let Performed::Unknown { reason } = of(output) else { panic!("{output}") };
            assert!(reason.starts_with("it ended") && !reason.contains("canary"), "{reason}");
        }
        let deep = "[".repeat(OUTPUT_BYTES);
        assert!(matches!(of(&deep), Performed::Unknown { .. }));
    }

    const OUTPUT_BYTES: usize = crate::exec::OUTPUT_BYTES_MAX;
}
