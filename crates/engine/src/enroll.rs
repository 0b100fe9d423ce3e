//! Enrollment: the device flow, access tokens by signed assertion, leases under the key set (contract section 2).

use crate::credentials::bearer_hash;
use crate::frame::utc;
use crate::hub::Hub;
use crate::once::Request;
use crate::refusal;
use crate::submit::permit;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::sync::Arc;
use switchboard_core::digest::{framed, hex, hmac};
use switchboard_core::ids::base32;
use switchboard_core::keys::{HubKeys, verify};
use switchboard_core::limits::{
    ACCESS_TOKEN_MS, ASSERTION_SKEW_MS, DEVICE_CODE_MS, DEVICE_INTERVAL_MS, INSTANCES_MAX, LEASE_GRACE_MS,
    LEASE_MS,
};
use switchboard_core::port::store::InstanceRow;
use switchboard_core::principal::{InstanceKind, Principal};
use switchboard_core::rights::Rights;
use switchboard_core::time::{SECOND_MS, WallMs};
use switchboard_core::write::{NewInstance, Outcome, VaultInfo, Write};
use switchboard_protocol::enroll::{
    ACCESS_TOKEN_SCHEMA, AccessToken, DEVICE_CODE_SCHEMA, DeviceCode, DeviceCodeRequest, DeviceTokenRequest,
    ENROLLMENT_SCHEMA, Enrollment, InstanceTokenRequest, OrgRef, token_assertion_input,
};
use switchboard_protocol::lease::{
    self, KEYSET_SCHEMA, Key, KeySet, LEASE_SCHEMA, Lease, LeaseEnvelope, Plan,
};
use switchboard_protocol::vault::{
    ORG_SALT_SCHEMA, OrgSalt, VAULT_SCHEMA, Vault, VaultRef, VaultResolveRequest,
};
use switchboard_protocol::{Detail, UtcTime};

/// The key set's keys sign until then; a hub that needs new ones gets a new root key.
const KEYS_NOT_AFTER_S: i64 = 4_102_444_800; // 2100-01-01
/// Letters of user codes: no vowels (no words), nothing that looks alike.
const USER_CODE_LETTERS: &[u8; 20] = b"BCDFGHJKLMNPQRSTVWXZ";

/// `POST /v1/device/code`.
pub async fn device_code(
    hub: &Hub,
    request: &Request,
    body: &DeviceCodeRequest,
) -> Result<DeviceCode, Detail> {
    body.validate().map_err(refusal::invalid)?;
    let device_code = request.seed().secret(hub, "dc_");
    let letters = user_code(&request.seed().bytes("user_code"));
    let write = Write::DeviceStart {
        device_hash: bearer_hash(&device_code),
        user_code: letters.clone(),
        label: body.instance_label.clone(),
        expires_at_ms: hub.clock().wall_ms() + DEVICE_CODE_MS,
    };
    // The answer holds a secret, so nothing of it is stored: a repeat derives it again.
    hub.once(request, write, Arc::new(|_| Vec::new())).await?;
    let user_code = format!("{}-{}", &letters[..4], &letters[4..]);
    let verification_uri = format!("{}/device", hub.settings.public_url);
    Ok(DeviceCode {
        schema: DEVICE_CODE_SCHEMA.into(),
        device_code,
        verification_uri_complete: format!("{verification_uri}?user_code={user_code}"),
        verification_uri,
        user_code,
        interval: seconds(DEVICE_INTERVAL_MS),
        expires_in: seconds(DEVICE_CODE_MS),
        features: Vec::new(),
    })
}

fn user_code(bytes: &[u8; 16]) -> String {
    let letter = |byte: &u8| char::from(USER_CODE_LETTERS[usize::from(*byte) % USER_CODE_LETTERS.len()]);
    bytes[..8].iter().map(letter).collect()
}

fn seconds(ms: WallMs) -> u32 {
    u32::try_from(ms / SECOND_MS).unwrap_or(u32::MAX)
}

/// `POST /v1/device/token`: an [`Enrollment`] as JSON once a person has approved, an error until then.
pub async fn device_token(
    hub: &Arc<Hub>,
    request: &Request,
    body: &DeviceTokenRequest,
) -> Result<Vec<u8>, Detail> {
    body.validate().map_err(refusal::invalid)?;
    let now_ms = hub.clock().wall_ms();
    let instance_id = hub.fresh_id("inst");
    let keys = (
        key(&body.instance_public_key, "instance_public_key")?,
        key(&body.instance_kx_public_key, "instance_kx_public_key")?,
    );
    let instance = NewInstance {
        instance_id: instance_id.clone(),
        kind: InstanceKind::Engine,
        label: body.instance_label.clone(),
        owner: None,
        rights: Rights::ENGINE,
        token_hash: None,
        keys: Some(keys),
    };
    let write = Write::DeviceRedeem { device_hash: bearer_hash(&body.device_code), instance };
    let issuer = hub.clone();
    let lease_id = hub.fresh_id("lse");
    let render = move |outcome: &Outcome| match outcome {
        Outcome::Instance { instance_id, .. } => enrollment(&issuer, instance_id, &lease_id, now_ms),
        _ => Vec::new(),
    };
    let answer = hub.once(request, write, Arc::new(render)).await?;
    hub.read_people().await;
    Ok(answer)
}

