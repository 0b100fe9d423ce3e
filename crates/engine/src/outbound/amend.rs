//! How what was asked has ended, shown where it was asked: buttons that can no longer be pressed go, and a line says who answered or
//! decided, on which channel. On services that can change messages only.

use crate::hub::Hub;
use futures_util::future::join_all;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::outbound::send::{
    ApprovalRow, ApprovalState, SendRow, SendState, TopicRow, TopicState,
};
use switchboard_core::outbound::write::{Amend, OutboundOutcome, OutboundWrite};
use switchboard_core::port::channel::{Amendment, Channel, FailureClass, NotSent, Performed};
use switchboard_core::port::store::StoreError;
use switchboard_core::time::{SECOND_MS, WallMs};
use switchboard_core::write::{Outcome, Write};
use tokio_util::sync::CancellationToken;

/// How often a channel is looked at when nothing rings.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Messages changed at a time.
const AT_ONCE: usize = 8;
/// Longest time for one; until then nobody else takes it up.
const TIMEOUT: Duration = Duration::from_mins(1);
/// Tries after which the message stays as it is.
const TRIES_MAX: u32 = 8;
/// Pause after the first try in vain; doubled with each.
const PAUSE_MS: WallMs = 5 * SECOND_MS;
/// Most of an answer that is shown, in characters.
const ANSWER_CHARS: usize = 200;

