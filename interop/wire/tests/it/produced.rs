//! What our types write, the published types read, check and write the same.
//!
//! Fixtures are varied in thousands of ways; whatever our types still accept of it, they write, and the referee judges that.
//! Optional fields that no fixture has are written by hand.

use serde_json::Value;
use switchboard_protocol::enroll::DeviceCode;
use switchboard_protocol::error::{Body, UploadKind};
use switchboard_protocol::{Code, Detail};
use wire::referee::{self, Measure, Sender};

use crate::differential::is_meant;
use crate::ours::{self, Rewritten};
use crate::variants;

#[test]
fn bodies_pass() {
    let mut refused = Vec::new();
    let mut written = 0;
    for (name, text) in ours::served().iter().filter(|(name, _)| !ours::is_frame(name)) {
        variants::each(&value(text), &mut |variant, place| {
            let Ok(text) = ours::body(name, &variant.to_string()) else { return };
            written += 1;
            if let Err(error) = referee::body(&value(&text), Measure::Exact) {
                refused.push(format!("{name} {place}: {error:#}: {text}"));
            }
        });
    }
    assert!(written > 2_000, "only {written} bodies");
    assert_eq!(refused, Vec::<String>::new());
}

#[test]
fn frames_of_the_hub_pass() {
    assert_eq!(refused_frames(Sender::Hub, ours::hub_frame), Vec::<String>::new());
}

#[test]
fn frames_of_a_client_pass() {
    assert_eq!(refused_frames(Sender::Client, ours::client_frame), Vec::<String>::new());
}

fn refused_frames(sender: Sender, rewrite: fn(&str) -> Rewritten) -> Vec<String> {
    let mut refused = Vec::new();
    let mut written = 0;
    for (name, text) in ours::served().iter().filter(|(name, _)| ours::is_frame(name)) {
        variants::each(&value(text), &mut |variant, place| {
            let Ok(text) = rewrite(&variant.to_string()) else { return };
            written += 1;
            let verdict = referee::frame(&value(&text), sender, Measure::Exact);
            if let Err(error) =
                verdict.or_else(|error| if is_meant(place, variant) { Ok(()) } else { Err(error) })
            {
                refused.push(format!("{name} {place}: {error:#}: {text}"));
            }
        });
    }
    assert!(written > 1_000, "only {written} frames");
    refused
}

#[test]
fn an_error_with_every_field_passes() {
    let detail = Detail::new(Code::QuotaExceeded, "Used up.")
        .sb("SB0101")
        .retry_after_s(30_u64)
        .limit(25_u64)
        .used(25_u64)
        .resource("private_vaults")
        .reset_at("2026-11-01T00:00:00Z")
        .member("sharing.consent_required_for")
        .level("org")
        .action("trust_boundary")
        .expected(3_u64)
        .actual(4_u64)
        .min_engine("3.12.0")
        .kind(UploadKind::Receipts)
        .reason("id_reused")
        .field("type")
        .number(7_u64)
        .check("role")
        .role("reviewer")
        .agent_role("author");
    let body = serde_json::to_value(Body { error: detail }).expect("JSON");
    referee::body(&body, Measure::Exact).expect("an error");
}

#[test]
fn every_error_code_passes() {
    for (name, text) in ours::served().iter().filter(|(name, _)| name.starts_with("error.")) {
        let published: lean_ctx_protocol::hive::HiveErrorBody = serde_json::from_str(text).expect("an error");
        let ours: Body = serde_json::from_str(text).expect("an error");
        assert_eq!(ours.error.http_status(), published.error.code.http_status(), "{name}");
    }
}

#[test]
fn a_device_code_with_features_passes() {
    let fixtures = wire::fixtures::all().expect("fixtures");
    let mut code: DeviceCode =
        serde_json::from_str(&fixtures["device_code.response"]).expect("a device code");
    code.features = vec!["device_setup".to_owned()];
    referee::body(&serde_json::to_value(code).expect("JSON"), Measure::Exact).expect("a device code");
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}
