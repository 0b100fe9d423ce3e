//! Sending over HTTP: `POST /v1/messages`, for scripts and clients that keep no socket (our own addition).

use crate::Doors;
use crate::http::{Answer, Caller, Posted, Raw, json_bytes};
use axum::extract::State;
use std::sync::Arc;
use switchboard_core::write::Outcome;
use switchboard_engine::refusal;
use switchboard_engine::session::answer::stored;
use switchboard_engine::submit::{self, Speaker};
use switchboard_engine::viewer::Agents;
use switchboard_protocol::body;
use switchboard_protocol::json::Limits;
use switchboard_protocol::message::AgentMessage;

/// Stores one message as a `message` frame would; answers `message.stored`. The sending agent must have been announced by
/// this instance (a `hello`, or an MCP tool).
#[utoipa::path(post, path = "/v1/messages", tag = "bus", security(("bearer" = [])),
    request_body(content = String, description = "An agent message, as the `message` frame without `t`", content_type = "application/json"),
    responses((status = 200, description = "message.stored"), (status = 400), (status = 401), (status = 403), (status = 404), (status = 409), (status = 429)))]
pub async fn message(State(doors): State<Doors>, caller: Caller, posted: Posted, Raw(bytes): Raw) -> Answer {
    let hub = &doors.hub;
    let message: AgentMessage<'_> = body::read(&bytes, Limits::HTTP_BODY).map_err(refusal::unreadable)?;
    message.validate().map_err(refusal::invalid)?;
    let agents: Agents = hub
        .vault_list()
        .iter()
        .filter(|vault| hub.presence.agent(vault.vault, caller.who.instance, &message.from).is_some())
        .map(|vault| (vault.vault, message.from.to_string()))
        .collect();
    let speaker = Speaker { who: &caller.who, agents: &agents };
    let refused =
        |detail: &switchboard_protocol::Detail| hub.refused("bus.message", &caller.who.instance_id, detail);
    let write = submit::message::message(hub, speaker, &message).inspect_err(refused)?;
    let once = posted.once(hub, &caller.who.instance_id, &bytes)?;
    let network = serde_json::to_vec(&message.network).unwrap_or_default();
    let (gids, id) = (hub.gids.clone(), message.client_msg_id.to_string());
    let render = move |outcome: &Outcome| match outcome {
        Outcome::Appended(appended) => stored(&gids, &id, &network, appended),
        _ => Vec::new(),
    };
    Ok(json_bytes(hub.once(&once, write, Arc::new(render)).await.inspect_err(refused)?))
}
