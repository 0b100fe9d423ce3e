//! `switchboard vault`: networks inside the organization.

use crate::api::Api;
use crate::args::Vault;
use crate::failure::Failure;
use crate::terminal::{self, Output};
use switchboard_protocol::admin::{self, VaultIn};

const PATH: &str = "/admin/v1/vaults";

/// Makes a vault, or lists all.
pub async fn run(api: &Api, output: Output, command: Vault) -> Result<(), Failure> {
    match command {
        Vault::Create { name } => {
            let vault: admin::Vault = api.post(PATH, &VaultIn { name }).await?;
            output.show(&vault, |vault| list(std::slice::from_ref(vault)));
        }
        Vault::List => {
            let vaults: Vec<admin::Vault> = api.get(PATH).await?;
            output.show(&vaults, |vaults| list(vaults));
        }
    }
    Ok(())
}

fn list(vaults: &[admin::Vault]) -> String {
    let row = |vault: &admin::Vault| {
        let sealed = if vault.sealed { "sealed" } else { "open" };
        vec![
            vault.vault_id.clone(),
            vault.name.clone(),
            sealed.into(),
            vault.label.clone().unwrap_or_default(),
        ]
    };
    terminal::table(&["VAULT", "NAME", "KIND", "LABEL"], &vaults.iter().map(row).collect::<Vec<_>>())
}
