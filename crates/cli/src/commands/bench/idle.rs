//! What a connection costs that only waits.

use super::broken;
use super::child::Target;
use super::room::Room;
use crate::failure::Failure;
use crate::terminal;
use serde::Serialize;
use tokio::net::TcpStream;

/// Connections opened before memory is looked at for the first time, so that what is made once is there.
const FIRST: usize = 64;

/// The figures.
#[derive(Debug, Serialize)]
pub struct Idle {
    /// Connections that wait.
    pub sockets: usize,
    /// Memory of the hub before, in bytes; Linux only.
    pub rss_before_bytes: Option<u64>,
    /// Memory of the hub with them.
    pub rss_bytes: Option<u64>,
    /// Memory per connection.
    pub bytes_per_socket: Option<u64>,
}

impl Idle {
    /// For people.
    pub fn text(&self) -> String {
        let size = |bytes: Option<u64>| bytes.map_or_else(|| "not known here".to_owned(), terminal::bytes);
        terminal::facts(&[
            ("idle sockets", self.sockets.to_string()),
            ("hub's memory before", size(self.rss_before_bytes)),
            ("hub's memory with them", size(self.rss_bytes)),
            ("per socket", size(self.bytes_per_socket)),
        ])
    }
}

/// Opens `sockets` connections that follow a vault and wait.
pub async fn run(target: &Target, sockets: usize) -> Result<Idle, Failure> {
    let most = crate::limits::open_files();
    if most.is_some_and(|most| (sockets + FIRST + 64) as u64 > most) {
        let message =
            format!("This process may open {} files, fewer than the sockets asked for.", most.unwrap_or(0));
        return Err(Failure::usage(message).next("raise the limit (ulimit -n), or measure fewer"));
    }
    let room = Room::open(target).await?;
    let place = room.place("idle").await?;
    // One instance: agents of other instances would be told of each of them.
    let token = room.token("idle").await?;
    let mut open: Vec<TcpStream> = Vec::with_capacity(sockets + FIRST);
    let mut before = None;
    for number in 0..sockets + FIRST {
        if number == FIRST {
            before = target.rss_bytes();
        }
        open.push(room.connect(number, &token, &format!("idle-{number}"), &place).await?.into_stream());
    }
    let after = target.rss_bytes();
    let alive = open.iter().filter(|stream| stream.peer_addr().is_ok()).count();
    if alive != open.len() {
        return Err(broken(format_args!("{} sockets were closed", open.len() - alive)));
    }
    let grown = after.zip(before).map(|(after, before)| after.saturating_sub(before));
    Ok(Idle {
        sockets,
        rss_before_bytes: before,
        rss_bytes: after,
        bytes_per_socket: grown.map(|grown| grown / sockets as u64),
    })
}
