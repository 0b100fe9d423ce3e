//! Asking and sending.

use super::{Hub, Running, run, temp};
use serde_json::{Value, json};
use switchboard_testkit::{Socket, Token};

/// An agent on the bare wire, announced in `main`.
async fn agent(hub: &Hub, name: &str) -> Socket {
    let made = hub.json(&["token", "create", "--label", name]);
    let text = |field: &str| made[field].as_str().unwrap().to_owned();
    let token = Token { instance_id: text("instance_id"), bearer: text("token") };
    let vault = hub.json(&["vault", "list"])[0]["vault_id"].clone();
    let mut socket = Socket::connect(hub.ready["url"].as_str().unwrap(), &token.bearer).await.unwrap();
    let agents = json!([{ "agent_id": name, "role": "helper", "vault_id": vault }]);
    socket.hello(&token.instance_id, &agents, &json!({})).await;
    socket
}

#[tokio::test]
async fn a_question_gets_its_answer() {
    let dir = temp();
    let hub = Hub::start(dir.path());
    let mut helper = agent(&hub, "helper").await;
    let asking = Running::start(&mut hub.command(&[
        "ask",
        "--json",
        "--to",
        "helper",
        "--timeout",
        "20s",
        "which budget?",
    ]));
    let question = helper.expect("message.deliver").await;
    assert_eq!(question["from"], json!({ "kind": "person", "label": "Owner" }));
    assert_eq!((&question["to"], &question["body"]["text"]), (&json!("helper"), &json!("which budget?")));
    let answer = json!({ "t": "message", "client_msg_id": "a1", "network": question["network"], "type": "answer",
        "from": "helper", "to": "owner", "reply_to": question["gid"], "body": { "text": "three" } });
    assert_eq!(helper.ask(&answer).await["t"], "message.stored");
    let asked = asking.ended().json();
    assert_eq!(asked["answer"]["body"]["text"], "three");
    assert_eq!(asked["question"]["gid"], question["gid"]);
    let log = hub.json(&["log", "tail"]);
    let read = |entry: &Value| {
        entry["verb"] == "bus.receipt" && entry["subject"].as_str().unwrap().ends_with(" read")
    };
    assert!(log.as_array().unwrap().iter().any(read), "the answer is marked as read: {log}");
}

#[tokio::test]
async fn without_an_answer_in_time_the_question_stays() {
    let dir = temp();
    let hub = Hub::start(dir.path());
    let _helper = agent(&hub, "helper").await;
    let asked = hub.run(&["ask", "--json", "--to", "helper", "--timeout", "1s", "anybody?"]);
    let document: Value = serde_json::from_str(&asked.stdout).unwrap();
    assert_eq!(document["answer"], Value::Null);
    let gid = document["question"]["gid"].as_str().unwrap();
    let asked = asked.failed(1, "SB0209");
    assert!(asked.stderr.contains(&format!("switchboard thread {gid}")), "{asked:?}");
    assert_eq!(hub.json(&["ledger"])["bus"]["pending"], 1);
}

#[test]
fn nobody_of_that_name_is_said_at_once() {
    let dir = temp();
    let hub = Hub::start(dir.path());
    hub.run(&["ask", "--to", "nobody", "x"]).failed(3, "SB0106");
    hub.run(&["send", "--to", "nobody", "x"]).failed(3, "SB0106");
}

#[test]
fn an_instance_speaks_in_its_own_name() {
    let dir = temp();
    let hub = Hub::start(dir.path());
    let token = hub.ready["token"].as_str().unwrap();
    let send = |arguments: &[&str]| run(hub.command(arguments).env("SWITCHBOARD_TOKEN", token)).json();
    send(&["send", "--json", "by label"]);
    send(&["send", "--json", "--as", "ada", "by name"]);
    let inbox = hub.json(&["inbox"]);
    let agents: Vec<&Value> =
        inbox.as_array().unwrap().iter().map(|message| &message["from"]["agent"]).collect();
    assert_eq!(agents, [&json!("first-agent"), &json!("ada")]);
}

#[test]
fn the_text_may_come_from_standard_input() {
    use std::io::Write as _;
    let dir = temp();
    let hub = Hub::start(dir.path());
    let mut sending =
        Running::start(hub.command(&["send", "--json", "-"]).stdin(std::process::Stdio::piped()));
    let mut stdin = sending.child.stdin.take().unwrap();
    stdin.write_all("two\nlines\n".as_bytes()).unwrap();
    drop(stdin);
    sending.ended().json();
    assert_eq!(hub.json(&["inbox"])[0]["body"]["text"], "two\nlines");
}

#[test]
fn what_cannot_be_sent_is_refused_before_it_leaves() {
    let dir = temp();
    let hub = Hub::start(dir.path());
    hub.run(&["send", ""]).failed(2, "SB0101");
    hub.run(&["send", "--type", "answer", "to nothing"]).failed(2, "SB0101");
    hub.run(&["send", "--deadline", "1h", "no question"]).failed(2, "SB0101");
    hub.run(&["send", "--type", "question", "--deadline", "8d", "too far"]).failed(3, "SB0109");
    assert_eq!(hub.json(&["ledger"])["bus"]["accepted"], 0);
}

#[test]
fn a_person_is_found_by_name_and_their_ways_are_listed() {
    let dir = temp();
    let config = dir.path().join("hub.toml");
    let text = "[[channel]]\nname = \"pager\"\nkind = \"exec\"\ncommand = [\"/bin/false\"]\n";
    std::fs::write(&config, text).unwrap();
    let hub = Hub::start_with(&dir.path().join("data"), &["--config", config.to_str().unwrap()]);
    let asked = |more: &[&str]| {
        let arguments: Vec<&str> =
            ["ask", "--json", "--timeout", "1s"].into_iter().chain(more.iter().copied()).collect();
        hub.run(&arguments)
    };
    let only = asked(&["--to", "OWNER", "Deploy now?"]);
    let document: Value = serde_json::from_str(&only.stdout).unwrap_or_else(|_| panic!("{only:?}"));
    assert_eq!((&document["channel"], &document["to"]), (&json!("console"), &json!("Owner")));
    hub.json(&["send", "--to", "Owner", "It is green."]);
    hub.json(&["pair", "allow", "--channel", "pager", "--to", "+43 1", "--person", "Owner"]);
    let several = hub.run(&["ask", "--to", "Owner", "Deploy now?", "--choice", "Yes"]).failed(2, "SB0201");
    for command in [
        "\n    switchboard ask --via console --to Owner 'Deploy now?' --choice Yes\n",
        "\n    switchboard ask --via pager --to '+43 1' 'Deploy now?' --choice Yes\n",
    ] {
        assert!(several.stderr.contains(command), "{several:?}");
    }
    let nobody = hub.run(&["ask", "--to", "nobody", "x"]).failed(3, "SB0106");
    assert!(nobody.stderr.contains("`switchboard channels` the people"), "{nobody:?}");
    assert_eq!(hub.json(&["ledger"])["bus"]["accepted"], 0);
}
