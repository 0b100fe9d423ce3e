//! Sends mails: connections to the relay that are kept for the next one, and one transaction for each attempt.

use super::compose::{Cause, Sender, compose, message_id};
use super::net::Trust;
use super::secret::ReplyAddress;
use super::settings::Smtp;
use super::smtp::{Connection, Envelope};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::ids::base32;
use switchboard_core::port::channel::{
    Address, AddressKind, Attempt, FailureClass, Incoming, NotSent, Origin, Part, Performed,
};
use switchboard_core::time::Clock;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// How long a connection is kept without use; relays end theirs after five minutes (RFC 5321, 4.5.3.2.7).
const IDLE_MAX: Duration = Duration::from_mins(1);

/// Notices to one sender in [`NOTICE_WINDOW`] at most: two programs that answer each other end here.
const NOTICES_MAX: usize = 5;
/// Notices to everybody in [`NOTICE_WINDOW`] at most.
const NOTICES_TOTAL_MAX: usize = 500;
/// Time for a whole check of one server.
pub(super) const CHECK_MAX: Duration = Duration::from_secs(15);
const NOTICE_WINDOW: Duration = Duration::from_hours(1);

/// The way out.
pub(super) struct Outbound {
    smtp: Smtp,
    hello: String,
    trust: Trust,
    sender: Sender,
    reply: Option<ReplyAddress>,
    clock: Arc<dyn Clock>,
    places: Semaphore,
    /// Connections without work, and since when.
    idle: Mutex<Vec<(Connection, Duration)>>,
    /// To whom notices went, and when.
    notices: Mutex<Vec<(String, Duration)>>,
}

impl fmt::Debug for Outbound {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Outbound").field("smtp", &self.smtp).finish_non_exhaustive()
    }
}

impl Outbound {
    pub fn new(
        smtp: Smtp,
        trust: Trust,
        sender: Sender,
        reply: Option<ReplyAddress>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let hello = smtp.hello.clone().unwrap_or_else(|| super::address::domain(&sender.from).to_owned());
        let places = Semaphore::new(smtp.connections_max.clamp(1, Semaphore::MAX_PERMITS));
        Self {
            smtp,
            hello,
            trust,
            sender,
            reply,
            clock,
            places,
            idle: Mutex::default(),
            notices: Mutex::default(),
        }
    }

    /// One attempt, one SMTP transaction.
    pub async fn perform(&self, attempt: &Attempt) -> Performed {
        self.deliver(attempt, Cause::Message).await
    }

    /// Tells the sender of `incoming` something about it. Only somebody who is known for sure is told, and not often: a false sender would
    /// send our notices to others. Whether it arrives does not matter.
    pub async fn tell(&self, incoming: &Incoming, sentence: &str) {
        if !matches!(incoming.origin, Origin::Verified { .. }) || !self.may_tell(&incoming.from) {
            return;
        }
        let digest = Sha256::digest(incoming.event_id.as_bytes());
        let notice = Attempt {
            delivery: format!("ntc_{}", base32(&digest[..16])),
            attempt: 1,
            channel: incoming.channel.clone(),
            to: Address { kind: AddressKind::Direct, handle: incoming.from.clone() },
            part: Part {
                text: format!("{sentence}\n"),
                subject: Some("Re: your answer".to_owned()),
                ..Part::default()
            },
            place: (1, 1),
            references: message_id(&incoming.event_id).into_iter().collect(),
            accepted_ms: self.clock.wall_ms(),
        };
        self.deliver(&notice, Cause::Notice).await;
    }

    fn may_tell(&self, to: &str) -> bool {
        let now = self.clock.monotonic();
        let mut notices = self.notices.lock();
        notices.retain(|(_, at)| now.saturating_sub(*at) < NOTICE_WINDOW);
        let theirs = notices.iter().filter(|(told, _)| told == to).count();
        let may = theirs < NOTICES_MAX && notices.len() < NOTICES_TOTAL_MAX;
        if may {
            notices.push((to.to_owned(), now));
        }
        may
    }

    async fn deliver(&self, attempt: &Attempt, cause: Cause) -> Performed {
        let reply_to =
            self.reply.as_ref().and_then(|reply| reply.make(&attempt.delivery, &attempt.to.handle));
        let content = match compose(&self.sender, attempt, reply_to.as_deref(), cause) {
            Ok(content) => content,
            Err(reason) => return Performed::NotSent(NotSent::new(FailureClass::Permanent, reason)),
        };
        // Nobody has been reached yet: the hub's own bound would not know that.
        let Ok(Ok(_place)) = timeout(self.smtp.queue_timeout, self.places.acquire()).await else {
            let reason = "all connections to the relay are busy";
            return Performed::NotSent(NotSent::new(FailureClass::Transient, reason));
        };
        let mut connection = match self.connection().await {
            Ok(connection) => connection,
            Err(failed) => return Performed::NotSent(failed),
        };
        let envelope = Envelope { from: &self.sender.from, to: &attempt.to.handle, content: &content };
        let performed = connection.send(envelope).await;
        if connection.is_usable() {
            self.idle.lock().push((connection, self.clock.monotonic()));
        }
        match performed {
            Performed::Sent { .. } => {
                Performed::Sent { message_id: Some(self.sender.message_id(&attempt.delivery)) }
            }
            other => other,
        }
    }

    /// Connects to the relay and signs in, and sends nothing; or says what is wrong.
    pub async fn check(&self) -> Result<String, String> {
        let server = &self.smtp.server;
        let place = format!("{}:{}", server.host, server.port);
        let open = Connection::open(&self.smtp, &self.hello, &self.trust);
        let opened =
            timeout(CHECK_MAX, open).await.map_err(|_| format!("smtp_url: {place} does not answer"))?;
        let connection = opened.map_err(|failed| format!("smtp_url: {}", failed.reason))?;
        let _ = timeout(Duration::from_secs(1), connection.quit()).await;
        let user = server.credentials.as_ref().map_or("nobody", |credentials| &credentials.user);
        Ok(format!("mails leave as {user} by {place}"))
    }

    /// One that is still good, or a new one.
    async fn connection(&self) -> Result<Connection, NotSent> {
        loop {
            let Some((mut kept, since)) = self.idle.lock().pop() else { break };
            let fresh = self.clock.monotonic().saturating_sub(since) < IDLE_MAX;
            if fresh && kept.is_alive().await {
                return Ok(kept);
            }
        }
        Connection::open(&self.smtp, &self.hello, &self.trust).await
    }
}
