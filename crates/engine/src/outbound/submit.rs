//! `messaging.send`: validate, ask the policy, and commit, in which rate limit, consent and idempotency are decided.

use super::{Waiter, escalate, link, view};
use crate::fault;
use crate::govern::Act;
use crate::hub::Hub;
use crate::refusal;
use crate::submit::permit;
use futures_util::FutureExt as _;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::digest::framed;
use switchboard_core::limits::QUESTION_DEADLINE_MS_MAX;
use switchboard_core::outbound::escalate::Span;
use switchboard_core::outbound::gate::Consent;
use switchboard_core::outbound::reply::{CODE_LEN, choice_value, code};
use switchboard_core::outbound::send::{SendState, choices};
use switchboard_core::outbound::write::{
    ConsentRule, Hold, LimitTake, NewSend, OutboundOutcome, OutboundWrite,
};
use switchboard_core::policy::Escalation;
use switchboard_core::port::channel::{Address, AddressKind, Button, Channel, Draft, MessageKind};
use switchboard_core::port::store::StoreError;
use switchboard_core::principal::Principal;
use switchboard_core::random;
use switchboard_core::rights::Right;
use switchboard_core::time::WallMs;
use switchboard_core::write::{Outcome, Refusal, Write};
use switchboard_protocol::messaging::{BadParam, MessageReceipt, OutboundMessage, Recipient, TOOL};
use switchboard_protocol::{Code, Detail};

/// The channel whose recipients are the organization's people.
pub const CONSOLE: &str = "console";
/// How the owner is called who writes from a terminal.
const OWNER_AGENT: &str = "owner";
/// In whose name the hub itself writes.
pub const HUB_AGENT: &str = "switchboard";
/// Codes that are tried before giving up: one that is taken is a matter of chance.
const CODES_TRIED: usize = 4;

/// Sends, and waits as the settings say for what becomes of it.
pub async fn send(
    hub: &Arc<Hub>,
    who: &Principal,
    agent: &str,
    params: &Value,
) -> Result<MessageReceipt, Detail> {
    send_waiting(hub, who, agent, params, hub.settings.outbound.receipt_wait).await
}

/// Sends, and waits at most `wait` for the message to arrive.
pub async fn send_waiting(
    hub: &Arc<Hub>,
    who: &Principal,
    agent: &str,
    params: &Value,
    wait: Duration,
) -> Result<MessageReceipt, Detail> {
    let sent = accept(hub, who, agent, params).await;
    let Accepted { send_id, deduplicated, at_once } =
        sent.inspect_err(|detail| hub.refused(TOOL, &who.instance_id, detail))?;
    if let Some(receipt) =
        at_once.filter(|receipt| wait.is_zero() || receipt.state.as_deref() != Some("sending"))
    {
        return Ok(receipt);
    }
    let id = &send_id;
    let look = || {
        let look = async move {
            let detail = view::detail(hub, id).await?;
            let over = !matches!(detail.send.state, SendState::Sending);
            Ok((view::receipt(&detail, deduplicated), over))
        };
        look.boxed()
    };
    Waiter::of(hub, &send_id).until(wait, look).await
}

/// A call that was understood: where it goes, and what is asked about it.
struct Call<'a> {
    message: OutboundMessage,
    params: &'a Value,
    channel: Arc<dyn Channel>,
    to: Address,
}

impl Call<'_> {
    fn message_kind(&self) -> MessageKind {
        if self.message.is_question() { MessageKind::Question } else { MessageKind::Notice }
    }

    // What makes two calls the same: who is reached, with what, until when.
    fn digest(&self) -> [u8; 32] {
        let message = &self.message;
        let deadline = message.deadline_ms.map_or_else(String::new, |deadline| deadline.to_string());
        let choices = serde_json::to_vec(&message.choices).unwrap_or_default();
        let kind = if message.is_question() { "question" } else { "notice" };
        let parts = [
            message.channel.as_bytes(),
            self.to.kind.as_str().as_bytes(),
            self.to.handle.as_bytes(),
            message.body.as_bytes(),
            kind.as_bytes(),
            deadline.as_bytes(),
            &choices,
        ];
        framed("switchboard.send.v1", &parts)
    }
}

/// What is known when the commit is done.
struct Accepted {
    send_id: String,
    deduplicated: bool,
    /// The receipt, where nothing more has to be read for it.
    at_once: Option<MessageReceipt>,
}

