//! Rules as people and scripts meet them: commands, start, reload, and what the hub says of itself.

#![cfg_attr(not(unix), expect(unused, reason = "tests with signals run on Unix only"))]

use crate::cli::{Hub, program, run, temp};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use switchboard_testkit::{Http, Options, TestHub, hub::ADMIN};

const WORDS: &str =
    "deny_keyword = [{ keyword = \"Wire Transfer\", name = \"fraud\", reason = \"Ask in person.\" }]\n";
const CARE: &str = "[[require_approval]]\ntool = \"messaging.send\"\nparam = \"channel\"\nequals = \"email\"\n\
    [[rate_limit_tool]]\ntool = \"messaging.send\"\nmax_calls = 3\ninterval_secs = 60\nper = \"recipient\"\n";
const CASES: &str = "[[case]]\nname = \"fraud\"\ncall = { channel = \"console\", to = \"ann\", body = \"a WIRE trans**fer**\" }\n\
    expect = \"deny\"\nrule = \"words.toml#deny_keyword:fraud\"\n\
    [[case]]\nname = \"mail\"\ncall = { channel = \"email\", to = \"ann\", body = \"hello\" }\nexpect = \"hold\"\n";

fn rules(dir: &Path) -> PathBuf {
    let dir = dir.join("policies");
    std::fs::create_dir_all(&dir).unwrap();
    for (name, text) in [("words.toml", WORDS), ("care.toml", CARE), ("all.test.toml", CASES)] {
        std::fs::write(dir.join(name), text).unwrap();
    }
    dir
}

fn policy(arguments: &[&str], dir: &Path) -> crate::cli::Ended {
    run(program(&["policy"]).args(arguments).arg(dir))
}

