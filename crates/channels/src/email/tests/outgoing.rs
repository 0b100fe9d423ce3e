//! What goes over the wire, and what every way in which it can end means.

use super::relay::{GO, HELLO, OK, Step, relay};
use super::*;
use std::time::Duration;
use switchboard_core::SecretString;
use switchboard_core::outbound::gate::{Consent, Facts, clear};
use switchboard_core::port::channel::{Address, Attempt, FailureClass, MessageKind};

const HI: Step = Step::Say("220 mx.test ESMTP");

fn attempt(email: &Email, body: &str) -> Attempt {
    let draft = Draft {
        body,
        kind: MessageKind::Question,
        from: "build-agent",
        code: Some("K7QD"),
        deadline_ms: None,
        buttons: &[],
        link: None,
    };
    Attempt {
        delivery: "dlv_01kb9r7c8gz2v5t0x3m4n6p7qs".into(),
        attempt: 1,
        channel: "email".into(),
        to: Address { kind: AddressKind::Direct, handle: "ada@example.net".into() },
        part: email.prepare(&draft).expect("it can be prepared").remove(0),
        place: (1, 1),
        references: Vec::new(),
        accepted_ms: 1_767_225_600_000,
    }
}

async fn perform(email: &Email, attempt: Attempt) -> Performed {
    let facts = Facts { now_ms: 1, consent: Consent::Given, forbidden_by: None, deadline_ms: None };
    let cleared = clear(attempt, &facts).expect("nothing is in its way");
    tokio::time::timeout(Duration::from_secs(20), email.perform(cleared))
        .await
        .expect("an attempt is bounded in time")
}

/// What a relay has heard, when its clients are gone.
async fn said(heard: tokio::task::JoinHandle<String>) -> String {
    let heard = tokio::time::timeout(Duration::from_secs(20), heard).await.expect("the relay ends in time");
    heard.expect("the relay ends")
}

fn impatient(port: u16) -> Smtp {
    let limit = Duration::from_millis(400);
    Smtp { command_timeout: limit, data_timeout: limit, ..Smtp::new(server(port)) }
}

/// One attempt at a relay with this script.
async fn outcome(script: Vec<Step>, change: impl FnOnce(&mut Settings, &mut String)) -> Performed {
    let (port, heard) = relay(vec![script]).await;
    let (mut settings, mut body) = (settings(impatient(port)), "Deploy?".to_owned());
    change(&mut settings, &mut body);
    let email = email(settings);
    let performed = perform(&email, attempt(&email, &body)).await;
    heard.abort();
    performed
}

async fn plain(script: Vec<Step>) -> Performed {
    outcome(script, |_, _| {}).await
}

fn class(performed: &Performed) -> Option<FailureClass> {
    match performed {
        Performed::NotSent(failed) => Some(failed.class),
        _ => None,
    }
}

fn signed_in(settings: &mut Settings, _: &mut String) {
    settings.smtp.server.credentials =
        Some(Credentials { user: "hub".into(), password: SecretString::from("hunter2") });
}

#[tokio::test]
async fn o38_only_a_confirmed_mail_is_sent() {
    let sent = plain(vec![HI, HELLO, OK, OK, GO, OK]).await;
    let message_id = Some("dlv_01kb9r7c8gz2v5t0x3m4n6p7qs@example.org".to_owned());
    assert_eq!(sent, Performed::Sent { message_id });
    let twice =
        plain(vec![HI, HELLO, OK, Step::Say("251 2.1.5 will forward"), GO, Step::Say("250 queued")]).await;
    assert!(matches!(twice, Performed::Sent { .. }));
}

