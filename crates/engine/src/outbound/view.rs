//! Where everything is: receipts, conversations, listings.

use super::{Waiter, escalate, preview, why};
use crate::govern::Act;
use crate::hub::Hub;
use crate::refusal;
use crate::submit::permit;
use futures_util::FutureExt as _;
use serde_json::{Map, Value};
use std::time::Duration;
use switchboard_core::outbound::escalate::RungRow;
use switchboard_core::outbound::limit::Rate;
use switchboard_core::outbound::quiet::Quiet;
use switchboard_core::outbound::send::{
    SendDetail, SendRow, SendState, TopicRow, TopicState, choices, delivery_id,
};
use switchboard_core::outbound::write::{Carried, LimitTake, NewSend};
use switchboard_core::policy::{self, Call, Per};
use switchboard_core::port::channel::{Address, AddressKind, MessageKind};
use switchboard_core::principal::Principal;
use switchboard_core::rights::Right;
use switchboard_core::time::WallMs;
use switchboard_protocol::Detail;
use switchboard_protocol::messaging::{
    ChannelView, Channels, Conversation, ConversationGet, ConversationMessage, MessageReceipt, PersonAnswer,
    Recipient, TOOL, WAIT_MS_MAX,
};
use switchboard_protocol::outbound::{
    ApprovalView, AttemptView, ConsentView, PartView, QuietHours, SendView, SendWhole,
};

/// What the policy says of a call.
pub(super) struct Verdict {
    pub(super) version: String,
    /// The rule that asks for an approval.
    pub(super) hold: Option<String>,
    pub(super) limits: Vec<LimitTake>,
    pub(super) escalation: Option<policy::Escalation>,
    pub(super) urgent: bool,
}

/// Asks the policy about a call to `to` on `channel`; what it denies comes as the detail to send.
pub(super) fn verdict(
    hub: &Hub,
    who: &Principal,
    agent: &str,
    params: &Map<String, Value>,
    (channel, to): (&str, &Address),
) -> Result<Verdict, Detail> {
    let policy = hub.policy.current();
    let decision = policy.decide(&Call { tool: TOOL, agent, params });
    let hold = match decision.verdict {
        policy::Verdict::Allow => None,
        policy::Verdict::Hold(ruling) => Some(ruling.rule.to_string()),
        policy::Verdict::Deny(ruling) => return Err(refusal::forbidden(&ruling)),
    };
    let limits = decision.limits.iter().map(|limit| LimitTake {
        key: subject(&limit.rule, limit.rate.per, &who.instance_id, (channel, to)),
        rule: limit.rule.to_string(),
        rate: Rate {
            max: limit.rate.max_calls,
            interval_ms: WallMs::try_from(limit.rate.interval_ms).unwrap_or(WallMs::MAX),
        },
    });
    let (version, urgent, escalation) = (policy.version().to_owned(), decision.urgent, decision.escalation);
    Ok(Verdict { version, hold, limits: limits.collect(), urgent, escalation })
}

// What calls are counted together: the address as it was resolved, whatever way it was spelt.
fn subject(rule: &str, per: Per, instance: &str, (channel, to): (&str, &Address)) -> String {
    let kind = to.kind.as_str();
    let parts: &[&str] = match per {
        // Of the bearer, whatever names it calls itself by: a name costs nothing.
        Per::Agent => &["agent", instance],
        Per::Recipient => &["recipient", channel, kind, &to.handle],
        Per::Channel => &["channel", channel],
        Per::Organization => &["organization"],
    };
    let framed = parts.iter().map(|part| format!("/{}/{part}", part.len()));
    format!("send/{}/{rule}{}", rule.len(), framed.collect::<String>())
}

/// The rule that forbids a send now, under the policy as it is. One that asks for an approval forbids what nobody was asked about.
pub(super) fn forbidden_now(hub: &Hub, send: &SendRow) -> Option<String> {
    forbidden_call(hub, &send.agent, &send.params, send.rule.is_some())
}

