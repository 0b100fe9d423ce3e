//! Matrix: the client-server API, version 3, of a homeserver, as an ordinary account with an access token. Rooms without end-to-end
//! encryption alone: others are refused before anything is sent there, and not joined.
//!
//! Out: [`prepare`] makes parts of a draft, [`content`] the events, [`rooms`] finds the room of an address, [`outbound`] sends. In:
//! [`inbound`] follows `/sync`, [`reader`] says what an event is to us and [`event`] what it says. [`api`] holds the dozen requests that are made, [`answer`] what their
//! ends mean. They are read with structures of our own: of events that any server of the world may have made each field is optional to us,
//! which ruma's types would not be, and a dozen requests do not carry its nineteen crates.
//!
//! # The same id, one event
//! The delivery's id is the transaction's. A homeserver gives the same event for the same transaction, in the same room, of the same device
//! (that of the access token); after an unknown outcome the attempt is therefore made again ([`Dedup::ById`]). That ends with a new access
//! token for another device, with an alias that leads to another room by then, and when the homeserver forgets the transaction: Synapse
//! remembers them for a day, also over its own restarts; a hub that was down for longer may send once more what was uncertain.
//!
//! # Buttons
//! Matrix has none. The choices stand in the text with what can be sent instead of pressing, and a reaction with a keycap, 1️⃣ to 9️⃣, counts as
//! pressing: what it brings back stands in our own event and is read from there, whoever restarted meanwhile. Other reactions are none: a
//! thumb says nothing about which of the choices it is for.

mod address;
mod answer;
mod api;
mod content;
mod event;
mod inbound;
mod outbound;
mod prepare;
mod reader;
mod rooms;
mod settings;
#[cfg(test)]
mod tests;

pub use address::normalise;
pub use prepare::{CHOICES_MAX, PART_BYTES_MAX, PARTS_MAX};
pub use settings::{CONNECT_TIMEOUT, POLL, Settings, TIMEOUT};

use futures_util::future::BoxFuture;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::outbound::gate::Cleared;
use switchboard_core::port::channel::{
    AddressKind, Amendment, Capabilities, Channel, Checked, Dedup, Dialect, Draft, Inbound, LengthUnit, Part,
    Performed,
};
use tokio::time::timeout;

/// The kind of these channels.
pub const KIND: &str = "matrix";

const CAPABILITIES: Capabilities = Capabilities {
    direct: true,
    shared: true,
    answers: true,
    part_max: PART_BYTES_MAX,
    unit: LengthUnit::Bytes,
    parts_max: PARTS_MAX,
    dialect: Dialect::Matrix,
    threads: true,
    edits: true,
    buttons_max: CHOICES_MAX,
    dedup: Dedup::ById,
    pace_ms: 0,
    at_once: 8,
    consent: true,
};

/// An account on a homeserver as a channel.
pub struct Matrix {
    name: String,
    timeout: Duration,
    rooms: Arc<rooms::Rooms>,
    outbound: Arc<outbound::Outbound>,
    listener: inbound::Listener,
}

impl fmt::Debug for Matrix {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Matrix").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Matrix {
    /// A channel of these settings, or the setting that is wrong and how to mend it. Nothing is connected yet.
    pub fn new(settings: Settings) -> Result<Self, String> {
        settings.check()?;
        let (base, client) = (settings.base()?, settings.client()?);
        let Settings { name, token, timeout, clock, .. } = settings;
        let api = Arc::new(api::Api::new(base, token.clone(), client, timeout, clock.clone()));
        let rooms = Arc::new(rooms::Rooms::new(api.clone(), token, clock.clone()));
        let outbound = Arc::new(outbound::Outbound::new(api.clone(), rooms.clone(), timeout, clock.clone()));
        let reader = reader::Reader { channel: name.clone(), api: api.clone(), rooms: rooms.clone() };
        let listener = inbound::Listener {
            reader,
            api,
            rooms: rooms.clone(),
            outbound: outbound.clone(),
            invite_servers: settings.invite_servers,
            poll: settings.poll,
            backoff: settings.backoff,
            clock,
            entropy: settings.entropy,
        };
        Ok(Self { name, timeout, rooms, outbound, listener })
    }
}

impl Channel for Matrix {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> &'static str {
        KIND
    }

    fn capabilities(&self) -> &Capabilities {
        &CAPABILITIES
    }

    fn normalise(&self, kind: AddressKind, to: &str) -> Result<String, String> {
        address::normalise(kind, to)
    }

    fn prepare(&self, draft: &Draft<'_>) -> Result<Vec<Part>, String> {
        prepare::prepare(draft)
    }

    fn perform(&self, attempt: Cleared) -> BoxFuture<'_, Performed> {
        Box::pin(async move { self.outbound.perform(attempt.attempt()).await })
    }

    fn listen(self: Arc<Self>, inbound: Arc<dyn Inbound>) -> BoxFuture<'static, ()> {
        Box::pin(async move { self.listener.listen(inbound).await })
    }

    fn amend(&self, amendment: Amendment) -> BoxFuture<'_, Performed> {
        Box::pin(async move { self.outbound.amend(&amendment).await })
    }

    fn check(&self) -> BoxFuture<'_, Result<Checked, String>> {
        Box::pin(async move {
            let me = timeout(self.timeout, self.rooms.ask_me()).await;
            let me = me.map_err(|_| "the homeserver does not answer".to_owned())?;
            let account = me.map_err(|fault| fault.reason().to_owned())?;
            let invite = format!(
                "Begin a chat with {account} in a Matrix client, without encryption, and send {{code}}: https://matrix.to/#/{account}"
            );
            Ok(Checked { account, invite: Some(invite) })
        })
    }
}
