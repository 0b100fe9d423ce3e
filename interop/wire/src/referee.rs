//! What the published types say of a frame or a body.
//!
//! A value passes when the published type for it accepts it, its own check passes, and writing the typed value again gives
//! the same JSON: then nothing was lost, renamed or mistaken for something else. Where the protocol lets answers grow, the
//! extensions of our own are named below, and anything else the published type does not know fails.

use anyhow::{Context, Result, bail};
use lean_ctx_protocol::ValidationError;
use lean_ctx_protocol::hive::HiveErrorBody;
use lean_ctx_protocol::hive::bus::{
    BUS_EVENTS_SCHEMA, BUS_LEASE_RENEW_REQUEST_SCHEMA, BUS_LEASE_REQUEST_SCHEMA, BUS_LEASE_SCHEMA,
    BUS_POLL_SCHEMA, BusEventsV1, BusFrameV1, BusLeaseRenewRequestV1, BusLeaseRequestV1, BusLeaseV1,
    BusPollV1,
};
use lean_ctx_protocol::hive::enroll::{
    ACCESS_TOKEN_SCHEMA, AccessTokenV1, DEVICE_CODE_REQUEST_SCHEMA, DEVICE_CODE_SCHEMA,
    DEVICE_TOKEN_REQUEST_SCHEMA, DeviceCodeRequestV1, DeviceCodeV1, DeviceTokenRequestV1, ENROLLMENT_SCHEMA,
    EnrollmentV1, InstanceTokenRequestV1, TOKEN_REQUEST_SCHEMA,
};
use lean_ctx_protocol::hive::lease::{
    HiveKeySetV1, HiveLeaseEnvelopeV1, HiveLeaseV1, KEYSET_SCHEMA, LEASE_ENVELOPE_SCHEMA, LEASE_SCHEMA,
};
use lean_ctx_protocol::hive::messages::{MESSAGE_LIST_SCHEMA, MessageListV1};
use lean_ctx_protocol::hive::profiles::{
    AGENT_PROFILE_LIST_SCHEMA, AgentProfileListV1, HANDLE_SCHEMA, HandleV1,
};
use lean_ctx_protocol::hive::vault::{
    ORG_SALT_SCHEMA, OrgSaltV1, VAULT_RESOLVE_REQUEST_SCHEMA, VAULT_SCHEMA, VaultResolveRequestV1, VaultV1,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Frame types of our own that a client which does not know them passes over.
const OUR_FRAMES: [&str; 1] = ["cursor"];

/// Fields of our own, by the frame type or schema that carries them, or `error`. The published type must pass over them
/// where they stand; then they are taken out and the rest is compared.
const OUR_FIELDS: [(&str, &[&str]); 4] = [
    ("error", &["sb"]),
    ("hello", &["epoch"]),
    (BUS_POLL_SCHEMA, &["epoch"]),
    (BUS_EVENTS_SCHEMA, &["epoch", "complete_up_to", "first_available_seq"]),
];

type Check<T> = fn(&T) -> Result<(), ValidationError>;

/// Who put a frame on the wire; the published check of frames covers those a client sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// An engine or another client.
    Client,
    /// The hub.
    Hub,
}

/// How close a value must come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// The published type and its check accept it.
    Accepted,
    /// Also, the typed value is written the same again: the measure for what we send.
    Exact,
}

/// Judges one frame of the bus socket.
pub fn frame(value: &Value, sender: Sender, measure: Measure) -> Result<()> {
    if is_extension(value) {
        return Ok(());
    }
    let typed: BusFrameV1 = read(value, measure, |_| Ok(()))?;
    match &typed {
        BusFrameV1::Unknown => bail!("the published protocol knows no such frame"),
        _ if sender == Sender::Client => typed.validate().context(REFUSED),
        BusFrameV1::MessageDeliver(delivery) => delivery.validate().context(REFUSED),
        _ => Ok(()),
    }
}

/// Whether a frame is one of our own extensions.
pub fn is_extension(value: &Value) -> bool {
    value["t"].as_str().is_some_and(|tag| OUR_FRAMES.contains(&tag))
}

/// Judges one HTTP body, request or response, by the schema it carries; a body without one must be an error.
pub fn body(value: &Value, measure: Measure) -> Result<()> {
    let Some(schema) = value["schema"].as_str() else {
        return check::<HiveErrorBody>(value, measure, |_| Ok(()));
    };
    match schema {
        ACCESS_TOKEN_SCHEMA => check(value, measure, AccessTokenV1::validate),
        AGENT_PROFILE_LIST_SCHEMA => check(value, measure, AgentProfileListV1::validate),
        BUS_EVENTS_SCHEMA => check(value, measure, BusEventsV1::validate),
        BUS_LEASE_RENEW_REQUEST_SCHEMA => check(value, measure, BusLeaseRenewRequestV1::validate),
        BUS_LEASE_REQUEST_SCHEMA => check(value, measure, BusLeaseRequestV1::validate),
        BUS_LEASE_SCHEMA => check(value, measure, BusLeaseV1::validate),
        BUS_POLL_SCHEMA => poll(value, measure),
        DEVICE_CODE_REQUEST_SCHEMA => check(value, measure, DeviceCodeRequestV1::validate),
        DEVICE_CODE_SCHEMA => check(value, measure, DeviceCodeV1::validate),
        DEVICE_TOKEN_REQUEST_SCHEMA => check(value, measure, DeviceTokenRequestV1::validate),
        ENROLLMENT_SCHEMA => enrollment(value, measure),
        HANDLE_SCHEMA => check(value, measure, HandleV1::validate),
        KEYSET_SCHEMA => check(value, measure, HiveKeySetV1::validate),
        LEASE_ENVELOPE_SCHEMA => envelope(value, measure),
        LEASE_SCHEMA => check(value, measure, HiveLeaseV1::validate),
        MESSAGE_LIST_SCHEMA => check(value, measure, MessageListV1::validate),
        ORG_SALT_SCHEMA => check(value, measure, OrgSaltV1::validate),
        TOKEN_REQUEST_SCHEMA => check(value, measure, InstanceTokenRequestV1::validate),
        VAULT_RESOLVE_REQUEST_SCHEMA => check(value, measure, VaultResolveRequestV1::validate),
        VAULT_SCHEMA => check(value, measure, VaultV1::validate),
        other => bail!("no published type is known here for schema {other:?}"),
    }
}

