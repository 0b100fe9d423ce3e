//! Vaults, swarms and task proposals.

use crate::Doors;
use crate::http::{Answer, Caller, Posted, Raw, Refused, json, json_bytes, read};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use switchboard_core::ids::{PersonNo, VaultId};
use switchboard_core::port::store::{SwarmRow, TaskRow};
use switchboard_core::write::{TaskDecision, VaultInfo};
use switchboard_engine::frame::utc;
use switchboard_engine::{manage, refusal};
use switchboard_protocol::admin;

/// Vaults by name.
#[utoipa::path(get, path = "/admin/v1/vaults", tag = "admin", security(("bearer" = [])), responses((status = 200), (status = 401), (status = 403)))]
pub async fn vault_list(State(doors): State<Doors>, caller: Caller) -> Answer {
    caller.administers()?;
    Ok(json(&doors.hub.vault_list().iter().map(manage::vaults::wire).collect::<Vec<_>>()))
}

/// Makes a vault.
#[utoipa::path(post, path = "/admin/v1/vaults", tag = "admin", security(("bearer" = [])), responses((status = 200), (status = 400), (status = 401), (status = 403), (status = 409)))]
pub async fn vault_create(
    State(doors): State<Doors>,
    caller: Caller,
    posted: Posted,
    Raw(bytes): Raw,
) -> Answer {
    caller.administers()?;
    let body: admin::VaultIn = read(&bytes)?;
    let once = posted.once(&doors.hub, &caller.who.instance_id, &bytes)?;
    Ok(json_bytes(manage::vaults::create(&doors.hub, &once, &body.name).await?))
}

fn swarm(row: SwarmRow) -> admin::Swarm {
    admin::Swarm { swarm_id: row.swarm, title: row.title, open: row.open, members: row.members }
}

/// Swarms, oldest first.
#[utoipa::path(get, path = "/admin/v1/swarms", tag = "admin", security(("bearer" = [])), responses((status = 200), (status = 401), (status = 403)))]
pub async fn swarm_list(State(doors): State<Doors>, caller: Caller) -> Answer {
    caller.administers()?;
    Ok(json(&manage::swarms::list(&doors.hub).into_iter().map(swarm).collect::<Vec<_>>()))
}

/// Makes a swarm.
#[utoipa::path(post, path = "/admin/v1/swarms", tag = "admin", security(("bearer" = [])), responses((status = 200), (status = 400), (status = 401), (status = 403)))]
pub async fn swarm_create(
    State(doors): State<Doors>,
    caller: Caller,
    posted: Posted,
    Raw(bytes): Raw,
) -> Answer {
    caller.administers()?;
    let body: admin::SwarmIn = read(&bytes)?;
    let once = posted.once(&doors.hub, &caller.who.instance_id, &bytes)?;
    let swarm_id = manage::swarms::create(&doors.hub, &once, &body.title).await?;
    Ok(json(&admin::Swarm { swarm_id, title: body.title, open: true, members: 0 }))
}

/// A person joins a swarm under a handle.
#[utoipa::path(post, path = "/admin/v1/swarms/{swarm_id}/join", tag = "admin", params(("swarm_id" = String, Path)),
    security(("bearer" = [])), responses((status = 204), (status = 400), (status = 401), (status = 403), (status = 404), (status = 409)))]
pub async fn swarm_join(
    State(doors): State<Doors>,
    caller: Caller,
    posted: Posted,
    Path(swarm_id): Path<String>,
    Raw(bytes): Raw,
) -> Answer {
    caller.administers()?;
    let body: admin::JoinIn = read(&bytes)?;
    let person = person(&doors, &caller, body.person.as_deref()).await?;
    let once = posted.once(&doors.hub, &caller.who.instance_id, &bytes)?;
    manage::swarms::join(&doors.hub, &once, person, &swarm_id, &body.handle).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// The person of this name, or the caller's own.
async fn person(doors: &Doors, caller: &Caller, name: Option<&str>) -> Answer<PersonNo> {
    let Some(name) = name else { return Ok(caller.who.owner) };
    let rows = manage::tokens::list(&doors.hub).await?;
    let found = rows.into_iter().find(|row| row.owner_name == name).map(|row| row.owner);
    found.ok_or_else(|| {
        Refused::from(refusal::not_found("person", "Nobody of this name owns an instance here."))
    })
}

/// Closes a swarm.
#[utoipa::path(post, path = "/admin/v1/swarms/{swarm_id}/close", tag = "admin", params(("swarm_id" = String, Path)),
    security(("bearer" = [])), responses((status = 204), (status = 401), (status = 403), (status = 404)))]
