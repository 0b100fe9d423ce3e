//! *Inbox*, *Approvals* and *Outbound*: what agents want of people, and what goes out to them.

use super::form::Signed;
use super::visitor::Visitor;
use super::{Shown, html, see_other, when};
use crate::Doors;
use crate::bus::read::query;
use axum::extract::{Path, RawQuery, State};
use serde::Deserialize;
use switchboard_console::page::{
    AnsweredQuestion, Approval, ApprovalList, Approvals, Attempt, Counts, Inbox, InboxList, Outbound,
    Question, Send, SendList, SendPage, SendStory,
};
use switchboard_console::shell::Section;
use switchboard_console::text::Foreign;
use switchboard_core::outbound::escalate::{RungRow, RungState, Span};
use switchboard_core::outbound::send::{
    ApprovalRow, SendDetail, SendFilter, SendRow, SendState, TopicRow, TopicState, choices,
};
use switchboard_core::port::channel::{AddressKind, MessageKind};
use switchboard_core::port::store::StoreError;
use switchboard_engine::outbound::{people, why};
use switchboard_engine::refusal;
use switchboard_protocol::Detail;
use switchboard_protocol::messaging::ANSWER_CHARS_MAX;

/// How answers and decisions that come from here are recorded.
const VIA: &str = "console";
/// Channel of the inbox.
const CONSOLE: &str = "console";
/// Notices in the inbox.
const NOTICES_MAX: usize = 30;
/// Questions answered lately in the inbox.
const ANSWERED_MAX: usize = 5;
/// Approvals of one page.
const APPROVALS_MAX: usize = 100;
/// Sends of one page.
const SENDS_MAX: usize = 50;

/// What can be asked of *Outbound*: the word in the address, what people call it, the states.
const FILTERS: [(&str, &str, &[SendState]); 5] = [
    ("all", "All", &[]),
    ("way", "On the way", &[SendState::Held, SendState::Queued, SendState::Sending]),
    ("open", "Waiting for an answer", &[SendState::Open]),
    ("attention", "Needs a look", &[SendState::Unknown, SendState::Dead]),
    ("done", "Done", &[SendState::Delivered, SendState::Answered, SendState::Expired, SendState::Refused]),
];

fn failed(error: &StoreError) -> Detail {
    refusal::store(error)
}

fn send(row: &SendRow) -> Send {
    Send {
        send_id: row.send_id.clone(),
        code: row.code.clone(),
        agent: row.agent.as_str().into(),
        channel: row.channel.as_str().into(),
        to: row.to_text.as_str().into(),
        kind: match row.kind {
            MessageKind::Question => "question",
            MessageKind::Notice => "notice",
            MessageKind::Approval => "approval",
        },
        state: row.state.as_str(),
        reason: row.reason.as_deref().map(Into::into),
        body: row.body.as_str().into(),
        choices: offered(row),
        shared: row.to.kind == AddressKind::Channel,
        at: when(row.at_ms),
        deadline: row.deadline_ms.map(when),
    }
}

/// How much waits for a person.
pub(super) async fn counts(doors: &Doors) -> Result<Counts, Detail> {
    let waiting = doors.hub.store().outbound().waiting().await.map_err(|error| failed(&error))?;
    let shown = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    Ok(Counts { questions: shown(waiting.0), approvals: shown(waiting.1) })
}

fn is_open(topic: &TopicRow, send: &SendRow) -> bool {
    topic.state == TopicState::Open && send.kind == MessageKind::Question
}

/// The inbox.
pub(super) async fn inbox_page(State(doors): State<Doors>, visitor: Visitor) -> Shown {
    let shell = visitor.shell(&doors, Section::Inbox, "Inbox").await?;
    Ok(html(&Inbox { shell, list: inbox(&doors, &visitor).await? }))
}

/// What is in it.
pub(super) async fn inbox(doors: &Doors, visitor: &Visitor) -> Result<InboxList, Detail> {
    let reads = doors.hub.store().outbound();
    let topics = reads.open_topics().await.map_err(|error| failed(&error))?;
    let rungs = if topics.iter().any(|(topic, _)| topic.escalated_by.is_some()) {
        reads.rungs(None).await.map_err(|error| failed(&error))?
    } else {
        Vec::new()
    };
    let questions = topics.iter().filter(|(_, row)| row.kind == MessageKind::Question);
    let of_states =
        |states: &[SendState], limit| SendFilter { states: states.to_vec(), limit, ..SendFilter::default() };
    let on_console =
        SendFilter { channel: Some(CONSOLE.into()), ..of_states(&[SendState::Delivered], NOTICES_MAX) };
    let notices = reads.sends(on_console).await.map_err(|error| failed(&error))?;
    let notices = notices.iter().filter(|row| row.kind == MessageKind::Notice);
    let mut answered = Vec::new();
    for row in
        reads.sends(of_states(&[SendState::Answered], ANSWERED_MAX)).await.map_err(|error| failed(&error))?
    {
        answered.extend(answered_question(doors, &row).await?);
    }
    Ok(InboxList {
        form_token: visitor.form_token.clone(),
        questions: questions.map(|(topic, row)| question(topic, row, &rungs)).collect(),
        notices: notices.take(NOTICES_MAX).map(send).collect(),
        answered,
    })
}

