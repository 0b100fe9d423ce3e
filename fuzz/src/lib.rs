//! What must hold for every input, however hostile: no panic, no endless loop, and the property each function names.
//!
//! Each property takes raw bytes and panics when it does not hold. It runs twice: under libFuzzer, which looks for new ways
//! through the code (`targets/`), and as an ordinary test with generated input on a stable compiler (`tests/twins.rs`).
//!
//! To add one: a function here, its twin, a target of the same name, a line in `Cargo.toml`.

use std::sync::{Arc, OnceLock};
use switchboard_channels::document::slack::Mrkdwn;
use switchboard_channels::document::{Dialect, Document, Html, Limit, Plain, Telegram, render, split};
use switchboard_channels::email::{
    Credentials, Email, Imap, Reply, ReplyKey, Security, Server, Settings, Smtp, normalise,
};
use switchboard_core::SecretString;
use switchboard_core::gid::GidCipher;
use switchboard_core::ids::{EventId, VaultId, base32, base32_decode};
use switchboard_core::log::Entry;
use switchboard_core::policy::{self, Call, Policy, Verdict, cases};
use switchboard_core::port::channel::{IncomingKind, LengthUnit};
use switchboard_core::random::SystemEntropy;
use switchboard_core::time::ManualClock;
use switchboard_protocol::fence::{FenceHeader, fence as fenced};
use switchboard_protocol::frame::client::{self, ClientFrame};
use switchboard_protocol::frame::server::ServerFrame;
use switchboard_protocol::json::{Limits, scan};
use switchboard_protocol::message::Trust;
use switchboard_protocol::text::{Channel, CursorKey, invisible};
use switchboard_protocol::time::UtcTime;

/// What the strict scan accepts, the parser accepts, too; and it finds the same members at the top level.
///
/// # Panics
/// When the property does not hold, as every function here.
pub fn json(bytes: &[u8]) {
    let Ok(scanned) = scan(bytes, Limits::FRAME) else { return };
    let value: serde_json::Value = serde_json::from_slice(bytes).expect("the scan accepts only JSON");
    assert_eq!(scanned.is_object, value.is_object());
    for (name, found) in
        [("t", &scanned.t), ("schema", &scanned.schema), ("client_msg_id", &scanned.client_msg_id)]
    {
        let expected = value.get(name).and_then(serde_json::Value::as_str);
        assert_eq!(found.as_deref(), expected, "{name}");
    }
}

/// A frame that was accepted is written to a text that is accepted again and written the same.
///
/// # Panics
/// When the property does not hold.
pub fn frames(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Some(written) = client_frame(text) {
        assert_eq!(client_frame(&written).as_ref(), Some(&written));
    }
    if let Some(written) = server_frame(text) {
        assert_eq!(server_frame(&written).as_ref(), Some(&written));
    }
}

fn client_frame(text: &str) -> Option<String> {
    match client::parse(text, &Limits::FRAME).ok()? {
        ClientFrame::Unknown(_) => None,
        frame => Some(frame.to_json().expect("a known frame can be written")),
    }
}

fn server_frame(text: &str) -> Option<String> {
    match ServerFrame::parse(text, Limits::FRAME).ok()? {
        ServerFrame::Unknown(_) => None,
        frame => Some(frame.to_json().expect("a known frame can be written")),
    }
}

/// Short texts with a grammar (times, ids, names) are read in one way only: what is accepted is written the same.
///
/// # Panics
/// When the property does not hold.
pub fn texts(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let gids = GidCipher::new(&[7; 16]);
    let written = [
        UtcTime::parse(text).map(|time| time.to_string()),
        Channel::parse(text).ok().map(|channel| channel.to_string()),
        CursorKey::parse(text).ok().map(|key| key.to_string()),
        VaultId::parse(text).map(|vault| vault.to_string()),
        gids.event(text).map(|event| gids.gid(event)),
        base32_decode::<16>(text).map(|block| base32(&block)),
    ];
    for written in written.into_iter().flatten() {
        assert_eq!(written, text);
    }
    if let Some(row) = bytes.first_chunk::<8>().map(|row| i64::from_be_bytes(*row)).filter(|row| *row >= 0) {
        assert_eq!(EventId::from_row(row).row(), row);
    }
}

/// A fence has its boundary in its two lines and nowhere else, whatever the body and the sender's name say.
///
/// # Panics
/// When the property does not hold.
pub fn fence(bytes: &[u8]) {
    const BOUNDARY: &str = "5f3ac1e09b7d4c2e8f5a1b6c9d0e7f42";
    let text = String::from_utf8_lossy(bytes);
    let (sender, body) = text.split_once('\0').unwrap_or(("", &text));
    let header = FenceHeader::new(sender, Trust::Untrusted).with("message", sender);
    // As hostile as can be: an author who guessed the boundary.
    for body in [body.to_owned(), body.replace('~', BOUNDARY)] {
        let out = fenced(BOUNDARY, &header, &body);
        assert_eq!(out.to_ascii_lowercase().matches(BOUNDARY).count(), 2, "{out:?}");
        assert!(!out.chars().any(invisible), "{out:?}");
        let before_body = out.lines().take_while(|line| !line.contains(BOUNDARY));
        assert_eq!(before_body.count(), 4, "from, trust, message and the rule: {out:?}");
    }
}

