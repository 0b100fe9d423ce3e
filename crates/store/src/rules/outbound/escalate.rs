//! Chains: whom a question goes to when nobody answers it. A chain is stored whole with its question; here its rungs get their times,
//! become messages when they have come, and end with the question.

use super::rows::{self, RUNG_COLUMNS, content_json, kind_number, rung, rung_columns, send, send_columns};
use super::{Head, amend, head, lane, state, submit};
use crate::rules::failure::{Failure, Stop};
use crate::rules::tx::Tx;
use crate::rules::value::{Row, values};
use switchboard_core::digest::framed;
use switchboard_core::outbound::escalate::{NewAsk, NewRung, RungRow, RungState};
use switchboard_core::outbound::gate::Consent;
use switchboard_core::outbound::send::{SendRow, SendState, TopicState};
use switchboard_core::outbound::write::{ConsentRule, NewSend, OutboundOutcome};
use switchboard_core::port::channel::{Address, MessageKind, Part};
use switchboard_core::time::WallMs;
use switchboard_core::write::Refusal;

/// The rungs of a topic.
pub(super) const OF_TOPIC: &str =
    concat!("SELECT ", rung_columns!(), " FROM rungs r WHERE r.topic_id = ? ORDER BY r.rung");
const CLIMBING: &str = concat!(
    "SELECT ",
    rung_columns!(),
    ", t.send, r.send_id, r.code, r.to_kind, r.handle, r.consent, r.amends, r.params, r.parts, s.urgent
     FROM rungs r JOIN topics t ON t.topic_id = r.topic_id JOIN sends s ON s.no = t.send
     WHERE r.topic_id = ? AND r.rung = ? AND r.state = 1 AND r.next_ms <= ? AND t.state = 2"
);
const ASKER: &str = concat!("SELECT ", send_columns!(), " FROM sends s WHERE s.no = ?");
// Said this way, SQLite begins with the questions that are open.
pub(super) const ASKED: &str = "SELECT m.asks, m.code FROM topics t CROSS JOIN sends m
    WHERE t.state IN (1, 2) AND t.state < 3 AND m.asks = t.topic_id AND m.asks IS NOT NULL AND m.channel = ? AND m.to_kind = 1 AND m.handle = ?
      AND m.state IN (3, 5, 10) ORDER BY m.no LIMIT 20";

