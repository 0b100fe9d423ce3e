//! What can be asked: one statement per reading method of the port, so that each sees one state of the database.

pub(crate) mod directory;
pub(crate) mod log;
pub(crate) mod nodes;
pub(crate) mod search;
pub(crate) mod stream;

use crate::rules::failure::Failure;
use crate::rules::value::{Row, Value};
use tokio_postgres::types::ToSql;

/// A parameter.
pub(crate) type Arg = Box<dyn ToSql + Sync + Send>;

/// A number.
pub(crate) fn int(number: impl Into<i64>) -> Arg {
    Box::new(number.into())
}

/// Text of any characters.
pub(crate) fn text(text: &str) -> Arg {
    Box::new(Value::Text(text.to_owned().into()))
}

/// Bytes.
pub(crate) fn blob(bytes: &[u8]) -> Arg {
    Box::new(bytes.to_vec())
}

/// An array of numbers.
pub(crate) fn ints(numbers: impl IntoIterator<Item = i64>) -> Arg {
    Box::new(numbers.into_iter().collect::<Vec<_>>())
}

/// A row count or limit as SQL takes it.
pub(crate) fn limit(limit: usize) -> Arg {
    Box::new(i64::try_from(limit).unwrap_or(i64::MAX))
}

/// A position as SQL takes it.
pub(crate) fn position(position: u64) -> Arg {
    Box::new(i64::try_from(position).unwrap_or(i64::MAX))
}

/// Every row, read by `map`.
pub(crate) fn each<T>(
    rows: &[tokio_postgres::Row],
    map: impl Fn(&dyn Row) -> Result<T, Failure>,
) -> Result<Vec<T>, Failure> {
    rows.iter().map(|row| map(row)).collect()
}

fn broken(what: &str) -> Failure {
    Failure::Inconsistent(what.to_owned())
}
