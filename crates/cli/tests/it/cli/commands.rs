//! What every command prints for scripts, and its exit code.

use super::{Hub, program, run, temp};
use serde_json::{Value, json};

/// Asserts that `value` has at least the members of `shape`, with values of the same kind.
fn shaped(value: &Value, shape: &Value) {
    match (value, shape) {
        (Value::Object(value), Value::Object(shape)) => {
            for (name, shape) in shape {
                shaped(value.get(name).unwrap_or_else(|| panic!("{name} is missing in {value:?}")), shape);
            }
        }
        (Value::Array(values), Value::Array(shapes)) => {
            let shape = shapes.first().expect("a shape for the items");
            values.iter().for_each(|value| shaped(value, shape));
        }
        (Value::String(_), Value::String(_))
        | (Value::Number(_), Value::Number(_))
        | (Value::Bool(_), Value::Bool(_))
        | (Value::Null, Value::Null) => {}
        _ => panic!("{value} is not like {shape}"),
    }
}

fn ledger() -> Value {
    let names = ["accepted", "delivered", "answered", "expired", "refused", "dead", "unknown", "pending"];
    let counts: serde_json::Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), json!(0))).collect();
    json!({ "bus": counts })
}

#[test]
fn figures_and_keys() {
    let dir = temp();
    let hub = Hub::start(dir.path());
    let status = json!({ "version": "", "backend": "", "org_id": "", "url": "", "uptime_s": 0, "streams": 0,
        "epoch": "", "ledger": ledger() });
    shaped(&hub.json(&["status"]), &status);
    assert_eq!(hub.json(&["status"])["backend"], switchboard_testkit::store::backend());
    shaped(&hub.json(&["ledger"]), &ledger());
    shaped(&hub.json(&["keys", "show"]), &json!({ "root_key": "", "signing_key": "" }));
    shaped(
        &hub.json(&["doctor"]),
        &json!({ "ok": true, "checks": [{ "name": "", "ok": true, "found": "" }] }),
    );
}

#[test]
fn vaults() {
    let dir = temp();
    let hub = Hub::start(dir.path());
    let made = hub.json(&["vault", "create", "payments"]);
    shaped(&made, &json!({ "vault_id": "", "name": "payments", "sealed": false }));
    let all = hub.json(&["vault", "list"]);
    shaped(&all, &json!([{ "vault_id": "", "name": "", "sealed": false }]));
    assert!(all.as_array().unwrap().contains(&made), "{all}");
    hub.run(&["vault", "create", "payments"]).failed(3, "SB0114");
    hub.run(&["vault", "create", "not a name"]).failed(3, "SB0101");
}

#[test]
fn tokens() {
    let dir = temp();
    let hub = Hub::start(dir.path());
    let made =
        hub.json(&["token", "create", "--label", "ci", "--owner", "Ada", "--rights", "bus.relay,tasks.read"]);
    shaped(&made, &json!({ "instance_id": "", "org_id": "", "token": "" }));
    assert_eq!(made["org_id"], hub.ready["org_id"]);
    let listed = hub.json(&["token", "list"]);
    let found =
        listed.as_array().unwrap().iter().find(|row| row["instance_id"] == made["instance_id"]).unwrap();
    assert_eq!((&found["owner"], &found["rights"]), (&json!("Ada"), &json!(["bus.relay", "tasks.read"])));
    let default = hub.json(&["token", "create", "--label", "agent"])["instance_id"].clone();
    let listed = hub.json(&["token", "list"]);
    let found = listed.as_array().unwrap().iter().find(|row| row["instance_id"] == default).unwrap();
    assert_eq!(found["rights"], json!(["bus.relay", "tasks.read", "tasks.work", "tasks.propose"]));

    let token = made["token"].as_str().unwrap();
    assert_eq!(run(hub.command(&["agents", "--json"]).env("SWITCHBOARD_TOKEN", token)).code, 0);
    assert_eq!(hub.json(&["token", "revoke", made["instance_id"].as_str().unwrap()]), json!({ "ok": true }));
    let refused = run(hub.command(&["agents"]).env("SWITCHBOARD_TOKEN", token)).failed(3, "SB0117");
    assert!(refused.stderr.contains("switchboard token create"), "{refused:?}");
    hub.run(&["token", "revoke", "inst_nobody"]).failed(3, "SB0115");
    hub.run(&["token", "create", "--label", "x", "--rights", "bus.fly"]).failed(3, "SB0101");
}