#[tokio::test]
async fn o36_before_the_end_of_the_mail_nobody_has_been_reached() {
    use FailureClass::{BadAddress, Misconfigured, Permanent, Throttled, Transient};
    let say = Step::Say;
    for (script, expected) in [
        (vec![say("421 4.3.2 busy")], Transient),
        (vec![say("554 no service")], Transient),
        (vec![Step::Close], Transient),
        (vec![Step::Hang], Transient),
        (vec![say("HTTP/1.1 400 Bad Request")], Transient),
        (vec![HI, Step::Close], Transient),
        (vec![HI, Step::Hang], Transient),
        (vec![HI, HELLO, say("550 5.7.1 you may not send as this")], Misconfigured),
        (vec![HI, HELLO, say("530 5.7.0 authentication required")], Misconfigured),
        (vec![HI, HELLO, say("452 4.3.1 full")], Transient),
        (vec![HI, HELLO, OK, say("550-5.1.1 The account\r\n550 5.1.1 does not exist")], BadAddress),
        (vec![HI, HELLO, OK, say("556 5.1.10 null MX")], BadAddress),
        (vec![HI, HELLO, OK, say("450 4.7.1 greylisted")], Throttled),
        (vec![HI, HELLO, OK, say("554 5.7.1 relay access denied")], Permanent),
        (vec![HI, HELLO, OK, say("552 5.2.2 mailbox full")], Transient),
        (vec![HI, HELLO, OK, Step::Close], Transient),
        (vec![HI, HELLO, OK, say("354 not yet")], Transient),
        (vec![HI, HELLO, OK, OK, say("451 4.3.0 later")], Transient),
        (vec![HI, HELLO, OK, OK, Step::Close], Transient),
        (vec![HI, HELLO, OK, OK, GO, say("554 5.6.0 bad content")], Permanent),
        (vec![HI, HELLO, OK, OK, GO, say("550 5.7.1 looks like spam")], Permanent),
        (vec![HI, HELLO, OK, OK, GO, say("451 4.3.0 could not write")], Transient),
        (vec![HI, HELLO, OK, OK, GO, say("421 4.3.2 shutting down")], Transient),
    ] {
        let performed = plain(script.clone()).await;
        assert_eq!(class(&performed), Some(expected), "{script:?}: {performed:?}");
    }
}

#[tokio::test]
async fn k01_after_the_end_of_the_mail_silence_is_not_failure() {
    for last in [Step::Close, Step::Hang, Step::Say("thank you"), Step::Say("354 go on"), Step::Last("25")] {
        let performed = plain(vec![HI, HELLO, OK, OK, GO, last]).await;
        assert!(matches!(performed, Performed::Unknown { .. }), "{last:?}: {performed:?}");
    }
}

#[tokio::test]
async fn a_connection_that_breaks_within_the_mail_has_sent_nothing() {
    let performed = outcome(vec![HI, HELLO, OK, OK, Step::Last("354 go on")], |settings, body| {
        // More than a socket takes at once.
        *body = "a long line of a long body\n\n".repeat(30_000);
        settings.smtp.data_timeout = Duration::from_secs(10);
    })
    .await;
    assert_eq!(class(&performed), Some(FailureClass::Transient), "{performed:?}");
}

#[tokio::test]
async fn signing_in_uses_what_is_offered_and_a_refusal_is_ours_to_mend() {
    let done = Step::Say("235 2.7.0 welcome");
    assert!(matches!(
        outcome(vec![HI, HELLO, done, OK, OK, GO, OK], signed_in).await,
        Performed::Sent { .. }
    ));
    let login = Step::Say("250-mx.test\r\n250 AUTH LOGIN");
    let more = Step::Say("334 VXNlcm5hbWU6");
    assert!(matches!(
        outcome(vec![HI, login, more, more, done, OK, OK, GO, OK], signed_in).await,
        Performed::Sent { .. }
    ));
    for (script, expected) in [
        (vec![HI, HELLO, Step::Say("535 5.7.8 wrong")], FailureClass::Misconfigured),
        (vec![HI, HELLO, Step::Say("454 4.7.0 later")], FailureClass::Transient),
        (vec![HI, Step::Say("250 mx.test")], FailureClass::Misconfigured),
    ] {
        let performed = outcome(script, signed_in).await;
        assert_eq!(class(&performed), Some(expected));
        assert!(!format!("{performed:?}").contains("hunter2"));
    }
}

