//! In place of `switchboard store` where PostgreSQL was left out: there is nothing to move to.

use crate::args::{Global, Store};
use crate::failure::{Exit, Failure};
use crate::terminal::Output;
use std::path::Path;

/// What a copy was: there is none.
#[derive(Debug, serde::Serialize)]
pub struct Copied {
    /// Entries of the log that hold there.
    pub entries: u64,
}

fn absent() -> Failure {
    let message = "This program was built without PostgreSQL.";
    Failure::new(Exit::Refused, "SB0205", message).next("use one with the feature `postgres`")
}

/// Refuses.
#[expect(clippy::unused_async, reason = "the same as where there is PostgreSQL")]
pub async fn run(_: &Global, _: Output, _: Store) -> Result<(), Failure> {
    Err(absent())
}

/// Refuses.
#[expect(clippy::unused_async, reason = "the same as where there is PostgreSQL")]
pub async fn restore_into(
    _: &str,
    _: &Path,
    _: impl AsyncFnOnce() -> Result<(), Failure>,
) -> Result<Copied, Failure> {
    Err(absent())
}
