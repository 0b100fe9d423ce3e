//! The chain of trust: a root key signs the key set, a key of the set signs leases, an instance signs its token requests.

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use lean_ctx_protocol::hive::enroll::token_assertion_input;
use lean_ctx_protocol::hive::lease::{HiveKeySetV1, HiveLeaseEnvelopeV1};
use serde::Deserialize as _;
use serde_json::Value;

/// Verifies an enrollment as an engine does: the key set under the root key, then the lease under a key of the set.
/// `root_key` is the base64 of the 32-byte Ed25519 public key.
pub fn verify_enrollment(enrollment: &Value, root_key: &str) -> Result<()> {
    verify_keyset(&enrollment["keys"], root_key)?;
    verify_lease(&enrollment["lease"], &enrollment["keys"])
}

/// Verifies a key set over the JSON as received, so that fields nobody knows yet are covered too.
pub fn verify_keyset(keyset: &Value, root_key: &str) -> Result<()> {
    let input = HiveKeySetV1::signing_input_raw(keyset)?;
    verify(root_key, &input, text(keyset, "signature")?).context("the key set under the root key")
}

/// Verifies a lease envelope under the key of the set that it names.
pub fn verify_lease(envelope: &Value, keyset: &Value) -> Result<()> {
    let keyset = HiveKeySetV1::deserialize(keyset)?;
    let typed = HiveLeaseEnvelopeV1::deserialize(envelope)?;
    let key = keyset.key(&typed.kid).with_context(|| format!("the key set has no key {}", typed.kid))?;
    let input = typed.signing_input()?;
    verify(&key.ed25519_pub, &input, &typed.signature).context("the lease under a key of the set")
}

/// The public half of a key, as requests carry it.
pub fn public_key(key: &SigningKey) -> String {
    STANDARD.encode(key.verifying_key().as_bytes())
}

/// The signed assertion of a token request.
pub fn assertion(key: &SigningKey, instance_id: &str, iat: i64, nonce: &str) -> String {
    STANDARD.encode(key.sign(&token_assertion_input(instance_id, iat, nonce)).to_bytes())
}

fn verify(public_key: &str, input: &[u8], signature: &str) -> Result<()> {
    let key: [u8; 32] = decoded(public_key)?;
    let signature: [u8; 64] = decoded(signature)?;
    VerifyingKey::from_bytes(&key)?.verify_strict(input, &Signature::from_bytes(&signature))?;
    Ok(())
}

fn decoded<const LENGTH: usize>(text: &str) -> Result<[u8; LENGTH]> {
    let bytes = STANDARD.decode(text)?;
    let Ok(bytes) = bytes.try_into() else { bail!("not {LENGTH} bytes") };
    Ok(bytes)
}

fn text<'a>(value: &'a Value, field: &str) -> Result<&'a str> {
    value[field].as_str().with_context(|| format!("{field} is missing"))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{verify_enrollment, verify_keyset};
    use crate::fixtures;

    fn fixture(name: &str) -> Value {
        serde_json::from_str(&fixtures::all().expect("fixtures")[name]).expect("JSON")
    }

    #[test]
    fn the_published_enrollment_verifies_and_a_changed_one_does_not() {
        let vectors = fixture("vectors");
        let root = vectors["keys"]["root_ed25519_pub"].as_str().expect("a key");
        let mut enrollment = fixture("enrollment.response");
        verify_enrollment(&enrollment, root).expect("signatures");
        assert!(
            verify_keyset(
                &enrollment["keys"],
                vectors["keys"]["instance_ed25519_pub"].as_str().expect("a key")
            )
            .is_err()
        );
        enrollment["lease"]["lease"]["seats_limit"] = 26.into();
        assert!(verify_enrollment(&enrollment, root).is_err());
    }
}