/// Begins to show outcomes on a channel that can.
pub(super) fn start(hub: &Arc<Hub>, channel: Arc<dyn Channel>, end: &CancellationToken) {
    if !channel.capabilities().edits {
        return;
    }
    let own = hub.clone();
    hub.spawn_until(end, async move {
        let bell = own.outbound.bell(&format!("{} outcomes", channel.name()));
        loop {
            let notified = bell.notified();
            tokio::pin!(notified);
            notified.as_mut().enable(); // before looking: what comes in between is not missed
            match step(&own, &*channel).await {
                Ok(true) => continue,
                Err(StoreError::Closed) => return,
                Ok(false) | Err(_) => {}
            }
            tokio::select! {
                () = notified => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    });
}

// Shows what is due; whether there was anything.
async fn step(hub: &Arc<Hub>, channel: &dyn Channel) -> Result<bool, StoreError> {
    let now = hub.clock().wall_ms();
    let due = hub.store().outbound().next_amend(channel.name().to_owned()).await?;
    if due.is_none_or(|due| due > now) {
        return Ok(false);
    }
    let until_ms = now + 2 * WallMs::try_from(TIMEOUT.as_millis()).unwrap_or(0);
    let claim = OutboundWrite::ClaimAmends { channel: channel.name().to_owned(), limit: AT_ONCE, until_ms };
    let outcome = hub.commit(vec![Write::Outbound(claim)]).await?.into_iter().next();
    let Some(Outcome::Outbound(OutboundOutcome::Amends(claimed))) = outcome else { return Ok(false) };
    let shown = join_all(claimed.into_iter().map(|amend| show(hub, channel, amend))).await;
    let any = !shown.is_empty();
    let writes: Vec<_> = shown.into_iter().map(Write::Outbound).collect();
    if any {
        hub.commit(writes).await?;
    }
    Ok(any)
}

async fn show(hub: &Hub, channel: &dyn Channel, amend: Amend) -> OutboundWrite {
    let (send, fails) = (amend.send.no, amend.fails);
    let amendment = Amendment {
        delivery: switchboard_core::outbound::send::delivery_id(&amend.send.send_id, amend.part, amend.round),
        to: amend.send.to.clone(),
        message_id: amend.message_id,
        part: amend.content,
        outcome: outcome(&amend.send, amend.topic.as_ref(), amend.approval.as_ref()),
    };
    let performed = match tokio::time::timeout(TIMEOUT, channel.amend(amendment)).await {
        Ok(performed) => performed,
        Err(_) => Performed::Unknown { reason: format!("no answer within {} s", TIMEOUT.as_secs()) },
    };
    let again_ms = again(&performed, fails).map(|pause_ms| hub.clock().wall_ms().saturating_add(pause_ms));
    if let (None, Performed::NotSent(why)) = (again_ms, &performed) {
        tracing::info!(send = amend.send.send_id, reason = why.reason, "an outcome could not be shown");
    }
    OutboundWrite::Amended { send, again_ms }
}

// How long to wait for the next try, if there is one. A cosmetic change is given up sooner than a message.
fn again(performed: &Performed, fails: u32) -> Option<WallMs> {
    use FailureClass::{Misconfigured, Throttled, Transient};
    let backoff = PAUSE_MS << fails.min(TRIES_MAX);
    let pause = match performed {
        Performed::NotSent(NotSent {
            class: Transient | Throttled | Misconfigured, retry_after_ms, ..
        }) => {
            let asked = retry_after_ms.and_then(|wait| WallMs::try_from(wait).ok()).unwrap_or(0);
            backoff.max(asked)
        }
        Performed::Sent { .. } | Performed::NotSent(_) => return None,
        Performed::Unknown { .. } => backoff,
    };
    (fails + 1 < TRIES_MAX).then_some(pause)
}

// One line of plain text: who said what and where, or why nobody can any more.
fn outcome(send: &SendRow, topic: Option<&TopicRow>, approval: Option<&ApprovalRow>) -> String {
    if let Some(approval) = approval {
        return decided(approval);
    }
    let Some(answer) = topic.and_then(|topic| topic.answer.as_ref()) else {
        let over = topic.is_some_and(|topic| topic.state == TopicState::Expired);
        return match send.state {
            _ if over => "Nobody answered in time.".into(),
            SendState::Expired => "Nobody answered in time.".into(),
            _ => "This question is closed.".into(),
        };
    };
    let own = answer.by == send.to.handle && answer.via == send.channel;
    let by = if own { String::new() } else { format!(" by {} ({})", line(&answer.by), answer.via) };
    format!("Answered{by}: {}", line(&answer.text))
}

fn decided(approval: &ApprovalRow) -> String {
    let by = approval.decided.as_ref().map(|decided| format!(" by {} ({})", line(&decided.by), decided.via));
    let by = by.unwrap_or_default();
    match approval.state {
        ApprovalState::Approved => format!("Approved{by}."),
        ApprovalState::Denied => format!("Denied{by}."),
        ApprovalState::Expired => "Nobody decided in time: denied.".into(),
        ApprovalState::Pending | ApprovalState::Void => "What this was for has ended.".into(),
    }
}

// Foreign text in a line of ours.
fn line(text: &str) -> String {
    let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.chars().count() <= ANSWER_CHARS {
        return text;
    }
    text.chars().take(ANSWER_CHARS - 1).chain(std::iter::once('…')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_tried_a_few_times_and_waits_as_long_as_asked() {
        let failed = |class, retry_after_ms| {
            Performed::NotSent(NotSent { retry_after_ms, ..NotSent::new(class, "no") })
        };
        assert_eq!(again(&Performed::Sent { message_id: None }, 0), None);
        assert_eq!(again(&failed(FailureClass::Permanent, None), 0), None);
        assert_eq!(again(&failed(FailureClass::BadAddress, None), 0), None);
        assert_eq!(again(&failed(FailureClass::Transient, None), 0), Some(PAUSE_MS));
        assert_eq!(again(&failed(FailureClass::Throttled, Some(60_000)), 1), Some(60_000));
        assert_eq!(again(&Performed::Unknown { reason: "cut".into() }, 2), Some(4 * PAUSE_MS));
        assert_eq!(again(&failed(FailureClass::Transient, None), TRIES_MAX - 1), None);
    }

    #[test]
    fn what_a_person_wrote_stays_one_line() {
        assert_eq!(line("yes\n> no\r\u{85}maybe"), "yes > no maybe");
        assert_eq!(line(&"é".repeat(1000)).chars().count(), ANSWER_CHARS);
    }
}
