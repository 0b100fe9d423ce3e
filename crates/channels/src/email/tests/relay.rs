//! A relay that says what it is told to, on loopback.

use std::collections::VecDeque;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What the relay does when it has read what comes next: a command, or the content of a mail.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// Says this.
    Say(&'static str),
    /// Says nothing more and keeps the connection.
    Hang,
    /// Ends the connection.
    Close,
    /// Says this and ends the connection without reading on.
    Last(&'static str),
}

pub(super) const HELLO: Step =
    Step::Say("250-mx.test\r\n250-SIZE 3000000\r\n250-AUTH LOGIN PLAIN\r\n250 SMTPUTF8");
pub(super) const OK: Step = Step::Say("250 2.0.0 ok");
pub(super) const GO: Step = Step::Say("354 go on");

/// A relay for as many connections as there are scripts. Each begins with the greeting. Resolves to what the clients said.
pub(super) async fn relay(scripts: Vec<Vec<Step>>) -> (u16, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let port = listener.local_addr().expect("bound").port();
    let task = tokio::spawn(async move {
        let mut heard = String::new();
        for script in scripts {
            let (socket, _) = listener.accept().await.expect("a client");
            converse(socket, script.into(), &mut heard).await;
        }
        heard
    });
    (port, task)
}

async fn converse(socket: TcpStream, mut script: VecDeque<Step>, heard: &mut String) {
    let mut socket = BufReader::new(socket);
    loop {
        let content = match script.pop_front() {
            Some(Step::Say(line)) => {
                let said = socket.get_mut().write_all(format!("{line}\r\n").as_bytes()).await;
                if said.is_err() {
                    return;
                }
                line.starts_with("354")
            }
            Some(Step::Last(line)) => {
                let _ = socket.get_mut().write_all(format!("{line}\r\n").as_bytes()).await;
                return;
            }
            Some(Step::Hang) => {
                // Until the client has had enough.
                let mut rest = Vec::new();
                let _ = socket.read_to_end(&mut rest).await;
                return;
            }
            Some(Step::Close) | None => return,
        };
        let end = if content { "\r\n.\r\n" } else { "\r\n" };
        let mut read = String::new();
        while !read.ends_with(end) {
            if !matches!(socket.read_line(&mut read).await, Ok(1..)) {
                return;
            }
        }
        heard.push_str(&read);
    }
}
