//! The chat services among the channels.

use super::{Entry, Made, read, secret, timeout};
use std::sync::Arc;
use switchboard_channels::{discord, matrix, slack, telegram};
use switchboard_core::SecretString;
use switchboard_core::random::SystemEntropy;
use switchboard_core::time::Clock;

fn token(entry: &Entry) -> Result<SecretString, String> {
    secret("token", entry.token_env.as_deref(), entry.token_file.as_deref())?
        .ok_or_else(|| "give token_env or token_file".into())
}

/// Slack.
pub(super) fn slack(entry: &Entry, clock: &Arc<dyn Clock>) -> Made {
    let entropy = Arc::new(SystemEntropy);
    let mut settings = slack::Settings::new(&entry.name, token(entry)?, clock.clone(), entropy);
    settings.app_token =
        secret("app_token", entry.app_token_env.as_deref(), entry.app_token_file.as_deref())?;
    let (variable, file) = (entry.signing_secret_env.as_deref(), entry.signing_secret_file.as_deref());
    settings.signing_secret = secret("signing_secret", variable, file)?;
    if let Some(url) = &entry.api_url {
        settings.base_url.clone_from(url);
    }
    Ok(Arc::new(slack::Slack::new(settings)?))
}

/// Telegram.
pub(super) fn telegram(entry: &Entry, clock: &Arc<dyn Clock>) -> Made {
    let entropy = Arc::new(SystemEntropy);
    let mut settings = telegram::Settings::new(&entry.name, token(entry)?, clock.clone(), entropy);
    let (variable, file) = (entry.webhook_secret_env.as_deref(), entry.webhook_secret_file.as_deref());
    settings.webhook = match (&entry.webhook_url, secret("webhook_secret", variable, file)?) {
        (Some(url), Some(secret)) => Some(telegram::WebhookSettings { url: url.clone(), secret }),
        (None, None) => None,
        _ => return Err("give webhook_url together with webhook_secret_env or webhook_secret_file".into()),
    };
    settings.remove_webhook = entry.remove_webhook;
    settings.authorities_pem = entry.ca_file.as_deref().map(read).transpose()?;
    if let Some(url) = &entry.api_url {
        settings.api_url.clone_from(url);
    }
    Ok(Arc::new(telegram::Telegram::new(settings)?))
}

/// Discord.
pub(super) fn discord(entry: &Entry, clock: &Arc<dyn Clock>) -> Made {
    let entropy = Arc::new(SystemEntropy);
    let mut settings = discord::Settings::new(&entry.name, token(entry)?, clock.clone(), entropy);
    settings.message_content = entry.message_content;
    settings.timeout = timeout(entry, settings.timeout)?;
    if let Some(url) = &entry.api_url {
        settings.api.clone_from(url);
    }
    Ok(Arc::new(discord::Discord::new(settings)?))
}

/// Matrix.
pub(super) fn matrix(entry: &Entry, clock: &Arc<dyn Clock>) -> Made {
    let homeserver = entry.homeserver.as_deref().ok_or("give homeserver")?;
    let (token, entropy) = (token(entry)?, Arc::new(SystemEntropy));
    let mut settings = matrix::Settings::new(&entry.name, homeserver, token, clock.clone(), entropy);
    settings.invite_servers.clone_from(&entry.invite_servers);
    settings.plain_allowed = entry.plain_allowed;
    settings.authorities_pem = entry.ca_file.as_deref().map(read).transpose()?;
    Ok(Arc::new(matrix::Matrix::new(settings)?))
}
