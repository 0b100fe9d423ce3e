//! Why a send is where it is, in sentences for people: route, rule, attempts, waits, next step.

use crate::hub::Hub;
use crate::refusal;
use switchboard_core::outbound::escalate::{RungRow, RungState, Span};
use switchboard_core::outbound::send::{
    PartRow, PartState, SendDetail, SendFilter, SendRow, SendState, delivery_id,
};
use switchboard_core::time::WallMs;
use switchboard_protocol::Detail;

/// Sends before one that are looked at for what it waits behind.
const AHEAD_MAX: usize = 200;

/// What stands around a send that waits.
#[derive(Debug, Clone, Default)]
pub struct Around {
    /// When it is looked at.
    pub now_ms: WallMs,
    /// Why nothing leaves on its channel, if that is so.
    pub fault: Option<String>,
    /// Whether its channel is not configured any more.
    pub gone: bool,
    /// The send to the same address that leaves before it.
    pub ahead: Option<String>,
}

impl Around {
    /// Of a send, as it is now.
    pub async fn of(hub: &Hub, detail: &SendDetail) -> Result<Self, Detail> {
        let send = &detail.send;
        let gone = hub.outbound.registry.configured(&send.channel).is_none();
        let fault = if gone {
            Some("it is not configured any more".to_owned())
        } else {
            hub.outbound.outward_fault(&send.channel)
        };
        let waits = next_part(detail).is_some_and(|part| part.state == PartState::Waiting);
        let ahead = if waits && send.state == SendState::Sending { ahead(hub, send).await? } else { None };
        Ok(Self { now_ms: hub.clock().wall_ms(), fault, gone, ahead })
    }
}

async fn ahead(hub: &Hub, send: &SendRow) -> Result<Option<String>, Detail> {
    let filter = SendFilter {
        states: vec![SendState::Sending],
        channel: Some(send.channel.clone()),
        before: Some(send.no),
        limit: AHEAD_MAX,
        ..SendFilter::default()
    };
    let found = hub.store().outbound().sends(filter).await.map_err(|error| refusal::store(&error))?;
    Ok(found.into_iter().find(|before| before.to == send.to).map(|before| before.send_id))
}

/// Why a send that has neither arrived nor ended is where it is; `None` for all others.
#[must_use]
pub fn waits(detail: &SendDetail, around: &Around) -> Option<String> {
    match detail.send.state {
        SendState::Held if is_stranded(detail) => detail.send.reason.clone(),
        SendState::Held => Some("it waits for an approval".to_owned()),
        SendState::Queued => Some(match &detail.send.reason {
            Some(reason) => format!("it waits: {reason}"),
            None => "it waits until the person has answered the question before it".to_owned(),
        }),
        SendState::Sending => Some(sending(detail, around)),
        _ => None,
    }
}

/// The story of a send.
#[must_use]
pub fn why(detail: &SendDetail, around: &Around) -> Vec<String> {
    let send = &detail.send;
    let mut told = vec![format!(
        "Accepted from agent {} ({}) for {} on {}, {} part(s).",
        send.agent,
        detail.instance_id,
        send.to_text,
        send.channel,
        detail.parts.len()
    )];
    match &send.rule {
        Some(rule) => told.push(format!("The rule {rule} asked for an approval (policy {}).", send.policy)),
        None if send.policy.is_empty() => {}
        None => told.push(format!("No rule of the policy forbade it (policy {}).", send.policy)),
    }
    if let Some(approval) = &detail.approval {
        told.push(match &approval.decided {
            Some(decided) => {
                format!("{} by {} via {}.", sentence(approval.state.as_str()), decided.by, decided.via)
            }
            None => format!("The approval {} is {}.", approval.approval_id, approval.state.as_str()),
        });
    }
    if let Some(topic) = &send.asks {
        told.push(format!("It asks the question {topic} once more, which nobody had answered by then."));
    }
    told.extend(detail.rungs.iter().map(rung));
    if let Some((then, rule)) = detail.topic.as_ref().and_then(|it| it.then.zip(it.escalated_by.as_ref())) {
        told.push(format!("With no answer in time it means: {} ({rule}).", then.as_str()));
    }
    for attempt in &detail.attempts {
        let reason = attempt.reason.as_deref().map_or_else(String::new, |reason| format!(": {reason}"));
        told.push(format!(
            "Part {}, attempt {}: {}, took {} ms{reason}.",
            attempt.part,
            attempt.attempt,
            attempt.outcome,
            (attempt.ended_ms - attempt.began_ms).max(0)
        ));
    }
    for part in detail.parts.iter().filter(|part| part.round > 0) {
        let id = |round| delivery_id(&send.send_id, part.part, round);
        let (now, before) = (id(part.round), id(part.round - 1));
        told.push(format!("A person had part {} sent again: as {now}, instead of {before}.", part.part));
    }
    told.push(next(detail, around));
    told
}

