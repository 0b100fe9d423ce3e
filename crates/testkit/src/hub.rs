//! A real hub in the test's own process: real store, real listener, injected clock.

use crate::socket::Socket;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use switchboard_channels::console::Console;
use switchboard_core::ExposeSecret as _;
use switchboard_core::port::store::Store;
use switchboard_core::random::SystemEntropy;
use switchboard_core::rights::Rights;
use switchboard_core::time::{Clock, ManualClock, SystemClock};
use switchboard_engine::once::Request;
use switchboard_engine::{Founding, Hub, Ports, Settings, manage};
use switchboard_server::Doors;
use switchboard_server::listen::serve;
use switchboard_store::doorbell::local::LocalDoorbell;
use switchboard_store::postgres::{self, Address, PostgresStore};
use switchboard_store::sqlite::{self, SqliteStore};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The owner's bearer in tests.
pub const ADMIN: &str = "test-admin-bearer";

/// How to start a hub.
#[derive(Clone, Default)]
pub struct Options {
    /// The engine's settings.
    pub settings: Settings,
    /// The store's options.
    pub store: sqlite::Options,
    /// A clock that the test moves; absent: the machine's.
    pub clock: Option<Arc<ManualClock>>,
    /// The MCP door's options.
    pub mcp: switchboard_server::mcp::Options,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Options").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// A bearer with its instance.
#[derive(Debug, Clone)]
pub struct Token {
    /// The instance.
    pub instance_id: String,
    /// The bearer.
    pub bearer: String,
}

/// A running hub.
#[derive(Debug)]
pub struct TestHub {
    /// The engine.
    pub hub: Arc<Hub>,
    /// Where it listens: `http://127.0.0.1:PORT`.
    pub url: String,
    options: Options,
    dir: Option<tempfile::TempDir>,
    stop: CancellationToken,
    served: Option<JoinHandle<()>>,
}

/// The store of `dir`, on the backend that [`crate::store::VARIABLE`] names.
async fn open(dir: &std::path::Path, options: &sqlite::Options) -> (Arc<dyn Store>, &'static str) {
    let Some(url) = crate::store::url(dir) else {
        return (Arc::new(SqliteStore::open_dir(dir, options.clone()).expect("the store opens")), "sqlite");
    };
    let address = Address::parse(&url).expect("a good URL");
    let options = postgres::Options { readers: 3, search: options.search, ..postgres::Options::default() };
    (Arc::new(PostgresStore::connect(address, options).await.expect("the store opens")), "postgres")
}

impl TestHub {
    /// A hub on an empty directory.
    pub async fn start() -> Self {
        Self::with(Options::default()).await
    }

    /// A hub with options on an empty directory.
    pub async fn with(options: Options) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        Self::open(options, dir).await
    }

    async fn open(options: Options, dir: tempfile::TempDir) -> Self {
        let mut hub = Self::at(options, dir.path()).await;
        hub.dir = Some(dir);
        hub
    }

    /// A hub on a directory that stays.
    pub async fn at(options: Options, dir: &std::path::Path) -> Self {
        let (store, backend) = open(dir, &options.store).await;
        let clock: Arc<dyn Clock> = match &options.clock {
            Some(clock) => clock.clone(),
            None => Arc::new(SystemClock::default()),
        };
        let ports = Ports {
            store,
            doorbell: Arc::new(LocalDoorbell::default()),
            clock,
            entropy: Arc::new(SystemEntropy),
        };
        let hub =
            Hub::start(ports, options.settings.clone(), Founding::default()).await.expect("the hub starts");
        hub.add_channel(Arc::new(Console), false).expect("the first of its name");
        hub.credentials.fix(ADMIN, hub.owner());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let stop = CancellationToken::new();
        let mut doors = Doors::new(hub.clone(), backend);
        doors.mcp = options.mcp.clone();
        let served = tokio::spawn(serve(listener, doors, stop.clone()));
        Self { hub, url, options, dir: None, stop, served: Some(served) }
    }

    /// Stops in order and starts again on the same directory, with another port.
    pub async fn restart(mut self) -> Self {
        let dir = self.shut().await;
        Self::open(self.options.clone(), dir).await
    }

    /// The same with other options.
    pub async fn restart_with(mut self, change: impl FnOnce(&mut Options)) -> Self {
        let dir = self.shut().await;
        let mut options = self.options.clone();
        change(&mut options);
        Self::open(options, dir).await
    }

    /// Stops in order; the directory is gone afterwards.
    pub async fn stop(mut self) {
        drop(self.shut().await);
    }

    async fn shut(&mut self) -> tempfile::TempDir {
        self.stop.cancel();
        self.hub.stopping().cancel();
        if let Some(served) = self.served.take() {
            served.await.expect("the listener ends");
        }
        self.hub.stop().await.expect("the hub stops");
        self.dir.take().expect("stopped once")
    }

    /// Where its data are.
    pub fn dir(&self) -> PathBuf {
        self.dir.as_ref().expect("still running").path().to_owned()
    }

