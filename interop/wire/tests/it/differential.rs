//! Our parsers and the published ones accept and refuse the same things.
//!
//! Each fixture that a client sends is varied in thousands of ways; the verdicts must agree. Where ours differ on purpose,
//! the difference is listed.

use serde_json::Value;
use wire::referee::{self, Measure, Sender};

use crate::ours::{self, Rewritten};
use crate::variants;

#[test]
fn client_frames_are_accepted_and_refused_alike() {
    let (mut compared, mut differences) = (0, Vec::new());
    for (name, text) in ours::served().iter().filter(|(name, _)| ours::is_frame(name)) {
        if ours::client_frame(text).is_err() {
            continue;
        }
        compared += variants::each(&value(text), &mut |variant, place| {
            let theirs = referee::frame(variant, Sender::Client, Measure::Accepted);
            let ours = ours::client_frame(&variant.to_string());
            differences.extend(difference(name, place, variant, &ours, &theirs));
        });
    }
    assert!(compared > 5_000, "only {compared} variants");
    assert_eq!(differences, Vec::<String>::new());
}

#[test]
fn requests_are_accepted_and_refused_alike() {
    let (mut compared, mut differences) = (0, Vec::new());
    for (name, text) in ours::served().iter().filter(|(name, _)| ours::is_request(name)) {
        compared += variants::each(&value(text), &mut |variant, place| {
            let theirs = referee::body(variant, Measure::Accepted);
            let ours = ours::body(name, &variant.to_string());
            differences.extend(difference(name, place, variant, &ours, &theirs));
        });
    }
    assert!(compared > 3_000, "only {compared} variants");
    assert_eq!(differences, Vec::<String>::new());
}

fn difference(
    name: &str,
    place: &str,
    variant: &Value,
    ours: &Rewritten,
    theirs: &anyhow::Result<()>,
) -> Option<String> {
    let differs = ours.is_ok() != theirs.is_ok() && !is_meant(place, variant);
    differs.then(|| format!("{name} {place}: ours {ours:?}, theirs {theirs:?}: {variant}"))
}

/// Differences between our types and the published ones that are meant.
pub fn is_meant(place: &str, variant: &Value) -> bool {
    // The contract says that requests refuse unknown fields; the published enum of frames passes over some.
    let has_stranger = variant.to_string().contains(r#""stranger":1"#);
    // Followers of a swarm acknowledge under the key that its cursor has.
    let acknowledges_swarm = variant["t"] == "ack" && variant["channel"] == "swarm:s-1";
    // The published tagged enums take the number of a variant for its name.
    let numbered_kind = place.ends_with("/kind") && variant.pointer(place).is_some_and(Value::is_number);
    has_stranger || acknowledges_swarm || numbered_kind
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}
