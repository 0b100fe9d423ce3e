//! What goes out to people, and what they say: looking, deciding, trying again, pairing.

use crate::Doors;
use crate::bus::read::query;
use crate::http::{Answer, Caller, Raw, json, read};
use axum::extract::{Path, RawQuery, State};
use serde::Deserialize;
use switchboard_core::outbound::send::{SendFilter, SendState};
use switchboard_core::outbound::write::Touched;
use switchboard_core::port::channel::AddressKind;
use switchboard_core::port::store::StoreError;
use switchboard_engine::outbound::{people, view};
use switchboard_engine::refusal;
use switchboard_protocol::{Detail, outbound as wire};
use utoipa::IntoParams;

/// Sends of one page at most.
const PAGE_MAX: usize = 500;
/// How decisions by commands are recorded.
const CLI: &str = "cli";

/// Query of the listing.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SendsQuery {
    /// Only these states, separated by commas.
    state: Option<String>,
    /// Only what is older than this (`next` of the last one of a page).
    before: Option<i64>,
    /// At most so many, up to 500.
    limit: Option<usize>,
}

/// Query of the approvals.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ApprovalsQuery {
    /// Also those that were decided.
    all: Option<bool>,
}

pub(super) fn failed(error: &StoreError) -> Detail {
    refusal::store(error)
}

fn settled(touched: Touched) -> wire::SendState {
    wire::SendState {
        send_id: touched.send_id,
        topic_id: touched.topic_id,
        state: touched.state.as_str().into(),
    }
}

/// Sends, newest first.
#[utoipa::path(get, path = "/admin/v1/outbound", tag = "admin", params(SendsQuery), security(("bearer" = [])), responses((status = 200), (status = 400), (status = 401), (status = 403)))]
pub async fn send_list(State(doors): State<Doors>, caller: Caller, RawQuery(raw): RawQuery) -> Answer {
    caller.administers()?;
    let asked: SendsQuery = query(raw)?;
    let words = asked.state.as_deref().unwrap_or_default();
    let states = words.split(',').filter(|word| !word.is_empty()).map(|word| {
        let unknown = || {
            let known: Vec<_> =
                switchboard_core::outbound::send::STATES.iter().map(|state| state.as_str()).collect();
            refusal::bad_field(
                "state",
                format!("No state is called {word:?}; there are: {}.", known.join(", ")),
            )
        };
        SendState::parse(word).ok_or_else(unknown)
    });
    let filter = SendFilter {
        states: states.collect::<Result<_, _>>()?,
        instance: None,
        channel: None,
        before: asked.before,
        limit: asked.limit.unwrap_or(50).clamp(1, PAGE_MAX),
    };
    let sends = doors.hub.store().outbound().sends(filter).await.map_err(|error| failed(&error))?;
    Ok(json(&wire::Sends { sends: view::listing(&doors.hub, &sends).await? }))
}

/// Everything about one send, with why it is where it is.
#[utoipa::path(get, path = "/admin/v1/outbound/{send_id}", tag = "admin", params(("send_id" = String, Path)), security(("bearer" = [])), responses((status = 200), (status = 401), (status = 403), (status = 404)))]
pub async fn send_show(State(doors): State<Doors>, caller: Caller, Path(send_id): Path<String>) -> Answer {
    caller.administers()?;
    Ok(json(&view::whole(&doors.hub, &send_id).await?))
}

/// Tries a dead or unknown send again, or one that waits for a later attempt at once.
#[utoipa::path(post, path = "/admin/v1/outbound/{send_id}/retry", tag = "admin", params(("send_id" = String, Path)), security(("bearer" = [])), responses((status = 200), (status = 401), (status = 403), (status = 404), (status = 409)))]
pub async fn send_retry(State(doors): State<Doors>, caller: Caller, Path(send_id): Path<String>) -> Answer {
    caller.administers()?;
    Ok(json(&settled(people::retry(&doors.hub, &send_id, &caller.who.owner_name).await?)))
}

/// Gives a send up.
#[utoipa::path(post, path = "/admin/v1/outbound/{send_id}/discard", tag = "admin", params(("send_id" = String, Path)), security(("bearer" = [])), responses((status = 200), (status = 401), (status = 403), (status = 404), (status = 409)))]
pub async fn send_discard(State(doors): State<Doors>, caller: Caller, Path(send_id): Path<String>) -> Answer {
    caller.administers()?;
    Ok(json(&settled(people::discard(&doors.hub, &send_id, &caller.who.owner_name).await?)))
}

/// Calls that wait for a person's yes.
#[utoipa::path(get, path = "/admin/v1/approvals", tag = "admin", params(ApprovalsQuery), security(("bearer" = [])), responses((status = 200), (status = 401), (status = 403)))]
pub async fn approval_list(State(doors): State<Doors>, caller: Caller, RawQuery(raw): RawQuery) -> Answer {
    caller.administers()?;
    let asked: ApprovalsQuery = query(raw)?;
    let pending_only = !asked.all.unwrap_or(false);
    let rows = doors
        .hub
        .store()
        .outbound()
        .approvals(pending_only, PAGE_MAX)
        .await
        .map_err(|error| failed(&error))?;
    let approvals = rows.iter().map(|(approval, send)| view::approval_view(approval, send)).collect();
    Ok(json(&wire::Approvals { approvals }))
}

