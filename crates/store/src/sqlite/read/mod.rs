//! What can be asked: one function per reading method of the port, on a connection that has begun a transaction.

pub(crate) mod console;
pub(crate) mod directory;
pub(crate) mod log;
pub(crate) mod search;
pub(crate) mod stream;

use rusqlite::types::{FromSqlError, Type};

/// Ends a query whose row holds something no program wrote there.
fn broken<T>(column: usize, what: &str) -> rusqlite::Result<T> {
    let error = FromSqlError::Other(what.to_owned().into());
    Err(rusqlite::Error::FromSqlConversionFailure(column, Type::Null, Box::new(error)))
}
