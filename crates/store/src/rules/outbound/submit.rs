//! A call is accepted: consent, limits and the key are decided here, where nothing can come in between.

use super::rows::{SEND_COLUMNS, content_json, kind_number, message_number, send, send_columns};
use super::state;
use crate::rules::failure::{Failure, Stop};
use crate::rules::tx::Tx;
use crate::rules::value::values;
use switchboard_core::digest::hex;
use switchboard_core::ids::PersonNo;
use switchboard_core::outbound::gate::Consent;
use switchboard_core::outbound::limit::Window;
use switchboard_core::outbound::send::{ApprovalState, PartState, SendState, TopicState, floor_of, lane_of};
use switchboard_core::outbound::write::{Carried, ConsentRule, LimitTake, NewSend, OutboundOutcome};
use switchboard_core::port::channel::AddressKind;
use switchboard_core::time::WallMs;
use switchboard_core::write::Refusal;

/// Limits that are read in one statement; more take another one.
const LIMITS_AT_ONCE: usize = 4;

pub(super) fn submit(tx: &mut impl Tx, new: &NewSend) -> Result<OutboundOutcome, Stop> {
    submit_for(tx, new, None)
}

/// The same; `asks`: the topic that it asks once more.
pub(super) fn submit_for(
    tx: &mut impl Tx,
    new: &NewSend,
    asks: Option<&str>,
) -> Result<OutboundOutcome, Stop> {
    if tx.state().live(new.instance).is_none() {
        return Err(Refusal::NotYours.into());
    }
    let around = around(tx, new)?;
    if let Some(first) = around.first {
        return known(tx, new, first);
    }
    if new.deadline_ms.is_some_and(|deadline| deadline <= tx.at_ms()) {
        return Err(Refusal::DeadlinePast.into());
    }
    let (consent, person) = consent(tx, new, around.consent)?;
    if !consent.is_given() {
        return Err(Refusal::NoConsent(consent).into());
    }
    let taken = take(tx, &new.limits)?;
    if around.taken_names > 0 || super::escalate::names_taken(tx, new)? {
        return Err(Refusal::NameTaken.into());
    }
    let about = match &new.about {
        Some(about) => {
            let held = super::head_by_id(tx, about)?;
            Some(held.ok_or(Stop::Refused(Refusal::NotFound))?.no)
        }
        None => None,
    };
    // What stands in a shared channel takes nobody's floor.
    let floor = match (new.to.kind, &new.topic_id) {
        (AddressKind::Channel, Some(topic)) => format!("topic/{topic}"),
        _ => floor_of(person, &new.channel, &new.to),
    };
    if new.topic_id.is_some() {
        may_ask(tx, new)?;
    }
    let to = (kind_number(new.to.kind), new.to.handle.as_str());
    let quiet_ms = match person {
        Some(_) if new.hold.is_none() => super::quiet::until(tx, &new.channel, to, new.urgent)?,
        _ => None,
    };
    let state = if new.hold.is_some() {
        SendState::Held
    } else if quiet_ms.is_some() || (new.topic_id.is_some() && state::is_taken(tx, &floor)?) {
        SendState::Queued
    } else {
        SendState::Sending
    };
    for (key, window, over_ms) in taken {
        put_limit(tx, &key, &window, over_ms)?;
    }
    let no = around.last_no + 1;
    insert(tx, new, (no, state), (about, asks))?;
    state::count(tx, None, state)?;
    insert_parts(tx, new, (no, state), &around.lane)?;
    hang_on(tx, new, (no, state), &floor)?;
    if let Some(until_ms) = quiet_ms {
        super::quiet::keep(tx, no, until_ms)?;
    }
    tx.admit("outbound.accepted", Some(new.instance), subject(new, state));
    Ok(OutboundOutcome::Accepted { send: no, state })
}

/// Questions of one instance that may be open or queued at a time: a person has one floor, and nobody may fill the way to it.
const QUESTIONS_MAX: i64 = 200;

fn may_ask(tx: &mut impl Tx, new: &NewSend) -> Result<(), Stop> {
    let sql = "SELECT count(*) FROM topics t JOIN sends s ON s.no = t.send WHERE t.state > 0 AND t.state < 3 AND s.instance = ?";
    let open = tx.one(sql, values![new.instance.0], |row| row.get::<i64>(0))?.unwrap_or(0);
    if open < QUESTIONS_MAX {
        return Ok(());
    }
    Err(Refusal::Full { what: "open_questions", limit: QUESTIONS_MAX.cast_unsigned() }.into())
}

// What a new send meets, read in one statement.
struct Around {
    last_no: i64,
    taken_names: i64,
    first: Option<i64>,
    consent: Option<(u8, Option<u32>)>,
    lane: Lane,
}

