//! Golden bytes: what receivers get, and what they may answer. A change here is a change for everybody who has written a receiver.
//! `UPDATE=1 cargo test -p switchboard-channels golden` writes the sending side anew.

use crate::http::Service;
use crate::{NOW_MS, cleared, everything};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use switchboard_channels::exec::{self, Exec, input, receipt};
use switchboard_channels::webhook::{self, Webhook};
use switchboard_core::port::channel::{Attempt, Channel, Performed};
use switchboard_core::time::ManualClock;

/// Secrets of tests alone: the older is the example of the standard's libraries.
const SECRETS: [&str; 2] =
    ["whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"];

fn folder(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(kind)
}

fn check(file: &Path, bytes: &[u8]) {
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(file, bytes).unwrap();
    }
    let golden = std::fs::read(file).unwrap_or_default();
    assert_eq!(String::from_utf8_lossy(bytes), String::from_utf8_lossy(&golden), "{}", file.display());
}

#[tokio::test]
async fn golden_webhook_request() {
    let service = Service::start().await;
    let target = format!("http://receiver.test:{}/in", service.address.port());
    let secrets = SECRETS.map(Into::into).to_vec();
    let settings =
        webhook::Settings::new("hook", target.as_str().into(), secrets, Arc::new(ManualClock::at(NOW_MS)));
    let settings = webhook::Settings { allow_private_targets: true, lookup: service.lookup(), ..settings };
    let channel = Webhook::new(settings).unwrap();
    let attempt = Attempt { attempt: 2, ..everything(&channel) };
    channel.perform(cleared(attempt)).await;
    let request = service.accepted().remove(0);
    check(&folder("webhook").join("request.body.json"), &request.body);
    let kept =
        ["content-type", "switchboard-attempt", "webhook-id", "webhook-signature", "webhook-timestamp"];
    let headers: Value =
        kept.into_iter().map(|name| (name.to_owned(), json!(request.header(name)))).collect();
    let head = json!({ "secrets": SECRETS, "headers": headers });
    check(
        &folder("webhook").join("request.head.json"),
        format!("{}\n", serde_json::to_string_pretty(&head).unwrap()).as_bytes(),
    );
}

#[test]
fn golden_exec_input() {
    let channel = Exec::new(exec::Settings::new("host", vec!["/bin/true".into()])).unwrap();
    let document = input::document(&everything(&channel)).unwrap();
    check(&folder("exec").join("input.json"), &document);
}

/// Each line of the file is an answer and the outcome that it stands for.
fn answers(kind: &str) -> Vec<(Value, String)> {
    let text = std::fs::read_to_string(folder(kind).join("answers.json")).unwrap();
    let lines: Vec<Value> = serde_json::from_str(&text).unwrap();
    lines
        .into_iter()
        .map(|mut line| (line["answer"].take(), line["outcome"].as_str().unwrap().to_owned()))
        .collect()
}

fn short(performed: &Performed) -> String {
    match performed {
        Performed::Sent { message_id: None } => "sent".into(),
        Performed::Sent { message_id: Some(id) } => format!("sent {id}"),
        Performed::NotSent(why) => {
            let class = serde_json::to_value(why.class).unwrap();
            let wait = why.retry_after_ms.map_or(String::new(), |wait| format!(" {wait}"));
            format!("not_sent {}{wait}", class.as_str().unwrap())
        }
        Performed::Unknown { .. } => "unknown".into(),
    }
}

#[test]
fn golden_exec_answers() {
    for (answer, outcome) in answers("exec") {
        let performed = receipt::outcome(answer.as_str().unwrap().as_bytes(), "it ended");
        assert_eq!(short(&performed), outcome, "{answer}");
    }
}

#[tokio::test]
async fn golden_webhook_answers() {
    let service = Service::start().await;
    let target = format!("http://receiver.test:{}/in", service.address.port());
    let clock = Arc::new(ManualClock::at(NOW_MS));
    let settings = webhook::Settings {
        allow_private_targets: true,
        lookup: service.lookup(),
        timeout: Duration::from_secs(30),
        ..webhook::Settings::new("hook", target.as_str().into(), vec![SECRETS[0].into()], clock)
    };
    let channel = Webhook::new(settings).unwrap();
    for (answer, outcome) in answers("webhook") {
        service.script(crate::http::Script::Raw(answer.as_str().unwrap().as_bytes().to_vec()));
        let performed = channel.perform(cleared(everything(&channel))).await;
        assert_eq!(short(&performed), outcome, "{answer}");
    }
}
