//! Where the database is and how it is reached, out of a URL; connections; and why one does not come about.

use super::failure::told;
use std::fmt;
use std::fs;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::time::WallMs;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Oldest server that is served, as its `server_version_num` has it.
pub(crate) const SERVER_VERSION_MIN: i32 = 150_000;
/// Schema in which everything stands, unless the URL says otherwise.
pub const SCHEMA: &str = "switchboard";
/// Longest name PostgreSQL takes, in bytes.
const NAME_BYTES_MAX: usize = 63;
/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(5);
/// How long one statement may take.
const STATEMENT_MS: WallMs = 30_000;
/// How long a statement waits for a lock.
const LOCK_MS: WallMs = 10_000;
/// How long a transaction may wait for its node: one that is paused or cut off lets go of its locks.
const IDLE_MS: WallMs = 10_000;

/// Why the store did not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL is not one.
    #[error("the URL is wrong: {0}")]
    Url(String),
    /// Nobody answers there.
    #[error("{server} cannot be reached: {why}. Is it running, and do host and port fit?")]
    Unreachable {
        /// Host and port.
        server: String,
        /// What was tried.
        why: String,
    },
    /// The server takes nobody in yet, or no more: it starts, recovers from a crash, or stops.
    #[error("{server} cannot be used yet: {why}. Wait for it, and look at its log if it takes long")]
    Starting {
        /// Host and port.
        server: String,
        /// What it said.
        why: String,
    },
    /// The server does not let this user in.
    #[error("{server} refuses user {user:?}: {why}. Check user and password, and the server's pg_hba.conf")]
    Refused {
        /// Host and port.
        server: String,
        /// The user.
        user: String,
        /// What it said.
        why: String,
    },
    /// There is no such database.
    #[error(
        "{server} has no database {database:?}: create it (CREATE DATABASE {database}) or correct the URL"
    )]
    Database {
        /// Host and port.
        server: String,
        /// Its name.
        database: String,
    },
    /// The user may not do what is needed.
    #[error(
        "the user lacks rights: {0}. It must own the schema, or be allowed to create it: GRANT CREATE ON DATABASE … TO …"
    )]
    Rights(String),
    /// The server is older than what is needed.
    #[error("the server is PostgreSQL {found}: at least 15 is needed. Upgrade it")]
    Old {
        /// Its version.
        found: String,
    },
    /// A newer program wrote the schema.
    #[error(
        "the database has schema version {found}, for which this program is too old (it knows {known}): use the newer program again"
    )]
    Newer {
        /// Version in the database.
        found: u32,
        /// Newest version this program knows.
        known: u32,
    },
    /// It is on the move to another place.
    #[error("{0}")]
    Moving(crate::moving::Mark),
    /// The schema does not fit.
    #[error("{0}")]
    Migrate(String),
    /// The encryption asked for did not come about.
    #[error(
        "no encrypted connection: {0}. Name the server's authority with sslrootcert=FILE; sslmode=disable does without"
    )]
    Tls(String),
    /// The database has no room.
    #[error("the database's disk is full: make room there")]
    Full,
    /// Anything else.
    #[error("the database cannot be used: {0}")]
    Server(String),
}

/// What an error while opening means.
#[expect(clippy::needless_pass_by_value, reason = "it is what errors are mapped by")]
pub(crate) fn opening(error: tokio_postgres::Error) -> OpenError {
    match error.code() {
        Some(&SqlState::INSUFFICIENT_PRIVILEGE) => OpenError::Rights(told(&error)),
        Some(&SqlState::DISK_FULL) => OpenError::Full,
        _ => OpenError::Server(told(&error)),
    }
}

/// A database, with the password inside: it cannot be printed.
#[derive(Clone)]
pub struct Address {
    config: Config,
    /// Schema in which everything stands.
    pub(crate) schema: String,
    tls: MakeRustlsConnect,
}

impl fmt::Debug for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Address({self})")
    }
}

/// Host, port, database and schema: what may be shown.
impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{} (schema {})", self.server(), self.database(), self.schema)
    }
}

