//! Room on the disk: writes are refused while there is still enough for the log, for reading and for the operator.

use rusqlite::Connection;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::time::Clock;

/// How long a look at a disk with room is believed.
const BELIEVED: Duration = Duration::from_secs(1);
/// How long one without.
const DOUBTED: Duration = Duration::from_millis(100);
/// Bytes of a database page.
const PAGE_BYTES: u64 = 4096;

/// Watches the disk that holds the data directory.
pub(crate) struct Disk {
    dir: PathBuf,
    reserve_bytes: u64,
    clock: Arc<dyn Clock>,
    looked: Option<(Duration, bool)>,
}

impl Disk {
    pub(crate) fn new(dir: PathBuf, reserve_bytes: u64, clock: Arc<dyn Clock>) -> Self {
        Self { dir, reserve_bytes, clock, looked: None }
    }

    /// The time, for measuring.
    pub(crate) fn now(&self) -> Duration {
        self.clock.monotonic()
    }

    /// Whether more may be written. Pages the database has freed are room too: it fills them first.
    pub(crate) fn has_room(&mut self, conn: &Connection) -> bool {
        let now = self.clock.monotonic();
        if let Some((at, room)) = self.looked
            && now.saturating_sub(at) < if room { BELIEVED } else { DOUBTED }
        {
            return room;
        }
        let room = self.look(conn);
        self.looked = Some((now, room));
        room
    }

    fn look(&self, conn: &Connection) -> bool {
        let Some(free) = free_bytes(&self.dir) else { return true };
        if free >= self.reserve_bytes {
            return true;
        }
        let pages = conn.query_row("PRAGMA freelist_count", [], |row| row.get::<_, u32>(0)).unwrap_or(0);
        free.saturating_add(u64::from(pages) * PAGE_BYTES) >= self.reserve_bytes
    }
}

// What the hub's user may still write there; `None` when it cannot be told, and then the disk itself says no in time.
#[cfg(unix)]
fn free_bytes(dir: &std::path::Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(dir).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

#[cfg(not(unix))]
fn free_bytes(_: &std::path::Path) -> Option<u64> {
    None
}
