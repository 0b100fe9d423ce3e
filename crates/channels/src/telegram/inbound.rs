//! Updates from Telegram: asked for with a request that is held until there are some, or posted to us.
//!
//! Asked for, the offset of a request acknowledges every update before it. It moves past an update only when that is durable, so that
//! whatever was lost on the way, or with a restart, is brought again under the same number.

use super::api::{Fault, described};
use super::update::{ALLOWED, Event, Me, Numbered, Reader, Way};
use super::{Telegram, WebhookSettings, outbound, remedy};
use hmac::{Hmac, KeyInit as _, Mac as _};
use parking_lot::Mutex;
use reqwest::Url;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use sha2::Sha256;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::ExposeSecret as _;
use switchboard_core::SecretString;
use switchboard_core::port::channel::{Inbound, PushAnswer, Pushed};
use switchboard_core::port::store::StoreError;
use switchboard_core::random;
use switchboard_core::time::WallMs;
use tokio::time::sleep;

/// Most updates of one answer: each may be some 50 kB.
const UPDATES_MAX: u32 = 50;
/// How much longer than it is held a request for updates may take.
const POLL_GRACE: Duration = Duration::from_secs(10);
/// Sentences to one sender within [`QUOTA_MS`].
const QUOTA_MAX: u32 = 20;
const QUOTA_MS: i64 = 60 * 60 * 1000;
/// Senders that are counted at a time; further ones are told nothing until an hour has passed.
const QUOTA_SENDERS_MAX: usize = 10_000;
/// The header with the secret of the webhook (Bot API, `setWebhook`).
const SECRET_HEADER: &str = "x-telegram-bot-api-secret-token";
/// Requests that Telegram makes to us at a time.
const PUSHES_MAX: u32 = 8;
const SECRET_CHARS: std::ops::RangeInclusive<usize> = 32..=256;

/// Counts the sentences that senders were told.
#[derive(Default)]
pub(super) struct Quota(Mutex<HashMap<String, (WallMs, u32)>>);

impl Quota {
    /// Whether the sender may be told one more, which is then counted.
    fn takes(&self, sender: String, now_ms: WallMs) -> bool {
        let mut told = self.0.lock();
        if told.len() >= QUOTA_SENDERS_MAX {
            told.retain(|_, (since_ms, _)| now_ms.saturating_sub(*since_ms) < QUOTA_MS);
            if told.len() >= QUOTA_SENDERS_MAX {
                return false;
            }
        }
        let (since_ms, count) = told.entry(sender).or_insert((now_ms, 0));
        if now_ms.saturating_sub(*since_ms) >= QUOTA_MS {
            (*since_ms, *count) = (now_ms, 0);
        }
        *count += 1;
        *count <= QUOTA_MAX
    }
}

/// Where Telegram posts to, and how it is known.
pub(super) struct Webhook {
    url: Url,
    secret: SecretString,
}

impl Webhook {
    pub fn new(settings: &WebhookSettings) -> Result<Self, String> {
        let url = Url::parse(&settings.url).ok().filter(|url| url.scheme() == "https");
        let url =
            url.ok_or("webhook_url must begin with https:// and be reachable from Telegram's servers")?;
        let secret = settings.secret.expose_secret().trim();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if !SECRET_CHARS.contains(&secret.len()) || !secret.bytes().all(plain) {
            return Err("the webhook's secret must be 32 to 256 letters, digits, `_` and `-`; \
                make one: head -c 32 /dev/urandom | base64 | tr +/ -_ | tr -d ="
                .into());
        }
        Ok(Self { url, secret: secret.into() })
    }

    /// Whether a request shows the secret. What is compared are digests, in a time that depends on neither.
    fn knows(&self, pushed: &Pushed) -> bool {
        let digest = |text: &str| {
            Some(Hmac::<Sha256>::new_from_slice(text.as_bytes()).ok()?.chain_update(SECRET_HEADER))
        };
        let shown = digest(pushed.header(SECRET_HEADER).unwrap_or_default());
        let (Some(known), Some(shown)) = (digest(self.secret.expose_secret()), shown) else { return false };
        known.verify_slice(&shown.finalize().into_bytes()).is_ok()
    }
}

/// Why nothing comes in, for people, and how long the service asked to wait.
struct Down {
    sentence: String,
    wait_ms: Option<u64>,
}

impl Down {
    fn new(sentence: impl Into<String>) -> Self {
        Self { sentence: sentence.into(), wait_ms: None }
    }
}

