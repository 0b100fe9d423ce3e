//! The demo.

use super::{Running, program, run, temp};
use serde_json::Value;

#[test]
fn it_shows_the_whole_path_and_leaves_nothing_behind() {
    let dir = temp();
    let ended = run(program(&["demo"]).env("TMPDIR", dir.path()));
    assert_eq!(ended.code, 0, "{ended:?}");
    for part in ["asks helper", "has read the question", "receives the answer", "2 accepted", "holds"] {
        assert!(ended.stdout.contains(part), "{part}: {}", ended.stdout);
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn scripts_get_one_document() {
    let dir = temp();
    let played: Value = run(program(&["demo", "--json"]).env("TMPDIR", dir.path())).json();
    assert_eq!((&played["ok"], &played["log"]["ok"]), (&Value::Bool(true), &Value::Bool(true)));
    let bus = &played["ledger"]["bus"];
    let count = |name: &str| bus[name].as_u64().unwrap();
    let settled = ["delivered", "answered", "expired", "refused", "dead", "unknown", "pending"];
    assert_eq!(count("accepted"), settled.iter().map(|name| count(name)).sum::<u64>());
    assert!(played["steps"].as_array().unwrap().len() > 8);
}

#[cfg(unix)]
#[test]
fn interrupted_it_leaves_nothing_behind_either() {
    let dir = temp();
    let mut running = Running::start(program(&["demo"]).env("TMPDIR", dir.path()));
    running.line();
    running.signal("INT");
    let ended = running.ended();
    assert!([0, 1].contains(&ended.code), "{ended:?}"); // it may have been done already
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