/// Everything that is decided before the commit: reads the call, asks the policy, prepares what is sent. Changes nothing.
pub fn weigh(hub: &Hub, who: &Principal, agent: &str, params: &Value) -> Result<NewSend, Detail> {
    permit(who, Act::UseBus)?;
    let reserved = [HUB_AGENT, OWNER_AGENT].iter().any(|name| name.eq_ignore_ascii_case(agent));
    if reserved && !who.may(Right::Admin) {
        let sentence =
            format!("{TOOL}: the name {agent:?} is the hub's and its owner's; call under another agent name");
        return Err(refusal::bad_field("agent", sentence));
    }
    let call = read(hub, params)?;
    let ruling = rule(hub, who, agent, &call)?;
    build(hub, who, agent, &call, &ruling)
}

async fn accept(hub: &Arc<Hub>, who: &Principal, agent: &str, params: &Value) -> Result<Accepted, Detail> {
    for _ in 0..CODES_TRIED {
        let new = weigh(hub, who, agent, params)?;
        // None: the short code is taken.
        if let Some(done) = commit(hub, new).await? {
            return Ok(done);
        }
    }
    Err(refusal::store(&StoreError::Overloaded))
}

fn read<'a>(hub: &Hub, params: &'a Value) -> Result<Call<'a>, Detail> {
    let message = OutboundMessage::from_tool_params(params).map_err(bad_param)?;
    let channel = hub.outbound.registry.find(&message.channel).map_err(|sentence| no_channel(&sentence))?;
    let kind = match &message.to {
        Recipient::Direct(_) => AddressKind::Direct,
        Recipient::Channel(_) => AddressKind::Channel,
    };
    let can = channel.capabilities();
    match kind {
        AddressKind::Direct if !can.direct => {
            let sentence = format!(
                "{TOOL}: channel '{}' reaches no single people — pass kind 'channel'",
                message.channel
            );
            return Err(refusal::bad_field("kind", sentence));
        }
        AddressKind::Channel if !can.shared => {
            let sentence =
                format!("{TOOL}: channel '{}' has no shared channels — pass kind 'direct'", message.channel);
            return Err(refusal::bad_field("kind", sentence));
        }
        _ => {}
    }
    let handle = channel.normalise(kind, message.to.address());
    let handle = handle.map_err(|sentence| refusal::bad_field("to", format!("{TOOL}: 'to' {sentence}")))?;
    let now = hub.clock().wall_ms();
    if let Some(deadline) = message.deadline_ms.and_then(|deadline| WallMs::try_from(deadline).ok()) {
        // One that has passed is for the transaction to refuse: a repeat gets its first answer however late it comes.
        if deadline > now + QUESTION_DEADLINE_MS_MAX {
            let sentence = format!("{TOOL}: 'deadline_ms' must lie within seven days");
            return Err(refusal::bad_field("deadline_ms", sentence));
        }
    }
    Ok(Call { message, params, channel, to: Address { kind, handle } })
}

fn bad_param(bad: BadParam) -> Detail {
    refusal::bad_field(if bad.param.is_empty() { "params" } else { bad.param }, bad.message)
}

fn no_channel(sentence: &str) -> Detail {
    let message = format!("{TOOL}: {sentence}. Add others to the configuration as [[channel]].");
    Detail::new(Code::InvalidRequest, message).field("channel").reason("unknown_channel").sb("SB0130")
}

/// What the policy says of a call that it lets through.
struct Ruling {
    version: String,
    hold: Option<String>,
    limits: Vec<LimitTake>,
    escalation: Option<Escalation>,
    urgent: bool,
}

fn rule(hub: &Hub, who: &Principal, agent: &str, call: &Call<'_>) -> Result<Ruling, Detail> {
    let no_params = Map::new();
    let params = call.params.as_object().unwrap_or(&no_params);
    let verdict = view::verdict(hub, who, agent, params, (call.channel.name(), &call.to))?;
    let mut limits = verdict.limits;
    if limits.is_empty() {
        // Of the bearer, whatever names it calls itself by.
        let rate = hub.settings.outbound.default_rate;
        let key = format!("send/default/{}", who.instance_id);
        limits.push(LimitTake { key, rule: format!("default:{}/h", rate.max), rate });
    }
    let (version, hold, urgent, escalation) =
        (verdict.version, verdict.hold, verdict.urgent, verdict.escalation);
    Ok(Ruling { version, hold, limits, escalation, urgent })
}

