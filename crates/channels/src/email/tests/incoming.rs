//! Recorded mails and what is made of them.

use super::super::read::{Reader, Unreadable};
use super::*;
use serde_json::json;
use switchboard_core::port::channel::{Incoming, IncomingKind, Origin};

/// When the recorded mails arrived.
const AT_MS: i64 = 1_767_225_600_000;
const DELIVERY: &str = "dlv_01kb9r7c8gz2v5t0x3m4n6p7qs";

fn replies() -> secret::ReplyAddress {
    secret::ReplyAddress::new("hub+{token}@example.org", ReplyKey::new([7; 32])).expect("a template")
}

fn reader() -> Reader {
    Reader {
        channel: "email".into(),
        from: "hub@example.org".into(),
        reply: Some(replies()),
        authserv_id: Some("mx.example.org".into()),
    }
}

fn read(mail: &str) -> Result<Incoming, Unreadable> {
    reader().read(mail.as_bytes(), AT_MS)
}

/// `SECRET` in a recorded mail stands for the address that Ada answers to.
fn with_secret(mail: &str) -> String {
    mail.replace("SECRET", &replies().make(DELIVERY, "ada@example.net").expect("it fits"))
}

fn shown(incoming: &Incoming) -> String {
    let what = match &incoming.what {
        IncomingKind::Text { text } => json!({ "text": text }),
        IncomingKind::Button { value } => json!({ "button": value }),
        IncomingKind::Edited { message_id, text } => json!({ "edited": message_id, "text": text }),
        IncomingKind::Deleted { message_id } => json!({ "deleted": message_id }),
        IncomingKind::Bounce { message_id, permanent, reason } => {
            json!({ "bounce": message_id, "permanent": permanent, "reason": reason })
        }
    };
    let shown = json!({
        "event_id": incoming.event_id,
        "from": incoming.from,
        "origin": incoming.origin,
        "what": what,
        "references": incoming.references,
        "at_ms": incoming.at_ms,
    });
    serde_json::to_string_pretty(&shown).expect("JSON") + "\n"
}

#[test]
fn recorded_mails_are_read_as_recorded() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/email/in");
    let mut names: Vec<_> =
        std::fs::read_dir(folder).expect("the fixtures").map(|entry| entry.expect("a file").path()).collect();
    names.retain(|path| path.extension().is_some_and(|extension| extension == "eml"));
    names.sort();
    assert!(names.len() >= 18, "{names:?}");
    for path in names {
        let bytes = std::fs::read(&path).expect("a mail");
        let mail = String::from_utf8(bytes.clone()).map_or(bytes, |text| with_secret(&text).into_bytes());
        let found = match reader().read(&mail, AT_MS) {
            Ok(incoming) => shown(&incoming),
            Err(why) => format!("{why:?}\n"),
        };
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        golden(&format!("in/{name}.json"), &found);
    }
}

#[test]
fn i20_i21_a_mail_without_an_id_has_a_steady_one() {
    let id = |mail: &str| read(mail).expect("a mail").event_id;
    let one = "From: ada@example.net\nDate: Mon, 30 Nov 2026 21:48:00 +0000\n\nyes\n";
    assert_eq!(id(one), id(one));
    assert!(
        id(one).starts_with("sha256:")
            && id(one) == id(&format!("Received: by another\nMessage-ID: <>\n{one}"))
    );
    assert_ne!(id(one), id(&one.replace("yes", "no")));
    assert_ne!(id(one), id(&one.replace("ada", "bob")));
    assert_eq!(id(&format!("Message-ID: <a@b>\n{one}")), "a@b");
}

#[test]
fn i18_a_secret_address_proves_only_its_own_person() {
    let mail = |from: &str| {
        with_secret(&format!("From: {from}\nTo: SECRET\nIn-Reply-To: <{DELIVERY}@example.org>\n\nyes\n"))
    };
    let verified = Origin::Verified { by: "secret_address".into() };
    assert_eq!(read(&mail("ADA@Example.net")).expect("a mail").origin, verified);
    for other in ["eve@example.net", "ada@example.net, eve@example.net"] {
        let read = read(&mail(other)).expect("a mail");
        assert_eq!(read.origin, Origin::Claimed, "{other}");
        assert_eq!(read.references, [format!("{DELIVERY}@example.org")], "it still says what it answers");
    }
    let twice = format!("From: eve@example.net\n{}", mail("ada@example.net"));
    assert_eq!(read(&twice).expect("a mail").origin, Origin::Claimed, "two senders");
}

#[test]
fn i57_what_the_domain_says_against_a_mail_weighs_more_than_the_secret() {
    let failed = "Authentication-Results: mx.example.org; dmarc=fail header.from=example.net\n";
    let mail = with_secret(&format!("{failed}From: ada@example.net\nTo: SECRET\n\nyes\n"));
    assert_eq!(read(&mail).expect("it is taken").origin, Origin::Claimed);
}

#[test]
fn the_secret_address_alone_says_what_is_answered() {
    for header in
        ["To: Hub <SECRET>", "Cc: x@example.net, SECRET", "Delivered-To: SECRET", "X-Original-To: <SECRET>"]
    {
        let mail = with_secret(&format!("{header}\nFrom: ada@example.net\n\nyes\n"));
        assert_eq!(read(&mail).expect("a mail").references, [format!("{DELIVERY}@example.org")], "{header}");
    }
}

#[test]
fn i55_what_costs_too_much_to_parse_is_not_parsed() {
    let nested = "Content-Type: message/rfc822\n\n".repeat(30_000);
    assert_eq!(read(&format!("From: ada@example.net\n{nested}")).unwrap_err(), Unreadable::Parts);
    let mut multipart = String::from("From: ada@example.net\n");
    for level in 0..10_000 {
        let level = level.to_string();
        multipart.extend(["Content-Type: multipart/mixed; boundary=b", &level, "\n\n--b", &level, "\n"]);
    }
    assert_eq!(read(&multipart).unwrap_err(), Unreadable::Parts);
    let flat = format!(
        "From: ada@example.net\nContent-Type: multipart/mixed; boundary=b\n\n{}",
        "--b\n\nx\n".repeat(10_000)
    );
    assert_eq!(read(&flat).unwrap_err(), Unreadable::Parts);
    let header = format!("From: ada@example.net\nX: {}\n\nyes", "x".repeat(300 * 1024));
    assert_eq!(read(&header).unwrap_err(), Unreadable::Headers);
    for none in ["", "\n\n", "Subject: x\n\nno sender", "From: undisclosed\n\nx"] {
        assert!(read(none).is_err(), "{none:?}");
    }
}

#[test]
fn long_texts_have_their_end() {
    let mail = format!("From: ada@example.net\n\n{}", "ä".repeat(500_000));
    let IncomingKind::Text { text } = read(&mail).expect("a mail").what else { panic!("text") };
    assert_eq!(text.len(), words::TEXT_BYTES_MAX);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 64, ..Default::default() })]

    #[test]
    fn nothing_that_arrives_panics(
        headers in proptest::collection::vec("(From|To|Subject|Content-Type|References|Date|Received|Authentication-Results): [ -~é=?;<>\"(]{0,80}", 0..12),
        body in "[ -~\n=<>é]{0,400}",
    ) {
        let mail = format!("From: ada@example.net\n{}\n\n{body}", headers.join("\n"));
        let _ = read(&mail);
        let _ = reader().read(body.as_bytes(), 0);
    }
}
