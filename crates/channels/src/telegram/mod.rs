//! Telegram by its Bot API (<https://core.telegram.org/bots/api>): a bot writes to people who have started it, and to groups and channels
//! that it is a member of.
//!
//! Out: [`prepare`] makes parts of a draft, [`outbound`] calls, [`api`] is one call, [`answer`] says what its end means. In: [`inbound`]
//! asks for updates or takes those that Telegram posts, [`update`] and [`content`] read them. [`address`] has the numbers of chats and
//! messages.
//!
//! The Bot API knows no ids of deliveries: a repeat is a second message, so that an unknown outcome stays unknown. Telegram tells bots of
//! edits, not of deletions: what a person takes back by deleting it stands. A person who blocks the bot has said STOP.

mod address;
mod answer;
mod api;
mod content;
mod inbound;
mod outbound;
mod prepare;
mod update;

use crate::guard::{Lookup, SystemLookup};
use api::{Api, Fault, Token};
use futures_util::future::BoxFuture;
use inbound::Quota;
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::SecretString;
use switchboard_core::outbound::gate::Cleared;
use switchboard_core::port::channel::{
    AddressKind, Amendment, Capabilities, Channel, Checked, Dedup, Dialect, Draft, Inbound, LengthUnit, Part,
    Performed, PushAnswer, Pushed, check_name,
};
use switchboard_core::random::Entropy;
use switchboard_core::time::Clock;
use update::Me;

/// The kind of these channels.
pub const KIND: &str = "telegram";
/// Where the Bot API is.
pub const API_URL: &str = "https://api.telegram.org";
/// Longest text of a message, in UTF-16 code units after its markup is read (Bot API, `sendMessage`). Here the markup counts as well, so
/// that a message is never too long.
pub const TEXT_UNITS_MAX: usize = 4096;
/// Longest part: an outcome must have room under it.
pub const PART_UNITS_MAX: usize = TEXT_UNITS_MAX - 256;
/// Most messages of one body: at one a second, the last comes half a minute after the first.
pub const PARTS_MAX: usize = 32;
/// Most buttons under a message.
pub const BUTTONS_MAX: usize = 8;
/// Longest time for which a request for updates is held, in seconds, unless set.
pub const POLL_S: u32 = 50;

/// Telegram advises a message a second in a chat and 30 a second over all; a call takes about a third of a second. (Groups take twenty a
/// minute: the answer 429 says so when it is too much.)
const CAPABILITIES: Capabilities = Capabilities {
    direct: true,
    shared: true,
    answers: true,
    part_max: PART_UNITS_MAX,
    unit: LengthUnit::Utf16,
    parts_max: PARTS_MAX,
    dialect: Dialect::Telegram,
    threads: true,
    edits: true,
    buttons_max: BUTTONS_MAX,
    dedup: Dedup::None,
    pace_ms: 1000,
    at_once: 8,
    consent: true,
};

/// How Telegram posts updates to us instead of being asked.
pub struct WebhookSettings {
    /// The public address, `https`, under which [`Channel::push`] is reached (ports 443, 80, 88 and 8443).
    pub url: String,
    /// What Telegram shows with each request: 32 to 256 letters, digits, `_` and `-`.
    pub secret: SecretString,
}

/// What a Telegram channel is made of.
pub struct Settings {
    /// Its name.
    pub name: String,
    /// The bot's token, as Telegram's `@BotFather` gives it.
    pub token: SecretString,
    /// Whether Telegram posts updates to us; else they are asked for.
    pub webhook: Option<WebhookSettings>,
    /// Whether a webhook that the bot has is removed when updates are asked for. While it has one, it cannot ask.
    pub remove_webhook: bool,
    /// Where the Bot API is: a server of one's own, or a stand-in.
    pub api_url: String,
    /// Certificate authorities to believe beside those of the operating system, as PEM.
    pub authorities_pem: Option<Vec<u8>>,
    /// Time to connect, TLS included. Shorter than `timeout`.
    pub connect_timeout: Duration,
    /// Time for a whole call; shorter than the minute after which the hub gives an attempt up.
    pub timeout: Duration,
    /// For how many seconds a request for updates is held while there are none; with a webhook, how often it is looked after. 1 to 50.
    pub poll_s: u32,
    /// First and longest pause before trying again to listen.
    pub backoff: (Duration, Duration),
    /// Gives the time of what comes without one.
    pub clock: Arc<dyn Clock>,
    /// Spreads pauses.
    pub entropy: Arc<dyn Entropy>,
    /// Where names lead.
    pub lookup: Arc<dyn Lookup>,
}

