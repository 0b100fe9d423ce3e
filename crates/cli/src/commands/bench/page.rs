//! How long a page of history takes behind a cursor, in a channel of many messages.

use super::broken;
use super::child::Target;
use super::histogram::{Histogram, Quantiles};
use super::room::{Place, Room};
use super::send::{Template, ns};
use super::wire::Wire;
use crate::api::encode;
use crate::args::BenchPage;
use crate::failure::Failure;
use crate::terminal;
use serde::Serialize;
use std::io;
use switchboard_core::time::{Clock as _, SystemClock};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// Messages under way while the channel is filled.
const WINDOW: usize = 256;
/// Bytes of text in each.
const BODY_BYTES: usize = 350;
/// Largest page that is taken.
const PAGE_BYTES_MAX: usize = 16 << 20;

/// The figures.
#[derive(Debug, Serialize)]
pub struct Pages {
    /// Messages in the channel.
    pub messages: usize,
    /// Pages that were read.
    #[serde(rename = "pages")]
    pub count: usize,
    /// Messages asked for at once.
    pub size: usize,
    /// Bytes of one page, on average.
    pub page_bytes: usize,
    /// From the request to the last byte.
    pub page_ms: Quantiles,
    /// How fast the channel was filled.
    pub filled_per_s: f64,
    /// Memory of the hub at the end, in bytes; Linux only.
    pub hub_rss_bytes: Option<u64>,
}

impl Pages {
    /// For people.
    pub fn text(&self) -> String {
        let Quantiles { p50, p99, p999 } = self.page_ms;
        terminal::facts(&[
            ("messages in the channel", self.messages.to_string()),
            ("filled with", format!("{} /s", self.filled_per_s)),
            (
                "pages",
                format!(
                    "{} of {} messages, {}",
                    self.count,
                    self.size,
                    terminal::bytes(self.page_bytes as u64)
                ),
            ),
            ("a page after, ms (p50/p99/p99.9)", format!("{p50:.3} / {p99:.3} / {p999:.3}")),
        ])
    }
}

/// Fills a channel, then reads pages from all over it.
#[expect(clippy::cast_precision_loss, reason = "counts of a bench are far below 2^52")]
pub async fn run(target: &Target, bench: &BenchPage) -> Result<Pages, Failure> {
    let room = Room::open(target).await?;
    let place = room.place("page").await?;
    let token = room.token("page").await?;
    let wire = room.connect(0, &token, "s0", &place).await?;
    let clock = SystemClock::default();
    let every = (bench.messages / bench.pages).max(1);
    let cursors = fill(
        wire,
        Template::new(room.run, 0, "s0", &place.channel, BODY_BYTES),
        bench.messages,
        every,
        &clock,
    );
    let cursors = cursors.await.map_err(broken)?;
    let filled_per_s = (bench.messages as f64 / clock.monotonic().as_secs_f64()).round();
    let mut reader = Reader::open(target, token.token).await.map_err(broken)?;
    let (mut times, mut bytes) = (Histogram::new(), 0);
    // A stride through the channel: neighbouring pages would find each other's rows in memory.
    for at in 0..bench.pages {
        let cursor = &cursors[at * 7919 % cursors.len()];
        let asked = clock.monotonic();
        bytes += reader.page(&place, cursor, bench.size).await.map_err(broken)?;
        times.add(ns(clock.monotonic().saturating_sub(asked)));
    }
    Ok(Pages {
        messages: bench.messages,
        count: bench.pages,
        size: bench.size,
        page_bytes: bytes / bench.pages,
        page_ms: times.quantiles(),
        filled_per_s,
        hub_rss_bytes: target.rss_bytes(),
    })
}

/// Sends `messages`; the ids of every so many of them.
async fn fill(
    mut wire: Wire,
    mut template: Template,
    messages: usize,
    every: usize,
    clock: &SystemClock,
) -> io::Result<Vec<String>> {
    let mut cursors = Vec::new();
    let (mut sent, mut stored) = (0, 0);
    while stored < messages {
        let unix_ms = clock.wall_ms().unsigned_abs();
        while sent < messages && sent - stored < WINDOW {
            wire.push(template.frame(unix_ms, sent as u64, 0));
            sent += 1;
        }
        wire.exchange().await?;
        while let Some(frame) = wire.next()? {
            if frame.starts_with(br#"{"t":"error""#) {
                return Err(io::Error::other(String::from_utf8_lossy(frame).into_owned()));
            }
            if frame.starts_with(br#"{"t":"message.stored""#) {
                if stored % every == 0 {
                    cursors.extend(gid(frame));
                }
                stored += 1;
            }
        }
    }
    Ok(cursors)
}

fn gid(frame: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(frame).ok()?;
    let (_, rest) = text.split_once(r#""gid":""#)?;
    rest.split_once('"').map(|(gid, _)| gid.to_owned())
}

/// One kept-alive HTTP connection, so that only the page is measured.
struct Reader {
    stream: BufReader<TcpStream>,
    host: String,
    bearer: String,
}

impl Reader {
    async fn open(target: &Target, bearer: String) -> io::Result<Self> {
        let stream = TcpStream::connect(target.address(0)).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::with_capacity(64 * 1024, stream),
            host: target.address(0).to_string(),
            bearer,
        })
    }

    /// Reads a page; its bytes.
    async fn page(&mut self, place: &Place, after: &str, size: usize) -> io::Result<usize> {
        let request = format!(
            "GET /v1/messages?network=org&channel={}&after_gid={after}&limit={size} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n",
            encode(&place.channel),
            self.host,
            self.bearer
        );
        self.stream.write_all(request.as_bytes()).await?;
        let (mut line, mut length) = (String::new(), 0);
        loop {
            line.clear();
            if self.stream.read_line(&mut line).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let header = line.trim_end().to_ascii_lowercase();
            if header.starts_with("http/1.1") && !header.starts_with("http/1.1 200") {
                return Err(io::Error::other(format!("a page was refused: {header}")));
            }
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
            if header.is_empty() {
                break;
            }
        }
        if length > PAGE_BYTES_MAX {
            return Err(io::Error::other("a page is too large"));
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await?;
        Ok(length)
    }
}
