//! Stores on the move: what a store says of itself meanwhile, how two of them are compared, and what can go wrong.
//!
//! A copy keeps everything, the epoch included, so that clients go on from their cursors at the new place. That is right for one of the
//! two places only: the new one is marked as arriving until all of it was verified, the old one as left from then on, and
//! a marked store opens for nobody but who moves it ([`Mark`]).

#[cfg(feature = "postgres")]
mod tally;

#[cfg(feature = "postgres")]
pub use tally::{MoveError, Tally, compare};
#[cfg(feature = "postgres")]
pub(crate) use tally::{Totals, id_values};

use crate::rules::failure::Failure;
use crate::rules::value::Row;
use std::fmt;
use switchboard_core::time::WallMs;

/// What a marked store says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// `true`: it was copied away and is in use there. `false`: it is being filled.
    pub left: bool,
    /// Where to or from, as it may be shown.
    pub other: String,
    /// Since when.
    pub at_ms: WallMs,
}

/// Reads it.
pub(crate) const READ_MARK: &str = "SELECT state, other, at_ms FROM moving";

impl Mark {
    pub(crate) fn of(row: &dyn Row) -> Result<Self, Failure> {
        Ok(Self { left: row.get::<String>(0)? == "left", other: row.get(1)?, at_ms: row.get(2)? })
    }

    /// How its state is stored.
    #[cfg(feature = "postgres")]
    pub(crate) fn state(&self) -> &'static str {
        if self.left { "left" } else { "arriving" }
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.left {
            write!(out, "it was copied to {} and goes on there", self.other)
        } else {
            write!(out, "copying {} into it was not finished", self.other)
        }
    }
}
