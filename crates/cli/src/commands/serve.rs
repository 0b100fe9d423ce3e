//! `switchboard serve`: the hub, until somebody ends it.

use crate::args::{Global, Serve};
use crate::channels::{self, saved};
use crate::config::{self, Config};
use crate::connect;
use crate::embedded::{self, DRAIN, Embedded};
use crate::failure::{Exit, Failure};
use crate::place::{self, Admin};
use crate::signals::{self, Signals};
use crate::telemetry::Telemetry;
use crate::terminal::{self, Output};
use crate::{limits, logging};
use serde::Serialize;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use switchboard_core::policy::Fault;
use switchboard_core::time::{Clock, SystemClock};
use switchboard_protocol::admin::TokenOut;
use tokio::time::Instant;

/// Exit code after a second signal: 128 and the number of the interrupt, as shells have it.
const INTERRUPTED: i32 = 130;

/// What scripts read when the hub is ready.
#[derive(Debug, Serialize)]
#[expect(clippy::struct_field_names, reason = "scripts read the field `ready`")]
struct Ready {
    ready: bool,
    url: String,
    mcp_url: String,
    org_id: String,
    data_dir: String,
    version: &'static str,
    pid: u32,
    /// Opens the console once, within 15 minutes; on the first start only.
    #[serde(skip_serializing_if = "Option::is_none")]
    console_url: Option<String>,
    /// Of the first agent, on the first start only.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instance_id: Option<String>,
}

/// Runs the hub.
pub fn run(global: &Global, serve: &Serve) -> Result<(), Failure> {
    let mut config = config::load(global)?;
    let telemetry = Telemetry::new(&config.otel)?;
    logging::start(global.log.as_deref(), &config.log, telemetry.as_ref())
        .map_err(|error| Failure::usage(format!("--log: {error}.")))?;
    // Before anything is opened: a mistake in the file changes nothing.
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let dir = place::data_dir(global.data_dir.as_deref(), config.server.data_dir.as_deref().map(Path::new))?;
    let (saved, left_out) = saved::extend(&mut config, &dir, &clock);
    for failure in left_out {
        tracing::error!(%failure, "a saved channel is left out");
    }
    channels::check(&config, &clock)?;
    let (policies, must_exist) = config::policy_dir(&config, &dir);
    if must_exist && !policies.is_dir() {
        let message =
            "The directory is not there; make it, or leave `dir` out of [policy] in the configuration.";
        return Err(embedded::policy_failure(&[Fault::of_file(policies.display().to_string(), message)]));
    }
    config.policy.dir = Some(policies);
    let listen = serve.listen.clone().unwrap_or_else(|| config.server.listen.clone());
    limits::raise_open_files();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| {
        Failure::new(Exit::Refused, "SB0205", format!("Cannot start the hub's threads: {error}."))
    })?;
    let output = Output { json: global.json };
    let hub = until_ended(&dir, (&config, saved), &listen, output, serve.until_stdin_closes, telemetry);
    runtime.block_on(hub)
}

