//! The event log: what was admitted and what was refused, hash-chained (ADR 0006).
//!
//! One record per commit covers all of that commit's entries with one digest, so the chain costs one row per commit and
//! not one per message. An entry of an appended event carries the digest of the whole stored row: a flipped bit in a
//! message is found and named. Bodies never stand in the log.

use crate::digest::{Digest, framed};
use crate::event::{EventKind, StoredEvent};
use crate::ids::{EventId, InstanceNo};
use crate::time::WallMs;

/// Digest before the first record.
pub const GENESIS: Digest = [0; 32];
/// Domain of a checkpoint's signature.
pub const CHECKPOINT_DOMAIN: &str = "switchboard.checkpoint.v1\n";

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// An event was appended to a stream.
    Event {
        /// Where it stands.
        id: EventId,
        /// What it is.
        kind: EventKind,
        /// Who sent it; `None` in a swarm, whose log names no instance.
        by: Option<InstanceNo>,
        /// [`event_digest`] of the stored row.
        digest: Digest,
    },
    /// Another command took effect.
    Admitted {
        /// What was done, `room.verb`.
        verb: String,
        /// Who did it.
        actor: String,
        /// To what.
        subject: String,
    },
    /// A command was refused and changed nothing.
    Refused {
        /// What was tried.
        verb: String,
        /// Who tried.
        actor: String,
        /// Error code and, behind a slash, field or reason.
        why: String,
        /// How often since the last record.
        count: u32,
    },
}

impl Entry {
    /// An [`Entry::Admitted`].
    pub fn admitted(verb: &str, actor: impl Into<String>, subject: impl Into<String>) -> Self {
        Self::Admitted { verb: verb.into(), actor: actor.into(), subject: subject.into() }
    }

    /// Appends the stored form: a tag byte, then fixed fields or length-framed text. Tags are never reused.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Event { id, kind, by, digest } => {
                out.push(1);
                out.extend(id.row().to_be_bytes());
                out.push(*kind as u8);
                out.extend(by.map_or(0, |by| by.0).to_be_bytes());
                out.extend(digest);
            }
            Self::Admitted { verb, actor, subject } => {
                out.push(2);
                for text in [verb, actor, subject] {
                    put_text(out, text);
                }
            }
            Self::Refused { verb, actor, why, count } => {
                out.push(3);
                for text in [verb, actor, why] {
                    put_text(out, text);
                }
                out.extend(count.to_be_bytes());
            }
        }
    }

    /// Decodes a record's entries; `None` when the bytes are not what [`Entry::encode`] writes.
    #[must_use]
    pub fn decode_all(bytes: &[u8]) -> Option<Vec<Self>> {
        let mut rest = Reader(bytes);
        let mut entries = Vec::new();
        while !rest.0.is_empty() {
            entries.push(decode_one(&mut rest)?);
        }
        Some(entries)
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    // Longer texts do not occur (ids and codes); cutting keeps the frame honest whatever comes.
    let bytes = &text.as_bytes()[..text.len().min(usize::from(u16::MAX))];
    out.extend(u16::try_from(bytes.len()).unwrap_or(u16::MAX).to_be_bytes());
    out.extend(bytes);
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(len)?;
        self.0 = tail;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn text(&mut self) -> Option<String> {
        let len = usize::from(u16::from_be_bytes(self.array()?));
        Some(String::from_utf8_lossy(self.take(len)?).into_owned())
    }
}

fn decode_one(from: &mut Reader<'_>) -> Option<Entry> {
    Some(match from.array::<1>()?[0] {
        1 => Entry::Event {
            id: EventId::from_row(i64::from_be_bytes(from.array()?)),
            kind: EventKind::from_number(from.array::<1>()?[0])?,
            by: Some(u32::from_be_bytes(from.array()?)).filter(|by| *by != 0).map(InstanceNo),
            digest: from.array()?,
        },
        2 => Entry::Admitted { verb: from.text()?, actor: from.text()?, subject: from.text()? },
        3 => Entry::Refused {
            verb: from.text()?,
            actor: from.text()?,
            why: from.text()?,
            count: u32::from_be_bytes(from.array()?),
        },
        _ => return None,
    })
}

/// One commit's record in the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Number of the commit, from 1, gap-free.
    pub commit: u64,
    /// When.
    pub at_ms: WallMs,
    /// Encoded entries.
    pub entries: Vec<u8>,
    /// Digest of this record, which covers the one before.
    pub digest: Digest,
}

/// The digest of a record that follows `previous`.
#[must_use]
pub fn record_digest(previous: &Digest, commit: u64, at_ms: WallMs, entries: &[u8]) -> Digest {
    framed("switchboard.log.v1", &[previous, &commit.to_be_bytes(), &at_ms.to_be_bytes(), entries])
}

/// The digest of everything a store keeps of an event.
#[must_use]
pub fn event_digest(event: &StoredEvent) -> Digest {
    let to = event.to.as_ref();
    framed(
        "switchboard.event.v1",
        &[
            &event.id.row().to_be_bytes(),
            &[event.kind as u8],
            &event.at_ms.to_be_bytes(),
            &event.expires_at_ms.to_be_bytes(),
            &event.thread.row().to_be_bytes(),
            &event.reply_to.map_or(0, EventId::row).to_be_bytes(),
            &event.from_instance.0.to_be_bytes(),
            event.from_agent.as_bytes(),
            &to.map_or(0, |to| to.instance.0).to_be_bytes(),
            to.map_or(b"", |to| to.agent.as_bytes()),
            &event.data,
        ],
    )
}

/// A signed statement that the chain stood at `digest` after `commit`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The commit it speaks of.
    pub commit: u64,
    /// The chain's digest there.
    pub digest: Digest,
    /// Ed25519 signature of the hub's signing key over [`checkpoint_input`].
    pub signature: [u8; 64],
}

/// What a checkpoint's signature covers.
#[must_use]
pub fn checkpoint_input(commit: u64, digest: &Digest) -> Vec<u8> {
    let mut input = CHECKPOINT_DOMAIN.as_bytes().to_vec();
    input.extend(commit.to_be_bytes());
    input.extend(digest);
    input
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::StreamId;

    #[test]
    fn entries_round_trip_and_foreign_bytes_are_refused() {
        let entries = vec![
            Entry::Event {
                id: EventId { stream: StreamId(2), seq: 5 },
                kind: EventKind::Answer,
                by: Some(InstanceNo(9)),
                digest: [3; 32],
            },
            Entry::admitted("token.create", "inst_a", "inst_b"),
            Entry::Refused {
                verb: "bus.message".into(),
                actor: "inst_a".into(),
                why: "not_found/to".into(),
                count: 2,
            },
        ];
        let mut bytes = Vec::new();
        entries.iter().for_each(|entry| entry.encode(&mut bytes));
        assert_eq!(Entry::decode_all(&bytes), Some(entries));
        assert_eq!(Entry::decode_all(&bytes[..bytes.len() - 1]), None);
        assert_eq!(Entry::decode_all(&[9]), None);
    }

    #[test]
    fn a_record_covers_all_before_it() {
        let first = record_digest(&GENESIS, 1, 10, b"a");
        assert_ne!(record_digest(&first, 2, 10, b"b"), record_digest(&GENESIS, 2, 10, b"b"));
    }
}