impl Address {
    /// Reads `postgres://user:password@host:port/database?key=value…`. Keys of our own: `schema` (default [`SCHEMA`]),
    /// `sslrootcert` (a PEM file of authorities, default the system's), `sslmode` (`disable`, or `require` = `verify-full`:
    /// encrypted, and the server's certificate and name are checked; default `disable` on this machine, `require` elsewhere);
    /// the rest is the driver's (`connect_timeout`, `application_name`, …).
    pub fn parse(url: &str) -> Result<Self, OpenError> {
        let wrong = |what: &str| OpenError::Url(what.to_owned());
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(wrong("it begins with postgres://"));
        }
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut schema, mut sslmode, mut root, mut rest) = (SCHEMA.to_owned(), None, None, Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or_else(|| wrong("behind ? stand pairs key=value"))?;
            match key {
                "schema" => value.clone_into(&mut schema),
                "sslmode" => sslmode = Some(value),
                "sslrootcert" => root = Some(value),
                _ => rest.push(pair),
            }
        }
        if !is_name(&schema) {
            return Err(wrong("schema takes lowercase letters, digits and _, at most 63, a letter first"));
        }
        let driver = format!("{base}{}{}", if rest.is_empty() { "" } else { "?" }, rest.join("&"));
        // What the driver says of a wrong URL names the key at most, never a value.
        let mut config: Config =
            driver.parse().map_err(|error: tokio_postgres::Error| wrong(&told(&error)))?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(wrong("it names no host"));
        }
        if config.get_user().is_none() {
            return Err(wrong("it names no user: postgres://USER:PASSWORD@HOST/DATABASE"));
        }
        config.ssl_mode(match sslmode {
            Some("disable") => SslMode::Disable,
            Some("require" | "verify-full") => SslMode::Require,
            Some(_) => return Err(wrong("sslmode takes disable, require or verify-full")),
            None if is_local(&config) && root.is_none() => SslMode::Disable,
            None => SslMode::Require,
        });
        set_up(&mut config, &schema);
        let encrypted = config.get_ssl_mode() != SslMode::Disable;
        let tls = MakeRustlsConnect::new(tls(root, encrypted)?);
        Ok(Self { config, schema, tls })
    }

    /// The database's name.
    fn database(&self) -> &str {
        self.config.get_dbname().or(self.config.get_user()).unwrap_or_default()
    }

    /// Where the server is.
    fn server(&self) -> String {
        let host = match self.config.get_hosts().first() {
            Some(Host::Tcp(name)) => name.clone(),
            #[cfg(unix)]
            Some(Host::Unix(path)) => path.display().to_string(),
            None => self.config.get_hostaddrs().first().map_or_else(String::new, ToString::to_string),
        };
        format!("{host}:{}", self.config.get_ports().first().copied().unwrap_or(5432))
    }

    /// The driver's configuration and encryption.
    pub(crate) fn driver(&self) -> (Config, MakeRustlsConnect) {
        (self.config.clone(), self.tls.clone())
    }

    /// Connects; the task that serves the connection runs on the present runtime.
    pub(crate) async fn connect(&self) -> Result<Client, OpenError> {
        let attempt = self.config.connect(self.tls.clone());
        let connected = tokio::time::timeout(2 * CONNECT, attempt).await.map_err(|_| {
            OpenError::Unreachable { server: self.server(), why: "it did not answer in time".into() }
        })?;
        let (client, connection) = connected.map_err(|error| self.refused(&error))?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(error = told(&error), "a database connection ended");
            }
        });
        let version = "SELECT current_setting('server_version_num')::int, current_setting('server_version')";
        let version = client.query_one(version, &[]).await.map_err(opening)?;
        if version.get::<_, i32>(0) < SERVER_VERSION_MIN {
            return Err(OpenError::Old { found: version.get(1) });
        }
        Ok(client)
    }

    /// Connects to a server that takes writes and keeps them: a standby is passed over, and a commit is on disk when it is answered.
    pub(crate) async fn connect_to_write(&self) -> Result<Client, OpenError> {
        let client = self.connect().await?;
        let state =
            "SELECT pg_is_in_recovery(), current_setting('synchronous_commit'), current_setting('fsync')";
        let state = client.query_one(state, &[]).await.map_err(opening)?;
        if state.get(0) {
            let why = "it is a standby, which takes no writes".to_owned();
            return Err(OpenError::Unreachable { server: self.server(), why });
        }
        if state.get::<_, &str>(1) == "off" {
            client.batch_execute("SET synchronous_commit = on").await.map_err(opening)?;
        }
        if state.get::<_, &str>(2) == "off" {
            tracing::warn!("the database runs with fsync=off: a power cut may lose what was acknowledged");
        }
        Ok(client)
    }

    fn refused(&self, error: &tokio_postgres::Error) -> OpenError {
        let (server, why) = (self.server(), told(error));
        match error.code() {
            Some(&SqlState::CANNOT_CONNECT_NOW) => OpenError::Starting { server, why },
            Some(&SqlState::INVALID_PASSWORD | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION) => {
                let user = self.config.get_user().unwrap_or_default().to_owned();
                OpenError::Refused { server, user, why }
            }
            Some(&SqlState::INVALID_CATALOG_NAME) => {
                OpenError::Database { server, database: self.database().to_owned() }
            }
            Some(&SqlState::INSUFFICIENT_PRIVILEGE) => OpenError::Rights(why),
            Some(&SqlState::UNDEFINED_OBJECT | &SqlState::CANT_CHANGE_RUNTIME_PARAM) => {
                OpenError::Server(why)
            }
            None if why.contains("TLS") => OpenError::Tls(why),
            None if why.contains("password") => {
                let user = self.config.get_user().unwrap_or_default().to_owned();
                OpenError::Refused { server, user, why }
            }
            _ => OpenError::Unreachable { server, why },
        }
    }
}