fn key(text: &str, field: &str) -> Result<[u8; 32], Detail> {
    let bytes = STANDARD.decode(text).ok().and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| refusal::bad_field(field, "Send 32 bytes as padded base64."))
}

fn enrollment(hub: &Hub, instance_id: &str, lease_id: &str, now_ms: WallMs) -> Vec<u8> {
    let installation = &hub.installation;
    let enrollment = Enrollment {
        schema: ENROLLMENT_SCHEMA.into(),
        instance_id: instance_id.to_owned(),
        org: OrgRef {
            id: installation.org_id.clone(),
            name: installation.org_name.clone(),
            kind: Some("team".into()),
            company: None,
        },
        lease: lease(hub, instance_id, lease_id, Rights::ENGINE, now_ms),
        keys: key_set(&installation.keys),
        org_salt_id: salt_id(&installation.keys),
        web_url: None,
    };
    serde_json::to_vec(&enrollment).unwrap_or_default()
}

/// The signed key set (`GET /v1/keys`).
#[must_use]
pub fn key_set(keys: &HubKeys) -> KeySet {
    let key = Key {
        kid: kid(keys),
        ed25519_pub: STANDARD.encode(keys.signer_public()),
        not_after: UtcTime::from_unix(KEYS_NOT_AFTER_S),
    };
    let mut set = KeySet { schema: KEYSET_SCHEMA.into(), keys: vec![key], signature: String::new() };
    let input = set.signing_input().unwrap_or_default();
    set.signature = STANDARD.encode(keys.sign_root(&input));
    set
}

/// The root public key as engines pin it.
#[must_use]
pub fn root_key(keys: &HubKeys) -> String {
    STANDARD.encode(keys.root_public())
}

fn kid(keys: &HubKeys) -> String {
    format!("sb-{}", &hex(&framed("kid", &[&keys.signer_public()]))[..16])
}

/// Id of the organization's salt.
#[must_use]
pub fn salt_id(keys: &HubKeys) -> String {
    format!("salt_{}", &hex(&framed("salt", &[&keys.root_public()]))[..16])
}

fn lease(hub: &Hub, instance_id: &str, lease_id: &str, rights: Rights, now_ms: WallMs) -> LeaseEnvelope {
    let keys = &hub.installation.keys;
    let lease = Lease {
        schema: LEASE_SCHEMA.into(),
        lease_id: lease_id.to_owned(),
        org_id: hub.installation.org_id.clone(),
        instance_id: instance_id.to_owned(),
        plan: Plan::Team,
        seats_limit: INSTANCES_MAX,
        rights: rights.iter().filter_map(|right| lease::Right::from_name(right.as_str())).collect(),
        policy_signer_keys: Vec::new(),
        issued_at: utc(now_ms),
        expires_at: utc(now_ms + LEASE_MS),
        grace_until: utc(now_ms + LEASE_MS + LEASE_GRACE_MS),
        server_time: utc(now_ms),
        org_settings: None,
    };
    let value = serde_json::to_value(&lease).unwrap_or_default();
    let mut envelope = LeaseEnvelope {
        schema: lease::LEASE_ENVELOPE_SCHEMA.into(),
        lease: value,
        kid: kid(keys),
        signature: String::new(),
    };
    let input = envelope.signing_input().unwrap_or_default();
    envelope.signature = STANDARD.encode(keys.sign(&input));
    envelope
}

async fn live_instance(hub: &Hub, instance_id: &str) -> Result<InstanceRow, Detail> {
    let found = hub.store().instance(instance_id.to_owned()).await.map_err(|error| refusal::store(&error))?;
    let row =
        found.ok_or_else(|| refusal::not_found("instance_id", "No such instance in this organization."))?;
    if row.revoked_ms.is_some() {
        return Err(refusal::revoked());
    }
    Ok(row)
}

/// `POST /v1/instances/{id}/token`: a bearer of at most an hour for an instance that proves its key.
pub async fn access_token(
    hub: &Hub,
    request: &Request,
    instance_id: &str,
    body: &InstanceTokenRequest,
) -> Result<AccessToken, Detail> {
    body.validate().map_err(refusal::invalid)?;
    let row = live_instance(hub, instance_id).await?;
    let now_ms = hub.clock().wall_ms();
    if row.grace_until_ms.is_some_and(|end| end <= now_ms) {
        return Err(refusal::lease_expired());
    }
    // In seconds on both sides, so that no `iat` can overflow.
    if body.iat.abs_diff(now_ms.div_euclid(SECOND_MS)) > ASSERTION_SKEW_MS.unsigned_abs() / 1000 {
        return Err(refusal::unauthorized().field("iat").reason("clock_skew"));
    }
    let input = token_assertion_input(instance_id, body.iat, &body.nonce);
    let signature: Option<[u8; 64]> =
        STANDARD.decode(&body.assertion).ok().and_then(|bytes| bytes.try_into().ok());
    let proven =
        row.public_key.zip(signature).is_some_and(|(key, signature)| verify(&key, &input, &signature));
    if !proven {
        return Err(refusal::unauthorized().field("assertion"));
    }
    // Derived, not stored: a repeat of the same request gets the same bearer.
    let secret =
        hmac(&hub.installation.keys.bearer, &[b"access", instance_id.as_bytes(), body.nonce.as_bytes()]);
    let bearer = format!("sba_{}", base32(&secret));
    let write = Write::MintAccess {
        instance: row.instance,
        nonce: body.nonce.clone(),
        token_hash: bearer_hash(&bearer),
        expires_at_ms: now_ms + ACCESS_TOKEN_MS,
    };
    hub.once(request, write, Arc::new(|_| Vec::new())).await?;
    Ok(AccessToken {
        schema: ACCESS_TOKEN_SCHEMA.into(),
        access_token: bearer,
        expires_in: seconds(ACCESS_TOKEN_MS),
    })
}

