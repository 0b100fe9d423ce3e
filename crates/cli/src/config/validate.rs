//! What values must be, beyond their types. Each problem names its key and what to write.

use super::schema::{Config, Limits, Otel, Retention, Server};
use std::net::IpAddr;

/// Longest retention, in days: ten years.
const DAYS_MAX: u32 = 3650;

/// The first thing that cannot be.
pub(super) fn check(config: &Config) -> Result<(), String> {
    server(&config.server)?;
    store_url(&config.store.url)?;
    doorbell_url(&config.doorbell.url, &config.store.url)?;
    retention(&config.retention)?;
    limits(&config.limits)?;
    if config.policy.dir.as_ref().is_some_and(|dir| dir.as_os_str().is_empty()) {
        return Err("policy.dir: write a directory, or leave it out.".into());
    }
    let whole = |text: &String| {
        text.split_once(':').is_some_and(|(channel, to)| !channel.is_empty() && !to.is_empty())
    };
    if let Some(wrong) = config.outbound.approvers.iter().find(|text| !whole(text)) {
        return Err(format!(
            "outbound.approvers: {wrong:?} is no CHANNEL:ADDRESS, such as \"email:ada@example.org\"."
        ));
    }
    if config.outbound.messages_per_hour == 0 || config.outbound.approval_hours == 0 {
        return Err("outbound.messages_per_hour and outbound.approval_hours: write 1 or more.".into());
    }
    otel(&config.otel)?;
    crate::logging::filter(&config.log.level).map(drop).map_err(|error| format!("log.level: {error}."))
}

// Of a URL with a password in it nothing is repeated.
fn store_url(url: &str) -> Result<(), String> {
    match url.split_once(':') {
        None if url == "sqlite" => Ok(()),
        Some(("sqlite", path)) if !path.is_empty() => Ok(()),
        Some(("postgres" | "postgresql", _)) => database_url(url),
        _ => {
            Err("store.url: write \"sqlite\", \"sqlite:DIRECTORY\" or \"postgres://USER@HOST/DATABASE\"."
                .into())
        }
    }
}

#[cfg(feature = "postgres")]
fn database_url(url: &str) -> Result<(), String> {
    let address = switchboard_store::postgres::Address::parse(url);
    address.map(drop).map_err(|error| format!("store.url: {error}."))
}

#[cfg(not(feature = "postgres"))]
fn database_url(_: &str) -> Result<(), String> {
    Err("store.url: this program was built without PostgreSQL.".into())
}

// Of a URL with a password in it nothing is repeated.
fn doorbell_url(url: &str, store: &str) -> Result<(), String> {
    let postgres = store.starts_with("postgres");
    match url {
        "auto" | "local" => Ok(()),
        "postgres" if postgres => Ok(()),
        "postgres" => Err("doorbell.url: \"postgres\" needs store.url to be one of PostgreSQL.".into()),
        url if !url.starts_with("nats://") && !url.starts_with("tls://") => {
            Err("doorbell.url: write \"auto\", \"local\", \"postgres\" or \"nats://HOST:PORT\".".into())
        }
        _ if !postgres => {
            Err("doorbell.url: SQLite has one node: a NATS server needs store.url to be one of PostgreSQL."
                .into())
        }
        url => nats_url(url),
    }
}

#[cfg(feature = "nats")]
fn nats_url(url: &str) -> Result<(), String> {
    let address = switchboard_store::doorbell::nats::Address::parse(url);
    address.map(drop).map_err(|error| format!("doorbell.url: {error}."))
}

#[cfg(not(feature = "nats"))]
fn nats_url(_: &str) -> Result<(), String> {
    Err("doorbell.url: this program was built without NATS.".into())
}

fn server(server: &Server) -> Result<(), String> {
    let address =
        server.listen.rsplit_once(':').filter(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    if address.is_none() {
        return Err(format!(
            "server.listen: write HOST:PORT, such as \"127.0.0.1:8484\", not {:?}.",
            server.listen
        ));
    }
    if let Some(url) = &server.public_url
        && !is_origin(url.strip_suffix('/').unwrap_or(url), true)
    {
        return Err(format!("server.public_url: write http://HOST or https://HOST, not {url:?}."));
    }
    if let Some(origin) = server.origins.iter().find(|origin| !is_origin(origin, false)) {
        return Err(format!("server.origins: write http(s)://HOST[:PORT] without a path, not {origin:?}."));
    }
    let is_host = |host: &&String| !host.is_empty() && !host.contains(['/', ' ', '@']);
    if let Some(host) = server.hosts.iter().find(|host| !is_host(host)) {
        return Err(format!("server.hosts: write NAME or NAME:PORT, not {host:?}."));
    }
    if let Some(proxy) = server.trusted_proxies.iter().find(|proxy| !is_network(proxy)) {
        return Err(format!(
            "server.trusted_proxies: write an address or a network such as \"10.0.0.0/8\", not {proxy:?}."
        ));
    }
    Ok(())
}

fn is_origin(url: &str, path_allowed: bool) -> bool {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let refused = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '?' | '#' | '@');
    rest.is_some_and(|rest| {
        !rest.is_empty()
            && !rest.starts_with('/')
            && !rest.contains(refused)
            && (path_allowed || !rest.contains('/'))
    })
}

fn is_network(text: &str) -> bool {
    let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
    let Ok(address) = address.parse::<IpAddr>() else { return false };
    let most = if address.is_ipv4() { 32 } else { 128 };
    bits.is_none_or(|bits| bits.parse::<u8>().is_ok_and(|bits| bits <= most))
}

fn retention(retention: &Retention) -> Result<(), String> {
    let days = [
        ("org_days", Some(retention.org_days)),
        ("personal_days", retention.personal_days),
        ("swarm_days_after_close", Some(retention.swarm_days_after_close)),
    ];
    within("retention", "days", 1, DAYS_MAX, days)
}

fn limits(limits: &Limits) -> Result<(), String> {
    within("limits", "hours", 1, 168, [("question_deadline_hours", Some(limits.question_deadline_hours))])?;
    within(
        "limits",
        "messages",
        1,
        1_000_000,
        [("swarm_messages_per_hour", Some(limits.swarm_messages_per_hour))],
    )?;
    within("limits", "seconds", 1, 3600, [("presence_grace_seconds", Some(limits.presence_grace_seconds))])
}

fn otel(otel: &Otel) -> Result<(), String> {
    if let Some(endpoint) = &otel.endpoint {
        if cfg!(not(feature = "otel")) {
            return Err("otel.endpoint: this program was built without traces (cargo feature `otel`).".into());
        }
        // Its text is not repeated: it may hold a password.
        if !is_origin(endpoint, true) {
            let instead = "without user, password, query or blanks; put secrets into `headers` instead";
            return Err(format!("otel.endpoint: write http(s)://HOST[:PORT], {instead}."));
        }
    }
    if !(0.0..=1.0).contains(&otel.sample_ratio) {
        return Err("otel.sample_ratio: write 0.0 to 1.0.".into());
    }
    super::headers::check(&otel.headers)
}

fn within<const N: usize>(
    section: &str,
    unit: &str,
    least: u32,
    most: u32,
    values: [(&str, Option<u32>); N],
) -> Result<(), String> {
    let outside = |value: &Option<u32>| value.is_some_and(|value| !(least..=most).contains(&value));
    match values.into_iter().find(|(_, value)| outside(value)) {
        Some((key, _)) => Err(format!("{section}.{key}: write {least} to {most} {unit}.")),
        None => Ok(()),
    }
}
