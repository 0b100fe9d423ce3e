//! Recorded payloads: what Discord says, made from its documentation, with what it means; and what we say to it, byte for byte.
//! `UPDATE=1 cargo test -p switchboard-standin golden` writes anew what we say.

use super::*;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use switchboard_core::port::channel::{Amendment, Button, IncomingKind};

fn folder(way: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../channels/fixtures/discord").join(way)
}

fn short(incoming: &Incoming) -> Value {
    let what = match &incoming.what {
        IncomingKind::Text { text } => json!({ "text": text }),
        IncomingKind::Button { value } => json!({ "button": value }),
        IncomingKind::Edited { message_id, text } => json!({ "edited": message_id, "text": text }),
        IncomingKind::Deleted { message_id } => json!({ "deleted": message_id }),
        IncomingKind::Bounce { .. } => json!("bounce"),
    };
    json!({
        "event_id": incoming.event_id,
        "from": incoming.from,
        "what": what,
        "message_id": incoming.message_id,
        "place": incoming.place,
        "references": incoming.references,
        "at_ms": incoming.at_ms,
    })
}

/// Each file holds events, one after the other on one connection, and all that comes in of them.
#[tokio::test]
async fn golden_events() {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder("in")).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 10, "{files:?}");
    for file in files {
        let golden: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let service = standin::Discord::start(&token()).await;
        let settings = Settings { message_content: true, ..settings(&service, "chat") };
        let channel = Arc::new(Discord::new(settings).unwrap());
        for event in golden["events"].as_array().unwrap() {
            service.dispatch(event["t"].as_str().unwrap(), event["d"].clone());
        }
        // What comes behind them says that all of them are done with.
        let last = service.write(ADA, "the end", None);
        let listening = Listening::begin(&channel);
        let is_end = |incoming: &Incoming| incoming.message_id.as_ref() == Some(&last);
        listening.store.until(|store| store.seen.lock().iter().any(is_end)).await;
        let seen: Vec<Value> =
            listening.store.seen.lock().iter().filter(|incoming| !is_end(incoming)).map(short).collect();
        assert_eq!(Value::Array(seen), golden["incoming"], "{}", file.display());
    }
}

fn check(name: &str, value: &Value) {
    let file = folder("out").join(name);
    let text = format!("{}\n", serde_json::to_string_pretty(value).unwrap());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(&file).unwrap_or_default(), "{}", file.display());
}

#[tokio::test]
async fn golden_messages() {
    let (service, channel) = start().await;
    let buttons = [("Approve", "SB-K7QD3M.1"), ("Deny", "SB-K7QD3M.2")];
    let buttons = buttons.map(|(label, value)| Button { label: label.into(), value: value.into() });
    let draft = Draft {
        body: "# Release\n\nMay I deploy **v1.2** to _production_?\n\n- [plan](https://x.test/plan_(1))\n- `make deploy` @everyone\n\n```sh\nmake deploy\n```\n",
        kind: MessageKind::Approval,
        code: Some("K7QD3M"),
        deadline_ms: Some(NOW_MS + 3_600_000),
        buttons: &buttons,
        link: Some("https://hub.example/answer/K7QD3M"),
        ..notice("")
    };
    let question = attempt(&channel, &draft);
    channel.perform(cleared(&question)).await;
    let answered = service.write_shared(ADA, "<@1100000000000000001> done?", None);
    let reply = Attempt {
        delivery: "dlv_01jd5wmzv8k3q4n7r2s6t9x0yb".into(),
        to: Address { kind: AddressKind::Channel, handle: SHARED.into() },
        references: vec![answered],
        ..attempt(&channel, &notice("Done."))
    };
    channel.perform(cleared(&reply)).await;
    let accepted = service.accepted();
    check("approval.json", &accepted[0].0);
    check("reply.json", &accepted[1].0);
    channel
        .amend(Amendment {
            delivery: question.delivery.clone(),
            to: question.to.clone(),
            message_id: accepted[0].1.clone(),
            part: question.part.clone(),
            outcome: "Approved by Ada.".into(),
        })
        .await;
    check("amended.json", &service.message(&accepted[0].1).unwrap()["content"]);
}
