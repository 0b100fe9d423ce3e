//! Comparing two stores by counts and digests, and what can go wrong with copying.

use super::Mark;
use crate::rules::failure::Failure;
use crate::rules::value::Value;
use crate::{postgres, sqlite};
use sha2::{Digest as _, Sha256};
use std::path::PathBuf;
use switchboard_core::ledger::Ledger;
use switchboard_core::port::store::StoreError;

/// Why a store cannot be copied.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// The embedded store does not open.
    #[error("{error}")]
    Sqlite {
        /// Its data directory.
        dir: PathBuf,
        /// Why.
        error: sqlite::OpenError,
    },
    /// The database does not open.
    #[error(transparent)]
    Postgres(#[from] postgres::OpenError),
    /// Reading or writing failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is no hub in it.
    #[error("{0} holds no hub")]
    NoHub(String),
    /// There is something in it.
    #[error("{0} holds a hub already")]
    Occupied(String),
    /// It is on the move already.
    #[error("{0} cannot be copied: {1}")]
    Marked(String, Mark),
    /// Nodes run on it.
    #[error("{0} is in use by a running hub")]
    Running(String),
    /// Somebody else is copying.
    #[error("{0} is being copied already, or is source and target at once")]
    Busy(String),
    /// The source changed meanwhile.
    #[error("{0} was written to while it was copied")]
    Changed(String),
    /// What was read again is not what was copied.
    #[error("the copy differs in {0}")]
    Differs(&'static str),
}

impl From<Failure> for MoveError {
    fn from(failure: Failure) -> Self {
        Self::Store(failure.answer())
    }
}

/// How many rows a table has, and a sum over their digests that does not depend on their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally {
    /// The table; `ids` for what is remembered of clients' ids, `head` for what counts over all tables.
    pub table: &'static str,
    /// Its rows.
    pub rows: u64,
    sum: u128,
}

impl Tally {
    pub(crate) fn new(table: &'static str) -> Self {
        Self { table, rows: 0, sum: 0 }
    }

    /// Counts a row of values in the order of the table's columns.
    pub(crate) fn add(&mut self, values: &[Value<'_>]) {
        let mut hash = Sha256::new();
        for value in values {
            let (tag, bytes): (u8, &[u8]) = match value {
                Value::Null => (0, &[]),
                Value::Int(number) => (1, &number.to_be_bytes()),
                Value::Text(text) => (2, text.as_bytes()),
                Value::Blob(bytes) => (3, bytes),
            };
            // Lengths keep neighbours apart.
            hash.update([tag]);
            hash.update((bytes.len() as u64).to_be_bytes());
            hash.update(bytes);
        }
        let digest = hash.finalize();
        let half = digest.first_chunk().copied().map_or(0, u128::from_be_bytes);
        (self.rows, self.sum) = (self.rows + 1, self.sum.wrapping_add(half));
    }
}

/// The first difference, if there is one.
pub fn compare(from: &[Tally], to: &[Tally]) -> Result<(), MoveError> {
    match from.iter().zip(to).find(|(from, to)| from != to) {
        Some((from, _)) => Err(MoveError::Differs(from.table)),
        None if from.len() == to.len() => Ok(()),
        None => Err(MoveError::Differs("tables")),
    }
}

/// What counts over all tables.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Totals {
    pub(crate) commit: u64,
    pub(crate) digest: [u8; 32],
    pub(crate) version: u64,
    pub(crate) notice: i64,
    pub(crate) ledger: Ledger,
    pub(crate) probe_ms: i64,
}

impl Totals {
    pub(crate) fn tally(&self) -> Tally {
        let ledger = sqlite::state::encode_ledger(&self.ledger);
        let mut tally = Tally::new("head");
        tally.add(&[
            Value::Int(self.commit.cast_signed()),
            Value::Blob(self.digest.as_slice().into()),
            Value::Int(self.version.cast_signed()),
            Value::Int(self.notice),
            Value::Blob(ledger.as_slice().into()),
            Value::Int(self.probe_ms),
        ]);
        tally
    }
}

/// A remembered id as [`Tally`] counts it.
pub(crate) fn id_values<'v>(key: &'v sqlite::dedup::Key, entry: &'v sqlite::dedup::Entry) -> [Value<'v>; 6] {
    [
        Value::Blob(key.as_slice().into()),
        Value::Blob(entry.digest.as_slice().into()),
        Value::Int(entry.event),
        Value::Int(entry.thread),
        Value::Int(entry.at_ms),
        Value::Int(entry.expires_at_ms),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(rows: &[[&str; 2]]) -> Tally {
        let mut tally = Tally::new("t");
        rows.iter().for_each(|row| tally.add(&row.map(|text| Value::Text(text.into()))));
        tally
    }

    #[test]
    fn tallies_tell_content_and_not_order() {
        assert_eq!(tally(&[["a", "b"], ["c", ""]]), tally(&[["c", ""], ["a", "b"]]));
        assert_ne!(tally(&[["a", "b"]]), tally(&[["ab", ""]]));
        assert_ne!(tally(&[["a", "b"]]), tally(&[["a", "b"], ["a", "b"]]));
        assert!(matches!(compare(&[tally(&[])], &[tally(&[["a", "b"]])]), Err(MoveError::Differs("t"))));
    }
}
