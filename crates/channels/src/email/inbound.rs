//! Reads the mailbox over IMAP (RFC 3501): whatever is unread is taken, and marked as read only when it is durable.

use super::net::{BoxedWire, Trust, connect};
use super::outbound::{CHECK_MAX, Outbound};
use super::read::{MAIL_BYTES_MAX, Reader};
use super::settings::{Credentials, Imap, Security};
use async_imap::extensions::idle::IdleResponse;
use async_imap::types::{Flag, UnsolicitedResponse};
use async_imap::{Client, Session};
use futures_util::StreamExt as _;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::ExposeSecret as _;
use switchboard_core::port::channel::{Inbound, Incoming};
use switchboard_core::random::{self, Entropy};
use switchboard_core::time::{Clock, WallMs};
use tokio::time::{sleep, timeout};

/// Marks a mail that has been taken, beside `\Seen`.
const TAKEN: &str = "$SwitchboardTaken";
/// Marks a mail that cannot be read; it is left for people.
const FAILED: &str = "$SwitchboardFailed";

type Mails = Session<BoxedWire>;

/// A mailbox.
pub(super) struct Mailbox {
    imap: Imap,
    trust: Trust,
    reader: Arc<Reader>,
    /// By which senders are told what became of what they wrote.
    outbound: Arc<Outbound>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
}

impl fmt::Debug for Mailbox {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Mailbox").field("imap", &self.imap).finish_non_exhaustive()
    }
}

/// Why the mailbox is not being read, for people.
#[derive(Debug)]
struct Fault(String);

impl From<async_imap::error::Error> for Fault {
    fn from(error: async_imap::error::Error) -> Self {
        Self(format!("the mailbox cannot be read: {error}"))
    }
}

/// A mail as it was fetched.
struct Fetched {
    bytes: Vec<u8>,
    at_ms: WallMs,
}