fn document(ended: &crate::cli::Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

#[test]
fn check_says_each_rule_or_every_fault() {
    let temp = temp();
    let dir = rules(temp.path());
    let told = policy(&["check"], &dir);
    assert_eq!(told.code, 0, "{told:?}");
    for expected in [
        "3 rules in ",
        "words.toml#deny_keyword:fraud\n",
        "may contain \"Wire Transfer\". Reason: Ask in person.",
        "to each recipient",
    ] {
        assert!(told.stdout.contains(expected), "{expected}: {told:?}");
    }
    let checked = policy(&["check", "--json"], &dir).json();
    assert_eq!((checked["ok"].clone(), checked["rules"].as_array().unwrap().len()), (json!(true), 3));

    std::fs::write(dir.join("words.toml"), "deny_keywords = []\n").unwrap();
    std::fs::write(
        dir.join("care.toml"),
        "[[rate_limit_tool]]\ntool = \"messaging.send\"\nmax_calls = 1\ninterval_secs = nan\n",
    )
    .unwrap();
    let told = policy(&["check"], &dir);
    assert_eq!(told.code, 1, "{told:?}");
    assert!(
        told.stderr.starts_with("error SB0213: 2 faults in ") && told.stderr.contains("explain SB0213"),
        "{told:?}"
    );
    assert!(
        told.stdout.contains("care.toml, line 4, rate_limit_tool.interval_secs: Write a number of seconds"),
        "{told:?}"
    );
    assert!(told.stdout.contains("words.toml, line 1, deny_keywords: There is no such rule"), "{told:?}");
    let faults = document(&policy(&["check", "--json"], &dir));
    assert_eq!((&faults["ok"], &faults["faults"][0]["line"]), (&json!(false), &json!(4)));
    let nowhere = policy(&["check"], &dir.join("nowhere"));
    assert!(nowhere.code == 2 && nowhere.stderr.contains("is no directory"), "{nowhere:?}");
}

#[test]
fn test_runs_the_cases_and_shows_what_differs() {
    let temp = temp();
    let dir = rules(temp.path());
    let ended = policy(&["test"], &dir);
    assert!(
        ended.code == 0 && ended.stdout.contains("ok      fraud") && ended.stderr.contains("2 cases passed"),
        "{ended:?}"
    );
    std::fs::write(dir.join("care.toml"), "").unwrap();
    let ended = policy(&["test"], &dir);
    assert_eq!(ended.code, 1);
    let expected = "FAILED  mail (all.test.toml, line 6)\n        expected hold\n        got      allow\n";
    assert!(ended.stdout.contains(expected) && ended.stderr.contains("1 of 2 cases failed"), "{ended:?}");
    assert_eq!(
        document(&policy(&["test", "--json"], &dir))["cases"][1]["got"],
        json!({ "verdict": "allow", "rule": null })
    );
    std::fs::write(dir.join("all.test.toml"), "[[case]]\nname = \"x\"\ncall = {}\nexpect = \"maybe\"\n")
        .unwrap();
    assert!(policy(&["test"], &dir).stdout.contains("all.test.toml, line 4, case.expect: "));
}

#[test]
fn chains_are_checked_against_the_configuration_and_tested_like_verdicts() {
    let temp = temp();
    let dir = temp.path().join("chains");
    std::fs::create_dir(&dir).unwrap();
    let rule = "[[escalate]]\nname = \"duty\"\ntool = \"messaging.send\"\nthen = \"halt\"\nrungs = [\
        { after = \"5m\", channel = \"console\", to = \"Ada\" }, { after = \"10m\", channel = \"pager\", to = \"7\" }]\n";
    std::fs::write(dir.join("duty.toml"), rule).unwrap();
    let case = "[[case]]\nname = \"duty\"\ncall = { to = \"ben\" }\nexpect = \"allow\"\nescalate = \"\"\n";
    std::fs::write(dir.join("a.test.toml"), case).unwrap();
    let checked = policy(&["check"], &dir);
    assert!(checked.code == 0 && checked.stdout.contains("after 10m to 7 on pager"), "{checked:?}");
    let warnings = document(&policy(&["check", "--json"], &dir))["warnings"].clone();
    let said = warnings[0].as_str().unwrap();
    assert!(
        warnings.as_array().unwrap().len() == 1
            && said.starts_with("duty.toml#escalate:duty: no channel pager"),
        "{warnings}"
    );
    assert!(checked.stdout.contains(&format!("Warning: {said}")), "{checked:?}");
    let tested = policy(&["test"], &dir);
    let expected = "expected allow, no chain\n        got      allow, chain of duty.toml#escalate:duty\n";
    assert!(tested.code == 1 && tested.stdout.contains(expected), "{tested:?}");
}

#[test]
fn faulty_rules_stop_the_start_and_every_fault_is_named() {
    let temp = temp();
    let dir = rules(temp.path());
    std::fs::write(dir.join("a.toml"), "x = 1\n").unwrap();
    std::fs::write(dir.join("b.toml"), "deny_tool = [\"messaging.sent\"]\n").unwrap();
    let serve = |more: &[&str]| {
        let mut command = program(&["serve", "--listen", "127.0.0.1:0", "--data-dir"]);
        run(command.arg(temp.path()).args(more).envs(switchboard_testkit::store::variables(temp.path())))
    };
    let ended = serve(&[]);
    assert_eq!(ended.code, 3, "{ended:?}");
    for expected in
        ["error SB0213: ", "a.toml, line 1, x: ", "b.toml, line 1, deny_tool.tool: ", "policy check"]
    {
        assert!(ended.stderr.contains(expected), "{expected}: {ended:?}");
    }
    // A directory that was named must be there: a typing mistake would allow everything.
    let config = temp.path().join("hub.toml");
    std::fs::write(&config, "[policy]\ndir = \"polices\"\n").unwrap();
    let ended = serve(&["--config", config.to_str().unwrap()]);
    assert!(ended.code == 3 && ended.stderr.contains("polices: The directory is not there"), "{ended:?}");
}

#[test]
fn the_running_hub_explains_calls_and_takes_changes_unless_they_are_faulty() {
    let temp = temp();
    // Relative to the configuration's directory.
    let config = temp.path().join("hub.toml");
    std::fs::write(&config, "[policy]\ndir = \"policies\"\n").unwrap();
    let dir = rules(temp.path());
    let hub = Hub::start_with(&temp.path().join("data"), &["--config", config.to_str().unwrap()]);
    let version = hub.json(&["status"])["policy"]["version"].as_str().unwrap().to_owned();
    assert_eq!(hub.json(&["policy", "show"])["rules"][2]["rule"], "words.toml#deny_keyword:fraud");

    let explain = |body: &str| {
        let arguments = [
            "policy",
            "explain",
            "--channel",
            "email",
            "--to",
            "Ann@Example.com",
            "--agent",
            "planner",
            "--body",
            body,
            "--json",
        ];
        let ended = hub.run(&arguments);
        (ended.code, document(&ended))
    };
    let (code, told) = explain("w\u{456}re tran\u{AD}sfer");
    assert_eq!(
        (code, &told["verdict"], &told["rule"]),
        (1, &json!("deny"), &json!("words.toml#deny_keyword:fraud"))
    );
    assert_eq!(
        told["told"],
        "The rule words.toml#deny_keyword:fraud refuses this call because of `body`: Ask in person."
    );
    let outcomes: Vec<_> =
        told["trace"].as_array().unwrap().iter().map(|step| step["outcome"].clone()).collect();
    assert_eq!(outcomes, ["counted", "held", "denied"]);
    assert_eq!(told["limits"][0]["subject"], json!(["email", "ann@example.com"]));
    assert_eq!(told["version"], version.as_str());
    let (code, told) = explain("hello");
    assert_eq!((code, &told["verdict"]), (0, &json!("hold")));

    std::fs::write(dir.join("words.toml"), "deny_keyword = [\"\"]\n").unwrap();
    let refused = hub.run(&["policy", "reload"]);
    assert!(
        refused.code == 1 && refused.stdout.contains("words.toml, line 1, deny_keyword: "),
        "{refused:?}"
    );
    let status = hub.json(&["status"]);
    assert_eq!(status["policy"]["version"], version.as_str());
    assert!(status["policy"]["fault"].as_str().unwrap().contains("words.toml, line 1"), "{status}");
    assert!(hub.run(&["status"]).stdout.contains("these rules stay in force"));
    assert_eq!(explain("wire transfer").1["verdict"], "deny", "the old rules");

    std::fs::write(dir.join("words.toml"), "deny_keyword = [\"hello\"]\n").unwrap();
    assert_eq!(hub.run(&["policy", "reload"]).code, 0);
    assert_eq!(explain("hello").1["verdict"], "deny");
    assert_eq!(explain("wire transfer").1["verdict"], "hold");
    let log = hub.run(&["log", "export"]).stdout;
    let verbs: Vec<_> = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).collect();
    let verbs: Vec<_> =
        verbs.iter().filter(|entry| entry["verb"].as_str().unwrap().starts_with("policy.")).collect();
    let named: Vec<_> = verbs.iter().map(|entry| entry["verb"].as_str().unwrap()).collect();
    assert_eq!(named, ["policy.load", "policy.refused", "policy.load"]);
    assert_eq!(verbs[0]["subject"], version.as_str());
    assert!(verbs[1]["subject"].as_str().unwrap().contains("words.toml, line 1"), "{}", verbs[1]);
}

