//! The end of patience: a process that is about to end waits for no database that does not answer.

use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

/// What is under way when the end is announced may take so long.
const GRACE: Duration = Duration::from_secs(3);
/// What is begun after that.
const GRACE_LATE: Duration = Duration::from_millis(700);

/// Whether the process is about to end, and since when; shared by clones.
#[derive(Debug, Clone)]
pub(crate) struct Hurry(Arc<watch::Sender<Option<Instant>>>);

impl Default for Hurry {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }
}

impl Hurry {
    /// Announces the end.
    pub(crate) fn begin(&self) {
        self.0.send_if_modified(|since| {
            let first = since.is_none();
            since.get_or_insert_with(Instant::now);
            first
        });
    }

    /// Whether it has been announced.
    pub(crate) fn has_begun(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// What `work` gives, unless it takes longer than `most`, or than there is time for before the end.
    pub(crate) async fn within<T>(&self, most: Duration, work: impl Future<Output = T>) -> Option<T> {
        let begun = Instant::now();
        tokio::select! {
            biased;
            done = work => Some(done),
            () = sleep(most) => None,
            () = self.is_due(begun) => None,
        }
    }

    /// Rests for so long, or until the end is announced.
    pub(crate) async fn rest(&self, pause: Duration) {
        let mut since = self.0.subscribe();
        tokio::select! {
            () = sleep(pause) => {}
            _ = since.wait_for(Option::is_some) => {}
        }
    }

    async fn is_due(&self, begun: Instant) {
        let mut announced = self.0.subscribe();
        let since = announced.wait_for(Option::is_some).await.ok().and_then(|since| *since);
        let since = since.unwrap_or_else(Instant::now);
        sleep_until((since + GRACE).max(begun + GRACE_LATE)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    #[tokio::test]
    async fn nobody_rests_once_the_end_is_announced_and_what_answers_is_heard() {
        let hurry = Hurry::default();
        assert_eq!(hurry.within(Duration::from_millis(5), pending::<()>()).await, None);
        let resting = hurry.rest(Duration::from_mins(9));
        hurry.clone().begin();
        resting.await;
        hurry.rest(Duration::from_mins(9)).await;
        assert!(hurry.has_begun());
        assert_eq!(hurry.within(Duration::from_mins(9), async { 7 }).await, Some(7));
        assert_eq!(hurry.within(Duration::from_mins(9), pending::<()>()).await, None);
    }
}