// Whom it goes to next when nobody answers.
fn next_rung(topic: &TopicRow, rungs: &[RungRow]) -> Option<Foreign> {
    let of = |rung: &&RungRow| rung.topic_id == topic.topic_id && rung.state == RungState::Waiting;
    let rung = rungs.iter().find(of)?;
    let whom = match &rung.to {
        Some((channel, to)) => format!("goes on to {to} on {channel}"),
        None => "becomes a task proposal".into(),
    };
    let when = match rung.next_ms {
        Some(at_ms) => format!("after {}", when(at_ms).0),
        None => format!("{} after it is asked", Span(rung.after_ms)),
    };
    Some(format!("With no answer it {whom} {when}").as_str().into())
}

fn question(topic: &TopicRow, row: &SendRow, rungs: &[RungRow]) -> Question {
    Question {
        topic_id: topic.topic_id.clone(),
        send: send(row),
        open: is_open(topic, row),
        choices: offered(row),
        chars_max: ANSWER_CHARS_MAX,
        next: next_rung(topic, rungs),
    }
}

/// The answers that the caller offers.
fn offered(row: &SendRow) -> Vec<Foreign> {
    choices(&row.params).iter().map(|choice| choice.as_str().into()).collect()
}

async fn answered_question(doors: &Doors, row: &SendRow) -> Result<Option<AnsweredQuestion>, Detail> {
    let Some(topic_id) = row.topic_id.clone() else { return Ok(None) };
    let topic = doors.hub.store().outbound().topic(topic_id).await.map_err(|error| failed(&error))?;
    let answer = topic.and_then(|(topic, _)| topic.answer);
    Ok(answer.map(|answer| AnsweredQuestion {
        send: send(row),
        answer: answer.text.into(),
        by: answer.by.into(),
        via: answer.via.into(),
        at: when(answer.at_ms),
    }))
}

/// Answers a question.
pub(super) async fn answer(State(doors): State<Doors>, Signed { visitor, mut fields }: Signed) -> Shown {
    let (topic_id, text) = (fields.take("topic_id")?, fields.take("text")?);
    fields.end()?;
    people::answer(&doors.hub, &topic_id, &visitor.session.person_name, VIA, &text).await?;
    Ok(see_other("/console/inbox?done=answered"))
}

/// The approvals.
pub(super) async fn approvals_page(State(doors): State<Doors>, visitor: Visitor) -> Shown {
    let shell = visitor.shell(&doors, Section::Approvals, "Approvals").await?;
    Ok(html(&Approvals { shell, list: approvals(&doors, &visitor).await? }))
}

/// Those that wait, and those that do not any more.
pub(super) async fn approvals(doors: &Doors, visitor: &Visitor) -> Result<ApprovalList, Detail> {
    let reads = doors.hub.store().outbound();
    let waiting = reads.approvals(true, APPROVALS_MAX).await.map_err(|error| failed(&error))?;
    let all = reads.approvals(false, APPROVALS_MAX).await.map_err(|error| failed(&error))?;
    let is_decided = |(row, _): &&(ApprovalRow, SendRow)| row.state.as_str() != "pending";
    Ok(ApprovalList {
        form_token: visitor.form_token.clone(),
        pending: waiting.iter().map(approval).collect(),
        decided: all.iter().filter(is_decided).map(approval).collect(),
    })
}

/// An approval as pages show it.
pub(super) fn approval((row, sent): &(ApprovalRow, SendRow)) -> Approval {
    let decided = row.decided.as_ref();
    Approval {
        approval_id: row.approval_id.clone(),
        send: send(sent),
        rule: row.rule.as_str().into(),
        state: row.state.as_str(),
        expires: when(row.expires_ms),
        decided: decided.map(|by| (by.by.as_str().into(), by.via.as_str().into(), when(by.at_ms))),
    }
}

/// Decides one.
pub(super) async fn decide(State(doors): State<Doors>, Signed { visitor, mut fields }: Signed) -> Shown {
    let (approval_id, decision) = (fields.take("approval_id")?, fields.take("decision")?);
    fields.end()?;
    let (approve, done) = match decision.as_str() {
        "approve" => (true, "approved"),
        "deny" => (false, "denied"),
        _ => return Err(refusal::bad_field("decision", "Approve or deny.").into()),
    };
    people::decide(&doors.hub, &approval_id, approve, &visitor.session.person_name, VIA).await?;
    Ok(see_other(&format!("/console/approvals?done={done}")))
}

