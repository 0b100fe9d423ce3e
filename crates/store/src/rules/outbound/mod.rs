//! What each change of the outbound plane does. All conditions are checked before the first row changes.

mod amend;
mod attempt;
mod consent;
mod escalate;
mod expire;
mod hear;
mod lane;
#[cfg(test)]
mod plan_tests;
mod quiet;
pub(crate) mod reads;
pub(crate) mod rows;
mod state;
mod strand;
mod submit;
mod sweep;
mod topic;

pub(super) use sweep::sweep;

use super::failure::{Applied, Failure};
use super::tx::Tx;
use super::value::values;
use switchboard_core::outbound::write::{OutboundOutcome, OutboundWrite, Touched};
use switchboard_core::write::Outcome;

/// Applies a change.
pub(super) fn apply(tx: &mut impl Tx, write: &OutboundWrite) -> Applied {
    let outcome = match write {
        OutboundWrite::Submit(send) => submit::submit(tx, send)?,
        OutboundWrite::Claim { channel, node, limit, until_ms } => {
            attempt::claim(tx, channel, *node, *limit, *until_ms)?
        }
        OutboundWrite::Recover { channel, by_id, only_node } => {
            attempt::recover(tx, channel, *by_id, *only_node)?
        }
        OutboundWrite::Strand { known, only_node, due_ms, limit } => {
            strand::strand(tx, known, *only_node, *due_ms, *limit)?
        }
        OutboundWrite::Finish { send, part, attempt, settle } => {
            attempt::finish(tx, (*send, *part, *attempt), settle)?
        }
        OutboundWrite::ClaimAmends { channel, limit, until_ms } => {
            amend::claim(tx, channel, *limit, *until_ms)?
        }
        OutboundWrite::Amended { send, again_ms } => amend::amended(tx, *send, *again_ms)?,
        OutboundWrite::Climb { topic_id, rung, skip } => {
            escalate::climb(tx, (topic_id, *rung), skip.as_deref())?
        }
        OutboundWrite::Hear(heard) => hear::hear(tx, heard)?,
        OutboundWrite::Bounced { channel, event_id, message_id, permanent, reason } => {
            hear::bounced(tx, (channel, event_id), message_id, *permanent, reason)?
        }
        OutboundWrite::Answer { topic_id, by, via, text } => {
            OutboundOutcome::Heard(topic::answer_known(tx, topic_id, topic::Who::known(by, via), text)?)
        }
        OutboundWrite::Decide { approval_id, approve, by, via, sign } => OutboundOutcome::Heard(
            topic::decide_known(tx, approval_id, *approve, topic::Who::known(by, via), sign)?,
        ),
        OutboundWrite::DecideByLink { asked, approve, via, sign } => {
            OutboundOutcome::Heard(hear::decide_by_link(tx, asked, *approve, via, sign)?)
        }
        OutboundWrite::Release { send, forbidden_by } => topic::release(tx, *send, forbidden_by.as_deref())?,
        OutboundWrite::Withdraw { topic_id, instance } => topic::withdraw(tx, topic_id, *instance)?,
        OutboundWrite::Expire { limit } => expire::expire(tx, *limit)?,
        OutboundWrite::Retry { send_id, by } => topic::retry(tx, send_id, by)?,
        OutboundWrite::Discard { send_id, by } => topic::discard(tx, send_id, by)?,
        OutboundWrite::Wake { sends } => quiet::wake(tx, sends)?,
        OutboundWrite::Digest { new, of } => quiet::digest(tx, new, of)?,
        OutboundWrite::Quiet { person, quiet, by } => quiet::set(tx, *person, quiet.as_ref(), by)?,
        OutboundWrite::PairStart { code_hash, channel, to, person, expires_ms, by } => {
            let pairing = consent::Pairing { channel, to: to.as_deref(), person: *person, by };
            consent::pair_start(tx, code_hash, &pairing, *expires_ms)?
        }
        OutboundWrite::Consent { channel, to, state, person, by, lift_stop } => {
            consent::set(tx, channel, to, (*state, *lift_stop), *person, by)?
        }
    };
    Ok(Outcome::Outbound(outcome))
}

/// What hangs on a send and changes with it.
#[derive(Debug, Clone)]
struct Head {
    no: i64,
    send_id: String,
    topic_id: Option<String>,
    state: u8,
    deadline_ms: Option<i64>,
    channel: String,
    to_kind: u8,
    handle: String,
    about: Option<i64>,
    /// The topic that it asks once more.
    asks: Option<String>,
    urgent: bool,
}

/// Columns of a [`Head`].
macro_rules! head_columns {
    () => {
        "s.no, s.send_id, s.topic_id, s.state, s.deadline_ms, s.channel, s.to_kind, s.handle, s.about, s.urgent, s.asks"
    };
}
use head_columns;

/// How many columns `head_columns` names.
const HEAD_COLUMNS: usize = 11;
const HEAD: &str = concat!("SELECT ", head_columns!(), " FROM sends s WHERE s.no = ?");
const HEAD_BY_ID: &str = concat!("SELECT ", head_columns!(), " FROM sends s WHERE s.send_id = ?");

fn head_of(row: &dyn super::value::Row) -> Result<Head, Failure> {
    Ok(Head {
        no: row.get(0)?,
        send_id: row.get(1)?,
        topic_id: row.get(2)?,
        state: row.get(3)?,
        deadline_ms: row.get(4)?,
        channel: row.get(5)?,
        to_kind: row.get(6)?,
        handle: row.get(7)?,
        about: row.get(8)?,
        urgent: row.get::<u8>(9)? == 1,
        asks: row.get(10)?,
    })
}

fn head(tx: &mut impl Tx, no: i64) -> Result<Option<Head>, Failure> {
    tx.one(HEAD, values![no], head_of)
}

fn head_by_id(tx: &mut impl Tx, send_id: &str) -> Result<Option<Head>, Failure> {
    tx.one(HEAD_BY_ID, values![send_id], head_of)
}

impl Head {
    fn touched(&self, state: switchboard_core::outbound::send::SendState) -> Touched {
        Touched { send_id: self.send_id.clone(), topic_id: self.topic_id.clone(), state }
    }
}