#[test]
fn an_agents_bearer_manages_nothing() {
    let dir = temp();
    let hub = Hub::start(dir.path());
    let token = hub.ready["token"].as_str().unwrap();
    for command in
        [&["token", "list"][..], &["vault", "create", "x"], &["log", "tail"], &["backup", "/tmp/never"]]
    {
        run(hub.command(command).env("SWITCHBOARD_TOKEN", token)).failed(3, "SB0103");
    }
}

#[test]
fn devices_are_approved_and_denied() {
    let dir = temp();
    let hub = Hub::start(dir.path());
    assert_eq!(hub.json(&["device", "list"]), json!([]));
    hub.run(&["device", "approve", "AAAA-AAAA"]).failed(3, "SB0115");
    hub.run(&["device", "deny", "AAAA-AAAA"]).failed(3, "SB0115");
}

#[tokio::test]
async fn a_device_that_waits_is_let_in() {
    let dir = temp();
    let hub = Hub::start(dir.path());
    let http = switchboard_testkit::Http::new(hub.ready["url"].as_str().unwrap(), "");
    let ask = async || {
        let body = json!({ "schema": "leanctx.hive.device-code-request/v1", "client_id": "lean-ctx-engine",
            "engine_version": "3.12.0", "os": "linux", "instance_label": "laptop" });
        http.post("/v1/device/code", &body).await.json()["user_code"].as_str().unwrap().to_owned()
    };
    let (one, two) = (ask().await, ask().await);
    let told = hub.run(&["device", "list"]).stdout;
    assert!(told.contains(&one) && told.contains(&two), "as the device shows them: {told}");
    let page = http.get("/device?user_code=%3Cb%3E").await;
    assert!(page.status == 200 && page.text.contains("device approve CODE") && !page.text.contains("<b>"));
    let listed = hub.json(&["device", "list"]);
    shaped(&listed, &json!([{ "user_code": "", "label": "", "expires_at": "" }]));
    assert_eq!(listed.as_array().unwrap().len(), 2);
    assert_eq!(hub.json(&["device", "approve", &one.to_lowercase()]), json!({ "ok": true }));
    assert_eq!(hub.json(&["device", "deny", &two]), json!({ "ok": true }));
    assert_eq!(hub.json(&["device", "list"]), json!([]));
}

#[test]
fn swarms() {
    let dir = temp();
    let hub = Hub::start(dir.path());
    let made = hub.json(&["swarm", "create", "--title", "Compilers"]);
    shaped(&made, &json!({ "swarm_id": "", "title": "Compilers", "open": true, "members": 0 }));
    let id = made["swarm_id"].as_str().unwrap();
    assert_eq!(hub.json(&["swarm", "join", id, "--handle", "ada-l"]), json!({ "ok": true }));
    let sent = hub.json(&["send", "--swarm", id, "hello, swarm"]);
    assert_eq!(sent["network"], json!({ "kind": "swarm", "swarm_id": id }));
    let read = &hub.json(&["inbox"])[0];
    assert_eq!(read["from"], json!({ "kind": "swarm", "handle": "ada-l", "reputation": 0 }));
    assert_eq!(hub.json(&["thread", sent["gid"].as_str().unwrap(), "--swarm", id])[0]["gid"], sent["gid"]);
    assert_eq!(hub.json(&["swarm", "close", id]), json!({ "ok": true }));
    assert_eq!(hub.json(&["swarm", "list"])[0]["open"], false);
    hub.run(&["send", "--swarm", id, "too late"]).failed(3, "SB0111");
    hub.run(&["swarm", "close", "../../tokens"]).failed(3, "SB0115");
}

