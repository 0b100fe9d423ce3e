//! The e-mail channel against a real relay and a real mailbox.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use switchboard_channels::email::{
    Credentials, Email, Imap, Reply, ReplyKey, Security, Server, Settings, Smtp,
};
use switchboard_core::SecretString;
use switchboard_core::outbound::gate::{Consent, Facts, clear};
use switchboard_core::port::channel::{
    Address, AddressKind, Attempt, Channel as _, Draft, FailureClass, Inbound, Incoming, IncomingKind,
    MessageKind, NotSent, Origin, Performed,
};
use switchboard_core::port::store::StoreError;
use switchboard_core::random::SystemEntropy;
use switchboard_core::time::SystemClock;
use switchboard_testkit::PATIENCE;
use switchboard_testkit::mail::person::{Person, header};
use switchboard_testkit::mail::{MailServer, PASSWORD};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Takes what comes in, after having failed as often as it is told.
struct Taker {
    came: mpsc::UnboundedSender<Incoming>,
    health: mpsc::UnboundedSender<Option<String>>,
    fail: AtomicUsize,
}

impl Inbound for Taker {
    fn take(
        &self,
        incoming: Incoming,
    ) -> futures_util::future::BoxFuture<'_, Result<Option<String>, StoreError>> {
        let fails =
            self.fail.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        if !fails {
            let _ = self.came.send(incoming);
        }
        Box::pin(async move {
            if fails { Err(StoreError::Overloaded) } else { Ok(Some("That question is closed.".into())) }
        })
    }

    fn health(&self, _: &str, fault: Option<String>) {
        let _ = self.health.send(fault);
    }
}

/// A hub's channel with its listener.
struct Hub {
    email: Arc<Email>,
    came: mpsc::UnboundedReceiver<Incoming>,
    health: mpsc::UnboundedReceiver<Option<String>>,
    listener: JoinHandle<()>,
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

fn settings(mail: &MailServer) -> Settings {
    let server = |port| Server {
        host: "localhost".into(),
        port,
        security: Security::StartTls,
        plain_allowed: false,
        credentials: Some(Credentials { user: "hub".into(), password: SecretString::from(PASSWORD) }),
    };
    let quick = (Duration::from_millis(20), Duration::from_millis(200));
    Settings {
        name: "email".into(),
        from: MailServer::address("hub"),
        from_name: Some("Switchboard".into()),
        smtp: Smtp::new(server(mail.smtp_port)),
        imap: Some(Imap { backoff: quick, ..Imap::new(server(mail.imap_port)) }),
        reply: Some(Reply { template: "hub+{token}@example.test".into(), key: ReplyKey::new([3; 32]) }),
        authserv_id: None,
        ca_file: Some(mail.ca_file()),
    }
}

fn channel(settings: Settings) -> Arc<Email> {
    Arc::new(
        Email::new(settings, Arc::new(SystemClock::default()), Arc::new(SystemEntropy))
            .expect("the settings are good"),
    )
}

fn hub(mail: &MailServer, fail: usize) -> Hub {
    let email = channel(settings(mail));
    let (came_tx, came) = mpsc::unbounded_channel();
    let (health_tx, health) = mpsc::unbounded_channel();
    let taker = Taker { came: came_tx, health: health_tx, fail: AtomicUsize::new(fail) };
    let listener = tokio::spawn(email.clone().listen(Arc::new(taker)));
    Hub { email, came, health, listener }
}

impl Hub {
    async fn next(&mut self, mail: &MailServer) -> Incoming {
        match tokio::time::timeout(PATIENCE, self.came.recv()).await {
            Ok(Some(incoming)) => incoming,
            _ => panic!("nothing came in: {}", mail.log()),
        }
    }