async fn until_ended(
    dir: &Path,
    (config, saved): (&Config, saved::Known),
    listen: &str,
    output: Output,
    until_stdin_closes: bool,
    mut telemetry: Option<Telemetry>,
) -> Result<(), Failure> {
    // Whoever has read that the hub is ready may end it in order.
    let mut signals = Signals::listen();
    // The store first: a second hub on the same data is the mistake to name, not its port.
    let store = embedded::open(dir, config).await?;
    let listener = embedded::bind(listen).await?;
    if listener.local_addr().is_ok_and(|address| is_bare(address, config.server.public_url.as_deref())) {
        tracing::warn!(
            listen,
            "other machines reach this hub, and their bearers pass in plain text: put TLS in front of it and set public_url"
        );
    }
    let embedded = Embedded::start(store, config, listener, telemetry.as_mut().map(Telemetry::start)).await?;
    let admin =
        Admin { url: embedded.local_url.clone(), token: embedded.token.clone(), pid: std::process::id() };
    admin.write(dir)?;
    let following =
        saved::follow(embedded.hub.clone(), dir.to_owned(), saved, Arc::new(SystemClock::default()));
    tokio::spawn(following);
    let first = embedded.first_agent().await?;
    let console = if first.is_some() { Some(embedded.console_link().await?) } else { None };
    output.show(&ready(dir, &embedded, first, console), text);
    tracing::info!(url = embedded.url, data_dir = %dir.display(), version = env!("CARGO_PKG_VERSION"), "ready");
    let closed = async {
        if until_stdin_closes { signals::stdin_closed().await } else { std::future::pending().await }
    };
    let mut ended = Ok(());
    tokio::select! {
        () = signals.next() => {}
        () = closed => {}
        // Nothing else ends the hub from inside: its store began another epoch.
        () = embedded.hub.stopping().cancelled() => ended = Err(void()),
    }
    tracing::info!("stopping: what was taken is finished; a second signal ends at once");
    let stopped = async {
        let began = Instant::now();
        embedded.stop().await;
        if let Some(telemetry) = telemetry {
            telemetry.stop(DRAIN.saturating_sub(began.elapsed())).await;
        }
    };
    tokio::select! {
        () = stopped => {}
        () = signals.next() => {
            admin.remove(dir);
            std::process::exit(INTERRUPTED);
        }
    }
    admin.remove(dir);
    tracing::info!("stopped");
    ended
}

fn void() -> Failure {
    let message =
        "The database has lost commits that were acknowledged, after a fail-over: a new epoch has begun.";
    Failure::new(Exit::Refused, "SB0205", message.to_owned()).next("start it again: clients then start over")
}

/// Whether other machines can speak to the hub and nobody said that TLS is in front of it.
fn is_bare(address: SocketAddr, public_url: Option<&str>) -> bool {
    !address.ip().is_loopback() && !public_url.is_some_and(|url| url.starts_with("https://"))
}

fn ready(dir: &Path, embedded: &Embedded, first: Option<TokenOut>, console_url: Option<String>) -> Ready {
    let (instance_id, token) = first.map(|first| (first.instance_id, first.token)).unzip();
    Ready {
        ready: true,
        url: embedded.url.clone(),
        mcp_url: connect::mcp_url(&embedded.url),
        org_id: embedded.hub.installation.org_id.clone(),
        data_dir: dir.display().to_string(),
        version: env!("CARGO_PKG_VERSION"),
        pid: std::process::id(),
        console_url,
        token,
        instance_id,
    }
}

fn text(ready: &Ready) -> String {
    let about =
        terminal::facts(&[("listens on", ready.url.clone()), ("keeps data in", ready.data_dir.clone())]);
    let connect = match &ready.token {
        Some(token) => format!(
            "Connect an agent (this bearer is shown this once):\n\n{}\n\
             One bearer for each agent: switchboard token create --label NAME\n",
            connect::lines(&ready.url, token)
        ),
        None => "Connect an agent: switchboard token create --label NAME\n".to_owned(),
    };
    let console = match &ready.console_url {
        Some(url) => format!("Open the console (this link works once, within 15 minutes):\n\n  {url}\n"),
        None => format!("Open the console: {}/ (a link to enter with: switchboard console)\n", ready.url),
    };
    format!(
        "Switchboard {}\n{about}\n{console}\n{connect}See what they say: switchboard inbox --follow\nStop with Ctrl-C.\n",
        ready.version
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_open_address_without_tls_is_warned_of() {
        let bare = |address: &str, url| is_bare(address.parse().unwrap(), url);
        assert!(
            bare("0.0.0.0:1", None) && bare("[::]:1", None) && bare("10.0.0.1:1", Some("http://hub.lan"))
        );
        assert!(!bare("0.0.0.0:1", Some("https://hub.example")) && !bare("127.0.0.1:1", None));
    }
}
