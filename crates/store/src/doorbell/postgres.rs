//! The doorbell over the store's own database: LISTEN and NOTIFY on one connection beside the store's. One notification per
//! message, in a transaction of its own that waits for no disk.

use super::rings::{GATHER, Rings};
use super::wired::{Line, Wired};
use crate::postgres::Address;
use crate::postgres::config::{OpenError, opening};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_postgres::{AsyncMessage, Client};

/// How long a statement may take before the connection counts as dead.
const ANSWER: Duration = Duration::from_secs(5);
/// An idle connection is asked whether it is alive so often.
const PING: Duration = Duration::from_secs(3);

/// Rings over the database.
pub type PostgresDoorbell = Wired<Address>;

impl Line for Address {
    fn serve(self, rings: Arc<Rings>, org_id: String) -> BoxFuture<'static, ()> {
        serve(self, rings, channel(&org_id)).boxed()
    }
}

/// The name to listen to: PostgreSQL cuts names off at 63 bytes, and a quote would end one.
fn channel(org_id: &str) -> String {
    let plain = org_id.chars().filter(|it| it.is_ascii_alphanumeric() || *it == '_');
    format!("switchboard_{}", plain.take(50).collect::<String>())
}

async fn serve(address: Address, rings: Arc<Rings>, channel: String) {
    let mut attempt = 1;
    loop {
        let ended = session(&address, &rings, &channel).await;
        attempt = if rings.is_connected() { 1 } else { attempt + 1 };
        rings.down(&ended.to_string());
        tokio::time::sleep(rings.retry(attempt)).await;
    }
}

/// Serves one connection; returns why it ended.
async fn session(address: &Address, rings: &Rings, channel: &str) -> OpenError {
    match converse(address, rings, channel).await {
        Ok(()) => OpenError::Server("the connection was closed".into()),
        Err(error) => error,
    }
}

async fn converse(address: &Address, rings: &Rings, channel: &str) -> Result<(), OpenError> {
    let (told, mut heard) = mpsc::channel(64);
    let client = connect(address, told).await?;
    let listen = format!("SET synchronous_commit = off; LISTEN \"{channel}\"");
    hearing(&mut heard, rings, within(client.batch_execute(&listen))).await?;
    hearing(&mut heard, rings, tell(&client, channel, rings.hello())).await?;
    let gathered = tokio::time::sleep(Duration::ZERO);
    tokio::pin!(gathered);
    loop {
        tokio::select! {
            message = heard.recv() => match message {
                Some(message) => rings.hear(message.as_bytes()),
                None => return Ok(()),
            },
            () = gathered.as_mut(), if !gathered.is_elapsed() => {}
            () = rings.rung(), if gathered.is_elapsed() => {
                if let Some(message) = rings.message() {
                    hearing(&mut heard, rings, tell(&client, channel, message)).await?;
                    gathered.as_mut().reset(Instant::now() + GATHER);
                }
            }
            () = tokio::time::sleep(PING) => {
                hearing(&mut heard, rings, within(client.batch_execute(""))).await?;
            }
        }
    }
}

/// What `asked` gives. Hears meanwhile: the answer comes behind what was notified before it, for which there has to be room.
async fn hearing<T>(heard: &mut mpsc::Receiver<String>, rings: &Rings, asked: impl Future<Output = T>) -> T {
    tokio::pin!(asked);
    loop {
        tokio::select! {
            answer = asked.as_mut() => return answer,
            Some(message) = heard.recv() => rings.hear(message.as_bytes()),
        }
    }
}

/// Connects; what is notified goes to `told`, which closes with the connection.
async fn connect(address: &Address, told: mpsc::Sender<String>) -> Result<Client, OpenError> {
    let (config, tls) = address.driver();
    let connected = tokio::time::timeout(2 * ANSWER, config.connect(tls)).await;
    let (client, mut connection) = connected.map_err(|_| silent())?.map_err(opening)?;
    tokio::spawn(async move {
        let mut messages = stream::poll_fn(move |context| connection.poll_message(context));
        while let Some(Ok(message)) = messages.next().await {
            if let AsyncMessage::Notification(notification) = message
                && told.send(notification.payload().to_owned()).await.is_err()
            {
                return;
            }
        }
    });
    Ok(client)
}

async fn tell(client: &Client, channel: &str, message: String) -> Result<(), OpenError> {
    within(client.execute("SELECT pg_notify($1, $2)", &[&channel, &message])).await.map(drop)
}

async fn within<T>(answer: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T, OpenError> {
    tokio::time::timeout(ANSWER, answer).await.map_err(|_| silent())?.map_err(opening)
}

fn silent() -> OpenError {
    OpenError::Server("the database does not answer in time".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channels_name_is_short_and_plain() {
        assert_eq!(channel("org_01abc"), "switchboard_org_01abc");
        let odd = channel(&"a\"; DROP TABLE events; ".repeat(9));
        assert!(odd.len() <= 63 && odd.chars().all(|it| it.is_ascii_alphanumeric() || it == '_'));
    }
}
