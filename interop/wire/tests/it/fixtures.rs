//! Every published fixture that concerns the bus passes through our types and comes out as it went in.

use lean_ctx_protocol::hive::lease::{HiveKeySetV1, HiveLeaseEnvelopeV1};
use serde_json::Value;
use switchboard_protocol::lease::{KeySet, LeaseEnvelope};
use switchboard_protocol::{canonical, enroll};

use crate::ours::{self, Rewritten};

#[test]
fn every_served_body_comes_out_as_it_went_in() {
    let mut seen = 0;
    for (name, text) in ours::served().iter().filter(|(name, _)| !ours::is_frame(name)) {
        assert_eq!(
            outcome(&ours::body(name, text)),
            Some(value(text)),
            "{name}: {:?}",
            ours::body(name, text)
        );
        let extended = ours::body(name, &with_stranger(text));
        assert_eq!(extended.is_err(), ours::is_request(name), "{name} with an unknown field: {extended:?}");
        seen += 1;
    }
    assert!(seen >= 60, "only {seen} bodies");
}

/// Frames a client sends refuse fields they do not know, frames the hub sends pass over them.
#[test]
fn every_served_frame_comes_out_as_it_went_in() {
    let mut seen = 0;
    for (name, text) in ours::served().iter().filter(|(name, _)| ours::is_frame(name)) {
        let (client, hub) = (ours::client_frame(text), ours::hub_frame(text));
        let either_way = ["bus.handoff_offer", "bus.handoff_ack", "bus.handoff_reject", "bus.ping"]
            .contains(&name.as_str());
        let sides = usize::from(client.is_ok()) + usize::from(hub.is_ok());
        assert_eq!(sides, if either_way { 2 } else { 1 }, "{name}: {client:?} {hub:?}");
        for side in [&client, &hub] {
            assert!(side.is_err() || outcome(side) == Some(value(text)), "{name}: {side:?}");
        }
        assert!(ours::client_frame(&with_stranger(text)).is_err(), "{name} with an unknown field");
        assert_eq!(
            outcome(&ours::hub_frame(&with_stranger(text))),
            outcome(&hub),
            "{name} with an unknown field"
        );
        seen += 1;
    }
    assert!(seen >= 26, "only {seen} frames");
}

#[test]
fn what_is_listed_as_not_served_exists() {
    let fixtures = wire::fixtures::all().expect("fixtures");
    for prefix in ours::NOT_SERVED {
        assert!(fixtures.keys().any(|name| name.starts_with(prefix)), "{prefix} matches no fixture");
    }
}

#[test]
fn canonical_forms_and_signing_inputs_are_the_published_ones() {
    let fixtures = wire::fixtures::all().expect("fixtures");
    let vectors = value(&fixtures["vectors"]);
    let canonical = canonical::canonical_json(&vectors["canonical_json"]["input"]).expect("canonical JSON");
    assert_eq!(
        Value::from(String::from_utf8(canonical).expect("UTF-8")),
        vectors["canonical_json"]["output"]
    );

    let assertion = &vectors["token_assertion"];
    let (instance, nonce) =
        (assertion["instance_id"].as_str().expect("id"), assertion["nonce"].as_str().expect("nonce"));
    let input = enroll::token_assertion_input(instance, assertion["iat"].as_i64().expect("iat"), nonce);
    assert_eq!(Value::from(String::from_utf8(input).expect("UTF-8")), assertion["input"]);
}

#[test]
fn published_signatures_verify_over_our_signing_inputs() {
    let fixtures = wire::fixtures::all().expect("fixtures");
    let keyset = value(&fixtures["keyset.response"]);
    let published = HiveKeySetV1::signing_input_raw(&keyset).expect("input");
    assert_eq!(KeySet::signing_input_raw(&keyset).expect("input"), published);
    let envelope = &fixtures["lease_envelope.response"];
    let published: HiveLeaseEnvelopeV1 = serde_json::from_str(envelope).expect("an envelope");
    let ours: LeaseEnvelope = serde_json::from_str(envelope).expect("an envelope");
    assert_eq!(ours.signing_input().expect("input"), published.signing_input().expect("input"));
}

fn outcome(rewritten: &Rewritten) -> Option<Value> {
    rewritten.as_ref().ok().map(|text| value(text))
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

fn with_stranger(text: &str) -> String {
    let mut value = value(text);
    value["stranger"] = true.into();
    value.to_string()
}
