//! Rows of the outbound plane, the same for both databases: writes and reads share them.

use crate::rules::failure::Failure;
use crate::rules::value::Row;
use switchboard_core::ids::{InstanceNo, PersonNo};
use switchboard_core::ledger::Ledger;
use switchboard_core::outbound::escalate::{RungRow, RungState, Then};
use switchboard_core::outbound::send::{
    AnswerRow, ApprovalRow, ApprovalState, AttemptRow, ConsentRow, ConsentState, DecidedRow, PartRow,
    PartState, SendRow, SendState, TopicRow, TopicState,
};
use switchboard_core::port::channel::{Address, AddressKind, MessageKind, Part};

fn broken(what: &str) -> Failure {
    Failure::Inconsistent(what.into())
}

/// Number of an address kind.
pub(crate) fn kind_number(kind: AddressKind) -> u8 {
    match kind {
        AddressKind::Direct => 1,
        AddressKind::Channel => 2,
    }
}

/// Kind of a stored number.
pub(crate) fn address_kind(number: u8) -> Result<AddressKind, Failure> {
    match number {
        1 => Ok(AddressKind::Direct),
        2 => Ok(AddressKind::Channel),
        _ => Err(broken("an unknown kind of address")),
    }
}

fn address(row: &dyn Row, column: usize) -> Result<Address, Failure> {
    Ok(Address { kind: address_kind(row.get(column)?)?, handle: row.get(column + 1)? })
}

/// Number of a kind of message.
pub(crate) fn message_number(kind: MessageKind) -> u8 {
    match kind {
        MessageKind::Question => 1,
        MessageKind::Notice => 2,
        MessageKind::Approval => 3,
    }
}

fn message_kind(number: u8) -> Result<MessageKind, Failure> {
    match number {
        1 => Ok(MessageKind::Question),
        2 => Ok(MessageKind::Notice),
        3 => Ok(MessageKind::Approval),
        _ => Err(broken("an unknown kind of message")),
    }
}

/// State of a stored number.
pub(crate) fn send_state(number: u8) -> Result<SendState, Failure> {
    SendState::from_number(number).ok_or_else(|| broken("an unknown state of a send"))
}

/// State of a stored number.
pub(crate) fn part_state(number: u8) -> Result<PartState, Failure> {
    PartState::from_number(number).ok_or_else(|| broken("an unknown state of a part"))
}

/// State of a stored number.
pub(crate) fn consent_state(number: u8) -> Result<ConsentState, Failure> {
    ConsentState::from_number(number).ok_or_else(|| broken("an unknown consent"))
}

/// Columns of a send, in the order of [`send`].
macro_rules! send_columns {
    () => {
        "s.no, s.send_id, s.at_ms, s.instance, s.agent, s.key, s.channel, s.to_kind, s.handle, s.to_text, s.kind, s.body,
         s.deadline_ms, s.topic_id, s.code, s.state, s.reason, s.policy, s.rule, s.params, s.about, s.updated_ms, s.asks"
    };
}
pub(crate) use send_columns;

/// How many columns [`send_columns`] names.
pub(crate) const SEND_COLUMNS: usize = 23;

/// A row of [`send_columns`].
pub(crate) fn send(row: &dyn Row) -> Result<SendRow, Failure> {
    Ok(SendRow {
        no: row.get(0)?,
        send_id: row.get(1)?,
        at_ms: row.get(2)?,
        instance: InstanceNo(row.get(3)?),
        agent: row.get(4)?,
        key: row.get(5)?,
        channel: row.get(6)?,
        to: address(row, 7)?,
        to_text: row.get(9)?,
        kind: message_kind(row.get(10)?)?,
        body: row.get(11)?,
        deadline_ms: row.get(12)?,
        topic_id: row.get(13)?,
        code: row.get(14)?,
        state: send_state(row.get(15)?)?,
        reason: row.get(16)?,
        policy: row.get(17)?,
        rule: row.get(18)?,
        params: row.get(19)?,
        about: row.get(20)?,
        updated_ms: row.get(21)?,
        asks: row.get(22)?,
    })
}