impl Mailbox {
    pub fn new(
        imap: Imap,
        trust: Trust,
        reader: Reader,
        outbound: Arc<Outbound>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Self {
        Self { imap, trust, reader: Arc::new(reader), outbound, clock, entropy }
    }

    /// Reads for ever; connects again after a pause that grows while that fails.
    pub async fn listen(&self, inbound: Arc<dyn Inbound>) {
        let mut pause = self.imap.backoff.0;
        loop {
            let mut worked = false;
            let Err(Fault(reason)) = self.session(&*inbound, &mut worked).await;
            inbound.health(&self.reader.channel, Some(reason));
            if worked {
                pause = self.imap.backoff.0;
            }
            sleep(self.jittered(pause)).await;
            pause = (pause * 2).min(self.imap.backoff.1);
        }
    }

    pub fn read(&self, mail: &[u8], at_ms: WallMs) -> Option<Incoming> {
        self.reader.read(mail, at_ms).ok()
    }

    /// Signs in and looks at the folder, and changes nothing; or says what is wrong.
    pub async fn check(&self) -> Result<String, String> {
        let server = &self.imap.server;
        let place = format!("{}:{}", server.host, server.port);
        let look = async {
            let mut session = self.open().await?;
            let folder = wrapped(session.examine(&self.imap.folder)).await;
            let _ = session.logout().await;
            folder.map_err(|Fault(why)| Fault(format!("folder {:?}: {why}", self.imap.folder)))
        };
        match timeout(CHECK_MAX, look).await {
            Ok(Ok(_)) => Ok(format!("answers come to {} at {place}", self.imap.folder)),
            Ok(Err(Fault(why))) => Err(format!("imap_url: {place}: {why}")),
            Err(_) => Err(format!("imap_url: {place} does not answer")),
        }
    }

    /// Between half of `pause` and all of it, so that many do not come back at once.
    fn jittered(&self, pause: Duration) -> Duration {
        let [chance] = random::bytes::<1>(&*self.entropy);
        pause.mul_f64(0.5 + f64::from(chance) / 510.0)
    }

    /// One connection, until it breaks.
    async fn session(
        &self,
        inbound: &dyn Inbound,
        worked: &mut bool,
    ) -> Result<std::convert::Infallible, Fault> {
        let mut session = self.bounded(self.open()).await?;
        let folder = self.bounded(wrapped(session.select(&self.imap.folder))).await?;
        let keywords = folder.permanent_flags.contains(&Flag::MayCreate);
        let idles = self.bounded(wrapped(session.capabilities())).await?.has_str("IDLE");
        inbound.health(&self.reader.channel, None);
        loop {
            while self.sweep(&mut session, inbound, keywords).await? {
                *worked = true;
            }
            *worked = true;
            session = self.wait(session, idles).await?;
        }
    }

    async fn bounded<T>(&self, work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        let slow = |_| Fault(format!("{} does not answer", self.imap.server.host));
        timeout(self.imap.timeout, work).await.map_err(slow)?
    }

    async fn open(&self) -> Result<Mails, Fault> {
        let server = &self.imap.server;
        let wire = connect(server, &self.trust).await.map_err(|failed| Fault(failed.reason))?;
        let mut client = Client::new(wire);
        let greeting = client.read_response().await.map_err(|error| Fault(error.to_string()))?;
        if greeting.is_none() {
            return Err(Fault(format!("{} ended the connection", server.host)));
        }
        if server.security == Security::StartTls {
            client.run_command_and_check_ok("STARTTLS", None).await?;
            // Whatever came before TLS stays behind with the old client.
            let wire = self.trust.encrypt(client.into_inner(), &server.host).await;
            client = Client::new(wire.map_err(|failed| Fault(failed.reason))?);
        }
        let Some(Credentials { user, password }) = &server.credentials else {
            return Err(Fault("the mailbox has no credentials; set its user and password".to_owned()));
        };
        let signed_in = client.login(quotable(user)?, quotable(password.expose_secret())?).await;
        signed_in.map_err(|(error, _)| Fault(format!("cannot sign in to the mailbox: {error}")))
    }

    /// Takes what is there. Whether to look again at once: something may have come meanwhile.
    async fn sweep(&self, session: &mut Mails, inbound: &dyn Inbound, keywords: bool) -> Result<bool, Fault> {
        let unmarked =
            if keywords { format!(" UNKEYWORD {TAKEN} UNKEYWORD {FAILED}") } else { String::new() };
        let query = format!("UNSEEN UNDELETED{unmarked}");
        let mut uids: Vec<u32> =
            self.bounded(wrapped(session.uid_search(query))).await?.into_iter().collect();
        uids.sort_unstable();
        for uid in &uids {
            self.take(session, inbound, *uid, keywords).await?;
        }
        let mut news = false;
        while let Ok(response) = session.unsolicited_responses.try_recv() {
            news |= matches!(response, UnsolicitedResponse::Exists(_));
        }
        Ok(news || !uids.is_empty())
    }

    async fn take(
        &self,
        session: &mut Mails,
        inbound: &dyn Inbound,
        uid: u32,
        keywords: bool,
    ) -> Result<(), Fault> {
        // Another client may have deleted it since.
        let Some(mail) = self.bounded(fetch(session, uid, self.clock.wall_ms())).await? else {
            return Ok(());
        };
        let reader = self.reader.clone();
        // A panic of the parser is the mail's fault and ends with it.
        let read = tokio::task::spawn_blocking(move || reader.read(&mail.bytes, mail.at_ms)).await;
        let readable = match read {
            Ok(read) => read.ok(),
            Err(ended) if ended.is_panic() => None,
            Err(ended) => return Err(Fault(ended.to_string())),
        };
        let Some(incoming) = readable else {
            // Without keywords there is no mark that stays but this one, and it must not be fetched for ever.
            let flags = if keywords { FAILED } else { "\\Seen \\Flagged" };
            return self.bounded(mark(session, uid, flags)).await;
        };
        // Without a durable record it stays unread, and is brought again with the next connection.
        let taken = inbound.take(incoming.clone()).await;
        let notice = taken.map_err(|error| Fault(format!("what came in cannot be stored: {error}")))?;
        let flags = if keywords { format!("\\Seen {TAKEN}") } else { "\\Seen".to_owned() };
        self.bounded(mark(session, uid, &flags)).await?;
        if let Some(sentence) = notice {
            let outbound = self.outbound.clone();
            // The mailbox does not wait for the relay.
            tokio::spawn(async move { outbound.tell(&incoming, &sentence).await });
        }
        Ok(())
    }

    /// Until something has come, or it is time to look.
    async fn wait(&self, session: Mails, idles: bool) -> Result<Mails, Fault> {
        if !idles {
            sleep(self.imap.poll).await;
            return Ok(session);
        }
        let told = session.unsolicited_responses.clone();
        let mut idle = session.idle();
        self.bounded(wrapped(idle.init())).await?;
        // What came while IDLE began is not told again.
        if !told.is_empty() {
            return self.bounded(wrapped(idle.done())).await;
        }
        let (news, _stop) = idle.wait_with_timeout(self.imap.idle);
        let ended = matches!(wrapped(news).await?, IdleResponse::ManualInterrupt);
        if ended {
            return Err(Fault("the server ended the connection".to_owned()));
        }
        self.bounded(wrapped(idle.done())).await
    }
}

async fn wrapped<T>(work: impl Future<Output = async_imap::error::Result<T>>) -> Result<T, Fault> {
    Ok(work.await?)
}

async fn fetch(session: &mut Mails, uid: u32, now_ms: WallMs) -> Result<Option<Fetched>, Fault> {
    let query = format!("(UID INTERNALDATE BODY.PEEK[]<0.{MAIL_BYTES_MAX}>)");
    let mut found = session.uid_fetch(uid.to_string(), query).await?;
    let mut mail = None;
    while let Some(fetched) = found.next().await {
        let fetched = fetched?;
        if let (Some(bytes), true) = (fetched.body(), fetched.uid == Some(uid)) {
            let at_ms = fetched.internal_date().map_or(now_ms, |date| date.timestamp_millis());
            mail = Some(Fetched { bytes: bytes[..bytes.len().min(MAIL_BYTES_MAX)].to_vec(), at_ms });
        }
    }
    Ok(mail)
}

async fn mark(session: &mut Mails, uid: u32, flags: &str) -> Result<(), Fault> {
    let mut answers = session.uid_store(uid.to_string(), format!("+FLAGS.SILENT ({flags})")).await?;
    while let Some(answer) = answers.next().await {
        answer?;
    }
    Ok(())
}

/// What can stand between quotes in a command.
fn quotable(text: &str) -> Result<&str, Fault> {
    let fits = !text.contains(['\r', '\n', '\0']);
    fits.then_some(text)
        .ok_or_else(|| Fault("the mailbox's user or password has a line end in it".to_owned()))
}
