//! The log, its checkpoints, figures.

use crate::rules::failure::Failure;
use crate::rules::value::Row;
use switchboard_core::log::{Checkpoint, Record};

/// Records behind a commit.
pub(crate) const LOG: &str =
    "SELECT commit_no, at_ms, entries, digest FROM log WHERE commit_no > $1 ORDER BY commit_no LIMIT $2";

/// A row of [`LOG`].
pub(crate) fn record(row: &dyn Row) -> Result<Record, Failure> {
    Ok(Record {
        commit: row.get::<i64>(0)?.cast_unsigned(),
        at_ms: row.get(1)?,
        entries: row.get(2)?,
        digest: row.get(3)?,
    })
}

/// Checkpoints behind a commit.
pub(crate) const CHECKPOINTS: &str =
    "SELECT commit_no, digest, signature FROM checkpoints WHERE commit_no > $1 ORDER BY commit_no LIMIT $2";

/// A row of [`CHECKPOINTS`].
pub(crate) fn checkpoint(row: &dyn Row) -> Result<Checkpoint, Failure> {
    Ok(Checkpoint { commit: row.get::<i64>(0)?.cast_unsigned(), digest: row.get(1)?, signature: row.get(2)? })
}

/// Streams, events ever appended, commits, bytes of all tables with their indexes, events the full-text index has seen.
pub(crate) const SIZES: &str =
    "SELECT (SELECT count(*) FROM streams), (SELECT coalesce(sum(a), 0)::bigint FROM counters),
        (SELECT commit_no FROM head), (SELECT events FROM search_progress),
        (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
         WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r')";
