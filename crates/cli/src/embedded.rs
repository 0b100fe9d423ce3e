//! The hub inside this process: store, doorbell, engine and doors put together. `serve` runs it, the demo and tests too.

use crate::config::Config;
use crate::failure::{Exit, Failure};
use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use switchboard_client::Secret;
use switchboard_core::ExposeSecret as _;
use switchboard_core::limits::DISK_RESERVE_BYTES;
use switchboard_core::outbound::limit::Rate;
use switchboard_core::policy::{Fault, listed};
use switchboard_core::port::doorbell::Doorbell;
use switchboard_core::port::store::{Store, StoreError};
use switchboard_core::random::SystemEntropy;
use switchboard_core::rights::Rights;
use switchboard_core::time::{Clock as _, DAY_MS, HOUR_MS, SECOND_MS, ShiftedClock, SystemClock, WallMs};
use switchboard_engine::once::Request;
use switchboard_engine::{Founding, Hub, Ports, Settings, StartError, console, manage};
use switchboard_protocol::admin::TokenOut;
use switchboard_server::trace::Traces;
use switchboard_server::{Doors, listen};
use switchboard_store::doorbell::LocalDoorbell;
use switchboard_store::moving::Mark;
use switchboard_store::sqlite::{OpenError, Options, SqliteStore};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long the hub has to stop, all in all.
pub const DRAIN: Duration = Duration::from_secs(10);
/// How often a node sets its clock by that of a store it shares with others.
const CLOCK_EVERY: Duration = Duration::from_mins(1);
/// Difference between the two that is worth a warning.
const CLOCK_WARN_MS: i64 = 5 * SECOND_MS;
/// Length the write-ahead log starts with: enough that it does not grow under load, little enough to be made at once.
const WAL_BYTES: u64 = 32 << 20;

/// A hub that serves.
#[derive(Debug)]
pub struct Embedded {
    /// The hub.
    pub hub: Arc<Hub>,
    /// How clients reach it.
    pub url: String,
    /// How commands on this machine reach it.
    pub local_url: String,
    /// The owner's bearer of this run.
    pub token: Secret,
    serving: JoinHandle<()>,
    _lock: Option<File>,
}

/// A store that was opened.
pub struct Opened {
    /// The store.
    pub store: Arc<dyn Store>,
    /// What it is, as `status` says it.
    pub backend: &'static str,
    /// Keeps other hubs out of the data directory, when the store does not do so itself.
    pub lock: Option<File>,
}

impl From<SqliteStore> for Opened {
    fn from(store: SqliteStore) -> Self {
        Self { store: Arc::new(store), backend: "sqlite", lock: None }
    }
}

/// Opens the store that the configuration asks for; what is kept beside it is in `dir`.
pub async fn open(dir: &Path, config: &Config) -> Result<Opened, Failure> {
    match config.store.url.split_once(':') {
        None => tokio::task::block_in_place(|| open_store(dir, config)).map(Into::into),
        Some(("sqlite", path)) => {
            tokio::task::block_in_place(|| open_store(Path::new(path), config)).map(Into::into)
        }
        Some(_) => open_database(dir, config).await,
    }
}

#[cfg(feature = "postgres")]
async fn open_database(dir: &Path, config: &Config) -> Result<Opened, Failure> {
    use switchboard_store::postgres::{Address, Options, PostgresStore};
    use switchboard_store::sqlite::lock_dir;
    let lock = tokio::task::block_in_place(|| {
        crate::place::make(dir)?;
        lock_dir(dir).map_err(|error| open_failure(dir, &error))
    })?;
    let options = Options { search: config.store.search, ..Options::default() };
    let opened = match Address::parse(&config.store.url) {
        Ok(address) => PostgresStore::connect(address, options).await,
        Err(error) => Err(error),
    };
    match opened {
        Ok(store) => Ok(Opened { store: Arc::new(store), backend: "postgres", lock: Some(lock) }),
        Err(error) => Err(database_failure(&error)),
    }
}