fn build(
    hub: &Hub,
    who: &Principal,
    agent: &str,
    call: &Call<'_>,
    ruling: &Ruling,
) -> Result<NewSend, Detail> {
    let (message, kind, now) = (&call.message, call.message_kind(), hub.clock().wall_ms());
    let question = kind == MessageKind::Question;
    let send_id = hub.fresh_id("snd");
    let short = short_code(hub);
    let given = message.deadline_ms.and_then(|deadline| WallMs::try_from(deadline).ok());
    let deadline_ms = given.or_else(|| question.then(|| now + hub.settings.outbound.question_deadline_ms));
    let buttons = buttons(&message.choices, &short);
    let topic_id = question.then(|| hub.fresh_id("top"));
    // On a phone this machine is another one.
    let leads_there = call.channel.capabilities().buttons_max == 0 || !is_local(&hub.settings.public_url);
    let link = topic_id.as_ref().filter(|_| leads_there);
    let link = link.map(|topic| format!("{}/console/inbox#{topic}", hub.settings.public_url));
    let draft = Draft {
        body: &message.body,
        kind,
        from: agent,
        code: question.then_some(short.as_str()),
        deadline_ms: if question { deadline_ms } else { None },
        buttons: &buttons,
        link: link.as_deref(),
    };
    let parts = call.channel.prepare(&draft);
    let parts = parts.map_err(|sentence| refusal::bad_field("body", format!("{TOOL}: 'body' {sentence}")))?;
    let asked = escalate::Asked { message, params: call.params, agent, deadline_ms, link: link.as_deref() };
    let chain = ruling.escalation.as_ref().filter(|_| question);
    let chain = chain.map(|found| escalate::chain(hub, found, &asked)).transpose()?;
    Ok(NewSend {
        instance: who.instance,
        agent: agent.to_owned(),
        key: message.idempotency_key.clone(),
        digest: call.digest(),
        channel: call.channel.name().to_owned(),
        to: call.to.clone(),
        to_text: message.to.address().to_owned(),
        kind,
        body: message.body.clone(),
        deadline_ms,
        topic_id,
        code: short,
        consent: consent_rule(&*call.channel),
        policy: ruling.version.clone(),
        params: call.params.to_string(),
        parts,
        limits: ruling.limits.clone(),
        hold: ruling.hold.as_ref().map(|rule| Hold {
            approval_id: hub.fresh_id("apr"),
            rule: rule.clone(),
            expires_ms: now + hub.settings.outbound.approval_ms,
        }),
        about: None,
        urgent: ruling.urgent,
        amends: question && call.channel.capabilities().edits,
        chain,
        send_id,
    })
}

/// A fresh short code.
pub(super) fn short_code(hub: &Hub) -> String {
    code(&random::bytes::<CODE_LEN>(hub.entropy()), CODE_LEN)
}

/// The buttons of what is offered under the question of this short code.
pub(super) fn buttons(choices: &[String], short: &str) -> Vec<Button> {
    let button = |(choice, number): (&String, usize)| Button {
        label: choice.clone(),
        value: choice_value(short, number),
    };
    choices.iter().zip(1..).map(button).collect()
}

pub(super) fn consent_rule(channel: &dyn Channel) -> ConsentRule {
    if channel.kind() == CONSOLE {
        ConsentRule::Person
    } else if channel.capabilities().consent {
        ConsentRule::Listed
    } else {
        ConsentRule::Open
    }
}

