//! A call is accepted: consent, limits and the key are decided here, where nothing can come in between.

use super::rows::{content_json, kind_number, message_number, send, send_columns};
use super::{lane, state};
use crate::rules::failure::{Failure, Stop};
use crate::rules::tx::Tx;
use crate::rules::value::values;
use switchboard_core::digest::{framed, hex};
use switchboard_core::ids::PersonNo;
use switchboard_core::outbound::gate::Consent;
use switchboard_core::outbound::limit::Window;
use switchboard_core::outbound::send::{ApprovalState, PartState, SendState, TopicState, floor_of, lane_of};
use switchboard_core::outbound::write::{ConsentRule, LimitTake, NewSend, OutboundOutcome};
use switchboard_core::write::Refusal;

pub(super) fn submit(tx: &mut impl Tx, new: &NewSend) -> Result<OutboundOutcome, Stop> {
    if tx.state().live(new.instance).is_none() {
        return Err(Refusal::NotYours.into());
    }
    if let Some(first) = known(tx, new)? {
        return Ok(first);
    }
    if new.deadline_ms.is_some_and(|deadline| deadline <= tx.at_ms()) {
        return Err(Refusal::DeadlinePast.into());
    }
    let (consent, person) = consent(tx, new)?;
    if !consent.is_given() {
        return Err(Refusal::NoConsent(consent).into());
    }
    let taken = new.limits.iter().map(|limit| take(tx, limit)).collect::<Result<Vec<_>, _>>()?;
    let sql = "SELECT 1 FROM sends WHERE code = ? OR send_id = ?";
    if tx.one(sql, values![new.code, new.send_id], |_| Ok(()))?.is_some() {
        return Err(Refusal::NameTaken.into());
    }
    let about = match &new.about {
        Some(about) => {
            let held = super::head_by_id(tx, about)?;
            Some(held.ok_or(Stop::Refused(Refusal::NotFound))?.no)
        }
        None => None,
    };
    for (key, window) in taken {
        let sql = "INSERT INTO limits (key, taken, at_ms) VALUES (?, ?, ?)
                   ON CONFLICT (key) DO UPDATE SET taken = excluded.taken, at_ms = excluded.at_ms";
        tx.run(sql, values![key, window, tx.at_ms()])?;
    }
    let (no, state) = insert(tx, new, person, about)?;
    Ok(OutboundOutcome::Accepted { send: no, state })
}

// What the key was used for.
fn known(tx: &mut impl Tx, new: &NewSend) -> Result<Option<OutboundOutcome>, Stop> {
    let Some(key) = &new.key else { return Ok(None) };
    let sql = concat!(
        "SELECT ",
        send_columns!(),
        ", s.digest FROM sends s WHERE s.instance = ? AND s.agent = ? AND s.key = ?"
    );
    let first = tx.one(sql, values![new.instance.0, new.agent, key], |row| {
        Ok((send(row)?, row.get::<[u8; 32]>(super::rows::SEND_COLUMNS)?))
    })?;
    match first {
        Some((_, digest)) if digest != new.digest => Err(Refusal::IdReused.into()),
        Some((first, _)) => Ok(Some(OutboundOutcome::Repeat(Box::new(first)))),
        None => Ok(None),
    }
}

/// Whether the address may be written to, and whose it is.
fn consent(tx: &mut impl Tx, new: &NewSend) -> Result<(Consent, Option<PersonNo>), Failure> {
    if new.consent == ConsentRule::Person {
        let person = super::consent::person_named(tx, &new.to.handle)?;
        return Ok((if person.is_some() { Consent::Given } else { Consent::Missing }, person));
    }
    let known = super::consent::of(tx, &new.channel, kind_number(new.to.kind), &new.to.handle)?;
    Ok(match (known, &new.consent) {
        (Some((state, person)), ConsentRule::Listed) => (state.consent(), person),
        (None, ConsentRule::Listed) => (Consent::Missing, None),
        (Some((state, person)), _) if matches!(state.consent(), Consent::Stopped | Consent::Suppressed) => {
            (state.consent(), person)
        }
        (known, _) => (Consent::NotNeeded, known.and_then(|(_, person)| person)),
    })
}

