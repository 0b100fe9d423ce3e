//! The instance lease and the key set that signs it (contract section 2).
//!
//! A lease is valid until `expires_at`, in grace until `grace_until`, then lapsed. Signatures cover the raw JSON as it was
//! received, so that fields a reader does not know stay covered; making and checking signatures is not done here.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::canonical::{KEYSET_DOMAIN, LEASE_DOMAIN, signing_input, signing_input_without_signature};
use crate::limits::{
    KEYSET_KEYS_MAX, LEASE_FUTURE_SKEW_S_MAX, LEASE_GRACE_S_MAX, LEASE_RENEW_BEFORE_S, LEASE_RIGHTS_MAX,
    LEASE_SIGNERS_MAX, LEASE_VALIDITY_S_MAX,
};
use crate::text::{Invalid, validate_base64_exact, validate_id, validate_schema};
use crate::time::UtcTime;

/// `schema` of a [`Lease`].
pub const LEASE_SCHEMA: &str = "leanctx.hive.lease/v1";
/// `schema` of a [`LeaseEnvelope`].
pub const LEASE_ENVELOPE_SCHEMA: &str = "leanctx.hive.lease-envelope/v1";
/// `schema` of a [`KeySet`].
pub const KEYSET_SCHEMA: &str = "leanctx.hive.keyset/v1";

/// Plan of the organization, as the wire names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Plan {
    /// No paid plan.
    None,
    /// One person.
    Personal,
    /// A team.
    Team,
    /// A business.
    Enterprise,
    /// A plan this version does not know.
    #[serde(other)]
    Unknown,
}

/// What an instance may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Right {
    /// Read knowledge.
    #[serde(rename = "knowledge.read")]
    KnowledgeRead,
    /// Draft knowledge.
    #[serde(rename = "knowledge.draft")]
    KnowledgeDraft,
    /// Merge knowledge.
    #[serde(rename = "knowledge.merge")]
    KnowledgeMerge,
    /// Upload usage metrics.
    #[serde(rename = "metrics.upload")]
    MetricsUpload,
    /// Upload receipts.
    #[serde(rename = "receipts.upload")]
    ReceiptsUpload,
    /// Fetch policies.
    #[serde(rename = "policy.pull")]
    PolicyPull,
    /// Use the bus.
    #[serde(rename = "bus.relay")]
    BusRelay,
    /// Issue control actions.
    #[serde(rename = "bus.control")]
    BusControl,
    /// Work in sealed vaults.
    #[serde(rename = "sealed")]
    Sealed,
    /// Run the runtime.
    #[serde(rename = "runtime")]
    Runtime,
    /// Read tasks.
    #[serde(rename = "tasks.read")]
    TasksRead,
    /// Claim tasks, report and submit.
    #[serde(rename = "tasks.work")]
    TasksWork,
    /// Propose tasks.
    #[serde(rename = "tasks.propose")]
    TasksPropose,
    /// A right this version does not know; it grants nothing.
    #[serde(other, rename = "unknown")]
    Unknown,
}

impl Right {
    /// Every right with its wire name.
    pub const NAMES: [(Self, &'static str); 13] = [
        (Self::KnowledgeRead, "knowledge.read"),
        (Self::KnowledgeDraft, "knowledge.draft"),
        (Self::KnowledgeMerge, "knowledge.merge"),
        (Self::MetricsUpload, "metrics.upload"),
        (Self::ReceiptsUpload, "receipts.upload"),
        (Self::PolicyPull, "policy.pull"),
        (Self::BusRelay, "bus.relay"),
        (Self::BusControl, "bus.control"),
        (Self::Sealed, "sealed"),
        (Self::Runtime, "runtime"),
        (Self::TasksRead, "tasks.read"),
        (Self::TasksWork, "tasks.work"),
        (Self::TasksPropose, "tasks.propose"),
    ];

    /// The name on the wire; `unknown` for [`Right::Unknown`].
    pub fn as_str(self) -> &'static str {
        Self::NAMES.iter().find(|(right, _)| *right == self).map_or("unknown", |(_, name)| name)
    }

    /// The right with this wire name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, known)| *known == name).map(|(right, _)| *right)
    }
}

