//! A real homeserver, Synapse, for tests: started once for a test's process, on a socket of its own directory, and gone with the process
//! however that ends. `SWITCHBOARD_SYNAPSE_PYTHON` is the Python that has `matrix-synapse` (see `requirements.txt` of this crate).

use crate::http::{self, Request};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::net::UnixStream;

/// The variable that names the Python to run it by.
pub const PYTHON: &str = "SWITCHBOARD_SYNAPSE_PYTHON";
/// The name that the homeserver has.
pub const SERVER: &str = "hs.test";
/// Longest time until it answers. It is Python, and machines that run tests are busy.
const START_TIMEOUT: Duration = Duration::from_mins(4);

/// Ends with whoever started it: when its standard input does, which is also when that process is killed.
const PROGRAM: &str = "
import os, shutil, sys, threading
def until_parent_ends():
    while os.read(0, 1024):
        pass
    shutil.rmtree(os.path.dirname(sys.argv[2]), ignore_errors=True)
    os._exit(0)
threading.Thread(target=until_parent_ends, daemon=True).start()
from synapse.app.homeserver import main
main()
";

/// A running homeserver.
pub struct Synapse {
    socket: PathBuf,
    process: Child,
}

impl Drop for Synapse {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        self.process.wait().ok();
    }
}

/// Somebody with an account.
#[derive(Debug, Clone)]
pub struct User {
    socket: PathBuf,
    /// `@name:hs.test`.
    pub id: String,
    /// Access token.
    pub token: String,
}

static USERS: AtomicU32 = AtomicU32::new(0);

impl Synapse {
    /// The one of this process, started when it is first asked for.
    ///
    /// # Panics
    /// When [`PYTHON`] is not set, or the homeserver does not start.
    pub async fn shared() -> &'static Self {
        static SHARED: OnceLock<Result<Synapse, String>> = OnceLock::new();
        // It takes seconds; once it has failed it is not tried again for every test.
        let started = tokio::task::spawn_blocking(|| SHARED.get_or_init(Self::start)).await;
        started.expect("starting does not panic").as_ref().unwrap_or_else(|why| panic!("{why}"))
    }

    fn start() -> Result<Self, String> {
        let python = std::env::var_os(PYTHON).ok_or_else(|| {
            format!("{PYTHON} must name a Python with the packages of crates/standin/requirements.txt; ./test sets it")
        })?;
        let home = std::env::temp_dir().join(format!("switchboard-synapse-{}", std::process::id()));
        let (mut command, ready) =
            prepared(&home, &python).map_err(|error| format!("{}: {error}", home.display()))?;
        let process = command.spawn().map_err(|error| format!("Python does not run: {error}"))?;
        let mut synapse = Self { socket: home.join("hs.sock"), process };
        synapse.until_ready(&ready, &home)?;
        Ok(synapse)
    }

    /// It tells a service manager, which is us.
    fn until_ready(&mut self, ready: &UnixDatagram, home: &Path) -> Result<(), String> {
        let mut said = [0; 256];
        for _ in 0..START_TIMEOUT.as_secs() {
            if ready.recv(&mut said).is_ok_and(|length| said[..length].starts_with(b"READY=1")) {
                return Ok(());
            }
            if self.process.try_wait().is_ok_and(|ended| ended.is_some()) {
                break;
            }
        }
        let log = std::fs::read_to_string(home.join("log")).unwrap_or_default();
        std::fs::remove_dir_all(home).ok();
        Err(format!("the homeserver does not start:\n{log}"))
    }

    /// The socket on which it listens.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// A new account, whose name begins with `name`.
    ///
    /// # Panics
    /// When the homeserver refuses.
    pub async fn register(&self, name: &str) -> User {
        let number = USERS.fetch_add(1, Ordering::Relaxed);
        let content = json!({
            "username": format!("{name}{number}"), "password": "of a test", "auth": { "type": "m.login.dummy" },
        });
        let nobody = User { socket: self.socket.clone(), id: String::new(), token: String::new() };
        let account = nobody.call("POST", "register", &content).await;
        let text =
            |key: &str| account[key].as_str().unwrap_or_else(|| panic!("no account: {account}")).to_owned();
        User { id: text("user_id"), token: text("access_token"), ..nobody }
    }
}

