//! The SMTP conversation (RFC 5321), stage by stage, so that for every way in which it can end it is known whether the mail may have been
//! taken: nobody has it before the end of its data went out, and only the server knows after that.
//!
//! It is our own because the libraries that were tried report less than that: which stage failed, whether the final dot left, and all lines of a
//! refusal. They also keep what a server sent before its TLS handshake, which somebody in between could use to answer in its place.

use super::net::{BoxedWire, Trust, connect};
use super::settings::{Credentials, Security, Smtp};
use super::status::{Stage, Status, classify, pause_ms};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::time::Duration;
use switchboard_core::ExposeSecret as _;
use switchboard_core::port::channel::{FailureClass, NotSent, Performed};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::time::timeout;

/// Longest line of a reply that is read, in bytes.
const REPLY_LINE_BYTES_MAX: u64 = 4096;
/// Most lines of one reply.
const REPLY_LINES_MAX: usize = 128;
/// Longest reason that is handed on, in characters.
const REASON_CHARS_MAX: usize = 300;

/// A reply.
#[derive(Debug)]
struct Reply {
    code: u16,
    lines: Vec<String>,
}

impl Reply {
    fn status(&self) -> Option<Status> {
        self.lines.iter().find_map(|line| Status::at_start_of(line))
    }

    fn refusal(&self, stage: Stage) -> NotSent {
        let said = self.lines.join(" ");
        let reason: String =
            format!("the mail server refused: {} {said}", self.code).chars().take(REASON_CHARS_MAX).collect();
        let class = classify(stage, self.code, self.status());
        NotSent {
            code: Some(self.code.to_string()),
            retry_after_ms: pause_ms(class, self.status()),
            ..NotSent::new(class, reason)
        }
    }
}

/// A connection past its greeting, where mails can be sent one after the other.
#[derive(Debug)]
pub(super) struct Connection {
    wire: BufReader<BoxedWire>,
    extensions: Vec<String>,
    command_timeout: Duration,
    data_timeout: Duration,
    usable: bool,
}

/// One mail for one recipient.
#[derive(Debug, Clone, Copy)]
pub(super) struct Envelope<'a> {
    pub from: &'a str,
    pub to: &'a str,
    /// Lines end with CR LF.
    pub content: &'a [u8],
}

impl Connection {
    /// Connects, encrypts and signs in as the settings say.
    pub async fn open(smtp: &Smtp, hello: &str, trust: &Trust) -> Result<Self, NotSent> {
        let slow = |_| NotSent::new(FailureClass::Transient, format!("{} does not answer", smtp.server.host));
        let wire = timeout(smtp.connect_timeout, connect(&smtp.server, trust)).await.map_err(slow)??;
        let mut connection = Self {
            wire: BufReader::new(wire),
            extensions: Vec::new(),
            command_timeout: smtp.command_timeout,
            data_timeout: smtp.data_timeout,
            usable: true,
        };
        let greeting = connection.reply(connection.command_timeout).await?;
        connection.wanted(&greeting, 220, Stage::Hello)?;
        connection.hello(hello).await?;
        if smtp.server.security == Security::StartTls {
            connection = timeout(smtp.connect_timeout, connection.start_tls(smtp, hello, trust))
                .await
                .map_err(slow)??;
        }
        if let Some(credentials) = &smtp.server.credentials {
            connection.sign_in(credentials).await?;
        }
        Ok(connection)
    }

    /// Ends the conversation as the protocol asks; whether the server agrees does not matter.
    pub async fn quit(mut self) {
        let _ = self.command("QUIT", 221, Stage::Hello).await;
    }

    /// Whether another mail may be sent on it.
    pub fn is_usable(&self) -> bool {
        self.usable
    }

    /// Whether the server still answers, and has said nothing meanwhile; ends what the last mail left.
    pub async fn is_alive(&mut self) -> bool {
        // A reply that nobody waits for would be taken for that of the next command.
        let is_quiet =
            self.wire.buffer().is_empty() && timeout(Duration::ZERO, self.wire.fill_buf()).await.is_err();
        is_quiet && self.command("RSET", 250, Stage::Hello).await.is_ok()
    }

    /// Sends one mail.
    pub async fn send(&mut self, envelope: Envelope<'_>) -> Performed {
        if let Err(failed) = self.offer(envelope).await {
            return Performed::NotSent(failed);
        }
        if let Err(failed) = self.write_within(self.data_timeout, &stuffed(envelope.content)).await {
            // The server has no end of the data: it must not have taken it (RFC 5321, 4.1.1.4).
            return Performed::NotSent(failed);
        }
        // From here on the mail may have been taken, whatever happens.
        match self.write(b".\r\n").await {
            Ok(()) => self.verdict().await,
            Err(lost) => Performed::Unknown {
                reason: format!("the connection broke with the mail's last byte: {}", lost.reason),
            },
        }
    }

