//! Reaching people over HTTP: the verb, the conversation it opens, and what can be reached (contract `outbound`).

use crate::Doors;
use crate::bus::read::query;
use crate::http::{Answer, Caller, Raw, json, read};
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse as _;
use serde::Deserialize;
use serde_json::Value;
use switchboard_core::port::channel::Pushed;
use switchboard_core::rights::Right;
use switchboard_engine::outbound::{hear, people, submit, view};
use switchboard_engine::{govern, refusal};
use switchboard_protocol::messaging::{ConversationGet, ConversationWithdraw};
use switchboard_protocol::outbound::SendState;
use switchboard_protocol::text::validate_id;
use utoipa::IntoParams;

/// Query of a call.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AgentQuery {
    /// The agent that calls; absent: the token's label.
    agent: Option<String>,
}

/// Sends a message to a person or a shared channel. The body is the tool's parameters; the answer is the receipt.
#[utoipa::path(post, path = "/v1/tools/messaging.send", tag = "people", params(AgentQuery), security(("bearer" = [])),
    request_body(content = String, description = "channel, to, kind?, body, idempotency_key?, message_kind?, deadline_ms?, choices?", content_type = "application/json"),
    responses((status = 200, description = "the receipt"), (status = 400), (status = 401), (status = 403), (status = 409), (status = 429)))]
pub async fn send(
    State(doors): State<Doors>,
    caller: Caller,
    RawQuery(raw): RawQuery,
    Raw(bytes): Raw,
) -> Answer {
    let asked: AgentQuery = query(raw)?;
    let agent = asked.agent.unwrap_or_else(|| govern::agent_name(&caller.who.label));
    validate_id(&agent, "agent").map_err(refusal::invalid)?;
    // Strict JSON first (size, depth, no key twice); what it says is the verb's own affair.
    let params: Value = read(&bytes)?;
    Ok(json(&submit::send(&doors.hub, &caller.who, &agent, &params).await?))
}

/// What became of a question; waits for its end when asked to.
#[utoipa::path(post, path = "/v1/tools/conversation.get", tag = "people", security(("bearer" = [])),
    request_body(content = String, description = "topic_id, wait_ms?", content_type = "application/json"),
    responses((status = 200, description = "the topic; an answer is foreign content"), (status = 400), (status = 401), (status = 404)))]
pub async fn conversation(State(doors): State<Doors>, caller: Caller, Raw(bytes): Raw) -> Answer {
    let get: ConversationGet = read(&bytes)?;
    Ok(json(&view::conversation(&doors.hub, &caller.who, &get).await?))
}

/// Takes a question back that nobody has answered.
#[utoipa::path(post, path = "/v1/tools/conversation.withdraw", tag = "people", security(("bearer" = [])),
    request_body(content = String, description = "topic_id", content_type = "application/json"),
    responses((status = 200), (status = 400), (status = 401), (status = 404), (status = 409)))]
pub async fn withdraw(State(doors): State<Doors>, caller: Caller, Raw(bytes): Raw) -> Answer {
    caller.uses_bus()?;
    let body: ConversationWithdraw = read(&bytes)?;
    let own = (!caller.who.may(Right::Admin)).then_some(caller.who.instance);
    let touched = people::withdraw(&doors.hub, &body.topic_id, own).await?;
    Ok(json(&SendState {
        send_id: touched.send_id,
        topic_id: touched.topic_id,
        state: touched.state.as_str().into(),
    }))
}

/// The channels on which people can be reached, and who can be.
#[utoipa::path(get, path = "/v1/tools/messaging.channels", tag = "people", security(("bearer" = [])),
    responses((status = 200), (status = 401)))]
pub async fn channels(State(doors): State<Doors>, caller: Caller) -> Answer {
    Ok(json(&view::channels(&doors.hub, &caller.who).await?))
}

/// What a chat service posts to its channel: `POST /v1/channels/{channel}/push`. Nobody has signed in: the channel proves the service's
/// signature over the bytes as they came.
#[utoipa::path(post, path = "/v1/channels/{channel}/push", tag = "people", params(("channel" = String, Path, description = "the channel's configured name")),
    request_body(content = String, description = "what the service sends", content_type = "application/json"),
    responses((status = 200), (status = 401, description = "the signature is not the service's"), (status = 404, description = "no channel of this name takes posts")))]
pub async fn push(
    State(doors): State<Doors>,
    Path(channel): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    Raw(bytes): Raw,
) -> Answer {
    let headers = headers.iter().map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()));
    let pushed = Pushed { headers: headers.collect(), query: query.unwrap_or_default(), body: bytes.into() };
    let answer = hear::push(&doors.hub, &channel, pushed).await;
    let answer = answer.filter(|answer| answer.status != 404);
    let answer =
        answer.ok_or_else(|| refusal::not_found("channel", "No channel of this name takes posts."))?;
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    Ok((status, [(header::CONTENT_TYPE, answer.content_type)], answer.body).into_response())
}