/// Decides one; the first decision counts.
#[utoipa::path(post, path = "/admin/v1/approvals/{approval_id}", tag = "admin", params(("approval_id" = String, Path)), security(("bearer" = [])),
    request_body(content = String, content_type = "application/json"), responses((status = 200), (status = 400), (status = 401), (status = 403), (status = 404), (status = 409)))]
pub async fn approval_decide(
    State(doors): State<Doors>,
    caller: Caller,
    Path(approval_id): Path<String>,
    Raw(bytes): Raw,
) -> Answer {
    caller.administers()?;
    let body: wire::Decide = read(&bytes)?;
    let by = &caller.who.owner_name;
    let state = people::decide(&doors.hub, &approval_id, body.approve, by, CLI).await?;
    Ok(json(&wire::Decided { approval_id, state: state.as_str().into() }))
}

/// Questions that are open or queued.
#[utoipa::path(get, path = "/admin/v1/topics", tag = "admin", security(("bearer" = [])), responses((status = 200), (status = 401), (status = 403)))]
pub async fn topic_list(State(doors): State<Doors>, caller: Caller) -> Answer {
    caller.administers()?;
    Ok(json(&wire::Topics { topics: view::open(&doors.hub).await? }))
}

/// Answers a question.
#[utoipa::path(post, path = "/admin/v1/topics/{topic_id}/answer", tag = "admin", params(("topic_id" = String, Path)), security(("bearer" = [])),
    request_body(content = String, content_type = "application/json"), responses((status = 200), (status = 400), (status = 401), (status = 403), (status = 404), (status = 409)))]
pub async fn topic_answer(
    State(doors): State<Doors>,
    caller: Caller,
    Path(topic_id): Path<String>,
    Raw(bytes): Raw,
) -> Answer {
    caller.administers()?;
    let body: wire::AnswerTopic = read(&bytes)?;
    let by = &caller.who.owner_name;
    Ok(json(&settled(people::answer(&doors.hub, &topic_id, by, CLI, &body.text).await?)))
}

/// Makes a pairing code; it is shown this once.
#[utoipa::path(post, path = "/admin/v1/pairing/codes", tag = "admin", security(("bearer" = [])),
    request_body(content = String, content_type = "application/json"), responses((status = 200), (status = 400), (status = 401), (status = 403), (status = 404)))]
pub async fn pair_start(State(doors): State<Doors>, caller: Caller, Raw(bytes): Raw) -> Answer {
    caller.administers()?;
    let body: wire::PairStart = read(&bytes)?;
    let (to, person) = (body.to.as_deref(), body.person.as_deref());
    let made = people::pair_start(&doors.hub, &body.channel, to, person, &caller.who.owner_name).await?;
    Ok(json(&wire::PairCode { code: made.code, expires_ms: made.expires_ms }))
}

/// Who may be written to, and who not.
#[utoipa::path(get, path = "/admin/v1/pairing/consents", tag = "admin", security(("bearer" = [])), responses((status = 200), (status = 401), (status = 403)))]
pub async fn consent_list(State(doors): State<Doors>, caller: Caller) -> Answer {
    caller.administers()?;
    let rows = doors.hub.store().outbound().consents().await.map_err(|error| failed(&error))?;
    Ok(json(&wire::Consents { consents: rows.iter().map(view::consent_view).collect() }))
}

/// Allows an address, or takes that back.
#[utoipa::path(post, path = "/admin/v1/pairing/consents", tag = "admin", security(("bearer" = [])),
    request_body(content = String, content_type = "application/json"), responses((status = 200), (status = 400), (status = 401), (status = 403), (status = 404)))]
pub async fn consent_set(State(doors): State<Doors>, caller: Caller, Raw(bytes): Raw) -> Answer {
    caller.administers()?;
    let body: wire::SetConsent = read(&bytes)?;
    let kind = match body.kind.as_deref() {
        None | Some("direct") => AddressKind::Direct,
        Some("channel") => AddressKind::Channel,
        Some(_) => return Err(refusal::bad_field("kind", "Say 'direct' or 'channel'.").into()),
    };
    let say = match (body.allow, body.lift_stop) {
        (true, false) => people::Say::Allow,
        (true, true) => people::Say::AllowInSpiteOfStop,
        (false, false) => people::Say::Revoke,
        (false, true) => {
            let message = "A STOP is lifted for an address that may be written to: say 'allow' too.";
            return Err(refusal::bad_field("lift_stop", message).into());
        }
    };
    let (person, by) = (body.person.as_deref(), &caller.who.owner_name);
    let to = people::set_consent(&doors.hub, &body.channel, (kind, &body.to), say, person, by).await?;
    let rows = doors.hub.store().outbound().consents().await.map_err(|error| failed(&error))?;
    let row = rows.iter().find(|row| row.channel == body.channel && row.to == to);
    Ok(json(&row.map(view::consent_view)))
}
