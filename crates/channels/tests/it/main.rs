//! Channels against stand-ins of their networks, on loopback.

#![expect(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a test fails by panicking; helpers beside the tests are part of them"
)]

mod console;
mod email;
#[cfg(unix)]
mod exec;
mod golden;
mod http;
mod webhook;

use switchboard_core::outbound::gate::{Cleared, Consent, Facts, clear};
use switchboard_core::port::channel::{Address, AddressKind, Attempt, Button, Channel, Draft, MessageKind};

/// Wed, 21 Oct 2015 07:28:00 GMT.
pub const NOW_MS: i64 = 1_445_412_480_000;

/// The gate's consent to an attempt, given without conditions.
pub fn cleared(attempt: Attempt) -> Cleared {
    let facts = Facts { now_ms: 0, consent: Consent::NotNeeded, forbidden_by: None, deadline_ms: None };
    clear(attempt, &facts).unwrap()
}

/// An attempt with a notice of this text.
pub fn notice(channel: &dyn Channel, text: &str) -> Attempt {
    let draft = Draft {
        body: text,
        kind: MessageKind::Notice,
        from: "builder",
        code: None,
        deadline_ms: None,
        buttons: &[],
        link: None,
    };
    attempt(channel, &draft)
}

/// A first attempt of this draft.
pub fn attempt(channel: &dyn Channel, draft: &Draft<'_>) -> Attempt {
    Attempt {
        delivery: "dlv_01JD-7".into(),
        attempt: 1,
        channel: channel.name().to_owned(),
        to: Address { kind: AddressKind::Direct, handle: "ada".into() },
        part: channel.prepare(draft).unwrap().remove(0),
        place: (1, 1),
        references: Vec::new(),
        accepted_ms: NOW_MS,
    }
}

/// An attempt that has everything a message can have.
pub fn everything(channel: &dyn Channel) -> Attempt {
    let button = |label: &str, value: &str| Button { label: label.into(), value: value.into() };
    let buttons = [button("Approve", "btn_1"), button("Deny", "btn_2")];
    let draft = Draft {
        body: "May I deploy *v1.2*?\r\n\"Yes\" \u{2028} é 🦀 </script>",
        kind: MessageKind::Approval,
        from: "builder",
        code: Some("K7QX"),
        deadline_ms: Some(NOW_MS + 3_600_000),
        buttons: &buttons,
        link: Some("https://hub.example/answer/K7QX"),
    };
    Attempt { references: vec!["m_1".into(), "m_2".into()], ..attempt(channel, &draft) }
}