/// The same of a call by `agent`; `approved`: whether somebody has approved it.
pub(super) fn forbidden_call(hub: &Hub, agent: &str, params: &str, approved: bool) -> Option<String> {
    let params: Value = serde_json::from_str(params).ok()?;
    let params = params.as_object()?;
    let decision = hub.policy.current().decide(&Call { tool: TOOL, agent, params });
    match decision.verdict {
        policy::Verdict::Deny(ruling) => Some(ruling.rule.to_string()),
        policy::Verdict::Hold(ruling) if !approved => Some(ruling.rule.to_string()),
        policy::Verdict::Allow | policy::Verdict::Hold(_) => None,
    }
}

pub(super) async fn detail(hub: &Hub, send_id: &str) -> Result<SendDetail, Detail> {
    found(hub, send_id).await?.ok_or_else(|| refusal::not_found("send_id", "No such send."))
}

async fn found(hub: &Hub, send_id: &str) -> Result<Option<SendDetail>, Detail> {
    let found = hub.store().outbound().send(send_id.to_owned()).await;
    found.map_err(|error| refusal::store(&error))
}

/// The receipt of a send as it is now.
#[must_use]
pub fn receipt(detail: &SendDetail, deduplicated: bool) -> MessageReceipt {
    let carried = Carried {
        message_id: detail.parts.first().and_then(|part| part.message_id.clone()),
        approval_id: detail.approval.as_ref().map(|approval| approval.approval_id.clone()),
        rungs: detail.rungs.clone(),
        then: detail.topic.as_ref().and_then(|topic| topic.then),
    };
    MessageReceipt { deduplicated, ..repeated(&detail.send, carried) }
}

/// The receipt of a send that has just been accepted, but for its state.
pub(super) fn accepted(new: &NewSend) -> MessageReceipt {
    MessageReceipt {
        channel: new.channel.clone(),
        message_id: None,
        topic_id: new.topic_id.clone(),
        deduplicated: false,
        delivered: false,
        reason: None,
        queued: false,
        send_id: Some(new.send_id.clone()),
        state: None,
        approval_id: new.hold.as_ref().map(|hold| hold.approval_id.clone()),
        escalation: Vec::new(),
        then: None,
    }
}

/// The receipt of a call that was made before, as it is now.
pub(super) fn repeated(first: &SendRow, carried: Carried) -> MessageReceipt {
    let mut receipt = MessageReceipt {
        channel: first.channel.clone(),
        message_id: carried.message_id,
        topic_id: first.topic_id.clone(),
        deduplicated: true,
        delivered: false,
        reason: first.reason.clone(),
        queued: false,
        send_id: Some(first.send_id.clone()),
        state: None,
        approval_id: carried.approval_id,
        escalation: escalate::steps(&carried.rungs, waits(first)),
        then: escalate::word(carried.then),
    };
    now_in(&mut receipt, first.state);
    receipt
}

// Whether a question has yet to get the floor.
fn waits(send: &SendRow) -> bool {
    matches!(send.state, SendState::Held | SendState::Queued)
}

/// Puts a state into a receipt, with what it means.
pub(super) fn now_in(receipt: &mut MessageReceipt, state: SendState) {
    receipt.delivered = matches!(state, SendState::Open | SendState::Delivered | SendState::Answered);
    receipt.queued = state == SendState::Queued;
    receipt.state = Some(state.as_str().to_owned());
    let usual = match state {
        SendState::Held => Some("it waits for an approval"),
        SendState::Queued => {
            Some("it waits for the answer to a question before it, or for the end of quiet hours")
        }
        SendState::Sending => Some("it was accepted and is on its way"),
        _ => None,
    };
    if receipt.delivered {
        receipt.reason = None;
    } else if receipt.reason.is_none() {
        receipt.reason = usual.map(str::to_owned);
    }
}

