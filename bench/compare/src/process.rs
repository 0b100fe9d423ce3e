//! Private servers: started on loopback in a fresh directory, stopped when their guard is dropped.

use std::fs::File;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::usage::{Usage, tree_usage};

const START_LIMIT: Duration = Duration::from_mins(3);
const STOP_LIMIT: Duration = Duration::from_secs(15);

/// A child process that is asked to end, and after [`STOP_LIMIT`] made to end, when this is dropped.
pub struct Process {
    child: Child,
    stop_signal: Signal,
    log: PathBuf,
}

impl Process {
    /// Starts `command` in an own process group, all its output going to the file `log`.
    pub fn start(command: &mut Command, stop_signal: Signal, log: &Path) -> Result<Self> {
        let file = create(log)?;
        Self::spawn(command.stdout(file.try_clone()?).stderr(file), stop_signal, log)
    }

    /// As [`Process::start`], with standard output going to the file `out` by itself.
    pub fn start_with_output(
        command: &mut Command,
        stop_signal: Signal,
        out: &Path,
        log: &Path,
    ) -> Result<Self> {
        Self::spawn(command.stdout(create(out)?).stderr(create(log)?), stop_signal, log)
    }

    /// The own group keeps a terminal's Ctrl-C away: the guard alone ends the process.
    fn spawn(command: &mut Command, stop_signal: Signal, log: &Path) -> Result<Self> {
        use std::os::unix::process::CommandExt;
        let child = command
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()
            .with_context(|| format!("start {}", command.get_program().display()))?;
        Ok(Self { child, stop_signal, log: log.to_owned() })
    }

    /// Waits until the process listens on `port` of 127.0.0.1.
    pub async fn wait_for_port(&mut self, port: u16) -> Result<()> {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let deadline = Instant::now() + START_LIMIT;
        while TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("ended with {status} before it listened; it said:\n{}", self.log_tail());
            }
            if Instant::now() > deadline {
                bail!("not listening after {START_LIMIT:?}; it said:\n{}", self.log_tail());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// Waits for the process to end by itself; an error when it fails or outlives `limit`.
    pub async fn wait_for_success(&mut self, limit: Duration) -> Result<()> {
        let deadline = Instant::now() + limit;
        loop {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("ended with {status}; it said:\n{}", self.log_tail()),
                None if Instant::now() > deadline => bail!("still running after {limit:?}"),
                None => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }

    /// What the process and all its descendants have used so far.
    pub fn usage(&self) -> Usage {
        tree_usage(self.child.id())
    }

    fn log_tail(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let tail = &text[text.len().saturating_sub(2000)..];
        String::from_utf8_lossy(tail).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
            && matches!(self.child.try_wait(), Ok(None))
        {
            // An error means that it ended in this very moment, which is what is wanted.
            let _ = kill_process(pid, self.stop_signal);
        }
        let deadline = Instant::now() + STOP_LIMIT;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn create(file: &Path) -> Result<File> {
    File::create(file).with_context(|| format!("create {}", file.display()))
}

/// A port of 127.0.0.1 that was free a moment ago, for servers that cannot pick one themselves.
pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// The program called `name` in the folders of `PATH`, or in one of `more`.
pub fn find_program(name: &str, more: &[PathBuf]) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = more.iter().cloned().chain(std::env::split_paths(&path));
    folders
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
        .with_context(|| format!("{name} is not installed: run bench/compare/setup"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_dropped_guard_ends_its_process() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let process = Process::start(Command::new("sleep").arg("60"), Signal::TERM, &log).unwrap();
        let proc_entry = PathBuf::from(format!("/proc/{}", process.child.id()));
        assert!(proc_entry.exists());
        drop(process);
        assert!(!proc_entry.exists());
    }

    #[tokio::test]
    async fn a_server_that_dies_while_starting_is_an_error_with_its_words() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut command = Command::new("sh");
        command.args(["-c", "echo no disk left >&2; exit 3"]);
        let mut process = Process::start(&mut command, Signal::TERM, &log).unwrap();
        let error = process.wait_for_port(free_port().unwrap()).await.unwrap_err().to_string();
        assert!(error.contains("no disk left"), "{error}");
    }
}