/// A part's content.
pub(crate) fn content(json: &str) -> Result<Part, Failure> {
    serde_json::from_str(json).map_err(|_| broken("a part that cannot be read"))
}

/// A part's content as it is stored.
pub(crate) fn content_json(part: &Part) -> Result<String, Failure> {
    serde_json::to_string(part).map_err(|error| Failure::Inconsistent(error.to_string()))
}

/// Parts of a send.
pub(crate) const PARTS: &str =
    "SELECT send, part, state, attempt, fails, next_ms, content, message_id, round FROM parts
                                WHERE send = (SELECT no FROM sends WHERE send_id = ?) ORDER BY part";

/// A row of [`PARTS`].
pub(crate) fn part(row: &dyn Row) -> Result<PartRow, Failure> {
    Ok(PartRow {
        send: row.get(0)?,
        part: row.get(1)?,
        state: part_state(row.get(2)?)?,
        attempt: row.get(3)?,
        fails: row.get(4)?,
        next_ms: row.get(5)?,
        content: content(&row.get::<String>(6)?)?,
        message_id: row.get(7)?,
        round: row.get(8)?,
    })
}

/// Attempts of a send.
pub(crate) const ATTEMPTS: &str = "SELECT part, attempt, began_ms, ended_ms, outcome, reason, round, message_id FROM attempts
                                   WHERE send = (SELECT no FROM sends WHERE send_id = ?) ORDER BY part, attempt";

/// A row of [`ATTEMPTS`].
pub(crate) fn attempt(row: &dyn Row) -> Result<AttemptRow, Failure> {
    Ok(AttemptRow {
        part: row.get(0)?,
        attempt: row.get(1)?,
        began_ms: row.get(2)?,
        ended_ms: row.get(3)?,
        outcome: row.get(4)?,
        reason: row.get(5)?,
        round: row.get(6)?,
        message_id: row.get(7)?,
    })
}

/// Columns of a topic, in the order of [`topic`].
macro_rules! topic_columns {
    () => {
        "t.topic_id, t.send, t.state, t.floor, t.deadline_ms, t.opened_ms, t.answer, t.answer_by, t.answer_via, t.answered_ms,
         t.escalated_by, t.silence"
    };
}
pub(crate) use topic_columns;

/// How many columns [`topic_columns`] names.
pub(crate) const TOPIC_COLUMNS: usize = 12;

/// A row of [`topic_columns`], which begin at column `at`.
pub(crate) fn topic(row: &dyn Row, at: usize) -> Result<TopicRow, Failure> {
    let text: Option<String> = row.get(at + 6)?;
    let answer = match text {
        Some(text) => {
            Some(AnswerRow { text, by: row.get(at + 7)?, via: row.get(at + 8)?, at_ms: row.get(at + 9)? })
        }
        None => None,
    };
    Ok(TopicRow {
        topic_id: row.get(at)?,
        send: row.get(at + 1)?,
        state: TopicState::from_number(row.get(at + 2)?)
            .ok_or_else(|| broken("an unknown state of a topic"))?,
        floor: row.get(at + 3)?,
        deadline_ms: row.get(at + 4)?,
        opened_ms: row.get(at + 5)?,
        escalated_by: row.get(at + 10)?,
        then: then(row, at + 11)?,
        answer,
    })
}

/// What silence means.
pub(crate) fn then(row: &dyn Row, at: usize) -> Result<Option<Then>, Failure> {
    let number = row.get::<Option<u8>>(at)?;
    let known = |number| Then::from_number(number).ok_or_else(|| broken("an unknown meaning of silence"));
    number.map(known).transpose()
}

/// Columns of a rung, in the order of [`rung`].
macro_rules! rung_columns {
    () => {
        "r.topic_id, r.rung, r.after_ms, r.state, r.reason, r.next_ms, r.channel, r.to_text, r.send_id"
    };
}
pub(crate) use rung_columns;

