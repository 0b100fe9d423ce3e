//! The hub that is measured: a child process on a temporary directory, or one that runs elsewhere.

use super::broken;
use crate::api::Api;
use crate::args::Global;
use crate::failure::Failure;
use crate::place::Admin;
use crate::terminal;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use switchboard_client::Trust;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// How long the hub may take to start, or to stop.
const PATIENCE: Duration = Duration::from_secs(30);
/// Ticks of processor time a second, as Linux tells them (`USER_HZ`), whatever the kernel counts inside.
const TICKS_PER_S: u64 = 100;

/// What is measured.
pub struct Target {
    /// Its owner's routes.
    pub api: Api,
    /// Where it listens.
    pub address: SocketAddr,
    own: Option<Own>,
}

struct Own {
    child: Child,
    dir: TempDir,
}

impl Target {
    /// The hub that `--url` names, else a fresh one of this program.
    pub async fn find_or_start(global: &Global) -> Result<Self, Failure> {
        if global.url.as_deref().is_some_and(|url| !url.is_empty()) {
            let api = Api::find(global)?;
            terminal::note(&format!(
                "Measuring the hub at {}; the vaults bench-* that it gets stay there.",
                api.url
            ));
            let address = resolve(&api.url).await?;
            return Ok(Self { api, address, own: None });
        }
        let dir = tempfile::Builder::new().prefix("switchboard-bench-").tempdir();
        let dir = dir.map_err(|error| Failure::file(&std::env::temp_dir(), &error))?;
        let data = dir.path().join("data");
        let child = start(&data).await?;
        let admin = Admin::read(&data)?.ok_or_else(|| broken("the hub wrote no admin.json"))?;
        let address = resolve(&admin.url).await?;
        let api = Api::open(&admin.url, admin.token, true, PATIENCE, &Trust::default())?;
        Ok(Self { api, address, own: Some(Own { child, dir }) })
    }

    /// The directory whose disk the hub writes to, if it is on this machine for this bench.
    pub fn dir(&self) -> Option<&Path> {
        self.own.as_ref().map(|own| own.dir.path())
    }

    fn pid(&self) -> Option<u32> {
        self.own.as_ref()?.child.id()
    }

    /// Processor time the hub has used, in microseconds; Linux only.
    pub fn cpu_us(&self) -> Option<u64> {
        cpu_us_of(self.pid()?)
    }

    /// Memory of the hub that is in use, in bytes; Linux only.
    pub fn rss_bytes(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()?)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
    }

    /// Ends the hub if it was started for this, and removes its data.
    pub async fn stop(self) -> Result<(), Failure> {
        let Some(Own { mut child, dir }) = self.own else { return Ok(()) };
        drop(child.stdin.take());
        if tokio::time::timeout(PATIENCE, child.wait()).await.is_err() {
            child.kill().await.map_err(broken)?;
        }
        dir.close().map_err(|error| Failure::file(&std::env::temp_dir(), &error))
    }
}

/// Processor time a process has used, in microseconds; Linux only.
pub fn cpu_us_of(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program, in parentheses, may hold anything; numbers follow it.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some((ticks(11)? + ticks(12)?) * (1_000_000 / TICKS_PER_S))
}

async fn start(data: &Path) -> Result<Child, Failure> {
    let program = std::env::current_exe().map_err(broken)?;
    let mut command = Command::new(program);
    command.args([
        "serve",
        "--json",
        "--listen",
        "127.0.0.1:0",
        "--log",
        "error",
        "--until-stdin-closes",
        "--data-dir",
    ]);
    command.arg(data).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    for (name, _) in std::env::vars_os() {
        // What is configured for another hub is not for this one.
        if name.to_string_lossy().starts_with("SWITCHBOARD_") {
            command.env_remove(name);
        }
    }
    let mut child = command.spawn().map_err(broken)?;
    let output = child.stdout.take().ok_or_else(|| broken("the hub has no output"))?;
    let mut lines = BufReader::new(output).lines();
    match tokio::time::timeout(PATIENCE, lines.next_line()).await {
        Ok(Ok(Some(line))) if line.starts_with(r#"{"ready":true"#) => Ok(child),
        _ => Err(broken("the hub did not become ready; what it said stands above")),
    }
}

async fn resolve(url: &str) -> Result<SocketAddr, Failure> {
    let host = url.strip_prefix("http://").map(|rest| rest.split('/').next().unwrap_or_default());
    let host = host.ok_or_else(|| Failure::usage("The bench speaks plain http:// only."))?;
    let host = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
    let mut found = tokio::net::lookup_host(&host).await.map_err(broken)?;
    found.next().ok_or_else(|| broken(format_args!("{host} has no address")))
}
