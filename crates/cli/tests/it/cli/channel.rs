//! Journey 2, word for word: a channel is set up in a terminal, a person pairs by sending the code, and an agent's question comes back
//! answered by a button.

use super::{Hub, Running, run, temp};
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use switchboard_standin::telegram::{ADA, EVE, TOKEN, Telegram};

fn typed(hub: &Hub, arguments: &[&str], line: &str) -> Running {
    let mut command = hub.command(arguments);
    let mut running = Running::start(command.stdin(Stdio::piped()));
    let mut stdin = running.child.stdin.take().expect("its input");
    writeln!(stdin, "{line}").expect("it reads");
    running
}

fn saved(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir.join("channels")).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn code(said: &[String]) -> String {
    let is_code = |word: &&str| {
        let groups: Vec<_> = word.split('-').collect();
        groups.len() == 3 && groups.iter().all(|group| group.len() == 5)
    };
    let text = said.concat();
    let mut words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    words.find(is_code).unwrap_or_else(|| panic!("no code in {text:?}")).to_owned()
}

/// The last message to Ada: its number, its text, and what its buttons carry.
fn last(telegram: &Telegram) -> (i64, String, Vec<String>) {
    let sent = telegram.calls("sendMessage").pop().expect("a message");
    let markup = match &sent["reply_markup"] {
        Value::String(text) => serde_json::from_str(text).expect("JSON"),
        other => other.clone(),
    };
    let rows = markup["inline_keyboard"].as_array().cloned().unwrap_or_default();
    let buttons = rows.iter().flat_map(|row| row.as_array().cloned().unwrap_or_default());
    let data =
        buttons.map(|button| button["callback_data"].as_str().unwrap_or_default().to_owned()).collect();
    let number = (1..1000).rev().find(|number| telegram.shown(ADA, *number).is_some()).expect("it is shown");
    (number, sent["text"].as_str().unwrap_or_default().to_owned(), data)
}

async fn ended(mut command: std::process::Command) -> super::Ended {
    tokio::task::spawn_blocking(move || run(&mut command)).await.expect("it ends")
}

/// A hub with the channel `telegram`, with which Ada has paired.
fn paired(telegram: &Telegram, dir: &Path) -> Hub {
    let hub = Hub::start(dir);
    let api = format!("api_url={}", telegram.url());
    let add = ["channel", "add", "telegram", "--person", "Owner", "--set", api.as_str()];
    let mut adding = typed(&hub, &add, TOKEN);
    tokio::task::block_in_place(|| adding.said("Waiting"));
    let code = code(&adding.said);
    let _ = telegram.write(ADA, ADA, &json!({ "text": format!("/start {code}") }));
    let added = tokio::task::block_in_place(|| adding.ended());
    assert!(added.code == 0 && added.stdout.contains("Paired with you"), "{added:?}");
    assert!(!added.stderr.contains(TOKEN) && !added.stdout.contains(TOKEN));
    hub
}

/// Waits until the only address has this consent.
async fn consent_is(hub: &Hub, state: &str) {
    for _ in 0..200 {
        let listed = tokio::task::block_in_place(|| hub.json(&["pair", "list"]));
        if listed["consents"][0]["state"] == state {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await; // another process, which rings nobody
    }
    panic!("not {state} in time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_is_set_up_and_keeps_its_secret() {
    let telegram = Telegram::start(TOKEN).await.expect("it listens");
    let dir = temp();
    let hub = paired(&telegram, dir.path());
    assert_eq!(saved(dir.path()), ["telegram.token", "telegram.toml"]);
    let file = std::fs::read_to_string(dir.path().join("channels/telegram.toml")).expect("it is there");
    assert!(!file.contains(TOKEN), "{file}");
    #[cfg(unix)]
    for name in saved(dir.path()) {
        use std::os::unix::fs::PermissionsExt as _;
        let path = dir.path().join("channels").join(&name);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{name}");
    }

    // A token that does not hold saves nothing, and a name that is taken is not used twice.
    let api = format!("api_url={}", telegram.url());
    let add = ["channel", "add", "telegram", "--name", "other", "--set", api.as_str()];
    let refused = typed(&hub, &add, "123456789:AAwrong-wrong-wrong-wrong-wrong-wro");
    let refused = tokio::task::block_in_place(|| refused.ended());
    assert!(refused.code == 3 && refused.stderr.contains("SB0214"), "{refused:?}");
    let taken = ended(hub.command(&["channel", "add", "telegram"])).await;
    assert!(taken.code == 2 && taken.stderr.contains("already"), "{taken:?}");
    assert_eq!(saved(dir.path()), ["telegram.token", "telegram.toml"]);

    let tested = ended(hub.command(&["channel", "test", "telegram", "--to", &ADA.to_string()])).await;
    assert!(tested.stdout.contains("has arrived"), "{tested:?}");
    let removed = ended(hub.command(&["channel", "remove", "telegram"])).await;
    assert_eq!((removed.code, saved(dir.path())), (0, Vec::new()), "{removed:?}");
    for _ in 0..200 {
        let listed = tokio::task::block_in_place(|| hub.json(&["channel", "list"]));
        if !listed.to_string().contains("telegram") {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await; // another process, which rings nobody
    }
    panic!("the hub still has the channel");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reach_me() {
    let telegram = Telegram::start(TOKEN).await.expect("it listens");
    let dir = temp();
    let hub = paired(&telegram, dir.path());
    let ada = ADA.to_string();

    // A question with buttons, answered on the phone.
    let ask = ["ask", "--via", "telegram", "--to", &ada, "Deploy now?", "--choice", "Yes", "--choice", "No"];
    let before = telegram.calls("sendMessage").len();
    let mut asking = hub.command(&ask);
    asking.args(["--timeout", "60s", "--json"]);
    let asking = tokio::spawn(ended(asking));
    telegram.until_called("sendMessage", before + 1).await;
    let (number, text, buttons) = last(&telegram);
    assert!(text.contains("Deploy now?") && buttons.len() == 2, "{text} {buttons:?}");
    let _ = telegram.press(ADA, ADA, number, &buttons[0]);
    let answered = asking.await.expect("it ends").json();
    assert_eq!(
        (&answered["state"], &answered["answer"]["text"]),
        (&json!("answered"), &json!("Yes")),
        "{answered}"
    );
    telegram.until_called("editMessageText", 1).await;
    let shown = telegram.shown(ADA, number).expect("it is shown").to_string();
    assert!(shown.contains("Answered") && !shown.contains("callback_data"), "{shown}");

    // STOP silences, START undoes it; a stranger is refused with the way to allow them.
    let send =
        |to: &str| hub.command(&["send", "--via", "telegram", "--to", to, "The build is green.", "--json"]);
    let _ = telegram.write(ADA, ADA, &json!({ "text": "STOP" }));
    consent_is(&hub, "stopped").await;
    let silent = ended(send(&ada)).await;
    assert!(silent.code == 3 && silent.stderr.contains("STOP"), "{silent:?}");
    let _ = telegram.write(ADA, ADA, &json!({ "text": "START" }));
    consent_is(&hub, "paired").await;
    assert_eq!(ended(send(&ada)).await.json()["delivered"], true);
    let stranger = ended(send(&EVE.to_string())).await;
    assert!(stranger.code == 3 && stranger.stderr.contains("switchboard pair"), "{stranger:?}");
}
