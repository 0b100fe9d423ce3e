//! Golden updates and calls: `crates/channels/fixtures/telegram`. Each file in `in` is an update as the Bot API documents it, and what the
//! hub gets of it; each in `out` is a draft's calls. `UPDATE=1 cargo test -p switchboard-standin golden` writes them anew.

use super::{ADA, GROUP, Hub, NOW_MS, Taker, attempt, cleared};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use switchboard_channels::telegram::{Settings, WebhookSettings};
use switchboard_core::port::channel::{
    Amendment, Button, Channel as _, Draft, Incoming, IncomingKind, MessageKind, Origin, Pushed,
};

const SECRET: &str = "a-secret-of-the-webhook_0123456789";

fn folder(way: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../channels/fixtures/telegram").join(way)
}

fn shown(incoming: &Incoming) -> Value {
    let what = match &incoming.what {
        IncomingKind::Text { text } => json!({ "text": text }),
        IncomingKind::Button { value } => json!({ "button": value }),
        IncomingKind::Edited { message_id, text } => json!({ "edited": message_id, "text": text }),
        other => json!(format!("{other:?}")),
    };
    assert!(matches!(incoming.origin, Origin::Verified { .. }));
    json!({
        "event_id": incoming.event_id, "from": incoming.from, "what": what, "message_id": incoming.message_id,
        "place": incoming.place, "references": incoming.references, "at_ms": incoming.at_ms,
    })
}

fn check(file: &Path, value: &Value) {
    let text = format!("{}\n", serde_json::to_string_pretty(value).unwrap());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(file, &text).unwrap();
    }
    let golden = std::fs::read_to_string(file).unwrap_or_default();
    assert_eq!(text, golden, "{}", file.display());
}

#[tokio::test]
async fn golden_updates() {
    let change = |settings: &mut Settings| {
        let url = "https://hub.test/in".to_owned();
        settings.webhook = Some(WebhookSettings { url, secret: SECRET.into() });
    };
    let hub = Hub::with(123_456_789, change).await;
    let (taker, mut came, _health) = Taker::default().ready();
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder("in")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 15, "{}", files.len());
    for file in files {
        let mut golden: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let headers = vec![("x-telegram-bot-api-secret-token".to_owned(), SECRET.as_bytes().to_vec())];
        let body = golden["update"].to_string().into_bytes();
        let answer = hub.channel.push(Pushed { headers, query: String::new(), body }, &*taker).await;
        assert_eq!(answer.status, 200, "{}", file.display());
        golden["incoming"] = came.try_recv().map_or(Value::Null, |incoming| shown(&incoming));
        check(&file, &golden);
    }
}

#[tokio::test]
async fn golden_calls() {
    let hub = Hub::start().await;
    let button = |label: &str, value: &str| Button { label: label.into(), value: value.into() };
    let buttons = [button("Approve", "SB-K7QD3M.1"), button("Deny", "SB-K7QD3M.2")];
    let draft = Draft {
        body: "May I deploy *v1.2* with `make` to [prod](https://prod.example)?\n\n- @ada\n- é 🦀 </script>\n\n> \"Yes\" & no",
        kind: MessageKind::Approval,
        from: "builder",
        code: Some("K7QD3M"),
        deadline_ms: Some(NOW_MS),
        buttons: &buttons,
        link: Some("https://hub.example/answer/K7QD3M"),
    };
    let question = Draft { kind: MessageKind::Question, buttons: &[], link: None, ..draft.clone() };
    let notice = Draft { kind: MessageKind::Notice, code: None, deadline_ms: None, ..question.clone() };
    for (name, to, draft) in
        [("approval", GROUP, &draft), ("question", ADA, &question), ("notice", ADA, &notice)]
    {
        let part = hub.channel.prepare(draft).unwrap().remove(0);
        let mut attempt = attempt(to, part.clone());
        attempt.references = vec![format!("{to}:7")];
        hub.channel.perform(cleared(attempt)).await;
        let call = hub.service.calls("sendMessage").pop().unwrap();
        check(&folder("out").join(format!("{name}.json")), &call);
        if name == "approval" {
            let amendment = Amendment {
                delivery: "dlv_1".into(),
                to: super::attempt(to, part.clone()).to,
                message_id: format!("{to}:1"),
                part,
                outcome: "Ada approved & it runs.".into(),
            };
            hub.channel.amend(amendment).await;
            let call = hub.service.calls("editMessageText").pop().unwrap();
            check(&folder("out").join("amendment.json"), &call);
        }
    }
}
