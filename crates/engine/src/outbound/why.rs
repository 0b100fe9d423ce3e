//! Why a send is where it is, in sentences for people: route, rule, attempts, waits, next step.

use crate::hub::Hub;
use switchboard_core::outbound::send::{PartRow, PartState, SendDetail, SendState, delivery_id};
use switchboard_core::time::WallMs;

/// What stands around a send and is none of its rows.
#[derive(Debug, Clone, Default)]
pub struct Around {
    /// Now.
    pub now_ms: WallMs,
    /// Why nothing leaves on its channel, if that is so.
    pub fault: Option<String>,
}

/// What stands around a send of this hub now.
#[must_use]
pub fn around(hub: &Hub, detail: &SendDetail) -> Around {
    Around { now_ms: hub.clock().wall_ms(), fault: hub.outbound.outward_fault(&detail.send.channel) }
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
        told.push(format!(
            "A person had part {} sent again: as {}, instead of {}.",
            part.part,
            id(part.round),
            id(part.round - 1)
        ));
    }
    told.push(next(detail, around));
    told
}

fn sentence(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn next(detail: &SendDetail, around: &Around) -> String {
    let send = &detail.send;
    let reason = || send.reason.as_deref().map_or_else(String::new, |reason| format!(": {reason}"));
    match send.state {
        SendState::Held if detail.parts.iter().any(|part| part.state == PartState::Stranded) => format!(
            "It waits for its channel: no channel {:?} is configured. Configure it (it goes on by itself), or `switchboard outbound \
             discard {}`.",
            send.channel, send.send_id
        ),
        SendState::Held => {
            "It waits for somebody to approve it (console, or `switchboard approval list`).".into()
        }
        SendState::Queued => "It waits until the person has answered the question before it.".into(),
        SendState::Sending => sending(detail, around),
        SendState::Open => "It has arrived and waits for its answer.".into(),
        SendState::Delivered => "It has arrived.".into(),
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

fn sending(detail: &SendDetail, around: &Around) -> String {
    let open = detail.parts.iter().find(|part| part.state != PartState::Sent);
    let Some(part) = open else { return "Its last part has just arrived.".into() };
    if let (Some(fault), PartState::Due | PartState::Waiting) = (&around.fault, part.state) {
        return shut(detail, part, fault);
    }
    match part.state {
        PartState::Due if part.next_ms > around.now_ms => {
            let wait_s = (part.next_ms - around.now_ms).div_euclid(1000) + 1;
            let reason = detail.send.reason.as_deref().unwrap_or("the service asked to wait");
            format!("Part {} is tried again in {wait_s} s ({reason}).", part.part)
        }
        PartState::Due => format!("Part {} is due.", part.part),
        PartState::Attempting => format!("Part {} is being attempted.", part.part),
        _ => format!("Part {} waits for what goes to the same address before it.", part.part),
    }
}

fn shut(detail: &SendDetail, part: &PartRow, fault: &str) -> String {
    format!(
        "Part {} waits: nothing leaves on {} ({fault}). One message is tried now and then, with pauses of up to five minutes; a restart, \
         or `switchboard outbound retry {}`, has it tried at once.",
        part.part, detail.send.channel, detail.send.send_id
    )
}
