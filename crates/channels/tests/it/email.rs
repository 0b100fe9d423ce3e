//! The mail channel against a relay: the conformance suite.

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use switchboard_channels::conformance::{self, Accepted, Behaviour, Fixture, SECRET};
use switchboard_channels::document::{Document, Plain, render};
use switchboard_channels::email::{Credentials, Email, Reply, ReplyKey, Security, Server, Settings, Smtp};
use switchboard_core::SecretString;
use switchboard_core::port::channel::{AddressKind, Channel, Part};
use switchboard_core::random::SystemEntropy;
use switchboard_core::time::ManualClock;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What the channel puts behind a body begins with one of these.
const ADDED: [&str; 4] =
    ["Answer in a browser: ", "Decide in a browser: ", "An answer counts until ", "---\n\nThe agent "];

#[derive(Default)]
struct Room {
    script: Mutex<VecDeque<Behaviour>>,
    /// Mails that were begun.
    contacts: AtomicUsize,
    accepted: Mutex<Vec<Accepted>>,
    ticks: watch::Sender<usize>,
}

impl Room {
    fn is_away(&self) -> bool {
        self.script.lock().front() == Some(&Behaviour::Unreachable)
    }
}

struct EmailFixture {
    room: Arc<Room>,
    channel: Arc<Email>,
    settings: Settings,
    relay: JoinHandle<()>,
}

impl Drop for EmailFixture {
    fn drop(&mut self) {
        self.relay.abort();
    }
}

impl EmailFixture {
    async fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let settings = settings(listener.local_addr().unwrap().port());
        let room = Arc::new(Room::default());
        let relay = tokio::spawn(serve(listener, room.clone()));
        let clock = Arc::new(ManualClock::at(crate::NOW_MS));
        let channel = Arc::new(Email::new(settings.clone(), clock, Arc::new(SystemEntropy)).unwrap());
        Self { room, channel, settings, relay }
    }
}

fn settings(port: u16) -> Settings {
    let credentials = Credentials { user: "hub".into(), password: SecretString::from(SECRET) };
    let server = Server {
        host: "127.0.0.1".into(),
        port,
        security: Security::Plain,
        plain_allowed: false,
        credentials: Some(credentials),
    };
    let limit = Duration::from_secs(4);
    Settings {
        name: "email".into(),
        from: "hub@example.org".into(),
        from_name: Some("Switchboard".into()),
        smtp: Smtp {
            connections_max: 8,
            connect_timeout: limit,
            command_timeout: limit,
            data_timeout: limit,
            ..Smtp::new(server)
        },
        imap: None,
        reply: Some(Reply { template: "hub+{token}@example.org".into(), key: ReplyKey::new([1; 32]) }),
        authserv_id: None,
        ca_file: None,
    }
}

async fn serve(listener: TcpListener, room: Arc<Room>) {
    while let Ok((stream, _)) = listener.accept().await {
        let room = room.clone();
        tokio::spawn(async move {
            if room.is_away() {
                room.script.lock().pop_front();
                return;
            }
            // A client that goes away ends its conversation.
            let _ = converse(BufReader::new(stream), &room).await;
        });
    }
}

async fn converse(mut stream: BufReader<TcpStream>, room: &Room) -> std::io::Result<()> {
    stream.write_all(b"220 relay.test\r\n").await?;
    let mut behaviour = Behaviour::Accept;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 || room.is_away() {
            return Ok(());
        }
        let reply = match line.get(..4).unwrap_or_default() {
            "EHLO" => "250-relay.test\r\n250 AUTH PLAIN\r\n",
            "AUTH" => "235 2.7.0 welcome\r\n",
            "MAIL" => {
                room.contacts.fetch_add(1, Ordering::SeqCst);
                behaviour = room.script.lock().pop_front().unwrap_or(Behaviour::Accept);
                "250 2.1.0 ok\r\n"
            }
            "RCPT" if behaviour == Behaviour::Refuse => "550 5.1.1 no such user\r\n",
            "RCPT" if behaviour == Behaviour::Busy => "451 4.3.0 later\r\n",
            "DATA" => {
                stream.write_all(b"354 go on\r\n").await?;
                if behaviour == Behaviour::Reset {
                    stream.read_line(&mut line).await?;
                    return stream.get_ref().set_zero_linger();
                }
                take(&mut stream, room).await?;
                confirm(&mut stream, behaviour).await?
            }
            _ => "250 2.0.0 ok\r\n",
        };
        stream.write_all(reply.as_bytes()).await?;
    }
}

