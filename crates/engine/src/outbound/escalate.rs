//! Escalation: the chain of a question is made whole when it is asked, and climbed by whoever keeps the store, rung by rung, when the
//! store says that their time has come.

use super::submit::{HUB_AGENT, consent_rule, short_code};
use super::view;
use crate::hub::Hub;
use crate::submit::{Speaker, message};
use crate::viewer::Agents;
use serde_json::Value;
use switchboard_core::digest::framed;
use switchboard_core::outbound::escalate::{DueRung, NewAsk, NewChain, NewRung, RungRow, Then};
use switchboard_core::outbound::write::{OutboundOutcome, OutboundWrite};
use switchboard_core::policy::{Escalation, Step};
use switchboard_core::port::channel::{Address, AddressKind, Draft, MessageKind};
use switchboard_core::port::store::StoreError;
use switchboard_core::principal::{InstanceKind, Principal};
use switchboard_core::time::{SECOND_MS, WallMs};
use switchboard_core::write::{Dedup, Outcome, Write};
use switchboard_protocol::message::{AgentMessage, MessageBody, MessageType, Network};
use switchboard_protocol::messaging::{EscalationStep, OutboundMessage, TOOL};
use switchboard_protocol::time::UtcTime;
use switchboard_protocol::{Code, Detail};

/// The vault in which tasks are proposed, and the channel on which they stand there.
const VAULT: &str = "main";
const CHANNEL: &str = "people";
/// A proposal is a question on the bus that nobody answers: how long it waits, which is as good as not at all.
const PROPOSAL_S: i64 = 2;

/// A question whose chain is made.
pub(super) struct Asked<'a> {
    pub(super) message: &'a OutboundMessage,
    /// As they were sent.
    pub(super) params: &'a Value,
    pub(super) agent: &'a str,
    pub(super) deadline_ms: Option<WallMs>,
    /// Where it can be answered in a browser.
    pub(super) link: Option<&'a str>,
}

/// The whole chain of a question, each message ready to be sent; a rule that names what is not there is told with its file.
pub(super) fn chain(hub: &Hub, found: &Escalation, asked: &Asked<'_>) -> Result<NewChain, Detail> {
    let rungs = found.ladder.rungs.iter().map(|step| {
        let ask = match &step.to {
            Some((channel, to)) => {
                let made = ask(hub, asked, channel, to);
                Some(made.map_err(|sentence| broken(found, step, &sentence))?)
            }
            None => None,
        };
        Ok(NewRung { after_ms: step.after_ms, ask })
    });
    Ok(NewChain {
        rule: found.rule.to_string(),
        then: found.ladder.then,
        rungs: rungs.collect::<Result<_, Detail>>()?,
    })
}

// Nothing was sent: a question whose chain cannot be kept is not asked.
fn broken(found: &Escalation, step: &Step, sentence: &str) -> Detail {
    let (channel, to) = step.to.as_ref().map_or(("", ""), |(channel, to)| (channel, to));
    let message = format!(
        "{TOOL}: the rule {} says that a question nobody answers goes to {to:?} on {channel:?}, which cannot be: {sentence}. Its file has \
         to be corrected by who wrote it.",
        found.rule
    );
    Detail::new(Code::InvalidRequest, message).reason("escalation").sb("SB0130")
}

fn ask(hub: &Hub, asked: &Asked<'_>, channel: &str, to: &str) -> Result<NewAsk, String> {
    let found = hub.outbound.registry.find(channel)?;
    if !found.capabilities().direct {
        return Err("it reaches no single people".into());
    }
    let handle = found.normalise(AddressKind::Direct, to)?;
    let code = short_code(hub);
    let buttons = super::submit::buttons(&asked.message.choices, &code);
    let draft = Draft {
        body: &asked.message.body,
        kind: MessageKind::Question,
        from: asked.agent,
        code: Some(&code),
        deadline_ms: asked.deadline_ms,
        buttons: &buttons,
        link: asked.link,
    };
    let parts = found.prepare(&draft)?;
    Ok(NewAsk {
        send_id: hub.fresh_id("snd"),
        channel: found.name().to_owned(),
        to: Address { kind: AddressKind::Direct, handle },
        to_text: to.to_owned(),
        consent: consent_rule(&*found),
        amends: found.capabilities().edits,
        params: call(asked.params, channel, to),
        parts,
        code,
    })
}

// The call that would have asked this person: what rules see of it.
fn call(params: &Value, channel: &str, to: &str) -> String {
    let mut call = params.as_object().cloned().unwrap_or_default();
    call.retain(|name, _| !matches!(name.as_str(), "kind" | "idempotency_key"));
    call.insert("channel".into(), channel.into());
    call.insert("to".into(), to.into());
    Value::Object(call).to_string()
}