    async fn verdict(&mut self) -> Performed {
        let reply = match self.reply(self.data_timeout).await {
            Ok(reply) => reply,
            Err(lost) => {
                return Performed::Unknown {
                    reason: format!("the mail went out and was not confirmed: {}", lost.reason),
                };
            }
        };
        match reply.code {
            200..300 => Performed::Sent { message_id: None },
            400..600 => {
                self.usable = reply.code != 421;
                Performed::NotSent(reply.refusal(Stage::Content))
            }
            code => {
                self.usable = false;
                Performed::Unknown {
                    reason: format!("the mail went out and was answered with {code}, which says nothing"),
                }
            }
        }
    }

    async fn offer(&mut self, envelope: Envelope<'_>) -> Result<(), NotSent> {
        let mut options = String::new();
        if let Some(size) = self.extension("SIZE") {
            let max = size.parse::<usize>().unwrap_or(0);
            if max > 0 && envelope.content.len() > max {
                let reason = format!("the mail server takes mails of {max} bytes at most");
                return Err(NotSent::new(FailureClass::Permanent, reason));
            }
            options.extend([" SIZE=", &envelope.content.len().to_string()]);
        }
        if !(envelope.from.is_ascii() && envelope.to.is_ascii()) {
            if self.extension("SMTPUTF8").is_none() {
                let reason = "the mail server cannot send to addresses with letters beyond ASCII (SMTPUTF8)";
                return Err(NotSent::new(FailureClass::Permanent, reason));
            }
            options += " SMTPUTF8";
        }
        self.command(&format!("MAIL FROM:<{}>{options}", envelope.from), 250, Stage::Sender).await?;
        self.command(&format!("RCPT TO:<{}>", envelope.to), 250, Stage::Recipient).await?;
        self.command("DATA", 354, Stage::Content).await
    }

    async fn hello(&mut self, name: &str) -> Result<(), NotSent> {
        self.write(format!("EHLO {name}\r\n").as_bytes()).await?;
        let reply = self.reply(self.command_timeout).await?;
        self.extensions = reply.lines.iter().skip(1).map(|line| line.to_ascii_uppercase()).collect();
        self.wanted(&reply, 250, Stage::Hello)
    }

    /// What stands behind the name of an extension that the server has.
    fn extension(&self, name: &str) -> Option<&str> {
        let mut found = self.extensions.iter().filter_map(|line| line.strip_prefix(name));
        found.find(|rest| rest.is_empty() || rest.starts_with(' ')).map(str::trim)
    }

    async fn start_tls(mut self, smtp: &Smtp, hello: &str, trust: &Trust) -> Result<Self, NotSent> {
        if self.extension("STARTTLS").is_none() {
            let reason = format!("{} does not offer STARTTLS, which is required", smtp.server.host);
            return Err(NotSent::new(FailureClass::Misconfigured, reason));
        }
        self.command("STARTTLS", 220, Stage::Hello).await?;
        if !self.wire.buffer().is_empty() {
            let reason =
                "the mail server sent more before TLS than it was asked for: somebody may be in between";
            return Err(NotSent::new(FailureClass::Transient, reason));
        }
        let wire = trust.encrypt(self.wire.into_inner(), &smtp.server.host).await?;
        self.wire = BufReader::new(wire);
        self.hello(hello).await?;
        Ok(self)
    }

    async fn sign_in(&mut self, credentials: &Credentials) -> Result<(), NotSent> {
        let offered = self.extension("AUTH").unwrap_or_default().to_owned();
        let offers = |name: &str| offered.split(' ').any(|one| one == name);
        let (user, password) = (&credentials.user, credentials.password.expose_secret());
        if offers("PLAIN") {
            let token = STANDARD.encode(format!("\0{user}\0{password}"));
            return self.command(&format!("AUTH PLAIN {token}"), 235, Stage::Auth).await;
        }
        if offers("LOGIN") {
            self.command("AUTH LOGIN", 334, Stage::Auth).await?;
            self.command(&STANDARD.encode(user), 334, Stage::Auth).await?;
            return self.command(&STANDARD.encode(password), 235, Stage::Auth).await;
        }
        let reason = "the mail server offers no way to sign in that is known here (PLAIN, LOGIN)";
        Err(NotSent::new(FailureClass::Misconfigured, reason))
    }

    async fn command(&mut self, line: &str, wanted: u16, stage: Stage) -> Result<(), NotSent> {
        self.write(format!("{line}\r\n").as_bytes()).await?;
        let reply = self.reply(self.command_timeout).await?;
        self.wanted(&reply, wanted, stage)
    }