/// Whether a short code or an id of a new chain is taken.
pub(super) fn names_taken(tx: &mut impl Tx, new: &NewSend) -> Result<bool, Failure> {
    let asks = || new.chain.iter().flat_map(|chain| &chain.rungs).filter_map(|rung| rung.ask.as_ref());
    let mut own = vec![&new.code];
    for ask in asks() {
        if own.contains(&&ask.code) {
            return Ok(true);
        }
        own.push(&ask.code);
        let sql = "SELECT (SELECT count(*) FROM sends WHERE code = ? OR send_id = ?) + (SELECT count(*) FROM rungs WHERE code = ?)";
        let taken = tx.one(sql, values![ask.code, ask.send_id, ask.code], |row| row.get::<i64>(0))?;
        if taken != Some(0) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The chain of a new question; `opened_ms` when it has the floor at once.
pub(super) fn insert(tx: &mut impl Tx, new: &NewSend, opened_ms: Option<WallMs>) -> Result<(), Failure> {
    let (Some(topic), Some(chain)) = (&new.topic_id, &new.chain) else { return Ok(()) };
    let sql = "UPDATE topics SET escalated_by = ?, silence = ? WHERE topic_id = ?";
    tx.later(sql, values![chain.rule, chain.then.map(|then| then as u8), topic])?;
    for (number, rung) in (1u32..).zip(&chain.rungs) {
        let soonest_ms = tx.at_ms().saturating_add(rung.after_ms);
        let late = new.deadline_ms.is_some_and(|deadline| deadline <= soonest_ms);
        let (state, reason) = if late {
            (RungState::Skipped, Some("its time lies behind the question's deadline"))
        } else {
            (RungState::Waiting, None)
        };
        let next_ms = opened_ms.filter(|_| !late).map(|opened| opened.saturating_add(rung.after_ms));
        put_new(tx, topic, (number, rung), (state, reason, next_ms))?;
    }
    let then = chain.then.map_or("-", |then| then.as_str());
    let subject =
        format!("{topic} {} rungs={} then={then} rule={}", new.send_id, chain.rungs.len(), chain.rule);
    tx.admit("outbound.chain", Some(new.instance), subject);
    Ok(())
}

fn put_new(
    tx: &mut impl Tx,
    topic: &str,
    (number, rung): (u32, &NewRung),
    (state, reason, next_ms): (RungState, Option<&str>, Option<WallMs>),
) -> Result<(), Failure> {
    let sql = "INSERT INTO rungs (topic_id, rung, after_ms, state, reason, next_ms, send_id, code, channel, to_kind, handle, to_text,
                   consent, amends, params, parts) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    let ask = rung.ask.as_ref();
    // What is never sent is not kept.
    let kept = ask.filter(|_| state == RungState::Waiting);
    let parts = kept.map(|ask| parts_json(&ask.parts)).transpose()?;
    tx.later(
        sql,
        values![
            topic,
            number,
            rung.after_ms,
            state as u8,
            reason,
            next_ms,
            ask.map(|ask| ask.send_id.as_str()),
            kept.map(|ask| ask.code.as_str()),
            ask.map(|ask| ask.channel.as_str()),
            ask.map(|ask| kind_number(ask.to.kind)),
            ask.map(|ask| ask.to.handle.as_str()),
            ask.map(|ask| ask.to_text.as_str()),
            ask.map(|ask| consent_number(&ask.consent)),
            ask.map(|ask| ask.amends),
            kept.map(|ask| ask.params.as_str()),
            parts
        ],
    )
}

fn parts_json(parts: &[Part]) -> Result<String, Failure> {
    let parts: Vec<_> = parts.iter().map(content_json).collect::<Result<_, _>>()?;
    Ok(format!("[{}]", parts.join(",")))
}

fn consent_number(rule: &ConsentRule) -> u8 {
    match rule {
        ConsentRule::Listed => 1,
        ConsentRule::Person => 2,
        ConsentRule::Open => 3,
    }
}

fn consent_rule(number: u8) -> Result<ConsentRule, Failure> {
    match number {
        1 => Ok(ConsentRule::Listed),
        2 => Ok(ConsentRule::Person),
        3 => Ok(ConsentRule::Open),
        _ => Err(Failure::Inconsistent("an unknown rule of consent".into())),
    }
}

/// A question has got the floor: from here the times of its rungs count. What had its time keeps it.
pub(super) fn opened(tx: &mut impl Tx, topic: &str) -> Result<(), Failure> {
    let sql = "UPDATE rungs SET next_ms = after_ms + ? WHERE topic_id = ? AND state = 1 AND next_ms IS NULL";
    tx.later(sql, values![tx.at_ms(), topic])
}

/// A question with a chain has ended: nobody else is asked, and who was asked sees it.
pub(super) fn ended(tx: &mut impl Tx, topic: &str, over: SendState) -> Result<(), Failure> {
    tx.later("UPDATE rungs SET next_ms = NULL WHERE topic_id = ? AND next_ms IS NOT NULL", values![topic])?;
    amend::ended_asking(tx, topic)?;
    let sql = "SELECT no FROM sends WHERE asks = ? AND asks IS NOT NULL AND state < 5 ORDER BY no";
    for no in tx.all(sql, values![topic], |row| row.get::<i64>(0))? {
        let Some(mut send) = head(tx, no)? else { continue };
        let (to, reason) = match over {
            SendState::Expired => (SendState::Expired, "its deadline passed"),
            SendState::Answered => (SendState::Refused, "the question was answered first"),
            _ => (SendState::Refused, "the question has ended"),
        };
        state::end(tx, &mut send, to, reason)?;
    }
    if over == SendState::Expired { silent(tx, topic) } else { Ok(()) }
}

// What it means that nobody has answered stands in the log.
fn silent(tx: &mut impl Tx, topic: &str) -> Result<(), Failure> {
    let sql = "SELECT silence, escalated_by FROM topics WHERE topic_id = ? AND silence IS NOT NULL";
    let said = tx.one(sql, values![topic], |row| Ok((rows::then(row, 0)?, row.get::<Option<String>>(1)?)))?;
    if let Some((Some(then), rule)) = said {
        let subject = format!("{topic} then={} rule={}", then.as_str(), rule.unwrap_or_default());
        tx.admit("outbound.then", None, subject);
    }
    Ok(())
}

/// The topic of the question that a send asks once more is over, or is not there.
pub(super) fn is_over(tx: &mut impl Tx, send: &Head) -> Result<bool, Failure> {
    let Some(topic) = &send.asks else { return Ok(false) };
    let sql = "SELECT 1 FROM topics WHERE topic_id = ? AND state < 3";
    Ok(tx.one(sql, values![topic], |_| Ok(()))?.is_none())
}

/// Questions that are open and were put to this address by a rung, with the short codes of those messages.
pub(super) fn asked(tx: &mut impl Tx, channel: &str, handle: &str) -> Result<Vec<(String, String)>, Failure> {
    tx.all(ASKED, values![channel, handle], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// A question whose own message cannot be delivered goes on when others are asked who may still answer: it gives the floor free, and
/// the next rung comes at once. Whether it does.
pub(super) fn takes_over(
    tx: &mut impl Tx,
    send: &mut Head,
    to: SendState,
    reason: &str,
) -> Result<bool, Failure> {
    let fails = matches!(to, SendState::Dead | SendState::Refused) && send.state != SendState::Held as u8;
    let Some(topic) = send.topic_id.clone().filter(|_| fails) else { return Ok(false) };
    let sql = "SELECT t.floor FROM topics t WHERE t.topic_id = ? AND t.escalated_by IS NOT NULL AND t.state < 3
        AND (EXISTS (SELECT 1 FROM rungs r WHERE r.topic_id = t.topic_id AND r.state = 1)
             OR EXISTS (SELECT 1 FROM sends m WHERE m.asks = t.topic_id AND m.asks IS NOT NULL AND m.state IN (1, 2, 3, 5, 10)))";
    let Some(floor) = tx.one(sql, values![topic], |row| row.get::<String>(0))? else { return Ok(false) };
    let sql = "UPDATE parts SET state = 7 WHERE send = ? AND state IN (1, 2, 8)";
    tx.later(sql, values![send.no])?;
    state::set(tx, send, to, Some(reason))?;
    lane::promote(tx, &lane::of(send), None)?;
    let sql = "UPDATE topics SET state = ?, floor = ?, opened_ms = coalesce(opened_ms, ?) WHERE topic_id = ?";
    tx.later(sql, values![TopicState::Open as u8, format!("topic/{topic}"), tx.at_ms(), topic])?;
    opened(tx, &topic)?;
    let sql = "UPDATE rungs SET next_ms = ? WHERE topic_id = ?
               AND rung = (SELECT min(w.rung) FROM rungs w WHERE w.topic_id = ? AND w.state = 1)";
    tx.later(sql, values![tx.at_ms(), topic, topic])?;
    tx.admit("outbound.escalated", None, format!("{topic} {} {}", send.send_id, to.as_str()));
    state::next_of(tx, &floor)?;
    Ok(true)
}

/// A rung that is to be climbed.
struct Climbing {
    rung: RungRow,
    /// The send that asks the question.
    asker: i64,
    /// Whether quiet hours hold it back as little as the question.
    urgent: bool,
    /// `None`: a task is proposed.
    ask: Option<NewAsk>,
}

fn climbing(row: &dyn Row) -> Result<Climbing, Failure> {
    let broken = || Failure::Inconsistent("a rung without its message".into());
    let found = rung(row)?;
    let ask = match (&found.to, row.get::<Option<String>>(RUNG_COLUMNS + 1)?) {
        (Some((channel, to_text)), Some(send_id)) => Some(NewAsk {
            send_id,
            code: row.get::<Option<_>>(RUNG_COLUMNS + 2)?.ok_or_else(broken)?,
            channel: channel.clone(),
            to: Address {
                kind: rows::address_kind(row.get(RUNG_COLUMNS + 3)?)?,
                handle: row.get(RUNG_COLUMNS + 4)?,
            },
            to_text: to_text.clone(),
            consent: consent_rule(row.get(RUNG_COLUMNS + 5)?)?,
            amends: row.get::<u8>(RUNG_COLUMNS + 6)? > 0,
            params: row.get::<Option<_>>(RUNG_COLUMNS + 7)?.ok_or_else(broken)?,
            parts: serde_json::from_str(&row.get::<Option<String>>(RUNG_COLUMNS + 8)?.ok_or_else(broken)?)
                .map_err(|_| broken())?,
        }),
        _ => None,
    };
    let urgent = row.get::<u8>(RUNG_COLUMNS + 9)? == 1;
    Ok(Climbing { rung: found, asker: row.get(RUNG_COLUMNS)?, urgent, ask })
}

/// Climbs a rung whose time has come.
pub(super) fn climb(
    tx: &mut impl Tx,
    (topic, number): (&str, u32),
    skip: Option<&str>,
) -> Result<OutboundOutcome, Stop> {
    let found = tx.one(CLIMBING, values![topic, number, tx.at_ms()], climbing)?;
    let Some(Climbing { rung, asker, urgent, ask }) = found else {
        return Ok(OutboundOutcome::Climbed(None));
    };
    // Its short code becomes the message's.
    put(tx, &rung, RungState::Skipped, skip)?;
    let (state, reason) = match (skip, ask) {
        (Some(why), _) => (RungState::Skipped, Some(why)),
        (None, None) => (RungState::Proposed, None),
        (None, Some(ask)) => match send_ask(tx, &rung, (asker, urgent), ask)? {
            Some(why) => (RungState::Skipped, Some(why)),
            None => (RungState::Asked, None),
        },
    };
    put(tx, &rung, state, reason)?;
    tx.admit("outbound.climb", None, format!("{topic} {number} {}", state.as_str()));
    let changed = tx.all(OF_TOPIC, values![topic], rows::rung)?;
    Ok(OutboundOutcome::Climbed(changed.into_iter().find(|rung| rung.rung == number)))
}

fn put(tx: &mut impl Tx, rung: &RungRow, state: RungState, reason: Option<&str>) -> Result<(), Failure> {
    let sql =
        "UPDATE rungs SET state = ?, reason = ?, next_ms = NULL, code = NULL, params = NULL, parts = NULL
               WHERE topic_id = ? AND rung = ?";
    tx.later(sql, values![state as u8, reason, rung.topic_id, rung.rung])
}

// The message of a rung takes the way of every other; why it does not, if something is in its way.
fn send_ask(
    tx: &mut impl Tx,
    rung: &RungRow,
    (asker, urgent): (i64, bool),
    ask: NewAsk,
) -> Result<Option<&'static str>, Stop> {
    let asker = tx.one(ASKER, values![asker], send)?;
    let asker = asker.ok_or_else(|| Failure::Inconsistent("a topic without its send".into()))?;
    let (rule, send_id) = (asker.rule.clone(), ask.send_id.clone());
    let new = NewSend { urgent, ..message(rung, asker, ask) };
    match submit::submit_for(tx, &new, Some(&rung.topic_id)) {
        Ok(_) => {
            // What was approved was approved with its chain.
            if let Some(rule) = rule {
                tx.later("UPDATE sends SET rule = ? WHERE send_id = ?", values![rule, send_id])?;
            }
            Ok(None)
        }
        Err(Stop::Refused(refusal)) => Ok(Some(sentence(&refusal))),
        Err(other) => Err(other),
    }
}

fn message(rung: &RungRow, asker: SendRow, ask: NewAsk) -> NewSend {
    NewSend {
        send_id: ask.send_id,
        instance: asker.instance,
        agent: asker.agent,
        key: None,
        digest: framed("switchboard.rung.v1", &[rung.topic_id.as_bytes(), &rung.rung.to_be_bytes()]),
        channel: ask.channel,
        to: ask.to,
        to_text: ask.to_text,
        kind: MessageKind::Question,
        body: asker.body,
        deadline_ms: asker.deadline_ms,
        topic_id: None,
        code: ask.code,
        consent: ask.consent,
        policy: asker.policy,
        params: ask.params,
        parts: ask.parts,
        limits: Vec::new(),
        hold: None,
        about: None,
        amends: ask.amends,
        urgent: false,
        chain: None,
    }
}

fn sentence(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::NoConsent(Consent::Stopped) => "the person said STOP",
        Refusal::NoConsent(Consent::Suppressed) => "the address does not exist any more",
        Refusal::NoConsent(_) => "nobody has allowed that this address is written to",
        Refusal::NotYours => "the asking agent's access was taken back",
        Refusal::DeadlinePast => "the question's time was over",
        _ => "it was not accepted",
    }
}
