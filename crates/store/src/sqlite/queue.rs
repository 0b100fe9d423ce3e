//! The way to the writer: callers push, the one writer takes everything that has queued. Bounded in bytes.
//!
//! When many answers of one commit have just gone out, the writer lets their callers come again before it begins the next:
//! else the quickest of them gets a commit of its own and all others wait for the one behind it. One caller alone never
//! waits for others. (Looking for work for up to 90 µs before going to sleep measured no faster with one caller or with
//! sixteen, so the writer sleeps at once.)

use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use switchboard_core::port::store::StoreError;
use switchboard_core::write::{Batch, Outcome};
use tokio::sync::oneshot;

/// Jobs of the last round from which on the next one waits for its like.
const GATHER_FROM: usize = 4;
/// Looks in a row that found nothing new, at which enough have come.
const GATHER_LOOKS: u32 = 32;

/// How a job is answered.
pub(crate) type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

/// A batch on its way.
pub(crate) struct Pending {
    pub(crate) batch: Batch,
    /// Its payload.
    pub(crate) bytes: usize,
    pub(crate) answer: Answer<Vec<Outcome>>,
}

/// What can be queued.
pub(crate) trait Weigh {
    /// Writes in it.
    fn writes(&self) -> usize;
    /// Bytes of payload in it.
    fn bytes(&self) -> usize;
}

/// Why a push failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PushError {
    /// Too many bytes wait.
    Full,
    /// Nobody takes any more.
    Closed,
}

/// What the taker remembers from one round to the next.
#[derive(Debug, Default)]
pub(crate) struct Habit {
    // Jobs taken last.
    taken: usize,
}

struct Inner<T> {
    jobs: VecDeque<T>,
    bytes: usize,
    writes: usize,
    closed: bool,
    asleep: bool,
}

/// See the module.
pub(crate) struct Queue<T> {
    inner: Mutex<Inner<T>>,
    wake: Condvar,
    // Jobs queued: what the gathering writer looks at without taking the lock.
    waiting: AtomicUsize,
    bytes_max: usize,
}

impl<T: Weigh> Queue<T> {
    /// An empty queue that holds at most `bytes_max` bytes, or one job of any size.
    pub(crate) fn new(bytes_max: usize) -> Self {
        let inner = Inner { jobs: VecDeque::new(), bytes: 0, writes: 0, closed: false, asleep: false };
        Self { inner: Mutex::new(inner), wake: Condvar::new(), waiting: AtomicUsize::new(0), bytes_max }
    }

