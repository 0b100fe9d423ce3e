//! Long bearers for scripts, MCP and CI: shown once, stored hashed, revocable (contract section 2).

use crate::credentials::bearer_hash;
use crate::hub::Hub;
use crate::once::Request;
use crate::refusal;
use std::sync::Arc;
use switchboard_core::port::doorbell::Topic;
use switchboard_core::port::store::InstanceRow;
use switchboard_core::principal::InstanceKind;
use switchboard_core::rights::{Right, Rights};
use switchboard_core::write::{NewInstance, Write};
use switchboard_protocol::Detail;
use switchboard_protocol::limits::INSTANCE_LABEL_CHARS_MAX;
use switchboard_protocol::text::validate_text;

/// A new bearer. The token is not kept anywhere.
#[derive(Debug, Clone)]
pub struct Created {
    /// The instance it is for.
    pub instance_id: String,
    /// The bearer.
    pub token: switchboard_core::SecretString,
}

/// Makes an instance with a long bearer.
pub async fn create(
    hub: &Hub,
    request: &Request,
    label: &str,
    owner: Option<&str>,
    rights: Rights,
) -> Result<Created, Detail> {
    validate_text(label, INSTANCE_LABEL_CHARS_MAX, "label", false).map_err(refusal::invalid)?;
    if let Some(owner) = owner {
        validate_text(owner, 100, "owner", false).map_err(refusal::invalid)?;
    }
    if rights.has(Right::Admin) {
        return Err(refusal::bad_field(
            "rights",
            "The admin right belongs to the hub's owner and is never part of a token.",
        ));
    }
    let token = request.seed().secret(hub, "sbt_");
    let instance_id = request.seed().id("inst");
    let instance = NewInstance {
        instance_id: instance_id.clone(),
        kind: InstanceKind::Token,
        label: label.to_owned(),
        owner: owner.map(str::to_owned),
        rights,
        token_hash: Some(bearer_hash(&token)),
        keys: None,
    };
    hub.once(request, Write::CreateInstance(instance), Arc::new(|_| Vec::new())).await?;
    // Another person's bearer ends what holds for one person, before anybody can use it.
    hub.read_people().await;
    Ok(Created { instance_id, token: token.into() })
}

/// Ends an instance and all its credentials, at once and everywhere.
pub async fn revoke(hub: &Hub, instance_id: &str) -> Result<(), Detail> {
    if instance_id == hub.installation.hub_instance_id {
        return Err(refusal::bad_field("instance_id", "The hub's own instance cannot be revoked."));
    }
    hub.commit_one(Write::RevokeInstance { instance_id: instance_id.to_owned() }).await?;
    hub.doorbell().ring(&[Topic::Credentials]);
    hub.read_people().await;
    Ok(())
}

/// Every instance but the hub's own.
pub async fn list(hub: &Hub) -> Result<Vec<InstanceRow>, Detail> {
    let mut rows = hub.store().instances().await.map_err(|error| refusal::store(&error))?;
    rows.retain(|row| row.instance != hub.installation.hub_instance);
    Ok(rows)
}
