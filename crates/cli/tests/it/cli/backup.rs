//! A copy of the running hub, and a hub made of the copy.

use super::{Ended, Hub, program, run, temp};
use serde_json::Value;
use std::path::{Path, PathBuf};
use switchboard_testkit::{Http, store};

fn admin(dir: &Path) -> (String, String) {
    let admin: Value = serde_json::from_slice(&std::fs::read(dir.join("admin.json")).unwrap()).unwrap();
    (admin["url"].as_str().unwrap().to_owned(), admin["token"].as_str().unwrap().to_owned())
}

/// Restores to `dir`, or to the database of tests on PostgreSQL that belongs to it.
fn restore(file: &Path, dir: &Path) -> Ended {
    let mut command = program(&["restore", "--json"]);
    run(command.arg(file).arg("--data-dir").arg(dir).envs(store::variables(dir)))
}

/// A hub with one message, backed up, then another message.
fn backed_up(dir: &Path) -> (Hub, PathBuf, String) {
    let hub = Hub::start(&dir.join("old"));
    // In an agent's name: the owner's own poll repeats nothing that the owner sent.
    let token = hub.ready["token"].as_str().unwrap();
    let sent = run(hub.command(&["send", "before the copy"]).env("SWITCHBOARD_TOKEN", token));
    assert_eq!(sent.code, 0, "{sent:?}");
    let copy = dir.join("copy.db");
    let made = hub.json(&["backup", copy.to_str().unwrap()]);
    assert_eq!(made["file"], copy.to_str().unwrap());
    assert!(made["bytes"].as_u64().unwrap() > 0);
    hub.json(&["send", "after the copy"]);
    let epoch = hub.json(&["status"])["epoch"].as_str().unwrap().to_owned();
    (hub, copy, epoch)
}

#[tokio::test]
async fn a_restored_hub_has_what_was_copied_and_a_new_epoch() {
    let dir = temp();
    let (hub, copy, epoch) = backed_up(dir.path());
    let (url, token) = admin(&hub.dir);
    let cursor = Http::new(&url, &token).get("/v1/bus/poll?wait_ms=0").await.json()["cursor"]
        .as_str()
        .unwrap()
        .to_owned();
    let first = hub.ready["token"].as_str().unwrap().to_owned();
    hub.run(&["backup", copy.to_str().unwrap()]).failed(3, "SB0101");
    drop(hub);

    let new = dir.path().join("a/new");
    let restored = restore(&copy, &new).json();
    assert_eq!(restored["ok"], true);
    assert_ne!(restored["epoch"], epoch.as_str());
    let made = usize::from(store::backend() == "sqlite");
    assert_eq!(std::fs::read_dir(new.parent().unwrap()).unwrap().count(), made, "nothing else stays behind");

    let hub = Hub::start(&new);
    assert!(hub.ready.get("token").is_none(), "it is no first start");
    assert_eq!(hub.json(&["status"])["epoch"], restored["epoch"]);
    let inbox = hub.json(&["inbox"]);
    let texts: Vec<&str> =
        inbox.as_array().unwrap().iter().map(|message| message["body"]["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["before the copy"]);
    assert_eq!(
        run(hub.command(&["agents", "--json"]).env("SWITCHBOARD_TOKEN", &first)).code,
        0,
        "bearers are kept"
    );
    // A reader that had seen more than was copied starts over, instead of waiting for a position to come again.
    let (url, token) = admin(&new);
    let polled = Http::new(&url, &token).get(&format!("/v1/bus/poll?wait_ms=0&cursor={cursor}")).await.json();
    assert_eq!(polled["epoch"], restored["epoch"]);
    assert_eq!(polled["frames"][0]["body"]["text"], "before the copy", "{polled}");
    hub.json(&["send", "in the new life"]);
    assert_eq!(hub.json(&["log", "verify"])["ok"], true);
}

#[test]
fn nothing_is_written_over() {
    let dir = temp();
    let (hub, copy, _) = backed_up(dir.path());
    let refused = restore(&copy, &hub.dir).failed(3, "SB0208");
    let why = if store::backend() == "sqlite" { "not empty" } else { "holds a hub already" };
    assert!(refused.stderr.contains(why), "{refused:?}");
    assert_eq!(hub.json(&["inbox"]).as_array().unwrap().len(), 2);
    let empty = dir.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    assert_eq!(restore(&copy, &empty).json()["ok"], true);
}

#[test]
fn what_is_no_backup_is_refused_and_leaves_nothing() {
    let dir = temp();
    let new = dir.path().join("new");
    let restore = |file: &Path| restore(file, &new);
    restore(&dir.path().join("none")).failed(3, "SB0208");
    let text = dir.path().join("text");
    std::fs::write(&text, "a text of more than sixteen bytes").unwrap();
    restore(&text).failed(3, "SB0208");
    let other = dir.path().join("other.db");
    rusqlite::Connection::open(&other).unwrap().execute_batch("CREATE TABLE notes (text TEXT)").unwrap();
    restore(&other).failed(3, "SB0208");
    let torn = dir.path().join("torn.db");
    let (hub, copy, _) = backed_up(&dir.path().join("h"));
    drop(hub);
    let bytes = std::fs::read(&copy).unwrap();
    std::fs::write(&torn, &bytes[..bytes.len() / 2]).unwrap();
    restore(&torn).failed(3, "SB0208");
    assert!(!new.exists() && !dir.path().join("new.restoring").exists());
    assert_eq!(restore(&copy).json()["ok"], true, "what was refused left room for a good one");
}

/// Changes one letter of the stored message, as somebody with access to the file could.
fn tamper(database: &Path) {
    let conn = rusqlite::Connection::open(database).unwrap();
    let changed = conn.execute(
        "UPDATE events SET data = CAST(replace(CAST(data AS TEXT), 'before the copy', 'Before the copy') AS BLOB)",
        [],
    );
    assert_eq!(changed.unwrap(), 1);
}

#[test]
fn a_changed_message_breaks_the_log_and_cannot_be_restored() {
    let dir = temp();
    let (hub, copy, _) = backed_up(dir.path());
    drop(hub);
    tamper(&copy);
    let restored = restore(&copy, &dir.path().join("new")).failed(3, "SB0208");
    assert!(restored.stderr.contains("log does not hold"));
}

#[test]
fn a_changed_message_is_found_by_verifying() {
    let dir = temp();
    let (hub, copy, _) = backed_up(dir.path());
    drop(hub);
    tamper(&copy);
    let data = dir.path().join("changed");
    std::fs::create_dir(&data).unwrap();
    std::fs::copy(&copy, data.join("switchboard.db")).unwrap();
    let _hub = Hub::start_on(&data, &[]);
    let verified = run(program(&["log", "verify", "--json", "--data-dir"]).arg(&data));
    assert_eq!(verified.code, 1, "{verified:?}");
    let report: Value = serde_json::from_str(&verified.stdout).unwrap();
    assert_eq!(report["ok"], false);
    assert!(report["first_broken"]["seq"].is_u64() && report["first_broken"]["why"].is_string(), "{report}");
    verified.failed(1, "SB0210");
}
