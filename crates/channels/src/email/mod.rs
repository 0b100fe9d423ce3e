//! E-mail: questions go out by SMTP, answers come in by IMAP.
//!
//! Out: [`prepare`] makes text and HTML of a draft, [`compose`] the bytes of the mail, [`outbound`] and [`smtp`] the conversation with the
//! relay. In: [`inbound`] reads the mailbox, [`read`] makes of a mail's bytes what the port takes: who it is from ([`origin`], [`results`]), the person's own
//! [`words`], or a [`bounce`]. [`secret`] ties the two together: who answers to the address that one mail alone named has had that mail.

mod address;
mod bounce;
mod compose;
mod inbound;
mod net;
mod origin;
mod outbound;
mod prepare;
mod read;
mod results;
mod secret;
mod settings;
mod smtp;
mod status;
#[cfg(test)]
mod tests;
mod words;

pub use address::{ADDRESS_BYTES_MAX, normalise};
pub use secret::ReplyKey;
pub use settings::{Credentials, Imap, Reply, Security, Server, Settings, Smtp};

use futures_util::future::{BoxFuture, join};
use std::fmt;
use std::sync::Arc;
use switchboard_core::outbound::gate::Cleared;
use switchboard_core::port::channel::{
    AddressKind, Capabilities, Channel, Checked, Dedup, Dialect, Draft, Inbound, Incoming, LengthUnit, Part,
    Performed,
};
use switchboard_core::random::Entropy;
use switchboard_core::time::{Clock, WallMs};

/// Kind of the channel.
pub const KIND: &str = "email";

/// E-mail as a channel.
pub struct Email {
    name: String,
    capabilities: Capabilities,
    outbound: Arc<outbound::Outbound>,
    inbound: Option<inbound::Mailbox>,
}

impl fmt::Debug for Email {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Email").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Email {
    /// The channel, or a sentence that names the setting that is wrong. Nothing is connected yet.
    pub fn new(settings: Settings, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Result<Self, String> {
        let from = address::normalise(&settings.from).map_err(|why| format!("from: {why}"))?;
        let trust = net::Trust::new(settings.ca_file.as_deref())?;
        let reply =
            settings.reply.map(|reply| secret::ReplyAddress::new(&reply.template, reply.key)).transpose()?;
        let authserv_id = settings.authserv_id.map(|id| id.trim().to_ascii_lowercase());
        let authserv_id = authserv_id.filter(|id| !id.is_empty());
        if settings.imap.is_some() && reply.is_none() && authserv_id.is_none() {
            // Only what a verified sender says answers anything.
            let template = from.replacen('@', "+{token}@", 1);
            return Err(format!(
                "answers would be read, and nobody could be known to have written them: give reply_to = {template:?}, or authserv_id if the mail server writes Authentication-Results"
            ));
        }
        let relay_dedups = settings.smtp.relay_dedups;
        let sender = compose::Sender { from: from.clone(), name: settings.from_name };
        let reader = read::Reader { channel: settings.name.clone(), from, reply: reply.clone(), authserv_id };
        let outbound = outbound::Outbound::new(settings.smtp, trust.clone(), sender, reply, clock.clone());
        let outbound = Arc::new(outbound);
        let make = |imap| inbound::Mailbox::new(imap, trust, reader, outbound.clone(), clock, entropy);
        let inbound = settings.imap.map(make);
        Ok(Self {
            capabilities: capabilities(relay_dedups, inbound.is_some()),
            outbound,
            name: settings.name,
            inbound,
        })
    }
}

impl Email {
    /// What the bytes of a mail say that arrived at `at_ms`, as it would be taken from the mailbox; `None` for what cannot be read, and where
    /// no mailbox is read.
    #[must_use]
    pub fn read(&self, mail: &[u8], at_ms: WallMs) -> Option<Incoming> {
        self.inbound.as_ref()?.read(mail, at_ms)
    }
}

fn capabilities(relay_dedups: bool, answers: bool) -> Capabilities {
    Capabilities {
        direct: true,
        shared: false,
        answers,
        part_max: prepare::PART_BYTES_MAX,
        unit: LengthUnit::Bytes,
        parts_max: 1,
        dialect: Dialect::PlainAndHtml,
        threads: true,
        edits: false,
        // They stand in the text.
        buttons_max: 0,
        // The message id of a repeat is the same, but few relays look at it.
        dedup: if relay_dedups { Dedup::ById } else { Dedup::None },
        pace_ms: 0,
        at_once: 4,
        consent: true,
    }
}

impl Channel for Email {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> &'static str {
        KIND
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn normalise(&self, kind: AddressKind, to: &str) -> Result<String, String> {
        match kind {
            AddressKind::Direct => address::normalise(to),
            AddressKind::Channel => {
                Err("e-mail reaches single people; use kind 'direct' and a mail address".into())
            }
        }
    }

    fn prepare(&self, draft: &Draft<'_>) -> Result<Vec<Part>, String> {
        prepare::prepare(draft, self.capabilities.answers).map(|part| vec![part])
    }

    fn perform(&self, attempt: Cleared) -> BoxFuture<'_, Performed> {
        Box::pin(async move { self.outbound.perform(attempt.attempt()).await })
    }

    fn listen(self: Arc<Self>, inbound: Arc<dyn Inbound>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            match &self.inbound {
                Some(mailbox) => mailbox.listen(inbound).await,
                None => std::future::pending().await,
            }
        })
    }

    fn check(&self) -> BoxFuture<'_, Result<Checked, String>> {
        Box::pin(async move {
            let read = async {
                match &self.inbound {
                    Some(mailbox) => mailbox.check().await,
                    None => Ok("no answers come in".to_owned()),
                }
            };
            let account = match join(self.outbound.check(), read).await {
                (Ok(out), Ok(back)) => format!("{out}; {back}"),
                (Err(one), Err(other)) => return Err(format!("{one}; {other}")),
                (Err(why), Ok(_)) | (Ok(_), Err(why)) => return Err(why),
            };
            Ok(Checked { account, invite: None })
        })
    }
}
