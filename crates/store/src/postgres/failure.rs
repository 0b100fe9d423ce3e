//! What PostgreSQL's errors mean here. No message of it carries the password: the driver never prints it, and neither do we.

use std::error::Error as _;
use switchboard_core::port::store::StoreError;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// The error in words, with what the server said.
pub(crate) fn told(error: &Error) -> String {
    match error.as_db_error() {
        Some(said) => format!("{} (SQLSTATE {})", said.message(), said.code().code()),
        None => match error.source() {
            Some(cause) => {
                format!("{error}: {cause}").replace(&format!("{cause}: {cause}"), &cause.to_string())
            }
            None => error.to_string(),
        },
    }
}

/// How a failed statement is dealt with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Another transaction was in the way: the same may succeed now.
    Conflict,
    /// The connection has gone, or leads to a server that does not write.
    Lost,
    /// There is no room.
    Full,
    /// The statement or its data are wrong.
    Data,
    /// Anything else of the server's.
    Server,
}

/// Which kind an error is of.
pub(crate) fn kind(error: &Error) -> Kind {
    let Some(code) = error.code() else { return Kind::Lost };
    match code {
        &SqlState::T_R_SERIALIZATION_FAILURE
        | &SqlState::T_R_DEADLOCK_DETECTED
        | &SqlState::UNIQUE_VIOLATION
        | &SqlState::LOCK_NOT_AVAILABLE => Kind::Conflict,
        &SqlState::ADMIN_SHUTDOWN
        | &SqlState::CRASH_SHUTDOWN
        | &SqlState::CANNOT_CONNECT_NOW
        | &SqlState::READ_ONLY_SQL_TRANSACTION
        | &SqlState::TOO_MANY_CONNECTIONS
        | &SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT => Kind::Lost,
        &SqlState::DISK_FULL => Kind::Full,
        other if other.code().starts_with("08") => Kind::Lost,
        other if ["22", "23", "42"].contains(&&other.code()[..2]) => Kind::Data,
        _ => Kind::Server,
    }
}

/// Whether it is a lock that something holds for too long. Commits of other nodes hold none for so long: to try again at once would
/// only wait as long again.
pub(crate) fn is_lock_timeout(error: &Error) -> bool {
    error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
}

/// Whether the server, and not this particular batch, is the cause.
pub(crate) fn is_environment(error: &Error) -> bool {
    kind(error) != Kind::Data
}

/// What the caller is told when nothing was committed.
pub(crate) fn answer(error: &Error) -> StoreError {
    match kind(error) {
        Kind::Full => StoreError::Full,
        Kind::Conflict => StoreError::Overloaded,
        Kind::Lost => StoreError::Unreachable(told(error).into()),
        _ => StoreError::Backend(told(error).into()),
    }
}
