//! The program, started on a free port with a data directory of its own, and ended with the test.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

const READY_WITHIN: Duration = Duration::from_mins(1);

/// A running hub.
pub struct Hub {
    process: Child,
    folder: TempDir,
    /// `http://127.0.0.1:PORT`.
    pub url: String,
}

impl Hub {
    /// Starts the program and waits for the line that says it is ready.
    pub fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let log = File::create(folder.path().join("log")).expect("a log file");
        let mut process = Command::new(program())
            .args(["serve", "--json", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(folder.path().join("data"))
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("the program starts");
        let output = process.stdout.take().expect("its output");
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                // Only the first line is waited for; reading on keeps the pipe from filling.
                let _ = sender.send(line);
            }
        });
        let mut hub = Self { process, folder, url: String::new() };
        let ready = lines
            .recv_timeout(READY_WITHIN)
            .unwrap_or_else(|error| panic!("not ready: {error}\n{}", hub.log()));
        let ready: Value = serde_json::from_str(&ready).expect("one JSON document");
        assert_eq!(ready["ready"], true, "{ready}");
        hub.url = ready["url"].as_str().expect("a URL").into();
        hub
    }

    /// Runs an administrator's command against this hub and returns what it prints.
    pub fn run(&self, arguments: &[&str]) -> String {
        let output = Command::new(program())
            .args(arguments)
            .arg("--data-dir")
            .arg(self.folder.path().join("data"))
            .stdin(Stdio::null())
            .output()
            .expect("the program starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if thread::panicking() {
            eprintln!("---- the hub's log\n{}", self.log());
        }
    }
}

fn program() -> PathBuf {
    let variable = std::env::var_os("SWITCHBOARD_BIN");
    variable
        .map(PathBuf::from)
        .expect("SWITCHBOARD_BIN names the program; `./test interop` builds it and sets it")
}
