//! What messages say: in the clear or sealed.

use std::borrow::Cow;
use std::fmt;

use serde::de::Error;
use serde::{Deserialize, Serialize};

use super::{NetworkKind, own};
use crate::de::{borrowed_option, deserialize_by_kind, missing};
use crate::limits::{
    MESSAGE_REFERENCES_MAX, MESSAGE_TEXT_CHARS_MAX, SEALED_CIPHERTEXT_CHARS_MAX, SEALED_SCHEMA_CHARS_MAX,
};
use crate::text::{
    Invalid, validate_base64_bounded, validate_base64_exact, validate_hex, validate_id, validate_text,
};

/// `content_schema` of a sealed message body, whose plaintext is a [`MessageBody`].
pub const SEALED_MESSAGE_SCHEMA: &str = "leanctx.hive.sealed-message/v1";
/// The only content cipher: XChaCha20-Poly1305.
pub const SEALED_CONTENT_ALG: &str = "xchacha20poly1305";

/// What a message points at, tagged by `kind`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Reference<'a> {
    /// A task of the channel's vault; organization networks only.
    Task {
        /// From 1.
        number: u64,
    },
    /// A knowledge fact.
    Fact {
        /// Opaque id.
        id: Cow<'a, str>,
    },
    /// A knowledge proposal.
    Proposal {
        /// From 1.
        number: u64,
    },
    /// A commit of the repository.
    Commit {
        /// 7 to 64 lowercase hexadecimal characters.
        id: Cow<'a, str>,
    },
    /// A handoff on the bus.
    Handoff {
        /// Opaque id.
        handoff_id: Cow<'a, str>,
    },
}

impl Reference<'_> {
    /// Check numbers and ids; the field is `references`.
    pub fn validate(&self) -> Result<(), Invalid> {
        let checked = match self {
            Self::Task { number } | Self::Proposal { number } if *number == 0 => {
                return Err(Invalid::new(
                    "references",
                    "the number of a referenced task or proposal must be 1 or more",
                ));
            }
            Self::Task { .. } | Self::Proposal { .. } => Ok(()),
            Self::Fact { id } => validate_id(id, "the id of a referenced fact"),
            Self::Handoff { handoff_id } => validate_id(handoff_id, "the handoff_id of a reference"),
            Self::Commit { id } => validate_hex(id, 7..=64, "the id of a referenced commit"),
        };
        checked.map_err(|error| Invalid::new("references", error.message))
    }

    /// The same, independent of the text it was read from.
    pub fn into_owned(self) -> Reference<'static> {
        match self {
            Self::Task { number } => Reference::Task { number },
            Self::Proposal { number } => Reference::Proposal { number },
            Self::Fact { id } => Reference::Fact { id: own(id) },
            Self::Commit { id } => Reference::Commit { id: own(id) },
            Self::Handoff { handoff_id } => Reference::Handoff { handoff_id: own(handoff_id) },
        }
    }
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ReferenceKind {
    Task,
    Fact,
    Proposal,
    Commit,
    Handoff,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReferenceFlat<'a> {
    kind: ReferenceKind,
    number: Option<u64>,
    #[serde(default, borrow, deserialize_with = "borrowed_option")]
    id: Option<Cow<'a, str>>,
    #[serde(default, borrow, deserialize_with = "borrowed_option")]
    handoff_id: Option<Cow<'a, str>>,
}

impl<'a> ReferenceFlat<'a> {
    fn typed<E: Error>(self) -> Result<Reference<'a>, E> {
        use ReferenceKind::{Commit, Fact, Handoff, Proposal, Task};
        match (self.kind, self.number, self.id, self.handoff_id) {
            (Task, Some(number), None, None) => Ok(Reference::Task { number }),
            (Proposal, Some(number), None, None) => Ok(Reference::Proposal { number }),
            (Fact, None, Some(id), None) => Ok(Reference::Fact { id }),
            (Commit, None, Some(id), None) => Ok(Reference::Commit { id }),
            (Handoff, None, None, Some(handoff_id)) => Ok(Reference::Handoff { handoff_id }),
            (Task | Proposal, None, ..) => Err(missing("number")),
            (Fact | Commit, _, None, _) => Err(missing("id")),
            (Handoff, .., None) => Err(missing("handoff_id")),
            _ => Err(E::custom("a reference must carry only the field of its kind")),
        }
    }
}

