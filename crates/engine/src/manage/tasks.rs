//! Task proposals: questions nobody answered in time, for a person to decide on.

use crate::hub::Hub;
use crate::once::Request;
use crate::refusal;
use crate::timers::task_data;
use switchboard_core::ids::VaultId;
use switchboard_core::port::store::TaskRow;
use switchboard_core::write::{TaskDecision, Write};
use switchboard_protocol::Detail;

/// The tasks of a vault.
pub async fn list(hub: &Hub, vault: VaultId) -> Result<Vec<TaskRow>, Detail> {
    hub.store().tasks(vault).await.map_err(|error| refusal::store(&error))
}

/// A person decides on a proposal; everybody on its channel hears of it.
pub async fn decide(
    hub: &Hub,
    request: &Request,
    vault: VaultId,
    number: u64,
    decision: TaskDecision,
) -> Result<(), Detail> {
    let write = Write::DecideTask { vault, number, decision, data: task_data(hub) };
    hub.once_silent(request, write).await.map_err(|detail| match detail.code {
        switchboard_protocol::Code::NotFound => refusal::not_found("number", "No such task in this vault."),
        _ => detail.number(number),
    })
}
