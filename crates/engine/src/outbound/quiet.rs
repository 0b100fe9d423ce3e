//! Quiet hours: whose they are, and what happens when they are over. Notices that were held back reach their address as one digest;
//! everything else goes on by itself.

use super::submit::{HUB_AGENT, consent_rule, plain, quoted};
use super::view;
use crate::hub::Hub;
use crate::refusal;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use switchboard_core::digest::framed;
use switchboard_core::ids::PersonNo;
use switchboard_core::outbound::quiet::Quiet;
use switchboard_core::outbound::reply::{CODE_LEN, code};
use switchboard_core::outbound::send::{DIGEST, SendRow, SendState, lane_of};
use switchboard_core::outbound::write::{NewSend, OutboundOutcome, OutboundWrite};
use switchboard_core::port::channel::{AddressKind, Channel, Draft, MessageKind};
use switchboard_core::port::store::StoreError;
use switchboard_core::random;
use switchboard_core::write::{Outcome, Write};
use switchboard_protocol::Detail;

/// Sends looked at at a time; what is left comes with the next look.
const AT_ONCE: usize = 200;
/// Notices in one digest.
const DIGEST_MAX: usize = 50;

/// Sends whose quiet hours are over go on.
pub(crate) async fn wake(hub: &Arc<Hub>) -> Result<(), StoreError> {
    while hub.is_keeper() {
        let now = hub.clock().wall_ms();
        if hub.store().outbound().next_quiet().await?.is_none_or(|due| due > now) {
            return Ok(());
        }
        let over = hub.store().outbound().quiet_over(now, AT_ONCE).await?;
        let (mut single, mut lanes) = (Vec::new(), BTreeMap::<String, Vec<SendRow>>::new());
        for send in over {
            if may_be_told_with_others(hub, &send) {
                // A fallback carries what is addressed to several names.
                let lane = format!("{}/{}", asked_channel(&send), lane_of(&send.channel, &send.to));
                lanes.entry(lane).or_default().push(send);
            } else {
                single.push(send.no);
            }
        }
        for sends in lanes.into_values() {
            for some in sends.chunks(DIGEST_MAX) {
                if some.len() < 2 || !digest(hub, some).await? {
                    single.extend(some.iter().map(|send| send.no));
                }
            }
        }
        if !single.is_empty() {
            commit(hub, OutboundWrite::Wake { sends: single }).await?;
        }
    }
    Ok(())
}

// One with a deadline keeps it, and one that a rule forbids by now is stopped at the gate.
fn may_be_told_with_others(hub: &Hub, send: &SendRow) -> bool {
    send.kind == MessageKind::Notice
        && send.state == SendState::Queued
        && send.deadline_ms.is_none()
        && send.to.kind == AddressKind::Direct
        && view::forbidden_now(hub, send).is_none()
}

// The name that the caller used.
fn asked_channel(send: &SendRow) -> String {
    let params: Value = serde_json::from_str(&send.params).unwrap_or_default();
    params["channel"].as_str().unwrap_or(&send.channel).to_owned()
}

async fn commit(hub: &Hub, write: OutboundWrite) -> Result<Option<Outcome>, StoreError> {
    let outcome = hub.commit_as_keeper(Write::Outbound(write)).await?;
    if let Some(Outcome::Outbound(outcome)) = &outcome {
        hub.outbound_changed(outcome);
    }
    Ok(outcome)
}

// Whether they are on their way together. A digest that is too long for its channel, or refused, is none.
async fn digest(hub: &Arc<Hub>, sends: &[SendRow]) -> Result<bool, StoreError> {
    let Some(channel) = hub.outbound.registry.configured(&sends[0].channel) else { return Ok(false) };
    let Some(new) = together(hub, &*channel, sends) else { return Ok(false) };
    let of = sends.iter().map(|send| send.no).collect();
    let outcome = commit(hub, OutboundWrite::Digest { new: Box::new(new), of }).await?;
    Ok(matches!(outcome, Some(Outcome::Outbound(OutboundOutcome::Accepted { .. }))))
}

fn together(hub: &Hub, channel: &dyn Channel, sends: &[SendRow]) -> Option<NewSend> {
    let messages = sends.iter().map(|send| format!("**{}**:\n\n{}", plain(&send.agent), quoted(&send.body)));
    let messages: Vec<_> = messages.collect();
    let body = format!(
        "**{} messages** came during your quiet hours.\n\n{}",
        sends.len(),
        messages.join("\n\n---\n\n")
    );
    let draft = Draft {
        body: &body,
        kind: MessageKind::Notice,
        from: HUB_AGENT,
        code: None,
        deadline_ms: None,
        buttons: &[],
        link: None,
    };
    let parts = channel.prepare(&draft).ok()?;
    let first = &sends[0];
    let ids: Vec<_> = sends.iter().map(|send| send.send_id.as_bytes()).collect();
    Some(NewSend {
        send_id: hub.fresh_id(DIGEST.trim_end_matches('_')),
        instance: hub.installation.hub_instance,
        agent: HUB_AGENT.into(),
        key: None,
        digest: framed("switchboard.digest.v1", &ids),
        channel: channel.name().to_owned(),
        to: first.to.clone(),
        to_text: first.to_text.clone(),
        kind: MessageKind::Notice,
        body,
        deadline_ms: None,
        topic_id: None,
        code: code(&random::bytes::<CODE_LEN>(hub.entropy()), CODE_LEN),
        consent: consent_rule(channel),
        policy: first.policy.clone(),
        params: json!({ "channel": asked_channel(first) }).to_string(),
        parts,
        limits: Vec::new(),
        hold: None,
        about: None,
        amends: false,
        urgent: true,
        chain: None,
    })
}

/// Sets a person's quiet hours, or ends them: `(zone, from, until)` as [`Quiet::parse`] reads them.
pub async fn set(
    hub: &Hub,
    name: &str,
    hours: Option<(&str, &str, &str)>,
    by: &str,
) -> Result<(PersonNo, Option<Quiet>), Detail> {
    let quiet = hours.map(|(zone, from, until)| Quiet::parse(zone, from, until)).transpose();
    let quiet = quiet.map_err(|sentence| {
        let field = sentence.split('\'').nth(1).unwrap_or("quiet").to_owned();
        refusal::bad_field(&field, format!("{sentence}."))
    })?;
    let person = super::people::person_named(hub, name).await?;
    let write = OutboundWrite::Quiet { person, quiet: quiet.clone(), by: by.to_owned() };
    hub.commit_outbound(write).await?;
    Ok((person, quiet))
}
