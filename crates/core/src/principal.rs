//! Who is acting: an authenticated instance, with its owner and its rights.

use crate::ids::{InstanceNo, PersonNo};
use crate::rights::{Right, Rights};
use crate::time::WallMs;

/// What kind of installation an instance is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InstanceKind {
    /// An engine enrolled by the device flow, with keys of its own.
    Engine,
    /// A long bearer made by `switchboard token create`.
    Token,
    /// A person's own terminal or console: its messages appear as that person.
    Person,
}

/// An authenticated caller. Made only from a credential that the store knows and that has neither expired nor been revoked.
#[derive(Debug, Clone)]
pub struct Principal {
    /// Row number.
    pub instance: InstanceNo,
    /// Public id, `inst_…`.
    pub instance_id: String,
    /// What people call it.
    pub label: String,
    /// Kind.
    pub kind: InstanceKind,
    /// The owning person.
    pub owner: PersonNo,
    /// The owner's display name.
    pub owner_name: String,
    /// What it may do.
    pub rights: Rights,
    /// When the credential ends; `None` lasts until revoked.
    pub expires_at: Option<WallMs>,
}

impl Principal {
    /// Whether it holds `right`.
    #[must_use]
    pub fn may(&self, right: Right) -> bool {
        self.rights.has(right)
    }
}
