//! The benches: their documents, and that they leave nothing behind.

use super::{program, run, temp};
use serde_json::Value;

fn bench(arguments: &[&str]) -> Value {
    let dir = temp();
    let ended = run(program(&["bench"]).args(arguments).arg("--json").env("TMPDIR", dir.path()));
    let document = ended.json();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing stays behind");
    document
}

#[test]
fn senders_alone() {
    let report = bench(&["bus", "--senders", "2", "--in-flight", "8", "--seconds", "0.5"]);
    for name in [
        "published_per_s",
        "delivered_per_s",
        "lost",
        "duplicated",
        "misordered",
        "fsync_per_s",
        "loopback_rtt_us",
    ] {
        assert!(report[name].is_number(), "{name}: {report}");
    }
    for name in ["ack_ms", "deliver_ms"] {
        assert!(["p50", "p99", "p999"].iter().all(|quantile| report[name][quantile].is_number()), "{report}");
    }
    assert!(
        report["published_per_s"].as_f64().unwrap() > 0.0 && report["ack_ms"]["p50"].as_f64().unwrap() > 0.0
    );
    if cfg!(target_os = "linux") {
        assert!(
            report["load_cpu_us_per_msg"].is_number()
                && report["hub_cpu_us_per_msg"].is_number()
                && report["hub_rss_mb"].as_f64().unwrap() > 1.0,
            "{report}"
        );
    }
}

#[test]
fn receivers_get_everything_once_and_in_order() {
    let report =
        bench(&["bus", "--senders", "2", "--in-flight", "16", "--receivers", "3", "--seconds", "0.5"]);
    assert!(report["delivered_per_s"].as_f64().unwrap() > 0.0, "{report}");
    for name in ["lost", "duplicated", "misordered"] {
        assert_eq!(report[name], 0, "{report}");
    }
}

#[test]
fn idle_sockets_and_pages() {
    let idle = bench(&["bus", "--idle", "10"]);
    assert_eq!(idle["sockets"], 10);
    let pages = bench(&["page", "--messages", "300", "--pages", "6", "--size", "50"]);
    assert!(
        pages["page_ms"]["p50"].as_f64().unwrap() > 0.0 && pages["page_bytes"].as_u64().unwrap() > 1000,
        "{pages}"
    );
}

#[test]
fn messages_to_people_are_accepted_delivered_and_mailed() {
    let few = ["outbound", "--samples", "3", "--seconds", "0.1", "--in-flight", "4", "--targets", "4"];
    let report = bench(&few);
    assert!(report["accepted"].as_u64().unwrap() > 0, "{report}");
    assert_eq!(report["accepted"], report["delivered"], "{report}");
    for name in ["decision_us", "deliver_ms", "deliver_beside_failing_ms", "mail_from_ms"] {
        assert!(report[name]["p50"].is_number() && report[name]["p99"].is_number(), "{name}: {report}");
    }
}

#[test]
fn loads_that_cannot_be_are_refused() {
    for arguments in [
        &["bus", "--senders", "0"][..],
        &["bus", "--seconds", "0"],
        &["bus", "--body-bytes", "5"],
        &["page", "--size", "201"],
        &["outbound", "--samples", "0"],
    ] {
        run(program(&["bench"]).args(arguments)).failed(2, "SB0201");
    }
}
