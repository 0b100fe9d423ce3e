//! *Tasks*: proposals for a person to decide on.

use super::form::Signed;
use super::visitor::Visitor;
use super::{Shown, html, see_other, when};
use crate::Doors;
use axum::extract::State;
use switchboard_console::page::{TaskRow, Tasks};
use switchboard_console::shell::Section;
use switchboard_core::ids::VaultId;
use switchboard_core::write::TaskDecision;
use switchboard_engine::once::Request;
use switchboard_engine::{manage, refusal};

/// Tasks one page shows.
const TASKS_MAX: usize = 200;

/// The page.
pub(super) async fn page(State(doors): State<Doors>, visitor: Visitor) -> Shown {
    let mut rows = Vec::new();
    for vault in doors.hub.vault_list() {
        let tasks = manage::tasks::list(&doors.hub, vault.vault).await?;
        rows.extend(tasks.into_iter().map(|row| (vault.name.clone(), row)));
    }
    // What waits first, then the newest.
    rows.sort_by_key(|(_, row)| (row.state != "proposed", -row.created_ms));
    rows.truncate(TASKS_MAX);
    let task = |(vault, row): (String, switchboard_core::port::store::TaskRow)| TaskRow {
        key: format!("task-{}-{}", row.vault, row.number),
        number: row.number,
        vault_id: row.vault.to_string(),
        vault: vault.into(),
        title: row.title.into(),
        state: row.state,
        created: when(row.created_ms),
    };
    let shell = visitor.shell(&doors, Section::Tasks, "Tasks").await?;
    Ok(html(&Tasks { shell, tasks: rows.into_iter().map(task).collect() }))
}

/// Decides on one.
pub(super) async fn decide(State(doors): State<Doors>, Signed { mut fields, .. }: Signed) -> Shown {
    let vault = fields.take("vault")?;
    let number = fields.take("number")?;
    let decision = fields.take("decision")?;
    fields.end()?;
    let vault = VaultId::parse(&vault).ok_or_else(|| refusal::bad_field("vault", "No such vault."))?;
    let number = number.parse().map_err(|_| refusal::bad_field("number", "Name a task by its number."))?;
    let (decision, done) = match decision.as_str() {
        "approve" => (TaskDecision::Approve, "approved"),
        "decline" => (TaskDecision::Decline, "declined"),
        _ => return Err(refusal::bad_field("decision", "Approve or decline.").into()),
    };
    manage::tasks::decide(&doors.hub, &Request::fresh(&doors.hub), vault, number, decision).await?;
    Ok(see_other(&format!("/console/tasks?done={done}")))
}
