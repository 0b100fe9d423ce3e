//! The life of a hub.

use super::{Hub, Running, program, run, temp};
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::Duration;
use switchboard_testkit::PATIENCE;

#[test]
fn the_first_start_makes_everything_and_says_how_to_connect() {
    let dir = temp();
    let data = dir.path().join("not/there/yet");
    let hub = Hub::start(&data);
    let ready = &hub.ready;
    assert_eq!(ready["ready"], true);
    let url = ready["url"].as_str().unwrap();
    assert!(url.starts_with("http://127.0.0.1:") && !url.ends_with('/'), "{url}");
    assert_eq!(ready["mcp_url"], format!("{url}/mcp"));
    assert!(ready["token"].as_str().unwrap().starts_with("sbt_"));
    let console = ready["console_url"].as_str().unwrap();
    assert!(console.starts_with(&format!("{url}/console/enter#sbl_")), "{console}");
    let another = hub.json(&["console"]);
    assert_ne!(another["url"], ready["console_url"], "each link is its own");
    assert!(another["expires_at"].is_string());
    let status = hub.json(&["status"]);
    assert_eq!(status["org_id"], ready["org_id"]);
    assert_eq!(hub.json(&["vault", "list"])[0]["name"], "main");
    assert_eq!(hub.json(&["token", "list"])[0]["label"], "first agent");
}

