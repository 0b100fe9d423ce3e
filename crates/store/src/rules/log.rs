//! The store's own bookkeeping: log entries from above, checkpoints, probes, epochs.

use super::failure::Applied;
use super::tx::{Tx, found};
use super::value::values;
use switchboard_core::log::{Checkpoint, Entry};
use switchboard_core::write::Outcome;

pub(super) fn probe(tx: &mut impl Tx) -> Applied {
    tx.probe()?;
    Ok(Outcome::Done)
}

pub(super) fn note(tx: &mut impl Tx, entries: &[Entry]) -> Outcome {
    for entry in entries {
        tx.note(entry);
    }
    Outcome::Done
}

// A checkpoint must speak of a record as it is; the same one again is no change.
pub(super) fn checkpoint(tx: &mut impl Tx, checkpoint: &Checkpoint) -> Applied {
    let commit = checkpoint.commit.cast_signed();
    let sql = "SELECT 1 FROM log WHERE commit_no = ? AND digest = ?";
    found(tx.one(sql, values![commit, checkpoint.digest], |_| Ok(()))?)?;
    let sql =
        "INSERT INTO checkpoints (commit_no, digest, signature) VALUES (?, ?, ?) ON CONFLICT DO NOTHING";
    if tx.run(sql, values![commit, checkpoint.digest, checkpoint.signature])? > 0 {
        tx.admit("log.checkpoint", None, checkpoint.commit.to_string());
    }
    Ok(Outcome::Done)
}

pub(super) fn new_epoch(tx: &mut impl Tx, epoch: &str) -> Applied {
    found((tx.run("UPDATE installation SET epoch = ?", values![epoch])? > 0).then_some(()))?;
    tx.admit("store.epoch", None, epoch);
    Ok(Outcome::Done)
}
