//! Whether the database is still the one that it was. After a fail-over to a server that lagged, commits that were acknowledged may be
//! gone. Their sequences must not be used again for something else under the same epoch: readers have them.
//!
//! A node knows what it has seen itself, and compares it before it writes over a new connection, and with every beat. That is not
//! enough where another node acknowledged what was lost. A server that was promoted is on a new *timeline*, as PostgreSQL has it; so
//! the first node that meets one writes nothing until every other that was alive has looked, too, and has missed nothing. Who misses
//! something begins a new epoch, and so does whoever has waited for the others in vain: what they acknowledged, nobody knows.
//!
//! Timelines and who has looked stand among the leases, outside of the log like everything nodes say of themselves.

use super::failure::{Kind, kind};
use super::plan::Plan;
use super::session::{Session, Step};
use super::writer::{Void, Writer, apply_batch};
use crate::rules::Tx as _;
use crate::rules::failure::Failure;
use crate::rules::value::{Row, Value, values};
use crate::sqlite::state::State;
use std::sync::atomic::Ordering;
use switchboard_core::random::public_id;
use switchboard_core::write::{Batch, Write};

/// How long nodes wait for others that were alive to look at a promoted server: three beats.
const LOOKED_WITHIN_MS: i64 = 12_000;

/// The epoch, the digest of commit ?, and the timeline that all nodes have agreed to.
const PRESENT: &str = "SELECT n.epoch, l.digest, t.fence FROM installation n
    LEFT JOIN log l ON l.commit_no = ? LEFT JOIN leases t ON t.name = 'timeline'";
/// The server's timeline, which is the first part of the name of the log segment it writes.
const TIMELINE: &str = "SELECT ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint";
const AGREE: &str = "INSERT INTO leases (name, holder, fence, until_ms) VALUES ('timeline', ?, ?, 0)
    ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, fence = excluded.fence";