/// Why a database does not open.
#[cfg(feature = "postgres")]
pub fn database_failure(error: &switchboard_store::postgres::OpenError) -> Failure {
    use switchboard_store::postgres::OpenError;
    match error {
        OpenError::Newer { .. } => {
            let message = format!("The store cannot be used: {error}. Nothing was changed.");
            Failure::new(Exit::Refused, "SB0204", message).next("start the newer version again")
        }
        OpenError::Moving(mark) => on_the_move("The database", mark),
        _ => Failure::new(Exit::Refused, "SB0205", format!("The store cannot be used: {error}.")),
    }
}

fn on_the_move(store: &str, mark: &Mark) -> Failure {
    let next = if mark.left {
        "start the hub there; `switchboard store reopen` if it is to go on here after all"
    } else {
        "copy or restore into it again"
    };
    Failure::new(Exit::Refused, "SB0212", format!("{store} is not to be used: {mark}.")).next(next)
}

#[cfg(not(feature = "postgres"))]
async fn open_database(_: &Path, _: &Config) -> Result<Opened, Failure> {
    let message = "This program was built without PostgreSQL.".to_owned();
    Err(Failure::new(Exit::Refused, "SB0205", message).next("use one with the feature `postgres`"))
}

/// Opens the store in `dir`. Blocks on the disk.
pub fn open_store(dir: &Path, config: &Config) -> Result<SqliteStore, Failure> {
    SqliteStore::open_dir(dir, store_options(config)).map_err(|error| open_failure(dir, &error))
}

/// The same although it is on the move.
#[cfg(feature = "postgres")]
pub fn open_moving(dir: &Path, config: &Config) -> Result<SqliteStore, Failure> {
    let options = Options { moving: true, ..store_options(config) };
    SqliteStore::open_dir(dir, options).map_err(|error| open_failure(dir, &error))
}

fn store_options(config: &Config) -> Options {
    Options {
        clock: Arc::new(SystemClock::default()),
        disk_reserve_bytes: config.store.disk_reserve_mib.checked_mul(1 << 20).unwrap_or(DISK_RESERVE_BYTES),
        search: config.store.search,
        wal_bytes: WAL_BYTES,
        ..Options::default()
    }
}

/// Why the store in `dir` does not open.
pub fn open_failure(dir: &Path, error: &OpenError) -> Failure {
    let dir = dir.display();
    match error {
        OpenError::Locked(_) => Failure::new(
            Exit::Refused,
            "SB0203",
            format!("Another hub is using {dir}; two cannot share one."),
        )
        .next("stop it, or choose another data directory with --data-dir DIR"),
        OpenError::Newer { found, known } => {
            let message = format!(
                "{dir} was written by a newer version (schema {found}; this one knows {known}). Nothing was changed."
            );
            Failure::new(Exit::Refused, "SB0204", message).next("start the newer version again")
        }
        OpenError::Moving(mark) => on_the_move(&dir.to_string(), mark),
        other => Failure::new(Exit::Refused, "SB0205", format!("{dir} cannot be used: {other}."))
            .next("`switchboard doctor`"),
    }
}

/// The store said no.
pub fn store_failure(error: &StoreError) -> Failure {
    Failure::new(Exit::Refused, "SB0205", format!("The store cannot be used: {error}."))
        .next("`switchboard doctor`")
}

/// The rules are faulty.
pub fn policy_failure(faults: &[Fault]) -> Failure {
    let message = format!("The rules cannot be loaded.\n{}", listed(faults));
    Failure::new(Exit::Refused, "SB0213", message)
        .next("correct them; `switchboard policy check DIR` reads them again")
}

/// Listens on `address`.
pub async fn bind(address: &str) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        Failure::new(Exit::Refused, "SB0207", format!("Cannot listen on {address}: {error}."))
            .next("choose another address, such as --listen 127.0.0.1:0 for any free port")
    })
}

