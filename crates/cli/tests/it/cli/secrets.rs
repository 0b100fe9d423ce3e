//! Secrets appear where they are made, and nowhere else.

#![cfg(unix)]

use super::{Hub, run, temp};

#[test]
fn no_log_and_no_listing_shows_a_bearer() {
    let dir = temp();
    let hub = Hub::start_with(dir.path(), &["--log", "trace"]);
    let first = hub.ready["token"].as_str().unwrap().to_owned();
    let made = hub.json(&["token", "create", "--label", "ci"])["token"].as_str().unwrap().to_owned();
    let admin = std::fs::read_to_string(dir.path().join("admin.json")).unwrap();
    let admin: serde_json::Value = serde_json::from_str(&admin).unwrap();
    let secrets = [first, made.clone(), admin["token"].as_str().unwrap().to_owned()];
    let shows = |text: &str| secrets.iter().any(|secret| text.contains(secret.as_str()));
    for command in [
        &["status"][..],
        &["doctor"],
        &["token", "list"],
        &["agents"],
        &["vault", "list"],
        &["keys", "show"],
        &["ledger"],
        &["log", "tail"],
        &["send", "hello"],
        &["inbox"],
        &["config", "show"],
    ] {
        for json in [&[][..], &["--json", "--log", "trace"]] {
            let arguments: Vec<&str> = command.iter().chain(json).copied().collect();
            let (mut owner, mut agent) = (hub.command(&arguments), hub.command(&arguments));
            for command in [&mut owner, agent.env("SWITCHBOARD_TOKEN", &made)] {
                let ended = run(command);
                assert!(!shows(&ended.stdout) && !shows(&ended.stderr), "{arguments:?} shows a bearer");
            }
        }
    }
    let help = run(super::program(&["status", "--help"]).env("SWITCHBOARD_TOKEN", &made));
    assert!(!shows(&help.stdout), "help shows the environment");
    let log = hub.stop().stderr;
    assert!(log.contains("ready") && !shows(&log), "the log shows a bearer");
}