/// Stored log entries are read without panic, and what was read is written to bytes that read the same.
///
/// # Panics
/// When the property does not hold.
pub fn log(bytes: &[u8]) {
    let Some(entries) = Entry::decode_all(bytes) else { return };
    let mut written = Vec::new();
    for entry in &entries {
        entry.encode(&mut written);
    }
    assert_eq!(Entry::decode_all(&written), Some(entries));
}

/// A message for people is rendered in every dialect, whole or cut: no part is over its limit, and nothing that a reader sees is lost.
///
/// # Panics
/// When the property does not hold.
pub fn documents(bytes: &[u8]) {
    const DIALECTS: [&dyn Dialect; 4] = [&Plain, &Html, &Mrkdwn, &Telegram];
    const MAX: usize = 512;
    let document = Document::parse(&String::from_utf8_lossy(bytes));
    let seen = dense(&document.visible());
    let has_links = document.blocks.iter().flat_map(|block| &block.spans).any(|span| span.link.is_some());
    for dialect in DIALECTS {
        for unit in [LengthUnit::Bytes, LengthUnit::Chars, LengthUnit::Utf16] {
            let limit = Limit::new(MAX, unit);
            let parts = split(&document, dialect, limit, unit == LengthUnit::Chars);
            assert!(!parts.is_empty());
            for part in &parts {
                let text = render(part, dialect);
                assert!(limit.measure(&text) <= MAX, "{unit:?}: {text:?}");
            }
            let kept: String = parts.iter().map(|part| dense(&part.visible())).collect();
            // Numbers of parts, and targets of links that have no room, are added.
            let added = has_links || (unit == LengthUnit::Chars && parts.len() > 1);
            assert!(if added { is_within(&seen, &kept) } else { seen == kept }, "{seen:?} became {kept:?}");
        }
    }
}

fn dense(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

/// Whether `part` is `whole` with something taken out.
fn is_within(part: &str, whole: &str) -> bool {
    let mut rest = whole.chars();
    part.chars().all(|wanted| rest.any(|found| found == wanted))
}

/// A mail that came in is read without panic, and what it says is bounded by what it is.
///
/// # Panics
/// When the property does not hold.
pub fn mail(bytes: &[u8]) {
    static EMAIL: OnceLock<Email> = OnceLock::new();
    let Some(incoming) = EMAIL.get_or_init(mailbox).read(bytes, 1_800_000_000_000) else { return };
    assert_eq!(normalise(&incoming.from).as_deref(), Ok(incoming.from.as_str()), "an address has one form");
    assert!(!incoming.event_id.is_empty() && incoming.references.len() <= 50, "{incoming:?}");
    let text = match &incoming.what {
        IncomingKind::Text { text } | IncomingKind::Bounce { reason: text, .. } => text,
        other => panic!("no mail is {other:?}"),
    };
    // A byte of another character set may be several of UTF-8.
    assert!(text.len() <= 8 * bytes.len() + 1024, "{} of {}", text.len(), bytes.len());
}

// Nothing is connected to.
fn mailbox() -> Email {
    let credentials = Credentials { user: "hub".into(), password: SecretString::from("hub") };
    let server = |port| Server {
        host: "127.0.0.1".into(),
        port,
        security: Security::Plain,
        plain_allowed: false,
        credentials: Some(credentials.clone()),
    };
    let settings = Settings {
        name: "email".into(),
        from: "hub@example.org".into(),
        from_name: None,
        smtp: Smtp::new(server(25)),
        imap: Some(Imap::new(server(143))),
        reply: Some(Reply { template: "hub+{token}@example.org".into(), key: ReplyKey::new([7; 32]) }),
        authserv_id: Some("mx.example.org".into()),
        ca_file: None,
    };
    Email::new(settings, Arc::new(ManualClock::at(0)), Arc::new(SystemEntropy))
        .expect("the settings are good")
}

/// Rules, cases and parameters (with NUL between them) are read without panic. What is loaded decides about any parameters, twice the
/// same, and names a rule that it has; without a rule everything is allowed.
///
/// # Panics
/// When the property does not hold.
pub fn policy(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut texts = text.splitn(3, '\0');
    let (rules, params) = (texts.next().unwrap_or_default(), texts.next().unwrap_or_default());
    let policy = match Policy::load(&[("p.toml", rules)]) {
        Ok(policy) => policy,
        Err(faults) => {
            assert!(!faults.is_empty() && !policy::listed(&faults).is_empty());
            Policy::load(&[("p.toml", "")]).expect("no rule is no fault")
        }
    };
    let _ = cases::load(&[("p.test.toml", texts.next().unwrap_or(rules))], &policy);
    let given =
        serde_json::from_str::<serde_json::Value>(params).ok().and_then(|params| params.as_object().cloned());
    let words = ["channel", "to", "body"].map(|name| (name.to_owned(), params.into()));
    let params = given.unwrap_or_else(|| words.into_iter().collect());
    for tool in ["messaging.send", "bus.send", rules] {
        let call = Call { tool, agent: "planner", params: &params };
        let decision = policy.decide(&call);
        let ruling = decision.verdict.ruling().map(|ruling| ruling.rule.to_string());
        let again = policy.decide(&call).verdict.ruling().map(|ruling| ruling.rule.to_string());
        assert_eq!(ruling, again);
        let known = |id: &String| policy.rules().iter().any(|rule| *rule.id == **id);
        assert!(ruling.as_ref().is_none_or(known), "{ruling:?}");
        assert_eq!(ruling.is_none(), matches!(decision.verdict, Verdict::Allow));
    }
    assert!(policy.rules().iter().all(|rule| !rule.sentence().is_empty()));
}
