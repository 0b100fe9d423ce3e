//! Finding the vault of a repository: only a salted digest of the repository's identity ever crosses (contract section 2).

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limits::VAULT_LABEL_CHARS_MAX;
use crate::text::{
    Invalid, validate_base64_exact, validate_hex, validate_id, validate_schema, validate_text,
    validate_vault_id,
};

/// `schema` of an [`OrgSalt`].
pub const ORG_SALT_SCHEMA: &str = "leanctx.hive.org-salt/v1";
/// `schema` of a [`VaultResolveRequest`].
pub const VAULT_RESOLVE_REQUEST_SCHEMA: &str = "leanctx.hive.vault-resolve-request/v1";
/// `schema` of a [`Vault`].
pub const VAULT_SCHEMA: &str = "leanctx.hive.vault/v1";

/// Answer of `GET /v1/org/salt`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrgSalt {
    /// [`ORG_SALT_SCHEMA`].
    pub schema: String,
    /// Opaque id.
    pub org_salt_id: String,
    /// 32 bytes base64, secret to the organization.
    pub salt: String,
}

impl OrgSalt {
    /// Check every field.
    pub fn validate(&self) -> Result<(), Invalid> {
        validate_schema(&self.schema, ORG_SALT_SCHEMA)?;
        validate_id(&self.org_salt_id, "org_salt_id")?;
        validate_base64_exact(&self.salt, 32, "salt")
    }
}

impl fmt::Debug for OrgSalt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("OrgSalt")
            .field("org_salt_id", &self.org_salt_id)
            .field("salt", &"<redacted>")
            .finish_non_exhaustive()
    }
}

/// A vault by name: `@<ns>/<name>`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct VaultRef {
    /// Namespace, an id.
    pub ns: String,
    /// Name inside it, an id.
    pub name: String,
}

impl VaultRef {
    /// Check both parts.
    pub fn validate(&self) -> Result<(), Invalid> {
        validate_id(&self.ns, "vault.ns")?;
        validate_id(&self.name, "vault.name")
    }
}

/// `POST /v1/vaults/resolve`: the vault of a repository, made on first sight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VaultResolveRequest {
    /// [`VAULT_RESOLVE_REQUEST_SCHEMA`].
    pub schema: String,
    /// The salt the digest was made with.
    pub org_salt_id: String,
    /// 64 lowercase hexadecimal characters.
    pub identity_digest: String,
    /// Display label, at most 64 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The vault to bind the repository to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vault: Option<VaultRef>,
}

impl VaultResolveRequest {
    /// Check every field.
    pub fn validate(&self) -> Result<(), Invalid> {
        validate_schema(&self.schema, VAULT_RESOLVE_REQUEST_SCHEMA)?;
        validate_id(&self.org_salt_id, "org_salt_id")?;
        validate_hex(&self.identity_digest, 64..=64, "identity_digest")?;
        self.label
            .as_ref()
            .map_or(Ok(()), |label| validate_text(label, VAULT_LABEL_CHARS_MAX, "label", false))?;
        self.vault.as_ref().map_or(Ok(()), VaultRef::validate)
    }
}

/// Answer of `POST /v1/vaults/resolve`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Vault {
    /// [`VAULT_SCHEMA`].
    pub schema: String,
    /// 32 lowercase hexadecimal characters.
    pub vault_id: String,
    /// Its name.
    pub vault: VaultRef,
    /// Whether content travels only sealed.
    pub sealed: bool,
    /// Current key epoch, present exactly when sealed; 0 before the first key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_epoch: Option<u32>,
    /// Display label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// When proposals merge by themselves; passed through unread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_merge: Option<Value>,
    /// `full` when the code graph is published; absent: anchors only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code_graph: Option<String>,
}

impl Vault {
    /// Check every field this server fills.
    pub fn validate(&self) -> Result<(), Invalid> {
        validate_schema(&self.schema, VAULT_SCHEMA)?;
        validate_vault_id(&self.vault_id)?;
        self.vault.validate()?;
        if self.sealed != self.key_epoch.is_some() {
            return Err(Invalid::rule("key_epoch", "must be present exactly when the vault is sealed"));
        }
        self.label
            .as_ref()
            .map_or(Ok(()), |label| validate_text(label, VAULT_LABEL_CHARS_MAX, "label", false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolve_requests_are_checked_field_by_field() {
        let good = VaultResolveRequest {
            schema: VAULT_RESOLVE_REQUEST_SCHEMA.into(),
            org_salt_id: "salt_1".into(),
            identity_digest: "0a".repeat(32),
            label: Some("payments".into()),
            vault: Some(VaultRef { ns: "acme".into(), name: "payments".into() }),
        };
        assert_eq!(good.validate(), Ok(()));
        let field = |request: VaultResolveRequest| request.validate().unwrap_err().field;
        assert_eq!(
            field(VaultResolveRequest { identity_digest: "0A".repeat(32), ..good.clone() }),
            "identity_digest"
        );
        assert_eq!(field(VaultResolveRequest { label: Some("a\nb".into()), ..good.clone() }), "label");
        let unnamed = VaultRef { ns: "acme".into(), name: String::new() };
        assert_eq!(field(VaultResolveRequest { vault: Some(unnamed), ..good }), "vault.name");
    }

    #[test]
    fn only_sealed_vaults_have_an_epoch() {
        let vault = |sealed, key_epoch| Vault {
            schema: VAULT_SCHEMA.into(),
            vault_id: "0a".repeat(16),
            vault: VaultRef { ns: "acme".into(), name: "payments".into() },
            sealed,
            key_epoch,
            label: None,
            auto_merge: None,
            code_graph: None,
        };
        assert!(vault(true, Some(0)).validate().is_ok() && vault(false, None).validate().is_ok());
        assert!(vault(true, None).validate().is_err() && vault(false, Some(1)).validate().is_err());
    }

    #[test]
    fn the_salt_stays_out_of_debug() {
        let salt = OrgSalt { schema: ORG_SALT_SCHEMA.into(), org_salt_id: "s".into(), salt: "s3cret".into() };
        assert!(!format!("{salt:?}").contains("s3cret"));
        assert_eq!(salt.validate().unwrap_err().field, "salt");
    }
}
