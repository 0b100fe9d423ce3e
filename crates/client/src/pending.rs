//! What was sent and is not known to have arrived.

use std::collections::{BTreeMap, HashMap, VecDeque};

use switchboard_protocol::Invalid;
use switchboard_protocol::frame::server::Published;
use switchboard_protocol::message::Stored;
use tokio::sync::oneshot;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::error::Error;

/// An acknowledgement.
#[derive(Debug, Clone)]
pub(crate) enum Acked {
    Stored(Stored<'static>),
    Published(Published<'static>),
}

pub(crate) type Reply = oneshot::Sender<Result<Acked, Error>>;

/// Frames with a `client_msg_id` that wait for their acknowledgement, in the order they were sent.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    frames: BTreeMap<u64, Waiting>,
    by_id: HashMap<String, u64>,
    next: u64,
}

#[derive(Debug)]
struct Waiting {
    id: String,
    text: Utf8Bytes,
    replies: Vec<Reply>,
}

impl Pending {
    /// Remember a frame. False when it must not be sent (again): the same one is already on its way, or another one of that
    /// id is, which its caller is told.
    pub(crate) fn add(&mut self, id: String, text: Utf8Bytes, reply: Reply) -> bool {
        self.forget_abandoned();
        if let Some(waiting) = self.by_id.get(&id).and_then(|order| self.frames.get_mut(order)) {
            if waiting.text == text {
                waiting.replies.push(reply);
            } else {
                let taken =
                    "client_msg_id is in use by another message that is not acknowledged yet; choose another";
                // A caller who no longer waits does not need the answer.
                let _ = reply.send(Err(Invalid::new("client_msg_id", taken).into()));
            }
            return false;
        }
        self.by_id.insert(id.clone(), self.next);
        self.frames.insert(self.next, Waiting { id, text, replies: vec![reply] });
        self.next += 1;
        true
    }

    /// Hand the outcome to whoever waits for `id`; gives it back when nobody does.
    pub(crate) fn settle(&mut self, id: &str, outcome: Result<Acked, Error>) -> Option<Result<Acked, Error>> {
        let Some(waiting) = self.by_id.remove(id).and_then(|order| self.frames.remove(&order)) else {
            return Some(outcome);
        };
        for reply in waiting.replies {
            let _ = reply.send(outcome.clone());
        }
        None
    }

    /// Everything still waiting, to send again on a new connection.
    pub(crate) fn texts(&mut self) -> Vec<Utf8Bytes> {
        self.forget_abandoned();
        self.frames.values().map(|waiting| waiting.text.clone()).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    pub(crate) fn fail_all(&mut self, error: &Error) {
        for (_, waiting) in std::mem::take(&mut self.frames) {
            for reply in waiting.replies {
                let _ = reply.send(Err(error.clone()));
            }
        }
        self.by_id.clear();
    }

    /// Frames whose callers gave up. They may still be stored, but nobody asks any more.
    fn forget_abandoned(&mut self) {
        let by_id = &mut self.by_id;
        self.frames.retain(|_, waiting| {
            let wanted = waiting.replies.iter().any(|reply| !reply.is_closed());
            if !wanted {
                by_id.remove(&waiting.id);
            }
            wanted
        });
    }
}

/// Frames without an acknowledgement of their own (receipts, handoffs, acks): kept until a pong proves that the server has
/// read them, and sent again on a new connection otherwise. All of them are safe to repeat.
#[derive(Debug, Default)]
pub(crate) struct Unconfirmed {
    frames: VecDeque<(Option<u64>, Utf8Bytes)>,
}

impl Unconfirmed {
    /// More than this wait in the caller.
    pub(crate) const MAX: usize = 256;

    pub(crate) fn is_full(&self) -> bool {
        self.frames.len() >= Self::MAX
    }

    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    pub(crate) fn add(&mut self, text: Utf8Bytes) {
        self.frames.push_back((None, text));
    }

    /// The frames not sent on this connection yet, marked as sent after the ping `nonce`.
    pub(crate) fn unsent(&mut self, nonce: u64) -> Vec<Utf8Bytes> {
        let unsent = self.frames.iter_mut().filter(|(sent, _)| sent.is_none());
        unsent
            .map(|(sent, text)| {
                *sent = Some(nonce);
                text.clone()
            })
            .collect()
    }

    /// A pong came: what was sent before that ping has been read.
    pub(crate) fn confirm(&mut self, nonce: u64) {
        while self.frames.front().is_some_and(|(sent, _)| sent.is_some_and(|sent| sent < nonce)) {
            self.frames.pop_front();
        }
    }

    pub(crate) fn connection_lost(&mut self) {
        for (sent, _) in &mut self.frames {
            *sent = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(
        pending: &mut Pending,
        id: &str,
        text: &'static str,
    ) -> (bool, oneshot::Receiver<Result<Acked, Error>>) {
        let (reply, waiting) = oneshot::channel();
        (pending.add(id.into(), text.into(), reply), waiting)
    }

    #[test]
    fn frames_wait_in_order_until_settled() {
        let mut pending = Pending::default();
        let (_, mut first) = add(&mut pending, "b", "1");
        let (_, second) = add(&mut pending, "a", "2");
        assert_eq!(pending.texts(), ["1", "2"]);
        assert!(pending.settle("b", Err(Error::Closed)).is_none());
        assert_eq!(first.try_recv().unwrap().unwrap_err(), Error::Closed);
        assert_eq!(pending.texts(), ["2"]);
        assert!(pending.settle("unknown", Err(Error::Closed)).is_some());
        drop(second);
        assert!(pending.texts().is_empty() && pending.is_empty());
    }

    #[test]
    fn the_same_frame_is_sent_once_and_another_of_its_id_not_at_all() {
        let mut pending = Pending::default();
        let (sent, _first) = add(&mut pending, "a", "1");
        let (again, mut second) = add(&mut pending, "a", "1");
        let (other, mut third) = add(&mut pending, "a", "2");
        assert_eq!((sent, again, other), (true, false, false));
        assert!(matches!(third.try_recv().unwrap().unwrap_err(), Error::Invalid(_)));
        pending.settle("a", Err(Error::Timeout));
        assert_eq!(second.try_recv().unwrap().unwrap_err(), Error::Timeout);
    }

    #[test]
    fn a_later_pong_confirms_and_a_lost_connection_forgets() {
        let mut frames = Unconfirmed::default();
        frames.add("1".into());
        assert_eq!(frames.unsent(5), ["1"]);
        frames.confirm(5);
        assert_eq!(frames.len(), 1);
        frames.add("2".into());
        assert_eq!(frames.unsent(6), ["2"]);
        frames.confirm(6);
        frames.connection_lost();
        assert_eq!(frames.unsent(7), ["2"]);
        frames.confirm(8);
        assert_eq!(frames.len(), 0);
    }
}