impl Settings {
    /// Settings with everything else as usual: updates are asked for, 5 s to connect, 20 s a call, 1 s to 5 min of pause.
    pub fn new(name: &str, token: SecretString, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Self {
        Self {
            name: name.to_owned(),
            token,
            webhook: None,
            remove_webhook: false,
            api_url: API_URL.to_owned(),
            authorities_pem: None,
            connect_timeout: Duration::from_secs(5),
            timeout: Duration::from_secs(20),
            poll_s: POLL_S,
            backoff: (Duration::from_secs(1), Duration::from_mins(5)),
            clock,
            entropy,
            lookup: Arc::new(SystemLookup),
        }
    }
}

/// A Telegram bot as a channel.
pub struct Telegram {
    name: String,
    /// The bot's number, as its token names it.
    bot: i64,
    api: Api,
    webhook: Option<inbound::Webhook>,
    remove_webhook: bool,
    timeout: Duration,
    poll_s: u32,
    backoff: (Duration, Duration),
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    me: Mutex<Option<Me>>,
    quota: Quota,
}

impl fmt::Debug for Telegram {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Telegram")
            .field("name", &self.name)
            .field("bot", &self.bot)
            .finish_non_exhaustive()
    }
}

impl Telegram {
    /// A channel of these settings, or the setting that is wrong and how to mend it; secrets are not repeated. Nothing is connected yet.
    pub fn new(settings: Settings) -> Result<Self, String> {
        check_name(&settings.name)?;
        let (token, bot) = Token::parse(&settings.token)?;
        let api = Api::new(&settings, token)?;
        if !(1..=POLL_S).contains(&settings.poll_s) {
            return Err(format!("poll_s must be 1 to {POLL_S}"));
        }
        let webhook = settings.webhook.map(|webhook| inbound::Webhook::new(&webhook)).transpose()?;
        Ok(Self {
            name: settings.name,
            bot,
            api,
            webhook,
            remove_webhook: settings.remove_webhook,
            timeout: settings.timeout,
            poll_s: settings.poll_s,
            backoff: settings.backoff,
            clock: settings.clock,
            entropy: settings.entropy,
            me: Mutex::default(),
            quota: Quota::default(),
        })
    }

    /// The bot, as Telegram says now.
    async fn ask_me(&self) -> Result<Me, Fault> {
        let result = self.api.call("getMe", &serde_json::json!({})).await?;
        let me: Me = serde_json::from_str(result.get())
            .map_err(|_| Fault::Lost("the Bot API does not say which bot this is".into()))?;
        *self.me.lock() = Some(me.clone());
        Ok(me)
    }
}

/// What is wrong with our credentials or connection, and what to do.
fn remedy(fault: &Fault) -> String {
    let sentence = fault.sentence();
    match fault {
        Fault::Refused(refusal) if matches!(refusal.code, 401 | 404) => {
            format!(
                "{sentence}; the token does not hold: give the one that @BotFather shows for the bot (/token)"
            )
        }
        Fault::Unreached(_) => format!("{sentence}; look at the network and its proxies: none is used"),
        _ => sentence,
    }
}

impl Channel for Telegram {
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
        Box::pin(async move { outbound::send(&self.api, self.timeout, attempt.attempt()).await })
    }

    fn listen(self: Arc<Self>, inbound: Arc<dyn Inbound>) -> BoxFuture<'static, ()> {
        Box::pin(async move { self.listen_for_ever(inbound).await })
    }

    fn push<'a>(&'a self, pushed: Pushed, inbound: &'a dyn Inbound) -> BoxFuture<'a, PushAnswer> {
        Box::pin(self.take_pushed(pushed, inbound))
    }

    fn amend(&self, amendment: Amendment) -> BoxFuture<'_, Performed> {
        Box::pin(async move { outbound::amend(&self.api, &amendment).await })
    }

    fn check(&self) -> BoxFuture<'_, Result<Checked, String>> {
        Box::pin(async move {
            let me = self.ask_me().await.map_err(|fault| remedy(&fault))?;
            let username = crate::document::clean_line(&me.username);
            let invite = format!("Open https://t.me/{username}?start={{code}} and press Start.");
            Ok(Checked { account: format!("@{username}"), invite: Some(invite) })
        })
    }
}
