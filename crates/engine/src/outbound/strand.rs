//! What is on its way on channels that are not configured any more.

use crate::hub::Hub;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::outbound::write::{OutboundOutcome, OutboundWrite};
use switchboard_core::port::store::StoreError;
use switchboard_core::time::{MINUTE_MS, WallMs};
use switchboard_core::write::{Outcome, Write};

/// How often it is looked for: a question that gets the floor, or a call that is approved, may meet a channel that has gone.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Sends that are held in one transaction.
const AT_ONCE: usize = 500;
/// Where several nodes share a store, another one may have the channel, or a newer configuration: it gets so long.
const OTHERS_MS: WallMs = MINUTE_MS;

pub(super) fn start(hub: &Arc<Hub>) {
    let looking = hub.clone();
    hub.spawn(async move {
        loop {
            match look(&looking).await {
                Err(StoreError::Closed) => return,
                // What fails now is found the next time.
                Ok(()) | Err(_) => tokio::time::sleep(LOOK_EVERY).await,
            }
        }
    });
}

async fn look(hub: &Hub) -> Result<(), StoreError> {
    let shared = hub.store().is_shared();
    while hub.is_keeper() {
        let write = OutboundWrite::Strand {
            known: hub.outbound.registry.every_name(),
            only_node: (!shared).then_some(hub.node),
            due_ms: if shared { hub.clock().wall_ms() - OTHERS_MS } else { WallMs::MAX },
            limit: AT_ONCE,
        };
        let outcome = hub.commit_as_keeper(Write::Outbound(write)).await?;
        let Some(Outcome::Outbound(outcome)) = outcome else { return Ok(()) };
        hub.outbound_changed(&outcome);
        match outcome {
            OutboundOutcome::Stranded(held) if held.len() >= AT_ONCE => {}
            _ => return Ok(()),
        }
    }
    Ok(())
}
