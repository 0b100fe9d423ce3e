//! The doorbell of a hub that is alone: whoever rings calls every listener.

use parking_lot::RwLock;
use std::sync::Arc;
use switchboard_core::port::doorbell::{Doorbell, Listener, Topic};

/// Rings within one process.
#[derive(Default)]
pub struct LocalDoorbell {
    among_others: bool,
    // Swapped, never held while listeners run: a listener may ring or listen itself.
    listeners: RwLock<Arc<Vec<Listener>>>,
}

impl LocalDoorbell {
    /// A doorbell nobody listens to yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A doorbell that does not reach the other nodes there may be, and says so.
    #[must_use]
    pub fn among_others() -> Self {
        Self { among_others: true, ..Self::default() }
    }
}

impl std::fmt::Debug for LocalDoorbell {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "LocalDoorbell({} listeners)", self.listeners.read().len())
    }
}

impl Doorbell for LocalDoorbell {
    fn ring(&self, topics: &[Topic]) {
        let listeners = Arc::clone(&self.listeners.read());
        for listener in listeners.iter() {
            for topic in topics {
                listener(*topic);
            }
        }
    }

    fn listen(&self, listener: Listener) {
        let mut listeners = self.listeners.write();
        let mut next = Vec::clone(&listeners);
        next.push(listener);
        *listeners = Arc::new(next);
    }

    fn is_connected(&self) -> bool {
        !self.among_others
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use switchboard_core::ids::StreamId;

    #[test]
    fn every_listener_hears_every_ring_in_order() {
        let bell = Arc::new(LocalDoorbell::new());
        let heard = Arc::new(Mutex::new(Vec::new()));
        for name in ["a", "b"] {
            let heard = Arc::clone(&heard);
            bell.listen(Arc::new(move |topic| heard.lock().push((name, topic))));
        }
        let topics = [Topic::Stream(StreamId(1), 3), Topic::Credentials];
        bell.ring(&topics);
        let expected: Vec<_> =
            ["a", "b"].iter().flat_map(|name| topics.iter().map(|topic| (*name, *topic))).collect();
        assert_eq!(*heard.lock(), expected);
    }

    #[test]
    fn a_listener_may_ring_and_listen_itself() {
        let bell = Arc::new(LocalDoorbell::new());
        let heard = Arc::new(Mutex::new(0));
        let (again, count) = (Arc::clone(&bell), Arc::clone(&heard));
        bell.listen(Arc::new(move |topic| {
            *count.lock() += 1;
            if topic == Topic::Credentials {
                again.listen(Arc::new(|_| {}));
                again.ring(&[Topic::Swarms]);
            }
        }));
        bell.ring(&[Topic::Credentials]);
        assert_eq!(*heard.lock(), 2);
        assert!(bell.is_connected() && !LocalDoorbell::among_others().is_connected());
    }
}
