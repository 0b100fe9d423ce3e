//! HTTP bodies of the bus: long poll, catch-up pages and leases on resources (contract sections 3 and 6).

use serde::{Deserialize, Serialize};

use crate::frame::server::ServerFrame;
use crate::limits::{BUS_EVENTS_PAGE_MAX, BUS_LEASE_MS_MAX};
use crate::message::{Network, NetworkKind};
use crate::text::{Channel, Invalid, validate_hex, validate_id, validate_schema, validate_vault_id};
use crate::time::UtcTime;

/// `schema` of a [`BusPoll`].
pub const BUS_POLL_SCHEMA: &str = "leanctx.hive.bus-poll/v1";
/// `schema` of a [`BusEvents`].
pub const BUS_EVENTS_SCHEMA: &str = "leanctx.hive.bus-events/v1";
/// `schema` of a [`BusLeaseRequest`].
pub const BUS_LEASE_REQUEST_SCHEMA: &str = "leanctx.hive.bus-lease-request/v1";
/// `schema` of a [`BusLeaseRenewRequest`].
pub const BUS_LEASE_RENEW_REQUEST_SCHEMA: &str = "leanctx.hive.bus-lease-renew-request/v1";
/// `schema` of a [`BusLease`].
pub const BUS_LEASE_SCHEMA: &str = "leanctx.hive.bus-lease/v1";

/// `schema` of a [`StreamList`] (extension).
pub const STREAM_LIST_SCHEMA: &str = "switchboard.stream-list/v1";

/// Answer of `GET /v1/streams?after=` (extension): one page of the channels and swarms that the caller may read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamList {
    /// [`STREAM_LIST_SCHEMA`].
    pub schema: String,
    /// The log the positions belong to.
    pub epoch: String,
    /// At most 500, those made first before the others.
    pub streams: Vec<StreamItem>,
    /// Pass as `after` for the next page; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_after: Option<String>,
}

/// A channel or swarm, and how far it goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamItem {
    /// As cursors name it: `org:<org>/vault:<vault_id>/<name>`, or `swarm:<id>`.
    pub id: String,
    /// `org` or `swarm`.
    pub network: NetworkKind,
    /// The channel's name in its vault, or the swarm's title.
    pub name: String,
    /// The channel's vault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vault_id: Option<String>,
    /// Name of the channel's vault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vault: Option<String>,
    /// The last `seq`; 0 when there is none yet.
    pub head: u64,
    /// The first `seq` that is still there, `head + 1` when none is.
    pub first_available: u64,
}

impl StreamItem {
    /// The stream as [`Network`], to read it with `GET /v1/messages`.
    pub fn network(&self) -> Network<'_> {
        match self.network {
            NetworkKind::Org => Network::Org { channel: self.id.as_str().into() },
            NetworkKind::Swarm => {
                Network::Swarm { swarm_id: self.id.strip_prefix("swarm:").unwrap_or(&self.id).into() }
            }
        }
    }
}

/// Answer of `GET /v1/bus/poll?cursor=&wait_ms=`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BusPoll {
    /// [`BUS_POLL_SCHEMA`].
    pub schema: String,
    /// What happened since the cursor, in order.
    pub frames: Vec<ServerFrame<'static>>,
    /// Opaque; pass back as `cursor`.
    pub cursor: String,
    /// The log the positions belong to; another one means: start over (extension).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<String>,
}

/// Answer of `GET /v1/bus/channels/{channel}/events?after_seq=&limit=`; `events` are `deliver` frames.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BusEvents {
    /// [`BUS_EVENTS_SCHEMA`].
    pub schema: String,
    /// The channel asked for.
    pub channel: String,
    /// At most 500, ascending in `seq`.
    pub events: Vec<ServerFrame<'static>>,
    /// Pass as `after_seq` for the next page; absent when caught up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_after_seq: Option<u64>,
    /// The log the positions belong to (extension).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<String>,
    /// Everything up to here that the caller may see is in this page or before it (extension).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete_up_to: Option<u64>,
    /// Earliest position still kept; a larger value than `after_seq + 1` is a gap left by retention (extension).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_available_seq: Option<u64>,
}

impl BusEvents {
    /// Check schema, page size, and that events are `deliver` frames of the channel in ascending order.
    pub fn validate(&self) -> Result<(), Invalid> {
        validate_schema(&self.schema, BUS_EVENTS_SCHEMA)?;
        Channel::parse(&self.channel)?;
        if self.events.len() > BUS_EVENTS_PAGE_MAX {
            return Err(Invalid::rule(
                "events",
                format_args!("must be at most {BUS_EVENTS_PAGE_MAX} in one page"),
            ));
        }
        let mut previous = None;
        for event in &self.events {
            let ServerFrame::Deliver(event) = event else {
                return Err(Invalid::rule("events", "must be deliver frames"));
            };
            if event.channel != self.channel || previous.is_some_and(|previous| event.seq <= previous) {
                return Err(Invalid::rule("events", "must be of the channel, ascending in seq"));
            }
            previous = Some(event.seq);
        }
        Ok(())
    }
}

/// `POST /v1/bus/leases`: ask for the sole right to one resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BusLeaseRequest {
    /// [`BUS_LEASE_REQUEST_SCHEMA`].
    pub schema: String,
    /// `file`, `task`, `branch` and so on.
    pub resource_kind: String,
    /// Lowercase hexadecimal SHA-256 of the resource's name; never the name.
    pub resource_ref: String,
    /// The vault.
    pub vault_id: String,
    /// The agent that will hold it.
    pub owner_agent_id: String,
    /// 1 to 900 000.
    pub duration_ms: u64,
}

