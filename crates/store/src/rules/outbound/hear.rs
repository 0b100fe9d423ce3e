//! What people say. It can answer, decide, pair, stop and start; there is nothing else it could do.

use super::topic::{self, Pending, Who};
use super::{Head, consent, escalate, head, head_columns, head_of, state};
use crate::rules::failure::{Failure, Stop};
use crate::rules::tx::{Tx, found};
use crate::rules::value::values;
use switchboard_core::digest::sha256;
use switchboard_core::ids::PersonNo;
use switchboard_core::outbound::limit::{Rate, Window};
use switchboard_core::outbound::reply::{CODE_LEN, Said, typed_code};
use switchboard_core::outbound::send::{ConsentState, SendState, choices, floor_of};
use switchboard_core::outbound::write::{Heard, HeardOutcome, OutboundOutcome, SignDecision};
use switchboard_core::time::MINUTE_MS;

/// Wrong pairing codes that one address may try.
const WRONG_CODES: Rate = Rate { max: 5, interval_ms: 10 * MINUTE_MS };
/// Sends to one address that a STOP ends in one transaction; the gate stops the rest.
const STOP_AT_ONCE: i64 = 1000;

/// References of one message that are looked at, the nearest first.
const REFERENCES_MAX: usize = 50;

pub(super) const LIVE_TO: &str = "SELECT no FROM sends
    WHERE state IN (1, 2, 3, 4) AND state < 5 AND channel = ? AND to_kind = 1 AND handle = ? ORDER BY no LIMIT ?";
// Said this way, SQLite begins with the approvals that wait.
pub(super) const ASKED: &str = "SELECT m.about, m.code FROM approvals a CROSS JOIN sends m
    WHERE m.about = a.send AND a.state = 1 AND a.expires_ms > ? AND m.about IS NOT NULL AND m.kind = 3 AND m.channel = ? AND m.to_kind = 1 AND m.handle = ?
    ORDER BY m.no LIMIT 20";
pub(super) const OPEN: &str = "SELECT t.topic_id, s.code FROM topics t JOIN sends s ON s.no = t.send
    WHERE t.floor IN (?, ?) AND t.state = 2 AND t.state < 3 ORDER BY t.send";

/// Who speaks, and what is known of them.
struct Speaker<'a> {
    heard: &'a Heard,
    known: Option<consent::Known>,
}

impl Speaker<'_> {
    fn may_speak(&self) -> bool {
        self.heard.verified && self.known.is_some_and(|known| known.state.consent().is_given())
    }

    fn person(&self) -> Option<PersonNo> {
        self.known.and_then(|known| known.person)
    }

    fn who(&self) -> Who<'_> {
        let channel = &self.heard.channel;
        Who { by: &self.heard.from.handle, via: channel, address_on: Some(channel) }
    }
}

