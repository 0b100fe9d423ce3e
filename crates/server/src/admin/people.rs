//! The people of the organization, as operators see them: where they are reached, and when they want quiet.

use super::outbound::failed;
use crate::Doors;
use crate::http::{Answer, Caller, Raw, json, read};
use axum::extract::{Path, State};
use switchboard_engine::outbound::{quiet, view};
use switchboard_protocol::outbound as wire;

/// The people, with their addresses and quiet hours.
#[utoipa::path(get, path = "/admin/v1/people", tag = "admin", security(("bearer" = [])), responses((status = 200), (status = 401), (status = 403)))]
pub async fn list(State(doors): State<Doors>, caller: Caller) -> Answer {
    caller.administers()?;
    let store = doors.hub.store().outbound();
    let people = store.people().await.map_err(|error| failed(&error))?;
    let consents = store.consents().await.map_err(|error| failed(&error))?;
    let hours = store.quiet_hours().await.map_err(|error| failed(&error))?;
    let people = people.into_iter().map(|(person, name)| wire::PersonView {
        quiet: hours.iter().find(|(whose, ..)| *whose == person).map(|(.., quiet)| view::quiet_view(quiet)),
        addresses: consents.iter().filter(|row| row.person == Some(person)).map(view::consent_view).collect(),
        name,
    });
    Ok(json(&wire::People { people: people.collect() }))
}

/// Sets or ends a person's quiet hours.
#[utoipa::path(post, path = "/admin/v1/people/{name}/quiet", tag = "admin", params(("name" = String, Path, description = "display name")), security(("bearer" = [])),
    request_body(content = String, description = "quiet: {zone, from, until} or null", content_type = "application/json"), responses((status = 200), (status = 400), (status = 401), (status = 403), (status = 404)))]
pub async fn set_quiet(
    State(doors): State<Doors>,
    caller: Caller,
    Path(name): Path<String>,
    Raw(bytes): Raw,
) -> Answer {
    caller.administers()?;
    let body: wire::SetQuiet = read(&bytes)?;
    let hours = body.quiet.as_ref();
    let hours = hours.map(|hours| (hours.zone.as_str(), hours.from.as_str(), hours.until.as_str()));
    let (_, quiet) = quiet::set(&doors.hub, &name, hours, &caller.who.owner_name).await?;
    Ok(json(&wire::SetQuiet { quiet: quiet.as_ref().map(view::quiet_view) }))
}
