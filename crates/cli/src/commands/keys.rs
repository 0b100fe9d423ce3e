//! `switchboard keys show`.

use crate::api::Api;
use crate::failure::Failure;
use crate::terminal::{self, Output};
use switchboard_protocol::admin::Keys;

/// Shows the hub's public keys.
pub async fn run(api: &Api, output: Output) -> Result<(), Failure> {
    let keys: Keys = api.get("/admin/v1/keys").await?;
    output.show(&keys, |keys| {
        terminal::facts(&[
            ("root key (pin this in clients)", keys.root_key.clone()),
            ("signing key", keys.signing_key.clone()),
        ])
    });
    Ok(())
}
