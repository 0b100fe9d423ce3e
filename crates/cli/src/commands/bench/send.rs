//! A sender: keeps its window full, measures until each acknowledgement, checks that they come in order.

use super::histogram::Histogram;
use super::ids::{self, HEAD_BYTES, Head, ID_CHARS};
use super::wire::Wire;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::time::{Clock as _, SystemClock};

const STORED: &[u8] = br#"{"t":"message.stored","client_msg_id":""#;

/// When a bench measures, on its clock.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// The bench's clock.
    pub clock: Arc<SystemClock>,
    /// What comes before this is not counted.
    pub warm: Duration,
    /// Nothing is sent after this.
    pub stop: Duration,
}

impl Schedule {
    /// Nanoseconds of the bench's clock.
    pub fn now_ns(&self) -> u64 {
        ns(self.clock.monotonic())
    }
}

/// Nanoseconds of a time that is not centuries long.
pub fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A message frame in which only id and head of the text change.
#[derive(Debug)]
pub struct Template {
    frame: Vec<u8>,
    id_at: usize,
    text_at: usize,
    run: u16,
    sender: usize,
}

impl Template {
    /// A message of `sender` with `body_bytes` of text.
    pub fn new(run: u16, sender: usize, agent: &str, channel: &str, body_bytes: usize) -> Self {
        let (id, text) =
            ("0".repeat(ID_CHARS), " ".repeat(HEAD_BYTES) + &"x".repeat(body_bytes - HEAD_BYTES));
        let before = r#"{"t":"message","client_msg_id":""#;
        let middle = format!(
            r#"","network":{{"kind":"org","channel":"{channel}"}},"type":"finding","from":"{agent}","body":{{"text":""#
        );
        let frame = format!("{before}{id}{middle}{text}\"}}}}").into_bytes();
        let id_at = before.len();
        Self { frame, id_at, text_at: id_at + ID_CHARS + middle.len(), run, sender }
    }

    /// The frame of message `number`.
    pub fn frame(&mut self, unix_ms: u64, number: u64, sent_ns: u64) -> &[u8] {
        let sender = u16::try_from(self.sender).unwrap_or(u16::MAX);
        ids::put_id(&mut self.frame[self.id_at..], unix_ms, self.run, sender, number);
        Head { sender: self.sender, number, sent_ns }.put(&mut self.frame[self.text_at..]);
        &self.frame
    }
}

/// What a sender found.
#[derive(Debug)]
pub struct Sent {
    /// All that was acknowledged.
    pub acknowledged: u64,
    /// Acknowledged within the measured time.
    pub counted: u64,
    /// From handing a message to the socket until its acknowledgement was read.
    pub latency: Histogram,
    /// Acknowledgements that were not of the message whose turn it was.
    pub misordered: u64,
    /// Messages of others that came meanwhile.
    pub overheard: u64,
}

/// Sends until the schedule ends, then waits for what is under way.
pub async fn run(
    mut wire: Wire,
    mut template: Template,
    window: usize,
    schedule: Schedule,
) -> io::Result<(Sent, Wire)> {
    let mut sent =
        Sent { acknowledged: 0, counted: 0, latency: Histogram::new(), misordered: 0, overheard: 0 };
    let (warm_ns, stop_ns) = (ns(schedule.warm), ns(schedule.stop));
    let mut waiting: VecDeque<u64> = VecDeque::with_capacity(window);
    let mut next = 0;
    loop {
        let now_ns = schedule.now_ns();
        let unix_ms = schedule.clock.wall_ms().unsigned_abs();
        while waiting.len() < window && now_ns < stop_ns {
            wire.push(template.frame(unix_ms, next, now_ns));
            waiting.push_back(now_ns);
            next += 1;
        }
        if waiting.is_empty() {
            return Ok((sent, wire));
        }
        wire.exchange().await?;
        let now_ns = schedule.now_ns();
        while let Some(frame) = wire.next()? {
            let Some(id) = frame.strip_prefix(STORED) else {
                sent.overheard += other(frame)?;
                continue;
            };
            let expected = next - waiting.len() as u64;
            let sent_ns = waiting.pop_front().ok_or_else(|| io::Error::other("an answer to nothing"))?;
            sent.misordered += u64::from(ids::number(id) != Some(expected));
            sent.acknowledged += 1;
            if (warm_ns..stop_ns).contains(&now_ns) {
                sent.counted += 1;
                sent.latency.add(now_ns - sent_ns);
            }
        }
    }
}

/// Whether a frame that is no acknowledgement is a delivery; an error ends the bench.
fn other(frame: &[u8]) -> io::Result<u64> {
    if frame.starts_with(br#"{"t":"error""#) {
        return Err(io::Error::other(String::from_utf8_lossy(frame).into_owned()));
    }
    Ok(u64::from(frame.starts_with(br#"{"t":"message.deliver""#)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_messages_the_hub_takes() {
        let channel = format!("org:o/vault:{}/bench", "0".repeat(32));
        let mut template = Template::new(1, 3, "s3", &channel, 350);
        let text = String::from_utf8(template.frame(1_800_000_000_000, 42, 7).to_vec()).unwrap();
        let limits = switchboard_protocol::json::Limits::FRAME;
        let frame = switchboard_protocol::frame::client::parse(&text, &limits).unwrap();
        let switchboard_protocol::frame::client::ClientFrame::Message(message) = frame else {
            panic!("{text}")
        };
        assert_eq!(ids::number(message.client_msg_id.as_bytes()), Some(42));
        let body = message.body.unwrap().text;
        assert_eq!(body.len(), 350);
        assert_eq!(Head::read(body.as_bytes()), Some(Head { sender: 3, number: 42, sent_ns: 7 }));
    }
}
