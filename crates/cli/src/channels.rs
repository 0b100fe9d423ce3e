//! The channels of the configuration, put together. That each has only keys of its kind was looked at when the file was read.

mod chats;
pub mod saved;

use crate::config::Config;
use crate::config::channel::Channel as Entry;
use crate::failure::Failure;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use switchboard_channels::console::Console;
use switchboard_channels::email::{self, ReplyKey};
use switchboard_channels::{exec, webhook};
use switchboard_core::SecretString;
use switchboard_core::digest::hmac;
use switchboard_core::port::channel::Channel;
use switchboard_core::random::SystemEntropy;
use switchboard_core::time::Clock;
use switchboard_engine::Hub;
use switchboard_engine::outbound::registry::Registry;

/// Adds every channel to the hub; the console is always there.
pub fn open(hub: &Arc<Hub>, config: &Config, clock: &Arc<dyn Clock>) -> Result<(), Failure> {
    hub.add_channel(Arc::new(Console), false).map_err(|sentence| wrong(&sentence))?;
    for entry in &config.channel {
        add(hub, entry, clock).map_err(|sentence| wrong(&sentence))?;
    }
    hub.channels_complete();
    Ok(())
}

/// Adds one channel to the hub.
fn add(hub: &Arc<Hub>, entry: &Entry, clock: &Arc<dyn Clock>) -> Result<(), String> {
    // What proves that who answers has had the mail: of this hub, and the same after every start.
    let key = hmac(&hub.installation.keys.bearer, &[b"email reply address"]);
    let channel = made(entry, clock, ReplyKey::new(key));
    let channel = channel.map_err(|sentence| format!("{:?}: {sentence}", entry.name))?;
    hub.add_channel(channel, entry.fallback)
}

/// The channel that an entry describes, good for looking at and for [`Channel::check`].
pub fn one(entry: &Entry, clock: &Arc<dyn Clock>) -> Result<Arc<dyn Channel>, String> {
    made(entry, clock, ReplyKey::new([0; 32]))
}

/// Whether the configuration's channels could be put together; nothing is opened.
pub fn check(config: &Config, clock: &Arc<dyn Clock>) -> Result<(), Failure> {
    for (entry, channel) in each(config, clock) {
        channel.map_err(|sentence| wrong(&format!("{:?}: {sentence}", entry.name)))?;
    }
    Ok(())
}

/// A channel, or what is wrong with its settings.
pub type Made = Result<Arc<dyn Channel>, String>;

/// Each configured channel, or what is wrong with it; good for looking at, since it makes no reply addresses of a hub.
pub fn each<'c>(config: &'c Config, clock: &Arc<dyn Clock>) -> Vec<(&'c Entry, Made)> {
    let registry = Registry::default();
    let one = |entry: &'c Entry| {
        let made = one(entry, clock).and_then(|channel| {
            // Names and fallbacks exclude each other.
            registry.add(channel.clone(), entry.fallback).map(|()| channel)
        });
        (entry, made)
    };
    registry
        .add(Arc::new(Console), false)
        .map_or_else(|_| Vec::new(), |()| config.channel.iter().map(one).collect())
}

fn wrong(sentence: &str) -> Failure {
    crate::config::wrong(format!("[[channel]] {}.", sentence.trim_end_matches('.')))
}

fn made(entry: &Entry, clock: &Arc<dyn Clock>, reply_key: ReplyKey) -> Result<Arc<dyn Channel>, String> {
    match entry.kind.as_str() {
        "slack" => chats::slack(entry, clock),
        "telegram" => chats::telegram(entry, clock),
        "discord" => chats::discord(entry, clock),
        "matrix" => chats::matrix(entry, clock),
        "email" => email_of(entry, clock, reply_key),
        "webhook" => webhook_of(entry, clock),
        "exec" => exec_of(entry),
        other => Err(format!("there is no kind {other:?}")),
    }
}

fn email_of(entry: &Entry, clock: &Arc<dyn Clock>, key: ReplyKey) -> Result<Arc<dyn Channel>, String> {
    let password = secret("password", entry.password_env.as_deref(), entry.password_file.as_deref())?;
    let credentials = match (&entry.user, password) {
        (Some(user), Some(password)) => Some(email::Credentials { user: user.clone(), password }),
        (None, None) => None,
        _ => return Err("give user together with password_env or password_file, or neither".into()),
    };
    let smtp = entry.smtp_url.as_deref().ok_or("give smtp_url")?;
    let mut smtp =
        email::Smtp::new(server("smtp_url", smtp, ("smtp", [465, 587, 25]), credentials.as_ref())?);
    smtp.relay_dedups = entry.relay_dedups;
    // All of it within the time that the hub gives one attempt.
    (smtp.command_timeout, smtp.data_timeout) = (Duration::from_secs(20), Duration::from_secs(100));
    let imap = match entry.imap_url.as_deref() {
        Some(url) => {
            let mut imap =
                email::Imap::new(server("imap_url", url, ("imap", [993, 143, 143]), credentials.as_ref())?);
            if let Some(folder) = &entry.folder {
                imap.folder.clone_from(folder);
            }
            Some(imap)
        }
        None => None,
    };
    let from = entry.from.as_deref().ok_or("give from, the address that mails come from")?;
    let (from_name, from) = match from.split_once('<') {
        Some((name, address)) => {
            let name = name.trim().trim_matches('"').to_owned();
            (Some(name).filter(|name| !name.is_empty()), address.trim().trim_end_matches('>'))
        }
        None => (None, from.trim()),
    };
    let settings = email::Settings {
        name: entry.name.clone(),
        from: from.to_owned(),
        from_name,
        smtp,
        imap,
        reply: entry.reply_to.clone().map(|template| email::Reply { template, key }),
        authserv_id: entry.authserv_id.clone(),
        ca_file: entry.ca_file.as_ref().map(Into::into),
    };
    Ok(Arc::new(email::Email::new(settings, clock.clone(), Arc::new(SystemEntropy))?))
}

