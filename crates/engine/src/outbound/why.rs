//! Why a send is where it is, in sentences for people: route, rule, attempts, waits, next step.

use switchboard_core::outbound::escalate::{RungRow, RungState, Span};
use switchboard_core::outbound::send::{PartState, SendDetail, SendState};
use switchboard_core::time::WallMs;

/// The story of a send, at `now_ms`.
#[must_use]
pub fn why(detail: &SendDetail, now_ms: WallMs) -> Vec<String> {
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
    told.push(next(detail, now_ms));
    told
}

fn rung(rung: &RungRow) -> String {
    let whom = match &rung.to {
        Some((channel, to)) => format!("{to} on {channel}"),
        None => "a task proposal".into(),
    };
    let reason = rung.reason.as_deref().map_or_else(String::new, |reason| format!(": {reason}"));
    let became = rung.send_id.as_deref().map_or_else(String::new, |send_id| format!(" as {send_id}"));
    let state = match rung.state {
        RungState::Waiting if rung.next_ms.is_none() => "not due",
        state => state.as_str(),
    };
    format!("If nobody answers, after {}: {whom}, {state}{became}{reason}.", Span(rung.after_ms))
}

fn sentence(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn next(detail: &SendDetail, now_ms: WallMs) -> String {
    let send = &detail.send;
    let reason = || send.reason.as_deref().map_or_else(String::new, |reason| format!(": {reason}"));
    match send.state {
        SendState::Held => {
            "It waits for somebody to approve it (console, or `switchboard approval list`).".into()
        }
        SendState::Queued => "It waits until the person has answered the question before it.".into(),
        SendState::Sending => sending(detail, now_ms),
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

fn sending(detail: &SendDetail, now_ms: WallMs) -> String {
    let open = detail.parts.iter().find(|part| part.state != PartState::Sent);
    let Some(part) = open else { return "Its last part has just arrived.".into() };
    match part.state {
        PartState::Due if part.next_ms > now_ms => {
            let wait_s = (part.next_ms - now_ms).div_euclid(1000) + 1;
            let reason = detail.send.reason.as_deref().unwrap_or("the service asked to wait");
            format!("Part {} is tried again in {wait_s} s ({reason}).", part.part)
        }
        PartState::Due => format!("Part {} is due.", part.part),
        PartState::Attempting => format!("Part {} is being attempted.", part.part),
        _ => format!("Part {} waits for what goes to the same address before it.", part.part),
    }
}
