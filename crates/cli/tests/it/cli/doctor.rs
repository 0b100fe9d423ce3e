//! What the doctor finds, and what it says to do.

use super::{Ended, Hub, program, run, temp};
use serde_json::{Value, json};
use std::path::Path;

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
    let found = |name: &str| {
        report["checks"].as_array().unwrap().iter().find(|check| check["name"] == name).unwrap().clone()
    };
    assert_eq!(found("channel console")["found"], "always there");
    assert!(found("policy")["found"].as_str().unwrap().ends_with("everything is allowed"), "{report}");
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

#[cfg(unix)]
fn file(path: &Path, text: &str, mode: u32) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    path.display().to_string()
}

/// A hub with a webhook and a program, and a configuration that says so, with what may be wrong in it.
#[cfg(unix)]
#[test]
fn channels_are_tried_and_what_is_wrong_has_a_next_step() {
    let dir = temp();
    let at = |name: &str| dir.path().join(name);
    let receiver = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = receiver.local_addr().unwrap().port();
    let secret = file(&at("secret"), "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=", 0o600);
    let program = file(&at("page"), "#!/bin/sh\n", 0o700);
    let configuration = |private: bool, more: &str| {
        let text = format!(
            "[[channel]]\nname = \"ops\"\nkind = \"webhook\"\ntarget = \"https://localhost:{port}/\"\nsecret_file = {secret:?}\n\
             allow_private_targets = {private}\n[[channel]]\nname = \"pager\"\nkind = \"exec\"\ncommand = [{program:?}]\n{more}"
        );
        file(&at("hub.toml"), &text, 0o600)
    };
    let config = configuration(true, "");
    let hub = Hub::start_with(&at("data"), &["--config", &config]);
    let doctor = || hub.run(&["doctor", "--json", "--config", &config]);
    let good = doctor();
    assert_eq!(good.json()["ok"], true, "{good:?}");
    let found = |ended: &Ended, name: &str| check(ended, name)["found"].as_str().unwrap().to_owned();
    assert_eq!(found(&good, "channel ops"), format!("https://localhost:{port} takes connections"));
    assert_eq!(found(&good, "channel pager"), format!("{program} can be started"));
    let without = hub.run(&["doctor", "--json"]);
    assert_eq!(without.json()["ok"], true, "{without:?}");
    assert!(found(&without, "channel ops at the hub").contains("not in this configuration"), "{without:?}");

    file(&at("secret"), "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=", 0o644);
    file(&at("page"), "#!/bin/sh\n", 0o600);
    configuration(
        true,
        "[[channel]]\nname = \"pager\"\nkind = \"email\"\nsmtp_url = \"smtp+plain://127.0.0.1:1\"\n",
    );
    let bad = doctor();
    assert_eq!(bad.code, 1);
    assert_eq!(check(&bad, "channel ops")["next"], json!(format!("chmod 600 {secret}")));
    assert_eq!(check(&bad, "channel pager")["next"], json!(format!("chmod +x {program}")));
    file(&at("secret"), "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=", 0o600);
    configuration(
        false,
        "[[channel]]\nname = \"mail\"\nkind = \"email\"\nfrom = \"hub@example.org\"\nsmtp_url = \"smtp+plain://127.0.0.1:1\"\n",
    );
    let bad = doctor();
    assert!(found(&bad, "channel ops").contains("set allow_private_targets"), "{bad:?}");
    assert!(found(&bad, "channel mail").starts_with("smtp_url: cannot reach 127.0.0.1:1"), "{bad:?}");
    let next = check(&bad, "channel mail")["next"].as_str().unwrap().to_owned();
    assert!(
        next.contains("docs/guide/channels/email.md") && next.ends_with(&format!("--config {config}")),
        "{next}"
    );
}

#[test]
fn rules_are_looked_at() {
    let dir = temp();
    let hub = Hub::start(dir.path());
    let policies = dir.path().join("policies");
    std::fs::create_dir(&policies).unwrap();
    std::fs::write(policies.join("a.toml"), "deny_tool = [\"messaging.send\"]\n").unwrap();
    let report = hub.json(&["doctor"]);
    let policy = |report: &Value| {
        report["checks"].as_array().unwrap().iter().find(|check| check["name"] == "policy").unwrap().clone()
    };
    assert!(policy(&report)["found"].as_str().unwrap().starts_with("1 rule in "), "{report}");
    std::fs::write(policies.join("b.toml"), "\n[[deny_tol]]\n").unwrap();
    let ended = hub.run(&["doctor", "--json"]);
    let wrong = check(&ended, "policy");
    assert!(wrong["found"].as_str().unwrap().contains("b.toml, line 2"), "{wrong}");
    assert_eq!(wrong["next"], json!(format!("switchboard policy check {}", policies.display())));
}
