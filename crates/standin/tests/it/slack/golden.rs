//! Golden payloads: what Slack sends and what is made of it, and what is sent to Slack. `UPDATE=1 cargo test -p switchboard-standin golden`
//! writes what is ours anew.

use super::{NOTICE, NOW_MS, Set, Taker, Way, attempt, cleared};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use switchboard_core::port::channel::{
    AddressKind, Amendment, Attempt, Button, Channel as _, Draft, Incoming, IncomingKind, MessageKind,
};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../channels/fixtures/slack").join(name)
}

fn updates() -> bool {
    std::env::var_os("UPDATE").is_some()
}

fn pretty(value: &Value) -> String {
    format!("{}\n", serde_json::to_string_pretty(value).unwrap())
}

fn shown(incoming: &Incoming) -> Value {
    let what = match &incoming.what {
        IncomingKind::Text { text } => json!({ "text": text }),
        IncomingKind::Button { value } => json!({ "button": value }),
        IncomingKind::Edited { message_id, text } => json!({ "edited": message_id, "text": text }),
        IncomingKind::Deleted { message_id } => json!({ "deleted": message_id }),
        IncomingKind::Bounce { .. } => panic!("Slack knows no bounces"),
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

#[tokio::test]
async fn golden_incoming() {
    let set = Set::start(Way::Push).await;
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder("in")).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 16);
    for file in files {
        let mut golden: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let kind = if golden["kind"] == "interactive" { "interactive" } else { "events_api" };
        set.standin.bring(kind, golden["payload"].clone());
        let taker = Taker::new(0, None);
        let pushed = set.standin.pushed(NOW_MS / 1000);
        assert_eq!(set.channel.push(pushed, &*taker).await.status, 200);
        let incoming = taker.seen().first().map_or(Value::Null, shown);
        if updates() {
            golden["incoming"] = incoming.clone();
            std::fs::write(&file, pretty(&golden)).unwrap();
        }
        assert_eq!(golden["incoming"], incoming, "{}", file.display());
    }
}

fn check(name: &str, body: &Value) {
    let file = folder("out").join(name);
    if updates() {
        std::fs::write(&file, pretty(body)).unwrap();
    }
    let golden = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(pretty(body), golden, "{name}");
}

#[tokio::test]
async fn golden_outgoing() {
    let set = Set::start(Way::Socket).await;
    let root = set.post(&NOTICE).await;
    let button = |label: &str, value: &str| Button { label: label.into(), value: value.into() };
    let buttons = [button("Approve", "btn_1"), button("Deny <!here>", "btn_2")];
    let draft = Draft {
        body: "# May I deploy **v1.2**?\n\n\"Yes\" é 🦀 </script> <!channel> @here\n\n- [the plan](https://x.test/?a=1&b=2)\n- `rm -rf *`\n\n> said\n\n```rust\nlet a = b && c;\n```",
        kind: MessageKind::Approval,
        from: "builder",
        code: Some("K7QX"),
        deadline_ms: Some(NOW_MS + 3_600_000),
        buttons: &buttons,
        link: Some("https://hub.example/answer/K7QX"),
    };
    let attempt = Attempt { references: vec![root], ..attempt(&*set.channel, &draft, AddressKind::Direct) };
    set.channel.perform(cleared(&attempt)).await;
    let posted = set.standin.messages().pop().unwrap();
    check("approval.json", &serde_json::from_slice(&posted.bytes).unwrap());
    let amendment = Amendment {
        delivery: attempt.delivery,
        to: attempt.to,
        message_id: format!("{}:{}", posted.conversation, posted.ts),
        part: attempt.part,
        outcome: "Approved by Ada <b>\u{202e}\nat 10:00".into(),
    };
    set.channel.amend(amendment).await;
    let body = set.standin.messages().pop().unwrap().body;
    check("amended.json", &json!({ "text": body["text"], "blocks": body["blocks"] }));
}
