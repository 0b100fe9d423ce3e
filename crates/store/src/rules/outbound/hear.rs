//! What people say. It can answer, decide, pair, stop and start; there is nothing else it could do.

use super::topic::{self, Pending};
use super::{Head, consent, head, state};
use crate::rules::failure::Failure;
use crate::rules::tx::Tx;
use crate::rules::value::values;
use switchboard_core::digest::sha256;
use switchboard_core::ids::PersonNo;
use switchboard_core::outbound::limit::{Rate, Window};
use switchboard_core::outbound::reply::{CODE_LEN, Said, typed_code};
use switchboard_core::outbound::send::{ApprovalState, ConsentState, SendState, TopicState, floor_of};
use switchboard_core::outbound::write::{Heard, HeardOutcome, OutboundOutcome};
use switchboard_core::time::MINUTE_MS;

/// Wrong pairing codes that one address may try.
const WRONG_CODES: Rate = Rate { max: 5, interval_ms: 10 * MINUTE_MS };
/// Sends to one address that a STOP ends in one transaction; the gate stops the rest.
const STOP_AT_ONCE: i64 = 1000;

/// Who speaks, and what is known of them.
struct Speaker<'a> {
    heard: &'a Heard,
    state: Option<ConsentState>,
    person: Option<PersonNo>,
}

impl Speaker<'_> {
    fn may_speak(&self) -> bool {
        self.heard.verified && self.state.is_some_and(|state| state.consent().is_given())
    }

    fn by(&self) -> (&str, &str) {
        (&self.heard.from.handle, &self.heard.channel)
    }
}

/// Takes what was said.
pub(super) fn hear(tx: &mut impl Tx, heard: &Heard) -> Result<OutboundOutcome, Failure> {
    if !first_time(tx, &heard.channel, &heard.event_id)? {
        return Ok(OutboundOutcome::Heard(HeardOutcome::Repeat));
    }
    let known = consent::of(tx, &heard.channel, 1, &heard.from.handle)?;
    let speaker =
        Speaker { heard, state: known.map(|(state, _)| state), person: known.and_then(|(_, person)| person) };
    let outcome = match &heard.said {
        Said::Stop => stop(tx, &speaker)?,
        Said::Start => start(tx, &speaker)?,
        Said::Pair(code) => pair(tx, &speaker, code)?,
        Said::Nothing => HeardOutcome::Nothing,
        _ if !speaker.may_speak() => HeardOutcome::Stranger,
        Said::Decide { approve, code } => decide(tx, &speaker, *approve, code.as_deref())?,
        Said::Answer { code, text } => answer(tx, &speaker, code.as_deref(), text)?,
    };
    Ok(OutboundOutcome::Heard(outcome))
}

fn first_time(tx: &mut impl Tx, channel: &str, event_id: &str) -> Result<bool, Failure> {
    let sql = "INSERT INTO heard (channel, event_id, at_ms) VALUES (?, ?, ?) ON CONFLICT (channel, event_id) DO NOTHING";
    Ok(tx.run(sql, values![channel, event_id, tx.at_ms()])? > 0)
}

// A STOP counts even when nobody vouches for who says it: the harm of a forged one is silence, and it can be undone.
fn stop(tx: &mut impl Tx, speaker: &Speaker<'_>) -> Result<HeardOutcome, Failure> {
    let heard = speaker.heard;
    if speaker.state.is_none() && !heard.verified {
        return Ok(HeardOutcome::Stranger);
    }
    if speaker.state != Some(ConsentState::Stopped) {
        let key = (heard.channel.as_str(), 1, heard.from.handle.as_str());
        consent::put(
            tx,
            key,
            ConsentState::Stopped,
            speaker.person,
            &heard.channel,
            Some("the person said STOP"),
        )?;
    }
    let sql = "SELECT no FROM sends WHERE state < 5 AND channel = ? AND to_kind = 1 AND handle = ? ORDER BY no LIMIT ?";
    let live =
        tx.all(sql, values![heard.channel, heard.from.handle, STOP_AT_ONCE], |row| row.get::<i64>(0))?;
    for no in live {
        let Some(mut send) = head(tx, no)? else { continue };
        // Another one's end may have ended or opened it meanwhile.
        if send.state < SendState::Delivered as u8 {
            state::end(tx, &mut send, SendState::Refused, "the person said STOP")?;
        }
    }
    Ok(HeardOutcome::Stopped)
}

fn start(tx: &mut impl Tx, speaker: &Speaker<'_>) -> Result<HeardOutcome, Failure> {
    let heard = speaker.heard;
    if !heard.verified || speaker.state.is_none() {
        return Ok(HeardOutcome::Stranger);
    }
    if speaker.state == Some(ConsentState::Stopped) {
        let key = (heard.channel.as_str(), 1, heard.from.handle.as_str());
        consent::put(
            tx,
            key,
            ConsentState::Paired,
            speaker.person,
            &heard.channel,
            Some("the person said START"),
        )?;
    }
    Ok(HeardOutcome::Started)
}

