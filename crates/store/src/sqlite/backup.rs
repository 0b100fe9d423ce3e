//! Copies of the database, taken page by page while everything goes on.

use super::connect;
use super::failure::read_error;
use rusqlite::backup::{Backup, StepResult};
use std::fs::{self, File};
use std::io;
use std::path::Path;
use switchboard_core::port::store::StoreError;

/// Pages copied per step.
const STEP_PAGES: i32 = 1024;

/// Copies `database` to `target`, which must not exist; what was begun is removed when it fails.
pub(crate) fn backup(database: &Path, target: &Path) -> Result<(), StoreError> {
    let file = connect::create_private(target).map_err(|error| io_error(target, &error))?;
    drop(file);
    let done = copy(database, target).map_err(|error| read_error(&error)).and_then(|()| {
        let sync = || {
            File::open(target)?.sync_all()?;
            let dir = target.parent().filter(|dir| !dir.as_os_str().is_empty());
            connect::sync_dir(dir.unwrap_or(Path::new(".")))
        };
        sync().map_err(|error| io_error(target, &error))
    });
    done.inspect_err(|_| drop(fs::remove_file(target)))
}

pub(crate) fn io_error(target: &Path, error: &io::Error) -> StoreError {
    if error.kind() == io::ErrorKind::StorageFull {
        return StoreError::Full;
    }
    StoreError::Backend(format!("cannot write {}: {error}", target.display()).into())
}

fn copy(database: &Path, target: &Path) -> rusqlite::Result<()> {
    // One read transaction from the first to the last page: writers go on, and the copy is of one moment.
    let from = connect::reader(database)?;
    from.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema;")?;
    let mut to = rusqlite::Connection::open(target)?;
    {
        let backup = Backup::new(&from, &mut to)?;
        while backup.step(STEP_PAGES)? != StepResult::Done {}
    }
    // A copy stands alone: it needs no log beside it until a hub opens it.
    to.execute_batch("PRAGMA journal_mode = DELETE;")?;
    let check: String = to.query_row("PRAGMA quick_check", [], |row| row.get(0))?;
    if check == "ok" {
        return Ok(());
    }
    let corrupt = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
    Err(rusqlite::Error::SqliteFailure(corrupt, Some(check)))
}