// `smtps://HOST`, `smtp://HOST` (STARTTLS) and `smtp+plain://HOST`, each perhaps with a port; likewise for IMAP.
fn server(
    key: &str,
    url: &str,
    (protocol, [tls, starttls, plain]): (&str, [u16; 3]),
    credentials: Option<&email::Credentials>,
) -> Result<email::Server, String> {
    let shape = || {
        format!(
            "{key}: write {protocol}s://HOST (TLS), {protocol}://HOST (STARTTLS) or, on this machine, {protocol}+plain://HOST:PORT"
        )
    };
    let (scheme, rest) = url.split_once("://").ok_or_else(shape)?;
    let (security, usual) = match scheme.strip_prefix(protocol) {
        Some("s") => (email::Security::Tls, tls),
        Some("") => (email::Security::StartTls, starttls),
        Some("+plain") => (email::Security::Plain, plain),
        _ => return Err(shape()),
    };
    let rest = rest.trim_end_matches('/');
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().map_err(|_| shape())?),
        _ => (rest, usual),
    };
    if host.is_empty() || host.contains(['/', '@', '?']) {
        return Err(shape());
    }
    let host = host.trim_matches(['[', ']']).to_owned();
    Ok(email::Server { host, port, security, plain_allowed: false, credentials: credentials.cloned() })
}

fn webhook_of(entry: &Entry, clock: &Arc<dyn Clock>) -> Result<Arc<dyn Channel>, String> {
    let target = match (&entry.target, &entry.target_env) {
        (Some(target), None) => SecretString::from(target.clone()),
        (None, Some(name)) => variable(name)?,
        _ => return Err("give either target or target_env".into()),
    };
    let secret = secret("secret", entry.secret_env.as_deref(), entry.secret_file.as_deref())?;
    let secrets = webhook::signature::secrets(&secret.ok_or("give secret_env or secret_file")?);
    let mut settings = webhook::Settings::new(&entry.name, target, secrets, clock.clone());
    settings.allow_private_targets = entry.allow_private_targets;
    settings.authorities_pem = entry.ca_file.as_deref().map(read).transpose()?;
    settings.timeout = timeout(entry, settings.timeout)?;
    Ok(Arc::new(webhook::Webhook::new(settings)?))
}

fn exec_of(entry: &Entry) -> Result<Arc<dyn Channel>, String> {
    let mut settings = exec::Settings::new(&entry.name, entry.command.clone());
    if let Some(workdir) = &entry.workdir {
        settings.working_dir = workdir.into();
    }
    settings.environment =
        entry.env.iter().map(|name| Ok((name.clone(), variable(name)?))).collect::<Result<_, String>>()?;
    settings.drops_repeats = entry.drops_repeats;
    settings.timeout = timeout(entry, settings.timeout)?;
    Ok(Arc::new(exec::Exec::new(settings)?))
}

// Less than the hub waits for an attempt.
fn timeout(entry: &Entry, usual: Duration) -> Result<Duration, String> {
    match entry.timeout_s {
        None => Ok(usual),
        Some(seconds @ 1..=55) => Ok(Duration::from_secs(seconds.into())),
        Some(_) => Err("timeout_s must be 1 to 55".into()),
    }
}

fn variable(name: &str) -> Result<SecretString, String> {
    std::env::var(name).map(SecretString::from).map_err(|_| format!("the variable {name} is not set"))
}

/// A secret out of a variable or a file that nobody else may read.
fn secret(
    what: &str,
    variable_name: Option<&str>,
    file: Option<&str>,
) -> Result<Option<SecretString>, String> {
    match (variable_name, file) {
        (Some(name), None) => variable(name).map(Some),
        (None, Some(path)) => {
            own_only(Path::new(path))?;
            let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
            Ok(Some(SecretString::from(text.trim().to_owned())))
        }
        (None, None) => Ok(None),
        _ => Err(format!("give either {what}_env or {what}_file")),
    }
}

#[cfg(unix)]
fn own_only(path: &Path) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode =
        std::fs::metadata(path).map_err(|error| format!("{}: {error}", path.display()))?.permissions().mode();
    if mode.trailing_zeros() >= 6 {
        return Ok(());
    }
    Err(format!("others can read {}: chmod 600 it", path.display()))
}

#[cfg(not(unix))]
fn own_only(_: &Path) -> Result<(), String> {
    Ok(())
}

fn read(path: &str) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{path}: {error}"))
}