fn pair(tx: &mut impl Tx, speaker: &Speaker<'_>, code: &str) -> Result<HeardOutcome, Failure> {
    let heard = speaker.heard;
    if !heard.verified {
        return Ok(HeardOutcome::Stranger);
    }
    let (channel, handle) = (heard.channel.as_str(), heard.from.handle.as_str());
    let key = format!("pair/{}/{channel}/{handle}", channel.len());
    let taken =
        tx.one("SELECT taken FROM limits WHERE key = ?", values![key], |row| row.get::<Vec<u8>>(0))?;
    let mut window = Window::decode(&taken.unwrap_or_default());
    if window.take(WRONG_CODES, tx.at_ms()).is_err() {
        return Ok(HeardOutcome::TooManyCodes);
    }
    if consent::redeem(tx, channel, handle, &sha256(code.as_bytes()))? {
        return Ok(HeardOutcome::Paired);
    }
    let sql = "INSERT INTO limits (key, taken, at_ms) VALUES (?, ?, ?)
               ON CONFLICT (key) DO UPDATE SET taken = excluded.taken, at_ms = excluded.at_ms";
    tx.run(sql, values![key, window.encode(), tx.at_ms()])?;
    Ok(HeardOutcome::BadCode)
}

// What a message refers to: the nearest of our own messages to this very address, or the one of this code.
fn referred(tx: &mut impl Tx, speaker: &Speaker<'_>, code: Option<&str>) -> Result<Option<Head>, Failure> {
    let heard = speaker.heard;
    for message_id in heard.references.iter().rev() {
        let sql = "SELECT send FROM wire_ids WHERE channel = ? AND message_id = ?";
        let found = tx.one(sql, values![heard.channel, message_id], |row| row.get::<i64>(0))?;
        if let Some(send) = found.map(|no| head(tx, no)).transpose()?.flatten()
            && is_theirs(tx, speaker, &send)?
        {
            return Ok(Some(send));
        }
    }
    let Some(code) = code.and_then(|code| typed_code(code, CODE_LEN)) else { return Ok(None) };
    let found = tx.one("SELECT no FROM sends WHERE code = ?", values![code], |row| row.get::<i64>(0))?;
    let Some(send) = found.map(|no| head(tx, no)).transpose()?.flatten() else { return Ok(None) };
    Ok(is_theirs(tx, speaker, &send)?.then_some(send))
}

// Only who was asked may answer: this address, or another one of the same person.
fn is_theirs(tx: &mut impl Tx, speaker: &Speaker<'_>, send: &Head) -> Result<bool, Failure> {
    let heard = speaker.heard;
    if send.channel == heard.channel && send.handle == heard.from.handle && send.to_kind == 1 {
        return Ok(true);
    }
    let Some(person) = speaker.person else { return Ok(false) };
    let other = consent::of(tx, &send.channel, send.to_kind, &send.handle)?;
    Ok(other.is_some_and(|(_, other)| other == Some(person)))
}

// Approvals that this address was asked for and that nobody has decided.
fn asked_approvals(tx: &mut impl Tx, speaker: &Speaker<'_>) -> Result<Vec<(i64, String)>, Failure> {
    let sql = "SELECT m.about, m.code FROM sends m JOIN approvals a ON a.send = m.about
               WHERE m.kind = 3 AND a.state = ? AND a.expires_ms > ? AND m.channel = ? AND m.to_kind = 1 AND m.handle = ?
               ORDER BY m.no LIMIT 20";
    let heard = speaker.heard;
    let pending = ApprovalState::Pending as u8;
    tx.all(sql, values![pending, tx.at_ms(), heard.channel, heard.from.handle], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })
}

fn open_topic(tx: &mut impl Tx, speaker: &Speaker<'_>) -> Result<Option<(String, String)>, Failure> {
    let floor = floor_of(speaker.person, &speaker.heard.channel, &speaker.heard.from);
    let sql = "SELECT t.topic_id, s.code FROM topics t JOIN sends s ON s.no = t.send WHERE t.floor = ? AND t.state = ?";
    tx.one(sql, values![floor, TopicState::Open as u8], |row| Ok((row.get(0)?, row.get(1)?)))
}

