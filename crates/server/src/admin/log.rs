//! The event log.

use super::overview::ledger_of;
use crate::Doors;
use crate::bus::read::query;
use crate::http::{Answer, Caller, json};
use axum::extract::{RawQuery, State};
use serde::Deserialize;
use switchboard_core::log::{Entry, Record};
use switchboard_engine::frame::utc;
use switchboard_engine::{audit, refusal};
use switchboard_protocol::admin;
use utoipa::IntoParams;

/// Records of one page at most.
const PAGE_MAX: usize = 500;

/// Query of the log.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LogQuery {
    /// Only records behind this one.
    after: Option<u64>,
    /// At most so many records, up to 500.
    limit: Option<usize>,
}

/// A page of the log, oldest first.
#[utoipa::path(get, path = "/admin/v1/log", tag = "admin", params(LogQuery), security(("bearer" = [])), responses((status = 200), (status = 401), (status = 403)))]
pub async fn log_page(State(doors): State<Doors>, caller: Caller, RawQuery(raw): RawQuery) -> Answer {
    caller.administers()?;
    let asked: LogQuery = query(raw)?;
    let limit = asked.limit.unwrap_or(PAGE_MAX).clamp(1, PAGE_MAX);
    let after = asked.after.unwrap_or(0);
    let records = doors.hub.store().log(after, limit).await.map_err(|error| refusal::store(&error))?;
    let next = records.last().filter(|_| records.len() == limit).map(|record| record.commit);
    let entries = records.iter().flat_map(|record| entries(&doors, record)).collect();
    Ok(json(&admin::LogPage { entries, next }))
}

/// The lines of a record.
pub(crate) fn entries(doors: &Doors, record: &Record) -> Vec<admin::LogEntry> {
    let line = |result: &str, verb: String, actor: String, subject: String, count| admin::LogEntry {
        seq: record.commit,
        at: utc(record.at_ms),
        result: result.into(),
        verb,
        actor,
        subject,
        count,
    };
    let of = |entry: Entry| match entry {
        Entry::Event { id, kind, by, .. } => {
            let stream = doors.hub.streams.get(id.stream);
            let name = stream.map_or_else(|| "stream".into(), |stream| stream.name.clone());
            let actor = by.map_or_else(|| "a swarm's member".into(), |by| format!("instance {}", by.0));
            let subject = format!("{} on {name} seq {}", doors.hub.gids.gid(id), id.seq);
            line("admitted", format!("bus.{kind:?}").to_lowercase(), actor, subject, 1)
        }
        Entry::Admitted { verb, actor, subject } => line("admitted", verb, actor, subject, 1),
        Entry::Refused { verb, actor, why, count } => line("refused", verb, actor, why, count),
    };
    Entry::decode_all(&record.entries).unwrap_or_default().into_iter().map(of).collect()
}

/// Verifies the whole chain.
#[utoipa::path(post, path = "/admin/v1/log/verify", tag = "admin", security(("bearer" = [])), responses((status = 200), (status = 401), (status = 403)))]
pub async fn log_verify(State(doors): State<Doors>, caller: Caller) -> Answer {
    caller.administers()?;
    let report = audit::verify_log(&doors.hub, |_| ()).await.map_err(|error| refusal::store(&error))?;
    Ok(json(&admin::Verified {
        ok: report.ok,
        entries: report.entries,
        checkpoints: report.checkpoints,
        first_broken: report.first_broken.map(|broken| admin::Broken { seq: broken.seq, why: broken.why }),
    }))
}

/// Recomputes the ledger of what goes to people from the log, and compares it with the one that is kept.
#[utoipa::path(post, path = "/admin/v1/log/audit", tag = "admin", security(("bearer" = [])), responses((status = 200), (status = 401), (status = 403)))]
pub async fn log_audit(State(doors): State<Doors>, caller: Caller) -> Answer {
    caller.administers()?;
    let audited = audit::audit_ledger(doors.hub.store()).await.map_err(|error| refusal::store(&error))?;
    Ok(json(&admin::Audited {
        ok: audited.ok,
        kept: ledger_of(&audited.kept),
        logged: ledger_of(&audited.logged),
        misfit: audited.misfit,
    }))
}
