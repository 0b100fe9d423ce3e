//! A person with a mail program: reads over IMAP, writes over SMTP.

use super::{MailServer, PASSWORD};
use crate::PATIENCE;
use async_imap::Session;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::TryStreamExt as _;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// Somebody at their mailbox.
pub struct Person {
    name: String,
    smtp_port: u16,
    mailbox: Session<TcpStream>,
    read: u32,
}

impl Person {
    /// Opens the inbox of the user `name`.
    pub async fn sign_in(mail: &MailServer, name: &str) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", mail.imap_port)).await.expect("the mailbox is there");
        let mut client = async_imap::Client::new(stream);
        client.read_response().await.expect("a greeting");
        let mut mailbox = client.login(name, PASSWORD).await.map_err(|(error, _)| error).expect("signed in");
        mailbox.select("INBOX").await.expect("an inbox");
        Self { name: name.to_owned(), smtp_port: mail.smtp_port, mailbox, read: 0 }
    }

    /// The next mail that has come or comes.
    pub async fn next_mail(&mut self) -> String {
        self.read += 1;
        let number = self.read.to_string();
        let come = async {
            // The server answers NOOP when there is news, at once or not: it is asked until there is.
            while self.mailbox.select("INBOX").await.expect("an inbox").exists < self.read {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            let fetched = self.mailbox.fetch(number, "BODY[]").await.expect("it can be read");
            fetched.try_collect::<Vec<_>>().await.expect("a mail")
        };
        let mails = tokio::time::timeout(PATIENCE, come).await.expect("a mail comes in time");
        let mail = String::from_utf8_lossy(mails[0].body().expect("its bytes")).into_owned();
        // Folded headers in one line.
        mail.replace("\r\n ", " ").replace("\r\n\t", " ")
    }

    /// How many mails a search finds.
    pub async fn count(&mut self, query: &str) -> usize {
        self.mailbox.search(query).await.expect("a search").len()
    }

    /// Sends these bytes.
    pub async fn send(&self, to: &str, mail: &str) {
        let stream = TcpStream::connect(("127.0.0.1", self.smtp_port)).await.expect("the relay is there");
        let mut stream = BufReader::new(stream);
        let token = STANDARD.encode(format!("\0{}\0{PASSWORD}", self.name));
        let from = MailServer::address(&self.name);
        let content = format!("{mail}\r\n.");
        let commands = [
            "EHLO client.test",
            &format!("AUTH PLAIN {token}"),
            &format!("MAIL FROM:<{from}>"),
            &format!("RCPT TO:<{to}>"),
            "DATA",
            &content,
        ];
        for command in [""].into_iter().chain(commands) {
            if !command.is_empty() {
                stream.write_all(format!("{command}\r\n").as_bytes()).await.expect("it takes commands");
            }
            let mut line = String::new();
            while line.get(3..4) != Some(" ") {
                line.clear();
                assert_ne!(stream.read_line(&mut line).await.expect("a reply"), 0, "{command}");
            }
            assert!(line.starts_with(['2', '3']), "{command}: {line}");
        }
    }
}

/// A header of a mail; panics when it has none of that name.
pub fn header(mail: &str, name: &str) -> String {
    let start = format!("{name}: ");
    let line = mail.lines().find_map(|line| line.strip_prefix(&start));
    line.unwrap_or_else(|| panic!("no {name} in {mail}")).trim().to_owned()
}