/// `conversation.get`: only the asking instance and people who administer see a topic; to all others it does not exist.
pub async fn conversation(hub: &Hub, who: &Principal, get: &ConversationGet) -> Result<Conversation, Detail> {
    permit(who, Act::UseBus)?;
    let wait_ms = get.wait_ms.unwrap_or(0);
    if wait_ms > WAIT_MS_MAX {
        let message = format!("wait_ms must be at most {WAIT_MS_MAX}; call again to wait longer.");
        return Err(refusal::bad_field("wait_ms", message));
    }
    let look = || looked(hub, who, get).boxed();
    Waiter::of(hub, &get.topic_id).until(Duration::from_millis(wait_ms), look).await
}

// The topic, and whether it is over.
async fn looked(hub: &Hub, who: &Principal, get: &ConversationGet) -> Result<(Conversation, bool), Detail> {
    let found = hub.store().outbound().topic(get.topic_id.clone()).await;
    let found = found.map_err(|error| refusal::store(&error))?;
    let may = |send: &SendRow| send.instance == who.instance || who.may(Right::Admin);
    match found {
        Some((topic, send)) if may(&send) => {
            let over = !matches!(topic.state, TopicState::Queued | TopicState::Open);
            let rungs = match &topic.escalated_by {
                Some(_) => hub.store().outbound().rungs(Some(get.topic_id.clone())).await,
                None => Ok(Vec::new()),
            };
            Ok((told(&topic, &send, &rungs.map_err(|error| refusal::store(&error))?), over))
        }
        _ => Err(refusal::not_found("topic_id", "No such topic.")),
    }
}

/// Topics that are open or queued, as they are shown.
pub async fn open(hub: &Hub) -> Result<Vec<Conversation>, Detail> {
    let reads = hub.store().outbound();
    let topics = reads.open_topics().await.map_err(|error| refusal::store(&error))?;
    let mut rungs = Vec::new();
    if topics.iter().any(|(topic, _)| topic.escalated_by.is_some()) {
        rungs = reads.rungs(None).await.map_err(|error| refusal::store(&error))?;
    }
    let of = |topic: &TopicRow| -> Vec<_> {
        rungs.iter().filter(|rung| rung.topic_id == topic.topic_id).cloned().collect()
    };
    Ok(topics.iter().map(|(topic, send)| told_briefly(topic, send, &of(topic))).collect())
}

/// A topic as it is shown, with the rungs of its chain.
#[must_use]
pub fn told(topic: &TopicRow, send: &SendRow, rungs: &[RungRow]) -> Conversation {
    let asked = ConversationMessage {
        role: "agent".into(),
        from: send.agent.clone(),
        text: send.body.clone(),
        at_ms: send.at_ms,
    };
    let answer = topic.answer.as_ref().map(|answer| PersonAnswer {
        text: answer.text.clone(),
        by: answer.by.clone(),
        via: answer.via.clone(),
        at_ms: answer.at_ms,
    });
    let said = answer.as_ref().map(|answer| ConversationMessage {
        role: "person".into(),
        from: answer.by.clone(),
        text: answer.text.clone(),
        at_ms: answer.at_ms,
    });
    Conversation {
        topic_id: topic.topic_id.clone(),
        state: topic.state.as_str().into(),
        send_id: send.send_id.clone(),
        send_state: send.state.as_str().into(),
        // That it was answered is its state.
        reason: send.reason.clone().filter(|reason| reason != send.state.as_str()),
        code: format!("SB-{}", send.code),
        choices: choices(&send.params),
        channel: send.channel.clone(),
        to: send.to_text.clone(),
        deadline_ms: topic.deadline_ms,
        messages: std::iter::once(asked).chain(said).collect(),
        answer,
        escalation: escalate::steps(rungs, waits(send)),
        then: escalate::word(topic.then),
    }
}