/// Takes one mail.
async fn take(stream: &mut BufReader<TcpStream>, room: &Room) -> std::io::Result<()> {
    let mut content = String::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        if line == ".\r\n" {
            break;
        }
        content.push_str(line.strip_prefix('.').unwrap_or(&line));
    }
    room.accepted.lock().push(accepted(&content));
    room.ticks.send_modify(|count| *count += 1);
    Ok(())
}

/// What is said when a mail has been taken; an error where that is nothing.
async fn confirm(stream: &mut BufReader<TcpStream>, behaviour: Behaviour) -> std::io::Result<&'static str> {
    let gone = || std::io::ErrorKind::ConnectionAborted.into();
    match behaviour {
        Behaviour::AcceptTwice => Ok("250 2.0.0 taken\r\n250 2.0.0 taken\r\n"),
        Behaviour::AcceptThenGarbage => Ok("\u{16}\u{3}\u{1} this is not SMTP\r\n"),
        Behaviour::AcceptThenReset => {
            stream.get_ref().set_zero_linger()?;
            Err(gone())
        }
        Behaviour::AcceptThenTruncate => {
            stream.write_all(b"250-2.0.0 tak").await?;
            Err(gone())
        }
        Behaviour::AcceptThenSilence => {
            stream.read_line(&mut String::new()).await?;
            Err(gone())
        }
        Behaviour::AcceptSlowly => {
            for byte in b"250-2.0.0 taken\r\n250 2.0.0 ok\r" {
                stream.write_u8(*byte).await?;
                tokio::task::yield_now().await;
            }
            Ok("\n")
        }
        _ => Ok("250 2.0.0 taken\r\n"),
    }
}

fn accepted(content: &str) -> Accepted {
    let mail = mail_parser::MessageParser::new().parse(content).unwrap();
    let delivery = mail.header_raw("X-Switchboard-Delivery").unwrap().trim().to_owned();
    Accepted {
        message_id: Some(format!("{delivery}@example.org")),
        delivery,
        text: without_added(&mail.body_text(0).unwrap().replace("\r\n", "\n")),
        bytes: content.as_bytes().to_vec(),
    }
}

fn without_added(text: &str) -> String {
    let starts = ADDED.iter().filter_map(|added| {
        if text.starts_with(added) { Some(0) } else { text.rfind(&format!("\n\n{added}")) }
    });
    text[..starts.min().unwrap()].to_owned()
}

impl Fixture for EmailFixture {
    fn channel(&self) -> Arc<dyn Channel> {
        self.channel.clone()
    }

    /// A relay cannot ask to wait, nor say that it failed with a mail and keep it.
    fn script(&self, behaviour: Behaviour) -> bool {
        let shows = !matches!(
            behaviour,
            Behaviour::Throttle(_) | Behaviour::AcceptThenFail | Behaviour::AcceptTogether(_)
        );
        if shows {
            self.room.script.lock().push_back(behaviour);
        }
        shows
    }

    fn contacts(&self) -> usize {
        self.room.contacts.load(Ordering::SeqCst)
    }

    fn accepted(&self) -> Vec<Accepted> {
        self.room.accepted.lock().clone()
    }

    fn until_accepted(&self, count: usize) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.room.ticks.subscribe().wait_for(|accepted| *accepted >= count).await.unwrap();
        })
    }

    fn address(&self, kind: AddressKind) -> Option<String> {
        (kind == AddressKind::Direct).then(|| "Ada@Example.net".into())
    }

    fn junk(&self) -> Vec<String> {
        ["ada", "ada@localhost", "Ada <ada@example.net>", "ada@example.net, eve@example.net"]
            .map(str::to_owned)
            .into()
    }

    fn text_of(&self, part: &Part) -> String {
        without_added(&part.text)
    }

    fn rendered(&self, body: &str) -> String {
        render(&Document::parse(body), &Plain)
    }

    fn debug(&self) -> String {
        format!("{:?} {:?}", self.channel, self.settings)
    }
}

#[tokio::test]
async fn email_keeps_every_promise() {
    let report =
        conformance::run(|| Box::pin(async { Box::new(EmailFixture::start().await) as Box<dyn Fixture> }))
            .await;
    report.assert();
    assert_eq!(
        report.not_applicable(),
        [
            "a_failure_after_accepting_is_not_a_refusal",
            "waits_are_as_long_as_was_asked",
            "an_outcome_is_shown_in_place",
            "nothing_is_acknowledged_before_it_is_taken",
            "a_press_brings_back_its_value",
            "what_a_person_changes_is_an_event_of_its_own"
        ]
    );
}
