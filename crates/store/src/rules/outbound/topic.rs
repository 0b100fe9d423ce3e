//! What people decide about sends: answers, approvals, and taking back, trying again, giving up.

use super::rows::{part_state, send_state, topic, topic_columns};
use super::{Head, head, head_by_id, lane, state};
use crate::rules::failure::{Failure, Stop};
use crate::rules::tx::{Tx, found};
use crate::rules::value::values;
use switchboard_core::ids::InstanceNo;
use switchboard_core::outbound::send::{
    ApprovalState, PartState, SendState, TopicRow, TopicState, decision_input,
};
use switchboard_core::outbound::write::{HeardOutcome, OutboundOutcome, SignDecision};
use switchboard_core::write::Refusal;

const TOPIC: &str = concat!("SELECT ", topic_columns!(), " FROM topics t WHERE t.topic_id = ?");

/// Who says something, and by which way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Who<'a> {
    pub(super) by: &'a str,
    pub(super) via: &'a str,
    /// The channel on which `by` is an address, which the log shows as a digest only.
    pub(super) address_on: Option<&'a str>,
}

impl<'a> Who<'a> {
    /// A person whom the hub knows by name.
    pub(super) fn known(by: &'a str, via: &'a str) -> Self {
        Self { by, via, address_on: None }
    }

    fn shown(self) -> String {
        match self.address_on {
            Some(channel) => super::consent::shown(channel, self.by),
            None => self.by.to_owned(),
        }
    }
}

/// A topic.
pub(super) fn topic_row(tx: &mut impl Tx, topic_id: &str) -> Result<Option<TopicRow>, Failure> {
    tx.one(TOPIC, values![topic_id], |row| topic(row, 0))
}

/// A person whom the hub knows answers.
pub(super) fn answer_known(
    tx: &mut impl Tx,
    topic_id: &str,
    who: Who<'_>,
    text: &str,
) -> Result<HeardOutcome, Stop> {
    let topic = found(topic_row(tx, topic_id)?)?;
    Ok(answer(tx, &topic, who, text)?)
}

/// Somebody who may answers: the first answer counts.
pub(super) fn answer(
    tx: &mut impl Tx,
    topic: &TopicRow,
    who: Who<'_>,
    text: &str,
) -> Result<HeardOutcome, Failure> {
    let Some(mut send) = head(tx, topic.send)? else {
        return Err(Failure::Inconsistent("a topic without its send".into()));
    };
    let late = topic.deadline_ms.is_some_and(|deadline| deadline <= tx.at_ms());
    if late || !matches!(topic.state, TopicState::Open | TopicState::Queued) {
        return Ok(HeardOutcome::TooLate { what: too_late(topic, late) });
    }
    let sql =
        "UPDATE topics SET answer = ?, answer_by = ?, answer_via = ?, answered_ms = ? WHERE topic_id = ?";
    tx.later(sql, values![text, who.by, who.via, tx.at_ms(), topic.topic_id])?;
    tx.admit("outbound.answered", None, format!("{} {} via={}", topic.topic_id, send.send_id, who.via));
    state::end(tx, &mut send, SendState::Answered, "answered")?;
    Ok(HeardOutcome::Answered(send.touched(SendState::Answered)))
}

fn too_late(topic: &TopicRow, late: bool) -> String {
    match (&topic.answer, topic.state) {
        (Some(answer), _) => format!("this question was already answered by {}", answer.by),
        (None, TopicState::Withdrawn) => "this question was taken back".into(),
        _ if late => "this question's time was over".into(),
        _ => "this question is closed".into(),
    }
}

/// An approval with what it is for.
pub(super) struct Pending {
    pub(super) approval_id: String,
    pub(super) send: i64,
    state: u8,
    expires_ms: i64,
    decided_by: Option<String>,
    call: [u8; 32],
}

const PENDING: &str = "SELECT a.approval_id, a.send, a.state, a.expires_ms, a.decided_by, s.digest
                       FROM approvals a JOIN sends s ON s.no = a.send WHERE a.approval_id = ?";
const PENDING_OF: &str = "SELECT a.approval_id, a.send, a.state, a.expires_ms, a.decided_by, s.digest
                          FROM approvals a JOIN sends s ON s.no = a.send WHERE a.send = ?";

fn pending(row: &dyn crate::rules::value::Row) -> Result<Pending, Failure> {
    Ok(Pending {
        approval_id: row.get(0)?,
        send: row.get(1)?,
        state: row.get(2)?,
        expires_ms: row.get(3)?,
        decided_by: row.get(4)?,
        call: row.get(5)?,
    })
}

/// The approval that a send waits for.
pub(super) fn approval_of(tx: &mut impl Tx, send: i64) -> Result<Option<Pending>, Failure> {
    tx.one(PENDING_OF, values![send], pending)
}