pub async fn swarm_close(
    State(doors): State<Doors>,
    caller: Caller,
    posted: Posted,
    Path(swarm_id): Path<String>,
) -> Answer {
    caller.administers()?;
    let once = posted.once(&doors.hub, &caller.who.instance_id, b"")?;
    manage::swarms::close(&doors.hub, &once, &swarm_id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn named(doors: &Doors, name: &str) -> Answer<VaultInfo> {
    let by_id = VaultId::parse(name).and_then(|id| doors.hub.vault(id));
    let vault = by_id.or_else(|| doors.hub.vault_named(name));
    vault.ok_or_else(|| {
        Refused::from(refusal::not_found(
            "vault",
            "No vault of this name or id; see `switchboard vault list`.",
        ))
    })
}

fn task(doors: &Doors, vault: &VaultInfo, row: TaskRow) -> admin::Task {
    admin::Task {
        vault: vault.name.clone(),
        number: row.number,
        state: row.state,
        title: row.title,
        question_gid: doors.hub.gids.gid(row.question),
        created_at: utc(row.created_ms),
    }
}

/// The tasks of a vault, by name or id.
#[utoipa::path(get, path = "/admin/v1/vaults/{vault}/tasks", tag = "admin", params(("vault" = String, Path)),
    security(("bearer" = [])), responses((status = 200), (status = 401), (status = 403), (status = 404)))]
pub async fn task_list(State(doors): State<Doors>, caller: Caller, Path(vault): Path<String>) -> Answer {
    caller.administers()?;
    let vault = named(&doors, &vault)?;
    let rows = manage::tasks::list(&doors.hub, vault.vault).await?;
    Ok(json(&rows.into_iter().map(|row| task(&doors, &vault, row)).collect::<Vec<_>>()))
}

/// A person approves a proposal.
#[utoipa::path(post, path = "/admin/v1/vaults/{vault}/tasks/{number}/approve", tag = "admin", params(("vault" = String, Path), ("number" = u64, Path)),
    security(("bearer" = [])), responses((status = 204), (status = 401), (status = 403), (status = 404), (status = 409)))]
pub async fn task_approve(
    State(doors): State<Doors>,
    caller: Caller,
    posted: Posted,
    Path((vault, number)): Path<(String, u64)>,
) -> Answer {
    decide(&doors, (&caller, &posted), &vault, number, TaskDecision::Approve).await
}

/// A person declines a proposal.
#[utoipa::path(post, path = "/admin/v1/vaults/{vault}/tasks/{number}/decline", tag = "admin", params(("vault" = String, Path), ("number" = u64, Path)),
    security(("bearer" = [])), responses((status = 204), (status = 401), (status = 403), (status = 404), (status = 409)))]
pub async fn task_decline(
    State(doors): State<Doors>,
    caller: Caller,
    posted: Posted,
    Path((vault, number)): Path<(String, u64)>,
) -> Answer {
    decide(&doors, (&caller, &posted), &vault, number, TaskDecision::Decline).await
}

async fn decide(
    doors: &Doors,
    (caller, posted): (&Caller, &Posted),
    vault: &str,
    number: u64,
    decision: TaskDecision,
) -> Answer {
    caller.administers()?;
    let once = posted.once(&doors.hub, &caller.who.instance_id, b"")?;
    let vault = named(doors, vault)?;
    manage::tasks::decide(&doors.hub, &once, vault.vault, number, decision).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