fn decide(
    tx: &mut impl Tx,
    speaker: &Speaker<'_>,
    approve: bool,
    code: Option<&str>,
) -> Result<HeardOutcome, Failure> {
    if let Some(send) = referred(tx, speaker, code)? {
        if let Some(approval) = approval_behind(tx, &send)? {
            return topic::decide(tx, &approval, approve, speaker.by(), &speaker.heard.sign);
        }
        if send.topic_id.is_some() {
            return answer_to(tx, speaker, &send, if approve { "approve" } else { "deny" });
        }
    }
    if code.is_some() {
        return Ok(HeardOutcome::NothingOpen);
    }
    let asked = asked_approvals(tx, speaker)?;
    let question = open_topic(tx, speaker)?;
    match (asked.as_slice(), question) {
        ([], None) => Ok(HeardOutcome::NothingOpen),
        ([], Some((topic, _))) => answer_topic(tx, speaker, &topic, if approve { "approve" } else { "deny" }),
        ([(held, _)], None) => match topic::approval_of(tx, *held)? {
            Some(approval) => topic::decide(tx, &approval, approve, speaker.by(), &speaker.heard.sign),
            None => Ok(HeardOutcome::NothingOpen),
        },
        (asked, question) => Ok(ambiguous(asked, question)),
    }
}

// The approval that a message of ours asked for.
fn approval_behind(tx: &mut impl Tx, send: &Head) -> Result<Option<Pending>, Failure> {
    match send.about {
        Some(held) => topic::approval_of(tx, held),
        None => Ok(None),
    }
}

fn ambiguous(asked: &[(i64, String)], question: Option<(String, String)>) -> HeardOutcome {
    let approvals = asked.iter().map(|(_, code)| (code.clone(), "approval"));
    HeardOutcome::Ambiguous { codes: approvals.chain(question.map(|(_, code)| (code, "question"))).collect() }
}

fn answer(
    tx: &mut impl Tx,
    speaker: &Speaker<'_>,
    code: Option<&str>,
    text: &str,
) -> Result<HeardOutcome, Failure> {
    if let Some(send) = referred(tx, speaker, code)? {
        return answer_to(tx, speaker, &send, text);
    }
    if code.is_some() {
        return Ok(HeardOutcome::NothingOpen);
    }
    let asked = asked_approvals(tx, speaker)?;
    match (asked.as_slice(), open_topic(tx, speaker)?) {
        ([], Some((topic, _))) => answer_topic(tx, speaker, &topic, text),
        ([], None) => Ok(HeardOutcome::NothingOpen),
        (asked, question) => Ok(ambiguous(asked, question)),
    }
}

fn answer_to(
    tx: &mut impl Tx,
    speaker: &Speaker<'_>,
    send: &Head,
    text: &str,
) -> Result<HeardOutcome, Failure> {
    match &send.topic_id {
        Some(topic) => answer_topic(tx, speaker, &topic.clone(), text),
        // A notice asks nothing, and an approval is decided by a word.
        None => Ok(HeardOutcome::NothingOpen),
    }
}

fn answer_topic(
    tx: &mut impl Tx,
    speaker: &Speaker<'_>,
    topic_id: &str,
    text: &str,
) -> Result<HeardOutcome, Failure> {
    match topic::topic_row(tx, topic_id)? {
        Some(topic) => topic::answer(tx, &topic, speaker.by(), text),
        None => Ok(HeardOutcome::NothingOpen),
    }
}

/// A message of ours has come back.
pub(super) fn bounced(
    tx: &mut impl Tx,
    (channel, event_id): (&str, &str),
    message_id: &str,
    permanent: bool,
    reason: &str,
) -> Result<OutboundOutcome, Failure> {
    if !first_time(tx, channel, event_id)? {
        return Ok(OutboundOutcome::Heard(HeardOutcome::Repeat));
    }
    let sql = "SELECT send FROM wire_ids WHERE channel = ? AND message_id = ?";
    let found = tx.one(sql, values![channel, message_id], |row| row.get::<i64>(0))?;
    let Some(mut send) = found.map(|no| head(tx, no)).transpose()?.flatten() else {
        return Ok(OutboundOutcome::Heard(HeardOutcome::Bounced(None)));
    };
    let reason = format!("it came back: {reason}");
    if permanent {
        let person = consent::of(tx, channel, send.to_kind, &send.handle)?.and_then(|(_, person)| person);
        let key = (channel, send.to_kind, send.handle.as_str());
        consent::put(tx, key, ConsentState::Suppressed, person, "hub", Some(&reason))?;
    }
    let now = super::rows::send_state(send.state)?;
    if matches!(now, SendState::Sending | SendState::Open | SendState::Delivered | SendState::Unknown) {
        state::end(tx, &mut send, SendState::Dead, &reason)?;
    }
    let touched = send.touched(super::rows::send_state(send.state)?);
    Ok(OutboundOutcome::Heard(HeardOutcome::Bounced(Some(touched))))
}