/// A policy signing key pinned by the lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicySignerKey {
    /// The organization.
    pub org: String,
    /// Ed25519 public key, 32 bytes base64.
    pub ed25519_pub: String,
}

/// Organization-wide switches; absent ones allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrgSettings {
    /// Whether engines may upload metrics.
    #[serde(default = "allowed")]
    pub metrics_upload: bool,
    /// Whether engines may upload receipts.
    #[serde(default = "allowed")]
    pub receipts_upload: bool,
}

const fn allowed() -> bool {
    true
}

/// Where a lease stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaseState {
    /// Before `expires_at`.
    Valid,
    /// Before `grace_until`.
    Grace,
    /// Past it.
    Lapsed,
}

/// The statement that is signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// [`LEASE_SCHEMA`].
    pub schema: String,
    /// Opaque id.
    pub lease_id: String,
    /// The organization.
    pub org_id: String,
    /// The instance.
    pub instance_id: String,
    /// The organization's plan.
    pub plan: Plan,
    /// Instances the organization may have, at least 1.
    pub seats_limit: u32,
    /// What the instance may do; at most 64.
    pub rights: Vec<Right>,
    /// At most 16.
    pub policy_signer_keys: Vec<PolicySignerKey>,
    /// When it was issued.
    pub issued_at: UtcTime,
    /// At most 24 h after `issued_at`.
    pub expires_at: UtcTime,
    /// At most 7 days after `expires_at`.
    pub grace_until: UtcTime,
    /// Service clock at signing.
    pub server_time: UtcTime,
    /// What the organization allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub org_settings: Option<OrgSettings>,
}

impl Lease {
    /// Check ids, list lengths and windows.
    pub fn validate(&self) -> Result<(), Invalid> {
        validate_schema(&self.schema, LEASE_SCHEMA)?;
        validate_id(&self.lease_id, "lease_id")?;
        validate_id(&self.org_id, "org_id")?;
        validate_id(&self.instance_id, "instance_id")?;
        if self.seats_limit == 0 {
            return Err(Invalid::rule("seats_limit", "must be 1 or more"));
        }
        if self.rights.len() > LEASE_RIGHTS_MAX {
            return Err(Invalid::rule("rights", format_args!("must be at most {LEASE_RIGHTS_MAX}")));
        }
        self.validate_signers()?;
        self.validate_windows()
    }

    fn validate_signers(&self) -> Result<(), Invalid> {
        if self.policy_signer_keys.len() > LEASE_SIGNERS_MAX {
            return Err(Invalid::rule(
                "policy_signer_keys",
                format_args!("must be at most {LEASE_SIGNERS_MAX}"),
            ));
        }
        self.policy_signer_keys.iter().try_for_each(|key| {
            validate_id(&key.org, "policy_signer_keys.org")?;
            validate_base64_exact(&key.ed25519_pub, 32, "policy_signer_keys.ed25519_pub")
        })
    }

    fn validate_windows(&self) -> Result<(), Invalid> {
        let validity_s = self.expires_at.unix() - self.issued_at.unix();
        if !(1..=LEASE_VALIDITY_S_MAX).contains(&validity_s) {
            return Err(Invalid::rule("expires_at", "must be after issued_at, at most 24 hours later"));
        }
        let grace_s = self.grace_until.unix() - self.expires_at.unix();
        if !(0..=LEASE_GRACE_S_MAX).contains(&grace_s) {
            return Err(Invalid::rule("grace_until", "must be expires_at or up to 7 days later"));
        }
        Ok(())
    }

    /// Whether the lease grants `right`; [`Right::Unknown`] is never granted.
    pub fn grants(&self, right: Right) -> bool {
        right != Right::Unknown && self.rights.contains(&right)
    }

    /// Where it stands at `now`, in service time. Issued more than 15 minutes ahead counts as lapsed.
    pub fn state_at(&self, now: UtcTime) -> LeaseState {
        if self.issued_at > now.plus_s(LEASE_FUTURE_SKEW_S_MAX) {
            LeaseState::Lapsed
        } else if now < self.expires_at {
            LeaseState::Valid
        } else if now < self.grace_until {
            LeaseState::Grace
        } else {
            LeaseState::Lapsed
        }
    }

    /// Whether the holder should renew: less than six hours remain.
    pub fn renew_due(&self, now: UtcTime) -> bool {
        self.expires_at.unix() - now.unix() < LEASE_RENEW_BEFORE_S
    }
}

