//! What comes in. A channel hands over what a person wrote and how well the sender is known; here it becomes one of the few things that
//! a person's text can be, and is committed before the channel tells its service that it was taken.

use super::people;
use crate::hub::Hub;
use crate::refusal;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use std::sync::{Arc, Weak};
use switchboard_core::outbound::reply;
use switchboard_core::outbound::send::ApprovalState;
use switchboard_core::outbound::write::{Heard, HeardOutcome, OutboundOutcome, OutboundWrite};
use switchboard_core::port::channel::{
    Address, AddressKind, Channel, Inbound, Incoming, IncomingKind, Origin, PushAnswer, Pushed,
};
use switchboard_core::port::store::StoreError;
use switchboard_core::write::{Outcome, Write};
use switchboard_protocol::messaging::ANSWER_CHARS_MAX;
use tokio_util::sync::CancellationToken;

/// Longest id of an event that is kept as it is; a longer one is kept by its digest.
const EVENT_ID_BYTES_MAX: usize = 512;
/// Ids of messages that one text may answer: the nearest count.
const REFERENCES_MAX: usize = 32;

/// Begins to listen on a channel.
pub(super) fn start(hub: &Arc<Hub>, channel: &Arc<dyn Channel>, end: &CancellationToken) {
    if channel.capabilities().answers {
        let ear = Arc::new(Ear { hub: Arc::downgrade(hub) });
        let listening = channel.clone().listen(ear);
        hub.spawn_until(end, listening);
    }
}

/// What a service posted to a channel; `None` when there is no such channel.
pub async fn push(hub: &Arc<Hub>, channel: &str, pushed: Pushed) -> Option<PushAnswer> {
    let channel = hub.outbound.registry.configured(channel)?;
    let ear = Ear { hub: Arc::downgrade(hub) };
    Some(channel.push(pushed, &ear).await)
}

struct Ear {
    hub: Weak<Hub>,
}

impl Inbound for Ear {
    fn take(&self, incoming: Incoming) -> BoxFuture<'_, Result<Option<String>, StoreError>> {
        async move {
            let hub = self.hub.upgrade().ok_or(StoreError::Closed)?;
            take(&hub, incoming).await
        }
        .boxed()
    }

    fn health(&self, channel: &str, fault: Option<String>) {
        if let Some(hub) = self.hub.upgrade() {
            hub.outbound.set_fault(channel, super::Way::In, fault);
        }
    }
}

/// Takes what came in, and says what the sender is to be told.
pub async fn take(hub: &Arc<Hub>, incoming: Incoming) -> Result<Option<String>, StoreError> {
    let Some(write) = read(hub, incoming) else { return Ok(None) };
    let outcome = hub.commit(vec![Write::Outbound(write)]).await?.into_iter().next();
    let Some(Outcome::Outbound(outcome)) = outcome else { return Ok(None) };
    hub.outbound_changed(&outcome);
    let OutboundOutcome::Heard(heard) = outcome else { return Ok(None) };
    if let HeardOutcome::Decided { send, state: ApprovalState::Approved, .. } = heard {
        // What fails here is made good by the timer.
        let _ = people::release(hub, send).await;
    }
    Ok(told(&heard))
}

// A machine's text is none: an absence note answers nothing and stops nothing.
fn read(hub: &Hub, incoming: Incoming) -> Option<OutboundWrite> {
    let event_id = bounded_id(incoming.event_id);
    let text = match incoming.what {
        IncomingKind::Bounce { message_id, permanent, reason } => {
            let (channel, reason) = (incoming.channel, reason.chars().take(300).collect());
            return Some(OutboundWrite::Bounced { channel, event_id, message_id, permanent, reason });
        }
        _ if incoming.origin == Origin::Automatic => return None,
        IncomingKind::Text { text } | IncomingKind::Button { value: text } => text,
        // What was said stays said: an answer counts as it was given.
        IncomingKind::Edited { .. } | IncomingKind::Deleted { .. } => return None,
    };
    let text: String = text.chars().take(ANSWER_CHARS_MAX).collect();
    let references = incoming.references.into_iter().rev().take(REFERENCES_MAX).rev().collect();
    Some(OutboundWrite::Hear(Box::new(Heard {
        channel: incoming.channel,
        event_id,
        from: Address { kind: AddressKind::Direct, handle: incoming.from },
        verified: matches!(incoming.origin, Origin::Verified { .. }),
        references,
        said: reply::read(&text),
        sign: people::signer(hub),
    })))
}

fn bounded_id(id: String) -> String {
    if id.len() <= EVENT_ID_BYTES_MAX {
        return id;
    }
    switchboard_core::digest::hex(&switchboard_core::digest::sha256(id.as_bytes()))
}

// One sentence for the sender; strangers hear nothing, so that nobody learns who is known here.
fn told(heard: &HeardOutcome) -> Option<String> {
    Some(match heard {
        HeardOutcome::TooLate { what } => format!("Thank you, but {what}."),
        HeardOutcome::Ambiguous { codes } => {
            let codes: Vec<_> = codes.iter().map(|(code, what)| format!("SB-{code} ({what})")).collect();
            format!(
                "Several things are open: begin your answer with the code of the one you mean: {}.",
                codes.join(", ")
            )
        }
        HeardOutcome::MayNotDecide { why, tell: true } => format!("You cannot decide this: {why}."),
        HeardOutcome::NothingOpen => "Nothing is open here that this could answer.".into(),
        HeardOutcome::Paired => "You are paired. Say STOP to hear nothing more.".into(),
        HeardOutcome::BadCode => "This code is not valid, or not any more. Ask for a new one.".into(),
        HeardOutcome::TooManyCodes => "Too many wrong codes. Try again in ten minutes.".into(),
        HeardOutcome::Stopped => "You will not be written to any more. Say START to change that.".into(),
        HeardOutcome::Started => "You can be written to again. Say STOP to end that.".into(),
        HeardOutcome::Answered(_)
        | HeardOutcome::Decided { .. }
        | HeardOutcome::Stranger
        | HeardOutcome::MayNotDecide { .. }
        | HeardOutcome::Repeat
        | HeardOutcome::Bounced(_)
        | HeardOutcome::Nothing => return None,
    })
}

/// An outcome as an error for who asked over a door.
pub(super) fn refused(heard: &HeardOutcome) -> Option<switchboard_protocol::Detail> {
    match heard {
        HeardOutcome::TooLate { what } => Some(refusal::closed(what)),
        _ => None,
    }
}
