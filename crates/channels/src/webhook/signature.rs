//! Signatures of Standard Webhooks: `v1,` and Base64 of HMAC-SHA256 over `id.timestamp.body`, one for each secret, separated by spaces.

use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use base64::engine::{DecodePaddingMode, Engine};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use switchboard_core::{ExposeSecret, SecretString};

/// How a secret begins.
pub const SECRET_PREFIX: &str = "whsec_";
/// Shortest secret, in bytes (the standard).
pub const SECRET_BYTES_MIN: usize = 24;
/// Longest secret, in bytes (the standard).
pub const SECRET_BYTES_MAX: usize = 64;
/// Most secrets of one channel: each adds a signature to the header.
pub const SECRETS_MAX: usize = 8;

/// Other senders and the standard's libraries take secrets without `=` at the end.
const SECRET_BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The secrets in one text, as an environment variable or a file holds them: separated by space or line breaks.
#[must_use]
pub fn secrets(text: &SecretString) -> Vec<SecretString> {
    text.expose_secret().split_whitespace().map(Into::into).collect()
}

/// The secrets of a channel, ready to sign.
pub struct Keys(Vec<Hmac<Sha256>>);

impl Keys {
    /// Reads secrets; an error says which of them, counted from 1, is wrong, and not what it is.
    pub fn parse(secrets: &[SecretString]) -> Result<Self, String> {
        if secrets.is_empty() || secrets.len() > SECRETS_MAX {
            return Err(format!(
                "a webhook needs 1 to {SECRETS_MAX} secrets; make one: \
                 echo whsec_$(head -c 32 /dev/urandom | base64)"
            ));
        }
        let keys = secrets.iter().enumerate().map(|(place, secret)| {
            key(secret.expose_secret()).ok_or_else(|| {
                format!(
                    "secret {} is not {SECRET_PREFIX} and Base64 of {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes",
                    place + 1
                )
            })
        });
        keys.collect::<Result<_, _>>().map(Self)
    }

    /// The value of `webhook-signature`.
    #[must_use]
    pub fn sign(&self, id: &str, timestamp_s: i64, body: &[u8]) -> String {
        let head = format!("{id}.{timestamp_s}.");
        let signed = self.0.iter().map(|key| {
            let mac = key.clone().chain_update(&head).chain_update(body).finalize();
            format!("v1,{}", STANDARD.encode(mac.into_bytes()))
        });
        signed.collect::<Vec<_>>().join(" ")
    }
}

fn key(secret: &str) -> Option<Hmac<Sha256>> {
    let bytes = SECRET_BASE64.decode(secret.trim().strip_prefix(SECRET_PREFIX)?).ok()?;
    let is_sound = (SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&bytes.len());
    is_sound.then(|| Hmac::new_from_slice(&bytes).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(secrets: &[&str]) -> Result<Keys, String> {
        Keys::parse(&secrets.iter().map(|&secret| secret.into()).collect::<Vec<SecretString>>())
    }

    /// The example of the standard's own libraries.
    #[test]
    fn the_standards_vector_is_signed_the_same() {
        let keys = keys(&["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]).unwrap();
        let signature = keys.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn while_secrets_change_both_sign() {
        let (old, new) = ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX");
        let listed = Keys::parse(&secrets(&format!("{new}\n {old}\n").into())).unwrap();
        let sign = |secrets: &[&str]| keys(secrets).unwrap().sign("d1", 1, b"{}");
        assert_eq!(sign(&[new, old]), format!("{} {}", sign(&[new]), sign(&[old])));
        assert_eq!(listed.sign("d1", 1, b"{}"), sign(&[new, old]));
        assert_ne!(sign(&[new]), sign(&[old]));
        let (padded, bare) =
            ("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGA==", "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGA");
        assert_eq!(sign(&[padded]), sign(&[bare]));
    }

    #[test]
    fn bad_secrets_are_counted_and_not_repeated() {
        let good = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        for bad in
            ["canary", "whsec_", "whsec_canary!", "whsec_Y2FuYXJ5", &format!("whsec_{}", "AAAA".repeat(22))]
        {
            let why = keys(&[good, bad]).err().unwrap();
            assert!(why.contains("secret 2"), "{why}");
            assert!(!why.contains("canary") && !why.contains("Y2FuYXJ5"), "{why}");
        }
        assert!(keys(&[]).is_err());
        assert!(keys(&[good; SECRETS_MAX + 1]).is_err());
    }
}
