//! How the hub is doing.

use crate::hub::Hub;
use crate::refusal;
use switchboard_core::ledger::Ledger;
use switchboard_core::port::store::{StoreError, StoreStats};
use switchboard_core::write::Write;
use switchboard_protocol::Detail;

/// Figures.
#[derive(Debug, Clone)]
pub struct Status {
    /// About the store.
    pub store: StoreStats,
    /// Of the bus.
    pub ledger: Ledger,
    /// Of what goes to people.
    pub outbound: Ledger,
}

/// Reads them.
pub async fn read(hub: &Hub) -> Result<Status, Detail> {
    let failed = |error: StoreError| refusal::store(&error);
    let store = hub.store().stats().await.map_err(failed)?;
    let ledger = hub.store().ledger().await.map_err(failed)?;
    let outbound = hub.store().outbound().outbound_ledger().await.map_err(failed)?;
    Ok(Status { store, ledger, outbound })
}

/// Whether a write reaches the disk at present.
pub async fn probe(hub: &Hub) -> Result<(), StoreError> {
    hub.commit(vec![Write::Probe]).await.map(drop)
}
