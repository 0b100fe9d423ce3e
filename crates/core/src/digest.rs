//! Hashes: SHA-256 (hardware-supported on current machines, measured faster than BLAKE3 at message sizes).

use sha2::{Digest as _, Sha256};

/// A SHA-256 digest.
pub type Digest = [u8; 32];

/// SHA-256 of `bytes`.
#[must_use]
pub fn sha256(bytes: &[u8]) -> Digest {
    Sha256::digest(bytes).into()
}

/// SHA-256 over length-framed parts: no two lists of parts have the same input bytes.
#[must_use]
pub fn framed(domain: &str, parts: &[&[u8]]) -> Digest {
    let mut hasher = Sha256::new();
    for part in std::iter::once(domain.as_bytes()).chain(parts.iter().copied()) {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}

/// HMAC-SHA-256 (RFC 2104) of framed `parts` under a 32-byte key.
#[must_use]
pub fn hmac(key: &[u8; 32], parts: &[&[u8]]) -> Digest {
    let pad = |with: u8| {
        let mut block = [with; 64];
        block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        block
    };
    let mut inner = Sha256::new();
    inner.update(pad(0x36));
    for part in parts {
        inner.update((part.len() as u64).to_be_bytes());
        inner.update(part);
    }
    let mut outer = Sha256::new();
    outer.update(pad(0x5c));
    outer.update(inner.finalize());
    outer.finalize().into()
}

/// Lowercase hex.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn framing_tells_apart_what_joining_would_not() {
        assert_ne!(framed("d", &[b"ab", b"c"]), framed("d", &[b"a", b"bc"]));
        assert_ne!(hmac(&[1; 32], &[b"ab", b"c"]), hmac(&[1; 32], &[b"a", b"bc"]));
    }
}