#[tokio::test]
async fn a_change_is_in_force_by_itself_and_readiness_says_when_it_is_not() {
    let temp = temp();
    let dir = rules(temp.path());
    let mut options = Options::default();
    options.settings.policy_dir = Some(dir.clone());
    let hub = TestHub::with(options).await;
    let (owner, agent) = (Http::new(&hub.url, ADMIN), hub.token("a").await);
    let asked = json!({ "params": { "channel": "console", "to": "ann", "body": "fresh" } });
    let verdict = async || owner.post("/admin/v1/policy/explain", &asked).await.json()["verdict"].clone();
    assert_eq!(verdict().await, "allow");
    assert_eq!(owner.get("/readyz").await.json()["policy"], "ok");
    std::fs::write(dir.join("words.toml"), "deny_keyword = [\"fresh\"]\n").unwrap();
    until(async || verdict().await == "deny").await;
    std::fs::write(dir.join("words.toml"), "deny_keyword = [\"CANARY\", 1]\n").unwrap();
    until(async || owner.get("/readyz").await.json()["degraded"] == true).await;
    let ready = owner.get("/readyz").await;
    assert_eq!((ready.status, &ready.json()["ready"]), (200, &json!(true)));
    assert!(
        !ready.text.contains("words.toml") && !ready.text.contains("CANARY"),
        "for anybody to see: {}",
        ready.text
    );
    assert_eq!(verdict().await, "deny", "the old rules");

    let unknown = owner.post("/admin/v1/policy/explain", &json!({ "params": { "boddy": "x" } })).await;
    assert_eq!((unknown.status, &unknown.json()["error"]["field"]), (400, &json!("params")));
    for refused in [
        hub.http(&agent).get("/admin/v1/policy").await,
        hub.http(&agent).post("/admin/v1/policy/explain", &asked).await,
    ] {
        assert_eq!(refused.status, 403, "rules are their owner's");
    }
    hub.stop().await;
}

/// Asks again until it is so; each question takes a round over the socket.
async fn until(is_so: impl AsyncFn() -> bool) {
    let asking = async {
        while !is_so().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(switchboard_testkit::PATIENCE, asking).await.expect("in time");
}