const FORGET_LOOKS: &str = "DELETE FROM leases WHERE name LIKE 'timeline:%'";
/// Node ? has looked at timeline ? and misses nothing.
const LOOKED: &str = "INSERT INTO leases (name, holder, fence, until_ms)
    SELECT 'timeline:' || k.node, k.node, k.timeline, (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    FROM (SELECT ?::bigint AS node, ?::bigint AS timeline) AS k
    ON CONFLICT (name) DO UPDATE SET fence = excluded.fence, until_ms = excluded.until_ms
    WHERE leases.fence <> excluded.fence";
/// Nodes other than ? that have yet to look at timeline ?, and for how long the first that did has waited.
const MISSING: &str = "SELECT
    (SELECT count(*) FROM nodes n WHERE n.node <> k.node AND NOT EXISTS
        (SELECT 1 FROM leases v WHERE v.name = 'timeline:' || n.node AND v.fence = k.timeline)),
    (extract(epoch FROM clock_timestamp()) * 1000)::bigint
        - (SELECT min(until_ms) FROM leases WHERE name LIKE 'timeline:%' AND fence = k.timeline)
    FROM (SELECT ?::bigint AS node, ?::bigint AS timeline) AS k";
const EPOCH: &str = "SELECT epoch FROM installation";

impl Writer {
    /// See the module. Fails when nothing may be written yet.
    pub(super) fn check_epoch(&mut self, session: &Session) -> Result<(), Failure> {
        let seen = *self.shared.seen.lock();
        let commit = seen.map_or(0, |(commit, _)| commit.cast_signed());
        let answer = session.one(Step::One(PRESENT, vec![Value::Int(commit)]))?;
        let Some(row) = answer.rows.first() else {
            // Before the installation is made there is nothing to lose; afterwards it is gone with all the rest.
            return if seen.is_none_or(|(commit, _)| commit == 0) {
                Ok(())
            } else {
                Err(Failure::Inconsistent("the installation has gone".into()))
            };
        };
        let row: &dyn Row = row;
        let (epoch, digest, agreed): (String, Option<[u8; 32]>, Option<i64>) =
            (row.get(0)?, row.get(1)?, row.get(2)?);
        if self.epoch.as_ref().is_some_and(|mine| *mine != epoch) {
            self.follow_epoch(epoch);
            return Ok(());
        }
        let timeline = timeline(session)?;
        if let Some((commit, seen)) = seen.filter(|(commit, _)| *commit > 0)
            && digest != Some(seen)
        {
            tracing::error!(commit, "the database has lost commits that were answered: a new epoch begins");
            return self.begin_epoch(session, &epoch, timeline);
        }
        match timeline.filter(|now| agreed != Some(*now)) {
            None => Ok(()),
            Some(now) if agreed.is_none() => self.agree(session, now),
            Some(now) => self.look_together(session, &epoch, now),
        }
    }

    fn agree(&self, session: &Session, timeline: i64) -> Result<(), Failure> {
        let me = self.shared.node.load(Ordering::Relaxed).cast_signed();
        session.one(Step::One(AGREE, vec![Value::Int(me), Value::Int(timeline)]))?;
        session.one(Step::One(FORGET_LOOKS, Vec::new())).map(drop)
    }

    fn look_together(&mut self, session: &Session, epoch: &str, timeline: i64) -> Result<(), Failure> {
        let me = self.shared.node.load(Ordering::Relaxed).cast_signed();
        let named = || vec![Value::Int(me), Value::Int(timeline)];
        let answers = session.run(&[Step::One(LOOKED, named()), Step::One(MISSING, named())])?;
        let row: &dyn Row =
            answers[1].rows.first().ok_or_else(|| Failure::Inconsistent("a count without a row".into()))?;
        let (missing, waited_ms): (i64, Option<i64>) = (row.get(0)?, row.get(1)?);
        if missing == 0 {
            tracing::info!(timeline, "the database has failed over, and no node misses anything");
            return self.agree(session, timeline);
        }
        if waited_ms.unwrap_or_default() > LOOKED_WITHIN_MS {
            tracing::error!(
                missing,
                "after a fail-over, nodes that may have answered commits are gone: a new epoch begins"
            );
            return self.begin_epoch(session, epoch, Some(timeline));
        }
        Err(Failure::Lost(format!(
            "it has failed over: waiting for {missing} nodes to see that they miss nothing"
        )))
    }

    // Begins another epoch than `before`, unless another node has; in either case this one serves the new one.
    fn begin_epoch(&mut self, session: &Session, before: &str, timeline: Option<i64>) -> Result<(), Failure> {
        let at_ms = self.clock.wall_ms();
        let fresh = public_id("ep", &*self.entropy, at_ms);
        let batch = Batch { at_ms, writes: vec![Write::NewEpoch { epoch: fresh }] };
        let me = self.shared.node.load(Ordering::Relaxed).cast_signed();
        let seen = self.shared.seen.lock().take();
        let begun = self.attempt(&|_: &State| Plan::of_directory(), &|tx| {
            let now: Option<String> = tx.one(EPOCH, values![], |row| row.get(0))?;
            if now.as_deref() == Some(before) {
                apply_batch(tx, &batch)?;
                if let Some(timeline) = timeline {
                    tx.run(AGREE, values![me, timeline])?;
                    tx.run(FORGET_LOOKS, values![])?;
                }
            }
            Ok(())
        });
        if let Err(void) = begun {
            // Not done: the next connection tries again.
            *self.shared.seen.lock() = seen;
            return Err(match void {
                Void::Nothing(failure @ Failure::Moving(_)) => failure,
                void => Failure::Lost(void.answer().to_string()),
            });
        }
        let answer = session.one(Step::One(EPOCH, Vec::new()))?;
        let row: &dyn Row =
            answer.rows.first().ok_or_else(|| Failure::Inconsistent("the installation has gone".into()))?;
        self.follow_epoch(row.get(0)?);
        Ok(())
    }

    // What this node remembers of the old one is void: whoever listens ends.
    fn follow_epoch(&mut self, epoch: String) {
        let served = self.epoch.replace(epoch);
        *self.shared.seen.lock() = None;
        let listener = self.shared.listener.lock().clone();
        if let (Some(_), Some(listener), Some(epoch)) = (served, listener, &self.epoch) {
            listener.epoch_began(epoch);
        }
    }
}

// None where the server does not tell, as services that only speak PostgreSQL's protocol may.
fn timeline(session: &Session) -> Result<Option<i64>, Failure> {
    let answer = match session.one(Step::One(TIMELINE, Vec::new())) {
        Ok(answer) => answer,
        Err(Failure::Postgres(error)) if kind(&error) != Kind::Lost => {
            tracing::debug!(error = super::failure::told(&error), "the server does not tell its timeline");
            return Ok(None);
        }
        Err(failure) => return Err(failure),
    };
    let Some(row) = answer.rows.first() else { return Ok(None) };
    let row: &dyn Row = row;
    row.get(0)
}
