//! What an e-mail channel is set up with.

use super::secret::ReplyKey;
use std::path::PathBuf;
use std::time::Duration;
use switchboard_core::SecretString;

/// How a connection is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Security {
    /// TLS from the first byte (ports 465 and 993).
    Tls,
    /// TLS after STARTTLS, required (ports 587 and 143).
    StartTls,
    /// None: only to this machine, unless [`Server::plain_allowed`].
    Plain,
}

/// A name and its password.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// The name.
    pub user: String,
    /// The password.
    pub password: SecretString,
}

/// A mail server.
#[derive(Debug, Clone)]
pub struct Server {
    /// Its name, which its certificate must be for, or its IP address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How the connection is protected.
    pub security: Security,
    /// Whether an unencrypted connection may leave this machine.
    pub plain_allowed: bool,
    /// Who we are there.
    pub credentials: Option<Credentials>,
}

/// How mail goes out.
#[derive(Debug, Clone)]
pub struct Smtp {
    /// The relay.
    pub server: Server,
    /// How we call ourselves in EHLO; the domain of the sending address when absent.
    pub hello: Option<String>,
    /// Whether the relay removes the duplicates of a message id, so that an unknown outcome may be tried again.
    pub relay_dedups: bool,
    /// Connections to it at a time, 1 at least.
    pub connections_max: usize,
    /// Time to wait for one of them to become free.
    pub queue_timeout: Duration,
    /// Time to connect, TLS included.
    pub connect_timeout: Duration,
    /// Time for the reply to one command.
    pub command_timeout: Duration,
    /// Time for the reply to a whole mail.
    pub data_timeout: Duration,
}

impl Smtp {
    /// The relay with the usual bounds: 4 connections, 20 s to wait for one, 15 s to connect, 30 s a command, 2 min a mail.
    #[must_use]
    pub fn new(server: Server) -> Self {
        Self {
            server,
            hello: None,
            relay_dedups: false,
            connections_max: 4,
            queue_timeout: Duration::from_secs(20),
            connect_timeout: Duration::from_secs(15),
            command_timeout: Duration::from_secs(30),
            data_timeout: Duration::from_mins(2),
        }
    }
}

/// How answers come in.
#[derive(Debug, Clone)]
pub struct Imap {
    /// The server with the mailbox.
    pub server: Server,
    /// The folder that is read; whatever is unread in it is taken, and then marked as read.
    pub folder: String,
    /// How often to look where the server cannot tell that something has come.
    pub poll: Duration,
    /// How long to wait for being told before looking anyway.
    pub idle: Duration,
    /// Time to connect, and for the answer to one command.
    pub timeout: Duration,
    /// First and longest pause before connecting again.
    pub backoff: (Duration, Duration),
}

impl Imap {
    /// The inbox, with the usual bounds: a look every 30 s without IDLE and every 5 min with it, 60 s a command, 1 s to 5 min of pause.
    #[must_use]
    pub fn new(server: Server) -> Self {
        Self {
            server,
            folder: "INBOX".to_owned(),
            poll: Duration::from_secs(30),
            idle: Duration::from_mins(5),
            timeout: Duration::from_mins(1),
            backoff: (Duration::from_secs(1), Duration::from_mins(5)),
        }
    }
}

/// The secret reply addresses.
#[derive(Debug, Clone)]
pub struct Reply {
    /// An address whose mail reaches the folder that is read, with `{token}` before its `@`: `answers+{token}@example.org`. 15 bytes may stand
    /// beside the token there.
    pub template: String,
    /// The key of the proofs.
    pub key: ReplyKey,
}

/// An e-mail channel.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Its configured name.
    pub name: String,
    /// The address that mails come from. Bounces come back to it.
    pub from: String,
    /// The name beside it.
    pub from_name: Option<String>,
    /// How mail goes out.
    pub smtp: Smtp,
    /// How answers come in; none do when absent. Needs `reply` or `authserv_id`: answers of people who are not known for sure count for nothing.
    pub imap: Option<Imap>,
    /// The secret reply addresses; answers go to `from` when absent.
    pub reply: Option<Reply>,
    /// The name by which the receiving mail server signs `Authentication-Results`. Only what stands in the topmost of these headers
    /// counts, and the server must remove those that others have put there under its name (RFC 8601, section 5).
    pub authserv_id: Option<String>,
    /// Certificate authorities to believe beside those of the operating system, in PEM.
    pub ca_file: Option<PathBuf>,
}
