//! What is remembered of a client's id.

use sha2::{Digest as _, Sha256};
use switchboard_core::ids::{EventId, InstanceNo};
use switchboard_core::time::{DAY_MS, WallMs};
use switchboard_core::write::{Appended, Dedup};

/// How long an id is remembered at least, whatever the retention of its message.
const KEPT_MS: WallMs = 30 * DAY_MS;

/// An instance and its id, hashed: no two of them have the same key.
pub(crate) type Key = [u8; 16];

/// Bytes of an encoded entry with its key.
pub(crate) const ENTRY_BYTES: usize = 64;

/// The moment from which on an id is forgotten that was used then, for a message that goes then.
pub(crate) fn keep_until_ms(at_ms: WallMs, expires_at_ms: WallMs) -> WallMs {
    at_ms.saturating_add(KEPT_MS).max(expires_at_ms)
}

/// The key of an instance's id.
pub(crate) fn key(instance: InstanceNo, client_id: &str) -> Key {
    // The instance's number has a fixed length: nothing runs together.
    let digest = Sha256::new().chain_update(instance.0.to_be_bytes()).chain_update(client_id).finalize();
    let mut key = Key::default();
    key.copy_from_slice(&digest[..16]);
    key
}

/// What the id stood for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Digest of the client's content.
    pub(crate) digest: [u8; 16],
    /// The event it became.
    pub(crate) event: i64,
    /// Its thread.
    pub(crate) thread: i64,
    /// When it was stored.
    pub(crate) at_ms: WallMs,
    /// When the message goes.
    pub(crate) expires_at_ms: WallMs,
}

impl Entry {
    pub(crate) fn new(dedup: &Dedup, appended: &Appended) -> Self {
        Self {
            digest: dedup.digest,
            event: appended.id.row(),
            thread: appended.thread.row(),
            at_ms: appended.at_ms,
            expires_at_ms: appended.expires_at_ms,
        }
    }

    /// The answer a repeat gets.
    pub(crate) fn repeat(&self) -> Appended {
        Appended {
            id: EventId::from_row(self.event),
            thread: EventId::from_row(self.thread),
            at_ms: self.at_ms,
            expires_at_ms: self.expires_at_ms,
            repeat: true,
        }
    }

    /// The moment from which on it is forgotten.
    pub(crate) fn keep_until_ms(&self) -> WallMs {
        keep_until_ms(self.at_ms, self.expires_at_ms)
    }

    /// Appends the stored form of an entry under its key.
    pub(crate) fn encode(&self, key: &Key, out: &mut Vec<u8>) {
        out.extend(key);
        out.extend(self.digest);
        for number in [self.event, self.thread, self.at_ms, self.expires_at_ms] {
            out.extend(number.to_be_bytes());
        }
    }

    /// The entry encoded at `index` of `data`, with its key.
    pub(crate) fn decode(data: &[u8], index: usize) -> Option<(Key, Self)> {
        let bytes = data.get(index * ENTRY_BYTES..(index + 1) * ENTRY_BYTES)?;
        let number = |at: usize| bytes[at..at + 8].try_into().map(i64::from_be_bytes).ok();
        let entry = Self {
            digest: bytes[16..32].try_into().ok()?,
            event: number(32)?,
            thread: number(40)?,
            at_ms: number(48)?,
            expires_at_ms: number(56)?,
        };
        Some((bytes[..16].try_into().ok()?, entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_round_trip() {
        let entry = Entry { digest: [3; 16], event: 1, thread: -2, at_ms: i64::MAX, expires_at_ms: i64::MIN };
        let mut data = Vec::new();
        entry.encode(&[1; 16], &mut data);
        entry.encode(&[2; 16], &mut data);
        assert_eq!(data.len(), 2 * ENTRY_BYTES);
        assert_eq!(Entry::decode(&data, 1), Some(([2; 16], entry)));
        assert_eq!(Entry::decode(&data, 2), None);
        assert_eq!(entry.keep_until_ms(), i64::MAX);
    }

    #[test]
    fn keys_tell_instances_apart() {
        assert_ne!(key(InstanceNo(1), "a"), key(InstanceNo(2), "a"));
        assert_ne!(key(InstanceNo(1), "a"), key(InstanceNo(1), "b"));
    }
}