fn rung(rung: &RungRow) -> String {
    let whom = match &rung.to {
        Some((channel, to)) => format!("{to} on {channel}"),
        None => "a task proposal".into(),
    };
    let reason = rung.reason.as_deref().map_or_else(String::new, |reason| format!(": {reason}"));
    let message = rung.send_id.as_deref().map_or_else(String::new, |send_id| format!(" as {send_id}"));
    let state = match rung.state {
        RungState::Waiting if rung.next_ms.is_none() => "not due",
        state => state.as_str(),
    };
    format!("If nobody answers, after {}: {whom}, {state}{message}{reason}.", Span(rung.after_ms))
}

fn sentence(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn next(detail: &SendDetail, around: &Around) -> String {
    let send = &detail.send;
    let reason = || send.reason.as_deref().map_or_else(String::new, |reason| format!(": {reason}"));
    match send.state {
        SendState::Held if is_stranded(detail) => format!(
            "It waits for its channel: no channel {:?} is configured. Configure it (it goes on by itself), or `switchboard outbound \
             discard {}`.",
            send.channel, send.send_id
        ),
        SendState::Held => {
            "It waits for somebody to approve it (console, or `switchboard approval list`).".into()
        }
        SendState::Queued if send.reason.is_some() => format!("It waits{}.", reason()),
        SendState::Queued => "It waits until the person has answered the question before it.".into(),
        SendState::Sending => format!("{}.", sentence(&sending(detail, around))),
        SendState::Open => "It has arrived and waits for its answer.".into(),
        SendState::Delivered => format!("It has arrived{}.", reason()),
        SendState::Answered => "It was answered.".into(),
        SendState::Expired => format!("It has expired{}.", reason()),
        SendState::Refused => format!("It was refused{}.", reason()),
        SendState::Dead => {
            format!(
                "It was given up{}. `switchboard outbound retry {}` tries it again.",
                reason(),
                send.send_id
            )
        }
        SendState::Unknown => format!(
            "Whether it arrived is not known{}. It is not sent again by itself: look, then `switchboard outbound retry {id}` or \
             `switchboard outbound discard {id}`.",
            reason(),
            id = send.send_id
        ),
    }
}

fn is_stranded(detail: &SendDetail) -> bool {
    detail.parts.iter().any(|part| part.state == PartState::Stranded)
}

/// Whether it waits for nothing but time, or for its channel to be tried.
#[must_use]
pub fn may_hurry(detail: &SendDetail, around: &Around) -> bool {
    let later = |part: &PartRow| {
        part.state == PartState::Due
            && (part.next_ms > around.now_ms || (around.fault.is_some() && !around.gone))
    };
    detail.send.state == SendState::Sending && next_part(detail).is_some_and(later)
}

fn next_part(detail: &SendDetail) -> Option<&PartRow> {
    detail.parts.iter().find(|part| part.state != PartState::Sent)
}

fn sending(detail: &SendDetail, around: &Around) -> String {
    let Some(part) = next_part(detail) else { return "its last part has just arrived".into() };
    let it = if detail.parts.len() == 1 { "it".to_owned() } else { format!("part {}", part.part) };
    let channel = &detail.send.channel;
    match part.state {
        PartState::Due if part.next_ms > around.now_ms => {
            let wait = human(part.next_ms - around.now_ms);
            match &detail.send.reason {
                Some(reason) => format!("{it} is tried again in {wait} ({reason})"),
                None => format!("{it} leaves in {wait}, at the pace that {channel} asks for"),
            }
        }
        PartState::Due => match &around.fault {
            Some(fault) if around.gone => format!("{it} is due and waits for {channel}: {fault}"),
            Some(fault) => format!(
                "{it} is due and waits for {channel}: {fault}. One message is tried now and then, with pauses of up to five minutes; a \
                 restart, or `switchboard outbound retry {}`, has it tried at once",
                detail.send.send_id
            ),
            None => format!("{it} is due"),
        },
        PartState::Attempting => format!("{it} is being attempted"),
        _ => match &around.ahead {
            Some(ahead) => format!("{it} waits behind {ahead}, which goes to the same address"),
            None => format!("{it} waits for what goes to the same address before it"),
        },
    }
}

// Never shorter than it is.
fn human(wait_ms: WallMs) -> String {
    let seconds = wait_ms.max(0).div_euclid(1000) + 1;
    if seconds < 180 { format!("{seconds} s") } else { format!("{} min", seconds.div_euclid(60) + 1) }
}

#[cfg(test)]
mod tests {
    use super::human;

    #[test]
    fn waits_are_told_in_fitting_units() {
        let waits = [0, 999, 1000, 178_999, 179_000, 3_600_000].map(human);
        assert_eq!(waits, ["1 s", "1 s", "2 s", "179 s", "4 min", "61 min"]);
    }
}
