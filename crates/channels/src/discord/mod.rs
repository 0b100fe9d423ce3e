//! Discord: a bot of the operator's writes to people and channels, and hears what they answer.
//!
//! Out: [`prepare`] makes parts of a draft, [`message`] the JSON of a part, [`outbound`] the calls, [`answer`] says what their answers mean.
//! In: [`gateway`] keeps the connection, [`read`] makes of an event what the port takes, [`desk`] has it taken. [`known`] is what both remember while the hub runs.
//!
//! The service removes the duplicates of a nonce, "in the past few minutes" as its documentation has it: an attempt with an unknown
//! outcome may be made again within [`DEDUP_MS`].

mod address;
mod answer;
mod desk;
mod gateway;
mod known;
mod message;
mod outbound;
mod prepare;
mod read;
mod rest;
mod settings;
mod socket;

pub use settings::{API, Settings};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use reqwest::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::sync::Arc;
use switchboard_core::outbound::gate::Cleared;
use switchboard_core::port::channel::{
    AddressKind, Amendment, Capabilities, Channel, Checked, Dedup, Dialect, Draft, Inbound, LengthUnit, Part,
    Performed, check_name,
};

/// The kind of these channels.
pub const KIND: &str = "discord";
/// How long after the first attempt another one may be made, in milliseconds: less than any reading of "a few minutes".
pub const DEDUP_MS: u64 = 60_000;
/// Permissions that the bot needs on a server: View Channels, Send Messages, Read Message History, Send Messages in Threads.
pub const PERMISSIONS: u64 = (1 << 10) | (1 << 11) | (1 << 16) | (1 << 38);
/// Flags of an application that may read messages: for many servers, for few.
const MESSAGE_CONTENT_FLAGS: u64 = (1 << 18) | (1 << 19);

const CAPABILITIES: Capabilities = Capabilities {
    direct: true,
    shared: true,
    answers: true,
    part_max: prepare::PART_UNITS_MAX,
    unit: LengthUnit::Utf16,
    parts_max: prepare::PARTS_MAX,
    dialect: Dialect::Discord,
    threads: true,
    edits: true,
    buttons_max: prepare::BUTTONS_MAX,
    dedup: Dedup::ByIdWithin(DEDUP_MS),
    // Five messages in five seconds and channel; what is over it is told by the service.
    pace_ms: 1_000,
    at_once: 4,
    consent: true,
};

/// A Discord bot as a channel.
pub struct Discord {
    name: String,
    message_content: bool,
    outbound: Arc<outbound::Outbound>,
    gateway: gateway::Gateway,
}

impl fmt::Debug for Discord {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Discord").field("name", &self.name).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct Account {
    id: address::Snowflake,
    username: String,
}

#[derive(Deserialize)]
struct Application {
    #[serde(default)]
    flags: u64,
}

impl Discord {
    /// The channel, or a sentence that names the setting that is wrong and does not repeat it. Nothing is connected yet.
    pub fn new(settings: Settings) -> Result<Self, String> {
        check_name(&settings.name)?;
        let outbound = Arc::new(outbound::Outbound {
            rest: rest::Rest::new(&settings)?,
            known: Mutex::default(),
            clock: settings.clock.clone(),
        });
        let gateway = gateway::Gateway::new(&settings, outbound.clone())?;
        let Settings { name, message_content, .. } = settings;
        Ok(Self { name, message_content, outbound, gateway })
    }

    async fn ask<T: DeserializeOwned>(&self, path: &str) -> Result<T, String> {
        let answer = self.outbound.rest.call(Method::GET, path, None).await;
        let answer = answer.map_err(|error| format!("Discord cannot be reached: {error}"))?;
        if !answer.is_success() {
            let refused = answer::refused(&answer, self.outbound.clock.wall_ms());
            return Err(
                refused.map_or_else(|| format!("Discord answered {}", answer.status), |why| why.reason)
            );
        }
        serde_json::from_slice(&answer.body).map_err(|_| format!("Discord's answer to {path} cannot be read"))
    }

    async fn checked(&self) -> Result<Checked, String> {
        let account: Account = self.ask("/users/@me").await?;
        if self.message_content {
            let application: Application = self.ask("/applications/@me").await?;
            if application.flags & MESSAGE_CONTENT_FLAGS == 0 {
                return Err("message_content = true, and Discord does not allow it: switch on Message Content Intent on the \
                    application's page Bot, or set message_content = false"
                    .to_owned());
            }
        }
        let name = crate::document::clean_line(&account.username);
        let invite = format!(
            "On Discord, send {{code}} as a direct message to {name}: https://discord.com/users/{} (you have to share a server with it)",
            account.id
        );
        Ok(Checked { account: format!("{name} ({})", account.id), invite: Some(invite) })
    }
}

impl Channel for Discord {
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
        Box::pin(async move { self.gateway.listen(inbound).await })
    }

    fn amend(&self, amendment: Amendment) -> BoxFuture<'_, Performed> {
        Box::pin(async move { self.outbound.amend(&amendment).await })
    }

    fn check(&self) -> BoxFuture<'_, Result<Checked, String>> {
        Box::pin(self.checked())
    }
}