/// What can be reached. People who administer see all; an agent sees the addresses that it could write to, and none that the rules
/// forbid it (contract section 2).
pub async fn channels(hub: &Hub, who: &Principal) -> Result<Channels, Detail> {
    permit(who, Act::UseBus)?;
    let reads = hub.store().outbound();
    let consents = reads.consents().await.map_err(|error| refusal::store(&error))?;
    let people = reads.people().await.map_err(|error| refusal::store(&error))?;
    let channels = hub.outbound.registry.all().into_iter().map(|channel| {
        let can = channel.capabilities();
        let name = channel.name().to_owned();
        let may = |to: &Address| who.may(Right::Admin) || !forbids(hub, who, (&name, to));
        let listed = consents.iter().filter(|row| row.channel == name && row.state.consent().is_given());
        let listed = listed.filter(|row| may(&row.to));
        let mut reachable: Vec<_> = listed
            .map(|row| match row.to.kind {
                AddressKind::Direct => Recipient::Direct(row.to.handle.clone()),
                AddressKind::Channel => Recipient::Channel(row.to.handle.clone()),
            })
            .collect();
        if channel.kind() == super::submit::CONSOLE {
            let named = |name: &String| Address { kind: AddressKind::Direct, handle: name.clone() };
            let people = people.iter().filter(|(_, name)| may(&named(name)));
            reachable.extend(people.map(|(_, name)| Recipient::Direct(name.clone())));
        }
        ChannelView {
            health: hub.outbound.fault(&name).unwrap_or_else(|| "ok".into()),
            name,
            kind: channel.kind().into(),
            direct: can.direct,
            shared: can.shared,
            answers: can.answers,
            reachable,
        }
    });
    Ok(Channels { channels: channels.collect() })
}

// Whether a rule forbids this bearer that address, whatever the message says.
fn forbids(hub: &Hub, who: &Principal, (channel, to): (&str, &Address)) -> bool {
    let asked = [("channel", channel), ("to", &to.handle), ("kind", to.kind.as_str())];
    let params: Map<_, _> = asked.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    let policy = hub.policy.current();
    let outcomes = policy.explain(&Call { tool: TOOL, agent: &who.label, params: &params });
    outcomes.into_iter().any(|(_, outcome)| {
        matches!(outcome, policy::Outcome::Denied(None | Some("channel" | "to" | "kind")))
    })
}

/// A send in a listing: the beginning of its text.
#[must_use]
pub fn listed(send: &SendRow) -> SendView {
    let view = entire(send);
    match preview::cut(&view.body) {
        Some(body) => SendView { body, cut: true, ..view },
        None => view,
    }
}

// A question in a listing: the beginnings of its texts.
fn told_briefly(topic: &TopicRow, send: &SendRow, rungs: &[RungRow]) -> Conversation {
    let mut told = told(topic, send, rungs);
    let texts = told.messages.iter_mut().map(|message| &mut message.text);
    for text in texts.chain(told.answer.as_mut().map(|answer| &mut answer.text)) {
        if let Some(short) = preview::cut(text) {
            *text = short;
        }
    }
    told
}

// With all of its text.
fn entire(send: &SendRow) -> SendView {
    let kind = match send.kind {
        MessageKind::Question => "question",
        MessageKind::Notice => "notice",
        MessageKind::Approval => "approval",
    };
    SendView {
        send_id: send.send_id.clone(),
        state: send.state.as_str().into(),
        reason: send.reason.clone().filter(|reason| reason != send.state.as_str()),
        channel: send.channel.clone(),
        to: send.to_text.clone(),
        kind: send.to.kind.as_str().into(),
        message_kind: kind.into(),
        agent: send.agent.clone(),
        body: send.body.clone(),
        cut: false,
        code: send.code.clone(),
        choices: choices(&send.params),
        topic_id: send.topic_id.clone(),
        asks: send.asks.clone(),
        rule: send.rule.clone(),
        policy: send.policy.clone(),
        deadline_ms: send.deadline_ms,
        at_ms: send.at_ms,
        updated_ms: send.updated_ms,
        next: send.no,
    }
}