/// Takes what was said.
pub(super) fn hear(tx: &mut impl Tx, heard: &Heard) -> Result<OutboundOutcome, Failure> {
    if !first_time(tx, &heard.channel, &heard.event_id)? {
        return Ok(OutboundOutcome::Heard(HeardOutcome::Repeat));
    }
    let known = consent::of(tx, &heard.channel, 1, &heard.from.handle)?;
    let speaker = Speaker { heard, known };
    let outcome = match &heard.said {
        Said::Stop => stop(tx, &speaker)?,
        Said::Start => start(tx, &speaker)?,
        Said::Pair(code) => pair(tx, &speaker, code)?,
        Said::Nothing => HeardOutcome::Nothing,
        Said::Decide { code, .. } if !speaker.may_speak() => stranger_decides(tx, &speaker, code.as_deref())?,
        _ if !speaker.may_speak() => HeardOutcome::Stranger,
        Said::Decide { approve, code } => decide(tx, &speaker, *approve, code.as_deref())?,
        Said::Choose { code, number } => choose(tx, &speaker, code, *number)?,
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
    if speaker.known.is_none() && !heard.verified {
        return Ok(HeardOutcome::Stranger);
    }
    silence(tx, (&heard.channel, &heard.from.handle), speaker.known, heard)?;
    for (channel, handle) in elsewhere(tx, speaker)? {
        let known = consent::of(tx, &channel, 1, &handle)?;
        silence(tx, (&channel, &handle), known, heard)?;
    }
    Ok(HeardOutcome::Stopped)
}

// The other addresses of who speaks, if somebody vouches for it: a forged word must not reach further than the address it names.
fn elsewhere(tx: &mut impl Tx, speaker: &Speaker<'_>) -> Result<Vec<(String, String)>, Failure> {
    match speaker.person().filter(|_| speaker.heard.verified) {
        Some(person) => consent::addresses(tx, person, (&speaker.heard.channel, &speaker.heard.from.handle)),
        None => Ok(Vec::new()),
    }
}

fn silence(
    tx: &mut impl Tx,
    (channel, handle): (&str, &str),
    known: Option<consent::Known>,
    heard: &Heard,
) -> Result<(), Failure> {
    let said_before =
        known.is_some_and(|known| known.state == ConsentState::Stopped && (known.proven || !heard.verified));
    if !said_before {
        let reason = if heard.verified {
            "the person said STOP"
        } else {
            "somebody said STOP in the person's name, and nobody vouches for who it was"
        };
        let change = consent::Change {
            to: ConsentState::Stopped,
            person: known.and_then(|known| known.person),
            by: &heard.channel,
            reason: Some(reason),
            proven: heard.verified,
        };
        consent::put(tx, (channel, 1, handle), known, &change)?;
    }
    let live = tx.all(LIVE_TO, values![channel, handle, STOP_AT_ONCE], |row| row.get::<i64>(0))?;
    for no in live {
        let Some(mut send) = head(tx, no)? else { continue };
        // Another one's end may have ended or opened it meanwhile.
        if send.state < SendState::Delivered as u8 {
            state::fail(tx, &mut send, SendState::Refused, "the person said STOP")?;
        }
    }
    Ok(())
}

fn start(tx: &mut impl Tx, speaker: &Speaker<'_>) -> Result<HeardOutcome, Failure> {
    let heard = speaker.heard;
    let Some(known) = speaker.known.filter(|_| heard.verified) else { return Ok(HeardOutcome::Stranger) };
    if known.state == ConsentState::Stopped {
        consent::start(tx, (&heard.channel, &heard.from.handle), known)?;
    }
    for (channel, handle) in elsewhere(tx, speaker)? {
        match consent::of(tx, &channel, 1, &handle)? {
            Some(known) if known.state == ConsentState::Stopped => {
                consent::start(tx, (&channel, &handle), known)?;
            }
            _ => {}
        }
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
    let over_ms = window.over_ms(WRONG_CODES);
    super::submit::put_limit(tx, &key, &window, over_ms)?;
    Ok(HeardOutcome::BadCode)
}

/// What a message refers to.
enum Referred {
    /// One of our messages, to this very address or to another one of the same person.
    To(Head),
    /// A message of ours to somebody else, or a code that is nobody's or not theirs.
    NotTheirs,
    /// Nothing that we know.
    Nothing,
}

// The one of its code, or the nearest of the messages it answers. The code is what the person says, the message only where they say it;
// a word that is no code of ours is none.
fn referred(tx: &mut impl Tx, speaker: &Speaker<'_>, code: Option<&str>) -> Result<Referred, Failure> {
    let heard = speaker.heard;
    let mut others = code.is_some();
    if let Some(code) = code {
        match coded(tx, speaker, code)? {
            Referred::Nothing => {}
            named => return Ok(named),
        }
    }
    for message_id in heard.references.iter().rev().take(REFERENCES_MAX) {
        let sql = concat!(
            "SELECT ",
            head_columns!(),
            " FROM wire_ids w JOIN sends s ON s.no = w.send WHERE w.channel = ? AND w.message_id = ?"
        );
        let Some(send) = tx.one(sql, values![heard.channel, message_id], head_of)? else { continue };
        if is_theirs(tx, speaker, &send)? {
            return Ok(Referred::To(send));
        }
        others = true;
    }
    Ok(if others { Referred::NotTheirs } else { Referred::Nothing })
}

// The one of this short code; nothing when there is none.
fn coded(tx: &mut impl Tx, speaker: &Speaker<'_>, code: &str) -> Result<Referred, Failure> {
    let Some(code) = typed_code(code, CODE_LEN) else { return Ok(Referred::Nothing) };
    let sql = concat!("SELECT ", head_columns!(), " FROM sends s WHERE s.code = ?");
    Ok(match tx.one(sql, values![code], head_of)? {
        Some(send) if is_theirs(tx, speaker, &send)? => Referred::To(send),
        Some(_) => Referred::NotTheirs,
        None => Referred::Nothing,
    })
}

// Only who was asked may answer: this address, or another way to the same person.
fn is_theirs(tx: &mut impl Tx, speaker: &Speaker<'_>, send: &Head) -> Result<bool, Failure> {
    let heard = speaker.heard;
    if send.channel == heard.channel && send.handle == heard.from.handle && send.to_kind == 1 {
        return Ok(true);
    }
    let Some(person) = speaker.person() else { return Ok(false) };
    if let Some(topic) = &send.topic_id {
        let sql = "SELECT 1 FROM topics WHERE topic_id = ? AND floor = ?";
        let floor = floor_of(Some(person), &heard.channel, &heard.from);
        return Ok(tx.one(sql, values![topic, floor], |_| Ok(()))?.is_some());
    }
    let other = consent::of(tx, &send.channel, send.to_kind, &send.handle)?;
    Ok(other.is_some_and(|other| other.person == Some(person)))
}

// Approvals that this address was asked for and that nobody has decided.
fn asked_approvals(tx: &mut impl Tx, speaker: &Speaker<'_>) -> Result<Vec<(i64, String)>, Failure> {
    let heard = speaker.heard;
    tx.all(ASKED, values![tx.at_ms(), heard.channel, heard.from.handle], |row| Ok((row.get(0)?, row.get(1)?)))
}

// Questions that have the floor: the person's, and that of the single address, which may have been asked before it was known
// whose it is.
fn open_topics(tx: &mut impl Tx, speaker: &Speaker<'_>) -> Result<Vec<(String, String)>, Failure> {
    let heard = speaker.heard;
    let (floor, single) = (
        floor_of(speaker.person(), &heard.channel, &heard.from),
        floor_of(None, &heard.channel, &heard.from),
    );
    let mut open: Vec<(String, String)> =
        tx.all(OPEN, values![floor, single], |row| Ok((row.get(0)?, row.get(1)?)))?;
    // The same question may have come on several ways.
    for asked in escalate::asked(tx, &heard.channel, &heard.from.handle)? {
        if open.iter().all(|(topic, _)| *topic != asked.0) {
            open.push(asked);
        }
    }
    Ok(open)
}

fn decide(
    tx: &mut impl Tx,
    speaker: &Speaker<'_>,
    approve: bool,
    code: Option<&str>,
) -> Result<HeardOutcome, Failure> {
    let word = if approve { "approve" } else { "deny" };
    match referred(tx, speaker, code)? {
        Referred::To(send) => {
            if let Some(approval) = approval_behind(tx, &send)? {
                return topic::decide(tx, &approval, approve, speaker.who(), &speaker.heard.sign);
            }
            return answer_to(tx, speaker, &send, word);
        }
        Referred::NotTheirs => {
            let refused = refuse(tx, speaker, code, "somebody else was asked to decide this", true)?;
            return Ok(refused.unwrap_or(HeardOutcome::NothingOpen));
        }
        Referred::Nothing => {}
    }
    let asked = asked_approvals(tx, speaker)?;
    let questions = open_topics(tx, speaker)?;
    match (asked.as_slice(), questions.as_slice()) {
        ([], [(topic, _)]) => answer_topic(tx, speaker, topic, word),
        ([(held, _)], []) => match topic::approval_of(tx, *held)? {
            Some(approval) => topic::decide(tx, &approval, approve, speaker.who(), &speaker.heard.sign),
            None => Ok(HeardOutcome::NothingOpen),
        },
        ([], []) => Ok(HeardOutcome::NothingOpen),
        (asked, questions) => Ok(ambiguous(asked, questions)),
    }
}

// On another's word, or in another's name: that is written down where there is something to decide. Whoever is not known here is told
// nothing that they do not know.
fn stranger_decides(
    tx: &mut impl Tx,
    speaker: &Speaker<'_>,
    code: Option<&str>,
) -> Result<HeardOutcome, Failure> {
    let given = speaker.known.is_some_and(|known| known.state.consent().is_given());
    let stopped = speaker.known.is_some_and(|known| known.state == ConsentState::Stopped);
    let (why, tell) = match (given, speaker.heard.verified) {
        (true, _) => ("nobody vouches for who you are", true),
        (false, verified) => ("you were not asked to decide anything here", verified && !stopped),
    };
    Ok(refuse(tx, speaker, code, why, tell)?.unwrap_or(HeardOutcome::Stranger))
}

// Somebody decides what is not theirs to decide; `None` where it is no approval of ours at all.
fn refuse(
    tx: &mut impl Tx,
    speaker: &Speaker<'_>,
    code: Option<&str>,
    why: &'static str,
    tell: bool,
) -> Result<Option<HeardOutcome>, Failure> {
    let heard = speaker.heard;
    let mut approval = None;
    for message_id in heard.references.iter().rev().take(REFERENCES_MAX) {
        let sql = concat!(
            "SELECT ",
            head_columns!(),
            " FROM wire_ids w JOIN sends s ON s.no = w.send WHERE w.channel = ? AND w.message_id = ? AND s.about IS NOT NULL"
        );
        if let Some(send) = tx.one(sql, values![heard.channel, message_id], head_of)? {
            approval = approval_behind(tx, &send)?;
            break;
        }
    }
    if let (None, Some(code)) = (&approval, code.and_then(|code| typed_code(code, CODE_LEN))) {
        let sql =
            concat!("SELECT ", head_columns!(), " FROM sends s WHERE s.code = ? AND s.about IS NOT NULL");
        if let Some(send) = tx.one(sql, values![code], head_of)? {
            approval = approval_behind(tx, &send)?;
        }
    }
    let Some(approval) = approval else { return Ok(None) };
    let who = consent::shown(&heard.channel, &heard.from.handle);
    let verified = if heard.verified { "verified" } else { "claimed" };
    let subject = format!("{} by={who} via={} {verified}: {why}", approval.approval_id, heard.channel);
    tx.admit("outbound.decision_refused", None, subject);
    Ok(Some(HeardOutcome::MayNotDecide { why, tell }))
}

// The approval that a message of ours asked for.
fn approval_behind(tx: &mut impl Tx, send: &Head) -> Result<Option<Pending>, Failure> {
    match send.about {
        Some(held) => topic::approval_of(tx, held),
        None => Ok(None),
    }
}

/// The link of a message that asks for an approval was used. The person it went to decides, as far as that address may still do so.
pub(super) fn decide_by_link(
    tx: &mut impl Tx,
    asked: &str,
    approve: bool,
    via: &str,
    sign: &SignDecision,
) -> Result<HeardOutcome, Stop> {
    let message = found(super::head_by_id(tx, asked)?)?;
    let known = consent::of(tx, &message.channel, message.to_kind, &message.handle)?;
    let Some(known) = known.filter(|known| known.state.consent().is_given()) else {
        return Ok(HeardOutcome::Stranger);
    };
    let approval = found(approval_behind(tx, &message)?)?;
    let name = match known.person {
        Some(person) => {
            tx.one("SELECT name FROM persons WHERE id = ?", values![person.0], |row| row.get(0))?
        }
        None => None,
    };
    let name: Option<String> = name;
    let who = match &name {
        Some(name) => Who::known(name, via),
        None => Who { by: &message.handle, via, address_on: Some(&message.channel) },
    };
    Ok(topic::decide(tx, &approval, approve, who, sign)?)
}

fn ambiguous(asked: &[(i64, String)], questions: &[(String, String)]) -> HeardOutcome {
    let approvals = asked.iter().map(|(_, code)| (code.clone(), "approval"));
    let questions = questions.iter().map(|(_, code)| (code.clone(), "question"));
    HeardOutcome::Ambiguous { codes: approvals.chain(questions).collect() }
}

fn answer(
    tx: &mut impl Tx,
    speaker: &Speaker<'_>,
    code: Option<&str>,
    text: &str,
) -> Result<HeardOutcome, Failure> {
    match referred(tx, speaker, code)? {
        Referred::To(send) => return answer_to(tx, speaker, &send, text),
        Referred::NotTheirs => return Ok(HeardOutcome::NothingOpen),
        Referred::Nothing => {}
    }
    let asked = asked_approvals(tx, speaker)?;
    let questions = open_topics(tx, speaker)?;
    match (asked.as_slice(), questions.as_slice()) {
        ([], [(topic, _)]) => answer_topic(tx, speaker, topic, text),
        ([], []) => Ok(HeardOutcome::NothingOpen),
        (asked, questions) => Ok(ambiguous(asked, questions)),
    }
}

// The words of the choice are the answer; a number that was not offered is none.
fn choose(
    tx: &mut impl Tx,
    speaker: &Speaker<'_>,
    code: &str,
    number: usize,
) -> Result<HeardOutcome, Failure> {
    let Referred::To(send) = coded(tx, speaker, code)? else { return Ok(HeardOutcome::NothingOpen) };
    let params =
        tx.one("SELECT params FROM sends WHERE no = ?", values![send.no], |row| row.get::<String>(0))?;
    let choices = choices(&params.unwrap_or_default());
    match number.checked_sub(1).and_then(|at| choices.get(at)) {
        Some(choice) => answer_to(tx, speaker, &send, choice),
        None => Ok(HeardOutcome::NothingOpen),
    }
}

fn answer_to(
    tx: &mut impl Tx,
    speaker: &Speaker<'_>,
    send: &Head,
    text: &str,
) -> Result<HeardOutcome, Failure> {
    match send.topic_id.as_ref().or(send.asks.as_ref()) {
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
        Some(topic) => topic::answer(tx, &topic, speaker.who(), text),
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
    let sql = concat!(
        "SELECT ",
        head_columns!(),
        " FROM wire_ids w JOIN sends s ON s.no = w.send WHERE w.channel = ? AND w.message_id = ?"
    );
    let Some(mut send) = tx.one(sql, values![channel, message_id], head_of)? else {
        return Ok(OutboundOutcome::Heard(HeardOutcome::Bounced(None)));
    };
    let reason = format!("it came back: {reason}");
    if permanent {
        let known = consent::of(tx, channel, send.to_kind, &send.handle)?;
        let person = known.and_then(|known| known.person);
        let key = (channel, send.to_kind, send.handle.as_str());
        let to = ConsentState::Suppressed;
        let change = consent::Change { to, person, by: "hub", reason: Some(&reason), proven: true };
        consent::put(tx, key, known, &change)?;
    }
    let current = "SELECT 1 FROM parts WHERE send = ? AND message_id = ? LIMIT 1";
    if tx.one(current, values![send.no, message_id], |_| Ok(()))?.is_none() {
        came_back_before(tx, &send, message_id, &reason)?;
        let touched = send.touched(super::rows::send_state(send.state)?);
        return Ok(OutboundOutcome::Heard(HeardOutcome::Bounced(Some(touched))));
    }
    let now = super::rows::send_state(send.state)?;
    if matches!(now, SendState::Sending | SendState::Open | SendState::Delivered | SendState::Unknown) {
        state::fail(tx, &mut send, SendState::Dead, &reason)?;
        // Whoever has it tried again means this part.
        let sql = "UPDATE parts SET state = 5 WHERE send = ? AND message_id = ? AND state = 4";
        tx.later(sql, values![send.no, message_id])?;
    }
    let touched = send.touched(super::rows::send_state(send.state)?);
    Ok(OutboundOutcome::Heard(HeardOutcome::Bounced(Some(touched))))
}

// It has been sent again since, under another id: this says something of the old attempt alone.
fn came_back_before(tx: &mut impl Tx, send: &Head, message_id: &str, reason: &str) -> Result<(), Failure> {
    let sql = "UPDATE attempts SET outcome = 'bounced', reason = ? WHERE send = ? AND message_id = ?";
    tx.later(sql, values![reason, send.no, message_id])?;
    tx.admit("outbound.bounced_before", None, format!("{} {reason}", send.send_id));
    Ok(())
}
