//! The channel against scripted relays and recorded mails.

mod incoming;
mod outgoing;
mod relay;

use super::*;
use switchboard_core::random::SystemEntropy;
use switchboard_core::time::ManualClock;

/// Compares with a file of the fixtures, or writes it when `UPDATE` is set.
fn golden(path: &str, found: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/email").join(path);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, found).expect("a fixture can be written");
    }
    let recorded = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, recorded, "{}: UPDATE=1 records it again", path.display());
}

fn server(port: u16) -> Server {
    Server {
        host: "127.0.0.1".into(),
        port,
        security: Security::Plain,
        plain_allowed: false,
        credentials: None,
    }
}

fn settings(smtp: Smtp) -> Settings {
    Settings {
        name: "email".into(),
        from: "Hub@Example.org".into(),
        from_name: Some("Switchboard".into()),
        smtp,
        imap: None,
        reply: Some(Reply { template: "hub+{token}@example.org".into(), key: ReplyKey::new([7; 32]) }),
        authserv_id: Some("mx.example.org".into()),
        ca_file: None,
    }
}

fn email(settings: Settings) -> Email {
    Email::new(settings, Arc::new(ManualClock::at(0)), Arc::new(SystemEntropy))
        .expect("the settings are good")
}

#[test]
fn settings_that_cannot_work_are_named() {
    let refused = |change: fn(&mut Settings)| {
        let mut settings = settings(Smtp::new(server(25)));
        change(&mut settings);
        Email::new(settings, Arc::new(ManualClock::at(0)), Arc::new(SystemEntropy))
            .expect_err("it is refused")
    };
    assert!(refused(|s| s.from = "Hub <hub@example.org>".into()).starts_with("from: "));
    assert!(
        refused(|s| s.reply.as_mut().expect("set").template = "hub@example.org".into())
            .starts_with("reply_to: ")
    );
    assert!(refused(|s| s.ca_file = Some("/nonexistent/ca.pem".into())).starts_with("ca_file: "));
}

#[test]
fn answers_are_not_read_where_nobody_can_be_known() {
    let made = |reply: bool, authserv_id: Option<&str>| {
        let mut settings = settings(Smtp::new(server(25)));
        settings.imap = Some(Imap::new(server(143)));
        settings.reply = settings.reply.filter(|_| reply);
        settings.authserv_id = authserv_id.map(Into::into);
        Email::new(settings, Arc::new(ManualClock::at(0)), Arc::new(SystemEntropy))
    };
    for neither in [None, Some(" ")] {
        let refused = made(false, neither).expect_err("nobody could be verified");
        assert!(refused.contains("reply_to = \"hub+{token}@example.org\""), "{refused}");
        assert!(refused.contains("authserv_id"), "{refused}");
    }
    assert!(made(true, None).is_ok() && made(false, Some("mx.example.org")).is_ok());
    let mut outward = settings(Smtp::new(server(25)));
    (outward.reply, outward.authserv_id) = (None, None);
    assert!(!email(outward).capabilities().answers, "without a mailbox there is nothing to know");
}

#[test]
fn capabilities_say_what_is_set_up() {
    let plain = email(settings(Smtp::new(server(25))));
    assert!(!plain.capabilities().answers && plain.capabilities().dedup == Dedup::None);
    let mut both = settings(Smtp { relay_dedups: true, ..Smtp::new(server(25)) });
    both.imap = Some(Imap::new(server(143)));
    let both = email(both);
    assert!(both.capabilities().answers && both.capabilities().dedup == Dedup::ById);
    assert!(both.normalise(AddressKind::Channel, "a@b.test").unwrap_err().contains("direct"));
    assert_eq!(both.normalise(AddressKind::Direct, "Ada@Example.org").as_deref(), Ok("ada@example.org"));
}

#[test]
fn nothing_that_is_printed_has_a_password_or_a_key() {
    let mut secret = settings(Smtp::new(server(25)));
    let password = switchboard_core::SecretString::from("hunter2");
    secret.smtp.server.credentials = Some(Credentials { user: "hub".into(), password });
    let printed = format!("{secret:?} {:?}", email(secret.clone()));
    assert!(!printed.contains("hunter2") && !printed.contains("7, 7"), "{printed}");
}