/// A person whom the hub knows decides.
pub(super) fn decide_known(
    tx: &mut impl Tx,
    approval_id: &str,
    approve: bool,
    who: Who<'_>,
    sign: &SignDecision,
) -> Result<HeardOutcome, Stop> {
    let approval = found(tx.one(PENDING, values![approval_id], pending)?)?;
    Ok(decide(tx, &approval, approve, who, sign)?)
}

/// Somebody who may decides: the first decision counts, and is signed.
pub(super) fn decide(
    tx: &mut impl Tx,
    approval: &Pending,
    approve: bool,
    who: Who<'_>,
    sign: &SignDecision,
) -> Result<HeardOutcome, Failure> {
    let Some(mut send) = head(tx, approval.send)? else {
        return Err(Failure::Inconsistent("an approval without its send".into()));
    };
    if approval.state != ApprovalState::Pending as u8 || approval.expires_ms <= tx.at_ms() {
        let what = match &approval.decided_by {
            Some(by) if approval.state == ApprovalState::Approved as u8 => {
                format!("this was already approved by {by}")
            }
            Some(by) => format!("this was already denied by {by}"),
            None if approval.state == ApprovalState::Void as u8 => "what this was for has ended".into(),
            None => "the time to decide this was over".into(),
        };
        return Ok(HeardOutcome::TooLate { what });
    }
    let state = if approve { ApprovalState::Approved } else { ApprovalState::Denied };
    let signature =
        (sign.0)(&decision_input(&approval.approval_id, &approval.call, approve, who.by, who.via));
    let sql = "UPDATE approvals SET state = ?, decided_by = ?, via = ?, decided_ms = ?, signature = ? WHERE approval_id = ?";
    tx.run(sql, values![state as u8, who.by, who.via, tx.at_ms(), signature, approval.approval_id])?;
    let signed = switchboard_core::digest::hex(&signature);
    let subject = format!(
        "{} {} {} by={} via={} sig={signed}",
        approval.approval_id,
        send.send_id,
        state.as_str(),
        who.shown(),
        who.via
    );
    tx.admit("outbound.decided", None, subject);
    super::amend::ended_about(tx, send.no)?;
    if !approve {
        state::end(tx, &mut send, SendState::Refused, &format!("denied by {}", who.by))?;
    }
    let touched = send.touched(send_state(send.state)?);
    Ok(HeardOutcome::Decided { touched, send: approval.send, state })
}

/// What was approved goes on, unless a rule forbids it by now.
pub(super) fn release(
    tx: &mut impl Tx,
    send: i64,
    forbidden_by: Option<&str>,
) -> Result<OutboundOutcome, Stop> {
    let mut send = found(head(tx, send)?)?;
    let approved =
        approval_of(tx, send.no)?.is_some_and(|pending| pending.state == ApprovalState::Approved as u8);
    if send.state == SendState::Held as u8 && approved && !super::strand::is_stranded(tx, &send)? {
        match forbidden_by {
            Some(rule) => {
                let reason = format!("approved, but forbidden since by {rule}");
                state::end(tx, &mut send, SendState::Refused, &reason)?;
            }
            None => state::go_on(tx, &mut send)?,
        }
    }
    settled(&send)
}

fn settled(send: &Head) -> Result<OutboundOutcome, Stop> {
    Ok(OutboundOutcome::Settled(send.touched(send_state(send.state)?)))
}

/// Who asked takes the question back.
pub(super) fn withdraw(
    tx: &mut impl Tx,
    topic_id: &str,
    instance: Option<InstanceNo>,
) -> Result<OutboundOutcome, Stop> {
    let topic = found(topic_row(tx, topic_id)?)?;
    let mut send = found(head(tx, topic.send)?)?;
    let asked =
        tx.one("SELECT instance FROM sends WHERE no = ?", values![send.no], |row| row.get::<u32>(0))?;
    if instance.is_some_and(|instance| asked != Some(instance.0)) {
        return Err(Refusal::NotFound.into());
    }
    if !matches!(topic.state, TopicState::Open | TopicState::Queued) {
        return Err(Refusal::TaskState { state: topic.state.as_str() }.into());
    }
    tx.admit("outbound.withdrawn", instance, topic_id);
    state::end(tx, &mut send, SendState::Dead, "withdrawn by who asked")?;
    settled(&send)
}

