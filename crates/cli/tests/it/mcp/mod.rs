//! The MCP door, as its clients see it.

mod bridge;
mod gate;
mod lifecycle;
mod sessions;
mod swarm;
mod tools;
mod waiting;

use switchboard_testkit::{PATIENCE, TestHub};

/// Until an inbox of this vault waits: its follower listens to the vault.
async fn until_waiting(hub: &TestHub, count: usize) {
    let vault = hub.hub.vault_named("main").unwrap().vault;
    let waiting = async {
        loop {
            let followers = std::cell::Cell::new(0);
            hub.hub.streams.each_vault_follower(vault, |_| followers.set(followers.get() + 1));
            if followers.get() >= count {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("waits in time");
}