    /// 251 and 252 are what a server says that takes a recipient without being sure of it.
    fn wanted(&mut self, reply: &Reply, wanted: u16, stage: Stage) -> Result<(), NotSent> {
        let taken = stage == Stage::Recipient && matches!(reply.code, 251 | 252);
        if reply.code == wanted || taken {
            return Ok(());
        }
        self.usable &= reply.code != 421;
        if reply.code < 400 {
            self.usable = false;
            let reason = format!("the mail server answered {} where {wanted} was due", reply.code);
            return Err(NotSent::new(FailureClass::Transient, reason));
        }
        Err(reply.refusal(stage))
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), NotSent> {
        self.write_within(self.command_timeout, bytes).await
    }

    async fn write_within(&mut self, limit: Duration, bytes: &[u8]) -> Result<(), NotSent> {
        let writing = async {
            self.wire.get_mut().write_all(bytes).await?;
            self.wire.get_mut().flush().await
        };
        let written = timeout(limit, writing).await;
        self.checked(written)
    }

    async fn reply(&mut self, limit: Duration) -> Result<Reply, NotSent> {
        let read = timeout(limit, read_reply(&mut self.wire)).await;
        self.checked(read)
    }

    fn checked<T>(
        &mut self,
        done: Result<std::io::Result<T>, tokio::time::error::Elapsed>,
    ) -> Result<T, NotSent> {
        let reason = match done {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => format!("the connection to the mail server broke: {error}"),
            Err(_) => "the mail server does not answer".to_owned(),
        };
        self.usable = false;
        Err(NotSent::new(FailureClass::Transient, reason))
    }
}

async fn read_reply(wire: &mut BufReader<BoxedWire>) -> std::io::Result<Reply> {
    let wrong = |why: &str| std::io::Error::new(std::io::ErrorKind::InvalidData, why.to_owned());
    let mut lines = Vec::new();
    while lines.len() < REPLY_LINES_MAX {
        let mut line = Vec::new();
        wire.take(REPLY_LINE_BYTES_MAX).read_until(b'\n', &mut line).await?;
        if line.pop() != Some(b'\n') {
            return Err(if line.is_empty() {
                std::io::ErrorKind::UnexpectedEof.into()
            } else {
                wrong("an endless line")
            });
        }
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        let code =
            line.get(..3).and_then(|code| code.parse::<u16>().ok()).filter(|code| (200..600).contains(code));
        let (Some(code), mark) = (code, line.get(3..4).unwrap_or(" ")) else {
            return Err(wrong("a reply without a code"));
        };
        lines.push(line.get(4..).unwrap_or_default().to_owned());
        match mark {
            "-" => {}
            " " => return Ok(Reply { code, lines }),
            _ => return Err(wrong("a reply without a code")),
        }
    }
    Err(wrong("an endless reply"))
}

/// The content with dots doubled that begin a line, ended by a line end; without the final dot.
fn stuffed(content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len() + 16);
    for line in content.split_inclusive(|byte| *byte == b'\n') {
        if line.starts_with(b".") {
            out.push(b'.');
        }
        out.extend_from_slice(line);
    }
    if !out.ends_with(b"\r\n") {
        out.extend_from_slice(b"\r\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_that_begin_a_line_are_doubled() {
        assert_eq!(stuffed(b".a\r\n..\r\nb."), b"..a\r\n...\r\nb.\r\n");
        assert_eq!(stuffed(b"a\r\n"), b"a\r\n");
    }

    #[tokio::test]
    async fn replies_are_read_whole_and_bounded() {
        let read = |bytes: Vec<u8>| async move {
            let wire: BoxedWire = Box::new(std::io::Cursor::new(bytes));
            read_reply(&mut BufReader::new(wire)).await
        };
        let reply = read(b"550-5.1.1 The account\r\n550 5.1.1 does not exist\r\n".to_vec()).await.unwrap();
        assert_eq!((reply.code, reply.lines.len()), (550, 2));
        assert_eq!(reply.status(), Some(Status { class: 5, subject: 1, detail: 1 }));
        assert_eq!(read(b"250\r\n".to_vec()).await.unwrap().code, 250);
        for wrong in [&b""[..], b"HTTP/1.1 400\r\n", b"999 x\r\n", b"250_x\r\n", b"250 half", b"25\xFF x\r\n"]
        {
            assert!(read(wrong.to_vec()).await.is_err(), "{wrong:?}");
        }
        assert!(read([b"250-x\r\n".as_slice(); 1000].concat()).await.is_err());
        assert!(read(vec![b'2'; 100_000]).await.is_err());
    }
}