/// A person has it tried again.
pub(super) fn retry(tx: &mut impl Tx, send_id: &str, by: &str) -> Result<OutboundOutcome, Stop> {
    let mut send = found(head_by_id(tx, send_id)?)?;
    let now = send_state(send.state)?;
    if now == SendState::Sending {
        return hurry(tx, &send, by);
    }
    if !matches!(now, SendState::Dead | SendState::Unknown) {
        return Err(Refusal::TaskState { state: now.as_str() }.into());
    }
    // What it brought is tried again by itself.
    if send.send_id.starts_with(switchboard_core::outbound::send::DIGEST) {
        return Err(Refusal::TaskState { state: "a digest" }.into());
    }
    if send.deadline_ms.is_some_and(|deadline| deadline <= tx.at_ms()) {
        return Err(Refusal::DeadlinePast.into());
    }
    let (key, body) = kept(tx, send.no)?;
    if body.is_empty() {
        return Err(Refusal::TaskState { state: "erased" }.into());
    }
    if super::escalate::is_over(tx, &send)? {
        return Err(Refusal::TaskState { state: "ended" }.into());
    }
    // Whoever gives something up does not approve it by that.
    if let Some(approval) = approval_of(tx, send.no)?
        && approval.state != ApprovalState::Approved as u8
    {
        let state = ApprovalState::from_number(approval.state).map_or("held", ApprovalState::as_str);
        return Err(Refusal::TaskState { state }.into());
    }
    // The agent has sent it again by itself: this would be a second one.
    if key == Key::TakenSince {
        return Err(Refusal::IdReused.into());
    }
    let sql = "UPDATE sends SET key = old_key, old_key = NULL WHERE no = ? AND old_key IS NOT NULL";
    tx.later(sql, values![send.no])?;
    // What may have left before leaves under another id now.
    let sql = "UPDATE parts SET state = 8, fails = 0, message_id = NULL, round = CASE WHEN attempt > 0 THEN round + 1 ELSE round END
               WHERE send = ? AND state NOT IN (3, 4)";
    tx.later(sql, values![send.no])?;
    tx.later("UPDATE amends SET next_ms = NULL WHERE send = ?", values![send.no])?;
    tx.admit("outbound.retry", None, format!("{send_id} by={by}"));
    let has_floor = match &send.topic_id {
        Some(topic) => topic_row(tx, topic)?.is_some_and(|topic| topic.state == TopicState::Open),
        None => false,
    };
    if has_floor {
        state::open(tx, &mut send)?;
    } else {
        state::go_on(tx, &mut send)?;
    }
    settled(&send)
}

const NEXT: &str =
    "SELECT part, state, next_ms, (SELECT l.next_ms FROM lanes l WHERE l.lane = p.lane) FROM parts p
                    WHERE send = ? AND state <> 4 ORDER BY part LIMIT 1";

/// What waits for a later attempt is due at once, or as soon as the pace of its lane allows.
fn hurry(tx: &mut impl Tx, send: &Head, by: &str) -> Result<OutboundOutcome, Stop> {
    let next = tx.one(NEXT, values![send.no], |row| {
        let pause_ms = row.get::<Option<i64>>(3)?.unwrap_or(0);
        Ok((row.get::<u32>(0)?, part_state(row.get(1)?)?, row.get::<i64>(2)?, pause_ms))
    })?;
    let (part, state, next_ms, pause_ms) = found(next)?;
    let at_ms = pause_ms.max(tx.at_ms());
    let is = match state {
        PartState::Due if next_ms > at_ms => None,
        PartState::Due => Some("due as soon as it may be"),
        PartState::Attempting => Some("being attempted"),
        _ => Some("waiting behind another message to the same address"),
    };
    if let Some(state) = is {
        return Err(Refusal::TaskState { state }.into());
    }
    lane::due(tx, (send.no, part), at_ms)?;
    tx.admit("outbound.retry", None, format!("{} by={by}", send.send_id));
    settled(send)
}

#[derive(PartialEq)]
enum Key {
    Free,
    TakenSince,
}

// Whether another send has taken the key since, and the text.
fn kept(tx: &mut impl Tx, no: i64) -> Result<(Key, String), Stop> {
    let sql = "SELECT s.body, (SELECT count(*) FROM sends o WHERE o.instance = s.instance AND o.agent = s.agent AND o.key = s.old_key)
               FROM sends s WHERE s.no = ?";
    let row = tx.one(sql, values![no], |row| Ok((row.get::<String>(0)?, row.get::<i64>(1)?)))?;
    let (body, others) = found(row)?;
    Ok((if others > 0 { Key::TakenSince } else { Key::Free }, body))
}

/// A person gives it up.
pub(super) fn discard(tx: &mut impl Tx, send_id: &str, by: &str) -> Result<OutboundOutcome, Stop> {
    let mut send = found(head_by_id(tx, send_id)?)?;
    let now = send_state(send.state)?;
    if now.is_terminal() && now != SendState::Unknown {
        return Err(Refusal::TaskState { state: now.as_str() }.into());
    }
    tx.admit("outbound.discard", None, format!("{send_id} by={by}"));
    state::end(tx, &mut send, SendState::Dead, &format!("discarded by {by}"))?;
    settled(&send)
}
