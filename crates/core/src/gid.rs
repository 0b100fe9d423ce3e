//! Message ids (`gid`): the row address under a cipher (ADR 0002).
//!
//! A gid is `msg_` and 26 characters of base32 over one AES-128 block that holds stream and sequence. It is opaque (its
//! order says nothing, as the seed asks), nobody can make one up, and finding the row needs no index. The key is made
//! once per hub and stays in its store: it moves with backups.

use crate::digest::framed;
use crate::ids::{EventId, SEQ_MAX, STREAM_ID_MAX, StreamId, base32_decode, base32_into};
use aes::Aes128;
use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};

/// What makes a sealed text one of this hub.
const TAG_BYTES: usize = 8;
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

    /// `plain` as what nobody else can read or make: 8 bytes that depend on all of it, then as many as it has. The same
    /// text is sealed the same way.
    #[must_use]
    pub fn seal(&self, plain: &[u8]) -> Vec<u8> {
        let tag = self.tag(plain);
        let mut sealed = tag.to_vec();
        sealed.extend(plain);
        self.mask(tag, &mut sealed[TAG_BYTES..]);
        sealed
    }

    /// What [`GidCipher::seal`] sealed, or `None` when it was not this hub.
    #[must_use]
    pub fn unseal(&self, sealed: &[u8]) -> Option<Vec<u8>> {
        let (tag, masked) = sealed.split_first_chunk::<TAG_BYTES>()?;
        let mut plain = masked.to_vec();
        self.mask(*tag, &mut plain);
        (self.tag(&plain) == *tag).then_some(plain)
    }

    fn tag(&self, plain: &[u8]) -> [u8; TAG_BYTES] {
        let digest = framed("switchboard.sealed.v1", &[plain]);
        let mut block = [0; 16];
        block.copy_from_slice(&digest[..16]);
        let block = self.apart(block, 0x80);
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(&block[..TAG_BYTES]);
        tag
    }

    fn mask(&self, tag: [u8; TAG_BYTES], bytes: &mut [u8]) {
        for (number, chunk) in (0_u64..).zip(bytes.chunks_mut(16)) {
            let mut block = [0; 16];
            block[1..9].copy_from_slice(&tag);
            block[9..].copy_from_slice(&number.to_be_bytes()[1..]);
            let stream = self.apart(block, 0xc0);
            chunk.iter_mut().zip(stream).for_each(|(byte, key)| *byte ^= key);
        }
    }

    /// A block under the cipher that is no gid's (those begin with 0), and of one `kind`.
    fn apart(&self, mut block: [u8; 16], kind: u8) -> [u8; 16] {
        block[0] = block[0] & 0x3f | kind;
        let mut sealed = block.into();
        self.0.encrypt_block(&mut sealed);
        sealed.into()
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

    #[test]
    fn what_is_sealed_is_read_by_its_hub_alone_and_whole() {
        let (ours, theirs) = (GidCipher::new(&[7; 16]), GidCipher::new(&[8; 16]));
        for length in [0, 1, 15, 16, 17, 1000] {
            let plain = vec![3; length];
            let sealed = ours.seal(&plain);
            assert_eq!(sealed.len(), length + 8);
            assert!(length < 15 || !sealed.windows(4).any(|bytes| bytes == [3; 4]));
            assert_eq!(ours.unseal(&sealed).as_deref(), Some(&plain[..]));
            assert_eq!(theirs.unseal(&sealed), None);
            let mut bent = sealed.clone();
            bent[length / 2] ^= 1;
            assert_eq!(ours.unseal(&bent), None);
            assert_eq!(ours.unseal(&sealed[..sealed.len() - 1]), None);
        }
        assert_eq!(ours.unseal(b"short"), None);
    }
}
