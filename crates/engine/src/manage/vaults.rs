//! Vaults.

use crate::hub::Hub;
use crate::once::Request;
use crate::refusal;
use switchboard_core::ids::VaultId;
use switchboard_core::port::doorbell::Topic;
use switchboard_core::write::{Outcome, VaultInfo, Write};
use switchboard_protocol::Detail;
use switchboard_protocol::text::validate_id;

/// Makes a vault.
pub async fn create(hub: &Hub, request: &Request, name: &str) -> Result<VaultInfo, Detail> {
    validate_id(name, "name").map_err(refusal::invalid)?;
    let vault = VaultId(request.seed().bytes("vault"));
    let outcome = hub.commit_one(Write::CreateVault { vault, name: name.to_owned(), sealed: false }).await?;
    hub.read_vaults().await.map_err(|error| refusal::store(&error))?;
    hub.doorbell().ring(&[Topic::Vault(vault)]);
    match outcome {
        Outcome::Vault(vault) => Ok(vault),
        _ => Err(refusal::not_found("name", "The vault is not there.")),
    }
}