    /// The store.
    pub fn store(&self) -> &dyn Store {
        self.hub.store()
    }

    /// A long bearer with the usual rights, owned by the hub's owner.
    pub async fn token(&self, label: &str) -> Token {
        self.token_of(label, None, Rights::AGENT).await
    }

    /// A long bearer.
    pub async fn token_of(&self, label: &str, owner: Option<&str>, rights: Rights) -> Token {
        let request = Request::fresh(&self.hub);
        let created =
            manage::tokens::create(&self.hub, &request, label, owner, rights).await.expect("a token");
        Token { instance_id: created.instance_id, bearer: created.token.expose_secret().to_owned() }
    }

    /// The owner's own credential.
    pub fn admin(&self) -> Token {
        Token { instance_id: self.hub.installation.hub_instance_id.clone(), bearer: ADMIN.into() }
    }

    /// Id of a vault by name.
    pub fn vault(&self, name: &str) -> String {
        self.hub.vault_named(name).expect("the vault").vault.to_string()
    }

    /// A channel of the vault `main`.
    pub fn channel(&self, name: &str) -> String {
        format!("org:{}/vault:{}/{name}", self.hub.installation.org_id, self.vault("main"))
    }

    /// An HTTP client with this credential.
    pub fn http(&self, token: &Token) -> Http {
        Http::new(&self.url, &token.bearer)
    }

    /// A socket that has said nothing yet.
    pub async fn connect(&self, token: &Token) -> Socket {
        Socket::connect(&self.url, &token.bearer).await.expect("the socket opens")
    }

    /// A socket that has announced one agent in the vault `main` and has been told the present state.
    pub async fn agent(&self, token: &Token, agent: &str) -> Socket {
        self.agent_from(token, agent, &json!({})).await
    }

    /// The same with cursors.
    pub async fn agent_from(&self, token: &Token, agent: &str, cursors: &Value) -> Socket {
        let mut socket = self.connect(token).await;
        let agents = json!([{ "agent_id": agent, "role": "tester", "vault_id": self.vault("main") }]);
        socket.hello(&token.instance_id, &agents, cursors).await;
        socket
    }

    /// A message frame for the channel `general` of the vault `main`.
    pub fn message(&self, id: &str, kind: &str, from: &str, text: &str) -> Value {
        json!({ "t": "message", "client_msg_id": id, "network": { "kind": "org", "channel": self.channel("general") },
            "type": kind, "from": from, "body": { "text": text } })
    }
}

/// A plain HTTP client.
#[derive(Debug, Clone)]
pub struct Http {
    url: String,
    bearer: String,
    client: reqwest::Client,
    patience: std::time::Duration,
}

/// Status, headers and body of an answer.
#[derive(Debug)]
pub struct Reply {
    /// Status code.
    pub status: u16,
    /// Headers.
    pub headers: reqwest::header::HeaderMap,
    /// Body as text.
    pub text: String,
}

impl Reply {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("not JSON: {}", self.text))
    }
}

impl Http {
    /// A client of the hub at `url`; an empty bearer sends none.
    pub fn new(url: &str, bearer: &str) -> Self {
        // Tests stay on this machine, whatever proxy the environment names.
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        Self { url: url.into(), bearer: bearer.into(), client, patience: crate::PATIENCE }
    }

    /// The same for requests that may take so long.
    #[must_use]
    pub fn within(self, patience: std::time::Duration) -> Self {
        Self { patience, ..self }
    }

    /// GET.
    pub async fn get(&self, path: &str) -> Reply {
        self.send(self.client.get(format!("{}{path}", self.url))).await
    }

    /// GET of what may not answer.
    pub async fn try_get(&self, path: &str) -> Option<Reply> {
        let response = self.request(reqwest::Method::GET, path).send().await.ok()?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Some(Reply { status, headers, text: response.text().await.ok()? })
    }

    /// POST of a JSON body.
    pub async fn post(&self, path: &str, body: &Value) -> Reply {
        self.post_raw(path, body.to_string(), &[]).await
    }

    /// POST of any text with headers.
    pub async fn post_raw(&self, path: &str, body: String, headers: &[(&str, &str)]) -> Reply {
        let request = self.client.post(format!("{}{path}", self.url)).body(body);
        let request = request.header("content-type", "application/json");
        self.send(headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))).await
    }

    /// DELETE.
    pub async fn delete(&self, path: &str) -> Reply {
        self.send(self.client.delete(format!("{}{path}", self.url))).await
    }

    /// A request with this credential, not yet sent.
    pub(crate) fn request(&self, method: reqwest::Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.url));
        if self.bearer.is_empty() { request } else { request.bearer_auth(&self.bearer) }
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Reply {
        let request = if self.bearer.is_empty() { request } else { request.bearer_auth(&self.bearer) };
        let response =
            tokio::time::timeout(self.patience, request.send()).await.expect("in time").expect("an answer");
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Reply { status, headers, text: response.text().await.expect("a body") }
    }
}