impl BusLeaseRequest {
    /// Check every field.
    pub fn validate(&self) -> Result<(), Invalid> {
        validate_schema(&self.schema, BUS_LEASE_REQUEST_SCHEMA)?;
        validate_id(&self.resource_kind, "resource_kind")?;
        validate_hex(&self.resource_ref, 64..=64, "resource_ref")?;
        validate_vault_id(&self.vault_id)?;
        validate_id(&self.owner_agent_id, "owner_agent_id")?;
        validate_duration(self.duration_ms)
    }
}

/// `POST /v1/bus/leases/{lease_id}/renew`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BusLeaseRenewRequest {
    /// [`BUS_LEASE_RENEW_REQUEST_SCHEMA`].
    pub schema: String,
    /// As granted.
    pub fencing_token: u64,
    /// 1 to 900 000.
    pub duration_ms: u64,
}

impl BusLeaseRenewRequest {
    /// Check every field.
    pub fn validate(&self) -> Result<(), Invalid> {
        validate_schema(&self.schema, BUS_LEASE_RENEW_REQUEST_SCHEMA)?;
        validate_duration(self.duration_ms)
    }
}

fn validate_duration(duration_ms: u64) -> Result<(), Invalid> {
    if (1..=BUS_LEASE_MS_MAX).contains(&duration_ms) {
        return Ok(());
    }
    Err(Invalid::rule("duration_ms", format_args!("must be 1 to {BUS_LEASE_MS_MAX}")))
}

/// Who holds a resource that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BusLeaseHolder {
    /// The holding agent.
    pub agent_id: String,
    /// Its instance.
    pub instance_id: String,
    /// When the lease ends.
    pub expires_at: UtcTime,
}

/// Answer to a lease request: granted with id, token and expiry, or refused with the holder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BusLease {
    /// [`BUS_LEASE_SCHEMA`].
    pub schema: String,
    /// Whether the caller holds it now.
    pub granted: bool,
    /// Id of the lease; a renewal keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_id: Option<String>,
    /// Strictly increases per resource with every new grant; a renewal keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fencing_token: Option<u64>,
    /// When it ends by the service clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<UtcTime>,
    /// The present holder, when refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<BusLeaseHolder>,
    /// Service clock.
    pub server_time: UtcTime,
}

impl BusLease {
    /// Check that exactly a granted lease has id, token and expiry.
    pub fn validate(&self) -> Result<(), Invalid> {
        validate_schema(&self.schema, BUS_LEASE_SCHEMA)?;
        let complete = self.lease_id.is_some() && self.fencing_token.is_some() && self.expires_at.is_some();
        if self.granted != complete || (self.granted && self.holder.is_some()) {
            return Err(Invalid::rule(
                "granted",
                "must come with lease_id, fencing_token and expires_at, and only then",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_requests_are_checked_field_by_field() {
        let good = BusLeaseRequest {
            schema: BUS_LEASE_REQUEST_SCHEMA.into(),
            resource_kind: "file".into(),
            resource_ref: "ab".repeat(32),
            vault_id: "ab".repeat(16),
            owner_agent_id: "ada".into(),
            duration_ms: BUS_LEASE_MS_MAX,
        };
        assert_eq!(good.validate(), Ok(()));
        let field = |request: BusLeaseRequest| request.validate().unwrap_err().field;
        assert_eq!(field(BusLeaseRequest { schema: "x".into(), ..good.clone() }), "schema");
        assert_eq!(
            field(BusLeaseRequest { resource_ref: "src/main.rs".into(), ..good.clone() }),
            "resource_ref"
        );
        assert_eq!(field(BusLeaseRequest { vault_id: "x".into(), ..good.clone() }), "vault_id");
        assert_eq!(field(BusLeaseRequest { duration_ms: 0, ..good.clone() }), "duration_ms");
        assert_eq!(field(BusLeaseRequest { duration_ms: BUS_LEASE_MS_MAX + 1, ..good }), "duration_ms");
    }

    #[test]
    fn event_pages_hold_only_ascending_deliveries_of_their_channel() {
        let page = |events: &str| {
            let channel = format!("org:o/vault:{}/c", "ab".repeat(16));
            let events = events.replace("CHANNEL", &channel);
            let text =
                format!(r#"{{"schema":"{BUS_EVENTS_SCHEMA}","channel":"{channel}","events":[{events}]}}"#);
            serde_json::from_str::<BusEvents>(&text).unwrap().validate().is_ok()
        };
        let event = |seq: u64, channel: &str| {
            format!(
                r#"{{"t":"deliver","seq":{seq},"channel":"{channel}","from":"a","kind":"k","priority":"low","privacy":"team","body":1,"server_time":"2026-10-20T12:00:00Z"}}"#
            )
        };
        assert!(page("") && page(&[event(1, "CHANNEL"), event(3, "CHANNEL")].join(",")));
        assert!(!page(&[event(3, "CHANNEL"), event(3, "CHANNEL")].join(",")));
        assert!(!page(&event(1, "other")));
        assert!(!page(r#"{"t":"ping","nonce":1}"#));
    }
}