impl User {
    /// Does a request of the client-server API, version 3: the answer, whatever its status.
    ///
    /// # Panics
    /// When there is no answer.
    pub async fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        self.try_call(method, path, body).await.expect("the homeserver answers")
    }

    async fn try_call(&self, method: &str, path: &str, body: &Value) -> io::Result<Value> {
        let body = if method == "GET" { Vec::new() } else { body.to_string().into_bytes() };
        let headers = [
            ("host", SERVER.to_owned()),
            ("authorization", format!("Bearer {}", self.token)),
            ("content-length", body.len().to_string()),
        ];
        let headers =
            headers.into_iter().filter(|(name, _)| *name != "authorization" || !self.token.is_empty());
        let request = Request {
            method: method.to_owned(),
            target: format!("/_matrix/client/v3/{path}"),
            headers: headers.map(|(name, value)| (name.to_owned(), value)).collect(),
            body,
        };
        let mut stream = UnixStream::connect(&self.socket).await?;
        let answer = http::exchange(&mut stream, &request).await?;
        Ok(serde_json::from_slice(&answer.body)?)
    }

    /// Reads something.
    pub async fn get(&self, path: &str) -> Value {
        self.call("GET", path, &Value::Null).await
    }

    /// A new room's id.
    ///
    /// # Panics
    /// When the homeserver refuses.
    pub async fn create_room(&self, content: Value) -> String {
        let room = self.call("POST", "createRoom", &content).await;
        room["room_id"].as_str().unwrap_or_else(|| panic!("no room: {room}")).to_owned()
    }

    /// Accepts an invitation.
    ///
    /// # Panics
    /// When the homeserver refuses.
    pub async fn join(&self, room: &str) {
        let joined = self.call("POST", &format!("rooms/{room}/join"), &json!({})).await;
        assert_eq!(joined["room_id"], *room, "{joined}");
    }

    /// Sends an event of this kind; its id.
    ///
    /// # Panics
    /// When the homeserver refuses.
    pub async fn send_event(&self, room: &str, kind: &str, transaction: &str, content: &Value) -> String {
        let sent = self.call("PUT", &format!("rooms/{room}/send/{kind}/{transaction}"), content).await;
        sent["event_id"].as_str().unwrap_or_else(|| panic!("not sent: {sent}")).to_owned()
    }

    /// Writes a text; its event's id.
    pub async fn write(&self, room: &str, transaction: &str, text: &str) -> String {
        let content = json!({ "msgtype": "m.text", "body": text });
        self.send_event(room, "m.room.message", transaction, &content).await
    }

    /// The events of a room that this user sees, oldest first.
    ///
    /// # Panics
    /// When the homeserver refuses.
    pub async fn events(&self, room: &str) -> Vec<Value> {
        let page = self.get(&format!("rooms/{room}/messages?dir=f&limit=1000")).await;
        page["chunk"].as_array().unwrap_or_else(|| panic!("no events: {page}")).clone()
    }
}

/// The command that runs it in `home`, and the socket on which it says that it is ready.
fn prepared(home: &Path, python: &OsStr) -> io::Result<(Command, UnixDatagram)> {
    std::fs::create_dir_all(home)?;
    let (config, socket) = (home.join("hs.yaml"), home.join("ready.sock"));
    std::fs::write(&config, configuration(home).to_string())?;
    let ready = UnixDatagram::bind(&socket)?;
    ready.set_read_timeout(Some(Duration::from_secs(1)))?;
    let log = std::fs::File::create(home.join("log"))?;
    let mut command = Command::new(python);
    command.args(["-c", PROGRAM, "-c"]).arg(config).env("NOTIFY_SOCKET", socket);
    command.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log);
    Ok((command, ready))
}

/// JSON is YAML.
fn configuration(home: &Path) -> Value {
    let free = json!({ "per_second": 10_000, "burst_count": 10_000 });
    json!({
        "server_name": SERVER,
        "listeners": [{
            "path": home.join("hs.sock"), "type": "http", "x_forwarded": true, "resources": [{ "names": ["client"], "compress": false }],
        }],
        "database": { "name": "sqlite3", "args": { "database": home.join("hs.db") } },
        "media_store_path": home.join("media"),
        "pid_file": home.join("pid"),
        "signing_key": "ed25519 test AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8",
        "macaroon_secret_key": "of a test",
        "form_secret": "of a test",
        "trusted_key_servers": [],
        "report_stats": false,
        "enable_registration": true,
        "enable_registration_without_verification": true,
        "bcrypt_rounds": 4,
        "presence": { "enabled": false },
        "rc_message": free,
        "rc_registration": free,
        "rc_joins": { "local": free, "remote": free },
        "rc_invites": { "per_room": free, "per_user": free, "per_issuer": free },
        "rc_room_creation": free,
        "rc_login": { "address": free, "account": free, "failed_attempts": free },
    })
}