impl Embedded {
    /// Starts a hub on `store` behind `listener`. `traces`: who takes its spans.
    pub async fn start(
        opened: impl Into<Opened>,
        config: &Config,
        listener: TcpListener,
        traces: Traces,
    ) -> Result<Self, Failure> {
        let Opened { store, backend, lock } = opened.into();
        let address = listener.local_addr().map_err(|error| {
            Failure::new(Exit::Refused, "SB0207", format!("The listening address is not known: {error}."))
        })?;
        let local_url = format!("http://{}", reachable(address));
        let url = config
            .server
            .public_url
            .as_deref()
            .map_or(local_url.clone(), |url| url.trim_end_matches('/').to_owned());
        let settings = settings(config, &url);
        let clock = Arc::new(ShiftedClock::new(Arc::new(SystemClock::default())));
        let shared = backend != "sqlite";
        if shared {
            set_clock(&*store, &clock).await.map_err(|error| store_failure(&error))?;
        }
        let ports = Ports {
            store: Arc::clone(&store),
            doorbell: doorbell(config, backend)?,
            clock: clock.clone(),
            entropy: Arc::new(SystemEntropy),
        };
        let ports_clock = ports.clock.clone();
        let hub = Hub::start(ports, settings, Founding::default()).await.map_err(|error| match error {
            StartError::Store(error) => store_failure(&error),
            StartError::Policy(faults) => policy_failure(&faults),
        })?;
        if shared {
            tokio::spawn(keep_clock(store, clock, hub.stopping().clone()));
        }
        crate::channels::open(&hub, config, &ports_clock)?;
        let token = Secret::new(Request::fresh(&hub).seed().secret(&hub, "sba_"));
        hub.credentials.fix(token.expose(), hub.owner());
        let mut doors = Doors::new(hub.clone(), backend);
        doors.traces = traces;
        doors.room = listen::Room::within(crate::limits::granted_files());
        doors.origins = Arc::new(config.server.origins.clone());
        doors.mcp.allowed_hosts.clone_from(&config.server.hosts);
        let serving = tokio::spawn(listen::serve(listener, doors, hub.stopping().clone()));
        Ok(Self { hub, url, local_url, token, serving, _lock: lock })
    }

    /// A bearer for a first agent, if nobody but the owner has ever had one.
    pub async fn first_agent(&self) -> Result<Option<TokenOut>, Failure> {
        let hub = &self.hub;
        let refused = |detail: switchboard_protocol::Detail| Failure::from(&detail);
        if !manage::tokens::list(hub).await.map_err(refused)?.is_empty() {
            return Ok(None);
        }
        let request = Request::fresh(hub);
        let created = manage::tokens::create(hub, &request, "first agent", None, Rights::AGENT).await;
        let created = created.map_err(refused)?;
        Ok(Some(TokenOut {
            instance_id: created.instance_id,
            org_id: hub.installation.org_id.clone(),
            token: created.token.expose_secret().to_owned(),
        }))
    }

    /// A link into the console that works once.
    pub async fn console_link(&self) -> Result<String, Failure> {
        let secret = console::mint_link(&self.hub).await.map_err(|detail| Failure::from(&detail))?;
        Ok(console::link_url(&self.hub, &secret))
    }

    /// Takes nothing new, finishes what was taken, lets go of everything. At most about [`DRAIN`].
    pub async fn stop(self) {
        self.hub.stopping().cancel();
        self.hub.store().hurry();
        let stopped = async {
            // A panic of the doors was logged where it happened; the store is closed all the same.
            let _ = self.serving.await;
            self.hub.stop().await
        };
        match tokio::time::timeout(DRAIN, stopped).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::error!(%error, "the store did not close cleanly; it recovers with the next start");
            }
            Err(_) => tracing::warn!("the hub did not stop in time; what was acknowledged is on disk"),
        }
    }
}

/// Who wakes readers here and, where there are others, there.
fn doorbell(config: &Config, backend: &str) -> Result<Arc<dyn Doorbell>, Failure> {
    match (config.doorbell.url.as_str(), backend) {
        ("auto" | "local", "sqlite") => Ok(Arc::new(LocalDoorbell::new())),
        ("local", _) => Ok(Arc::new(LocalDoorbell::among_others())),
        #[cfg(feature = "postgres")]
        ("auto" | "postgres", _) => {
            let address = switchboard_store::postgres::Address::parse(&config.store.url);
            let address = address.map_err(|error| doorbell_failure(&error))?;
            Ok(Arc::new(switchboard_store::doorbell::postgres::PostgresDoorbell::new(
                address,
                Arc::new(SystemEntropy),
            )))
        }
        #[cfg(feature = "nats")]
        (url, _) => nats(config, url).map_err(|error| doorbell_failure(&error)),
        #[cfg(not(feature = "nats"))]
        _ => Err(doorbell_failure(&"this program was built without it")),
    }
}

