//! The real binary as a process of its own, to be killed without warning.

use crate::{Http, PATIENCE, Token};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// A running `switchboard serve`.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// Where it listens.
    pub url: String,
    dir: PathBuf,
}

impl Process {
    /// Starts `binary serve` on `dir` and waits until it says that it is ready.
    pub async fn start(binary: &Path, dir: &Path) -> Self {
        Self::start_with(binary, dir, &[]).await
    }

    /// The same with further arguments.
    pub async fn start_with(binary: &Path, dir: &Path, more: &[&str]) -> Self {
        Self::ready(Command::new(binary), dir, more, &crate::store::variables(dir).collect::<Vec<_>>()).await
    }

    /// The same with variables, instead of those of the store that tests run on.
    pub async fn start_set(binary: &Path, dir: &Path, variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new(binary);
        command.envs(variables.iter().copied());
        Self::ready(command, dir, &[], &[]).await
    }

    /// The same with a bound on open files, as `ulimit -n` sets it.
    #[cfg(unix)]
    pub async fn start_bounded(binary: &Path, dir: &Path, files: u32) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -n {files} && exec \"$0\" \"$@\"")]).arg(binary);
        Self::ready(shell, dir, &[], &crate::store::variables(dir).collect::<Vec<_>>()).await
    }

    async fn ready(mut command: Command, dir: &Path, more: &[&str], store: &[(&str, String)]) -> Self {
        let mut child = command
            .args(["serve", "--json", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(dir)
            .args(more)
            .envs(store.iter().map(|(name, value)| (name, value)))
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()
            .expect("the binary starts");
        let stdout = child.stdout.take().expect("its output");
        let ready = async {
            let mut lines = BufReader::new(stdout).lines();
            lines.next_line().await.expect("its output can be read").expect("it says that it is ready")
        };
        let line = tokio::time::timeout(PATIENCE, ready).await.expect("ready in time");
        let ready: Value = serde_json::from_str(&line).expect("the ready line is JSON");
        assert_eq!(ready["ready"], true, "{line}");
        // `ready` names the public address, if there is one.
        let url = admin(dir)["url"].as_str().expect("its address").to_owned();
        Self { child, url, dir: dir.to_owned() }
    }

    /// `kill -9`, at once.
    pub async fn kill(mut self) {
        self.child.kill().await.expect("it can be killed");
    }

    /// Asks it to end (SIGTERM) and waits until it has.
    #[cfg(unix)]
    pub async fn terminate(mut self) {
        self.signal("TERM").await;
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await.expect("it ends in time");
        assert!(ended.expect("its status").success(), "it ends in order");
    }

    /// Waits until it has ended by itself; its exit code, `None` after a signal.
    pub async fn ended(mut self) -> Option<i32> {
        let ended = tokio::time::timeout(2 * PATIENCE, self.child.wait()).await.expect("it ends in time");
        ended.expect("its status").code()
    }

    /// Sends it a signal by name, such as `STOP` or `CONT`.
    #[cfg(unix)]
    pub async fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.id().to_string()]).status().await;
        assert!(sent.expect("kill is there").success());
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.child.id().expect("still running")
    }

    /// An HTTP client with the admin token that the hub has written to its data directory.
    pub fn admin(&self) -> Http {
        Http::new(&self.url, admin(&self.dir)["token"].as_str().expect("the admin token"))
    }

    /// A fresh bearer.
    pub async fn token(&self, label: &str) -> Token {
        let made = self.admin().post("/admin/v1/tokens", &json!({ "label": label })).await.json();
        let text = |name: &str| made[name].as_str().expect("a token").to_owned();
        Token { instance_id: text("instance_id"), bearer: text("token") }
    }
}

/// What a running hub has written for commands on its machine.
fn admin(dir: &Path) -> Value {
    let text = std::fs::read_to_string(dir.join("admin.json")).expect("admin.json");
    serde_json::from_str(&text).expect("admin.json is JSON")
}
