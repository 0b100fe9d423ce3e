//! Randomness, injected so that simulations repeat.

/// A source of unguessable bytes.
pub trait Entropy: Send + Sync + 'static {
    /// Fills `bytes`.
    fn fill(&self, bytes: &mut [u8]);
}

/// The operating system's generator.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        // Without randomness no key and no token is safe: there is nothing sensible to continue with.
        getrandom::fill(bytes).expect("the operating system has no randomness to give");
    }
}

/// `N` random bytes.
pub fn bytes<const N: usize>(entropy: &dyn Entropy) -> [u8; N] {
    let mut out = [0; N];
    entropy.fill(&mut out);
    out
}

/// A time-ordered UUID (version 7) of `wall_ms` and fresh randomness.
pub fn uuid_v7(entropy: &dyn Entropy, wall_ms: crate::time::WallMs) -> uuid::Uuid {
    let random: [u8; 10] = bytes(entropy);
    uuid::Builder::from_unix_timestamp_millis(wall_ms.unsigned_abs(), &random).into_uuid()
}

/// A fresh public id with `prefix`, see [`crate::ids::public_id`].
pub fn public_id(prefix: &str, entropy: &dyn Entropy, wall_ms: crate::time::WallMs) -> String {
    crate::ids::public_id(prefix, uuid_v7(entropy, wall_ms))
}