/// Takes one call from a limit; the row to write when all else is well.
fn take(tx: &mut impl Tx, limit: &LimitTake) -> Result<(String, Vec<u8>), Stop> {
    let sql = "SELECT taken FROM limits WHERE key = ?";
    let taken = tx.one(sql, values![limit.key], |row| row.get::<Vec<u8>>(0))?;
    let mut window = Window::decode(&taken.unwrap_or_default());
    window.take(limit.rate, tx.at_ms()).map_err(|retry_after_ms| {
        Stop::Refused(Refusal::LimitReached { rule: limit.rule.clone(), retry_after_ms })
    })?;
    Ok((limit.key.clone(), window.encode()))
}

fn insert(
    tx: &mut impl Tx,
    new: &NewSend,
    person: Option<PersonNo>,
    about: Option<i64>,
) -> Result<(i64, SendState), Failure> {
    let no = tx.one("SELECT max(no) FROM sends", values![], |row| row.get::<Option<i64>>(0))?;
    let no = no.flatten().unwrap_or(0) + 1;
    let floor = floor_of(person, &new.channel, &new.to);
    let state = if new.hold.is_some() {
        SendState::Held
    } else if new.topic_id.is_some() && state::is_taken(tx, &floor)? {
        SendState::Queued
    } else {
        SendState::Sending
    };
    let sql = "INSERT INTO sends (no, send_id, at_ms, instance, agent, key, digest, channel, to_kind, handle, to_text, kind, body,
                   deadline_ms, topic_id, code, state, policy, rule, params, about, updated_ms)
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    let rule = new.hold.as_ref().map(|hold| hold.rule.as_str());
    let (kind, message) = (kind_number(new.to.kind), message_number(new.kind));
    tx.run(
        sql,
        values![
            no,
            new.send_id,
            tx.at_ms(),
            new.instance.0,
            new.agent,
            new.key,
            new.digest,
            new.channel,
            kind,
            new.to.handle,
            new.to_text,
            message,
            new.body,
            new.deadline_ms,
            new.topic_id,
            new.code,
            state as u8,
            new.policy,
            rule,
            new.params,
            about,
            tx.at_ms()
        ],
    )?;
    state::count(tx, None, state)?;
    insert_parts(tx, new, no, state)?;
    if let Some(topic) = &new.topic_id {
        let open = state == SendState::Sending;
        let (topic_state, opened) =
            if open { (TopicState::Open, Some(tx.at_ms())) } else { (TopicState::Queued, None) };
        let sql = "INSERT INTO topics (topic_id, send, floor, state, deadline_ms, opened_ms) VALUES (?, ?, ?, ?, ?, ?)";
        tx.later(sql, values![topic, no, floor, topic_state as u8, new.deadline_ms, opened])?;
    }
    if let Some(hold) = &new.hold {
        let sql = "INSERT INTO approvals (approval_id, send, rule, state, expires_ms) VALUES (?, ?, ?, ?, ?)";
        let pending = ApprovalState::Pending as u8;
        tx.later(sql, values![hold.approval_id, no, hold.rule, pending, hold.expires_ms])?;
    }
    tx.admit("outbound.accepted", Some(new.instance), subject(new, state));
    Ok((no, state))
}

fn insert_parts(tx: &mut impl Tx, new: &NewSend, no: i64, state: SendState) -> Result<(), Failure> {
    let lane = lane_of(&new.channel, &new.to);
    let free = state == SendState::Sending && lane::is_empty(tx, &lane)?;
    let sql = "INSERT INTO parts (send, part, channel, lane, state, attempt, fails, next_ms, content)
               VALUES (?, ?, ?, ?, ?, 0, 0, ?, ?)";
    for (part, content) in (1u32..).zip(&new.parts) {
        let part_state = match state {
            SendState::Sending if free && part == 1 => PartState::Due,
            SendState::Sending => PartState::Waiting,
            _ => PartState::Parked,
        };
        let content = content_json(content)?;
        tx.later(sql, values![no, part, new.channel, lane, part_state as u8, tx.at_ms(), content])?;
    }
    Ok(())
}

// What the log says of it: no body, and of the address only a digest.
fn subject(new: &NewSend, state: SendState) -> String {
    let to = framed("switchboard.address.v1", &[new.channel.as_bytes(), new.to.handle.as_bytes()]);
    let rule = new.hold.as_ref().map_or("-", |hold| hold.rule.as_str());
    format!(
        "{} {} {} to={} call={} policy={} rule={rule}",
        new.send_id,
        state.as_str(),
        new.channel,
        hex(&to[..8]),
        hex(&new.digest[..8]),
        new.policy
    )
}
