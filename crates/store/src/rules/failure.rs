//! What can go wrong below a write, and what the caller is told.

use rusqlite::ErrorCode;
use switchboard_core::port::store::StoreError;
use switchboard_core::write::{Outcome, Refusal};

/// The transaction cannot go on: everything in it is rolled back.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// SQLite said no.
    #[error("{0}")]
    Sql(#[from] rusqlite::Error),
    /// PostgreSQL said no.
    #[cfg(feature = "postgres")]
    #[error("{}", crate::postgres::failure::told(.0))]
    Postgres(#[from] tokio_postgres::Error),
    /// Another node was first: nothing is there, and trying again may succeed.
    #[cfg(feature = "postgres")]
    #[error("another node changed the same rows")]
    Conflict,
    /// Something held a lock for longer than commits wait for one: nothing is there.
    #[cfg(feature = "postgres")]
    #[error("something holds a lock in the database for longer than commits wait for it: {0}")]
    Locked(String),
    /// Another node has changed what this one remembers: nothing is there, and it has to be read again.
    #[cfg(feature = "postgres")]
    #[error("another node changed the directory")]
    Stale,
    /// The connection was lost before anything was committed.
    #[cfg(feature = "postgres")]
    #[error("{0}")]
    Lost(String),
    /// A newer program has changed the schema beyond what this one may work with.
    #[cfg(feature = "postgres")]
    #[error(
        "the database has schema version {found}, for which this program is too old (it knows {known}): \
         stop this node and start the newer program"
    )]
    Outdated {
        /// Version in the database.
        found: u32,
        /// Newest version this program knows.
        known: u32,
    },
    /// The store is on the move: what this node would write here is not part of the hub.
    #[cfg(feature = "postgres")]
    #[error("{0}: stop this node")]
    Moving(crate::moving::Mark),
    /// Rows contradict each other.
    #[error("{0}")]
    Inconsistent(String),
    /// A write panicked: a defect of the program, not of the data.
    #[error("a write panicked")]
    Panic,
}

impl Failure {
    /// Whether the disk, and not this particular batch, is the cause.
    pub(crate) fn is_environment(&self) -> bool {
        match self {
            Self::Sql(error) => !matches!(
                error.sqlite_error_code(),
                None | Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::TooBig)
            ),
            #[cfg(feature = "postgres")]
            Self::Postgres(error) => crate::postgres::failure::is_environment(error),
            #[cfg(feature = "postgres")]
            Self::Conflict
            | Self::Locked(_)
            | Self::Stale
            | Self::Lost(_)
            | Self::Outdated { .. }
            | Self::Moving(_) => true,
            Self::Inconsistent(_) | Self::Panic => false,
        }
    }

    /// Whether the database is out of reach, or something in it holds up all that is written.
    #[cfg(feature = "postgres")]
    pub(crate) fn is_worth_waiting(&self) -> bool {
        self.is_lost() || matches!(self, Self::Locked(_))
    }

    /// Whether the database is out of reach.
    #[cfg(feature = "postgres")]
    pub(crate) fn is_lost(&self) -> bool {
        use crate::postgres::failure::{Kind, kind};
        match self {
            Self::Lost(_) => true,
            Self::Postgres(error) => kind(error) == Kind::Lost,
            _ => false,
        }
    }

    /// What the caller is told when nothing was committed.
    pub(crate) fn answer(&self) -> StoreError {
        match self {
            Self::Sql(error) => read_error(error),
            #[cfg(feature = "postgres")]
            Self::Postgres(error) => crate::postgres::failure::answer(error),
            #[cfg(feature = "postgres")]
            Self::Conflict | Self::Stale => StoreError::Overloaded,
            #[cfg(feature = "postgres")]
            Self::Locked(_) | Self::Lost(_) => StoreError::Unreachable(self.to_string().into()),
            #[cfg(feature = "postgres")]
            Self::Outdated { .. } | Self::Moving(_) => StoreError::Backend(self.to_string().into()),
            Self::Inconsistent(what) => StoreError::Inconsistent(what.as_str().into()),
            Self::Panic => StoreError::Backend(self.to_string().into()),
        }
    }
}

/// The port's error for what SQLite reported outside of a COMMIT.
pub(crate) fn read_error(error: &rusqlite::Error) -> StoreError {
    let text = error.to_string().into();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Inconsistent(text),
        _ => StoreError::Backend(text),
    }
}

/// Why a write stops.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A condition does not hold; nothing was written.
    Refused(Refusal),
    /// The whole transaction is void.
    Failed(Failure),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<rusqlite::Error> for Stop {
    fn from(error: rusqlite::Error) -> Self {
        Self::Failed(Failure::Sql(error))
    }
}

/// What applying one write gives.
pub(crate) type Applied = Result<Outcome, Stop>;
