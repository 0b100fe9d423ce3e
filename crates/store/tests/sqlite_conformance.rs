//! The embedded store keeps the port's promises.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use std::sync::Arc;
use switchboard_core::port::store::Store;
use switchboard_store::conformance::Backend;
use switchboard_store::sqlite::{Options, SqliteStore};

/// A directory in memory if there is one with room: thousands of commits are made here, and surviving a power cut is not
/// what they are about.
fn scratch() -> tempfile::TempDir {
    const ROOM_BYTES: u64 = 1 << 30;
    let memory = std::path::Path::new("/dev/shm");
    #[cfg(unix)]
    if rustix::fs::statvfs(memory).is_ok_and(|stat| stat.f_bavail.saturating_mul(stat.f_frsize) > ROOM_BYTES)
        && let Ok(dir) = tempfile::tempdir_in(memory)
    {
        return dir;
    }
    tempfile::tempdir().expect("a directory")
}

struct SqliteFile {
    dir: tempfile::TempDir,
}

impl SqliteFile {
    fn new() -> Self {
        Self { dir: scratch() }
    }

    fn open(&self) -> Arc<dyn Store> {
        let options = Options { wal_bytes: 1 << 20, readers: 2, ..Options::default() };
        Arc::new(SqliteStore::open_dir(self.dir.path(), options).expect("the store opens"))
    }
}

impl Backend for SqliteFile {
    fn fresh(&self) -> BoxFuture<'_, Arc<dyn Store>> {
        async { self.open() }.boxed()
    }

    fn reopen(&self, store: Arc<dyn Store>) -> BoxFuture<'_, Arc<dyn Store>> {
        async {
            drop(store);
            self.open()
        }
        .boxed()
    }

    fn second(&self) -> BoxFuture<'_, Option<Arc<dyn Store>>> {
        async { None }.boxed()
    }
}

switchboard_store::store_conformance!(crate::SqliteFile::new());
