//! A doorbell with a wire to the other nodes: what all wires have in common. The wire itself, a [`Line`], stands beside it.

use super::rings::Rings;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use switchboard_core::event::StoredEvent;
use switchboard_core::port::doorbell::{Doorbell, Listener, Topic};
use switchboard_core::random::Entropy;
use tokio::task::JoinHandle;

/// Carries rings to the nodes of one installation and back. Prints no secret.
pub trait Line: Clone + fmt::Debug + Send + Sync + 'static {
    /// Connects, again and again, for as long as it is polled.
    fn serve(self, rings: Arc<Rings>, org_id: String) -> BoxFuture<'static, ()>;
}

/// See the module.
pub struct Wired<L> {
    line: L,
    rings: Arc<Rings>,
    running: Mutex<Option<JoinHandle<()>>>,
}

impl<L: Line> fmt::Debug for Wired<L> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Wired({:?})", self.line)
    }
}

impl<L: Line> Wired<L> {
    /// A doorbell that connects once it is known whose it is ([`Doorbell::join`], within a tokio runtime).
    #[must_use]
    pub fn new(line: L, entropy: Arc<dyn Entropy>) -> Self {
        Self { line, rings: Arc::new(Rings::new(entropy)), running: Mutex::default() }
    }
}

impl<L> Drop for Wired<L> {
    fn drop(&mut self) {
        if let Some(running) = self.running.lock().take() {
            running.abort();
        }
    }
}

impl<L: Line> Doorbell for Wired<L> {
    fn ring(&self, topics: &[Topic]) {
        self.rings.ring(topics);
    }

    fn listen(&self, listener: Listener) {
        self.rings.listen(listener);
    }

    fn committed(&self, events: &[Arc<StoredEvent>]) {
        self.rings.committed(events);
    }

    fn join(&self, org_id: &str) {
        let serve = self.line.clone().serve(self.rings.clone(), org_id.to_owned());
        if let Some(before) = self.running.lock().replace(tokio::spawn(serve)) {
            before.abort();
        }
    }

    fn is_connected(&self) -> bool {
        self.rings.is_connected()
    }
}