/// Which sends.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Which {
    show: String,
    before: Option<i64>,
}

impl Which {
    fn filter(&self) -> (&'static str, &'static [SendState]) {
        let chosen = FILTERS.iter().find(|(word, _, _)| *word == self.show).unwrap_or(&FILTERS[0]);
        (chosen.0, chosen.2)
    }
}

/// The sends.
pub(super) async fn outbound_page(
    State(doors): State<Doors>,
    visitor: Visitor,
    RawQuery(raw): RawQuery,
) -> Shown {
    let which: Which = query(raw)?;
    let hub = &doors.hub;
    let names = hub.outbound.registry.names().into_iter();
    let faults = names.filter_map(|name| Some((name.as_str().into(), hub.outbound.fault(&name)?.into())));
    let filter = which.filter().0;
    let before = which.before.map(|before| format!("&before={before}")).unwrap_or_default();
    Ok(html(&Outbound {
        shell: visitor.shell(&doors, Section::Outbound, "Outbound").await?,
        filters: FILTERS.iter().map(|(word, name, _)| (*word, *name)).collect(),
        filter,
        faults: faults.collect(),
        live: format!("/console/live/outbound?show={filter}{before}"),
        list: sends(&doors, &which).await?,
    }))
}

/// A page of them.
pub(super) async fn sends(doors: &Doors, which: &Which) -> Result<SendList, Detail> {
    let (word, states) = which.filter();
    let filter = SendFilter {
        states: states.to_vec(),
        before: which.before,
        limit: SENDS_MAX + 1,
        ..SendFilter::default()
    };
    let mut rows = doors.hub.store().outbound().sends(filter).await.map_err(|error| failed(&error))?;
    let more = rows.len() > SENDS_MAX;
    rows.truncate(SENDS_MAX);
    let older =
        rows.last().filter(|_| more).map(|last| format!("/console/outbound?show={word}&before={}", last.no));
    Ok(SendList { sends: rows.iter().map(send).collect(), older })
}

/// One send.
pub(super) async fn send_page(
    State(doors): State<Doors>,
    visitor: Visitor,
    Path(send_id): Path<String>,
) -> Shown {
    let story = story(&doors, &visitor, send_id).await?;
    let title = format!("{} to {}", story.send.agent.0, story.send.to.0);
    Ok(html(&SendPage { shell: visitor.shell(&doors, Section::Outbound, title).await?, story }))
}

/// Its story.
pub(super) async fn story(doors: &Doors, visitor: &Visitor, send_id: String) -> Result<SendStory, Detail> {
    let found = doors.hub.store().outbound().send(send_id).await.map_err(|error| failed(&error))?;
    let found: SendDetail = found.ok_or_else(|| refusal::not_found("send_id", "There is no such send."))?;
    let state = found.send.state;
    let around = why::Around::of(&doors.hub, &found).await?;
    let attempts = found.attempts.iter().map(|attempt| Attempt {
        part: attempt.part,
        attempt: attempt.attempt,
        began: when(attempt.began_ms),
        outcome: attempt.outcome.as_str().into(),
        reason: attempt.reason.as_deref().map(Into::into),
    });
    Ok(SendStory {
        form_token: visitor.form_token.clone(),
        send: send(&found.send),
        why: why::why(&found, &around).into_iter().map(Into::into).collect(),
        attempts: attempts.collect(),
        may_retry: matches!(state, SendState::Dead | SendState::Unknown) || why::may_hurry(&found, &around),
        may_discard: state == SendState::Unknown || !state.is_terminal(),
    })
}

/// Tries a send again, or gives it up.
pub(super) async fn act(
    State(doors): State<Doors>,
    Path(send_id): Path<String>,
    Signed { visitor, mut fields }: Signed,
) -> Shown {
    let act = fields.take("act")?;
    fields.end()?;
    let by = &visitor.session.person_name;
    let done = match act.as_str() {
        "retry" => people::retry(&doors.hub, &send_id, by).await.map(|_| "retried"),
        "discard" => people::discard(&doors.hub, &send_id, by).await.map(|_| "discarded"),
        _ => Err(refusal::bad_field("act", "Retry or discard.")),
    }?;
    Ok(see_other(&format!("/console/outbound/{send_id}?done={done}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_its_place_in_the_listing() {
        let states = switchboard_core::outbound::send::STATES;
        for state in states {
            let places = FILTERS.iter().filter(|(_, _, held)| held.contains(&state)).count();
            assert_eq!(places, 1, "{state:?}");
        }
        assert_eq!(Which { show: "x".into(), before: None }.filter().0, "all");
    }
}