deserialize_by_kind!(
    Reference,
    ReferenceFlat,
    "a reference with kind task, fact, proposal, commit or handoff"
);

/// A message body in the clear; also the plaintext of a sealed one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageBody<'a> {
    /// 1 to 4000 characters; `\n`, `\t`, `\r` allowed.
    #[serde(borrow)]
    pub text: Cow<'a, str>,
    /// At most 16.
    #[serde(default, borrow, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<Reference<'a>>,
}

impl<'a> MessageBody<'a> {
    /// A body without references.
    pub fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self { text: text.into(), references: Vec::new() }
    }

    /// Check text and references; the field is `text` or `references`.
    pub fn validate(&self, network: NetworkKind) -> Result<(), Invalid> {
        validate_text(&self.text, MESSAGE_TEXT_CHARS_MAX, "text", true)?;
        if self.references.len() > MESSAGE_REFERENCES_MAX {
            return Err(Invalid::rule(
                "references",
                format_args!("must be at most {MESSAGE_REFERENCES_MAX}"),
            ));
        }
        self.references.iter().try_for_each(Reference::validate)?;
        let names_task = self.references.iter().any(|reference| matches!(reference, Reference::Task { .. }));
        if network == NetworkKind::Swarm && names_task {
            return Err(Invalid::rule("references", "must not name tasks on a swarm; leave them out"));
        }
        Ok(())
    }

    /// The same, independent of the text it was read from.
    pub fn into_owned(self) -> MessageBody<'static> {
        let references = self.references.into_iter().map(Reference::into_owned).collect();
        MessageBody { text: own(self.text), references }
    }
}

/// A body encrypted for a sealed vault; opaque to the server.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SealedBlob<'a> {
    /// Always [`SEALED_CONTENT_ALG`].
    #[serde(borrow)]
    pub alg: Cow<'a, str>,
    /// Epoch of the vault key.
    pub epoch: u32,
    /// Schema of the plaintext; part of what the cipher authenticates, so never with `|`.
    #[serde(borrow)]
    pub content_schema: Cow<'a, str>,
    /// 24 bytes, base64.
    #[serde(borrow)]
    pub nonce: Cow<'a, str>,
    /// Ciphertext and its 16-byte tag, base64.
    #[serde(borrow)]
    pub ciphertext: Cow<'a, str>,
}

impl SealedBlob<'_> {
    /// Check shape and bounds; the field is the member at fault.
    pub fn validate(&self) -> Result<(), Invalid> {
        if self.alg != SEALED_CONTENT_ALG {
            return Err(Invalid::rule("alg", format_args!("must be {SEALED_CONTENT_ALG}")));
        }
        validate_text(&self.content_schema, SEALED_SCHEMA_CHARS_MAX, "content_schema", false)?;
        if self.content_schema.contains('|') {
            return Err(Invalid::rule("content_schema", "must not contain |"));
        }
        validate_base64_exact(&self.nonce, 24, "nonce")?;
        validate_base64_bounded(&self.ciphertext, SEALED_CIPHERTEXT_CHARS_MAX, "ciphertext")
    }

    /// The same, independent of the text it was read from.
    pub fn into_owned(self) -> SealedBlob<'static> {
        SealedBlob {
            alg: own(self.alg),
            epoch: self.epoch,
            content_schema: own(self.content_schema),
            nonce: own(self.nonce),
            ciphertext: own(self.ciphertext),
        }
    }
}

impl fmt::Debug for SealedBlob<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SealedBlob")
            .field("epoch", &self.epoch)
            .field("content_schema", &self.content_schema)
            .field("ciphertext_chars", &self.ciphertext.len())
            .finish_non_exhaustive()
    }
}