// `None` when the short code is taken.
async fn commit(hub: &Arc<Hub>, new: NewSend) -> Result<Option<Accepted>, Detail> {
    let mut receipt = view::accepted(&new);
    let (missing, has_chain) = (not_reachable(hub, &new), new.chain.is_some());
    let asks = approval_requests(hub, &new);
    let asked: Vec<_> = asks.iter().map(|ask| (ask.channel.clone(), ask.to.handle.clone())).collect();
    let approval_id = receipt.approval_id.clone().unwrap_or_default();
    let mut writes = vec![Write::Outbound(OutboundWrite::Submit(Box::new(new)))];
    // In one transaction: what is held is never without those who are asked. They refer to it, and go nowhere when it is not there.
    writes.extend(asks.into_iter().map(|ask| Write::Outbound(OutboundWrite::Submit(Box::new(ask)))));
    fault::point("before-accept");
    let outcomes = hub.commit(writes).await.map_err(|error| refusal::store(&error))?;
    fault::point("after-accept");
    let mut outcomes = outcomes.into_iter();
    let first = outcomes.next();
    if matches!(first, Some(Outcome::Outbound(OutboundOutcome::Accepted { .. }))) {
        for ((channel, to), outcome) in asked.iter().zip(outcomes) {
            if let Outcome::Refused(refusal) = outcome {
                not_asked(hub, &approval_id, (channel, to), &refusal::of(&refusal));
            }
        }
    }
    match first {
        Some(Outcome::Outbound(outcome)) => {
            hub.outbound_changed(&outcome);
            match outcome {
                OutboundOutcome::Repeat(first, carried) => {
                    let receipt = view::repeated(&first, carried);
                    let (send_id, at_once) = (first.send_id, Some(receipt));
                    Ok(Some(Accepted { send_id, deduplicated: true, at_once }))
                }
                OutboundOutcome::Accepted { state, .. } => {
                    view::now_in(&mut receipt, state);
                    let send_id = receipt.send_id.clone().unwrap_or_default();
                    // How its rungs stand is for the store to say.
                    let at_once = Some(receipt).filter(|_| !has_chain);
                    Ok(Some(Accepted { send_id, deduplicated: false, at_once }))
                }
                _ => Err(refusal::store(&no_outcome())),
            }
        }
        Some(Outcome::Refused(Refusal::NameTaken)) => Ok(None),
        Some(Outcome::Refused(Refusal::IdReused)) => {
            Err(refusal::of(&Refusal::IdReused).field("idempotency_key"))
        }
        Some(Outcome::Refused(Refusal::DeadlinePast)) => {
            Err(refusal::of(&Refusal::DeadlinePast).field("deadline_ms"))
        }
        Some(Outcome::Refused(Refusal::NoConsent(Consent::Missing))) => Err(missing),
        Some(Outcome::Refused(other)) => Err(refusal::of(&other)),
        _ => Err(refusal::store(&no_outcome())),
    }
}

// Why nobody is reached there, and what would change that on this channel.
fn not_reachable(hub: &Hub, new: &NewSend) -> Detail {
    let (channel, to) = (&new.channel, &new.to_text);
    let detail = refusal::no_consent(Consent::Missing);
    if new.consent == ConsentRule::Person {
        let message =
            format!("Nobody of this organization is named {to:?}; `switchboard channels` lists who is.");
        return Detail::new(Code::NotFound, message).field("to").reason("unknown_person").sb("SB0131");
    }
    let shared = if new.to.kind == AddressKind::Channel { " --shared" } else { "" };
    let allow = format!("`switchboard pair allow --channel {channel} --to {to}{shared}`");
    let answers =
        hub.outbound.registry.configured(channel).is_some_and(|channel| channel.capabilities().answers);
    let message = if answers && shared.is_empty() {
        format!(
            "{to} has not agreed to be reached on {channel}: pair the person (`switchboard pair start --channel {channel}`), or let an \
             operator allow the address ({allow}; with --shared for a shared channel)."
        )
    } else {
        format!(
            "{to} may not be written to on {channel} yet: let an operator allow it ({allow}; with --shared for a shared channel)."
        )
    };
    detail.with_message(message.replace(" --shared`; with --shared for a shared channel", " --shared`"))
}

fn no_outcome() -> StoreError {
    StoreError::Inconsistent("a send without an outcome".into())
}

// Messages to those who are asked for an approval besides the console.
fn approval_requests(hub: &Hub, parked: &NewSend) -> Vec<NewSend> {
    let Some(hold) = &parked.hold else { return Vec::new() };
    let approvers = &hub.settings.outbound.approvers;
    approvers.iter().filter_map(|(channel, to)| approval_request(hub, parked, hold, channel, to)).collect()
}

// The console and the command line still can decide. Who, of what, and why is in the log; the address as a digest.
fn not_asked(hub: &Hub, approval_id: &str, (channel, to): (&str, &str), why: &Detail) {
    let digest = framed("switchboard.address.v1", &[channel.as_bytes(), to.as_bytes()]);
    let who = format!("{approval_id} to={} via={channel}", switchboard_core::digest::hex(&digest[..8]));
    tracing::warn!(approval_id, channel, why = why.message, "an approver could not be asked");
    hub.refused("approval.ask", &who, why);
}

