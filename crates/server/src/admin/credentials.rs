//! Tokens and devices.

use crate::Doors;
use crate::http::{Answer, Caller, Posted, Raw, json, read};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use switchboard_core::ExposeSecret as _;
use switchboard_core::console::LINK_MS;
use switchboard_core::port::store::InstanceRow;
use switchboard_core::principal::InstanceKind;
use switchboard_core::rights::Rights;
use switchboard_core::write::DeviceDecision;
use switchboard_engine::frame::utc;
use switchboard_engine::{console, manage, refusal};
use switchboard_protocol::admin;

/// Instances.
#[utoipa::path(get, path = "/admin/v1/tokens", tag = "admin", security(("bearer" = [])), responses((status = 200), (status = 401), (status = 403)))]
pub async fn token_list(State(doors): State<Doors>, caller: Caller) -> Answer {
    caller.administers()?;
    let rows = manage::tokens::list(&doors.hub).await?;
    Ok(json(&rows.into_iter().map(instance).collect::<Vec<_>>()))
}

fn instance(row: InstanceRow) -> admin::Instance {
    let kind = match row.kind {
        InstanceKind::Engine => "engine",
        InstanceKind::Token => "token",
        InstanceKind::Person => "person",
    };
    admin::Instance {
        instance_id: row.instance_id,
        kind: kind.into(),
        label: row.label,
        owner: row.owner_name,
        rights: row.rights.iter().map(|right| right.as_str().to_owned()).collect(),
        created_at: utc(row.created_ms),
        revoked_at: row.revoked_ms.map(utc),
    }
}

/// Makes a long bearer, shown this once.
#[utoipa::path(post, path = "/admin/v1/tokens", tag = "admin", security(("bearer" = [])), responses((status = 200), (status = 400), (status = 401), (status = 403)))]
pub async fn token_create(
    State(doors): State<Doors>,
    caller: Caller,
    posted: Posted,
    Raw(bytes): Raw,
) -> Answer {
    caller.administers()?;
    let body: admin::TokenIn = read(&bytes)?;
    let rights = match &body.rights {
        None => Rights::AGENT,
        Some(names) => Rights::parse(&names.join(",")).map_err(|unknown| {
            refusal::bad_field("rights", format!("{unknown:?} is no right; see docs/guide/credentials.md."))
        })?,
    };
    let once = posted.once(&doors.hub, &caller.who.instance_id, &bytes)?;
    let created =
        manage::tokens::create(&doors.hub, &once, &body.label, body.owner.as_deref(), rights).await?;
    Ok(json(&admin::TokenOut {
        instance_id: created.instance_id,
        org_id: doors.hub.installation.org_id.clone(),
        token: created.token.expose_secret().to_owned(),
    }))
}

/// Ends an instance and all its credentials.
#[utoipa::path(delete, path = "/admin/v1/tokens/{instance_id}", tag = "admin", params(("instance_id" = String, Path)),
    security(("bearer" = [])), responses((status = 204), (status = 401), (status = 403), (status = 404)))]
pub async fn token_revoke(
    State(doors): State<Doors>,
    caller: Caller,
    Path(instance_id): Path<String>,
) -> Answer {
    caller.administers()?;
    manage::tokens::revoke(&doors.hub, &instance_id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Makes a link into the console that works once, within 15 minutes.
#[utoipa::path(post, path = "/admin/v1/console/links", tag = "admin", security(("bearer" = [])), responses((status = 200), (status = 401), (status = 403), (status = 409)))]
pub async fn console_link(State(doors): State<Doors>, caller: Caller) -> Answer {
    caller.administers()?;
    let hub = &doors.hub;
    let expires_at = utc(hub.clock().wall_ms() + LINK_MS);
    let secret = console::mint_link(hub).await?;
    Ok(json(&admin::ConsoleLink { url: console::link_url(hub, &secret), expires_at }))
}

/// Devices that wait.
#[utoipa::path(get, path = "/admin/v1/devices", tag = "admin", security(("bearer" = [])), responses((status = 200), (status = 401), (status = 403)))]
pub async fn device_list(State(doors): State<Doors>, caller: Caller) -> Answer {
    caller.administers()?;
    let rows = manage::devices::list(&doors.hub).await?;
    let device = |row: switchboard_core::port::store::DeviceRow| admin::Device {
        user_code: row.user_code,
        label: row.label,
        expires_at: utc(row.expires_at_ms),
    };
    Ok(json(&rows.into_iter().map(device).collect::<Vec<_>>()))
}

/// A person lets a device in.
#[utoipa::path(post, path = "/admin/v1/devices/{user_code}/approve", tag = "admin", params(("user_code" = String, Path)),
    security(("bearer" = [])), responses((status = 204), (status = 401), (status = 403), (status = 404)))]
pub async fn device_approve(
    State(doors): State<Doors>,
    caller: Caller,
    posted: Posted,
    Path(code): Path<String>,
) -> Answer {
    decide(&doors, &caller, &posted, &code, DeviceDecision::Approve).await
}

/// A person turns a device away.
#[utoipa::path(post, path = "/admin/v1/devices/{user_code}/deny", tag = "admin", params(("user_code" = String, Path)),
    security(("bearer" = [])), responses((status = 204), (status = 401), (status = 403), (status = 404)))]
pub async fn device_deny(
    State(doors): State<Doors>,
    caller: Caller,
    posted: Posted,
    Path(code): Path<String>,
) -> Answer {
    decide(&doors, &caller, &posted, &code, DeviceDecision::Deny).await
}

async fn decide(
    doors: &Doors,
    caller: &Caller,
    posted: &Posted,
    code: &str,
    decision: DeviceDecision,
) -> Answer {
    caller.administers()?;
    let once = posted.once(&doors.hub, &caller.who.instance_id, b"")?;
    manage::devices::decide(&doors.hub, &once, &caller.who, code, decision).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