    /// Until the listener says that it is connected, or that it is not.
    async fn is_connected(&mut self, connected: bool) {
        let said = async {
            while let Some(fault) = self.health.recv().await {
                if fault.is_none() == connected {
                    return;
                }
            }
        };
        tokio::time::timeout(PATIENCE, said).await.expect("the listener says how it is");
    }
}

async fn send(email: &Email, delivery: &str, to: &str) -> Performed {
    let draft = Draft {
        body: "Deploy **now**?",
        kind: MessageKind::Question,
        from: "build-agent",
        code: Some("K7QD"),
        deadline_ms: None,
        buttons: &[],
        link: None,
    };
    let attempt = Attempt {
        delivery: delivery.into(),
        attempt: 1,
        channel: "email".into(),
        to: Address { kind: AddressKind::Direct, handle: MailServer::address(to) },
        part: email.prepare(&draft).expect("it can be prepared").remove(0),
        place: (1, 1),
        references: Vec::new(),
        accepted_ms: 1_767_225_600_000,
    };
    let facts = Facts { now_ms: 1, consent: Consent::Given, forbidden_by: None, deadline_ms: None };
    email.perform(clear(attempt, &facts).expect("nothing is in its way")).await
}

fn text(incoming: &Incoming) -> &str {
    match &incoming.what {
        IncomingKind::Text { text } => text,
        other => panic!("text: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_goes_out_and_its_answer_comes_back_proven() {
    let mail = MailServer::start(&["hub", "ada"]).await;
    let mut hub = hub(&mail, 0);
    let sent = send(&hub.email, "dlv_one", "ada").await;
    assert_eq!(sent, Performed::Sent { message_id: Some("dlv_one@example.test".into()) }, "{}", mail.log());

    let mut ada = Person::sign_in(&mail, "ada").await;
    let question = ada.next_mail().await;
    assert!(question.contains("Subject: [SB-K7QD] Question from build-agent: Deploy now?"), "{question}");
    let reply_to = header(&question, "Reply-To");
    assert!(reply_to.starts_with("hub+dlv_one."), "{reply_to}");
    let reply = format!(
        "From: Ada <ada@example.test>\r\nTo: {reply_to}\r\nSubject: Re: Deploy\r\nMessage-ID: <answer@ada.test>\r\n\
         In-Reply-To: {}\r\n\r\nYes.\r\n\r\nOn Mon, Nov 30, 2026 at 9:48 PM Switchboard wrote:\r\n> Deploy now?\r\n",
        header(&question, "Message-ID")
    );
    ada.send(&reply_to, &reply).await;

    let answer = hub.next(&mail).await;
    assert_eq!(
        (text(&answer), answer.from.as_str(), answer.event_id.as_str()),
        ("Yes.", "ada@example.test", "answer@ada.test")
    );
    assert_eq!(answer.references, ["dlv_one@example.test"]);
    assert_eq!(answer.origin, Origin::Verified { by: "secret_address".into() });

    // A mail that cannot be read is left for people, and does not hold up the next one.
    let nested = "Content-Type: message/rfc822\r\n\r\n".repeat(300);
    ada.send("hub@example.test", &format!("From: ada@example.test\r\n{nested}")).await;
    ada.send("hub@example.test", "From: ada@example.test\r\nMessage-ID: <next@ada.test>\r\n\r\nMore.\r\n")
        .await;
    let next = hub.next(&mail).await;
    assert_eq!((text(&next), &next.origin), ("More.", &Origin::Claimed));
    let notice = ada.next_mail().await;
    assert!(
        notice.contains("That question is closed.") && notice.contains("Auto-Submitted: auto-replied"),
        "{notice}"
    );
    assert_eq!(header(&notice, "In-Reply-To"), "<answer@ada.test>");
    drop(hub);
    assert_eq!(ada.count("ALL").await, 2, "whoever only claims to be somebody is told nothing");
    let mut mailbox = Person::sign_in(&mail, "hub").await;
    assert_eq!(mailbox.count("SEEN KEYWORD $SwitchboardTaken").await, 2);
    assert_eq!(mailbox.count("UNSEEN KEYWORD $SwitchboardFailed").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_is_killed_costs_no_mail_and_doubles_none() {
    let mut mail = MailServer::start(&["hub", "ada"]).await;
    let email = channel(settings(&mail));
    assert!(matches!(send(&email, "dlv_1", "ada").await, Performed::Sent { .. }), "{}", mail.log());
    mail.kill_smtp().await;
    let down = send(&email, "dlv_2", "ada").await;
    assert!(matches!(down, Performed::NotSent(NotSent { class: FailureClass::Transient, .. })), "{down:?}");
    mail.start_smtp().await;
    assert!(matches!(send(&email, "dlv_2", "ada").await, Performed::Sent { .. }), "{}", mail.log());
    let unknown = send(&email, "dlv_3", "nobody").await;
    assert!(
        matches!(unknown, Performed::NotSent(NotSent { class: FailureClass::BadAddress, .. })),
        "{unknown:?}"
    );
    assert!(
        matches!(send(&email, "dlv_4", "ada").await, Performed::Sent { .. }),
        "a refusal ends no connection"
    );
    let mut ada = Person::sign_in(&mail, "ada").await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(header(&ada.next_mail().await, "Message-ID"));
    }
    ids.sort();
    assert_eq!(ids, ["<dlv_1@example.test>", "<dlv_2@example.test>", "<dlv_4@example.test>"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mailbox_that_goes_away_is_read_on_and_what_was_not_stored_comes_again() {
    let mut mail = MailServer::start(&["hub", "ada"]).await;
    let ada = Person::sign_in(&mail, "ada").await;
    ada.send("hub@example.test", "From: ada@example.test\r\nMessage-ID: <first@ada.test>\r\n\r\nFirst.\r\n")
        .await;
    let mut hub = hub(&mail, 2);
    let first = hub.next(&mail).await;
    assert_eq!(text(&first), "First.", "it failed to be stored twice");
    hub.is_connected(true).await;
    mail.kill_imap().await;
    hub.is_connected(false).await;
    mail.start_imap().await;
    hub.is_connected(true).await;
    ada.send(
        "hub@example.test",
        "From: ada@example.test\r\nMessage-ID: <second@ada.test>\r\n\r\nSecond.\r\n",
    )
    .await;
    assert_eq!(text(&hub.next(&mail).await), "Second.", "and the first one not again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mail_that_bounces_later_says_which_one_it_was() {
    let mail = MailServer::start(&["hub"]).await;
    let mut hub = hub(&mail, 0);
    assert!(matches!(send(&hub.email, "dlv_lost", "gone").await, Performed::Sent { .. }), "{}", mail.log());
    let bounce = hub.next(&mail).await;
    let IncomingKind::Bounce { message_id, permanent, reason } = &bounce.what else {
        panic!("a bounce: {bounce:?}")
    };
    assert_eq!(
        (message_id.as_str(), *permanent, bounce.origin.clone()),
        ("dlv_lost@example.test", true, Origin::Automatic)
    );
    assert!(reason.starts_with("5.1.1: "), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_nobody_vouches_for_gets_neither_mail_nor_password() {
    let mail = MailServer::start(&["hub"]).await;
    let email = channel(Settings { ca_file: None, ..settings(&mail) });
    let refused = send(&email, "dlv_1", "hub").await;
    let Performed::NotSent(failed) = refused else { panic!("{refused:?}") };
    assert_eq!(failed.class, FailureClass::Misconfigured);
    assert!(failed.reason.contains("certificate"), "{}", failed.reason);
    assert!(!mail.log().contains("sasl_username"), "{}", mail.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_signs_in_on_both_servers_and_leaves_no_trace() {
    let mail = MailServer::start(&["hub"]).await;
    let good = channel(settings(&mail)).check().await.expect("both let us in");
    assert!(good.account.contains("; answers come to INBOX at localhost:"), "{}", good.account);
    let mut wrong = settings(&mail);
    let imap = wrong.imap.as_mut().expect("there is one");
    imap.folder = "Elsewhere".into();
    let why = channel(wrong.clone()).check().await.expect_err("there is no such folder");
    assert!(why.starts_with("imap_url: ") && why.contains("Elsewhere"), "{why}");
    let password = SecretString::from("not this one");
    for server in [&mut wrong.smtp.server, &mut wrong.imap.as_mut().expect("there is one").server] {
        server.credentials = Some(Credentials { user: "hub".into(), password: password.clone() });
    }
    let why = channel(wrong).check().await.expect_err("the password is wrong");
    assert!(
        why.contains("smtp_url: ") && why.contains("imap_url: ") && !why.contains("not this one"),
        "{why}"
    );
}