#[cfg(feature = "nats")]
fn nats(
    config: &Config,
    url: &str,
) -> Result<Arc<dyn Doorbell>, switchboard_store::doorbell::nats::OpenError> {
    use switchboard_store::doorbell::nats::{Address, NatsDoorbell};
    let mut address = Address::parse(url)?;
    if let Some(file) = &config.doorbell.credentials_file {
        address = address.credentials_file(file.into())?;
    }
    if let Some(file) = &config.doorbell.ca_file {
        address = address.authority_file(file.into())?;
    }
    Ok(Arc::new(NatsDoorbell::new(address, Arc::new(SystemEntropy))))
}

fn doorbell_failure(error: &impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Usage, "SB0206", format!("The doorbell cannot be used: {error}."))
        .next("correct [doorbell] in the configuration")
}

// Nodes that share a store go by its clock: deadlines then mean the same on each, however wrong its machine's clock is.
async fn set_clock(store: &dyn Store, clock: &ShiftedClock) -> Result<(), StoreError> {
    let asked = clock.monotonic();
    let by_ms = clock.set(store.wall_ms().await?, asked);
    if by_ms.abs() >= CLOCK_WARN_MS {
        tracing::warn!(by_ms, "this machine's clock differs from the store's, which counts: set it right");
    }
    Ok(())
}

async fn keep_clock(store: Arc<dyn Store>, clock: Arc<ShiftedClock>, stopping: CancellationToken) {
    while stopping.run_until_cancelled(tokio::time::sleep(CLOCK_EVERY)).await.is_some() {
        if let Err(error) = set_clock(&*store, &clock).await {
            tracing::debug!(%error, "the store's clock could not be read");
        }
    }
}

/// The address to connect to: listening everywhere includes this machine.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        let loopback: std::net::IpAddr = match address {
            SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        };
        address.set_ip(loopback);
    }
    address
}

fn settings(config: &Config, url: &str) -> Settings {
    let days = |days: u32| WallMs::from(days) * DAY_MS;
    Settings {
        org_keep_ms: days(config.retention.org_days),
        personal_keep_ms: config.retention.personal_days.map(days),
        swarm_keep_ms: days(config.retention.swarm_days_after_close),
        question_deadline_ms: WallMs::from(config.limits.question_deadline_hours) * HOUR_MS,
        swarm_messages_per_hour: config.limits.swarm_messages_per_hour,
        presence_grace: Duration::from_secs(config.limits.presence_grace_seconds.into()),
        outbound: outbound(config),
        policy_dir: config.policy.dir.clone(),
        public_url: url.to_owned(),
        ..Settings::default()
    }
}

fn outbound(config: &Config) -> switchboard_engine::outbound::Settings {
    let outbound = &config.outbound;
    let approvers = outbound.approvers.iter().filter_map(|text| text.split_once(':'));
    switchboard_engine::outbound::Settings {
        default_rate: Rate { max: outbound.messages_per_hour, interval_ms: HOUR_MS },
        approval_ms: WallMs::from(outbound.approval_hours) * HOUR_MS,
        question_deadline_ms: WallMs::from(config.limits.question_deadline_hours) * HOUR_MS,
        receipt_wait: Duration::from_millis(outbound.receipt_wait_ms.into()),
        approvers: approvers.map(|(channel, to)| (channel.to_owned(), to.to_owned())).collect(),
        ..switchboard_engine::outbound::Settings::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listening_everywhere_is_reached_over_loopback() {
        let reached = |text: &str| reachable(text.parse().unwrap()).to_string();
        assert_eq!(reached("0.0.0.0:80"), "127.0.0.1:80");
        assert_eq!(reached("[::]:80"), "[::1]:80");
        assert_eq!(reached("10.0.0.1:80"), "10.0.0.1:80");
    }
}
