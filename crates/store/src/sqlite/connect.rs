//! Connections: where the files are and how SQLite is set up for each use.

use rusqlite::config::DbConfig;
use rusqlite::{Connection, FileControl, OpenFlags};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Oldest SQLite that may write a log: older ones can lose commits when a checkpoint restarts the log.
const SQLITE_VERSION_MIN: i32 = 3_051_003;
/// How long a statement waits for a lock that only our own maintenance can hold.
const BUSY_MS: u64 = 5_000;
/// The writer's page cache. SQLite looks through all of it at each commit that has split a page (the page it borrows for that
/// has a number beyond the end of the file): at 64 MiB that was an eighth of the hub's processor. The leaves being appended
/// to fit easily; what else is needed comes from the system's cache.
const WRITER_CACHE_KIB: i64 = 4 * 1024;
/// Page cache of each reader, in KiB.
const READER_CACHE_KIB: i64 = 1024;
/// Part of the database that readers map instead of copying.
const MMAP_BYTES: i64 = 0;
/// Statements kept prepared per connection.
const STATEMENTS_MAX: usize = 256;

/// Why the store did not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another hub runs on this data directory.
    #[error("another hub is using {0}: stop it, or choose another data directory")]
    Locked(PathBuf),
    /// The files could not be made or locked.
    #[error("cannot use {path}: {error}")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The linked SQLite has a defect that loses commits.
    #[error("SQLite {found} is too old: at least {SQLITE_VERSION_MIN} is needed")]
    Library {
        /// Its version number.
        found: i32,
    },
    /// A newer program wrote the database.
    #[error(
        "the database has schema version {found}, this program knows {known}: use the newer program again"
    )]
    Newer {
        /// Version in the database.
        found: u32,
        /// Newest version this program knows.
        known: u32,
    },
    /// It is on the move to another place.
    #[error("{0}")]
    Moving(crate::moving::Mark),
    /// The schema does not fit.
    #[error(transparent)]
    Migrate(super::migrate::MigrateError),
    /// SQLite failed.
    #[error("the database cannot be opened: {0}")]
    Sql(#[from] rusqlite::Error),
    /// What is stored contradicts itself.
    #[error("the database holds inconsistent data: {0}")]
    Inconsistent(String),
}

impl From<super::migrate::MigrateError> for OpenError {
    fn from(error: super::migrate::MigrateError) -> Self {
        match error {
            super::migrate::MigrateError::Newer { found, known } => Self::Newer { found, known },
            other => Self::Migrate(other),
        }
    }
}

impl From<super::failure::Failure> for OpenError {
    fn from(failure: super::failure::Failure) -> Self {
        match failure {
            super::failure::Failure::Sql(error) => Self::Sql(error),
            other => Self::Inconsistent(other.to_string()),
        }
    }
}

/// The files of a store.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    pub(crate) dir: PathBuf,
    pub(crate) database: PathBuf,
    pub(crate) wal: PathBuf,
    pub(crate) search: PathBuf,
}

impl Files {
    pub(crate) fn of(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            database: dir.join("switchboard.db"),
            wal: dir.join("switchboard.db-wal"),
            search: dir.join("search.db"),
        }
    }
}

/// Takes the lock of the directory for a database that can be used.
pub(crate) fn lock(files: &Files) -> Result<File, OpenError> {
    let found = rusqlite::version_number();
    if found < SQLITE_VERSION_MIN {
        return Err(OpenError::Library { found });
    }
    lock_dir(&files.dir)
}

/// Makes the data directory, for its owner alone, and takes the lock that keeps a second hub out, whatever store it has: the
/// operating system lets go of it when the file is dropped or the process ends, however it ends.
pub fn lock_dir(dir: &Path) -> Result<File, OpenError> {
    let path = dir.join("lock");
    let open = || {
        make_dir(dir)?;
        sync_parents(dir)?;
        private(OpenOptions::new().create(true).truncate(false).write(true)).open(&path)
    };
    let file = open().map_err(|error| OpenError::Io { path: path.clone(), error })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked(dir.to_owned())),
        Err(TryLockError::Error(error)) => Err(OpenError::Io { path, error }),
    }
}

