//! Identifiers. Public ids are opaque strings chosen by the hub; numbers are the store's own row keys and never leave it.

use std::fmt;

/// The store's number of an instance; never shown outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct InstanceNo(pub u32);

/// The store's number of a person; never shown outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct PersonNo(pub u32);

/// The store's number of a stream (one channel or one swarm); fits in 23 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct StreamId(pub u32);

/// Highest stream number: row ids are `stream << 40 | seq` in a signed 64-bit integer.
pub const STREAM_ID_MAX: u32 = (1 << 23) - 1;
/// Highest sequence of one stream.
pub const SEQ_MAX: u64 = (1 << 40) - 1;

/// Where an event stands: its stream and its position there. Unique and never reused within one store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId {
    /// The stream.
    pub stream: StreamId,
    /// The position, from 1, gap-free.
    pub seq: u64,
}

impl EventId {
    /// The row key: `stream << 40 | seq`, so that one stream's rows lie side by side in order.
    #[must_use]
    pub fn row(self) -> i64 {
        i64::from(self.stream.0) << 40 | i64::try_from(self.seq & SEQ_MAX).unwrap_or(0)
    }

    /// The inverse of [`EventId::row`].
    #[must_use]
    pub fn from_row(row: i64) -> Self {
        let bits = row.cast_unsigned();
        Self { stream: StreamId(u32::try_from(bits >> 40).unwrap_or(STREAM_ID_MAX)), seq: bits & SEQ_MAX }
    }
}

/// A vault: 16 random bytes, shown as 32 lowercase hex characters (contract section 1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct VaultId(pub [u8; 16]);

impl VaultId {
    /// Parses 32 lowercase hex characters; anything else is `None`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        if bytes.len() != 32 {
            return None;
        }
        let mut id = [0; 16];
        for (byte, pair) in id.iter_mut().zip(bytes.chunks_exact(2)) {
            *byte = hex_digit(pair[0])? << 4 | hex_digit(pair[1])?;
        }
        Some(Self(id))
    }
}

fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

impl fmt::Display for VaultId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl fmt::Debug for VaultId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "VaultId({self})")
    }
}

/// A fresh public id: `prefix_` and 26 characters of Crockford base32 over a time-ordered UUID.
#[must_use]
pub fn public_id(prefix: &str, uuid: uuid::Uuid) -> String {
    format!("{prefix}_{}", base32(uuid.as_bytes()))
}

/// Lowercase Crockford base32 without padding, most significant bit first.
#[must_use]
pub fn base32(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(5) * 8);
    base32_into(bytes, &mut text);
    text
}

const BASE32: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Appends [`base32`] of `bytes` to `text`.
pub fn base32_into(bytes: &[u8], text: &mut String) {
    let (mut buffer, mut bits) = (0u32, 0u32);
    for byte in bytes {
        buffer = buffer << 8 | u32::from(*byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            text.push(char::from(BASE32[(buffer >> bits & 31) as usize]));
        }
    }
    if bits > 0 {
        text.push(char::from(BASE32[(buffer << (5 - bits) & 31) as usize]));
    }
}

/// The inverse of [`base32`] for exactly `N` bytes; other lengths, characters or stray low bits are `None`.
#[must_use]
pub fn base32_decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != (N * 8).div_ceil(5) {
        return None;
    }
    let mut out = [0; N];
    let (mut buffer, mut bits, mut at) = (0u32, 0u32, 0);
    for byte in text.bytes() {
        let digit = BASE32.iter().position(|known| *known == byte)?;
        buffer = (buffer << 5 | u32::try_from(digit).ok()?) & 0xFFFF;
        bits += 5;
        if bits >= 8 {
            bits -= 8;
            *out.get_mut(at)? = u8::try_from(buffer >> bits & 0xFF).ok()?;
            at += 1;
        }
    }
    (buffer & ((1 << bits) - 1) == 0).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_stream_and_sequence() {
        let id = EventId { stream: StreamId(STREAM_ID_MAX), seq: SEQ_MAX };
        assert!(id.row() > 0);
        assert_eq!(EventId::from_row(id.row()), id);
        let next = EventId { stream: StreamId(7), seq: 9 };
        assert_eq!(EventId::from_row(next.row()), next);
    }

    #[test]
    fn base32_round_trips_and_refuses_other_spellings() {
        let bytes = [0xFF, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 0x80];
        let text = base32(&bytes);
        assert_eq!(text.len(), 26);
        assert_eq!(base32_decode::<16>(&text), Some(bytes));
        assert_eq!(base32_decode::<16>(&text.to_uppercase()), None);
        assert_eq!(base32_decode::<16>(&text[1..]), None);
        let mut stray = text.clone();
        stray.pop();
        stray.push('z');
        assert_eq!(base32_decode::<16>(&stray), None, "unused bits must be zero: one id has one spelling");
    }

    #[test]
    fn vault_ids_are_lowercase_hex() {
        let text = "3f6c1e9a0b7d4c2e8f5a1b6c9d0e7f42";
        assert_eq!(VaultId::parse(text).unwrap().to_string(), text);
        assert!(VaultId::parse(&text.to_uppercase()).is_none());
        assert!(VaultId::parse(&text[1..]).is_none());
    }
}