#[test]
fn tasks_are_listed_and_decided() {
    let dir = temp();
    let hub = Hub::start(dir.path());
    assert_eq!(hub.json(&["task", "list"]), json!([]));
    hub.run(&["task", "approve", "1"]).failed(3, "SB0115");
    hub.run(&["task", "list", "--vault", "nowhere"]).failed(3, "SB0115");
    let (one, two) = (ask_and_let_expire(&hub, "first?"), ask_and_let_expire(&hub, "second?"));
    let listed =
        until(|| hub.json(&["task", "list"]), |tasks| tasks.as_array().is_some_and(|tasks| tasks.len() == 2));
    shaped(
        &listed,
        &json!([{ "vault": "main", "number": 1, "state": "proposed", "title": "", "question_gid": "", "created_at": "" }]),
    );
    let number = |gid: &str| {
        let task = listed.as_array().unwrap().iter().find(|task| task["question_gid"] == gid).unwrap();
        task["number"].to_string()
    };
    assert_eq!(hub.json(&["task", "approve", &number(&one)]), json!({ "ok": true }));
    assert_eq!(hub.json(&["task", "decline", &number(&two)]), json!({ "ok": true }));
    hub.run(&["task", "approve", &number(&two)]).failed(3, "SB0125");
}

fn ask_and_let_expire(hub: &Hub, text: &str) -> String {
    let sent = hub.json(&["send", "--type", "question", "--deadline", "3s", text]);
    sent["gid"].as_str().unwrap().to_owned()
}

fn until(look: impl Fn() -> Value, is_there: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..400 {
        let value = look(); // a process each time: no pause needed
        if is_there(&value) {
            return value;
        }
    }
    panic!("it never came: {}", look());
}

#[test]
fn agents_are_listed_once_they_spoke() {
    let dir = temp();
    let hub = Hub::start(dir.path());
    assert_eq!(hub.json(&["agents"]), json!([]));
    hub.json(&["send", "--as", "ada", "hello"]);
    shaped(
        &hub.json(&["agents"]),
        &json!([{ "agent": "ada", "instance_label": "", "owner": "Owner", "last_seen": "" }]),
    );
}

#[test]
fn the_log_is_read_checked_and_exported() {
    let dir = temp();
    let hub = Hub::start(dir.path());
    hub.json(&["send", "one"]);
    hub.run(&["vault", "create", "main"]).failed(3, "SB0114");
    let tail = hub.json(&["log", "tail", "--limit", "3"]);
    shaped(
        &tail,
        &json!([{ "seq": 1, "at": "", "result": "", "verb": "", "actor": "", "subject": "", "count": 1 }]),
    );
    assert_eq!(tail.as_array().unwrap().len(), 3);
    let verified = hub.json(&["log", "verify"]);
    shaped(&verified, &json!({ "ok": true, "entries": 1, "checkpoints": 0, "first_broken": null }));
    let exported = hub.run(&["log", "export"]);
    let lines: Vec<Value> = exported.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len() as u64, verified["entries"].as_u64().unwrap());
    assert!(lines.iter().any(|entry| entry["verb"] == "bus.finding"), "{lines:?}");
}

#[test]
fn wrong_use_is_2_and_an_absent_hub_is_4() {
    let dir = temp();
    assert_eq!(run(&mut program(&["nonsense"])).code, 2);
    assert_eq!(run(&mut program(&["send"])).code, 2);
    assert_eq!(run(&mut program(&["--version"])).code, 0);
    for command in
        [&["status"][..], &["send", "x"], &["inbox"], &["log", "verify"], &["backup", "/tmp/never"]]
    {
        let ended = run(program(command).arg("--data-dir").arg(dir.path())).failed(4, "SB0202");
        assert!(ended.stderr.contains("switchboard serve"), "{ended:?}");
    }
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{closed}");
    run(&mut program(&["status", "--url", &url, "--token", "x"])).failed(4, "SB0202");
    run(program(&["status", "--url", &url]).arg("--data-dir").arg(dir.path())).failed(2, "SB0201");
    run(program(&["ask", "--timeout", "soon", "x", "--url", &url, "--token", "x"])
        .arg("--data-dir")
        .arg(dir.path()))
    .failed(2, "SB0201");
}

#[test]
fn completions_and_pages_are_made_from_the_commands() {
    let dir = temp();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let ended = run(&mut program(&["completions", shell]));
        assert!(ended.code == 0 && ended.stdout.contains("bench"), "{shell}");
    }
    assert_eq!(run(program(&["man", "--json"]).arg(dir.path())).json(), json!({ "ok": true }));
    for page in ["switchboard.1", "switchboard-serve.1", "switchboard-token-create.1"] {
        assert!(dir.path().join(page).exists(), "{page}");
    }
}

#[test]
fn a_listing_that_nobody_reads_to_the_end_is_no_error() {
    let dir = temp();
    let hub = Hub::start(dir.path());
    let mut child = hub.command(&["log", "export"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}
