//! The configuration file and its mistakes, as the program tells them.

use super::{Hub, program, run, temp};

#[test]
fn the_example_starts_a_hub() {
    let dir = temp();
    let example = run(&mut program(&["config", "example"]));
    assert_eq!(example.code, 0);
    let file = dir.path().join("hub.toml");
    std::fs::write(&file, &example.stdout).unwrap();
    let hub = Hub::start_with(&dir.path().join("data"), &["--config", file.to_str().unwrap()]);
    assert_eq!(hub.ready["ready"], true);
}

#[test]
fn a_misspelt_key_stops_the_start_with_its_line_and_the_nearest_key() {
    let dir = temp();
    let file = dir.path().join("hub.toml");
    std::fs::write(&file, "[server]\n# a comment\nlistn = \"127.0.0.1:1\"\n").unwrap();
    let ended =
        run(program(&["serve", "--config"]).arg(&file).arg("--data-dir").arg(dir.path().join("data")));
    let ended = ended.failed(2, "SB0206");
    assert!(
        ended.stderr.contains("hub.toml, line 3") && ended.stderr.contains("did you mean `listen`?"),
        "{ended:?}"
    );
    assert!(!dir.path().join("data").exists(), "nothing was made");
    let missing = run(program(&["config", "show", "--config"]).arg(dir.path().join("none.toml")));
    assert!(missing.failed(2, "SB0206").stderr.contains("config example"));
}

#[test]
fn the_environment_wins_and_is_checked() {
    let dir = temp();
    let file = dir.path().join("hub.toml");
    std::fs::write(&file, "[retention]\norg_days = 5\n").unwrap();
    let show = |variables: &[(&str, &str)]| {
        run(program(&["config", "show", "--json", "--config"]).arg(&file).envs(variables.iter().copied()))
    };
    assert_eq!(show(&[]).json()["retention"]["org_days"], 5);
    assert_eq!(show(&[("SWITCHBOARD_RETENTION_ORG_DAYS", "9")]).json()["retention"]["org_days"], 9);
    let ended = show(&[("SWITCHBOARD_RETENTION_ORG_DAY", "9")]).failed(2, "SB0206");
    assert!(
        ended.stderr.contains("SWITCHBOARD_RETENTION_ORG_DAY: ") && ended.stderr.contains("`org_days`"),
        "{ended:?}"
    );
}

#[test]
fn the_data_directory_may_be_configured_and_commands_find_it() {
    let dir = temp();
    let (file, data) = (dir.path().join("hub.toml"), dir.path().join("data"));
    std::fs::write(&file, format!("[server]\nlisten = \"127.0.0.1:0\"\ndata_dir = {data:?}\n")).unwrap();
    let mut serve = program(&["serve", "--json", "--config"]);
    let mut running = super::Running::start(serve.arg(&file));
    assert!(running.line().contains("\"ready\":true"));
    let status = run(program(&["status", "--json", "--config"]).arg(&file)).json();
    assert_eq!(status["backend"], "sqlite");
}
