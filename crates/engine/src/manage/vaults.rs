//! Vaults.

use crate::hub::Hub;
use crate::once::Request;
use crate::refusal;
use std::sync::Arc;
use switchboard_core::ids::VaultId;
use switchboard_core::port::doorbell::Topic;
use switchboard_core::write::{Outcome, VaultInfo, Write};
use switchboard_protocol::Detail;
use switchboard_protocol::admin;
use switchboard_protocol::text::validate_id;

/// Makes a vault; the answer as JSON.
pub async fn create(hub: &Hub, request: &Request, name: &str) -> Result<Vec<u8>, Detail> {
    validate_id(name, "name").map_err(refusal::invalid)?;
    let vault = VaultId(request.seed().bytes("vault"));
    let write = Write::CreateVault { vault, name: name.to_owned(), sealed: false };
    let render = |outcome: &Outcome| match outcome {
        Outcome::Vault(info) => serde_json::to_vec(&wire(info)).unwrap_or_default(),
        _ => Vec::new(),
    };
    let answer = hub.once(request, write, Arc::new(render)).await?;
    hub.read_vaults().await.map_err(|error| refusal::store(&error))?;
    hub.doorbell().ring(&[Topic::Vault(vault)]);
    Ok(answer)
}

/// A vault as the wire shows it.
#[must_use]
pub fn wire(vault: &VaultInfo) -> admin::Vault {
    let VaultInfo { vault, name, sealed, label } = vault;
    admin::Vault { vault_id: vault.to_string(), name: name.clone(), sealed: *sealed, label: label.clone() }
}