/// `POST /v1/instances/{id}/lease/renew`: a fresh lease as JSON, for the instance itself.
pub async fn renew_lease(
    hub: &Arc<Hub>,
    request: &Request,
    who: &Principal,
    instance_id: &str,
) -> Result<Vec<u8>, Detail> {
    check_self(who, instance_id)?;
    let row = live_instance(hub, instance_id).await?;
    let now_ms = hub.clock().wall_ms();
    let write =
        Write::RenewLease { instance: row.instance, grace_until_ms: now_ms + LEASE_MS + LEASE_GRACE_MS };
    let envelope = lease(hub, instance_id, &request.seed().id("lse"), row.rights, now_ms);
    let render = move |_: &Outcome| serde_json::to_vec(&envelope).unwrap_or_default();
    let answer = hub.once(request, write, Arc::new(render)).await?;
    hub.credentials.forget();
    Ok(answer)
}

/// `DELETE /v1/instances/{id}`: an instance leaves; an administrator may make any leave.
pub async fn leave(hub: &Hub, who: &Principal, instance_id: &str) -> Result<(), Detail> {
    if check_self(who, instance_id).is_err() {
        permit(who, crate::govern::Act::Administer)?;
    }
    crate::manage::tokens::revoke(hub, instance_id).await
}

fn check_self(who: &Principal, instance_id: &str) -> Result<(), Detail> {
    if who.instance_id == instance_id {
        return Ok(());
    }
    Err(refusal::not_found("instance_id", "This is not the instance of your bearer."))
}

/// `GET /v1/org/salt`.
#[must_use]
pub fn org_salt(hub: &Hub) -> OrgSalt {
    let keys = &hub.installation.keys;
    OrgSalt {
        schema: ORG_SALT_SCHEMA.into(),
        org_salt_id: salt_id(keys),
        salt: STANDARD.encode(keys.org_salt),
    }
}

/// `POST /v1/vaults/resolve`: the vault of a repository, made on first sight, as JSON.
pub async fn resolve_vault(
    hub: &Arc<Hub>,
    request: &Request,
    body: &VaultResolveRequest,
) -> Result<Vec<u8>, Detail> {
    body.validate().map_err(refusal::invalid)?;
    if body.org_salt_id != salt_id(&hub.installation.keys) {
        return Err(refusal::bad_field("org_salt_id", "Fetch the present salt with GET /v1/org/salt."));
    }
    let ns = namespace(&hub.installation.org_name);
    if let Some(vault) = &body.vault
        && vault.ns != ns
    {
        return Err(refusal::not_found("vault", "No such vault in this organization."));
    }
    let fresh = switchboard_core::ids::VaultId(request.seed().bytes("vault"));
    let name = format!("repo-{}", &body.identity_digest[..12]);
    let write = Write::ResolveVault {
        identity: body.identity_digest.clone(),
        bind: body.vault.as_ref().map(|vault| vault.name.clone()),
        fresh: (fresh, name),
        label: body.label.clone(),
    };
    let render = move |outcome: &Outcome| match outcome {
        Outcome::Vault(vault) => serde_json::to_vec(&wire_vault(vault, &ns)).unwrap_or_default(),
        _ => Vec::new(),
    };
    let answer = hub.once(request, write, Arc::new(render)).await?;
    hub.read_vaults().await.map_err(|error| refusal::store(&error))?;
    Ok(answer)
}

fn wire_vault(vault: &VaultInfo, ns: &str) -> Vault {
    Vault {
        schema: VAULT_SCHEMA.into(),
        vault_id: vault.vault.to_string(),
        vault: VaultRef { ns: ns.to_owned(), name: vault.name.clone() },
        sealed: vault.sealed,
        key_epoch: vault.sealed.then_some(0),
        label: vault.label.clone(),
        auto_merge: None,
        code_graph: None,
    }
}

/// The organization's name as an id: what stands before the slash in `ns/name`.
fn namespace(org_name: &str) -> String {
    let kept: String = org_name
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' })
        .collect();
    let trimmed = kept.trim_matches('-');
    if trimmed.is_empty() { "org".into() } else { trimmed.to_owned() }
}