struct Lane {
    name: String,
    busy: bool,
    next_ms: WallMs,
}

pub(super) const AROUND: &str = "SELECT (SELECT max(no) FROM sends), (SELECT count(*) FROM sends WHERE code = ? OR send_id = ?) + (SELECT count(*) FROM rungs WHERE code = ?),
        (SELECT no FROM sends WHERE instance = ? AND agent = ? AND key = ?),
        (SELECT state FROM consents WHERE channel = ? AND to_kind = ? AND handle = ?),
        (SELECT person FROM consents WHERE channel = ? AND to_kind = ? AND handle = ?),
        (SELECT count(*) FROM parts WHERE lane = ? AND state > 1 AND state < 4), (SELECT next_ms FROM lanes WHERE lane = ?)";

fn around(tx: &mut impl Tx, new: &NewSend) -> Result<Around, Failure> {
    let (kind, name) = (kind_number(new.to.kind), lane_of(&new.channel, &new.to));
    let to = (&new.channel, kind, &new.to.handle);
    let params = values![
        new.code,
        new.send_id,
        new.code,
        new.instance.0,
        new.agent,
        new.key,
        to.0,
        to.1,
        to.2,
        to.0,
        to.1,
        to.2,
        name,
        name
    ];
    let found = tx.one(AROUND, params, |row| {
        let consent = row.get::<Option<u8>>(3)?;
        let lane = (row.get::<i64>(5)? > 0, row.get::<Option<WallMs>>(6)?.unwrap_or(0));
        Ok(Around {
            last_no: row.get::<Option<i64>>(0)?.unwrap_or(0),
            taken_names: row.get(1)?,
            first: row.get(2)?,
            consent: consent.map(|state| Ok::<_, Failure>((state, row.get(4)?))).transpose()?,
            lane: Lane { name: String::new(), busy: lane.0, next_ms: lane.1 },
        })
    })?;
    let mut found = found.ok_or_else(|| Failure::Inconsistent("a row that is always there".into()))?;
    found.lane.name = name;
    Ok(found)
}

// What the key was used for.
fn known(tx: &mut impl Tx, new: &NewSend, no: i64) -> Result<OutboundOutcome, Stop> {
    let sql = concat!(
        "SELECT ",
        send_columns!(),
        ", s.digest, (SELECT p.message_id FROM parts p WHERE p.send = s.no AND p.part = 1),
         (SELECT a.approval_id FROM approvals a WHERE a.send = s.no) FROM sends s WHERE s.no = ?"
    );
    let first = tx.one(sql, values![no], |row| {
        let carried = Carried {
            message_id: row.get(SEND_COLUMNS + 1)?,
            approval_id: row.get(SEND_COLUMNS + 2)?,
            ..Carried::default()
        };
        Ok((send(row)?, row.get::<[u8; 32]>(SEND_COLUMNS)?, carried))
    })?;
    match crate::rules::tx::found(first)? {
        (_, digest, _) if digest != new.digest => Err(Refusal::IdReused.into()),
        (first, _, mut carried) => {
            if let Some(topic) = &first.topic_id {
                carried.rungs = tx.all(super::escalate::OF_TOPIC, values![topic], super::rows::rung)?;
                let then = "SELECT silence FROM topics WHERE topic_id = ?";
                carried.then = tx.one(then, values![topic], |row| super::rows::then(row, 0))?.flatten();
            }
            Ok(OutboundOutcome::Repeat(Box::new(first), carried))
        }
    }
}

/// Whether the address may be written to, and whose it is.
fn consent(
    tx: &mut impl Tx,
    new: &NewSend,
    known: Option<(u8, Option<u32>)>,
) -> Result<(Consent, Option<PersonNo>), Failure> {
    if new.consent == ConsentRule::Person {
        let person = super::consent::person_named(tx, &new.to.handle)?;
        return Ok((if person.is_some() { Consent::Given } else { Consent::Missing }, person));
    }
    let known = match known {
        Some((state, person)) => Some((super::rows::consent_state(state)?, person.map(PersonNo))),
        None => None,
    };
    Ok(match (known, &new.consent) {
        (Some((state, person)), ConsentRule::Listed) => (state.consent(), person),
        (None, ConsentRule::Listed) => (Consent::Missing, None),
        (Some((state, person)), _) if matches!(state.consent(), Consent::Stopped | Consent::Suppressed) => {
            (state.consent(), person)
        }
        (known, _) => (Consent::NotNeeded, known.and_then(|(_, person)| person)),
    })
}

