//! Ids that clients choose.

const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const HEX: &[u8; 16] = b"0123456789abcdef";

/// A `client_msg_id` in the form of a ULID: 48 bits of unix milliseconds, 80 random bits, 26 characters.
///
/// Time-ordered ids keep the server's index of ids compact, which doubles its rate at a million rows; any other id works too.
pub fn message_id(unix_ms: u64, random: [u8; 10]) -> String {
    let mut bits = [0_u8; 16];
    bits[..6].copy_from_slice(&unix_ms.to_be_bytes()[2..]);
    bits[6..].copy_from_slice(&random);
    let value = u128::from_be_bytes(bits);
    (0..26).rev().map(|place| char::from(CROCKFORD[(value >> (place * 5) & 31) as usize])).collect()
}

/// A fresh random key of 32 hexadecimal characters, for an `Idempotency-Key`.
///
/// # Panics
/// If the operating system has no randomness to give, which no program survives.
pub fn fresh_key() -> String {
    let bytes = random::<16>();
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|nibble| char::from(HEX[usize::from(nibble)]))
        .collect()
}

/// A fresh boundary for [`switchboard_protocol::fence::fence`]: 32 hexadecimal characters, used once.
///
/// # Panics
/// As [`fresh_key`].
pub fn fresh_boundary() -> String {
    fresh_key()
}

/// Random bytes from the operating system.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    #[expect(
        clippy::expect_used,
        reason = "a process without randomness must not go on with predictable ids"
    )]
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use switchboard_protocol::text::validate_id;

    #[test]
    fn message_ids_are_ulids_in_time_order() {
        assert_eq!(message_id(0, [0; 10]), "0".repeat(26));
        assert_eq!(message_id(1_469_918_176_385, [0xff; 10]), "01ARYZ6S41ZZZZZZZZZZZZZZZZ");
        assert!(message_id(1, [0; 10]) > message_id(0, [0xff; 10]));
        assert!(validate_id(&message_id(u64::MAX, [0xff; 10]), "id").is_ok());
    }

    #[test]
    fn keys_are_fresh() {
        assert_eq!(fresh_key().len(), 32);
        assert_ne!(fresh_key(), fresh_key());
    }
}