fn is_name(name: &str) -> bool {
    let known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    name.len() <= NAME_BYTES_MAX
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && !name.starts_with("pg_")
        && name.chars().all(known)
}

fn is_local(config: &Config) -> bool {
    config.get_hosts().iter().all(|host| match host {
        Host::Tcp(name) => ["localhost", "127.0.0.1", "::1"].contains(&name.as_str()),
        #[cfg(unix)]
        Host::Unix(_) => true,
    })
}

fn set_up(config: &mut Config, schema: &str) {
    let given = config.get_options().unwrap_or_default().to_owned();
    config.options(format!(
        "{given} -c search_path={schema} -c statement_timeout={STATEMENT_MS} -c lock_timeout={LOCK_MS} \
         -c idle_in_transaction_session_timeout={IDLE_MS} -c client_min_messages=warning"
    ));
    // A server whose network is gone is given up after a good quarter of a minute, by the system.
    config
        .keepalives_idle(Duration::from_secs(5))
        .keepalives_interval(Duration::from_secs(5))
        .keepalives_retries(2);
    config.tcp_user_timeout(Duration::from_secs(15));
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT);
    }
    if config.get_application_name().is_none() {
        config.application_name("switchboard");
    }
}

fn tls(root: Option<&str>, needed: bool) -> Result<rustls::ClientConfig, OpenError> {
    let failed = |why: &dyn fmt::Display| OpenError::Tls(why.to_string());
    let mut roots = rustls::RootCertStore::empty();
    if let Some(path) = root {
        use rustls::pki_types::pem::PemObject as _;
        let pem = fs::read(path).map_err(|error| failed(&format!("sslrootcert {path}: {error}")))?;
        for certificate in rustls::pki_types::CertificateDer::pem_slice_iter(&pem) {
            roots.add(certificate.map_err(|error| failed(&error))?).map_err(|error| failed(&error))?;
        }
        if roots.is_empty() {
            return Err(failed(&format!("sslrootcert {path} holds no certificate")));
        }
    } else if needed {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    Ok(builder.map_err(|error| failed(&error))?.with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_never_shows_its_password() {
        let address = Address::parse("postgres://ann:geheim@db.example:6000/hub?schema=bus").unwrap();
        assert_eq!(address.to_string(), "db.example:6000/hub (schema bus)");
        assert!(!format!("{address:?}").contains("geheim"));
        assert_eq!(address.config.get_ssl_mode(), SslMode::Require, "elsewhere it is encrypted");
        let here = Address::parse("postgres://ann@localhost/hub").unwrap();
        assert_eq!((here.config.get_ssl_mode(), here.schema.as_str()), (SslMode::Disable, SCHEMA));
    }

    #[test]
    fn wrong_urls_are_refused_without_their_values() {
        for url in [
            "mysql://x",
            "postgres://",
            "postgres://ann:geheim@h:port/db",
            "postgres://ann:geheim@h/db?schema=Bus",
            "postgres://ann:geheim@h/db?schema=a;drop",
            "postgres://ann:geheim@h/db?schema=pg_x",
            "postgres://ann:geheim@h/db?sslmode=prefer",
            "postgres://ann:geheim@h/db?unknown=1",
            "postgres://ann:geheim@h/db?schema",
            "postgres://h/db",
            "postgres://ann:geheim@h/db?sslrootcert=/nonexistent/ca.pem",
        ] {
            let error = Address::parse(url).expect_err(url).to_string();
            assert!(!error.contains("geheim"), "{error}");
        }
    }
}
