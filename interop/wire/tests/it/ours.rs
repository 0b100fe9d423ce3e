//! Our types, addressed by the names of the published fixtures.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use switchboard_protocol::bus::{
    BUS_POLL_SCHEMA, BusEvents, BusLease, BusLeaseRenewRequest, BusLeaseRequest, BusPoll,
};
use switchboard_protocol::enroll::{
    AccessToken, DeviceCode, DeviceCodeRequest, DeviceTokenRequest, Enrollment, InstanceTokenRequest,
};
use switchboard_protocol::error::Body as ErrorBody;
use switchboard_protocol::frame::client::{self, ClientFrame};
use switchboard_protocol::frame::server::ServerFrame;
use switchboard_protocol::json::{self, Limits};
use switchboard_protocol::lease::{KeySet, LeaseEnvelope, Right};
use switchboard_protocol::message::MessageList;
use switchboard_protocol::profile::{AgentProfileList, Handle};
use switchboard_protocol::text::Invalid;
use switchboard_protocol::vault::{OrgSalt, Vault, VaultResolveRequest};

/// A text as our type writes it after reading and checking it, or why not.
pub type Rewritten = Result<String, String>;

/// Fixtures of parts of the protocol that Switchboard does not serve, by the start of their name. `vectors` and
/// `…vectors` hold keys and digests, not messages.
pub const NOT_SERVED: [&str; 30] = [
    "anchor_digest.",
    "bus.knowledge_event",
    "code_graph_",
    "ctxpkg.",
    "engine_optin",
    "fact_states",
    "graph.",
    "knowledge_",
    "metrics",
    "moderation_",
    "policy_bundle.",
    "proposal",
    "receipts",
    "revision_list.",
    "root_cert",
    "sealed_",
    "status.",
    "swarm.",
    "swarm_claim",
    "swarm_result",
    "swarm_seed",
    "swarm_subtask",
    "swarm_verification",
    "task.",
    "task_",
    "vault.automerge.",
    "vault.code_graph.",
    "vectors",
    "verification_commit",
    "verification_reveal",
];

/// The published fixtures that Switchboard serves.
pub fn served() -> Vec<(String, String)> {
    let fixtures = wire::fixtures::all().expect("fixtures").into_iter();
    fixtures.filter(|(name, _)| !NOT_SERVED.iter().any(|prefix| name.starts_with(prefix))).collect()
}

/// Whether a fixture is a frame of the socket; the others are HTTP bodies.
pub fn is_frame(name: &str) -> bool {
    name.starts_with("bus.")
}

/// Whether a fixture is sent by a client over HTTP.
pub fn is_request(name: &str) -> bool {
    name.ends_with(".request")
}

/// An HTTP body through the type for the fixture of this name.
pub fn body(name: &str, text: &str) -> Rewritten {
    match name {
        "access_token.response" => rewritten(text, AccessToken::validate),
        "agent_profile_list.response" => rewritten(text, AgentProfileList::validate),
        "bus_events.response" => rewritten(text, BusEvents::validate),
        "bus_lease.granted.response" | "bus_lease.refused.response" => rewritten(text, BusLease::validate),
        "bus_lease.request" => rewritten(text, BusLeaseRequest::validate),
        "bus_lease_renew.request" => rewritten(text, BusLeaseRenewRequest::validate),
        "bus_poll.response" => rewritten(text, |poll: &BusPoll| match poll.schema.as_str() {
            BUS_POLL_SCHEMA => Ok(()),
            _ => Err(Invalid::new("schema", "is of another body")),
        }),
        "device_code.request" | "device_code_labelled.request" => {
            rewritten(text, DeviceCodeRequest::validate)
        }
        "device_code.response" => rewritten(text, DeviceCode::validate),
        "device_token.request" => rewritten(text, DeviceTokenRequest::validate),
        "enrollment.response" => enrollment(text),
        "handle.response" => rewritten(text, Handle::validate),
        "keyset.response" => rewritten(text, KeySet::validate),
        "lease_envelope.response" => envelope(text),
        "message_list.response" => rewritten(text, MessageList::validate),
        "org_salt.response" => rewritten(text, OrgSalt::validate),
        "token.request" => rewritten(text, InstanceTokenRequest::validate),
        "vault.response" | "vault.sealed.response" | "vault.sealed_new.response" => {
            rewritten(text, Vault::validate)
        }
        "vault_resolve.ref.request" | "vault_resolve.request" => {
            rewritten(text, VaultResolveRequest::validate)
        }
        _ if name.starts_with("error.") => rewritten(text, |_: &ErrorBody| Ok(())),
        _ => panic!("{name}: a new fixture; serve it here or list it as not served"),
    }
}

fn rewritten<'a, T>(text: &'a str, validate: impl Fn(&T) -> Result<(), Invalid>) -> Rewritten
where
    T: Deserialize<'a> + Serialize,
{
    let typed: T = json::parse(text.as_bytes(), Limits::HTTP_BODY).map_err(|error| error.to_string())?;
    validate(&typed).map_err(|error| error.to_string())?;
    serde_json::to_string(&typed).map_err(|error| error.to_string())
}

/// A lease is kept as received, because its signature covers that; here it goes through its type as when the hub makes it.
fn envelope(text: &str) -> Rewritten {
    let envelope: LeaseEnvelope =
        json::parse(text.as_bytes(), Limits::HTTP_BODY).map_err(|error| error.to_string())?;
    envelope.validate().map_err(|error| error.to_string())?;
    let lease = envelope.lease().map_err(|error| error.to_string())?;
    if lease.rights.contains(&Right::Unknown) {
        return Err("a hub gives no right that it does not know".to_owned());
    }
    let made = LeaseEnvelope::new(&lease, &*envelope.kid, &*envelope.signature)
        .map_err(|error| error.to_string())?;
    serde_json::to_string(&made).map_err(|error| error.to_string())
}

fn enrollment(text: &str) -> Rewritten {
    let mut enrollment: Value =
        serde_json::from_str(&rewritten(text, Enrollment::validate)?).expect("our JSON");
    let lease = envelope(&enrollment["lease"].to_string())?;
    enrollment["lease"] = serde_json::from_str(&lease).expect("our JSON");
    Ok(enrollment.to_string())
}

/// A frame as a client sends it; one that is passed over is not accepted.
pub fn client_frame(text: &str) -> Rewritten {
    match client::parse(text, &Limits::FRAME) {
        Ok(ClientFrame::Unknown(tag)) => Err(format!("{tag} is passed over")),
        Ok(frame) => frame.to_json().map_err(|error| error.to_string()),
        Err(refused) => Err(refused.error.to_string()),
    }
}

/// A frame as the hub sends it.
pub fn hub_frame(text: &str) -> Rewritten {
    let frame = ServerFrame::parse(text, Limits::FRAME).map_err(|error| error.to_string())?;
    match &frame {
        ServerFrame::Unknown(tag) => return Err(format!("{tag} is passed over")),
        ServerFrame::MessageDeliver(delivery) => delivery.validate().map_err(|error| error.to_string())?,
        _ => {}
    }
    frame.to_json().map_err(|error| error.to_string())
}
