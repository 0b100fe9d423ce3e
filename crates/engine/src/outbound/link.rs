//! The link in a mail that asks for an approval: whoever has the mail can decide, without signing in.
//!
//! Its token is the public id of that mail's send, and an HMAC under the hub's bearer secret, in a domain of its own, over everything the link is
//! bound to: the mail, the call that waits, the address, and the end of the time to decide. It is made anew for each attempt and never
//! stored: the outbox holds the unsigned address, which decides nothing. The store adds the rest: the first decision counts, and the
//! address must be one that may be written to at that moment.

use super::people::{release, signer};
use super::submit::HUB_AGENT;
use crate::hub::Hub;
use crate::refusal;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::digest::{Digest, framed, hmac};
use switchboard_core::ids::base32;
use switchboard_core::outbound::send::{ApprovalRow, ApprovalState, SendRow, VIA_LINK};
use switchboard_core::outbound::write::{Claimed, HeardOutcome, OutboundOutcome, OutboundWrite};
use switchboard_core::port::channel::{AddressKind, Channel, MessageKind, Part};
use switchboard_protocol::{Code, Detail};

/// Where the links lead, on the hub.
pub const PATH: &str = "/console/decide/";
/// Kind of the channel whose messages carry them: it reaches one person's own mailbox and nobody else.
const CARRIER: &str = "email";
/// Longest token that is looked at, in bytes.
const TOKEN_BYTES_MAX: usize = 128;
const DOMAIN: &[u8] = b"approval.link.v1";

/// Whether the messages of a channel carry such a link.
pub(super) fn is_carried_by(channel: &dyn Channel) -> bool {
    channel.kind() == CARRIER
}

/// The address as it is stored, without what makes it decide anything.
pub(super) fn unsigned(hub: &Hub, send_id: &str) -> String {
    format!("{}{PATH}{send_id}", hub.settings.public_url)
}

/// What is sent: the part with its link signed, if it has one. The same at each attempt.
pub(super) fn signed(hub: &Hub, channel: &dyn Channel, claimed: &Claimed) -> Part {
    let part = claimed.content.clone();
    if !is_carried_by(channel) {
        return part;
    }
    let Some(proof) = proof(hub, &claimed.send) else { return part };
    // The id was made after the agent had written its text: nothing of that can be taken for this.
    let bare = format!("{PATH}{}", claimed.send.send_id);
    let whole = format!("{bare}.{proof}");
    let sign = |text: String| text.replace(&bare, &whole);
    Part { text: sign(part.text), html: part.html.map(sign), ..part }
}

/// The proof that a link was sent with this message; `None` when it asks for no approval.
fn proof(hub: &Hub, asked: &SendRow) -> Option<String> {
    let asks = asked.kind == MessageKind::Approval && asked.agent == HUB_AGENT;
    let (held, end) = (asked.about.filter(|_| asks)?, asked.deadline_ms?);
    let parts: [&[u8]; 6] = [
        DOMAIN,
        asked.send_id.as_bytes(),
        &held.to_be_bytes(),
        asked.channel.as_bytes(),
        asked.to.handle.as_bytes(),
        &end.to_be_bytes(),
    ];
    Some(base32(&hmac(&hub.installation.keys.bearer, &parts)))
}

/// What a good link shows.
#[derive(Debug, Clone)]
pub struct Opened {
    /// The approval.
    pub approval: ApprovalRow,
    /// The call that waits for it.
    pub held: SendRow,
    /// The message that asked.
    pub asked: SendRow,
}

impl Opened {
    /// Whether it can still be decided at `now_ms`.
    #[must_use]
    pub fn is_open(&self, now_ms: switchboard_core::time::WallMs) -> bool {
        self.approval.state == ApprovalState::Pending && now_ms < self.approval.expires_ms
    }
}

/// What a link is for. Whatever is wrong with it gets one and the same answer. Changes nothing.
pub async fn open(hub: &Hub, token: &str) -> Result<Opened, Detail> {
    let now = hub.clock().monotonic();
    let claim = token.split('.').next().unwrap_or_default();
    let name = framed("approval.link.name", &[claim.as_bytes()]);
    if let Some(wait) = hub.console.link_wait(&name, now) {
        return Err(refused(hub, too_many(wait)));
    }
    match look_up(hub, token).await? {
        Some(opened) => Ok(opened),
        None => Err(wrong(hub, name, now)),
    }
}

