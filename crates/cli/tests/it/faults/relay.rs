//! Stands in for a mail relay that outlives the hub: takes every mail, remembers its bytes, and can be told to stop talking at one step of the
//! conversation, so that the hub can be ended exactly there.

use parking_lot::Mutex;
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// A step of the conversation: what the relay has just heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing: the connection stands.
    Connected,
    Hello,
    Sender,
    Recipient,
    Data,
    /// The whole mail, which the relay has taken and not confirmed.
    Mail,
}

/// The steps, in their order.
pub(super) const STEPS: [Step; 6] =
    [Step::Connected, Step::Hello, Step::Sender, Step::Recipient, Step::Data, Step::Mail];

#[derive(Debug, Default)]
struct State {
    taken: Vec<String>,
    silent_at: Option<Step>,
}

/// The relay.
#[derive(Debug)]
pub(super) struct Relay {
    pub(super) port: u16,
    state: Mutex<State>,
    reached: Notify,
}

impl Relay {
    pub(super) async fn start() -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let own = Arc::new(Self { port, state: Mutex::default(), reached: Notify::new() });
        let serving = Arc::downgrade(&own);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Some(own) = serving.upgrade() else { return };
                tokio::spawn(async move { own.serve(stream).await });
            }
        });
        own
    }

    /// From now on it says nothing more once it has heard this.
    pub(super) fn fall_silent(&self, at: Option<Step>) {
        self.state.lock().silent_at = at;
    }

    /// It has fallen silent.
    pub(super) async fn reached(&self) {
        self.reached.notified().await;
    }

    /// The mails that it has taken, with their headers.
    pub(super) fn taken(&self) -> Vec<String> {
        self.state.lock().taken.clone()
    }

    async fn heard(&self, step: Step) {
        if self.state.lock().silent_at == Some(step) {
            self.reached.notify_one();
            // The client ends it, or its end does.
            std::future::pending::<()>().await;
        }
    }

    async fn serve(&self, stream: TcpStream) -> Option<()> {
        let mut stream = BufReader::new(stream);
        self.heard(Step::Connected).await;
        say(&mut stream, "220 relay.test").await?;
        loop {
            let command = line(&mut stream).await?;
            let (step, answer) = match command.trim_end().split([' ', ':']).next().unwrap_or_default() {
                "EHLO" => (Step::Hello, "250 relay.test"),
                "MAIL" => (Step::Sender, "250 ok"),
                "RCPT" => (Step::Recipient, "250 ok"),
                "DATA" => (Step::Data, "354 go on"),
                _ => {
                    say(&mut stream, "250 ok").await?;
                    continue;
                }
            };
            self.heard(step).await;
            say(&mut stream, answer).await?;
            if step == Step::Data {
                let mut mail = String::new();
                while !mail.ends_with("\r\n.\r\n") {
                    mail.push_str(&line(&mut stream).await?);
                }
                self.state.lock().taken.push(mail);
                self.heard(Step::Mail).await;
                say(&mut stream, "250 taken").await?;
            }
        }
    }
}

async fn line(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = String::new();
    let read = stream.read_line(&mut line).await.ok()?;
    (read > 0).then_some(line)
}

async fn say(stream: &mut BufReader<TcpStream>, answer: &str) -> Option<()> {
    stream.get_mut().write_all(format!("{answer}\r\n").as_bytes()).await.ok()
}
