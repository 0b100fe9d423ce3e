//! Message ids (`gid`): the row address under a cipher (ADR 0002).
//!
//! A gid is `msg_` and 26 characters of base32 over one AES-128 block that holds stream and sequence. It is opaque (its
//! order says nothing, as the seed asks), nobody can make one up, and finding the row needs no index. The key is made
//! once per hub and stays in its store: it moves with backups.

use crate::ids::{EventId, SEQ_MAX, STREAM_ID_MAX, StreamId, base32_decode, base32_into};
use aes::Aes128;
use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};

const PREFIX: &str = "msg_";
/// Characters of a gid.
pub const GID_CHARS: usize = 30;

/// Turns event ids into gids and back.
#[derive(Clone)]
pub struct GidCipher(Aes128);

impl std::fmt::Debug for GidCipher {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("GidCipher")
    }
}

impl GidCipher {
    /// A cipher under the hub's key.
    #[must_use]
    pub fn new(key: &[u8; 16]) -> Self {
        Self(Aes128::new(key.into()))
    }

    /// The gid of `id`.
    #[must_use]
    pub fn gid(&self, id: EventId) -> String {
        let mut text = String::with_capacity(GID_CHARS);
        self.write(id, &mut text);
        text
    }

    /// Appends the gid of `id` to `text`.
    pub fn write(&self, id: EventId, text: &mut String) {
        let mut block = [0; 16];
        block[..8].copy_from_slice(&u64::from(id.stream.0).to_be_bytes());
        block[8..].copy_from_slice(&id.seq.to_be_bytes());
        let mut sealed = block.into();
        self.0.encrypt_block(&mut sealed);
        text.push_str(PREFIX);
        base32_into(&sealed, text);
    }

    /// The event that `gid` names, or `None` when this hub never issued it.
    #[must_use]
    pub fn event(&self, gid: &str) -> Option<EventId> {
        let mut block = base32_decode::<16>(gid.strip_prefix(PREFIX)?)?.into();
        self.0.decrypt_block(&mut block);
        let stream = u64::from_be_bytes(block[..8].try_into().ok()?);
        let seq = u64::from_be_bytes(block[8..].try_into().ok()?);
        let known = stream <= u64::from(STREAM_ID_MAX) && (1..=SEQ_MAX).contains(&seq);
        known.then(|| EventId { stream: StreamId(u32::try_from(stream).unwrap_or(0)), seq })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gid_names_one_event_of_one_hub() {
        let ours = GidCipher::new(&[7; 16]);
        let theirs = GidCipher::new(&[8; 16]);
        let id = EventId { stream: StreamId(3), seq: 41 };
        let gid = ours.gid(id);
        assert_eq!(gid.len(), GID_CHARS);
        assert_eq!(ours.event(&gid), Some(id));
        assert_eq!(theirs.event(&gid), None);
        assert_eq!(ours.event("msg_01jbq1"), None);
        assert_eq!(ours.event(""), None);
    }
}
