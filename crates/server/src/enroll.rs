//! Enrollment's routes (contract section 2).

use crate::Doors;
use crate::http::{Answer, Caller, Posted, Raw, Refused, json, json_bytes, read};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use switchboard_engine::{enroll, refusal};
use switchboard_protocol::enroll::{DeviceCodeRequest, DeviceTokenRequest, InstanceTokenRequest};
use switchboard_protocol::vault::VaultResolveRequest;

/// Unauthenticated callers share one space of idempotency keys; what they ask for tells them apart.
const ANYBODY: &str = "anybody";

/// A device asks to enroll.
#[utoipa::path(post, path = "/v1/device/code", tag = "enrollment", responses((status = 200, description = "device-code/v1"), (status = 400), (status = 409)))]
pub async fn device_code(State(doors): State<Doors>, posted: Posted, Raw(bytes): Raw) -> Answer {
    let body: DeviceCodeRequest = read(&bytes)?;
    let once = posted.once(&doors.hub, ANYBODY, &bytes)?;
    Ok(json(&enroll::device_code(&doors.hub, &once, &body).await?))
}

/// The device polls until a person has decided.
#[utoipa::path(post, path = "/v1/device/token", tag = "enrollment",
    responses((status = 200, description = "enrollment/v1"), (status = 400, description = "authorization_pending, slow_down, expired_token, access_denied"), (status = 409)))]
pub async fn device_token(State(doors): State<Doors>, posted: Posted, Raw(bytes): Raw) -> Answer {
    let body: DeviceTokenRequest = read(&bytes)?;
    let once = posted.once(&doors.hub, ANYBODY, &bytes)?;
    Ok(json_bytes(enroll::device_token(&doors.hub, &once, &body).await?))
}

/// An instance proves its key and gets a bearer for an hour.
#[utoipa::path(post, path = "/v1/instances/{instance_id}/token", tag = "enrollment", params(("instance_id" = String, Path)),
    responses((status = 200, description = "access-token/v1"), (status = 400), (status = 401), (status = 404)))]
pub async fn access_token(
    State(doors): State<Doors>,
    posted: Posted,
    Path(instance_id): Path<String>,
    Raw(bytes): Raw,
) -> Answer {
    let body: InstanceTokenRequest = read(&bytes)?;
    let once = posted.once(&doors.hub, &instance_id, &bytes)?;
    let minted = enroll::access_token(&doors.hub, &once, &instance_id, &body).await;
    Ok(json(&minted.inspect_err(|detail| doors.hub.refused("instance.token", "unproven", detail))?))
}

/// An instance renews its lease.
#[utoipa::path(post, path = "/v1/instances/{instance_id}/lease/renew", tag = "enrollment", params(("instance_id" = String, Path)),
    security(("bearer" = [])), responses((status = 200, description = "lease-envelope/v1"), (status = 401), (status = 404)))]
pub async fn renew_lease(
    State(doors): State<Doors>,
    caller: Caller,
    posted: Posted,
    Path(instance_id): Path<String>,
    Raw(bytes): Raw,
) -> Answer {
    let once = posted.once(&doors.hub, &caller.who.instance_id, &bytes)?;
    Ok(json_bytes(enroll::renew_lease(&doors.hub, &once, &caller.who, &instance_id).await?))
}

/// An instance leaves.
#[utoipa::path(delete, path = "/v1/instances/{instance_id}", tag = "enrollment", params(("instance_id" = String, Path)),
    security(("bearer" = [])), responses((status = 204), (status = 401), (status = 403), (status = 404)))]
pub async fn leave(State(doors): State<Doors>, caller: Caller, Path(instance_id): Path<String>) -> Answer {
    enroll::leave(&doors.hub, &caller.who, &instance_id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// The key set, signed by the root key.
#[utoipa::path(get, path = "/v1/keys", tag = "enrollment", responses((status = 200, description = "keyset/v1")))]
pub async fn keys(State(doors): State<Doors>) -> Answer {
    Ok(json(&enroll::key_set(&doors.hub.installation.keys)))
}

/// The organization's salt.
#[utoipa::path(get, path = "/v1/org/salt", tag = "enrollment", security(("bearer" = [])), responses((status = 200, description = "org-salt/v1"), (status = 401)))]
pub async fn org_salt(State(doors): State<Doors>, caller: Caller) -> Answer {
    caller.uses_bus()?;
    Ok(json(&enroll::org_salt(&doors.hub)))
}

/// The vault of a repository.
#[utoipa::path(post, path = "/v1/vaults/resolve", tag = "enrollment", security(("bearer" = [])),
    responses((status = 200, description = "vault/v1"), (status = 400), (status = 401), (status = 404)))]
pub async fn resolve_vault(
    State(doors): State<Doors>,
    caller: Caller,
    posted: Posted,
    Raw(bytes): Raw,
) -> Answer {
    caller.uses_bus()?;
    let body: VaultResolveRequest = read(&bytes)?;
    let once = posted.once(&doors.hub, &caller.who.instance_id, &bytes)?;
    Ok(json_bytes(enroll::resolve_vault(&doors.hub, &once, &body).await?))
}

/// Where a device sends its person: what to do there. It repeats nothing of the address, so it is the same for everybody.
#[utoipa::path(get, path = "/device", tag = "enrollment", responses((status = 200, description = "plain text")))]
pub async fn device_page() -> &'static str {
    "A device waits to be let into this Switchboard hub.\n\n\
     Compare the code that it shows, and decide on the machine the hub runs on:\n\n    \
     switchboard device list\n    switchboard device approve CODE\n    switchboard device deny CODE\n"
}

/// What this hub does not offer: said cleanly, so that an engine goes on without it.
pub async fn not_offered() -> Answer {
    Err(Refused::from(refusal::not_found("path", "This hub does not offer this.")))
}