#[tokio::test]
async fn encryption_that_is_required_is_not_done_without() {
    let start_tls =
        |settings: &mut Settings, _: &mut String| settings.smtp.server.security = Security::StartTls;
    let without = outcome(vec![HI, HELLO], start_tls).await;
    assert_eq!(class(&without), Some(FailureClass::Misconfigured), "{without:?}");
    let offers = Step::Say("250-mx.test\r\n250 STARTTLS");
    let ahead = outcome(vec![HI, offers, Step::Say("220 go\r\n250 somebody in between")], start_tls).await;
    assert!(format!("{ahead:?}").contains("more before TLS"), "{ahead:?}");
    let from_the_start =
        |settings: &mut Settings, _: &mut String| settings.smtp.server.security = Security::Tls;
    let no_tls = outcome(vec![HI, HELLO], from_the_start).await;
    assert_eq!(class(&no_tls), Some(FailureClass::Misconfigured), "{no_tls:?}");
}

#[tokio::test]
async fn what_a_relay_cannot_carry_is_not_begun() {
    let small = Step::Say("250-mx.test\r\n250 SIZE 1000");
    let performed = plain(vec![HI, small]).await;
    assert!(format!("{performed:?}").contains("1000 bytes at most"), "{performed:?}");
    let (port, heard) = relay(vec![vec![HI, Step::Say("250 mx.test")]]).await;
    let email = email(settings(impatient(port)));
    let mut beyond = attempt(&email, "Deploy?");
    beyond.to.handle = "jürgen@example.net".into();
    assert_eq!(class(&perform(&email, beyond).await), Some(FailureClass::Permanent));
    drop(email);
    assert_eq!(said(heard).await, "EHLO example.org\r\n");
}

#[tokio::test]
async fn nobody_there_passes_by_itself() {
    let (port, gone) = relay(Vec::new()).await;
    gone.await.expect("it ends at once");
    let email = email(settings(impatient(port)));
    let performed = perform(&email, attempt(&email, "x")).await;
    assert_eq!(class(&performed), Some(FailureClass::Transient), "{performed:?}");
}

#[tokio::test]
async fn connections_are_kept_and_one_that_ended_is_replaced_before_anything_is_sent() {
    let first = vec![HI, HELLO, OK, OK, GO, OK, OK, OK, OK, GO, OK, Step::Close];
    let (port, heard) = relay(vec![first, vec![HI, HELLO, OK, OK, GO, OK]]).await;
    let email = email(settings(impatient(port)));
    for _ in 0..3 {
        assert!(matches!(perform(&email, attempt(&email, "x")).await, Performed::Sent { .. }));
    }
    drop(email);
    let heard = said(heard).await;
    assert_eq!((heard.matches("EHLO").count(), heard.matches("RCPT").count()), (2, 3), "{heard}");
}

#[tokio::test]
async fn an_attempt_that_gets_no_connection_has_sent_nothing() {
    let (port, heard) = relay(vec![vec![HI, HELLO, OK, OK, GO, Step::Hang]]).await;
    let queue_timeout = Duration::from_millis(50);
    let smtp = Smtp { connections_max: 1, queue_timeout, ..impatient(port) };
    let email = email(settings(smtp));
    let (first, second) =
        tokio::join!(perform(&email, attempt(&email, "x")), perform(&email, attempt(&email, "x")));
    assert!(matches!(first, Performed::Unknown { .. }), "{first:?}");
    assert_eq!(class(&second), Some(FailureClass::Transient), "{second:?}");
    assert!(format!("{second:?}").contains("all connections to the relay are busy"), "{second:?}");
    drop(email);
    assert_eq!(said(heard).await.matches("EHLO").count(), 1);
}