/// A lease as it travels: the raw statement and its signature.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeaseEnvelope {
    /// [`LEASE_ENVELOPE_SCHEMA`].
    pub schema: String,
    /// The statement exactly as signed.
    pub lease: Value,
    /// Which key of the [`KeySet`] signed.
    pub kid: String,
    /// Ed25519, 64 bytes base64, over [`Self::signing_input`].
    pub signature: String,
}

impl LeaseEnvelope {
    /// Wrap a lease and its signature.
    pub fn new(lease: &Lease, kid: impl Into<String>, signature: impl Into<String>) -> Result<Self, Invalid> {
        lease.validate()?;
        let envelope = Self {
            schema: LEASE_ENVELOPE_SCHEMA.into(),
            lease: lease_value(lease)?,
            kid: kid.into(),
            signature: signature.into(),
        };
        envelope.validate()?;
        Ok(envelope)
    }

    /// Check the envelope, not the statement inside.
    pub fn validate(&self) -> Result<(), Invalid> {
        validate_schema(&self.schema, LEASE_ENVELOPE_SCHEMA)?;
        validate_id(&self.kid, "kid")?;
        validate_base64_exact(&self.signature, 64, "signature")?;
        if self.lease.is_object() { Ok(()) } else { Err(Invalid::rule("lease", "must be an object")) }
    }

    /// What the signature covers.
    pub fn signing_input(&self) -> Result<Vec<u8>, Invalid> {
        signing_input(LEASE_DOMAIN, &self.lease)
    }

    /// What to sign for a lease about to be issued.
    pub fn signing_input_for(lease: &Lease) -> Result<Vec<u8>, Invalid> {
        lease.validate()?;
        signing_input(LEASE_DOMAIN, &lease_value(lease)?)
    }

    /// The statement, typed and checked. Verify the signature first.
    pub fn lease(&self) -> Result<Lease, Invalid> {
        let lease = Lease::deserialize(&self.lease)
            .map_err(|error| Invalid::new("lease", format!("lease: {error}")))?;
        lease.validate()?;
        Ok(lease)
    }
}

fn lease_value(lease: &Lease) -> Result<Value, Invalid> {
    serde_json::to_value(lease).map_err(|error| Invalid::new("lease", format!("lease: {error}")))
}

/// A service signing key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// Its id.
    pub kid: String,
    /// Ed25519 public key, 32 bytes base64.
    pub ed25519_pub: String,
    /// It signs nothing after this.
    pub not_after: UtcTime,
}

/// Answer of `GET /v1/keys`, signed by the root key over everything but `signature`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeySet {
    /// [`KEYSET_SCHEMA`].
    pub schema: String,
    /// 1 to 16, every `kid` once.
    pub keys: Vec<Key>,
    /// Ed25519, 64 bytes base64.
    pub signature: String,
}

impl KeySet {
    /// Check every key and the shape of the signature.
    pub fn validate(&self) -> Result<(), Invalid> {
        validate_schema(&self.schema, KEYSET_SCHEMA)?;
        if !(1..=KEYSET_KEYS_MAX).contains(&self.keys.len()) {
            return Err(Invalid::rule("keys", format_args!("must be 1 to {KEYSET_KEYS_MAX}")));
        }
        for (index, key) in self.keys.iter().enumerate() {
            validate_id(&key.kid, "kid")?;
            validate_base64_exact(&key.ed25519_pub, 32, "ed25519_pub")?;
            if self.keys[..index].iter().any(|earlier| earlier.kid == key.kid) {
                return Err(Invalid::rule("kid", "must be different in every key"));
            }
        }
        validate_base64_exact(&self.signature, 64, "signature")
    }

    /// What the signature of a received key set covers.
    pub fn signing_input_raw(raw: &Value) -> Result<Vec<u8>, Invalid> {
        signing_input_without_signature(KEYSET_DOMAIN, raw)
    }

    /// What to sign for a key set about to be issued; its `signature` is ignored.
    pub fn signing_input(&self) -> Result<Vec<u8>, Invalid> {
        let raw =
            serde_json::to_value(self).map_err(|error| Invalid::new("keys", format!("keys: {error}")))?;
        Self::signing_input_raw(&raw)
    }