impl From<Fault> for Down {
    fn from(fault: Fault) -> Self {
        let wait_ms = match &fault {
            Fault::Refused(refusal) => refusal.retry_after_ms,
            _ => None,
        };
        let sentence = match &fault {
            Fault::Refused(refusal) if refusal.code == 409 => conflict(&refusal.description),
            other => remedy(other),
        };
        Self { sentence, wait_ms }
    }
}

/// Two take the same bot's updates.
fn conflict(description: &str) -> String {
    if description.contains("webhook") {
        return "the bot has a webhook, so that its updates go there: end the program that set it, then set \
            remove_webhook = true (or webhook_url, to get them by a webhook here)"
            .into();
    }
    "another program asks for the same bot's updates, and each gets a part of them: end it, or give this channel a bot of its own \
        (@BotFather, /newbot)"
        .into()
}

/// Of `getWebhookInfo`.
#[derive(Deserialize)]
struct WebhookInfo {
    url: String,
    #[serde(default)]
    pending_update_count: u64,
    last_error_date: Option<i64>,
    last_error_message: Option<String>,
}

impl Telegram {
    pub(super) async fn listen_for_ever(self: Arc<Self>, inbound: Arc<dyn Inbound>) {
        let (mut pause, mut offset) = (self.backoff.0, None);
        loop {
            let mut worked = false;
            let session = async {
                match &self.webhook {
                    Some(webhook) => self.look_after(webhook, &*inbound, &mut worked).await,
                    None => self.poll(&inbound, &mut offset, &mut worked).await,
                }
            };
            let Err(down) = session.await;
            inbound.health(&self.name, Some(down.sentence));
            if worked {
                pause = self.backoff.0;
            }
            let asked = Duration::from_millis(down.wait_ms.unwrap_or(0));
            sleep(self.jittered(pause).max(asked)).await;
            pause = (pause * 2).min(self.backoff.1);
        }
    }

    /// Between half of `pause` and all of it, so that many do not come back at once.
    fn jittered(&self, pause: Duration) -> Duration {
        let [chance] = random::bytes::<1>(&*self.entropy);
        pause.mul_f64(0.5 + f64::from(chance) / 510.0)
    }

    /// Asks for updates until that fails. `offset` is the first that is not acknowledged, while that has to be said.
    async fn poll(
        self: &Arc<Self>,
        inbound: &Arc<dyn Inbound>,
        offset: &mut Option<i64>,
        worked: &mut bool,
    ) -> Result<std::convert::Infallible, Down> {
        let me = self.ask_me().await?;
        if self.remove_webhook {
            self.api.call("deleteWebhook", &json!({ "drop_pending_updates": false })).await?;
        }
        // The first request returns at once: then it is known whether updates come.
        let mut held_s = 0;
        loop {
            let updates = self.updates(*offset, held_s).await?;
            if held_s == 0 {
                inbound.health(&self.name, None);
                (held_s, *worked) = (self.poll_s, true);
            }
            if updates.is_empty() {
                // What the offset acknowledged is gone. Numbers may begin anew after a quiet week: without an offset, whatever they are is
                // brought.
                *offset = None;
            }
            for update in updates {
                let number = serde_json::from_str::<Numbered>(update.get())
                    .map_err(|_| Down::new("the Bot API brings an update without a number"))?;
                self.take(&me, update.get(), inbound)
                    .await
                    .map_err(|error| Down::new(format!("what came in cannot be stored: {error}")))?;
                *offset = Some(number.update_id.saturating_add(1));
            }
        }
    }

    async fn updates(&self, offset: Option<i64>, held_s: u32) -> Result<Vec<Box<RawValue>>, Down> {
        let mut body = json!({ "timeout": held_s, "limit": UPDATES_MAX, "allowed_updates": ALLOWED });
        if let Some(offset) = offset {
            body["offset"] = offset.into();
        }
        let within = Duration::from_secs(u64::from(held_s)) + POLL_GRACE;
        let result = self.api.call_within("getUpdates", &body, None, within).await?;
        serde_json::from_str(result.get()).map_err(|_| Down::new("the Bot API brings updates that are none"))
    }

    /// Takes one update, and tells its sender what the hub has to say, meanwhile.
    async fn take(
        self: &Arc<Self>,
        me: &Me,
        update: &str,
        inbound: &Arc<dyn Inbound>,
    ) -> Result<(), StoreError> {
        let Some((way, sentence)) = self.taken(me, update, "api", &**inbound).await? else { return Ok(()) };
        let telegram = self.clone();
        tokio::spawn(async move { outbound::tell(&telegram.api, &way, &sentence).await });
        Ok(())
    }