fn make_dir(dir: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

// A directory that was just made is lost with a power cut unless the one it stands in was synced.
fn sync_parents(dir: &Path) -> io::Result<()> {
    std::path::absolute(dir)?.ancestors().take(2).try_for_each(sync_dir)
}

/// Makes entries of a directory durable.
#[cfg(unix)]
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    match File::open(dir).and_then(|dir| dir.sync_all()) {
        // A directory above that may not be read was not made by this program.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        synced => synced,
    }
}

/// Makes entries of a directory durable.
#[cfg(not(unix))]
pub(crate) fn sync_dir(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600)
}

#[cfg(not(unix))]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Makes the database file readable for its owner alone before anything is in it.
pub(crate) fn make_private(files: &Files) -> Result<(), OpenError> {
    let made = private(OpenOptions::new().create(true).append(true)).open(&files.database);
    made.map(|_| ()).map_err(|error| OpenError::Io { path: files.database.clone(), error })
}

/// Makes a new file, readable for its owner alone.
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    private(OpenOptions::new().create_new(true).write(true)).open(path)
}

/// Gives the log its full length: as long as no commit changes the file's length, syncing it writes data and little else.
/// Zeros behind the last frame are what SQLite takes for the end of the log. Only while nobody writes.
pub(crate) fn grow_wal(files: &Files, bytes: u64) -> Result<(), OpenError> {
    let grow = || -> io::Result<()> {
        let mut file = private(OpenOptions::new().create(true).append(true)).open(&files.wal)?;
        let mut missing = bytes.saturating_sub(file.metadata()?.len());
        if missing == 0 {
            return Ok(());
        }
        let zeros = vec![0; 1 << 20];
        while missing > 0 {
            let step = missing.min(zeros.len() as u64);
            file.write_all(&zeros[..usize::try_from(step).unwrap_or(zeros.len())])?;
            missing -= step;
        }
        file.sync_all()
    };
    match grow() {
        // Without room for its full length the log grows as it is written; what may be written is decided there.
        Err(error) if error.kind() == io::ErrorKind::StorageFull => Ok(()),
        grown => grown.map_err(|error| OpenError::Io { path: files.wal.clone(), error }),
    }
}

/// A connection that can write and has not yet: what it finds may be of a newer program, and then nothing is touched.
pub(crate) fn writer(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let conn = open(path, flags)?;
    keep_log(&conn)?;
    Ok(conn)
}

/// Sets up the connection that writes.
pub(crate) fn set_up_writer(conn: &Connection, max_pages: Option<u32>) -> rusqlite::Result<()> {
    conn.execute_batch("PRAGMA page_size = 4096; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;")?;
    // Checkpoints are ours, off the acknowledging path; the log's file keeps its length.
    conn.execute_batch("PRAGMA wal_autocheckpoint = 0; PRAGMA journal_size_limit = -1;")?;
    conn.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
    if let Some(pages) = max_pages {
        conn.pragma_update(None, "max_page_count", pages)?;
    }
    Ok(())
}

/// The connection that checkpoints.
pub(crate) fn checkpointer(path: &Path) -> rusqlite::Result<Connection> {
    let conn = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    keep_log(&conn)?;
    conn.execute_batch(
        "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = -256;",
    )?;
    Ok(conn)
}

// Closing neither checkpoints nor shortens the log.
fn keep_log(conn: &Connection) -> rusqlite::Result<()> {
    conn.file_control(None::<&str>, FileControl::PersistWal(&mut 1))?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map(drop)
}

/// The connection that feeds the full-text index. Losing its last commits at a power cut is harmless: they come again.
pub(crate) fn index(path: &Path) -> rusqlite::Result<Connection> {
    private(OpenOptions::new().create(true).append(true)).open(path).ok();
    let conn = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
    conn.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;")?;
    Ok(conn)
}

/// A connection that only reads.
pub(crate) fn reader(path: &Path) -> rusqlite::Result<Connection> {
    let conn = open(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    conn.pragma_update(None, "cache_size", -READER_CACHE_KIB)?;
    conn.pragma_update(None, "mmap_size", MMAP_BYTES)?;
    conn.pragma_update(None, "query_only", true)?;
    Ok(conn)
}

fn open(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let conn = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    conn.busy_timeout(std::time::Duration::from_millis(BUSY_MS))?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // References are checked where they matter, by the writes themselves.
    conn.execute_batch(
        "PRAGMA foreign_keys = OFF; PRAGMA temp_store = MEMORY; PRAGMA trusted_schema = OFF;",
    )?;
    Ok(conn)
}
