//! Events as they come and go, byte for byte. `UPDATE=1 cargo test -p switchboard-channels matrix::tests` writes what we make of them anew.

use super::content::{self, Relation};
use super::event::{self, Event};
use super::prepare;
use serde::Deserialize as _;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use switchboard_core::port::channel::{Address, AddressKind, Amendment, Attempt, Button, Draft, MessageKind};

const ME: &str = "@hub:example.org";

fn folder(way: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/matrix").join(way)
}

fn check(file: &Path, value: &Value) {
    let text = format!("{}\n", serde_json::to_string_pretty(value).unwrap());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(file, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(file).unwrap_or_default(), "{}", file.display());
}

/// What an event says, with what it says nothing of left out.
fn said(event: &Event) -> Value {
    let parts = [
        ("words", json!(event::words(&event.content))),
        ("references", json!(event::references(&event.content))),
        ("names_us", json!(event::mentions(&event.content, ME))),
        ("is_edit", json!(event.is_edit())),
        ("replaced", json!(event.replaced().map(|(id, new)| (id, event::words(new))))),
        ("pressed", json!(event.pressed())),
        ("redacted", json!(event.redacted())),
        ("is_ours", json!(event.own().is_some())),
    ];
    let is_something = |value: &Value| !(value.is_null() || *value == json!(false) || *value == json!([]));
    parts
        .into_iter()
        .filter(|(_, value)| is_something(value))
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

#[test]
fn events_are_read_as_recorded() {
    let mut files: Vec<_> =
        std::fs::read_dir(folder("in")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 20, "{files:?}");
    for file in files {
        let mut recorded: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        recorded["expect"] = said(&Event::deserialize(&recorded["event"]).unwrap());
        check(&file, &recorded);
    }
}

#[test]
fn events_are_written_as_recorded() {
    let button = |label: &str, value: &str| Button { label: label.into(), value: value.into() };
    let draft = Draft {
        body: "May I deploy **v1.2**?\n\n- ask @ada:example.org, not @room\n- `x < y` ~~never~~\n\n```rust\nfn main() {}\n```\n\
            [pill](https://matrix.to/#/@ada:example.org) [page](https://x.test/?a=1&b=2)",
        kind: MessageKind::Question,
        from: "builder",
        code: Some("K7QD3M"),
        deadline_ms: Some(1_767_225_600_000),
        buttons: &[button("Yes", "SB-K7QD3M.1"), button("No", "SB-K7QD3M.2")],
        link: Some("https://hub.example/answer/K7QD3M"),
    };
    let to = Address { kind: AddressKind::Direct, handle: "@ada:example.org".into() };
    let attempt = Attempt {
        delivery: "dlv_01JD-7".into(),
        attempt: 1,
        channel: "matrix".into(),
        to: to.clone(),
        part: prepare::prepare(&draft).unwrap().remove(0),
        place: (1, 1),
        references: Vec::new(),
        accepted_ms: 0,
    };
    check(&folder("out").join("question.json"), &content::message(&attempt, None));
    let amendment = Amendment {
        delivery: attempt.delivery.clone(),
        to,
        message_id: "$asked".into(),
        part: attempt.part,
        outcome: "Ada answered: Yes".into(),
    };
    check(&folder("out").join("amended.json"), &content::amended(&amendment));
    let relation = Relation { answers: "$theirs".into(), thread: Some("$asked".into()) };
    check(&folder("out").join("notice.json"), &content::notice("That question is closed.", &relation));
}
