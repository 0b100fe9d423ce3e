//! A question by mail and its answer, through the program, a real relay and a real mailbox.

use crate::cli::{Hub, run};
use serde_json::Value;
use std::path::{Path, PathBuf};
use switchboard_testkit::mail::person::{Person, header};
use switchboard_testkit::mail::{MailServer, PASSWORD};

/// A configuration with the mail channel, and with Ada as who approves.
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
         from = \"Switchboard <{}>\"\nreply_to = \"hub+{{token}}@example.test\"\nuser = \"hub\"\npassword_file = {:?}\nca_file = {:?}\n\
         [outbound]\napprovers = [\"email:{}\"]\n",
        mail.smtp_port,
        mail.imap_port,
        MailServer::address("hub"),
        password.display().to_string(),
        mail.ca_file().display().to_string(),
        MailServer::address("ada"),
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

/// A browser that keeps nothing.
struct Browser(reqwest::Client);

impl Browser {
    async fn get(&self, link: &str) -> (u16, String) {
        let response = self.0.get(link).send().await.unwrap();
        assert!(!response.headers().contains_key("set-cookie"));
        (response.status().as_u16(), response.text().await.unwrap())
    }

    /// Presses a button on the page of a link; follows where that leads.
    async fn press(&self, link: &str, decision: &str) -> (u16, String) {
        let origin = &link[..link.find("/console/").unwrap()];
        let form = self.0.post(link).header("origin", origin).body(format!("decision={decision}"));
        let response = form.header("content-type", "application/x-www-form-urlencoded").send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }
}

/// The link in a mail, out of its plain text.
fn link(mail: &str) -> String {
    let whole = mail.replace("=\r\n", "").replace("=3D", "=");
    let at = whole.find("http://127.0.0.1").unwrap_or_else(|| panic!("no link in {mail}"));
    let link = whole[at..].split_whitespace().next().unwrap().to_owned();
    assert!(link.contains("/console/decide/"), "{link}");
    link
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_is_decided_by_the_link_in_its_mail() {
    let mail = MailServer::start(&["hub", "ada"]).await;
    let mut ada = Person::sign_in(&mail, "ada").await;
    let dir = tempfile::tempdir().unwrap();
    let (config, data) = (configure(dir.path(), &mail), dir.path().join("data"));
    std::fs::create_dir_all(data.join("policies")).unwrap();
    let rule = "[[require_approval]]\nname = \"care\"\ntool = \"messaging.send\"\nparam = \"body\"\ncontains = \"deploy\"\n";
    std::fs::write(data.join("policies/care.toml"), rule).unwrap();
    let hub = Hub::start_with(&data, &["--config", config.to_str().unwrap(), "--log", "trace"]);
    let address = MailServer::address("ada");
    let pair = ["--channel", "email", "--to", &address];
    let consent = |act: &str| {
        let done = run(hub.command(&["pair", act]).args(pair));
        assert_eq!(done.code, 0, "{done:?}");
    };
    consent("allow");
    let mut held = Vec::new();
    for text in ["Please deploy one.", "Please deploy two.", "Please deploy three."] {
        let sent = ["send", "--via", "console", "--to", "Owner", text, "--json"];
        let receipt = run(&mut hub.command(&sent)).json();
        assert_eq!(receipt["state"], "held", "{receipt}");
        let asked = ada.next_mail().await;
        assert!(asked.contains("do not pass this mail on"), "{asked}");
        held.push((receipt["send_id"].as_str().unwrap().to_owned(), link(&asked)));
    }
    let shown = |send_id: &str| run(&mut hub.command(&["outbound", "show", send_id, "--json"])).json();
    let browser = Browser(reqwest::Client::builder().no_proxy().build().unwrap());
    let [(first, one), (second, two), (third, three)] = held.as_slice() else { panic!("{held:?}") };

    for _ in 0..2 {
        let (status, page) = browser.get(one).await;
        assert!(status == 200 && page.contains("Please deploy one."), "{status} {page}");
    }
    assert_eq!(shown(first)["state"], "held", "a scanner that looks decides nothing");
    let (status, page) = browser.press(one, "approve").await;
    assert!(status == 200 && page.contains("mail-link"), "{status} {page}");
    let (status, page) = browser.press(one, "deny").await;
    assert!(status == 409 && page.contains("already approved"), "{status} {page}");
    let decided = shown(first);
    assert_eq!(
        (&decided["state"], &decided["approval"]["decided_by"], &decided["approval"]["decided_via"]),
        (&"delivered".into(), &address.clone().into(), &"mail-link".into()),
        "{decided}"
    );

    let proof = one.rsplit_once('.').unwrap().1;
    let mixed = format!("{}.{proof}", two.rsplit_once('.').unwrap().0);
    assert_eq!(browser.press(&mixed, "approve").await.0, 404, "it is for another approval");
    assert_eq!(shown(second)["state"], "held");
    assert_eq!(browser.press(two, "deny").await.0, 200);
    assert_eq!(shown(second)["state"], "refused");

    consent("revoke");
    assert_eq!((browser.get(three).await.0, browser.press(three, "approve").await.0), (404, 404));
    assert_eq!(shown(third)["state"], "held");
    let log = run(&mut hub.command(&["log", "tail", "--limit", "500"])).stdout;
    let audited = run(&mut hub.command(&["log", "audit", "--json"])).json();
    assert_eq!(audited["ok"], true, "{audited}");
    let said = hub.stop().stderr;
    assert!(said.contains("/console/decide/{token}"), "{said}");
    for (_, link) in &held {
        let proof = link.rsplit_once('.').unwrap().1;
        assert!(!said.contains(proof) && !log.contains(proof), "what decides stands in no log");
    }
}
