//! Reading over HTTP: long poll, catch-up, history, the directory.

use crate::Doors;
use crate::http::{Answer, Caller, json, json_bytes};
use axum::extract::{Path, RawQuery, State};
use serde::Deserialize;
use switchboard_core::limits::{EVENTS_PAGE_MAX, HISTORY_PAGE_MAX};
use switchboard_engine::read::{agents, events, history, message, poll, streams};
use switchboard_engine::refusal;
use switchboard_protocol::Detail;
use switchboard_protocol::enroll::{WHOAMI_SCHEMA, WhoAmI, WhoAmIVault};
use switchboard_protocol::message::Network;
use utoipa::IntoParams;

/// Query of the long poll.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PollQuery {
    /// Cursor of the last answer; absent or empty: from now on.
    cursor: Option<String>,
    /// How long to wait for something, at most 60000.
    wait_ms: Option<u64>,
}

/// Query of catch-up.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventsQuery {
    /// Only what stands behind this position.
    after_seq: Option<u64>,
    /// At most so many, up to 500.
    limit: Option<usize>,
}

/// Query of history.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct HistoryQuery {
    /// `org` or `swarm`.
    network: Option<String>,
    /// The channel of an `org` network.
    channel: Option<String>,
    /// The swarm of a `swarm` network.
    swarm_id: Option<String>,
    /// Only this thread.
    thread_id: Option<String>,
    /// Only what stands behind this message.
    after_gid: Option<String>,
    /// Only what stands behind this position; not with `after_gid`.
    after_seq: Option<u64>,
    /// At most so many, up to 200.
    limit: Option<usize>,
}

/// Query of the streams.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct StreamsQuery {
    /// `next_after` of the last page.
    after: Option<String>,
}

/// Query of the directory.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AgentsQuery {
    /// Only the caller's own agents.
    mine: Option<bool>,
    /// `next_after` of the last page.
    after: Option<String>,
}

/// Query of search.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SearchQuery {
    /// Words, all of which must occur.
    q: Option<String>,
    /// At most so many, up to 50.
    limit: Option<usize>,
}

/// Reads a query strictly: an unknown or malformed parameter is refused by name.
pub(crate) fn query<T: serde::de::DeserializeOwned>(raw: Option<String>) -> Result<T, Detail> {
    let raw = raw.unwrap_or_default();
    let uri: axum::http::Uri =
        format!("/?{raw}").parse().map_err(|_| refusal::bad_field("query", "The query is malformed."))?;
    let read = axum::extract::Query::<T>::try_from_uri(&uri);
    read.map(|query| query.0).map_err(|error| {
        use std::error::Error as _;
        let said = error.source().map_or_else(|| error.to_string(), ToString::to_string);
        let field =
            said.split('`').nth(1).or_else(|| said.split(':').next()).unwrap_or("query").trim().to_owned();
        refusal::bad_field(&field, "This parameter is unknown, repeated or malformed; see /openapi.json.")
    })
}

/// Long poll.
#[utoipa::path(get, path = "/v1/bus/poll", tag = "bus", params(PollQuery), security(("bearer" = [])),
    responses((status = 200, description = "bus-poll/v1"), (status = 400), (status = 401), (status = 403), (status = 429)))]
pub async fn poll_bus(State(doors): State<Doors>, caller: Caller, RawQuery(raw): RawQuery) -> Answer {
    let asked: PollQuery = query(raw)?;
    let wait_ms = asked.wait_ms.unwrap_or(0);
    Ok(json_bytes(poll::json(&doors.hub, &caller.who, asked.cursor.as_deref(), wait_ms).await?))
}

/// Catch-up. The channel may stand in the path as it is or percent-encoded.
#[utoipa::path(get, path = "/v1/bus/channels/{channel}/events", tag = "bus", params(EventsQuery, ("channel" = String, Path)),
    security(("bearer" = [])),
    responses((status = 200, description = "bus-events/v1"), (status = 400), (status = 401), (status = 403), (status = 404)))]
pub async fn channel_events(
    State(doors): State<Doors>,
    caller: Caller,
    Path(rest): Path<String>,
    RawQuery(raw): RawQuery,
) -> Answer {
    let asked: EventsQuery = query(raw)?;
    let channel = rest.strip_suffix("/events");
    let channel = channel.ok_or_else(|| refusal::not_found("path", "Read …/channels/{channel}/events."))?;
    let limit = asked.limit.unwrap_or(EVENTS_PAGE_MAX);
    let after = asked.after_seq.unwrap_or(0);
    Ok(json_bytes(events::json(&doors.hub, &caller.who, channel, after, limit).await?))
}

/// History.
#[utoipa::path(get, path = "/v1/messages", tag = "bus", params(HistoryQuery), security(("bearer" = [])),
    responses((status = 200, description = "message-list/v1"), (status = 400), (status = 401), (status = 403), (status = 404)))]
