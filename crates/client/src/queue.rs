//! Events between the connection and the caller: bounded, in order, never dropped once in.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::cursors::Cursors;
use crate::error::Error;
use crate::event::Event;

/// A queue with one filler and any number of takers.
#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<State>,
    capacity: usize,
    filled: Notify,
    drained: Notify,
}

#[derive(Debug)]
struct State {
    events: VecDeque<Event>,
    /// Where the takers are.
    taken: Cursors,
    ended: Option<Error>,
}

impl Queue {
    pub(crate) fn new(capacity: usize, taken: Cursors) -> Self {
        let state = State { events: VecDeque::new(), taken, ended: None };
        Self {
            state: Mutex::new(state),
            capacity: capacity.max(1),
            filled: Notify::new(),
            drained: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing here panics while it holds the lock, so a poisoned state is still whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No room for events the server would tell again.
    pub(crate) fn is_full(&self) -> bool {
        self.lock().events.len() >= self.capacity
    }

    /// No room for anything. The second half of the room is for what the server tells only once.
    pub(crate) fn is_overfull(&self) -> bool {
        self.lock().events.len() >= 2 * self.capacity
    }

    /// At most half full: time to ask for more.
    pub(crate) fn is_drained(&self) -> bool {
        self.lock().events.len() <= self.capacity / 2
    }

    /// Put an event in. The caller has looked for room; notices about the connection replace one another, so that a taker
    /// who never comes does not make the queue grow.
    pub(crate) fn push(&self, event: Event) {
        let mut state = self.lock();
        if event.is_connection_notice() && state.events.back().is_some_and(Event::is_connection_notice) {
            state.events.pop_back();
        }
        state.events.push_back(event);
        drop(state);
        self.filled.notify_one();
    }

    /// No more events will come; what is in can still be taken, then takers get `error`.
    pub(crate) fn end(&self, error: Error) {
        self.lock().ended.get_or_insert(error);
        self.filled.notify_waiters();
        self.filled.notify_one();
    }

    pub(crate) fn ended(&self) -> Option<Error> {
        self.lock().ended.clone()
    }

    pub(crate) fn taken(&self) -> Cursors {
        self.lock().taken.clone()
    }

    /// Take the next event; waits for one.
    pub(crate) async fn take(&self) -> Result<Event, Error> {
        loop {
            let filled = self.filled.notified();
            if let Some(taken) = self.try_take() {
                return taken;
            }
            filled.await;
        }
    }

    pub(crate) fn try_take(&self) -> Option<Result<Event, Error>> {
        let mut state = self.lock();
        let Some(event) = state.events.pop_front() else { return state.ended.clone().map(Err) };
        state.taken.taken(&event);
        let left = state.events.len();
        drop(state);
        if left > 0 {
            // One permit may stand for several events when takers share the queue.
            self.filled.notify_one();
        }
        self.drained.notify_one();
        Some(Ok(event))
    }

    /// Wait until something was taken.
    pub(crate) async fn something_taken(&self) {
        self.drained.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn cursor(seq: u64) -> Event {
        let cursor = switchboard_protocol::frame::server::Cursor {
            channel: "c".into(),
            seq,
            epoch: "e".into(),
            first_available: None,
        };
        Event::Cursor(cursor)
    }

    fn lost() -> Event {
        Event::Disconnected { reason: "x".into(), retry_in: Duration::ZERO }
    }

    #[tokio::test]
    async fn positions_move_only_when_events_are_taken() {
        let queue = Queue::new(4, Cursors::default());
        queue.push(cursor(1));
        queue.push(cursor(2));
        assert_eq!(queue.taken(), Cursors::default());
        queue.take().await.unwrap();
        assert_eq!(queue.taken().positions["c"], 1);
        queue.take().await.unwrap();
        assert_eq!((queue.taken().positions["c"], queue.taken().epoch), (2, Some("e".into())));
    }

    #[tokio::test]
    async fn what_is_in_is_taken_before_the_end() {
        let queue = Queue::new(4, Cursors::default());
        queue.push(cursor(1));
        queue.end(Error::Closed);
        assert!(queue.take().await.is_ok());
        assert_eq!(queue.take().await.unwrap_err(), Error::Closed);
        assert_eq!(queue.take().await.unwrap_err(), Error::Closed);
    }

    #[test]
    fn notices_do_not_pile_up() {
        let queue = Queue::new(4, Cursors::default());
        for _ in 0..100 {
            queue.push(lost());
            queue.push(Event::Reconnected);
        }
        assert!(matches!(queue.try_take(), Some(Ok(Event::Reconnected))));
        assert!(queue.try_take().is_none());
    }

    #[test]
    fn fullness_has_three_marks() {
        let queue = Queue::new(2, Cursors::default());
        assert!(queue.is_drained() && !queue.is_full());
        queue.push(cursor(1));
        queue.push(cursor(2));
        assert!(!queue.is_drained() && queue.is_full() && !queue.is_overfull());
        queue.push(cursor(3));
        queue.push(cursor(4));
        assert!(queue.is_overfull());
    }

    #[tokio::test]
    async fn several_takers_share_the_events() {
        let queue = std::sync::Arc::new(Queue::new(64, Cursors::default()));
        let takers: Vec<_> = (0..4)
            .map(|_| {
                let queue = queue.clone();
                tokio::spawn(async move {
                    let mut count = 0;
                    while queue.take().await.is_ok() {
                        count += 1;
                    }
                    count
                })
            })
            .collect();
        for seq in 0..50 {
            queue.push(cursor(seq));
            tokio::task::yield_now().await;
        }
        queue.end(Error::Closed);
        let mut total = 0;
        for taker in takers {
            total += tokio::time::timeout(Duration::from_secs(10), taker).await.unwrap().unwrap();
        }
        assert_eq!(total, 50);
    }
}
