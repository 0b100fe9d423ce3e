//! A receiver: takes everything, and holds the hub to what it promises: every acknowledged message once, in order, positions
//! without a gap that no `cursor` explains.

use super::histogram::Histogram;
use super::ids::{self, Head};
use super::send::{Schedule, ns};
use super::wire::Wire;
use std::collections::BTreeSet;
use std::io;
use tokio::sync::watch;

const DELIVER: &[u8] = br#"{"t":"message.deliver""#;
const CURSOR: &[u8] = br#"{"t":"cursor""#;
const TEXT: &[u8] = br#""text":""#;
/// What follows the text in a delivery.
const BEHIND_TEXT: &[u8] = br#""},"trust":"team"}"#;

/// What a receiver is told about the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Messages are still sent.
    Sending,
    /// So many were acknowledged in all.
    Total(u64),
    /// Whatever is missing stays missing.
    GiveUp,
}

/// What a receiver found.
#[derive(Debug)]
pub struct Received {
    /// Messages of each sender that came, counting each once.
    next: Vec<u64>,
    missing: BTreeSet<(usize, u64)>,
    /// Messages taken.
    pub taken: u64,
    /// Messages taken within the measured time and the rest that came behind it.
    pub counted: u64,
    /// When the last one came, in nanoseconds of the bench's clock.
    pub last_ns: u64,
    /// From sending to receiving.
    pub latency: Histogram,
    /// Came again.
    pub duplicated: u64,
    /// Came behind a later one, or under a position that does not follow.
    pub misordered: u64,
    seq: u64,
}

impl Received {
    fn new(senders: usize) -> Self {
        Self {
            next: vec![0; senders],
            missing: BTreeSet::new(),
            taken: 0,
            counted: 0,
            last_ns: 0,
            latency: Histogram::new(),
            duplicated: 0,
            misordered: 0,
            seq: 0,
        }
    }

    /// Messages that never came, of so many acknowledged of each sender.
    pub fn lost(&self, acknowledged: &[u64]) -> u64 {
        let behind = self.next.iter().zip(acknowledged).map(|(next, all)| all.saturating_sub(*next));
        behind.sum::<u64>() + self.missing.len() as u64
    }

    fn message(&mut self, head: Head) {
        let Some(next) = self.next.get_mut(head.sender) else {
            self.misordered += 1;
            return;
        };
        match head.number {
            number if number == *next => *next += 1,
            number if number > *next => {
                self.missing.extend((*next..number).map(|number| (head.sender, number)));
                *next = number + 1;
            }
            number if self.missing.remove(&(head.sender, number)) => self.misordered += 1,
            _ => {
                self.duplicated += 1;
                return;
            }
        }
        self.taken += 1;
    }

    fn position(&mut self, seq: u64) {
        self.misordered += u64::from(seq != self.seq + 1);
        self.seq = self.seq.max(seq);
    }
}

/// Receives from `senders` senders until everything is there.
pub async fn run(
    mut wire: Wire,
    senders: usize,
    schedule: Schedule,
    mut until: watch::Receiver<Until>,
) -> io::Result<Received> {
    let mut received = Received::new(senders);
    let warm_ns = ns(schedule.warm);
    loop {
        match *until.borrow_and_update() {
            Until::Total(total) if received.taken >= total => return Ok(received),
            Until::GiveUp => return Ok(received),
            Until::Total(_) | Until::Sending => {}
        }
        tokio::select! {
            exchanged = wire.exchange() => exchanged?,
            changed = until.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return Ok(received),
            },
        }
        let now_ns = schedule.now_ns();
        while let Some(frame) = wire.next()? {
            if frame.starts_with(DELIVER) {
                let (seq, head) = delivery(frame)?;
                received.position(seq);
                received.message(head);
                received.last_ns = now_ns;
                if now_ns >= warm_ns {
                    received.counted += 1;
                    received.latency.add(now_ns.saturating_sub(head.sent_ns));
                }
            } else if frame.starts_with(CURSOR)
                && let Some(seq) = ids::number_after(frame, br#""seq":"#)
            {
                received.seq = received.seq.max(seq);
            }
        }
    }
}

/// Position and head of a delivery.
fn delivery(frame: &[u8]) -> io::Result<(u64, Head)> {
    let seq = ids::number_after(frame, br#""seq":"#);
    let text = frame.strip_suffix(BEHIND_TEXT).and_then(|rest| {
        let from = rest.windows(TEXT.len()).position(|bytes| bytes == TEXT)? + TEXT.len();
        rest.get(from..)
    });
    match (seq, text.and_then(Head::read)) {
        (Some(seq), Some(head)) => Ok((seq, head)),
        _ => Err(io::Error::other(format!(
            "a delivery that is not of this bench: {}",
            String::from_utf8_lossy(frame)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(sender: usize, number: u64) -> Head {
        Head { sender, number, sent_ns: 0 }
    }

    #[test]
    fn what_is_wrong_is_counted_as_what_it_is() {
        let mut received = Received::new(2);
        for number in [0, 1, 4, 3, 3, 5] {
            received.message(head(0, number));
        }
        received.message(head(1, 0));
        assert_eq!((received.taken, received.duplicated, received.misordered), (6, 1, 1));
        assert_eq!(received.lost(&[6, 1]), 1, "number 2 of the first sender");
        assert_eq!(received.lost(&[7, 3]), 4);
    }

    #[test]
    fn positions_follow_each_other() {
        let mut received = Received::new(1);
        [1, 2, 4, 4].into_iter().for_each(|seq| received.position(seq));
        assert_eq!(received.misordered, 2);
    }

    #[test]
    fn deliveries_are_read() {
        let mut text = vec![b' '; ids::HEAD_BYTES];
        head(1, 2).put(&mut text);
        let text = String::from_utf8(text).unwrap();
        let frame = format!(
            r#"{{"t":"message.deliver","gid":"msg_1","thread_id":"msg_1","seq":9,"from":{{"agent":"s1"}},"body":{{"text":"{text}xx"}},"trust":"team"}}"#
        );
        assert_eq!(delivery(frame.as_bytes()).unwrap(), (9, head(1, 2)));
        assert!(delivery(br#"{"t":"message.deliver","seq":1}"#).is_err());
    }
}