pub async fn messages(State(doors): State<Doors>, caller: Caller, RawQuery(raw): RawQuery) -> Answer {
    let asked: HistoryQuery = query(raw)?;
    let needed = |value: &Option<String>, field: &str| {
        value.clone().ok_or_else(|| refusal::bad_field(field, format!("Name the {field} of this network.")))
    };
    let network = match asked.network.as_deref() {
        Some("org") => Network::Org { channel: needed(&asked.channel, "channel")?.into() },
        Some("swarm") => Network::Swarm { swarm_id: needed(&asked.swarm_id, "swarm_id")?.into() },
        _ => return Err(refusal::bad_field("network", "Use network=org or network=swarm.").into()),
    };
    let query = history::Query {
        network,
        thread_id: asked.thread_id.as_deref(),
        after_gid: asked.after_gid.as_deref(),
        after_seq: asked.after_seq,
        limit: asked.limit.unwrap_or(HISTORY_PAGE_MAX),
    };
    let page = history::page(&doors.hub, &caller.who, &query).await?;
    Ok(json_bytes(history::json(&doors.hub, &caller.who, &page)))
}

/// One message of any network the caller belongs to. What it may not read answers like what does not exist.
#[utoipa::path(get, path = "/v1/messages/{gid}", tag = "bus", params(("gid" = String, Path)), security(("bearer" = [])),
    responses((status = 200, description = "message-list/v1 with this message"), (status = 401), (status = 403), (status = 404)))]
pub async fn one_message(State(doors): State<Doors>, caller: Caller, Path(gid): Path<String>) -> Answer {
    let page = message::page(&doors.hub, &caller.who, &gid).await?;
    Ok(json_bytes(history::json(&doors.hub, &caller.who, &page)))
}

/// The channels and swarms the caller may read, and how far they go. A page may be short, or empty, and yet name a next one.
#[utoipa::path(get, path = "/v1/streams", tag = "bus", params(StreamsQuery), security(("bearer" = [])),
    responses((status = 200, description = "switchboard.stream-list/v1"), (status = 400), (status = 401), (status = 403)))]
pub async fn stream_list(State(doors): State<Doors>, caller: Caller, RawQuery(raw): RawQuery) -> Answer {
    let asked: StreamsQuery = query(raw)?;
    Ok(json(&streams::list(&doors.hub, &caller.who, asked.after.as_deref()).await?))
}

/// The directory.
#[utoipa::path(get, path = "/v1/agents", tag = "directory", params(AgentsQuery), security(("bearer" = [])),
    responses((status = 200, description = "agent-profile-list/v1"), (status = 401), (status = 403)))]
pub async fn agent_list(State(doors): State<Doors>, caller: Caller, RawQuery(raw): RawQuery) -> Answer {
    let asked: AgentsQuery = query(raw)?;
    Ok(json(&agents::list(&doors.hub, &caller.who, asked.mine.unwrap_or(false), asked.after.as_deref())?))
}

/// A handle's public view.
#[utoipa::path(get, path = "/v1/handles/{handle}", tag = "directory", params(("handle" = String, Path)), security(("bearer" = [])),
    responses((status = 200, description = "handle/v1"), (status = 401), (status = 404)))]
pub async fn handle(State(doors): State<Doors>, _: Caller, Path(handle): Path<String>) -> Answer {
    Ok(json(&agents::handle(&doors.hub, &handle).await?))
}

/// Full-text search over what the caller may read.
#[utoipa::path(get, path = "/v1/search", tag = "bus", params(SearchQuery), security(("bearer" = [])),
    responses((status = 200, description = "message-list/v1, newest first"), (status = 400), (status = 401), (status = 403)))]
pub async fn search(State(doors): State<Doors>, caller: Caller, RawQuery(raw): RawQuery) -> Answer {
    let asked: SearchQuery = query(raw)?;
    let words = asked.q.ok_or_else(|| refusal::bad_field("q", "Name the words to search for."))?;
    let limit = asked.limit.unwrap_or(switchboard_engine::read::search::HITS_MAX);
    let mut events = switchboard_engine::read::search::search(&doors.hub, &caller.who, &words, limit).await?;
    events.retain(|event| event.kind.is_message());
    Ok(json_bytes(history::json(&doors.hub, &caller.who, &history::Page { events, next: None })))
}

/// Who the bearer is.
#[utoipa::path(get, path = "/v1/whoami", tag = "directory", security(("bearer" = [])),
    responses((status = 200, description = "switchboard.whoami/v1"), (status = 401)))]
pub async fn whoami(State(doors): State<Doors>, caller: Caller) -> Answer {
    let who = &caller.who;
    let vaults = doors.hub.vault_list();
    Ok(json(&WhoAmI {
        schema: WHOAMI_SCHEMA.into(),
        instance_id: who.instance_id.clone(),
        org_id: doors.hub.installation.org_id.clone(),
        label: who.label.clone(),
        rights: who.rights.iter().map(|right| right.as_str().to_owned()).collect(),
        vaults: vaults
            .into_iter()
            .map(|vault| WhoAmIVault { vault_id: vault.vault.to_string(), name: vault.name })
            .collect(),
    }))
}