fn poll(value: &Value, measure: Measure) -> Result<()> {
    let frames = value["frames"].as_array().context("a poll answer has frames")?;
    // Extensions are left out before the whole is compared, for they would be read as unknown frames.
    let known: Vec<Value> = frames.iter().filter(|frame| !is_extension(frame)).cloned().collect();
    known.iter().try_for_each(|one| frame(one, Sender::Hub, measure))?;
    let mut trimmed = value.clone();
    trimmed["frames"] = Value::Array(known);
    check::<BusPollV1>(&trimmed, measure, |_| Ok(()))
}

fn enrollment(value: &Value, measure: Measure) -> Result<()> {
    check(value, measure, EnrollmentV1::validate)?;
    envelope(&value["lease"], measure)
}

fn envelope(value: &Value, measure: Measure) -> Result<()> {
    check(value, measure, HiveLeaseEnvelopeV1::validate_shape)?;
    check(&value["lease"], measure, HiveLeaseV1::validate)
}

fn check<T: DeserializeOwned + Serialize>(value: &Value, measure: Measure, validate: Check<T>) -> Result<()> {
    read(value, measure, validate).map(drop)
}

fn read<T: DeserializeOwned + Serialize>(value: &Value, measure: Measure, validate: Check<T>) -> Result<T> {
    let typed = T::deserialize(value).context("the published type does not accept it")?;
    validate(&typed).context(REFUSED)?;
    if measure == Measure::Exact {
        let (again, expected) = (serde_json::to_value(&typed)?, without_our_fields(value));
        if again != expected {
            bail!("the published type understood {again} instead");
        }
    }
    Ok(typed)
}

fn without_our_fields(value: &Value) -> Value {
    let mut trimmed = value.clone();
    if let Some(frame) = trimmed.as_object_mut().filter(|frame| frame.get("t").is_some_and(|t| t == "error"))
    {
        frame.remove("answers"); // beside the error, not in it
    }
    let carrier = ["t", "schema"].iter().find_map(|name| value[name].as_str()).unwrap_or("error");
    for (name, fields) in OUR_FIELDS {
        let object = match name {
            "error" => trimmed.get_mut("error").and_then(Value::as_object_mut),
            _ if name == carrier => trimmed.as_object_mut(),
            _ => None,
        };
        let Some(object) = object else { continue };
        for field in fields {
            object.remove(*field);
        }
    }
    trimmed
}

const REFUSED: &str = "the published check refuses it";

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Measure, Sender};
    use anyhow::Result;

    fn frame(value: &Value, sender: Sender) -> Result<()> {
        super::frame(value, sender, Measure::Exact)
    }

    fn body(value: &Value) -> Result<()> {
        super::body(value, Measure::Exact)
    }

    #[test]
    fn a_frame_with_a_wrong_name_or_a_lost_field_does_not_pass() {
        assert!(frame(&json!({"t": "ping", "nonce": u64::MAX}), Sender::Client).is_ok());
        assert!(frame(&json!({"t": "pingg", "nonce": 1}), Sender::Client).is_err());
        assert!(frame(&json!({"t": "ping", "nonce": 1, "extra": 2}), Sender::Client).is_err());
        assert!(frame(&json!({"t": "ack", "channel": "nowhere", "seq": 1}), Sender::Client).is_err());
        assert!(frame(&json!({"t": "published"}), Sender::Hub).is_err());
    }

    #[test]
    fn only_named_extensions_pass() {
        let hello =
            |field: &str| json!({"t": "hello", "instance_id": "i", "agents": [], "cursors": {}, field: "x"});
        assert!(frame(&hello("epoch"), Sender::Client).is_ok());
        assert!(frame(&hello("other"), Sender::Client).is_err());
        assert!(body(&json!({"error": {"code": "not_found", "message": "No.", "sb": "SB0101"}})).is_ok());
        assert!(frame(&json!({"t": "cursor", "channel": "swarm:s", "seq": 7}), Sender::Hub).is_ok());
    }

    #[test]
    fn a_body_of_no_known_schema_does_not_pass() {
        assert!(body(&json!({"error": {"code": "not_found", "message": "No."}})).is_ok());
        assert!(body(&json!({"error": {"code": "lost", "message": "No."}})).is_err());
        assert!(body(&json!({"schema": "leanctx.hive.unheard-of/v1"})).is_err());
        assert!(body(&json!({})).is_err());
    }
}
