//! The hub that is measured: a child process on a temporary directory, or one that runs elsewhere.

use super::broken;
use crate::api::Api;
use crate::args::{BenchHubs, Global};
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
    /// The owner's routes, of one node.
    pub api: Api,
    /// Where the nodes listen.
    addresses: Vec<SocketAddr>,
    own: Vec<Own>,
}

struct Own {
    child: Child,
    dir: TempDir,
}

impl Target {
    /// The hub that `--url` names, else fresh nodes of this program.
    pub async fn find_or_start(global: &Global, hubs: &BenchHubs) -> Result<Self, Failure> {
        if global.url.as_deref().is_some_and(|url| !url.is_empty()) {
            let api = Api::find(global)?;
            terminal::note(&format!(
                "Measuring the hub at {}; the vaults bench-* that it gets stay there.",
                api.url
            ));
            let addresses = vec![resolve(&api.url).await?];
            return Ok(Self { api, addresses, own: Vec::new() });
        }
        let (mut addresses, mut own, mut api) = (Vec::new(), Vec::new(), None);
        for _ in 0..hubs.nodes {
            let dir = tempfile::Builder::new().prefix("switchboard-bench-").tempdir();
            let dir = dir.map_err(|error| Failure::file(&std::env::temp_dir(), &error))?;
            let data = dir.path().join("data");
            own.push(Own { child: start(&data, hubs).await?, dir });
            let admin = Admin::read(&data)?.ok_or_else(|| broken("the hub wrote no admin.json"))?;
            addresses.push(resolve(&admin.url).await?);
            api = Some(Api::open(&admin.url, admin.token, true, PATIENCE, &Trust::default())?);
        }
        let api = api.ok_or_else(|| Failure::usage("--nodes: at least 1."))?;
        Ok(Self { api, addresses, own })
    }

    /// Where the connection of this number goes.
    pub fn address(&self, number: usize) -> SocketAddr {
        self.addresses[number % self.addresses.len()]
    }

    /// The directory whose disk the hub writes to, if it is on this machine for this bench.
    pub fn dir(&self) -> Option<&Path> {
        self.own.first().map(|own| own.dir.path())
    }

    /// Adds up what each node has; `None` when it is not known of one, or none is ours.
    fn sum(&self, of: impl Fn(u32) -> Option<u64>) -> Option<u64> {
        if self.own.is_empty() {
            return None;
        }
        self.own.iter().map(|own| of(own.child.id()?)).sum()
    }

    /// Processor time the nodes have used, in microseconds; Linux only.
    pub fn cpu_us(&self) -> Option<u64> {
        self.sum(cpu_us_of)
    }

    /// Memory of the nodes that is in use, in bytes; Linux only.
    pub fn rss_bytes(&self) -> Option<u64> {
        self.sum(rss_bytes_of)
    }

    /// Ends the nodes that were started for this, and removes their data.
    pub async fn stop(self) -> Result<(), Failure> {
        for Own { mut child, dir } in self.own {
            drop(child.stdin.take());
            if tokio::time::timeout(PATIENCE, child.wait()).await.is_err() {
                child.kill().await.map_err(broken)?;
            }
            dir.close().map_err(|error| Failure::file(&std::env::temp_dir(), &error))?;
        }
        Ok(())
    }
}

fn rss_bytes_of(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// Processor time a process has used, in microseconds; Linux only.
pub fn cpu_us_of(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program, in parentheses, may hold anything; numbers follow it.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some((ticks(11)? + ticks(12)?) * (1_000_000 / TICKS_PER_S))
}

async fn start(data: &Path, hubs: &BenchHubs) -> Result<Child, Failure> {
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
    // Passwords in addresses stay out of the list of processes.
    command.envs(hubs.store.iter().map(|url| ("SWITCHBOARD_STORE_URL", url)));
    command.envs(hubs.doorbell.iter().map(|url| ("SWITCHBOARD_DOORBELL_URL", url)));
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
