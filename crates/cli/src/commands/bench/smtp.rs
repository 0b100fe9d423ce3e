//! A relay on loopback that takes every mail and says when it began.

use std::sync::Arc;
use std::time::Duration;
use switchboard_channels::email::{Email, Security, Server, Settings, Smtp};
use switchboard_core::port::channel::Channel;
use switchboard_core::random::SystemEntropy;
use switchboard_core::time::{Clock, SystemClock};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Name of its channel.
pub const NAME: &str = "mail";

/// The relay, while it is there.
pub struct Relay {
    port: u16,
    began: UnboundedReceiver<Duration>,
    serving: tokio::task::JoinHandle<()>,
}

impl Relay {
    /// Listens on a free port.
    pub async fn start(clock: &'static SystemClock) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let (tell, began) = unbounded_channel();
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // Ends with its client.
                tokio::spawn(serve(stream, clock, tell.clone()));
            }
        });
        Ok(Self { port, began, serving })
    }

    /// The e-mail channel that sends by it.
    pub fn channel(&self) -> Result<Arc<dyn Channel>, String> {
        let server = Server {
            host: "127.0.0.1".into(),
            port: self.port,
            security: Security::Plain,
            plain_allowed: false,
            credentials: None,
        };
        let settings = Settings {
            name: NAME.into(),
            from: "hub@example.test".into(),
            from_name: None,
            smtp: Smtp::new(server),
            imap: None,
            reply: None,
            authserv_id: None,
            ca_file: None,
        };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        Ok(Arc::new(Email::new(settings, clock, Arc::new(SystemEntropy))?))
    }

    /// When the next mail began, on the bench's clock, once the relay has taken all of it.
    pub async fn next(&mut self) -> Option<Duration> {
        self.began.recv().await
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(
    stream: TcpStream,
    clock: &SystemClock,
    tell: UnboundedSender<Duration>,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    let mut began = Duration::ZERO;
    say(&mut stream, "220 relay.test").await?;
    loop {
        // The time of the first byte, not of the whole line.
        let first = stream.fill_buf().await?;
        if first.is_empty() {
            return Ok(());
        }
        let now = clock.monotonic();
        let mut command = String::new();
        stream.read_line(&mut command).await?;
        if command.starts_with("MAIL") {
            began = now;
        }
        let is_data = command.starts_with("DATA");
        say(&mut stream, if is_data { "354 go on" } else { "250 ok" }).await?;
        if is_data {
            let mut mail = String::new();
            while !mail.ends_with("\r\n.\r\n") {
                if stream.read_line(&mut mail).await? == 0 {
                    return Ok(());
                }
            }
            say(&mut stream, "250 taken").await?;
            let _ = tell.send(began);
        }
    }
}

async fn say(stream: &mut BufReader<TcpStream>, answer: &str) -> std::io::Result<()> {
    stream.get_mut().write_all(format!("{answer}\r\n").as_bytes()).await
}
