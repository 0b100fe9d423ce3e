//! Swarms: networks whose members see of each other nothing but handles (contract section 4).

use crate::hub::Hub;
use crate::once::Request;
use crate::refusal;
use switchboard_core::ids::PersonNo;
use switchboard_core::port::doorbell::Topic;
use switchboard_core::port::store::SwarmRow;
use switchboard_core::write::Write;
use switchboard_protocol::Detail;
use switchboard_protocol::profile::validate_handle;
use switchboard_protocol::text::validate_text;

/// Longest title.
const TITLE_CHARS_MAX: usize = 180;

/// Makes a swarm; its public id.
pub async fn create(hub: &Hub, request: &Request, title: &str) -> Result<String, Detail> {
    validate_text(title, TITLE_CHARS_MAX, "title", false).map_err(refusal::invalid)?;
    let swarm = request.seed().id("sw");
    hub.once_silent(request, Write::CreateSwarm { swarm: swarm.clone(), title: title.to_owned() }).await?;
    changed(hub).await?;
    Ok(swarm)
}

/// A person joins under a handle; its instances follow the swarm from now on.
pub async fn join(
    hub: &Hub,
    request: &Request,
    person: PersonNo,
    swarm: &str,
    handle: &str,
) -> Result<(), Detail> {
    validate_handle(handle).map_err(refusal::invalid)?;
    let write = Write::JoinSwarm { swarm: swarm.to_owned(), person, handle: handle.to_owned() };
    hub.once_silent(request, write).await.map_err(no_such)?;
    changed(hub).await
}

/// No more messages; what was said stays until its retention.
pub async fn close(hub: &Hub, request: &Request, swarm: &str) -> Result<(), Detail> {
    let expires_at_ms = hub.clock().wall_ms() + hub.settings.swarm_keep_ms;
    let write = Write::CloseSwarm { swarm: swarm.to_owned(), expires_at_ms };
    hub.once_silent(request, write).await.map_err(no_such)?;
    changed(hub).await
}

/// All swarms.
#[must_use]
pub fn list(hub: &Hub) -> Vec<SwarmRow> {
    let mut rows: Vec<_> = hub.swarms.read().swarms.values().cloned().collect();
    rows.sort_by_key(|row| row.created_ms);
    rows
}

async fn changed(hub: &Hub) -> Result<(), Detail> {
    hub.read_swarms().await.map_err(|error| refusal::store(&error))?;
    hub.doorbell().ring(&[Topic::Swarms]);
    Ok(())
}

fn no_such(detail: Detail) -> Detail {
    match detail.code {
        switchboard_protocol::Code::NotFound => refusal::not_found("swarm_id", "No such swarm."),
        _ => detail,
    }
}
