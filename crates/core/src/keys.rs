//! The hub's keys: a root key made on first start signs the key set, a signing key signs leases and log checkpoints.

use crate::random::{self, Entropy};
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};

/// The hub's secrets. `Debug` shows nothing of them.
#[derive(Clone)]
pub struct HubKeys {
    root: SigningKey,
    signer: SigningKey,
    /// Key of [`crate::gid::GidCipher`].
    pub gid: [u8; 16],
    /// Secret under which bearers are derived, so that a repeated request gets the same one without it being stored.
    pub bearer: [u8; 32],
    /// The organization's salt, given to enrolled engines (`GET /v1/org/salt`).
    pub org_salt: [u8; 32],
}

impl std::fmt::Debug for HubKeys {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("HubKeys(redacted)")
    }
}

/// Bytes of the serialized secrets.
pub const HUB_KEYS_LEN: usize = 32 + 32 + 16 + 32 + 32;

impl HubKeys {
    /// Fresh keys.
    pub fn generate(entropy: &dyn Entropy) -> Self {
        Self {
            root: SigningKey::from_bytes(&random::bytes(entropy)),
            signer: SigningKey::from_bytes(&random::bytes(entropy)),
            gid: random::bytes(entropy),
            bearer: random::bytes(entropy),
            org_salt: random::bytes(entropy),
        }
    }

    /// For the store only: all secrets in a row.
    #[must_use]
    pub fn to_bytes(&self) -> zeroize::Zeroizing<[u8; HUB_KEYS_LEN]> {
        let mut out = zeroize::Zeroizing::new([0; HUB_KEYS_LEN]);
        out[..32].copy_from_slice(&self.root.to_bytes());
        out[32..64].copy_from_slice(&self.signer.to_bytes());
        out[64..80].copy_from_slice(&self.gid);
        out[80..112].copy_from_slice(&self.bearer);
        out[112..].copy_from_slice(&self.org_salt);
        out
    }

    /// The inverse of [`HubKeys::to_bytes`]; another length is `None`.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != HUB_KEYS_LEN {
            return None;
        }
        Some(Self {
            root: SigningKey::from_bytes(bytes[..32].try_into().ok()?),
            signer: SigningKey::from_bytes(bytes[32..64].try_into().ok()?),
            gid: bytes[64..80].try_into().ok()?,
            bearer: bytes[80..112].try_into().ok()?,
            org_salt: bytes[112..].try_into().ok()?,
        })
    }

    /// The root public key: what engines pin.
    #[must_use]
    pub fn root_public(&self) -> [u8; 32] {
        self.root.verifying_key().to_bytes()
    }

    /// The signing public key: leases and checkpoints verify under it.
    #[must_use]
    pub fn signer_public(&self) -> [u8; 32] {
        self.signer.verifying_key().to_bytes()
    }

    /// Signs with the root key.
    #[must_use]
    pub fn sign_root(&self, message: &[u8]) -> [u8; 64] {
        self.root.sign(message).to_bytes()
    }

    /// Signs with the signing key.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.signer.sign(message).to_bytes()
    }
}

/// Whether `signature` over `message` is `public`'s; strict, so that no second signature fits the same message.
#[must_use]
pub fn verify(public: &[u8; 32], message: &[u8], signature: &[u8; 64]) -> bool {
    VerifyingKey::from_bytes(public)
        .is_ok_and(|key| key.verify_strict(message, &Signature::from_bytes(signature)).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_survive_the_store_and_never_show_themselves() {
        let keys = HubKeys::generate(&random::SystemEntropy);
        let again = HubKeys::from_bytes(&*keys.to_bytes()).unwrap();
        assert_eq!(again.root_public(), keys.root_public());
        assert!(verify(&keys.signer_public(), b"x", &again.sign(b"x")));
        assert!(!verify(&keys.root_public(), b"x", &again.sign(b"x")));
        assert_eq!(format!("{keys:?}"), "HubKeys(redacted)");
        assert!(HubKeys::from_bytes(&[0; 3]).is_none());
    }
}
