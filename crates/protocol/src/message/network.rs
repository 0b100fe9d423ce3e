//! Where messages live.

use std::borrow::Cow;

use serde::de::Error;
use serde::{Deserialize, Serialize};

use super::own;
use crate::de::{borrowed_option, deserialize_by_kind, missing};
use crate::text::{Channel, Invalid, validate_id};

/// The kinds of network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkKind {
    /// Channels of one organization.
    Org,
    /// One swarm.
    Swarm,
}

/// Where a message lives; written `{"kind":"org","channel":…}` or `{"kind":"swarm","swarm_id":…}`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Network<'a> {
    /// A channel of an organization.
    Org {
        /// `org:<org>/vault:<vault_id>/<name>`.
        channel: Cow<'a, str>,
    },
    /// A swarm.
    Swarm {
        /// Opaque id.
        swarm_id: Cow<'a, str>,
    },
}

impl Network<'_> {
    /// Which kind of network.
    pub const fn kind(&self) -> NetworkKind {
        match self {
            Self::Org { .. } => NetworkKind::Org,
            Self::Swarm { .. } => NetworkKind::Swarm,
        }
    }

    /// The key a cursor of this network has: the channel, or `swarm:<id>`.
    pub fn cursor_key(&self) -> Cow<'_, str> {
        match self {
            Self::Org { channel } => Cow::Borrowed(channel),
            Self::Swarm { swarm_id } => Cow::Owned(format!("swarm:{swarm_id}")),
        }
    }

    /// Check the name; the field is `channel` or `swarm_id`.
    pub fn validate(&self) -> Result<(), Invalid> {
        match self {
            Self::Org { channel } => Channel::parse(channel).map(drop),
            Self::Swarm { swarm_id } => validate_id(swarm_id, "swarm_id"),
        }
    }

    /// The same, independent of the text it was read from.
    pub fn into_owned(self) -> Network<'static> {
        match self {
            Self::Org { channel } => Network::Org { channel: own(channel) },
            Self::Swarm { swarm_id } => Network::Swarm { swarm_id: own(swarm_id) },
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NetworkFlat<'a> {
    kind: NetworkKind,
    #[serde(default, borrow, deserialize_with = "borrowed_option")]
    channel: Option<Cow<'a, str>>,
    #[serde(default, borrow, deserialize_with = "borrowed_option")]
    swarm_id: Option<Cow<'a, str>>,
}

impl<'a> NetworkFlat<'a> {
    fn typed<E: Error>(self) -> Result<Network<'a>, E> {
        match (self.kind, self.channel, self.swarm_id) {
            (NetworkKind::Org, Some(channel), None) => Ok(Network::Org { channel }),
            (NetworkKind::Swarm, None, Some(swarm_id)) => Ok(Network::Swarm { swarm_id }),
            (NetworkKind::Org, None, _) => Err(missing("channel")),
            (NetworkKind::Swarm, _, None) => Err(missing("swarm_id")),
            (NetworkKind::Org, _, Some(_)) => Err(E::unknown_field("swarm_id", &["kind", "channel"])),
            (NetworkKind::Swarm, Some(_), _) => Err(E::unknown_field("channel", &["kind", "swarm_id"])),
        }
    }
}

deserialize_by_kind!(Network, NetworkFlat, "a network with kind org or swarm");