    /// Hands an update to the hub; what is to be said, and where.
    async fn taken(
        &self,
        me: &Me,
        update: &str,
        by: &str,
        inbound: &dyn Inbound,
    ) -> Result<Option<(Way, String)>, StoreError> {
        let now_ms = self.clock.wall_ms();
        let reader = Reader { channel: &self.name, me, by, now_ms };
        let Some(Event { incoming, way }) = reader.read(update) else { return Ok(None) };
        let sender = incoming.as_ref().map(|incoming| incoming.from.clone()).unwrap_or_default();
        let sentence = match incoming {
            Some(incoming) => inbound.take(incoming).await?,
            None => None,
        };
        Ok(match (&way, sentence) {
            // A press is answered whatever there is to say, or the button goes on turning.
            (Way::Press { .. }, sentence) => Some((way, sentence.unwrap_or_default())),
            (Way::Reply(_), Some(sentence)) if self.quota.takes(sender, now_ms) => Some((way, sentence)),
            _ => None,
        })
    }

    /// Sets the webhook, and looks whether it stands and brings what it should, until it does not.
    async fn look_after(
        &self,
        webhook: &Webhook,
        inbound: &dyn Inbound,
        worked: &mut bool,
    ) -> Result<std::convert::Infallible, Down> {
        self.ask_me().await?;
        let set = json!({
            "url": webhook.url.as_str(),
            "secret_token": webhook.secret.expose_secret(),
            "allowed_updates": ALLOWED,
            "max_connections": PUSHES_MAX,
            "drop_pending_updates": false,
        });
        self.api.call("setWebhook", &set).await?;
        let mut seen_ms = self.clock.wall_ms();
        loop {
            let info = self.api.call("getWebhookInfo", &json!({})).await?;
            let info: WebhookInfo = serde_json::from_str(info.get())
                .map_err(|_| Down::new("the Bot API does not say how the webhook is"))?;
            if info.url != webhook.url.as_str() {
                return Err(Down::new(
                    "another program has taken the bot's webhook away or set its own: end it, or give this channel a bot of its own",
                ));
            }
            inbound.health(&self.name, failing(&info, seen_ms));
            *worked = true;
            seen_ms = self.clock.wall_ms();
            sleep(Duration::from_secs(u64::from(self.poll_s))).await;
        }
    }

    /// Takes what Telegram posts. A sentence for the sender goes back with the answer.
    pub(super) async fn take_pushed(&self, pushed: Pushed, inbound: &dyn Inbound) -> PushAnswer {
        let Some(webhook) = &self.webhook else { return PushAnswer::status(404) };
        if !webhook.knows(&pushed) {
            return PushAnswer::status(401);
        }
        let Some(update) = std::str::from_utf8(&pushed.body)
            .ok()
            .filter(|update| serde_json::from_str::<Numbered>(update).is_ok())
        else {
            return PushAnswer::status(400);
        };
        let known = self.me.lock().clone();
        let me = match known {
            Some(me) => me,
            None => match self.ask_me().await {
                Ok(me) => me,
                Err(_) => return PushAnswer::status(503),
            },
        };
        match self.taken(&me, update, "secret_token", inbound).await {
            // Telegram brings it again.
            Err(_) => PushAnswer::status(503),
            Ok(told) => told
                .and_then(|(way, sentence)| outbound::told(&way, &sentence))
                .map_or_else(|| PushAnswer::status(200), |method| answered(&method)),
        }
    }
}

fn answered(method: &RawValue) -> PushAnswer {
    PushAnswer { status: 200, content_type: "application/json", body: method.get().as_bytes().to_vec() }
}

/// What Telegram says of its requests since `seen_ms`.
fn failing(info: &WebhookInfo, seen_ms: WallMs) -> Option<String> {
    let failed_ms = info.last_error_date?.saturating_mul(1000);
    (failed_ms >= seen_ms.saturating_sub(1000) && info.pending_update_count > 0).then(|| {
        format!(
            "Telegram cannot deliver to webhook_url, {} updates wait: {}",
            info.pending_update_count,
            described(info.last_error_message.as_deref().unwrap_or("no reason given"))
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_is_told_so_much_in_an_hour_and_others_all_the_same() {
        let quota = Quota::default();
        let told = |sender: &str, now_ms| quota.takes(sender.to_owned(), now_ms);
        assert_eq!((0..30).filter(|_| told("1", 0)).count(), 20);
        assert!(told("2", 0) && !told("1", QUOTA_MS - 1) && told("1", QUOTA_MS));
        for sender in 0..QUOTA_SENDERS_MAX {
            told(&format!("x{sender}"), 0);
        }
        assert!(!told("one too many", QUOTA_MS - 1) && told("one too many", QUOTA_MS));
    }
}