/// How many columns [`rung_columns`] names.
pub(crate) const RUNG_COLUMNS: usize = 9;

/// A row of [`rung_columns`].
pub(crate) fn rung(row: &dyn Row) -> Result<RungRow, Failure> {
    let state = RungState::from_number(row.get(3)?).ok_or_else(|| broken("an unknown state of a rung"))?;
    let to = row.get::<Option<String>>(6)?.zip(row.get::<Option<String>>(7)?);
    let send_id = row.get::<Option<String>>(8)?.filter(|_| state == RungState::Asked);
    Ok(RungRow {
        topic_id: row.get(0)?,
        rung: row.get(1)?,
        after_ms: row.get(2)?,
        state,
        reason: row.get(4)?,
        next_ms: row.get(5)?,
        to,
        send_id,
    })
}

/// Columns of an approval, in the order of [`approval`].
macro_rules! approval_columns {
    () => {
        "a.approval_id, a.send, a.rule, a.state, a.expires_ms, a.decided_by, a.via, a.decided_ms, a.signature"
    };
}
pub(crate) use approval_columns;

/// A row of [`approval_columns`], which begin at column `at`.
pub(crate) fn approval(row: &dyn Row, at: usize) -> Result<ApprovalRow, Failure> {
    let by: Option<String> = row.get(at + 5)?;
    let decided = match by {
        Some(by) => Some(DecidedRow {
            by,
            via: row.get(at + 6)?,
            at_ms: row.get(at + 7)?,
            signature: row.get::<Option<Vec<u8>>>(at + 8)?.unwrap_or_default(),
        }),
        None => None,
    };
    let state = ApprovalState::from_number(row.get(at + 3)?);
    Ok(ApprovalRow {
        approval_id: row.get(at)?,
        send: row.get(at + 1)?,
        rule: row.get(at + 2)?,
        state: state.ok_or_else(|| broken("an unknown state of an approval"))?,
        expires_ms: row.get(at + 4)?,
        decided,
    })
}

/// Columns of a consent, in the order of [`consent`]; `p` is the person.
pub(crate) const CONSENTS: &str =
    "SELECT c.channel, c.to_kind, c.handle, c.state, c.person, p.name, c.by_whom, c.at_ms, c.reason, c.proven
     FROM consents c LEFT JOIN persons p ON p.id = c.person ORDER BY c.channel, c.to_kind, c.handle LIMIT 10000";

/// A row of [`CONSENTS`].
pub(crate) fn consent(row: &dyn Row) -> Result<ConsentRow, Failure> {
    Ok(ConsentRow {
        channel: row.get(0)?,
        to: address(row, 1)?,
        state: consent_state(row.get(3)?)?,
        person: row.get::<Option<u32>>(4)?.map(PersonNo),
        person_name: row.get(5)?,
        by: row.get(6)?,
        at_ms: row.get(7)?,
        reason: row.get(8)?,
        proven: row.get::<u8>(9)? != 0,
    })
}

/// Counts by state.
pub(crate) const COUNTS: &str = "SELECT state, n FROM send_counts";

/// The ledger that counts make; `0` counts what was accepted at all.
pub(crate) fn ledger(counts: &[(u8, i64)]) -> Ledger {
    let mut ledger = Ledger::default();
    for (state, n) in counts {
        let n = n.cast_unsigned();
        *match SendState::from_number(*state) {
            None => &mut ledger.accepted,
            Some(state) => ledger_of(&mut ledger, state),
        } += n;
    }
    ledger
}

fn ledger_of(ledger: &mut Ledger, state: SendState) -> &mut u64 {
    match state {
        SendState::Held | SendState::Queued | SendState::Sending | SendState::Open => &mut ledger.pending,
        SendState::Delivered => &mut ledger.delivered,
        SendState::Answered => &mut ledger.answered,
        SendState::Expired => &mut ledger.expired,
        SendState::Refused => &mut ledger.refused,
        SendState::Dead => &mut ledger.dead,
        SendState::Unknown => &mut ledger.unknown,
    }
}
