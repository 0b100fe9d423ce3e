//! What the doctor finds, and what it says to do.

use super::{Ended, Hub, program, run, temp};
use serde_json::Value;

fn check(ended: &Ended, name: &str) -> Value {
    let report: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}"));
    let checks = report["checks"].as_array().unwrap();
    checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("{name}: {report}")).clone()
}

#[test]
fn a_healthy_hub_passes() {
    let dir = temp();
    let hub = Hub::start(dir.path());
    let report = hub.json(&["doctor"]);
    assert_eq!(report["ok"], true, "{report}");
}

#[test]
fn without_a_hub_it_says_how_to_start_one() {
    let dir = temp();
    let ended = run(program(&["doctor", "--json", "--data-dir"]).arg(dir.path()));
    assert_eq!(ended.code, 1);
    assert_eq!(check(&ended, "data directory")["next"], "switchboard serve");
    let hub = check(&ended, "hub");
    assert!(hub["ok"] == false && hub["next"].as_str().unwrap().contains("switchboard serve"), "{hub}");
}

#[cfg(unix)]
#[test]
fn after_a_hard_end_it_names_the_last_run() {
    let dir = temp();
    let mut hub = Hub::start(dir.path());
    let pid = hub.running.child.id();
    hub.running.child.kill().unwrap();
    hub.running.child.wait().unwrap();
    let ended = run(program(&["doctor", "--json", "--data-dir"]).arg(dir.path()));
    let found = check(&ended, "hub")["found"].as_str().unwrap().to_owned();
    assert!(found.contains(&pid.to_string()), "{found}");
}

#[cfg(unix)]
#[test]
fn open_permissions_and_a_wrong_configuration_are_found() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = temp();
    let data = dir.path().join("data");
    let hub = Hub::start(&data);
    std::fs::set_permissions(data.join("admin.json"), std::fs::Permissions::from_mode(0o644)).unwrap();
    let file = dir.path().join("hub.toml");
    std::fs::write(&file, "[storage]\nurl = \"oracle\"\n").unwrap();
    let ended = hub.run(&["doctor", "--json", "--config", file.to_str().unwrap()]);
    assert_eq!(ended.code, 1);
    let permissions = check(&ended, "permissions");
    assert!(permissions["next"].as_str().unwrap().starts_with("chmod go= "), "{permissions}");
    assert_eq!(check(&ended, "configuration")["ok"], false);
    let text = hub.run(&["doctor"]);
    assert!(
        text.stdout.contains("FAILED") && text.stdout.contains("next, for permissions: chmod"),
        "{text:?}"
    );
}
