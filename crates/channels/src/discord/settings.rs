//! What a Discord channel is set up with.

use crate::guard::{Lookup, SystemLookup};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::SecretString;
use switchboard_core::random::Entropy;
use switchboard_core::time::Clock;

/// Where the API is.
pub const API: &str = "https://discord.com/api/v10";

/// A Discord channel: one bot.
#[derive(Clone)]
pub struct Settings {
    /// Its configured name.
    pub name: String,
    /// The bot's token.
    pub token: SecretString,
    /// Whether the privileged intent Message Content is asked for: with it, answers in shared channels are read also when they do not
    /// mention the bot. It has to be switched on at Discord too, else the bot cannot connect.
    pub message_content: bool,
    /// Where the API is; [`API`] but for tests.
    pub api: String,
    /// Where names lead.
    pub lookup: Arc<dyn Lookup>,
    /// Time to connect, TLS included.
    pub connect_timeout: Duration,
    /// Time for one call, and for one step of the gateway. Two calls must end before the hub gives an attempt up, after a minute.
    pub timeout: Duration,
    /// First and longest pause before connecting to the gateway again.
    pub backoff: (Duration, Duration),
    /// Measures pauses and limits.
    pub clock: Arc<dyn Clock>,
    /// Spreads pauses.
    pub entropy: Arc<dyn Entropy>,
}

impl Settings {
    /// Settings with everything else as usual: 5 s to connect, 20 s a call, 1 s to 5 min of pause, no privileged intent.
    pub fn new(name: &str, token: SecretString, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Self {
        Self {
            name: name.to_owned(),
            token,
            message_content: false,
            api: API.to_owned(),
            lookup: Arc::new(SystemLookup),
            connect_timeout: Duration::from_secs(5),
            timeout: Duration::from_secs(20),
            backoff: (Duration::from_secs(1), Duration::from_mins(5)),
            clock,
            entropy,
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Settings");
        shown
            .field("name", &self.name)
            .field("message_content", &self.message_content)
            .finish_non_exhaustive()
    }
}