/// Takes one call from each limit; the rows to write when all else is well.
fn take(tx: &mut impl Tx, limits: &[LimitTake]) -> Result<Vec<(String, Window, WallMs)>, Stop> {
    let sql = "SELECT key, taken FROM limits WHERE key IN (?, ?, ?, ?)";
    let mut out = Vec::with_capacity(limits.len());
    for some in limits.chunks(LIMITS_AT_ONCE) {
        let key = |at: usize| some.get(at).map(|limit| limit.key.as_str());
        let rows = tx.all(sql, values![key(0), key(1), key(2), key(3)], |row| {
            Ok((row.get::<String>(0)?, row.get::<Vec<u8>>(1)?))
        })?;
        for limit in some {
            let taken = rows.iter().find(|(key, _)| *key == limit.key);
            let mut window = Window::decode(taken.map_or(&[][..], |(_, taken)| taken));
            window.take(limit.rate, tx.at_ms()).map_err(|retry_after_ms| {
                Stop::Refused(Refusal::LimitReached { rule: limit.rule.clone(), retry_after_ms })
            })?;
            let over_ms = window.over_ms(limit.rate);
            out.push((limit.key.clone(), window, over_ms));
        }
    }
    Ok(out)
}

/// Writes what was taken from a limit; retention removes it from `over_ms` on.
pub(super) fn put_limit(
    tx: &mut impl Tx,
    key: &str,
    window: &Window,
    over_ms: WallMs,
) -> Result<(), Failure> {
    let sql = "INSERT INTO limits (key, taken, over_ms) VALUES (?, ?, ?)
               ON CONFLICT (key) DO UPDATE SET taken = excluded.taken, over_ms = excluded.over_ms";
    tx.later(sql, values![key, window.encode(), over_ms])
}

fn insert(
    tx: &mut impl Tx,
    new: &NewSend,
    (no, state): (i64, SendState),
    (about, asks): (Option<i64>, Option<&str>),
) -> Result<(), Failure> {
    let sql = "INSERT INTO sends (no, send_id, at_ms, instance, agent, key, digest, channel, to_kind, handle, to_text, kind, body,
                   deadline_ms, topic_id, code, state, policy, rule, params, about, updated_ms, urgent, asks)
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    let rule = new.hold.as_ref().map(|hold| hold.rule.as_str());
    let (kind, message) = (kind_number(new.to.kind), message_number(new.kind));
    tx.later(
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
            tx.at_ms(),
            u8::from(new.urgent),
            asks
        ],
    )
}

fn insert_parts(
    tx: &mut impl Tx,
    new: &NewSend,
    (no, state): (i64, SendState),
    lane: &Lane,
) -> Result<(), Failure> {
    let sql = "INSERT INTO parts (send, part, channel, lane, state, attempt, fails, next_ms, content)
               VALUES (?, ?, ?, ?, ?, 0, 0, ?, ?)";
    let next_ms = tx.at_ms().max(lane.next_ms);
    for (part, content) in (1u32..).zip(&new.parts) {
        // Whatever waits in a lane waits behind something that is due or on its way.
        let part_state = match state {
            SendState::Sending if !lane.busy && part == 1 => PartState::Due,
            SendState::Sending => PartState::Waiting,
            _ => PartState::Parked,
        };
        let content = content_json(content)?;
        tx.later(sql, values![no, part, new.channel, lane.name, part_state as u8, next_ms, content])?;
    }
    Ok(())
}

// Its topic, its approval, and that its message can be changed.
fn hang_on(
    tx: &mut impl Tx,
    new: &NewSend,
    (no, state): (i64, SendState),
    floor: &str,
) -> Result<(), Failure> {
    if let Some(topic) = &new.topic_id {
        let open = state == SendState::Sending;
        let (topic_state, opened) =
            if open { (TopicState::Open, Some(tx.at_ms())) } else { (TopicState::Queued, None) };
        let sql = "INSERT INTO topics (topic_id, send, floor, state, deadline_ms, opened_ms) VALUES (?, ?, ?, ?, ?, ?)";
        tx.later(sql, values![topic, no, floor, topic_state as u8, new.deadline_ms, opened])?;
        super::escalate::insert(tx, new, opened)?;
    }
    if let Some(hold) = &new.hold {
        let sql = "INSERT INTO approvals (approval_id, send, rule, state, expires_ms) VALUES (?, ?, ?, ?, ?)";
        let pending = ApprovalState::Pending as u8;
        tx.later(sql, values![hold.approval_id, no, hold.rule, pending, hold.expires_ms])?;
    }
    super::amend::remember(tx, new, no)
}

// What the log says of it: no body, and of the address only a digest.
fn subject(new: &NewSend, state: SendState) -> String {
    let rule = new.hold.as_ref().map_or("-", |hold| hold.rule.as_str());
    format!(
        "{} {} {} to={} call={} policy={} rule={rule}",
        new.send_id,
        state.as_str(),
        new.channel,
        super::consent::shown(&new.channel, &new.to.handle),
        hex(&new.digest[..8]),
        new.policy
    )
}