fn approval_request(hub: &Hub, parked: &NewSend, hold: &Hold, channel: &str, to: &str) -> Option<NewSend> {
    let asked = channel;
    let told = |sentence: String| {
        let why = Detail::new(Code::InvalidRequest, sentence).field("approvers");
        not_asked(hub, &hold.approval_id, (asked, to), &why);
    };
    let channel = hub.outbound.registry.find(channel).map_err(told).ok()?;
    let handle = channel.normalise(AddressKind::Direct, to).map_err(told).ok()?;
    let short = short_code(hub);
    let body = approval_text(parked, hold);
    let button =
        |label: &str, word: &str| Button { label: label.into(), value: format!("{word} SB-{short}") };
    let buttons = [button("Approve", "approve"), button("Deny", "deny")];
    let send_id = hub.fresh_id("snd");
    let link = if link::is_carried_by(&*channel) {
        link::unsigned(hub, &send_id)
    } else {
        format!("{}/console/approvals#{}", hub.settings.public_url, hold.approval_id)
    };
    let draft = Draft {
        body: &body,
        kind: MessageKind::Approval,
        from: HUB_AGENT,
        code: Some(&short),
        deadline_ms: Some(hold.expires_ms),
        buttons: &buttons,
        link: Some(&link),
    };
    let parts = channel.prepare(&draft).map_err(told).ok()?;
    Some(NewSend {
        send_id,
        instance: hub.installation.hub_instance,
        agent: HUB_AGENT.into(),
        key: None,
        digest: framed("switchboard.send.v1", &[hold.approval_id.as_bytes(), handle.as_bytes()]),
        channel: channel.name().to_owned(),
        to: Address { kind: AddressKind::Direct, handle },
        to_text: to.to_owned(),
        kind: MessageKind::Approval,
        body,
        deadline_ms: Some(hold.expires_ms),
        topic_id: None,
        code: short,
        consent: consent_rule(&*channel),
        policy: String::new(),
        params: "{}".into(),
        parts,
        limits: Vec::new(),
        hold: None,
        about: Some(parked.send_id.clone()),
        amends: channel.capabilities().edits,
        chain: None,
        urgent: parked.urgent,
    })
}

// Everything of the call that reaches the recipient. What the agent wrote stands quoted, line by line, so that none of it can pose as ours.
fn approval_text(parked: &NewSend, hold: &Hold) -> String {
    let reach = match parked.to.kind {
        AddressKind::Direct => "the person",
        AddressKind::Channel => "the shared channel",
    };
    let kind = if parked.kind == MessageKind::Question { "a question" } else { "a notice" };
    let labels: Vec<_> = choices(&parked.params).iter().map(|label| plain(label)).collect();
    let choices = if labels.is_empty() {
        String::new()
    } else {
        format!("\n\nAnswers offered: {}", labels.join(" / "))
    };
    format!(
        "**{}** wants to send {kind} to {reach} **{}** on {}:\n\n{}{choices}{}\n\nRule: {}. Reply with `approve` or `deny`.",
        plain(&parked.agent),
        plain(&parked.to_text),
        parked.channel,
        quoted(&parked.body),
        whom_else(parked),
        plain(&hold.rule),
    )
}

// Whoever approves a question approves its chain.
fn whom_else(parked: &NewSend) -> String {
    let Some(chain) = &parked.chain else { return String::new() };
    let rungs: Vec<_> = chain
        .rungs
        .iter()
        .map(|rung| match &rung.ask {
            Some(ask) => {
                format!("after {} to {} on {}", Span(rung.after_ms), plain(&ask.to_text), ask.channel)
            }
            None => format!("after {} as a task proposal", Span(rung.after_ms)),
        })
        .collect();
    format!("\n\nIf nobody answers, it goes on: {}.", rungs.join(", "))
}

// Whether an address leads to the machine that it is opened on.
fn is_local(url: &str) -> bool {
    let host = url.split_once("://").map_or(url, |(_, rest)| rest);
    ["127.", "localhost", "[::1]", "0.0.0.0"].iter().any(|local| host.starts_with(local))
}

/// A text of somebody else's within one of ours, quoted line by line, so that none of it can pose as ours.
pub(super) fn quoted(text: &str) -> String {
    let lines = text.split(['\n', '\r', '\u{0B}', '\u{0C}', '\u{85}', '\u{2028}', '\u{2029}']);
    lines.map(|line| format!("> {line}")).collect::<Vec<_>>().join("\n")
}

/// A name within a sentence of ours: nothing of it is markup.
pub(super) fn plain(text: &str) -> String {
    let escaped = text.chars().flat_map(|c| {
        let mark = if c.is_ascii_punctuation() && !matches!(c, '.' | '-' | '@' | ':' | '/') {
            Some('\\')
        } else {
            None
        };
        mark.into_iter().chain(std::iter::once(if c.is_control() { ' ' } else { c }))
    });
    escaped.take(200).collect()
}
