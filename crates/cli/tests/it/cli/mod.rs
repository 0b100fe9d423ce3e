//! The program as people and scripts use it: its commands, what they print, how they end.

#![cfg_attr(not(unix), expect(unused, reason = "tests with signals run on Unix only"))]

mod ask;
mod backup;
mod bench;
mod channel;
mod commands;
mod config;
mod demo;
mod doctor;
mod explain;
mod inbox;
mod proxy;
mod secrets;
mod serve;
mod tls;
#[cfg(all(unix, feature = "otel"))]
mod traces;

use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use switchboard_testkit::PATIENCE;

/// Path of the program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_switchboard");

/// The program with `arguments`, nothing of this process's environment that would configure it.
pub(crate) fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SWITCHBOARD_") || name == "RUST_LOG" {
            command.env_remove(name);
        }
    }
    command
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.code, 0, "{self:?}");
        assert_eq!(self.stdout.lines().count(), 1, "one document on one line: {self:?}");
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Asserts that it failed with this exit code and error code.
    fn failed(self, code: i32, sb: &str) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        assert!(self.stderr.starts_with(&format!("error {sb}: ")), "{self:?}");
        assert!(self.stderr.contains(&format!("switchboard explain {sb}")), "{self:?}");
        self
    }
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command) -> Ended {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    Running::of(child).ended()
}

/// A command that runs; ended hard when the test ends first.
struct Running {
    child: Child,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
    seen: Vec<String>,
    said: Vec<String>,
}

impl Running {
    fn start(command: &mut Command) -> Self {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Self::of(child.expect("the program starts"))
    }

    fn of(mut child: Child) -> Self {
        fn lines(from: impl std::io::Read + Send + 'static) -> Receiver<String> {
            let (sender, receiver) = channel();
            std::thread::spawn(move || {
                let mut from = BufReader::new(from);
                let mut line = String::new();
                while from.read_line(&mut line).is_ok_and(|count| count > 0) {
                    if sender.send(std::mem::take(&mut line)).is_err() {
                        // Nobody reads any more, but a full pipe would hold the program up.
                        let _ = std::io::copy(&mut from.by_ref(), &mut std::io::sink());
                    }
                }
            });
            receiver
        }
        let stdout = lines(child.stdout.take().expect("its output"));
        let stderr = lines(child.stderr.take().expect("its errors"));
        Self { child, stdout, stderr, seen: Vec::new(), said: Vec::new() }
    }

    /// The next line on stdout.
    fn line(&mut self) -> String {
        match self.stdout.recv_timeout(PATIENCE) {
            Ok(line) => {
                self.seen.push(line.clone());
                line
            }
            Err(
                std::sync::mpsc::RecvTimeoutError::Timeout | std::sync::mpsc::RecvTimeoutError::Disconnected,
            ) => panic!("no line in time; stderr: {:?}", self.stderr.try_iter().collect::<String>()),
        }
    }

    /// Waits for a line on stderr that contains `text`.
    fn said(&mut self, text: &str) {
        loop {
            let line = self
                .stderr
                .recv_timeout(PATIENCE)
                .unwrap_or_else(|_| panic!("{text:?} is not said in time: {:?}", self.said));
            self.said.push(line);
            if self.said.last().is_some_and(|line| line.contains(text)) {
                return;
            }
        }
    }

    #[cfg(unix)]
    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &pid]).status().expect("kill is there");
        assert!(sent.success());
    }

    fn status_within(&mut self, time: Duration) -> Option<ExitStatus> {
        let (step, mut left) = (Duration::from_millis(10), time);
        loop {
            if let Some(status) = self.child.try_wait().expect("its status") {
                return Some(status);
            }
            left = left.checked_sub(step)?;
            std::thread::sleep(step); // waiting for a process without a signal handler of our own
        }
    }

    fn ended(mut self) -> Ended {
        let Some(status) = self.status_within(Duration::from_mins(1)) else {
            panic!("it does not end; stderr: {:?}", self.stderr.try_iter().collect::<String>());
        };
        // The reading threads end with the pipes, and the pipes with the process.
        let rest = |lines: &Receiver<String>, mut seen: Vec<String>| {
            seen.extend(lines.iter());
            seen.concat()
        };
        let (seen, said) = (std::mem::take(&mut self.seen), std::mem::take(&mut self.said));
        Ended {
            code: status.code().unwrap_or(-1),
            stdout: rest(&self.stdout, seen),
            stderr: rest(&self.stderr, said),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A running `serve --json` and its data directory.
pub(crate) struct Hub {
    running: Running,
    dir: PathBuf,
    ready: Value,
}

impl Hub {
    pub(crate) fn start(dir: &Path) -> Self {
        Self::start_with(dir, &[])
    }

    pub(crate) fn start_with(dir: &Path, more: &[&str]) -> Self {
        let variables: Vec<_> = switchboard_testkit::store::variables(dir).collect();
        let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        Self::start_set(dir, more, &variables)
    }

    /// On the store that `variables` name, else on the data directory, whatever tests run on.
    fn start_on(dir: &Path, variables: &[(&str, &str)]) -> Self {
        Self::start_set(dir, &[], variables)
    }

    fn start_set(dir: &Path, more: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = program(&["serve", "--json", "--listen", "127.0.0.1:0", "--data-dir"]);
        command.arg(dir).args(more).envs(variables.iter().copied());
        let mut running = Running::start(&mut command);
        let line = running.line();
        let ready: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        Self { running, dir: dir.to_owned(), ready }
    }

    /// A command about this hub.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = program(arguments);
        command.arg("--data-dir").arg(&self.dir).envs(switchboard_testkit::store::variables(&self.dir));
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        run(&mut self.command(arguments))
    }

    /// The result of a command as JSON.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let arguments: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
        self.run(&arguments).json()
    }

    #[cfg(unix)]
    pub(crate) fn stop(self) -> Ended {
        self.running.signal("TERM");
        self.running.ended()
    }
}

pub(crate) fn temp() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}