fn wrong(hub: &Hub, name: Digest, now: Duration) -> Detail {
    let detail = match hub.console.link_was_wrong(name, now) {
        Ok(()) => not_one(),
        Err(wait) => too_many(wait),
    };
    refused(hub, detail)
}

fn refused(hub: &Hub, detail: Detail) -> Detail {
    hub.refused("console.decide", "unknown", &detail);
    detail
}

fn not_one() -> Detail {
    let message =
        "This link decides nothing: it is incomplete or not valid any more, or you may not decide this.";
    Detail::new(Code::NotFound, message).reason("bad_link").sb("SB0162")
}

fn too_many(wait: Duration) -> Detail {
    let message = "Too many links that were none; wait, or decide in the console.";
    Detail::new(Code::RateLimited, message).retry_after_s(wait.as_secs() + 1).sb("SB0162")
}

async fn look_up(hub: &Hub, token: &str) -> Result<Option<Opened>, Detail> {
    let Some((send_id, given)) = token.split_once('.').filter(|_| token.len() <= TOKEN_BYTES_MAX) else {
        return Ok(None);
    };
    let failed = |error| refusal::store(&error);
    let reads = hub.store().outbound();
    let Some(asked) = reads.send(send_id.to_owned()).await.map_err(failed)?.map(|detail| detail.send) else {
        return Ok(None);
    };
    let is_right = proof(hub, &asked).is_some_and(|proof| is_same(hub, &proof, given));
    if !is_right || !may_decide(hub, &asked).await? {
        return Ok(None);
    }
    let Some(held) = asked.about else { return Ok(None) };
    let Some(held) = reads.send_by_no(held).await.map_err(failed)? else { return Ok(None) };
    let found = reads.send(held.send_id).await.map_err(failed)?;
    let found = found.and_then(|detail| Some((detail.send, detail.approval?)));
    Ok(found.map(|(held, approval)| Opened { approval, held, asked }))
}

// In a time that says nothing of how much of it is right.
fn is_same(hub: &Hub, one: &str, other: &str) -> bool {
    let compared = |text: &str| hmac(&hub.installation.keys.bearer, &[b"compare", text.as_bytes()]);
    compared(one) == compared(other)
}

// Whether the address may be written to, and is one of those who are asked. The transaction looks at the former once more.
async fn may_decide(hub: &Hub, asked: &SendRow) -> Result<bool, Detail> {
    let (channel, to) = (&asked.channel, &asked.to);
    let Some(known) = hub.outbound.registry.configured(channel) else { return Ok(false) };
    let is_asked = hub.settings.outbound.approvers.iter().any(|(name, written)| {
        name == channel && known.normalise(AddressKind::Direct, written).as_ref() == Ok(&to.handle)
    });
    let consents = hub.store().outbound().consents().await.map_err(|error| refusal::store(&error))?;
    let is_given =
        consents.iter().any(|row| row.channel == *channel && row.to == *to && row.state.consent().is_given());
    Ok(is_asked && is_given)
}

/// Decides what a link is for; what was approved goes on under the policy as it is now. [`Code::InvalidState`] when it is decided already,
/// or its time is over.
pub async fn decide(hub: &Arc<Hub>, token: &str, approve: bool) -> Result<ApprovalState, Detail> {
    let opened = open(hub, token).await?;
    let write = OutboundWrite::DecideByLink {
        asked: opened.asked.send_id,
        approve,
        via: VIA_LINK.to_owned(),
        sign: signer(hub),
    };
    match hub.commit_outbound(write).await? {
        OutboundOutcome::Heard(HeardOutcome::Decided { send, state, .. }) => {
            if state == ApprovalState::Approved {
                // What fails here is made good by the timer.
                let _ = release(hub, send).await;
            }
            Ok(state)
        }
        OutboundOutcome::Heard(HeardOutcome::TooLate { what }) => Err(refusal::closed(&what)),
        // The address was revoked in this very moment.
        _ => Err(refused(hub, not_one())),
    }
}
