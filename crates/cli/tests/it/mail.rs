//! A question by mail and its answer, through the program, a real relay and a real mailbox.

use crate::cli::{Hub, run};
use serde_json::Value;
use std::path::{Path, PathBuf};
use switchboard_testkit::mail::person::{Person, header};
use switchboard_testkit::mail::{MailServer, PASSWORD};

/// A configuration with the mail channel and a rule that holds what speaks of deploying.
fn configure(dir: &Path, mail: &MailServer) -> PathBuf {
    let password = dir.join("password");
    std::fs::write(&password, PASSWORD).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&password, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    let config = dir.join("hub.toml");
    let text = format!(
        "[[channel]]\nname = \"email\"\nkind = \"email\"\nsmtp_url = \"smtp://127.0.0.1:{}\"\nimap_url = \"imap://127.0.0.1:{}\"\n\
         from = \"Switchboard <{}>\"\nreply_to = \"hub+{{token}}@example.test\"\nuser = \"hub\"\npassword_file = {:?}\nca_file = {:?}\n",
        mail.smtp_port,
        mail.imap_port,
        MailServer::address("hub"),
        password.display().to_string(),
        mail.ca_file().display().to_string(),
    );
    std::fs::write(&config, text).unwrap();
    config
}

fn reply(to_mail: &str, text: &str) -> (String, String) {
    let (to, id) = (header(to_mail, "Reply-To"), header(to_mail, "Message-ID"));
    let from = MailServer::address("ada");
    let mail = format!(
        "From: Ada <{from}>\r\nTo: {to}\r\nSubject: Re: {}\r\nMessage-ID: <answer-{}@example.test>\r\nIn-Reply-To: {id}\r\n\
         References: {id}\r\nDate: Mon, 30 Nov 2026 12:00:00 +0000\r\n\r\n{text}\r\n\r\nOn Mon, 30 Nov 2026 at 12:00, Switchboard <hub@example.test> wrote:\r\n> Deploy now?\r\n",
        header(to_mail, "Subject"),
        text.len(),
    );
    (to, mail)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_by_mail_is_answered_by_mail() {
    let mail = MailServer::start(&["hub", "ada"]).await;
    let mut ada = Person::sign_in(&mail, "ada").await;
    let dir = tempfile::tempdir().unwrap();
    let config = configure(dir.path(), &mail);
    let data = dir.path().join("data");
    let hub = Hub::start_with(&data, &["--config", config.to_str().unwrap()]);
    let address = MailServer::address("ada");
    let ask = ["ask", "--to", &address, "Deploy *now*?", "--deadline", "10m", "--timeout", "60s", "--json"];
    let stranger = run(&mut hub.command(&ask));
    assert!(stranger.code == 3 && stranger.stderr.contains("SB0131"), "{stranger:?}");
    let allowed = run(&mut hub.command(&[
        "pair",
        "allow",
        "--channel",
        "email",
        "--to",
        &address,
        "--person",
        "Owner",
    ]));
    assert_eq!(allowed.code, 0, "{allowed:?}");
    let mut asking = hub.command(&ask);
    let asking = tokio::task::spawn_blocking(move || run(&mut asking));
    let question = ada.next_mail().await;
    assert!(question.contains("Deploy") && question.contains("text/html"), "{question}");
    let (to, answer) = reply(&question, "Yes, after lunch.");
    ada.send(&to, &answer).await;
    let answered = asking.await.unwrap().json();
    assert_eq!(answered["state"], "answered", "{answered}\n{}", mail.log());
    assert_eq!(answered["answer"]["text"], "Yes, after lunch.", "{answered}");
    assert_eq!((&answered["answer"]["by"], &answered["answer"]["via"]), (&address.into(), &"email".into()));
    let ledger: Value = run(&mut hub.command(&["ledger", "--json"])).json();
    assert_eq!((&ledger["outbound"]["accepted"], &ledger["outbound"]["answered"]), (&1.into(), &1.into()));
    let audited = run(&mut hub.command(&["log", "audit", "--json"])).json();
    assert_eq!(audited["ok"], true, "{audited}");
}