    /// The key with this id.
    pub fn key(&self, kid: &str) -> Option<&Key> {
        self.keys.iter().find(|key| key.kid == kid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> UtcTime {
        UtcTime::parse(text).unwrap()
    }

    fn lease() -> Lease {
        Lease {
            schema: LEASE_SCHEMA.into(),
            lease_id: "lse_1".into(),
            org_id: "org_1".into(),
            instance_id: "inst_1".into(),
            plan: Plan::Team,
            seats_limit: 25,
            rights: vec![Right::BusRelay],
            policy_signer_keys: vec![],
            issued_at: at("2026-10-20T12:00:00Z"),
            expires_at: at("2026-10-21T12:00:00Z"),
            grace_until: at("2026-10-28T12:00:00Z"),
            server_time: at("2026-10-20T12:00:00Z"),
            org_settings: None,
        }
    }

    #[test]
    fn a_lease_passes_from_valid_over_grace_to_lapsed() {
        for (now, state) in [
            ("2026-10-20T11:44:59Z", LeaseState::Lapsed),
            ("2026-10-20T11:45:00Z", LeaseState::Valid),
            ("2026-10-21T11:59:59Z", LeaseState::Valid),
            ("2026-10-21T12:00:00Z", LeaseState::Grace),
            ("2026-10-28T12:00:00Z", LeaseState::Lapsed),
        ] {
            assert_eq!(lease().state_at(at(now)), state, "{now}");
        }
        assert!(
            lease().renew_due(at("2026-10-21T06:00:01Z")) && !lease().renew_due(at("2026-10-21T06:00:00Z"))
        );
    }

    #[test]
    fn windows_and_lists_are_bounded() {
        assert_eq!(lease().validate(), Ok(()));
        let field = |lease: Lease| lease.validate().unwrap_err().field;
        assert_eq!(field(Lease { expires_at: at("2026-10-21T12:00:01Z"), ..lease() }), "expires_at");
        assert_eq!(field(Lease { expires_at: lease().issued_at, ..lease() }), "expires_at");
        assert_eq!(field(Lease { grace_until: at("2026-10-28T12:00:01Z"), ..lease() }), "grace_until");
        assert_eq!(field(Lease { seats_limit: 0, ..lease() }), "seats_limit");
        assert_eq!(field(Lease { rights: vec![Right::Sealed; 65], ..lease() }), "rights");
    }

    #[test]
    fn rights_have_the_same_names_everywhere() {
        for (right, name) in Right::NAMES {
            assert_eq!(serde_json::to_value(right).unwrap(), name);
            assert_eq!((right.as_str(), Right::from_name(name)), (name, Some(right)));
        }
        assert_eq!(serde_json::from_str::<Right>("\"time.travel\"").unwrap(), Right::Unknown);
        assert_eq!(Right::from_name("unknown"), None);
        assert!(!Lease { rights: vec![Right::Unknown], ..lease() }.grants(Right::Unknown));
    }

    #[test]
    fn the_signature_covers_fields_a_reader_does_not_know() {
        let mut envelope = LeaseEnvelope::new(&lease(), "k1", format!("{}==", "A".repeat(86))).unwrap();
        let before = envelope.signing_input().unwrap();
        assert_eq!(before, LeaseEnvelope::signing_input_for(&lease()).unwrap());
        envelope.lease["later"] = Value::from(1);
        assert_ne!(before, envelope.signing_input().unwrap());
        assert_eq!(envelope.lease().unwrap(), lease());
    }

    #[test]
    fn key_ids_are_unique() {
        let key = |kid: &str| Key {
            kid: kid.into(),
            ed25519_pub: format!("{}=", "A".repeat(43)),
            not_after: at("2027-01-01T00:00:00Z"),
        };
        let set =
            |keys| KeySet { schema: KEYSET_SCHEMA.into(), keys, signature: format!("{}==", "A".repeat(86)) };
        assert_eq!(set(vec![key("a"), key("b")]).validate(), Ok(()));
        assert_eq!(set(vec![key("a"), key("a")]).validate().unwrap_err().field, "kid");
        assert_eq!(set(vec![]).validate().unwrap_err().field, "keys");
        assert!(set(vec![key("a")]).key("b").is_none());
    }
}
