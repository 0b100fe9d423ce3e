//! The rules for tools that reach people.

use crate::Doors;
use crate::http::{Answer, Caller, Raw, json, read};
use axum::extract::State;
use switchboard_engine::manage;
use switchboard_protocol::admin;

/// The rules in force, each in a sentence, and how they are doing.
#[utoipa::path(get, path = "/admin/v1/policy", tag = "admin", security(("bearer" = [])), responses((status = 200), (status = 401), (status = 403)))]
pub async fn policy_show(State(doors): State<Doors>, caller: Caller) -> Answer {
    caller.administers()?;
    Ok(json(&manage::policy::read(&doors.hub)))
}

/// Reads the rules' files now. What cannot be loaded changes nothing and is told in `status.fault`.
#[utoipa::path(post, path = "/admin/v1/policy/reload", tag = "admin", security(("bearer" = [])), responses((status = 200), (status = 401), (status = 403)))]
pub async fn policy_reload(State(doors): State<Doors>, caller: Caller) -> Answer {
    caller.administers()?;
    Ok(json(&manage::policy::reload(&doors.hub).await?))
}

/// What the rules would say of a call, which is not made.
#[utoipa::path(post, path = "/admin/v1/policy/explain", tag = "admin", security(("bearer" = [])), responses((status = 200), (status = 400), (status = 401), (status = 403)))]
pub async fn policy_explain(State(doors): State<Doors>, caller: Caller, Raw(bytes): Raw) -> Answer {
    caller.administers()?;
    let asked: admin::PolicyExplainIn = read(&bytes)?;
    Ok(json(&manage::policy::explain(&doors.hub, &asked)?))
}
