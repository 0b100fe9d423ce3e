//! Vaults and bearers for a bench.

use super::broken;
use super::child::Target;
use super::wire::Wire;
use crate::failure::Failure;
use serde_json::json;
use switchboard_protocol::admin::{Status, TokenIn, TokenOut, Vault, VaultIn};
use switchboard_protocol::text::Channel;

/// The channel all benches use.
const CHANNEL: &str = "bench";

/// Makes what a bench needs; names carry the run, so that a hub can be measured twice.
pub struct Room<'a> {
    target: &'a Target,
    org_id: String,
    /// Tells this run from others.
    pub run: u16,
}

/// A vault and its channel.
#[derive(Debug, Clone)]
pub struct Place {
    vault_id: String,
    /// The whole name of the channel.
    pub channel: String,
}

impl<'a> Room<'a> {
    /// Asks the hub who it is.
    pub async fn open(target: &'a Target) -> Result<Self, Failure> {
        let status: Status = target.api.get("/admin/v1/status").await?;
        let run =
            u16::from_be_bytes(switchboard_core::random::bytes(&switchboard_core::random::SystemEntropy));
        Ok(Self { target, org_id: status.org_id, run })
    }

    /// A vault of its own.
    pub async fn place(&self, name: &str) -> Result<Place, Failure> {
        let name = format!("bench-{:04x}-{name}", self.run);
        let vault: Vault = self.target.api.post("/admin/v1/vaults", &VaultIn { name }).await?;
        let channel = Channel::format(&self.org_id, &vault.vault_id, CHANNEL);
        Ok(Place { vault_id: vault.vault_id, channel })
    }

    /// A bearer.
    pub async fn token(&self, label: &str) -> Result<TokenOut, Failure> {
        let label = format!("bench-{:04x}-{label}", self.run);
        self.target.api.post("/admin/v1/tokens", &TokenIn { label, owner: None, rights: None }).await
    }

    /// A connection to the node of this number that has announced one agent.
    pub async fn connect(
        &self,
        node: usize,
        token: &TokenOut,
        agent: &str,
        place: &Place,
    ) -> Result<Wire, Failure> {
        let agents = json!([{ "agent_id": agent, "role": "bench", "vault_id": place.vault_id }]);
        let hello = json!({ "t": "hello", "instance_id": token.instance_id, "agents": agents });
        Wire::open(self.target.address(node), &token.token, &hello.to_string()).await.map_err(broken)
    }
}