#[test]
fn people_read_lines_to_paste() {
    let dir = temp();
    let mut command = program(&["serve", "--listen", "127.0.0.1:0", "--data-dir"]);
    let mut running = Running::start(command.arg(dir.path()));
    let mut text = String::new();
    while !text.contains("Ctrl-C") {
        text += &running.line();
    }
    for expected in [
        "claude mcp add --transport http switchboard http://127.0.0.1:",
        "codex mcp add",
        "gemini mcp add",
        "\"mcpServers\"",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(text.matches("Bearer sbt_").count() >= 3, "{text}");
}

#[cfg(unix)]
#[test]
fn a_restart_keeps_everything_and_shows_no_token_again() {
    let dir = temp();
    let hub = Hub::start(dir.path());
    let (org, token) = (hub.ready["org_id"].clone(), hub.ready["token"].as_str().unwrap().to_owned());
    let sent = hub.json(&["send", "before the restart"]);
    let mode = {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::metadata(dir.path().join("admin.json")).unwrap().permissions().mode()
    };
    assert_eq!(mode & 0o777, 0o600);
    let ended = hub.stop();
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(!dir.path().join("admin.json").exists(), "removed with a clean stop");

    let hub = Hub::start(dir.path());
    assert_eq!(hub.ready["org_id"], org);
    assert!(hub.ready.get("token").is_none() && hub.ready.get("console_url").is_none(), "{}", hub.ready);
    assert_eq!(hub.json(&["inbox"])[0]["gid"], sent["gid"]);
    let again = run(hub.command(&["inbox", "--json"]).env("SWITCHBOARD_TOKEN", &token));
    assert_eq!(again.json()[0]["gid"], sent["gid"], "the first bearer still works");
}

#[test]
fn a_second_hub_on_the_same_data_is_refused_and_the_first_goes_on() {
    let dir = temp();
    let hub = Hub::start(dir.path());
    let second = run(hub.command(&["serve", "--listen", "127.0.0.1:0"]).stdin(Stdio::null()));
    let second = second.failed(3, "SB0203");
    assert!(second.stderr.contains("--data-dir"), "the remedy: {second:?}");
    assert_eq!(hub.json(&["vault", "list"])[0]["name"], "main");
}

#[test]
fn a_taken_port_is_named() {
    let (one, two) = (temp(), temp());
    let hub = Hub::start(one.path());
    let address = hub.ready["url"].as_str().unwrap().trim_start_matches("http://").to_owned();
    let ended = run(program(&["serve", "--listen", &address, "--data-dir"]).arg(two.path()));
    assert!(ended.failed(3, "SB0207").stderr.contains(&address));
}

#[test]
fn data_of_a_newer_version_are_left_as_they_are() {
    let dir = temp();
    let hub = Hub::start(&dir.path().join("old"));
    let copy = dir.path().join("copy.db");
    hub.json(&["backup", copy.to_str().unwrap()]);
    drop(hub);
    let newer = dir.path().join("newer");
    std::fs::create_dir(&newer).unwrap();
    let database = newer.join("switchboard.db");
    std::fs::copy(&copy, &database).unwrap();
    let conn = rusqlite::Connection::open(&database).unwrap();
    conn.execute("INSERT INTO migrations (number, name, checksum) VALUES (99, 'later', '00')", []).unwrap();
    drop(conn);
    let before = std::fs::read(&database).unwrap();
    let ended = run(program(&["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(&newer));
    ended.failed(3, "SB0204");
    assert_eq!(std::fs::read(&database).unwrap(), before, "nothing was written");
}

#[cfg(unix)]
#[test]
fn either_signal_ends_it_and_what_was_taken_is_finished() {
    for signal in ["TERM", "INT"] {
        let dir = temp();
        let hub = Hub::start(dir.path());
        hub.json(&["send", "one"]);
        hub.running.signal(signal);
        let ended = hub.running.ended();
        assert_eq!(ended.code, 0, "{signal}: {ended:?}");
    }
}

/// A request whose body never comes holds the drain up. The interim answer tells that the hub is at it.
#[cfg(unix)]
fn unfinished_request(hub: &Hub) -> TcpStream {
    let address = hub.ready["url"].as_str().unwrap().trim_start_matches("http://").to_owned();
    let mut open = TcpStream::connect(address).unwrap();
    open.set_read_timeout(Some(PATIENCE)).unwrap();
    let head =
        "POST /v1/device/code HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n";
    open.write_all(head.as_bytes()).unwrap();
    let mut interim = [0; 12];
    open.read_exact(&mut interim).unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100");
    open
}

#[cfg(unix)]
#[test]
fn a_second_signal_ends_it_at_once() {
    let dir = temp();
    let mut hub = Hub::start(dir.path());
    let _open = unfinished_request(&hub);
    hub.running.signal("TERM");
    hub.running.said("a second signal ends at once");
    assert!(hub.running.status_within(Duration::from_millis(300)).is_none(), "it drains");
    hub.running.signal("TERM");
    let status = hub.running.status_within(Duration::from_secs(3)).expect("it ends at once");
    assert_eq!(status.code(), Some(130));
    // The store was not closed, and needs no repair.
    assert_eq!(Hub::start(dir.path()).json(&["vault", "list"])[0]["name"], "main");
}

#[cfg(unix)]
#[test]
fn a_stubborn_connection_does_not_hold_the_end_up_for_long() {
    let dir = temp();
    let mut hub = Hub::start(dir.path());
    let _open = unfinished_request(&hub);
    hub.running.signal("TERM");
    let status = hub.running.status_within(Duration::from_secs(12)).expect("within the drain");
    assert_eq!(status.code(), Some(0));
}

#[test]
fn it_ends_with_the_program_that_started_it() {
    let dir = temp();
    let mut command =
        program(&["serve", "--json", "--listen", "127.0.0.1:0", "--until-stdin-closes", "--data-dir"]);
    let mut running = Running::start(command.arg(dir.path()).stdin(Stdio::piped()));
    assert!(running.line().contains("\"ready\":true"));
    drop(running.child.stdin.take());
    let status = running.status_within(PATIENCE).expect("it ends");
    assert_eq!(status.code(), Some(0));
}

#[cfg(unix)]
#[test]
fn logs_are_json_when_configured_and_never_on_stdout() {
    let dir = temp();
    let file = dir.path().join("hub.toml");
    std::fs::write(&file, "[log]\nformat = \"json\"\n").unwrap();
    let hub = Hub::start_with(&dir.path().join("data"), &["--config", file.to_str().unwrap()]);
    let ended = hub.stop();
    assert_eq!(ended.stdout.lines().count(), 1, "{ended:?}");
    for line in ended.stderr.lines() {
        let entry: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        assert!(entry["level"].is_string(), "{line}");
    }
    assert!(ended.stderr.contains("\"ready\""), "{ended:?}");
}

#[cfg(unix)]
#[test]
fn retention_is_shorter_while_the_owner_is_alone() {
    let dir = temp();
    let (file, data) = (dir.path().join("hub.toml"), dir.path().join("data"));
    std::fs::write(&file, "[retention]\norg_days = 20\npersonal_days = 3\n").unwrap();
    let start = || Hub::start_with(&data, &["--config", file.to_str().unwrap()]);
    let days = |hub: &Hub| {
        let sent = hub.json(&["send", "kept for a while"]);
        let time = |name: &str| {
            sent[name].as_str().unwrap().parse::<switchboard_protocol::UtcTime>().unwrap().unix()
        };
        (time("expires_at") - time("server_time")) / 86_400
    };
    let hub = start();
    assert_eq!(days(&hub), 3);
    let bens = hub.json(&["token", "create", "--label", "bens", "--owner", "Ben"]);
    assert_eq!(days(&hub), 20, "from the moment that there is somebody else");
    hub.stop();
    let hub = start();
    assert_eq!(days(&hub), 20);
    hub.json(&["token", "revoke", bens["instance_id"].as_str().unwrap()]);
    assert_eq!(days(&hub), 3, "alone again");
}

#[test]
fn the_configured_address_is_the_public_one() {
    let dir = temp();
    let file = dir.path().join("hub.toml");
    std::fs::write(&file, "[server]\npublic_url = \"https://hub.example/\"\n").unwrap();
    let hub = Hub::start_with(&dir.path().join("data"), &["--config", file.to_str().unwrap()]);
    assert_eq!(hub.ready["url"], "https://hub.example");
    assert_eq!(hub.json(&["status"])["url"], json!("https://hub.example"), "commands still reach it locally");
}