    /// Queues `job` behind all others.
    pub(crate) fn push(&self, job: T) -> Result<(), PushError> {
        let mut inner = self.inner.lock();
        if inner.closed {
            return Err(PushError::Closed);
        }
        if inner.bytes > 0 && inner.bytes + job.bytes() > self.bytes_max {
            return Err(PushError::Full);
        }
        inner.bytes += job.bytes();
        inner.writes += job.writes();
        inner.jobs.push_back(job);
        self.waiting.store(inner.jobs.len(), Ordering::Release);
        let wake = inner.asleep;
        inner.asleep = false;
        drop(inner);
        if wake {
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Writes that wait.
    pub(crate) fn queued(&self) -> usize {
        self.inner.lock().writes
    }

    /// Nobody takes any more: what was queued is dropped.
    pub(crate) fn abandon(&self) {
        let mut inner = self.inner.lock();
        inner.closed = true;
        let jobs = std::mem::take(&mut inner.jobs);
        (inner.bytes, inner.writes) = (0, 0);
        self.waiting.store(0, Ordering::Release);
        drop(inner);
        // Their answers are dropped with them, outside of the lock: whoever waits for one may push again at once.
        drop(jobs);
    }

    /// No more pushes; what was queued is still taken.
    pub(crate) fn close(&self) {
        self.inner.lock().closed = true;
        self.wake.notify_all();
    }

    /// Waits until there is a job, and for its like when there were several last time. `false` once the queue is closed and
    /// empty.
    pub(crate) fn wait(&self, habit: &Habit) -> bool {
        if !self.wait_for_one() {
            return false;
        }
        if habit.taken >= GATHER_FROM {
            self.gather(habit.taken);
        }
        true
    }

    /// Whether nothing waits and jobs are still taken.
    pub(crate) fn is_idle(&self) -> bool {
        let inner = self.inner.lock();
        inner.jobs.is_empty() && !inner.closed
    }

    /// Moves the next jobs into `out`, at least one if there is any, and otherwise within both bounds.
    pub(crate) fn take(&self, out: &mut Vec<T>, writes_max: usize, bytes_max: usize, habit: &mut Habit) {
        let mut inner = self.inner.lock();
        let (mut writes, mut bytes) = (0, 0);
        while let Some((job_writes, job_bytes)) = inner.jobs.front().map(|job| (job.writes(), job.bytes())) {
            writes += job_writes;
            bytes += job_bytes;
            if !out.is_empty() && (writes > writes_max || bytes > bytes_max) {
                break;
            }
            inner.writes -= job_writes;
            inner.bytes -= job_bytes;
            out.extend(inner.jobs.pop_front());
        }
        habit.taken = out.len();
        self.waiting.store(inner.jobs.len(), Ordering::Release);
    }

    fn wait_for_one(&self) -> bool {
        let mut inner = self.inner.lock();
        while inner.jobs.is_empty() {
            if inner.closed {
                return false;
            }
            inner.asleep = true;
            self.wake.wait(&mut inner);
        }
        inner.asleep = false;
        true
    }

    // Once some have come, waits for as many as last time, for as long as they keep coming.
    fn gather(&self, expected: usize) {
        let (mut seen, mut idle) = (self.waiting.load(Ordering::Acquire), 0);
        while seen > 0 && seen < expected && idle < GATHER_LOOKS {
            std::thread::yield_now();
            let now = self.waiting.load(Ordering::Acquire);
            idle = if now > seen { 0 } else { idle + 1 };
            seen = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[derive(Debug, PartialEq)]
    struct Job(usize, usize);

    impl Weigh for Job {
        fn writes(&self) -> usize {
            self.0
        }
        fn bytes(&self) -> usize {
            self.1
        }
    }

    fn take(queue: &Queue<Job>) -> Option<Vec<Job>> {
        let mut out = Vec::new();
        let mut habit = Habit::default();
        queue.wait(&habit).then(|| queue.take(&mut out, 4, 100, &mut habit)).map(|()| out)
    }

    #[test]
    fn takes_in_order_within_bounds_and_one_whatever_its_size() {
        let queue = Queue::new(1000);
        for job in [Job(9, 300), Job(1, 50), Job(1, 50), Job(1, 1), Job(4, 1)] {
            queue.push(job).unwrap();
        }
        assert_eq!(queue.queued(), 16);
        assert_eq!(take(&queue), Some(vec![Job(9, 300)]));
        assert_eq!(take(&queue), Some(vec![Job(1, 50), Job(1, 50)]));
        assert_eq!(take(&queue), Some(vec![Job(1, 1)]));
        assert_eq!(take(&queue), Some(vec![Job(4, 1)]));
        queue.close();
        assert_eq!(take(&queue), None);
        assert_eq!(queue.push(Job(1, 1)), Err(PushError::Closed));
    }

    #[test]
    fn refuses_over_its_bytes_but_never_a_lone_job() {
        let queue = Queue::new(10);
        queue.push(Job(1, 50)).unwrap();
        assert_eq!(queue.push(Job(1, 1)), Err(PushError::Full));
        take(&queue).unwrap();
        queue.push(Job(1, 5)).unwrap();
        queue.push(Job(1, 5)).unwrap();
        assert_eq!(queue.push(Job(1, 1)), Err(PushError::Full));
    }

    #[test]
    fn an_abandoned_queue_drops_what_waits() {
        let queue = Queue::new(10);
        queue.push(Job(3, 4)).unwrap();
        queue.abandon();
        assert_eq!((take(&queue), queue.queued()), (None, 0));
        assert_eq!(queue.push(Job(1, 1)), Err(PushError::Closed));
    }

    #[test]
    fn nothing_is_lost_between_threads() {
        let queue = Arc::new(Queue::new(usize::MAX));
        let taker = {
            let queue = Arc::clone(&queue);
            std::thread::spawn(move || {
                let (mut sum, mut habit, mut out) = (0, Habit::default(), Vec::new());
                while queue.wait(&habit) {
                    queue.take(&mut out, 64, 1 << 20, &mut habit);
                    sum += out.drain(..).map(|job: Job| job.0).sum::<usize>();
                }
                sum
            })
        };
        let pushers: Vec<_> = (0..4)
            .map(|_| {
                let queue = Arc::clone(&queue);
                std::thread::spawn(move || (0..1000).for_each(|_| queue.push(Job(1, 1)).unwrap()))
            })
            .collect();
        for pusher in pushers {
            pusher.join().unwrap();
        }
        queue.close();
        assert_eq!(taker.join().unwrap(), 4000);
    }
}