#[tokio::test]
async fn the_conversation_is_what_was_recorded() {
    let body = "# Deploy\n\n**Version 2** is ready, see [the plan](https://x.test/plan?a=1&b=2).\n\n.\n..dots\n\n- Grüße, 東京 👩‍👩‍👧‍👦\n- <script>alert(1)</script>\n\n```sh\nrm -rf /tmp/x\n```\n";
    let button =
        |label: &str| switchboard_core::port::channel::Button { label: label.into(), value: "v".into() };
    let buttons = [button("approve"), button("deny")];
    for name in ["question", "thread", "smtputf8"] {
        let (port, heard) = relay(vec![vec![HI, HELLO, OK, OK, GO, OK]]).await;
        let mut with_mailbox = settings(impatient(port));
        with_mailbox.imap = Some(Imap::new(server(143)));
        let email = email(with_mailbox);
        let mut attempt = attempt(&email, body);
        if name == "thread" {
            let draft = Draft {
                body: "Über alles",
                kind: MessageKind::Approval,
                from: "бот",
                code: None,
                deadline_ms: Some(1_767_312_000_000),
                buttons: &buttons,
                link: Some("https://hub.test/q/7?x=1&y=2"),
            };
            attempt.part = email.prepare(&draft).expect("prepared").remove(0);
            attempt.references =
                vec!["first@example.org".into(), "<second@example.net>".into(), "no id".into()];
        }
        if name == "smtputf8" {
            attempt.to.handle = "jürgen@xn--bcher-kva.example".into();
        }
        assert!(matches!(perform(&email, attempt).await, Performed::Sent { .. }));
        drop(email);
        let heard = said(heard).await;
        assert!(
            heard.lines().all(|line| line.len() <= 998) && !heard.replace("\r\n", "").contains(['\r', '\n'])
        );
        golden(&format!("out/{name}.smtp"), &heard.replace("\r\n", "\n"));
    }
}

#[test]
fn the_same_attempt_has_the_same_bytes_and_headers_cannot_be_added() {
    let email = email(settings(Smtp::new(server(25))));
    let mut attempt = attempt(&email, "Deploy?");
    attempt.part.subject = Some("x\r\nBcc: eve@example.org\r\n\r\nbody".into());
    let sender =
        compose::Sender { from: "hub@example.org".into(), name: Some("A\r\nBcc: eve@example.org".into()) };
    let mail =
        compose::compose(&sender, &attempt, None, compose::Cause::Message).expect("it can be composed");
    assert_eq!(mail, compose::compose(&sender, &attempt, None, compose::Cause::Message).expect("again"));
    let text = String::from_utf8(mail).expect("ASCII");
    let header = text.split("\r\n\r\n").next().expect("a header");
    assert!(!header.lines().any(|line| line.starts_with("Bcc")), "{header}");
}

#[tokio::test]
async fn a_check_signs_in_and_sends_nothing() {
    let check = async |script: Vec<Step>| {
        let (port, heard) = relay(vec![script]).await;
        let mut settings = settings(impatient(port));
        let password = SecretString::from("canary");
        settings.smtp.server.credentials = Some(Credentials { user: "hub".into(), password });
        let checked = email(settings).check().await;
        (checked, heard, port)
    };
    let welcome = Step::Say("235 2.7.0 welcome");
    let (checked, heard, port) = check(vec![HI, HELLO, welcome, Step::Last("221 2.0.0 bye")]).await;
    let account = checked.expect("it holds").account;
    assert_eq!(account, format!("mails leave as hub by 127.0.0.1:{port}; no answers come in"));
    let heard = said(heard).await;
    assert!(heard.contains("AUTH ") && heard.contains("QUIT") && !heard.contains("MAIL FROM"), "{heard}");
    let (checked, heard, _) = check(vec![HI, HELLO, Step::Last("535 5.7.8 wrong password")]).await;
    let why = checked.expect_err("it is refused");
    assert!(why.starts_with("smtp_url: ") && why.contains("535") && !why.contains("canary"), "{why}");
    heard.abort();
    let (checked, heard, _) = check(vec![HI, Step::Hang]).await;
    assert!(checked.expect_err("it is silent").contains("does not answer"));
    heard.abort();
}