/// Climbs the rungs whose time has come.
pub(crate) async fn climb(hub: &Hub) -> Result<(), StoreError> {
    let reads = hub.store().outbound();
    while hub.is_keeper() {
        let now = hub.clock().wall_ms();
        if reads.next_rung().await?.is_none_or(|due| due > now) {
            return Ok(());
        }
        let mut climbed = 0;
        for due in reads.due_rungs(now).await? {
            let skip = in_the_way(hub, &due).await?;
            let write =
                OutboundWrite::Climb { topic_id: due.rung.topic_id.clone(), rung: due.rung.rung, skip };
            let Some(outcome) = hub.commit_as_keeper(Write::Outbound(write)).await? else { return Ok(()) };
            if let Outcome::Outbound(outcome @ OutboundOutcome::Climbed(Some(_))) = &outcome {
                climbed += 1;
                hub.outbound_changed(outcome);
            }
        }
        if climbed == 0 {
            return Ok(());
        }
    }
    Ok(())
}

// What the store does not know of: rules and vaults. Whether a channel is there is not asked: when a hub starts, channels come after its
// timers, and what goes to one that is gone waits in the outbox, which says so.
async fn in_the_way(hub: &Hub, due: &DueRung) -> Result<Option<String>, StoreError> {
    if due.rung.to.is_none() {
        return propose(hub, due).await;
    }
    let rule = view::forbidden_call(hub, &due.agent, &due.params, due.approved_by.is_some());
    Ok(rule.map(|rule| format!("forbidden by {rule}")))
}

/// Proposes a task as the bus does: a question there that nobody answers becomes one. The same rung proposes it once, however often this
/// is tried. What a person decides about the task is no answer.
async fn propose(hub: &Hub, due: &DueRung) -> Result<Option<String>, StoreError> {
    let Some(vault) = hub.vault_named(VAULT).filter(|vault| !vault.sealed) else {
        return Ok(Some(format!("there is no vault {VAULT} that the hub can write to")));
    };
    let who = Principal { kind: InstanceKind::Token, label: HUB_AGENT.into(), ..hub.owner() };
    let agents: Agents = [(vault.vault, HUB_AGENT.to_owned())].into();
    let id = format!("rung-{}-{}", due.rung.topic_id, due.rung.rung);
    let network = Network::Org { channel: hub.streams.channel_name(vault.vault, CHANNEL).into() };
    let body = MessageBody::text(proposal(due));
    let mut asked = AgentMessage::new(id.as_str(), network, MessageType::Question, HUB_AGENT, body);
    asked.deadline = Some(UtcTime::from_unix(hub.clock().wall_ms().div_euclid(SECOND_MS) + PROPOSAL_S));
    let Ok(Write::Append(mut append)) = message::message(hub, Speaker { who: &who, agents: &agents }, &asked)
    else {
        return Ok(Some("the bus does not take the proposal".into()));
    };
    // Whatever its time was at the first try.
    let mut digest = [0; 16];
    digest.copy_from_slice(&framed("switchboard.proposal.v1", &[id.as_bytes()])[..16]);
    append.dedup = Some(Dedup { client_id: id.clone(), digest });
    match hub.commit_as_keeper(Write::Append(append)).await? {
        Some(Outcome::Appended(_)) => Ok(None),
        Some(other) => Ok(Some(format!("the bus does not take the proposal ({other:?})"))),
        None => Err(StoreError::Overloaded),
    }
}

// Everybody in the vault reads it: it names the question, and does not repeat it.
fn proposal(due: &DueRung) -> String {
    let topic = &due.rung.topic_id;
    format!(
        "Nobody has answered the question {topic} of the agent {}.\nSee it with `switchboard topic {topic}` or in the console's inbox, \
         and answer it there. Deciding about this task does not answer it.",
        due.agent
    )
}

/// The rungs of a chain as they are shown. `waits`: whether the question has yet to get the floor.
pub(super) fn steps(rungs: &[RungRow], waits: bool) -> Vec<EscalationStep> {
    let step = |rung: &RungRow| {
        use switchboard_core::outbound::escalate::RungState;
        let never = rung.state == RungState::Waiting && rung.next_ms.is_none() && !waits;
        let state = if never { RungState::Skipped } else { rung.state };
        let reason = never.then(|| "the question had ended".to_owned()).or_else(|| rung.reason.clone());
        let (channel, to) = rung.to.clone().unzip();
        EscalationStep {
            after_ms: rung.after_ms,
            at_ms: rung.next_ms,
            task: channel.is_none(),
            channel,
            to,
            state: state.as_str().into(),
            reason,
            send_id: rung.send_id.clone(),
        }
    };
    rungs.iter().map(step).collect()
}

/// What silence means, on the wire.
pub(super) fn word(then: Option<Then>) -> Option<String> {
    then.map(|then| then.as_str().to_owned())
}