/// A listing, with why each waits that does.
pub async fn listing(hub: &Hub, sends: &[SendRow]) -> Result<Vec<SendView>, Detail> {
    let mut views = Vec::with_capacity(sends.len());
    for send in sends {
        let mut view = listed(send);
        if send.state < SendState::Open
            && let Some(detail) = found(hub, &send.send_id).await?
        {
            let around = why::Around::of(hub, &detail).await?;
            // It may have gone on since it was listed.
            view.reason = why::waits(&detail, &around).or(view.reason);
        }
        views.push(view);
    }
    Ok(views)
}

/// Everything about a send, with why.
pub async fn whole(hub: &Hub, send_id: &str) -> Result<SendWhole, Detail> {
    let detail = detail(hub, send_id).await?;
    let around = why::Around::of(hub, &detail).await?;
    Ok(all_of(&detail, &around))
}

fn all_of(detail: &SendDetail, around: &why::Around) -> SendWhole {
    let delivery = |part, round| delivery_id(&detail.send.send_id, part, round);
    let parts = detail.parts.iter().map(|part| PartView {
        part: part.part,
        state: part.state.as_str().into(),
        delivery: delivery(part.part, part.round),
        instead_of: part.round.checked_sub(1).map(|before| delivery(part.part, before)),
        attempts: part.attempt,
        fails: part.fails,
        next_ms: part.next_ms,
        message_id: part.message_id.clone(),
    });
    let attempts = detail.attempts.iter().map(|attempt| AttemptView {
        part: attempt.part,
        attempt: attempt.attempt,
        delivery: delivery(attempt.part, attempt.round),
        began_ms: attempt.began_ms,
        ended_ms: attempt.ended_ms,
        outcome: attempt.outcome.clone(),
        reason: attempt.reason.clone(),
        message_id: attempt.message_id.clone(),
    });
    SendWhole {
        send: entire(&detail.send),
        instance_id: detail.instance_id.clone(),
        parts: parts.collect(),
        attempts: attempts.collect(),
        approval: detail.approval.as_ref().map(|approval| approval_view(approval, &detail.send)),
        topic: detail.topic.as_ref().map(|topic| told(topic, &detail.send, &detail.rungs)),
        why: why::why(detail, around),
    }
}

/// An approval as it is shown.
#[must_use]
pub fn approval_view(
    approval: &switchboard_core::outbound::send::ApprovalRow,
    send: &SendRow,
) -> ApprovalView {
    ApprovalView {
        approval_id: approval.approval_id.clone(),
        state: approval.state.as_str().into(),
        rule: approval.rule.clone(),
        expires_ms: approval.expires_ms,
        decided_by: approval.decided.as_ref().map(|decided| decided.by.clone()),
        decided_via: approval.decided.as_ref().map(|decided| decided.via.clone()),
        decided_ms: approval.decided.as_ref().map(|decided| decided.at_ms),
        // Who decides reads all of it.
        send: entire(send),
    }
}

/// A person's quiet hours as they are shown.
#[must_use]
pub fn quiet_view(quiet: &Quiet) -> QuietHours {
    QuietHours { zone: quiet.zone().to_owned(), from: quiet.from(), until: quiet.until() }
}

/// A consent as it is shown.
#[must_use]
pub fn consent_view(row: &switchboard_core::outbound::send::ConsentRow) -> ConsentView {
    ConsentView {
        channel: row.channel.clone(),
        kind: row.to.kind.as_str().into(),
        to: row.to.handle.clone(),
        state: row.state.as_str().into(),
        person: row.person_name.clone(),
        by: row.by.clone(),
        at_ms: row.at_ms,
        reason: row.reason.clone(),
    }
}
